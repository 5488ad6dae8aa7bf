"""The factor V of a kernel matrix V V', as rows in memory or as blocks that are read at each pass.

The interior-point method needs only sums over rows and values at rows, so that a factor may be
larger than memory. Several threads share a pass over the rows: each takes a few shards of them. The
shards do not depend on the number of threads, and their sums are added in the order of the rows, so
that results are the same to the last bit with any number of threads.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.kernels.threads import run_tasks
from kbench.solvers.interior_point.factors import weighted_gram

# Rows that `ReadRows` converts to float64 and centres at a time: 4,096 rows of 30 columns are 1 MiB
# and stay in the cache. Set by hand.
_BLOCK_ROWS = 4096
# Least number of rows in a shard of a stored factor, and the largest number of shards. More shards
# divide the work more evenly, but a shard costs up to 0.05 ms to start, and the cheapest sum over
# 32,768 rows of 20 columns takes 0.1 ms (`scripts/bench_threads.py` times whole fits).
_ROWS_PER_SHARD, _MAX_SHARDS = 32_768, 8

Block = tuple[slice, np.ndarray]


class FactorRows(Protocol):
    """V : (n, r) float64, in consecutive shards, each of which is read in blocks of rows.

    Attributes
    ----------
    shape : (n, r)
    n_shards : int
    signs : (n,) ints of -1 and 1 by which the rows of `blocks` are to be multiplied; None: all 1
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def n_shards(self) -> int: ...

    @property
    def signs(self) -> np.ndarray | None: ...

    def blocks(self, shard: int) -> Iterator[Block]:
        """Yield (slice, (b, r) array) for the rows of a shard in order, without their signs. The
        array is valid until the next one and must not be changed."""

    def rows_at(self, points: np.ndarray) -> np.ndarray:
        """Return the rows of these points with their signs, (len(points), r)."""

    def take(self, points: np.ndarray) -> "FactorRows":
        """The factor of some of the points, in increasing order."""

    def columns(self, mean: np.ndarray, mask: np.ndarray) -> "FactorRows":
        """The columns `mask` : (r,) bool of V - mean, mean : (r,)."""

    def times(self, Z: np.ndarray) -> "FactorRows":
        """V Z of Z : (r, s)."""


