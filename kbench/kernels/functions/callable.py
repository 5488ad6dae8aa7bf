"""Kernel functions of the user, with the signature that `sklearn.svm.SVC` expects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels.kernel import Kernel
from kbench.kernels.value_range import check_values


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """The kernel `function(A, B) -> (a, b)` of two blocks of rows."""

    function: Callable[[Any, Any], np.ndarray]

    positive_semidefinite: ClassVar[bool] = False  # nothing is known about it

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return X

    def _evaluate_tile(self, A: Any, B: Any, out: np.ndarray) -> None:
        values = np.asarray(self.function(A, B))
        check_values(self, values, out.dtype)
        if values.shape != out.shape:
            raise ValueError(
                f"kernel returned shape {values.shape} for blocks of {A.shape[0]} and "
                f"{B.shape[0]} rows; expected {out.shape}"
            )
        out[...] = values

    def diagonal(self, A: Any) -> np.ndarray:
        values = np.empty(A.shape[0])
        block = np.empty((32, 32))
        for start in range(0, len(values), 32):
            rows = A[start : start + 32]
            square = block[: rows.shape[0], : rows.shape[0]]
            self._evaluate_tile(rows, rows, square)
            values[start : start + 32] = square.diagonal()
        return values
