"""One run, in its own process: load, warm up, fit, predict, score, report.

`work` is what the sandbox calls. It reports {"event": "start"} when the clocks of the limits
begin, and {"event": "result", "status": ..., "row": ..., "curves": ...} at its end; everything
that it prints goes to the run's log.
"""

import contextlib
import inspect
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kbench.errors import KbenchError, UnavailableError
from kbench.run import measure, metrics, processes, registry
from kbench.run.learning import LearningCurves
from kbench.trace import Trace

WARMUP_ROWS = 256
MAX_CURVE_POINTS = 10_000

Curves = dict[str, tuple[list[float], list[float]]]  # name -> (seconds, values)


def work(task: dict[str, Any], send: Callable[[dict[str, Any]], None]) -> None:
    """Do the run that `task` describes and send its row; or each of the runs of its path.

    Parameters
    ----------
    task : estimator (module:Class), params, warmup, seed, task, prepared (folder), holdout,
        threads, cpus, about (what a kept model says of its run), model (file to keep it in, where
        asked for), path (runs that differ in their params, {"params": ...} each: one estimator is
        fitted to all of them in turn, with `warm_start`; times are those of the step).
    """
    kept: dict[str, Any] = {}
    for step in task.get("path", [{}]):
        _attempt(task | step, send, kept)


def _attempt(
    task: dict[str, Any], send: Callable[[dict[str, Any]], None], kept: dict[str, Any]
) -> None:
    try:
        set_threads(task["threads"], task.get("cpus"))
        row, curves = run(task, lambda: send({"event": "start"}), kept)
    except UnavailableError as error:
        send({"event": "result", "status": "unavailable", "message": str(error)})
    except KbenchError as error:
        send({"event": "result", "status": "error", "message": str(error)})
    except MemoryError as error:
        traceback.print_exc()
        text = " ".join(str(error).split()) or "out of memory"
        send({"event": "result", "status": "memory", "message": f"MemoryError: {text}"})
    except BaseException as error:
        traceback.print_exc()
        text = " ".join(str(error).split())
        message = f"{type(error).__name__}: {text}"[:500]
        send({"event": "result", "status": "error", "message": message})
    else:
        send({"event": "result", "status": "ok", "row": row, "curves": curves})
        return
    kept.clear()


def set_threads(threads: int, cpus: list[int] | None) -> None:
    """Hold every pool of threads, of this process and of those it starts, to `threads`.

    The affinity binds those that no call reaches (TBB, oneDAL).
    """
    for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA"):
        os.environ[f"{name}_NUM_THREADS"] = str(threads)
    if cpus and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cpus)
    if "numba" in sys.modules:
        from numba.core import config

        config.reload_config()
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=threads)


