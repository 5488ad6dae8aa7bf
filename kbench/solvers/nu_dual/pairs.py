"""nu-classification of pairs of classes; one compiled loop solves the pairs of few points.

A fit of 200 classes of 20 points has 19,900 problems of ten microseconds each; calls from Python
would take twenty times as long. The loop does what `solve_nu_dual` does with a single
working set. A problem that needs more than one call of the steps is left to that function, which
goes on from there.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, njit
from numba.extending import register_jitable

from kbench.intrinsics.calls import address_of, calling
from kbench.intrinsics.views import matrix_in
from kbench.kernels import KernelMatrix
from kbench.kernels.functions.precomputed import Precomputed
from kbench.solvers.nu_dual.nu_descent import FLOAT64_POINTS, TARGET, first_steps, solve_nu_dual
from kbench.solvers.nu_dual.nu_problem import NuDualResult, Start
from kbench.solvers.nu_dual.side_steps import ENDS, take_steps
from kbench.trace import Deadline, Trace

# Columns that are transposed together: the values of a cache line. Set by hand.
_TILE = 8
_OPTIONS: Any = {"fastmath": {"contract", "nsz"}, "_nrt": False}
_CALLED: Any = {**_OPTIONS, "no_cfunc_wrapper": True, "cache": True, "nogil": True}
# Columns of `plan`: the class, its first point, the number of its points, where its kernel values
# begin in `class_values`, and where it begins among the rows and the columns of `block`.
_CLASS, _FIRST, _SIZE, _CLASS_VALUES, _ROW, _COLUMN, _N_PLANNED = range(7)
# Least number of rows of a block of kernel values: larger blocks, of more classes, take fewer
# calls, but have more values that no pair needs. Set by hand.
_ROWS_OF_BLOCK = 128
# Rows of n numbers in `work`, before those of `ends`.
_LOWER, _UPPER, _BETA, _RESIDUAL, _DIAGONAL, _V, _N_WORK = range(7)
# Columns of `reports`.
_INTERCEPT, _EPSILON, _OBJECTIVE, _VIOLATION, _GAP, _STEPS, _N_REPORTED = range(7)

_VECTOR, _MATRIX = float64[::1], float64[:, ::1]
_OF_STEPS = (
    _MATRIX, _VECTOR, _VECTOR, _MATRIX, _VECTOR, int64[::1], *(_VECTOR,) * 4, float64, int64,
)  # fmt: skip
_take_steps = calling(int64, _OF_STEPS)
_NO_VALUES = np.empty((0, 0))


@functools.cache
def _address() -> int:
    return address_of(take_steps, _OF_STEPS)


@dataclass(frozen=True)
class NuPairsResult:
    """Solutions of m pairs among k classes; see `NuDualResult`."""

    coef: np.ndarray  # (k - 1, n) float64, as in `sklearn.svm.SVC`
    intercept: np.ndarray  # (m,), as the next ones
    epsilon: np.ndarray
    objective: np.ndarray
    violation: np.ndarray
    duality_gap: np.ndarray
    n_iter: np.ndarray
    stop_reason: list[str]


def solve_nu_pairs(
    kernel: KernelMatrix,
    labels: np.ndarray,
    bounds: np.ndarray,
    norms: np.ndarray,
    pairs: np.ndarray,
    *,
    tol: float,
    cache_mb: float,
    max_iter: int,
    deadline: Deadline,
    trace: Trace,
    shrinking: bool = True,
) -> NuPairsResult:
    """Solve the problems of pairs of classes, the first of which is the positive one.

    kernel : KernelMatrix of n points
    labels : (n,) class numbers, from 0 to k - 1
    bounds : (n,) largest |b|
    norms : (m,) |b|_1 of each problem
    pairs : (m, 2) classes
    deadline, trace : of all problems together
    tol, cache_mb, max_iter, shrinking : of each problem, as in `solve_nu_dual`

    Problems of at most 1,024 points share float64 kernel values. All values within classes, and
    those of one block of classes with the others, are stored at a time, if they fit into half of
    `cache_mb`.
    """
    # The compiled loop takes floats alone.
    options = {
        "tol": float(tol),
        "cache_mb": cache_mb,
        "max_iter": max_iter,
        "shrinking": shrinking,
    }
    return _Pairs(kernel, labels, bounds, norms, pairs, deadline, trace, options).solve()


class _Pairs:
    """The problems of a fit, and their solutions so far; points are in the order of classes."""

    def __init__(
        self,
        kernel: KernelMatrix,
        labels: np.ndarray,
        bounds: np.ndarray,
        norms: np.ndarray,
        pairs: np.ndarray,
        deadline: Deadline,
        trace: Trace,
        options: dict[str, Any],
    ) -> None:
        self._kernel, self._norms, self._pairs = kernel, norms, pairs
        self._deadline, self._trace, self._options = deadline, trace, options
        self._order = np.argsort(labels, kind="stable")
        self._bounds, self._sizes = bounds[self._order], np.bincount(labels)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])
        k, m = len(self._sizes), len(pairs)
        self._coef, self._reports = np.zeros((k - 1, len(labels))), np.zeros((m, _N_REPORTED))
        self._reasons = ["tol"] * m

    def solve(self) -> NuPairsResult:
        """Solve all problems."""
        n_points = self._sizes[self._pairs].sum(axis=1)
        is_small = n_points <= FLOAT64_POINTS
        if is_small.any():
            self._solve_small(np.flatnonzero(is_small), n_points)
        for p in np.flatnonzero(~is_small).tolist():
            self._solve_large(p)
        coef = np.empty_like(self._coef)
        coef[:, self._order] = self._coef
        intercept, epsilon, objective, violation, gap, steps = self._reports.T
        return NuPairsResult(
            coef=coef,
            intercept=intercept,
            epsilon=epsilon,
            objective=objective,
            violation=violation,
            duality_gap=gap,
            n_iter=steps.astype(np.int64),
            stop_reason=self._reasons,
        )

    def _solve_large(self, p: int) -> None:
        n, positions = len(self._order), self._positions(self._pairs[p])
        rows, kernel = self._order[positions], self._kernel
        if len(rows) == n:
            # All points: in the order of the kernel, which then need not be copied.
            positions, rows = np.argsort(self._order), np.arange(n)
        else:
            kernel = kernel.take(rows)
        is_first = np.isin(positions, self._positions(self._pairs[p, :1]))
        result = self._solve(p, kernel, *_signed(self._bounds[positions], is_first))
        if kernel is not self._kernel:
            self._kernel.count(kernel.n_entries)
        self._record(p, result, positions[is_first], positions[~is_first], is_first)

    def _positions(self, classes: Sequence[int] | np.ndarray) -> np.ndarray:
        """Positions in `_order` of the points of these classes."""
        return np.concatenate([np.arange(self._starts[c], self._starts[c + 1]) for c in classes])

    def _solve(
        self,
        p: int,
        kernel: KernelMatrix,
        lower: np.ndarray,
        upper: np.ndarray,
        start: Start | None = None,
    ) -> NuDualResult:
        return solve_nu_dual(
            kernel,
            np.zeros(len(upper)),
            lower,
            upper,
            float(self._norms[p]),
            start=start,
            max_time=self._deadline.seconds_left(),
            trace=self._trace,
            **self._options,
        )

    def _record(
        self,
        p: int,
        result: NuDualResult,
        first: np.ndarray,
        second: np.ndarray,
        is_first: np.ndarray,
    ) -> None:
        """Keep a result; first, second : positions in `_order` of the points of both classes."""
        a, b = self._pairs[p].tolist()
        self._coef[b - (b > a), first] = result.coef[is_first]
        self._coef[a - (a > b), second] = result.coef[~is_first]
        self._reports[p] = (
            result.intercept,
            result.epsilon,
            result.objective,
            result.violation,
            result.duality_gap,
            result.n_iter,
        )
        self._reasons[p] = result.stop_reason

    def _solve_small(self, problems: np.ndarray, n_points: np.ndarray) -> None:
        k, pairs, n = len(self._sizes), self._pairs[problems], int(n_points[problems].max())
        self._problem_of = np.full((k, k), -1)
        self._problem_of[pairs[:, 0], pairs[:, 1]] = problems
        max_iter, cache_mb = self._options["max_iter"], self._options["cache_mb"]
        # With a trace, `solve_nu_dual` takes all steps, because it reports them.
        step_limit = 0 if self._trace.active else max_iter if max_iter >= 0 else 2**62
        max_steps_of = {
            n: min(step_limit, first_steps(n, cache_mb)) for n in set(n_points.tolist())
        }
        self._max_steps = np.array([max_steps_of[n] for n in n_points.tolist()])
        self._matrix, self._work = np.empty(n * n), np.empty((_N_WORK + ENDS) * n)
        gain = np.empty(n)
        self._gain, self._slack = (gain, gain.view(np.int64)), np.empty(1)
        self._exact = self._kernel.astype(np.float64)
        classes = pairs[0] if len(pairs) == 1 else np.flatnonzero(np.bincount(pairs.ravel()))
        sizes = self._sizes[classes]
        stored = (sizes**2).sum() + (sizes.max() + _ROWS_OF_BLOCK) * sizes.sum()
        groups = [classes] if 8 * stored <= 2**19 * cache_mb else pairs
        for group in groups:
            self._solve_group(group)

    def _solve_group(self, classes: np.ndarray) -> None:
        """Solve the pairs of some classes, each class with all earlier ones."""
        sizes, kernel = self._sizes[classes], self._exact
        ends, squares = np.cumsum(sizes), sizes**2
        plan = np.empty((len(classes), _N_PLANNED), np.int64)
        plan[:, _CLASS], plan[:, _FIRST], plan[:, _SIZE] = classes, self._starts[classes], sizes
        plan[:, _CLASS_VALUES], plan[:, _COLUMN] = np.cumsum(squares) - squares, ends - sizes
        rows = self._order[self._positions(classes)]
        if len(classes) == 2:
            n = len(rows)
            kernel.square(rows, self._matrix[: n * n].reshape(n, n))
            self._solve_with_earlier(plan, _NO_VALUES, _NO_VALUES.ravel())
            return
        points = kernel.points(rows)
        class_values, first = np.empty(squares.sum()), 0
        values = np.empty((int(sizes.max()) + _ROWS_OF_BLOCK) * len(rows))
        for last, end in enumerate(ends.tolist()):
            start = int(plan[first, _COLUMN])
            if end - start < _ROWS_OF_BLOCK and end < len(rows):
                continue
            block = values[: (end - start) * end].reshape(end - start, end)
            kernel.kernel.evaluate(points[start:end], points[:end], block)
            kernel.count(block.size)
            plan[first : last + 1, _ROW] = plan[first : last + 1, _COLUMN] - start
            for last_class in range(first, last + 1):
                _, _, n, at, row, column = plan[last_class].tolist()
                within = block[row : row + n, column : column + n]
                class_values[at : at + n * n].reshape(n, n)[:] = within
                self._solve_with_earlier(plan[: last_class + 1], block, class_values)
            first = last + 1

    def _solve_with_earlier(
        self, plan: np.ndarray, block: np.ndarray, class_values: np.ndarray
    ) -> None:
        """Solve the pairs of the last class of the plan."""
        earlier, last, is_limited = 0, len(plan) - 1, self._deadline.seconds_left() is not None
        while earlier < last:
            is_late = is_limited and self._deadline.passed
            first, stop = earlier, earlier + 1 if is_limited and not is_late else last
            earlier = _solve_problems(
                earlier, stop, is_late, plan, self._problem_of, block, class_values, self._bounds,
                self._norms, self._options["tol"], self._max_steps, self._matrix, self._work,
                *self._gain, self._slack, _address(), self._coef, self._reports,
            )  # fmt: skip
            if is_late:
                unfinished = self._problem_of[plan[first:last, _CLASS], plan[last, _CLASS]]
                for p in unfinished[unfinished >= 0].tolist():
                    if not self._reports[p, _VIOLATION] <= self._options["tol"]:
                        self._reasons[p] = "max_time"
            elif earlier < stop:
                self._finish(plan[earlier], plan[last])
                earlier += 1

    def _finish(self, a: np.ndarray, b: np.ndarray) -> None:
        """Solve a pair from where the compiled loop has left it."""
        p, n_first = int(self._problem_of[a[_CLASS], b[_CLASS]]), int(a[_SIZE])
        n = n_first + int(b[_SIZE])
        K = self._matrix[: n * n].reshape(n, n)
        lower, upper, beta = self._work[: 3 * n].reshape(3, n)
        start = Start(beta.copy(), int(self._reports[p, _STEPS]))
        kernel = KernelMatrix(Precomputed(), K, np.float64)
        result = self._solve(p, kernel, lower, upper, start)
        first, second = (c[_FIRST] + np.arange(c[_SIZE]) for c in (a, b))
        self._record(p, result, first, second, np.arange(n) < n_first)


def _signed(bounds: np.ndarray, is_first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (n,) of the coefficients."""
    return np.where(is_first, 0.0, -bounds), np.where(is_first, bounds, 0.0)


