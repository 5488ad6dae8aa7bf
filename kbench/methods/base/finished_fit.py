"""Checks of a finished fit: finite numbers, and no model worse than the most frequent class."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from kbench import class_labels
from kbench.errors import warn
from kbench.intrinsics.products import matmul
from kbench.methods.base.training_kernel import NOT_FINITE
from kbench.methods.base.weights import checked_weights, class_weights
from kbench.prediction.constant import Constant
from kbench.trace import Deadline
from kbench.validated import checked_arrays

# Rows on which a stopped classifier is compared with the most frequent class: fewer rows take less
# time; the accuracy on 2,000 rows has a standard error of at most 0.011. Set by hand.
_COMPARED_ROWS = 2000
# A model that was solved to a `tol` of at most this is kept without the comparison: a model that is
# 0 everywhere, whose intercept may be decided by rounding, has a KKT violation of 1. Set by hand.
_TIGHT_TOL = 0.1
# Number of training rows whose predictions show whether a model without numeric attributes is
# finite: few suffice, because each prediction depends on all numbers of the model. Set by hand.
_PREDICTED_ROWS = 16
# Attributes of fitted estimators that hold the numbers of the model.
_NUMERIC_ATTRIBUTES = ("dual_coef_", "coef_", "intercept_", "objective_")


def require_finite(estimator: Any, X: Any = None, **numbers: Any) -> None:
    """ValueError if a number of the fitted model is NaN or infinite. O(model size).

    X : checked training rows; the first rows are predicted if the model has no numeric attributes
    numbers : arrays to check in place of the estimator's attributes; the message names the array
    """
    arrays = numbers or {name: vars(estimator).get(name) for name in _NUMERIC_ATTRIBUTES}
    decide = getattr(estimator, "_decide", None) or getattr(estimator, "_machine", None)
    if X is not None and decide and all(values is None for values in arrays.values()):
        arrays = {"the prediction": decide(X[:_PREDICTED_ROWS])}
    for name, values in arrays.items():
        entries = values.data if sp.issparse(values) else values
        if entries is None or (isinstance(entries, float) and math.isfinite(entries)):
            continue
        # The sum of finite numbers may overflow; each number is then checked.
        if math.isfinite(np.add.reduce(entries, axis=None)):
            continue
        if not np.isfinite(entries).all():
            raise ValueError(
                f"{NOT_FINITE}: {name} of {type(estimator).__name__} has left the range of "
                "floating-point numbers; scale the rows, lower C and the weights, or set "
                "dtype='float64'"
            )


def replace_if_worse_than_constant(
    estimator: Any, X: Any, y: Any, sample_weight: Any, deadline: Deadline | None
) -> None:
    """Replace a classifier's model by the most frequent class, with a ConvergenceWarning, if the
    class is right on more of at most 2,000 training rows. A model solved to a tight `tol` is kept.

    A solver that was stopped early may leave functions that are 0 everywhere, or that are fitted to
    the last few rows only. With several classes, one against the rest, each function may be near -1
    everywhere, so that rounding decides.

    estimator : fitted classifier
    X : (n, d) array or CSR, checked
    y : (n,) labels
    sample_weight : (n,) or None. Rows count by these and by the class weights.
    deadline : Deadline of the fit
    """
    is_stopped = deadline is not None and deadline.passed
    is_solved = getattr(estimator, "converged_", False) and estimator.solves_all_rows
    is_loose = (getattr(estimator, "tol", None) or 0.0) > _TIGHT_TOL
    if is_solved and not (is_stopped or is_loose):
        return
    classes = estimator.classes_
    labels = np.asarray(y).ravel()
    index = class_labels.index_of(classes, labels)
    weight = checked_weights(sample_weight, len(index), negative_is_zero=True)
    weight *= class_weights(getattr(estimator, "class_weight", None), classes, labels)[index]
    rows = np.linspace(0, len(index) - 1, min(len(index), _COMPARED_ROWS)).astype(np.intp)
    index, weight, sample = index[rows], weight[rows], X[rows]
    counts = np.bincount(index, weight, len(classes))
    with checked_arrays(estimator):
        is_correct = class_labels.index_of(classes, estimator.predict(sample)) == index
    if matmul(weight, is_correct) >= counts.max():
        return
    most_frequent = np.array([counts.argmax()])
    if hasattr(estimator, "_set_constant"):
        estimator._set_constant(most_frequent)
    else:
        values = class_labels.signs(most_frequent, len(classes))[0]
        intercept = getattr(estimator, "intercept_", 0.0)
        estimator._machine = Constant(values - intercept, X.shape[1])
        estimator.model_bytes_ = estimator._machine.nbytes
    # Without a limit on steps a fit ended by itself or by rounding, so the message names no limit.
    has_limit = hasattr(estimator, "converged_") and getattr(estimator, "max_iter", -1) > 0
    ending = (
        "stopped by max_time" if is_stopped else "stopped by max_iter" if has_limit else "ended"
    )
    if is_solved and not is_stopped:
        ending = f"ended by tol={estimator.tol:g}"
    warn(
        f"{ending} at a training accuracy of "
        f"{matmul(weight, is_correct) / counts.sum():.2f}, below the "
        f"{counts.max() / counts.sum():.2f} of the most frequent class, which the model now "
        "predicts: allow more time or more steps, lower tol, or scale the columns",
        ConvergenceWarning,
    )
