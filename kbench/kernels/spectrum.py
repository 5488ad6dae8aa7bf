"""Spectra of shift-invariant kernels: how the frequencies of random features are distributed.

By Bochner's theorem a continuous positive semidefinite function of x - z with k(0) = 1 is

    k(x - z) = E cos(<omega, x - z>)

where the density of the random frequency omega is the kernel's Fourier transform (Rahimi and Recht,
NIPS 2007). A function of the Euclidean distance that is a kernel in every dimension is a mixture of
Gaussian kernels of different widths (Schoenberg, 1938), so its frequencies are Gaussian vectors
times random radii: omega = unit * radius * z, z ~ N(0, I).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import chdtri, ndtri


@dataclass(frozen=True)
class Spectrum(ABC):
    """Distribution of the frequencies of a kernel; gamma determines only their factor, `unit`."""

    # gamma -> factor of the frequencies that `draw` and `quantiles` return.
    unit: Callable[[float], float]

    # Whether the distribution is invariant under rotations.
    isotropic: ClassVar[bool]

    def n_levels(self, d: int) -> int:
        """Number of uniform variables that determine a frequency of d entries."""
        return d

    @abstractmethod
    def draw(self, shape: tuple[int, int], rng: np.random.RandomState) -> np.ndarray:
        """Return D independent frequencies of d entries; (d, D)."""

    @abstractmethod
    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Return the frequencies of uniform `levels` : (n_levels, D); (d, D)."""


@dataclass(frozen=True)
class IsotropicSpectrum(Spectrum):
    """Frequencies radius * z, where z ~ N(0, I) and the radius are independent."""

    # Uniform levels : (D,) in [0, 1) -> radii : (D,). None: all radii are 1 (a Gaussian kernel).
    radius: Callable[[np.ndarray], np.ndarray] | None = None

    isotropic: ClassVar[bool] = True

    def n_levels(self, d: int) -> int:
        return d + (self.radius is not None)

    def draw(self, shape: tuple[int, int], rng: np.random.RandomState) -> np.ndarray:
        return self.lengthened(rng.standard_normal(shape), rng)

    def lengthened(self, normals: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
        """Return normals : (d, D), whose columns are standard normal, times random radii."""
        if self.radius is None:
            return normals
        return normals * self.radius(rng.random_sample(normals.shape[1:]))

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        if self.radius is None:
            return np.asarray(ndtri(levels))
        return np.asarray(ndtri(levels[:-1])) * self.radius(levels[-1, :])


@dataclass(frozen=True)
class ProductSpectrum(Spectrum):
    """Frequencies with independent, identically distributed entries."""

    # (rng, shape) -> independent entries
    sample: Callable[[np.random.RandomState, tuple[int, int]], np.ndarray]
    quantile: Callable[[np.ndarray], np.ndarray]  # Uniform levels -> entries

    isotropic: ClassVar[bool] = False

    def draw(self, shape: tuple[int, int], rng: np.random.RandomState) -> np.ndarray:
        return self.sample(rng, shape)

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        return self.quantile(levels)


def student_spectrum(smoothness: float) -> IsotropicSpectrum:
    """Return the spectrum of the Matern kernel of order nu = `smoothness`, length scale 1 / gamma.

    Frequencies have a multivariate t distribution, 2 nu degrees of freedom (Rasmussen and Williams,
    "Gaussian Processes for Machine Learning", 2006, equation 4.15): the radius is the root of 2 nu
    over a chi-squared variable of 2 nu degrees of freedom.
    """
    degrees_of_freedom = 2.0 * smoothness

    def radius(levels: np.ndarray) -> np.ndarray:
        radii: np.ndarray = np.sqrt(degrees_of_freedom / chdtri(degrees_of_freedom, levels))
        return radii

    return IsotropicSpectrum(unit=float, radius=radius)
