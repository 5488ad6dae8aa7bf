"""Quantised (8-bit) features: x_j = offset_j + step k_j with integers k_j in 0 .. 255.

Images have such features: pixels / 255 in float32 are multiples of 1/255, each rounded once. The
squared distance between two such rows is step^2 times an integer, computed without rounding
(`byte_tiles`). Step and offsets are estimated from the values, so that features that were shifted,
or multiplied by one number, are found as well.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.kernels.chunks import dense_chunks, each_chunk
from kbench.kernels.columns import take_columns
from kbench.stored import MAX_FEATURES, check_arrays, check_indices, check_number, require

# Largest 8-bit number.
LEVELS = 255
# Sums of squared differences are 32-bit integers.
_MAX_COLUMNS = (2**31 - 1) // LEVELS**2
# Rows and distinct values from which the lattice is found; `pack` checks all values. Set by hand.
_SAMPLE_ROWS = 64
_SAMPLE_VALUES = 4096
# Bound on the distance of a value from the lattice in units of eps times the largest value: 1/2 for
# the value, 1/2 for its offset, and 2 for the step, which is computed from two rounded values.
_ROUNDINGS = 3.0
# Reject the lattice if the rounding error exceeds 2 % of its step. Set by hand.
_MAX_ROUNDING = 0.02


@dataclass(frozen=True)
class BytePoints:
    """Prepared points with quantised features."""

    # (w, n) uint32: four integers k_j each, the first in the lowest byte; padded with zeros.
    words: np.ndarray
    # (n,) int32: sum_j k_j and sum_j k_j^2.
    totals: np.ndarray
    squares: np.ndarray
    factor: np.ndarray | None  # (n,) float64: as in `DensePoints`

    @property
    def shape(self) -> tuple[int]:
        return self.totals.shape

    @property
    def nbytes(self) -> int:
        arrays = (self.words, self.totals, self.squares, self.factor)
        return sum(array.nbytes for array in arrays if array is not None)

    def __getitem__(self, rows: Any) -> "BytePoints":
        return BytePoints(
            take_columns(self.words, rows),
            self.totals[rows],
            self.squares[rows],
            None if self.factor is None else self.factor[rows],
        )

    def check_stored(self) -> None:
        check_arrays(self, words="u4 w n", totals="i4 n", squares="i4 n", factor="?f8 n")


@dataclass(frozen=True)
class Lattice:
    """Offsets and the common step of quantised columns."""

    columns: np.ndarray  # (p,) indices
    offset: np.ndarray  # (p,) float64: value of the integer 0
    step: float
    largest: float  # max |x| over these columns

    @staticmethod
    def of(X: Any, columns: np.ndarray, low: np.ndarray, high: np.ndarray) -> "Lattice | None":
        """Find the lattice of a sample of the rows X : (n, d), dense or CSR; None if there is none.

        low, high : (p,) least and greatest value of each of the columns, which must differ
        """
        if not 0 < len(columns) <= _MAX_COLUMNS or X.dtype.kind != "f":
            return None
        widest = float((high - low).max())
        largest = float(np.maximum(np.abs(low), np.abs(high)).max())
        # The range of the widest column is an integer number of steps.
        steps = widest / np.arange(1, LEVELS + 1)
        relative_tol = _ROUNDINGS * float(np.finfo(X.dtype).eps)
        tol = relative_tol * largest
        steps = steps[tol <= _MAX_ROUNDING * steps]
        # Every range is an integer number of steps, up to rounding of the column's own values: a
        # bound from all columns would accept any small column beside one of 1e9. Most data have no
        # lattice, which the first 16 columns show, or 64 values below (both set by hand).
        widths, rounding = high - low, relative_tol * np.maximum(np.abs(low), np.abs(high))
        for checked in (slice(0, 16), slice(None)):
            multiples = np.maximum(np.rint(widths[checked] / steps[:, None]), 1.0)
            off_lattice = np.abs(widths[checked] - multiples * steps[:, None])
            steps = steps[(off_lattice <= rounding[checked]).all(axis=1)]
            if not len(steps):
                return None
        sample_rows = np.linspace(0, X.shape[0] - 1, min(_SAMPLE_ROWS, X.shape[0])).astype(np.intp)
        values = np.concatenate([rows - low for _, rows in dense_chunks(X[sample_rows], columns)])
        values = np.unique(values)
        sampled = np.linspace(0, len(values) - 1, min(_SAMPLE_VALUES, len(values))).astype(np.intp)
        for sample in (values[sampled[:: len(sampled) // 64 + 1]], values[sampled]):
            multiples = sample / steps[:, None]
            off_lattice = np.abs(multiples - np.rint(multiples)).max(axis=1) * steps
            steps = steps[off_lattice <= tol]
        if not len(steps):
            return None
        # All columns get the same offset if possible, as new rows may have values below `low`.
        step = float(steps[0])
        steps_below = np.rint((low - low.min()) / step)
        steps_below = np.minimum(steps_below, LEVELS - np.rint((high - low) / step))
        return Lattice(columns, low - step * steps_below, step, largest)

    def pack(self, X: Any, dtype: np.dtype, factor: np.ndarray | None) -> BytePoints | None:
        """Quantise rows X : (n, d); None if a value is off the lattice by more than rounding.

        O(n d) time; a quarter of the memory of float32 rows.
        """
        n, p = X.shape[0], len(self.columns)
        tol = _ROUNDINGS * float(np.finfo(dtype).eps) * self.largest
        words = np.empty((-(-p // 4), n), np.uint32)
        totals, squares = np.empty(n, np.int32), np.empty(n, np.int32)
        rejected: list[slice] = []  # chunks with a value off the lattice

        def pack_chunk(rows: slice, values: np.ndarray) -> None:
            values = values - self.offset
            k = np.rint(values / self.step)
            values -= self.step * k
            if (
                rejected
                or k.min() < 0.0
                or k.max() > LEVELS
                or np.abs(values, out=values).max() > tol
            ):
                rejected.append(rows)
                return
            totals[rows], squares[rows] = k.sum(axis=1), np.einsum("ij,ij->i", k, k)
            padded = np.zeros((len(k), 4 * len(words)), np.uint8)
            padded[:, :p] = k
            words[:, rows] = padded.view("<u4").T

        each_chunk(X, self.columns, pack_chunk)
        if rejected:
            return None
        return BytePoints(words, totals, squares, factor)

    def unpack(self, points: BytePoints) -> np.ndarray:
        """Return the values of the points; (p, n) float64."""
        k = np.ascontiguousarray(points.words.T).astype("<u4").view(np.uint8)
        return self.offset[:, None] + self.step * k[:, : len(self.columns)].T

    def entry_error(self, dtype: np.dtype, scale: float) -> float:
        """Bound the error of 2^-|scale (x - z)|^2 when x and z are moved to the lattice."""
        distance = 2.0 * _ROUNDINGS * float(np.finfo(dtype).eps) * self.largest
        # |d 2^-u^2 / du| < 0.72
        return 0.72 * scale * distance * float(np.sqrt(len(self.columns)))

    def check_stored(self) -> None:
        check_arrays(self, columns="i8 p", offset="f8 p")
        check_indices(self.columns, MAX_FEATURES, "columns")
        require(check_number(self, "step") > 0.0, "step should be positive")
        check_number(self, "largest")


def nanoseconds_of_bytes(n_words: int) -> float:
    """Estimated time of one kernel value with AVX-512 VNNI (`scripts/bench_kernels.py`)."""
    return 0.5 + 0.008 * n_words
