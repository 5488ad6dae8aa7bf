"""Which columns of a data set are subtracted, which are single bits, and which never change.

A column that takes two values adds 0 or a constant to a distance: with the same gap between the two
values in many columns, their part of the distance is a Hamming distance of bit strings. A column
with one value adds nothing between training points, and between a new point and all of them the
same. One-hot coded data (a9a, w8a) are bits only; covtype is ten features and 44 bits. Images are
bytes (`lattice`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit, types

from kbench.kernels.chunks import each_chunk, each_slice
from kbench.kernels.lattice import Lattice

# Fewer columns than this are no cheaper as a word of bits: a word costs as much as 4 to 8 features.
_FEWEST_BITS = 8
# Dense copies of CSR rows may take this many times the bytes of the rows; wider data stay sparse.
_DENSE_GROWTH = 4
_DENSE_BYTES = 256
_CHUNK = 4096
# Fewer features than this are subtracted faster than they are packed, and bits, for which words are
# cheaper than bytes, may be so many times as many.
_FEWEST_BYTES = 32
_BITS_AS_BYTES = 3


@dataclass(frozen=True)
class Layout:
    """How rows of d columns are laid out as features and bits.

    Attributes
    ----------
    features : (p,) indices of the columns that are subtracted
    origin : (p,) float64
        Their means.
    spread : float
        max |x - origin| over them and the rows seen.
    bits : (q,) indices of the two-valued columns of equal gap
    low, high : (q,) float64
        Values that stand for 0 and 1.
    gap : float
        high - low
    constants : (r,) indices of the columns with one value
    values : (r,) float64
    lattice : Lattice or None
        That of the features, then the bits, where they are better taken as bytes than as they are.
    """

    features: np.ndarray
    origin: np.ndarray
    spread: float
    bits: np.ndarray
    low: np.ndarray
    high: np.ndarray
    gap: float
    constants: np.ndarray
    values: np.ndarray
    lattice: Lattice | None = None

    @property
    def n_words(self) -> int:
        """Words of 32 bits, an even number of them."""
        return 2 * -(-len(self.bits) // 64)

    @staticmethod
    def of(X: Any) -> "Layout | None":
        """The layout of rows X : (n, d), dense or CSR; None where CSR rows had better stay sparse.

        O(n d) or O(nnz) time; memory of a few thousand rows.
        """
        low, high, two_valued = _values_of_columns(X)
        is_constant = low == high
        gaps, counts = np.unique((high - low)[two_valued & ~is_constant], return_counts=True)
        gap = float(gaps[np.argmax(counts)]) if len(gaps) else 0.0
        is_bit = two_valued & ~is_constant & (high - low == gap)
        # A constant column of one-hot coded data takes its other value in new rows.
        zero_or_gap = is_constant & ((low == 0.0) | (low == gap))
        if is_bit.sum() >= _FEWEST_BITS:
            low, high = np.where(zero_or_gap, 0.0, low), np.where(zero_or_gap, gap, high)
            is_bit, is_constant = is_bit | zero_or_gap, is_constant & ~zero_or_gap
        else:
            is_bit[:] = False
        features = np.flatnonzero(~is_bit & ~is_constant)
        bits, constants = np.flatnonzero(is_bit), np.flatnonzero(is_constant)
        if sp.issparse(X):
            n_bytes = (4 * len(features) + len(bits) // 8) * X.shape[0]
            if n_bytes > _DENSE_GROWTH * 8 * X.nnz + _DENSE_BYTES * X.shape[0]:
                return None
        sums: dict[int, np.ndarray] = {}

        def add(rows: slice, values: np.ndarray) -> None:
            sums[rows.start] = values.sum(axis=0)

        each_chunk(X, features, add)
        # In one order, whatever was done first.
        origin = np.sum([sums[start] for start in sorted(sums)], axis=0) / X.shape[0]
        spread = np.maximum(high[features] - origin, origin - low[features]).max(initial=0.0)
        lattice = None
        if len(features) >= max(_FEWEST_BYTES, len(bits) / _BITS_AS_BYTES):
            columns = np.concatenate([features, bits])
            lattice = Lattice.of(X, columns, low[columns], high[columns])
        return Layout(
            features,
            origin,
            float(spread),
            bits,
            low[bits],
            high[bits],
            gap,
            constants,
            low[constants],
            lattice,
        )

    def pack(self, X: Any) -> np.ndarray | None:
        """Bits of rows X : (n, d); (n_words, n) uint32, or None where a value is neither of two."""
        if len(self.bits) == 0:
            return np.empty((self.n_words, X.shape[0]), np.uint32)
        if sp.issparse(X):
            return self._pack_sparse(X)
        words = np.empty((self.n_words, X.shape[0]), np.uint32)
        columns = self.bits.astype(np.uint64)
        others: list[slice] = []

        def pack(rows: slice, values: np.ndarray) -> None:
            if others or not _pack_bits(values, columns, self.low, self.high, words[:, rows]):
                others.append(rows)

        each_slice(X, pack)
        return None if others else words

    def _pack_sparse(self, X: Any) -> np.ndarray | None:
        """The same of canonical CSR rows; O(nnz)."""
        # What a value that is not stored stands for; where it is neither, each row must store one.
        ones, stored = self.high == 0.0, (self.high != 0.0) & (self.low != 0.0)
        first = np.zeros(32 * self.n_words, bool)
        first[: len(ones)] = ones
        words = np.packbits(first, bitorder="little").view("<u4").astype(np.uint32)
        words = np.repeat(words[:, None], X.shape[0], axis=1)
        place = np.full(X.shape[1], -1)
        place[self.bits] = np.arange(len(self.bits))
        indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
        values = X.data.astype(np.float64)
        n_stored = _set_bits(indptr, indices, values, place, self.low, self.high, stored, words)
        return words if n_stored == X.shape[0] * np.count_nonzero(stored) else None

    def unpack(self, words: np.ndarray) -> np.ndarray:
        """(q, b) bool of words : (n_words, b)."""
        ordered = np.ascontiguousarray(words.T).astype("<u4").view(np.uint8)
        return np.unpackbits(ordered, axis=1, bitorder="little")[:, : len(self.bits)].T.astype(bool)


def _values_of_columns(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least and greatest value of each column as float64, and whether it takes no other; (d,)."""
    if sp.issparse(X):
        return _values_of_sparse_columns(X)
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    others = np.zeros(X.shape[1], np.uint8)
    for look in (_widen, _see_others):
        for start in range(0, X.shape[0], _CHUNK):
            rows = X[start : start + _CHUNK]
            dtype = np.float32 if rows.dtype == np.float32 else np.float64
            look(np.ascontiguousarray(rows, dtype), low, high, others)
    return low, high, others == 0


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
_SIGNATURES = [
    types.void(
        types.Array(real, 2, "C", readonly=True),
        types.float64[::1],
        types.float64[::1],
        types.uint8[::1],
    )
    for real in (types.float32, types.float64)
]


