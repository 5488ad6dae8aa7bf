"""DC-Pred++: where it is exact, what its ingredients are, and what it refuses."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from small_problems import binary

from kbench.methods import DCPredClassifier, DCPredRegressor, KernelSVC


def curve(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("landmarks", ["weighted", "support"])
def test_one_leaf_and_all_landmarks_is_the_exact_machine(landmarks):
    X, y = binary(400)
    options = {"C": 2.0, "gamma": 0.5, "tol": 1e-5}
    model = DCPredClassifier(1, n_landmarks=400, landmarks=landmarks, **options).fit(X, y)
    exact = KernelSVC(fit_intercept=False, **options).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-3)
    assert model.n_landmarks_ == len(exact.support_)


@pytest.mark.parametrize("landmarks", ["weighted", "support"])
def test_one_leaf_and_all_landmarks_is_exact_ridge_regression(landmarks):
    X, y = curve()
    model = DCPredRegressor(1, n_landmarks=400, landmarks=landmarks, alpha=0.1, gamma=1.0)
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=1.0).fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).predict(X), exact.predict(X), atol=1e-4)


@pytest.mark.parametrize("pseudo", ["none", "monomials", "lower", "upper", "triangle"])
def test_more_landmarks_come_closer_to_the_exact_machine(pseudo):
    X, y = curve(500)
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=1.0).fit(X, y).predict(X)
    errors = [
        np.abs(
            DCPredRegressor(1, n_landmarks=m, pseudo=pseudo, alpha=0.1, gamma=1.0, random_state=0)
            .fit(X, y)
            .predict(X)
            - exact
        ).mean()
        for m in (4, 32)
    ]
    assert errors[1] < 0.2 * errors[0]


@pytest.mark.parametrize("cls", [DCPredClassifier, DCPredRegressor])
def test_the_error_of_the_kernel_falls_with_every_column_and_is_nothing_in_the_end(cls):
    X, y = curve(120)
    y = y if cls is DCPredRegressor else y > 0
    options = {"gamma": 0.5, "landmarks": "kmeans", "error_rows": 200, "random_state": 0}

    def error(m, pseudo="none"):
        return cls(1, n_landmarks=m, pseudo=pseudo, **options).fit(X, y).kernel_error_

    errors = [error(3), error(3, "lower"), error(3, "monomials"), error(30)]
    assert errors[1] < errors[0]
    assert errors[2] < errors[0]
    assert errors[3] < 0.02
    assert not hasattr(cls(1, n_landmarks=3, gamma=0.5).fit(X, y), "kernel_error_")


def test_leaves_are_machines_of_their_own_rows():
    X, y = binary(600)
    options = {"C": 1.0, "gamma": 0.5}
    model = DCPredClassifier(4, landmarks="support", random_state=0, **options).fit(X, y)
    values = model.decision_function(X)
    for leaf in range(4):
        rows = model.labels_ == leaf
        alone = (
            KernelSVC(fit_intercept=False, **options)
            .fit(X[rows], y[rows])
            .decision_function(X[rows])
        )
        np.testing.assert_allclose(values[rows], alone, atol=5e-3)


def test_a_leaf_of_one_class_is_constant_and_a_leaf_of_zeros_is_zero():
    X = np.concatenate([np.zeros((50, 2)), np.full((50, 2), 9.0)])
    X += np.random.default_rng(0).normal(size=X.shape)
    model = DCPredClassifier(2, random_state=0).fit(X, np.repeat([3, 5], 50))
    np.testing.assert_array_equal(model.decision_function(X), np.repeat([-1.0, 1.0], 50))
    assert model.n_landmarks_ == 0
    y = np.where(np.arange(100) < 50, 0.0, X[:, 0])
    model = DCPredRegressor(2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X[:50]), 0.0)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("cls", [DCPredClassifier, DCPredRegressor])
def test_no_leaf_is_empty_and_one_that_a_batch_does_not_reach_has_no_say(cls):
    points = np.random.default_rng(0).normal(size=(3, 2))
    X, y = np.repeat(points, 20, axis=0), np.tile([0, 1], 30)
    model = cls(8, n_landmarks=4, gamma=1.0, random_state=0).fit(X, y)
    assert model.n_leaves_ == 3
    assert np.bincount(model.labels_).tolist() == [20, 20, 20]
    together = model.predict(X)
    for leaf in range(3):
        rows = model.labels_ == leaf
        np.testing.assert_allclose(model.predict(X[rows]), together[rows], rtol=1e-5)


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_compiled_rows_are_the_decisions(offset):
    X, y = binary(400)
    X += offset
    model = DCPredClassifier(4, n_landmarks=8, gamma=0.5, random_state=0).fit(X, y)
    evaluate = model.compile()
    values = model.decision_function(X)
    assert [evaluate(x) for x in X[:50]] == values[:50].tolist()
    x, y = load_iris(return_X_y=True)
    several = DCPredClassifier(2, n_landmarks=8, gamma=0.5, random_state=0).fit(x, y)
    evaluate = several.compile()
    np.testing.assert_array_equal([evaluate(r).copy() for r in x], several.decision_function(x))


def test_report_of_the_fit():
    X, y = binary(400)
    options = {"n_landmarks": 8, "n_pseudo": 36, "gamma": 0.5, "random_state": 0}
    model = DCPredClassifier(4, **options).fit(X, y)
    assert set(model.timings_) == {"prepare", "cluster", "train"}
    assert model.converged_
    assert model.n_landmarks_ == 32
    # Landmarks, their coefficients and those of the products; the centres of the tree.
    assert model.n_parameters_ == 32 * 4 + 4 * (8 + 36) + 4 + 5 * 4
    # Four distances; 8 kernel values: four features, exponential, coefficient; half of 64 products.
    assert model.prediction_flops_ == 4 + (8 * 15 + 32) / 4
    assert model.kernel_entries_ > 0
    with pytest.warns(ConvergenceWarning, match="stopped by max_iter=1"):
        DCPredClassifier(2, n_landmarks=8, C=1e3, max_iter=1, random_state=0).fit(X, y)


def noisy(n):
    """A linear rule of 20 features; every fifth label is wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 20))
    return X, (X[:, 0] + X[:, 1] > 0) ^ (rng.random(n) < 0.2)


@pytest.mark.parametrize(
    ("n", "products"), [(32, 0), (64, 8), (100, 17), (300, 36)], ids=lambda value: str(value)
)
def test_a_leaf_has_four_rows_for_each_column_or_all_products(n, products):
    X, y = noisy(n)
    options = {"n_landmarks": 8, "gamma": 0.05, "random_state": 0}
    numbers = {
        pseudo: DCPredClassifier(1, pseudo=pseudo, **options).fit(X, y).n_parameters_
        for pseudo in ("none", "monomials")
    }
    assert numbers["monomials"] == numbers["none"] + products


def test_the_default_number_of_products_does_not_overfit_where_all_products_do():
    X, y = noisy(2400)
    options = {"n_landmarks": 24, "C": 64.0, "gamma": 0.05, "random_state": 0}
    score = {
        p: DCPredClassifier(1, n_pseudo=p, **options).fit(X[:400], y[:400]).score(X[400:], y[400:])
        for p in (None, 300)
    }
    assert score[None] > score[300] + 0.02


def test_a_leaf_that_does_not_fit_into_memory_is_named():
    with pytest.raises(ValueError, match=r"a leaf has 400 rows, .* takes 1 MiB"):
        DCPredRegressor(1, memory_mb=1.0).fit(*curve())
