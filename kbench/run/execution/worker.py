"""The process of one run: load, warm up, fit, predict, score, report.

The sandbox calls `work`, which reports {"event": "start"} when the clocks of the limits begin, each
phase, and {"event": "result", "status": ..., "row": ..., "curves": ...} at the end. Everything that
the process prints goes to the run's log.
"""

import contextlib
import functools
import inspect
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kbench.chunked import ChunkedRows
from kbench.compiling import CompileClock
from kbench.errors import KbenchError, UnavailableError, one_line, quoted, with_type
from kbench.run.execution import chunked, fitted_columns, measure, processes
from kbench.run.execution.dask_fit import joblib_on
from kbench.run.execution.guard import Send
from kbench.run.execution.learning import LearningCurves
from kbench.run.planning import registry
from kbench.run.planning.task import Task
from kbench.run.results import added_scores, metrics
from kbench.trace import Trace

# Rows of the warm-up fit. More rows compile more of what the fit needs, and delay the fit. Set by
# hand.
WARMUP_ROWS = 256
# Guard: points of a curve that a row keeps; 10,000 points of two float64 take 160 kB.
MAX_CURVE_POINTS = 10_000
# Warnings in a row's message, and characters of the error of a fit; the log has all. Set by hand.
_SHOWN_WARNINGS, _ERROR_CHARS = 3, 500
# Seconds between reports of a fit in progress; the live line changes once a second. Set by hand.
REPORT_EVERY_S = 0.5

Curves = dict[str, tuple[list[float], list[float]]]  # name -> (seconds, values)


@dataclass
class SharedState:
    """Data and estimator that the runs of one regularisation path pass on to each other."""

    data: Any = None
    estimator: Any = None


def work(task: Task, send: Send) -> None:
    """Do the run, or each run of the regularisation path, of `task`, and send a result for each."""
    live = Live(send)
    shared = SharedState()
    for step in task.steps():
        if not _do_run(step, live, shared):
            shared = SharedState()


def _do_run(task: Task, live: "Live", shared: SharedState) -> bool:
    """Do one run and send its result; returns whether its status is ok."""
    try:
        set_threads(task.run.threads, task.cpus)
        row, curves = run(task, live, shared)
    except UnavailableError as error:
        live.failed("unavailable", str(error))
    except KbenchError as error:
        live.failed("error", str(error))
    except MemoryError as error:
        traceback.print_exc()
        text = one_line(error) or "out of memory"
        live.failed("memory", f"MemoryError: {text}")
    except BaseException as error:
        traceback.print_exc()
        live.failed("error", one_line(with_type(error), _ERROR_CHARS))
    else:
        live.send({"event": "result", "status": "ok", "row": row, "curves": curves})
        return True
    return False


