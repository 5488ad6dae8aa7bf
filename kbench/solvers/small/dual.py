"""Support vector problems of a few thousand points, and all pairs of classes.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u,    1'b = s

A pair of classes has z = 1, 0 <= b <= C on the first and z = -1, -C <= b <= 0 on the second class;
regression has z = y, |b| <= C; both have s = 0. `kbench.solvers.solve_box_dual` solves the same
problems and is faster for many points; `kbench.solvers.small.choice` chooses the solver of a
problem.

Each problem is one call of the compiled `descend`. Rows of the kernel matrix are computed when a
step first needs them and are stored as float32. Where their rounding could hide a violation above
the tolerance, the points that may be extreme are computed again in float64, and steps go on from
there, so that the criterion holds for float64 kernel values.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.solvers.best_multiple import settle
from kbench.solvers.box_dual.directions import intercept_at_ends
from kbench.solvers.interior_point.counted_work import steps_before
from kbench.solvers.interior_point.duals import solve_interior
from kbench.solvers.interior_point.problem import Matrix
from kbench.solvers.small import steps
from kbench.solvers.small.exact_optimum import ExactOptimum
from kbench.solvers.small.problems import (
    COEF,
    END,
    FIRST,
    GO_ON,
    KEPT,
    N_KEPT,
    N_PLANNED,
    N_WORK,
    POINTS,
    ROW,
    SET_UP,
    WHOLE,
    WIDTH,
)
from kbench.solvers.small.problems import solve_problems as _solve_problems
from kbench.solvers.small.rows import KernelValues, of_classes
from kbench.solvers.small.steps import (
    BETA,
    DROP,
    ENTRIES,
    ERROR,
    EXACT_BETA,
    EXACT_RESIDUAL,
    GAP,
    INTERCEPT,
    LIFT,
    LOWER,
    N_REPORTED,
    OBJECTIVE,
    OUT_OF_STEPS,
    PADDING,
    RESIDUAL,
    ROWS,
    SOLVED,
    STEPS,
    UPPER,
    VIOLATION,
    Z,
)
from kbench.trace import Deadline, Trace

# mypy takes compiled functions for ones without arguments.
account: Any = steps.account
begin_at: Any = steps.begin_at
solve_problems: Any = _solve_problems
# Guard: curvatures below this fraction of the largest diagonal entry are rounding of float32 rows.
_FLAT = 1e-6
# Guard: rounds of float64 values without progress (`steps.PROGRESS`) before the solver gives up:
# the problem cannot be solved to `tol` in the precision of its rows.
_MAX_ROUNDS_WITHOUT_PROGRESS = 5
# Float64 kernel values of a block, 8 MiB: memory against the overhead of a call. Set by hand.
_EXACT_ENTRIES = 2**20


@dataclass(frozen=True)
class SmallDualResult:
    """Solutions of m problems and how they were reached."""

    # float64. `solve_pairs`: (k - 1, n), as in `sklearn.svm.SVC`: for a point of class c, rows 0
    # ... c - 1 are its coefficients against the earlier classes, the others against the later ones.
    # `solve_each`: (m, n).
    coef: np.ndarray
    # (m,): the mean of z - Kb (regression: beside the tube) over free points, as in LIBSVM.
    intercept: np.ndarray
    objective: np.ndarray  # (m,): to be minimised
    # (m,): max {e_k + lift_k} - min {e_k + drop_k}, LIBSVM's criterion (see `steps`), from float64
    # kernel values after a limit and with "precision". With "tol" it may come from the stored
    # float32 rows; the violation from float64 values is then at most `tol`, too.
    violation: np.ndarray
    duality_gap: np.ndarray  # (m,): primal minus dual objective, at least 0
    n_iter: np.ndarray  # (m,) ints: steps
    # "tol", "max_iter", "max_time", "precision": float32 rows do not allow to reach `tol`, or
    # "rounding": float64 sums of these coefficients do not allow it.
    stop_reason: tuple[str, ...]
    kernel_entries: int  # Kernel values computed
    # tuple of m ints: iterations of the interior-point method that are among `n_iter`; 0 where it
    # was not needed.
    interior_iterations: tuple[int, ...]


@dataclass(frozen=True)
class StepLimits:
    """Limits on the steps of a problem."""

    tol: float
    max_iter: int  # Steps of each problem; -1 means no limit
    deadline: Deadline  # Of all problems together
    trace: Trace  # Receives objective, violation and n_support of the problem at hand
    # Steps between two checks of the deadline, and between two calls of the trace; 20,000 take
    # about 10 ms. Set by hand.
    steps_per_call: int = 20_000
    # MiB for float64 values: 3 n^2 of the interior-point method, 2 n^2 of an exact optimum. Set
    # by hand.
    memory_mb: float = 1000.0


def solve_pairs(
    rows: KernelValues,
    starts: np.ndarray,
    C: np.ndarray,
    limits: StepLimits,
    pairs: Sequence[tuple[int, int]],
    *,
    coef0: np.ndarray | None = None,
    memory_mb: float = 200.0,
) -> SmallDualResult:
    """Solve the problems of pairs of classes a < b; class a is the positive one.

    rows : KernelValues of n points sorted by class
    starts : (k + 1,) ints. Class c has the points starts[c] ... starts[c + 1] - 1.
    C : (n,) bounds
    pairs : sequence of m pairs
    coef0 : (k - 1, n), optional
        Where to start, feasible, as `SmallDualResult.coef`; default 0. Coefficients of other pairs
        are returned as they are.
    memory_mb : MiB for kernel values within classes, which all pairs of a class need; if they need
        more, they are computed again for each pair. The default is set by hand.

    Time O(s d n_pair) for the s <= n_pair rows that steps of a pair need, and O(n_pair) a step.
    Memory of the largest pair's n_pair^2 float32 values at most, and `memory_mb`.
    """
    k, n, classes = len(starts) - 1, len(rows), np.array(pairs)
    sizes = np.zeros(k, np.int64)  # of the classes that have a problem
    sizes[classes] = np.diff(starts)[classes]
    values, offsets = of_classes(rows, starts, sizes, memory_mb)
    of_class = np.zeros((k, N_PLANNED), np.int64)
    of_class[:, FIRST], of_class[:, END], of_class[:, POINTS:] = starts[:-1], starts[1:], offsets
    plan = of_class[classes]
    plan[:, 1, ROW] = 1
    plan[:, 0, COEF], plan[:, 1, COEF] = classes[:, 1] - 1, classes[:, 0]
    signs, lower, upper = np.ones((2, n)), np.zeros((2, n)), np.zeros((2, n))
    signs[1], lower[1], upper[0] = -1.0, -C, C
    coef = np.zeros((k - 1, n)) if coef0 is None else coef0.copy()
    search = _Search(rows, plan, (signs, lower, upper), values, coef, limits)
    return search.run(0.0, warm=coef0 is not None, starts=starts)


def solve_each(
    rows: KernelValues,
    targets: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    limits: StepLimits,
    *,
    epsilon: float = 0.0,
    coef0: np.ndarray | None = None,
    total: float = 0.0,
) -> SmallDualResult:
    """Solve m problems over the same points: one against the rest, or a regression.

    rows : KernelValues of n points
    targets, lower, upper : (m, n). z and the bounds l and u of each problem.
    coef0 : (m, n), optional. Coefficients to start from, feasible; default 0.
    total : The sum s of the coefficients of each problem; other than 0 it needs `coef0`

    The costs are those of `solve_pairs`; the m problems share the n^2 float32 kernel values.
    """
    (m, n), in_blocks = targets.shape, rows.points is None
    values, offsets = of_classes(rows, np.zeros(1, int), np.array([n]), None)
    plan = np.zeros((m, 2, N_PLANNED), np.int64)
    plan[:, 0, FIRST], plan[:, 0, END] = 0, n
    plan[:, :, ROW] = plan[:, :, COEF] = np.arange(m)[:, None]
    plan[:, 0, POINTS:] = offsets
    coef = np.zeros((m, n)) if coef0 is None else coef0.copy()
    search = _Search(rows, plan, (targets, lower, upper), values, coef, limits, total)
    search.report[:, INTERCEPT] = 0.5 * (targets.max(axis=1) + targets.min(axis=1))
    if in_blocks:
        search.slots[:] = np.arange(n)
        rows.block(slice(0, n), slice(0, n), search.rows.reshape(n, n))
        search.report[:, ROWS] = n
    return search.run(epsilon, warm=coef0 is not None)


_NO_VALUES = np.empty((0, 0), np.float32)


class _Search:
    """Scratch memory for m problems, and the loop over them.

    plan, coef : see `solve_problems`
    problems : targets, lower and upper bounds of `solve_problems`
    values : its arguments `n_features` to `known`
    """

    def __init__(
        self,
        rows: KernelValues,
        plan: np.ndarray,
        problems: tuple[np.ndarray, ...],
        values: tuple,
        coef: np.ndarray,
        limits: StepLimits,
        total: float = 0.0,
    ) -> None:
        self._source, self._limits, self._total = rows, limits, total
        self._plan, self._coef, self._values = plan, coef, values
        self._problems = plan, *problems, rows.diagonal, coef, *values
        self.report = np.zeros((len(plan), N_REPORTED))
        counts = plan[:, :, END] - plan[:, :, FIRST]
        self._sizes = counts[:, 0] + counts[:, 1]
        n = int(self._sizes.max())
        self.rows, self.slots = np.empty(n * n, np.float32), np.empty(n, np.int64)
        self._work, self._states = np.empty(N_WORK * n), np.empty(6 * n, np.float32)
        self._sums = np.empty(n + PADDING, np.float32)
        self._exact_optimum = ExactOptimum(
            rows, n, len(plan), limits.tol, limits.memory_mb, centred=total == 0.0
        )
        self._before_exact = self._exact_optimum.steps_before(self._sizes)
        self._max_steps = np.minimum(self._before_exact, self._step_limit)
        self._watched = limits.trace.active or limits.deadline.seconds_left() is not None
        self._cross = _NO_VALUES

    def run(
        self, epsilon: float, *, warm: bool, starts: np.ndarray | None = None
    ) -> SmallDualResult:
        """Solve all problems.

        warm : whether coefficients may be other than 0
        starts : see `solve_pairs`; None: there are no classes
        """
        source, exact, m = self._source, self._exact_optimum, len(self._plan)
        # The compiled loop takes floats alone.
        tol, flat = float(self._limits.tol), _FLAT * max(float(exact.errors[2]), 1e-30)
        self._arguments = (
            source.factor, self._sums, self.rows, self.slots, self._work, self._states,
            *exact.scratch, float(epsilon), flat, exact.errors, tol, source.exact_points,
            source.exact_factor, exact.limits, exact.functions, self.report,
        )  # fmt: skip
        has_blocks = source.points is None and self._plan[0, 1, END] > 0
        one_by_one = has_blocks or self._watched or warm
        reasons, interior, p = ["tol"] * m, [0] * m, 0
        while p < m:
            last, stage = p + 1 if one_by_one else m, WHOLE
            if has_blocks:
                self._cross = source.block(*self._spans(p))
            if self._watched:
                self._max_steps[p] = self._in_time(self._max_steps[p])
            if warm:
                self._call(p, last, SET_UP)
                self._begin(p)
                stage = GO_ON
            p, status = self._call(p, last, stage)
            if p < last:
                reasons[p], interior[p] = self._finish(p, status, epsilon)
                p += 1
            if self._watched:
                self._show(p - 1)
        n_entries = source.n_entries
        if starts is not None and source.points is not None:
            # Values within classes, which pairs share.
            n_rows = np.add.reduceat(self._values[-1], starts[:-1], dtype=np.int64)
            n_entries += int((n_rows * np.diff(starts)).sum())
        return _result(self._coef, self.report, reasons, n_entries, interior)

    def _call(self, p: int, last: int, stage: int, *, fresh: bool = True) -> tuple[int, int]:
        problems, after = self._problems, self._arguments
        steps, cross = self._max_steps, self._cross
        return solve_problems(p, last, stage, fresh, steps, cross, *problems, *after)

    @property
    def _step_limit(self) -> int:
        return 2**62 if self._limits.max_iter < 0 else self._limits.max_iter

    def _in_time(self, n_steps: int) -> int:
        """Return `n_steps`, or fewer if the clock must be checked sooner; 0 after the deadline."""
        if not self._watched:
            return n_steps
        return 0 if self._limits.deadline.passed else min(n_steps, self._limits.steps_per_call)

    def _spans(self, p: int) -> tuple[slice, slice]:
        """Return the slices of the source's points that are the two classes of problem p."""
        (a, b), (c, d) = self._plan[p, :, [FIRST, END]].T.tolist()
        return slice(a, b), slice(c, d)

    def _points(self, p: int) -> np.ndarray:
        """Indices in the source of the points of problem p."""
        return np.concatenate([np.arange(span.start, span.stop) for span in self._spans(p)])

    def _begin(self, p: int) -> None:
        """Compute the residuals of the coefficients at which problem p begins."""
        d, points, halves, kept, known = self._values
        classes: list[Any] = []
        for span, c in zip(self._spans(p), self._plan[p].tolist(), strict=True):
            X = points[c[POINTS] : c[POINTS] + d * c[WIDTH]].reshape(d, c[WIDTH])
            own = kept[c[KEPT] : c[KEPT] + c[N_KEPT] ** 2].reshape(c[N_KEPT], c[N_KEPT])
            classes += [X, None if halves is None else halves[span], own, known[span]]
        factor = self._source.factor
        stored, slot, problem, _ = self._of(p)
        kernel = (*classes, self._cross, factor, self._sums, stored, slot)
        begin_at(*kernel, problem, self.report[p])

    def _of(self, p: int) -> tuple[np.ndarray, ...]:
        """`rows`, `slot`, `problem` and `state` of `descend` for the problem at hand, p."""
        n = int(self._sizes[p])
        rows, problem = self.rows[: n * n].reshape(n, n), self._work[: 8 * n].reshape(8, n)
        return rows, self.slots[:n], problem, self._states[: 6 * n].reshape(6, n)

    def _finish(self, p: int, status: int, epsilon: float) -> tuple[str, int]:
        """Solve problem p from where the compiled loop has left it.

        Returns the reason of the stop and the iterations of the interior-point method.
        """
        limits, report, exact = self._limits, self.report[p], self._exact_optimum
        arrays, points = self._of(p), self._points(p)
        *_, problem, state = arrays
        left, before_exact = self._step_limit, int(self._before_exact[p])
        # 2**62 steps stand for "never".
        before_interior, is_tried = self._steps_before_interior(len(points)), before_exact < 2**62
        best, n_worse, before, iterations = math.inf, 0, 0.0, 0
        self._matrix: Matrix | None = None
        while True:
            # If a sum has overflowed, the objective is not finite.
            if status == SOLVED and math.isfinite(report[OBJECTIVE]):
                reason = "tol"
                if not len(self._source.exact_points):
                    exact.after_solution(epsilon, points, arrays, report, proven=True)
                break
            taken, fresh = int(report[STEPS] - before), False
            left, before_exact = left - taken, before_exact - taken
            before_interior -= taken
            if status == OUT_OF_STEPS and left > 0 and min(before_exact, before_interior) <= 0:
                before_exact, fresh = int(report[STEPS]), True
                if exact.before_solution(epsilon, points, arrays, report):
                    reason = "tol"
                    break
                if before_interior <= 0:
                    before_interior = 2**62
                    reason, iterations = self._interior(epsilon, points, problem, report)
                    if reason:
                        break
            elif status == OUT_OF_STEPS:
                if left <= 0 or limits.deadline.passed:
                    reason = "max_iter" if left <= 0 else "max_time"
                    self._settle(epsilon, points, problem, report)
                    break
                self._show(p)
            elif is_tried and exact.after_solution(epsilon, points, arrays, report, proven=False):
                reason = "tol"
                break
            else:
                # The float32 rows cannot decide. Residuals of points that may be extreme are
                # computed in float64; if the violation is too large, all are, and steps go on.
                e, margin = problem[RESIDUAL], 2.0 * report[ERROR]
                up, down = e + state[LIFT], e + state[DROP]
                near = (up >= up.max() - margin) | (down <= down.min() + margin)
                self._exact_residual(np.flatnonzero(near), points, problem)
                account(problem, state, epsilon, report)
                n_worse = 0 if report[VIOLATION] < steps.PROGRESS * best else n_worse + 1
                best, fresh = min(best, report[VIOLATION]), True
                if report[VIOLATION] <= limits.tol:
                    reason = "tol"
                    break
                if n_worse > _MAX_ROUNDS_WITHOUT_PROGRESS:
                    reason, iterations = self._interior(epsilon, points, problem, report)
                    reason = reason or "precision"
                    break
                self._exact_residual(np.flatnonzero(~near), points, problem)
                problem[EXACT_RESIDUAL] = problem[RESIDUAL]
                problem[EXACT_BETA] = problem[BETA]
            before = float(report[STEPS])
            self._max_steps[p] = self._in_time(min(left, before_interior, before_exact))
            next_problem, status = self._call(p, p + 1, GO_ON, fresh=fresh)
            if next_problem > p:
                return "tol", 0
        beta = problem[BETA]
        if reason == "tol" and not iterations:  # the interior-point method sets its intercept
            e, low, up = problem[[RESIDUAL, LOWER, UPPER]]
            report[INTERCEPT] = intercept_at_ends(beta, e, low, up, epsilon, report[INTERCEPT])
        n_a = self._plan[p, 0, END] - self._plan[p, 0, FIRST]
        for span, row, values in zip(
            self._spans(p), self._plan[p, :, COEF], (beta[:n_a], beta[n_a:]), strict=True
        ):
            self._coef[row, span] = values
        return reason, iterations

    def _steps_before_interior(self, n: int) -> int:
        """Steps that cost as much as the interior-point method, which then takes over."""
        work = self._source.work(n)
        if math.isinf(work) or 24.0 * n * n > self._limits.memory_mb * 2**20:
            return 2**62
        return steps_before(n, work)

    def _interior(
        self, epsilon: float, points: np.ndarray, problem: np.ndarray, report: np.ndarray
    ) -> tuple[str, int]:
        """Solve by the interior-point method; return the reason of the stop and the iterations. If
        the method fails, change nothing and return "" and 0."""
        limits = self._limits
        if math.isinf(self._source.work(len(points))):
            return "", 0
        if self._matrix is None:
            self._matrix = self._source.whole(points, centred=self._total == 0.0)
        if self._matrix is None:
            return "", 0
        result = solve_interior(
            self._matrix,
            problem[Z],
            problem[LOWER],
            problem[UPPER],
            coupled=True,
            tol=limits.tol,
            epsilon=epsilon,
            total=self._total,
            stopped=lambda: limits.deadline.passed,
            coef0=problem[BETA],
        )
        report[STEPS] += result.n_iter
        if result.stop_reason not in ("tol", "rounding"):
            return "", 0
        problem[BETA] = result.coef
        report[VIOLATION], report[INTERCEPT] = result.violation, result.intercept
        report[OBJECTIVE], report[GAP] = result.objective, result.duality_gap
        # At least 1, even if the final active-set steps alone found the optimum: 0 means unused.
        return result.stop_reason, max(1, result.n_iter)

    def _settle(
        self, epsilon: float, points: np.ndarray, problem: np.ndarray, report: np.ndarray
    ) -> None:
        """End at a limit: see `kbench.solvers.best_multiple`."""
        self._exact_residual(np.arange(len(points)), points, problem)
        z, lower, upper, beta, e = (problem[row] for row in (Z, LOWER, UPPER, BETA, RESIDUAL))
        best = settle(beta, e, z, lower, upper, epsilon=epsilon, coupled=True)
        e[:] = z - best.multiple * (z - e)
        beta *= best.multiple
        up = e + np.where(beta < upper, np.where(beta < 0.0, epsilon, -epsilon), -np.inf)
        down = e + np.where(beta > lower, np.where(beta > 0.0, -epsilon, epsilon), np.inf)
        objective = epsilon * float(np.abs(beta).sum()) - 0.5 * float(matmul(beta, z + e))
        report[VIOLATION], report[INTERCEPT] = max(up.max() - down.min(), 0.0), best.intercept
        report[OBJECTIVE], report[GAP] = objective, max(best.primal + objective, 0.0)

    def _show(self, p: int) -> None:
        if self._limits.trace.active:
            report = self.report[p]
            self._limits.trace(
                objective=float(report[OBJECTIVE]),
                violation=float(report[VIOLATION]),
                n_support=int(np.count_nonzero(self._of(p)[2][BETA])),
            )

    def _exact_residual(self, where: np.ndarray, points: np.ndarray, problem: np.ndarray) -> None:
        """Set e[where] = (z - K beta)[where] of a problem from float64 kernel values."""
        z, beta, e = problem[Z], problem[BETA], problem[RESIDUAL]
        support = np.flatnonzero(beta)
        rows, columns, weights = points[where], points[support], beta[support]
        values = np.empty(len(rows))
        step = max(1, _EXACT_ENTRIES // max(1, len(columns)))
        for start in range(0, len(rows), step):
            block = self._source.exact(rows[start : start + step], columns)
            values[start : start + step] = matmul(block, weights)
        e[where] = z[where] - values


def _result(
    coef: np.ndarray, report: np.ndarray, reasons: list[str], n_entries: int, interior: list[int]
) -> SmallDualResult:
    return SmallDualResult(
        coef=coef,
        intercept=report[:, INTERCEPT].copy(),
        objective=report[:, OBJECTIVE].copy(),
        violation=report[:, VIOLATION].copy(),
        duality_gap=report[:, GAP].copy(),
        n_iter=report[:, STEPS].astype(np.int64),
        stop_reason=tuple(reasons),
        kernel_entries=n_entries + int(report[:, ENTRIES].sum()),
        interior_iterations=tuple(interior),
    )
