"""Columns and curves of a row that are measured on the fitted estimator."""

import math
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kbench.errors import KbenchError
from kbench.run.execution import measure
from kbench.run.planning.task import Task
from kbench.run.results import metrics
from kbench.run.results.rows import NOT_KEPT

# Maximum number of test rows for reliability curves. More rows give more precise fractions (the
# standard error in a bin of 1,000 rows is 1.6 points at most), and cost time. Set by hand.
_RELIABILITY_ROWS = 20_000


def costs(task: Task, estimator: Any, data: Any, predict_s: float) -> dict[str, float]:
    """Prediction time as a multiple of a linear model's time, measured in the same process.

    predict_s : Seconds of `predict` for all test rows. Runs of scikit-learn's classes do not load
        numba and so have no `prediction_cost_loop`, which needs numba.
    """
    from kbench.cost import linear_prediction_s, prediction_s

    n_outputs = data.n_classes if data.n_classes and data.n_classes > 2 else 1
    row_s = prediction_s(estimator.predict, data.X_test, predict_s)
    units = {"prediction_cost": linear_prediction_s(data.X_test, n_outputs)}
    if not task.run.estimator.startswith("sklearn."):
        from kbench.run.execution.row_loop import row_loop_s

        units["prediction_cost_loop"] = row_loop_s(data.X_test, n_outputs)
    # With a limit of CPU seconds (ulimit -t) the CPU clock of Linux may show 0 s for a unit, which
    # then gives no ratio.
    return {name: row_s / unit_s for name, unit_s in units.items() if unit_s > 0}


def path_curves(task: str, estimator: Any, data: Any) -> list[dict[str, Any]]:
    """Curves of the test scores of an estimator that fitted several values of a parameter.

    `estimator.path_` : (name of the parameter, values). `predict_path(X)` : (u, number of values).
    """
    if not hasattr(estimator, "predict_path"):
        return []
    name, values = estimator.path_
    in_unit = data.preparation.target.scored
    y_test = in_unit(data.y_test)
    predicted = estimator.predict_path(data.X_test).T
    scores = [metrics.score(task, y_test, in_unit(y)) for y in predicted]
    return [
        {"curve": metric, "x_name": name, "x": values, "value": [score[metric] for score in scores]}
        for metric in (scores[0] if scores else ())
    ]


def density(X: Any) -> float:
    """Fraction of the entries of X : (n, d) that are not zero."""
    nonzeros = X.count_nonzero() if hasattr(X, "count_nonzero") else np.count_nonzero(X)
    return float(nonzeros) / math.prod(X.shape)


def rankings(estimator: Any, data: Any) -> dict[str, float | None]:
    """Ranking metrics of a classifier or an outlier detector; None for each if it has no scores."""
    if data.task == "outlier":
        return metrics.rank_outliers(estimator, data.X_test, data.y_test)
    if data.n_classes is None or not hasattr(estimator, "classes_"):
        return {}
    scores = _none_if_it_fails(lambda: metrics.class_scores(estimator, data.X_test))
    return metrics.ranking_scores(data.y_test, scores, np.asarray(estimator.classes_))


def reliability_curves(estimator: Any, data: Any) -> list[dict[str, Any]]:
    """Reliability curves of a classifier with probabilities, on the first test rows."""
    if data.n_classes is None or not hasattr(estimator, "predict_proba"):
        return []
    rows = slice(_RELIABILITY_ROWS)
    P = _none_if_it_fails(lambda: estimator.predict_proba(data.X_test[rows]))
    if P is None:
        return []
    return metrics.reliability(data.y_test[rows], P, np.asarray(estimator.classes_))


def _none_if_it_fails(compute: Callable[[], Any]) -> Any:
    """The result of `compute()`; None after an exception, which goes to the log."""
    try:
        return compute()
    except MemoryError:
        raise
    except Exception:
        traceback.print_exc()
        return None


def kept_model(task: Task, estimator: Any, data: Any) -> dict[str, str]:
    """Store the model if the task names a file; returns the column `model`, or else `message`.

    A run whose model cannot be stored is still ok, because its measurements are right.
    """
    if task.model is None:
        return {}
    from kbench.prediction import save_model

    path = Path(task.model)
    try:
        save_model(path, estimator, preparation=data.preparation.plain(), about=task.run.origin)
    except KbenchError as error:
        return {"message": f"{NOT_KEPT}: {error}"}
    return {"model": f"{path.parent.name}/{path.name}"}


def target_errors(task: str, estimator: Any, data: Any) -> dict[str, float]:
    """Regression errors on targets -1 and +1, for classifiers that fit them by least squares."""
    if task != "binary" or not getattr(estimator, "fits_targets", False):
        return {}
    return metrics.score("regression", data.y_test, estimator.decision_function(data.X_test))


def fitted_attributes(estimator: Any, *, converged: bool) -> dict[str, Any]:
    """Column -> value of the estimator's fitted attribute; None for an absent attribute.

    converged : Whether the fit gave no ConvergenceWarning, if there is no `converged_`.
    """

    def total(name: str) -> float | None:
        value = getattr(estimator, name, None)
        if value is None:
            return None
        return np.asarray(value, dtype=np.float64).sum().item()

    def count(name: str) -> int | None:
        value = total(name)
        return None if value is None else int(value)

    attribute = getattr(estimator, "converged_", None)
    iterates = hasattr(estimator, "n_iter_") or attribute is not None
    model_bytes = count("model_bytes_")
    sums = ("objective", "duality_gap", "prediction_flops", "kernel_error")
    counts = ("n_support", "n_iter", "kernel_entries", "kernel_numbers", "n_parameters")
    return {
        **{name: total(f"{name}_") for name in sums},
        **{name: count(f"{name}_") for name in counts},
        "converged": (converged if attribute is None else bool(attribute)) if iterates else None,
        "model_bytes": measure.pickled_bytes(estimator) if model_bytes is None else model_bytes,
    }
