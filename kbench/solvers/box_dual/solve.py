"""Duals of support vector machines: quadratic problems with bounds, with or without intercept.

docs/solver.md explains how the modules of this solver work together.

classification  min_a  1/2 a'Qa + p'a,   0 <= a_i <= C_i  [ , y'a = const ],  Q_ij = y_i y_j K_ij
regression      min_b  1/2 b'Kb - t'b + epsilon |b|_1,   l_i <= b_i <= u_i  [ , 1'b = const ]
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual.directions import intercept_at_ends
from kbench.solvers.box_dual.duplicates import Duplicates
from kbench.solvers.box_dual.iterate import Budget, Iterate
from kbench.solvers.box_dual.options import ALL_ON, SolverOptions
from kbench.solvers.box_dual.split import independent_groups
from kbench.solvers.box_dual.strategy import Strategy, solve_groups, solve_whole
from kbench.trace import Trace

# Fraction of the tolerance that neglected kernel values between groups may use: halving it moves
# the required distance between groups by only a few per cent (docs/solver.md, "Constants").
_NEGLECTED = 0.1
# With an intercept, groups are used if at most this fraction of all pairs of points is within a
# group. Groups that separate only outliers (heavy tails) save nothing, and they have a cost: the
# intercept is searched for, and at a fixed intercept a regression takes its steps one coordinate at
# a time, without the minima over free points (docs/solver.md, "Constants").
_MAX_PAIRS_WITHIN = 0.5


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What the results of both solvers have in common; see `BoxDualResult`."""

    intercept: float
    objective: float
    violation: float
    duality_gap: float
    n_iter: int
    kernel_entries: int
    converged: bool
    stop_reason: str
    n_groups: int


@dataclass(frozen=True, kw_only=True)
class RegressionDualResult(_Outcome):
    """Solution of the dual of epsilon-insensitive regression and how it was reached.

    Attributes
    ----------
    coef : (n,) float64
        b.
    intercept, objective, violation, duality_gap : float
        As in `BoxDualResult`; the criterion is max {e_i + lift_i} - min {e_i + drop_i} with
        e = t - Kb, see `kbench.solvers.box_dual.directions`.
    n_iter, kernel_entries, converged, stop_reason, n_groups
        As in `BoxDualResult`.
    """

    coef: np.ndarray


@dataclass(frozen=True, kw_only=True)
class BoxDualResult(_Outcome):
    """Solution of the dual and how it was reached.

    Attributes
    ----------
    alpha : (n,) float64
    gradient : (n,) float64
        Qa + p. The entries of points that are free or near the margin are from float64 kernel
        values, others from float32 values, whose error is far below the distance from the margin.
    gradient_error : float
        The largest error observed in entries from float32 values; 0 if all are from float64.
    intercept : float
        0 if the problem has no intercept.
    objective : float
        f(alpha), to be minimised.
    violation : float
        LIBSVM's criterion, from float64 kernel values: with intercept
        max {-y_i G_i : a can go up} - min {-y_i G_i : a can go down}, else the largest projected
        gradient.
    duality_gap : float
        sum_i a_i max(0, g_i) + (C_i - a_i) max(0, -g_i), g = gradient + y intercept: primal minus
        dual objective, >= 0.
    n_iter : int
        Steps of one or two coordinates.
    kernel_entries : int
        Number of kernel values computed, in any precision.
    converged : bool
        Whether violation <= tol.
    stop_reason : {"tol", "max_iter", "max_time", "precision"}
        "precision": the violation cannot be lowered in float64.
    n_groups : int
        Number of groups that were solved one by one (`split`); 1 without a decomposition.
    """

    alpha: np.ndarray
    gradient: np.ndarray
    gradient_error: float


