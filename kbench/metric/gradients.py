"""The average gradient outer product of a kernel expansion.

For f(z) = sum_i c_i k(z, z_i) with a kernel that depends on the distance alone,

    grad f(z) = sum_i c_i s(z, z_i) (z_i - z),
    G = mean over rows z of the sum over outputs of grad f(z) grad f(z)'

where s = 2 gamma k for the Gaussian kernel exp(-gamma r^2) and s = gamma k / r for the Matern
kernel exp(-gamma r); there r = -log(k) / gamma, so that one kernel value gives both. All gradients
are products of matrices: grad f(Z) = W Z_train - diag(W 1) Z with W = s * c. For the Laplacian
kernel exp(-gamma sum |z - z_i|),

    df/dz_j = sum_i c_i gamma k(z, z_i) sign(z_ij - z_j)

A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for feature learning in neural
networks and backpropagation-free machine learning models", Science 383, 2024, equation 2.
"""

from collections.abc import Iterator

import numba
import numpy as np

from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.functions.laplacian import Laplacian
from kbench.kernels.functions.matern12 import Matern12
from kbench.kernels.functions.rbf import RBF

# Number of kernel rows evaluated per block: 512 rows against 10,000 points are 20 MiB of float32,
# which bounds the memory; fewer rows make the matrix products slower (`scripts/bench_metric.py`).
_BLOCK_ROWS = 512
# Smallest exponent gamma * r that float32 kernel values distinguish from zero. Closer pairs are
# left out: their direction is rounding. Guard.
_MIN_EXPONENT = 1e-5


def gradient_outer_product(
    matrix: KernelMatrix,
    Z: np.ndarray,
    coef: np.ndarray,
    rows: np.ndarray,
    *,
    values: np.ndarray | None = None,
    diagonal: bool = False,
) -> np.ndarray:
    """Mean of grad f grad f' over some of the training rows.

    matrix : KernelMatrix of the training rows, with a Gaussian, Matern 1/2 or Laplacian kernel
    Z : (n, d) the same rows, dense
    coef : (n, m) expansion coefficients of m outputs, whose outer products are added
    rows : (a,) indices of the rows at which gradients are taken
    values : (a, n) kernel values of these rows, if they are known
    diagonal : Whether only the diagonal is wanted, in O(d) memory

    Returns (d, d) float64, symmetric positive semidefinite; (d,) where `diagonal`.

    O(a n (d m + kernel value)) time, a few blocks of 512 n numbers of memory.
    """
    d = Z.shape[1]
    total = np.zeros(d if diagonal else (d, d))
    for _, gradients in _gradients(matrix, Z, coef, rows, values):
        if diagonal:
            total += np.einsum("ij,ij->j", gradients, gradients)
        else:
            total += matmul(gradients.T, gradients)
    return total / len(rows)


def squared_gradients(
    matrix: KernelMatrix,
    Z: np.ndarray,
    coef: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray | None = None,
) -> np.ndarray:
    """Sum over the outputs of squared gradients at some rows; (a, d) float64.

    Parameters and cost are as in `gradient_outer_product`.
    """
    squares = np.zeros((len(rows), Z.shape[1]))
    for block, gradients in _gradients(matrix, Z, coef, rows, values):
        squares[block] += gradients**2
    return squares


def _gradients(
    matrix: KernelMatrix,
    Z: np.ndarray,
    coef: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray | None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """For each block of rows and each output: a slice, and gradients there, (b, d) float64."""
    coef = coef.astype(matrix.dtype)
    is_laplacian = isinstance(matrix.kernel, Laplacian)
    columns = np.ascontiguousarray(Z.T if is_laplacian else Z[:0].T, matrix.dtype)
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        block_rows = rows[block]
        kernel_values = matrix.block(block_rows) if values is None else values[block].copy()
        slopes = _slopes(matrix.kernel, kernel_values)
        for output in coef.T:
            weights = slopes * output
            if is_laplacian:
                gradients = _signed_sums(weights, columns, block_rows)
            else:
                gradients = matmul(weights, Z) - weights.sum(axis=1)[:, None] * Z[block_rows]
            yield block, gradients.astype(np.float64)


def _slopes(kernel: Kernel, values: np.ndarray) -> np.ndarray:
    """s(z, z_i) in the place of the kernel values : (a, n)."""
    if isinstance(kernel, RBF):
        values *= 2.0 * kernel.gamma
    elif isinstance(kernel, Laplacian):
        values *= kernel.gamma
    elif isinstance(kernel, Matern12):
        with np.errstate(divide="ignore"):
            exponents = -np.log(values)
            values /= exponents
        np.copyto(values, 0.0, where=exponents <= _MIN_EXPONENT)
        # gamma k / r = gamma^2 k / (gamma r)
        values *= kernel.gamma**2
    else:
        raise TypeError(f"no gradient is known for the kernel {kernel!r}")
    return values


@numba.njit(cache=True, nogil=True, fastmath=True)
def _signed_sums(weights: np.ndarray, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """sum_i w_ri sign(z_ij - z_rj) of some rows r against all i; (a, d).

    weights : (a, n), columns : (d, n), rows : (a,)
    """
    a, n = weights.shape
    sums = np.empty((a, len(columns)), weights.dtype)
    zero = weights.dtype.type(0)
    for r in range(a):
        for j in range(len(columns)):
            value, total = columns[j, rows[r]], zero
            for i in range(n):
                other, weight = columns[j, i], weights[r, i]
                total += weight if other > value else (-weight if other < value else zero)
            sums[r, j] = total
    return sums
