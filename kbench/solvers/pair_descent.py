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

_BLOCK = 64
_FAR = 1e300
# A curvature below this share of K_ii + K_jj is rounding: points that coincide.
_FLAT = 1e-6


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(
    [f"i8({k}[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8, i8)" for k in ("f4", "f8")],
    cache=True,
    fastmath={"contract", "nsz", "arcp", "nnan"},
)
def pair_steps(K, beta, e, lower, upper, diagonal, stop, max_steps):
    """Minimise over the box with the sum of `beta` fixed, in place.

    Parameters
    ----------
    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper, diagonal : (q,) float64
        Feasible point, its residual z - K beta, the box, the positive diagonal of K.
    stop : float
        On max {e_i : b_i < u_i} - min {e_i : b_i > l_i}.
    max_steps : int

    Returns
    -------
    steps : int
    """
    q = beta.shape[0]
    e_up, e_down, gain = np.empty(q), np.empty(q), np.empty(q)
    step, t, i, j = 0, 0.0, 0, 0
    while True:
        row_i, row_j = K[i], K[j]
        highest, lowest, best_start = -_FAR, _FAR, 0
        for start in range(0, q, _BLOCK):
            end = min(q, start + _BLOCK)
            ri, rj, eb, bb = row_i[start:end], row_j[start:end], e[start:end], beta[start:end]
            lb, ub = lower[start:end], upper[start:end]
            eu, ed = e_up[start:end], e_down[start:end]
            for k in range(end - start):
                ek = eb[k] - t * ri[k] + t * rj[k]
                eb[k] = ek
                eu[k] = ek if bb[k] < ub[k] else -_FAR
                ed[k] = ek if bb[k] > lb[k] else _FAR
            block_highest, block_lowest = -_FAR, _FAR
            for k in range(end - start):
                block_highest = max(block_highest, eu[k])
                block_lowest = min(block_lowest, ed[k])
            if block_highest > highest:
                highest, best_start = block_highest, start
            lowest = min(lowest, block_lowest)
        if highest - lowest <= stop or step >= max_steps:
            return step
        i = best_start
        while e_up[i] != highest:
            i += 1

        row, room, d_i = K[i], upper[i] - beta[i], diagonal[i]
        best, best_start = 0.0, 0
        for start in range(0, q, _BLOCK):
            end = min(q, start + _BLOCK)
            ri, bb, lb, db = row[start:end], beta[start:end], lower[start:end], diagonal[start:end]
            ed, gb = e_down[start:end], gain[start:end]
            block_best = 0.0
            for k in range(end - start):
                d = max(highest - ed[k], 0.0)
                total = d_i + db[k]
                h = max(total - 2.0 * ri[k], _FLAT * total)
                s = min(min(d / h, room), bb[k] - lb[k])
                gb[k] = s * (d - 0.5 * h * s)
            for k in range(end - start):
                block_best = max(block_best, gb[k])
            if block_best > best:
                best, best_start = block_best, start
        if best <= 0.0:
            # Below the resolution of beta: nothing more can be gained.
            return step
        j = best_start
        while gain[j] != best:
            j += 1
        total = d_i + diagonal[j]
        h = max(total - 2.0 * row[j], _FLAT * total)
        down = beta[j] - lower[j]
        t = min(min((highest - e_down[j]) / h, room), down)
        # The bound itself, not a rounded sum: a point is at a bound by equality.
        beta[i] = upper[i] if t == room else beta[i] + t
        beta[j] = lower[j] if t == down else beta[j] - t
        step += 1
