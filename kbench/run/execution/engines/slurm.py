"""SLURM as an engine: a folder of runs, and arrays of jobs that take runs from the folder.

The runs wait in the folder and not in SLURM's queue, which takes an unknown number of jobs: if
`sbatch` refuses an array of jobs, smaller arrays are tried, and the runs wait for the jobs that
exist. Reports come back as files. The state of a job matters only if the job ends without a report;
it comes from `squeue`, from `sacct` for jobs that ended long ago, or else from the job's heartbeat.
"""

import contextlib
import hashlib
import logging
import math
import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kbench.errors import ConfigError, counted, quoted
from kbench.run.execution.engines import slurm_job
from kbench.run.execution.engines.daemons import require_package
from kbench.run.execution.engines.on_node import Call
from kbench.run.execution.engines.slurm_job import Terms, names, put, report_in
from kbench.run.execution.engines.states import ClusterLostError, EngineReport, Say, Stage
from kbench.run.execution.temporary import take_lock
from kbench.settings import Settings

# Seconds between two queries of job states. Shorter intervals notice an end sooner, and load
# SLURM's controller. Set by hand.
_POLL_S = 3.0
# Guard: seconds by which files of an ended job may be late on a network file system.
_LATE_S = 2.0
# Guard: seconds without a heartbeat after which a job that SLURM does not know is lost.
_SILENT_S = 6 * slurm_job.BEAT_S
# Guard: seconds until `sbatch` is called again after a refusal, unless a job ends before.
_ASK_AGAIN_S = 15.0
# Guard: seconds after which a command of SLURM that has not answered is given up.
_ANSWER_S = 60.0
# Guard: jobs in succession that ended without beginning a run, after which submission stops.
_USELESS_JOBS = 2

# Messages of `sbatch`: refusals until other jobs end, and refusals that pass by themselves. Of
# reasons such as `QOSMaxWallDurationPerJobLimit`, only a limit of submitted jobs passes.
_REASON = re.compile(r"\b(?:Assoc|QOS)\w+")
_LIMIT = re.compile(r"Max\w*Submit|submit limit|temporarily|maximum number of jobs", re.I)
_BUSY = re.compile(r"contact slurm|timed out|try again|not available|unavailable", re.I)
# Lines of a job's log about its end.
_OUT_OF_MEMORY = re.compile(r"exceeded.*memory limit|oom.kill|out of memory", re.I)
_TIME_OUT = re.compile(r"DUE TO TIME LIMIT|User defined signal 2", re.I)
_CANCELLED = re.compile(r"CANCELLED AT \S+ \*\*\*")
# The commands of SLURM without which no job can be submitted, watched or cancelled.
_COMMANDS = ("sbatch", "squeue", "scancel", "srun")
# Variables of the shell that would change the answers of SLURM's commands, or override what is set
# in a job: `sbatch` prefers its variables to the options in a script.
# `srun` in a job obeys those of the allocation in which kbench itself was started.
_ALLOCATION = ("JOB", "ARRAY", "MEM_PER", "N", "CPU", "TASKS_PER", "TRES", "GPU", "STEP", "EXPORT")
_QUERIES = ("SQUEUE_", "SACCT_", "SCANCEL_", *(f"SLURM_{name}" for name in _ALLOCATION))
_SET_HERE = (
    *("ARRAY_INX", "ERROR", "EXPORT", "JOB_NAME", "MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE"),
    *("OPEN_MODE", "OUTPUT", "SIGNAL", "TIMELIMIT", "WAIT"),
)
# SLURM's states of jobs that have begun, and of jobs that have not.
_AT_WORK = ("RUNNING", "COMPLETING", "SIGNALING", "STAGE_OUT")
_RUNNING = (*_AT_WORK, "SUSPENDED", "STOPPED", "RESIZING")
_PENDING = (
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD"),
    "SPECIAL_EXIT",
)


@dataclass
class _Job:
    """A job in SLURM; `state` and `node` are SLURM's last answer."""

    id: str
    handle: Any = None  # submitit's job object, which knows the state of a local process
    state: str = "PENDING"
    reason: str = ""  # why the job waits
    node: str = "a node that is not known"
    beat: float = 0.0  # time stamp of the last heartbeat
    beat_at: float = field(default_factory=time.monotonic)  # time when it was read
    heard: float = field(default_factory=time.monotonic)  # time of the last sign of life
    ended_at: float | None = None

    def waits(self) -> str:
        """Why the job does nothing, in SLURM's words; empty if it is at work."""
        if self.state not in _AT_WORK:
            return f"{self.state.lower()} {self.reason.replace('None', '')}".strip()
        silent_s = time.monotonic() - self.beat_at
        if not self.beat or silent_s < _SILENT_S:
            return ""
        return f"{self.state.lower()} on {self.node}, without a heartbeat for {silent_s:.0f} s"


