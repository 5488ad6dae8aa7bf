"""Rows on their way from a raw file to the prepared arrays: selected, scaled, in blocks.

Three kinds stand behind one small interface (`n`, `d`, `y`, `blocks`): rows in memory, dense or
CSR, and rows that a generator makes anew at every pass.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from kbench.data.generators import Generator

BLOCK_BYTES = 32 << 20


class Rows(ABC):
    """n rows of d features with a raw target."""

    n: int
    d: int

    @property
    @abstractmethod
    def y(self) -> np.ndarray:
        """Raw targets, float64, shape (n,)."""

    @abstractmethod
    def blocks(self) -> Iterator[np.ndarray]:
        """Features in order, dense float32 or float64, shape (rows, d), O(32 MiB) each."""

    @property
    def density(self) -> float:
        """Share of entries that are not zero; 1 where nobody counted."""
        return 1.0


def _block_rows(d: int) -> int:
    return max(1, BLOCK_BYTES // (8 * max(d, 1)))


class DenseRows(Rows):
    """Rows of an array, which may be a memory map, or of bytes."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self._X, self._y = X, y
        self.n, self.d = X.shape

    @property
    def y(self) -> np.ndarray:
        return self._y

    def blocks(self) -> Iterator[np.ndarray]:
        step = _block_rows(self.d)
        for start in range(0, self.n, step):
            block = self._X[start : start + step]
            yield block if block.dtype.kind == "f" else block.astype(np.float32)

    def take(self, order: np.ndarray) -> "DenseRows":
        """The rows `order`, in that order."""
        return DenseRows(self._X[order], self._y[order])


class SparseRows(Rows):
    """Rows of a CSR matrix without stored zeros."""

    def __init__(self, csr: Any, y: np.ndarray) -> None:
        self.csr, self._y = csr, y
        self.n, self.d = csr.shape

    @property
    def y(self) -> np.ndarray:
        return self._y

    @property
    def density(self) -> float:
        return float(self.csr.nnz / max(1, self.n * self.d))

    def blocks(self) -> Iterator[np.ndarray]:
        step = _block_rows(self.d)
        for start in range(0, self.n, step):
            yield self.csr[start : start + step].toarray()

    def take(self, order: np.ndarray) -> "SparseRows":
        """The rows `order`, in that order."""
        return SparseRows(self.csr[order], self._y[order])


class GeneratedRows(Rows):
    """Rows of a generator; only the targets are ever held."""

    def __init__(self, generator: Generator, part: str, n: int) -> None:
        self._generator, self._part = generator, part
        self.n, self.d = n, generator.d
        self._y = np.empty(n)
        self._seen = 0

    @property
    def y(self) -> np.ndarray:
        if self._seen < self.n:
            for _ in self.blocks():
                pass
        return self._y

    def blocks(self) -> Iterator[np.ndarray]:
        self._seen = 0
        for X, y in self._generator.chunks(self._part, self.n):
            self._y[self._seen : self._seen + y.size] = y
            self._seen += y.size
            yield X


def join(parts: list[Any]) -> Any:
    """Rows of several files, one after the other (all dense, or all sparse)."""
    if len(parts) == 1:
        return parts[0]
    y = np.concatenate([p.y for p in parts])
    if isinstance(parts[0], SparseRows):
        from scipy.sparse import vstack

        return SparseRows(vstack([p.csr for p in parts], format="csr"), y)
    return DenseRows(np.vstack([X for p in parts for X in p.blocks()]), y)
