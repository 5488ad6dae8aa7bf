"""The support of a distribution by a one-class support vector machine, solved exactly."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import _num_samples

from kbench.methods.base.training_kernel import require_dense_values
from kbench.methods.base.weights import checked_weights
from kbench.methods.exact.exact_dual import ExactDual
from kbench.methods.exact.interior import Dual
from kbench.methods.exact.to_sklearn import ConvertsToSklearn
from kbench.trace import Trace
from kbench.validated import fit_context, real


@dataclass(eq=False, repr=False)
class KernelOneClassSVM(ConvertsToSklearn, OutlierMixin, ExactDual):
    """Outliers by the support of a distribution.

    Minimises 1/2 ||f||^2 + sum_i w_i max(0, rho - f(x_i)) - nu W rho for weights w_i of the rows,
    by default 1, and W = sum_i w_i. This is the problem of `sklearn.svm.OneClassSVM`, whose
    parameters have the same meaning here. It is solved through its dual

        min_b  1/2 b'Kb,   0 <= b_i <= w_i,   sum b = nu W.

    At most a fraction nu of the training rows (by weight) is then outside the support, where
    f(x) < rho, and at least a fraction nu are support vectors.

    Parameters
    ----------
    kernel, gamma, degree, coef0
        As in `KernelSVC`.
    tol : float, default=1e-3
        Violation at which to stop, in units of f, for weights of mean 1.
    nu : float, default=0.5
        In (0, 1]. The default is scikit-learn's.
    shrinking : bool, default=True
    cache_size : float, default=1000.0
    verbose : bool, default=False
    max_iter : int, default=-1
    max_time : float or None, default=None
    dtype : {"float32", "float64"}, default="float32"
        All parameters except `nu` have the same meaning as in `KernelSVC`, unless stated here.

    Attributes
    ----------
    offset_ : (1,)
        rho.
    support_ : (n_sv,) ints
    support_vectors_ : (n_sv, d) array or CSR
        (0, 0) with kernel="precomputed" or a callable.
    dual_coef_ : (1, n_sv) array, CSR if the rows were
        b.
    intercept_ : (1,)
        -rho.
    coef_ : (1, d)
        Weights of the features, only with kernel="linear".
    n_support_ : (1,) ints
    n_iter_, objective_, violation_, duality_gap_, fit_status_, shape_fit_, converged_
        As in `KernelSVR`.
    kernel_entries_, notes_, timings_, model_bytes_
        As in `KernelSVR`.
    n_features_in_ : int

    Notes
    -----
    Rows with 0 < b_i < w_i lie on the boundary up to `tol`, so that `predict` may give them either
    value, here and in `OneClassSVM`.

    The solvers of `KernelSVR` start with the first nu n coefficients at their bounds. With nu = 1
    every row is at its bound, and rho is the largest f(x_i).

    References: B. Schoelkopf, J. Platt, J. Shawe-Taylor, A. Smola, R. Williamson, "Estimating the
    support of a high-dimensional distribution", Neural Computation 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kbench.methods import KernelOneClassSVM
    >>> X = load_iris().data
    >>> model = KernelOneClassSVM(nu=0.1).fit(X)
    >>> model.predict([X[0], X[0] + 5.0])
    array([ 1, -1])
    """

    _sklearn_class: ClassVar[str] = "OneClassSVM"
    sees_unweighted_rows: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        **ExactDual._parameter_constraints,
        "nu": [real(0, 1, closed="right")],
    }

    _: KW_ONLY
    nu: float = 0.5

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, trace: Trace | None = None
    ) -> Self:
        """Solve the dual.

        Parameters
        ----------
        X : (n, d) array or CSR; with kernel="precomputed" (n, n)
        y : ignored
        sample_weight : (n,), optional
            w; a row of weight 0 or less is left out.
        trace : Trace, optional
            Receives the phases, and objective and violation while the problem is solved.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter is out of range, or a precomputed matrix is not square and symmetric.
        """
        trace = Trace() if trace is None else trace
        with trace.phase("prepare"):
            require_dense_values(self.kernel, X)
            X = self._checked_rows_and_targets(X, np.zeros(_num_samples(X)))[0]
            n = _num_samples(X)
            weight = checked_weights(sample_weight, n, negative_is_zero=True)
            # The first rows are at their bounds until the coefficients sum to nu W.
            weight_before = np.cumsum(weight) - weight
            start = np.clip(self.nu * weight.sum() - weight_before, 0.0, weight)
            dual = Dual(np.arange(n), np.zeros(n), np.zeros(n), weight)
        # Division by the largest weight keeps the sum from overflow and underflow.
        mean_weight = float(np.mean(weight / weight.max()) * weight.max())
        self._warn(
            self._fit_duals(X, [dual], trace, coupled=True, start=start, tol_unit=mean_weight)
        )
        self.offset_ = -self.intercept_
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """f(x) - rho of rows X : (u, d), with kernel="precomputed" (u, n_train); (u,) float64."""
        values: np.ndarray = self._expansion_values(X)[:, 0] + self.intercept_[0]
        return values

    def score_samples(self, X: Any) -> np.ndarray:
        """f(x) of rows X : (u, d), as in `decision_function`; (u,) float64."""
        return self.decision_function(X) + self.offset_[0]

    def predict(self, X: Any) -> np.ndarray:
        """-1 for rows outside, whose `decision_function` is negative, else +1; (u,) ints."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)
