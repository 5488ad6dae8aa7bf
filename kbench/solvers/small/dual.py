"""Support vector problems of a few thousand points, and all pairs of classes.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u,    1'b = s

A pair of classes has z = 1, 0 <= b <= C on the first and z = -1, -C <= b <= 0 on the second class;
regression has z = y, |b| <= C; both have s = 0. `kbench.solvers.solve_box_dual` solves the same
problems and is faster for many points; `kbench.solvers.small.choice` says which problems this one
gets.

Each problem is one call of the compiled `descend`. Rows of the kernel matrix are computed when a
step first needs them and are stored as float32. Where their rounding could hide a violation above
the tolerance, the points that may be extreme are computed again in float64, and steps go on from
there, so that the criterion holds for float64 kernel values.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.solvers.box_dual.directions import intercept_at_ends
from kbench.solvers.interior_point.counted_work import steps_before
from kbench.solvers.interior_point.duals import solve_interior
from kbench.solvers.interior_point.problem import Matrix
from kbench.solvers.small import steps
from kbench.solvers.small.exact_optimum import ExactOptimum
from kbench.solvers.small.rows import Rows, by_feature
from kbench.solvers.small.steps import (
    BETA,
    DIAGONAL,
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
from kbench.solvers.stopped import settle
from kbench.trace import Deadline, Trace

# mypy takes compiled functions for ones without arguments.
account: Any = steps.account
begin_at: Any = steps.begin_at
descend: Any = steps.descend
# Guard: curvatures below this fraction of the largest diagonal entry are rounding of float32 rows.
_FLAT = 1e-6
# Guard: rounds of float64 values without progress (`steps.PROGRESS`) before the solver gives up:
# the problem cannot be solved to `tol` in the precision of its rows.
_MAX_ROUNDS_WITHOUT_PROGRESS = 5
# Float64 kernel values of a block: 8 MiB.
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
    interior: tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    """Limits on the steps of a problem."""

    tol: float
    max_iter: int  # Steps of each problem; -1 means no limit
    deadline: Deadline  # Of all problems together
    trace: Trace  # Receives objective, violation and n_support of the problem at hand
    # Steps between two checks of the deadline, and between two calls of the trace; 20,000 take
    # about 10 ms. Set by hand.
    steps_per_call: int = 20_000
    # MiB for float64 values: 3 n^2 of the interior-point method, 2 n^2 of an exact optimum.
    memory_mb: float = 1000.0


def solve_pairs(
    rows: Rows,
    starts: np.ndarray,
    C: np.ndarray,
    limits: Limits,
    pairs: Sequence[tuple[int, int]],
    *,
    coef0: np.ndarray | None = None,
    memory_mb: float = 200.0,
) -> SmallDualResult:
    """Solve the problems of pairs of classes a < b; class a is the positive one.

    rows : Rows of n points sorted by class
    starts : (k + 1,) ints. Class c has the points starts[c] ... starts[c + 1] - 1.
    C : (n,) bounds
    pairs : sequence of m pairs
    coef0 : (k - 1, n), optional
        Where to start, feasible, as `SmallDualResult.coef`; default 0. Coefficients of other pairs
        are returned as they are.
    memory_mb : MiB for kernel values within classes, which all pairs of a class need. If they need
        more, they are computed again for each pair.

    Time O(s d n_pair) for the s <= n_pair rows that steps of a pair need, and O(n_pair) a step.
    Memory of the largest pair's n_pair^2 float32 values at most, and `memory_mb`.
    """
    k, n = len(starts) - 1, len(rows)
    spans = [slice(int(a), int(b)) for a, b in itertools.pairwise(starts)]
    sizes = [span.stop - span.start for span in spans]
    search = _Search(rows, max(sizes[a] + sizes[b] for a, b in pairs), len(pairs), limits)
    lowest, warm = -C, coef0 is not None
    needed = {c for pair in pairs for c in pair}
    parts = _class_parts(rows, spans, needed, memory_mb)
    coef = np.zeros((k - 1, n)) if coef0 is None else coef0.copy()
    report, reasons, interior = np.zeros((len(pairs), N_REPORTED)), [], []
    for p, (a, b) in enumerate(pairs):
        n_a, cross = sizes[a], _NO_VALUES
        search.resize(n_a + sizes[b])
        z, lower, upper, beta = (search.problem[row] for row in (Z, LOWER, UPPER, BETA))
        diagonal = search.state[DIAGONAL]
        z[:n_a], z[n_a:] = 1.0, -1.0
        lower[:n_a], lower[n_a:] = 0.0, lowest[spans[b]]
        upper[:n_a], upper[n_a:] = C[spans[a]], 0.0
        diagonal[:n_a], diagonal[n_a:] = rows.diagonal[spans[a]], rows.diagonal[spans[b]]
        beta[:n_a], beta[n_a:] = coef[b - 1, spans[a]], coef[a, spans[b]]
        if rows.points is None:
            cross = rows.block(spans[a], spans[b])
        values = (*parts[a], *parts[b], cross)
        reasons.append(search.run(0.0, values, report[p], (spans[a], spans[b]), warm=warm))
        interior.append(search.iterations)
        coef[b - 1, spans[a]], coef[a, spans[b]] = beta[:n_a], beta[n_a:]
    within = 0
    if rows.points is not None:
        within = sum(int(known.sum()) * len(known) for *_, known in parts.values())
    return _result(coef, report, reasons, rows.n_entries + within, interior)


def solve_each(
    rows: Rows,
    targets: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    limits: Limits,
    *,
    epsilon: float = 0.0,
    coef0: np.ndarray | None = None,
    total: float = 0.0,
) -> SmallDualResult:
    """Solve m problems over the same points: one against the rest, or a regression.

    rows : Rows of n points
    targets, lower, upper : (m, n). z and the bounds l and u of each problem.
    coef0 : (m, n), optional. Where to start, feasible; default 0.
    total : The sum s of the coefficients of each problem; other than 0 it needs `coef0`

    As `solve_pairs`; the m problems share the n^2 float32 kernel values.
    """
    (m, n), all_points = targets.shape, slice(0, len(rows))
    search = _Search(rows, n, m, limits, total)
    coef = np.zeros((m, n)) if coef0 is None else coef0.copy()
    report, reasons, interior = np.zeros((m, N_REPORTED)), [], []
    search.state[DIAGONAL] = rows.diagonal
    points = np.empty((0, n), np.float32) if rows.points is None else by_feature(rows.points)
    if rows.points is None:
        search.slot[:] = np.arange(n)
        rows.block(all_points, all_points, search.rows)
    halves, unknown = rows.halves, np.zeros(n, np.uint8)
    a = (points, halves, _NO_VALUES, unknown)
    b = (points[:, :0].copy(), halves, _NO_VALUES, unknown[:0])
    for j in range(m):
        problem = search.problem
        problem[Z], problem[BETA] = targets[j], coef[j]
        problem[LOWER], problem[UPPER] = lower[j], upper[j]
        report[j, INTERCEPT] = 0.5 * (targets[j].max() + targets[j].min())
        if j:
            report[j, ROWS] = report[j - 1, ROWS]
        values, warm = (*a, *b, _NO_VALUES), coef0 is not None
        reasons.append(search.run(epsilon, values, report[j], (all_points,), warm=warm))
        interior.append(search.iterations)
        coef[j] = problem[BETA]
    return _result(coef, report, reasons, rows.n_entries, interior)


_NO_VALUES = np.empty((0, 0), np.float32)


def _class_parts(
    rows: Rows, spans: list[slice], needed: set[int], memory_mb: float
) -> dict[int, tuple]:
    """For each needed class: points, half norms, kept values, and a mask of the known rows."""
    n_bytes = sum(4 * (spans[c].stop - spans[c].start) ** 2 for c in needed)
    parts = {}
    for c in sorted(needed):
        span = spans[c]
        size = span.stop - span.start
        if rows.points is None:
            kept, known = rows.block(span, span), np.ones(size, np.uint8)
            points = np.empty((0, size), np.float32)
        else:
            keep = n_bytes <= memory_mb * 2**20
            kept = np.empty((size, size), np.float32) if keep else _NO_VALUES
            known = np.zeros(size, np.uint8)
            points = by_feature(rows.points[span])
        halves = None if rows.halves is None else rows.halves[span]
        parts[c] = (points, halves, kept, known)
    return parts


class _Search:
    """Scratch memory for m problems of at most n points, and the loop around `descend`."""

    def __init__(self, rows: Rows, n: int, m: int, limits: Limits, total: float = 0.0) -> None:
        self._source, self._limits, self._total = rows, limits, total
        self._every = np.arange(len(rows))
        self._rows, self._slots = np.empty(n * n, np.float32), np.empty(n, np.int64)
        self._problem, self._state = np.empty(8 * n), np.empty(6 * n, np.float32)
        self._sums = np.empty(n + PADDING, np.float32)
        self._end = ExactOptimum(rows, n, m, limits.tol, limits.memory_mb, centred=total == 0.0)
        self.resize(n)
        self._flat = _FLAT * float(np.abs(rows.diagonal).max(initial=1e-30))
        self.iterations = 0
        self._matrix: Matrix | None = None
        self._watched = limits.trace.active or limits.deadline.seconds_left() is not None

    def resize(self, n: int) -> None:
        """Begin a problem of n points, for which no kernel rows are stored.

        The arrays have exactly n columns, so that the compiled code needs no slices, which take
        long to compile.
        """
        self.problem = self._problem[: 8 * n].reshape(8, n)
        self.state = self._state[: 6 * n].reshape(6, n)
        self.rows, self.slot = self._rows[: n * n].reshape(n, n), self._slots[:n]
        self.slot[:] = -1
        self._matrix = None

    def run(
        self,
        epsilon: float,
        values: tuple,
        report: np.ndarray,
        spans: tuple[slice, ...],
        *,
        warm: bool,
    ) -> str:
        """Solve the problem in `problem` and the diagonal, in place. Rows that are stored are used.

        values : the first nine arguments of `descend`
        report : (N_REPORTED,), set; INTERCEPT holds an estimate
        spans : where the n points are among the source's
        warm : whether beta may be other than 0

        Returns the reason of the stop.
        """
        limits, problem, state = self._limits, self.problem, self.state
        self.iterations = 0
        problem[RESIDUAL] = problem[EXACT_RESIDUAL] = problem[Z]
        problem[EXACT_BETA] = 0.0
        values = (*values, self._source.factor, self._sums, self.rows, self.slot)
        if warm:
            begin_at(*values, problem, report)
        values += (problem, state, epsilon, self._flat, *self._source.entry_errors)
        left = 2**62 if limits.max_iter < 0 else limits.max_iter
        before_interior = self._steps_before_interior()
        before_end, start = self._end.steps_before(problem.shape[1]), report[STEPS]
        ends, points = before_end < 2**62, self._places(spans)
        stored = (self.rows, self.slot, problem, state)
        fresh, best, n_worse = True, math.inf, 0

        def n_taken() -> int:
            return int(report[STEPS] - start)

        while True:
            n_steps, before = min(left, before_interior, before_end), report[STEPS]
            if self._watched:
                n_steps = 0 if limits.deadline.passed else min(n_steps, limits.steps_per_call)
            status = descend(*values, limits.tol, n_steps, fresh, report)
            # NaNs of sums that overflow would stand in the objective.
            if status == SOLVED and math.isfinite(report[OBJECTIVE]):
                reason = "tol"
                self._end.after_solution(epsilon, points, stored, report, n_taken(), proven=True)
                break
            taken = int(report[STEPS] - before)
            left, before_interior, fresh = left - taken, before_interior - taken, False
            before_end -= taken
            if status == OUT_OF_STEPS and left > 0 and min(before_end, before_interior) <= 0:
                before_end, fresh = n_taken(), True
                if self._end.before_solution(epsilon, points, stored, report, n_taken()):
                    reason = "tol"
                    break
                if before_interior <= 0:
                    before_interior = 2**62
                    if reason := self._interior(epsilon, spans, report):
                        break
                continue
            if status == OUT_OF_STEPS:
                if left <= 0 or limits.deadline.passed:
                    reason = "max_iter" if left <= 0 else "max_time"
                    self._settle(epsilon, spans, report)
                    break
                self._show(report)
                continue
            if ends and self._end.after_solution(
                epsilon, points, stored, report, n_taken(), proven=False
            ):
                reason = "tol"
                break
            # The float32 rows cannot decide. Points that may be extreme are computed in float64;
            # if the violation is too large, all are, and steps go on from there.
            e, margin = problem[RESIDUAL], 2.0 * report[ERROR]
            up, down = e + state[LIFT], e + state[DROP]
            near = (up >= up.max() - margin) | (down <= down.min() + margin)
            self._exact_residual(np.flatnonzero(near), spans)
            account(problem, state, epsilon, report)
            n_worse = 0 if report[VIOLATION] < steps.PROGRESS * best else n_worse + 1
            best, fresh = min(best, report[VIOLATION]), True
            if report[VIOLATION] <= limits.tol:
                reason = "tol"
                break
            if n_worse > _MAX_ROUNDS_WITHOUT_PROGRESS:
                reason = self._interior(epsilon, spans, report) or "precision"
                break
            self._exact_residual(np.flatnonzero(~near), spans)
            problem[EXACT_RESIDUAL] = problem[RESIDUAL]
            problem[EXACT_BETA] = problem[BETA]
        if reason == "tol" and not self.iterations:  # the interior-point method sets its intercept
            beta, e, low, up = problem[[BETA, RESIDUAL, LOWER, UPPER]]
            report[INTERCEPT] = intercept_at_ends(beta, e, low, up, epsilon, report[INTERCEPT])
        self._show(report)
        return reason

    def _places(self, spans: tuple[slice, ...]) -> np.ndarray:
        """The n points among the source's."""
        return np.concatenate([self._every[span] for span in spans])

    def _steps_before_interior(self) -> int:
        """Steps that cost as much as the interior-point method, which then takes over."""
        n = self.problem.shape[1]
        work = self._source.work(n)
        if math.isinf(work) or 24.0 * n * n > self._limits.memory_mb * 2**20:
            return 2**62
        return steps_before(n, work)

    def _interior(self, epsilon: float, spans: tuple[slice, ...], report: np.ndarray) -> str:
        """Solve by the interior-point method; "" if that fails, and nothing is changed."""
        problem, limits = self.problem, self._limits
        if math.isinf(self._source.work(problem.shape[1])):
            return ""
        if self._matrix is None:
            self._matrix = self._source.whole(self._places(spans), centred=self._total == 0.0)
        if self._matrix is None:
            return ""
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
            return ""
        problem[BETA] = result.coef
        report[VIOLATION], report[INTERCEPT] = result.violation, result.intercept
        report[OBJECTIVE], report[GAP] = result.objective, result.duality_gap
        # Without an iteration, the finish alone has found the optimum.
        self.iterations = max(1, result.n_iter)
        return result.stop_reason

    def _settle(self, epsilon: float, spans: tuple[slice, ...], report: np.ndarray) -> None:
        """End at a limit: see `kbench.solvers.stopped`."""
        self._exact_residual(np.arange(self.problem.shape[1]), spans)
        z, lower, upper, beta, e = (self.problem[row] for row in (Z, LOWER, UPPER, BETA, RESIDUAL))
        best = settle(beta, e, z, lower, upper, epsilon=epsilon, coupled=True)
        e[:] = z - best.multiple * (z - e)
        beta *= best.multiple
        up = e + np.where(beta < upper, np.where(beta < 0.0, epsilon, -epsilon), -np.inf)
        down = e + np.where(beta > lower, np.where(beta > 0.0, -epsilon, epsilon), np.inf)
        objective = epsilon * float(np.abs(beta).sum()) - 0.5 * float(matmul(beta, z + e))
        report[VIOLATION], report[INTERCEPT] = max(up.max() - down.min(), 0.0), best.intercept
        report[OBJECTIVE], report[GAP] = objective, max(best.primal + objective, 0.0)

    def _show(self, report: np.ndarray) -> None:
        if self._limits.trace.active:
            self._limits.trace(
                objective=float(report[OBJECTIVE]),
                violation=float(report[VIOLATION]),
                n_support=int(np.count_nonzero(self.problem[BETA])),
            )

    def _exact_residual(self, places: np.ndarray, spans: tuple[slice, ...]) -> None:
        """Set e = z - K beta at some places from float64 kernel values."""
        problem = self.problem
        z, beta, e = problem[Z], problem[BETA], problem[RESIDUAL]
        points = self._places(spans)
        support = np.flatnonzero(beta)
        rows, columns, weights = points[places], points[support], beta[support]
        values = np.empty(len(rows))
        step = max(1, _EXACT_ENTRIES // max(1, len(columns)))
        for start in range(0, len(rows), step):
            block = self._source.exact(rows[start : start + step], columns)
            values[start : start + step] = matmul(block, weights)
        e[places] = z[places] - values


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
        interior=tuple(interior),
    )
