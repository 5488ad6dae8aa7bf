"""Rows of a kernel matrix, kept in a bounded amount of memory.

A row is computed when it is first needed and evicted when it has not been used for longest. Columns
can be dropped for good (shrinking): the rows that are kept get shorter and more of them fit.
"""

import numpy as np
from numba import njit

from kbench.kernels import KernelMatrix

# Missing rows are computed this many at a time: enough for GEMM to reach its speed.
_BATCH = 128


class RowCache:
    """Least-recently-used cache of K[i, columns].

    Parameters
    ----------
    kernel : KernelMatrix
    columns : (m,) indices
        Columns that rows are restricted to.
    cache_mb : float
        Bound in MiB of the stored rows; room for 16 rows is taken in any case.
    """

    def __init__(self, kernel: KernelMatrix, columns: np.ndarray, cache_mb: float) -> None:
        n, itemsize = len(kernel), kernel.dtype.itemsize
        capacity = max(int(cache_mb * 2**20) // itemsize, 16 * len(columns))
        self._kernel = kernel
        self._buffer = np.empty(min(capacity, n * len(columns)), kernel.dtype)
        self._slot_of = np.full(n, -1)
        self._lay_out(columns)

    def _lay_out(self, columns: np.ndarray) -> None:
        self._points = self._kernel.points(columns)
        width = max(1, len(columns))
        n_slots = min(self._buffer.size // width, len(self._kernel))
        self._rows = self._buffer[: n_slots * width].reshape(n_slots, width)
        self._owner = np.full(n_slots, -1)
        self._last_use = np.zeros(n_slots, np.int64)
        self._clock = 0

    @property
    def nbytes(self) -> int:
        """Bytes reserved for rows."""
        return self._buffer.nbytes

    def add_products(self, rows: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
        """Add coef @ K[rows, columns] to out : (m,) float64."""
        self._clock += 1
        slots = self._slot_of[rows]
        hit = slots >= 0
        self._use(slots[hit], coef[hit], out)
        rows, coef = rows[~hit], coef[~hit]
        batch = min(_BATCH, len(self._rows))
        for start in range(0, len(rows), batch):
            chosen = slice(start, start + batch)
            self._use(self._compute(rows[chosen]), coef[chosen], out)

    def _use(self, slots: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
        self._last_use[slots] = self._clock
        _add_rows(self._rows, slots, coef.astype(self._rows.dtype), out)

    def _compute(self, rows: np.ndarray) -> np.ndarray:
        slots = np.sort(np.argpartition(self._last_use, len(rows) - 1)[: len(rows)])
        evicted = self._owner[slots]
        self._slot_of[evicted[evicted >= 0]] = -1
        if slots[-1] - slots[0] == len(slots) - 1:
            self._kernel.block(rows, self._points, out=self._rows[slots[0] : slots[-1] + 1])
        else:
            self._rows[slots] = self._kernel.block(rows, self._points)
        self._owner[slots] = rows
        self._slot_of[rows] = slots
        return slots

    def keep_columns(self, columns: np.ndarray, kept: np.ndarray) -> None:
        """Restrict the stored rows to `columns`, which is the old columns[kept]; kept : (m,) bool.

        Rows move towards the front of the same memory, so nothing is allocated but one row.
        """
        old_rows, owner, last_use = self._rows, self._owner, self._last_use
        clock = self._clock
        used = np.flatnonzero(owner >= 0)
        self._lay_out(columns)
        for new, old in enumerate(used):
            self._rows[new] = old_rows[old][kept]
        self._owner[: len(used)] = owner[used]
        self._last_use[: len(used)] = last_use[used]
        self._slot_of[owner[used]] = np.arange(len(used))
        self._clock = clock


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(
    ["(f4[:,::1], i8[::1], f4[::1], f8[::1])", "(f8[:,::1], i8[::1], f8[::1], f8[::1])"],
    cache=True,
    fastmath={"contract", "nsz", "arcp", "reassoc"},
)
def _add_rows(rows, slots, coef, out):
    """out += coef @ rows[slots]; eight rows are added in their own precision, then in float64."""
    m = rows.shape[1]
    n_rows = slots.shape[0]
    # A tile of `out` and eight rows of it stay in the L1 cache.
    for start in range(0, m, 1024):
        stop = min(m, start + 1024)
        acc = out[start:stop]
        k = 0
        while k + 8 <= n_rows:
            r0 = rows[slots[k], start:stop]
            r1 = rows[slots[k + 1], start:stop]
            r2 = rows[slots[k + 2], start:stop]
            r3 = rows[slots[k + 3], start:stop]
            r4 = rows[slots[k + 4], start:stop]
            r5 = rows[slots[k + 5], start:stop]
            r6 = rows[slots[k + 6], start:stop]
            r7 = rows[slots[k + 7], start:stop]
            c0, c1, c2, c3 = coef[k], coef[k + 1], coef[k + 2], coef[k + 3]
            c4, c5, c6, c7 = coef[k + 4], coef[k + 5], coef[k + 6], coef[k + 7]
            for j in range(stop - start):
                acc[j] += ((c0 * r0[j] + c1 * r1[j]) + (c2 * r2[j] + c3 * r3[j])) + (
                    (c4 * r4[j] + c5 * r5[j]) + (c6 * r6[j] + c7 * r7[j])
                )
            k += 8
        while k < n_rows:
            row = rows[slots[k], start:stop]
            c = coef[k]
            for j in range(stop - start):
                acc[j] += c * row[j]
            k += 1
