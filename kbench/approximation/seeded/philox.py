"""Counter-based random numbers, and cosines and sines of angles in turns, vectorised.

Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC
2011) maps a counter of four 32-bit words to four random words, under a key, by a bijection. Every
number can be computed alone, in any order, on any machine. Normal numbers come from the method of
Box and Muller, with 24 bits for the radius and 24 for the angle.

Counters are (index, stream, block); the key is the seed, a `np.uint64` (compiled functions take a
Python int as 63 bits and a sign). Values of different (seed, stream, block) are independent.
"""

import numpy as np
from numba import njit

from kbench.kernels.threads import run
from kbench.kernels.work_sharing import Loop, divided, share

_FASTMATH = {"contract", "nsz", "nnan", "ninf", "arcp"}

_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_WORD_MASK = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
# Rounds of Philox4x32-10.
_ROUNDS = 10

_TO_UNIT = np.float32(2.0**-24)
_ZERO, _QUARTER, _HALF = np.float32(0.0), np.float32(0.25), np.float32(0.5)
_MINUS_2_LN_2 = np.float32(-2.0 * np.log(2.0))
_BITS_OF_ROOT_HALF = np.int32(0x3F3504F3)  # of sqrt(1 / 2) in float32
_MANTISSA_BITS = np.int32(23)
_ONE = np.float32(1.0)
# sin(2 pi g) / g on [0, 1/4]: Chebyshev interpolant in g^2, error 7e-9 in exact arithmetic.
_S0, _S1, _S2, _S3, _S4 = (
    np.float32(c) for c in (6.28318528, -41.34168061, 81.60247637, -76.58117264, 39.75982707)
)
# 2 atanh(s) / (s ln 2) on |s| <= 0.172: power series in s^2.
_L0, _L1, _L2, _L3, _L4 = (np.float32(2.0 / np.log(2.0) / k) for k in (1, 3, 5, 7, 9))


@njit(inline="always")
def _four_words(index, stream, block, key):
    """Philox4x32-10 of four words, in the low halves of uint64, so that products are exact."""
    a, b, c, d = index & _WORD_MASK, stream & _WORD_MASK, block & _WORD_MASK, block >> _32
    k0, k1 = key & _WORD_MASK, key >> _32
    for _ in range(_ROUNDS):
        p, q = _MULTIPLIER_0 * a, _MULTIPLIER_1 * c
        a, b, c, d = (q >> _32) ^ b ^ k0, q & _WORD_MASK, (p >> _32) ^ d ^ k1, p & _WORD_MASK
        k0, k1 = (k0 + _WEYL_0) & _WORD_MASK, (k1 + _WEYL_1) & _WORD_MASK
    return a, b, c, d


@njit(cache=True)
def four_words(index, stream, block, key):
    """Four random 32-bit words for a counter and a key; index, stream: 32 bits, block, key: 64."""
    return _four_words(np.uint64(index), np.uint64(stream), np.uint64(block), np.uint64(key))


@njit(inline="always")
def _unit(word):
    """The upper 24 bits of a word, as a float32 in [0, 1)."""
    return np.float32(np.int32(word >> np.uint64(8))) * _TO_UNIT


@njit(inline="always")
def _sine(g):
    z = g * g
    return g * (_S0 + z * (_S1 + z * (_S2 + z * (_S3 + z * _S4))))


@njit(inline="always")
def _cosine_and_sine(turns):
    """cos and sin of 2 pi t, with an error of 2e-7 for an exact t."""
    f = turns - np.rint(turns)
    a = abs(f)
    sine = _sine(min(a, _HALF - a))
    return _sine(_QUARTER - a), -sine if f < _ZERO else sine


@njit(inline="always")
def _log2(u):
    """log2 of a float32 in [2^-25, 1], by its exponent and an odd series in (m - 1) / (m + 1)."""
    bits = np.float32(u).view(np.int32)
    exponent = (bits - _BITS_OF_ROOT_HALF) >> _MANTISSA_BITS
    m = np.int32(bits - (exponent << _MANTISSA_BITS)).view(np.float32)
    s = (m - _ONE) / (m + _ONE)
    z = s * s
    return np.float32(exponent) + s * (_L0 + z * (_L1 + z * (_L2 + z * (_L3 + z * _L4))))


