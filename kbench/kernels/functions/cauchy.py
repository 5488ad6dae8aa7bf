"""The Cauchy kernel: the rational quadratic kernel of order 1.

    k(x, z) = 1 / (1 + gamma ||x - z||^2)

Reference: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, equation
4.19, with alpha = 1 and gamma = 1 / (2 l^2): as in the Gaussian kernel, gamma multiplies the square
of a distance. The kernel is the mean of the Gaussian kernels exp(-gamma w ||x - z||^2) over
exponentially distributed w, from which its spectrum follows. It falls slowly with distance, so that
values of rows far from all others are not negligible.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from kbench.kernels import tiles
from kbench.kernels.distances import DistanceKernel
from kbench.kernels.registry import registered
from kbench.kernels.sparse import products_of_function
from kbench.kernels.spectrum import IsotropicSpectrum, Spectrum
from kbench.kernels.work_sharing import Loop, divided, share


# error_model="numpy" is for division: Python's checks for zeros and is not vectorised.
@njit(fastmath=tiles.FLAGS, nogil=True, error_model="numpy")
def _apply_f(t):
    """Replace t = -gamma ||x - z||^2 : (m,) by 1 / (1 - t)."""
    one = t.dtype.type(1.0)
    for j in range(t.shape[0]):
        t[j] = one / (one - t[j])


_each_tile = tiles.tiles_of_function(_apply_f)
_each_product = products_of_function(_apply_f)


@njit(cache=True, nogil=True, fastmath=tiles.FLAGS)
def _tiles(left, left_words, right, right_words, per_bit, squared, coef, sums, block, start, stop):
    _each_tile(
        left, left_words, right, right_words, per_bit, squared, coef, sums, block, start, stop
    )


_expose_tiles = divided(_tiles)


@njit(cache=True, nogil=True)
def _shared_tiles(arguments, n, block, mailboxes):
    share(_expose_tiles(arguments), n, block, mailboxes)


@njit(cache=True, nogil=True)
def _products(inner, half_left, half_right):
    _each_product(inner, half_left, half_right)


def _radius(levels: np.ndarray) -> np.ndarray:
    """Return the square roots of the exponential distribution's quantiles at `levels`."""
    radii: np.ndarray = np.sqrt(-np.log1p(-levels))
    return radii


@registered
@dataclass(frozen=True)
class Cauchy(DistanceKernel):
    """k(x, z) = 1 / (1 + gamma ||x - z||^2)."""

    name: ClassVar[str] = "cauchy"
    spectrum: ClassVar[Spectrum] = IsotropicSpectrum(lambda gamma: math.sqrt(2.0 * gamma), _radius)
    _tiles: ClassVar[Loop] = Loop(_tiles, _shared_tiles)

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return 1.0 / (1.0 + self.gamma * math.dist(x, z) ** 2)

    @property
    def _rate(self) -> float:
        return self.gamma

    def _apply_to_products(self, values: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        _products(values, left, right)
