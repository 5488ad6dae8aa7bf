"""Support vector regression with the epsilon-insensitive loss, solved exactly."""

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from kbench.kernels import KernelMatrix, make_kernel
from kbench.methods._box_svc import BoxSVC
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.flops import CountedPrediction
from kbench.solvers import solve_box_dual
from kbench.trace import Trace


class KernelSVR(CountedPrediction, RegressorMixin, BaseEstimator):
    """Epsilon-support vector regression.

    Minimises 1/2 ||f||^2 + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon), the problem of
    `sklearn.svm.SVR`, through its dual in a = (a+, a-),

        min_a  1/2 (a+ - a-)'K(a+ - a-) + epsilon e'(a+ + a-) - y'(a+ - a-),   0 <= a <= C,

    with e'(a+ - a-) = 0 where there is an intercept b: the classifier's dual over the points twice,
    with labels +1 and -1 and the linear term (epsilon - y, epsilon + y).

    Parameters
    ----------
    C : float, default=1.0
        Upper bound of the dual variables, multiplied by the weight of the row.
    epsilon : float, default=0.1
        Half the width of the tube in which errors cost nothing.
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    fit_intercept : bool, default=True
    tol : float, default=1e-3
        Violation at which to stop, in units of y.
    cache_mb : float, default=1000.0
    max_iter : int, default=-1
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
    shrinking : bool, default=True
        From `kernel` on as in `KernelSVC`.

    Attributes
    ----------
    support_ : (n_sv,) ints
    dual_coef_ : (1, n_sv)
        a+ - a-.
    intercept_ : (1,)
    n_support_ : (1,) ints
    n_iter_ : int
    objective_, violation_, duality_gap_ : float
    converged_ : bool
    kernel_entries_ : int
        Kernel values computed in `fit`, between the points counted twice.
    timings_ : dict of str to float
        Seconds of "prepare" and "solve".
    model_bytes_ : int
    n_features_in_ : int

    Notes
    -----
    The price of `KernelSVC` of 2 n points. Memory: `cache_mb`, O(n d).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import KernelSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelSVR(C=100.0, epsilon=10.0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **{
            name: constraint
            for name, constraint in BoxSVC._parameter_constraints.items()
            if name != "class_weight"
        },
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        cache_mb: float = 1000.0,
        max_iter: int = -1,
        max_time: float | None = None,
        dtype: str = "float32",
        shrinking: bool = True,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.cache_mb = cache_mb
        self.max_iter = max_iter
        self.max_time = max_time
        self.dtype = dtype
        self.shrinking = shrinking

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, trace: Trace | None = None) -> Self:
        """Solve the dual.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : (n,) targets
        sample_weight : (n,), optional
            Multiplies C row by row.
        trace : Trace, optional
            Told the iterate, over the points twice, after each working set, and the phases.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, a precomputed matrix not square.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True
            )
            if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
                raise ValueError(f"kernel='precomputed' needs a square matrix, got shape {X.shape}")
            weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            y = np.asarray(y, np.float64)
            n = len(y)
            kernel = KernelMatrix(
                make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0),
                X,
                self.dtype,
            )
            twice = kernel.take(np.tile(np.arange(n), 2))
        with trace.phase("solve"):
            result = solve_box_dual(
                twice,
                np.repeat([1.0, -1.0], n),
                self.C * np.tile(weight, 2),
                intercept=self.fit_intercept,
                linear=self.epsilon - np.concatenate([y, -y]),
                tol=self.tol,
                cache_mb=self.cache_mb,
                max_iter=self.max_iter,
                max_time=self.max_time,
                shrinking=self.shrinking,
                trace=trace,
            )
        with trace.phase("prepare"):
            coef = result.alpha[:n] - result.alpha[n:]
            self.support_ = np.flatnonzero(coef)
            self.dual_coef_ = coef[None, self.support_]
            self.n_support_ = np.array([len(self.support_)])
            self.intercept_ = np.array([result.intercept])
            dtype = prediction_dtype(kernel, self.dual_coef_.T)
            self._machine = KernelExpansion(kernel, self.support_, self.dual_coef_.T, dtype)
        for name in ("n_iter", "objective", "violation", "duality_gap", "converged"):
            setattr(self, f"{name}_", getattr(result, name))
        self.kernel_entries_ = twice.n_entries
        self.model_bytes_ = self._machine.nbytes
        self.timings_ = dict(trace.timings)
        if not result.converged:
            warnings.warn(
                f"stopped by {result.stop_reason} at a violation of {result.violation:.2g}, above "
                f"tol={self.tol:g}; the model is usable",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> np.ndarray:
        """f(x) + b of rows X : (u, d), with kernel="precomputed" (u, n_train); (u,) float64."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._machine(X)[:, 0] + self.intercept_[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags
