"""Quantile regression with kernels: the pinball loss, solved exactly."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import d2_pinball_score

from kbench.methods.base.limits import checked_numbers
from kbench.methods.exact.dual_regression import DualRegression
from kbench.methods.exact.interior import Dual
from kbench.validated import POSITIVE, real


@dataclass(eq=False, repr=False)
class KernelQuantileRegressor(DualRegression):
    """Regression of conditional quantiles.

    For each quantile tau, minimises 1/2 ||f||^2 + sum_i C_i L(y_i - f(x_i) - b) with the pinball
    loss L(r) = max(tau r, (tau - 1) r), through its dual

        min_b  1/2 b'Kb - y'b,   (tau - 1) C_i <= b_i <= tau C_i,

    with sum b = 0 if there is an intercept. At most a fraction tau of the training rows (by weight)
    is then below the predictions, and at most a fraction 1 - tau above.

    Parameters
    ----------
    quantile : float or list of m floats, default=0.5
        Between 0 and 1; 0.5 is the median.
    C : float, default=1.0
        Weight of the losses, multiplied by the weight of the row. The median at C is `KernelSVR`
        with epsilon = 0 at C / 2.
    kernel, gamma, degree, coef0
        As in `KernelSVC`.
    tol : float, default=1e-3
        Violation at which to stop, in units of y.
    shrinking : bool, default=True
    cache_size : float, default=1000.0
    verbose : bool, default=False
    max_iter : int, default=-1
        Limit on the steps of each quantile; -1 means no limit.
    fit_intercept : bool, default=True
    max_time : float or None, default=None
        Limit in seconds for all quantiles together.
    dtype : {"float32", "float64"}, default="float32"
        All parameters from `kernel` on have the same meaning as in `KernelSVR`, unless stated here.

    Attributes
    ----------
    quantiles_ : (m,)
    support_ : (n_sv,) ints
        Rows with a coefficient in any of the functions.
    support_vectors_ : (n_sv, d) array or CSR
        (0, 0) with kernel="precomputed" or a callable.
    dual_coef_ : (m, n_sv) array, CSR if the rows were
        b of each quantile.
    intercept_ : (m,)
    coef_ : (m, d)
        Weights of the features, only with kernel="linear".
    n_support_ : (m,) ints
    objective_, duality_gap_ : float
        Sums over the quantiles.
    violation_ : float
        Largest violation of a quantile.
    n_iter_, fit_status_, shape_fit_, converged_, kernel_entries_, notes_, timings_, model_bytes_
        As in `KernelSVR`.
    n_features_in_ : int

    Notes
    -----
    Each quantile is a separate problem, at the cost of `KernelSVR`. Up to 3,000 rows the problems
    share their kernel values; with more rows they share the kernel's preparation of the rows.

    Functions that are fitted one by one may cross. `predict` sorts the m values of each row, which
    never increases the sum of the pinball losses (Chernozhukov, Fernandez-Val and Galichon,
    "Quantile and probability curves without crossing", Econometrica 2010). `dual_coef_` and
    `intercept_` belong to the functions before sorting.

    References: I. Takeuchi, Q. Le, T. Sears, A. Smola, "Nonparametric quantile estimation", JMLR
    2006.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import KernelQuantileRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelQuantileRegressor(quantile=[0.1, 0.9], C=100.0).fit(X, y)
    >>> low, high = model.predict(X).T
    >>> bool(0.75 < ((low <= y) & (y <= high)).mean() < 0.9)
    True
    """

    _sklearn_class: ClassVar[str] = "QuantileRegressor"
    _parameter_constraints: ClassVar[dict] = {
        **DualRegression._parameter_constraints,
        "quantile": [real(0, 1, closed="neither"), "array-like"],
        "C": [POSITIVE],
        "fit_intercept": ["boolean"],
    }

    _: KW_ONLY
    quantile: float | Sequence[float] = 0.5
    C: float = 1.0
    fit_intercept: bool = True

    def _validate_params(self) -> None:
        super()._validate_params()
        self._checked_quantiles()

    def _checked_quantiles(self) -> np.ndarray:
        requirement = "a number between 0 and 1, or a list of such numbers"
        return checked_numbers(
            "quantile", self.quantile, requirement, lambda t: (t > 0.0) & (t < 1.0)
        )

    def _duals(self, y: np.ndarray, C: np.ndarray) -> list[Dual]:
        self.quantiles_, self._is_single = self._checked_quantiles(), np.ndim(self.quantile) == 0
        rows = np.arange(len(y))
        return [Dual(rows, y, (tau - 1.0) * C, tau * C) for tau in self.quantiles_]

    def predict(self, X: Any) -> np.ndarray:
        """Quantiles at rows X : (u, d), with kernel="precomputed" (u, n_train).

        Returns
        -------
        (u,) float64; (u, m) if `quantile` is a list, in its order. Larger quantiles have no smaller
        values.
        """
        values = self._expansion_values(X) + self.intercept_
        # Models of older versions lack the attribute.
        if getattr(self, "_is_single", np.ndim(self.quantile) == 0):
            return values[:, 0]
        values[:, np.argsort(self.quantiles_, kind="stable")] = np.sort(values, axis=1)
        return values

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Fraction by which predictions reduce the pinball loss of the best constants.

        Parameters
        ----------
        X : (u, d), as in `predict`
        y : (u,)
        sample_weight : (u,), optional

        Returns
        -------
        float
            `sklearn.metrics.d2_pinball_score`, at most 1; the mean over several quantiles.
        """
        columns = self.predict(X).reshape(-1, len(self.quantiles_)).T
        scores = [
            d2_pinball_score(y, values, sample_weight=sample_weight, alpha=tau)
            for tau, values in zip(self.quantiles_, columns, strict=True)
        ]
        return float(np.mean(scores))
