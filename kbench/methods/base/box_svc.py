"""Base of the kernel support vector classifiers: parameters, problems, and reported results."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kbench.chunked import ChunkedRows
from kbench.errors import warn
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.constraints import kernel_constraints
from kbench.kernels.functions.callable import FunctionKernel
from kbench.kernels.functions.precomputed import Precomputed
from kbench.methods.base.one_vs_rest import OneVsRest, WeightedOneVsRest
from kbench.methods.base.penalty import C_CONSTRAINT
from kbench.methods.base.training_kernel import training_kernel
from kbench.methods.base.widths import scaled_rows
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import BoxDualResult, solve_box_dual
from kbench.trace import Deadline, Trace
from kbench.validated import integer, needs_memory, usual


class KernelProblems(NamedTuple):
    """A training set as one or several binary problems of a kernel."""

    X: Any  # (n, d) array or CSR, checked
    kernel: KernelMatrix
    Y: np.ndarray  # (n, m) of -1, +1, and 0 for rows that are not in the problem
    C: np.ndarray  # (n,) upper bounds: C times the weights of row and class
    labels: np.ndarray  # (n,) number of each row's class in `classes_`
    unscaled_X: Any = None  # (n, d), X before its columns are scaled by widths of the kernel


class BoxSVC(CountedPrediction, OneVsRest):
    """Base of the kernel support vector classifiers.

    A subclass has `fit`, which sets `_machine`, a function of rows X : (u, d) with values (u, m).
    """

    _parameter_constraints: ClassVar[dict] = {
        **kernel_constraints(function=True),
        "max_iter": [integer(-1)],
        **usual("tol", "max_time", "dtype"),
    }

    @property
    def _tolerance(self) -> float:
        """The tolerance in effect, which a subclass may take from a preset."""
        return self.tol

    def _decide(self, X: Any) -> np.ndarray:
        values: np.ndarray = self._machine(X) + self.intercept_
        return values

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> KernelProblems:
        """Check the input, learn the classes and set up the binary problems."""
        unscaled_X, index, C = self._checked(X, y, sample_weight)
        X = scaled_rows(self, unscaled_X)
        return KernelProblems(
            X=X,
            kernel=KernelMatrix(self._kernel(X), X, self.dtype),
            Y=self._signs(index),
            C=C,
            labels=index,
            unscaled_X=unscaled_X,
        )

    def _fit_chunks(self, rows: ChunkedRows, trace: Trace) -> Self:
        """Train on rows that are larger than memory."""
        raise needs_memory(self)

    def _kernel(self, X: Any) -> Kernel:
        """The kernel function for training rows X."""
        return training_kernel(self, X)

    def _finish(
        self,
        problem: KernelProblems,
        alpha: np.ndarray,
        results: Sequence[BoxDualResult],
        intercept: Sequence[float] | float = 0.0,
    ) -> Self:
        """Set the attributes of the solution, and warn if a limit was met."""
        self._set_solution_attributes(problem, alpha, results, intercept)
        reasons = {result.stop_reason for result in results if not result.converged}
        warn_of_limits(reasons, self, self._tolerance)
        return self

    def _set_solution_attributes(
        self,
        problem: KernelProblems,
        alpha: np.ndarray,
        results: Sequence[BoxDualResult],
        intercept: Sequence[float] | float,
    ) -> None:
        """Set the attributes that describe the solution.

        alpha : (n, m) dual variables
        results : Results of all solved problems
        intercept : (m,), or one number for all problems
        """
        self.intercept_ = np.broadcast_to(intercept, (alpha.shape[1],)).astype(np.float64)
        self.support_ = np.flatnonzero(alpha.any(axis=1))
        self.dual_coef_ = (alpha * problem.Y)[self.support_].T
        self.n_support_ = np.bincount(problem.labels[self.support_], minlength=len(self.classes_))
        self.n_iter_: Any = sum(result.n_iter for result in results)
        self.objective_ = float(sum(result.objective for result in results))
        self.duality_gap_ = float(sum(result.duality_gap for result in results))
        self.violation_ = max(result.violation for result in results)
        self.converged_ = all(result.converged for result in results)

    def _solver_options(self) -> dict[str, Any]:
        return {
            "tol": self._tolerance,
            "cache_mb": self.cache_mb,
            "max_iter": self.max_iter,
            "shrinking": self.shrinking,
        }


@dataclass(eq=False, repr=False, kw_only=True)
class BoxClassifier(BoxSVC, WeightedOneVsRest):
    """`BoxSVC` with the parameters of the problem and of the solver."""

    _parameter_constraints: ClassVar[dict] = {
        **BoxSVC._parameter_constraints,
        "C": C_CONSTRAINT,
        **usual("cache_mb", "class_weight", "probability", "random_state"),
    }

    C: float | str = 1.0
    tol: float | None = 1e-3
    cache_mb: float = 1000.0  # MiB of kernel rows; more save repeated kernel values. Set by hand.
    max_iter: int = -1
    dtype: str = "float32"


def warn_of_limits(
    reasons: set[str], estimator: Any, tol: float, max_iter: int | None = None
) -> None:
    """Issue the ConvergenceWarning of a fit that met limits, on behalf of the caller of `fit`.

    reasons : why problems were stopped before their tolerance; if empty, nothing is issued
    estimator : has `violation_`, `duality_gap_` and `objective_` (to be minimised)
    max_iter : passed by the estimators that replace `SVC`; the message then begins with SVC's words
    """
    if not reasons:
        return
    prefix = ""
    if max_iter is not None and "max_iter" in reasons:
        prefix = (
            f"Solver terminated early (max_iter={max_iter}).  Consider pre-processing your data "
            "with StandardScaler or MinMaxScaler. It was "
        )
    primal = estimator.duality_gap_ - estimator.objective_
    gap = estimator.duality_gap_ / primal if primal > 0.0 else 0.0
    warn(
        f"{prefix}stopped by {', '.join(sorted(reasons))} at a violation of "
        f"{estimator.violation_:.2g}, above tol={tol:g}, and a duality gap of {gap:.2g} times the "
        "primal objective; the model is the best one evaluated",
        ConvergenceWarning,
    )


class Start(NamedTuple):
    """Initial dual variables of m problems, and the gradient at them if it is known."""

    alpha: np.ndarray  # (n, m)
    gradient: np.ndarray | None = None  # (n, m), nan where it is not known
    gradient_error: float = 0.0  # bound on its error

    def of(self, p: int) -> "Start":
        """The start of problem p alone."""
        gradient = None if self.gradient is None else self.gradient[:, [p]]
        return Start(self.alpha[:, [p]], gradient, self.gradient_error)


def solve_problems(
    kernel: KernelMatrix,
    Y: np.ndarray,
    C: np.ndarray,
    start: Start | None = None,
    *,
    max_time: float | None = None,
    trace: Trace | None = None,
    **options: Any,
) -> list[BoxDualResult]:
    """Solve the dual for each column of Y : (n, m); a row with 0 is not in the column's problem.

    kernel : KernelMatrix of n points
    Y : (n, m) of -1, 0 and +1
    C : (n,)
    start : Default is zero
    max_time : Seconds for all problems together
    trace, **options : As in `solve_box_dual`

    Returns results with n alphas and gradients; the gradient is nan at rows that are not in the
    problem.

    Several problems share the kernel matrix of a callable, if all of it fits into `cache_mb`.
    With the other kernels each problem computes the values that it needs: for the ten classes of
    USPS a shared float64 matrix took four times as long.
    """
    n, m = Y.shape
    is_callable = isinstance(kernel.kernel, FunctionKernel)
    if m > 1 and is_callable and 8 * n * n <= options["cache_mb"] * 2**20:
        gram = kernel.astype(np.float64).block(np.arange(n))
        kernel = KernelMatrix(Precomputed(), gram, np.float64)
    trace = Trace() if trace is None else trace
    deadline = Deadline(max_time, trace)
    results = []
    for j, y in enumerate(Y.T):
        options["max_time"] = deadline.seconds_left()
        rows = np.flatnonzero(y)
        if start is not None:
            options["alpha0"] = start.alpha[rows, j]
            options["gradient_error"] = start.gradient_error
            if start.gradient is not None:
                options["gradient0"] = start.gradient[rows, j]
        if len(rows) == n:
            results.append(solve_box_dual(kernel, y, C, trace=trace, **options))
            continue
        submatrix = kernel.take(rows)
        result = solve_box_dual(submatrix, y[rows], C[rows], trace=trace, **options)
        kernel.count(submatrix.n_entries)
        alpha, gradient = np.zeros(n), np.full(n, np.nan)
        alpha[rows], gradient[rows] = result.alpha, result.gradient
        results.append(replace(result, alpha=alpha, gradient=gradient))
    return results
