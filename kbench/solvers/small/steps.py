"""Compiled steps of sequential minimal optimisation over kernel rows that are computed on demand.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u,    1'b = const,    l <= 0 <= u

With e = z - Kb, a coordinate that goes up changes the objective at the rate -(e_k + lift_k), one
that goes down at the rate e_k + drop_k, where

    lift_k = -epsilon if b_k >= 0, epsilon if b_k < 0, -inf if b_k = u_k,
    drop_k =  epsilon if b_k <= 0, -epsilon if b_k > 0, inf if b_k = l_k.

A step moves t from b_j to b_i. i and j are chosen by second-order information (Fan, Chen and Lin,
"Working set selection using second order information for training support vector machines",
JMLR 2005, WSS 2), except that j is ranked by the decrease of the step as clipped to its bounds:

    i = argmax e_k + lift_k,    j = argmax t_k (w_k - t_k h_k / 2),
    w_k = e_i + lift_i - e_k - drop_k,    h_k = K_ii + K_kk - 2 K_ik,
    t_k = min(w_k / h_k, distance of b_i to its upper end, distance of b_k to its lower end).

No coordinate passes 0 in a step, because the slope of epsilon |b| changes there. In a classifier, 0
is a bound of every coordinate and epsilon = 0, so this never matters.

The search uses float32: kernel rows, and v = e - shift, which is small where rounding matters, near
the margin. When v meets the tolerance, e is summed afresh in float64 from the stored rows, and this
e decides whether the search stops.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from kbench.intrinsics.scalars import bits_of, larger, smaller, with_bits

# "nnan" without "ninf": lift and drop are infinite at bounds. Not "reassoc": it would undo the
# rounding in `_power_of_two`. Nothing here allocates, and code without reference counts (`_nrt`)
# takes less time to compile; C calls nothing.
_OPTIONS: Any = {
    "fastmath": {"contract", "nsz", "arcp", "nnan"},
    "_nrt": False,
    "no_cfunc_wrapper": True,
}
# Options of the functions that Python calls; the others are compiled only as parts of these.
_CALLED = {**_OPTIONS, "cache": True, "nogil": True}
f4, i4 = np.float32, np.int32

# Statuses that `descend` returns.
SOLVED, OUT_OF_STEPS, UNPROVEN, STUCK = 0, 1, 2, 3
# Entries of `report`, the array in which `descend` reports.
STEPS, ROWS, ENTRIES, VIOLATION, ERROR, INTERCEPT, OBJECTIVE, GAP = range(8)
N_REPORTED = 8
# Rows of the (8, n) array `problem` and of the (6, n) array `state`; see `descend`.
Z, LOWER, UPPER, BETA, RESIDUAL, EXACT_RESIDUAL, EXACT_BETA, SIZES = range(8)
DIAGONAL, V, LIFT, DROP, GROW, FALL = range(6)

# The search stops at this fraction of the tolerance, because its float32 residuals drift by a few
# percent of it before they are summed afresh: a lower value takes more steps, a higher one more
# sums. Set by hand.
_EARLIER = 0.95
# Rounding of the stored rows may use up this fraction of the tolerance; beyond it the caller has to
# compute float64 kernel values. A higher value takes more steps, a lower one more of these values.
# Set by hand.
_CHEAP_ERROR = 0.5
# Guard: a step that would end within this fraction of the coefficient (before the step or at the
# bound) from the bound ends at the bound itself, so that rounding leaves no point almost at its
# bound, from where no step would be worth taking. It is not relative to the distance between the
# bounds, which may be 1e15 times the coefficients.
_AT_BOUND = 1e-14

# Guard: differences of float32 residuals below this fraction of their size, 8 roundings, are
# rounding errors.
_ROUNDING = f4(8 * 2.0**-24)
# The violation makes progress if it falls below this fraction of the lowest one so far. Guard: the
# search gives up after the second number of sums in a row without progress, because float32 steps
# then cannot lower the violation. Both are set by hand.
PROGRESS, _MAX_WORSE = 0.9, 10

_LARGEST, _SMALLEST = i4(2**31 - 1), i4(-(2**31))
# Bits of a float32 c subtracted from this number are the bits of 1 / c to 12 %.
_RECIPROCAL = i4(0x7EF311C7)
# The points of a class are padded with zeros to a multiple of this number, the length of two to
# four vectors of the processor.
PADDING = 16
# Bounds on the error of a stored value 2^t, t <= 0. Relative to the value: the polynomial (5e-9)
# and the rounding of its last two additions (9e-8). Absolute: one rounding of t to float32,
# |t| 2^t log(2) 2^-24, which is 2^-24 / e at most.
POWER_RELATIVE_ERROR, POWER_ERROR = 1e-7, 2.3e-8


@register_jitable(**_OPTIONS)
def _power_of_two(t):
    """2^t for t <= 0 in float32, not below 2^-100.

    Adding 1.5 * 2^23 rounds t to an integer, which then stands in the low bits. The polynomial
    interpolates 2^f at Chebyshev nodes of [-1/2, 1/2] and is exact at f = 0.
    """
    t = larger(t, f4(-100.0))
    shifted = t + f4(12582912.0)
    f = t - (shifted - f4(12582912.0))
    p = f4(1.3390863e-3) + f * f4(1.5453163e-4)
    p = f4(9.6180826e-3) + f * p
    p = f4(5.5503571e-2) + f * p
    p = f4(2.4022651e-1) + f * p
    p = f4(6.9314719e-1) + f * p
    p = f4(1.0) + f * p
    bits = bits_of(shifted)
    return p * with_bits(i4((bits << i4(23)) + i4(0x3F800000)))


@register_jitable(**_OPTIONS)
def _four(by_products, a0, x0, a1, x1, a2, x2, a3, x3):
    """Sum of four products or, if `by_products` is None, of four squared differences."""
    if by_products is None:
        d0, d1, d2, d3 = a0 - x0, a1 - x1, a2 - x2, a3 - x3
        return d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
    return a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3


@register_jitable(**_OPTIONS)
def _half_row(r, left, h_left, right, h_right, factor, sums, out):
    """Gaussian kernel values 2^-(factor ||x - z||^2) of point r of `left` and all of `right`.

    With half squared norms h they are 2^(<x, z> - h(x) - h(z)) of centred and scaled points; see
    `GaussianRows`.

    left, right : (d, m) float32 points feature by feature, d a multiple of 4. m is at least the
        number n of points and a multiple of `PADDING`, so that no loop has a remainder.
    h_left, h_right : (n,) half squared norms, or None
    sums : scratch of at least m
    """
    d, m = right.shape[0], right.shape[1]
    for k in range(m):
        sums[k] = 0
    for f in range(0, d - 15, 16):
        x0, x1, x2, x3 = right[f], right[f + 1], right[f + 2], right[f + 3]
        x4, x5, x6, x7 = right[f + 4], right[f + 5], right[f + 6], right[f + 7]
        y0, y1, y2, y3 = right[f + 8], right[f + 9], right[f + 10], right[f + 11]
        y4, y5, y6, y7 = right[f + 12], right[f + 13], right[f + 14], right[f + 15]
        a0, a1, a2, a3 = left[f, r], left[f + 1, r], left[f + 2, r], left[f + 3, r]
        a4, a5, a6, a7 = left[f + 4, r], left[f + 5, r], left[f + 6, r], left[f + 7, r]
        b0, b1, b2, b3 = left[f + 8, r], left[f + 9, r], left[f + 10, r], left[f + 11, r]
        b4, b5, b6, b7 = left[f + 12, r], left[f + 13, r], left[f + 14, r], left[f + 15, r]
        for k in range(m):
            p = _four(h_left, a0, x0[k], a1, x1[k], a2, x2[k], a3, x3[k])
            q = _four(h_left, a4, x4[k], a5, x5[k], a6, x6[k], a7, x7[k])
            s = _four(h_left, b0, y0[k], b1, y1[k], b2, y2[k], b3, y3[k])
            t = _four(h_left, b4, y4[k], b5, y5[k], b6, y6[k], b7, y7[k])
            sums[k] += (p + q) + (s + t)
    for f in range(d - d % 16, d, 4):
        x0, x1, x2, x3 = right[f], right[f + 1], right[f + 2], right[f + 3]
        a0, a1, a2, a3 = left[f, r], left[f + 1, r], left[f + 2, r], left[f + 3, r]
        for k in range(m):
            sums[k] += _four(h_left, a0, x0[k], a1, x1[k], a2, x2[k], a3, x3[k])
    if h_left is None:
        c = f4(-factor)
        for k in range(out.shape[0]):
            out[k] = _power_of_two(c * sums[k])
    else:
        h = h_left[r]
        for k in range(out.shape[0]):
            out[k] = _power_of_two(smaller(sums[k] - (h + h_right[k]), f4(0.0)))


@register_jitable(**_OPTIONS)
def _fill(i, a, h_a, own_a, known_a, b, h_b, own_b, known_b, cross, factor, sums, out):
    """Write row i of the kernel matrix of class a followed by class b into out : (n_a + n_b,).

    a, h_a, b, h_b, factor, sums : as in `_half_row`; d = 0 if all values are given
    own_a, own_b : (n_a, n_a), (n_b, n_b) values within a class, in the rows where known_a, known_b
        are 1; other rows are computed and kept there for later pairs. (0, 0) keeps nothing.
    cross : (n_a, n_b) values between the classes if d = 0
    """
    n_a, n_b, has_cross = known_a.shape[0], known_b.shape[0], cross.shape[0] > 0
    if i < n_a:
        r, within, between = i, out[:n_a], out[n_a:]
        mine, h_mine, other, h_other, kept, known = a, h_a, b, h_b, own_a, known_a
    else:
        r, within, between = i - n_a, out[n_a:], out[:n_a]
        mine, h_mine, other, h_other, kept, known = b, h_b, a, h_a, own_b, known_b
    if kept.shape[0] == 0 or known[r] == 0:
        _half_row(r, mine, h_mine, mine, h_mine, factor, sums, within)
        within[r] = f4(1.0)
        if kept.shape[0] > 0:
            known[r] = 1
            for k in range(within.shape[0]):
                kept[r, k] = within[k]
    else:
        for k in range(within.shape[0]):
            within[k] = kept[r, k]
    if not has_cross:
        _half_row(r, mine, h_mine, other, h_other, factor, sums, between)
    elif i < n_a:
        for k in range(n_b):
            between[k] = cross[r, k]
    else:
        for k in range(n_a):
            between[k] = cross[k, r]


@register_jitable(**_OPTIONS)
def _ordered(bits):
    """Bits of a float32 as an integer that orders as the float does; it is its own inverse.

    The compiler vectorises a running maximum of integers, but not one of floats.
    """
    return i4(bits ^ i4(i4(bits >> i4(31)) & _LARGEST))


@njit(**_CALLED)
def begin_at(
    a, h_a, own_a, known_a, b, h_b, own_b, known_b, cross, factor, sums, rows, slot,
    problem, report,
):  # fmt: skip
    """Compute the rows of points with a nonzero coefficient, and e = z - K beta from them."""
    n, n_a = slot.shape[0], known_a.shape[0]
    z, beta, e = problem[Z], problem[BETA], problem[RESIDUAL]
    for k in range(n):
        e[k] = z[k]
    for k in range(n):
        x = beta[k]
        if x == 0.0:
            continue
        if slot[k] < 0:
            slot[k] = np.int64(report[ROWS])
            report[ROWS] += 1.0
            report[ENTRIES] += n - n_a if k < n_a < n else n_a
            row = rows[slot[k]]
            _fill(k, a, h_a, own_a, known_a, b, h_b, own_b, known_b, cross, factor, sums, row)
        row = rows[slot[k]]
        for m in range(n):
            e[m] -= x * np.float64(row[m])


# Compiled without "nnan", because what it reports, also of NaNs, decides whether a fit ends.
@njit(**(_CALLED | {"fastmath": {"contract", "nsz"}}))
def account(problem, state, epsilon, report):
    """Set VIOLATION, INTERCEPT, OBJECTIVE and GAP of `report` from beta and e; see `descend`.

    The gap is the primal minus the dual objective: the sum over k of the largest value, for x in
    [l_k, u_k], of (e_k - intercept) (x - b_k) - epsilon (|x| - |b_k|), which is linear between
    l_k, 0 and u_k.
    """
    z, lower, upper = problem[Z], problem[LOWER], problem[UPPER]
    beta, e = problem[BETA], problem[RESIDUAL]
    lift, drop = state[LIFT], state[DROP]
    high, low, total, n_free, value = -np.inf, np.inf, 0.0, 0, 0.0
    for k in range(z.shape[0]):
        x = beta[k]
        high, low = larger(high, e[k] + lift[k]), smaller(low, e[k] + drop[k])
        value += epsilon * abs(x) - 0.5 * x * (z[k] + e[k])
        if lower[k] < x < upper[k] and x != 0.0:
            total += e[k] + lift[k]
            n_free += 1
    if n_free:
        intercept = total / n_free
    elif high > -np.inf and low < np.inf:
        intercept = 0.5 * (high + low)
    else:
        intercept = high if high > -np.inf else low
    gap = 0.0
    for k in range(z.shape[0]):
        x, s = beta[k], e[k] - intercept
        at_zero = epsilon * abs(x) - s * x
        at_upper = s * (upper[k] - x) - epsilon * (upper[k] - abs(x))
        at_lower = s * (lower[k] - x) + epsilon * (lower[k] + abs(x))
        gap += larger(at_zero, larger(at_upper, at_lower))
    report[VIOLATION], report[INTERCEPT] = larger(high - low, 0.0), intercept
    report[OBJECTIVE], report[GAP] = value, gap


@register_jitable(**_OPTIONS)
def _fraction_of_largest_error(k):
    """c(k) = -e k log k up to k = 1 / e, then 1, for k >= 0.

    If the error of the exponent of a value k <= 1 is proportional to the exponent or to its root,
    the error of k is at most c(k) times the largest one over all k. c is concave: a weighted mean
    of c(k_j) is at most c of the mean.
    """
    if k >= np.exp(-1.0):
        return 1.0
    return -np.e * k * np.log(k) if k > 0.0 else 0.0


@register_jitable(**_OPTIONS)
def _simple_error(problem, state, relative_error, absolute_error):
    """Total change of beta since e was exact, and a bound on the error of a sum over the rows.

    It uses |k(x, z)| <= max k(x, x) and c(k) <= 1.
    """
    beta, exact_beta = problem[BETA], problem[EXACT_BETA]
    diagonal = state[DIAGONAL]
    size = largest = 0.0
    for k in range(beta.shape[0]):
        size += abs(beta[k] - exact_beta[k])
        largest = larger(largest, np.float64(abs(diagonal[k])))
    return size, (relative_error * largest + absolute_error) * size


@njit(error_model="numpy", **(_CALLED | {"no_cfunc_wrapper": False}))
def descend(
    a, h_a, own_a, known_a, b, h_b, own_b, known_b, cross, factor, sums, rows, slot,
    problem, state, epsilon, flat, relative_error, absolute_error, tol, max_steps, fresh, report,
):  # fmt: skip
    """Take steps until max (e + lift) - min (e + drop) <= tol is shown in float64.

    Parameters
    ----------
    a ... cross : kernel values, see `_fill`
    factor, sums : of `_half_row`
    rows : (n, n) float32
        Rows of the kernel matrix, in the order in which they were first needed.
    slot : (n,) int64
        Which of `rows` is the row of a point; -1 if it has not been needed yet.
    problem : (8, n) float64
        Rows 0 to 4: z, lower, upper, beta and e. beta and e are read and written; e is right
        unless the status is OUT_OF_STEPS. Rows 5 and 6: an e that was computed in float64, and its
        beta (z and 0 at first); sums over `rows` add only the change since then, so that only the
        change has an error. Row 7: scratch.
    state : (6, n) float32
        The diagonal of K; then v, lift, drop and how far b can grow and fall, which are set when
        `fresh`.
    epsilon : float
    flat : float
        Curvatures h below this are rounding errors and are raised to it.
    relative_error, absolute_error : float
        An entry k of `rows` has an error of at most relative_error |k| + absolute_error c(k), c
        from `_fraction_of_largest_error`.
    tol, max_steps : float, int
    fresh : bool
        Whether to begin at e and beta; if not, go on where the last call ran out of steps.
    report : (N_REPORTED,) float64
        STEPS, ROWS and ENTRIES (of `rows`, without the values within a class that are kept) are
        counted up; the others are set by each sum over the rows. When `fresh`, INTERCEPT is
        also read, as an estimate.

    Returns
    -------
    status : SOLVED, OUT_OF_STEPS, STUCK (no step gains anything in float32), or UNPROVEN: the
        violation is at most tol by the stored rows, whose error does not allow to conclude.
    """
    n, n_a = slot.shape[0], known_a.shape[0]
    lower, upper = problem[LOWER], problem[UPPER]
    beta, e = problem[BETA], problem[RESIDUAL]
    diagonal, v = state[DIAGONAL], state[V]
    exact_e, exact_beta = problem[EXACT_RESIDUAL], problem[EXACT_BETA]
    lift, drop = state[LIFT], state[DROP]
    grow, fall = state[GROW], state[FALL]
    low_bits = i4(1)
    while low_bits < n:
        low_bits *= i4(2)
    low_bits -= i4(1)
    two, half, zero, min_curvature = f4(2.0), f4(0.5), f4(0.0), f4(flat)
    step, summed_at, n_worse, best_violation = 0, -1, 0, np.inf
    # Guard: step after which e is summed afresh at the latest. Set by hand, also below.
    due = 100 * n + 1000
    stop, renew = f4(_EARLIER * tol), True
    highest_key, lowest_key = _SMALLEST, _LARGEST
    if fresh:
        for k in range(n):
            x = beta[k]
            up, down = (0.0 if x < 0.0 else upper[k]) - x, x - (0.0 if x > 0.0 else lower[k])
            grow[k], fall[k] = f4(up), f4(down)
            lift[k] = f4(-np.inf if up <= 0.0 else (-epsilon if x >= 0.0 else epsilon))
            drop[k] = f4(np.inf if down <= 0.0 else (epsilon if x <= 0.0 else -epsilon))
            v[k] = f4(e[k] - report[INTERCEPT])
    while True:
        if renew:
            highest_key, lowest_key, renew = _SMALLEST, _LARGEST, False
            for k in range(n):
                key = _ordered(bits_of(v[k] + lift[k]))
                highest_key = larger(highest_key, i4(i4(key & ~low_bits) | i4(k)))
                lowest_key = smaller(lowest_key, _ordered(bits_of(v[k] + drop[k])))
        lowest = with_bits(_ordered(lowest_key))
        i, j = i4(highest_key & low_bits), i4(0)
        highest = v[i] + lift[i]
        # Differences within the rounding of v itself mean nothing. After a sum, v is small here.
        rounding = _ROUNDING * larger(abs(highest), abs(lowest))
        must_sum = highest - lowest <= larger(stop, rounding) or step > due
        if must_sum and step <= due:
            # The bound on the error of a sum is known before it: lower the target by it first.
            size, error = _simple_error(problem, state, relative_error, absolute_error)
            if 2.0 * error <= _CHEAP_ERROR * tol:
                stop = smaller(stop, f4(_EARLIER * (tol - 2.0 * error)))
                must_sum = highest - lowest <= larger(stop, rounding)
        if not must_sum and step >= max_steps:
            return OUT_OF_STEPS
        for turn in range(0 if must_sum else 2):
            index = i
            if turn == 1:
                row_i, grow_i, d_i = rows[slot[i]], grow[i], diagonal[i]
                best = i4(0)
                for k in range(n):
                    w = larger(highest - (v[k] + drop[k]), zero)
                    h = larger(d_i + diagonal[k] - two * row_i[k], min_curvature)
                    # 1 / h to 1 %, by a Newton step; that is enough, because the gain is flat in t
                    # around its maximum.
                    r = with_bits(i4(_RECIPROCAL - bits_of(h)))
                    r = r * (two - h * r)
                    t = smaller(smaller(w * r, grow_i), fall[k])
                    gain = t * (w - half * h * t)
                    # The index replaces the lowest bits of the gain: one maximum finds both.
                    key = i4(i4(bits_of(gain) & ~low_bits) | i4(k))
                    best = larger(best, key if gain > zero else i4(0))
                if best == i4(0):
                    must_sum = True
                    break
                j = index = i4(best & low_bits)
            if slot[index] < 0:
                slot[index] = np.int64(report[ROWS])
                report[ROWS] += 1.0
                report[ENTRIES] += n - n_a if index < n_a < n else n_a
                row = rows[slot[index]]
                _fill(
                    index, a, h_a, own_a, known_a, b, h_b, own_b, known_b, cross, factor, sums, row
                )
        if must_sum:
            sizes = problem[SIZES]
            for k in range(n):
                e[k], sizes[k] = exact_e[k], 0.0
            for k in range(n):
                x = beta[k] - exact_beta[k]
                if x != 0.0:
                    row = rows[slot[k]]
                    for m in range(n):
                        e[m] -= x * np.float64(row[m])
            size, error = _simple_error(problem, state, relative_error, absolute_error)
            # A sharper bound takes another pass over the rows.
            if 2.0 * error > _CHEAP_ERROR * tol:
                for k in range(n):
                    x = abs(beta[k] - exact_beta[k])
                    if x != 0.0:
                        row = rows[slot[k]]
                        for m in range(n):
                            sizes[m] += x * abs(np.float64(row[m]))
                largest = 0.0
                for k in range(n):
                    largest = larger(largest, sizes[k])
                error = relative_error * largest
                if size > 0.0:
                    error += absolute_error * size * _fraction_of_largest_error(largest / size)
            account(problem, state, epsilon, report)
            violation, report[ERROR] = report[VIOLATION], error
            if violation + 2.0 * error <= tol:
                return SOLVED
            if violation <= tol and 2.0 * error > _CHEAP_ERROR * tol:
                return UNPROVEN
            n_worse = 0 if violation < PROGRESS * best_violation else n_worse + 1
            best_violation = smaller(best_violation, violation)
            if summed_at == step or n_worse == _MAX_WORSE:
                return STUCK
            summed_at, renew, due = step, True, step + 100 * n + 1000
            stop = f4(_EARLIER * larger(tol - 2.0 * error, (1.0 - _CHEAP_ERROR) * tol))
            for k in range(n):
                v[k] = f4(e[k] - report[INTERCEPT])
            continue
        row_i, row_j = rows[slot[i]], rows[slot[j]]
        h_ij = larger(np.float64(diagonal[i] + diagonal[j] - two * row_i[j]), flat)
        x_i, x_j = beta[i], beta[j]
        end_i, end_j = (0.0 if x_i < 0.0 else upper[i]), (0.0 if x_j > 0.0 else lower[j])
        up, down = end_i - x_i, x_j - end_j
        move = smaller(smaller(np.float64(highest - (v[j] + drop[j])) / h_ij, up), down)
        # `box_dual.pair_descent.move_pair` explains this.
        ends_i = up - move <= _AT_BOUND * larger(abs(x_i), move)
        if ends_i:
            move = up
        ends_j = down - move <= _AT_BOUND * larger(abs(x_j), move)
        if ends_j and down <= up:
            move = down
        x_i = end_i if ends_i else x_i + move
        x_j = end_j if ends_j else x_j - move
        beta[i], beta[j] = x_i, x_j
        for turn in range(2):
            moved = i if turn == 0 else j
            x = beta[moved]
            up, down = (
                (0.0 if x < 0.0 else upper[moved]) - x,
                x - (0.0 if x > 0.0 else lower[moved]),
            )
            grow[moved], fall[moved] = f4(up), f4(down)
            lift[moved] = f4(-np.inf if up <= 0.0 else (-epsilon if x >= 0.0 else epsilon))
            drop[moved] = f4(np.inf if down <= 0.0 else (epsilon if x <= 0.0 else -epsilon))
        t = f4(move)
        highest_key, lowest_key = _SMALLEST, _LARGEST
        for k in range(n):
            x = v[k] + t * (row_j[k] - row_i[k])
            v[k] = x
            key = _ordered(bits_of(x + lift[k]))
            highest_key = larger(highest_key, i4(i4(key & ~low_bits) | i4(k)))
            lowest_key = smaller(lowest_key, _ordered(bits_of(x + drop[k])))
        step += 1
        report[STEPS] += 1.0
