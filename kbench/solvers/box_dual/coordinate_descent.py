"""Greedy coordinate descent on a small dense quadratic problem with bounds.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,   l <= b <= u,        e = z - Kb

Each step moves the coordinate whose step lowers the objective most. It moves up or down until it
meets its minimiser, its bound, or 0, where the slope of epsilon |b| changes:

    b_i <- b_i + clip(w_i / K_ii, -fall_i, grow_i),     e <- e - (change of b_i) K_i,
    w_i = max(e_i + lift_i, 0) + min(e_i + drop_i, 0)            with lift and drop of `directions`.
"""

import numpy as np
from numba import njit

from kbench.solvers.box_dual.directions import distances_to_ends, lift_and_drop
from kbench.solvers.box_dual.float_order import FLAGS, as_integers, position_of_largest


def coordinate_steps(
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
    """Minimise within the bounds, in place, until no |w_i| exceeds `stop`.

    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper, diagonal : (q,) float64
        Feasible point, its residual z - K beta, the bounds on both sides of 0, the positive
        diagonal of K. The residual is stored in the precision of K.

    Returns the number of steps. A step takes O(q) time and reads one row of K.
    """
    # The arrays of the search have the precision of K, which vectorises best; b is in float64.
    v, gain = e.astype(K.dtype), np.empty(len(e), K.dtype)
    steps: int = compiled_steps(
        K, beta, v, gain, as_integers(gain), lower, upper, diagonal, epsilon, stop, max_steps
    )
    e[:] = v
    return steps


# Each loop over points writes one array: with two, LLVM cannot show that they do not overlap.
@njit(cache=True, nogil=True, fastmath=FLAGS, error_model="numpy")
def compiled_steps(K, beta, v, gain, gain_bits, lower, upper, diagonal, epsilon, stop, max_steps):
    """`coordinate_steps` for compiled callers.

    v : e in the precision of K; gain : (q,) scratch in the same precision; gain_bits : its bits as
    integers, a view.
    """
    q = v.shape[0]
    real = K.dtype.type
    zero, half = real(0), real(0.5)
    d = diagonal.astype(K.dtype)
    inverse_d = real(1) / d
    grow, fall = np.empty(q, K.dtype), np.empty(q, K.dtype)
    # Without epsilon, w = e serves: a move that a bound forbids is clipped to 0.
    has_kinks = epsilon > 0.0
    w = np.empty(q, K.dtype) if has_kinks else v
    lift, drop = (
        np.empty(w.shape[0] * has_kinks, K.dtype),
        np.empty(w.shape[0] * has_kinks, K.dtype),
    )
    for k in range(q):
        up, down = distances_to_ends(beta[k], lower[k], upper[k])
        grow[k], fall[k] = up, down
        if has_kinks:
            lift[k], drop[k] = lift_and_drop(beta[k], up, down, epsilon)
    min_gain = 0.5 * stop * stop * inverse_d.max()
    step = 0
    while step < max_steps:
        if has_kinks:
            for k in range(q):
                w[k] = max(v[k] + lift[k], zero) + min(v[k] + drop[k], zero)
        for k in range(q):
            move = min(max(w[k] * inverse_d[k], -fall[k]), grow[k])
            gain[k] = move * (w[k] - half * d[k] * move)
        i = position_of_largest(gain_bits)
        # The gain of an unclipped step is w^2 / (2 K_ii), so the violation can only be at most
        # `stop` if all gains are at most `min_gain`.
        if i == q or gain[i] <= min_gain:
            for k in range(q):
                gain[k] = max(w[k] if grow[k] > zero else zero, -w[k] if fall[k] > zero else zero)
            i = position_of_largest(gain_bits)
            if i == q or gain[i] <= stop:
                break
        x = beta[i]
        # A step ends at 0 at the latest; in a classifier 0 is one of the bounds.
        lowest = lower[i] if x <= 0.0 else 0.0
        highest = upper[i] if x >= 0.0 else 0.0
        new_x = min(max(x + w[i] / diagonal[i], lowest), highest)
        delta = real(new_x - x)
        if delta == zero:
            # The violation is below the resolution of b_i.
            break
        beta[i] = new_x
        up, down = distances_to_ends(new_x, lower[i], upper[i])
        grow[i], fall[i] = up, down
        if has_kinks:
            lift[i], drop[i] = lift_and_drop(new_x, up, down, epsilon)
        row = K[i]
        for k in range(q):
            v[k] -= delta * row[k]
        step += 1
    return step
