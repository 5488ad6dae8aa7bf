"""Compiled tiles of kernels that are functions of a distance, for real and binary features.

    k(x, z) = f(t),    -t = sum_k |x_k - z_k|^power + per_bit * hamming(bits of x, bits of z)

Prepared features are already scaled, so that gamma does not appear here. They are subtracted, and
||x - z||^2 is not expanded into inner products: nothing cancels, and tiles are as fast as a matrix
product on processors that subtract and multiply at the same time. A tile is 4 rows of the left
points against 256 of the right points: 4 KiB of t that stay in the L1 cache. For kernels that fall
exponentially f is 2^t, a polynomial and a shift of bits, which LLVM vectorises on every processor.
The module of any other kernel compiles a function that replaces t by f(t), passes it to
`tiles_of_function` and declares the `Loop`, as `kbench/kernels/functions/cauchy.py` does.

If two-valued columns are not packed into bits, a9a takes 1.7 times and w8a more than 3 times as
long (`scripts/ablate_svm.py`, `bit_layout`).
"""

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from kbench.intrinsics.scalars import popcount
from kbench.kernels.threads import run
from kbench.kernels.work_sharing import Loop, divided, share

# Number of left points in a tile, and of features per pass over a tile: the loops below are written
# out for it, and prepared points are padded with zeros to multiples. With 4 of both, 16 values of
# left points and 4 vectors of right points are in 20 vector registers.
UNROLLED = 4
# Prepared bits are padded with zeros to a multiple of this number of 32-bit words, the least number
# of words whose differing bits are counted before the count is converted to a float.
WORDS_PER_COUNT = 2
# Columns of a tile: UNROLLED rows of them in float32 take 4 KiB of the L1 cache. Set by hand.
_COLUMNS = 256
# e^-t = 2^-(t LOG2_E).
LOG2_E = math.log2(math.e)
# Binary logarithms of the least values of `power_of_two`, in float32 and float64: their products
# with coefficients above 2^-26 and 2^-122 are normal numbers (2^-126, 2^-1022). Guard.
MIN_EXPONENT_32, MIN_EXPONENT_64 = -100.0, -900.0


def min_exponent(dtype: np.dtype) -> float:
    """Binary logarithm of the least kernel value in this precision (see `power_of_two`)."""
    return MIN_EXPONENT_32 if dtype == np.float32 else MIN_EXPONENT_64


def power_of_two(t):
    """Return 2^t for t <= 0; in compiled code with a relative error below 2 eps.

    The result is never below 2^-100 (float64: 2^-900), so that its products with coefficients are
    not denormal numbers, with which processors compute many times more slowly.
    """
    return 2.0 ** max(t, MIN_EXPONENT_32)


@overload(power_of_two)
def _compile_power_of_two(t):
    # Adding 1.5 * 2^(mantissa bits) rounds t to an integer, which is then in the low bits. The
    # polynomials interpolate 2^f on [-1/2, 1/2] at Chebyshev nodes and are exact at f = 0; their
    # relative errors are 5e-9 and 2e-17. The integer, shifted into the exponent bits and added to
    # the bits of 1.0 (0x3F800000, 0x3FF0000000000000), is the other factor, a power of two.
    if t == types.float32:
        f4 = np.float32

        def power32(t):
            t = max(t, f4(MIN_EXPONENT_32))
            shifted = t + f4(12582912.0)
            f = t - (shifted - f4(12582912.0))
            p = f4(1.3390863e-3) + f * f4(1.5453163e-4)
            p = f4(9.6180826e-3) + f * p
            p = f4(5.5503571e-2) + f * p
            p = f4(2.4022651e-1) + f * p
            p = f4(6.9314719e-1) + f * p
            p = f4(1.0) + f * p
            bits = np.float32(shifted).view(np.int32)
            return p * np.int32((bits << np.int32(23)) + np.int32(0x3F800000)).view(np.float32)

        return power32

    def power64(t):
        t = max(t, MIN_EXPONENT_64)
        shifted = t + 6755399441055744.0
        f = t - (shifted - 6755399441055744.0)
        p = 7.072585949269223e-09 + f * 4.4549605981865186e-10
        p = 1.0178062445845774e-07 + f * p
        p = 1.321544258792169e-06 + f * p
        p = 1.525273382983612e-05 + f * p
        p = 0.0001540353044173605 + f * p
        p = 0.0013333558146416936 + f * p
        p = 0.009618129107606888 + f * p
        p = 0.0555041086648216 + f * p
        p = 0.24022650695910097 + f * p
        p = 0.6931471805599453 + f * p
        p = 1.0 + f * p
        bits = np.float64(shifted).view(np.int64)
        return p * np.int64((bits << np.int64(52)) + np.int64(0x3FF0000000000000)).view(np.float64)

    return power64