class StoredRows:
    """V as an array."""

    signs: np.ndarray | None = None

    def __init__(self, V: np.ndarray) -> None:
        self.V = V
        self.shape: tuple[int, int] = V.shape
        self.n_shards = min(max(len(V) // _ROWS_PER_SHARD, 1), _MAX_SHARDS)

    def blocks(self, shard: int) -> Iterator[Block]:
        n = len(self.V)
        rows = slice(shard * n // self.n_shards, (shard + 1) * n // self.n_shards)
        yield rows, self.V[rows]

    def rows_at(self, points: np.ndarray) -> np.ndarray:
        return self.V[points]

    def take(self, points: np.ndarray) -> "StoredRows":
        return StoredRows(self.V[points])

    def columns(self, mean: np.ndarray, mask: np.ndarray) -> "StoredRows":
        V = self.V - mean if mean.any() else self.V
        return StoredRows(np.ascontiguousarray(V if mask.all() else V[:, mask]))

    def times(self, Z: np.ndarray) -> "StoredRows":
        return StoredRows(matmul(self.V, Z))


class ReadRows:
    """V = s (X - mean) Z of rows X that are read block by block, s : (n,) signs.

    Parameters
    ----------
    sizes : (k,) ints. Rows of each block.
    read : Number of a block -> its X : (b, d) array or CSR, whose slices cost little
    signs : (n,) ints. Callers leave out rows of sign 0 with `take`.
    mean : (d,), optional. Default 0.
    Z : (d, r), optional. Default the identity.
    """

    def __init__(
        self,
        sizes: np.ndarray,
        read: Callable[[int], Any],
        signs: np.ndarray,
        d: int,
        mean: np.ndarray | None = None,
        Z: np.ndarray | None = None,
    ) -> None:
        self._sizes, self._ends = sizes, np.cumsum(sizes)
        self._starts = self._ends - sizes
        self._read, self.signs, self._d, self._Z = read, signs, d, Z
        self._mean = np.zeros(d) if mean is None else mean
        self.shape = (len(signs), d if Z is None else Z.shape[1])
        self.n_shards = min(max(len(sizes), 1), _MAX_SHARDS)

    def mean(self) -> np.ndarray:
        """The mean of the rows X : (d,)."""
        unscaled = ReadRows(self._sizes, self._read, self.signs, self._d)
        total = _sum_of_shards(unscaled, lambda blocks: sum(X.sum(axis=0) for _, X in blocks))
        mean: np.ndarray = total / self.shape[0]
        return mean

    def centred(self, mean: np.ndarray) -> "ReadRows":
        """The same rows less `mean` : (d,)."""
        return ReadRows(self._sizes, self._read, self.signs, self._d, mean, self._Z)

    def blocks(self, shard: int) -> Iterator[Block]:
        # `buffer` serves all blocks, and each row of `mean` is the mean: both stay in the cache.
        buffer, mean = np.empty((_BLOCK_ROWS, self._d)), np.tile(self._mean, (_BLOCK_ROWS, 1))
        k = len(self._sizes)
        for number in range(shard * k // self.n_shards, (shard + 1) * k // self.n_shards):
            X, start = self._read(number), int(self._starts[number])
            for first in range(0, X.shape[0], _BLOCK_ROWS):
                rows = X[first : first + _BLOCK_ROWS]
                b = rows.shape[0]
                V = buffer[:b]
                V[:] = rows if isinstance(rows, np.ndarray) else rows.toarray()
                V -= mean[:b]
                V = V if self._Z is None else matmul(V, self._Z)
                yield slice(start + first, start + first + b), V

    def rows_at(self, points: np.ndarray) -> np.ndarray:
        rows = np.empty((len(points), self.shape[1]))
        block_numbers = np.searchsorted(self._ends, points, side="right")
        for number in np.unique(block_numbers):
            in_block = block_numbers == number
            X = self._read(number)[points[in_block] - self._starts[number]]
            V = (X if isinstance(X, np.ndarray) else X.toarray()) - self._mean
            rows[in_block] = V if self._Z is None else matmul(V, self._Z)
        return rows * self.signs[points, None]

    def take(self, points: np.ndarray) -> "ReadRows":
        block_numbers = np.searchsorted(self._ends, points, side="right")
        sizes = np.bincount(block_numbers, minlength=len(self._ends))
        firsts = np.cumsum(sizes) - sizes

        def read(number: int) -> Any:
            points_of_block = points[firsts[number] : firsts[number] + sizes[number]]
            return self._read(number)[points_of_block - self._starts[number]]

        return ReadRows(sizes, read, self.signs[points], self._d, self._mean, self._Z)

    def columns(self, mean: np.ndarray, mask: np.ndarray) -> "ReadRows":
        if mean.any():
            raise NotImplementedError("rows are centred before they get signs")
        return self if mask.all() else self.times(np.eye(self.shape[1])[:, mask])

    def times(self, Z: np.ndarray) -> "ReadRows":
        Z = Z if self._Z is None else matmul(self._Z, Z)
        return ReadRows(self._sizes, self._read, self.signs, self._d, self._mean, Z)


def _map_shards(rows: FactorRows, function: Callable[[Iterable[Block]], Any]) -> list[Any]:
    """Call `function` with the blocks of each shard, in several threads."""
    results: list[Any] = [None] * rows.n_shards

    def call(shard: int) -> None:
        results[shard] = function(rows.blocks(shard))

    run_tasks([partial(call, shard) for shard in range(rows.n_shards)])
    return results


def _sum_of_shards(rows: FactorRows, function: Callable[[Iterable[Block]], Any]) -> Any:
    """The sum of `function` over all shards, in their order."""
    first, *others = _map_shards(rows, function)
    for other in others:
        first += other
    return first


def sums(rows: FactorRows, v: np.ndarray) -> np.ndarray:
    """V'v : (r,) of v : (n,)."""
    signs = rows.signs

    def sum_blocks(blocks: Iterable[Block]) -> np.ndarray:
        total = np.zeros(rows.shape[1])
        for in_block, V in blocks:
            total += matmul(V.T, v[in_block] if signs is None else v[in_block] * signs[in_block])
        return total

    total: np.ndarray = _sum_of_shards(rows, sum_blocks)
    return total


def values(rows: FactorRows, w: np.ndarray) -> np.ndarray:
    """V w : (n,) of w : (r,)."""
    out, signs = np.empty(rows.shape[0]), rows.signs

    def multiply_blocks(blocks: Iterable[Block]) -> None:
        for in_block, V in blocks:
            matmul(V, w, out=out[in_block])
            if signs is not None:
                out[in_block] *= signs[in_block]

    _map_shards(rows, multiply_blocks)
    return out


def gram(rows: FactorRows, T: np.ndarray | None) -> np.ndarray:
    """V'TV : (r, r) of T : (n,) >= 0, or V'V."""

    def sum_blocks(blocks: Iterable[Block]) -> np.ndarray:
        total = np.zeros((rows.shape[1], rows.shape[1]))
        for in_block, V in blocks:
            total += weighted_gram(V, None if T is None else T[in_block])
        return total

    total: np.ndarray = _sum_of_shards(rows, sum_blocks)
    return total


def squares(rows: FactorRows) -> tuple[np.ndarray, np.ndarray]:
    """Squared norms of the rows (n,) and of the columns (r,)."""
    row_squares = np.empty(rows.shape[0])

    def sum_blocks(blocks: Iterable[Block]) -> np.ndarray:
        column_squares = np.zeros(rows.shape[1])
        for in_block, V in blocks:
            row_squares[in_block] = np.einsum("ij,ij->i", V, V)
            column_squares += np.einsum("ij,ij->j", V, V)
        return column_squares

    return row_squares, _sum_of_shards(rows, sum_blocks)
