"""Boosting that is tuned: never a worse held-out setting than the defaults, and within its time."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor

from kbench.methods import TunedBoostingClassifier, TunedBoostingRegressor
from kbench.trace import Trace


@pytest.fixture(scope="module")
def problem():
    return make_friedman1(600, noise=1.0, random_state=0)


def test_without_brackets_the_defaults_stop_at_their_lowest_held_out_error(problem):
    X, y = problem
    errors = []
    trace = Trace(lambda _, state: errors.append(state["validation_error"]))
    model = TunedBoostingRegressor(time_budget=None, n_brackets=0, random_state=0)
    model.fit(X, y, trace=trace)
    assert model.cv_error_ == min(errors)
    assert model.best_params_ == {"max_iter": 50 * (1 + int(np.argmin(errors)))}
    assert len(errors) == np.argmin(errors) + 3  # two more looks without a new minimum
    seed = int(np.random.RandomState(0).randint(2**31))
    same = HistGradientBoostingRegressor(
        **model.best_params_, early_stopping=False, random_state=seed
    )
    np.testing.assert_array_equal(model.predict(X), same.fit(X, y).predict(X))


def test_a_bracket_never_chooses_a_setting_with_a_higher_held_out_error(problem):
    X, y = problem
    options = {"time_budget": None, "max_iter": 100, "random_state": 0}
    defaults = TunedBoostingRegressor(n_brackets=0, **options).fit(X, y)
    tuned = TunedBoostingRegressor(n_brackets=1, **options).fit(X, y)
    assert tuned.n_candidates_ == 10
    assert tuned.cv_error_ <= defaults.cv_error_
    again = TunedBoostingRegressor(n_brackets=1, **options).fit(X, y)
    np.testing.assert_array_equal(tuned.predict(X), again.predict(X))


def test_the_budget_ends_the_search_but_the_first_trees_are_grown(problem):
    X, y = problem
    model = TunedBoostingRegressor(time_budget=1e-9, random_state=0).fit(X, y)
    assert model.n_candidates_ == 1
    assert model.best_params_ == {"max_iter": 50}


def test_labels_come_back_and_a_class_that_is_held_out_alone_is_an_error_not_a_failure():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    labels[0] = "once"
    for seed in range(3):
        model = TunedBoostingClassifier(
            time_budget=None, n_brackets=0, max_iter=20, random_state=seed
        )
        assert model.fit(X, labels).score(X, labels) > 0.9
        assert model.predict_proba(X).shape == (300, 4)
