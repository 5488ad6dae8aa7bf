"""DCPredTrainedRegressor: what it fits, what its values are, and what does not matter."""

import numpy as np
import pytest

from kbench.methods import DCPredTrainedRegressor


def curve(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1])


@pytest.mark.parametrize("router", ["targets", "variance"])
def test_sixteen_landmarks_a_leaf_follow_waves(router):
    X, y = curve()
    model = DCPredTrainedRegressor(8, router=router, random_state=0).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.92
    assert model.n_leaves_ == 8
    assert model.n_landmarks_ == 8 * 16
    assert set(model.timings_) == {"prepare", "cluster", "train"}
    value = model.compile()
    assert value(X[0]) == model.predict(X[:1])[0]


def test_units_of_the_targets_are_those_of_the_values():
    X, y = curve(400)
    options = {"n_leaves": 2, "epochs": 5, "random_state": 0}
    plain = DCPredTrainedRegressor(**options).fit(X, y).predict(X)
    scaled = DCPredTrainedRegressor(**options).fit(X, 1000.0 * y + 50000.0).predict(X)
    np.testing.assert_allclose(scaled, 1000.0 * plain + 50000.0, rtol=1e-4)


def test_constant_targets():
    X, _ = curve(400)
    model = DCPredTrainedRegressor(2, random_state=0).fit(X, np.full(400, 3.0))
    np.testing.assert_array_equal(model.predict(X), 3.0)
