"""Rows between a raw file and the prepared arrays, read block by block.

Three classes have the interface of `Rows`: dense rows and CSR rows, in memory or on memory maps,
and rows that a generator computes again in every pass. Selecting and reordering rows stores only
row numbers, so that a file may be larger than memory.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.data.sources.generators import Generator
from kbench.data.sources.piece_sizes import piece_sizes


class Rows(ABC):
    """n rows of d features with a raw target."""

    n: int
    d: int
    groups: np.ndarray | None = None
    """Rows with equal numbers, int64, shape (n,), stay on one side of a random split."""
    has_targets: bool = True
    """False for later rows of LIBSVM text with only targets 0, which stand for absent targets."""
    notes: tuple[str, ...] = ()
    """What was assumed when the rows of a user's file were read, one sentence each."""

    @property
    @abstractmethod
    def y(self) -> np.ndarray:
        """Raw targets, float64, shape (n,)."""

    @abstractmethod
    def blocks(self) -> Iterator[np.ndarray]:
        """The features in order in blocks (rows, d), dense float32 or float64, O(32 MiB) each."""

    @property
    def density(self) -> float:
        """Fraction of entries that are stored; 1 for dense rows."""
        return 1.0


def _order_blocks(order: np.ndarray, width: float) -> Iterator[np.ndarray]:
    """`order` in pieces, one for each block; width : numbers per row, 8 bytes each."""
    block_rows = max(1, int(piece_sizes().block / (8 * max(width, 1.0))))
    for start in range(0, order.size, block_rows):
        yield order[start : start + block_rows]


def _is_consecutive(order: np.ndarray) -> bool:
    """Whether the row numbers `order`, not empty, are k, k + 1, k + 2, ..."""
    return bool(order[-1] - order[0] == order.size - 1 and np.all(order[1:] > order[:-1]))


def _select(array: np.ndarray, order: np.ndarray) -> np.ndarray:
    """array[order], without a copy if the rows are consecutive."""
    if order.size and _is_consecutive(order):
        return array[order[0] : order[-1] + 1]
    return array[order]


class DenseRows(Rows):
    """Rows `order` of an array of any real type, which may be a memory map."""

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        order: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> None:
        self._X, self._y, self._groups = X, y, groups
        self._order = np.arange(X.shape[0]) if order is None else order
        self.n, self.d = self._order.size, X.shape[1]
        self.groups = None if groups is None else _select(groups, self._order)

    @property
    def y(self) -> np.ndarray:
        return _select(self._y, self._order)

    def blocks(self) -> Iterator[np.ndarray]:
        for block_order in _order_blocks(self._order, self.d):
            block = _select(self._X, block_order)
            if block.dtype.kind == "f":
                yield block
            else:  # float32 represents all integers of 8 and 16 bits, but not of 32
                yield block.astype(np.float32 if block.dtype.itemsize <= 2 else np.float64)

    def take(self, order: np.ndarray) -> "DenseRows":
        """The rows `order`, in that order."""
        return DenseRows(self._X, self._y, self._order[order], self._groups)


@dataclass(frozen=True)
class CsrArrays:
    """Arrays (or memory maps) of a CSR matrix with d columns and no stored zeros.

    first : The value in `indices` that means column 0.
    """

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    d: int
    first: int = 0

    @classmethod
    def of(cls, csr: Any) -> "CsrArrays":
        """The arrays of a SciPy matrix in CSR form."""
        assert csr.format == "csr"
        return cls(csr.data, csr.indices, csr.indptr, csr.shape[1])

    def counts(self, order: np.ndarray) -> np.ndarray:
        """Number of entries of each row in `order`, int64."""
        return self.indptr[order + 1].astype(np.int64) - self.indptr[order]

    def take(self, order: np.ndarray) -> Any:
        """The rows `order` as `csr_matrix`, in memory.

        SciPy's selection would copy whole maps if the types of indices and indptr differ.
        """
        from scipy.sparse import csr_matrix

        counts = self.counts(order)
        indptr = np.append(0, np.cumsum(counts))
        positions: Any = slice(int(self.indptr[order[0]]), int(self.indptr[order[-1] + 1]))
        if not _is_consecutive(order):
            positions = np.repeat(self.indptr[order] - indptr[:-1], counts) + np.arange(indptr[-1])
        indices = self.indices[positions]
        indices = indices - np.int32(self.first) if self.first else indices
        entries = (self.data[positions], indices, indptr.astype(np.int32))
        return csr_matrix(entries, shape=(order.size, self.d))


