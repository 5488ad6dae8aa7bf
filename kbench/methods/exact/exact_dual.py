"""Base of the estimators that fit one or a few functions by duals over all training rows."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.functions.precomputed import Precomputed
from kbench.kernels.value_range import KernelRangeError
from kbench.methods.base.finished_fit import require_finite
from kbench.methods.base.new_rows import checked_rows
from kbench.methods.exact.callable_kernel import EXACT_CONSTRAINTS, TakesAnyRows, WholeRowsKernel
from kbench.methods.exact.expansions import (
    interior_note,
    is_dense_gaussian,
    shared_expansion,
    small_rows,
)
from kbench.methods.exact.interior import Dual, InteriorPoint
from kbench.methods.exact.svc_conventions import NOT_FITTED, freeze, match_rows
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import RegressionDualResult, solve_regression_dual
from kbench.solvers.best_multiple import least_loss_intercept
from kbench.solvers.interior_point.duals import InteriorResult
from kbench.solvers.small import MAX_POINTS_OF_REGRESSION, StepLimits, is_small, solve_each
from kbench.trace import Deadline, Trace

# A constant function keeps the solver's intercept up to this violation, as a fraction of the range
# of the targets, and gets the intercept of least loss above it. Set by hand.
_MAX_VIOLATION = 0.1


class DualSolution(NamedTuple):
    """The solution of one dual by any solver.

    The fields are those of `RegressionDualResult`; `stop_reason` may also be "rounding".
    """

    coef: np.ndarray  # (n,)
    intercept: float
    objective: float
    violation: float
    duality_gap: float
    n_iter: int
    stop_reason: str
    interior_iterations: int = 0

    @classmethod
    def of(cls, result: Any, interior_iterations: int = 0) -> "DualSolution":
        """Make a solution of a solver's result."""
        names = [name for name in cls._fields if name != "interior_iterations"]
        fields = {name: getattr(result, name) for name in names}
        return cls(**fields, interior_iterations=interior_iterations)


