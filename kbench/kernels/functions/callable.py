"""Kernel functions of the user, with the signature that `sklearn.svm.SVC` expects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels.kernel import Kernel
from kbench.kernels.value_range import check_values

# Rows of a block whose diagonal is taken: larger blocks compute more values off the diagonal,
# smaller blocks call the function more often. Set by hand.
_DIAGONAL_ROWS = 32


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """The kernel `function(A, B) -> (a, b)` of two blocks of rows."""

    function: Callable[[Any, Any], np.ndarray]

    positive_semidefinite: ClassVar[bool] = False  # unknown for a function of the user

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
        block = np.empty((_DIAGONAL_ROWS, _DIAGONAL_ROWS))
        for start in range(0, len(values), _DIAGONAL_ROWS):
            rows = A[start : start + _DIAGONAL_ROWS]
            square = block[: rows.shape[0], : rows.shape[0]]
            self._evaluate_tile(rows, rows, square)
            values[start : start + _DIAGONAL_ROWS] = square.diagonal()
        return values
