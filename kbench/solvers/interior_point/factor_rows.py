"""The factor V of a kernel matrix V V', as rows in memory or as blocks that are read at each pass.

The interior-point method needs sums over rows and values at rows only, so that a factor may be
larger than memory: blocks come in a fixed order, and their sums are added in that order.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.solvers.interior_point.factors import weighted_gram


class FactorRows(Protocol):
    """V : (n, r) float64, by consecutive blocks of rows.

    Attributes
    ----------
    shape : (n, r)
    signs : (n,) ints of -1 and 1 by which the rows of `blocks` are to be multiplied; None is 1
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def signs(self) -> np.ndarray | None: ...

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """All rows in order, without their signs: a range and its (b, r) rows at a time, which are
        not to be changed or kept."""

    def at(self, points: np.ndarray) -> np.ndarray:
        """Some rows, (len(points), r)."""

    def take(self, points: np.ndarray) -> "FactorRows":
        """The factor of some of the points, in increasing order."""

    def columns(self, mean: np.ndarray, kept: np.ndarray) -> "FactorRows":
        """V less `mean` : (r,), and of its columns those `kept` : (r,) bool."""

    def times(self, Z: np.ndarray) -> "FactorRows":
        """V Z of Z : (r, s)."""


class StoredRows:
    """V as an array."""

    signs: np.ndarray | None = None

    def __init__(self, V: np.ndarray) -> None:
        self.V = V
        self.shape: tuple[int, int] = V.shape

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        yield slice(0, len(self.V)), self.V

    def at(self, points: np.ndarray) -> np.ndarray:
        return self.V[points]

    def take(self, points: np.ndarray) -> "StoredRows":
        return StoredRows(self.V[points])

    def columns(self, mean: np.ndarray, kept: np.ndarray) -> "StoredRows":
        V = self.V - mean if mean.any() else self.V
        return StoredRows(np.ascontiguousarray(V if kept.all() else V[:, kept]))

    def times(self, Z: np.ndarray) -> "StoredRows":
        return StoredRows(matmul(self.V, Z))


class ReadRows:
    """V = s (X - mean) Z of rows X that are read block by block, s : (n,) signs.

    Parameters
    ----------
    sizes : (k,) ints
        Rows of each block.
    read : callable
        Number of a block -> its X : (b, d) array or CSR, which costs little to slice.
    signs : (n,) ints
        Rows of sign 0 are to be left out by `take`.
    d : int
    mean : (d,), optional
        Default 0.
    Z : (d, r), optional
        Default the identity.
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

    def mean(self) -> np.ndarray:
        """The mean of the rows X : (d,)."""
        total = np.zeros(self._d)
        for _, X in ReadRows(self._sizes, self._read, self.signs, self._d).blocks():
            total += X.sum(axis=0)
        return total / self.shape[0]

    def centred(self, mean: np.ndarray) -> "ReadRows":
        """The same rows less `mean` : (d,)."""
        return ReadRows(self._sizes, self._read, self.signs, self._d, mean, self._Z)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        # One array for all blocks, and the mean as often as rows: both stay in the cache.
        buffer, mean = np.empty((_BLOCK, self._d)), np.tile(self._mean, (_BLOCK, 1))
        for number, start in enumerate(self._starts):
            X = self._read(number)
            for first in range(0, X.shape[0], _BLOCK):
                part = X[first : first + _BLOCK]
                b = part.shape[0]
                V = buffer[:b]
                V[:] = part if isinstance(part, np.ndarray) else part.toarray()
                V -= mean[:b]
                V = V if self._Z is None else matmul(V, self._Z)
                yield slice(start + first, start + first + b), V

    def at(self, points: np.ndarray) -> np.ndarray:
        rows = np.empty((len(points), self.shape[1]))
        numbers = np.searchsorted(self._ends, points, side="right")
        for number in np.unique(numbers):
            here = numbers == number
            X = self._read(number)[points[here] - self._starts[number]]
            V = (X if isinstance(X, np.ndarray) else X.toarray()) - self._mean
            rows[here] = V if self._Z is None else matmul(V, self._Z)
        return rows * self.signs[points, None]

    def take(self, points: np.ndarray) -> "ReadRows":
        numbers = np.searchsorted(self._ends, points, side="right")
        sizes = np.bincount(numbers, minlength=len(self._ends))
        firsts = np.cumsum(sizes) - sizes

        def read(number: int) -> Any:
            mine = points[firsts[number] : firsts[number] + sizes[number]]
            return self._read(number)[mine - self._starts[number]]

        return ReadRows(sizes, read, self.signs[points], self._d, self._mean, self._Z)

    def columns(self, mean: np.ndarray, kept: np.ndarray) -> "ReadRows":
        if mean.any():
            raise NotImplementedError("rows with signs are centred before they have them")
        return self if kept.all() else self.times(np.eye(self.shape[1])[:, kept])

    def times(self, Z: np.ndarray) -> "ReadRows":
        Z = Z if self._Z is None else matmul(self._Z, Z)
        return ReadRows(self._sizes, self._read, self.signs, self._d, self._mean, Z)


# Rows of a block of float64 products: 4,096 rows of 30 columns are 1 MB, which stays in the cache.
_BLOCK = 4096


def sums(rows: FactorRows, v: np.ndarray) -> np.ndarray:
    """V'v : (r,) of v : (n,)."""
    total, signs = np.zeros(rows.shape[1]), rows.signs
    for part, V in rows.blocks():
        total += matmul(V.T, v[part] if signs is None else v[part] * signs[part])
    return total


def values(rows: FactorRows, w: np.ndarray) -> np.ndarray:
    """V w : (n,) of w : (r,)."""
    out = np.empty(rows.shape[0])
    for part, V in rows.blocks():
        matmul(V, w, out=out[part])
        if rows.signs is not None:
            out[part] *= rows.signs[part]
    return out


def gram(rows: FactorRows, T: np.ndarray | None) -> np.ndarray:
    """V'TV : (r, r) of T : (n,) >= 0, or V'V."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for part, V in rows.blocks():
        total += weighted_gram(V, None if T is None else T[part])
    return total


def squares(rows: FactorRows) -> tuple[np.ndarray, np.ndarray]:
    """Squared norms of the rows (n,) and of the columns (r,)."""
    of_rows, of_columns = np.empty(rows.shape[0]), np.zeros(rows.shape[1])
    for part, V in rows.blocks():
        of_rows[part] = np.einsum("ij,ij->i", V, V)
        of_columns += np.einsum("ij,ij->j", V, V)
    return of_rows, of_columns
