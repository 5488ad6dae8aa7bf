"""HSSKernelRidge beside scikit-learn's kernel ridge and Gaussian process."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

from kbench.approximation import HSSMatrix
from kbench.methods import HSSKernelRidge
from kbench.trace import Trace

EXACT = {"gamma": 2.0, "leaf_size": 64, "trace_tol": 1e-9, "dtype": "float64", "random_state": 0}


MATRIX = HSSMatrix().get_params().keys() - {"random_state"}


def ridge(alpha=1.0, **options):
    """A regressor whose options are those of its own and those of its matrix."""
    inner = {name: options[name] for name in MATRIX & options.keys()}
    own = {name: options[name] for name in options.keys() - MATRIX}
    return HSSKernelRidge(HSSMatrix(**{"preset": "precise"} | inner), alpha=alpha, **own)


def points(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 3))
    return X, np.sin(6.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 100.0])
def test_tight_tolerances_are_exact_kernel_ridge(alpha):
    X, y = points()
    new = points(200, seed=1)[0]
    own = ridge(alpha, **EXACT).fit(X, y)
    exact = KernelRidge(alpha=alpha, kernel="rbf", gamma=2.0).fit(X, y)
    np.testing.assert_allclose(own.predict(new), exact.predict(new), atol=1e-4)


def test_small_ridges_have_the_exact_test_error_by_default():
    X, y = points(1500)
    new, truth = points(300, seed=1)
    own = ridge(0.05, gamma=2.0, leaf_size=128, random_state=0).fit(X, y)
    exact = KernelRidge(alpha=0.05, kernel="rbf", gamma=2.0).fit(X, y)
    errors = [np.sqrt(np.mean((m.predict(new) - truth) ** 2)) for m in (own, exact)]
    assert errors[0] == pytest.approx(errors[1], rel=0.01)


def test_marginal_likelihood_is_that_of_the_gaussian_process():
    X, y = points(300)
    own = ridge(0.1, **EXACT).fit(X, y)
    process = GaussianProcessRegressor(RBF(0.5, "fixed"), alpha=0.1).fit(X, y)
    assert own.log_marginal_likelihood_ == pytest.approx(process.log_marginal_likelihood_value_)


@pytest.mark.parametrize("alpha", [1e-3, 1e-6, 1e-9])
def test_the_likelihood_of_the_exact_matrix_keeps_its_digits_for_a_small_ridge(alpha):
    """Its float32 factor lost a third of the logarithm, and predictions ended above `tol`."""
    X, y = points(300)
    own = HSSKernelRidge(HSSMatrix(gamma=2.0, preset="precise", random_state=0), alpha=alpha)
    shifted = rbf_kernel(X, gamma=2.0) + alpha * np.eye(300)
    coef = np.linalg.solve(shifted, y)
    expected = -0.5 * (y @ coef + np.linalg.slogdet(shifted)[1] + 300.0 * np.log(2.0 * np.pi))
    assert own.fit(X, y).ranks_ == []
    assert own.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-4)
    residual = np.linalg.norm(shifted @ own.dual_coef_ - y)
    assert residual < 1e-7 * max(1.0, 1e-6 / alpha) * np.linalg.norm(y)
    with pytest.raises(ValueError, match="alpha=1e-15 is below the rounding error"):
        own.set_params(alpha=1e-15).fit(X, y)


def test_several_targets_share_the_factors():
    X, y = points()
    Y = np.column_stack([y, X[:, 0]])
    both = ridge(0.1, **EXACT).fit(X, Y)
    alone = [ridge(0.1, **EXACT).fit(X, column) for column in Y.T]
    for j, model in enumerate(alone):
        np.testing.assert_allclose(both.predict(X)[:, j], model.predict(X), atol=1e-8)
    total = sum(model.log_marginal_likelihood_ for model in alone)
    assert both.log_marginal_likelihood_ == pytest.approx(total)


def test_warm_starts_over_alpha_compress_once():
    X, y = points()
    model = ridge(gamma=2.0, leaf_size=64, warm_start=True, random_state=0)
    entries = []
    for alpha in (10.0, 1.0, 0.1):
        trace = Trace()
        model.set_params(alpha=alpha).fit(X, y, trace=trace)
        entries.append(model.kernel_entries_)
        assert ("compress" in trace.timings) == (alpha == 10.0)
        cold = ridge(alpha, gamma=2.0, leaf_size=64, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.predict(X), cold.predict(X), atol=1e-6)
    assert len(set(entries)) == 1


def test_the_kernel_error_is_that_of_the_matrix():
    X, y = points()
    options = {"gamma": 2.0, "leaf_size": 64, "preset": "fast", "random_state": 0}
    matrix = HSSMatrix(**options).fit(X).toarray()
    exact = rbf_kernel(X, gamma=2.0)
    error = np.linalg.norm(matrix - exact) / np.linalg.norm(exact)
    model = ridge(1.0, error_rows=len(X), **options).fit(X, y)
    assert model.kernel_error_ == pytest.approx(error, rel=1e-2)
    assert not hasattr(model.set_params(error_rows=0).fit(X, y), "kernel_error_")


def test_compressed_prediction():
    X, y = points(2000)
    new = points(500, seed=1)[0]
    exact = ridge(1.0, gamma=2.0, leaf_size=64, random_state=0).fit(X, y)
    fast = ridge(1.0, gamma=2.0, leaf_size=64, predict_with="compressed", random_state=0).fit(X, y)
    np.testing.assert_allclose(fast.predict(new), exact.predict(new), atol=0.02)
    assert set(exact.timings_) == {"prepare", "tree", "neighbours", "compress", "factor"}


def test_a_matrix_of_full_rank_is_not_compressed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 18))
    y = X[:, 0] * X[:, 1]
    own = ridge(0.1, gamma=0.1, random_state=0).fit(X, y)
    assert own.ranks_ == []
    assert own.kernel_error_ == 0.0
    exact = KernelRidge(alpha=0.1, kernel="rbf", gamma=0.1).fit(X, y)
    np.testing.assert_allclose(own.predict(X), exact.predict(X), atol=1e-6)
    compressed = ridge(0.1, gamma=0.1, leaf_size=200, trace_tol=1e-9, dtype="float64").fit(X, y)
    assert own.log_marginal_likelihood_ == pytest.approx(compressed.log_marginal_likelihood_)
    # Choices of the user are kept.
    assert compressed.ranks_
    assert ridge(0.1, gamma=0.1, warm_start=True).fit(X, y).ranks_


def test_the_estimated_rank_is_that_after_compression():
    X = np.random.default_rng(0).uniform(size=(3000, 2))
    matrix = HSSMatrix(gamma=50.0, preset="precise", random_state=0).fit(X)
    assert matrix.estimated_rank(X) == pytest.approx(matrix.ranks_[0][1], rel=0.3)
    normal = np.random.default_rng(0).normal(size=(3000, 18))
    assert HSSMatrix(gamma=0.1, preset="precise").estimated_rank(normal) > 1300.0
    assert matrix.estimated_rank(np.zeros((50, 2))) <= 1.0


def test_where_neither_matrix_is_small_a_warning_names_other_methods():
    X = np.random.default_rng(0).normal(size=(600, 18))
    with pytest.warns(UserWarning, match="FalkonRegressor"):
        assert ridge(0.1, gamma=0.1, memory_mb=1.3, random_state=0).fit(X, X[:, 0]).ranks_


def test_a_matrix_that_is_not_positive_definite_says_which_shift_is_enough():
    X, y = points(300)
    rough = ridge(1e-6, gamma=2.0, leaf_size=16, preset="paper_table4", random_state=0)
    with pytest.raises(ValueError, match=r"not positive definite: .* a shift of .* is enough"):
        rough.fit(X, y)
