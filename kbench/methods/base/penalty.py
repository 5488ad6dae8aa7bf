"""The ridge, or C, that the parameter value "loo" chooses from the training rows.

With a given kernel, one eigendecomposition of at most 500 rows gives the leave-one-out errors of
ridge regression for every ridge (`kbench.width_search.leave_one_out`). Support vector machines take
C = 1 / ridge: their squared-loss relative, with loss C / 2 (1 - y f)^2, is ridge regression with
that ridge.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench import class_labels
from kbench.kernels import Kernel, KernelMatrix, make_kernel
from kbench.methods.base.survey import ClassTargets, Survey
from kbench.methods.base.widths import gamma_of_scaled_rows, has_widths, scaled_rows
from kbench.row_keys import row_keys
from kbench.validated import POSITIVE, choice
from kbench.width_search.leave_one_out import errors_by_ridge

# Constraint of the parameters `alpha` and `C`.
ALPHA_CONSTRAINT = C_CONSTRAINT = [POSITIVE, choice("loo")]
# Largest number of rows whose leave-one-out errors choose `alpha`: more rows choose it more
# reliably, in cubic time. An eigendecomposition of 500 rows takes 0.05 s. Set by hand.
ALPHA_ROWS = 500
# Ridges that are compared, in steps of a factor of 4, which changes a leave-one-out error little.
# Errors of approximate kernel matrices (MEKA) move eigenvalues below 0, down to about -0.01; ridges
# much smaller than 1/128 would leave their systems indefinite. Set by hand.
_RIDGES = 2.0 ** np.arange(-7, 4, 2)


def chosen_alpha(
    alpha: float | str,
    kernel: Callable[[], Kernel],
    X: Any,
    Y: np.ndarray,
    weight: np.ndarray | None = None,
) -> float:
    """The ridge alpha, or with "loo" the ridge of lowest leave-one-out error on at most 500 rows.

    The best ridge is about the noise variance / the variance of the function (Gaussian processes),
    which does not depend on the number of rows. Errors count relative to the range of their target,
    so that the units of several targets do not matter; the range of a class is 2.

    X : (n, d). Y : (n, m) targets. weight : (n,); rows of weight 0 are left out.
    """
    if not isinstance(alpha, str):
        return float(alpha)
    rows = _distinct_rows(X, np.arange(len(Y)) if weight is None else np.flatnonzero(weight > 0.0))
    matrix = KernelMatrix(kernel(), X[rows], np.float64)
    errors = errors_by_ridge(matrix.block(np.arange(len(rows))), Y[rows], _RIDGES)
    ranges = np.ptp(Y, axis=0)
    errors /= np.where(ranges > 0.0, ranges, 1.0)[:, None]
    return float(_RIDGES[np.mean(errors**2, axis=(0, 1)).argmin()])


def _distinct_rows(X: Any, candidates: np.ndarray) -> np.ndarray:
    """At most 500 distinct rows, in an order that a hash of their values gives.

    The choice does not depend on the order, repetition or weights of the rows, and does not change
    if all rows are multiplied by a power of two.
    """
    entries = X.data if sp.issparse(X) else X
    exponent = math.frexp(max(entries.max(initial=0.0), -entries.min(initial=0.0)))[1]
    order = np.unique(row_keys(X, exponent)[candidates], return_index=True)[1]
    return candidates[order[:ALPHA_ROWS]]


def chosen_c(estimator: Any, X: Any, index: np.ndarray, n_classes: int, weight: np.ndarray) -> Any:
    """The estimator's C, or with "loo" 1 / the ridge of `chosen_alpha` for targets -1 and +1.

    The estimator, or its part, has the kernel. For precomputed matrices C is 1.

    X : (n, d). index : (n,) class numbers. weight : (n,) of rows.
    """
    if not isinstance(estimator.C, str):
        return estimator.C
    part = getattr(estimator, "feature_map", None) or getattr(estimator, "matrix", None)
    defaults: dict[str, Any] = {"kernel": "rbf", "gamma": "scale", "degree": 3, "coef0": 0.0}
    options: dict[str, Any] = {
        name: getattr(part, name, getattr(estimator, name, default))
        for name, default in defaults.items()
    }
    kernel = options.pop("kernel")
    if kernel == "precomputed":
        return 1.0
    if has_widths(options["gamma"]):
        X, options["gamma"] = scaled_rows(estimator, X), gamma_of_scaled_rows(options["gamma"])
    signs = class_labels.signs(index, n_classes)
    return 1.0 / chosen_alpha("loo", lambda: make_kernel(kernel, X, **options), X, signs, weight)


def penalty_of_sample(estimator: Any, survey: Survey) -> float:
    """C for rows in chunks; "loo" chooses it by the labelled sample of the survey."""
    targets = survey.targets
    assert isinstance(targets, ClassTargets)
    index = class_labels.index_of(targets.classes, survey.sample_y)
    n_classes = len(targets.classes)
    return float(chosen_c(estimator, survey.sample, index, n_classes, np.ones(len(index))))