# "reassoc" is left out because it would undo the rounding in power_of_two.
FLAGS = {"contract", "nsz", "nnan", "ninf"}


@njit(fastmath=FLAGS, nogil=True)
def _subtract_hamming(words, row, columns, per_bit, acc):
    """acc[r, j] -= per_bit * hamming(words[row + r], columns[:, j]), columns : (w, 256), w even."""
    m, real, n_words = _COLUMNS, acc.dtype.type, words.shape[1]
    # Four words in a pass need half as many conversions of counts to floats as two.
    for k in range(0, n_words - 3, 4):
        x, i = columns[k * m : (k + 4) * m], row
        a0, a1, a2, a3 = words[i, k], words[i, k + 1], words[i, k + 2], words[i, k + 3]
        i = row + 1
        b0, b1, b2, b3 = words[i, k], words[i, k + 1], words[i, k + 2], words[i, k + 3]
        i = row + 2
        c0, c1, c2, c3 = words[i, k], words[i, k + 1], words[i, k + 2], words[i, k + 3]
        i = row + 3
        d0, d1, d2, d3 = words[i, k], words[i, k + 1], words[i, k + 2], words[i, k + 3]
        for j in range(m):
            x0, x1, x2, x3 = x[j], x[m + j], x[2 * m + j], x[3 * m + j]
            # Counts are converted by way of int32, from which the conversion to float32 vectorises
            # on every processor.
            a = popcount(x0 ^ a0) + popcount(x1 ^ a1) + popcount(x2 ^ a2) + popcount(x3 ^ a3)
            acc[j] -= per_bit * real(np.int32(a))
            b = popcount(x0 ^ b0) + popcount(x1 ^ b1) + popcount(x2 ^ b2) + popcount(x3 ^ b3)
            acc[m + j] -= per_bit * real(np.int32(b))
            c = popcount(x0 ^ c0) + popcount(x1 ^ c1) + popcount(x2 ^ c2) + popcount(x3 ^ c3)
            acc[2 * m + j] -= per_bit * real(np.int32(c))
            d = popcount(x0 ^ d0) + popcount(x1 ^ d1) + popcount(x2 ^ d2) + popcount(x3 ^ d3)
            acc[3 * m + j] -= per_bit * real(np.int32(d))
    if n_words % 4:
        k = n_words - WORDS_PER_COUNT
        x = columns[k * m : (k + WORDS_PER_COUNT) * m]
        a0, a1 = words[row, k], words[row, k + 1]
        b0, b1 = words[row + 1, k], words[row + 1, k + 1]
        c0, c1 = words[row + 2, k], words[row + 2, k + 1]
        d0, d1 = words[row + 3, k], words[row + 3, k + 1]
        for j in range(m):
            x0, x1 = x[j], x[m + j]
            acc[j] -= per_bit * real(np.int32(popcount(x0 ^ a0) + popcount(x1 ^ a1)))
            acc[m + j] -= per_bit * real(np.int32(popcount(x0 ^ b0) + popcount(x1 ^ b1)))
            acc[2 * m + j] -= per_bit * real(np.int32(popcount(x0 ^ c0) + popcount(x1 ^ c1)))
            acc[3 * m + j] -= per_bit * real(np.int32(popcount(x0 ^ d0) + popcount(x1 ^ d1)))


@njit(fastmath=FLAGS, nogil=True)
def _subtract_squares(left, row, columns, acc):
    """acc[r, j] -= ||left[row + r] - columns[:, j]||^2, columns : (p, 256)."""
    # Constant strides from one base show the compiler that rows do not overlap, so it vectorises.
    # Each square that is subtracted from acc is one fused multiply-add; a sum of the four squares
    # first would need a further subtraction.
    m = _COLUMNS
    for k in range(0, left.shape[1], UNROLLED):
        x = columns[k * m : (k + UNROLLED) * m]
        a0, a1, a2, a3 = left[row, k], left[row, k + 1], left[row, k + 2], left[row, k + 3]
        i = row + 1
        b0, b1, b2, b3 = left[i, k], left[i, k + 1], left[i, k + 2], left[i, k + 3]
        i = row + 2
        c0, c1, c2, c3 = left[i, k], left[i, k + 1], left[i, k + 2], left[i, k + 3]
        i = row + 3
        d0, d1, d2, d3 = left[i, k], left[i, k + 1], left[i, k + 2], left[i, k + 3]
        for j in range(m):
            x0, x1, x2, x3 = x[j], x[m + j], x[2 * m + j], x[3 * m + j]
            a, b, c, d = acc[j], acc[m + j], acc[2 * m + j], acc[3 * m + j]
            acc[j] = a - (x0 - a0) ** 2 - (x1 - a1) ** 2 - (x2 - a2) ** 2 - (x3 - a3) ** 2
            acc[m + j] = b - (x0 - b0) ** 2 - (x1 - b1) ** 2 - (x2 - b2) ** 2 - (x3 - b3) ** 2
            acc[2 * m + j] = c - (x0 - c0) ** 2 - (x1 - c1) ** 2 - (x2 - c2) ** 2 - (x3 - c3) ** 2
            acc[3 * m + j] = d - (x0 - d0) ** 2 - (x1 - d1) ** 2 - (x2 - d2) ** 2 - (x3 - d3) ** 2


