"""Conventions of `SVC` and `SVR` that `KernelSVC` and `KernelSVR` follow."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from kbench.errors import warn
from kbench.validated import real

# The message of a NotFittedError, with the name that scikit-learn's users search for.
NOT_FITTED = (
    "This %(name)s instance, in the place of {}, is not fitted yet. Call 'fit' with appropriate "
    "arguments before using this estimator."
)
# Constraint of C, which may be infinite, as in `SVC`.
SVC_C_CONSTRAINT: list[Any] = [real(0, None, closed="right")]
# Guard: upper bound of dual variables in place of infinity. With kernel values of about 1, rounding
# of larger dual variables would leave no digits of the decision values.
_LARGEST_C = 1e10


def finite_C(C: np.ndarray) -> np.ndarray:
    """Upper bounds (n,) with 1e10 in place of infinity."""
    return np.where(np.isinf(C), _LARGEST_C, C)


def warn_of_unbounded(C: Any, coef: Any) -> None:
    """Issue a warning if C=inf has no solution, so that the model is that of C=1e10."""
    if isinstance(C, str) or not np.isinf(C):
        return
    entries = coef.data if sp.issparse(coef) else coef
    if np.abs(entries).max(initial=0.0) >= _LARGEST_C:
        warn(
            f"C=inf: no function of this kernel has all rows on the right side of its margin, so "
            f"the solution is that of C={_LARGEST_C:g}",
            ConvergenceWarning,
        )


def match_rows(values: np.ndarray, X: Any) -> Any:
    """Make values a CSR array or matrix if the rows X are one; else return them unchanged."""
    if not sp.issparse(X):
        return values
    return sp.csr_array(values) if isinstance(X, sp.sparray) else sp.csr_matrix(values)


def freeze(values: Any) -> Any:
    """Make values of a property read-only, because a change would be lost, and return them."""
    (values.data if sp.issparse(values) else values).flags.writeable = False
    return values
