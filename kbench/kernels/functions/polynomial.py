"""The polynomial kernel."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels.inner_products import InnerProductKernel
from kbench.kernels.kernel import GAMMA, Range, dense_float64, parameter, squared_norms
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

    def rank(self, n_features: int) -> float:
        """Return the number of monomials of degree `degree`; a constant is one more variable."""
        if self.coef0 < 0.0:
            return math.inf
        variables = n_features + (self.coef0 > 0.0)
        return math.comb(variables + self.degree - 1, self.degree)

    def explicit_map(self, X: Any) -> np.ndarray:
        """The monomials in the order of their powers, times the roots of their coefficients.

        <u, w>^p is the sum of p! / (a_1! a_2! ...) u^a w^a over the monomials u^a of degree p,
        where u = sqrt(gamma) x has the constant sqrt(coef0) as one more entry.
        """
        U = math.sqrt(self.gamma) * dense_float64(X)
        if self.coef0 > 0.0:
            U = np.column_stack([U, np.full(len(U), math.sqrt(self.coef0))])
        d = U.shape[1]
        # Exponents of each monomial, and its last variable: only this and later variables multiply
        # it, so that no monomial occurs twice.
        powers, last_variable = [[0] * d], np.zeros(1, np.intp)
        V = np.ones((len(U), 1))
        for _ in range(self.degree):
            blocks, new_powers, new_last_variable = [], [], []
            for k, (exponents, first) in enumerate(zip(powers, last_variable, strict=True)):
                blocks.append(V[:, [k]] * U[:, first:])
                for j in range(first, d):
                    new_powers.append([*exponents[:j], exponents[j] + 1, *exponents[j + 1 :]])
                    new_last_variable.append(j)
            V, powers, last_variable = np.hstack(blocks), new_powers, np.array(new_last_variable)
        factorial = math.factorial(self.degree)
        factors = [math.sqrt(factorial / math.prod(map(math.factorial, power))) for power in powers]
        V *= factors
        return V

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return float((self.gamma * (x @ z) + self.coef0) ** self.degree)

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return self._prepared(X, np.sqrt(self.gamma), dtype)

    def _value_bound(self, squared_norm: float) -> float:
        try:
            return float(max(squared_norm, (squared_norm + abs(self.coef0)) ** self.degree))
        except OverflowError:
            return math.inf

    def _apply_function(self, out: np.ndarray) -> None:
        out += self.coef0
        # Squaring repeatedly is faster than np.power, which calls a scalar pow for each value.
        inner = out.copy() if self.degree > 1 else out
        for bit in bin(self.degree)[3:]:
            out *= out
            if bit == "1":
                out *= inner

    def _error_factor(self, largest: float) -> float:
        return (self.degree + 1) * (largest + abs(self.coef0)) ** self.degree

    def diagonal(self, A: Any) -> np.ndarray:
        return (squared_norms(A) + self.coef0) ** self.degree
