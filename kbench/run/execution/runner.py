"""Do the runs of a plan: skip finished runs, run the others in guarded workers, write rows.

    for each run: reserve it (or wait for another runner) -> skip if done -> worker -> row

Only this process writes rows, after the guard has reported; a runner that is killed loses only the
runs in progress.
"""

import contextlib
import functools
import logging
import math
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kbench.errors import ConfigError, counted, quoted, with_type
from kbench.files import atomic_file
from kbench.run.execution.cluster import Cluster
from kbench.run.execution.engines.daemons import scheduler_of
from kbench.run.execution.engines.states import REFUSED, RemoteJob
from kbench.run.execution.guard import RunOutcome
from kbench.run.execution.progress import Progress, Running
from kbench.run.execution.reservations import Reservations
from kbench.run.execution.sandbox import Job, Sandbox
from kbench.run.execution.worker import work
from kbench.run.planning.plan import Plan
from kbench.run.planning.source import source_sha256
from kbench.run.planning.task import Run
from kbench.run.results.added_scores import new_scores
from kbench.run.results.environment import provenance
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.rows import NOT_KEPT, WITHOUT_OUTCOME
from kbench.run.results.user_functions import Callbacks
from kbench.settings import MESSAGE_INTERVAL_S, Settings
from kbench.signals import handled_signals, raise_again

# Columns that the report of a run with status ok must have.
_MEASURED = {"n_train", "n_test", "fit_wall_s", "fit_cpu_s", "predict_wall_s", "predict_cpu_s"}
# Columns of a row that are attributes of its run.
_RUN_COLUMNS = [
    *("key", "method", "method_version", "dataset", "variant", "experiment", "seed", "task"),
    *("data_sha256", "tuned", "tuned_sha256", "threads", "command"),
]
# Seconds between two updates of the live line, and two checks of signals, while runs are in
# progress. Shorter intervals cost CPU time beside the runs. Set by hand.
_POLL_S = 0.2

_LOG = logging.getLogger(__name__)


@dataclass
class Summary:
    """Counts of the rows of a plan by status, and the runs that failed or were not begun."""

    written: Counter[str] = field(default_factory=Counter)  # status -> rows of this command
    before: Counter[str] = field(default_factory=Counter)  # status -> rows that existed before
    failed: list[tuple[Run, str, str]] = field(default_factory=list)  # run, status, message
    absent: dict[str, str] = field(default_factory=dict)  # data set -> message
    stopped_by: int | None = None  # number of the signal that stopped the command
    other_tag: int = 0  # rows that existed before without the tag of the command
    not_begun: int = 0  # runs that `on_error=stop` left out

    @property
    def exit_code(self) -> int:
        if self.stopped_by is not None:
            return 128 + self.stopped_by  # as a shell reports a process that a signal ended
        return 1 if self.failed or self.absent else 0


Finished = Callable[[int], dict[str, dict[str, Any]]]  # threads -> (key of a run -> outcome)


def finished_here(plan: Plan) -> Finished:
    """A function that reads the user's rows of the plan's environment, once per thread count."""
    folder = ResultsFolder(plan.settings.results_dir)
    environment = environment_of(plan)
    return functools.cache(lambda threads: folder.finished(environment, threads))


def environment_of(plan: Plan) -> str | None:
    """The environment id of the machine that will do the runs; None if a cluster decides."""
    return provenance().environment_id if plan.settings.parallel.is_local else None


def todo_and_done(
    plan: Plan, finished: Finished
) -> tuple[list[Run], list[tuple[Run, dict[str, Any]]]]:
    """The runs to do, and the finished runs with their outcomes; `rerun` decides."""
    todo, done = [], []
    for run in plan.runs:
        row = finished(run.threads).get(run.key)
        if row is None or _is_repeated(plan.settings, row, run):
            todo.append(run)
        else:
            done.append((run, row))
    return todo, done


