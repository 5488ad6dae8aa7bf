"""A kernel matrix of few points that is stored, in the place of `kbench.kernels.KernelMatrix`."""

from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul


class StoredMatrix:
    """Values (n, n) float64 between points, as `solve_nu_dual` needs them."""

    dtype = np.dtype(np.float64)
    n_entries = 0  # none of the values is computed here
    nanoseconds = np.inf

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def astype(self, dtype: Any) -> "StoredMatrix":
        """The matrix itself, whatever the precision."""
        return self

    def diagonal(self) -> np.ndarray:
        return self._values.diagonal()

    def points(self, indices: np.ndarray) -> np.ndarray:
        return indices

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if len(rows) == len(columns) == len(self):
            return self._values
        return self._values[np.ix_(rows, columns)]

    def product(self, columns: np.ndarray, coef: np.ndarray) -> np.ndarray:
        full = np.zeros(len(self))
        full[columns] = coef
        return matmul(self._values, full)
