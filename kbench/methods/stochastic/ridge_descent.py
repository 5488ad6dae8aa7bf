"""Common part of the estimators that solve full kernel ridge regression by randomised steps.

The estimators solve the system of `KernelRidge`, (K + alpha I) c = y, without a factorisation: each
step takes the kernel values of some rows with all rows, and memory is O(n).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from kbench.approximation import Machine
from kbench.kernels import KernelMatrix
from kbench.methods.base.ridge import KernelRidgeEstimator, warn_unconverged
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.solvers.ridge.limited_steps import DescentResult
from kbench.trace import Deadline, Trace
from kbench.validated import usual


@dataclass(eq=False, repr=False)
class RidgeDescent(KernelRidgeEstimator):
    """Base class of ASkotch, stochastic dual descent and EigenPro 2 and 3.

    Parameters
    ----------
    alpha : float or "loo", default="loo"
        Added to the diagonal of the kernel matrix: lambda of the papers.
        "loo" takes the lowest leave-one-out error on at most 500 rows; `alpha_` is the choice.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; the kernel is positive semidefinite.
    tol : float, default=1e-4
        Largest relative residual of (K + alpha I) C = Y, by float64 kernel values. Set by hand.
    max_iter : int
        Largest number of steps. Set by hand.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between steps.
    fit_intercept : bool, default=False
        As in `KernelRidge`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    dual_coef_ : (n, m) float64
    n_iter_ : int
        Steps.
    residual_ : (m,) float64
        Relative residual of the system at all rows for each target; with EigenPro 3 the system is
        its normal equations.
    converged_ : bool
        Whether all residuals are at most `tol`. If not, the coefficients are the best multiple of
        the last coefficients, with a ConvergenceWarning.
    kernel_entries_ : int
    n_parameters_ : int
        Features of all rows with coefficients, plus coefficients.
    timings_ : dict of str to float
        Seconds of "solve".
    model_bytes_, n_features_in_ : int
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelRidgeEstimator._parameter_constraints,
        **usual("tol", "max_iter", "max_time", "random_state"),
    }

    alpha: float | str = "loo"
    _: KW_ONLY
    tol: float = 1e-4
    max_iter: int = 10_000
    max_time: float | None = None
    random_state: Any = None

    @abstractmethod
    def _descend(self, kernel: KernelMatrix, Y: np.ndarray, **limits: Any) -> DescentResult:
        """Solve the system; `limits` are the solvers' arguments from `tol` on."""

    def _centres(self, n: int, rng: np.random.RandomState) -> np.ndarray:
        """The rows with coefficients: all n rows, unless a subclass draws fewer."""
        return np.arange(n)

    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        deadline = Deadline(self.max_time, trace)
        with trace.phase("solve"):
            kernel = KernelMatrix(self._kernel(X), X)
            rng = check_random_state(self.random_state)
            centres = self._centres(len(kernel), rng)

            def machine(coef: np.ndarray) -> KernelExpansion:
                dtype = prediction_dtype(kernel, coef, centres)
                return KernelExpansion(kernel, centres, coef, dtype)

            def predictor(coef: np.ndarray) -> Callable[[Any], np.ndarray]:
                def predict(rows: Any) -> np.ndarray:
                    self._machine = machine(coef)
                    return np.asarray(self.predict(rows))

                return predict

            result = self._descend(
                kernel,
                Y,
                tol=self.tol,
                max_iter=self.max_iter,
                deadline=deadline,
                rng=rng,
                trace=trace,
                predictor=predictor,
            )
        warn_unconverged(result, self)
        self.dual_coef_, self.residual_ = result.x, result.residual
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        for name, value in result.chosen.items():
            setattr(self, f"{name}_", value)
        self.kernel_entries_ = kernel.n_entries
        self.n_parameters_ = len(centres) * X.shape[1] + result.x.size
        return machine(result.x)
