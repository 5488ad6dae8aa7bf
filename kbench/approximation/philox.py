"""Counter-based random numbers, and cosines and sines of angles in turns, as vector code.

Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC
2011): four words of 32 bits are a bijection of a counter under a key, so that every number can be
computed alone, in any order, on any machine. Normals are made by the method of Box and Muller from
24 bits each of a radius and of an angle.

Counters are (index, stream, block); the key is the seed. Values of one (seed, stream, block) are
independent of those of another.
"""

import numpy as np
from numba import njit

from kbench.kernels.threads import run
from kbench.kernels.work_sharing import Loop, divided, share

_FLAGS = {"contract", "nsz", "nnan", "ninf", "arcp"}

_MULTIPLIER_0, _MULTIPLIER_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_WORD = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_ROUNDS = 10

_TO_UNIT = np.float32(2.0**-24)
_ZERO, _QUARTER, _HALF = np.float32(0.0), np.float32(0.25), np.float32(0.5)
_MINUS_2_LN_2 = np.float32(-2.0 * np.log(2.0))
_EXPONENT_OF_ROOT_HALF = np.int32(0x3F3504F3)
_MANTISSA_BITS = np.int32(23)
_ONE = np.float32(1.0)
# sin(2 pi g) / g on [0, 1/4] by its Chebyshev interpolant in g^2: 7e-9 off in exact arithmetic.
_S0, _S1, _S2, _S3, _S4 = (
    np.float32(c) for c in (6.28318528, -41.34168061, 81.60247637, -76.58117264, 39.75982707)
)
# 2 atanh(s) / (s ln 2) on |s| <= 0.172 by its power series in s^2.
_L0, _L1, _L2, _L3, _L4 = (np.float32(2.0 / np.log(2.0) / k) for k in (1, 3, 5, 7, 9))


@njit(inline="always")
def _four_words(index, stream, block, key):
    """Philox4x32-10 of four words, in the low halves of uint64 so that products are exact."""
    a, b, c, d = index & _WORD, stream & _WORD, block & _WORD, block >> _32
    k0, k1 = key & _WORD, key >> _32
    for _ in range(_ROUNDS):
        p, q = _MULTIPLIER_0 * a, _MULTIPLIER_1 * c
        a, b, c, d = (q >> _32) ^ b ^ k0, q & _WORD, (p >> _32) ^ d ^ k1, p & _WORD
        k0, k1 = (k0 + _WEYL_0) & _WORD, (k1 + _WEYL_1) & _WORD
    return a, b, c, d


@njit("Tuple((u8, u8, u8, u8))(u8, u8, u8, u8)", cache=True)
def four_words(index, stream, block, key):
    """The four words of 32 bits of a counter (index, stream: 32 bits; block: 64) under a key."""
    return _four_words(index, stream, block, key)


@njit(inline="always")
def _unit(word):
    """A word's upper 24 bits as a multiple of 2^-24 in [0, 1)."""
    return np.float32(np.int32(word >> np.uint64(8))) * _TO_UNIT


@njit(inline="always")
def _odd_polynomial(g):
    z = g * g
    return g * (_S0 + z * (_S1 + z * (_S2 + z * (_S3 + z * _S4))))


@njit(inline="always")
def _cosine_and_sine(turns):
    """cos and sin of 2 pi t, 2e-7 off where t is exact."""
    f = turns - np.rint(turns)
    a = abs(f)
    sine = _odd_polynomial(min(a, _HALF - a))
    return _odd_polynomial(_QUARTER - a), -sine if f < _ZERO else sine


@njit(inline="always")
def _log2(u):
    """log2 of a float32 in [2^-25, 1], by its exponent and an odd series in (m - 1) / (m + 1)."""
    bits = np.float32(u).view(np.int32)
    exponent = (bits - _EXPONENT_OF_ROOT_HALF) >> _MANTISSA_BITS
    m = np.int32(bits - (exponent << _MANTISSA_BITS)).view(np.float32)
    s = (m - _ONE) / (m + _ONE)
    z = s * s
    return np.float32(exponent) + s * (_L0 + z * (_L1 + z * (_L2 + z * (_L3 + z * _L4))))


@njit(inline="always")
def _radius(word):
    return np.sqrt(_MINUS_2_LN_2 * _log2(_unit(word) + _HALF * _TO_UNIT))


# error_model: a test for division by zero would keep the loop from being vector code.
@njit(
    "void(u8, u8, u8, f4[::1])",
    cache=True,
    fastmath=_FLAGS,
    nogil=True,
    error_model="numpy",
)
def normals(seed, stream, block, out):
    """Fill out : (n,) with standard normals. O(n); they reach 5.9 standard deviations.

    Values i and ceil(n / 2) + i come from one counter: all values of a larger `out` differ.
    """
    n = len(out)
    half = (n + 1) // 2
    cosines, sines = out[:half], out[half:]
    whole = len(sines)
    for i in range(whole):
        w0, w1, _, _ = _four_words(np.uint64(i), stream, block, seed)
        r = _radius(w0)
        c, s = _cosine_and_sine(_unit(w1))
        cosines[i], sines[i] = r * c, r * s
    if whole < half:
        w0, w1, _, _ = _four_words(np.uint64(whole), stream, block, seed)
        cosines[whole] = _radius(w0) * _cosine_and_sine(_unit(w1))[0]


@njit("void(u8, u8, u8, f4[::1])", cache=True, fastmath=_FLAGS, nogil=True)
def uniforms(seed, stream, block, out):
    """Fill out : (n,) with multiples of 2^-24 plus 2^-25, uniform in (0, 1). O(n)."""
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


@njit(cache=True, nogil=True, fastmath=_FLAGS)
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
    """In rows : (n, 2 r) float32: angles in turns in the first half become scaled cosines, and
    their sines the second half. Angles t are rounded before: 4e-7 |t| off.
    """
    run(_COSINES_AND_SINES, rows, scale, n=len(rows), nanoseconds=rows.size, multiple=1)
