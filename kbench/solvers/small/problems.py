"""The compiled loop over the problems of a fit: steps, then the exact optimum, one after another.

A fit of ten classes has 45 problems of 50 microseconds each; calls from Python would take as long
again. Rare cases end the loop, and `kbench.solvers.small.dual` goes on from there.
"""

import functools
from typing import Any

import numpy as np
from numba import boolean, float32, float64, int64, njit, none, uint8

from kbench.intrinsics.calls import address_of, calling
from kbench.intrinsics.views import between, matrix_in
from kbench.solvers.box_dual.directions import are_at_ends
from kbench.solvers.small import face, steps
from kbench.solvers.small.face import (
    N_PART,
    N_SAVED,
    N_SCRATCH,
    NANOSECONDS_OF_PRODUCT,
    OPTIMAL,
    ROUNDING,
    B,
    near_margin,
)
from kbench.solvers.small.rows import exponential, squared_distance, values_of_few
from kbench.solvers.small.steps import (
    BETA,
    DIAGONAL,
    ENTRIES,
    EXACT_BETA,
    EXACT_RESIDUAL,
    LOWER,
    OBJECTIVE,
    OUT_OF_STEPS,
    RESIDUAL,
    ROWS,
    SOLVED,
    UPPER,
    Z,
)

_OPTIONS: Any = {"_nrt": False, "no_cfunc_wrapper": True, "cache": True, "nogil": True}
# Columns of `plan`, for both classes of a problem: the first point and the one after the last, the
# row of targets and bounds, the row of coefficients; where the features begin, and how many columns
# they have with padding; where the kept kernel values begin, and how many rows there are.
FIRST, END, ROW, COEF, POINTS, WIDTH, KEPT, N_KEPT, N_PLANNED = range(9)
# What `solve_problems` does with the first problem: solve it, only set it up, or go on with it.
WHOLE, SET_UP, GO_ON = range(3)
# Rows of n float64 numbers in `work`, and of n integers in `places`.
N_WORK, N_PLACES = 8 + N_PART + N_SCRATCH + N_SAVED, 3

_VECTOR, _MATRIX, _MATRIX32 = float64[::1], float64[:, ::1], float32[:, ::1]
_STORED = _MATRIX32, int64[::1], _MATRIX, _MATRIX32


def _of_descend(half: Any) -> tuple:
    """Argument types of `descend`; half : type of the array of half squared norms."""
    one_class = _MATRIX32, half, _MATRIX32, uint8[::1]
    kernel = *one_class, *one_class, _MATRIX32, float64, float32[::1], *_STORED
    return *kernel, *(float64,) * 5, int64, boolean, _VECTOR


_OF_DESCEND = {False: _of_descend(none), True: _of_descend(float32[::1])}
_OF_OPTIMUM = (_MATRIX, _MATRIX, *(float64,) * 3, _MATRIX, _MATRIX, int64[::1])
_OF_ADOPT = (
    int64, int64[::1], _MATRIX, float64, float64, _VECTOR, float64, *_STORED, _MATRIX, _VECTOR,
)  # fmt: skip
# Callers of the three functions in `addresses`, which return a status of `descend`, a status of
# `to_optimum`, and whether `adopt` has adopted the optimum.
_descend = calling(int64, *_OF_DESCEND.values())
_to_optimum, _adopt = calling(int64, _OF_OPTIMUM), calling(boolean, _OF_ADOPT)


@functools.cache
def addresses(*, has_halves: bool) -> np.ndarray:
    """(3,) addresses of `descend`, `to_optimum` and `adopt` for `solve_problems`."""
    functions = (
        address_of(steps.descend, _OF_DESCEND[has_halves]),
        address_of(face.to_optimum, _OF_OPTIMUM),
        address_of(face.adopt, _OF_ADOPT),
    )
    return np.array(functions, np.int64)


