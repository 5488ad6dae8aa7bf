"""Gradient boosting that is tuned on held-out rows within a time budget: a rival for the machines
without parameters that gets as much time as they take.

    fit the defaults to all rows but the held-out ones
    until the budget is spent, at most n_brackets times:               successive halving
      draw 9 settings; fit each to a ninth of the rows, trees until the held-out error stalls
      keep the best 3, fit them to a third of the rows; keep the best 1, fit it to all
    fit the setting of the lowest held-out error, with as many trees, to all rows

K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
optimization", AISTATS 2016 (successive halving); L. Li et al., "Hyperband", JMLR 18, 2018, repeat
it until a budget is spent. The trees are scikit-learn's HistGradientBoosting.
"""

import time
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from kbench import class_labels
from kbench.trace import Deadline, Trace

# Fractions of the rows in a bracket, the settings that are fitted to each, and the fewest rows.
_RUNGS, _FEWEST_ROWS = ((1 / 9, 9), (1 / 3, 3), (1.0, 1)), 1000
# Trees (of each class) between two looks at the held-out error, and looks without a new minimum
# after which no more are added.
_TREES, _PATIENCE = 50, 2
# Held-out fraction of the rows, and the most of them: 10,000 estimate an error rate of 10 % to 0.3
# points.
_HELD_OUT, _MOST_HELD_OUT = 0.2, 10_000
# The last fit sees a quarter more rows than the fit whose seconds are known.
_LAST_FIT = 1.25
# Weight of the logarithmic loss beside the error rate; it decides between equal rates.
_TIE_BREAK = 1e-3


class _Attempt(NamedTuple):
    """A fitted setting."""

    error: float
    n_rows: int
    n_trees: int
    seconds: float
    setting: dict[str, Any]


class TunedBoosting(BaseEstimator):
    """Base of the classifier and the regressor.

    Parameters
    ----------
    time_budget : float or None, default=20.0
        Wall seconds of the whole fit. The last fit is begun in time where the first ones allow it;
        they are not cut off below 50 trees. None is no limit.
    n_brackets : int, default=20
        Most brackets of 9 settings.
    max_iter : int, default=1000
        Most trees, of each class.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    best_params_ : dict
        Parameters of scikit-learn's class that differ from its defaults.
    best_estimator_ : HistGradientBoostingClassifier or HistGradientBoostingRegressor
    cv_error_ : float
        Held-out error rate or mean squared error of the chosen setting.
    n_candidates_ : int
        Settings that were fitted, the defaults among them.
    n_iter_ : int
        Trees of the final model, of each class.
    timings_ : dict of str to float
        Seconds of "search" and "fit".
    n_features_in_ : int

    Notes
    -----
    A bracket costs about three fits to all rows. With a time budget the result depends on the
    speed of the machine.
    """

    _parameter_constraints: ClassVar[dict] = {
        "time_budget": [Interval(Real, 0, None, closed="neither"), None],
        "n_brackets": [Interval(Integral, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        time_budget: float | None = 20.0,
        n_brackets: int = 20,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.time_budget = time_budget
        self.n_brackets = n_brackets
        self.max_iter = max_iter
        self.random_state = random_state

    def _search(
        self,
        make: Callable[..., Any],
        error: Callable[[Any, np.ndarray, np.ndarray], float],
        X: np.ndarray,
        y: np.ndarray,
        trace: Trace,
    ) -> None:
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31))
        deadline = Deadline(self.time_budget, trace)
        order = rng.permutation(len(X))
        n_held_out = min(max(1, round(_HELD_OUT * len(X))), _MOST_HELD_OUT)
        held_out, training = order[:n_held_out], order[n_held_out:]
        if not len(training):
            raise ValueError(f"n_samples={len(X)} leaves no row to learn from; 2 are needed")
        attempts: list[_Attempt] = []

        def in_time(seconds: float) -> bool:
            """Whether the last fit still fits into the budget if we go on for some seconds."""
            left = deadline.seconds_left()
            whole = [a.seconds for a in attempts if a.n_rows == len(training)]
            return left is None or left > seconds + _LAST_FIT * max(whole, default=0.0)

        def grow(setting: dict[str, Any], n_rows: int) -> _Attempt:
            """Trees of one setting, as long as held-out error and budget allow."""
            rows = training[:n_rows]
            model = make(warm_start=True, early_stopping=False, random_state=seed, **setting)
            start = time.perf_counter() - trace.paused_wall_s
            best = _Attempt(np.inf, n_rows, 0, 0.0, setting)
            stalled = 0
            for n_trees in _counts(self.max_iter):
                model.set_params(max_iter=n_trees).fit(X[rows], y[rows])
                seconds = time.perf_counter() - trace.paused_wall_s - start
                found = error(model, X[held_out], y[held_out])
                trace(validation_error=found)
                if found < best.error:
                    best, stalled = _Attempt(found, n_rows, n_trees, seconds, setting), 0
                else:
                    stalled += 1
                next_seconds = seconds / n_trees * _TREES
                last = seconds if n_rows == len(training) else 0.0
                if stalled == _PATIENCE or not in_time(next_seconds + _LAST_FIT * last):
                    break
            return best

        with trace.phase("search"):
            attempts.append(grow({}, len(training)))
            self.n_candidates_ = 1
            for _ in range(self.n_brackets):
                settings = [_draw(rng) for _ in range(_RUNGS[0][1])]
                for fraction, n_kept in _RUNGS:
                    n_rows = min(max(round(fraction * len(training)), _FEWEST_ROWS), len(training))
                    rung = []
                    for setting in settings[:n_kept]:
                        if not in_time(0.0):
                            break
                        rung.append(grow(setting, n_rows))
                        self.n_candidates_ += fraction == _RUNGS[0][0]
                    rung.sort(key=lambda attempt: attempt.error)
                    settings = [attempt.setting for attempt in rung]
                attempts += rung
                if not in_time(0.0):
                    break
            best = min(attempts, key=lambda attempt: attempt.error)
        with trace.phase("fit"):
            self.best_params_ = {**best.setting, "max_iter": best.n_trees}
            self.cv_error_, self.n_iter_ = best.error, best.n_trees
            model = make(early_stopping=False, random_state=seed, **self.best_params_)
            self.best_estimator_ = model.fit(X, y)
        self.timings_ = dict(trace.timings)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "best_estimator_")
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])


