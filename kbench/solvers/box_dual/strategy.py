"""How a dual is solved: as a whole, or group by group where kernel values between groups vanish.

Without an intercept, groups are independent problems. With one, the multiplier c of the constraint
1'beta = const couples them: for a given c each group is a problem with bounds only, and the sum
h(c) = 1'beta(c) falls as c grows. The search for c is a secant method on h(c) = const:

    solve each group at c = 0 loosely; take secant steps in c, each from the last solution
    solve each group at c to tolerance; subtract the remaining h - const from the free points
    solve working sets across groups, with the sum fixed, until all violations are below tol

The last line takes few steps, because every group is nearly optimal for the same c.
"""

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kbench.kernels.threads import run_tasks
from kbench.solvers.box_dual.block_descent import BlockDescent
from kbench.solvers.box_dual.grouped_matrix import GroupedMatrix
from kbench.solvers.box_dual.iterate import Iterate, Subproblem
from kbench.solvers.box_dual.nested_subsets import NestedSubsets
from kbench.solvers.box_dual.options import SolverOptions
from kbench.solvers.box_dual.refinement import refine
from kbench.solvers.box_dual.row_cache import NEVER, RowCache, min_uses

# Problems of at most this many points are solved in float64 from the start: a float32 solve and its
# float64 verification would take as long. Set by hand.
_FLOAT64_POINTS = 1024
# Solves stop at this fraction of the tolerance, so that the float64 violation, which differs by
# rounding, is rarely above the tolerance (docs/solver.md, "Constants").
_TARGET = 0.9
# The search for the intercept solves groups to this tolerance, in units of the mean |z|, and ends
# after a step below _LEAST_STEP (set by hand) times the tolerance, or after _SECANT_STEPS. A more
# exact search saves working sets across groups and costs more solves (docs/solver.md, "Constants").
_SEARCH_TOLERANCE, _LEAST_STEP = 0.002, 0.1
_SECANT_STEPS = 6


@dataclass
class Strategy:
    """The parameters of a solve that its subproblems inherit."""

    cache_mb: float
    shrinking: bool
    rng: np.random.Generator
    options: SolverOptions

    def solver(self, iterate: Iterate) -> NestedSubsets:
        """Return a solver of one problem, with a row cache where storing rows pays.

        All points are active from the start if shrinking or the switch `nested_subsets` is off, if
        there are few points, or if rows are stored at their first use and half of all rows fit into
        the cache. Otherwise the active set S grows over nested subsets.
        """
        kernel, options = iterate.kernel, self.options
        first_stored_use = min_uses(kernel) if options.recompute_rows else 1
        rows = RowCache(kernel, self.cache_mb, first_stored_use)
        all_in_S = (
            not (self.shrinking and options.nested_subsets)
            or len(kernel) <= options.few_points
            or rows.holds_whole_rows
        )
        return NestedSubsets(iterate, self.descent(iterate, rows), self.rng, all_in_S)

    def descent(self, iterate: Iterate, rows: RowCache) -> BlockDescent:
        return BlockDescent(iterate, iterate.kernel, rows, self.options)

    def for_group(self, cache_mb: float) -> "Strategy":
        """Return the same strategy with a separate cache and an independent random stream."""
        return Strategy(cache_mb, self.shrinking, self.rng.spawn(1)[0], self.options)


def solve_whole(iterate: Iterate, tol: float, strategy: Strategy) -> tuple[float, str]:
    """Solve one problem to a violation of `tol`.

    Returns
    -------
    violation : float
        From float64 kernel values.
    stop_reason : str
        The limit that ended the solve, or "".
    """
    if len(iterate) <= _FLOAT64_POINTS:
        iterate.kernel = iterate.kernel.astype(np.float64)
    solver = strategy.solver(iterate)
    if iterate.beta.any():
        iterate.earlier_beta = iterate.beta.copy()
        iterate.compute_missing_residuals()
        iterate.objective = iterate.true_objective()
        if iterate.update_intercept() > _TARGET * tol:
            solver.from_here(_TARGET * tol)
    else:
        solver.from_zero(_TARGET * tol)
    return refine(iterate, solver.descent, tol)


