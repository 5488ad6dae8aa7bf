"""Exact kernel ridge regression: (K + alpha I) c = y (`kbench.solvers.ridge.kernel_ridge`)."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.approximation import FactoredKernel, LowRankKernel, Machine, Nystrom
from kbench.kernels import KernelMatrix
from kbench.methods.base.limits import MAX_TIME
from kbench.methods.base.ridge import (
    KernelParameter,
    KernelRidgeEstimator,
    WeightedRidgeClassifierMixin,
    WeightedRidgeRegressorMixin,
    warn_unconverged,
)
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.solvers import solve_kernel_ridge
from kbench.trace import Deadline, Trace


@dataclass(eq=False, repr=False)
class ExactRidge(KernelRidgeEstimator):
    """Kernel ridge on the kernel matrix itself; base class of regressor and classifier.

    Parameters
    ----------
    alpha : float or "loo", default="loo"
        Added to the diagonal of the kernel matrix: lambda of the papers.
        "loo": the one of the lowest leave-one-out error on at most 500 rows, `alpha_`.
    kernel : str or callable, default="rbf"
        A positive semidefinite kernel of `kbench.kernels.KERNELS`.
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        `kernel`, `gamma`, `degree` and `coef0` are as in `KernelSVC`.
    solver : {"cholesky", "pcg"}, default="cholesky"
        The preconditioner of conjugate gradients on the kernel matrix: its Cholesky factorisation,
        n^2 numbers, or a low-rank approximation, n `n_landmarks` numbers. The solution is the same
        to `tol`.
    n_landmarks : int, default=1000
        For "pcg": rows chosen by randomly pivoted Cholesky. More of them save iterations.
    tol : float, default=1e-8
        Largest relative residual of (K + alpha I) C = Y, with kernel values in float64.
    max_iter : int, default=200
        Largest number of products with the kernel matrix.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between products.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the factorisation, or of the approximation.
    memory_mb : float, default=8192.0
        Largest size of it in MiB; a larger one is refused before anything is computed.
    fit_intercept : bool, default=False
        Whether to subtract the mean of the targets before the fit and to add it to the estimates.
        A ridge machine has no intercept by definition: f tends to 0 away from the rows.

    Attributes
    ----------
    dual_coef_ : (n, m) float64
    n_iter_ : int
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed, without those of the choice of landmarks.
    n_parameters_ : int
        n^2, the entries of the kernel matrix.
    timings_ : dict of str to float
        Seconds of "precondition" ("pcg") and "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    "cholesky" takes O(n^3 / 3 + n^2 d) time and n^2 numbers, "pcg" with m landmarks O(n m^2) and
    O(n^2 d) for an iteration, n m numbers. Prediction costs O(n d) a row.
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelRidgeEstimator._parameter_constraints,
        "solver": [StrOptions({"cholesky", "pcg"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "max_time": MAX_TIME,
        "dtype": [StrOptions({"float32", "float64"})],
        "memory_mb": [Interval(Real, 0, None, closed="neither")],
    }

    alpha: float | str = "loo"
    _: KW_ONLY
    kernel: KernelParameter = "rbf"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    solver: str = "cholesky"
    n_landmarks: int = 1000
    tol: float = 1e-8
    max_iter: int = 200
    max_time: float | None = None
    dtype: str = "float32"
    memory_mb: float = 8192.0

    def _solve(
        self, X: Any, Y: np.ndarray, trace: Trace, weight: np.ndarray | None = None
    ) -> Machine:
        deadline = Deadline(self.max_time, trace)
        scale = None if weight is None else np.sqrt(weight)
        targets = Y if scale is None else scale[:, None] * Y
        precondition = None
        entries = 0
        if self.solver == "cholesky":
            check_memory(len(Y), self.dtype, self.memory_mb)
        else:
            with trace.phase("precondition"):
                precondition, entries = self._low_rank_inverse(X, scale)
        with trace.phase("solve"):
            kernel = KernelMatrix(self._kernel(X), X, self.dtype)
            result = solve_kernel_ridge(
                kernel,
                targets,
                self.alpha_,
                scale=scale,
                precondition=precondition,
                tol=self.tol,
                max_iter=self.max_iter,
                max_time=deadline.seconds_left(),
                trace=trace,
            )
        warn_unconverged(result, self)
        self.dual_coef_ = result.x if scale is None else scale[:, None] * result.x
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        self.kernel_entries_ = kernel.n_entries + entries
        self.n_parameters_ = len(Y) ** 2
        dtype = prediction_dtype(kernel, self.dual_coef_)
        return KernelExpansion(kernel, np.arange(len(Y)), self.dual_coef_, dtype)

    def _low_rank_inverse(
        self, X: Any, scale: np.ndarray | None
    ) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
        """(S G~ S + alpha I)^-1 of the Nystrom approximation, and the number of kernel values."""
        n = X.shape[0]
        size = min(self.n_landmarks, n)
        needed = np.dtype(self.dtype).itemsize * n * size / 2**20
        if needed > self.memory_mb:
            raise ValueError(
                f"values of {n} points at {size} landmarks take {needed:.0f} MiB, more than "
                f"memory_mb={self.memory_mb:g}; use fewer landmarks"
            )
        # The landmarks change the number of iterations, not the solution, so the seed is fixed.
        feature_map = Nystrom(
            size,
            kernel=self.kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            landmarks="rpcholesky",
            random_state=0,
        ).fit(X)
        matrix: FactoredKernel = LowRankKernel(feature_map, X, self.dtype)
        if scale is not None:
            matrix = matrix.scaled(scale)
        return matrix.preconditioner(self.alpha_, size), size**2 + n * feature_map.n_landmarks_


class KernelRidge(WeightedRidgeRegressorMixin, ExactRidge):
    """Exact kernel ridge regression; parameters and attributes are those of `ExactRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import KernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> KernelRidge(0.1, gamma=50.0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.3
    True
    """


@dataclass(eq=False, repr=False)
class KernelRidgeClassifier(WeightedRidgeClassifierMixin, ExactRidge):
    """Exact kernel ridge classification; parameters and attributes are those of `ExactRidge`.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Of the folds for `probability`.
    """

    _parameter_constraints: ClassVar[dict] = {
        **ExactRidge._parameter_constraints,
        "random_state": ["random_state"],
    }

    random_state: Any = field(default=None, kw_only=True)


def check_memory(n: int, dtype: str, memory_mb: float) -> None:
    """Refuse a kernel matrix of order n that exceeds `memory_mb`."""
    needed = np.dtype(dtype).itemsize * n**2 / 2**20
    if needed > memory_mb:
        raise ValueError(
            f"the kernel matrix of {n} points takes {needed:.0f} MiB, more than "
            f"memory_mb={memory_mb:g}; ApproximateRidge takes less"
        )