@register_jitable(**_OPTIONS)
def _assemble(K_first, block, row, n_b, of_a, of_b, K):
    """Copy the kernel values of two classes to K : (n, n).

    K_first : (n_a, n_a). Values of the first class.
    block : Values of the n_b points of the second class, in the rows from `row` on: with the first
        class in the columns from `of_a` on, with the second class in the columns from `of_b` on.
    """
    n_a = K_first.shape[0]
    for i in range(n_a):
        for j in range(n_a):
            K[i, j] = K_first[i, j]
    for i in range(n_b):
        for j in range(n_b):
            K[n_a + i, n_a + j] = block[row + i, of_b + j]
    # A few columns at a time, so that the rows of K that are written stay in the L1 cache.
    for start in range(0, n_a, _TILE):
        for i in range(n_b):
            for j in range(start, min(start + _TILE, n_a)):
                K[n_a + i, j] = K[j, n_a + i] = block[row + i, of_a + j]


@register_jitable(**_OPTIONS)
def _set_start(bounds, total, sign, beta, lower, upper):
    """Set the bounds of a class; the first points start at their bounds until |beta|_1 is total."""
    so_far = 0.0
    for k in range(beta.shape[0]):
        bound = bounds[k]
        so_far += bound
        x = min(max(total - (so_far - bound), 0.0), bound)
        beta[k], lower[k], upper[k] = sign * x, min(sign * bound, 0.0), max(sign * bound, 0.0)


