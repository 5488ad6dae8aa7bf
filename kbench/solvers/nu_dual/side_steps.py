"""Steps of two coordinates for a small dense quadratic problem in which |b|_1 is limited.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,   l <= 0 <= u,   1'b = const,   |b|_1 = t or <= t

With e = z - Kb, four maxima decide: of e where b_k can go up, and of -e where it can go down, each
on the two sides, b_k above and below 0 (at 0 a coordinate goes up on the upper side and down on the
lower one). A step takes b_i up and b_j down by as much. On one side it leaves |b|_1 as it is; the
other steps are for |b|_1 <= t only:

    kind                 i goes up on     j goes down on   |b|_1
    upper side           upper side       upper side       stays
    lower side           lower side       lower side       stays
    to the middle        lower side       upper side       falls
    outwards             upper side       lower side       grows, and t - |b|_1 limits the step

i is the largest e of the kind with the largest violation max e_i - min e_j, and j gives the largest
decrease of the objective by a step that no bound shortens, as in LIBSVM. Ranked by the decrease of
the shortened step, as in `pair_descent`, 6,000 rows of heavy tails take 2.8 times as many steps
(`scripts/bench_everyday.py --nu`). Where no kind violates, b is optimal, because the
problem is convex: with |b|_1 = t where a bound is 0, else with |b|_1 <= t.
"""

import numpy as np
from numba import njit

from kbench.solvers.box_dual.directions import distances_to_ends
from kbench.solvers.box_dual.float_order import (
    FLAGS,
    as_integers,
    bits_of,
    ordered,
    position_of,
    position_of_sum,
)
from kbench.solvers.box_dual.pair_descent import FLAT, FLAT_IN_FLOAT64, move_pair

# Rows of `ends`, and their number: the distance that a point can go down, and the numbers (0 or
# infinite) that are added to e so that only points that can move are extremes.
_FALL, _UP_ABOVE, _DOWN_ABOVE, _UP_BELOW, _DOWN_BELOW, ENDS = range(6)
# Guard: a distance t - |b|_1 below this fraction of t is a rounding error and counts as 0.
_ROUNDING = 1e-14


def side_steps(
    K: np.ndarray,
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    diagonal: np.ndarray,
    slack: float,
    stop: float,
    max_steps: int,
) -> tuple[int, float]:
    """Minimise within the bounds, in place.

    Parameters
    ----------
    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper, diagonal : (q,) float64
        Feasible point, its residual z - K beta, the bounds, the positive diagonal of K. The
        residual is kept in the precision of K.
    slack : t - |b|_1 of the whole problem; negative where |b|_1 = t
    stop : Stop when no kind of step has a violation above this

    Returns
    -------
    steps : int
        O(q) time each, two rows of K.
    slack : float
        t - |b|_1 after the steps.
    """
    v, gain = e.astype(K.dtype), np.empty(len(e), K.dtype)
    ends = np.empty((ENDS, len(e)), K.dtype)
    left = np.array([slack])
    steps: int = take_steps(
        K, beta, v, ends, gain, as_integers(gain), lower, upper, diagonal, left, stop, max_steps
    )
    e[:] = v
    return steps, float(left[0])


