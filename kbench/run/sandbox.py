"""One run in a process of its own, under limits, whatever it does.

A fork server that has imported the numerical packages hands out workers in milliseconds. Between
it and each worker stands a guard: a child of the fork server is not the runner's own child (its
resource usage reads 0 there) and a worker's children outlive it, so the guard leads a session of
its own, adopts orphans, watches time and memory of the whole tree, and ends all of it when the
worker ends, a limit is passed, the runner asks, or the runner is gone.

    runner -- fork server -- guard -- worker -- whatever the method starts

The worker reports by lines of JSON through a pipe; what it prints goes through another, of which
the guard keeps the head and the tail.
"""

import contextlib
import json
import multiprocessing
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from kbench.run import processes
from kbench.run.environment import Provenance
from kbench.run.rows import TIMED_OUT

TICK_S = 0.05
HEAD_BYTES = 8_192
TAIL_BYTES = 16_384
_SLACK_BYTES = 64 << 20  # stacks and arenas that count against RLIMIT_DATA before they are used

Send = Callable[[dict[str, Any]], None]
Work = Callable[[dict[str, Any], Send], None]


@dataclass
class Outcome:
    """How a guarded run ended.

    status : ok | error | unavailable (the worker's own word), or timeout | memory | crashed |
    interrupted (the guard's). result : what the worker reported last. peak_bytes : most memory
    that the tree held beyond the worker's start. log : head and tail of what was printed.
    provenance : where and by which code it was run; None is the runner's own. earlier : of a path,
    the runs that were reported before this one.
    """

    status: str
    message: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    peak_bytes: int | None = None
    children_peak_bytes: int = 0
    log: str = ""
    provenance: Provenance | None = None
    earlier: list["Outcome"] = field(default_factory=list)

    @property
    def all(self) -> "list[Outcome]":
        """Of each run that was begun, in order."""
        return [*self.earlier, self]


class Sandbox:
    """Starts guarded workers out of one fork server.

    Parameters
    ----------
    preload : names of modules that the fork server imports once; modules only, no thread pools.
    """

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._preload = list(preload)
        self._ready = False

    def start(self, work: Work, task: dict[str, Any], limits: dict[str, Any]) -> "Job":
        """Run `work(task, send)` in a worker; returns at once.

        `limits` has wall_s, cpu_s, memory_mb, setup_s (numbers or None); wall_s and cpu_s count
        from the worker's message {"event": "start"} on. `task["path"]`, where there is one, is the
        list of runs that the worker does and reports one after the other, each with those limits.
        """
        if not self._ready:
            self._start_server()
        # Two pipes, not one socket: what a guard has not read when it ends must not spoil what it
        # has written.
        report, reported = self._context.Pipe(duplex=False)
        heard, control = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_guard, args=(heard, reported, work, task, limits))
        process.start()
        heard.close()
        reported.close()
        return Job(process, report, control)

    def _start_server(self) -> None:
        """One thread for every library in the server: a pool of threads would not survive forks."""
        from multiprocessing import forkserver

        one_thread = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"
        )
        before = {name: os.environ.get(name) for name in one_thread}
        os.environ.update(one_thread)
        # Ctrl-C reaches the server, too, which may be compiling for a minute: it is the runner's.
        ours = threading.current_thread() is threading.main_thread()
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN) if ours else None
        try:
            self._context.set_forkserver_preload(self._preload)
            forkserver.ensure_running()
        finally:
            if handler is not None:
                signal.signal(signal.SIGINT, handler)
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
        self._ready = True


class Job:
    """A run in progress; wait on `connection`, then take `outcome()`."""

    def __init__(self, process: Any, connection: Connection, control: Connection) -> None:
        self._process = process
        self._control = control
        self.connection = connection

    def interrupt(self) -> None:
        """Ask the guard to end the run; its outcome will be `interrupted`."""
        with contextlib.suppress(OSError):
            self._control.send("interrupt")

    def outcome(self) -> Outcome:
        """Block until the guard reports; a guard that died without a word is `crashed`."""
        try:
            outcome = self.connection.recv()
        except (EOFError, OSError):
            outcome = Outcome("crashed", "the guard of the run was killed")
        self.connection.close()
        self._control.close()
        self._process.join()
        self._process.close()
        return outcome


class _Printed:
    """Head and tail of a stream of any length, in bounded memory."""

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        if len(self._tail) > 2 * TAIL_BYTES:
            self._dropped += len(self._tail) - TAIL_BYTES
            self._tail = self._tail[-TAIL_BYTES:]

    def text(self) -> str:
        cut = f"\n[... {self._dropped} bytes left out ...]\n" if self._dropped else ""
        return self._head.decode(errors="replace") + cut + self._tail.decode(errors="replace")


def _worker(work: Work, task: dict[str, Any], limits: dict[str, Any], say: int, out: int) -> None:
    """The worker's side of the fork: never returns."""
    processes.die_with_parent()
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.stdout = open(1, "w", buffering=1, closefd=False, errors="replace")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="replace")  # noqa: SIM115
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    _limit_memory(limits.get("memory_mb"))

    def send(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(say, data) :]

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


def _limit_memory(memory_mb: float | None) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_mb is not None and processes.LINUX:
        most = processes.data_bytes(os.getpid()) + int(memory_mb * 2**20) + _SLACK_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _guard(
    runner: Connection,
    report: Connection,
    work: Work,
    task: dict[str, Any],
    limits: dict[str, Any],
) -> None:
    """The guard's life: fork the worker, watch it, report, leave nothing behind."""
    os.setsid()
    processes.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say_r, say_w = os.pipe()
    out_r, out_w = os.pipe()
    worker = os.fork()
    if worker == 0:
        runner.close()
        report.close()
        os.close(say_r)
        os.close(out_r)
        _worker(work, task, limits, say_w, out_w)
    os.close(say_w)
    os.close(out_w)
    watch = _Watch(runner, worker, limits, say_r, out_r, len(task.get("path", [task])))
    outcome = watch.until_end()
    with contextlib.suppress(OSError):
        report.send(outcome)
    os._exit(0)


