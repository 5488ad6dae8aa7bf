"""Inner products between sparse rows, without a dense copy of either side.

The left rows are stored by columns (CSC). Each nonzero of a right row is multiplied by the nonzeros
of its column, and the products are added to the inner products of the right row with all left rows.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.kernels.threads import run
from kbench.kernels.tiles import power_of_two
from kbench.kernels.work_sharing import Loop, divided, share

# Rows of A in a pass: their inner products with a row of B, 8 KiB in float64, stay in the L1 cache.
# Set by hand.
_PASS_ROWS = 1024
# Columns of the output written together: a cache line of float32.
_LINE = 16
_Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def products(A: Any, B: Any, out: np.ndarray) -> None:
    """Write A B' into out : (a, b), for canonical CSR matrices A : (a, d) and B : (b, d).

    All three have the same dtype. Time: one multiply-add for each pair of nonzeros in the same
    column, and O(d) for every 1,024 rows of A. Memory: a copy of the nonzeros of those rows.
    """
    right = _csr_arrays(B)
    for start in range(0, A.shape[0], _PASS_ROWS):
        left = _csr_arrays(sp.csc_array(A[start : start + _PASS_ROWS]))
        block = out[start : start + _PASS_ROWS]
        # One nanosecond for each inner product is a rough estimate, set by hand.
        run(_MULTIPLY, *left, *right, block, n=B.shape[0], nanoseconds=block.size, multiple=_LINE)


def _csr_arrays(matrix: Any) -> _Arrays:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def _multiply(column_start, row_indices, values, row_start, indices, data, out, start, stop):
    """out[:, j] = A @ (row j of B), start <= j < stop; A as CSC (owners: row indices), B as CSR."""
    n_rows = out.shape[0]
    acc = np.empty(_LINE * n_rows, data.dtype)
    for first in range(start, stop, _LINE):
        width = min(stop - first, _LINE)
        for c in range(width):
            sums = acc[c * n_rows : (c + 1) * n_rows]
            for r in range(n_rows):
                sums[r] = 0
            for k in range(row_start[first + c], row_start[first + c + 1]):
                column, value = indices[k], data[k]
                for i in range(column_start[column], column_start[column + 1]):
                    sums[row_indices[i]] += value * values[i]
        for r in range(n_rows):
            target = out[r, first : first + width]
            for c in range(width):
                target[c] = acc[c * n_rows + r]


_expose_multiply = divided(_multiply)


@njit(cache=True, nogil=True)
def _shared_multiply(arguments, n, block, mailboxes):
    share(_expose_multiply(arguments), n, block, mailboxes)


_MULTIPLY = Loop(_multiply, _shared_multiply)


@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def exponentiate(inner, half_left, half_right):
    """Replace inner products <z, z'> : (a, b) by 2^-||z - z'||^2/2, given half squared norms."""
    for i in range(inner.shape[0]):
        row, half = inner[i], half_left[i]
        for j in range(row.shape[0]):
            exponent = row[j] - half - half_right[j]
            # A positive exponent is a rounding error of 0; the difference is 0 of the same type, or
            # NaN if the exponent is not finite.
            row[j] = power_of_two(exponent if exponent < 0 else exponent - exponent)


def products_of_function(apply_f: Any) -> Any:
    """Return a compiled function that replaces products <z, z'> by f(-||z - z'||^2/2) in place.

    The function has the arguments of `exponentiate`. numba does not cache it on disk, because a
    cached function of the kernel's module calls it.

    apply_f : compiled function that replaces t : (m,), t <= 0, by f(t) in place
    """

    @njit(nogil=True, fastmath={"contract", "nsz"})
    def replace_products(inner, half_left, half_right):
        for i in range(inner.shape[0]):
            row, half = inner[i], half_left[i]
            for j in range(row.shape[0]):
                exponent = row[j] - half - half_right[j]
                row[j] = exponent if exponent < 0 else exponent - exponent  # as in `exponentiate`
            apply_f(row)

    return replace_products
