"""What kernel support vector classifiers share: parameters, problems, the solution's account."""

import itertools
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import _ovr_decision_function

from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.functions import FunctionKernel, Precomputed
from kbench.methods._one_vs_rest import OneVsRest
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import BoxDualResult, solve_box_dual
from kbench.trace import Trace


class Problem(NamedTuple):
    """A training set as one or several binary problems."""

    X: Any  # (n, d) array or CSR, checked
    kernel: KernelMatrix
    Y: np.ndarray  # (n, m) of -1, +1, and 0 for rows that are not in the problem
    C: np.ndarray  # (n,) upper bounds: C times the weights of row and class
    labels: np.ndarray  # (n,) number of each row's class in `classes_`


class BoxSVC(CountedPrediction, OneVsRest):
    """Base of the classifiers; a subclass has `fit`, which sets `_machine`: X -> (u, m)."""

    _parameter_constraints: ClassVar[dict] = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"rbf", "laplacian", "poly", "linear", "precomputed"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "cache_mb": [Interval(Real, 0, None, closed="left")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="left"), None],
        "dtype": [StrOptions({"float32", "float64"})],
        "shrinking": ["boolean"],
    }

    @property
    def _tolerance(self) -> float:
        """The tolerance in effect, which a subclass may take from a preset."""
        return self.tol

    @property
    def _one_vs_one(self) -> bool:
        """Whether several classes are taken by pairs."""
        return False

    def _decide(self, X: Any) -> np.ndarray:
        values = self._machine(X) + self.intercept_
        if self._one_vs_one and len(self.classes_) > 2:
            # Votes of the pairs, and their confidence where votes are equal, as SVC's.
            return _ovr_decision_function(values < 0, -values, len(self.classes_))
        return values

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> Problem:
        """Check the input, learn the classes and set up the binary problems."""
        X, index, C = self._checked(X, y, sample_weight)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(f"kernel='precomputed' needs a square matrix, got shape {X.shape}")
        kernel = make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
        return Problem(
            X=X,
            kernel=KernelMatrix(kernel, X, self.dtype),
            Y=self._signs(index),
            C=C,
            labels=index,
        )

    def _signs(self, index: np.ndarray) -> np.ndarray:
        k = len(self.classes_)
        if k == 2 or not self._one_vs_one:
            return super()._signs(index)
        pairs = itertools.combinations(range(k), 2)
        return np.column_stack([1.0 * (index == i) - 1.0 * (index == j) for i, j in pairs])

    def _finish(
        self,
        problem: Problem,
        alpha: np.ndarray,
        results: Sequence[BoxDualResult],
        intercept: Sequence[float] | float = 0.0,
    ) -> Self:
        """Set what describes the solution alpha : (n, m), and warn where a limit was met.

        intercept : (m,) or one number for all
        """
        self.intercept_ = np.broadcast_to(intercept, (alpha.shape[1],)).astype(np.float64)
        self.support_ = np.flatnonzero(alpha.any(axis=1))
        self.dual_coef_ = (alpha * problem.Y)[self.support_].T
        self.n_support_ = np.bincount(problem.labels[self.support_], minlength=len(self.classes_))
        self.n_iter_ = sum(result.n_iter for result in results)
        self.objective_ = float(sum(result.objective for result in results))
        self.duality_gap_ = float(sum(result.duality_gap for result in results))
        self.violation_ = max(result.violation for result in results)
        self.converged_ = all(result.converged for result in results)
        if not self.converged_:
            reasons = sorted({result.stop_reason for result in results if not result.converged})
            warnings.warn(
                f"stopped by {', '.join(reasons)} at a violation of {self.violation_:.2g}, above "
                f"tol={self._tolerance:g}; the model is usable",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _solver_options(self) -> dict[str, Any]:
        return {
            "tol": self._tolerance,
            "cache_mb": self.cache_mb,
            "max_iter": self.max_iter,
            "shrinking": self.shrinking,
        }

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


class Start(NamedTuple):
    """Where m problems start, and what is known there."""

    alpha: np.ndarray  # (n, m)
    gradient: np.ndarray | None = None  # (n, m), nan where it is not known
    gradient_error: float = 0.0  # bound on its error


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
    """Solve the dual for each column of Y : (n, m); a row with 0 is not in that problem.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    C : (n,)
    start : Start, optional
        Default is zero.
    max_time : float, optional
        Seconds for all problems together.
    trace, **options
        As in `solve_box_dual`.

    Notes
    -----
    Several problems share the kernel matrix of a callable, where it fits into `cache_mb` as a
    whole. Values of the named kernels are computed again: that takes less than the matrix, for ten
    classes of USPS a quarter of the time.
    """
    n, m = Y.shape
    dear = isinstance(kernel.kernel, FunctionKernel)
    if m > 1 and dear and 8 * n * n <= options["cache_mb"] * 2**20:
        gram = kernel.astype(np.float64).block(np.arange(n))
        kernel = KernelMatrix(Precomputed(), gram, np.float64)
    trace = Trace() if trace is None else trace
    started = time.perf_counter() - trace.paused_wall_s
    results = []
    for j, y in enumerate(Y.T):
        if max_time is not None:
            spent = time.perf_counter() - trace.paused_wall_s - started
            options["max_time"] = max(0.0, max_time - spent)
        rows = np.flatnonzero(y)
        if start is not None:
            options["alpha0"] = start.alpha[rows, j]
            options["gradient_error"] = start.gradient_error
            if start.gradient is not None:
                options["gradient0"] = start.gradient[rows, j]
        if len(rows) == n:
            results.append(solve_box_dual(kernel, y, C, trace=trace, **options))
            continue
        part = kernel.take(rows)
        result = solve_box_dual(part, y[rows], C[rows], trace=trace, **options)
        kernel.count(part.n_entries)
        alpha, gradient = np.zeros(n), np.full(n, np.nan)
        alpha[rows], gradient[rows] = result.alpha, result.gradient
        results.append(replace(result, alpha=alpha, gradient=gradient))
    return results
