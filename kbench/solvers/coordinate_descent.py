"""Greedy coordinate descent on a small dense box-constrained quadratic problem.

    min_a  1/2 a'Qa + p'a,   0 <= a <= C,        g = Qa + p

Each step moves the coordinate that lowers the objective most, to its exact minimiser

    a_i <- clip(a_i - g_i / Q_ii, 0, C_i),       g <- g + (change of a_i) Q_i.
"""

import numpy as np
from numba import njit

# Steps look for the best coordinate by blocks: the maximum of a block vectorises, its place is then
# sought in that block only.
_BLOCK = 64


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(
    [
        f"Tuple((i8, f8))({q}[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8, i8)"
        for q in ("f4", "f8")
    ],
    cache=True,
    fastmath={"contract", "nsz", "arcp", "nnan"},
)
def descend(Q, alpha, g, C, diagonal, stop, max_steps):
    """Minimise over the box, in place, until the violation is at most `stop`.

    Parameters
    ----------
    Q : (q, q) float32 or float64, symmetric
    alpha, g, C, diagonal : (q,) float64
        Feasible point, its gradient, upper bounds, positive diagonal of Q.
    stop : float
        Bound on the largest projected gradient.
    max_steps : int

    Returns
    -------
    steps : int
    decrease : float
        By how much the objective fell.
    """
    q = alpha.shape[0]
    inverse = 1.0 / diagonal
    gain = np.zeros(q)
    step, decrease, delta, i = 0, 0.0, 0.0, 0
    while True:
        row = Q[i]
        best, best_start, violation = 0.0, 0, 0.0
        for start in range(0, q, _BLOCK):
            end = min(q, start + _BLOCK)
            rb, gb, ab, cb = row[start:end], g[start:end], alpha[start:end], C[start:end]
            ib, db, wb = inverse[start:end], diagonal[start:end], gain[start:end]
            block_best = 0.0
            for j in range(end - start):
                gj = gb[j] + delta * rb[j]
                gb[j] = gj
                move = min(max(ab[j] - gj * ib[j], 0.0), cb[j]) - ab[j]
                wb[j] = -move * (gj + 0.5 * db[j] * move)
            for j in range(end - start):
                block_best = max(block_best, wb[j])
            if block_best > best:
                best, best_start = block_best, start
        # The gain of an unclipped step is g^2 / 2Q_ii: only when gains are this small can the
        # violation have fallen to `stop`. It is exactly |g_j| where the step is not zero.
        if best <= 0.5 * stop * stop * inverse.max() or step >= max_steps:
            for j in range(q):
                if (alpha[j] < C[j] and -g[j] > violation) or (alpha[j] > 0.0 and g[j] > violation):
                    violation = abs(g[j])
                    i = j
            if violation <= stop or step >= max_steps:
                return step, decrease
        else:
            i = best_start
            while gain[i] != best:
                i += 1
        new = min(max(alpha[i] - g[i] * inverse[i], 0.0), C[i])
        delta = new - alpha[i]
        if delta == 0.0:
            # A violation below the resolution of alpha_i: nothing more can be gained.
            return step, decrease
        decrease -= delta * (g[i] + 0.5 * diagonal[i] * delta)
        alpha[i] = new
        step += 1
