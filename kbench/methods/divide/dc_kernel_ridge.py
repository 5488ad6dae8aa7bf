"""Divide-and-conquer kernel ridge regression: the mean of exact models of random subsets.

Zhang, Duchi and Wainwright, "Divide and Conquer Kernel Ridge Regression" (COLT 2013).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_random_state

from kbench.approximation import Machine
from kbench.chunked import ChunkedRows
from kbench.errors import warn
from kbench.kernels import KernelMatrix, make_kernel
from kbench.methods.base.penalty import ALPHA_ROWS, chosen_alpha
from kbench.methods.base.ridge import (
    KernelRidgeEstimator,
    RidgeClassifierMixin,
    RidgeRegressorMixin,
    sample_targets,
    warn_unconverged,
)
from kbench.methods.base.sizes import CLIPPED_GROUP_ROWS, number_of_groups
from kbench.methods.base.survey import Survey
from kbench.methods.exact.kernel_ridge import check_memory
from kbench.methods.out_of_core.ridge_chunks import SubsetTrainer, fit_subsets
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.solvers import CGResult, solve_kernel_ridge
from kbench.trace import Deadline, Trace
from kbench.validated import integer, usual

# The default number of subsets is at most `_MAX_SUBSETS`, unless subsets would then have more than
# `_MAX_SUBSET_ROWS` rows, whose kernel matrix is 1 GiB of float32. More and smaller subsets take
# less time and memory, but cost accuracy. Set by hand.
_MAX_SUBSETS, _MAX_SUBSET_ROWS = 10, 16_384


@dataclass(eq=False, repr=False)
class DCRidge(KernelRidgeEstimator):
    """Mean of kernel ridge models on random subsets; base class of regressor and classifier.

    Parameters
    ----------
    n_parts : int or None, default=None
        c, the number of subsets. None: one for each 500 rows, at most 10, or one for each 16,384
        rows if those are more.
    alpha : float or "loo", default="loo"
        Added to the diagonal of every subset's kernel matrix; it is not divided by c. (The paper
        adds lambda ||f||^2 to the mean of a subset's squared errors, with the lambda of the whole
        problem: alpha is lambda n / c there.)
        "loo" takes the lowest leave-one-out error on at most 500 rows; `alpha_` is the choice.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; the kernel is positive semidefinite.
    fit_intercept, max_time
        As in `KernelRidge`; all subsets share the seconds.
    tol, max_iter, dtype, memory_mb
        As in `KernelRidge`, for each subset; `max_iter` is 50 by default, set by hand.
    n_jobs : int or None, default=None
        Subsets that are solved in parallel, through joblib. The result does not depend on it.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    dual_coef_ : (n, m) float64
        Coefficients of the mean: those of the subsets divided by c.
    n_iter_ : int
        Largest number of iterations of a subset.
    converged_ : bool
    kernel_entries_ : int
    kernel_numbers_ : int
        Entries of the subsets' kernel matrices.
    timings_ : dict of str to float
        Seconds of "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    O(n^3 / (3 c^2) + n^2 d / c) time; memory for n^2 / c^2 kernel values for each subset that is
    being solved. Prediction costs O(n d) a row. Rows in chunks (`ChunkedRows`) are written to disk
    by subset; the subsets are those of rows in memory, and there is no `dual_coef_`.

    References
    ----------
    Y. Zhang, J. Duchi, M. Wainwright, "Divide and Conquer Kernel Ridge Regression", COLT 2013.
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelRidgeEstimator._parameter_constraints,
        "n_parts": [integer(1), None],
        **usual("tol", "max_iter", "max_time", "dtype", "memory_mb", "n_jobs", "random_state"),
    }

    n_parts: int | None = None
    _: KW_ONLY
    alpha: float | str = "loo"
    tol: float = 1e-8
    max_iter: int = 50
    max_time: float | None = None
    dtype: str = "float32"
    memory_mb: float = 8192.0
    n_jobs: int | None = None
    random_state: Any = None

    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        deadline = Deadline(self.max_time, trace)
        n = len(Y)
        subsets = self._subsets(n)
        n_parts = len(subsets)
        with trace.phase("solve"):
            kernel = KernelMatrix(self._kernel(X), X, self.dtype)
            results = Parallel(n_jobs=self.n_jobs)(
                delayed(_solve_subset)(
                    kernel.take(rows),
                    Y[rows],
                    self.alpha_,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    max_time=deadline.seconds_left(),
                )
                for rows in subsets
            )
        self.dual_coef_ = np.empty(Y.shape)
        for rows, (result, n_entries) in zip(subsets, results, strict=True):
            self.dual_coef_[rows] = result.x / n_parts
            kernel.count(n_entries)
        worst = max((result for result, _ in results), key=lambda result: result.residual.max())
        warn_unconverged(worst, self)
        self.n_iter_ = max(result.n_iter for result, _ in results)
        self.converged_ = worst.converged
        self.kernel_entries_ = kernel.n_entries
        self.kernel_numbers_ = sum(len(rows) ** 2 for rows in subsets)
        dtype = prediction_dtype(kernel, self.dual_coef_)
        return KernelExpansion(kernel, np.arange(n), self.dual_coef_, dtype)

    def _subsets(self, n: int) -> list[np.ndarray]:
        """The rows of each subset, in random order."""
        n_parts = number_of_groups(self.n_parts, n, _MAX_SUBSETS, _MAX_SUBSET_ROWS)
        if n_parts > n:
            n_parts = max(1, n // CLIPPED_GROUP_ROWS)
            warn(
                f"n_parts={self.n_parts} is more than the {n} training points; it is reduced to "
                f"{n_parts}"
            )
        check_memory(-(-n // n_parts), self.dtype, self.memory_mb)
        return np.array_split(check_random_state(self.random_state).permutation(n), n_parts)

    def _sample_size(self) -> int | None:
        return ALPHA_ROWS

    def _solve_chunks(self, rows: ChunkedRows, survey: Survey, seed: int, trace: Trace) -> Machine:
        sample = survey.sample
        options: dict[str, Any] = {
            "gamma": survey.gamma(self.gamma),
            "degree": self.degree,
            "coef0": self.coef0,
        }
        kernel = make_kernel(self.kernel, sample, **options)
        self.alpha_ = chosen_alpha(self.alpha, lambda: kernel, sample, sample_targets(survey))
        subsets = self._subsets(survey.n)
        trainer = SubsetTrainer(
            kernel, self.dtype, survey.targets, self.alpha_, self.tol, self.max_iter, len(subsets)
        )
        subset_fit = fit_subsets(trainer, rows, survey, subsets, trace, self.n_jobs)
        worst = max(subset_fit.records, key=lambda record: record.residual.max())
        warn_unconverged(worst, self)
        self.n_iter_ = max(record.n_iter for record in subset_fit.records)
        self.converged_ = worst.converged
        self.kernel_entries_ = sum(record.kernel_entries for record in subset_fit.records)
        self.kernel_numbers_ = sum(record.n_rows**2 for record in subset_fit.records)
        self.notes_ = subset_fit.notes
        return subset_fit.machine


class DCKernelRidge(RidgeRegressorMixin, DCRidge):
    """Divide-and-conquer kernel ridge regression; parameters and attributes as in `DCRidge`."""


@dataclass(eq=False, repr=False)
class DCKernelRidgeClassifier(RidgeClassifierMixin, DCRidge):
    """Divide-and-conquer kernel ridge classification; parameters as in `DCRidge`."""


def _solve_subset(
    kernel: KernelMatrix, Y: np.ndarray, alpha: float, **limits: Any
) -> tuple[CGResult, int]:
    """A subset's coefficients, and the number of kernel values computed for them."""
    result = solve_kernel_ridge(kernel, Y, alpha, **limits)
    return result, kernel.n_entries
