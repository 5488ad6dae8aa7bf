"""Products with rows of a kernel matrix, some of which are kept in a bounded amount of memory.

A stored entry is read five to ten times as fast as a cheap kernel value is computed, but writing it
to fresh memory costs several computations. So a row is first recomputed (without storing anything)
whenever it is needed, and kept from its `min_uses`-th use on; the least recently used makes room.
"""

import threading
from typing import Any

import numpy as np
from numba import njit, types

from kbench.kernels import KernelMatrix
from kbench.kernels.handing_over import SHARED, shared
from kbench.kernels.threads import in_parts

# Missing rows are computed this many at a time: enough for GEMM to reach its speed.
_BATCH = 128
_TILE = 16
_COLUMNS = 1024
# To read a value where it is stored, next to others and far from them.
_NANOSECONDS = 0.2
_NANOSECONDS_SCATTERED = 1.0


class _Room(threading.local):
    """Memory for a square; fresh memory costs as much as what is written to it.

    A thread has its own, which all its solves share: a square of the largest working set.
    """

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def square(self, q: int, dtype: np.dtype) -> np.ndarray:
        """(q, q), what was there before; any values where it was not as large."""
        n_bytes = q * q * dtype.itemsize
        if len(self._bytes) < n_bytes:
            self._bytes = np.empty(n_bytes, np.uint8)
        return self._bytes[:n_bytes].view(dtype).reshape(q, q)


_room = _Room()