def solve_groups(
    iterate: Iterate, groups: list[np.ndarray], tol: float, strategy: Strategy
) -> tuple[float, str]:
    """Solve groups between which kernel values are negligible; returns as `solve_whole`."""
    if iterate.coupled:
        return _solve_coupled(iterate, groups, tol, strategy)
    # Memory is divided as if all groups were solved at once. If the division depended on the number
    # of threads, other rows would be stored, and products with stored rows are rounded differently.
    n_pairs = sum(len(group) ** 2 for group in groups)
    results: list[tuple[float, str]] = []
    lock = threading.Lock()

    def solve(group: np.ndarray, strategy: Strategy) -> None:
        subproblem = Subproblem(iterate, group)
        result = solve_whole(subproblem.iterate, tol, strategy)
        with lock:
            subproblem.write_back()
            iterate.kernel.count(subproblem.iterate.kernel.n_entries)
            results.append(result)

    strategies = [
        strategy.for_group(strategy.cache_mb * len(group) ** 2 / n_pairs) for group in groups
    ]
    tasks = [
        functools.partial(solve, group, group_strategy)
        for group, group_strategy in zip(groups, strategies, strict=True)
    ]
    _for_each(groups, tasks, iterate)
    # A solved group has the reason "", the least of all strings.
    return max(violation for violation, _ in results), max(reason for _, reason in results)


def _for_each(
    groups: list[np.ndarray], tasks: Sequence[Callable[[], None]], iterate: Iterate
) -> None:
    """Do the task of each group, several at once unless a limit or a trace depends on the order."""
    if iterate.budget.order_is_observed:
        for task in tasks:
            task()
    else:
        largest_first = np.argsort([-len(group) for group in groups], kind="stable")
        run_tasks(tasks[index] for index in largest_first)


def _solve_coupled(
    iterate: Iterate, groups: list[np.ndarray], tol: float, strategy: Strategy
) -> tuple[float, str]:
    """Solve groups that share an intercept."""
    matrix = GroupedMatrix(iterate.kernel, groups)
    grouped = iterate.with_kernel(matrix)
    if not iterate.beta.any():
        _find_intercept(grouped, groups, tol, strategy)
    else:
        grouped.earlier_beta = grouped.beta.copy()
        grouped.compute_missing_residuals()
    grouped.objective = grouped.true_objective()
    descent = strategy.descent(grouped, RowCache(matrix, 0.0, NEVER))
    if grouped.update_intercept() > _TARGET * tol:
        NestedSubsets(grouped, descent, strategy.rng, False).from_here(_TARGET * tol)
    result = refine(grouped, descent, tol)
    iterate.beta, iterate.residual = grouped.beta, grouped.residual
    iterate.earlier_beta = grouped.earlier_beta
    iterate.intercept, iterate.residual_error = grouped.intercept, grouped.residual_error
    iterate.kernel.count(matrix.n_entries)
    return result


def _find_intercept(
    grouped: Iterate, groups: list[np.ndarray], tol: float, strategy: Strategy
) -> None:
    """Move `grouped` from beta = 0 to near the solution with 1'beta = 0; update its residual."""
    subproblems = [Subproblem(grouped, group) for group in groups]
    iterates = [subproblem.iterate for subproblem in subproblems]
    n_pairs = sum(len(group) ** 2 for group in groups)
    solvers = [
        strategy.for_group(strategy.cache_mb * len(group) ** 2 / n_pairs).solver(iterate)
        for group, iterate in zip(groups, iterates, strict=True)
    ]
    search_tol = _SEARCH_TOLERANCE * grouped.scale

    def solve_all(solve: Callable[[NestedSubsets], None]) -> None:
        _for_each(groups, [functools.partial(solve, solver) for solver in solvers], grouped)

    solve_all(lambda solver: solver.from_zero(search_tol))

    def surplus() -> float:
        return sum(float(iterate.beta.sum()) for iterate in iterates)

    def solve_at(intercept: float, tolerance: float) -> float:
        for iterate in iterates:
            iterate.intercept = intercept
        solve_all(lambda solver: solver.from_here(tolerance))
        return surplus()

    c, h = grouped.intercept, surplus()
    n_free = sum(int(np.count_nonzero(iterate.free())) for iterate in iterates)
    # If kernel values between free points were 0, beta_i would fall by 1 / K_ii as c grows by 1.
    slope = -max(n_free, 1) / float(np.median(grouped.diagonal))
    for _ in range(_SECANT_STEPS):
        step = -h / slope
        if abs(step) < _LEAST_STEP * search_tol:
            break
        before, h = h, solve_at(c + step, search_tol)
        c += step
        if (h - before) * step < 0.0:
            slope = (h - before) / step
    h = solve_at(c - h / slope, _TARGET * tol)
    for subproblem in subproblems:
        subproblem.write_back()
    grouped.intercept = iterates[0].intercept
    grouped.lower_sum(h)
