"""Inner products between sparse rows, without making either side dense.

Rows of one side are scattered, 64 at a time, into a table that holds only the columns which they
use; each nonzero of the other side then meets 64 rows at once, or none.
"""

from typing import Any

import numpy as np
from numba import njit, types

from kbench.kernels.threads import in_parts

_ROWS = 64


def products(A: Any, B: Any, out: np.ndarray) -> None:
    """Write A B' into out : (a, b), for canonical CSR matrices A : (a, d) and B : (b, d).

    All three have the same dtype. O(b nnz(B rows) a / 64) steps of 64 products at most; O(d) and
    64 rows' nonzeros of memory.
    """
    place = np.full(A.shape[1], -1, np.int64)
    right = (B.indptr.astype(np.int64), B.indices.astype(np.int64, copy=False), B.data)
    for start in range(0, A.shape[0], _ROWS):
        rows = A[start : start + _ROWS]
        used = np.unique(rows.indices)
        place[used] = np.arange(len(used))
        table = np.zeros((len(used), _ROWS), A.dtype)
        owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        table[place[rows.indices], owner] = rows.data
        block = out[start : start + _ROWS]

        def work(first: int, last: int, table: Any = table, block: Any = block) -> None:
            _multiply(table, place, *right, first, last, block)

        in_parts(work, B.shape[0], block.size, 1)
        place[used] = -1


def _signature(real: types.Type) -> Any:
    def array(dtype: types.Type) -> types.Type:
        return types.Array(dtype, 1, "C", readonly=True)

    rows = (array(types.int64), array(types.int64), array(real))
    bounds = (types.int64, types.int64)
    return types.void(real[:, ::1], types.int64[::1], *rows, *bounds, real[:, ::1])


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(
    [_signature(types.float32), _signature(types.float64)],
    fastmath={"contract", "nsz"},
    nogil=True,
    cache=True,
)
def _multiply(table, place, indptr, indices, data, start, stop, out):
    """out[:, j] = table' (row j), for start <= j < stop; place : (d,) row of `table`, or -1."""
    acc = np.empty(_ROWS, table.dtype)
    for j in range(start, stop):
        for r in range(_ROWS):
            acc[r] = 0
        for k in range(indptr[j], indptr[j + 1]):
            row = place[indices[k]]
            if row >= 0:
                value, entries = data[k], table[row]
                for r in range(_ROWS):
                    acc[r] += value * entries[r]
        for r in range(out.shape[0]):
            out[r, j] = acc[r]
