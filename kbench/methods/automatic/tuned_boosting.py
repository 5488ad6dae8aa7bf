"""Gradient boosting that is tuned within a time budget: a rival that gets as much time as the
self-tuning kernel machines take.

    fit the defaults to the rows that are not held out
    until the budget is spent, at most n_brackets times:
      compare 9 random settings by successive halving (scikit-learn's HalvingRandomSearchCV): all
      on a ninth of the rows, the best 3 on a third, the best on all
    fit the setting of the lowest held-out error to all rows

The trees are scikit-learn's HistGradientBoosting; each fit stops adding trees by itself.

K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
optimization", AISTATS 2016 (successive halving); L. Li et al., "Hyperband", JMLR 18, 2018, repeat
it until a budget is spent.
"""

import time
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import loguniform, uniform
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import make_scorer, zero_one_loss
from sklearn.model_selection import HalvingRandomSearchCV, ShuffleSplit, cross_validate
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench import class_labels
from kbench.trace import Deadline, Trace
from kbench.validated import POSITIVE, fit_context, integer, usual, validate_data

# Every number below is set by hand. Settings of a bracket, and the minimal number of rows on which
# they are compared.
_N_SETTINGS, _MIN_BRACKET_ROWS = 9, 1000
# Fits to all rows that a search with one bracket takes: the defaults, three for the bracket, and
# two at the end. The trees of each are limited so that they fit into the budget, to 50 at least.
# Set by hand.
_N_FITS, _MIN_TREES = 6, 50
# Held-out fraction of the rows, and the maximal number of them: 10,000 estimate an error rate of
# 10 % to 0.3 points. Set by hand.
_HELD_OUT_FRACTION, _MAX_HELD_OUT_ROWS = 0.2, 10_000
# A fit stops adding trees by itself if at least `_MIN_RAREST_ROWS` rows of the rarest class are
# expected in the smallest sample: it validates on a tenth of its rows, with two of each class. With
# fewer, the number of trees is drawn from `_TREE_COUNTS`; the defaults have scikit-learn's 100.
_MIN_RAREST_ROWS, _TREE_COUNTS, _DEFAULT_TREES = 20, (25, 50, 100, 200, 400, 800), 100
# Fraction of the variance of the targets by which a squared error has to fall, so that a fit does
# not stop adding trees: scikit-learn's default, which is for targets of variance 1.
_STOPPING_TOL = 1e-7
# The space that settings are drawn from, around scikit-learn's defaults.
_SEARCH_SPACE = {
    "learning_rate": loguniform(0.02, 0.3),
    "max_leaf_nodes": [8, 16, 32, 64, 128, 256],
    "min_samples_leaf": [2, 5, 10, 20, 50, 100],
    "l2_regularization": loguniform(1e-6, 10.0),
    "max_features": uniform(0.4, 0.6),
}


