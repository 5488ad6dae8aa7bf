"""target_cost: sizes that a budget allows, chosen on rows held out; costs are counted here."""

import numpy as np
import pytest
import scipy.sparse as sp

from kbench.cost import UNIT_ROWS, unit_rows
from kbench.methods import DCPredClassifier, DCPredRegressor, DCPredTrainedClassifier


class Counted:
    """A unit of cost for each number that a leaf holds, in place of seconds."""

    def _relative_cost(self, machine, X, n_outputs):
        return machine.n_parameters / machine.router.n_leaves


class CountedClassifier(Counted, DCPredClassifier):
    pass


class CountedRegressor(Counted, DCPredRegressor):
    pass


class CountedTrainedClassifier(Counted, DCPredTrainedClassifier):
    pass


def squares(n=600, seed=0):
    X = np.random.default_rng(seed).uniform(-2, 2, (n, 2))
    return X, np.where((np.floor(X[:, 0]) + np.floor(X[:, 1])) % 2 == 0, "black", "white")


@pytest.mark.parametrize(
    ("model", "smallest"),
    [
        (CountedClassifier(gamma=2.0, C=10.0, random_state=0), 2 + 1 + 1),
        (CountedTrainedClassifier(gamma=2.0, C=10.0, epochs=5, random_state=0), 16 * 3 + 1),
    ],
    ids=["dcpred", "dcpred_trained"],
)
def test_the_best_of_what_the_budget_allows(model, smallest):
    X, y = squares()
    model.set_params(target_cost=60.0)
    before = model.get_params()
    model.fit(X, y)
    assert model.get_params() == before
    assert all(cost <= 60.0 for _, cost, _ in model.choices_)
    assert max(score for *_, score in model.choices_) == next(
        score for sizes, _, score in model.choices_ if sizes == model.sizes_
    )
    assert model.cost_ <= 60.0
    twin = type(model)(**{**before, **model.sizes_, "target_cost": None}).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), twin.decision_function(X))
    assert model.score(X, y) > 0.9
    assert "choose" in model.timings_
    model.set_params(target_cost=smallest - 1)
    with pytest.raises(ValueError, match=rf"target_cost={smallest - 1} cannot .* {smallest}\.0 t"):
        model.fit(X, y)


def test_a_larger_budget_is_used():
    X, y = squares()
    options = {"gamma": 2.0, "C": 10.0, "random_state": 0}
    small, large = (CountedClassifier(target_cost=t, **options).fit(X, y) for t in (10.0, 200.0))
    assert large.cost_ > small.cost_
    assert large.score(X, y) > small.score(X, y)


def test_regression_and_sparse_rows_of_several_classes():
    X, _ = squares()
    y = np.sin(2 * X[:, 0])
    model = CountedRegressor(target_cost=60.0, gamma=1.0, alpha=0.01, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    labels = np.digitize(X[:, 0], [-0.7, 0.7])
    weights = np.ones(len(X))
    model = CountedTrainedClassifier(target_cost=200.0, epochs=5, gamma=1.0, random_state=0)
    assert model.fit(sp.csr_array(X), labels, weights).score(X, labels) > 0.95


def test_unit_rows_are_the_rows_again_and_again():
    X = np.arange(6.0).reshape(3, 2)
    rows = unit_rows(X)
    assert rows.shape == (UNIT_ROWS, 2)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[:6], np.vstack([X, X]))
    assert unit_rows(sp.csr_array(X)).shape == (UNIT_ROWS, 2)
