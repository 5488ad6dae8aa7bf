"""Boosting that is tuned: never a worse held-out setting than the defaults, and within its time."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import ShuffleSplit, cross_val_score

from kbench.methods import TunedBoostingClassifier, TunedBoostingRegressor
from kbench.trace import Trace


@pytest.fixture(scope="module")
def problem():
    return make_friedman1(300, noise=1.0, random_state=0)


def test_without_brackets_the_defaults_stop_by_themselves_and_learn_from_all_rows(problem):
    X, y = problem
    errors = []
    trace = Trace(lambda _, state: errors.append(state["validation_error"]))
    model = TunedBoostingRegressor(time_budget=None, n_brackets=0, random_state=0)
    model.fit(X, y, trace=trace)
    assert errors == [model.cv_error_]
    assert model.best_params_ == {"max_iter": model.n_iter_}
    seed = int(np.random.RandomState(0).randint(2**31))
    defaults = HistGradientBoostingRegressor(random_state=seed, max_iter=1000, early_stopping=True)
    assert defaults.fit(X, y).n_iter_ == model.n_iter_ < 1000
    held_out = ShuffleSplit(1, test_size=60, random_state=seed)
    scores = cross_val_score(defaults, X, y, cv=held_out, scoring="neg_mean_squared_error")
    assert model.cv_error_ == -scores[0]
    same = defaults.set_params(early_stopping=False, max_iter=model.n_iter_)
    np.testing.assert_array_equal(model.predict(X), same.fit(X, y).predict(X))


def test_trees_are_added_to_targets_of_any_unit(problem):
    """Early stopping compared squared errors with 1e-7, in the unit of the targets."""
    X, y = problem
    n_trees = []
    for unit in (1.0, 2.0**-30):
        model = TunedBoostingRegressor(time_budget=None, n_brackets=0, random_state=0)
        n_trees.append(model.fit(X, unit * y).n_iter_)
        np.testing.assert_allclose(model.cv_error_ / unit**2, 4.0, rtol=0.5)
    assert len(set(n_trees)) == 1


def test_a_bracket_never_chooses_a_setting_with_a_higher_held_out_error(problem):
    X, y = problem
    options = {"time_budget": None, "max_iter": 20, "random_state": 0}
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
    assert model.best_params_ == {"max_iter": model.n_iter_}
    assert model.n_iter_ <= 50


@pytest.mark.parametrize("n_brackets", [0, 1])
def test_labels_come_back_and_a_class_that_is_held_out_alone_is_an_error_not_a_failure(n_brackets):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    labels[0] = "once"
    for seed in range(3 - 2 * n_brackets):
        model = TunedBoostingClassifier(
            time_budget=None, n_brackets=n_brackets, max_iter=20, random_state=seed
        )
        assert model.fit(X, labels).score(X, labels) > 0.9
        assert model.predict_proba(X).shape == (300, 4)
