"""Scores of a run's predictions: the metrics of each task, as scikit-learn defines them.

Plain NumPy on arrays of a million predictions; the tests compare every value with scikit-learn's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class MetricSpec:
    """A score by the name of its column, and whether higher or lower values are better."""

    name: str
    direction: Literal["max", "min"]
    function: Callable[[Array, Array], float]  # of y_true and y_pred, (n,) each


def accuracy(y_true: Array, y_pred: Array) -> float:
    """Fraction of labels that agree."""
    return float(np.mean(y_true == y_pred))


def error(y_true: Array, y_pred: Array) -> float:
    """Fraction of labels that differ."""
    return float(np.mean(y_true != y_pred))


def balanced_accuracy(y_true: Array, y_pred: Array) -> float:
    """Mean recall over the classes that occur in `y_true`."""
    true_positives, actual, _ = _counts(y_true, y_pred)
    occurring = actual > 0
    return float(np.mean(true_positives[occurring] / actual[occurring]))


def f1_positive(y_true: Array, y_pred: Array) -> float:
    """F1 of the class +1 of a binary problem; 0 where it is undefined."""
    hits = np.count_nonzero((y_true == 1) & (y_pred == 1))
    total = np.count_nonzero(y_true == 1) + np.count_nonzero(y_pred == 1)
    return 2.0 * hits / total if total else 0.0


def f1_macro(y_true: Array, y_pred: Array) -> float:
    """Unweighted mean F1 over the classes that occur in `y_true` or `y_pred`."""
    true_positives, actual, predicted = _counts(y_true, y_pred)
    return float(np.mean(2.0 * true_positives / (actual + predicted)))


def rmse(y_true: Array, y_pred: Array) -> float:
    """Root of the mean squared error, in the target's unit."""
    return float(np.sqrt(np.mean(_residual(y_true, y_pred) ** 2)))


def mae(y_true: Array, y_pred: Array) -> float:
    """Mean absolute error, in the target's unit."""
    return float(np.mean(np.abs(_residual(y_true, y_pred))))


def r2(y_true: Array, y_pred: Array) -> float:
    """Coefficient of determination; for a constant target 1 if every prediction is exact, or 0."""
    target = np.asarray(y_true, dtype=np.float64)
    unexplained = float(np.sum(_residual(y_true, y_pred) ** 2))
    if target.min() == target.max():
        return 1.0 if unexplained == 0.0 else 0.0
    return 1.0 - unexplained / float(np.sum((target - target.mean()) ** 2))


def roc_auc(positive: Array, scores: Array) -> float:
    """Area under the ROC curve: the chance that a positive row scores above a negative one.

    Ties count one half (Mann and Whitney). O(n log n).
    """
    hits, false_alarms = _cumulated(positive, scores)
    # Trapezoids in whole numbers: exact up to the division.
    heights = hits + np.concatenate([[0], hits[:-1]])
    area = np.sum(np.diff(false_alarms, prepend=0) * heights, dtype=np.float64)
    return float(area / (2.0 * hits[-1] * false_alarms[-1]))


def average_precision(positive: Array, scores: Array) -> float:
    """sum_k (R_k - R_(k-1)) P_k over the distinct scores from the highest down. O(n log n)."""
    hits, false_alarms = _cumulated(positive, scores)
    gained = np.diff(hits, prepend=0) / hits[-1]
    return float(np.sum(gained * (hits / (hits + false_alarms))))


# Metrics of decision values or probabilities instead of labels: function(positive, scores) takes
# two arrays of shape (n,). With more than two classes: the mean over one-vs-rest problems.
RANKINGS: tuple[MetricSpec, ...] = (
    MetricSpec("roc_auc", "max", roc_auc),
    MetricSpec("average_precision", "max", average_precision),
)

_CLASSIFICATION = (
    MetricSpec("accuracy", "max", accuracy),
    MetricSpec("error", "min", error),
    MetricSpec("balanced_accuracy", "max", balanced_accuracy),
)

# Task -> its metrics; the first one is the default of reports and of `kbench tune`.
METRICS: dict[str, tuple[MetricSpec, ...]] = {
    "binary": (*_CLASSIFICATION, MetricSpec("f1", "max", f1_positive)),
    "multiclass": (*_CLASSIFICATION, MetricSpec("f1", "max", f1_macro)),
    "regression": (
        MetricSpec("rmse", "min", rmse),
        MetricSpec("mae", "min", mae),
        MetricSpec("r2", "max", r2),
    ),
    "outlier": RANKINGS,
}