@njit(_SIGNATURES, cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _widen(rows, low, high, others):
    """low, high : (d,) include the values of rows : (m, d)."""
    least, most = low.astype(rows.dtype), high.astype(rows.dtype)
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(row.shape[0]):
            least[j] = min(least[j], row[j])
        for j in range(row.shape[0]):
            most[j] = max(most[j], row[j])
    low[:], high[:] = least, most


@njit(_SIGNATURES, cache=True, nogil=True)
def _see_others(rows, low, high, others):
    """others[j] = 1 where column j of rows : (m, d) has a value that is neither low nor high."""
    least, most = low.astype(rows.dtype), high.astype(rows.dtype)
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(row.shape[0]):
            others[j] |= (row[j] != least[j]) & (row[j] != most[j])


@njit(
    [
        types.boolean(
            types.Array(real, 2, "C", readonly=True),
            types.uint64[::1],
            *[types.Array(types.float64, 1, "C", readonly=True)] * 2,
            types.uint32[:, :],
        )
        for real in (types.float32, types.float64)
    ],
    cache=True,
    nogil=True,
)
def _pack_bits(rows, columns, low, high, words):
    """Bits of rows[i, columns] : (q,) that are `high` into words[:, i]; whether all are of two."""
    q, others = columns.shape[0], False
    for i in range(rows.shape[0]):
        row = rows[i]
        for w in range(words.shape[0]):
            word = np.uint32(0)
            for k in range(32 * w, min(32 * w + 32, q)):
                value = row[columns[k]]
                one = value == high[k]
                others |= (value != low[k]) & ~one
                word |= np.uint32(np.uint32(one) << np.uint32(k & 31))
            words[w, i] = word
    return not others


# `stored` and bits before are as in `Layout._pack_sparse`.
@njit(["i8(i8[::1], i8[::1], f8[::1], i8[::1], f8[::1], f8[::1], b1[::1], u4[:,::1])"], cache=True)
def _set_bits(indptr, indices, values, place, low, high, stored, words):
    """Bits of the values that CSR rows store; how many are of `stored`, -1 where one is no bit."""
    n_stored = 0
    for i in range(words.shape[1]):
        for k in range(indptr[i], indptr[i + 1]):
            p = place[indices[k]]
            if p < 0:
                continue
            word, bit = p >> 5, np.uint32(1 << (p & 31))
            if values[k] == high[p]:
                words[word, i] |= bit
            elif values[k] == low[p]:
                words[word, i] &= ~bit
            else:
                return -1
            n_stored += stored[p]
    return n_stored


def _values_of_sparse_columns(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    others, counts = np.zeros(X.shape[1], bool), np.zeros(X.shape[1], np.int64)
    indices, values = X.indices.astype(np.int64), X.data.astype(np.float64)
    _widen_sparse(indices, values, low, high, counts)
    with_zeros = counts < X.shape[0]
    low[with_zeros] = np.minimum(low[with_zeros], 0.0)
    high[with_zeros] = np.maximum(high[with_zeros], 0.0)
    _see_others_sparse(indices, values, low, high, others)
    return low, high, ~others


@njit(["(i8[::1], f8[::1], f8[::1], f8[::1], i8[::1])"], cache=True)
def _widen_sparse(indices, values, low, high, counts):
    """As `_widen`, of stored values and the columns that they are in; counts them by column."""
    for k in range(len(values)):
        j, value = indices[k], values[k]
        low[j], high[j] = min(low[j], value), max(high[j], value)
        counts[j] += 1


@njit(["(i8[::1], f8[::1], f8[::1], f8[::1], b1[::1])"], cache=True)
def _see_others_sparse(indices, values, low, high, others):
    for k in range(len(values)):
        j = indices[k]
        others[j] |= (values[k] != low[j]) & (values[k] != high[j])
