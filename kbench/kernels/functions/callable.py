"""Kernel functions of the user, with the signature that `sklearn.svm.SVC` expects."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import _num_samples

from kbench.kernels.kernel import Kernel
from kbench.kernels.value_range import check_values
from kbench.validated import require_unmasked

# Rows of a block whose diagonal is taken: larger blocks compute more values off the diagonal,
# smaller blocks call the function more often. Set by hand.
_DIAGONAL_ROWS = 32


def function_values(function: Callable[[Any, Any], Any], A: Any, B: Any) -> np.ndarray:
    """Values of a kernel function between rows A and B, dense; (a, b), in the function's dtype."""
    values = function(A, B)
    require_unmasked("the kernel", values)
    values = np.asarray(values.toarray() if sp.issparse(values) else values)
    expected = _num_samples(A), _num_samples(B)
    if values.shape != expected:
        raise ValueError(
            f"kernel returned shape {values.shape} for {expected[0]} and {expected[1]} rows; "
            f"expected {expected}"
        )
    return values


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """The kernel `function(A, B) -> (a, b)` of two blocks of rows."""

    function: Callable[[Any, Any], np.ndarray]

    positive_semidefinite: ClassVar[bool] = False  # unknown for a function of the user

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return X

    def _evaluate_tile(self, A: Any, B: Any, out: np.ndarray) -> None:
        values = function_values(self.function, A, B)
        check_values(self, values, out.dtype)
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