def _is_repeated(settings: Settings, row: dict[str, Any], run: Run) -> bool:
    """Whether a run with this row is done again.

    It is if the row has no outcome, if it lacks a model or a score that the command asks for, or if
    `rerun` says so: "all", "failed" (the status is not ok) or "changed" (the source files of the
    estimator are not those of the row).
    """
    if row["status"] in WITHOUT_OUTCOME or settings.rerun == "all":
        return True
    if settings.keep_model and _lacks_model(settings, row):
        return True
    added = {score.name for score in new_scores(settings.metrics)}
    if row["status"] == "ok" and added - set(row["scores"] or ()):
        return True
    if settings.rerun == "failed":
        return row["status"] != "ok"
    if settings.rerun == "changed":
        return row.get("source_sha256") != source_sha256(run.estimator)
    return False


def _lacks_model(settings: Settings, row: dict[str, Any]) -> bool:
    """Whether a run with status ok lacks its model, although the model can be stored."""
    if row["status"] != "ok" or NOT_KEPT in (row.get("message") or ""):
        return False
    return not row.get("model") or not Path(settings.results_dir, row["model"]).is_file()


@contextlib.contextmanager
def _workplace(plan: Plan, sandbox: Sandbox) -> Iterator[tuple[Sandbox | Cluster, str | None]]:
    """The sandbox or cluster that starts workers, and the Dask scheduler that their fits use."""
    if plan.settings.parallel.split == "model":
        with scheduler_of(plan.settings) as scheduler:
            yield sandbox, scheduler
    elif plan.settings.parallel.is_local:
        yield sandbox, None
    else:
        estimators = sorted({target for target, *_ in plan.estimators})
        with contextlib.closing(Cluster(plan.settings, estimators)) as cluster:
            yield cluster, None


@dataclass
class _InProgress:
    """A worker's runs (one run, or the runs of a regularisation path) in one slot of the runner."""

    runs: list[Run]
    started_at: datetime
    slot: int
    since: float  # time.monotonic() at the start


