"""Duals of support vector machines as a `BoxQP`, solved and measured.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u  [ , 1'b = s ],      l <= 0 <= u

A classifier has z = y, epsilon = 0 and, for each point, one bound 0 and one with its label's sign.
A regression has its targets as z, and two copies of the rows, b = x_1 - x_2, unless epsilon is 0.
Both have s = 0. A one-class support vector machine has z = 0 and s > 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from kbench.intrinsics.products import one_blas_thread
from kbench.solvers.interior_point.active_set import (
    MAX_EQUALITY_ERROR,
    Optimum,
    assess,
    finish,
    point_from_coef,
    without_overlap,
)
from kbench.solvers.interior_point.predictor_corrector import minimise
from kbench.solvers.interior_point.problem import BoxQP, Matrix

# n times the relative gaps at which the active set is tried: with more points, free points are
# closer to their bounds. Most problems end with the first gap. Set by hand.
_GAPS = (1e-5, 1e-8, 1e-11)
# Rounds of the exact finish that are tried before the first iteration: more rounds would take
# longer than the iterations that they may save. Set by hand.
_ROUNDS_OF_START = 2
# Coefficients with at most this relative gap are returned without another of _GAPS. Set by hand.
_EXACT_GAP = 1e-9
# Guard: multiple of the unit roundoff in the estimate of `rounding`.
_ROUNDOFFS = 16.0


@dataclass(frozen=True)
class InteriorResult:
    """Solution of a dual and how far it is from an optimum."""

    coef: np.ndarray  # (n,): b, exactly at its bounds or 0 where it is not free
    intercept: float  # 0 if the problem has none
    # As in `BoxDualResult`, from residuals that were summed afresh.
    objective: float
    violation: float
    duality_gap: float
    n_iter: int  # Iterations
    # {"tol", "rounding", "max_iter", "max_time", "failed"}. "rounding": the violation is above
    # `tol`, and float64 sums of these coefficients cannot tell it from zero; "failed": the method
    # found no optimum.
    stop_reason: str


@one_blas_thread
def solve_interior(
    K: Matrix,
    z: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    coupled: bool,
    tol: float,
    epsilon: float = 0.0,
    total: float = 0.0,
    max_iter: int = -1,
    stopped: Callable[[], bool] = lambda: False,
    coef0: np.ndarray | None = None,
) -> InteriorResult:
    """Solve the dual of n points.

    K : LowRank or StoredKernel of n points
    z, lower, upper : (n,)
    coupled : Whether the sum of the coefficients is fixed; its multiplier is the intercept
    tol : Violation of a solved problem
    total : Sum of the coefficients; K may be centred only if it is 0
    max_iter : Limit on iterations; -1 means no limit
    stopped : Whether a time limit has passed; called before each iteration
    coef0 : (n,), optional
        Coefficients within the bounds. If the same coefficients are at a bound at the optimum, no
        iteration is needed.

    Takes 15 to 50 iterations of `K.work` multiplications each; memory is K and O(n).
    """
    movable, n = np.flatnonzero(lower < upper), len(z)
    if len(movable) < n:
        K, z, lower, upper = K.take(movable), z[movable], lower[movable], upper[movable]
        coef0 = None if coef0 is None else coef0[movable]
    problem = _problem(K, z, lower, upper, epsilon, [total] if coupled else [])
    optimum = _optimum(problem, tol, max_iter, stopped, coef0)
    if len(movable) < n:
        full_coef = np.zeros(n)
        full_coef[movable] = optimum.coef
        optimum = replace(optimum, coef=full_coef)
    return optimum


@one_blas_thread
def solve_sides(
    K: Matrix,
    z: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    half: float,
    *,
    tol: float,
    max_iter: int = -1,
    stopped: Callable[[], bool] = lambda: False,
) -> InteriorResult:
    """Solve the dual with the parameter nu, in which coefficients above 0 sum to `half`, and those
    below 0 to -`half`.

    K, z, lower, upper, tol, max_iter, stopped : as in `solve_interior`
        Either each coefficient has a bound of 0, or none has.

    If an optimum exists in which the sums of both signs are smaller than `half`, `coef` may be it.
    """
    movable, n = np.flatnonzero(lower < upper), len(z)
    K = K if len(movable) == n else K.take(movable)
    z, lower, upper = z[movable], lower[movable], upper[movable]
    above, below = upper > 0.0, lower < 0.0
    if not (above & below).any():
        signs, p, d = np.ones(1), -z, np.array([half, -half])
        A = np.array([above, below], np.float64)
    else:
        signs, p, d = np.array([1.0, -1.0]), np.concatenate([-z, z]), np.full(2, half)
        lower, upper = np.zeros(2 * len(z)), np.concatenate([upper, -lower])
        A = np.repeat(np.eye(2), len(z), axis=1)
    optimum = _optimum(BoxQP(K, p, lower, upper, A, d, signs), tol, max_iter, stopped)
    full_coef = np.zeros(n)
    full_coef[movable] = optimum.coef
    return replace(optimum, coef=full_coef)


@one_blas_thread
def solve_signed(
    K: Matrix,
    y: np.ndarray,
    upper: np.ndarray,
    *,
    coupled: bool,
    tol: float,
    max_iter: int = -1,
    stopped: Callable[[], bool] = lambda: False,
) -> InteriorResult:
    """Solve the dual of a classifier in the variables a = y b, 0 <= a <= C, for many points.

    K : LowRank. Its rows are multiplied by their signs y; if `coupled`, they were centred before.
    y : (n,) of -1 and 1
    upper : (n,). C > 0 of each point; one number may be broadcast.
    coupled, tol, max_iter, stopped : as in `solve_interior`

    `coef` of the result is y a. Memory is K and at most 16 float64 vectors of n numbers; bounds and
    linear term take none.
    """
    n = len(y)
    lower, p = np.broadcast_to(0.0, n), np.broadcast_to(-1.0, n)
    A = y[None].astype(np.float64) if coupled else np.empty((0, n))
    problem = BoxQP(K, p, lower, upper, A, np.zeros(len(A)), np.ones(1))
    optimum = _optimum(problem, tol, max_iter, stopped)
    optimum.coef[:] *= y
    return optimum


def _optimum(
    problem: BoxQP,
    tol: float,
    max_iter: int,
    stopped: Callable[[], bool],
    coef0: np.ndarray | None = None,
) -> InteriorResult:
    """Solve a problem without fixed variables."""
    K, is_stopped = problem.K, False

    def stop(n_iter: int) -> bool:
        nonlocal is_stopped
        is_stopped = stopped() or 0 <= max_iter <= n_iter
        return is_stopped

    point, best = None, None
    if coef0 is not None:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            point = point_from_coef(problem, coef0)
            best = finish(problem, point, _ROUNDS_OF_START)
        if not _is_exact(best, tol):
            point = best = None
    for gap in [] if best is not None else np.array(_GAPS) / len(K):
        n_before = -1 if point is None else point.n_iter
        # After an overflow the point is not optimal, and the stop reason says so.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            point = minimise(problem, gap, stop, point)
            if best is not None and point.n_iter == n_before:
                continue  # the point has this gap already
            optimum = finish(problem, point)
        if best is None or (optimum.equality_error > MAX_EQUALITY_ERROR, optimum.gap) < (
            best.equality_error > MAX_EQUALITY_ERROR,
            best.gap,
        ):
            best = optimum
        if is_stopped or _is_exact(best, tol):
            break
    assert best is not None
    assert point is not None
    n_iter = point.n_iter
    del point
    best = assess(problem, without_overlap(problem, best.x), best.b)
    coef = problem.coef(best.x) + 0.0  # no -0.0
    if best.equality_error <= MAX_EQUALITY_ERROR and best.violation + K.entry_rounding(coef) <= tol:
        reason = "tol"
    elif is_stopped:
        reason = "max_time" if stopped() else "max_iter"
    elif best.equality_error <= MAX_EQUALITY_ERROR and best.violation <= max(
        rounding(K.diagonal, coef), K.entry_rounding(coef)
    ):
        reason = "rounding"
    else:
        reason = "failed"
    return InteriorResult(
        coef=coef,
        intercept=float(best.b[0]) - K.offset(coef) if len(problem.A) else 0.0,
        objective=best.objective,
        violation=best.violation,
        duality_gap=best.gap,
        n_iter=n_iter,
        stop_reason=reason,
    )


def rounding(diagonal: np.ndarray, coef: np.ndarray) -> float:
    """Estimate the rounding error of K b in float64: unit roundoffs of the coefficients and of the
    products, added as independent errors. diagonal : (n,), of K.
    """
    root = np.sqrt(np.maximum(diagonal, 0.0))
    products = float(np.linalg.norm(coef * root)) * float(root.max(initial=0.0))
    return _ROUNDOFFS * float(np.finfo(np.float64).eps) * products


def _is_exact(optimum: Optimum, tol: float) -> bool:
    return (
        optimum.equality_error <= MAX_EQUALITY_ERROR
        and optimum.violation <= tol
        and optimum.relative_gap <= _EXACT_GAP
    )


def _problem(
    K: Matrix,
    z: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    epsilon: float,
    totals: list[float],
) -> BoxQP:
    """State the dual of the module's docstring; `totals` holds s, or nothing without equality."""
    if epsilon == 0.0:
        signs, p = np.ones(1), -z
    else:
        signs, p = np.array([1.0, -1.0]), np.concatenate([epsilon - z, epsilon + z])
        zeros = np.zeros(len(z))
        lower, upper = np.concatenate([zeros, zeros]), np.concatenate([upper, -lower])
    A = np.tile(np.repeat(signs, len(z)), (len(totals), 1))
    return BoxQP(K, p, lower, upper, A, np.array(totals), signs)
