"""Which columns of a data set are real features, which are bits, and which are constant.

A column with two values contributes 0 or a constant to a distance. If the two values differ by the
same gap in many columns, these contribute gap^power times the Hamming distance of bit strings. A
constant column contributes 0 to distances between training points, and one number to all distances
from a new point. One-hot coded data (a9a, w8a) have bits only; covtype has ten features and 44
bits. Images have 8-bit features (`lattice`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.kernels.chunks import each_chunk, each_slice
from kbench.kernels.lattice import Lattice
from kbench.kernels.origin import origin_of
from kbench.stored import MAX_FEATURES, check_arrays, check_indices, check_number, require

# Least number of two-valued columns to pack: two words cost as much as 3 features
# (`scripts/bench_kernels.py`), and packing has a fixed cost.
_MIN_BITS = 8
# CSR rows are prepared as dense points if the points take at most _DENSE_GROWTH times the bytes of
# the CSR rows plus _DENSE_BYTES per row: tiles are faster, but take memory. Set by hand.
_DENSE_GROWTH = 4
_DENSE_BYTES = 256
# Rows examined at a time: more rows take more memory, fewer cost more calls. Set by hand.
_CHUNK_ROWS = 4096
# Least number of 8-bit features for byte products: with fewer, tiles are as fast. Byte products
# take bits as bytes, too, and are used up to this number of bits per 8-bit feature. Set by hand.
_MIN_BYTE_FEATURES = 32
_MAX_BITS_PER_BYTE_FEATURE = 3


@dataclass(frozen=True)
class Packing:
    """Switches of the packed layouts, for ablations and tests; not part of the public API."""

    # Whether two-valued columns are packed into bits, and quantised features into bytes.
    bits: bool = True
    bytes: bool = True


@dataclass(frozen=True)
class Layout:
    """How rows of d columns are laid out as features and bits."""

    features: np.ndarray  # (p,) indices of the columns that are real features
    origin: np.ndarray  # (p,) float64: their `origin_of`
    spread: float  # max |x - origin| over these features and the training rows
    bits: np.ndarray  # (q,) indices of the two-valued columns of equal gap
    # (q,) float64: values that become bits 0 and 1.
    low: np.ndarray
    high: np.ndarray
    gap: float  # high - low
    constants: np.ndarray  # (r,) indices of the columns with one value
    values: np.ndarray  # (r,) float64: the values of these columns
    # Lattice of the features, then the bits; None if they are not multiplied as bytes.
    lattice: Lattice | None = None

    @property
    def n_words(self) -> int:
        """Number of 32-bit words, even."""
        return 2 * -(-len(self.bits) // 64)

    @staticmethod
    def of(X: Any, packing: Packing = Packing()) -> "Layout | None":
        """Find the layout of rows X : (n, d), dense or CSR; None if CSR rows should stay sparse.

        O(n d) or O(nnz) time; memory of a few thousand rows, and of the nonzeros of CSR rows.
        """
        low, high, two_valued = _values_of_columns(X)
        is_constant = low == high
        gaps, counts = np.unique((high - low)[two_valued & ~is_constant], return_counts=True)
        gap = float(gaps[np.argmax(counts)]) if len(gaps) else 0.0
        is_bit = two_valued & ~is_constant & (high - low == gap)
        # A constant column of one-hot coded data may have its second value in new rows: with these
        # two values it is a bit.
        zero_or_gap = is_constant & ((low == 0.0) | (low == gap))
        if packing.bits and is_bit.sum() >= _MIN_BITS:
            low, high = np.where(zero_or_gap, 0.0, low), np.where(zero_or_gap, gap, high)
            is_bit, is_constant = is_bit | zero_or_gap, is_constant & ~zero_or_gap
        else:
            is_bit[:] = False
        features = np.flatnonzero(~is_bit & ~is_constant)
        bits, constants = np.flatnonzero(is_bit), np.flatnonzero(is_constant)
        if sp.issparse(X):
            # A nonzero of CSR rows has 8 bytes: a float32 value and an int32 index.
            n_bytes = (4 * len(features) + len(bits) // 8) * X.shape[0]
            if n_bytes > _DENSE_GROWTH * 8 * X.nnz + _DENSE_BYTES * X.shape[0]:
                return None
        sums: dict[int, np.ndarray] = {}

        def add_chunk(rows: slice, values: np.ndarray) -> None:
            sums[rows.start] = values.sum(axis=0)

        each_chunk(X, features, add_chunk)
        # The order of the sum does not depend on which thread finished first.
        mean = np.sum([sums[start] for start in sorted(sums)], axis=0) / X.shape[0]
        origin = origin_of(X, mean, features)
        spread = np.maximum(high[features] - origin, origin - low[features]).max(initial=0.0)
        lattice = None
        min_features = max(_MIN_BYTE_FEATURES, len(bits) / _MAX_BITS_PER_BYTE_FEATURE)
        if packing.bytes and len(features) >= min_features:
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
        """Pack rows X : (n, d) into (n_words, n) uint32; None if a column has a third value."""
        if len(self.bits) == 0:
            return np.empty((self.n_words, X.shape[0]), np.uint32)
        if sp.issparse(X):
            return self._pack_sparse(X)
        words = np.empty((self.n_words, X.shape[0]), np.uint32)
        columns = self.bits.astype(np.uint64)
        failed_chunks: list[slice] = []  # chunks with a third value

        def pack_chunk(rows: slice, values: np.ndarray) -> None:
            if failed_chunks or not _pack_bits(
                values, columns, self.low, self.high, words, rows.start
            ):
                failed_chunks.append(rows)

        each_slice(X, pack_chunk)
        return None if failed_chunks else words

    def _pack_sparse(self, X: Any) -> np.ndarray | None:
        """Pack canonical CSR rows; O(nnz)."""
        # A value that is not stored is 0.0, with bit 1 in the columns `ones`. Columns `stored`,
        # whose two values are not 0.0, must be stored in every row.
        ones, stored = self.high == 0.0, (self.high != 0.0) & (self.low != 0.0)
        default_bits = np.zeros(32 * self.n_words, bool)
        default_bits[: len(ones)] = ones
        words = np.packbits(default_bits, bitorder="little").view("<u4").astype(np.uint32)
        words = np.repeat(words[:, None], X.shape[0], axis=1)
        position = np.full(X.shape[1], -1)  # of a column among the bits; -1 for other columns
        position[self.bits] = np.arange(len(self.bits))
        indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
        values = X.data.astype(np.float64)
        n_stored = _set_bits(indptr, indices, values, position, self.low, self.high, stored, words)
        return words if n_stored == X.shape[0] * np.count_nonzero(stored) else None

    def unpack(self, words: np.ndarray) -> np.ndarray:
        """Return the bits of words : (n_words, b) as (q, b) bool."""
        point_bytes = np.ascontiguousarray(words.T).astype("<u4").view(np.uint8)
        return np.unpackbits(point_bytes, axis=1, bitorder="little")[:, : len(self.bits)].T.astype(
            bool
        )

    def check_stored(self) -> None:
        check_arrays(
            self,
            features="i8 p",
            origin="f8 p",
            bits="i8 q",
            low="f8 q",
            high="f8 q",
            constants="i8 r",
            values="f8 r",
        )
        check_number(self, "spread")
        check_number(self, "gap")
        for name in ("features", "bits", "constants"):
            check_indices(getattr(self, name), MAX_FEATURES, name)
        require(isinstance(self.lattice, Lattice | None), "lattice is of another class")
        if self.lattice is not None:
            columns = np.concatenate([self.features, self.bits])
            require(np.array_equal(self.lattice.columns, columns), "lattice has other columns")


def _values_of_columns(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (d,) arrays: the least and the greatest value of each column, and whether the column
    has no third value."""
    if sp.issparse(X):
        return _values_of_sparse_columns(X)
    low, high = np.full(X.shape[1], np.inf), np.full(X.shape[1], -np.inf)
    others = np.zeros(X.shape[1], np.uint8)
    for examine in (_widen, _find_others):
        for start in range(0, X.shape[0], _CHUNK_ROWS):
            rows = X[start : start + _CHUNK_ROWS]
            dtype = np.float32 if rows.dtype == np.float32 else np.float64
            examine(np.ascontiguousarray(rows, dtype), low, high, others)
    return low, high, others == 0


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _widen(rows, low, high, others):
    """Extend low, high : (d,) to include the values of rows : (m, d)."""
    smallest, largest = low.astype(rows.dtype), high.astype(rows.dtype)
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(row.shape[0]):
            smallest[j] = min(smallest[j], row[j])
        for j in range(row.shape[0]):
            largest[j] = max(largest[j], row[j])
    for j in range(low.shape[0]):
        low[j], high[j] = smallest[j], largest[j]