class Slurm:
    """Jobs of the batch system, submitted by submitit.

    `parallel.options` are submitit's parameters (timeout_min, slurm_partition, ...). The option
    `cluster` is slurm, local (processes of this machine) or debug (this process).
    """

    poll_s = 0.1  # set by hand
    patience_s = math.inf  # with `cluster=debug`, `reports` does whole runs
    keeps_runs = True

    def __init__(self, settings: Settings, say: Say) -> None:
        submitit = require_package("submitit", "slurm")
        logging.getLogger("submitit").setLevel(logging.CRITICAL)
        self._settings, self._say = settings, say
        options = dict(settings.parallel.slurm_options(settings.limits))
        self._cluster = options.pop("cluster", "slurm")
        for name in _variables_to_drop(options):
            del os.environ[name]
        absent = [name for name in _COMMANDS if shutil.which(name) is None]
        if absent and self._cluster == "slurm":
            raise ConfigError(
                f"parallel.backend=slurm needs SLURM's command {absent[0]}, which is in no folder "
                "of PATH; start kbench on a login node, or load SLURM's module"
            )
        self._home = Path(settings.results_dir).absolute() / "_slurm"
        self._numbers: dict[str, int] = {}  # name of a run in the folder -> its number
        self._restarted: set[str] = set()  # names of runs that are started once more
        self._jobs: dict[str, _Job] = {}
        self._polled = self._ask_at = 0.0
        self._useless = 0  # jobs in succession that ended without beginning a run
        self._last_refusal = ""  # the last answer of `sbatch`, if it was a refusal
        self._not_begun: list[int] = []  # runs that no job had taken when the user stopped them
        self._has_accepted = False  # whether SLURM has ever taken a job of this sweep
        # Names of runs of a killed runner that have begun or ended.
        self._taken_over: set[str] = set()
        self._take_over()
        # Seconds from SLURM's warning to the limit: submitit's default, 90, or a quarter of a limit
        # below 6 minutes. Set by hand.
        signal_s = float(options.pop("slurm_signal_delay_s", min(90, 15 * options["timeout_min"])))
        limits = settings.limits
        self._terms = Terms(
            None if settings.parallel.runs_per_job == "auto" else settings.parallel.runs_per_job,
            options["timeout_min"],
            signal_s,
            None if limits.wall_s is None else limits.wall_s + limits.setup_s,
            options["mem_gb"],
        )
        self._executor = submitit.AutoExecutor(self._sweep / "log", cluster=self._cluster)
        if self._cluster == "slurm":
            options["slurm_signal_delay_s"] = int(signal_s)
        self._executor.update_parameters(name=_name(self._sweep), **options)

    def submit(self, number: int, call: Call) -> None:
        task = replace(call.task, cpus=None)  # SLURM assigns the CPUs of a node
        call = replace(call, task=task)
        # The name does not depend on the run's label, so that equal runs of different commands have
        # equal names.
        identity = (task.run.key, task.path, task.prepared, task.model, task.metrics, call.limits)
        name = hashlib.sha256(repr(identity).encode()).hexdigest()[:24]
        if name in self._numbers:
            self._restarted.add(name)
        self._numbers[name] = number
        if name not in self._taken_over:
            put(self._sweep / "todo" / name, call)
        self._taken_over.discard(name)

    def reports(self) -> Iterator[tuple[int, EngineReport]]:
        if not (self._sweep / "lock").exists():
            raise ClusterLostError(f"the folder {self._sweep} was removed")
        while self._not_begun:
            yield self._not_begun.pop(), EngineReport(Stage.CANCELLED)
        yield from self._done()
        if self._cluster == "debug":
            for job in list(self._jobs.values()):
                job.handle.results()
                del self._jobs[job.id]
        elif time.monotonic() > self._polled + _POLL_S:
            # `sbatch` may report that the controller was late, and have submitted jobs.
            for job_id in self._begun_jobs().keys() - self._jobs.keys():
                self._jobs[job_id] = _Job(job_id)
            if self._jobs:
                self._ask_states()
            for job in list(self._jobs.values()):
                yield from self._look_at(job)
            self._polled = time.monotonic()
        yield from self._submit_jobs()

    def at_once(self) -> int:
        if self._cluster != "slurm":
            return self._settings.parallel.jobs
        return sum(self._folder(job).exists() for job in self._jobs.values())

    def waits_for(self) -> str | None:
        if not self._jobs:
            return f"SLURM, which takes no job: {self._last_refusal or 'sbatch has not answered'}"
        states = {job.id: job.waits() for job in self._jobs.values()}
        if not all(states.values()):  # a job is at work
            return None
        listed = ", ".join(sorted(set(states.values())))
        return f"{counted(len(states), 'job')} in SLURM's queue ({listed})"

    def announce_stop(self) -> None:
        with contextlib.suppress(OSError):  # the folder may have been removed
            (self._sweep / "stop").touch()

    def stop(self) -> None:
        self.announce_stop()
        self._not_begun = list(self._take(self._sweep / "todo"))
        self._cancel(self._sweep, "--state=PENDING")

    def close(self) -> None:
        self.announce_stop()
        self._cancel(self._sweep)  # also jobs that SLURM has queued anew
        for job in self._jobs.values():
            self._clean(job, failed=False)
        other_results = [name for name in names(self._sweep / "done") if name not in self._numbers]
        if not other_results:  # another command may still take results of runs that this one lacks
            (self._sweep / "lock").unlink(missing_ok=True)  # so that no command takes over the rest
            shutil.rmtree(self._sweep, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._home.rmdir()

    def _folder(self, job: _Job) -> Path:
        return self._sweep / f"job-{job.id}"

    def _begun_jobs(self) -> dict[str, Path]:
        """Folders of jobs of the sweep that have begun and have not ended by themselves, by id."""
        return {path.parent.name[4:]: path.parent for path in self._sweep.glob("job-*/alive")}

    def _take(self, folder: Path, which: Container[str] | None = None) -> Iterator[int]:
        """Remove the runs, all or those of `which`, from a folder, and yield their numbers."""
        for name in names(folder):
            if which is None or name in which:
                with contextlib.suppress(FileNotFoundError):
                    (folder / name).unlink()
                    if name in self._numbers:
                        yield self._numbers[name]

    def _done(self) -> Iterator[tuple[int, EngineReport]]:
        for name in names(self._sweep / "done"):
            if name in self._numbers:
                path, number = self._sweep / "done" / name, self._numbers[name]
                yield number, EngineReport(Stage.BEGUN)
                yield number, report_in(path)
                path.unlink()

    # States and ends of jobs

    def _ask_states(self) -> None:
        """Update the states of all jobs from `squeue`, or from `sacct` if `squeue` lacks the job.

        A job that the controller does not know is GONE, unless the accounting (`sacct`) has its
        end. The accounting may be late, so its answer that a job has not ended counts only if the
        controller does not answer. submitit knows the states of processes on this machine.
        """
        if self._cluster != "slurm":
            for job in self._jobs.values():
                job.state = "RUNNING" if job.handle is None else job.handle.state
            return
        controller, states = _states("squeue -h -r -t all -o %i|%T|%N|%r", self._jobs)
        if absent_jobs := self._jobs.keys() - states.keys():
            _, sacct = _states("sacct -X -n -P -o JobID,State,NodeList", absent_jobs)
            not_ended = {*_RUNNING, *_PENDING} if controller else ()
            states |= {
                job_id: state for job_id, state in sacct.items() if state[0] not in not_ended
            }
        for job in self._jobs.values():
            if job.id in states:
                was_running = job.state in _RUNNING
                job.state, node, job.reason = states[job.id]
                if was_running and job.state in _PENDING and names(self._folder(job)):
                    self._say(f"SLURM queues job {job.id} anew, whose run then starts again")
                job.node = job.node if not node or " " in node else node
                job.heard = time.monotonic()
            elif controller:
                job.state = "GONE"

    def _look_at(self, job: _Job) -> Iterator[tuple[int, EngineReport]]:
        """Find out whether a job has ended, and report its run."""
        now = time.monotonic()
        for name in names(self._folder(job)):
            if name in self._numbers:
                yield self._numbers[name], EngineReport(Stage.BEGUN)
        with contextlib.suppress(OSError):
            beat = (self._folder(job) / "alive").stat().st_mtime
            if beat != job.beat:
                job.beat, job.beat_at, job.heard = beat, now, now
                job.node = (self._folder(job) / "alive").read_text() or job.node
        # If SLURM does not know the job or does not answer, only the heartbeat shows its state.
        silent = now - job.heard > _SILENT_S
        # `squeue` may also answer from a list that is older than the job.
        going_on = job.state in (*_RUNNING, "GONE") or (job.beat and job.state in _PENDING)
        waits = job.state in _PENDING and not job.beat
        job.ended_at = None if waits or (going_on and not silent) else job.ended_at or now
        if job.ended_at is None or now < job.ended_at + _LATE_S:
            return
        yield from self._done()
        began, numbers = self._folder(job).exists(), list(self._take(self._folder(job)))
        report = self._end_of(job)
        del self._jobs[job.id]
        self._ask_at = 0.0
        for number in numbers:
            yield number, report
        self._useless = 0 if began else self._useless + 1
        if self._useless >= _USELESS_JOBS:
            yield from self._refused(f"jobs end before they begin a run: {report.why}")
        self._clean(job, failed=bool(numbers) or not began)

    def _end_of(self, job: _Job) -> EngineReport:
        """The report of a job's run, by SLURM's state of the job and by the job's log."""
        where = f"job {job.id} on {job.node}"
        # The last characters of each log have the reason of the end. Set by hand.
        log = "".join(path.read_text(errors="replace")[-20_000:] for path in self._logs(job))
        if job.state in ("TIMEOUT", "DEADLINE") or _TIME_OUT.search(log):
            return EngineReport(Stage.LOST, self._terms.timed_out(where), status="timeout")
        if job.state == "OUT_OF_MEMORY" or _OUT_OF_MEMORY.search(log):
            return EngineReport(Stage.LOST, self._terms.out_of_memory(where), status="memory")
        if job.state == "CANCELLED" or (job.state == "GONE" and _CANCELLED.search(log)):
            return EngineReport(Stage.CANCELLED, f"cancelled by SLURM, {where}")
        lines = log.strip().splitlines() or [
            f"no output; do all nodes see {self._home}, and has its disk space left?"
        ]
        # Lines with "Error" or "error" name the reason better than the last line, which is of srun.
        errors = [line for line in lines if "rror" in line and "Exited with exit" not in line]
        last = quoted((errors or lines)[-1])
        return EngineReport(Stage.LOST, f"{where} ended ({job.state}): {last}", again=True)

    def _logs(self, job: _Job) -> list[Path]:
        return sorted((self._sweep / "log").glob(f"{job.id}_*_log.*"), reverse=True)

    def _clean(self, job: _Job, *, failed: bool) -> None:
        """Remove the files of a job; the output of a failed job moves to the folder of sweeps."""
        failed |= (self._folder(job) / ".failed").exists()
        for path in self._logs(job) if failed else ():
            path.replace(self._home / path.name)
        for path in (self._sweep / "log").glob(f"{job.id}_*"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._folder(job), ignore_errors=True)

    # Submission of jobs

    def _submit_jobs(self) -> Iterator[tuple[int, EngineReport]]:
        """Submit a job for each waiting run, up to `parallel.jobs` and the number SLURM accepts."""
        n_runs = len(names(self._sweep / "todo"))
        idle = sum(not self._folder(job).exists() for job in self._jobs.values())
        n = min(n_runs - idle, self._settings.parallel.jobs - len(self._jobs))
        if n <= 0 or time.monotonic() < self._ask_at:
            return
        refusal = ""
        while n > 0:
            try:
                arguments = [self._sweep] * n, [self._terms] * n
                handles = self._executor.map_array(slurm_job.do_runs, *arguments)
            except RuntimeError as error:  # raised by submitit with the message of sbatch
                refusal = _message_of_sbatch(error)
                # After a refusal by a limit half of the jobs are tried, after any other one job.
                n = n // 2 if _is_limit(refusal) or "array" in refusal else min(n - 1, 1)
                continue
            self._jobs |= {handle.job_id: _Job(handle.job_id, handle) for handle in handles}
            break
        self._has_accepted |= n > 0
        if not refusal:
            self._last_refusal = ""
            return
        self._ask_at = time.monotonic() + _ASK_AGAIN_S
        limit = _is_limit(refusal)
        if not limit:  # runs that are started once more then end as crashed
            yield from self._refused(refusal, self._restarted)
        if not (limit or self._jobs or (self._has_accepted and _BUSY.search(refusal))):
            yield from self._refused(refusal)
        elif not self._last_refusal:
            summary = (
                f"SLURM takes {counted(len(self._jobs), 'job')} at a time, the other runs wait"
            )
            self._say(f"{summary}: {refusal}")
        self._last_refusal = refusal

    def _refused(
        self, why: str, which: Container[str] | None = None
    ) -> Iterator[tuple[int, EngineReport]]:
        """Remove waiting runs, all or those of `which`, and report them as refused."""
        for number in self._take(self._sweep / "todo", which):
            yield number, EngineReport(Stage.REFUSED, why)

    def _cancel(self, sweep: Path, *options: str) -> None:
        self._ask("scancel", "--name", _name(sweep), *options)

    def _ask(self, *command: str) -> tuple[bool, str]:
        """Whether a command of SLURM answered, and its output; False for processes of this machine,
        for which no command is called."""
        return _output(command) if self._cluster == "slurm" else (False, "")

    # Sweeps of runners that were killed

    def _take_over(self) -> None:
        """Take the folder of a sweep whose runner was killed, or make a new one."""
        self._home.mkdir(parents=True, exist_ok=True)
        self._lock, self._sweep = -1, self._home / uuid.uuid4().hex[:8]
        others: list[tuple[Path, int]] = []  # further sweeps, and sweeps that the user has stopped
        for folder in sorted(self._home.iterdir()):
            if folder.name[0] == "." or not folder.is_dir():
                continue
            try:
                lock = take_lock(folder, create=False)
            except FileNotFoundError:  # a job wrote into the folder after the sweep had ended
                shutil.rmtree(folder, ignore_errors=True)
                continue
            except PermissionError:  # the sweep of another user with the same results folder
                continue
            if lock is None:
                continue
            if self._lock >= 0 or (folder / "stop").exists():
                others.append((folder, lock))
            else:
                self._lock, self._sweep = lock, folder
        is_new = self._lock < 0
        if is_new:
            hidden = self._home / f".{self._sweep.name}"  # name of the folder until it is locked
            for name in ("todo", "done", "log"):
                (hidden / name).mkdir(parents=True)
            self._lock = take_lock(hidden) or -1
            hidden.rename(self._sweep)
        else:
            for _ in self._take(self._sweep / "todo"):
                pass
            _, alive = self._ask("squeue", "-h", "-r", "-o", "%i", "--name", _name(self._sweep))
            self._jobs = {job_id: _Job(job_id) for job_id in [*self._begun_jobs(), *alive.split()]}
        for folder, lock in others:  # only reports are taken over, and jobs are cancelled
            self._cancel(folder)
            for path in (folder / "done" / name for name in names(folder / "done")):
                outcome = report_in(path).outcome
                if outcome is None or outcome.status != "interrupted":
                    path.replace(self._sweep / "done" / path.name)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
        done = names(self._sweep / "done")
        at_work = (name for folder in self._begun_jobs().values() for name in names(folder))
        self._taken_over = {*done, *at_work}
        if others or not is_new:
            jobs_text = f" and jobs {', '.join(self._jobs)}" if self._jobs else ""
            also = "; jobs of another command are cancelled" if others else ""
            self._say(
                f"taken over from a command that was killed: {len(done)} results{jobs_text}{also}"
            )


def _name(sweep: Path) -> str:
    """The name of the jobs of a sweep."""
    return f"kbench-{sweep.name}"


def _variables_to_drop(options: Iterable[str]) -> list[str]:
    """Variables of the shell that contradict `options` of a job, or kbench's own use of SLURM."""
    typed = {name.removeprefix("slurm_").upper() for name in options}
    overriding = {f"SBATCH_{name}" for name in {*_SET_HERE, *typed}}
    return [name for name in os.environ if name in overriding or name.startswith(_QUERIES)]


def _states(command: str, jobs: Iterable[str]) -> tuple[bool, dict[str, tuple[str, str, str]]]:
    """Whether a command of SLURM answered, and (state, node, reason) of each job in the answer."""
    answered, text = _output([*command.split(), "-j", ",".join(jobs)])
    rows = [[*line.split("|"), "", "", ""] for line in text.splitlines()]
    return answered, {r[0]: (r[1].partition(" ")[0].rstrip("+"), r[2], r[3]) for r in rows}


def _output(command: Sequence[str]) -> tuple[bool, str]:
    """Whether a command of SLURM answered, and its standard output.

    A query about jobs that SLURM no longer knows fails with "Invalid job id". That is an answer:
    these jobs are gone. Any other failure says nothing about them.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False, ""
    return done.returncode == 0 or "Invalid job id" in done.stderr, done.stdout


def _is_limit(refusal: str) -> bool:
    """Whether `sbatch` refuses a job only until other jobs have ended."""
    reason = _REASON.search(refusal)
    return "Submit" in reason[0] if reason else bool(_LIMIT.search(refusal))


def _message_of_sbatch(error: Exception) -> str:
    """The lines of `sbatch` in submitit's error."""
    lines = [line.strip() for line in str(error).splitlines() if line.startswith("sbatch:")]
    return quoted("; ".join(lines) or error)