def run(
    task: dict[str, Any], started: Callable[[], None], kept: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The measured columns of a run's row, and its curves.

    `kept` holds the data and the estimator from one run of a path to the next.

    Raises
    ------
    Exception
        Whatever the method raises; the caller decides what becomes of it.
    """
    # The runner imports this module, too: only the fork server has use for compiled code.
    from kbench.cost import COUNTS_CPU, linear_prediction_s, prediction_s, row_loop_s
    from kbench.data import open_prepared

    begin = time.perf_counter()
    data = kept.get("data")
    if data is None:
        data = open_prepared(Path(task["prepared"]), task.get("holdout"))
        for X in (data.X_train, data.X_test):
            _touch(X)
    load_s = time.perf_counter() - begin

    begin = time.perf_counter()
    params = task["params"] | ({"warm_start": True} if "path" in task else {})
    if kept:
        estimator = kept["estimator"].set_params(**registry.nested(task["estimator"], params))
    else:
        estimator = registry.build(task["estimator"], params, task["seed"])
        _warm_up(task, data)
    warmup_s = time.perf_counter() - begin

    curves: Curves = {}
    learning = LearningCurves(task["task"], data.X_test, data.y_test)

    def look(seconds: float, state: dict[str, Any]) -> None:
        _record(curves, seconds, state)
        if task.get("holdout") is None:
            learning.observe(seconds, state)

    trace = Trace(look)
    keywords = {"trace": trace} if "trace" in inspect.signature(estimator.fit).parameters else {}
    started()
    with _warnings() as warned:
        trace.restart()
        with processes.PeakMemory() as peak, measure.Stopwatch() as fit:
            estimator.fit(data.X_train, data.y_train, **keywords)
        predicted, predict_wall_s, predict_cpu_s = measure.timed_call(
            lambda: estimator.predict(data.X_test)
        )
    if "path" in task:
        kept |= {"data": data, "estimator": estimator}
    fit_wall_s = fit.wall_s - trace.paused_wall_s
    learning.close(fit_wall_s, predicted)
    n_outputs = data.n_classes if data.n_classes and data.n_classes > 2 else 1
    predict_s = predict_cpu_s if COUNTS_CPU else predict_wall_s
    row_s = prediction_s(estimator.predict, data.X_test, predict_s)
    row = {
        "n_train": int(data.X_train.shape[0]),
        "n_test": int(data.X_test.shape[0]),
        "n_features": int(data.X_train.shape[1]),
        "n_classes": data.n_classes,
        "density": _density(data.X_train),
        **metrics.score(task["task"], data.y_test, predicted),
        **_ranked(estimator, data),
        **_target_errors(task["task"], estimator, data),
        "fit_wall_s": fit_wall_s,
        "fit_cpu_s": fit.cpu_s - trace.paused_cpu_s,
        "predict_wall_s": predict_wall_s,
        "predict_cpu_s": predict_cpu_s,
        "load_s": load_s,
        "warmup_s": warmup_s,
        "phases": dict(getattr(estimator, "timings_", None) or trace.timings) or None,
        "prediction_cost": row_s / linear_prediction_s(data.X_test, n_outputs),
        "prediction_cost_loop": row_s / row_loop_s(data.X_test, n_outputs),
        "peak_bytes": peak.bytes,
        **_learnt(estimator, converged=not warned),
        **_kept(task, estimator, data),
    }
    told = [
        {"curve": name, "x_name": "seconds", "x": seconds, "value": values}
        for name, (seconds, values) in curves.items()
    ]
    return row, [*told, *learning.tables(), *_path(task["task"], estimator, data)]


def _path(task: str, estimator: Any, data: Any) -> list[dict[str, Any]]:
    """Scores on the test rows over a parameter of which the estimator fitted several values.

    `path_` is the parameter's name and the values, `predict_path` predicts by each of them:
    (u, number of values).
    """
    if not hasattr(estimator, "predict_path"):
        return []
    name, values = estimator.path_
    scores = [metrics.score(task, data.y_test, y) for y in estimator.predict_path(data.X_test).T]
    return [
        {"curve": metric, "x_name": name, "x": values, "value": [score[metric] for score in scores]}
        for metric in (scores[0] if scores else ())
    ]


def _density(X: Any) -> float:
    """Share of the entries of X : (n, d) that are not zero."""
    nonzeros = X.count_nonzero() if hasattr(X, "count_nonzero") else np.count_nonzero(X)
    return float(nonzeros) / math.prod(X.shape)


def _ranked(estimator: Any, data: Any) -> dict[str, float | None]:
    """Ranking metrics of a classifier; a method that fails to score its rows has none."""
    if data.n_classes is None or not hasattr(estimator, "classes_"):
        return {}
    try:
        scores = metrics.class_scores(estimator, data.X_test)
    except MemoryError:
        raise
    except Exception:
        traceback.print_exc()
        return {}
    return metrics.rank(data.y_test, scores, np.asarray(estimator.classes_))


def _kept(task: dict[str, Any], estimator: Any, data: Any) -> dict[str, str]:
    """Keep the model where the task asks for it: its place in the row, or why it has none.

    What was measured stands without the model.
    """
    if "model" not in task:
        return {}
    from kbench.prediction import save_model

    path = Path(task["model"])
    try:
        save_model(path, estimator, preparation=data.preparation.plain(), about=task["about"])
    except KbenchError as error:
        return {"message": f"the model was not kept: {error}"}
    return {"model": f"{path.parent.name}/{path.name}"}


def _target_errors(task: str, estimator: Any, data: Any) -> dict[str, float]:
    """Errors of the targets -1 and +1, for machines that fit them by squares and say so."""
    if task != "binary" or not getattr(estimator, "fits_targets", False):
        return {}
    return metrics.score("regression", data.y_test, estimator.decision_function(data.X_test))


def _touch(X: Any) -> None:
    """Bring every page of a memory-mapped array into RAM, outside the clock of the fit."""
    for array in _arrays(X):
        if array.size:
            array.reshape(-1)[:: max(1, 4096 // array.itemsize)].max()


def _warm_up(task: dict[str, Any], data: Any) -> None:
    """Fit and predict on a few rows of the same kind: compiled kernels, BLAS, first imports.

    What goes wrong here goes wrong in the fit again, and is reported there.
    """
    # The folds of a calibration may be too small on so few rows.
    params = {**task["params"], **task.get("warmup", {}), "calibration": None}
    rows = _some_rows(data.y_train, classes=data.n_classes is not None)
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        estimator = registry.build(task["estimator"], params, task["seed"])
        estimator.fit(_take(data.X_train, rows), data.y_train[rows])
        estimator.predict(_take(data.X_test, np.arange(min(WARMUP_ROWS, data.X_test.shape[0]))))


def _some_rows(y: np.ndarray, *, classes: bool) -> np.ndarray:
    """Indices of up to WARMUP_ROWS rows, spread evenly, and the first row of each class."""
    rows = np.linspace(0, len(y) - 1, min(WARMUP_ROWS, len(y))).astype(np.intp)
    if classes:
        rows = np.concatenate([rows, np.unique(y, return_index=True)[1]])
    return np.unique(rows)


def _take(X: Any, rows: np.ndarray) -> Any:
    """Rows of X as read-only arrays, so that compiled code meets the types of the real fit."""
    part = X[rows]
    for array in _arrays(part):
        array.flags.writeable = False
    return part


def _arrays(X: Any) -> tuple[np.ndarray, ...]:
    return (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)


@contextlib.contextmanager
def _warnings() -> Any:
    """Warnings go to the log, a line each; that a method did not converge is handed back."""
    from sklearn.exceptions import ConvergenceWarning

    unconverged: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("default")

        def note(message: Any, category: Any, *_: Any, **__: Any) -> None:
            if issubclass(category, ConvergenceWarning):
                unconverged.append(str(message))
            print(f"{category.__name__}: {message}", file=sys.stderr)

        warnings.showwarning = note
        yield unconverged


def _record(curves: Curves, seconds: float, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if isinstance(value, (int, float, np.integer, np.floating)):
            x, values = curves.setdefault(name, ([], []))
            if len(x) < MAX_CURVE_POINTS:
                x.append(seconds)
                values.append(float(value))


def _learnt(estimator: Any, *, converged: bool) -> dict[str, Any]:
    """What the fitted estimator says of itself, by scikit-learn's names; None where it does not."""

    def total(name: str) -> float | None:
        value = getattr(estimator, name, None)
        if value is None:
            return None
        return np.asarray(value, dtype=np.float64).sum().item()

    def count(name: str) -> int | None:
        value = total(name)
        return None if value is None else int(value)

    said = getattr(estimator, "converged_", None)
    iterates = hasattr(estimator, "n_iter_") or said is not None
    stated = count("model_bytes_")
    return {
        "objective": total("objective_"),
        "duality_gap": total("duality_gap_"),
        "n_support": count("n_support_"),
        "n_iter": count("n_iter_"),
        "kernel_entries": count("kernel_entries_"),
        "n_parameters": count("n_parameters_"),
        "prediction_flops": total("prediction_flops_"),
        "kernel_error": total("kernel_error_"),
        "converged": (converged if said is None else bool(said)) if iterates else None,
        "model_bytes": measure.pickled_bytes(estimator) if stated is None else stated,
    }
