"""Recursive feature machines: exact ridge in the learned metric, and division by clusters."""

import numpy as np
import pytest

from kbench.methods import RecursiveFeatureClassifier, RecursiveFeatureRegressor
from kbench.metric import LearnedMetric
from kbench.trace import Trace


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 12))
    return X, np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=900)


def test_the_exact_machine_is_kernel_ridge_in_the_learned_metric(problem):
    X, y = problem
    model = RecursiveFeatureRegressor(random_state=0).fit(X[:300], y[:300])
    metric = model.metric_
    assert model.n_clusters_ == 1
    Z, Z_new = metric.transform(X[:300]), metric.transform(X[300:400])

    def kernel(A, B):
        r = np.linalg.norm(A[:, None] - B[None], axis=2)
        return np.exp(-metric.gamma_ * (r if metric.kernel_ == "matern12" else r**2))

    target = y[:300]
    coef = np.linalg.solve(kernel(Z, Z) + metric.ridge_ * np.eye(300), target)
    np.testing.assert_allclose(model.predict(X[300:400]), kernel(Z_new, Z) @ coef, atol=5e-3)


def test_more_rows_are_divided_into_clusters_of_bounded_size(problem):
    X, y = problem
    options = {"metric": LearnedMetric(n_rounds=1), "random_state": 0}
    model = RecursiveFeatureRegressor(max_exact=300, cluster_size=100, **options)
    trace = Trace()
    model.fit(X[:600], y[:600], trace=trace)
    sizes = [len(machine.coef) for machine in model._machine.machine.machines]
    assert sum(sizes) == 600
    assert max(sizes) <= 1.5 * 100
    assert model.kernel_entries_ == sum(size**2 for size in sizes)
    assert {"metric", "cluster", "solve"} <= set(model.timings_)
    exact = RecursiveFeatureRegressor(**options).fit(X[:600], y[:600])
    assert model.score(X[600:], y[600:]) > exact.score(X[600:], y[600:]) - 0.1


@pytest.mark.parametrize("n_classes", [2, 4])
def test_classes_and_their_labels(n_classes):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 6))
    labels = np.array(["a", "b", "c", "d"])[:n_classes]
    y = labels[np.digitize(X[:, 2], np.linspace(-0.8, 0.8, n_classes - 1))]
    model = RecursiveFeatureClassifier(random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9
    assert model.decision_function(X[400:]).shape == ((200,) if n_classes == 2 else (200, 4))


def test_clusters_with_different_directions_get_their_own_metrics():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1500, 6))
    side = rng.integers(0, 2, 1500)
    X[:, 0] = np.where(side, 4.0, -4.0) + 0.3 * X[:, 0]
    y = np.where(side, np.sin(3.0 * X[:, 1]), np.sin(3.0 * X[:, 2])) + X[:, 0]
    options = {
        "metric": LearnedMetric("diagonal", kernel="rbf", n_rounds=0),
        "max_exact": 200,
        "cluster_size": 700,
        "random_state": 0,
    }
    plain = RecursiveFeatureRegressor(**options).fit(X[:1200], y[:1200])
    local = RecursiveFeatureRegressor(local_metrics=True, **options).fit(X[:1200], y[:1200])
    assert plain.n_local_metrics_ == 0
    assert local.n_local_metrics_ >= 1
    assert local.n_local_metrics_ <= local.n_clusters_

    def error(model):
        return np.mean((model.predict(X[1200:]) - y[1200:]) ** 2)

    assert error(local) < 0.7 * error(plain)
