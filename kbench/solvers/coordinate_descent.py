"""Greedy coordinate descent on a small dense box-constrained quadratic problem.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,        e = z - Kb

Each step moves the coordinate that lowers the objective most, to its exact minimiser

    b_i <- clip(b_i + e_i / K_ii, l_i, u_i),     e <- e - (change of b_i) K_i.
"""

import numpy as np
from numba import njit

# Steps look for the best coordinate by blocks: the maximum of a block vectorises, its place is then
# sought in that block only.
_BLOCK = 64


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(
    [f"i8({k}[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8, i8)" for k in ("f4", "f8")],
    cache=True,
    fastmath={"contract", "nsz", "arcp", "nnan"},
)
def coordinate_steps(K, beta, e, lower, upper, diagonal, stop, max_steps):
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
    q = beta.shape[0]
    number = K.dtype.type
    nothing, half = number(0), number(0.5)
    # What is searched is in the precision of K, which vectorises best; b is not rounded.
    v = e.astype(K.dtype)
    d = diagonal.astype(K.dtype)
    inverse = number(1) / d
    grow, fall = (upper - beta).astype(K.dtype), (beta - lower).astype(K.dtype)
    gain = np.zeros_like(v)
    least_gain = 0.5 * stop * stop * inverse.max()
    step, delta, i = 0, nothing, 0
    while True:
        row = K[i]
        best, best_start = nothing, 0
        for start in range(0, q, _BLOCK):
            end = min(q, start + _BLOCK)
            rb, vb, ub, fb = row[start:end], v[start:end], grow[start:end], fall[start:end]
            ib, db, gb = inverse[start:end], d[start:end], gain[start:end]
            block_best = nothing
            for j in range(end - start):
                vj = vb[j] - delta * rb[j]
                vb[j] = vj
                move = min(max(vj * ib[j], -fb[j]), ub[j])
                gb[j] = move * (vj - half * db[j] * move)
            for j in range(end - start):
                block_best = max(block_best, gb[j])
            if block_best > best:
                best, best_start = block_best, start
        # The gain of an unclipped step is e^2 / 2K_ii: only when gains are this small can the
        # violation have fallen to `stop`.
        if best <= least_gain or step >= max_steps:
            violation = nothing
            for j in range(q):
                if (grow[j] > nothing and v[j] > violation) or (
                    fall[j] > nothing and -v[j] > violation
                ):
                    violation = abs(v[j])
                    i = j
            if violation <= stop or step >= max_steps:
                break
        else:
            i = best_start
            while gain[i] != best:
                i += 1
        new = min(max(beta[i] + v[i] / diagonal[i], lower[i]), upper[i])
        delta = number(new - beta[i])
        if delta == nothing:
            # A violation below the resolution of b_i: nothing more can be gained.
            break
        beta[i] = new
        grow[i], fall[i] = upper[i] - new, new - lower[i]
        step += 1
    e[:] = v
    return step
