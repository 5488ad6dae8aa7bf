"""Inner products between sparse rows, without making either side dense.

The rows of one side are turned into lists by column; each nonzero of a row of the other side then
meets the nonzeros of its column alone, and adds to that row's inner products with all of the side.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit, types

from kbench.kernels.handing_over import SHARED, shared
from kbench.kernels.threads import in_parts
from kbench.kernels.tiles import power_of_two

# The inner products of one row with these stay in the L1 cache.
_ROWS = 1024
# Columns written together: whole cache lines of each row of the output.
_COLUMNS = 16
_Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def products(A: Any, B: Any, out: np.ndarray) -> None:
    """Write A B' into out : (a, b), for canonical CSR matrices A : (a, d) and B : (b, d).

    All three have the same dtype. A step for each pair of nonzeros in the same column, and O(d)
    for every 1,024 rows of A; their nonzeros again of memory.
    """
    right = _arrays(B)
    for start in range(0, A.shape[0], _ROWS):
        left = _arrays(sp.csc_array(A[start : start + _ROWS]))
        block = out[start : start + _ROWS]
        in_parts(
            _multiply,
            *left,
            *right,
            block,
            n=B.shape[0],
            nanoseconds=block.size,
            multiple=_COLUMNS,
        )


def _arrays(matrix: Any) -> _Arrays:
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data


def _signature(real: types.Type) -> Any:
    def array(dtype: types.Type) -> types.Type:
        return types.Array(dtype, 1, "C", readonly=True)

    matrix = (array(types.int64), array(types.int64), array(real))
    return types.void(*matrix, *matrix, real[:, ::1], *SHARED)


@njit(fastmath={"contract", "nsz"})
def _multiply_part(column_start, owners, values, row_start, indices, data, out, start, stop):
    """out[:, j] = A (row j of B), start <= j < stop; A as CSC (owners: its rows), B as CSR."""
    n_rows = out.shape[0]
    acc = np.empty(_COLUMNS * n_rows, data.dtype)
    for first in range(start, stop, _COLUMNS):
        width = min(stop - first, _COLUMNS)
        for c in range(width):
            sums = acc[c * n_rows : (c + 1) * n_rows]
            for r in range(n_rows):
                sums[r] = 0
            for k in range(row_start[first + c], row_start[first + c + 1]):
                column, value = indices[k], data[k]
                for i in range(column_start[column], column_start[column + 1]):
                    sums[owners[i]] += value * values[i]
        for r in range(n_rows):
            target = out[r, first : first + width]
            for c in range(width):
                target[c] = acc[c * n_rows + r]


_share_multiply = shared(_multiply_part)


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit([_signature(types.float32), _signature(types.float64)], nogil=True, cache=True)
def _multiply(column_start, owners, values, row_start, indices, data, out, n, part, boxes):
    arguments = (column_start, owners, values, row_start, indices, data, out)
    _share_multiply(arguments, n, part, boxes)


@njit(
    ["(f4[:,::1], f4[::1], f4[::1])", "(f8[:,::1], f8[::1], f8[::1])"],
    fastmath={"contract", "nsz"},
    nogil=True,
    cache=True,
)
def exponentiate(inner, half_left, half_right):
    """2^-||z - z'||^2/2 in place of the inner products <z, z'> : (a, b), given ||z||^2/2."""
    for i in range(inner.shape[0]):
        row, half = inner[i], half_left[i]
        for j in range(row.shape[0]):
            exponent = row[j] - half - half_right[j]
            # Positive by rounding alone.
            row[j] = power_of_two(exponent if exponent < 0 else exponent - exponent)
