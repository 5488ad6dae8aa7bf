"""KernelOneClassSVM: scikit-learn's OneClassSVM, the conditions of an optimum, and nu."""

import numpy as np
import pytest
from dual_problem import coefficients
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

from kbench.methods import KernelOneClassSVM

EXACT = {"gamma": 0.5, "tol": 1e-8, "dtype": "float64"}


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) * (1.0 + 2.0 * (rng.random((n, 1)) < 0.1))


def assert_is_optimal(model, K, weight, nu):
    """Every condition of Karush, Kuhn and Tucker, and the gap, by naive sums."""
    b, rho, total = coefficients(model, len(K)), model.offset_[0], nu * weight.sum()
    assert (b >= 0.0).all()
    assert (b <= weight).all()
    assert b.sum() == pytest.approx(total, rel=1e-9)
    f = K @ b
    assert (f[b < weight] >= rho - 1e-5).all()
    assert (f[b > 0.0] <= rho + 1e-5).all()
    dual, loss = -0.5 * b @ K @ b, weight @ np.maximum(0.0, rho - f)
    gap = 0.5 * b @ K @ b + loss - total * rho - dual
    assert model.objective_ == pytest.approx(-dual, rel=1e-6)
    rounding = 1e-6 * (1.0 + abs(dual) + weight.sum())
    assert gap == pytest.approx(0.0, abs=rounding)
    assert model.duality_gap_ == pytest.approx(gap, abs=rounding)


# With a cache of 0.1 MB the problem is too large for the small-problem solver.
@pytest.mark.parametrize("cache_size", [1000.0, 0.1])
@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_it_is_one_class_svm(kernel, nu, cache_size):
    # nu n is not a whole number: some row is free, and the offset is unique.
    X, new = rows(301) + 6.0, rows(2000, 1) + 6.0
    options = {"kernel": kernel, "nu": nu, "gamma": 0.5, "degree": 2, "tol": 1e-8}
    model = KernelOneClassSVM(dtype="float64", cache_size=cache_size, **options).fit(X)
    peer = OneClassSVM(**options).fit(X)
    K = {"rbf": rbf_kernel(X, gamma=0.5), "linear": X @ X.T, "poly": (0.5 * X @ X.T) ** 2}[kernel]
    found, expected = (0.5 * b @ K @ b for b in (coefficients(m, 301) for m in (model, peer)))
    assert found == pytest.approx(expected, rel=1e-6)
    assert model.objective_ == pytest.approx(found, rel=1e-7)
    np.testing.assert_allclose(model.offset_, peer.offset_, rtol=1e-5)
    assert np.mean(model.predict(new) == peer.predict(new)) >= 0.999
    for name in ("decision_function", "score_samples"):
        ours, theirs = (getattr(m, name)(new) for m in (model, peer))
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())


@settings(max_examples=25)
@given(
    n=st.integers(1, 60),
    nu=st.one_of(st.floats(0.01, 1.0), st.just(1.0)),
    copies=st.integers(1, 3),
    large=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_random_problems_are_optimal(n, nu, copies, large, seed):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(n, 2)), copies, axis=0)
    weight = rng.integers(0, 4, len(X)) * 0.5
    weight[0] = 1.0
    model = KernelOneClassSVM(nu=nu, cache_size=0.0 if large else 1000.0, **EXACT)
    model.fit(X, sample_weight=weight)
    assert_is_optimal(model, rbf_kernel(X, gamma=0.5), weight, nu)


def test_groups_far_apart_share_one_sum_and_offset():
    X = rows(2400)
    X[::2] += 100.0
    model = KernelOneClassSVM(nu=0.1, cache_size=1.0, **EXACT).fit(X)
    assert_is_optimal(model, rbf_kernel(X, gamma=0.5), np.ones(2400), 0.1)


@pytest.mark.parametrize("cache_size", [1000.0, 0.1])
def test_a_limit_warns_and_keeps_the_sum(cache_size):
    X = rows()
    with pytest.warns(ConvergenceWarning, match="stopped by max_iter"):
        model = KernelOneClassSVM(nu=0.2, max_iter=3, cache_size=cache_size).fit(X)
    assert model.dual_coef_.sum() == pytest.approx(60.0)
    # The offset is the best one for these coefficients: nu of the rows are outside.
    assert np.mean(model.predict(X) == -1) == pytest.approx(0.2, abs=0.02)
    assert not model.converged_