@dataclass(eq=False, repr=False, kw_only=True)
class TunedBoosting(BaseEstimator):
    """Base of the classifier and the regressor.

    Parameters
    ----------
    time_budget : float or None, default=20.0
        Wall seconds of the whole fit. Brackets are begun as long as they are expected to end in
        time; 50 trees of the defaults are always fitted. None means no limit. Set by hand.
    n_brackets : int, default=20
        Maximum number of brackets of 9 settings. Set by hand.
    max_iter : int, default=1000
        Maximum number of trees, for each class. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    best_params_ : dict
        The chosen parameters of scikit-learn's class; all others have its defaults.
    best_estimator_ : HistGradientBoostingClassifier or HistGradientBoostingRegressor
    cv_error_ : float
        Held-out error rate or mean squared error of the chosen setting.
    n_candidates_ : int
        Settings that were fitted, the defaults among them.
    n_iter_ : int
        Number of trees of the final model, for each class.
    timings_ : dict of str to float
        Seconds of "search" and "fit".
    n_features_in_ : int

    Notes
    -----
    A bracket costs about three fits to all rows. With a time budget the result depends on the
    speed of the machine. `fit` reports the held-out error to the trace as validation_error for the
    defaults and for the best setting of each bracket.
    """

    time_budget: float | None = 20.0
    n_brackets: int = 20
    max_iter: int = 1000
    random_state: Any = None

    _parameter_constraints: ClassVar[dict] = {
        "time_budget": [POSITIVE, None],
        "n_brackets": [integer(0)],
        **usual("max_iter", "random_state"),
    }

    def _search(self, model: Any, scoring: Any, X: Any, y: np.ndarray, trace: Trace) -> None:
        """Choose parameters by a held-out error, and fit `model` with them to all rows.

        model : New estimator of scikit-learn, whose parameters are set
        scoring : scikit-learn's; the negative of the held-out error
        X : (n, d)
        y : (n,). Class numbers or real targets.
        """
        if len(X) < 2:
            raise ValueError(f"n_samples={len(X)} leaves no row to learn from; 2 are needed")
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))
        deadline = Deadline(self.time_budget, trace)
        n_held_out = min(max(1, round(_HELD_OUT_FRACTION * len(X))), _MAX_HELD_OUT_ROWS)
        options = {
            "cv": ShuffleSplit(1, test_size=n_held_out, random_state=seed),
            "scoring": scoring,
            "error_score": "raise",
        }
        n_smallest = min(max(len(X) // _N_SETTINGS, _MIN_BRACKET_ROWS), len(X))
        # Expected rows of the rarest class in the smallest sample.
        n_rarest = np.bincount(y).min() * n_smallest / len(X) if is_classifier(self) else np.inf
        stops_itself = bool(n_rarest >= _MIN_RAREST_ROWS)
        model.set_params(random_state=seed, early_stopping=stops_itself)
        default_trees = self.max_iter if stops_itself else min(_DEFAULT_TREES, self.max_iter)
        tree_space = (
            {}
            if stops_itself
            else {"max_iter": [min(count, self.max_iter) for count in _TREE_COUNTS]}
        )

        def seconds_after(seconds: float) -> float:
            """Seconds of the budget that are left after further work; inf without a budget."""
            left = deadline.seconds_left()
            return np.inf if left is None else left - seconds

        with trace.phase("search"):
            model.set_params(max_iter=min(_MIN_TREES, self.max_iter))
            started = time.perf_counter()
            first_scores = cross_validate(model, X, y, **options)
            # Trees of each of `_N_FITS` fits, if a tree takes as long as one of the first did.
            n_trees = _MIN_TREES * seconds_after(0.0) / (time.perf_counter() - started) / _N_FITS
            if n_trees > _MIN_TREES:
                model.set_params(max_iter=int(min(n_trees, default_trees)))
                first_scores = cross_validate(model, X, y, **options)
            fit_seconds = float(first_scores["fit_time"][0])
            attempts: list[tuple[float, dict[str, Any]]] = [
                (-float(first_scores["test_score"][0]), {})
            ]
            trace(validation_error=attempts[0][0])
            # All settings on a ninth of the rows, three on a third and one on all take about three
            # fits. Two more come after the last bracket.
            bracket_seconds = 3.0 * fit_seconds
            for _ in range(self.n_brackets):
                if seconds_after(bracket_seconds + 2.0 * fit_seconds) < 0.0:
                    break
                started = time.perf_counter()
                search = HalvingRandomSearchCV(
                    model,
                    _SEARCH_SPACE | tree_space,
                    n_candidates=_N_SETTINGS,
                    min_resources=n_smallest,
                    refit=False,
                    random_state=int(rng.randint(2**31)),
                    **options,
                ).fit(X, y)
                bracket_seconds = time.perf_counter() - started
                fit_time = search.cv_results_["mean_fit_time"][search.best_index_]
                fit_seconds = max(fit_seconds, float(fit_time))
                attempts.append((-float(search.best_score_), search.best_params_))
                trace(validation_error=attempts[-1][0])
            self.cv_error_, best_params = min(attempts, key=lambda attempt: attempt[0])
            self.n_candidates_ = 1 + _N_SETTINGS * (len(attempts) - 1)
        with trace.phase("fit"):
            model.set_params(**best_params)
            if stops_itself:  # a tenth of the rows decides the number of trees for all rows
                model.set_params(early_stopping=False, max_iter=clone(model).fit(X, y).n_iter_)
            self.best_params_ = {**best_params, "max_iter": model.max_iter}
            self.best_estimator_ = model.fit(X, y)
            self.n_iter_ = self.best_estimator_.n_iter_
        self.timings_ = dict(trace.timings)

    def _checked_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "best_estimator_")
        return validate_data(self, X, reset=False, accept_sparse=False)


class TunedBoostingClassifier(ClassifierMixin, TunedBoosting):
    """Tuned gradient boosting for classes; parameters as in `TunedBoosting`. `classes_` holds the
    labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.methods import TunedBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TunedBoostingClassifier(time_budget=1.0, random_state=0).fit(X[:400], y[:400])
    >>> model.score(X[400:], y[400:]) > 0.9
    True
    """

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Fit to rows X : (n, d), dense, and labels y : (n,)."""
        X, y = validate_data(self, X, y, accept_sparse=False)
        self.classes_, index = class_labels.encode(y)
        class_labels.require_two(len(self.classes_))
        trace = Trace() if trace is None else trace
        scoring = make_scorer(zero_one_loss, greater_is_better=False)
        self._search(HistGradientBoostingClassifier(), scoring, X, index, trace)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities of rows X : (u, d); (u, q)."""
        rows = self._checked_rows(X)
        return self.best_estimator_.predict_proba(rows)

    def predict(self, X: Any) -> np.ndarray:
        """Labels of rows X : (u, d); (u,)."""
        rows = self._checked_rows(X)
        return self.classes_[self.best_estimator_.predict(rows)]


class TunedBoostingRegressor(RegressorMixin, TunedBoosting):
    """Tuned gradient boosting for one target; parameters as in `TunedBoosting`."""

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Fit to rows X : (n, d), dense, and targets y : (n,)."""
        X, y = validate_data(self, X, y, accept_sparse=False, y_numeric=True)
        trace = Trace() if trace is None else trace
        y = np.asarray(y, np.float64)
        # The default tolerance of early stopping is a squared error, in the unit of the targets.
        model = HistGradientBoostingRegressor(tol=_STOPPING_TOL * float(y.var()))
        self._search(model, "neg_mean_squared_error", X, y, trace)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) float64."""
        rows = self._checked_rows(X)
        return self.best_estimator_.predict(rows)