class Runner:
    """Executes the runs of one plan; one instance for each command."""

    def __init__(self, plan: Plan, sandbox: Sandbox) -> None:
        self.plan = plan
        self.sandbox = sandbox
        self.settings = plan.settings
        self.folder = ResultsFolder(plan.settings.results_dir)
        self.provenance = provenance()
        self.summary = Summary(absent=dict(plan.absent))
        self._callbacks = Callbacks(plan.settings.callbacks)
        self._jobs: dict[Job | RemoteJob, _InProgress] = {}
        self._refused = ""  # the message of a batch system that accepts no more runs

    def execute(
        self, finished: Finished, *, skip: Callable[[Run], bool] | None = None, paths: bool = False
    ) -> Summary:
        """Do the runs that are not `finished`; returns when all are done or the user stopped them.

        skip : Called before a run starts; True leaves the run out.
        paths : Whether one worker does all runs of a regularisation path, each fit starting from
            the previous solution. Such fits take less time than single runs.
        """
        self._skip = skip or (lambda run: False)
        parallel = self.settings.parallel
        # A run that SLURM has waits for its job, and would be done although another has failed.
        hands_over = skip is None and self.settings.on_error == "continue"
        self._n_slots = parallel.in_flight if hands_over else parallel.at_once
        todo, done = todo_and_done(self.plan, finished)
        for run, row in done:
            self._count_finished(run, row)
        raise_again()
        if not todo:
            return self.summary
        self.folder.store_environment(self.provenance.environment)
        with _workplace(self.plan, self.sandbox) as (self._workers, self._scheduler):
            self._reservations = Reservations(self.folder.path)
            self._progress = Progress(len(todo))
            handlers = {signum: signal.signal(signum, self._stop) for signum in handled_signals()}
            try:
                single_runs = not paths or self.settings.keep_model
                self._loop(deque([run] for run in todo) if single_runs else self._along_paths(todo))
            finally:
                for signum, handler in handlers.items():
                    signal.signal(signum, handler)
                self._progress.close()
                self._reservations.close()
        if self._refused:
            raise ConfigError(f"{self._refused}; start the same command again for the other runs")
        return self.summary

    def _stop(self, signum: int, _: Any) -> None:
        """First signal: end the runs in progress and write their rows; second: exit at once."""
        if self.summary.stopped_by is not None:
            os._exit(128 + signum)
        self.summary.stopped_by = signum
        sys.stderr.write("\nstopping: the runs in progress are ended (again: at once)\n")

    def _along_paths(self, todo: list[Run]) -> deque[list[Run]]:
        """Groups of runs of one regularisation path, so small that every job gets a group."""
        paths: dict[str, list[Run]] = {}
        for run in todo:
            paths.setdefault(run.path_id or run.key, []).append(run)
        max_runs = math.ceil(len(todo) / self.settings.parallel.at_once)
        return deque(
            runs[i : i + max_runs] for runs in paths.values() for i in range(0, len(runs), max_runs)
        )

    def _loop(self, todo: deque[list[Run]]) -> None:
        """Do groups of runs, each in a slot, until all are done or the command is stopped."""
        reserved: deque[list[Run]] = deque()  # runs that another runner has reserved
        slots = list(range(self._n_slots))
        last_message_at = time.monotonic()
        while todo or reserved or self._jobs:
            # Rows that existed before do not count.
            n_failed = self.summary.written.total() - self.summary.written["ok"]
            stops = self.settings.on_error == "stop" and n_failed > 0
            if stops:
                self.summary.not_begun += sum(map(len, [*todo, *reserved]))
            if self.summary.stopped_by is not None or self._refused or stops:
                todo.clear()
                reserved.clear()
            if self.summary.stopped_by is not None:
                for job in self._jobs:
                    job.interrupt()
            while slots and (todo or reserved):
                if not todo:  # try again to reserve these runs
                    todo, reserved = reserved, todo
                runs = [run for run in todo.popleft() if self._reserve(run, reserved)]
                if runs:
                    self._start(runs, slots.pop(0))
                elif not todo:  # other runners still have them
                    break
            for job in self._workers.ready(list(self._jobs), timeout=_POLL_S):  # type: ignore[arg-type]
                outcome = job.news()
                if outcome is None:
                    continue
                slot, not_begun = self._finish(self._jobs.pop(job), outcome)
                slots.append(slot)
                if not_begun:
                    todo.appendleft(not_begun)
            self._show_progress()
            if self._jobs or not reserved:
                last_message_at = time.monotonic()
            elif time.monotonic() > last_message_at + MESSAGE_INTERVAL_S:
                last_message_at = time.monotonic()
                n_runs = counted(len(reserved), "run")
                _LOG.warning(f"{n_runs} to do, waiting for another command that does the same")

    def _reserve(self, run: Run, reserved: deque[list[Run]]) -> bool:
        """Reserve the run; False if it is unwanted, done, or reserved by another runner."""
        if self._skip(run):
            return False
        if not self._reservations.take(run.key):
            reserved.append([run])
            return False
        if self.settings.rerun == "none":  # another runner may have done it meanwhile
            row = self.folder.latest(run.key, environment_of(self.plan), run.threads)
            if row is not None and not _is_repeated(self.settings, row, run):
                self._count_finished(run, row)
                self._reservations.give_back(run.key)
                return False
        return True

    def _count_finished(self, run: Run, row: Mapping[str, Any]) -> None:
        status = str(row["status"])
        self.summary.before[status] += 1
        self.summary.other_tag += self.settings.tag not in (None, row.get("tag"))
        if status != "ok":
            self.summary.failed.append((run, status, row.get("message") or ""))

    def _start(self, runs: list[Run], slot: int) -> None:
        first = runs[0]
        keep = self.settings.keep_model
        task = replace(
            self.plan.task(first),
            cpus=_cpus(slot, first.threads),
            path=tuple(dict(run.params) for run in runs) if len(runs) > 1 else (),
            model=str(self.folder.model_path(first.key).absolute()) if keep else None,
            scheduler=self._scheduler,
        )
        # The start is taken first, because this process may be suspended after the worker starts.
        started = datetime.now(UTC)
        job = self._workers.start(work, task, first.limits, task.n_runs)
        self._jobs[job] = _InProgress(runs, started, slot, time.monotonic())

    def _show_progress(self) -> None:
        now = time.monotonic()
        self._progress.running(
            [
                Running(run.label, job.state, now - in_progress.since, run.params.get("tol"))
                for job, in_progress in self._jobs.items()
                for run in in_progress.runs[:1]
            ]
        )

    def _finish(self, ended: _InProgress, outcome: RunOutcome) -> tuple[int, list[Run]]:
        """Write the rows of a worker that ended; returns its slot and the runs it did not begin."""
        if outcome.status == REFUSED:
            if self.summary.stopped_by is None:
                self._refused = outcome.message
            for run in ended.runs:
                self._reservations.give_back(run.key)
            return ended.slot, []
        for run, result in zip(ended.runs, outcome.all, strict=False):
            self._write(run, result, ended.started_at)
        not_begun = ended.runs[len(outcome.all) :]
        for run in not_begun:
            self._reservations.give_back(run.key)
        return ended.slot, not_begun

    def _write(self, run: Run, outcome: RunOutcome, started: datetime) -> None:
        """Write the row of a run that has ended, and its model, curves and log."""
        self._reservations.require_folder()
        if outcome.provenance is not None:
            self.folder.store_environment(outcome.provenance.environment)
        try:
            if outcome.model is not None:
                with atomic_file(self.folder.model_path(run.key)) as file:
                    file.write(outcome.model)
            row = self.row(run, outcome, started)
            self.folder.write(row, outcome.result.get("curves") or ())
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"the worker's report is malformed ({quoted(with_type(error))})"
            outcome = replace(outcome, status="error", message=message, result={})
            row = self.row(run, outcome, started)
            self.folder.write(row)
        if outcome.log:
            self.folder.write_log(run.key, outcome.log)
        self._reservations.give_back(run.key)
        self.summary.written[outcome.status] += 1
        if outcome.status != "ok":
            self.summary.failed.append((run, outcome.status, outcome.message))
        self._progress.finished(run.label, row)
        self._callbacks(row)

    def row(self, run: Run, outcome: RunOutcome, started: datetime) -> dict[str, Any]:
        """The row of one attempt."""
        origin = outcome.provenance or self.provenance
        measured = dict(outcome.result.get("row") or {})
        messages = [outcome.message, measured.pop("message", None)]
        if outcome.children_peak_bytes and measured.get("peak_bytes") is not None:
            measured["peak_bytes"] += outcome.children_peak_bytes
        if outcome.status == "ok":
            for name in _MEASURED:
                if measured.get(name) is None:
                    raise ValueError(f"no {name} in the report of a run that is ok")
        return {
            "attempt": self.folder.next_attempt(run.key, origin.environment_id, run.threads),
            "status": outcome.status,
            "message": "; ".join(filter(None, messages)) or None,
            "tag": self.settings.tag,
            "preset": run.params.get("preset"),
            "params": run.params_key,
            "peak_bytes": outcome.peak_bytes,
            **measured,
            **{name: getattr(run, name) for name in _RUN_COLUMNS},
            "jobs": outcome.at_once or self.settings.parallel.jobs,
            "environment": origin.environment_id,
            "kbench_version": origin.version,
            "commit": origin.commit,
            "dirty": origin.dirty,
            "source_sha256": source_sha256(run.estimator),
            "started_at": outcome.began or started,
            # The last 2,000 characters; `write_log` stores more of the output. Set by hand.
            "log": outcome.log[-2000:] or None,
        }


def _cpus(slot: int, threads: int) -> tuple[int, ...] | None:
    """CPUs for the workers of a slot; None if the system has no CPU affinity. The first CPU depends
    on the process id, so that simultaneous runners rarely share CPUs.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    first = os.getpid() + slot * threads
    return tuple(sorted({allowed[(first + i) % len(allowed)] for i in range(threads)}))
