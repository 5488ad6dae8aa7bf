"""The kernel of an estimator's parameters for its training rows, checked."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.kernels import Kernel, make_kernel
from kbench.methods.base.widths import gamma_of_scaled_rows

# `SVC`'s message, whose first sentence its users search for.
NOT_FINITE = (
    "The dual coefficients or intercepts are not finite. The input data may contain large values "
    "and need to be preprocessed"
)
# Largest difference of mirrored kernel values that counts as rounding, as a fraction of the largest
# value: about the square root of float32's eps. Set by hand.
_MAX_ASYMMETRY = 3e-4
# Guard: rows and columns of a tile in which mirrored values are compared, which bounds the memory.
_TILE = 512


def require_dense_values(kernel: Any, X: Any) -> None:
    """Raise a TypeError for precomputed kernel values in a sparse matrix."""
    if isinstance(kernel, str) and kernel == "precomputed" and sp.issparse(X):
        raise TypeError("Sparse precomputed kernels are not supported; pass X.toarray()")


def check_precomputed(kernel: Any, X: Any) -> None:
    """Raise the errors of `training_kernel` for precomputed values that are not a kernel matrix."""
    require_dense_values(kernel, X)
    if isinstance(kernel, str) and kernel == "precomputed":
        require_symmetric(X)


def require_symmetric(K: np.ndarray, name: str = "kernel='precomputed'") -> None:
    """Raise a ValueError unless K is square and symmetric, up to rounding. O(n^2).

    name : the source of the values, for the message
    """
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"{name} needs a square matrix of values between the training rows, got shape {K.shape}"
        )
    largest = float(max(K.max(initial=0.0), -K.min(initial=0.0)))
    starts = range(0, len(K), _TILE)
    for i, j in ((i, j) for i in starts for j in starts if i <= j):
        upper, lower = K[i : i + _TILE, j : j + _TILE], K[j : j + _TILE, i : i + _TILE].T
        differs = ~(np.abs(upper - lower) <= _MAX_ASYMMETRY * largest)
        if differs.any():
            a, b = np.argwhere(differs)[0]
            raise ValueError(
                f"{name} needs a symmetric matrix, but the value of rows {i + a} and {j + b} is "
                f"{upper[a, b]:.6g} and that of rows {j + b} and {i + a} is {lower[a, b]:.6g}; "
                "pass (K + K.T) / 2 if the mean of the two is meant"
            )


def training_kernel(estimator: Any, X: Any) -> Kernel:
    """The kernel function for training rows X : (n, d), or (n, n) values.

    With an array gamma, pass the rows that `scaled_rows` returns.

    Raises TypeError: precomputed values are sparse.
    Raises ValueError: precomputed values are not square or not symmetric, or gamma="scale" of these
    rows is not a positive number.
    """
    check_precomputed(estimator.kernel, X)
    try:
        return make_kernel(
            estimator.kernel,
            X,
            gamma=gamma_of_scaled_rows(estimator.gamma),
            degree=estimator.degree,
            coef0=estimator.coef0,
        )
    except ValueError as error:
        # `SVC` ends a fit to such rows with this message; the cause is appended.
        raise ValueError(f"{NOT_FINITE}: {error}") from None
