"""The guard of one run: a process between the fork server and the worker.

The runner cannot read the resource usage of the fork server's children, and a worker's children may
outlive the worker. The guard therefore leads a session of its own, adopts orphans, and watches time
and memory of the whole process tree. The guard ends the tree when the worker ends, a limit is
passed, the runner asks for the end, or the runner has ended.

The worker sends lines of JSON through a pipe: {"event": "start"} when the clocks of the limits
begin, {"event": "phase" | "progress" | "compiling", ...} for the live line ("compiling" stops
the clocks, too), {"event": "result", "status": ..., "row": ..., "curves": ...} at the end of each
run. A message may have "fit_cpu_s", the CPU seconds of the fit so far; otherwise the guard counts
the seconds. The output of the worker goes through another pipe, and the guard keeps the first and
the last bytes of the output.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from kbench.errors import quoted, with_type
from kbench.process_memory import LINUX, data_bytes, limit_memory
from kbench.run.execution import processes, temporary
from kbench.run.results import stopped
from kbench.run.results.environment import Provenance
from kbench.settings import Limits
from kbench.signals import ignore_interrupts
from kbench.streams import standard_error

# Seconds between two samples of the processes of a run. A limit is noticed this much too late at
# most, and each sample costs CPU time for every process. Set by hand.
POLL_S = 0.05
# Seconds between two messages about a run in progress; the live line changes once a second. Set by
# hand.
SEND_EVERY_S = 0.5
# Bytes of output that the log keeps from the beginning and from the end. More bytes show more of an
# error, and cost memory in each guard and in its message. Set by hand.
HEAD_BYTES = 8_192
TAIL_BYTES = 16_384
# Guard: bytes by which RLIMIT_DATA exceeds the memory limit, because RLIMIT_DATA counts stacks and
# arenas before they are used. Samples of the used memory enforce the limit itself.
_RESERVED_BYTES = 64 << 20
# Guard: seconds of a wait of `POLL_S` from which the guard and its run were stopped, as by SLURM
# (suspend) or by a container that is paused. Even on a busy machine a process waits less to be run.
_STOPPED_S = 5.0
# The words of a message about such a run.
STOPPED_FOR = "the processes of the run were stopped for"
# Guard: bytes by which multiprocessing precedes a message with its length, at most.
_LENGTH_BYTES = 16
# Fraction of the memory limit from which a worker's death is ascribed to the limit. Set by hand.
_NEAR_LIMIT = 0.9

Send = Callable[[dict[str, Any]], None]
Work = Callable[[Any, Send], None]


@dataclass
class RunOutcome:
    """How a guarded run ended."""

    # ok, error or unavailable as the worker reported; timeout, memory, crashed or interrupted as
    # the guard found.
    status: str
    message: str = ""
    result: dict[str, Any] = field(default_factory=dict)  # What the worker reported
    # Largest memory of all processes of the run beyond the worker's at its start.
    peak_bytes: int | None = None
    children_peak_bytes: int = 0  # Largest memory of the worker's descendants
    log: str = ""  # First and last part of the output
    # Machine and code of the run; None if they are the runner's own.
    provenance: Provenance | None = None
    # The fitted model, from a machine that does not share the results folder.
    model: bytes | None = None
    # When a machine of a cluster began the run; None for a run on the runner's machine.
    began: datetime | None = None
    # Largest number of runs that the cluster had at the same time; None on this machine.
    at_once: int | None = None
    # Outcomes of earlier runs by the same worker, on a regularisation path.
    earlier: list["RunOutcome"] = field(default_factory=list)

    @property
    def all(self) -> "list[RunOutcome]":
        """The outcome of each run that was begun, in order."""
        return [*self.earlier, self]


@dataclass(frozen=True)
class RunState:
    """The present state of a run."""

    # load, warm up, fit, predict, score, or the method's own name for a part of its fit.
    phase: str = "start"
    compiling: bool = False  # whether numba is compiling
    progress: dict[str, float] = field(default_factory=dict)  # numbers that the fit reported last


class _Pausable:
    """A clock that can be paused; differences of its readings are durations without the pauses."""

    def __init__(self) -> None:
        self._left_out = 0.0
        self._paused_at: float | None = None

    def pause(self, now: float) -> None:
        self._paused_at = now

    def leave_out(self, seconds: float) -> None:
        """Leave the last `seconds` out, unless the clock is paused."""
        if self._paused_at is None:
            self._left_out += seconds

    def resume(self, now: float) -> None:
        if self._paused_at is not None:
            self._left_out += now - self._paused_at
        self._paused_at = None

    def read(self, now: float) -> float:
        """`now` without the pauses so far."""
        return (now if self._paused_at is None else self._paused_at) - self._left_out


class _Printed:
    """First and last part of a stream of any length, in bounded memory."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._dropped = 0

    def add(self, data: bytes) -> None:
        n_free = HEAD_BYTES - len(self._head)
        self._head += data[:n_free]
        self._tail += data[n_free:] if n_free > 0 else data
        if len(self._tail) > 2 * TAIL_BYTES:
            self._dropped += len(self._tail) - TAIL_BYTES
            self._tail = self._tail[-TAIL_BYTES:]

    def text(self) -> str:
        gap = f"\n[... {self._dropped} bytes left out ...]\n" if self._dropped else ""
        return self._head.decode(errors="replace") + gap + self._tail.decode(errors="replace")


