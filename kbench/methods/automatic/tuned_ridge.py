"""Kernel ridge regression that chooses width and ridge itself, by leave-one-out errors."""

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from kbench.methods.approximate.falkon import FalkonRegressor
from kbench.methods.automatic.self_tuning import SelfTuning, normal_interval
from kbench.methods.exact.kernel_ridge import KernelRidge
from kbench.trace import Deadline, Trace
from kbench.validated import fit_context
from kbench.width_search import constants
from kbench.width_search.leave_one_out import RidgeSearch

# Numbers of multiplications from which the seconds of a fit are estimated: those that a kernel
# value takes besides one for each feature (set by hand); those of FALKON's 30 iterations for each
# pair of a row and a landmark, two an iteration; and those of its preconditioner, divided by the
# cube of the number of landmarks, for the product of its rows and two factorisations.
_VALUE_PRODUCTS, _STEP_PRODUCTS = 20.0, 60.0
_CUBE_PRODUCTS = 2.0 * constants.PRECONDITIONER_ROWS + 1.0


class TunedKernelRidge(RegressorMixin, SelfTuning):
    """Kernel ridge regression that chooses kernel width and ridge on the training rows.

    Parameters
    ----------
    kernel, time_budget, metric, scaler, random_state
        As in `TunedKernelSVC`.

    Attributes
    ----------
    kernel_ : str
    alpha_, gamma_ : float
    cv_error_ : float
        Leave-one-out mean squared error of the chosen parameters on at most 3,000 rows; with more,
        the model of all rows is better.
    cv_error_interval_ : (2,)
        Normal interval of `cv_error_` at 95 %.
    search_results_ : dict of str to arrays
        n_rows, gamma, alpha and error of every model.
    intercept_ : float
        Mean of y; the model fits what is left.
    best_estimator_ : KernelRidge or FalkonRegressor
    reason_ : str
    metric_ : LearnedMetric or None
    n_copies_ : int
        As in `TunedKernelSVC`.
    timings_ : dict of str to float
    n_features_in_ : int

    Notes
    -----
    The search takes 15 eigendecompositions of 600 rows, 10 of 1,000 and at most 5 inverse factors
    of matrices of 3,000 rows, whatever n is. The kernel matrix of at most 8,192 rows is factorised,
    O(n^3 / 3), in float64 if the ridge is below the rounding error of a float32 factor; of at most
    16,384 if the effective dimension of the model exceeds half of those 3,000 rows. Else
    FALKON has three landmarks for each effective dimension, 1,500 to 3,000 of them.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import TunedKernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> TunedKernelRidge(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.4
    True
    """

    _kind = "regression"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Choose the parameters and fit the model.

        Parameters
        ----------
        X : (n, d) array or CSR
        y : (n,) targets
        trace : Trace, optional
            Receives the phases and the error of every width and ridge.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter out of range, or fewer than two rows.
        """
        trace = Trace() if trace is None else trace
        deadline = Deadline(self.time_budget, trace)
        X, y = self._regression_data(X, y)
        X, y, weight = self._searched_rows(X, y)
        rng = self._generator()
        with trace.phase("search"):
            search_deadline = self._search_deadline(trace)
            X, rows, _ = self._map_rows(X, y, rng, search_deadline, trace)
            result = RidgeSearch(rows, y, rng, search_deadline, trace)
            self.gamma_, self.alpha_ = result.gamma, result.alpha
            trace(chosen_gamma=self.gamma_, chosen_alpha=self.alpha_)
            self.search_results_ = {k: np.array(column) for k, column in result.columns.items()}
            self.cv_error_ = result.error
            self.cv_error_interval_ = normal_interval(result.error, result.relative_deviation)
        with trace.phase("fit"):
            self.intercept_ = float(np.average(y, weights=weight))
            model = self._unfitted_model(X.shape, result, deadline.seconds_left(), rng)
            # FALKON takes no weights.
            weights = {} if isinstance(model, FalkonRegressor) else {"sample_weight": weight}
            self.best_estimator_ = model.fit(X, y - self.intercept_, **weights, trace=trace)
        self.timings_ = dict(trace.timings)
        return self

    def _unfitted_model(
        self,
        shape: tuple[int, int],
        result: RidgeSearch,
        seconds_left: float | None,
        rng: np.random.Generator,
    ) -> KernelRidge | FalkonRegressor:
        """The exact model if there are time and memory for it, or FALKON; sets `reason_`.

        FALKON is preferred for many rows where its landmarks span the model. It has as many
        landmarks as the model's effective dimension needs, a quarter fewer and so on until they are
        expected to fit into the time that is left.
        """
        n, d = shape
        options: dict[str, Any] = {
            "alpha": self.alpha_,
            "kernel": self.kernel_,
            "gamma": self.gamma_,
            "max_time": seconds_left,
        }
        seconds = result.seconds_per_product * (n**3 / 3 + n * n * (d + _VALUE_PRODUCTS))
        is_smooth = result.effective_fraction <= constants.SMOOTH_FRACTION
        max_rows = constants.MAX_SMOOTH if is_smooth else constants.MAX_FACTORISED
        if n <= max_rows and (
            seconds_left is None or constants.TIME_MARGIN * seconds <= seconds_left
        ):
            self.reason_ = f"exact model: factorising {n} rows takes about {seconds:.2g} s"
            # A float32 factor errs by eps times the largest eigenvalue, about n times the mean
            # value. As a preconditioner it takes up to 9 iterations with a larger ridge, hundreds
            # with a smaller one; no script records these numbers.
            is_below_rounding = self.alpha_ < np.finfo(np.float32).eps * n * result.mean_value
            return KernelRidge(**options, dtype="float64" if is_below_rounding else "float32")
        n_needed = (
            constants.LANDMARKS_PER_DIMENSION * constants.RIDGE_ROWS[-1] * result.effective_fraction
        )
        m = min(n, int(np.clip(n_needed, *constants.LANDMARKS)))
        while seconds_left is not None and m > 1:
            pair_products = d + _VALUE_PRODUCTS + _STEP_PRODUCTS
            n_products = _CUBE_PRODUCTS * m**3 + float(n) * m * pair_products
            if constants.TIME_MARGIN * result.seconds_per_product * n_products <= seconds_left:
                break
            m = 3 * m // 4
        self.reason_ = (
            f"FALKON with {m} landmarks: factorising {n} rows takes about {seconds:.2g} s, and the "
            f"effective dimension is {result.effective_fraction:.0%} of the search's rows"
        )
        # The kernel error is not measured: it would take as long as some iterations.
        options |= {"preconditioner_rows": constants.PRECONDITIONER_ROWS * m, "error_rows": 0}
        return FalkonRegressor(m, **options, random_state=int(rng.integers(2**31)))

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) float64."""
        X = self._rows_to_predict(X)
        return self.best_estimator_.predict(X) + self.intercept_
