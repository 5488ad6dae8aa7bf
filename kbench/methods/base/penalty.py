"""The ridge or C of the data, where the user leaves it to the method ("loo").

With a given kernel, one eigendecomposition of at most 500 rows gives the leave-one-out errors of
ridge regression for every ridge (`kbench.width_search.leave_one_out`). Support vector machines take
C = 1 / ridge: their squared-loss relative, with loss C / 2 (1 - y f)^2, is ridge regression with
that ridge.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kbench import class_labels
from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix, make_kernel
from kbench.methods.base.survey import ClassTargets, Survey
from kbench.methods.base.widths import has_widths, one_width, scaled_rows
from kbench.width_search.leave_one_out import errors_by_ridge

# Values of the parameters `alpha` and `C`.
ALPHA = PENALTY = [Interval(Real, 0, None, closed="neither"), StrOptions({"loo"})]
# Rows whose leave-one-out errors choose `alpha`: an eigendecomposition of 0.05 s, one thread.
ALPHA_ROWS = 500
# Ridges that are compared. Approximate kernel matrices of kbench have eigenvalues as low as -0.01,
# so that a smaller ridge can make a system indefinite.
_ALPHAS = 2.0 ** np.arange(-7, 4, 2)


def chosen_alpha(
    alpha: float | str,
    kernel: Callable[[], Kernel],
    X: Any,
    Y: np.ndarray,
    weight: np.ndarray | None = None,
) -> float:
    """The ridge, or with "loo" the one with the lowest leave-one-out error on at most 500 rows.

    The best ridge is the variance of the noise where the function's is 1, so that it hardly depends
    on the number of rows.

    X : (n, d). Y : (n, m) targets. weight : (n,); rows of weight 0 are left out.
    """
    if not isinstance(alpha, str):
        return float(alpha)
    rows = _distinct_rows(X, np.arange(len(Y)) if weight is None else np.flatnonzero(weight > 0.0))
    few = KernelMatrix(kernel(), X[rows], np.float64)
    errors = errors_by_ridge(few.block(np.arange(len(rows))), Y[rows], _ALPHAS)
    return float(_ALPHAS[np.mean(errors**2, axis=(0, 1)).argmin()])


def _distinct_rows(X: Any, candidates: np.ndarray) -> np.ndarray:
    """At most 500 of the rows, in a random order of what they hold; no row twice.

    They do not depend on the order of the rows, nor on whether a row is repeated or has a weight.
    """
    direction = np.random.RandomState(0).standard_normal(X.shape[1])
    values = np.asarray(matmul(X, direction), np.float64)[candidates]
    largest = np.abs(values).max(initial=0.0)
    keys = np.modf(1e4 * values / largest)[0] if largest > 0.0 else values
    order = np.argsort(keys, kind="stable")
    # Equal rows have keys that differ by rounding errors.
    new = np.diff(keys[order], prepend=-np.inf) > 1e-7
    return candidates[order[new]][:ALPHA_ROWS]


def chosen_c(estimator: Any, X: Any, index: np.ndarray, n_classes: int, weight: np.ndarray) -> Any:
    """The estimator's C, or with "loo" 1 / the ridge of `chosen_alpha` for targets -1 and +1.

    The kernel is that of the estimator, or of its part; of precomputed matrices C is 1.

    X : (n, d). index : (n,) class numbers. weight : (n,) of rows.
    """
    if not isinstance(estimator.C, str):
        return estimator.C
    part = getattr(estimator, "feature_map", None) or getattr(estimator, "matrix", None)
    named: dict[str, Any] = {"kernel": "rbf", "gamma": "scale", "degree": 3, "coef0": 0.0}
    options: dict[str, Any] = {
        name: getattr(part, name, getattr(estimator, name, default))
        for name, default in named.items()
    }
    kernel = options.pop("kernel")
    if kernel == "precomputed":
        return 1.0
    if has_widths(options["gamma"]):
        X, options["gamma"] = scaled_rows(estimator, X), one_width(options["gamma"])
    signs = class_labels.signs(index, n_classes)
    return 1.0 / chosen_alpha("loo", lambda: make_kernel(kernel, X, **options), X, signs, weight)


def penalty_of_sample(estimator: Any, survey: Survey) -> float:
    """C for rows in chunks, which "loo" decides on the sample of their labels."""
    targets = survey.targets
    assert isinstance(targets, ClassTargets)
    index = class_labels.index_of(targets.classes, survey.sample_y)
    n_classes = len(targets.classes)
    return float(chosen_c(estimator, survey.sample, index, n_classes, np.ones(len(index))))
