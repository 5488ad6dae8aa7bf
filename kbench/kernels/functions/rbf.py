"""The Gaussian kernel, also called radial basis function."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kbench.kernels.distances import Exponential
from kbench.kernels.registry import registered
from kbench.kernels.spectrum import IsotropicSpectrum, Spectrum


@registered
@dataclass(frozen=True)
class RBF(Exponential):
    """k(x, z) = exp(-gamma ||x - z||^2)."""

    name: ClassVar[str] = "rbf"
    spectrum: ClassVar[Spectrum] = IsotropicSpectrum(lambda gamma: math.sqrt(2.0 * gamma))

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return math.exp(-self.gamma * float(((x - z) ** 2).sum()))