@njit(inline="always")
def _radius(word):
    """sqrt(-2 log u) of a uniform number u in (0, 1), the radius of Box and Muller."""
    return np.sqrt(_MINUS_2_LN_2 * _log2(_unit(word) + _HALF * _TO_UNIT))


# error_model="numpy": a test for division by zero keeps LLVM from vectorising the loop.
@njit(cache=True, fastmath=_FASTMATH, nogil=True, error_model="numpy")
def normals(seed, stream, block, out):
    """Fill out : (n,) float32 with standard normals, at most 5.9 in absolute value. O(n).

    Values i and ceil(n / 2) + i come from one counter, so a longer `out` has other values
    throughout.
    """
    seed, stream, block = np.uint64(seed), np.uint64(stream), np.uint64(block)
    n = len(out)
    half = (n + 1) // 2
    cosines, sines = out[:half], out[half:]
    n_pairs = len(sines)
    for i in range(n_pairs):
        w0, w1, _, _ = _four_words(np.uint64(i), stream, block, seed)
        r = _radius(w0)
        c, s = _cosine_and_sine(_unit(w1))
        cosines[i], sines[i] = r * c, r * s
    if n_pairs < half:
        w0, w1, _, _ = _four_words(np.uint64(n_pairs), stream, block, seed)
        cosines[n_pairs] = _radius(w0) * _cosine_and_sine(_unit(w1))[0]


@njit(cache=True, fastmath=_FASTMATH, nogil=True)
def uniforms(seed, stream, block, out):
    """Fill out : (n,) float32 with uniform numbers in (0, 1), on a grid of 2^-24. O(n)."""
    seed, stream, block = np.uint64(seed), np.uint64(stream), np.uint64(block)
    n = len(out)
    quarter = (n + 3) // 4
    for i in range(quarter):
        w0, w1, w2, w3 = _four_words(np.uint64(i), stream, block, seed)
        out[i] = _unit(w0) + _HALF * _TO_UNIT
        if quarter + i < n:
            out[quarter + i] = _unit(w1) + _HALF * _TO_UNIT
        if 2 * quarter + i < n:
            out[2 * quarter + i] = _unit(w2) + _HALF * _TO_UNIT
        if 3 * quarter + i < n:
            out[3 * quarter + i] = _unit(w3) + _HALF * _TO_UNIT


@njit(cache=True, nogil=True, fastmath=_FASTMATH)
def _cosines_and_sines(rows, scale, start, stop):
    r = rows.shape[1] // 2
    for i in range(start, stop):
        cosines, sines = rows[i, :r], rows[i, r:]
        for j in range(r):
            c, s = _cosine_and_sine(cosines[j])
            cosines[j], sines[j] = scale * c, scale * s


_expose_cosines_and_sines = divided(_cosines_and_sines)


@njit(cache=True, nogil=True)
def _shared_cosines_and_sines(arguments, n, block, mailboxes):
    share(_expose_cosines_and_sines(arguments), n, block, mailboxes)


_COSINES_AND_SINES = Loop(_cosines_and_sines, _shared_cosines_and_sines)


def cosines_and_sines(rows: np.ndarray, scale: np.float32) -> None:
    """Turn angles into scaled cosines and sines, in place.

    rows : (n, 2 r) float32. In: angles in turns in the first r columns. Out: their cosines in the
    first r columns and sines in the others, times `scale`. The rounding of an angle t to float32
    costs an error of 4e-7 |t|.
    """
    # The estimate, 1 ns for each number of the array, decides on the number of threads:
    # `scripts/bench_dsgd.py` measures it.
    run(_COSINES_AND_SINES, rows, scale, n=len(rows), nanoseconds=rows.size, multiple=1)
