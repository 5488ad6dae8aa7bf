"""Pairs of coordinates on a small dense box-constrained quadratic problem with a fixed sum.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,   1'b = const,        e = z - Kb

Sequential minimal optimisation with the second-order choice of Fan, Chen and Lin (2005): i is the
worst that can go up, and j, going down by as much, the one with the largest decrease,

    i = argmax {e_i : b_i < u_i},   j = argmax {t (e_i - e_j) - t^2 h / 2 : b_j > l_j},
    t = min((e_i - e_j) / h, u_i - b_i, b_j - l_j),   h = K_ii + K_jj - 2 K_ij.

In contrast to LIBSVM the decrease that ranks j is that of the clipped step.
"""

import numpy as np
from numba import njit

from kbench.solvers.float_order import (
    FLAGS,
    as_integers,
    bits_of,
    ordered,
    place_of,
    place_with_room,
)

# A curvature below this share of K_ii + K_jj is rounding: points that coincide.
_FLAT = 1e-6
# A distance to a bound below this share of the box is rounding. A point that it kept from its bound
# would violate for ever: no step that long is worth taking.
_DUST = 1e-14


def pair_steps(
    K: np.ndarray,
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    diagonal: np.ndarray,
    stop: float,
    max_steps: int,
) -> int:
    """Minimise over the box with the sum of `beta` fixed, in place.

    Parameters
    ----------
    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper, diagonal : (q,) float64
        Feasible point, its residual z - K beta (kept in the precision of K), the box, the positive
        diagonal of K.
    stop : float
        On max {e_i : b_i < u_i} - min {e_i : b_i > l_i}.
    max_steps : int

    Returns
    -------
    steps : int
    """
    # What is searched is in the precision of K, which vectorises best; sums of b are not rounded.
    v, gain = e.astype(K.dtype), np.empty(len(e), K.dtype)
    steps: int = _steps(
        K, beta, v, as_integers(v), gain, as_integers(gain), lower, upper, diagonal, stop, max_steps
    )
    e[:] = v
    return steps


# Compiled when imported (or read from numba's cache), so that no fit pays for it. Loops over points
# write one array each: with more, the compiler gives up on showing that none overlap. What is
# searched next is searched as it is written.
@njit(
    [
        f"i8({k}[:,::1], f8[::1], {k}[::1], {i}[::1], {k}[::1], {i}[::1],"
        " f8[::1], f8[::1], f8[::1], f8, i8)"
        for k, i in (("f4", "i4"), ("f8", "i8"))
    ],
    cache=True,
    nogil=True,
    fastmath=FLAGS,
    error_model="numpy",
)
def _steps(K, beta, v, v_bits, gain, gain_bits, lower, upper, diagonal, stop, max_steps):
    q = v.shape[0]
    number, integer = K.dtype.type, v_bits.dtype.type
    nothing, flat, two, half = number(0), number(_FLAT), number(2), number(0.5)
    d = diagonal.astype(K.dtype)
    grow, fall = (upper - beta).astype(K.dtype), (beta - lower).astype(K.dtype)
    most = integer(~(integer(1) << integer(8 * v_bits.itemsize - 1)))
    least = integer(-most - 1)
    highest_key, lowest_key = least, most
    for k in range(q):
        key = ordered(v_bits[k], v_bits)
        highest_key = max(highest_key, key if grow[k] > nothing else least)
        lowest_key = min(lowest_key, key if fall[k] > nothing else most)
    step = 0
    while step < max_steps:
        if highest_key == least or lowest_key == most:
            break
        # Any place of `gain` does to read its float from.
        gain_bits[0] = ordered(lowest_key, v_bits)
        i = place_with_room(ordered(highest_key, v_bits), v_bits, grow)
        if v[i] - gain[0] <= stop:
            break
        row_i, highest, room, d_i = K[i], v[i], grow[i], d[i]
        largest = integer(0)
        for k in range(q):
            way = max(highest - v[k], nothing)
            total = d_i + d[k]
            h = max(total - two * row_i[k], flat * total)
            s = min(min(way / h, room), fall[k])
            gain_k = s * (way - half * h * s)
            gain[k] = gain_k
            largest = max(largest, bits_of(gain_k))
        j = place_of(largest, gain_bits)
        if j == q or gain[j] <= nothing:
            # Below the resolution: nothing more can be gained.
            break
        total = diagonal[i] + diagonal[j]
        h = max(total - 2.0 * row_i[j], _FLAT * total)
        up, down = upper[i] - beta[i], beta[j] - lower[j]
        move = min(min((highest - v[j]) / h, up), down)
        # The bound itself, not a rounded sum: a point is at a bound by equality.
        dust_i, dust_j = _DUST * (upper[i] - lower[i]), _DUST * (upper[j] - lower[j])
        beta[i] = upper[i] if up - move <= dust_i else beta[i] + move
        beta[j] = lower[j] if down - move <= dust_j else beta[j] - move
        grow[i], fall[i] = upper[i] - beta[i], beta[i] - lower[i]
        grow[j], fall[j] = upper[j] - beta[j], beta[j] - lower[j]
        row_j, t = K[j], number(move)
        highest_key, lowest_key = least, most
        for k in range(q):
            # The difference of two values is all but exact, however long the step.
            e_k = v[k] + t * (row_j[k] - row_i[k])
            v[k] = e_k
            key = ordered(bits_of(e_k), v_bits)
            highest_key = max(highest_key, key if grow[k] > nothing else least)
            lowest_key = min(lowest_key, key if fall[k] > nothing else most)
        step += 1
    return step