def _counts(most: int) -> Iterator[int]:
    """Numbers of trees at which the held-out error is looked at: 50, 100, ..., most."""
    yield from range(_TREES, most, _TREES)
    yield most


def _draw(rng: np.random.RandomState) -> dict[str, Any]:
    """A random setting; all but the fraction of features are drawn on a logarithmic scale."""

    def logarithmic(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    return {
        "learning_rate": logarithmic(0.02, 0.3),
        "max_leaf_nodes": round(logarithmic(8, 256)),
        "min_samples_leaf": round(logarithmic(2, 100)),
        "l2_regularization": logarithmic(1e-6, 10.0),
        "max_features": float(rng.uniform(0.4, 1.0)),
    }


def _classification_error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Fraction of rows in the wrong class, with ties broken by the logarithmic loss."""
    probabilities = model.predict_proba(X)
    column = np.minimum(np.searchsorted(model.classes_, y), len(model.classes_) - 1)
    # A class that no training row has gets no probability.
    known = model.classes_[column] == y
    p = np.where(known, probabilities[np.arange(len(y)), column], 0.0)
    wrong = np.mean(model.classes_[probabilities.argmax(axis=1)] != y)
    loss = -np.mean(np.log(np.maximum(p, np.finfo(np.float64).tiny)))
    return float(wrong) + _TIE_BREAK * float(loss)


def _squared_error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean((model.predict(X) - y) ** 2))


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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Fit to rows X : (n, d), dense, and labels y : (n,).

        Parameters
        ----------
        trace : Trace, optional
            Receives the held-out error at every 50 trees.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        self.classes_, index = class_labels.encode(y)
        class_labels.require_two(len(self.classes_))
        trace = Trace() if trace is None else trace
        self._search(HistGradientBoostingClassifier, _classification_error, X, index, trace)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities of rows X : (u, d); (u, q)."""
        rows = self._rows(X)
        return self.best_estimator_.predict_proba(rows)

    def predict(self, X: Any) -> np.ndarray:
        """Labels of rows X : (u, d); (u,)."""
        rows = self._rows(X)
        return self.classes_[self.best_estimator_.predict(rows)]


class TunedBoostingRegressor(RegressorMixin, TunedBoosting):
    """Tuned gradient boosting for one target; parameters as in `TunedBoosting`."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, trace: Trace | None = None) -> Self:
        """Fit to rows X : (n, d), dense, and targets y : (n,).

        Parameters
        ----------
        trace : Trace, optional
            Receives the held-out error at every 50 trees.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True)
        y = np.asarray(y, np.float64)
        trace = Trace() if trace is None else trace
        self._search(HistGradientBoostingRegressor, _squared_error, X, y, trace)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Estimates at rows X : (u, d); (u,) float64."""
        rows = self._rows(X)
        return self.best_estimator_.predict(rows)
