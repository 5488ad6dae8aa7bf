"""The hyperbolic tangent of an inner product."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels.inner_products import InnerProductKernel
from kbench.kernels.kernel import GAMMA, Range, parameter, squared_norms
from kbench.kernels.registry import registered


@registered
@dataclass(frozen=True)
class Sigmoid(InnerProductKernel):
    """k(x, z) = tanh(gamma <x, z> + coef0), in general not positive semidefinite."""

    gamma: float = parameter(GAMMA)
    coef0: float = parameter(Range(), 0.0)

    name: ClassVar[str] = "sigmoid"
    positive_semidefinite: ClassVar[bool] = False

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return math.tanh(self.gamma * (x @ z) + self.coef0)

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return self._prepared(X, np.sqrt(self.gamma), dtype)

    def _value_bound(self, squared_norm: float) -> float:
        return squared_norm + abs(self.coef0)

    def _apply_function(self, out: np.ndarray) -> None:
        out += self.coef0
        np.tanh(out, out=out)

    def _error_factor(self, largest: float) -> float:
        return 1.0 + largest

    def diagonal(self, A: Any) -> np.ndarray:
        return np.tanh(squared_norms(A) + self.coef0)
