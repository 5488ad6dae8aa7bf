"""Products with rows of a kernel matrix; a bounded amount of memory stores some of the rows.

Reading a stored value is five to ten times as fast as computing a cheap kernel value, but writing a
value to memory for the first time takes as long as several computations. So a row is recomputed,
without storing anything, before its `min_uses`-th use, and stored from that use on. When the memory
is full, the least recently used row is replaced.

Storing all rows takes 1.6 times as long on w8a and 1.5 times on a9a (`scripts/ablate_svm.py`,
`recompute_rows`).
"""

import math
from typing import Any

import numpy as np
from numba import njit

from kbench.kernels import KernelMatrix
from kbench.kernels.threads import run
from kbench.kernels.work_sharing import Loop, divided, share

# A number of uses that no row reaches: nothing is stored.
NEVER = 1 << 30
# Missing rows are computed in blocks of this many: larger blocks take more memory, smaller blocks
# need more calls. Set by hand.
_BATCH_ROWS = 128
# Columns of a block of products: 8 KiB of float64 sums stay in the L1 cache. Set by hand.
_BLOCK_COLUMNS = 1024
# Nanoseconds for reading a stored value, in sequence and at an arbitrary position. The number of
# threads follows from them (`scripts/ablate_svm.py --threads 2`).
_READING_NS = 0.2
_SCATTERED_READING_NS = 1.0
# Nanoseconds for storing and rereading a kernel value: a row is stored at the use at which all
# computations of its values have taken as long (`scripts/ablate_svm.py`, `recompute_rows`).
_STORING_NS = 1.8


