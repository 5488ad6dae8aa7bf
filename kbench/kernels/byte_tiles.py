"""Compiled tiles of Gaussian kernels between points whose features are bytes.

    k(x, z) = 2^-(scale D),    D = |x - z|^2 = |x|^2 + |z|^2 - 2 <x, z>,    0 <= x_k <= 255

Inner products of bytes (`kbench.intrinsics.byte_products`) give the integer D exactly, at several
times the speed of float32 multiply-adds. The instruction multiplies unsigned bytes by signed bytes,
so 128 is subtracted from the right points: <x, z> = <x, z - 128> + 128 sum_k x_k.

With float32 features instead of bytes, mnist_20k takes 1.8 times as long (`scripts/ablate_svm.py`,
`byte_layout`).
"""

from typing import Any

import numpy as np
from numba import njit

from kbench.intrinsics.byte_products import COLUMNS, ROWS, dot_products
from kbench.kernels.lattice import BytePoints, nanoseconds_of_bytes
from kbench.kernels.threads import run
from kbench.kernels.tiles import power_of_two
from kbench.kernels.work_sharing import Loop, divided, share

# Number of panels of COLUMNS right points that are copied together: 256 consecutive words of a row
# are whole cache lines. More panels need more scratch memory. Set by hand.
_PANELS_PER_COPY = 4
_COLUMNS_PER_COPY = _PANELS_PER_COPY * COLUMNS
# Toggling the highest bit of each byte subtracts 128 from it.
_SIGN_BITS = 0x80808080

# "reassoc" is left out because it would undo the rounding in power_of_two.
_FLAGS = {"contract", "nsz", "nnan", "ninf"}


@njit(fastmath=_FLAGS, nogil=True)
def _copy_columns(right, first, width, panels):
    """Copy `width` columns from `first` on of right : (w, n) as signed bytes to (w, 64) panels."""
    n_words = right.shape[0]
    for k in range(n_words):
        source = right[k, first : first + width]
        for panel in range(_PANELS_PER_COPY):
            start = panel * COLUMNS
            count = min(COLUMNS, width - start)
            begin = (panel * n_words + k) * COLUMNS
            target = panels[begin : begin + COLUMNS]
            for j in range(count):
                target[j] = source[start + j] ^ np.uint32(_SIGN_BITS)


@njit(fastmath=_FLAGS, nogil=True)
def _write_values(dots, shift, squares, scale, out):
    """out[j] = 2^-(scale D_j), D_j = shift + squares[j] - 2 dots[j]."""
    real, shift = out.dtype.type, np.int32(shift)
    for j in range(out.shape[0]):
        out[j] = power_of_two(-scale * real(np.int32(shift + squares[j] - 2 * dots[j])))


@njit(fastmath=_FLAGS, nogil=True)
def _add_values(dots, shift, squares, scale, coef, partial):
    """partial[j] += coef 2^-(scale D_j), D_j as in `_write_values`."""
    real, shift = partial.dtype.type, np.int32(shift)
    for j in range(partial.shape[0]):
        exponent = -scale * real(np.int32(shift + squares[j] - 2 * dots[j]))
        partial[j] += coef * power_of_two(exponent)


@njit(cache=True, nogil=True, fastmath=_FLAGS)
def _tiles(left, shifts, right, squares, scale, coef, values, block, start, stop):
    """Compute kernel values of the right points start .. stop-1; add them up or store them.

    left : (b, w), shifts : (b,) = |x|^2 - 256 sum_k x_k, b a multiple of ROWS; right : (w, n),
    squares : (n,) = |z|^2. With coef : (b,), values[j] += sum_i coef_i k_ij; with coef empty,
    block : (a, n) = k, a <= b.
    """
    n_words = left.shape[1]
    panels = np.zeros(n_words * _COLUMNS_PER_COPY, np.uint32)
    dots, partial = np.empty(ROWS * COLUMNS, np.int32), np.empty(COLUMNS, coef.dtype)
    for begin in range(start, stop, _COLUMNS_PER_COPY):
        _copy_columns(right, begin, min(stop - begin, _COLUMNS_PER_COPY), panels)
        for first in range(begin, min(stop, begin + _COLUMNS_PER_COPY), COLUMNS):
            last = min(stop, first + COLUMNS)
            norms = squares[first:last]
            panel = (first - begin) * n_words
            for i in range(0, left.shape[0], ROWS):
                dot_products(left, i, panels, panel, dots)
                if coef.shape[0]:
                    sums, out = partial[: last - first], values[first:last]
                    for j in range(sums.shape[0]):
                        sums[j] = 0
                    for r in range(ROWS):
                        row = dots[r * COLUMNS : (r + 1) * COLUMNS]
                        _add_values(row, shifts[i + r], norms, scale, coef[i + r], sums)
                    for j in range(sums.shape[0]):
                        out[j] += sums[j]
                else:
                    for r in range(min(ROWS, block.shape[0] - i)):
                        row = dots[r * COLUMNS : (r + 1) * COLUMNS]
                        _write_values(row, shifts[i + r], norms, scale, block[i + r, first:last])


_expose_tiles = divided(_tiles)


@njit(cache=True, nogil=True)
def _shared_tiles(arguments, n, block, mailboxes):
    share(_expose_tiles(arguments), n, block, mailboxes)


_TILES = Loop(_tiles, _shared_tiles)


def fill(A: BytePoints, B: BytePoints, scale: float, out: np.ndarray) -> None:
    """Write 2^-(scale D) between a points A and n points B into out : (a, n), C-contiguous."""
    no_coef, no_sums = np.empty(0, out.dtype), np.empty(0)
    _run(*_left_operands(A), B, out.dtype.type(scale), no_coef, no_sums, out)


def accumulate(
    A: BytePoints, B: BytePoints, scale: float, coef: np.ndarray, out: np.ndarray
) -> None:
    """Add sum_i coef_i 2^-(scale D_ij), i of A, j of B, to out : (n,) float64.

    coef : (a,) of the dtype in which values are computed. Sums over six left points (ROWS) have
    that dtype, and are added up in float64.
    """
    left, shifts = _left_operands(A)
    weights = np.zeros(len(left), coef.dtype)
    weights[: len(coef)] = coef
    _run(left, shifts, B, coef.dtype.type(scale), weights, out, np.empty((0, 0), coef.dtype))


def _run(left: np.ndarray, shifts: np.ndarray, B: BytePoints, *arguments: Any) -> None:
    n = B.shape[0]
    cost = n * len(left) * nanoseconds_of_bytes(len(B.words))
    sides = (left, shifts, B.words, B.squares)
    run(_TILES, *sides, *arguments, n=n, nanoseconds=cost, multiple=COLUMNS)


def _left_operands(A: BytePoints) -> tuple[np.ndarray, np.ndarray]:
    """Return the points as rows, padded to a multiple of ROWS, and |x|^2 - 256 sum_k x_k."""
    n = A.shape[0]
    words = np.zeros((-(-n // ROWS) * ROWS, len(A.words)), np.uint32)
    words[:n] = A.words.T
    shifts = np.zeros(len(words), np.int32)
    shifts[:n] = A.squares - 256 * A.totals
    return words, shifts
