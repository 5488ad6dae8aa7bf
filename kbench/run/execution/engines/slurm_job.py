"""A job of SLURM, which does runs of a sweep's folder one after the other until its time is over.

A sweep's folder is on a file system that all nodes share:

    todo/<run>              waiting runs; a job takes one by renaming it into its own folder
    job-<id>/<run>          the run that a job is doing, or was doing when SLURM ended the job
    job-<id>/alive          the job's heartbeat; its content is the node
    job-<id>/.failed        SLURM has ended the job
    done/<run>              reports of runs that have ended
    stop                    every job ends its run
    lock                    held by the runner of the sweep
    log/                    submitit's files
"""

import contextlib
import os
import pickle
import platform
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbench.errors import quoted, with_type
from kbench.run.execution.engines.on_node import Call, run_guarded
from kbench.run.execution.engines.states import EngineReport, Stage
from kbench.settings import BEGIN_S

# Seconds between two heartbeats of a job, each of which writes a file. Set by hand.
BEAT_S = 5.0
# Seconds that an idle job waits for further runs, which the runner writes in portions. Set by hand.
_LINGER_S = 2.0
# Guard: seconds between the times at which a signal of SLURM reaches two processes of a job.
_SIGNAL_S = 1.0
# Fraction of a job's memory above which a kill of the run is ascribed to the memory limit. kbench
# needs memory, too, so the fraction is below 1. Set by hand.
_NEAR_LIMIT = 0.75
# Fraction of a job's time before which a warning by SLURM means preemption. Set by hand.
_EARLY = 0.5
# Seconds between two readings of the folder of runs. Shorter intervals start a run sooner, and load
# the shared file system. Set by hand.
_POLL_S = 0.2


@dataclass(frozen=True)
class Terms:
    """The limits of a job."""

    max_runs: int | None  # None: all runs that can begin within `BEGIN_S`
    timeout_min: float  # time limit
    signal_s: float  # seconds before the time limit at which SLURM warns the job
    needed_s: float | None  # seconds that a run may take by its limits; None without limits
    mem_gb: float  # memory limit

    # Messages of a run that a limit ended; `where` names its job and node.

    def timed_out(self, where: str) -> str:
        return f"SLURM's time limit, parallel.options.timeout_min={self.timeout_min:g}: {where}"

    def out_of_memory(self, where: str) -> str:
        return (
            f"out of memory, SLURM's limit is parallel.options.mem_gb={self.mem_gb:g} (for the run "
            f"and about 0.5 GB of kbench): {where}"
        )