class Live:
    """Sends messages about a run in progress to its guard.

    The guard cannot count the CPU seconds of a fit that has ended, or that has a trace, which may
    pause. Messages then have these seconds.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self._fit_cpu_s: Callable[[], float] | None = None
        self.compiled = CompileClock(lambda on: send({"event": "compiling", "on": on}))
        self._phase_at = self._progress_at = 0.0

    def started(self, fit_cpu_s: Callable[[], float] | None) -> None:
        """Start the clocks of the limits; `fit_cpu_s` reads the CPU seconds of the fit, if any."""
        self._fit_cpu_s = fit_cpu_s
        self.send({"event": "start"})
        self.phase("fit")

    def fitted(self, cpu_s: float) -> None:
        self._fit_cpu_s = lambda: cpu_s
        self.phase("predict")

    def phase(self, name: str) -> None:
        self._phase_at = time.monotonic() + REPORT_EVERY_S
        self._tell({"event": "phase", "phase": name})

    def phase_of_fit(self, name: str) -> None:
        """Report a phase that the method named, unless another phase was reported just before."""
        if time.monotonic() >= self._phase_at:
            self.phase(f"fit: {name}")

    def progress(self, state: dict[str, Any]) -> None:
        now = time.monotonic()
        if now >= self._progress_at:
            self._progress_at = now + REPORT_EVERY_S
            numbers = {name: float(value) for name, value in state.items() if _is_number(value)}
            if numbers:
                self._tell({"event": "progress", "state": numbers})

    def _tell(self, message: dict[str, Any]) -> None:
        clock = self._fit_cpu_s
        self.send(message if clock is None else {**message, "fit_cpu_s": clock()})

    def failed(self, status: str, message: str) -> None:
        self.send({"event": "result", "status": status, "message": message})


class _LiveTrace(Trace):
    """A trace that reports phases as they begin, and whose clock is paused while numba compiles."""

    def __init__(self, callback: Callable[[float, dict[str, Any]], None], live: Live) -> None:
        self._live = live
        super().__init__(callback)
        self._began = self.cpu_s()

    def restart(self) -> None:
        super().restart()
        self._began = self.cpu_s()

    def wall_s(self) -> float:
        return super().wall_s() - self._live.compiled.wall_s

    def cpu_s(self) -> float:
        return super().cpu_s() - self._live.compiled.cpu_s

    def fit_cpu_s(self) -> float:
        """CPU seconds of this process since the start, without pauses."""
        return self.cpu_s() - self._began - self.paused_cpu_s

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        self._live.phase_of_fit(name)
        return super().phase(name)


def set_threads(threads: int, cpus: Sequence[int] | None) -> None:
    """Limit every thread pool of this process and of its child processes to `threads`.

    The CPU affinity limits the pools that have no such setting (TBB, oneDAL).
    """
    for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)
    if cpus and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cpus)
    if "numba" in sys.modules:
        from numba.core import config

        config.reload_config()
    thread_pools().limit(limits=threads)


@functools.cache
def thread_pools() -> Any:
    """The thread pools of the loaded libraries; the fork server finds them once for all workers.

    A library that is loaded later reads its number of threads from the environment.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run(task: Task, live: Live, shared: SharedState) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The measured columns of a run's row, and its curves.

    Raises Exception: whatever the method raises; the caller turns it into a row.
    """
    from kbench.cost import COUNTS_CPU
    from kbench.data import open_prepared

    live.phase("load")
    begin = time.perf_counter()
    data = shared.data
    if data is None:
        data = open_prepared(Path(task.prepared), task.holdout)
        for X in (data.X_train, data.X_test):
            _load_pages(X)
    load_s = time.perf_counter() - begin

    live.phase("warm up")
    begin = time.perf_counter()
    params = dict(task.run.params) | ({"warm_start": True} if task.path else {})
    if shared.estimator is not None:
        estimator = shared.estimator.set_params(
            **registry.nested_params(task.run.estimator, params)
        )
    else:
        estimator = registry.build(task.run.estimator, params, task.run.seed)
        live.compiled.listen()
        _warm_up(task, data)
    warmup_s = time.perf_counter() - begin
    rows = chunked.rows_in_chunks(task, data, estimator)
    training = _fit_arguments(task, data.X_train, data.y_train) if rows is None else (rows.train,)
    X_test = data.X_test if rows is None else rows.test

    kind = task.run.task
    curves: Curves = {}
    in_unit = data.preparation.target.scored
    learning = LearningCurves(kind, data.X_test, data.y_test, in_unit)

    def on_trace(seconds: float, state: dict[str, Any]) -> None:
        _record(curves, seconds, state)
        live.progress(state)
        if task.holdout is None:
            with live.compiled.ignored():  # the trace has already stopped the clock of the fit
                learning.observe(seconds, state)

    trace = _LiveTrace(on_trace, live)
    keywords = {"trace": trace} if "trace" in inspect.signature(estimator.fit).parameters else {}
    rows_folder = None if rows is None else Path(task.prepared)
    with _warnings() as warning_log:
        warm_up = functools.partial(_warm_up_on_cluster, task)
        with joblib_on(task.scheduler, warm_up, rows_folder) as workers_cpu_s:
            live.started(trace.fit_cpu_s if keywords else None)
            trace.restart()
            contention = measure.Contention(lambda: measure.own_cpu_s() + workers_cpu_s())
            with (
                processes.PeakMemory() as peak,
                measure.Stopwatch(live.compiled, workers_cpu_s) as fit,
            ):
                estimator.fit(*training, **keywords)
            contention.close()
        fit_cpu_s = max(0.0, fit.cpu_s - trace.paused_cpu_s)
        live.fitted(fit_cpu_s)
        predicted, predict_wall_s, predict_cpu_s = measure.timed_call(
            lambda: estimator.predict(X_test), live.compiled
        )
    if task.path:
        shared.data, shared.estimator = data, estimator
    live.phase("score")
    fit_wall_s = max(0.0, fit.wall_s - trace.paused_wall_s)
    learning.close(fit_wall_s, predicted)
    predicted_rows = added_scores.Predictions(
        kind, estimator, data.X_test, in_unit(data.y_test), in_unit(predicted)
    )
    extra_scores, score_notes = added_scores.measured_scores(task.metrics, predicted_rows)
    row = {
        "n_train": int(data.X_train.shape[0]),
        "n_test": int(data.X_test.shape[0]),
        "n_features": int(data.X_train.shape[1]),
        "n_classes": data.n_classes,
        "density": fitted_columns.density(data.X_train),
        **metrics.score(kind, predicted_rows.y, predicted_rows.labels),
        **added_scores.quantile_columns(predicted_rows),
        **fitted_columns.rankings(estimator, data),
        **fitted_columns.target_errors(kind, estimator, data),
        "scores": extra_scores or None,
        "fit_wall_s": fit_wall_s,
        "fit_cpu_s": fit_cpu_s,
        "predict_wall_s": predict_wall_s,
        "predict_cpu_s": predict_cpu_s,
        "preempted": contention.preempted,
        "other_cpus": contention.other_cpus,
        "load_s": load_s,
        "warmup_s": warmup_s,
        "phases": dict(getattr(estimator, "timings_", None) or trace.timings) or None,
        "phases_cpu": dict(trace.cpu_timings) or None,
        **fitted_columns.costs(
            task, estimator, data, predict_cpu_s if COUNTS_CPU else predict_wall_s
        ),
        "peak_bytes": peak.bytes,
        **fitted_columns.fitted_attributes(estimator, converged=warning_log.converged),
        **fitted_columns.kept_model(task, estimator, data),
    }
    notes = [warning_log.note(), row.get("message"), *score_notes, *data.notes]
    if rows is not None:
        # The worker's peak counts pages of mapped files, which the system can reclaim. The row has
        # the guard's peak instead, which does not count such pages.
        del row["peak_bytes"]
        notes = [rows.note, *getattr(estimator, "notes_", ()), *notes]
    if any(notes):
        row["message"] = "; ".join(note for note in notes if note)
    return row, [
        *(
            {"curve": name, "x_name": "seconds", "x": seconds, "value": values}
            for name, (seconds, values) in curves.items()
        ),
        *learning.curves(),
        *fitted_columns.path_curves(kind, estimator, data),
        *fitted_columns.reliability_curves(estimator, data),
    ]


def _load_pages(X: Any) -> None:
    """Bring every page of a memory-mapped array into RAM, outside the clock of the fit."""
    for array in chunked.arrays_of(X):
        if array.size:
            # One value of every 4096 bytes, the smallest page of x86 and ARM.
            array.reshape(-1)[:: max(1, 4096 // array.itemsize)].max()


def _warm_up(task: Task, data: Any) -> None:
    """Fit and predict on a few rows, which compiles, starts BLAS and imports what the fit needs.

    An error is ignored here, because the fit raises and reports it again.
    """
    with contextlib.suppress(Exception):
        rehearse(task, data, WARMUP_ROWS)


def rehearse(task: Task, data: Any, n: int) -> None:
    """Fit the run's estimator to about n training rows and predict; their errors are raised."""
    # The folds of a calibration may be too small on so few rows.
    params = {**task.run.params, **task.run.warmup, "calibration": None}
    rows = _some_rows(data.y_train, n, classes=data.n_classes is not None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = registry.build(task.run.estimator, params, task.run.seed)
        X, y = _take(data.X_train, rows), data.y_train[rows]
        if chunked.wants_chunks(task, data, estimator):
            estimator.fit(ChunkedRows.of_arrays(X, y))
        else:
            estimator.fit(*_fit_arguments(task, X, y))
        estimator.predict(_take(data.X_test, np.arange(min(n, data.X_test.shape[0]))))


def _fit_arguments(task: Task, X: Any, y: np.ndarray) -> tuple[Any, ...]:
    """The arguments of `fit`: rows and targets, or only rows if the targets mark outliers."""
    return (X,) if task.run.task == "outlier" else (X, y)


def _warm_up_on_cluster(task: Task) -> None:
    """`_warm_up` in a process of a cluster, which has imported and compiled nothing yet."""
    from kbench.data import open_prepared

    with contextlib.suppress(Exception):  # the fit reports any error, such as an absent folder
        _warm_up(task, open_prepared(Path(task.prepared), task.holdout))


def _some_rows(y: np.ndarray, n: int, *, classes: bool) -> np.ndarray:
    """Indices of at most n evenly spaced rows, and of the first row of each class."""
    rows = np.linspace(0, len(y) - 1, min(n, len(y))).astype(np.intp)
    if classes:
        rows = np.concatenate([rows, np.unique(y, return_index=True)[1]])
    return np.unique(rows)


def _take(X: Any, rows: np.ndarray) -> Any:
    """Rows of X as read-only arrays, the types for which the fit's functions are compiled."""
    X_rows = X[rows]
    for array in chunked.arrays_of(X_rows):
        array.flags.writeable = False
    return X_rows


@dataclass
class _Warned:
    """Warnings of a fit and its predictions that the row's message names."""

    texts: list[str] = field(default_factory=list)  # each once, in order
    converged: bool = True  # False if one was a ConvergenceWarning

    def add(self, message: Any, category: type[Warning]) -> None:
        from sklearn.exceptions import ConvergenceWarning

        self.converged &= not issubclass(category, ConvergenceWarning)
        text = quoted(message)
        if issubclass(category, (UserWarning, RuntimeWarning)) and text not in self.texts:
            self.texts.append(text)

    def note(self) -> str | None:
        """The warnings as a text for the row's message; None without warnings."""
        n = len(self.texts) - _SHOWN_WARNINGS
        shown = self.texts[:_SHOWN_WARNINGS] + ([f"and {n} more warnings"] if n > 0 else [])
        return "; ".join(shown) or None


@contextlib.contextmanager
def _warnings() -> Iterator[_Warned]:
    """Print warnings to the log, one line each, and collect them."""
    warning_log = _Warned()
    with warnings.catch_warnings():
        warnings.simplefilter("default")

        def note(message: Any, category: Any, *_: Any, **__: Any) -> None:
            warning_log.add(message, category)
            print(f"{category.__name__}: {message}", file=sys.stderr)

        warnings.showwarning = note
        yield warning_log


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating))


def _record(curves: Curves, seconds: float, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if _is_number(value):
            x, values = curves.setdefault(name, ([], []))
            if len(x) < MAX_CURVE_POINTS:
                x.append(seconds)
                values.append(float(value))