@njit(fastmath=FLAGS, nogil=True)
def _subtract_absolute(left, row, columns, acc):
    """acc[r, j] -= ||left[row + r] - columns[:, j]||_1, columns : (p, 256)."""
    for k in range(left.shape[1]):
        x = columns[k * _COLUMNS : (k + 1) * _COLUMNS]
        for r in range(UNROLLED):
            value, a = left[row + r, k], acc[r * _COLUMNS : (r + 1) * _COLUMNS]
            for j in range(_COLUMNS):
                a[j] -= abs(x[j] - value)


@njit(fastmath=FLAGS, nogil=True)
def _copy_columns(points, first, width, columns):
    """Copy columns first .. first + width - 1 of points : (p, n) to columns : (p, 256)."""
    for k in range(points.shape[0]):
        source, target = (
            points[k, first : first + width],
            columns[k * _COLUMNS : (k + 1) * _COLUMNS],
        )
        for j in range(width):
            target[j] = source[j]


@njit(fastmath=FLAGS, nogil=True)
def _add_powers(acc, coef, partial, out):
    """out[j] += sum_r coef_r 2^acc[r, j].

    The sum of four products has the points' precision; it is added to the float64 out[j].
    """
    m = _COLUMNS
    c0, c1, c2, c3 = coef[0], coef[1], coef[2], coef[3]
    # There are two loops, because the float64 numbers in a single loop would halve the number
    # of float32 values that a vector instruction takes.
    for j in range(m):
        k0, k1 = power_of_two(acc[j]), power_of_two(acc[m + j])
        k2, k3 = power_of_two(acc[2 * m + j]), power_of_two(acc[3 * m + j])
        partial[j] = (c0 * k0 + c1 * k1) + (c2 * k2 + c3 * k3)
    for j in range(out.shape[0]):
        out[j] += partial[j]


@njit(fastmath=FLAGS, nogil=True)
def _write_powers(exponents, out):
    """out[j] = 2^exponents[j]"""
    for j in range(out.shape[0]):
        out[j] = power_of_two(exponents[j])


@njit(fastmath=FLAGS, nogil=True)
def _identity(t):
    """Leave t as it is: `_write_powers` and `_add_powers` evaluate 2^t."""


@njit(fastmath=FLAGS, nogil=True)
def _write_values(values, out):
    """out[j] = values[j]"""
    for j in range(out.shape[0]):
        out[j] = values[j]


@njit(fastmath=FLAGS, nogil=True)
def _add_values(tile, coef, partial, out):
    """out[j] += sum_r coef_r tile[r, j], in the precisions of `_add_powers`."""
    m = _COLUMNS
    c0, c1, c2, c3 = coef[0], coef[1], coef[2], coef[3]
    for j in range(m):
        partial[j] = (c0 * tile[j] + c1 * tile[m + j]) + (
            c2 * tile[2 * m + j] + c3 * tile[3 * m + j]
        )
    for j in range(out.shape[0]):
        out[j] += partial[j]


def _tiles_of(apply_f, write, add):
    """Return the compiled loop over the tiles of the kernel f(t).

    numba does not cache it on disk; the cached functions that call it contain its code.

    apply_f : compiled function that replaces t : (m,) by f(t) in place
    write : compiled function that stores a row of a tile, as kernel values, in the block
    add : compiled function that adds a tile, as kernel values times coefficients, to the sums
    """

    @njit(fastmath=FLAGS, nogil=True)
    def loop_over_tiles(
        left, left_words, right, right_words, per_bit, squared, coef, sums, block, start, stop
    ):
        m = _COLUMNS
        n_features, n_words = left.shape[1], left_words.shape[1]
        columns = np.zeros(n_features * m, left.dtype)
        word_columns = np.zeros(n_words * m, np.uint32)
        acc, partial = np.empty(UNROLLED * m, left.dtype), np.empty(m, left.dtype)
        for first in range(start, stop, m):
            width = min(stop - first, m)
            _copy_columns(right, first, width, columns)
            _copy_columns(right_words, first, width, word_columns)
            for i in range(0, left.shape[0], UNROLLED):
                for j in range(UNROLLED * m):
                    acc[j] = 0
                if n_words:
                    _subtract_hamming(left_words, i, word_columns, per_bit, acc)
                if squared:
                    _subtract_squares(left, i, columns, acc)
                else:
                    _subtract_absolute(left, i, columns, acc)
                apply_f(acc)
                if coef.shape[0]:
                    add(acc, coef[i : i + UNROLLED], partial, sums[first : first + width])
                else:
                    for r in range(min(UNROLLED, block.shape[0] - i)):
                        write(acc[r * m : (r + 1) * m], block[i + r, first : first + width])

    return loop_over_tiles


