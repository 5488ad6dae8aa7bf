"""Sequential minimal optimisation of a small dense quadratic problem: pairs of coordinates.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,   1'b = const,        e = z - Kb

Working set selection of Fan, Chen and Lin (2005), WSS 2: i is the largest residual that can go up,
and j, which goes down by as much, gives the largest decrease of the objective,

    i = argmax {e_i : b_i < u_i},   j = argmax {t (e_i - e_j) - t^2 h / 2 : b_j > l_j},
    t = min((e_i - e_j) / h, u_i - b_i, b_j - l_j),   h = K_ii + K_jj - 2 K_ij.

Unlike LIBSVM, which ranks j by the decrease of the unclipped step, the step is clipped first.
"""

import numpy as np
from numba import njit

from kbench.solvers.float_order import (
    FLAGS,
    as_integers,
    bits_of,
    ordered,
    position_of,
    position_of_movable,
)

# Least curvature in units of K_ii + K_jj, for points that coincide: 16 eps of float32.
_FLAT = 1e-6
# A distance to a bound below this fraction of u - l is a rounding error of float64 and counts as 0:
# a point that it kept from its bound would violate for ever.
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
        Feasible point, its residual z - K beta, the bounds, the positive diagonal of K. The
        residual is kept in the precision of K.
    stop : float
        Stop when max {e_i : b_i < u_i} - min {e_i : b_i > l_i} is at most this.
    max_steps : int

    Returns
    -------
    steps : int
        O(q) time each, two rows of K.
    """
    # Arrays that are searched have the precision of K, which vectorises best; b is in float64.
    v, gain = e.astype(K.dtype), np.empty(len(e), K.dtype)
    steps: int = _steps(
        K, beta, v, as_integers(v), gain, as_integers(gain), lower, upper, diagonal, stop, max_steps
    )
    e[:] = v
    return steps


# Each loop over points writes one array: with two, LLVM fails to show that none overlap. The
# extremes of the next search are found while v is written.
@njit(cache=True, nogil=True, fastmath=FLAGS, error_model="numpy")
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
        # gain[0] serves to read the float of these bits.
        gain_bits[0] = ordered(lowest_key, v_bits)
        i = position_of_movable(ordered(highest_key, v_bits), v_bits, grow)
        if v[i] - gain[0] <= stop:
            break
        row_i, highest, up_i, d_i = K[i], v[i], grow[i], d[i]
        largest = integer(0)
        for k in range(q):
            way = max(highest - v[k], nothing)
            total = d_i + d[k]
            h = max(total - two * row_i[k], flat * total)
            s = min(min(way / h, up_i), fall[k])
            gain_k = s * (way - half * h * s)
            gain[k] = gain_k
            largest = max(largest, bits_of(gain_k))
        j = position_of(largest, gain_bits)
        if j == q or gain[j] <= nothing:
            # The violation is below the resolution of this precision.
            break
        total = diagonal[i] + diagonal[j]
        h = max(total - 2.0 * row_i[j], _FLAT * total)
        up, down = upper[i] - beta[i], beta[j] - lower[j]
        move = min(min((highest - v[j]) / h, up), down)
        # Exactly the bound, not a rounded sum: code tests by equality whether a point is at it.
        dust_i, dust_j = _DUST * (upper[i] - lower[i]), _DUST * (upper[j] - lower[j])
        beta[i] = upper[i] if up - move <= dust_i else beta[i] + move
        beta[j] = lower[j] if down - move <= dust_j else beta[j] - move
        grow[i], fall[i] = upper[i] - beta[i], beta[i] - lower[i]
        grow[j], fall[j] = upper[j] - beta[j], beta[j] - lower[j]
        row_j, t = K[j], number(move)
        highest_key, lowest_key = least, most
        for k in range(q):
            # Subtracting first is nearly exact for similar rows, however long the step.
            e_k = v[k] + t * (row_j[k] - row_i[k])
            v[k] = e_k
            key = ordered(bits_of(e_k), v_bits)
            highest_key = max(highest_key, key if grow[k] > nothing else least)
            lowest_key = min(lowest_key, key if fall[k] > nothing else most)
        step += 1
    return step