@register_jitable(**_OPTIONS)
def _sum_residual(K, beta, e):
    """e = -K beta"""
    for k in range(e.shape[0]):
        e[k] = 0.0
    for i in range(e.shape[0]):
        x, row = beta[i], K[i]
        if x != 0.0:
            for k in range(e.shape[0]):
                e[k] -= x * row[k]


@register_jitable(**_OPTIONS)
def _class_extremes(beta, e, lower, upper):
    """Return the extremes of e over the points of a class that can go up and down, the middle of
    both, and the mean of e over free points, or the middle if no point is free."""
    high, low, total, n_free = -np.inf, np.inf, 0.0, 0
    for k in range(e.shape[0]):
        x, e_k = beta[k], e[k]
        if x < upper[k]:
            high = max(high, e_k)
        if x > lower[k]:
            low = min(low, e_k)
            if x < upper[k]:
                total += e_k
                n_free += 1
    middle = 0.0
    if low < np.inf:
        middle = 0.5 * (low + high) if high > -np.inf else low
    elif high > -np.inf:
        middle = high
    return high, low, middle, (total / n_free if n_free else middle)


@njit(error_model="numpy", **_CALLED)
def _solve_problems(
    first, last, is_late, plan, problem_of, block, class_values, bounds, norms, tol, max_steps,
    matrix, work, gain, gain_bits, slack, address, coef, reports,
):  # fmt: skip
    """Solve the problems of the last class of the plan with the classes `first` to `last` - 1.

    is_late : whether the deadline has passed, so that no steps are taken
    block : (m, N) kernel values between points, among them those of the last class, and all classes
        up to it; (0, 0) if `matrix` has the values of the only problem
    class_values : flat. Kernel values within classes.
    matrix, work, gain, gain_bits, slack : scratch

    Returns `last`, or the position in the plan of the class whose problem is not solved; `matrix`,
    `work` and the number of steps in `reports` then hold what the steps have reached.
    """
    b = plan[plan.shape[0] - 1]
    n_b = b[_SIZE]
    for earlier in range(first, last):
        a = plan[earlier]
        p, n_a = problem_of[a[_CLASS], b[_CLASS]], a[_SIZE]
        if p < 0:
            continue
        n, report = n_a + n_b, reports[p]
        K, arrays = matrix_in(matrix, 0, n, n), matrix_in(work, 0, _N_WORK, n)
        ends = matrix_in(work, _N_WORK * n, ENDS, n)
        if block.shape[0] > 0:
            K_first = matrix_in(class_values, a[_CLASS_VALUES], n_a, n_a)
            _assemble(K_first, block, b[_ROW], n_b, a[_COLUMN], b[_COLUMN], K)
        lower, upper, beta, e = arrays[_LOWER], arrays[_UPPER], arrays[_BETA], arrays[_RESIDUAL]
        diagonal, v = arrays[_DIAGONAL], arrays[_V]
        total, at_a, at_b = 0.5 * norms[p], a[_FIRST], b[_FIRST]
        _set_start(bounds[at_a : at_a + n_a], total, 1.0, beta[:n_a], lower[:n_a], upper[:n_a])
        _set_start(bounds[at_b : at_b + n_b], total, -1.0, beta[n_a:], lower[n_a:], upper[n_a:])
        if max_steps[p] <= 0 and not is_late:
            return earlier
        largest = 0.0
        for k in range(n):
            largest = max(largest, abs(K[k, k]))
        # Guard: steps divide by curvatures, so the diagonal has to be positive.
        for k in range(n):
            diagonal[k] = max(K[k, k], max(1e-12 * largest, 1e-30))
        _sum_residual(K, beta, e)
        for attempt in range(2):
            high_a, low_a, middle_a, above = _class_extremes(
                beta[:n_a], e[:n_a], lower[:n_a], upper[:n_a]
            )
            high_b, low_b, middle_b, below = _class_extremes(
                beta[n_a:], e[n_a:], lower[n_a:], upper[n_a:]
            )
            violation = max(max(high_a - low_a, high_b - low_b), 0.0)
            if violation <= TARGET * tol or attempt == 1 or is_late:
                break
            centre = 0.5 * (middle_a + middle_b)
            for k in range(n):
                v[k] = e[k] - centre
            slack[0] = -1.0
            report[_STEPS] = _take_steps(address, (
                K, beta, v, ends, gain[:n], gain_bits[:n], lower, upper, diagonal, slack,
                TARGET * tol, max_steps[p],
            ))  # fmt: skip
            _sum_residual(K, beta, e)
        intercept, epsilon, objective, gap = 0.5 * (above + below), 0.5 * (above - below), 0.0, 0.0
        for k in range(n):
            x, s = beta[k], e[k] - intercept
            best_gain = max(upper[k] * (s - epsilon), lower[k] * (s + epsilon))
            gap += max(best_gain, 0.0) - x * s + epsilon * abs(x)
            objective -= 0.5 * x * e[k]
        report[_INTERCEPT], report[_EPSILON] = intercept, epsilon
        report[_OBJECTIVE], report[_VIOLATION], report[_GAP] = objective, violation, gap
        # If a sum has overflowed, the objective is not finite. `solve_nu_dual` lowers the tolerance
        # of a problem without a margin.
        is_solved = np.isfinite(objective) and violation <= tol and -epsilon > 0.5 * violation
        if not (is_solved or is_late):
            return earlier
        row_a, row_b = b[_CLASS], a[_CLASS]
        if row_a > row_b:
            row_a -= 1
        else:
            row_b -= 1
        for k in range(n_a):
            coef[row_a, at_a + k] = beta[k]
        for k in range(n_b):
            coef[row_b, at_b + k] = beta[n_a + k]
    return last