def score(task: str, y_true: Array, y_pred: Array) -> dict[str, float]:
    """Every metric of the predictions y_pred : (n,) of targets y_true : (n,), n >= 1, by column.

    Labels of a binary task are -1 and +1. Outlier tasks have those of `rank_outliers` alone.

    Raises ValueError: the predictions have another shape than the targets, or are NaN or infinite:
    the method failed, and a score would hide that.
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_pred.shape != y_true.shape:
        several = "; several quantiles are several runs: -m method.quantile=0.1,0.5,0.9"
        raise ValueError(
            f"predictions have shape {y_pred.shape}, the targets {y_true.shape}"
            + (several if y_pred.ndim == 2 and task == "regression" else "")
        )
    if y_pred.dtype.kind == "f" and not np.isfinite(y_pred).all():
        count = np.count_nonzero(~np.isfinite(y_pred))
        raise ValueError(f"{count} of {len(y_pred)} predictions are NaN or infinite")
    metrics = () if task == "outlier" else METRICS[task]
    return {metric.name: metric.function(y_true, y_pred) for metric in metrics}


def class_scores(estimator: Any, X: Any) -> Array | None:
    """Decision values, or else probabilities, of rows X : (n, d).

    Returns (n,) for two classes where they are decision values, else (n, n_classes); None where the
    estimator has neither.
    """
    names = ["decision_function", "predict_proba"]
    if getattr(estimator, "decision_function_shape", None) == "ovo":
        names = names[1:]  # these decision values belong to pairs of classes, not to classes
    for name in names:
        if hasattr(estimator, name):
            return np.asarray(getattr(estimator, name)(X))
    return None


def rank(y_true: Array, scores: Array | None, classes: Array) -> dict[str, float | None]:
    """Every ranking metric by the name of its column; None where it is undefined.

    y_true : (n,) labels. scores : as of `class_scores`. classes : (n_classes,) labels in the order
    of the columns of `scores`; of two the last is the positive one.

    Undefined without scores, for scores that are NaN or infinite, for labels that are not among
    `classes`, and where `y_true` has one class only. Of several classes those that do not occur in
    `y_true` are left out of the mean.
    """
    undefined: dict[str, float | None] = dict.fromkeys((m.name for m in RANKINGS), None)
    occurring = np.unique(y_true)
    if scores is None or len(occurring) < 2 or not np.isin(occurring, classes).all():
        return undefined
    if len(classes) == 2 and scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    if scores.shape != (len(y_true), len(classes)) or not np.isfinite(scores).all():
        return undefined
    scored = [1] if len(classes) == 2 else np.flatnonzero(np.isin(classes, occurring))
    return {
        metric.name: float(
            np.mean([metric.function(y_true == classes[k], scores[:, k]) for k in scored])
        )
        for metric in RANKINGS
    }


def rank_outliers(estimator: Any, X: Any, y_true: Array) -> dict[str, float | None]:
    """Every ranking metric of the outliers among rows X : (n, d) by the name of its column.

    The outliers, -1 in y_true : (n,), are the positive rows, and score the higher the lower their
    decision value is. None where all rows are outliers, or none is.

    Raises ValueError: the estimator has no decision values, or some are NaN or infinite.
    """
    if not hasattr(estimator, "decision_function"):
        raise ValueError(
            f"{type(estimator).__name__} has no decision_function, by which outliers are scored"
        )
    values = np.asarray(estimator.decision_function(X))
    if not np.isfinite(values).all():
        count = np.count_nonzero(~np.isfinite(values))
        raise ValueError(f"{count} of {len(values)} decision values are NaN or infinite")
    return rank(y_true, -values, np.array([1, -1]))


# Names of the curves of `reliability`.
RELIABILITY, RELIABILITY_ROWS, RELIABILITY_X = "accuracy", "rows", "confidence"
# Groups of equal width of the probability of the predicted class, as in Guo et al. (2017).
_GROUPS = 15


def reliability(y_true: Array, probabilities: Array, classes: Array) -> list[dict[str, Any]]:
    """Whether predictions are right as often as probabilities : (n, n_classes) say, in two curves.

    The rows are divided by the probability of the predicted class into 15 groups of equal width.
    The abscissa of a group is its mean probability; the curves are its fraction of right
    predictions and its fraction of all rows. Groups without rows are left out; there are no curves
    where probabilities are not finite or of another shape.
    """
    P = np.asarray(probabilities, np.float64)
    if P.shape != (len(y_true), len(classes)) or not np.isfinite(P).all():
        return []
    confidence = P.max(axis=1)
    right = classes[P.argmax(axis=1)] == y_true
    group = np.minimum((confidence * _GROUPS).astype(np.intp), _GROUPS - 1)
    n = np.bincount(group, minlength=_GROUPS)
    known = n > 0
    x = (np.bincount(group, confidence, _GROUPS)[known] / n[known]).tolist()
    accuracy = np.bincount(group, right, _GROUPS)[known] / n[known]
    fractions = {RELIABILITY: accuracy, RELIABILITY_ROWS: n[known] / len(group)}
    return [
        {"curve": name, "x_name": RELIABILITY_X, "x": x, "value": values.tolist()}
        for name, values in fractions.items()
    ]


def _cumulated(positive: Array, scores: Array) -> tuple[Array, Array]:
    """Positive and negative rows that score at least each distinct score, from the highest down."""
    order = np.argsort(scores, kind="stable")[::-1]
    falling = scores[order]
    last = np.append(np.flatnonzero(falling[1:] != falling[:-1]), len(falling) - 1)
    hits = np.cumsum(positive[order])[last]
    return hits, 1 + last - hits


def _residual(y_true: Array, y_pred: Array) -> NDArray[np.float64]:
    # float64 first: float32 sums over a million rows lose digits.
    return np.subtract(y_true, y_pred, dtype=np.float64)


def _counts(y_true: Array, y_pred: Array) -> tuple[Array, Array, Array]:
    """True positives, actual and predicted members of each class; each of shape (n_classes,)."""
    classes, codes = np.unique(np.concatenate([y_true, y_pred]), return_inverse=True)
    true, predicted = codes[: len(y_true)], codes[len(y_true) :]
    n = len(classes)
    return (
        np.bincount(true[true == predicted], minlength=n),
        np.bincount(true, minlength=n),
        np.bincount(predicted, minlength=n),
    )
