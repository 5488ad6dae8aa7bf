"""A block-diagonal kernel matrix: the values between groups are neglected.

`GroupedMatrix` takes the place of a KernelMatrix if kernel values between groups are negligible
(`split`) but an intercept couples the groups. An operation visits only the groups of its points.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kbench.kernels import KernelMatrix


class GroupedMatrix(KernelMatrix):
    """K with zeros between groups.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    groups : A partition of the points
    """

    def __init__(self, kernel: KernelMatrix, groups: list[np.ndarray]) -> None:
        self._matrix, self._groups, self.dtype = kernel, groups, kernel.dtype
        self._counted_elsewhere = 0
        self._blocks: list[KernelMatrix] = [kernel.take(group) for group in groups]
        # NumPy sorts 16-bit integers several times as fast as 64-bit ones (radix sort).
        self._label = np.empty(len(kernel), np.int16 if len(groups) < 2**15 else np.intp)
        self._position_in_group = np.empty(len(kernel), np.intp)
        for number, group in enumerate(groups):
            self._label[group] = number
            self._position_in_group[group] = np.arange(len(group))

    def __len__(self) -> int:
        return len(self._matrix)

    @property
    def n_entries(self) -> int:
        return self._counted_elsewhere + sum(block.n_entries for block in self._blocks)

    def count(self, n_entries: int) -> None:
        self._counted_elsewhere += n_entries

    @property
    def nanoseconds(self) -> float:
        return max(block.nanoseconds for block in self._blocks)

    def astype(self, dtype: Any) -> "GroupedMatrix":
        if self.dtype == dtype:
            return self
        converted = object.__new__(GroupedMatrix)
        converted.__dict__.update(self.__dict__)
        converted.dtype = np.dtype(dtype)
        converted._blocks = [block.astype(dtype) for block in self._blocks]
        return converted

    def take(self, indices: np.ndarray) -> KernelMatrix:
        """Return the matrix of a whole group, or that of other points with all kernel values."""
        label = self._label[indices[:1]]
        if len(indices) and np.array_equal(indices, self._groups[int(label[0])]):
            return self._blocks[int(label[0])]
        return self._matrix.take(indices)

    def diagonal(self) -> np.ndarray:
        return self._matrix.diagonal()

    def points(self, indices: np.ndarray | slice) -> Any:
        """Return the indices; `block` lets each group prepare its own points."""
        return np.arange(len(self))[indices]

    def block(
        self, rows: np.ndarray, columns: Any = None, out: np.ndarray | None = None
    ) -> np.ndarray:
        columns = np.arange(len(self)) if columns is None else columns
        if out is None:
            out = np.empty((len(rows), len(columns)), self.dtype)
        out[...] = 0.0
        for block, a, b in self._groups_of(rows, columns):
            points = block.points(self._position_in_group[columns[b]])
            out[np.ix_(a, b)] = block.block(self._position_in_group[rows[a]], points)
        return out

    def square(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            out = np.empty((len(rows), len(rows)), self.dtype)
        out[...] = 0.0
        for block, a, _ in self._groups_of(rows, rows):
            out[np.ix_(a, a)] = block.square(self._position_in_group[rows[a]])
        return out

    def product(
        self, columns: np.ndarray, coef: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        rows = np.arange(len(self)) if rows is None else rows
        values = np.zeros((len(rows), *coef.shape[1:]))
        for block, a, b in self._groups_of(rows, columns):
            values[a] = block.product(
                self._position_in_group[columns[b]], coef[b], rows=self._position_in_group[rows[a]]
            )
        return values

    def _groups_of(
        self, rows: np.ndarray, columns: np.ndarray
    ) -> Iterator[tuple[KernelMatrix, np.ndarray, np.ndarray]]:
        """Yield the matrix of each group with rows and columns, and their positions in both."""
        a, row_starts = self._by_group(rows)
        b, column_starts = self._by_group(columns)
        for number in np.flatnonzero((np.diff(row_starts) > 0) & (np.diff(column_starts) > 0)):
            yield (
                self._blocks[number],
                a[row_starts[number] : row_starts[number + 1]],
                b[column_starts[number] : column_starts[number + 1]],
            )

    def _by_group(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        label = self._label[points]
        order = np.argsort(label, kind="stable")
        return order, np.searchsorted(label[order], np.arange(len(self._groups) + 1))
