"""What `KernelSVC` and `KernelSVR` do as `SVC` and `SVR` do, beside the problem that they solve."""

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
# Constraints of C.
BOUND: list[Any] = [real(0, None, closed="right")]
# Upper bound of dual variables in the place of infinity. With kernel values of about 1, larger ones
# would leave no digits of the decision values beside their rounding. Guard.
_LARGEST_C = 1e10


def bounded(C: np.ndarray) -> np.ndarray:
    """Upper bounds (n,) with a finite one for infinity."""
    return np.where(np.isinf(C), _LARGEST_C, C)


def warn_of_unbounded(C: Any, coef: Any) -> None:
    """Issue a warning if C=inf has no solution and that of C=1e10 has taken its place."""
    if isinstance(C, str) or not np.isinf(C):
        return
    entries = coef.data if sp.issparse(coef) else coef
    if np.abs(entries).max(initial=0.0) >= _LARGEST_C:
        warn(
            f"C=inf: no function of this kernel has all rows on the right side of its margin, so "
            f"the solution is that of C={_LARGEST_C:g}",
            ConvergenceWarning,
        )


def like_rows(values: np.ndarray, X: Any) -> Any:
    """The values as CSR, array or matrix, if the rows X are sparse; else as they are."""
    if not sp.issparse(X):
        return values
    return sp.csr_array(values) if isinstance(X, sp.sparray) else sp.csr_matrix(values)


def read_only(values: Any) -> Any:
    """The values, after making them read-only: they are computed anew at each access."""
    (values.data if sp.issparse(values) else values).flags.writeable = False
    return values