class ExactDual(CountedPrediction, TakesAnyRows):
    """Base of estimators that solve m duals over the same rows,

        min_b  1/2 b'Kb - z'b + epsilon |b|_1,   l <= b <= u  [ , 1'b = s ],

    and whose functions are the kernel expansions K b + intercept.

    A subclass has `fit`, which calls `_fit_duals`, and in `_sklearn_class` the name of the class of
    scikit-learn that it replaces.
    """

    _sklearn_class: ClassVar[str]
    _parameter_constraints: ClassVar[dict] = EXACT_CONSTRAINTS

    def _fit_duals(
        self,
        X: Any,
        duals: Sequence[Dual],
        trace: Trace,
        *,
        coupled: bool,
        start: np.ndarray | None = None,
        tol_unit: float = 1.0,
    ) -> set[str]:
        """Solve the duals, of equal epsilon, and set the fitted attributes.

        X : (n, d) checked rows
        coupled : whether the functions have intercepts
        start : (n,) coefficients within the bounds that have the sum s; None: 0
        tol_unit : Violation of which `tol` is a multiple

        Returns the stop reasons except "tol".
        """
        fit_X = X
        with trace.phase("prepare"):
            X, kernel = self._training_kernel(X)
        with trace.phase("solve"):
            self.kernel_entries_ = 0
            solutions, matrix = self._solve(
                X, kernel, duals, trace, coupled, start, tol_unit * self.tol
            )
            if coupled and start is None:
                solved_duals = zip(solutions, duals, strict=True)
                solutions = [_with_best_constant(solution, dual) for solution, dual in solved_duals]
            self._set_solutions(solutions, coupled)
        with trace.phase("prepare"):
            self._set_machine(fit_X, X, kernel, matrix)
        if callable(self.kernel) and isinstance(kernel, Precomputed):
            self.kernel_entries_ = X.shape[0] ** 2  # all values were computed in advance
        self.timings_ = dict(trace.timings)
        if self.verbose:
            print(
                f"{type(self).__name__}: {self.n_iter_} steps, {len(self.support_)} support "
                f"vectors, violation {self.violation_:.2g}, {self.timings_['solve']:.3g} s"
            )
        return {solution.stop_reason for solution in solutions} - {"tol"}

    def _solve(
        self,
        X: Any,
        kernel: Kernel,
        duals: Sequence[Dual],
        trace: Trace,
        coupled: bool,
        start: np.ndarray | None,
        tol: float,
    ) -> tuple[list[DualSolution], KernelMatrix | None]:
        """Solutions of the duals, and the matrix of the large-problem solver if it was used."""
        n, deadline = len(duals[0].rows), Deadline(self.max_time, trace)
        coef_sum = 0.0 if start is None else float(start.sum())
        interior_point = InteriorPoint(
            kernel,
            X,
            coupled=coupled,
            tol=tol,
            cache_mb=self.cache_size,
            max_iter=self.max_iter,
            deadline=deadline,
            trace=trace,
            coef_sum=coef_sum,
        )
        rows = None if isinstance(kernel, Precomputed | WholeRowsKernel) else X
        solutions: list[DualSolution | None] = [None] * len(duals)
        if coupled and is_small(n, rows, self.cache_size, MAX_POINTS_OF_REGRESSION):
            limits = StepLimits(tol, self.max_iter, deadline, trace, memory_mb=self.cache_size)
            try:
                solutions = self._solve_small(X, kernel, duals, limits, start, coef_sum)
            except KernelRangeError:
                # The small-problem solver has float32 rows; the other solver may have float64.
                if KernelMatrix(kernel, X, self.dtype).dtype == np.float32:
                    raise
        elif interior_point.uses_map(n):
            results = [interior_point.solve_by_rank(dual) for dual in duals]
            solutions = [None if result is None else _to_solution(result) for result in results]
        if None not in solutions:
            return solutions, None  # type: ignore[return-value]
        matrix = KernelMatrix(kernel, X, self.dtype)

        def solve_large(dual: Dual, max_iter: int) -> RegressionDualResult:
            result = solve_regression_dual(
                matrix,
                dual.z,
                dual.upper,
                lower=dual.lower,
                epsilon=dual.epsilon,
                coef0=start,
                intercept=coupled,
                tol=tol,
                cache_mb=self.cache_size,
                max_iter=max_iter,
                max_time=deadline.seconds_left(),
                shrinking=self.shrinking,
                trace=trace,
            )
            self.kernel_entries_ += result.kernel_entries
            return result

        def solve_dual(dual: Dual) -> DualSolution:
            result = interior_point.with_step_limit(
                dual, self.max_iter, lambda steps: solve_large(dual, steps)
            )
            if isinstance(result, InteriorResult):
                return _to_solution(result)
            return DualSolution.of(result)

        return [
            solve_dual(dual) if solution is None else solution
            for dual, solution in zip(duals, solutions, strict=True)
        ], matrix

    def _solve_small(
        self,
        X: Any,
        kernel: Kernel,
        duals: Sequence[Dual],
        limits: StepLimits,
        start: np.ndarray | None,
        coef_sum: float,
    ) -> list[DualSolution | None]:
        """Solve by the small-problem solver; None where float32 rows cannot reach `tol`."""
        kernel_rows = small_rows(kernel, X, np.arange(len(duals[0].rows)))
        z, lower, upper = (
            np.array([getattr(dual, name) for dual in duals]) for name in ("z", "lower", "upper")
        )
        starts = None if start is None else np.tile(start, (len(duals), 1))
        result = solve_each(
            kernel_rows,
            z,
            lower,
            upper,
            limits,
            epsilon=duals[0].epsilon,
            coef0=starts,
            total=coef_sum,
        )
        self.kernel_entries_ += result.kernel_entries
        columns = [getattr(result, name) for name in DualSolution._fields]
        solutions = [DualSolution(*values) for values in zip(*columns, strict=True)]
        return [None if solution.stop_reason == "precision" else solution for solution in solutions]

    def _set_solutions(self, solutions: Sequence[DualSolution], coupled: bool) -> None:
        coef = np.array([solution.coef for solution in solutions])
        self.support_ = np.flatnonzero(coef.any(axis=0))
        self.dual_coef_ = coef[:, self.support_]
        self.intercept_ = np.array([float(s.intercept) if coupled else 0.0 for s in solutions])
        require_finite(self, dual_coef_=self.dual_coef_, intercept_=self.intercept_)
        self.n_support_ = np.count_nonzero(self.dual_coef_, axis=1)
        self.objective_ = float(sum(solution.objective for solution in solutions))
        self.duality_gap_ = float(sum(solution.duality_gap for solution in solutions))
        self.violation_ = float(max(solution.violation for solution in solutions))
        self.n_iter_ = int(sum(solution.n_iter for solution in solutions))
        self.converged_ = all(solution.stop_reason == "tol" for solution in solutions)
        self.fit_status_ = int(not self.converged_)
        counts = [solution.interior_iterations for solution in solutions]
        iterations = [count for count in counts if count]
        self.notes_: tuple[str, ...] = ()
        if iterations:
            self.notes_ = (interior_note(len(iterations), len(solutions), sum(iterations)),)

    def _set_machine(self, fit_X: Any, X: Any, kernel: Kernel, matrix: KernelMatrix | None) -> None:
        """Set the machine and the support vectors.

        fit_X : the rows of `fit`; X : the rows as the solvers take them
        matrix : the large-problem solver's, if it solved a problem
        """
        has_no_rows = isinstance(kernel, Precomputed | WholeRowsKernel)
        self.support_vectors_ = np.empty((0, 0)) if has_no_rows else fit_X[self.support_]
        rows = self._fit_rows if callable(self.kernel) else X
        self.shape_fit_ = rows.shape if hasattr(rows, "shape") else (len(rows),)
        coef = self.dual_coef_
        self.dual_coef_ = match_rows(coef, X)
        if matrix is None and not is_dense_gaussian(kernel, X):
            matrix = KernelMatrix(kernel, X, self.dtype)
        self._machine: Any = shared_expansion(kernel, X, self.support_, coef, matrix)
        self.model_bytes_ = self._machine.nbytes

    def _expansion_values(self, X: Any) -> np.ndarray:
        """K b of rows X : (u, d), with kernel="precomputed" (u, n_train); (u, m) float64."""
        check_is_fitted(self, msg=NOT_FITTED.format(self._sklearn_class))
        if callable(self.kernel):
            blocks = [self._machine(self._new_values(rows)) for rows in self._row_blocks(X)]
            return np.concatenate(blocks)
        X = checked_rows(self, X)
        assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
        values: np.ndarray = self._machine(X)
        return values

    @property
    def coef_(self) -> Any:
        """Weights of the features, (m, d); only with kernel="linear"."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        return freeze(matmul(self.dual_coef_, self.support_vectors_))


def _with_best_constant(solution: DualSolution, dual: Dual) -> DualSolution:
    """The solution, with the intercept of least loss if a loose `tol` left no support vector: the
    usual intercept, the middle between the extreme targets, depends on two rows."""
    if solution.coef.any() or solution.violation <= _MAX_VIOLATION * np.ptp(dual.z):
        return solution
    constant = least_loss_intercept(dual.z, dual.lower, dual.upper, dual.epsilon)
    return solution._replace(intercept=constant)


def _to_solution(result: InteriorResult) -> DualSolution:
    # At least 1, because 0 means that another solver found the solution.
    return DualSolution.of(result, max(1, result.n_iter))
