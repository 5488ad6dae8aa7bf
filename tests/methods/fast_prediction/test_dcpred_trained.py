"""Trained landmarks: what they reach with little, and what describes them."""

import numpy as np
import pytest
import scipy.sparse as sp

from kbench.methods import DCPredClassifier, DCPredTrainedClassifier, KernelSVC


def rings(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, np.where(np.sin(3 * np.linalg.norm(X, axis=1)) > 0, "in", "out")


def test_training_makes_sixteen_landmarks_worth_many():
    X, y = rings()
    new, labels = rings(1000, seed=1)
    options = {"C": 10.0, "gamma": 2.0, "random_state": 0}
    exact = KernelSVC(C=10.0, gamma=2.0).fit(X, y).score(new, labels)
    paper = DCPredClassifier(4, n_landmarks=16, pseudo="none", **options).fit(X, y)
    trained = DCPredTrainedClassifier(4, **options).fit(X, y)
    assert trained.n_landmarks_ == paper.n_landmarks_ == 64
    assert trained.score(new, labels) > max(exact - 0.05, paper.score(new, labels) + 0.02)


@pytest.mark.parametrize("router", ["classes", "variance"])
@pytest.mark.parametrize("target", ["leaf", "global", "labels"])
def test_values_are_the_formula_of_its_machines(router, target):
    X, y = rings(800)
    options = {"router": router, "target": target, "epochs": 2, "random_state": 0}
    model = DCPredTrainedClassifier(5, gamma=1.0, **options).fit(X, y)
    values = model.decision_function(X)
    assert model.score(X, y) > 0.75
    np.testing.assert_array_equal(model.decision_function(sp.csr_array(X)), values)
    for size in (1, 100):
        batches = [model.decision_function(X[i : i + size]) for i in range(0, 800, size)]
        np.testing.assert_array_equal(np.concatenate(batches), values)


def test_a_single_leaf_of_few_rows_is_near_its_machine():
    X, y = rings(150)
    model = DCPredTrainedClassifier(
        1, n_landmarks=160, epochs=100, C=5.0, gamma=1.0, tol=1e-3, random_state=0
    ).fit(X, y)
    exact = KernelSVC(C=5.0, gamma=1.0).fit(X, y)
    target = np.clip(exact.decision_function(X), -1, 1)
    assert np.abs(np.clip(model.decision_function(X), -1, 1) - target).mean() < 0.05


def test_synthetic_rows_show_the_machine_of_all_rows_between_few():
    X, y = rings(300)
    new, _ = rings(1000, seed=1)
    exact = KernelSVC(C=10.0, gamma=2.0, tol=0.01).fit(X, y)
    target = np.clip(exact.decision_function(new), -1, 1)
    options = {"C": 10.0, "gamma": 2.0, "target": "global", "epochs": 30, "random_state": 0}
    error = []
    for n_synthetic in (0.0, 4.0):
        model = DCPredTrainedClassifier(
            4, n_landmarks=32, min_rows=30, n_synthetic=n_synthetic, **options
        )
        values = np.clip(model.fit(X, y).decision_function(new), -1, 1)
        error.append(np.abs(values - target).mean())
    assert error[1] < 0.8 * error[0]


def test_features_that_hardly_vary_are_left_out():
    X, y = rings(600)
    padded = np.hstack([1e-3 * np.random.default_rng(0).normal(size=(600, 3)), X])
    options = {"gamma": 1.0, "random_state": 0, "epochs": 2}
    model = DCPredTrainedClassifier(1, n_features=2, **options).fit(padded, y)
    alone = DCPredTrainedClassifier(1, n_features=2, **options).fit(X, y)
    np.testing.assert_array_equal(model._machine.features, [[3, 4]])
    assert np.mean(model.predict(padded) == alone.predict(X)) > 0.9


def test_a_leaf_of_one_class_is_constant_and_weights_count():
    X, y = rings(400)
    model = DCPredTrainedClassifier(2, router="classes", gamma=1.0, random_state=0).fit(
        np.vstack([X, X + 50.0]), np.concatenate([y, np.repeat("in", 400)])
    )
    np.testing.assert_array_equal(model.decision_function(X + 50.0), -1.0)
    weight = (np.arange(400) % 2).astype(float)
    options = {"gamma": 1.0, "random_state": 0, "router": "classes"}
    model = DCPredTrainedClassifier(1, **options).fit(X, y, sample_weight=weight)
    half = DCPredTrainedClassifier(1, **options).fit(X[1::2], y[1::2])
    np.testing.assert_allclose(model.decision_function(X), half.decision_function(X), atol=1e-5)