def _worker(
    work: Work, task: Any, limits: Limits, folder: str | None, report: int, output: int | None
) -> None:
    """The worker's side of the fork; never returns."""
    processes.die_with_parent()
    if folder is not None:
        temporary.use_for_this_process(folder)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False, errors="replace")  # noqa: SIM115
    sys.stderr = standard_error()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    limit_memory(
        None if limits.memory_mb is None else int(limits.memory_mb * 2**20) + _RESERVED_BYTES
    )

    def send(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(report, data) :]

    code = 0
    try:
        work(task, send)
    except BaseException:
        import traceback

        with contextlib.suppress(BaseException):
            traceback.print_exc()
        code = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def guard(
    runner: Connection,
    report: Connection,
    work: Work,
    task: Any,
    limits: Limits,
    n_runs: int,
    show: bool,
) -> None:
    """Fork the worker, watch it, report its outcome, leave nothing behind.

    runner : Any message means "interrupt"; the end of the stream means that the runner has ended.
    report : `RunState` objects, then one `RunOutcome`.
    n_runs : number of results that the worker reports; the limits hold for each.
    show : Whether the worker's output goes where the runner's output goes.
    """
    os.setsid()
    processes.adopt_orphans()
    ignore_interrupts()
    folder = temporary.folder_for_worker()
    report_r, report_w = os.pipe()
    output_r, output_w = os.pipe()
    worker = os.fork()
    if worker == 0:
        runner.close()
        report.close()
        os.close(report_r)
        os.close(output_r)
        _worker(work, task, limits, folder, report_w, None if show else output_w)
    os.close(report_w)
    os.close(output_w)
    watch = _Watch(runner, report, worker, limits, report_r, output_r, n_runs)
    outcome = watch.until_end()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    if outcome is None:
        temporary.remove_abandoned(temporary.default_home())
        os._exit(1)
    with contextlib.suppress(OSError):
        report.send(outcome)
    os._exit(0)