@njit(cache=True, nogil=True, fastmath=FLAGS, error_model="numpy")
def take_steps(
    K, beta, v, ends, gain, gain_bits, lower, upper, diagonal, left, stop, max_steps
):  # fmt: skip
    """`side_steps` for compiled callers; left : (1,), the slack at the beginning and at the end."""
    q = v.shape[0]
    real, integer = K.dtype.type, gain_bits.dtype.type
    zero, two = real(0), real(2)
    flattest = FLAT if gain_bits.itemsize == 4 else FLAT_IN_FLOAT64
    flat = real(flattest)
    d = diagonal.astype(K.dtype)
    norm_may_change, slack = left[0] >= 0.0, max(left[0], 0.0)
    least_slack = _ROUNDING * (slack + np.abs(beta).sum())
    fall = ends[_FALL]
    up_above, down_above = ends[_UP_ABOVE], ends[_DOWN_ABOVE]
    up_below, down_below = ends[_UP_BELOW], ends[_DOWN_BELOW]
    int_max = integer(~(integer(1) << integer(8 * gain_bits.itemsize - 1)))
    int_min = integer(-int_max - 1)
    for k in range(q):
        _set_ends(ends, k, beta[k], lower[k], upper[k])
    step, move, i, j = 0, 0.0, 0, 0
    while True:
        row_i, row_j, t = K[i], K[j], real(move)
        high_above, low_above, high_below, low_below = int_min, int_max, int_min, int_max
        for k in range(q):
            e_k = v[k] + t * (row_j[k] - row_i[k])
            v[k] = e_k
            high_above = max(high_above, ordered(bits_of(e_k + up_above[k]), gain_bits))
            low_above = min(low_above, ordered(bits_of(e_k + down_above[k]), gain_bits))
            high_below = max(high_below, ordered(bits_of(e_k + up_below[k]), gain_bits))
            low_below = min(low_below, ordered(bits_of(e_k + down_below[k]), gain_bits))
        if step >= max_steps:
            break
        # gain[0] serves to read the floats of these bits.
        gain_bits[0] = ordered(high_above, gain_bits)
        highest, lift = gain[0], up_above
        gain_bits[0] = ordered(low_above, gain_bits)
        lowest, drop, kind = gain[0], down_above, 0
        gain_bits[0] = ordered(high_below, gain_bits)
        other_high = gain[0]
        gain_bits[0] = ordered(low_below, gain_bits)
        other_low = gain[0]
        up_high, down_low = highest, lowest
        violation = highest - lowest
        if other_high - other_low > violation:
            violation, kind = other_high - other_low, 1
        if norm_may_change and other_high - down_low > violation:
            violation, kind = other_high - down_low, 2
        if norm_may_change and slack > 0.0 and up_high - other_low > violation:
            violation, kind = up_high - other_low, 3
        if violation <= stop:
            break
        if kind == 1 or kind == 2:
            highest, lift = other_high, up_below
        if kind == 1 or kind == 3:
            drop = down_below
        gain[0] = highest
        i = position_of_sum(gain_bits[0], v, lift)
        row_i, d_i = K[i], d[i]
        largest = integer(0)
        for k in range(q):
            w = max(highest - (v[k] + drop[k]), zero)
            diagonal_sum = d_i + d[k]
            h = max(diagonal_sum - two * row_i[k], flat * diagonal_sum)
            gain_k = w * w / h if fall[k] > zero else zero
            gain[k] = gain_k
            largest = max(largest, bits_of(gain_k))
        j = position_of(largest, gain_bits)
        if j == q or gain[j] <= zero:
            # The violation is below the resolution of this precision.
            break
        diagonal_sum = diagonal[i] + diagonal[j]
        h = max(diagonal_sum - 2.0 * row_i[j], flattest * diagonal_sum)
        limit = 0.5 * slack if kind == 3 else np.inf
        move = move_pair(beta, i, j, highest - (v[j] + drop[j]), h, limit, lower, upper)
        if kind == 2:
            slack += 2.0 * move
        elif kind == 3:
            slack -= 2.0 * move
            slack = 0.0 if slack <= least_slack else slack
        _set_ends(ends, i, beta[i], lower[i], upper[i])
        _set_ends(ends, j, beta[j], lower[j], upper[j])
        step += 1
    if norm_may_change:
        left[0] = slack
    return step


@njit(nogil=True, inline="always")
def _set_ends(ends, k, x, lower, upper):
    """Set column k of `ends` for a coefficient x."""
    up, down = distances_to_ends(x, lower, upper)
    ends[_FALL, k] = down
    ends[_UP_ABOVE, k] = 0.0 if x >= 0.0 and up > 0.0 else -np.inf
    ends[_UP_BELOW, k] = 0.0 if x < 0.0 and up > 0.0 else -np.inf
    ends[_DOWN_ABOVE, k] = 0.0 if x > 0.0 and down > 0.0 else np.inf
    ends[_DOWN_BELOW, k] = 0.0 if x <= 0.0 and down > 0.0 else np.inf
