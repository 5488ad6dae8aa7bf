"""Scores of a run's predictions: the metrics of each task, as scikit-learn defines them.

NumPy computes them without scikit-learn's import; tests compare every value with scikit-learn's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class MetricSpec:
    """A score that every row of a task has."""

    name: str  # Name of its column
    direction: Literal["max", "min"]  # Whether higher or lower values are better
    function: Callable[[Array, Array], float]  # of y_true : (n,) and y_pred : (n,)


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
    """F1 of the class +1 of a binary problem; 0 if neither array has the class."""
    true_positives = np.count_nonzero((y_true == 1) & (y_pred == 1))
    total = np.count_nonzero(y_true == 1) + np.count_nonzero(y_pred == 1)
    return 2.0 * true_positives / total if total else 0.0


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
    """Coefficient of determination; for a constant target 1 if predictions are exact, else 0."""
    target = np.asarray(y_true, dtype=np.float64)
    unexplained = float(np.sum(_residual(y_true, y_pred) ** 2))
    if target.min() == target.max():
        return 1.0 if unexplained == 0.0 else 0.0
    return 1.0 - unexplained / float(np.sum((target - target.mean()) ** 2))


def roc_auc(positive: Array, scores: Array) -> float:
    """Area under the ROC curve: the fraction of (positive, negative) pairs in the right order.

    Ties count one half (Mann and Whitney). O(n log n).
    """
    n_positives, n_negatives = _cumulative_counts(positive, scores)
    # Areas of trapezoids are whole numbers, so only the division rounds.
    heights = n_positives + np.concatenate([[0], n_positives[:-1]])
    area = np.sum(np.diff(n_negatives, prepend=0) * heights, dtype=np.float64)
    return float(area / (2.0 * n_positives[-1] * n_negatives[-1]))


def average_precision(positive: Array, scores: Array) -> float:
    """sum_k (R_k - R_(k-1)) P_k over the distinct scores from the highest down. O(n log n)."""
    n_positives, n_negatives = _cumulative_counts(positive, scores)
    recall_gains = np.diff(n_positives, prepend=0) / n_positives[-1]
    return float(np.sum(recall_gains * (n_positives / (n_positives + n_negatives))))


# Metrics of decision values or probabilities: function(positive, scores) takes two arrays of shape
# (n,). The score of more than two classes is the mean over one-vs-rest problems.
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
    """Column -> metric of the predictions y_pred : (n,) of targets y_true : (n,), n >= 1.

    Labels of a binary task are -1 and +1. Empty for outlier tasks; see `rank_outliers`.

    Raises ValueError: the shapes of predictions and targets differ, or predictions are NaN or
    infinite.
    """
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_pred.shape != y_true.shape:
        hint = "; several quantiles are several runs: -m method.quantile=0.1,0.5,0.9"
        raise ValueError(
            f"predictions have shape {y_pred.shape}, the targets {y_true.shape}"
            + (hint if y_pred.ndim == 2 and task == "regression" else "")
        )
    if y_pred.dtype.kind == "f" and not np.isfinite(y_pred).all():
        count = np.count_nonzero(~np.isfinite(y_pred))
        raise ValueError(f"{count} of {len(y_pred)} predictions are NaN or infinite")
    metrics = () if task == "outlier" else METRICS[task]
    return {metric.name: metric.function(y_true, y_pred) for metric in metrics}


def class_scores(estimator: Any, X: Any) -> Array | None:
    """Decision values, or else probabilities, of rows X : (n, d); None without either.

    The shape is (n,) for decision values of two classes, else (n, n_classes).
    """
    names = ["decision_function", "predict_proba"]
    if getattr(estimator, "decision_function_shape", None) == "ovo":
        names = names[1:]  # decision values of "ovo" belong to pairs of classes
    for name in names:
        if hasattr(estimator, name):
            return np.asarray(getattr(estimator, name)(X))
    return None


def ranking_scores(y_true: Array, scores: Array | None, classes: Array) -> dict[str, float | None]:
    """Column -> ranking metric, None if it is undefined.

    y_true : (n,) labels. scores : As from `class_scores`. classes : (n_classes,) labels in the
    order of the columns of `scores`; the last of two classes is the positive one.

    The metrics are undefined without scores, for scores that are NaN or infinite, for labels that
    are not among `classes`, and if `y_true` has a single class. The mean over several classes
    leaves out classes that do not occur in `y_true`.
    """
    undefined: dict[str, float | None] = dict.fromkeys((m.name for m in RANKINGS), None)
    occurring = np.unique(y_true)
    if scores is None or len(occurring) < 2 or not np.isin(occurring, classes).all():
        return undefined
    if len(classes) == 2 and scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    if scores.shape != (len(y_true), len(classes)) or not np.isfinite(scores).all():
        return undefined
    columns = [1] if len(classes) == 2 else np.flatnonzero(np.isin(classes, occurring))
    return {
        metric.name: float(
            np.mean([metric.function(y_true == classes[k], scores[:, k]) for k in columns])
        )
        for metric in RANKINGS
    }


def rank_outliers(estimator: Any, X: Any, y_true: Array) -> dict[str, float | None]:
    """Column -> ranking metric of the outliers among rows X : (n, d), None if it is undefined.

    Outliers, -1 in y_true : (n,), are the positive rows, and a row's score is its negative decision
    value. The metrics are undefined if all rows are outliers or all are normal.

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
    return ranking_scores(y_true, -values, np.array([1, -1]))


# Names of the curves of `reliability`.
RELIABILITY, RELIABILITY_ROWS, RELIABILITY_X = "accuracy", "rows", "confidence"
# Number of bins of the predicted class's probability, as in Guo et al. (2017).
_N_BINS = 15


def reliability(y_true: Array, probabilities: Array, classes: Array) -> list[dict[str, Any]]:
    """The two curves of a reliability diagram of probabilities : (n, n_classes).

    The rows are divided by the probability of the predicted class into 15 bins of equal width. The
    abscissa of a bin is its mean probability; the curves are its fraction of right predictions and
    its fraction of all rows. Bins without rows are left out. Returns no curves if
    probabilities are not finite or have another shape.
    """
    P = np.asarray(probabilities, np.float64)
    if P.shape != (len(y_true), len(classes)) or not np.isfinite(P).all():
        return []
    confidence = P.max(axis=1)
    is_right = classes[P.argmax(axis=1)] == y_true
    bins = np.minimum((confidence * _N_BINS).astype(np.intp), _N_BINS - 1)
    n = np.bincount(bins, minlength=_N_BINS)
    nonempty = n > 0
    x = (np.bincount(bins, confidence, _N_BINS)[nonempty] / n[nonempty]).tolist()
    bin_accuracy = np.bincount(bins, is_right, _N_BINS)[nonempty] / n[nonempty]
    fractions = {RELIABILITY: bin_accuracy, RELIABILITY_ROWS: n[nonempty] / len(bins)}
    return [
        {"curve": name, "x_name": RELIABILITY_X, "x": x, "value": values.tolist()}
        for name, values in fractions.items()
    ]


def _cumulative_counts(positive: Array, scores: Array) -> tuple[Array, Array]:
    """Numbers of positive and of negative rows at or above each distinct score, highest first."""
    order = np.argsort(scores, kind="stable")[::-1]
    descending = scores[order]
    last = np.append(np.flatnonzero(descending[1:] != descending[:-1]), len(descending) - 1)
    n_positives = np.cumsum(positive[order])[last]
    return n_positives, 1 + last - n_positives


def _residual(y_true: Array, y_pred: Array) -> NDArray[np.float64]:
    # float64, because sums of a million float32 numbers lose digits.
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
