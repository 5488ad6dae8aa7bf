"""LDKLClassifier: the estimator around the trained trees, whose facts have tests there."""

import numpy as np
import pytest

from kbench.methods import LDKLClassifier
from kbench.prediction.hyperplane_tree import HyperplaneTrees


def squares(n=800, seed=0):
    X = np.random.default_rng(seed).uniform(0, 1, (n, 2))
    return X, np.where((X[:, 0] - 0.5) * (X[:, 1] - 0.5) > 0, "yes", "no")


def walk(tree, sigma, x):
    """f(x) of one tree : (M, 3, d + 1), by following the turns."""
    row, node, value = np.append(x, 1.0), 0, 0.0
    while node < len(tree):
        w, p, q = tree[node] @ row
        value += np.tanh(sigma * p) * w
        node = 2 * node + (1 if q > 0 else 2)
    return value


def test_decision_is_the_walk_down_the_trees_of_the_rows_as_they_are():
    X, y = squares()
    model = LDKLClassifier(3, sigma=0.7, max_iter=1500, lambda_w=0.01, random_state=0).fit(X, y)
    values = model.decision_function(X)
    expected = [walk(model.trees_[0], 0.7, x) for x in X]
    scale = np.abs(expected).max()
    np.testing.assert_allclose(values, expected, atol=1e-4 * scale)
    assert model.score(X, y) > 0.93
    for u in (1, 7):
        np.testing.assert_array_equal(model.decision_function(X[:u]), values[:u])
    assert model.n_parameters_ == (15 + 15 + 7) * 3
    assert model.prediction_flops_ == 3 * 3 + 2 + 10 * 4 / 2
    assert set(model.timings_) == {"prepare", "train"}


@pytest.mark.parametrize("d", [1, 15, 16, 33])
@pytest.mark.parametrize("depth", [0, 1, 4])
def test_groups_of_rows_walk_as_a_row_alone(d, depth):
    rng = np.random.default_rng(0)
    X, trees = rng.normal(size=(70, d)), rng.normal(size=(2, 2 ** (depth + 1) - 1, 3, d + 1))
    machine = HyperplaneTrees(trees, 1.3, None)
    values = machine(X)
    expected = [[walk(tree, 1.3, x) for tree in trees] for x in X.astype(np.float32)]
    np.testing.assert_allclose(values, expected, atol=1e-5 * np.abs(values).max())
    parts = np.split(X, [1, 3, 32, 65])
    np.testing.assert_array_equal(np.vstack([machine(part) for part in parts]), values)
    assert machine.n_parameters == trees.size
