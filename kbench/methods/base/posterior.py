"""Posterior deviation of a kernel ridge model, which is the mean of a Gaussian process.

With the kernel as the prior covariance and alpha as the variance of independent noise on the
training targets (alpha / w for a row of weight w),

    std(x)^2 = k(x, x) - k_x' (K + alpha I)^-1 k_x

is the variance of the function at x: Rasmussen and Williams, "Gaussian Processes for Machine
Learning" (2006), equation 2.26. A new target also has noise, so that its deviation is
sqrt(std^2 + alpha).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from kbench.kernels import KernelMatrix

# Number of kernel values in a block of new rows: 4 million float64 take 32 MiB. Larger blocks are
# no faster, because the triangular solve is already a product of matrices. Set by hand.
_BLOCK_VALUES = 1 << 22
# Variances down to minus this multiple of k(x, x) are rounding errors and count as 0; a lower
# variance shows that the kernel is not positive semidefinite, and is an error. Set by hand.
_RELATIVE_ROUNDING = 1e-6


def posterior_std(
    kernel: KernelMatrix, X: Any, explained_variance: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Deviations at rows X : (u, d), dense or CSR; (u,) float64.

    kernel : float64 kernel matrix of the n training rows
    explained_variance : Computes the variance that the training rows explain,
        k_x' (K + alpha I)^-1 k_x : (b,), from kernel values k(x_i, x) : (n, b).

    Raises ValueError: a variance is negative by more than rounding.
    """
    n, u = len(kernel), X.shape[0]
    prior = KernelMatrix(kernel.kernel, X, np.float64).diagonal()
    points = kernel.points(slice(None))
    variance = np.empty(u)
    for start in range(0, u, step := max(1, _BLOCK_VALUES // n)):
        rows = slice(start, min(start + step, u))
        values = np.empty((rows.stop - start, n))
        kernel.kernel.evaluate(kernel.kernel.prepare(X[rows], kernel.dtype), points, values)
        variance[rows] = prior[rows] - explained_variance(values.T)
    if (variance < -_RELATIVE_ROUNDING * np.abs(prior)).any():
        raise ValueError(
            f"return_std: a variance is {variance.min():.3g}; the kernel is not positive "
            "semidefinite, or alpha is below the error of its values"
        )
    return np.sqrt(np.maximum(variance, 0.0))


def explained_by_cholesky(
    gram: np.ndarray, alpha: float, scale: np.ndarray | None
) -> Callable[[np.ndarray], np.ndarray]:
    """`explained_variance` for a kernel matrix `gram` : (n, n) float64, which is overwritten.

    scale : (n,), square roots of the rows' weights. O(n^3 / 3) time.

    Raises ValueError: K + alpha I is not positive definite.
    """
    weight_root = np.ones(len(gram)) if scale is None else scale
    gram *= np.outer(weight_root, weight_root)
    gram[np.diag_indices_from(gram)] += alpha
    try:
        factor = scipy.linalg.cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        raise ValueError(
            f"return_std: the kernel matrix plus alpha={alpha:g} is not positive definite; a "
            "larger alpha, or another kernel, makes it so"
        ) from None

    def explained_variance(values: np.ndarray) -> np.ndarray:
        scaled_values = weight_root[:, None] * values
        V = scipy.linalg.solve_triangular(factor, scaled_values, lower=True, check_finite=False)
        return np.einsum("ij,ij->j", V, V)

    return explained_variance
