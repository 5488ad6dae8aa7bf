"""Kernel ridge regression, and classification by it: what all its machines share.

    min_f  ||f - y||^2 + alpha ||f||^2,    f = sum_i c_i k(x_i, .),    (G + alpha I) c = y

with G the kernel matrix or an approximation of it (Si, Hsieh and Dhillon, JMLR 18, 2017, section
6.3; no intercept, as there). Classes are fitted as -1 and +1, several of them one-vs-rest.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from kbench.approximation import KernelApproximation, Machine, kernel_error, sampled_rows
from kbench.kernels import Kernel, KernelMatrix, make_kernel
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import CGResult, solve_cg
from kbench.trace import Trace


class RidgeMachine(CountedPrediction, BaseEstimator, ABC):
    """Base of the machines; a subclass has its parameters and `_solve`.

    Attributes
    ----------
    timings_ : dict of str to float
        Seconds by phase.
    model_bytes_ : int
        What prediction keeps.
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "kernel": [StrOptions({"rbf", "laplacian", "poly", "linear"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
    }

    # Their `decision_function` estimates the targets -1 and +1 themselves.
    fits_targets: ClassVar[bool] = True

    @abstractmethod
    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        """Fit checked rows X : (n, d) to Y : (n, m) float64 and return the function found."""

    def _fit(self, X: Any, Y: np.ndarray, trace: Trace | None) -> Self:
        trace = Trace() if trace is None else trace
        self._machine = self._solve(X, Y, trace)
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        return self

    def _kernel(self, X: Any) -> Kernel:
        return make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _values(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d), checked here; (u, m)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._machine(X)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RidgeRegressorMixin(RegressorMixin):
    """`fit` and `predict` for one or several real targets."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Fit rows X : (n, d), dense or CSR, to targets y : (n,) or (n, m).

        Raises
        ------
        ValueError
            A parameter out of range; more clusters, parts or columns than rows.
        """
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            multi_output=True,
            y_numeric=True,
        )
        Y = np.asarray(y, np.float64)
        self._one_target = Y.ndim == 1
        return self._fit(X, Y.reshape(len(Y), -1), trace)

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) or (u, m) float64."""
        values = self._values(X)
        return values[:, 0] if self._one_target else values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class RidgeClassifierMixin(ClassifierMixin):
    """`fit`, `decision_function` and `predict` for classes as targets -1 and +1."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Fit rows X : (n, d), dense or CSR, to labels y : (n,).

        Raises
        ------
        ValueError
            Fewer than two classes, and what the regressor refuses.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has {len(self.classes_)} class, but 2 classes are needed")
        positive = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return self._fit(X, np.where(np.equal.outer(index, positive), 1.0, -1.0), trace)

    def decision_function(self, X: Any) -> np.ndarray:
        """Estimates of the targets -1 and +1 at rows X : (u, d).

        Returns
        -------
        (u,) float64 for two classes, positive for `classes_[1]`; else (u, n_classes), one-vs-rest
        """
        values = self._values(X)
        return values[:, 0] if len(self.classes_) == 2 else values

    def predict(self, X: Any) -> np.ndarray:
        """Class labels of rows X : (u, d); (u,)."""
        values = self.decision_function(X)
        if values.ndim == 1:
            return self.classes_[(values > 0).astype(np.intp)]
        return self.classes_[np.argmax(values, axis=1)]


class ApproximateRidge(RidgeMachine):
    """Base of the machines on an approximate kernel matrix; a subclass has `_approximate`.

    Attributes
    ----------
    kernel_error_ : float
        Relative Frobenius error of the approximate kernel matrix on `error_rows` rows, outside the
        clock; absent where that is 0. The rows are the same for every method and seed.
    n_parameters_ : int
        Numbers that the approximate kernel matrix holds.
    n_iter_ : int
    converged_ : bool
        Of conjugate gradients; 1 and True for the direct solver.
    """

    _parameter_constraints: ClassVar[dict] = {
        **RidgeMachine._parameter_constraints,
        "solver": [StrOptions({"direct", "cg", "pcg"})],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "error_rows": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    @abstractmethod
    def _approximate(self, X: Any, rng: np.random.RandomState, trace: Trace) -> KernelApproximation:
        """The approximate kernel matrix of rows X."""

    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        rng = check_random_state(self.random_state)
        if getattr(self, "rank", 0) > len(Y):
            raise ValueError(f"rank={self.rank} is more than n_samples={len(Y)}")
        matrix = self._approximate(X, rng, trace)
        self.n_parameters_ = matrix.n_parameters_
        with trace.phase("solve"):
            if self.solver == "direct":
                coef = matrix.solve(Y, self.alpha)
                self.n_iter_, self.converged_ = 1, True
            else:
                coef = self._conjugate_gradients(matrix, Y, trace)
            machine = matrix.machine(coef)
        if self.error_rows:
            with trace.pause():
                exact = KernelMatrix(self._kernel(X), X)
                self.kernel_error_ = kernel_error(exact, matrix, compared_rows(X, self.error_rows))
        return machine

    def _conjugate_gradients(
        self, matrix: KernelApproximation, Y: np.ndarray, trace: Trace
    ) -> np.ndarray:
        """(G + alpha I)^-1 Y; the direct solver takes over where G + alpha I is indefinite."""
        options = {}
        if self.solver == "pcg":
            options["precondition"] = matrix.preconditioner(self.alpha)
        result = solve_cg(
            lambda V: matrix @ V + self.alpha * V,
            Y,
            **options,
            tol=self.tol,
            max_iter=self.max_iter,
            trace=trace,
        )
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        if result.indefinite:
            return matrix.solve(Y, self.alpha)
        warn_unconverged(result, self.max_iter, self.tol)
        return result.x


def compared_rows(X: Any, error_rows: int) -> np.ndarray:
    """Rows of X : (n, d) on which approximations are compared; (min(n, error_rows),) indices.

    They depend on n alone, so that two methods differ by their approximations and not by the draw.
    """
    return sampled_rows(X.shape[0], error_rows, np.random.RandomState(0))


def warn_unconverged(result: CGResult, max_iter: int, tol: float) -> None:
    """ConvergenceWarning where conjugate gradients stopped early."""
    if not result.converged:
        warnings.warn(
            f"stopped by max_iter={max_iter} at a residual of {result.residual.max():.2g}, above "
            f"tol={tol:g}; the model is usable",
            ConvergenceWarning,
            stacklevel=5,
        )


KernelParameter = str | Callable[[Any, Any], np.ndarray]