class _Watch:
    """The guard's loop over one worker."""

    def __init__(
        self,
        runner: Connection,
        worker: int,
        limits: dict[str, Any],
        said: int,
        printed: int,
        n_runs: int,
    ) -> None:
        self.runner, self.worker, self.said, self.printed = runner, worker, said, printed
        self.limits = limits
        self.baseline = processes.held_bytes([worker])
        self.data_baseline = processes.data_bytes(worker)
        self.peak = self.children_peak = self.data_peak = 0
        self.cpu_s = 0.0
        self.started: float | None = None  # when the clock of wall_s began
        self.cpu_at_start = 0.0
        self.born = time.monotonic()
        self.log = _Printed()
        self.partial = b""
        self.n_runs = n_runs
        self.results: list[dict[str, Any]] = []
        self.ended: Outcome | None = None
        os.set_blocking(said, False)
        os.set_blocking(printed, False)

    def until_end(self) -> Outcome:
        poll = select.poll()
        for fd in (self.runner.fileno(), self.said, self.printed):
            poll.register(fd, select.POLLIN)
        pidfd = os.pidfd_open(self.worker) if hasattr(os, "pidfd_open") else None
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        next_look = 0.0
        status = None
        while status is None and self.ended is None:
            for fd, event in poll.poll(TICK_S * 1000):
                if fd == self.runner.fileno():
                    self._hear_runner()
                elif fd != pidfd:
                    self._drain(fd)
                    if event & select.POLLHUP:
                        poll.unregister(fd)
            if time.monotonic() >= next_look:
                self._look()
                next_look = time.monotonic() + TICK_S
            pid, code = os.waitpid(self.worker, os.WNOHANG)
            if pid:
                status = code
        processes.kill_descendants(os.getpid())
        self._drain(self.said)
        self._drain(self.printed)
        last = self._verdict(status)
        last.earlier = [_reported(result) for result in self.results]
        for outcome in last.all:
            outcome.log = self.log.text()
            outcome.peak_bytes = self.peak if processes.LINUX else None
            outcome.children_peak_bytes = self.children_peak
        return last

    def _hear_runner(self) -> None:
        try:
            self.runner.recv()
        except (EOFError, OSError):  # the runner is gone: nobody wants an answer
            processes.kill_descendants(os.getpid())
            os._exit(1)
        self.ended = Outcome("interrupted", "stopped by the user")

    def _drain(self, fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(fd, 65_536):
                if fd == self.printed:
                    self.log.add(data)
                else:
                    *lines, self.partial = (self.partial + data).split(b"\n")
                    for line in lines:
                        self._hear_worker(line)

    def _hear_worker(self, line: bytes) -> None:
        message = json.loads(line)
        if message["event"] == "start":
            self.started = time.monotonic()
            self.cpu_at_start = processes.cpu_seconds([self.worker])
            self.cpu_s = 0.0
        elif message["event"] == "result":
            self.results.append(message)
            if len(self.results) < self.n_runs:
                self.started, self.born = None, time.monotonic()

    def _look(self) -> None:
        """Sample memory and CPU of the tree; end the run that passed a limit."""
        below = processes.descendants(os.getpid())
        held = processes.held_bytes(below)
        self.peak = max(self.peak, held - self.baseline)
        if len(below) > 1:
            others = [pid for pid in below if pid != self.worker]
            self.children_peak = max(self.children_peak, processes.held_bytes(others))
        self.data_peak = max(self.data_peak, processes.data_bytes(self.worker) - self.data_baseline)
        now = time.monotonic()
        wall, cpu, memory = (self.limits.get(k) for k in ("wall_s", "cpu_s", "memory_mb"))
        if memory is not None and self.peak > memory * 2**20:
            self.ended = Outcome("memory", f"held more than limits.memory_mb={memory:g}")
        elif self.started is None:
            setup = self.limits["setup_s"]
            if now - self.born > setup:
                self.ended = Outcome("timeout", f"not set up within limits.setup_s={setup:g}")
        elif wall is not None and now - self.started > wall:
            self.ended = Outcome("timeout", f"{TIMED_OUT}{wall:g}")
        elif cpu is not None:
            self.cpu_s = max(self.cpu_s, processes.cpu_seconds(below) - self.cpu_at_start)
            if self.cpu_s > cpu:
                self.ended = Outcome("timeout", f"used more than limits.cpu_s={cpu:g}")

    def _verdict(self, code: int | None) -> Outcome:
        """Of the last run that was begun; what is left in `results` are the ones before it."""
        if len(self.results) == self.n_runs:
            result = self.results.pop()
            if self.ended is None or result["status"] == "ok":
                return _reported(result)
        if self.ended is not None:
            return self.ended
        assert code is not None
        if os.WIFSIGNALED(code):
            death = f"killed by {signal.Signals(os.WTERMSIG(code)).name}"
        else:
            death = f"exited with code {os.WEXITSTATUS(code)} before it reported"
        memory = self.limits.get("memory_mb")
        if memory is not None and max(self.peak, self.data_peak) >= 0.9 * memory * 2**20:
            return Outcome("memory", f"{death} near limits.memory_mb={memory:g}")
        return Outcome("crashed", death)


def _reported(result: dict[str, Any]) -> Outcome:
    return Outcome(result["status"], result.get("message", ""), result)
