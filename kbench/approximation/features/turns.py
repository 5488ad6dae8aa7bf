"""Cosines and sines of angles in turns, in place, for float32 and float64 rows of features.

With f = t - round(t) and a = |f| <= 1/2, cos(2 pi t) = S(1/4 - a) and sin(2 pi t) =
sign(f) S(min(a, 1/2 - a)), where S(g) = sin(2 pi g) is needed for |g| <= 1/4 only: there its
Taylor polynomial of degree 21 is exact to 2e-18. Without tables and branches LLVM vectorises every
step; the code is several times as fast as `np.cos` in float64 (`scripts/bench_approximation.py`).
"""

import math

import numpy as np
from numba import njit

_TAYLOR = [(-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(11)]
SERIES = {np.dtype(real): np.array(_TAYLOR, real) for real in (np.float32, np.float64)}


@njit(inline="always")
def _sine(g, s):
    """sin(2 pi g) for |g| <= 1/4; s : (11,) coefficients."""
    z = g * g
    upper = s[6] + z * (s[7] + z * (s[8] + z * (s[9] + z * s[10])))
    return g * (s[0] + z * (s[1] + z * (s[2] + z * (s[3] + z * (s[4] + z * (s[5] + z * upper))))))


@njit(cache=True, fastmath={"contract", "nsz"}, nogil=True)
def write_features(rows, phases, scale, series):
    """Turn rows of angles into features, in place.

    An angle t in turns is rounded when it is stored, which costs an error of 2 pi eps |t|, with the
    machine precision eps.

    rows : (u, D) with phases, (u, 2 D) without
        In: angles in the first D columns. Out: scale cos(2 pi (t + phase)), or scale cos(2 pi t)
        in the first D columns and scale sin(2 pi t) in the others.
    phases : (D,) in turns, or empty
    scale : a number of the precision of `rows`
    series : the coefficients in `SERIES` of that precision
    """
    real = rows.dtype.type
    quarter, half, zero = real(0.25), real(0.5), real(0.0)
    if len(phases):
        for i in range(rows.shape[0]):
            row = rows[i]
            for j in range(len(phases)):
                t = row[j] + phases[j]
                row[j] = scale * _sine(quarter - abs(t - np.rint(t)), series)
        return
    D = rows.shape[1] // 2
    for i in range(rows.shape[0]):
        cosines, sines = rows[i, :D], rows[i, D:]
        for j in range(D):
            f = cosines[j] - np.rint(cosines[j])
            a = abs(f)
            sine = _sine(min(a, half - a), series)
            cosines[j] = scale * _sine(quarter - a, series)
            sines[j] = scale * (-sine if f < zero else sine)
