"""The kernel of an estimator's parameters for its training rows, checked."""

from typing import Any

import scipy.sparse as sp

from kbench.kernels import Kernel, make_kernel
from kbench.methods.base.widths import one_width

# The words with which `SVC` says it, whose first sentence its users search for.
NOT_FINITE = (
    "The dual coefficients or intercepts are not finite. The input data may contain large values "
    "and need to be preprocessed"
)


def require_dense_values(kernel: Any, X: Any) -> None:
    """Raise a TypeError for precomputed kernel values in a sparse matrix."""
    if isinstance(kernel, str) and kernel == "precomputed" and sp.issparse(X):
        raise TypeError("Sparse precomputed kernels are not supported; pass X.toarray()")


def training_kernel(estimator: Any, X: Any) -> Kernel:
    """The kernel function for training rows X : (n, d), or (n, n) values.

    With an array gamma, pass the rows that `scaled_rows` returns.

    Raises TypeError: precomputed values are sparse.
    Raises ValueError: precomputed values are not square, or gamma="scale" of these rows is not a
    positive number.
    """
    require_dense_values(estimator.kernel, X)
    precomputed = isinstance(estimator.kernel, str) and estimator.kernel == "precomputed"
    if precomputed and X.shape[0] != X.shape[1]:
        raise ValueError(
            "kernel='precomputed' needs a square matrix of values between the training rows, got "
            f"shape {X.shape}"
        )
    try:
        return make_kernel(
            estimator.kernel,
            X,
            gamma=one_width(estimator.gamma),
            degree=estimator.degree,
            coef0=estimator.coef0,
        )
    except ValueError as error:
        raise ValueError(f"{NOT_FINITE}: {error}") from None
