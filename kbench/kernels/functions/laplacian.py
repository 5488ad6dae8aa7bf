"""The Laplacian kernel."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.kernels import tiles
from kbench.kernels.distances import Exponential
from kbench.kernels.kernel import check_float_rows
from kbench.kernels.registry import registered
from kbench.kernels.spectrum import ProductSpectrum, Spectrum


def _cauchy_quantile(levels: np.ndarray) -> np.ndarray:
    quantiles: np.ndarray = np.tan(np.pi * (levels - 0.5))
    return quantiles


@registered
@dataclass(frozen=True)
class Laplacian(Exponential):
    """k(x, z) = exp(-gamma ||x - z||_1)."""

    name: ClassVar[str] = "laplacian"
    power: ClassVar[int] = 1
    gamma_power: ClassVar[int] = 1
    spectrum: ClassVar[Spectrum] = ProductSpectrum(
        float, np.random.RandomState.standard_cauchy, _cauchy_quantile
    )

    @classmethod
    def default_gamma(cls, inverse_square: float) -> float:
        # This is scikit-learn's value, although gamma multiplies a distance and not its square.
        return inverse_square

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return math.exp(-self.gamma * float(np.abs(x - z).sum()))

    def _prepare_sparse(self, X: Any, dtype: np.dtype) -> Any:
        return X.astype(np.float64)

    def _evaluate_sparse(self, A: Any, B: Any, out: np.ndarray) -> None:
        # Imported here because it takes 50 ms, and only sparse rows under this kernel need it.
        from sklearn.metrics.pairwise import manhattan_distances

        values = manhattan_distances(A, B)
        values *= -self.gamma
        min_exponent = tiles.min_exponent(out.dtype) / tiles.LOG2_E
        np.clip(values, min_exponent, 0.0, out=values)
        np.exp(values, out=out, casting="same_kind")

    def _sparse_error(self, A: Any) -> float:
        # Distances are float64, so only the value itself is rounded to float32.
        return float(np.finfo(np.float32).eps)

    def _check_sparse(self, points: Any, n_features: int) -> int:
        return check_float_rows(points, n_features)
