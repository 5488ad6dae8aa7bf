"""Sequential minimal optimisation of a small dense quadratic problem: pairs of coordinates.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,   l <= b <= u,   1'b = const,        e = z - Kb

Working set selection of Fan, Chen and Lin (2005), WSS 2: i has the largest residual of the
coordinates that can go up, and j, which goes down by as much as i goes up, gives the largest
decrease of the objective. With lift and drop from `directions`,

    i = argmax e_i + lift_i,   j = argmax t w_j - t^2 h / 2,   w_j = e_i + lift_i - e_j - drop_j,
    t = min(w_j / h, distance of b_i to its upper end, distance of b_j to its lower end),
    h = K_ii + K_jj - 2 K_ij.

LIBSVM ranks j by the decrease of the unclipped step; here the step is clipped first.
"""

import numpy as np
from numba import njit

from kbench.solvers.box_dual.directions import distances_to_ends, lift_and_drop
from kbench.solvers.box_dual.float_order import (
    FLAGS,
    as_integers,
    bits_of,
    ordered,
    position_of,
    position_of_sum,
)

# Guard: least curvature in units of K_ii + K_jj, for points that coincide. It is about 8 eps of
# float32, and 4,500 eps of float64, because inner products lose digits by cancellation.
FLAT, FLAT_IN_FLOAT64 = 1e-6, 1e-12
# Guard: if the distance to a bound after a step is below this fraction of the coefficient or of the
# step, it is a rounding error of float64 and counts as 0; otherwise the point would violate for
# ever. The unit is not u - l, which may be 1e15 times the coefficients.
_ROUNDING = 1e-14


def pair_steps(
    K: np.ndarray,
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    diagonal: np.ndarray,
    stop: float,
    max_steps: int,
    epsilon: float = 0.0,
) -> int:
    """Minimise within the bounds with the sum of `beta` fixed, in place.

    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper, diagonal : (q,) float64
        Feasible point, its residual z - K beta, the bounds on both sides of 0, the positive
        diagonal of K. The residual is stored in the precision of K.
    stop : The steps end when max {e_i + lift_i} - min {e_i + drop_i} is at most this number

    Returns the number of steps. A step takes O(q) time and reads two rows of K.
    """
    # The arrays of the searches have the precision of K, which vectorises best; b is in float64.
    v, gain = e.astype(K.dtype), np.empty(len(e), K.dtype)
    ends = np.empty((4, len(e)), K.dtype)
    steps: int = _steps(
        K, beta, v, ends, gain, as_integers(gain), lower, upper, diagonal, epsilon, stop, max_steps
    )
    e[:] = v
    return steps


# Each loop over points writes one array: with two, LLVM cannot show that they do not overlap. The
# loop that writes v also finds the extremes of the next search.
@njit(cache=True, nogil=True, fastmath=FLAGS, error_model="numpy")
def _steps(
    K, beta, v, ends, gain, gain_bits, lower, upper, diagonal, epsilon, stop, max_steps
):  # fmt: skip
    q = v.shape[0]
    real, integer = K.dtype.type, gain_bits.dtype.type
    zero, two, half = real(0), real(2), real(0.5)
    flattest = FLAT if gain_bits.itemsize == 4 else FLAT_IN_FLOAT64
    flat = real(flattest)
    d = diagonal.astype(K.dtype)
    grow, fall, lift, drop = ends[0], ends[1], ends[2], ends[3]
    largest_key = integer(~(integer(1) << integer(8 * gain_bits.itemsize - 1)))
    smallest_key = integer(-largest_key - 1)
    for k in range(q):
        grow[k], fall[k], lift[k], drop[k] = _ends(beta[k], lower[k], upper[k], epsilon)
    highest_key, lowest_key = smallest_key, largest_key
    for k in range(q):
        highest_key = max(highest_key, ordered(bits_of(v[k] + lift[k]), gain_bits))
        lowest_key = min(lowest_key, ordered(bits_of(v[k] + drop[k]), gain_bits))
    step = 0
    while step < max_steps:
        # Bits written to gain_bits[0] are read as a float from gain[0].
        gain_bits[0] = ordered(lowest_key, gain_bits)
        lowest = gain[0]
        gain_bits[0] = ordered(highest_key, gain_bits)
        highest = gain[0]
        if highest - lowest <= stop:
            break
        i = position_of_sum(gain_bits[0], v, lift)
        row_i, up_i, d_i = K[i], grow[i], d[i]
        largest = integer(0)
        for k in range(q):
            w = max(highest - (v[k] + drop[k]), zero)
            diagonal_sum = d_i + d[k]
            h = max(diagonal_sum - two * row_i[k], flat * diagonal_sum)
            s = min(min(w / h, up_i), fall[k])
            gain_k = s * (w - half * h * s)
            gain[k] = gain_k
            largest = max(largest, bits_of(gain_k))
        j = position_of(largest, gain_bits)
        if j == q or gain[j] <= zero:
            # The violation is below the resolution of this precision.
            break
        diagonal_sum = diagonal[i] + diagonal[j]
        h = max(diagonal_sum - 2.0 * row_i[j], flattest * diagonal_sum)
        w = highest - (v[j] + drop[j])
        move = move_pair(beta, i, j, w, h, np.inf, lower, upper)
        grow[i], fall[i], lift[i], drop[i] = _ends(beta[i], lower[i], upper[i], epsilon)
        grow[j], fall[j], lift[j], drop[j] = _ends(beta[j], lower[j], upper[j], epsilon)
        row_j, t = K[j], real(move)
        highest_key, lowest_key = smallest_key, largest_key
        for k in range(q):
            # The difference of similar rows is nearly exact, whatever the length of the step.
            e_k = v[k] + t * (row_j[k] - row_i[k])
            v[k] = e_k
            highest_key = max(highest_key, ordered(bits_of(e_k + lift[k]), gain_bits))
            lowest_key = min(lowest_key, ordered(bits_of(e_k + drop[k]), gain_bits))
        step += 1
    return step


@njit(nogil=True, inline="always")
def move_pair(beta, i, j, way, h, limit, lower, upper):
    """Move min(way / h, limit) from beta[j] to beta[i], as far as both can go; return the amount.

    way : w_j of the module's docstring; h : the curvature; limit : the longest step allowed

    A coefficient that meets its end becomes exactly the bound or 0, not a rounded sum, because code
    tests for equality. If one coefficient is moved onto its end, the other moves by the same
    distance, and onto its own end if it is there up to rounding: otherwise, if two classes have
    equal sums of bounds (weights "balanced"), the last point would be 1e-16 from its bound, count
    as free and alone decide the intercept.
    """
    x_i, x_j = beta[i], beta[j]
    up, down = (
        distances_to_ends(x_i, lower[i], upper[i])[0],
        distances_to_ends(x_j, lower[j], upper[j])[1],
    )
    move = min(min(min(way / h, up), down), limit)
    ends_i = up - move <= _ROUNDING * max(abs(x_i), move)
    if ends_i:
        move = up
    ends_j = down - move <= _ROUNDING * max(abs(x_j), move)
    if ends_j and down <= up:
        move = down
    beta[i] = (0.0 if x_i < 0.0 else upper[i]) if ends_i else x_i + move
    beta[j] = (0.0 if x_j > 0.0 else lower[j]) if ends_j else x_j - move
    return move


@njit(nogil=True, inline="always")
def _ends(x, lower, upper, epsilon):
    up, down = distances_to_ends(x, lower, upper)
    lift, drop = lift_and_drop(x, up, down, epsilon)
    return up, down, lift, drop