def put(path: Path, content: Any) -> None:
    """Pickle an object to a file, atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(pickle.dumps(content))
    temporary.replace(path)


def report_in(path: Path) -> EngineReport:
    """The report in a file; a damaged one, as a loss of power leaves it, is the loss of its run."""
    try:
        report: EngineReport = pickle.loads(path.read_bytes())
    except Exception as error:
        why = f"{path} is damaged ({quoted(with_type(error))})"
        return EngineReport(Stage.LOST, why, again=True)
    return report


def names(folder: Path) -> list[str]:
    """The names of the runs in a folder, sorted."""
    with contextlib.suppress(OSError):
        os.utime(folder)  # a network file system then reads its cached listing anew
    with contextlib.suppress(OSError):
        return sorted(name for name in os.listdir(folder) if name[0] != "." and name != "alive")
    return []


def do_runs(sweep: Path, terms: Terms) -> None:
    """The job: take runs of the sweep and do them."""
    from submitit import JobEnvironment

    environment = JobEnvironment()
    if environment.global_rank:  # a variable of the shell may have asked `srun` for several tasks
        return
    _Job(sweep, terms, environment.job_id).do_runs(signals=environment.cluster != "debug")


class _Job:
    """This job of SLURM; the handlers of its signals end the run in progress."""

    def __init__(self, sweep: Path, terms: Terms, job_id: str) -> None:
        self._sweep, self._terms, self._began = sweep, terms, time.monotonic()
        self._folder = sweep / f"job-{job_id}"
        self._where = f"job {job_id} on {platform.node()}"
        # The report of the run after SLURM's warning; None before, and after SIGTERM alone.
        self._warning: EngineReport | None = None
        self._ended, self._warned = threading.Event(), threading.Event()

    def do_runs(self, *, signals: bool) -> None:
        self._folder.mkdir(exist_ok=True)
        for name in names(self._folder):  # runs of this job from before SLURM restarted it
            (self._folder / name).replace(self._sweep / "todo" / name)
        if signals:
            signal.signal(signal.SIGUSR2, self._on_warning)
            signal.signal(signal.SIGTERM, self._cancelled)
        threading.Thread(target=self._beat, daemon=True).start()
        n_runs, idle_since = 0, time.monotonic()
        while self._may_begin(n_runs) and time.monotonic() - idle_since < _LINGER_S:
            for name in names(self._sweep / "todo"):
                if not self._may_begin(n_runs):
                    break
                with contextlib.suppress(FileNotFoundError):  # another job was faster
                    (self._sweep / "todo" / name).rename(self._folder / name)
                    if (report := self._run(self._folder / name)) is None:
                        break
                    put(self._sweep / "done" / name, report)
                    (self._folder / name).unlink()
                    n_runs, idle_since = n_runs + 1, time.monotonic()
            time.sleep(_POLL_S)
        self._ended.set()
        (self._folder / "alive").unlink(missing_ok=True)

    def _may_begin(self, n_runs: int) -> bool:
        """Whether a run may begin after `n_runs` runs; only the first needs no time left."""
        terms, spent_s = self._terms, time.monotonic() - self._began
        if self._stopped() or n_runs == terms.max_runs:
            return False
        if n_runs == 0:
            return True
        left_s = 60 * terms.timeout_min - terms.signal_s - spent_s
        return spent_s < BEGIN_S and (terms.needed_s is None or left_s > terms.needed_s)

    def _run(self, path: Path) -> EngineReport | None:
        """Do the run of a file, and report it; None if only the state of the job gives the reason.

        A run that SLURM ends, not the user, is lost and started again after a preemption, and
        finished with the status "timeout" at the time limit. After SIGTERM there is no report
        (None): SLURM cancels the job or starts it anew. If the run was killed and no signal comes
        within `_SIGNAL_S`, the memory that it took decides between "memory" and "crashed".
        """
        try:
            call: Call = pickle.loads(path.read_bytes())
            outcome = run_guarded(call, self._stopped)
        except Exception as error:
            why = f"{self._where}: {quoted(with_type(error))}"
            return EngineReport(Stage.LOST, why, again=True)
        killed = outcome.status == "crashed" and "killed" in outcome.message
        if killed:
            # SLURM signals every process of the job, and this process may be the last one.
            self._warned.wait(_SIGNAL_S)
        by_user = (self._sweep / "stop").exists()
        if (killed or outcome.status == "interrupted") and self._warned.is_set() and not by_user:
            (self._folder / ".failed").touch()
            if self._warning is None or self._warning.again:
                return self._warning
            outcome.status, outcome.message = self._warning.status, self._warning.why
        elif killed and (outcome.peak_bytes or 0) > _NEAR_LIMIT * self._terms.mem_gb * 2**30:
            outcome.status, outcome.message = "memory", self._terms.out_of_memory(self._where)
        return EngineReport(Stage.FINISHED, outcome=outcome)

    def _stopped(self) -> bool:
        over = (self._sweep / "stop").exists() or not (self._sweep / "lock").exists()
        return over or self._warned.is_set()

    def _on_warning(self, *_: Any) -> None:
        """Handle SLURM's warning before the time limit or before a preemption."""
        terms, spent_s = self._terms, time.monotonic() - self._began
        preempted = spent_s < _EARLY * (60 * terms.timeout_min - terms.signal_s)
        why = f"preempted by SLURM: {self._where}" if preempted else terms.timed_out(self._where)
        self._warning = EngineReport(
            Stage.LOST, why, status="crashed" if preempted else "timeout", again=preempted
        )
        self._warned.set()

    def _cancelled(self, *_: Any) -> None:
        self._warned.set()

    def _beat(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                (self._folder / "alive").write_text(platform.node())
            if self._ended.wait(BEAT_S):
                return
