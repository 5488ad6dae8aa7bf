"""How a dual is solved as a whole, or group by group where an exact split has been found.

Without an intercept groups are problems of their own. With one, the multiplier b of the constraint
1'beta = const couples them: for a given b each group is a box-constrained problem, and the sum
h(b) = 1'beta(b) falls with b. So

    b from a random subset of the points
    solve each group at b loosely, then secant steps on h(b) = const, each from the last solution
    solve each group at b to tolerance; give the rest of h to the free points
    pairs of points across groups, until all have one b         few are left to do
"""

import functools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.kernels.threads import allowed_threads, in_any_order
from kbench.solvers.block_descent import BlockDescent
from kbench.solvers.grouped_matrix import GroupedMatrix
from kbench.solvers.iterate import Iterate
from kbench.solvers.nested_subsets import NestedSubsets
from kbench.solvers.refinement import refine
from kbench.solvers.row_cache import RowCache

# Up to here rows of the kernel matrix are so short that no point is set aside, and splitting saves
# nothing.
FEW_POINTS = 4000
# Up to here float64 costs no more than to repeat in it what was found in float32.
_TINY = 1024
# Nanoseconds that an entry may cost and still be computed once more rather than stored.
_STORING = 1.8
_NEVER = 1 << 30
# Inner solves end a little below the tolerance, so that the true violation is not above it.
_TARGET = 0.9
# Of the search for b, in units of the linear term.
_SAMPLE_SHARE = 0.1
_SAMPLE_TOLERANCE = 0.025
_SEARCH_TOLERANCE = 0.002
_SECANT_STEPS = 6


@dataclass
class Strategy:
    """What the caller allows."""

    cache_mb: float
    shrinking: bool
    rng: np.random.Generator

    def solver(self, iterate: Iterate) -> NestedSubsets:
        """A solver of one problem that stores rows where that pays."""
        kernel = iterate.kernel
        min_uses = _min_uses(kernel)
        rows = RowCache(kernel, 0.0 if min_uses == _NEVER else self.cache_mb, min_uses)
        everything = not self.shrinking or len(kernel) <= FEW_POINTS or rows.holds_whole_rows
        descent = BlockDescent(iterate, kernel, rows)
        return NestedSubsets(iterate, descent, self.rng, everything)

    def for_part(self, cache_mb: float) -> "Strategy":
        """The same with a part of the cache, and random numbers that no other part shares."""
        return Strategy(cache_mb, self.shrinking, self.rng.spawn(1)[0])


def solve_whole(iterate: Iterate, tol: float, strategy: Strategy) -> tuple[float, str]:
    """Solve one problem to a violation of `tol`; its true violation, and what stopped it or ""."""
    if len(iterate) <= _TINY:
        iterate.kernel = iterate.kernel.astype(np.float64)
    solver = strategy.solver(iterate)
    if iterate.beta.any():
        iterate.complete()
        iterate.objective = iterate.true_objective()
        if iterate.settle() > _TARGET * tol:
            solver.from_here(_TARGET * tol)
    else:
        solver.from_zero(_TARGET * tol)
    return refine(iterate, solver.descent, tol)


def solve_groups(
    iterate: Iterate, groups: list[np.ndarray], tol: float, strategy: Strategy
) -> tuple[float, str]:
    """Solve groups that do not see one another to `tol`; as `solve_whole`."""
    if iterate.coupled:
        return _solve_coupled(iterate, groups, tol, strategy)
    n_threads = 1 if iterate.budget.in_order else allowed_threads()
    results: list[tuple[float, str]] = []
    done = threading.Lock()

    def solve(group: np.ndarray, own: Strategy) -> None:
        part = iterate.part(group)
        result = solve_whole(part, tol, own)
        with done:
            iterate.adopt(part)
            iterate.kernel.count(part.kernel.n_entries)
            results.append(result)

    tasks = []
    for group in groups:
        own = strategy.for_part(strategy.cache_mb / n_threads)
        tasks.append(functools.partial(solve, group, own))
    _for_each(groups, tasks, iterate)
    return max(violation for violation, _ in results), max(reason for _, reason in results)


