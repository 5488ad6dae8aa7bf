"""Duals of support vector machines with the parameter nu.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,   1'b = 0,   |b|_1 = t or <= t,        e = z - Kb

nu-classification has z = 0, bounds [0, w_i] and [-w_i, 0] of the two classes and |b|_1 = t, so that
the coefficients of each class sum to t / 2; nu-regression has the targets z, bounds of both signs
and |b|_1 <= t. The multiplier of 1'b is the intercept c, and the multiplier of |b|_1 is epsilon:
half the width of a regression's tube; in a classifier, minus its margin. Free points have
e = c + epsilon if b > 0 and e = c - epsilon if b < 0.

    b <- 0 (regression); in a classifier, the points whose decision values y_i f(x_i) are lowest by
         the solution of a quarter of the points go to their bounds (the first points, if n <= 4096)
    repeat
      W = newer half of the last W + the worst violators of each side
      descend on b_W with K_WW                                              `side_steps`
      e <- e - K[:, moved] (change of b)
      if more points are free than fit into half of W: twice as many in W, or all
    until the violation is below tol
    e <- z - Kb in float64, where it counts; repeat if the violation is now above tol

If steps on a stored matrix have taken as long as the interior-point method would, that method
solves the problem, and steps go on from its optimum: where C times the kernel values is large, the
steps alone would be millions of times as many.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.best_multiple import settle
from kbench.solvers.box_dual.block_descent import largest
from kbench.solvers.box_dual.iterate import MINUS_INFINITY, PATIENCE, Budget, free_points
from kbench.solvers.box_dual.row_cache import RowCache, min_uses, product_of_rows
from kbench.solvers.interior_point.counted_work import factorisation, steps_before
from kbench.solvers.interior_point.duals import rounding
from kbench.solvers.nu_dual.extremes import Extremes, middle
from kbench.solvers.nu_dual.interior_optimum import SUM_ERROR, optimum
from kbench.solvers.nu_dual.nu_problem import NuDualResult, NuProblem, Start, has_margin
from kbench.solvers.nu_dual.side_steps import side_steps
from kbench.trace import Trace

# Points of the first working sets: more points make steps longer and updates of e fewer. Set by
# hand.
_WORKING_SET = 1024
# Problems of at most this many points are one working set, in float64: 8 MiB of kernel values. Set
# by hand.
FLOAT64_POINTS = 1024
# Growth of the nested subsets on whose solutions a classifier starts: a lower one gives better
# starts and more subsets. Set by hand.
_GROWTH = 4
# A subset is solved until its violation is below this fraction of its first one. Set by hand.
_SUBSET_VIOLATION = 0.01
# A working set is left at the first fraction of the violation of all points, or at the second of
# the target, or after this number of steps per point; `box_dual.block_descent` explains the values.
_INNER_RELATIVE, _INNER_TARGET = 0.03, 0.75
_STEPS_PER_POINT = 20
# Multiplications of the steps between two checks of the time limit if the working set holds all
# points: about 0.2 s. Set by hand.
_WORK_OF_A_CALL = 2.0e8
# Guard, in place of `PATIENCE`: number of calls of steps on all points, which are longer, without a
# new minimum of the violation; rounding then prevents progress. The second number is for steps that
# begin at the optimum of the interior-point method.
_PATIENCE_OF_CALLS, _PATIENCE_AT_OPTIMUM = 20, 1
# Steps aim at this fraction of the tolerance, because the violation in float64 differs by rounding.
# Set by hand.
TARGET = 0.9
# Guard: float64 recomputations of all residuals. Each halves the violation or makes the steps use
# float64 kernel values; once they do, the first that does not halve the violation is the last.
_MAX_ROUNDS = 30
# If the margin of a classifier is not above half of the violation, the tolerance falls by tens,
# down to this fraction of `tol`. The further steps are limited to the number of steps so far, or to
# this number if it is larger. Set by hand: lower tolerances take more steps, and decide more of the
# margins.
_LEAST_TOLERANCE, _MIN_MORE_STEPS = 0.01, 10_000
# Steps are taken in float64 if this many units in the last place of the largest float32 residual
# exceed the violation that is to be reached. Set by hand.
_FLOAT32_UNITS = 64.0
# A working set takes all points if it would have more than this fraction of them. Set by hand.
_MOST_OF_POINTS = 0.65
# Guard: rounding errors of float32 sums of products, in units in the last place of the sum of the
# products' absolute values. Loops of kbench add four or eight products at a time, BLAS adds
# thousands in many lanes.
_SUM_UNITS = 64.0


def solve_nu_dual(
    kernel: KernelMatrix,
    z: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    norm: float,
    *,
    start: Start | None = None,
    tol: float = 1e-3,
    cache_mb: float = 1000.0,
    max_iter: int = -1,
    max_time: float | None = None,
    shrinking: bool = True,
    random_state: Any = 0,
    trace: Trace | None = None,
) -> NuDualResult:
    """Solve the dual to a violation of at most `tol`.

    kernel : KernelMatrix of n points
        Its dtype is the precision of the steps of more than 1,024 points.
    z, lower, upper : (n,) float64
    norm : t. If one of the bounds of each point is 0, the upper bounds must sum to t / 2 at least,
        and so must the sizes of the lower ones; |b|_1 = t. Otherwise |b|_1 <= t.
    start : The point that earlier steps with all points have reached; by default there are none
    tol : Violation to reach, in units of e; LIBSVM's default
    cache_mb : MiB that kernel values may take
    max_iter : Limit on steps; -1 means no limit
    max_time : Limit in seconds, checked between working sets
    shrinking : Whether a classifier starts from the solutions of subsets
    random_state : int or RandomState. Draws the subsets.
    trace : Receives alpha = |b|, objective, violation and n_support after each working set

    After a limit, b is feasible.

    Each working set of q points costs n q kernel values, fewer with a larger `cache_mb`, and O(q) a
    step; it holds all points if about a third of them are free, and n^2 values fit into half of
    `cache_mb`.
    """
    budget = Budget(
        math.inf if max_iter < 0 else max_iter, max_time, Trace() if trace is None else trace
    )
    problem = NuProblem(kernel, z, lower, upper, norm)
    descent = _Descent(problem, budget, cache_mb)
    rng = None
    if shrinking and len(z) > _GROWTH * _WORKING_SET:
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    descent.start(rng, start)
    result = descent.solve_exactly(tol)
    if result.stop_reason != "tol" or not problem.has_fixed_norm:
        return result
    if not has_margin(result) and problem.has_shared_points():
        return replace(result, stop_reason="margin")
    least_tol, max_steps = tol * _LEAST_TOLERANCE, budget.max_iter
    budget.max_iter = min(max_steps, budget.n_iter + max(budget.n_iter, _MIN_MORE_STEPS))
    while result.stop_reason == "tol" and not has_margin(result) and tol > least_tol:
        tol *= 0.1
        result = descent.solve_exactly(tol)
    if result.stop_reason == "max_time" or budget.n_iter >= max_steps:
        return result
    return replace(result, stop_reason="tol" if has_margin(result) else "margin")


def first_steps(n: int, cache_mb: float) -> int:
    """How many steps `solve_nu_dual` takes among n points before it checks its limits."""
    return min(int(_WORK_OF_A_CALL / n), _steps_before_interior(n, cache_mb))


def _steps_before_interior(n: int, cache_mb: float) -> int:
    """Steps before the interior-point method, which needs three matrices."""
    if n > FLOAT64_POINTS or 24.0 * n * n > cache_mb * 2**20:
        return 2**62
    return steps_before(n, factorisation(n, math.inf))


class _Descent:
    """A feasible point of a problem with its residual, and the steps that improve it."""

    def __init__(self, problem: NuProblem, budget: Budget, cache_mb: float) -> None:
        n = len(problem.z)
        if n <= FLOAT64_POINTS:
            problem = problem._replace(kernel=problem.kernel.astype(np.float64))
        self.problem, self.budget, self._cache_mb = problem, budget, cache_mb
        self.beta, self.e = np.zeros(n), problem.z.copy()
        self.slack = -1.0 if problem.has_fixed_norm else problem.norm
        self._moved = 0.0  # sum of all |changes| of beta, to which errors of e are proportional
        self._patience = _PATIENCE_OF_CALLS
        diagonal = problem.kernel.diagonal()
        # Guard: steps divide by curvatures, so the diagonal has to be positive.
        self._diagonal = np.maximum(diagonal, max(1e-12 * np.abs(diagonal).max(), 1e-30))
        self._set_kernel(problem.kernel)
        self._before_interior = _steps_before_interior(n, cache_mb)

    def _set_kernel(self, kernel: KernelMatrix) -> None:
        """Take steps with the values of this matrix."""
        self._kernel, self._matrix = kernel, np.empty((0, 0), kernel.dtype)
        self._rows: RowCache | None = None
        # Half of `cache_mb` MiB is for rows, or for the matrix of all points.
        half = 2**19 * self._cache_mb
        self._size_limit = max(_WORKING_SET, math.isqrt(int(half / kernel.dtype.itemsize)))

    def start(self, rng: np.random.Generator | None, earlier: Start | None = None) -> None:
        """Find a feasible point; with `rng`, by the solution of a quarter of the points."""
        problem, n = self.problem, len(self.beta)
        if earlier is not None:
            self._move_to(earlier.beta)
            self.budget.spend(earlier.n_iter)
            # At least one step is left, because a descent that takes no step ends.
            self._before_interior = max(1, self._before_interior - earlier.n_iter)
            return
        if not problem.has_fixed_norm:
            return
        decision = np.zeros(n)  # K b of the solution of a subset
        if rng is not None and n > _GROWTH * _WORKING_SET:
            rows = np.sort(rng.choice(n, n // _GROWTH, replace=False))
            subset = _Descent(problem.take(rows), self.budget, self._cache_mb)
            subset.start(rng)
            subset.solve(_SUBSET_VIOLATION * subset.violation)
            support = np.flatnonzero(subset.beta)
            decision = self._row_cache().product(rows[support], subset.beta[support])
        beta = _fill_in_order(-decision, problem.upper, 0.5 * problem.norm)
        self._move_to(beta - _fill_in_order(decision, -problem.lower, 0.5 * problem.norm))

    def _move_to(self, beta: np.ndarray) -> None:
        """Go from 0 to these coefficients."""
        self.beta, moved = beta, np.flatnonzero(beta)
        self.e -= self._row_cache().product(moved, beta[moved])
        self._moved += float(np.abs(beta).sum())

    def extremes(self) -> Extremes:
        """The extremes of e at the current coefficients."""
        b, e, lower, upper = self.beta, self.e, self.problem.lower, self.problem.upper
        can_grow, can_fall = b < upper, b > lower
        points = (can_grow & (b >= 0.0), b > 0.0, b < 0.0, can_fall & (b <= 0.0))
        values = (
            e[points[0]].max(initial=-np.inf),
            e[points[1]].min(initial=np.inf),
            e[points[2]].max(initial=-np.inf),
            e[points[3]].min(initial=np.inf),
        )
        return Extremes(points, tuple(float(value) for value in values))

    def violation_of(self, extremes: Extremes) -> float:
        """The largest violation of the kinds of steps that `side_steps` may take."""
        high_above, low_above, high_below, low_below = extremes.values
        violations = [0.0, high_above - low_above, high_below - low_below]
        if self.slack >= 0.0:
            violations.append(high_below - low_above)
        if self.slack > 0.0:
            violations.append(high_above - low_below)
        return max(violations)

    @property
    def violation(self) -> float:
        return self.violation_of(self.extremes())

    def solve_exactly(self, tol: float) -> NuDualResult:
        """Lower the violation to `tol` by float64 residuals of all points that can be extremes."""
        kernel, previous = self.problem.kernel.astype(np.float64), math.inf
        for _ in range(_MAX_ROUNDS):
            self.solve(TARGET * tol)
            support, relevant, K = np.flatnonzero(self.beta), self._relevant_points(), self._matrix
            b = self.beta[support]
            # Float64 values of all points that the steps have stored are not computed again.
            stored = K.dtype == np.float64 and len(K) == len(self.beta)
            rows = relevant if len(relevant) < len(self.beta) else None
            product = product_of_rows(K, support, b) if stored else kernel.product(support, b, rows)
            self.e[relevant] = self.problem.z[relevant] - product
            violation = self.violation
            if violation <= tol:
                return self._result(violation, "tol")
            if limit := self.budget.reached_limit():
                return self._settled(limit)
            if violation > 0.5 * previous or violation <= self._rounding < previous < math.inf:
                if self._kernel.dtype == np.float64:
                    break
                self._set_kernel(kernel)
            previous = violation
        final = self._result(violation, "precision")
        if self.problem.has_fixed_norm:
            return final
        # Coefficients of large bounds may be so inexact that a multiple of them is better.
        return min(final, self._settled("precision"), key=lambda r: r.duality_gap - r.objective)

    def solve(self, target: float) -> None:
        """Lower the violation to `target`, or until a limit or rounding prevents it."""
        problem, budget = self.problem, self.budget
        n, lower, upper = len(self.beta), problem.lower, problem.upper
        size = self._allowed_size(max(_WORKING_SET, len(self._matrix)))
        newest = np.empty(0, np.intp)
        lowest, n_stalled = math.inf, 0
        while True:
            extremes = self.extremes()
            violation = self.violation_of(extremes)
            self._report(violation)
            if violation <= target or budget.reached_limit():
                return
            lowest, n_stalled = min(lowest, violation), 0 if violation < lowest else n_stalled + 1
            if n_stalled > (self._patience if len(self._matrix) == n else PATIENCE):
                return
            n_free = int(np.count_nonzero(free_points(self.beta, lower, upper)))
            if 2 * n_free > size and size < n:
                size = self._allowed_size(2 * max(size, n_free))
            W, newest = self._working_set(extremes, newest, size)
            is_whole = len(W) == n
            stop = target if is_whole else max(_INNER_RELATIVE * violation, _INNER_TARGET * target)
            if not self._descend(W, stop, sum(extremes.middles) / 2.0, is_whole=is_whole):
                return
            if is_whole and self._before_interior <= 0:
                self._before_interior = 2**62
                self._by_interior_point(target)
            elif is_whole and self._matrix.dtype == np.float64 and self.violation <= self._rounding:
                return

    def _allowed_size(self, size: int) -> int:
        """`size`, or the number of all points if `size` is most of them; at most `_size_limit`."""
        n = len(self.beta)
        return min(n if size > _MOST_OF_POINTS * n else size, self._size_limit)

    def _relevant_points(self) -> np.ndarray:
        """Points whose residuals count; those of the others need not be exact.

        The others have b = 0 and are farther from a violation than the errors of e, so that they
        add nothing to the violation, the multipliers, the objective and the duality gap.
        """
        kernel, is_zero = self._kernel, self.beta == 0.0
        if kernel.dtype == np.float64 or not kernel.kernel.is_definite or self.slack > 0.0:
            return np.arange(len(is_zero))
        eps = float(np.finfo(np.float32).eps)
        unit = kernel.entry_error + _SUM_UNITS * eps * self._diagonal.max()
        # A residual and the extreme with which it is compared both have an error.
        error = 2.0 * unit * self._moved
        (up, _, _, down), (high_above, low_above, high_below, low_below) = self.extremes()
        far_below = ~up | (self.e < min(high_above, low_above) - error)
        far_above = ~down | (self.e > max(high_below, low_below) + error)
        return np.flatnonzero(~(is_zero & far_below & far_above))

    def _working_set(
        self, extremes: Extremes, newest: np.ndarray, size: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The next working set, and its points that were not in the last one."""
        n = len(self.beta)
        if n <= size:
            return np.arange(n), newest
        newest = newest[: size // 2]
        is_taken = np.zeros(n, bool)
        is_taken[newest] = True
        new = []
        for can_move, sign in zip(extremes.points, (1.0, -1.0, 1.0, -1.0), strict=True):
            candidates = can_move & ~is_taken
            n_added = min((size - len(newest)) // 4, int(np.count_nonzero(candidates)))
            if n_added:
                worst = largest(np.where(candidates, sign * self.e, MINUS_INFINITY), n_added)
                is_taken[worst] = True
                new.append(worst)
        added = np.concatenate(new) if new else newest[:0]
        return np.concatenate([newest, added]), added

    def _descend(self, W: np.ndarray, stop: float, centre: float, *, is_whole: bool) -> int:
        """Take steps on the working set, with residuals about `centre`; returns how many."""
        problem, budget, before = self.problem, self.budget, self.beta[W]
        K, e = self._gram(W, is_whole=is_whole), self.e[W] - centre
        resolution = float(np.finfo(np.float32).eps) * float(np.abs(e).max())
        if K.dtype == np.float32 and _FLOAT32_UNITS * resolution > stop:
            K = K.astype(np.float64)
        max_steps = _STEPS_PER_POINT * len(W)
        if is_whole:
            max_steps = min(int(_WORK_OF_A_CALL / len(W)), self._before_interior)
        beta = before.copy()
        steps, self.slack = side_steps(
            K,
            beta,
            e,
            problem.lower[W],
            problem.upper[W],
            self._diagonal[W],
            self.slack,
            stop,
            int(min(max_steps, budget.max_iter - budget.n_iter)),
        )
        budget.spend(steps)
        self._before_interior -= steps if is_whole else 0
        moved = np.flatnonzero(beta != before)
        change = (beta - before)[moved]
        self.beta[W] = beta
        self._moved += float(np.abs(change).sum())
        if is_whole:
            self.e -= product_of_rows(K, moved, change)
        elif len(moved):
            self.e -= self._row_cache().product(W[moved], change)
        return steps

    @property
    def _rounding(self) -> float:
        """Violation that float64 sums of these coefficients cannot tell from 0."""
        return rounding(self._diagonal, self.beta)

    def _by_interior_point(self, tol: float) -> None:
        """Move to the optimum of the interior-point method, if its violation is lower."""
        z, lower, upper, norm = self.problem[1:]
        b = optimum(self._matrix, z, lower, upper, norm, tol=tol, budget=self.budget)
        if b is None:
            return
        before = self.beta, self.e, self.slack, self.violation
        self.beta, self.e = b, z - matmul(self._matrix, b)
        if not self.problem.has_fixed_norm:
            remaining = norm - float(np.abs(b).sum())
            self.slack = remaining if remaining > SUM_ERROR * norm else 0.0
        if self.violation < before[-1]:
            self._patience = _PATIENCE_AT_OPTIMUM
        else:
            self.beta, self.e, self.slack, _ = before

    def _gram(self, W: np.ndarray, *, is_whole: bool) -> np.ndarray:
        if len(self._matrix) == len(W) and is_whole:
            return self._matrix
        if not is_whole:
            return self._row_cache().gram(W)
        if len(W) <= FLOAT64_POINTS:
            self._matrix = self._kernel.square(W)
        else:
            # The matrix takes the memory of the rows.
            self._matrix, self._rows = self._row_cache().matrix(), None
        return self._matrix

    def _row_cache(self) -> RowCache:
        if self._rows is None:
            n = len(self.beta)
            self._rows = RowCache(self._kernel, 0.5 * self._cache_mb, min_uses(self._kernel))
            self._rows.lay_out(np.arange(n), n)
        return self._rows

    def _report(self, violation: float) -> None:
        if self.budget.trace.active:
            self.budget.trace(
                alpha=np.abs(self.beta),
                objective=self.objective,
                violation=violation,
                n_support=int(np.count_nonzero(self.beta)),
            )

    @property
    def objective(self) -> float:
        return -0.5 * float(matmul(self.beta, self.problem.z + self.e))

    def _settled(self, limit: str) -> NuDualResult:
        """The result at a limit; a regression is settled by `kbench.solvers.best_multiple`."""
        problem = self.problem
        if problem.has_fixed_norm:
            return self._result(self.violation, limit)
        bounds = problem.lower, problem.upper
        best = settle(self.beta, self.e, problem.z, *bounds, epsilon=0.0, coupled=True)
        self.beta *= best.multiple
        self.e = problem.z - best.multiple * (problem.z - self.e)
        self.slack = max(problem.norm - float(np.abs(self.beta).sum()), 0.0)
        result = self._result(self.violation, limit)
        gap = max(best.primal + result.objective, 0.0)
        return replace(result, intercept=best.intercept, epsilon=0.0, duality_gap=gap)

    def _multipliers(self) -> tuple[float, float]:
        """The intercept and epsilon."""
        b, extremes = self.beta, self.extremes()
        free = free_points(b, self.problem.lower, self.problem.upper)
        above, below = (
            float(self.e[free & side].mean()) if (free & side).any() else middle
            for side, middle in zip((b > 0.0, b < 0.0), extremes.middles, strict=True)
        )
        if self.slack > 0.0 or (self.slack == 0.0 and above < below):
            # epsilon is 0, so that the points above and below 0 share one multiplier.
            high_above, low_above, high_below, low_below = extremes.values
            centre = middle(min(low_above, low_below), max(high_above, high_below))
            return (float(self.e[free].mean()) if free.any() else centre), 0.0
        return 0.5 * (above + below), 0.5 * (above - below)

    def _result(self, violation: float, reason: str) -> NuDualResult:
        """The result for the current point, whose residual is exact."""
        problem, b, e = self.problem, self.beta, self.e
        intercept, epsilon = self._multipliers()
        # The largest gain of each coefficient at these multipliers, at one of its bounds or 0.
        s = e - intercept
        best = np.maximum(problem.upper * (s - epsilon), problem.lower * (s + epsilon))
        gain = np.maximum(best, 0.0) - b * s + epsilon * np.abs(b)
        gap = float(gain.sum()) + epsilon * max(self.slack, 0.0)
        return NuDualResult(
            coef=b,
            intercept=intercept,
            epsilon=epsilon,
            objective=self.objective,
            violation=violation,
            duality_gap=gap,
            n_iter=self.budget.n_iter,
            stop_reason=reason,
        )


def _fill_in_order(priority: np.ndarray, upper: np.ndarray, total: float) -> np.ndarray:
    """Return coefficients (n,) >= 0 with the sum `total`, at their bounds `upper` : (n,) for the
    points of highest `priority` : (n,), and 0 for the others."""
    largest_first = np.argsort(-priority, kind="stable")
    sorted_upper = upper[largest_first]
    filled = np.empty(len(upper))
    filled[largest_first] = np.clip(
        total - (np.cumsum(sorted_upper) - sorted_upper), 0.0, sorted_upper
    )
    return filled