def tiles_of_function(apply_f: Any) -> Any:
    """Return the loop over the tiles of the kernel f(t).

    numba does not cache it on disk; a function of the kernel's module with cache=True should call
    it, and then contains its code.

    Parameters
    ----------
    apply_f : compiled function. It replaces t : (m,) float32 or float64, t <= 0, by f(t) in place.

    Returns
    -------
    compiled function
        Computes kernel values of the right points start .. stop-1, and adds them up or stores them:
        left : (b, p), left_words : (b, w), b a multiple of UNROLLED; right : (p, n), right_words :
        (w, n). With coef : (b,), sums[j] += sum_i coef_i k_ij. If coef is empty, the values are
        written to block : (a, n), a <= b.
    """
    return _tiles_of(apply_f, _write_values, _add_values)


_powers_of_two = _tiles_of(_identity, _write_powers, _add_powers)


@njit(cache=True, nogil=True, fastmath=FLAGS)
def _tiles(left, left_words, right, right_words, per_bit, squared, coef, sums, block, start, stop):
    _powers_of_two(
        left, left_words, right, right_words, per_bit, squared, coef, sums, block, start, stop
    )


_expose_tiles = divided(_tiles)


@njit(cache=True, nogil=True)
def _shared_tiles(arguments, n, block, mailboxes):
    share(_expose_tiles(arguments), n, block, mailboxes)


POWERS_OF_TWO = Loop(_tiles, _shared_tiles)
"""Tiles of k = 2^t."""

# (left : (b, p), left_words : (b, w), right : (p, n), right_words : (w, n)): features and uint32
# bits of the left and right points; b and p are multiples of UNROLLED, w of WORDS_PER_COUNT.
Operands = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def nanoseconds(n_features: int, n_words: int) -> float:
    """Estimated nanoseconds of one kernel value on a core with AVX-512.

    It consists of a constant and of the time of each feature and word
    (`scripts/bench_kernels.py`). The estimate decides how many threads a loop is divided among, and
    after how many uses solvers store kernel values.
    """
    return 0.15 + 0.01 * n_features + 0.015 * n_words


def fill(loop: Loop, operands: Operands, per_bit: float, *, squared: bool, out: np.ndarray) -> None:
    """Write the kernel between left and right points into out : (a, n), a <= b, C-contiguous.

    O(a n (p + w)) time.

    loop : The loop over tiles of the kernel, such as `POWERS_OF_TWO`
    operands : (left, left_words, right, right_words)
    per_bit : What a differing bit subtracts from the exponent
    squared : True for the sum of squared differences of features, False for absolute differences
    """
    dtype = operands[0].dtype
    no_coef, no_sums = np.empty(0, dtype), np.empty(0)
    scale = dtype.type(per_bit)
    _run(loop, operands, out.size, scale, squared, no_coef, no_sums, out)


def accumulate(
    loop: Loop,
    operands: Operands,
    per_bit: float,
    *,
    squared: bool,
    coef: np.ndarray,
    out: np.ndarray,
) -> None:
    """Add sum_i coef_i k(left_i, right_j) to out : (n,) float64; coef : (a,) of the points' dtype.

    Sums of four products are formed in the points' precision, and added up in float64. Parameters
    as in `fill`; left points beyond the a-th are padding.
    """
    dtype = operands[0].dtype
    no_block = np.empty((0, 0), dtype)
    scale = dtype.type(per_bit)
    padded_coef = np.zeros(len(operands[0]), dtype)
    padded_coef[: len(coef)] = coef
    _run(loop, operands, len(out) * len(coef), scale, squared, padded_coef, out, no_block)


def _run(loop: Loop, operands: Operands, n_entries: int, *arguments: Any) -> None:
    """Do the loop for n_entries kernel values, on as many threads as their cost justifies."""
    right, right_words = operands[2:]
    n, cost = right.shape[1], n_entries * nanoseconds(len(right), len(right_words))
    run(loop, *operands, *arguments, n=n, nanoseconds=cost, multiple=_COLUMNS)
