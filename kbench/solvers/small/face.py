"""Compiled active-set steps: from coefficients near an optimum to the optimum, on a few points.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u,    1'b = const,    l <= 0 <= u

When steps of two coefficients have come near the optimum, mostly the right points are at their
bounds. The coefficients of the free points F then follow from one factorisation: on their face,

    K_FF d + t 1 = e_F - slope_F,    1'd = 0,

with the change d of the coefficients, the intercept t, e = z - Kb and slope = epsilon times the
sign of b. A step ends at the first bound that it meets, where that point stays; bound points that
gain by a step become free. The objective falls with every step, so the result is no worse than the
start.

Reference: P. Gill, W. Murray, "Numerically stable methods for quadratic programming", Mathematical
Programming 1978.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from kbench.intrinsics.scalars import larger, smaller
from kbench.solvers.interior_point.counted_work import NANOSECONDS_OF_STEP, NANOSECONDS_PER_POINT
from kbench.solvers.small.steps import (
    BETA,
    DROP,
    ERROR,
    GAP,
    INTERCEPT,
    LIFT,
    LOWER,
    OBJECTIVE,
    RESIDUAL,
    SIZES,
    STEPS,
    UPPER,
    VIOLATION,
    Z,
)
from kbench.solvers.small.steps import account as _account

# "reassoc" allows LLVM to vectorise sums.
_OPTIONS: Any = {"fastmath": {"contract", "nsz", "reassoc"}, "_nrt": False}
_CALLED: Any = {**_OPTIONS, "cache": True, "nogil": True}

account: Any = _account  # mypy takes compiled functions for ones without arguments

# Rows of the array `part`.
B, TARGET, LOW, HIGH, E, N_PART = range(6)
# Outcomes of `to_optimum`.
OPTIMAL, OUT_OF_BUDGET, NOT_DEFINITE = 0, 1, 2
# Elements of `limits` of `near_margin`.
OVERHEAD, ALLOWED, ALLOWED_PART, ALLOWED_MORE, N_LIMITS = range(5)
# Nanoseconds of a kernel value, and of a multiplication of a factorisation
# (`scripts/bench_small.py --any-C`).
NANOSECONDS_OF_VALUE, NANOSECONDS_OF_PRODUCT = 6.0, 0.3
# An exact optimum may take PART of the time of the steps if the duality gap is at most the fraction
# `_SMALL_GAP` of the objective. With a large C the tolerance says little about the objective: above
# `_LARGE_GAP` it may take longer (`bench_small.py --any-C`, `ablate_svm.py --small` in `scripts`).
PART, _SMALL_GAP, _LARGE_GAP = 0.25, 1e-6, 0.03
# Points take part in the exact optimum if their slack is below this multiple of the tolerance plus
# the rounding error of the residuals: more points cost more, fewer may miss a point that becomes
# free. Set by hand.
_NEAR = 2.0
# Guard: gains up to this fraction of the summed magnitudes are rounding errors.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
# Guards: number added to the diagonal, relative to its mean, so that singular faces (equal rows,
# more free points than the rank) can be solved; and number of solves with one factorisation, of
# which all after the first correct for the added number.
_PROXIMAL = 1e-10
_MAX_PROXIMAL = 4
# Free residuals below this fraction of the rounding error are not lowered further. Set by hand.
_NOISE_FRACTION = 1 / 16
# In the first _FIRST_SOLVES solves, points at bounds whose gain is at least this fraction of the
# largest become free together, which saves solves; later, one point at a time becomes free, which
# cannot cycle. The optimum is the same. Set by hand.
_TOGETHER, _FIRST_SOLVES = 0.25, 8
# Guard against endless loops by rounding: no optimum has needed as many solves.
_MAX_SOLVES = 200
# Rows of the scratch (N_SCRATCH, m) of `to_optimum`. `_MEAN` holds means of rows of K, then the
# ends of the coefficients in a step, then the gains of bound points.
_CHANGE, _MEAN, _SIDE, N_SCRATCH = range(4)
N_SAVED = 4


@register_jitable(**_OPTIONS)
def _factorise(L, f):
    """Replace the lower triangle of L[:f, :f] by its Cholesky factor; False: it is not definite.

    Four entries of a row are computed at a time, so that each value that is read is in four sums.
    """
    for i in range(f):
        row = L[i]
        for j in range(0, i + 1, 4):
            if j + 3 < i:
                a, b, c, d = L[j], L[j + 1], L[j + 2], L[j + 3]
                s = t = u = v = 0.0
                for k in range(j):
                    s += row[k] * a[k]
                    t += row[k] * b[k]
                    u += row[k] * c[k]
                    v += row[k] * d[k]
                row[j] = (row[j] - s) / a[j]
                t += row[j] * b[j]
                row[j + 1] = (row[j + 1] - t) / b[j + 1]
                u += row[j] * c[j] + row[j + 1] * c[j + 1]
                row[j + 2] = (row[j + 2] - u) / c[j + 2]
                v += row[j] * d[j] + row[j + 1] * d[j + 1] + row[j + 2] * d[j + 2]
                row[j + 3] = (row[j + 3] - v) / d[j + 3]
                continue
            for m in range(j, i + 1):
                other, s = L[m], 0.0
                for k in range(m):
                    s += row[k] * other[k]
                if m < i:
                    row[m] = (row[m] - s) / other[m]
                elif row[m] - s > 0.0:
                    row[m] = np.sqrt(row[m] - s)
                else:
                    return False
    return True


@register_jitable(**_OPTIONS)
def _solve(L, f, x):
    """x = (L L')^-1 x for the first f entries."""
    for i in range(f):
        row, total = L[i], 0.0
        for k in range(i):
            total += row[k] * x[k]
        x[i] = (x[i] - total) / row[i]
    for i in range(f - 1, -1, -1):
        row = L[i]
        x[i] /= row[i]
        value = x[i]
        for k in range(i):
            x[k] -= value * row[k]


@register_jitable(**_OPTIONS)
def _sum_afresh(K, part):
    """E = TARGET - K B of the first m columns of `part`."""
    m, n_columns = K.shape
    for i in range(m):
        row, total = K[i], 0.0
        for j in range(n_columns):
            total += row[j] * part[B, j]
        part[E, i] = part[TARGET, i] - total


@njit(error_model="numpy", **_CALLED)
def to_optimum(K, part, epsilon, rounding, budget, L, scratch, free):
    """Minimise over the coefficients of m points, whose sum stays; other coefficients stay, too.

    Parameters
    ----------
    K : (m, m + q) float64. Values between the points, and of them with q others; semidefinite.
    part : (N_PART, m + q) float64
        B, in and out; z, l and u of the points; E, out: z - K b, summed afresh. B of the others
        follows B of the points.
    epsilon : float
    rounding : float. Gains up to this fraction of the summed magnitudes are rounding errors.
    budget : float. Multiplications after which to end.
    L, scratch, free : (m, m), (N_SCRATCH, m), (m,) int64. Scratch.

    Returns
    -------
    status : OPTIMAL, OUT_OF_BUDGET, or NOT_DEFINITE: then the results must not be used

    Notes
    -----
    Takes f^3 / 6 + O(m f) multiplications for each set of f free points; most problems need one or
    two sets.
    """
    m, n_columns = K.shape[0], K.shape[1]
    beta, z, lower, upper, e = part[B], part[TARGET], part[LOW], part[HIGH], part[E]
    change, mean, side = scratch[_CHANGE], scratch[_MEAN], scratch[_SIDE]
    typical = largest = squares = 0.0
    for i in range(m):
        typical += K[i, i] / m
        largest = larger(largest, abs(z[i]))
        x = beta[i]
        side[i] = 0.0 if x == 0.0 else (1.0 if x > 0.0 else -1.0)
    for i in range(n_columns):
        squares += beta[i] * beta[i]
    noise = rounding * (largest + np.sqrt(squares) * typical)
    _sum_afresh(K, part)
    f = 0
    for i in range(m):
        if beta[i] != 0.0 and lower[i] < beta[i] < upper[i]:
            free[f] = i
            f += 1
    status = OUT_OF_BUDGET
    for turn in range(_MAX_SOLVES):
        low = high = 0.0
        if f == 1:
            low = high = e[free[0]] - epsilon * side[free[0]]
        if f > 1:
            budget -= f * f * (f / 6.0 + 1.0) + 3.0 * f * m
            if budget < 0.0:
                break
            # Changes whose sum is 0 depend on the centred matrix alone, which does not lose digits
            # to a large mean.
            grand_mean = 0.0
            for i in range(f):
                row, total = K[free[i]], 0.0
                for j in range(f):
                    total += row[free[j]]
                mean[i] = total / f
                grand_mean += mean[i] / f
            for i in range(f):
                row, target = K[free[i]], L[i]
                for j in range(i + 1):
                    target[j] = row[free[j]] - mean[i] - mean[j] + grand_mean + typical / f
                target[i] += _PROXIMAL * typical
            if not _factorise(L, f):
                status = NOT_DEFINITE
                break
            last, blocked = np.inf, False
            for _ in range(_MAX_PROXIMAL):
                total = 0.0
                for i in range(f):
                    change[i] = e[free[i]] - epsilon * side[free[i]]
                    total += change[i]
                low = high = total / f
                size = 0.0
                for i in range(f):
                    change[i] -= low
                    size = larger(size, abs(change[i]))
                # Guard: stop if the last correction has not halved the residual.
                if not _NOISE_FRACTION * noise < size < 0.5 * last:
                    break
                last = size
                _solve(L, f, change)
                total = 0.0
                for i in range(f):
                    total += change[i]
                t = 1.0
                for i in range(f):
                    change[i] -= total / f
                    k, d = free[i], change[i]
                    end = upper[k] if d > 0.0 else lower[k]
                    if epsilon > 0.0 and side[k] * d < 0.0:
                        end = 0.0
                    mean[i] = end
                    if abs(d) > abs(end - beta[k]):
                        t = smaller(t, (end - beta[k]) / d)
                for i in range(f):
                    k, d, end = free[i], change[i], mean[i]
                    move = t * d
                    if t < 1.0 and d != 0.0 and (end - beta[k]) / d <= t:
                        move, blocked = end - beta[k], True
                        beta[k] = end
                    else:
                        beta[k] += move
                    for j in range(m):
                        e[j] -= move * K[k, j]
                if blocked:
                    break
            if blocked:
                n_left = 0
                for i in range(f):
                    k = free[i]
                    at_bound = beta[k] == upper[k] or beta[k] == lower[k]
                    if not (at_bound or (epsilon > 0.0 and beta[k] == 0.0)):
                        free[n_left] = k
                        n_left += 1
                f = n_left
                continue
        highest, lowest = -np.inf, np.inf
        for i in range(m):
            x, mean[i] = beta[i], 0.0
            if x < upper[i]:
                highest = larger(highest, e[i] - (epsilon if x >= 0.0 else -epsilon))
            if x > lower[i]:
                lowest = smaller(lowest, e[i] + (epsilon if x <= 0.0 else -epsilon))
        if f == 0:
            if not (highest > -np.inf and lowest < np.inf):
                status = OPTIMAL
                break
            low = high = 0.5 * (highest + lowest)
        # Free points cannot gain: their residuals differ from the intercept by rounding alone.
        for i in range(f):
            mean[free[i]] = -1.0
        worst, worst_point = 0.0, -1
        for i in range(m):
            if mean[i] == 0.0:
                x = beta[i]
                up = e[i] - (epsilon if x >= 0.0 else -epsilon) - high if x < upper[i] else -1.0
                down = low - e[i] - (epsilon if x <= 0.0 else -epsilon) if x > lower[i] else -1.0
                mean[i], change[i] = larger(up, down), 1.0 if up > down else -1.0
                if mean[i] > worst:
                    worst, worst_point = mean[i], i
        if worst <= noise:
            status = OPTIMAL
            break
        for i in range(m):
            if mean[i] >= _TOGETHER * worst and (turn < _FIRST_SOLVES or i == worst_point):
                free[f] = i
                f += 1
                if beta[i] == 0.0:
                    side[i] = change[i]
    _sum_afresh(K, part)
    return status


@njit(**_CALLED)
def near_margin(problem, state, tol, limits, near, part, report):
    """Collect the points near the margin, then the remaining support vectors.

    limits : (4,) OVERHEAD, nanoseconds of an exact optimum beside its kernel values and products;
        ALLOWED, nanoseconds that it may always take; ALLOWED_PART of the time of the steps so far;
        and ALLOWED_MORE, nanoseconds in addition where the duality gap is large
    near : (n,) int64, set
    part : (N_PART, n), set in the columns of these points; see `to_optimum`

    Returns the numbers of points of both kinds, and the nanoseconds that the exact optimum may
    take; 0, 0, 0 if it would take longer, if fewer than two points are near, or before any step.
    """
    lower, upper, n = problem[LOWER], problem[UPPER], near.shape[0]
    count = n_near = n_free = 0
    intercept, margin = report[INTERCEPT], _NEAR * (tol + report[ERROR])
    for turn in range(2):
        for k in range(n):
            x, e = problem[BETA, k], problem[RESIDUAL, k]
            up = x < upper[k] and e + state[LIFT, k] > intercept - margin
            down = x > lower[k] and e + state[DROP, k] < intercept + margin
            if turn == 0 and lower[k] < x < upper[k] and x != 0.0:
                n_free += 1
            if (up or down) if turn == 0 else not (up or down or x == 0.0):
                near[count] = k
                part[B, count], part[TARGET, count] = x, problem[Z, k]
                part[LOW, count], part[HIGH, count] = lower[k], upper[k]
                count += 1
        if turn == 0:
            n_near = count
    values = NANOSECONDS_OF_VALUE * n_near * count
    products = NANOSECONDS_OF_PRODUCT * (
        1.0 * n_free * n_free * n_free / 6.0 + 2.0 * n_free * n_near
    )
    gap, objective = report[GAP], abs(report[OBJECTIVE])
    allowed = limits[ALLOWED_PART] if gap > _SMALL_GAP * objective else PART
    allowed *= report[STEPS] * (NANOSECONDS_OF_STEP + NANOSECONDS_PER_POINT * n)
    allowed = larger(allowed, limits[ALLOWED])
    if gap > _LARGE_GAP * objective:
        allowed += limits[ALLOWED_MORE]
    # A start that is a solution stays as it is.
    if report[STEPS] == 0.0 or n_near < 2 or limits[OVERHEAD] + values + products > allowed:
        return 0, 0, 0.0
    return n_near, count - n_near, allowed


@njit(**_CALLED)
def adopt(m, near, part, epsilon, shift, errors, tol, rows, slot, problem, state, saved, report):
    """Write the optimum of m points into the problem, with lift and drop, the residuals of the
    other points, and the report; or change nothing and return False.

    Nothing is changed if the slack of another point is within the errors of the stored rows, the
    violation is above `tol`, or the duality gap grows.

    near, part : as `near_margin` and `to_optimum` have left them
    shift : number that is added to the residuals of the other points
    errors : (3,) relative and absolute error of a stored value, and the largest value
    rows, slot : with the rows of all points whose coefficient has changed
    saved : (N_SAVED, n) float64. Scratch.
    """
    n = slot.shape[0]
    beta, e, lower, upper = problem[BETA], problem[RESIDUAL], problem[LOWER], problem[UPPER]
    lift, drop = state[LIFT], state[DROP]
    for k in range(n):
        saved[0, k], saved[1, k], saved[2, k], saved[3, k] = beta[k], e[k], lift[k], drop[k]
    violation, intercept = report[VIOLATION], report[INTERCEPT]
    before, gap, size = report[OBJECTIVE], report[GAP], 0.0
    for i in range(m):
        k = near[i]
        change = part[B, i] - beta[k]
        if change != 0.0:
            row = rows[slot[k]]
            for j in range(n):
                e[j] -= change * np.float64(row[j])
        size += abs(change)
    # The objective comes from the stored rows, so that a fit that begins here reports the same.
    objective = 0.0
    for i in range(m):
        beta[near[i]] = part[B, i]
    for j in range(n):
        objective += epsilon * abs(beta[j]) - 0.5 * beta[j] * (problem[Z, j] + e[j])
        e[j] += shift
    for i in range(m):
        k, x = near[i], part[B, i]
        e[k] = part[E, i]
        lift[k] = -np.inf if x >= upper[k] else (-epsilon if x >= 0.0 else epsilon)
        drop[k] = np.inf if x <= lower[k] else (epsilon if x <= 0.0 else -epsilon)
    account(problem, state, epsilon, report)
    report[OBJECTIVE] = objective
    error = report[ERROR] + (errors[0] * errors[2] + errors[1]) * size
    sizes = problem[SIZES]
    for k in range(n):
        sizes[k] = 0.0
    for i in range(m):
        sizes[near[i]] = 1.0
    high, low = report[INTERCEPT] - 2.0 * error, report[INTERCEPT] + 2.0 * error
    adopted = report[VIOLATION] <= tol and report[GAP] <= gap
    for k in range(n):
        if sizes[k] == 0.0 and (e[k] + lift[k] > high or e[k] + drop[k] < low):
            adopted = False
    if adopted:
        report[INTERCEPT] -= shift
        return True
    for k in range(n):
        beta[k], e[k], lift[k], drop[k] = saved[0, k], saved[1, k], saved[2, k], saved[3, k]
    report[VIOLATION], report[INTERCEPT] = violation, intercept
    report[OBJECTIVE], report[GAP] = before, gap
    return False