class RowCache:
    """Products K[columns, rows] @ coef.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    cache_mb : float
        Bound in MiB of the stored rows.
    min_uses : int
        The use from which on a row is stored.
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
        """Bytes reserved for rows."""
        return self._buffer.nbytes

    @property
    def holds_whole_rows(self) -> bool:
        """Whether rows are stored at once, and half of all fit with all their columns."""
        return self._min_uses == 1 and len(self._kernel) ** 2 <= 2 * self._buffer.size

    def lay_out(self, columns: np.ndarray, capacity: int) -> None:
        """Forget the stored rows; the next have these columns and room for `capacity` of them."""
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
        """Append columns; stored rows are completed when they are next used."""
        longer = np.concatenate([self.columns, columns])
        if len(longer) > self._capacity:
            self.lay_out(longer, min(len(longer) + len(longer) // 4, len(self._kernel)))
        self.columns = longer

    def product(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """coef @ K[rows, columns] : (m,) float64."""
        self._uses[rows] += 1
        self._clock += 1
        stored = (self._uses[rows] >= self._min_uses) | (self._slot_of[rows] >= 0)
        if stored.sum() > len(self._owner):
            stored &= self._slot_of[rows] >= 0
        passing = ~stored
        if passing.any():
            points = self._points_from(0)
            out = self._kernel.product(rows[passing], coef[passing], rows=points)
        else:
            out = np.zeros(len(self.columns))
        if stored.any():
            slots = self._complete(rows[stored])
            self._add_rows(slots, coef[stored].astype(self._rows.dtype), out)
        return out

    def gram(self, positions: np.ndarray, new: slice | None = None) -> np.ndarray:
        """K between columns[positions] : (q, q).

        new : slice, optional
            Where positions differ from those of the last call of this thread, which had as many: a
            range from the first or to the last. What is not new is not computed again, and what
            follows by symmetry is not either. The result is valid until the thread's next call;
            without `new`, as long as it is needed.

        Stored rows are read where they are stored at their first use: a scattered value takes as
        long to read as a cheap one to compute.
        """
        points = self.columns[positions]
        q, dtype = len(points), self._rows.dtype
        out = np.empty((q, q), dtype) if new is None else _room.square(q, dtype)
        if self._min_uses == 1:
            known = self._slot_of[points] >= 0
            known[known] = self._length[self._slot_of[points[known]]] == len(self.columns)
        else:
            known = np.zeros(len(points), bool)
        if known.any():
            stored, others = np.flatnonzero(known), np.flatnonzero(~known)
            slots = self._slot_of[points[stored]]
            cost = _NANOSECONDS_SCATTERED * len(slots) * len(positions)
            arguments = (self._rows, slots, positions, stored, out)
            in_parts(_gather, *arguments, n=len(slots), nanoseconds=cost, multiple=1)
            if len(others):
                out[np.ix_(others, stored)] = out[np.ix_(stored, others)].T
                rows = points[others]
                out[np.ix_(others, others)] = self._kernel.block(rows, self._kernel.points(rows))
            return out
        new = slice(0, q) if new is None else new
        self._kernel.block(points[new], self._kernel.points(points), out=out[new])
        _mirror_columns(out, new)
        return out

    def _complete(self, rows: np.ndarray) -> np.ndarray:
        """Slots of these rows, their values computed up to the last column."""
        slots = self._slot_of[rows]
        self._last_use[slots[slots >= 0]] = self._clock
        missing = np.flatnonzero(slots < 0)
        if len(missing):
            # Stable, so that slots of which none has been used are taken side by side.
            free = np.sort(np.argsort(self._last_use, kind="stable")[: len(missing)])
            evicted = self._owner[free]
            self._slot_of[evicted[evicted >= 0]] = -1
            self._owner[free], self._slot_of[rows[missing]] = rows[missing], free
            self._length[free], self._last_use[free] = 0, self._clock
            slots[missing] = free
        width = len(self.columns)
        lengths = self._length[slots]
        for length in np.unique(lengths[lengths < width]):
            points = self._points_from(length)
            same = np.flatnonzero(lengths == length)
            for start in range(0, len(same), _BATCH):
                part = same[start : start + _BATCH]
                first, last = slots[part[0]], slots[part[-1]]
                if last - first == len(part) - 1 and (length, width) == (0, self._capacity):
                    self._kernel.block(rows[part], points, out=self._rows[first : last + 1])
                else:
                    self._rows[slots[part], length:width] = self._kernel.block(rows[part], points)
        self._length[slots] = width
        return slots

    def _add_rows(self, slots: np.ndarray, coef: np.ndarray, out: np.ndarray) -> None:
        cost = _NANOSECONDS * len(out) * len(slots)
        arguments = (self._rows, slots, coef, out)
        in_parts(_add_rows, *arguments, n=len(out), nanoseconds=cost, multiple=_COLUMNS)

    def _points_from(self, first: int) -> Any:
        """Prepared points of the columns from `first` on; gathered once for many rows."""
        if self._gathered is None or self._gathered[0] != (first, len(self.columns)):
            # The old ones go before the others come.
            self._gathered = None
            points = self._kernel.points(self.columns[first:])
            self._gathered = (first, len(self.columns)), points
        return self._gathered[1]


@njit(fastmath={"contract", "nsz", "arcp", "reassoc"})
def _add_some(rows, slots, coef, out, first, last):
    """out[first:last] += coef @ rows[slots, first:last]; eight rows are added in their own type."""
    n_rows = slots.shape[0]
    # A tile of `out` and eight rows of it stay in the L1 cache.
    for start in range(first, last, _COLUMNS):
        stop = min(last, start + _COLUMNS)
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


_share_add = shared(_add_some)


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(
    [
        types.void(real[:, ::1], types.int64[::1], real[::1], types.float64[::1], *SHARED)
        for real in (types.float32, types.float64)
    ],
    cache=True,
    nogil=True,
)
def _add_rows(rows, slots, coef, out, n, part, boxes):
    _share_add((rows, slots, coef, out), n, part, boxes)


@njit
def _gather_some(rows, slots, columns, places, out, start, stop):
    """out[places[k], :] = rows[slots[k], columns]"""
    for k in range(start, stop):
        row, target = rows[slots[k]], out[places[k]]
        for j in range(columns.shape[0]):
            target[j] = row[columns[j]]


_share_gather = shared(_gather_some)


@njit(
    [
        types.void(real[:, ::1], *[types.int64[::1]] * 3, real[:, ::1], *SHARED)
        for real in (types.float32, types.float64)
    ],
    cache=True,
    nogil=True,
)
def _gather(rows, slots, columns, places, out, n, part, boxes):
    _share_gather((rows, slots, columns, places, out), n, part, boxes)


def _mirror_columns(square: np.ndarray, new: slice) -> None:
    """Bring up to date the columns `new` of a symmetric matrix whose rows `new` are."""
    first, last = (new.stop, len(square)) if new.start == 0 else (0, new.start)
    n, cost = last - first, _NANOSECONDS * (last - first) * (new.stop - new.start)
    in_parts(_mirror, square, first, new.start, new.stop, n=n, nanoseconds=cost, multiple=_TILE)


@njit
def _mirror_some(square, offset, first, last, start, stop):
    """square[i, first:last] = square[first:last, i], start <= i - offset < stop."""
    # Through a tile of whole cache lines: rows a power of two apart share few places in the cache.
    tile = np.empty(_TILE * _TILE, square.dtype)
    for i in range(offset + start, offset + stop, _TILE):
        height = min(_TILE, offset + stop - i)
        for j in range(first, last, _TILE):
            width = min(_TILE, last - j)
            if height == _TILE and width == _TILE:
                for k in range(_TILE):
                    source = square[j + k, i : i + _TILE]
                    for r in range(_TILE):
                        tile[r * _TILE + k] = source[r]
                for r in range(_TILE):
                    target = square[i + r, j : j + _TILE]
                    for k in range(_TILE):
                        target[k] = tile[r * _TILE + k]
            else:
                for r in range(height):
                    for k in range(width):
                        square[i + r, j + k] = square[j + k, i + r]


_share_mirror = shared(_mirror_some)


@njit(
    [
        types.void(real[:, ::1], *[types.int64] * 3, *SHARED)
        for real in (types.float32, types.float64)
    ],
    cache=True,
    nogil=True,
)
def _mirror(square, offset, first, last, n, part, boxes):
    _share_mirror((square, offset, first, last), n, part, boxes)
