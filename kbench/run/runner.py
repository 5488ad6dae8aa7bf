"""From a plan to rows: skip what is done, run the rest in guarded workers, write every attempt.

    for each run: claim it -> (another runner has it: later) -> is its row there? -> worker -> row

Only this process writes rows, after the guard has reported; a runner that is killed loses the runs
in progress and nothing else.
"""

import contextlib
import functools
import math
import os
import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from kbench.config import Settings
from kbench.errors import ConfigError
from kbench.run import registry
from kbench.run.claims import Claims
from kbench.run.cluster import Cluster, RemoteJob, open_cluster
from kbench.run.command import canonical
from kbench.run.environment import provenance
from kbench.run.plan import Plan, Run
from kbench.run.progress import Progress
from kbench.run.results import ResultsFolder
from kbench.run.sandbox import Job, Outcome, Sandbox
from kbench.run.worker import work

PRELOAD = (
    "kbench.run.worker",
    "kbench.cost",
    "kbench.data",
    "numpy",
    "scipy.sparse",
    "joblib",
    "threadpoolctl",
    "numba",
    "sklearn.utils.validation",
)
_POLL_S = 0.2


@dataclass
class Summary:
    """What became of a plan: rows written now, statuses found from before, and the failed ones."""

    written: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    failed: list[tuple[Run, str, str]] = field(default_factory=list)  # run, status, message
    absent: dict[str, str] = field(default_factory=dict)
    stopped_by: int | None = None  # a signal

    @property
    def exit_code(self) -> int:
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return 1 if self.failed or self.absent else 0


Finished = Callable[[int], dict[str, dict[str, Any]]]  # threads -> key -> what its row says


def finished_here(plan: Plan) -> Finished:
    """What the user's rows hold for the plan's environment; each thread count is read once."""
    folder = ResultsFolder(plan.settings.results_dir)
    environment = environment_of(plan)
    return functools.cache(lambda threads: folder.finished(environment, threads))


def environment_of(plan: Plan) -> str | None:
    """The id of the machine that will do the plan's runs; None where a cluster decides."""
    return provenance().environment_id if plan.settings.parallel.here else None


def split(plan: Plan, finished: Finished) -> tuple[list[Run], list[tuple[Run, str, str]]]:
    """(runs to do, runs that are done with their status and message), by `rerun`."""
    todo, done = [], []
    for run in plan.runs:
        row = finished(run.threads).get(run.key)
        if row is None or _again(plan.settings, row, run):
            todo.append(run)
        else:
            done.append((run, row["status"], row.get("message") or ""))
    return todo, done


def _again(settings: Settings, row: dict[str, Any], run: Run) -> bool:
    """Whether a run with this row is to be done again; an interrupted one always is."""
    if row["status"] in ("interrupted", "unavailable") or settings.rerun == "all":
        return True
    if settings.keep_model and _lacks_model(settings, row):
        return True
    if settings.rerun == "failed":
        return row["status"] != "ok"
    if settings.rerun == "changed":
        return row.get("source_sha256") != registry.source_sha256(run.estimator)
    return False


def _lacks_model(settings: Settings, row: dict[str, Any]) -> bool:
    """Whether a run that ended well has no model on disk, and did not say why it cannot have one.

    Only such a row has a message.
    """
    if row["status"] != "ok" or row.get("message"):
        return False
    return not row.get("model") or not Path(settings.results_dir, row["model"]).is_file()


def worker_sandbox(plan: Plan) -> Sandbox:
    """A sandbox whose workers have imported what the plan's methods need."""
    return Sandbox(_preload(plan))


@contextlib.contextmanager
def _workplace(plan: Plan, sandbox: Sandbox) -> Iterator[Sandbox | Cluster]:
    """Where the plan's runs are done: `sandbox` on this machine, or the cluster it names."""
    if plan.settings.parallel.here:
        yield sandbox
    else:
        with open_cluster(plan.settings, _preload(plan)) as cluster:
            yield cluster


def _preload(plan: Plan) -> list[str]:
    modules = {path.partition(":")[0] for path, _ in plan.estimators}
    ours = {m for m in modules if m.partition(".")[0] in ("kbench", "sklearn")}
    return [*PRELOAD, *sorted(ours)]