class SparseRows(Rows):
    """Rows of CSR arrays in the order `order`."""

    def __init__(
        self,
        arrays: CsrArrays,
        y: np.ndarray,
        order: np.ndarray | None = None,
        groups: np.ndarray | None = None,
    ) -> None:
        self.arrays, self._y, self._groups = arrays, y, groups
        self._order = np.arange(y.size) if order is None else order
        self.n, self.d = self._order.size, arrays.d
        self.groups = None if groups is None else _select(groups, self._order)

    @property
    def y(self) -> np.ndarray:
        return _select(self._y, self._order)

    @property
    def order(self) -> np.ndarray:
        """Row numbers in `arrays`, shape (n,)."""
        return self._order

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return int(self.arrays.counts(self._order).sum())

    @property
    def density(self) -> float:
        return float(self.nnz / max(1, self.n * self.d))

    def blocks(self) -> Iterator[np.ndarray]:
        for block_order in _order_blocks(self._order, self.d):
            yield self.arrays.take(block_order).toarray()

    def csr_blocks(self) -> Iterator[Any]:
        """The rows in order as `csr_matrix`, O(32 MiB) each if their lengths are similar."""
        for block_order in _order_blocks(self._order, self.nnz / max(1, self.n)):
            yield self.arrays.take(block_order)

    def take(self, order: np.ndarray) -> "SparseRows":
        """The rows `order`, in that order."""
        return SparseRows(self.arrays, self._y, self._order[order], self._groups)

    def followed_by(self, others: list["SparseRows"]) -> "SparseRows":
        """These rows, then the rows of `others`; without a copy if the arrays are the same."""
        parts = [self, *others]
        if all(rows.arrays is self.arrays for rows in others):
            order = np.concatenate([rows._order for rows in parts])
            return SparseRows(self.arrays, self._y, order, self._groups)
        from scipy.sparse import vstack

        csr = vstack([rows.arrays.take(rows._order) for rows in parts], format="csr")
        y = np.concatenate([rows.y for rows in parts])
        return SparseRows(CsrArrays.of(csr), y, groups=_joined_groups(parts))


class GeneratedRows(Rows):
    """Rows of a generator; only the targets are kept in memory."""

    def __init__(self, generator: Generator, part: str, n: int) -> None:
        self._generator, self._part = generator, part
        self.n, self.d = n, generator.d
        self._y = np.empty(n)
        self._n_generated = 0

    @property
    def y(self) -> np.ndarray:
        if self._n_generated < self.n:
            for _ in self.blocks():
                pass
        return self._y

    def blocks(self) -> Iterator[np.ndarray]:
        self._n_generated = 0
        for X, y in self._generator.chunks(self._part, self.n):
            self._y[self._n_generated : self._n_generated + y.size] = y
            self._n_generated += y.size
            yield X


def join(parts: list[Any]) -> Any:
    """Concatenated rows of several files, all dense or all sparse."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], SparseRows):
        return parts[0].followed_by(parts[1:])
    y = np.concatenate([p.y for p in parts])
    X = np.vstack([X for p in parts for X in p.blocks()])
    return DenseRows(X, y, groups=_joined_groups(parts))


def _joined_groups(parts: Sequence[Rows]) -> np.ndarray | None:
    groups = [p.groups for p in parts if p.groups is not None]
    return np.concatenate(groups) if len(groups) == len(parts) else None
