"""Dual of the support vector machine: a quadratic problem over a box, with or without intercept.

min_a  f(a) = 1/2 a'Qa + p'a,   0 <= a_i <= C_i   [ , y'a = const ],   Q_ij = y_i y_j k(x_i, x_j)
"""

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kbench.kernels import KernelMatrix
from kbench.solvers.block_descent import WORKING_SET
from kbench.solvers.duplicates import Duplicates
from kbench.solvers.iterate import Budget, Iterate
from kbench.solvers.split import independent_groups
from kbench.solvers.strategy import FEW_POINTS, Strategy, solve_groups, solve_whole
from kbench.trace import Trace

# The part of the tolerance that splitting may use up.
_NEGLECTED = 0.1
# Points that one working set holds are solved together, whether they see one another or not.
_FEW_IN_GROUP = WORKING_SET


@dataclass(frozen=True)
class BoxDualResult:
    """Solution of the dual and how it was reached.

    Attributes
    ----------
    alpha : (n,) float64
    gradient : (n,) float64
        Qa + p. From float64 kernel values where a point is free or near its margin; further away
        from float32 values, with an error far below the distance.
    gradient_error : float
        The largest error that was seen in those; 0 where all are from float64 values.
    intercept : float
        0 where the problem has none.
    objective : float
        f(alpha), to be minimised.
    violation : float
        LIBSVM's criterion, from float64 kernel values: with intercept
        max {-y_i G_i : a can go up} - min {-y_i G_i : a can go down}, else the largest projected
        gradient.
    duality_gap : float
        sum_i a_i max(0, g_i) + (C_i - a_i) max(0, -g_i), g = gradient + y intercept: primal less
        dual objective, >= 0.
    n_iter : int
        Steps of one or two coordinates.
    kernel_entries : int
        Kernel values computed.
    converged : bool
        Whether violation <= tol.
    stop_reason : {"tol", "max_iter", "max_time", "precision"}
        "precision": the violation cannot be lowered in float64.
    n_groups : int
        Parts that were solved one by one because no kernel value between them matters.
    """

    alpha: np.ndarray
    gradient: np.ndarray
    gradient_error: float
    intercept: float
    objective: float
    violation: float
    duality_gap: float
    n_iter: int
    kernel_entries: int
    converged: bool
    stop_reason: str
    n_groups: int


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
        p; default -1, the classifier's. Regression on targets t with an epsilon-insensitive loss
        has every point twice, `kernel.take(np.tile(np.arange(n), 2))`, with y = +1 and
        p = epsilon - t, then with y = -1 and p = epsilon + t.
    alpha0 : (n,), optional
        Where to start; clipped into the box. Costs one kernel row for each entry that is not zero.
    gradient0 : (n,), optional
        Qa + p at alpha0, nan where it is not known: kernel rows are then as long as there are
        points without. Not used where alpha0 has to be clipped.
    gradient_error : float
        Bound on the error of gradient0.
    tol : float
        On the violation, in units of the margin.
    cache_mb : float
        MiB for kernel rows, at most; memory is taken as rows are stored.
    max_iter : int
        Limit on steps; -1 is none.
    max_time : float, optional
        Limit in seconds, looked at between working sets and not during the final evaluation.
    shrinking : bool
        Whether points that matter little are set aside; never changes what the result satisfies.
    split : bool
        Whether to solve apart what is so far apart that the kernel between cannot be seen at `tol`.
    random_state : int or RandomState
        Of the nested subsets.
    trace : Trace, optional
        Told alpha, objective, violation, n_support, n_active after each working set.

    Returns
    -------
    BoxDualResult
        Also after a limit: alpha is then feasible and the report is true for it.

    Notes
    -----
    O(d) for each kernel value; every point is compared with every support vector about twice, and
    points that matter a few times more. Memory: `cache_mb`, O(n d) for the prepared points in both
    precisions, O(n).
    """
    n = len(kernel)
    y = np.asarray(y, np.float64)
    C = np.broadcast_to(np.asarray(C, np.float64), (n,))
    p = np.full(n, -1.0) if linear is None else np.asarray(linear, np.float64)
    alpha0 = np.zeros(n) if alpha0 is None else np.asarray(alpha0, np.float64)
    budget = Budget(
        math.inf if max_iter < 0 else max_iter,
        math.inf if max_time is None else max_time,
        Trace() if trace is None else trace,
    )
    entries_before = kernel.n_entries
    beta = _feasible(y, C, alpha0, intercept)
    known = gradient0 is not None and np.array_equal(beta, y * alpha0)
    iterate = Iterate(
        kernel,
        -y * p,
        np.minimum(0.0, y * C),
        np.maximum(0.0, y * C),
        coupled=intercept,
        budget=budget,
        beta=beta,
        residual=-y * gradient0 if known else None,
        residual_error=gradient_error if known else 0.0,
    )
    share = 2.0 if intercept else 1.0
    seed = check_random_state(random_state).randint(2**31 - 1)
    strategy = Strategy(cache_mb, shrinking, np.random.default_rng(seed))
    copies = None
    if n > FEW_POINTS and kernel.X is not None:
        copies = Duplicates.of(kernel.X, y > 0.0, iterate.z)
    problem = iterate if copies is None else copies.merged(iterate)
    groups = []
    if split and len(problem) > FEW_POINTS:
        groups = independent_groups(
            problem.kernel, float(C.sum()), _NEGLECTED * tol / share, _FEW_IN_GROUP
        )
    neglected = _NEGLECTED * tol if groups else 0.0
    solve = functools.partial(solve_groups, groups=groups) if groups else solve_whole
    violation, stop_reason = solve(problem, tol=(tol - neglected) / share, strategy=strategy)
    violation = share * violation + neglected
    if copies is not None:
        iterate.beta = copies.share_out(problem.beta, iterate.lower, iterate.upper)
        iterate.residual, iterate.intercept = problem.residual[copies.kind], problem.intercept
        iterate.residual_error = problem.residual_error
        kernel.count(problem.kernel.n_entries)
    iterate.objective = iterate.true_objective()
    iterate.report(violation / share, n)
    alpha = np.abs(iterate.beta)
    gradient = -y * iterate.residual
    margin = gradient + y * iterate.intercept
    return BoxDualResult(
        alpha=alpha,
        gradient=gradient,
        gradient_error=iterate.residual_error,
        intercept=iterate.intercept,
        objective=iterate.objective,
        violation=violation,
        duality_gap=float(np.sum(np.where(margin > 0.0, alpha, alpha - C) * margin)),
        n_iter=budget.n_iter,
        kernel_entries=kernel.n_entries - entries_before,
        converged=violation <= tol,
        stop_reason=stop_reason if violation > tol else "tol",
        n_groups=max(1, len(groups)),
    )


def _feasible(y: np.ndarray, C: np.ndarray, alpha0: np.ndarray, coupled: bool) -> np.ndarray:
    """y alpha0 in the box and, where `coupled`, with the sum that it had before; (n,)."""
    beta = y * np.clip(alpha0, 0.0, C)
    if coupled and not np.array_equal(beta, y * alpha0):
        surplus = float(np.sum(beta - y * alpha0))
        side = np.sign(beta) == np.sign(surplus)
        total = float(np.abs(beta[side]).sum())
        if total > 0.0:
            beta[side] *= max(0.0, 1.0 - abs(surplus) / total)
    return beta
