"""Virtual examples: copies of rows, changed in a way that keeps their target, made when needed.

A copy is a function of (seed, number of the row, number of the copy) alone, by counters (`philox`):
any of them can be made again, on any machine, in any order, and none is stored. Copy 0 is the row
itself.

    shifts   images moved by whole pixels (Schoelkopf, Burges and Vapnik, "Incorporating Invariances
             in Support Vector Learning Machines", ICANN 1996)
    elastic  images on a random smooth field of displacements (Simard, Steinkraus and Platt, "Best
             Practices for Convolutional Neural Networks", ICDAR 2003). At p in [-1, 1]^2 it is
             a + B p + e(p), all entries normal: a shift, a linear map, and e, bilinear between the
             points of a 5 x 5 grid
    coulomb  molecules with their atoms in another order: that of the norms of the Coulomb matrix'
             rows plus normal noise (Montavon et al., "Learning Invariant Representations of
             Molecules for Atomization Energy Prediction", NIPS 2012). Places without an atom stay
             last
"""

from collections.abc import Callable
from math import isqrt

import numpy as np
from numba import njit

from kbench.approximation import philox
from kbench.approximation.convolution_blocks import image_shape

_STREAM = np.uint64(1 << 19)  # apart from those of features and of the choice of blocks
_COPIES = 1 << 40  # rows of a training set, at most
_GRID = 5


class VirtualExamples:
    """Copies of rows X : (n, d) of one kind.

    Parameters
    ----------
    kind : {"shifts", "elastic", "coulomb"}
    size : float
        Largest shift, standard deviation of a displacement's terms, both in pixels; standard
        deviation of the noise, in units of the matrix.
    d : int
    seed : int

    Raises
    ------
    ValueError
        `d` is not that of square images with 1 or 3 channels, or of a matrix' triangle.
    """

    def __init__(self, kind: str, size: float, d: int, seed: int) -> None:
        self.kind, self.size, self.seed = kind, size, seed
        # Width of an image, or order of a matrix.
        self.k = _matrix_order(d) if kind == "coulomb" else image_shape(d)[0]

    def __call__(self, X: np.ndarray, rows: np.ndarray, copies: np.ndarray) -> np.ndarray:
        """Copies of rows.

        Parameters
        ----------
        X : (b, d) float32
        rows, copies : (b,) ints
            Numbers of the rows in the training set, and of their copies.

        Returns
        -------
        (b, d) float32
        """
        out = np.array(X, np.float32, order="C")
        changed = np.flatnonzero(copies)
        if len(changed):
            # Copies of a row, and rows of a copy, have counters of their own.
            counters = (rows[changed] + copies[changed] * _COPIES).astype(np.uint64)
            make = _MAKERS[self.kind]
            out[changed] = make(
                out[changed], counters, np.uint64(self.seed), np.float32(self.size), self.k
            )
        return out


def _matrix_order(d: int) -> int:
    k = (isqrt(8 * d + 1) - 1) // 2
    if k * (k + 1) // 2 != d:
        raise ValueError(f"X has {d} features, which are no upper triangle of a square matrix")
    return k


@njit("f4[:,::1](f4[:,::1], u8[::1], u8, f4, i8)", cache=True)
def shifted(X, counters, seed, size, k):
    """Each image moved by up to `size` whole pixels in either direction; zeros come in."""
    out = np.zeros_like(X)
    numbers = np.empty(2, np.float32)
    n_places = 2 * np.int64(size) + 1
    for i in range(len(X)):
        philox.uniforms(seed, _STREAM, counters[i], numbers)
        down = np.int64(numbers[0] * n_places) - np.int64(size)
        right = np.int64(numbers[1] * n_places) - np.int64(size)
        for plane in range(X.shape[1] // (k * k)):
            first = plane * k * k
            for y in range(k):
                for x in range(k):
                    if 0 <= y - down < k and 0 <= x - right < k:
                        out[i, first + y * k + x] = X[i, first + (y - down) * k + x - right]
    return out


@njit(inline="always")
def _cell(place):
    """The cell of the grid that holds a place along one of its sides, and where inside."""
    cell = min(np.int64(place), _GRID - 2)
    return cell, np.float32(place - cell)


@njit("f4[:,::1](f4[:,::1], u8[::1], u8, f4, i8)", cache=True, fastmath={"contract", "nsz"})
def deformed(X, counters, seed, size, k):
    """Each image read, bilinearly, at the places that its field points to; zeros outside."""
    out = np.empty_like(X)
    numbers = np.empty(6 + 2 * _GRID * _GRID, np.float32)
    line = np.empty((_GRID, 2), np.float32)  # the grid at the height of a row of pixels
    step = np.float32(2.0 / (k - 1))
    cell = np.float32((_GRID - 1) / (k - 1))
    for i in range(len(X)):
        philox.normals(seed, _STREAM, counters[i], numbers)
        numbers *= size
        grid = numbers[6:].reshape(_GRID, _GRID, 2)
        for y in range(k):
            above, weight = _cell(y * cell)
            for g in range(_GRID):
                for axis in range(2):
                    upper, lower = grid[above, g, axis], grid[above + 1, g, axis]
                    line[g, axis] = upper + weight * (lower - upper)
            v = y * step - np.float32(1.0)
            for x in range(k):
                left, weight = _cell(x * cell)
                u = x * step - np.float32(1.0)
                at_y = (
                    y
                    + numbers[0]
                    + numbers[2] * v
                    + numbers[3] * u
                    + line[left, 0]
                    + weight * (line[left + 1, 0] - line[left, 0])
                )
                at_x = (
                    x
                    + numbers[1]
                    + numbers[4] * v
                    + numbers[5] * u
                    + line[left, 1]
                    + weight * (line[left + 1, 1] - line[left, 1])
                )
                y0, x0 = np.int64(np.floor(at_y)), np.int64(np.floor(at_x))
                wy, wx = np.float32(at_y - y0), np.float32(at_x - x0)
                for first in range(0, X.shape[1], k * k):
                    total = np.float32(0.0)
                    for dy in range(2):
                        for dx in range(2):
                            yy, xx = y0 + dy, x0 + dx
                            if 0 <= yy < k and 0 <= xx < k:
                                w = wy if dy else np.float32(1.0) - wy
                                w *= wx if dx else np.float32(1.0) - wx
                                total += w * X[i, first + yy * k + xx]
                    out[i, first + y * k + x] = total
    return out


@njit("f4[:,::1](f4[:,::1], u8[::1], u8, f4, i8)", cache=True)
def reordered(X, counters, seed, size, k):
    """Each matrix with its rows and columns sorted by norms plus noise, largest first."""
    out = np.empty_like(X)
    noise = np.empty(k, np.float32)
    matrix = np.empty((k, k), np.float32)
    for i in range(len(X)):
        philox.normals(seed, _STREAM, counters[i], noise)
        at = 0
        for a in range(k):
            for b in range(a, k):
                matrix[a, b] = matrix[b, a] = X[i, at]
                at += 1
        for a in range(k):
            norm = np.sqrt(np.sum(matrix[a] * matrix[a]))
            noise[a] = -size * noise[a] - norm if norm > 0.0 else np.inf
        order = np.argsort(noise, kind="mergesort")
        at = 0
        for a in range(k):
            for b in range(a, k):
                out[i, at] = matrix[order[a], order[b]]
                at += 1
    return out


_MAKERS: dict[str, Callable[..., np.ndarray]] = {
    "shifts": shifted,
    "elastic": deformed,
    "coulomb": reordered,
}
KINDS = frozenset(_MAKERS)