@njit(cache=True, nogil=True)
def _find_others(rows, low, high, others):
    """Set others[j] = 1 where column j of rows : (m, d) has a value other than low and high."""
    smallest, largest = low.astype(rows.dtype), high.astype(rows.dtype)
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(row.shape[0]):
            others[j] |= (row[j] != smallest[j]) & (row[j] != largest[j])


@njit(cache=True, nogil=True)
def _pack_bits(rows, columns, low, high, words, first):
    """Write the bits rows[i, columns] == high : (q,) to words[:, first + i]; return whether all
    values are low or high.
    """
    q, others = columns.shape[0], False
    for i in range(rows.shape[0]):
        row = rows[i]
        for w in range(words.shape[0]):
            word = np.uint32(0)
            for k in range(32 * w, min(32 * w + 32, q)):
                value = row[columns[k]]
                bit = value == high[k]
                others |= (value != low[k]) & ~bit
                word |= np.uint32(np.uint32(bit) << np.uint32(k & 31))
            words[w, first + i] = word
    return not others


@njit(cache=True)
def _set_bits(indptr, indices, values, position, low, high, stored, words):
    """Set the bits of stored values in `words`, which has the bits of rows of zeros; return how
    many values are in columns `stored`, or -1 if a value is neither low nor high.
    """
    n_stored = 0
    for i in range(words.shape[1]):
        for k in range(indptr[i], indptr[i + 1]):
            p = position[indices[k]]
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
    _find_others_sparse(indices, values, low, high, others)
    return low, high, ~others


@njit(cache=True)
def _widen_sparse(indices, values, low, high, counts):
    """Extend low, high : (d,) by the stored values of CSR rows; count them by column."""
    for k in range(len(values)):
        j, value = indices[k], values[k]
        low[j], high[j] = min(low[j], value), max(high[j], value)
        counts[j] += 1


@njit(cache=True)
def _find_others_sparse(indices, values, low, high, others):
    for k in range(len(values)):
        j = indices[k]
        others[j] |= (values[k] != low[j]) & (values[k] != high[j])
