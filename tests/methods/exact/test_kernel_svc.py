"""KernelSVC: what scikit-learn's parameters promise, on top of the solver's own tests."""

import functools
import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.multiclass import OneVsRestClassifier
from small_problems import binary

from kbench.methods import KernelSVC
from kbench.trace import Trace


def test_one_against_the_rest_is_a_binary_machine_for_each_class():
    X, y = load_iris(return_X_y=True)
    model = KernelSVC(gamma=0.5, tol=1e-8, dtype="float64", multi_class="ovr").fit(X, y)
    each = OneVsRestClassifier(KernelSVC(gamma=0.5, tol=1e-8, dtype="float64")).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), each.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(model.predict(X), each.predict(X))
    assert model.dual_coef_.shape == (3, len(model.support_))


def test_classes_share_the_matrix_of_a_callable_where_it_fits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:800], y[:800]
    kernel = functools.partial(rbf_kernel, gamma=1e-3)
    ovr = {"multi_class": "ovr", "fit_intercept": False}
    shared = KernelSVC(kernel=kernel, **ovr).fit(X, y)
    apart = KernelSVC(kernel=kernel, cache_size=1, **ovr).fit(X, y)
    assert shared.kernel_entries_ == 800**2
    assert apart.kernel_entries_ > 800**2
    assert shared.objective_ == pytest.approx(apart.objective_, rel=1e-5)


def test_the_fits_for_probabilities_share_the_time_limit():
    X, y = binary(100)
    limits = []

    class Recorded(KernelSVC):
        def fit(self, X, y, sample_weight=None, **options):
            limits.append(self.max_time)
            return super().fit(X, y, sample_weight, **options)

    Recorded(probability=True, max_time=1000.0).fit(X, y)
    assert len(limits) == 6
    assert limits[0] == 1000.0
    assert np.all(np.diff(limits) < 0.0)


def test_phases_and_iterates_reach_the_trace_and_the_result_is_the_same():
    X, y = binary(900)
    seen = []
    trace = Trace(lambda seconds, state: seen.append(state["violation"]))
    traced = KernelSVC(gamma=0.5).fit(X, y, trace=trace)
    plain = KernelSVC(gamma=0.5).fit(X, y)
    assert seen[-1] <= 1e-3
    assert traced.timings_.keys() == trace.timings.keys()
    np.testing.assert_array_equal(traced.dual_coef_, plain.dual_coef_)


def test_batches_do_not_show():
    X, y = binary(9000)
    model = KernelSVC(gamma=0.5).fit(X[:1500], y[:1500])
    whole = model.decision_function(X)
    parts = np.concatenate([model.decision_function(X[i : i + 70]) for i in range(0, 9000, 70)])
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-5)


def test_a_model_of_a_precomputed_kernel_does_not_carry_the_matrix():
    X, y = binary()
    model = KernelSVC(kernel="precomputed").fit(rbf_kernel(X), y)
    assert len(pickle.dumps(model)) < 300 * 300


def test_a_given_matrix_is_square():
    X, y = binary()
    with pytest.raises(ValueError, match="kernel='precomputed' needs a square matrix"):
        KernelSVC(kernel="precomputed").fit(X, y)


@pytest.mark.parametrize("size", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("coef0", [0.0, -1.0])
def test_equal_rows_of_two_classes_end_whatever_the_size_of_kernel_values(coef0, size, monkeypatch):
    """Their curvature is nothing, and steps of the least one move coefficients by 1e-19 of C."""
    monkeypatch.setattr("kbench.solvers.box_dual.block_descent._MAX_STEPS_WHOLE", 1000)
    model = KernelSVC(kernel="poly", degree=5, gamma=0.1, coef0=coef0, C=10.0)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(np.full((2, 1), size), [0, 1])
    assert model.n_iter_.sum() <= 150_000
    np.testing.assert_allclose(model.dual_coef_.sum(), 0.0, atol=1e-12)
