"""Greedy coordinate descent on a small dense box-constrained quadratic problem.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,        e = z - Kb

Each step moves the coordinate that lowers the objective most, to its exact minimiser

    b_i <- clip(b_i + e_i / K_ii, l_i, u_i),     e <- e - (change of b_i) K_i.
"""

import numpy as np
from numba import njit

from kbench.solvers.float_order import FLAGS, as_integers, place_of_largest


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
    """Minimise over the box, in place, until no |e_i| that can be lowered exceeds `stop`.

    Parameters
    ----------
    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper, diagonal : (q,) float64
        Feasible point, its residual z - K beta (kept in the precision of K), the box, the positive
        diagonal of K.
    stop : float
    max_steps : int

    Returns
    -------
    steps : int
    """
    # What is searched is in the precision of K, which vectorises best; b is not rounded.
    v, gain = e.astype(K.dtype), np.empty(len(e), K.dtype)
    steps: int = compiled_steps(
        K, beta, v, gain, as_integers(gain), lower, upper, diagonal, stop, max_steps
    )
    e[:] = v
    return steps


# Compiled when imported (or read from numba's cache), so that no fit pays for it. Loops over points
# write one array each: with more, the compiler gives up on showing that none overlap.
@njit(
    [
        f"i8({k}[:,::1], f8[::1], {k}[::1], {k}[::1], {i}[::1], f8[::1], f8[::1], f8[::1], f8, i8)"
        for k, i in (("f4", "i4"), ("f8", "i8"))
    ],
    cache=True,
    nogil=True,
    fastmath=FLAGS,
    error_model="numpy",
)
def compiled_steps(K, beta, v, gain, gain_bits, lower, upper, diagonal, stop, max_steps):
    """`coordinate_steps` for compiled callers.

    v is e in the precision of K, gain : (q,) of it any values, gain_bits their bits as integers.
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
        i = place_of_largest(gain_bits)
        # The gain of an unclipped step is e^2 / 2K_ii: only when gains are this small can the
        # violation have fallen to `stop`.
        if i == q or gain[i] <= least_gain:
            for k in range(q):
                gain[k] = max(
                    v[k] if grow[k] > nothing else nothing, -v[k] if fall[k] > nothing else nothing
                )
            i = place_of_largest(gain_bits)
            if i == q or gain[i] <= stop:
                break
        new = min(max(beta[i] + v[i] / diagonal[i], lower[i]), upper[i])
        delta = number(new - beta[i])
        if delta == nothing:
            # A violation below the resolution of b_i: nothing more can be gained.
            break
        beta[i] = new
        grow[i], fall[i] = upper[i] - new, new - lower[i]
        row = K[i]
        for k in range(q):
            v[k] -= delta * row[k]
        step += 1
    return step