def check_methods(sandbox: Sandbox, plan: Plan) -> None:
    """Build every estimator of the plan once, in a worker, before any data are loaded.

    Raises
    ------
    ConfigError
        Names the first parameter that a class does not take or whose value it refuses.
    ModelError
        Models of scikit-learn are to be kept, and what keeps them is not installed.
    """
    if plan.settings.keep_model and any(p.startswith("sklearn.") for p, _ in plan.estimators):
        from kbench.prediction.skops_bytes import require_skops

        require_skops()
    pairs = {canonical(pair): pair for pair in plan.estimators}
    limits = {"wall_s": None, "cpu_s": None, "memory_mb": None, "setup_s": 120.0}
    outcome = sandbox.start(_check, {"pairs": list(pairs.values())}, limits).outcome()
    if outcome.status != "ok":
        raise ConfigError(outcome.message.splitlines()[0])


def _check(task: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    wrong = registry.check(task["pairs"])
    status = "error" if wrong else "ok"
    send({"event": "result", "status": status, "message": wrong[0] if wrong else ""})


class Runner:
    """Does the runs of one plan; one instance per command."""

    def __init__(self, plan: Plan, sandbox: Sandbox, *, show: bool = True) -> None:
        self.plan = plan
        self.sandbox = sandbox
        self.settings = plan.settings
        self.folder = ResultsFolder(plan.settings.results_dir)
        self.here = provenance()
        self.summary = Summary(absent=dict(plan.absent))
        self._show = show
        self._jobs: dict[Any, tuple[list[Run], Job | RemoteJob, datetime, int]] = {}

    def execute(
        self,
        finished: Finished,
        *,
        skip: Callable[[Run], bool] = lambda run: False,
        paths: bool = False,
    ) -> Summary:
        """Run what is not `finished`; returns when all is done or the user stopped it.

        Parameters
        ----------
        skip : asked before a run starts whether it is no longer wanted.
        paths : whether one worker does runs that differ only along a method's path, each from the
            solution of the one before. Their times are not those of the runs alone.
        """
        self._skip = skip
        todo, done = split(self.plan, finished)
        for run, status, message in done:
            self._found(run, status, message)
        if not todo:
            return self.summary
        self.folder.store_environment(self.here.environment)
        with _workplace(self.plan, self.sandbox) as self._workers:
            self._claims = Claims(self.folder.path)
            self._progress = Progress(len(todo)) if self._show else None
            handlers = {s: signal.signal(s, self._stop) for s in (signal.SIGINT, signal.SIGTERM)}
            try:
                alone = not paths or self.settings.keep_model
                self._loop(deque([run] for run in todo) if alone else self._along_paths(todo))
            finally:
                for signum, handler in handlers.items():
                    signal.signal(signum, handler)
                if self._progress is not None:
                    self._progress.close()
                self._claims.close()
        return self.summary

    def _stop(self, signum: int, _: Any) -> None:
        """First signal: end the runs in progress and write their rows. Second: end at once."""
        if self.summary.stopped_by is not None:
            os._exit(128 + signum)
        self.summary.stopped_by = signum
        sys.stderr.write("\nstopping: the runs in progress are ended (again: at once)\n")

    def _along_paths(self, todo: list[Run]) -> deque[list[Run]]:
        """Runs of one path together, but no more of them than leaves work for every job."""
        paths: dict[str, list[Run]] = {}
        for run in todo:
            paths.setdefault(run.path_id or run.key, []).append(run)
        most = math.ceil(len(todo) / self.settings.parallel.jobs)
        return deque(
            runs[i : i + most] for runs in paths.values() for i in range(0, len(runs), most)
        )

    def _loop(self, todo: deque[list[Run]]) -> None:
        held: deque[list[Run]] = deque()  # claimed by another runner
        slots = list(range(self.settings.parallel.jobs))
        while todo or held or self._jobs:
            if self.summary.stopped_by is not None:
                todo.clear()
                held.clear()
                for _runs, job, _started, _slot in self._jobs.values():
                    job.interrupt()
            while slots and (todo or held):
                if not todo:
                    todo, held = held, todo
                runs = [run for run in todo.popleft() if self._wanted(run, held)]
                if runs:
                    self._start(runs, slots.pop(0))
                elif not todo:
                    break
            for connection in wait(list(self._jobs), timeout=_POLL_S):
                slot, left = self._finish(connection)
                slots.append(slot)
                if left:
                    todo.appendleft(left)

    def _wanted(self, run: Run, held: deque[list[Run]]) -> bool:
        """Whether this runner starts the run, which it has claimed then."""
        if self._skip(run):
            return False
        if not self._claims.take(run.key):
            held.append([run])
            return False
        if self._done_meanwhile(run):
            self._claims.give_back(run.key)
            return False
        return True

    def _done_meanwhile(self, run: Run) -> bool:
        if self.settings.rerun != "none":
            return False
        row = self.folder.latest(run.key, environment_of(self.plan), run.threads)
        if row is None or _again(self.settings, row, run):
            return False
        self._found(run, str(row["status"]), row.get("message") or "")
        return True

    def _found(self, run: Run, status: str, message: str) -> None:
        self.summary.before[status] += 1
        if status != "ok":
            self.summary.failed.append((run, status, message))

    def _start(self, runs: list[Run], slot: int) -> None:
        first = runs[0]
        task = self.plan.task(first) | {"cpus": _cpus(slot, first.threads)}
        if len(runs) > 1:
            task["path"] = [{"params": dict(run.params)} for run in runs]
        if self.settings.keep_model:
            task["model"] = str(self.folder.model_path(first.key).absolute())
        job = self._workers.start(work, task, dict(first.limits))
        self._jobs[job.connection] = (runs, job, datetime.now(UTC), slot)
        if self._progress is not None:
            self._progress.running([r.label for runs, *_ in self._jobs.values() for r in runs])

    def _finish(self, connection: Any) -> tuple[int, list[Run]]:
        """Write the rows of what has ended; the slot that is free, and runs that were not begun."""
        runs, job, started, slot = self._jobs.pop(connection)
        outcomes = job.outcome().all
        for run, outcome in zip(runs, outcomes, strict=False):
            self._write(run, outcome, started)
        left = runs[len(outcomes) :]
        for run in left:
            self._claims.give_back(run.key)
        return slot, left

    def _write(self, run: Run, outcome: Outcome, started: datetime) -> None:
        if outcome.provenance is not None:
            self.folder.store_environment(outcome.provenance.environment)
        row = self.row(run, outcome, started)
        self.folder.write(row, outcome.result.get("curves") or ())
        if outcome.log:
            self.folder.write_log(run.key, outcome.log)
        self._claims.give_back(run.key)
        self.summary.written[outcome.status] += 1
        if outcome.status != "ok":
            self.summary.failed.append((run, outcome.status, outcome.message))
        if self._progress is not None:
            self._progress.finished(run.label, row)

    def row(self, run: Run, outcome: Outcome, started: datetime) -> dict[str, Any]:
        """The row of one attempt: what was asked, what was measured, where and when."""
        there = outcome.provenance or self.here
        measured = dict(outcome.result.get("row") or {})
        if outcome.children_peak_bytes and measured.get("peak_bytes") is not None:
            measured["peak_bytes"] += outcome.children_peak_bytes
        return {
            "key": run.key,
            "status": outcome.status,
            "message": outcome.message or measured.pop("message", None),
            "method": run.method,
            "dataset": run.dataset,
            "variant": run.variant,
            "seed": run.seed,
            "task": run.task,
            "data_sha256": run.data_sha256,
            "preset": run.params.get("preset"),
            "params": canonical(run.params),
            "tuned": run.tuned,
            "tuned_sha256": run.tuned_sha256,
            "peak_bytes": outcome.peak_bytes,
            **measured,
            "threads": run.threads,
            "jobs": self.settings.parallel.jobs,
            "environment": there.environment_id,
            "kbench_version": there.version,
            "commit": there.commit,
            "dirty": there.dirty,
            "source_sha256": registry.source_sha256(run.estimator),
            "started_at": started,
            "command": run.command,
            "log": outcome.log[-2000:] or None,
        }


def _cpus(slot: int, threads: int) -> list[int] | None:
    """CPUs for the slot's workers; two runners at a time start at different ones."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    own = sorted(os.sched_getaffinity(0))
    first = os.getpid() + slot * threads
    return sorted({own[(first + i) % len(own)] for i in range(threads)})