@njit(error_model="numpy", **_OPTIONS)
def solve_problems(
    first, last, stage, fresh, max_steps, cross, plan, targets, lowers, uppers, diagonals, coef,
    n_features, points, halves, kept, known, factor, sums, rows, slots, work, states, places,
    matrices, epsilon, flat, errors, tol, exact, exact_factor, limits, functions, reports,
):  # fmt: skip
    """Solve problems `first` to `last` - 1, until one needs more than steps and an exact optimum.

    Parameters
    ----------
    stage : WHOLE, SET_UP or GO_ON
    max_steps : (m,) int64
    plan : (m, 2, N_PLANNED) int64
    targets, lowers, uppers : (r, n) float64
    diagonals : (n,) float32
    coef : (s, n) float64, in and out
    n_features, points, kept, known : number of rows of `a`, and `a`, `own_a`, `known_a` of
        `descend`, flat, of all classes one after another
    cross : as in `descend`
    halves : (n,) float32 or None
    rows, slots, work, states, places : flat scratch for the n points of a problem: n^2 float32,
        n int64, N_WORK n float64, 6 n float32, N_PLACES n int64. A problem with the same points as
        the one before keeps its `rows` and `slots`; so does a problem whose report has ROWS > 0.
    matrices : (N,) float64. Scratch; an exact optimum that needs more is not tried.
    fresh, factor, sums, epsilon, flat, tol : see `descend`
    errors : (3,) see `face.adopt`
    exact, exact_factor : (n, d) points of `values_of_few`; (0, d): no exact optimum is tried
    limits : see `near_margin`
    functions : see `addresses`
    reports : (m, N_REPORTED) float64

    Returns
    -------
    p, status : `last`, SOLVED; or the problem with which the loop has ended, and the status of
        `descend` for it. SOLVED then means that the steps have solved it, but that it still needs
        an exact optimum by other kernel values, or an intercept because no point is free.
    """
    for p in range(first, last):
        report, a, b = reports[p], plan[p, 0], plan[p, 1]
        n_a = a[END] - a[FIRST]
        n = n_a + b[END] - b[FIRST]
        problem, state = matrix_in(work, 0, 8, n), matrix_in(states, 0, 6, n)
        stored, slot = matrix_in(rows, 0, n, n), slots[:n]
        if stage != GO_ON or p > first:
            same, at = p > 0, 0
            for half in range(2):
                c = plan[p, half]
                same = same and c[FIRST] == plan[p - 1, half, FIRST]
                same = same and c[END] == plan[p - 1, half, END]
                for k in range(c[FIRST], c[END]):
                    z = targets[c[ROW], k]
                    problem[Z, at] = problem[RESIDUAL, at] = problem[EXACT_RESIDUAL, at] = z
                    problem[LOWER, at], problem[UPPER, at] = lowers[c[ROW], k], uppers[c[ROW], k]
                    problem[BETA, at], problem[EXACT_BETA, at] = coef[c[COEF], k], 0.0
                    state[DIAGONAL, at] = diagonals[k]
                    at += 1
            if same:
                report[ROWS] = reports[p - 1, ROWS]
            elif report[ROWS] == 0.0:
                for k in range(n):
                    slot[k] = -1
        if stage == SET_UP:
            return p, OUT_OF_STEPS
        h_a, h_b = between(halves, a[FIRST], a[END]), between(halves, b[FIRST], b[END])
        status = _descend(functions[0], (
            matrix_in(points, a[POINTS], n_features, a[WIDTH]), h_a,
            matrix_in(kept, a[KEPT], a[N_KEPT], a[N_KEPT]), known[a[FIRST] : a[END]],
            matrix_in(points, b[POINTS], n_features, b[WIDTH]), h_b,
            matrix_in(kept, b[KEPT], b[N_KEPT], b[N_KEPT]), known[b[FIRST] : b[END]],
            cross, factor, sums, stored, slot, problem, state, epsilon, flat, errors[0], errors[1],
            tol, max_steps[p], fresh or p > first, report,
        ))  # fmt: skip
        # If a sum has overflowed, the objective is not finite.
        if status != SOLVED or not np.isfinite(report[OBJECTIVE]) or exact.shape[0] == 0:
            return p, status
        near, where, free = places[:n], places[n : 2 * n], places[2 * n : 3 * n]
        part = matrix_in(work, 8 * n, N_PART, n)
        m, n_far, allowed = near_margin(problem, state, tol, limits, near, part, report)
        if m > 0 and m * (2 * m + n_far) <= matrices.shape[0]:
            for i in range(m + n_far):
                where[i] = near[i] + (a[FIRST] if near[i] < n_a else b[FIRST] - n_a)
            K, L = matrix_in(matrices, 0, m, m + n_far), matrix_in(matrices, m * (m + n_far), m, m)
            values_of_few(exact, where[: m + n_far], exact_factor, K)
            report[ENTRIES] += m * (m + n_far)
            scratch = matrix_in(work, (8 + N_PART) * n, N_SCRATCH, n)
            # Guard: twice what is allowed, since the estimate is of a single solve. Set by hand.
            budget = 2.0 * allowed / NANOSECONDS_OF_PRODUCT
            arguments = K, part, epsilon, ROUNDING, budget, L, scratch, free
            if _to_optimum(functions[1], arguments) == OPTIMAL:
                for i in range(m):
                    k = near[i]
                    if slot[k] < 0 and part[B, i] != problem[BETA, k]:
                        slot[k] = np.int64(report[ROWS])
                        report[ROWS] += 1.0
                        report[ENTRIES] += n
                        row, x = stored[slot[k]], exact[where[i]]
                        for j in range(n):
                            y = exact[j + (a[FIRST] if j < n_a else b[FIRST] - n_a)]
                            row[j] = np.float32(exponential(-exact_factor * squared_distance(x, y)))
                saved = matrix_in(work, (8 + N_PART + N_SCRATCH) * n, N_SAVED, n)
                _adopt(functions[2], (
                    m, near, part, epsilon, 0.0, errors, tol, stored, slot, problem, state, saved,
                    report,
                ))  # fmt: skip
        if are_at_ends(problem[BETA], problem[LOWER], problem[UPPER]):
            return p, SOLVED
        at = 0
        for half in range(2):
            c = plan[p, half]
            for k in range(c[FIRST], c[END]):
                coef[c[COEF], k] = problem[BETA, at]
                at += 1
    return last, SOLVED
