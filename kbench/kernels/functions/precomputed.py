"""Precomputed kernel values in place of rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels.kernel import Kernel
from kbench.kernels.registry import registered
from kbench.kernels.value_range import check_values, limit
from kbench.stored import check_arrays, require


@dataclass(frozen=True)
class _GramRows:
    """Rows of a precomputed matrix: kernel values with the n training points, and row numbers."""

    values: np.ndarray | None  # (a, n); None for centres, of which only the positions are needed
    ids: np.ndarray  # (a,) positions among the n training points; meaningless for new points

    @property
    def shape(self) -> tuple[int]:
        return self.ids.shape

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + (0 if self.values is None else self.values.nbytes)

    def __getitem__(self, rows: Any) -> "_GramRows":
        return _GramRows(None if self.values is None else self.values[rows], self.ids[rows])


@registered
@dataclass(frozen=True)
class Precomputed(Kernel):
    """Rows of X are kernel values with the n training points: (n, n), in prediction (u, n)."""

    name: ClassVar[str] = "precomputed"
    of_rows: ClassVar[bool] = False

    def precision(self, X: Any, dtype: Any) -> np.dtype:
        values = X.values if isinstance(X, _GramRows) else X
        if values is None or not values.size:
            return np.dtype(dtype)
        largest = max(float(values.max()), -float(values.min()))
        return np.dtype(dtype if largest <= limit(dtype) else np.float64)

    def rows(self, X: Any) -> _GramRows:
        return X if isinstance(X, _GramRows) else _GramRows(X, np.arange(X.shape[0]))

    def prepare(self, X: Any, dtype: np.dtype) -> _GramRows:
        # No conversion: a copy of n^2 values would double the memory and add no digits.
        return self.rows(X)

    def _evaluate_tile(self, A: _GramRows, B: _GramRows, out: np.ndarray) -> None:
        assert A.values is not None
        values = A.values[:, B.ids]
        check_values(self, values, out.dtype)
        out[...] = values

    def diagonal(self, A: _GramRows) -> np.ndarray:
        assert A.values is not None
        return A.values[np.arange(A.shape[0]), A.ids].astype(np.float64)

    def as_centres(self, A: _GramRows) -> _GramRows:
        return _GramRows(None, A.ids)

    def check_points(self, points: Any, dtype: Any, n_features: int) -> int:
        require(isinstance(points, _GramRows), "the points are of another class")
        require(points.values is None, "points of a precomputed kernel should be row numbers alone")
        return check_arrays(points, ids="i8 n")["n"]