class RowCache:
    """Products K[columns, rows] @ coef.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    cache_mb : Memory for stored rows, MiB
    min_uses : A row is stored at its `min_uses`-th use
    """

    def __init__(self, kernel: KernelMatrix, cache_mb: float, min_uses: int) -> None:
        n, itemsize = len(kernel), kernel.dtype.itemsize
        self._kernel = kernel
        self._buffer = np.empty(min(int(cache_mb * 2**20) // itemsize, n * n), kernel.dtype)
        self._min_uses = min_uses
        self._uses = np.zeros(n, np.int32)
        self._slot_of = np.full(n, -1)
        self.lay_out(np.empty(0, np.intp), 0)

    @property
    def nbytes(self) -> int:
        """Bytes reserved for stored rows."""
        return self._buffer.nbytes

    @property
    def holds_whole_rows(self) -> bool:
        """Whether rows are stored at their first use, and half of all rows fit at full length."""
        return self._min_uses == 1 and len(self._kernel) ** 2 <= 2 * self._buffer.size

    def holds_matrix(self, m: int) -> bool:
        """Whether K between m columns fits into the memory."""
        return m * m <= self._buffer.size

    def lay_out(self, columns: np.ndarray, capacity: int) -> None:
        """Drop the stored rows; new rows have these columns and memory for `capacity` columns."""
        self.columns = columns
        self._gathered: tuple[tuple[int, int], Any] | None = None
        self._capacity = capacity = max(1, capacity)
        n_slots = min(self._buffer.size // capacity, len(self._kernel))
        self._rows = self._buffer[: n_slots * capacity].reshape(n_slots, capacity)
        self._slot_of[:] = -1
        self._owner = np.full(n_slots, -1)
        self._length = np.zeros(n_slots, np.intp)
        self._last_use = np.zeros(n_slots, np.int64)
        self._clock = 0

    def extend(self, columns: np.ndarray) -> None:
        """Append columns. Stored rows are completed when they are next used."""
        all_columns = np.concatenate([self.columns, columns])
        if len(all_columns) > self._capacity:
            # A quarter more than needed, so that few extensions drop the rows. Set by hand.
            self.lay_out(
                all_columns, min(len(all_columns) + len(all_columns) // 4, len(self._kernel))
            )
        self.columns = all_columns

    def product(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Return coef @ K[rows, columns] : (m,) float64."""
        self._uses[rows] += 1
        self._clock += 1
        is_stored = (self._uses[rows] >= self._min_uses) | (self._slot_of[rows] >= 0)
        if is_stored.sum() > len(self._owner):
            is_stored &= self._slot_of[rows] >= 0
        is_recomputed = ~is_stored
        if is_recomputed.any():
            points = self._points_from(0)
            out = self._kernel.product(rows[is_recomputed], coef[is_recomputed], rows=points)
        else:
            out = np.zeros(len(self.columns))
        if is_stored.any():
            slots = self._complete_rows(rows[is_stored])
            _add_product(self._rows, slots, coef[is_stored], out)
        return out

    def gram(self, positions: np.ndarray) -> np.ndarray:
        """Return K between columns[positions] : (q, q).

        Stored rows are read only if kernel values are so expensive that rows are stored at their
        first use: reading a value at an arbitrary position takes as long as computing a cheap one.
        """
        points = self.columns[positions]
        out = np.empty((len(points), len(points)), self._rows.dtype)
        if self._min_uses == 1:
            has_row = self._slot_of[points] >= 0
            has_row[has_row] = self._length[self._slot_of[points[has_row]]] == len(self.columns)
        else:
            has_row = np.zeros(len(points), bool)
        if has_row.any():
            stored_positions, other_positions = np.flatnonzero(has_row), np.flatnonzero(~has_row)
            slots = self._slot_of[points[stored_positions]]
            cost = _SCATTERED_READING_NS * len(slots) * len(positions)
            arguments = (self._rows, slots, positions, stored_positions, other_positions, out)
            run(_GATHER, *arguments, n=len(slots), nanoseconds=cost, multiple=1)
            if len(other_positions):
                out[np.ix_(other_positions, other_positions)] = self._kernel.square(
                    points[other_positions]
                )
            return out
        return self._kernel.square(points, out)

    def matrix(self) -> np.ndarray:
        """Return K between all columns, (m, m), if `holds_matrix(m)`; drops the stored rows.

        The matrix is in the memory of the rows, and valid until the next row is stored.
        """
        m = len(self.columns)
        self.lay_out(self.columns, self._capacity)
        out = self._buffer[: m * m].reshape(m, m)
        self._kernel.square(self.columns, out)
        self._gathered = None
        return out

    def _complete_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the slots of these rows after computing their missing values."""
        slots = self._slot_of[rows]
        self._last_use[slots[slots >= 0]] = self._clock
        missing = np.flatnonzero(slots < 0)
        if len(missing):
            # A stable sort takes unused slots in order, so that they are filled as one block.
            free = np.sort(np.argsort(self._last_use, kind="stable")[: len(missing)])
            evicted = self._owner[free]
            self._slot_of[evicted[evicted >= 0]] = -1
            self._owner[free], self._slot_of[rows[missing]] = rows[missing], free
            self._length[free], self._last_use[free] = 0, self._clock
            slots[missing] = free
        n_columns = len(self.columns)
        lengths = self._length[slots]
        for length in np.unique(lengths[lengths < n_columns]):
            points = self._points_from(length)
            of_length = np.flatnonzero(lengths == length)
            for start in range(0, len(of_length), _BATCH_ROWS):
                batch = of_length[start : start + _BATCH_ROWS]
                first, last = slots[batch[0]], slots[batch[-1]]
                if last - first == len(batch) - 1 and (length, n_columns) == (0, self._capacity):
                    self._kernel.block(rows[batch], points, out=self._rows[first : last + 1])
                else:
                    self._rows[slots[batch], length:n_columns] = self._kernel.block(
                        rows[batch], points
                    )
        self._length[slots] = n_columns
        return slots

    def _points_from(self, first: int) -> Any:
        """Return the prepared points of the columns from `first` on, gathered at the first call."""
        if self._gathered is None or self._gathered[0] != (first, len(self.columns)):
            # Free the old points before the new ones are allocated.
            self._gathered = None
            columns: Any = self.columns[first:]
            if np.array_equal(columns, np.arange(len(self._kernel))):
                columns = slice(None)  # A slice copies nothing.
            points = self._kernel.points(columns)
            self._gathered = (first, len(self.columns)), points
        return self._gathered[1]


def min_uses(kernel: KernelMatrix) -> int:
    """Return the use at which a row of K is first stored; 1 if the cost is unknown (inf)."""
    # Values that take less than a nanosecond are recomputed at every use. Set by hand.
    nanoseconds = kernel.nanoseconds
    return NEVER if nanoseconds < 1.0 else max(1, math.ceil(_STORING_NS / nanoseconds))


def product_of_rows(K: np.ndarray, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return coef @ K[rows] : (m,) float64, for a stored matrix."""
    out = np.zeros(K.shape[1])
    _add_product(K, rows, coef, out)
    return out


def _add_product(K: np.ndarray, rows: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
    """Add coef @ K[rows, : len(out)] to out, float64."""
    cost = _READING_NS * len(out) * len(rows)
    arguments = (K, rows, coef.astype(K.dtype), out)
    run(_ADD_ROWS, *arguments, n=len(out), nanoseconds=cost, multiple=_BLOCK_COLUMNS)


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "arcp", "reassoc"})
def _add_rows(rows, slots, coef, out, first, last):
    """out[first:last] += coef @ rows[slots, first:last]; sums of eight rows are in their dtype."""
    n_rows = slots.shape[0]
    for start in range(first, last, _BLOCK_COLUMNS):
        stop = min(last, start + _BLOCK_COLUMNS)
        acc = out[start:stop]
        # Eight rows at a time, so that `acc` is read and written once for eight. Set by hand.
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


_expose_add_rows = divided(_add_rows)


@njit(cache=True, nogil=True)
def _shared_add_rows(arguments, n, block, mailboxes):
    share(_expose_add_rows(arguments), n, block, mailboxes)


_ADD_ROWS = Loop(_add_rows, _shared_add_rows)


@njit(cache=True, nogil=True)
def _gather(rows, slots, columns, stored_positions, other_positions, out, start, stop):
    """Copy rows stored_positions[k], start <= k < stop, of K between q columns from s stored rows.

    rows : (n_slots, capacity) stored rows; slots : (s,) those to read
    columns : (q,) positions within a stored row
    stored_positions : (s,) rows of out that are read
    other_positions : (q - s,) rows of out that are not stored. K is symmetric, so their entries in
        the columns `stored_positions` are copies of entries that were read.
    out : (q, q)
    """
    for k in range(start, stop):
        row, target = rows[slots[k]], out[stored_positions[k]]
        for j in range(columns.shape[0]):
            target[j] = row[columns[j]]
    for j in range(other_positions.shape[0]):
        i = other_positions[j]
        target = out[i]
        for k in range(start, stop):
            target[stored_positions[k]] = out[stored_positions[k], i]


_expose_gather = divided(_gather)


@njit(cache=True, nogil=True)
def _shared_gather(arguments, n, block, mailboxes):
    share(_expose_gather(arguments), n, block, mailboxes)


_GATHER = Loop(_gather, _shared_gather)
