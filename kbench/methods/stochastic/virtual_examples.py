"""Virtual examples: transformed copies of rows with the same target, made when they are needed.

A copy is a function of (seed, number of the row, number of the copy) by counter-based random
numbers (`philox`), so it can be made again on any machine in any order, and none is stored. Copy 0
is the row itself.

    shifts   images moved by whole pixels (Schoelkopf, Burges and Vapnik, "Incorporating Invariances
             in Support Vector Learning Machines", ICANN 1996)
    elastic  images deformed by a random smooth displacement field (Simard, Steinkraus and Platt,
             "Best Practices for Convolutional Neural Networks", ICDAR 2003). At p in [-1, 1]^2 the
             displacement is a + B p + e(p) with normal entries: a shift, a linear map, and e,
             bilinear between the points of a 5 x 5 grid
    coulomb  molecules with their atoms in another order: sorted by the norms of the rows of the
             Coulomb matrix plus normal noise (Montavon et al., "Learning Invariant Representations
             of Molecules for Atomization Energy Prediction", NIPS 2012). Rows of zeros, which
             pad small molecules, stay last
"""

from collections.abc import Callable
from math import isqrt

import numpy as np
from numba import njit

from kbench.approximation.seeded import philox
from kbench.approximation.seeded.convolution_blocks import image_shape

# Stream of random numbers, distinct from those of features and of the choice of blocks.
_STREAM = np.uint64(1 << 19)
# Distance between the counters of two copies of a row; it exceeds the rows of any training set.
_COPY_STRIDE = 1 << 40
# Points along a side of the grid of displacements: more points deform details. Set by hand.
_GRID = 5


class VirtualExamples:
    """Virtual examples of one kind.

    Parameters
    ----------
    kind : {"shifts", "elastic", "coulomb"}
    size : Largest shift or standard deviation of the terms of a displacement, in pixels; for
        "coulomb" the standard deviation of the noise, in units of the matrix.
    d : Number of features of a row

    Raises
    ------
    ValueError
        Rows of d features are not square images with 1 or 3 channels, or not the upper triangle
        of a square matrix.
    """

    def __init__(self, kind: str, size: float, d: int, seed: int) -> None:
        self.kind, self.size, self.seed = kind, size, seed
        _side(kind, d)

    def __call__(self, X: np.ndarray, rows: np.ndarray, copies: np.ndarray) -> np.ndarray:
        """Make one copy of each row.

        X : (b, d) float32
        rows, copies : (b,) ints
            Numbers of the rows in the training set, and of the copies to make.

        Returns (b, d) float32.
        """
        out = np.array(X, np.float32, order="C")
        needs_copy = np.flatnonzero(copies)
        if len(needs_copy):
            counters = (rows[needs_copy] + copies[needs_copy] * _COPY_STRIDE).astype(np.uint64)
            transform, side = _TRANSFORMS[self.kind], _side(self.kind, X.shape[1])
            out[needs_copy] = transform(
                out[needs_copy], counters, np.uint64(self.seed), np.float32(self.size), side
            )
        return out


def _side(kind: str, d: int) -> int:
    """Width of an image of d numbers, or order of a matrix with d numbers in its triangle."""
    if kind != "coulomb":
        return image_shape(d)[0]
    k = (isqrt(8 * d + 1) - 1) // 2
    if k * (k + 1) // 2 != d:
        raise ValueError(f"X has {d} features, which are not the upper triangle of a square matrix")
    return k


@njit(cache=True)
def shift_images(X, counters, seed, size, k):
    """Each k x k image shifted by up to `size` whole pixels, with zeros outside."""
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
    """Cell of the grid that contains a coordinate, and the position within the cell, in [0, 1]."""
    cell = min(np.int64(place), _GRID - 2)
    return cell, np.float32(place - cell)


@njit(cache=True, fastmath={"contract", "nsz"})
def deform_images(X, counters, seed, size, k):
    """Each k x k image interpolated bilinearly at the displaced pixels, with zeros outside."""
    out = np.empty_like(X)
    numbers = np.empty(6 + 2 * _GRID * _GRID, np.float32)  # a, B by rows, e at the grid
    line = np.empty((_GRID, 2), np.float32)  # the grid interpolated at a row of pixels
    step = np.float32(2.0 / (k - 1))
    cells_per_pixel = np.float32((_GRID - 1) / (k - 1))
    for i in range(len(X)):
        philox.normals(seed, _STREAM, counters[i], numbers)
        numbers *= size
        grid = numbers[6:].reshape(_GRID, _GRID, 2)
        for y in range(k):
            above, weight = _cell(y * cells_per_pixel)
            for g in range(_GRID):
                for axis in range(2):
                    upper, lower = grid[above, g, axis], grid[above + 1, g, axis]
                    line[g, axis] = upper + weight * (lower - upper)
            v = y * step - np.float32(1.0)
            for x in range(k):
                left, weight = _cell(x * cells_per_pixel)
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


@njit(cache=True)
def reorder_atoms(X, counters, seed, size, k):
    """Each k x k matrix with rows and columns sorted by norm plus noise, largest first."""
    out = np.empty_like(X)
    sort_keys = np.empty(k, np.float32)
    matrix = np.empty((k, k), np.float32)
    for i in range(len(X)):
        philox.normals(seed, _STREAM, counters[i], sort_keys)  # the noise
        at = 0
        for a in range(k):
            for b in range(a, k):
                matrix[a, b] = matrix[b, a] = X[i, at]
                at += 1
        for a in range(k):
            norm = np.sqrt(np.sum(matrix[a] * matrix[a]))
            sort_keys[a] = -size * sort_keys[a] - norm if norm > 0.0 else np.inf
        order = np.argsort(sort_keys, kind="mergesort")
        at = 0
        for a in range(k):
            for b in range(a, k):
                out[i, at] = matrix[order[a], order[b]]
                at += 1
    return out


_TRANSFORMS: dict[str, Callable[..., np.ndarray]] = {
    "shifts": shift_images,
    "elastic": deform_images,
    "coulomb": reorder_atoms,
}
KINDS = frozenset(_TRANSFORMS)
