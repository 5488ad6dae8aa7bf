"""The binary problems of `KernelSVC`, each solved by the solver that is faster for it."""

import functools
import itertools
from typing import Any, ClassVar

import joblib
import numpy as np

from kbench.kernels import KernelMatrix
from kbench.kernels.functions.precomputed import Precomputed
from kbench.kernels.value_range import KernelRangeError
from kbench.methods.base.box_svc import KernelProblems, Start, solve_problems
from kbench.methods.exact.callable_kernel import WholeRowsKernel
from kbench.methods.exact.exact_svc import ExactSVC
from kbench.methods.exact.interior import InteriorPoint
from kbench.methods.exact.kernel_svc_fit import LastFit, Solution, TrainingSet
from kbench.solvers import BoxDualResult
from kbench.solvers.small import StepLimits, is_small, solve_each, solve_pairs
from kbench.trace import Deadline, Trace


class SolvesBinaryProblems(ExactSVC):
    """Base of `KernelSVC`, which has the parameters that these methods read."""

    split: bool

    # Whether the kernel's explicit map may replace the solvers that begin at `_start`.
    _may_use_map: ClassVar[bool] = True

    def _training_set(self, X: Any, index: np.ndarray, C: np.ndarray) -> TrainingSet:
        data = super()._training_set(X, index, C)
        if self.warm_start:
            data.rows_key = joblib.hash(X)
        return data

    def _keep_for_warm_start(self, data: TrainingSet, solution: Solution) -> None:
        self._last = LastFit.of(data, solution) if self.warm_start else None

    def _solve(
        self, data: TrainingSet, deadline: Deadline, trace: Trace
    ) -> tuple[Solution, KernelMatrix | None]:
        """Solve all problems, each by the solver that is faster for it."""
        (n,), k = data.labels.shape, len(self.classes_)
        m = k * (k - 1) // 2 if self._takes_pairs else 1 if k == 2 else k
        solution = Solution(m, np.zeros((k - 1 if self._takes_pairs else m, n)))
        last = self._comparable_last_fit(data)
        small_problems = self._small_problems(data) if self.fit_intercept else []
        interior = self._interior_point(data, deadline, trace)
        solved_by_rank = self._solve_by_rank(
            data, set(range(m)) - set(small_problems), interior, solution
        )
        if small_problems:
            coef0 = None if last is None else last.scaled(data.C)
            limits = StepLimits(self.tol, self.max_iter, deadline, trace, memory_mb=self.cache_size)
            try:
                self._solve_small(data, small_problems, coef0, limits, solution)
            except KernelRangeError:
                # The small-problem solver has float32 rows; the other solver may have float64.
                if data.matrix(self.dtype).dtype == np.float32:
                    raise
                small_problems = []
        solved = solved_by_rank | {p for p in small_problems if solution.reasons[p] != "precision"}
        unsolved = sorted(set(range(m)) - solved)
        if not unsolved:
            return solution, None
        matrix = data.matrix(self.dtype)
        problem = KernelProblems(data.X, matrix, self._signs(data.labels), data.C, data.labels)
        start = self._start(problem, last, data.rows_key)

        def solve(p: int, max_iter: int) -> BoxDualResult:
            return solve_problems(
                matrix,
                problem.Y[:, [p]],
                problem.C,
                None if start is None else start.of(p),
                max_time=deadline.seconds_left(),
                trace=trace,
                intercept=self.fit_intercept,
                split=self.split,
                tol=self.tol,
                cache_mb=self.cache_size,
                max_iter=max_iter,
                shrinking=self.shrinking,
            )[0]

        results = []
        for p in unsolved:
            dual = data.dual(problem.Y[:, p])
            result = interior.with_step_limit(dual, self.max_iter, functools.partial(solve, p))
            self._record(data, p, problem.Y[:, p], result, solution)
            if isinstance(result, BoxDualResult):
                results.append(result)
        solution.results = results if len(results) == m else None
        return solution, matrix

    def _interior_point(self, data: TrainingSet, deadline: Deadline, trace: Trace) -> InteriorPoint:
        return InteriorPoint(
            data.kernel,
            data.X,
            coupled=self.fit_intercept,
            tol=self.tol,
            cache_mb=self.cache_size,
            max_iter=self.max_iter,
            deadline=deadline,
            trace=trace,
        )

    def _solve_by_rank(
        self, data: TrainingSet, problems: set[int], interior: InteriorPoint, solution: Solution
    ) -> set[int]:
        """Solve the problems that the kernel's explicit map makes cheap; return their numbers."""
        solved: set[int] = set()
        if not self._may_use_map or not problems or not interior.uses_map(len(data.labels)):
            return solved
        Y = self._signs(data.labels)
        for p in sorted(problems):
            dual = data.dual(Y[:, p])
            result = interior.solve_by_rank(dual) if interior.uses_map(len(dual.rows)) else None
            if result is not None:
                self._record(data, p, Y[:, p], result, solution)
                solved.add(p)
        return solved

    def _record(
        self, data: TrainingSet, p: int, y: np.ndarray, result: Any, solution: Solution
    ) -> None:
        """Copy the result of problem p with signs y : (n,), 0 for rows outside the problem."""
        solution.record(p, result)
        solution.reasons[p] = result.stop_reason
        coef = np.zeros(len(y))
        if isinstance(result, BoxDualResult):
            coef = result.alpha * y
        else:
            coef[np.flatnonzero(y)] = result.coef
            solution.interior_iter.append(result.n_iter)
        solution.set_coef(p, coef, self._pairs[p] if self._takes_pairs else None, data.labels)

    def _small_problems(self, data: TrainingSet) -> list[int]:
        """Numbers of the problems that the small-problem solver should solve."""
        sizes = np.bincount(data.labels, minlength=len(self.classes_))
        X = None if isinstance(data.kernel, Precomputed | WholeRowsKernel) else data.X
        if self._takes_pairs:
            n_points = [int(sizes[a] + sizes[b]) for a, b in self._pairs]
        else:
            n_points = [len(data.labels)] * (1 if len(self.classes_) == 2 else len(self.classes_))
        # If the largest problem is small enough, all are, which usually saves the other checks.
        if is_small(max(n_points), X, self.cache_size):
            return list(range(len(n_points)))
        is_small_size = {size: is_small(size, X, self.cache_size) for size in set(n_points)}
        return [p for p, size in enumerate(n_points) if is_small_size[size]]

    def _solve_small(
        self,
        data: TrainingSet,
        problems: list[int],
        coef0: np.ndarray | None,
        limits: StepLimits,
        solution: Solution,
    ) -> None:
        """Solve these problems by the small-problem solver and copy the results to `solution`."""
        C, rows = data.C[data.order], data.sorted_rows
        coef0 = None if coef0 is None else coef0[:, data.order]
        if self._takes_pairs:
            starts = np.array([0, *itertools.accumulate(np.bincount(data.labels).tolist())])
            all_pairs = self._pairs
            pairs = [all_pairs[p] for p in problems]
            # MiB for values within classes, which several pairs use; the rest is for the values of
            # one pair. Set by hand.
            memory_mb = 0.5 * self.cache_size
            result = solve_pairs(rows, starts, C, limits, pairs, coef0=coef0, memory_mb=memory_mb)
        else:
            Z = np.ascontiguousarray(self._signs(data.labels)[data.order].T)
            lower, upper = np.minimum(0.0, Z * C), np.maximum(0.0, Z * C)
            result = solve_each(rows, Z, lower, upper, limits, coef0=coef0)
        solution.coef[:, data.order] = result.coef
        solution.record(problems, result)
        for p, reason in zip(problems, result.stop_reason, strict=True):
            solution.reasons[p] = reason
        solution.small_entries = result.kernel_entries
        solution.interior_iter += [count for count in result.interior_iterations if count]

    def _comparable_last_fit(self, data: TrainingSet) -> LastFit | None:
        """The last fit, if it had the same classes in the same rows and proportional bounds."""
        last: LastFit | None = getattr(self, "_last", None)
        if not self.warm_start or last is None or not np.array_equal(last.labels, data.labels):
            return None
        ratio = data.C.max() / last.C.max()
        # Guard: bounds that differ by this fraction are equal up to rounding.
        return last if np.allclose(data.C, last.C * ratio, rtol=1e-12, atol=0.0) else None

    def _start(self, problem: KernelProblems, last: LastFit | None, key: str) -> Start | None:
        """Where the large-problem solver starts, if not at zero; `key` is the hash of X."""
        pairs = self._pairs if self._takes_pairs else None
        return None if last is None else last.start(problem, pairs, key, self.tol)