def solve_box_dual(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: float | np.ndarray,
    *,
    intercept: bool = False,
    linear: np.ndarray | None = None,
    alpha0: np.ndarray | None = None,
    gradient0: np.ndarray | None = None,
    gradient_error: float = 0.0,
    tol: float = 1e-3,
    cache_mb: float = 1000.0,
    max_iter: int = -1,
    max_time: float | None = None,
    shrinking: bool = True,
    split: bool = True,
    random_state: Any = 0,
    trace: Trace | None = None,
    options: SolverOptions = ALL_ON,
) -> BoxDualResult:
    """Solve the dual to a violation of at most `tol`.

    Parameters
    ----------
    kernel : KernelMatrix of n points
        Its dtype is the precision of the steps.
    y : (n,) array of -1 and +1
    C : float or (n,) array, >= 0
        Upper bounds.
    intercept : bool
        Whether y'a is fixed, at y'alpha0 or 0; its multiplier is the intercept.
    linear : (n,), optional
        p; default -1, the classifier's.
    alpha0 : (n,), optional
        Starting point; clipped to the bounds. Costs one kernel row for each nonzero entry.
    gradient0 : (n,), optional
        Qa + p at alpha0, or nan for unknown entries. The kernel rows of alpha0 are then computed
        only at the points with nan. Ignored if alpha0 has to be clipped.
    gradient_error : float
        Bound on the error of gradient0.
    tol : float
        Violation to reach, in units of the margin; the default is LIBSVM's.
    cache_mb : float
        Upper bound on the memory for kernel rows, MiB; memory is used as rows are stored. The
        default is set by hand.
    max_iter : int
        Limit on steps; -1 means no limit.
    max_time : float, optional
        Limit in seconds, checked between working sets and not during the final evaluation.
    shrinking : bool
        Whether to work on a subset S of the points and check the others from time to time; with
        both values the result satisfies `tol` on all points.
    split : bool
        Whether to solve groups separately if kernel values between them are negligible at `tol`.
    random_state : int or RandomState
        Seed of the nested subsets.
    trace : Trace, optional
        Receives alpha, objective, violation, n_support, n_active after each working set.
    options : SolverOptions
        Switches for ablations and tests; not part of the public API.

    Returns
    -------
    BoxDualResult
        If a limit was reached, alpha is feasible and all values belong to this alpha.

    Notes
    -----
    A kernel value costs O(d). The kernel value of a point and a support vector is computed about
    twice, near the margin several times. Memory: `cache_mb`, O(n d) for the prepared points in both
    precisions, and O(n).
    """
    n = len(kernel)
    y = np.asarray(y, np.float64)
    C = np.broadcast_to(np.asarray(C, np.float64), (n,))
    p = np.full(n, -1.0) if linear is None else np.asarray(linear, np.float64)
    alpha0 = np.zeros(n) if alpha0 is None else np.asarray(alpha0, np.float64)
    budget = Budget(
        math.inf if max_iter < 0 else max_iter, max_time, Trace() if trace is None else trace
    )
    beta = _feasible(y, C, alpha0, intercept)
    uses_gradient0 = gradient0 is not None and np.array_equal(beta, y * alpha0)
    iterate = Iterate(
        kernel,
        -y * p,
        np.minimum(0.0, y * C),
        np.maximum(0.0, y * C),
        coupled=intercept,
        budget=budget,
        beta=beta,
        residual=-y * gradient0 if uses_gradient0 else None,
        residual_error=gradient_error if uses_gradient0 else 0.0,
    )
    seed = check_random_state(random_state).randint(2**31 - 1)
    strategy = Strategy(cache_mb, shrinking, np.random.default_rng(seed), options)
    outcome = _minimise(iterate, tol, strategy, split=split)
    alpha = np.abs(iterate.beta)
    gradient = -y * iterate.residual
    margin = gradient + y * iterate.intercept
    return BoxDualResult(
        alpha=alpha,
        gradient=gradient,
        gradient_error=iterate.residual_error,
        duality_gap=float(np.sum(np.where(margin > 0.0, alpha, alpha - C) * margin)),
        **outcome,
    )


def solve_regression_dual(
    kernel: KernelMatrix,
    targets: np.ndarray,
    C: float | np.ndarray,
    *,
    epsilon: float,
    lower: np.ndarray | None = None,
    coef0: np.ndarray | None = None,
    intercept: bool = True,
    tol: float = 1e-3,
    cache_mb: float = 1000.0,
    max_iter: int = -1,
    max_time: float | None = None,
    shrinking: bool = True,
    random_state: Any = 0,
    trace: Trace | None = None,
    options: SolverOptions = ALL_ON,
) -> RegressionDualResult:
    """Solve the dual of epsilon-insensitive regression to a violation of at most `tol`.

    Parameters
    ----------
    kernel : KernelMatrix of n points
        Its dtype is the precision of the steps.
    targets : (n,)
        t.
    C : float or (n,) array, >= 0
        Upper bounds of b.
    epsilon : float
        Half the width of the tube in which errors cost nothing, in units of the targets.
    lower : (n,), <= 0, optional
        Lower bounds of b; default -C.
    coef0 : (n,), optional
        Coefficients b to start from, within the bounds; default 0. Costs one kernel row for each
        nonzero entry.
    intercept : bool
        Whether b has the sum of `coef0`; the multiplier of this constraint is the intercept.
    tol : float
        Violation to reach, in units of the targets.
    cache_mb, max_iter, max_time, shrinking, random_state, trace, options
        As in `solve_box_dual`; the trace's alpha is |b|.

    Returns
    -------
    RegressionDualResult

    Notes
    -----
    The cost is that of `solve_box_dual` with n points: each row is one point.
    """
    C = np.broadcast_to(np.asarray(C, np.float64), (len(kernel),))
    lower = -C if lower is None else np.asarray(lower, np.float64)
    targets, trace = np.asarray(targets, np.float64), Trace() if trace is None else trace
    budget = Budget(math.inf if max_iter < 0 else max_iter, max_time, trace)
    iterate = Iterate(
        kernel,
        targets,
        lower,
        C,
        epsilon=epsilon,
        coupled=intercept,
        budget=budget,
        beta=None if coef0 is None else np.array(coef0, np.float64),
    )
    seed = check_random_state(random_state).randint(2**31 - 1)
    strategy = Strategy(cache_mb, shrinking, np.random.default_rng(seed), options)
    outcome = _minimise(iterate, tol, strategy, split=True)
    beta, error = iterate.beta, iterate.residual - iterate.intercept
    # The gap is the sum over points of what the best coefficient would gain. The gain is linear
    # between 0 and each bound, so the best coefficient is a bound or 0.
    highest = np.maximum(0.0, np.maximum(C * (error - epsilon), lower * (error + epsilon)))
    gain = highest - beta * error + epsilon * np.abs(beta)
    return RegressionDualResult(coef=beta, duality_gap=float(gain.sum()), **outcome)


