"""The linear kernel."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels.inner_products import InnerProductKernel
from kbench.kernels.kernel import dense_float64, squared_norms
from kbench.kernels.registry import registered


@registered
@dataclass(frozen=True)
class Linear(InnerProductKernel):
    """k(x, z) = <x, z>."""

    name: ClassVar[str] = "linear"

    def rank(self, n_features: int) -> float:
        return n_features

    def explicit_map(self, X: Any) -> np.ndarray:
        return dense_float64(X)

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return float(x @ z)

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return self._prepared(X, 1.0, dtype)

    def _apply_function(self, out: np.ndarray) -> None:
        pass

    def _value_bound(self, squared_norm: float) -> float:
        return squared_norm

    def _error_factor(self, largest: float) -> float:
        return largest

    def diagonal(self, A: Any) -> np.ndarray:
        return squared_norms(A)
