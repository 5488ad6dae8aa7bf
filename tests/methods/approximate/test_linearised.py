"""Linear machines on explicit features: what their approximate kernels make of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from small_problems import binary

from kbench.approximation import Fastfood, LandmarkFeatures, Nystrom, RandomFourierFeatures
from kbench.methods import KernelSVC, LinearizedSVC
from kbench.prediction import KernelExpansion
from kbench.prediction.landmarks import LocalLandmarks
from kbench.solvers import solve_linear_dual
from kbench.trace import Trace

MAPS = [Nystrom, LandmarkFeatures, Fastfood, RandomFourierFeatures]
LANDMARKS = (Nystrom, LandmarkFeatures)


def machine(cls, n_components, *, gamma=0.5, **options):
    """A linear machine on `n_components` features of the class `cls`."""
    choice = {"landmarks": "kmeans"} if cls in LANDMARKS else {"form": "cos_sin"}
    return LinearizedSVC(cls(n_components, gamma=gamma, **choice), **options)


def test_llsvm_is_the_machine_of_its_low_rank_kernel():
    X, y = binary()
    model = machine(Nystrom, 30, C=2.0, gamma=0.5, tol=1e-6, random_state=0).fit(X, y)
    F = model.feature_map_.transform(X)
    exact = KernelSVC(C=2.0, kernel="precomputed", fit_intercept=False, tol=1e-6).fit(F @ F.T, y)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-5)
    # Prediction folds the map into coefficients of landmarks.
    np.testing.assert_allclose(model.decision_function(X), F @ model.coef_[0], atol=1e-3)


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.parametrize("sparse", [False, True])
def test_copies_of_rows_are_solved_once(cls, sparse):
    X, y = binary(120)
    y[:40] = "perhaps"
    rng = np.random.default_rng(1)
    rows = np.concatenate([np.arange(120), rng.integers(0, 100, 200)])
    X, y, weight = np.vstack([X[rows], X[:5]]), np.append(y[rows], ["no"] * 5), rng.random(325)
    options = {"C": 2.0, "gamma": 0.5, "tol": 1e-6, "max_iter": 20_000, "random_state": 0}
    given = sp.csr_array(X) if sparse else X
    model = machine(cls, 20, **options).fit(given, y, sample_weight=weight)
    F = model.feature_map_.transform(X)
    Y = np.where(np.equal.outer(y, model.classes_), 1.0, -1.0)
    every_row = solve_linear_dual(
        F, Y, 2.0 * weight, np.random.RandomState(0), tol=1e-6, max_iter=20_000
    )
    assert model.objective_ == pytest.approx(every_row.objective.sum(), rel=1e-5)
    np.testing.assert_allclose(model.coef_.T, every_row.coef, atol=1e-2)
    np.testing.assert_allclose(model.decision_function(given), F @ model.coef_.T, atol=1e-3)
    if hasattr(model, "kernel_entries_"):
        distinct = len(np.unique(np.column_stack([X, y == "no", y == "yes"]), axis=0))
        assert model.kernel_entries_ == 20 * distinct


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.parametrize("sparse", [False, True])
def test_features_beyond_the_memory_are_computed_for_every_pass(cls, sparse):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300] % 2
    options = {"C": 1.0, "gamma": 0.05, "tol": 0.3, "random_state": 0}
    data = sp.csr_array(X) if sparse else X
    held = machine(cls, 64, **options).fit(X, y)
    streamed = machine(cls, 64, memory_mb=0.03, **options).fit(data, y)
    assert streamed.converged_
    assert streamed.objective_ == pytest.approx(held.objective_, rel=0.03)
    assert np.mean(streamed.predict(data) == held.predict(X)) > 0.95
    if hasattr(held, "kernel_entries_"):
        assert held.kernel_entries_ == 300 * held.feature_map_.n_landmarks_
        assert streamed.kernel_entries_ > held.kernel_entries_


@pytest.mark.parametrize("cls", MAPS)
def test_report_of_the_fit(cls):
    X, y = binary()
    seen = []
    trace = Trace(lambda seconds, state: seen.append(state["objective"]))
    model = machine(cls, 64, C=2.0, gamma=0.5, random_state=0).fit(X, y, trace=trace)
    assert set(model.timings_) == {"prepare", "cluster", "features", "solve"}
    assert len(seen) == model.n_iter_
    assert seen[-1] == pytest.approx(model.objective_)
    assert model.objective_ < 0 <= model.duality_gap_ < 0.2 * -model.objective_
    assert model.violation_ <= 0.1
    assert model.n_support_.shape == (2,)
    assert model.n_parameters_ >= model.coef_.size
    plain = machine(cls, 64, C=2.0, gamma=0.5, random_state=0).fit(X, y)
    np.testing.assert_array_equal(plain.coef_, model.coef_)


def test_the_map_is_cloned_seeded_and_searched():
    X, y = binary()
    part = RandomFourierFeatures(40, gamma=0.5)
    model = LinearizedSVC(part, random_state=0).fit(X, y)
    assert part.random_state is None
    assert not hasattr(part, "frequencies_")
    np.testing.assert_array_equal(LinearizedSVC(part, random_state=0).fit(X, y).coef_, model.coef_)
    search = GridSearchCV(model, {"feature_map__n_components": [2, 200]}, cv=2).fit(X, y)
    assert search.best_estimator_.feature_map_.n_features_out_ == 200
    with pytest.warns(UserWarning, match="n_components=1000 is more than n_samples=300"):
        assert isinstance(LinearizedSVC(random_state=0).fit(X, y).feature_map_, Nystrom)


def test_few_landmarks_are_evaluated_sixteen_at_a_time_and_many_as_an_expansion():
    X, y = binary(700)
    model = machine(Nystrom, n_components=40, gamma=0.5, random_state=0).fit(X, y)
    function = model._machine
    assert isinstance(function.expansion, LocalLandmarks)
    expected = function.feature_map.transform(X) @ function.weights
    values = function(X)
    np.testing.assert_allclose(values, expected, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(function(sp.csr_array(X)), values)
    for size in (1, 7, 100):
        parts = [function(X[i : i + size]) for i in range(0, 700, size)]
        np.testing.assert_array_equal(np.concatenate(parts), values)
    many = machine(Nystrom, n_components=600, gamma=0.5, random_state=0).fit(X, y)
    assert isinstance(many._machine.expansion, KernelExpansion)
