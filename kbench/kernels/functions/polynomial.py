"""The polynomial kernel."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels.inner_products import InnerProductKernel
from kbench.kernels.kernel import GAMMA, Range, parameter, squared_norms
from kbench.kernels.registry import registered


@registered
@dataclass(frozen=True)
class Polynomial(InnerProductKernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree."""

    gamma: float = parameter(GAMMA)
    degree: int = parameter(Range(1, whole=True), 3)
    coef0: float = parameter(Range(), 0.0)

    name: ClassVar[str] = "poly"

    @property
    def is_definite(self) -> bool:
        return self.coef0 >= 0.0

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return float((self.gamma * (x @ z) + self.coef0) ** self.degree)

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return self._prepared(X, np.sqrt(self.gamma), dtype)

    def _largest(self, squared_norm: float) -> float:
        try:
            return float(max(squared_norm, (squared_norm + abs(self.coef0)) ** self.degree))
        except OverflowError:
            return math.inf

    def _finish(self, out: np.ndarray) -> None:
        out += self.coef0
        # Repeated squaring, because np.power calls a scalar pow for each value.
        base = out.copy() if self.degree > 1 else out
        for bit in bin(self.degree)[3:]:
            out *= out
            if bit == "1":
                out *= base

    def _slope(self, largest: float) -> float:
        return (self.degree + 1) * (largest + abs(self.coef0)) ** self.degree

    def diagonal(self, A: Any) -> np.ndarray:
        return (squared_norms(A) + self.coef0) ** self.degree
