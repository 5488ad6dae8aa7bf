"""Greedy coordinate descent on a small dense quadratic problem with bounds.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,        e = z - Kb

Each step moves the coordinate whose step lowers the objective most, to its exact minimiser

    b_i <- clip(b_i + e_i / K_ii, l_i, u_i),     e <- e - (change of b_i) K_i.
"""

import numpy as np
from numba import njit

from kbench.solvers.float_order import FLAGS, as_integers, position_of_largest


def coordinate_steps(
    K: np.ndarray,
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    diagonal: np.ndarray,
    stop: float,
    max_steps: int,
) -> int:
    """Minimise within the bounds, in place, until no |e_i| that can be lowered exceeds `stop`.

    Parameters
    ----------
    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper, diagonal : (q,) float64
        Feasible point, its residual z - K beta, the bounds, the positive diagonal of K. The
        residual is kept in the precision of K.
    stop : float
    max_steps : int

    Returns
    -------
    steps : int
        O(q) time each, one row of K.
    """
    # Arrays that are searched have the precision of K, which vectorises best; b is in float64.
    v, gain = e.astype(K.dtype), np.empty(len(e), K.dtype)
    steps: int = compiled_steps(
        K, beta, v, gain, as_integers(gain), lower, upper, diagonal, stop, max_steps
    )
    e[:] = v
    return steps


# Each loop over points writes one array: with two, LLVM fails to show that none overlap.
@njit(cache=True, nogil=True, fastmath=FLAGS, error_model="numpy")
def compiled_steps(K, beta, v, gain, gain_bits, lower, upper, diagonal, stop, max_steps):
    """`coordinate_steps` for compiled callers.

    v : e in the precision of K; gain : (q,) scratch in the same precision; gain_bits : its bits as
    integers, a view.
    """
    q = v.shape[0]
    number = K.dtype.type
    nothing, half = number(0), number(0.5)
    d = diagonal.astype(K.dtype)
    inverse = number(1) / d
    grow, fall = (upper - beta).astype(K.dtype), (beta - lower).astype(K.dtype)
    least_gain = 0.5 * stop * stop * inverse.max()
    step = 0
    while step < max_steps:
        for k in range(q):
            move = min(max(v[k] * inverse[k], -fall[k]), grow[k])
            gain[k] = move * (v[k] - half * d[k] * move)
        i = position_of_largest(gain_bits)
        # The gain of an unclipped step is e^2 / (2 K_ii), so the violation can have fallen to
        # `stop` only when all gains are this small.
        if i == q or gain[i] <= least_gain:
            for k in range(q):
                gain[k] = max(
                    v[k] if grow[k] > nothing else nothing, -v[k] if fall[k] > nothing else nothing
                )
            i = position_of_largest(gain_bits)
            if i == q or gain[i] <= stop:
                break
        new = min(max(beta[i] + v[i] / diagonal[i], lower[i]), upper[i])
        delta = number(new - beta[i])
        if delta == nothing:
            # The violation is below the resolution of b_i.
            break
        beta[i] = new
        grow[i], fall[i] = upper[i] - new, new - lower[i]
        row = K[i]
        for k in range(q):
            v[k] -= delta * row[k]
        step += 1
    return step