def _for_each(
    groups: list[np.ndarray], tasks: Sequence[Callable[[], None]], iterate: Iterate
) -> None:
    """Do the task of each group; several at once where no limit or trace depends on the order."""
    if iterate.budget.in_order:
        for task in tasks:
            task()
    else:
        largest_first = np.argsort([-len(group) for group in groups], kind="stable")
        in_any_order(tasks[number] for number in largest_first)


def _solve_coupled(
    iterate: Iterate, groups: list[np.ndarray], tol: float, strategy: Strategy
) -> tuple[float, str]:
    """Groups and their common intercept."""
    matrix = GroupedMatrix(iterate.kernel, groups)
    constant = float(iterate.beta.sum())
    whole = iterate.on(matrix)
    if not iterate.beta.any():
        _find_intercept(whole, groups, tol, constant, strategy)
    else:
        whole.complete()
    whole.objective = whole.true_objective()
    descent = BlockDescent(whole, matrix, RowCache(matrix, 0.0, _NEVER))
    if whole.settle() > _TARGET * tol:
        NestedSubsets(whole, descent, strategy.rng, False).from_here(_TARGET * tol)
    result = refine(whole, descent, tol)
    iterate.beta, iterate.residual = whole.beta, whole.residual
    iterate.intercept, iterate.residual_error = whole.intercept, whole.residual_error
    iterate.kernel.count(matrix.n_entries)
    return result


def _find_intercept(
    whole: Iterate, groups: list[np.ndarray], tol: float, constant: float, strategy: Strategy
) -> None:
    """Bring `whole` near the solution, its sum to `constant` and its residual up to date."""
    n = len(whole)
    sample = strategy.rng.permutation(n)[: max(int(_SAMPLE_SHARE * n), FEW_POINTS)]
    some = whole.part(sample, coupled=True)
    strategy.solver(some).from_zero(_SAMPLE_TOLERANCE * whole.scale)
    whole.intercept = some.intercept
    whole.kernel.count(some.kernel.n_entries)

    parts = [whole.part(group) for group in groups]
    area = sum(len(group) ** 2 for group in groups)
    solvers = [
        strategy.for_part(strategy.cache_mb * len(part) ** 2 / area).solver(part) for part in parts
    ]
    search = _SEARCH_TOLERANCE * whole.scale

    def everywhere(work: Callable[[NestedSubsets], None]) -> None:
        _for_each(groups, [functools.partial(work, solver) for solver in solvers], whole)

    everywhere(lambda solver: solver.from_zero(search))

    def surplus() -> float:
        return sum(float(part.beta.sum()) for part in parts) - constant

    def move(b: float, tolerance: float) -> float:
        for part in parts:
            part.intercept = b
        everywhere(lambda solver: solver.from_here(tolerance))
        return surplus()

    b, h = whole.intercept, surplus()
    n_free = sum(
        int(np.count_nonzero((part.beta > part.lower) & (part.beta < part.upper))) for part in parts
    )
    # Where no free point saw another, each would fall by as much as b grows.
    slope = -max(n_free, 1) / float(np.median(whole.diagonal))
    for _ in range(_SECANT_STEPS):
        step = -h / slope
        if abs(step) < 0.1 * search:
            break
        before, h = h, move(b + step, search)
        b += step
        if (h - before) * step < 0.0:
            slope = (h - before) / step
    h = move(b - h / slope, _TARGET * tol)
    for part in parts:
        whole.adopt(part)
    whole.intercept = parts[0].intercept
    _spread(whole, h)


def _spread(iterate: Iterate, surplus: float) -> None:
    """Take `surplus` from the sum of the free points, in proportion to their room."""
    before = iterate.beta.copy()
    end = iterate.lower if surplus > 0.0 else iterate.upper
    room = np.abs(before - end) * ((before > iterate.lower) & (before < iterate.upper))
    if room.sum() <= abs(surplus):
        room = np.abs(before - end)
    iterate.beta = before - surplus * room / max(float(room.sum()), 1e-300)
    np.clip(iterate.beta, iterate.lower, iterate.upper, out=iterate.beta)
    iterate.update(np.arange(len(iterate)), before)


def _min_uses(kernel: KernelMatrix) -> int:
    """From which use on a row of K is worth storing."""
    nanoseconds = kernel.nanoseconds
    return _NEVER if nanoseconds < 1.0 else math.ceil(_STORING / nanoseconds)
