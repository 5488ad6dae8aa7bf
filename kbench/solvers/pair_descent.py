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
_FAR = 1e30
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
        Feasible point, its residual z - K beta (kept in the precision of K), the box, the positive
        diagonal of K.
    stop : float
        On max {e_i : b_i < u_i} - min {e_i : b_i > l_i}.
    max_steps : int

    Returns
    -------
    steps : int
    """
    q = beta.shape[0]
    number = K.dtype.type
    nothing, far, flat, two, half = number(0), number(_FAR), number(_FLAT), number(2), number(0.5)
    # What is searched is in the precision of K, which vectorises best; sums of b are not rounded.
    v = e.astype(K.dtype)
    d = diagonal.astype(K.dtype)
    grow, fall = (upper - beta).astype(K.dtype), (beta - lower).astype(K.dtype)
    v_up, v_down, gain = np.empty_like(v), np.empty_like(v), np.empty_like(v)
    step, t, i, j = 0, nothing, 0, 0
    while True:
        row_i, row_j = K[i], K[j]
        highest, lowest, best_start = -far, far, 0
        for start in range(0, q, _BLOCK):
            end = min(q, start + _BLOCK)
            ri, rj, vb, gb = row_i[start:end], row_j[start:end], v[start:end], grow[start:end]
            fb, ub, db = fall[start:end], v_up[start:end], v_down[start:end]
            for k in range(end - start):
                vk = vb[k] - t * ri[k] + t * rj[k]
                vb[k] = vk
                ub[k] = vk if gb[k] > nothing else -far
                db[k] = vk if fb[k] > nothing else far
            block_highest, block_lowest = -far, far
            for k in range(end - start):
                block_highest = max(block_highest, ub[k])
                block_lowest = min(block_lowest, db[k])
            if block_highest > highest:
                highest, best_start = block_highest, start
            lowest = min(lowest, block_lowest)
        if highest - lowest <= stop or step >= max_steps:
            break
        i = best_start
        while v_up[i] != highest:
            i += 1

        row, room, d_i = K[i], grow[i], d[i]
        best, best_start = nothing, 0
        for start in range(0, q, _BLOCK):
            end = min(q, start + _BLOCK)
            ri, db, fb = row[start:end], v_down[start:end], fall[start:end]
            wb, kb = gain[start:end], d[start:end]
            block_best = nothing
            for k in range(end - start):
                way = max(highest - db[k], nothing)
                total = d_i + kb[k]
                h = max(total - two * ri[k], flat * total)
                s = min(min(way / h, room), fb[k])
                wb[k] = s * (way - half * h * s)
            for k in range(end - start):
                block_best = max(block_best, wb[k])
            if block_best > best:
                best, best_start = block_best, start
        if best <= nothing:
            # Below the resolution: nothing more can be gained.
            break
        j = best_start
        while gain[j] != best:
            j += 1
        total = diagonal[i] + diagonal[j]
        h = max(total - 2.0 * row[j], _FLAT * total)
        up, down = upper[i] - beta[i], beta[j] - lower[j]
        move = min(min((highest - v_down[j]) / h, up), down)
        # The bound itself, not a rounded sum: a point is at a bound by equality.
        beta[i] = upper[i] if move == up else beta[i] + move
        beta[j] = lower[j] if move == down else beta[j] - move
        grow[i], fall[i] = upper[i] - beta[i], beta[i] - lower[i]
        grow[j], fall[j] = upper[j] - beta[j], beta[j] - lower[j]
        t = number(move)
        step += 1
    e[:] = v
    return step