def _minimise(iterate: Iterate, tol: float, strategy: Strategy, *, split: bool) -> dict[str, Any]:
    """Solve the iterate's problem in place: it becomes the solution, with residual and objective.

    Returns the fields of `_Outcome` except the duality gap.
    """
    kernel, options, n = iterate.kernel, strategy.options, len(iterate)
    entries_before = kernel.n_entries
    # The iterate's violations are distances from the intercept: half of LIBSVM's criterion.
    factor = 2.0 if iterate.coupled else 1.0
    copies = None
    if options.duplicates and n > options.few_points and kernel.X is not None:
        copies = Duplicates.of(kernel.X, iterate.upper > 0.0, iterate.z)
    problem = iterate if copies is None else copies.merged(iterate)
    groups = []
    if split and len(problem) > options.few_points:
        max_norm = float(np.maximum(iterate.upper, -iterate.lower).sum())
        groups = independent_groups(
            problem.kernel, max_norm, _NEGLECTED * tol / factor, options.smallest_group
        )
        if (
            iterate.coupled
            and sum(len(group) ** 2 for group in groups) > _MAX_PAIRS_WITHIN * len(problem) ** 2
        ):
            groups = []
    neglected = _NEGLECTED * tol if groups else 0.0
    solve = functools.partial(solve_groups, groups=groups) if groups else solve_whole
    violation, stop_reason = solve(problem, tol=(tol - neglected) / factor, strategy=strategy)
    if stop_reason in ("max_iter", "max_time"):
        problem.settle()
        _, violation = problem.extremes()
    violation = factor * violation + neglected
    if copies is not None:
        iterate.beta = copies.distribute(problem.beta, iterate.lower, iterate.upper)
        iterate.residual, iterate.intercept = problem.residual[copies.kind], problem.intercept
        iterate.residual_error = problem.residual_error
        kernel.count(problem.kernel.n_entries)
    if iterate.coupled and not stop_reason:
        state = iterate.beta, iterate.residual, iterate.lower, iterate.upper, iterate.epsilon
        iterate.intercept = intercept_at_ends(*state, iterate.intercept)
    iterate.objective = iterate.true_objective()
    iterate.report(violation / factor, n)
    return {
        "intercept": iterate.intercept,
        "objective": iterate.objective,
        "violation": violation,
        "n_iter": iterate.budget.n_iter,
        "kernel_entries": kernel.n_entries - entries_before,
        "converged": not stop_reason,
        "stop_reason": stop_reason or "tol",
        "n_groups": max(1, len(groups)),
    }


def _feasible(y: np.ndarray, C: np.ndarray, alpha0: np.ndarray, coupled: bool) -> np.ndarray:
    """Return y alpha0 clipped to the bounds; where `coupled`, with its sum restored; (n,).

    Coefficients move towards 0 first, and towards C if that does not suffice.
    """
    beta = y * np.clip(alpha0, 0.0, C)
    if coupled and not np.array_equal(beta, y * alpha0):
        surplus = float(np.sum(beta - y * alpha0))
        # First, how far coefficients with the sign of the surplus can move towards 0; then how far
        # coefficients of the other class can move towards C.
        for movable in (
            np.where(beta * surplus > 0.0, beta, 0.0),
            np.where(y * surplus < 0.0, beta - y * C, 0.0),
        ):
            total = float(movable.sum())
            if total != 0.0:
                fraction = min(1.0, surplus / total)
                beta -= fraction * movable
                surplus -= fraction * total
    return beta
