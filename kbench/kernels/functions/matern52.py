"""The Matern kernel of order 5/2, with the length scale 1 / gamma.

With s = sqrt(5) gamma ||x - z||,

    k(x, z) = (1 + s + s^2 / 3) exp(-s).

Reference: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, equation
4.17. As in Matern 1/2, exp(-gamma ||x - z||), gamma multiplies a distance, not its square:
scikit-learn's `Matern(length_scale=1 / gamma, nu=2.5)` is the same function.
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
from kbench.kernels.spectrum import Spectrum, student_spectrum
from kbench.kernels.work_sharing import Loop, divided, share

# ln 2: the tiles have distances in units in which exp(-s) is 2^-u.
_LN2 = math.log(2.0)


@njit(fastmath=tiles.FLAGS, nogil=True)
def _apply_f(t):
    """Replace t = -u^2 : (m,) by (1 + s + s^2 / 3) exp(-s), s = u ln 2."""
    real = t.dtype.type
    one, ln2 = real(1.0), real(_LN2)
    # Above this u `power_of_two` is constant, so the polynomial must be constant, too.
    farthest = real(-tiles.MIN_EXPONENT_32) if t.itemsize == 4 else real(-tiles.MIN_EXPONENT_64)
    third = real(1.0 / 3.0)
    for j in range(t.shape[0]):
        u = min(np.sqrt(-t[j]), farthest)
        s = ln2 * u
        t[j] = (one + s + third * (s * s)) * tiles.power_of_two(-u)


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


@registered
@dataclass(frozen=True)
class Matern52(DistanceKernel):
    """k(x, z) = (1 + s + s^2 / 3) exp(-s), s = sqrt(5) gamma ||x - z||."""

    name: ClassVar[str] = "matern52"
    gamma_power: ClassVar[int] = 1
    spectrum: ClassVar[Spectrum] = student_spectrum(2.5)
    # 2^12 times the default: the polynomial is below 2^11 where `power_of_two` has its least value
    # (u = 100), and a factor of 2 is a margin, set by hand.
    vanished: ClassVar[float] = 2.0**-78
    _tiles: ClassVar[Loop] = Loop(_tiles, _shared_tiles)

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        s = math.sqrt(5.0) * self.gamma * math.dist(x, z)
        return (1 + s + s**2 / 3) * math.exp(-s)

    @property
    def _rate(self) -> float:
        return 5.0 * (self.gamma * tiles.LOG2_E) ** 2

    def _apply_to_products(self, values: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        _products(values, left, right)
