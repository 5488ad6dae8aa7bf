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
        Feasible point, its residual z - K beta, the box, the positive diagonal of K.
    stop : float
    max_steps : int

    Returns
    -------
    steps : int
    """
    q = beta.shape[0]
    inverse = 1.0 / diagonal
    least_gain = 0.5 * stop * stop * inverse.max()
    gain = np.zeros(q)
    step, delta, i = 0, 0.0, 0
    while True:
        row = K[i]
        best, best_start = 0.0, 0
        for start in range(0, q, _BLOCK):
            end = min(q, start + _BLOCK)
            rb, eb, bb = row[start:end], e[start:end], beta[start:end]
            lb, ub = lower[start:end], upper[start:end]
            ib, db, gb = inverse[start:end], diagonal[start:end], gain[start:end]
            block_best = 0.0
            for j in range(end - start):
                ej = eb[j] - delta * rb[j]
                eb[j] = ej
                move = min(max(bb[j] + ej * ib[j], lb[j]), ub[j]) - bb[j]
                gb[j] = move * (ej - 0.5 * db[j] * move)
            for j in range(end - start):
                block_best = max(block_best, gb[j])
            if block_best > best:
                best, best_start = block_best, start
        # The gain of an unclipped step is e^2 / 2K_ii: only when gains are this small can the
        # violation have fallen to `stop`.
        if best <= least_gain or step >= max_steps:
            violation = 0.0
            for j in range(q):
                if (beta[j] < upper[j] and e[j] > violation) or (
                    beta[j] > lower[j] and -e[j] > violation
                ):
                    violation = abs(e[j])
                    i = j
            if violation <= stop or step >= max_steps:
                return step
        else:
            i = best_start
            while gain[i] != best:
                i += 1
        new = min(max(beta[i] + e[i] * inverse[i], lower[i]), upper[i])
        delta = new - beta[i]
        if delta == 0.0:
            # A violation below the resolution of beta_i: nothing more can be gained.
            return step
        beta[i] = new
        step += 1