@dataclass
class _Watch:
    """The guard's loop over one worker."""

    runner: Connection
    report: Connection
    worker: int
    limits: Limits
    messages_fd: int  # pipe with the worker's JSON lines
    output_fd: int  # pipe with what the worker prints
    n_runs: int

    def __post_init__(self) -> None:
        self.baseline = processes.held_bytes([self.worker])
        self.data_baseline = data_bytes(self.worker)  # what RLIMIT_DATA limits
        self.peak = self.children_peak = self.data_peak = 0
        self.wall, self.cpu = _Pausable(), _Pausable()
        self.setup_from = self.wall.read(time.monotonic())
        self.wall_from: float | None = None  # None while the worker sets up
        self.cpu_from = self.max_cpu_s = 0.0
        self.fit_cpu_s: float | None = None
        self.stopped_s = 0.0  # seconds for which the run was stopped
        self.log = _Printed()
        self.partial = b""
        self.results: list[dict[str, Any]] = []
        self.ended: RunOutcome | None = None
        self.abandoned = False
        self.state = self.sent = RunState()
        self.send_at = 0.0
        os.set_blocking(self.messages_fd, False)
        os.set_blocking(self.output_fd, False)

    def until_end(self) -> RunOutcome | None:
        """Watch until the worker ends or has to be killed; returns None if the runner has ended."""
        poll = select.poll()
        for fd in (self.runner.fileno(), self.messages_fd, self.output_fd):
            poll.register(fd, select.POLLIN)
        pidfd = os.pidfd_open(self.worker) if hasattr(os, "pidfd_open") else None
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        next_poll = 0.0
        status = None
        while status is None and self.ended is None and not self.abandoned:
            waiting_since = time.monotonic()
            events = poll.poll(POLL_S * 1000)
            self._leave_out_stop(time.monotonic() - waiting_since)
            for fd, event in events:
                if fd == self.runner.fileno():
                    self._read_runner()
                elif fd != pidfd:
                    self._read_pipe(fd)
                    if event & select.POLLHUP:
                        poll.unregister(fd)
            if time.monotonic() >= next_poll:
                self._sample()
                next_poll = time.monotonic() + POLL_S
            pid, code = os.waitpid(self.worker, os.WNOHANG)
            if pid:
                status = code
        processes.kill_descendants(os.getpid())
        if self.abandoned:
            return None
        self._read_pipe(self.messages_fd)
        self._read_pipe(self.output_fd)
        last = self._last_outcome(status)
        last.earlier = [_outcome_of(result) for result in self.results]
        for outcome in last.all:
            outcome.log = self.log.text()
            outcome.peak_bytes = self.peak if LINUX else None
            outcome.children_peak_bytes = self.children_peak
        return last

    def _leave_out_stop(self, waited_s: float) -> None:
        """Leave a stop of the run's processes, and of this one, out of the clock of the limits."""
        if waited_s > _STOPPED_S:
            self.wall.leave_out(waited_s)
            self.stopped_s += waited_s

    def _read_runner(self) -> None:
        try:
            self.runner.recv()
        except (EOFError, OSError):
            self.abandoned = True
        else:
            self.ended = RunOutcome("interrupted", "stopped by the user")

    def _read_pipe(self, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(fd, 65_536):  # bytes, a pipe's capacity on Linux
                if fd == self.output_fd:
                    self.log.add(data)
                else:
                    *lines, self.partial = (self.partial + data).split(b"\n")
                    for line in lines:
                        self._read_worker(line)

    def _read_worker(self, line: bytes) -> None:
        """Handle a message of the worker; a malformed message ends the run."""
        try:
            message = json.loads(line)
            event = message["event"]
            if event == "start":
                self.wall_from = self.wall.read(time.monotonic())
                self.cpu_from = self.cpu.read(processes.cpu_seconds([self.worker]))
                self.max_cpu_s = 0.0
                self.fit_cpu_s = None
            elif event == "compiling":
                self._compiling(on=bool(message["on"]))
            elif event == "phase":
                self.state = replace(self.state, phase=str(message["phase"]))
            elif event == "progress":
                self.state = replace(self.state, progress=dict(message["state"]))
            elif event == "result":
                if message["status"] not in ("ok", "error", "unavailable", "memory"):
                    raise ValueError(f"status {message['status']!r}")
                if self.stopped_s:
                    note = f"{STOPPED_FOR} {self.stopped_s:.0f} s, which its wall times include"
                    message["message"] = "; ".join(filter(None, [message.get("message"), note]))
                    self.stopped_s = 0.0
                self.results.append(message)
                if len(self.results) < self.n_runs:
                    self.wall_from, self.setup_from = None, self.wall.read(time.monotonic())
            else:
                raise ValueError(f"event {event!r}")
            if "fit_cpu_s" in message:
                self.fit_cpu_s = float(message["fit_cpu_s"])
        except (ValueError, TypeError, KeyError) as error:
            reason = quoted(with_type(error))
            self.ended = RunOutcome("error", f"the worker's report is malformed ({reason})")

    def _compiling(self, *, on: bool) -> None:
        """Stop the clocks of all limits while numba compiles."""
        now, cpu = time.monotonic(), processes.cpu_seconds([self.worker])
        for clock, reading in ((self.wall, now), (self.cpu, cpu)):
            (clock.pause if on else clock.resume)(reading)
        self.state = replace(self.state, compiling=on)

    def _sample(self) -> None:
        """Sample memory and CPU time of the tree; end the run if it has passed a limit."""
        pids = processes.descendants(os.getpid())
        used_bytes = processes.held_bytes(pids)
        self.peak = max(self.peak, used_bytes - self.baseline)
        if len(pids) > 1:
            others = [pid for pid in pids if pid != self.worker]
            self.children_peak = max(self.children_peak, processes.held_bytes(others))
        self.data_peak = max(self.data_peak, data_bytes(self.worker) - self.data_baseline)
        now = time.monotonic()
        limits = self.limits
        if limits.memory_mb is not None and self.peak > limits.memory_mb * 2**20:
            self.ended = RunOutcome(
                "memory", f"held more than limits.memory_mb={limits.memory_mb:g}"
            )
        elif self.wall_from is None:
            if self.wall.read(now) - self.setup_from > limits.setup_s:
                message = f"not set up within limits.setup_s={limits.setup_s:g}"
                self.ended = RunOutcome("timeout", message)
        elif limits.wall_s is not None and self.wall.read(now) - self.wall_from > limits.wall_s:
            self._stop(f"{stopped.TIMED_OUT}{limits.wall_s:g}", pids)
        elif limits.cpu_s is not None and self._cpu_s(pids) > limits.cpu_s:
            self._stop(f"used more than limits.cpu_s={limits.cpu_s:g}", pids)
        if self.state != self.sent and now >= self.send_at:
            self.sent, self.send_at = self.state, now + SEND_EVERY_S
            self._send_state()

    def _send_state(self) -> None:
        """Report the state, unless that could block, as while the runner is suspended (Ctrl-Z)."""
        data = ForkingPickler.dumps(self.state)
        # A pipe that is ready takes PIPE_BUF bytes, and the length is sent with the message.
        if len(data) <= select.PIPE_BUF - _LENGTH_BYTES:
            with contextlib.suppress(OSError):
                if select.select([], [self.report], [], 0)[1]:
                    self.report.send_bytes(data)

    def _stop(self, why: str, pids: list[int]) -> None:
        """End a run that has passed a limit; its message has the stage and the fit's seconds."""
        stage = self.state.phase.partition(":")[0]
        reported_s, in_fit = self.fit_cpu_s, stage == "fit"
        seconds = self._cpu_s(pids) if in_fit and reported_s is None else reported_s
        at_least = in_fit and reported_s is not None  # the fit went on after its last report
        progress = (
            "" if seconds is None else stopped.stopped_where(stage, seconds, at_least=at_least)
        )
        self.ended = RunOutcome("timeout", why + progress)

    def _cpu_s(self, pids: list[int]) -> float:
        """CPU seconds since the message "start"; the largest reading counts, as children end."""
        seconds = self.cpu.read(processes.cpu_seconds(pids)) - self.cpu_from
        self.max_cpu_s = max(self.max_cpu_s, seconds)
        return self.max_cpu_s

    def _last_outcome(self, code: int | None) -> RunOutcome:
        """The outcome of the last run that began; results of earlier runs stay in `results`."""
        if len(self.results) == self.n_runs:
            result = self.results.pop()
            if self.ended is None or result["status"] == "ok":
                return _outcome_of(result)
        if self.ended is not None:
            return self.ended
        assert code is not None
        if os.WIFSIGNALED(code):
            death = f"killed by {signal.Signals(os.WTERMSIG(code)).name}"
            if os.WTERMSIG(code) == signal.SIGXCPU:
                death += ", the shell's limit of CPU seconds (ulimit -t)"
        else:
            death = f"exited with code {os.WEXITSTATUS(code)} before it reported"
        memory = self.limits.memory_mb
        if memory is not None and max(self.peak, self.data_peak) >= _NEAR_LIMIT * memory * 2**20:
            return RunOutcome("memory", f"{death} near limits.memory_mb={memory:g}")
        return RunOutcome("crashed", death)


def _outcome_of(result: dict[str, Any]) -> RunOutcome:
    return RunOutcome(result["status"], str(result.get("message") or ""), result)
