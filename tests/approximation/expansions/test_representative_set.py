"""Representative sets: convex combinations within eps, weights that add up, against a QP solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel

from kbench.approximation.expansions.representative_set import (
    nearest_combination,
    representative_set,
)
from kbench.kernels import KernelMatrix
from kbench.kernels.functions.rbf import RBF


def chosen(X, labels=None, weights=None, gamma=0.5, **options):
    labels = np.zeros(len(X), int) if labels is None else labels
    weights = np.ones(len(X)) if weights is None else weights
    options = {"eps": 0.05, "first_level": "fls2", "first_size": 60, "second_size": 25} | options
    kernel = KernelMatrix(RBF(gamma), X)
    return representative_set(kernel, (X**2).sum(axis=1), labels, weights, **options)


def test_nearest_combination_is_that_of_a_quadratic_program():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    K = rbf_kernel(X, gamma=0.3)
    k = rbf_kernel(X, rng.normal(size=(1, 3)), gamma=0.3)[:, 0]
    mu = np.zeros(12)
    mu[0] = 1.0
    value, bound = nearest_combination(K, 12, k, 1.0, mu, np.inf, 1e-10)
    found = minimize(
        lambda m: 1.0 + m @ K @ m - 2.0 * m @ k,
        np.full(12, 1 / 12),
        jac=lambda m: 2.0 * (K @ m - k),
        bounds=[(0, None)] * 12,
        constraints={"type": "eq", "fun": lambda m: m.sum() - 1.0, "jac": np.ones_like},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert value == pytest.approx(found.fun, abs=1e-7)
    assert bound <= found.fun + 1e-9
    assert value == pytest.approx(1.0 + mu @ K @ mu - 2.0 * mu @ k, abs=1e-12)
    assert mu.min() >= 0.0
    assert mu.sum() == pytest.approx(1.0, abs=1e-12)


@settings(max_examples=25)
@given(
    n=st.integers(1, 90),
    seed=st.integers(0, 99),
    eps=st.sampled_from([-1.0, 0.0, 1e-3, 0.05, 0.5]),
    gamma=st.sampled_from([0.05, 0.5, 20.0]),
    first_level=st.sampled_from(["fls1", "fls2"]),
)
def test_weights_add_up_and_residuals_are_within_eps(n, seed, eps, gamma, first_level):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    found = chosen(X, labels, gamma=gamma, eps=eps, first_level=first_level)
    assert len(np.unique(found.members)) == len(found.members)
    for label in np.unique(labels):
        of_class = labels[found.members] == label
        total = found.weights[of_class].sum()
        assert total == pytest.approx((labels == label).sum(), rel=1e-9)
    assert found.weights.min() >= 1.0 - 1e-9
    assert found.residuals.max() <= max(eps, 0.0)
    if eps < 0:
        np.testing.assert_array_equal(found.members, np.arange(n))
        np.testing.assert_allclose(found.weights, 1.0)


def test_larger_eps_leaves_fewer_members():
    X = np.random.default_rng(1).normal(size=(300, 2))
    options = {"first_size": 300, "second_size": 300}
    sizes = [len(chosen(X, eps=eps, **options).members) for eps in (1e-4, 1e-3, 1e-2, 1e-1)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 90


def test_end_points_represent_a_line():
    # With k = <x, z> the function space is the input: rows between two others are combinations.
    from kbench.kernels.functions.linear import Linear

    X = np.column_stack([np.linspace(-1.0, 1.0, 21), np.ones(21)])
    found = representative_set(
        KernelMatrix(Linear(), X),
        (X**2).sum(axis=1),
        np.zeros(21, int),
        np.ones(21),
        eps=1e-6,
        first_level="fls2",
        first_size=100,
        second_size=100,
    )
    np.testing.assert_array_equal(found.members, [0, 20])
    np.testing.assert_allclose(found.weights, 10.5, atol=0.05)


def test_rows_without_weight_are_left_out_and_equal_rows_count_together():
    X = np.random.default_rng(2).normal(size=(40, 2))
    weights = np.where(np.arange(40) < 30, 2.0, 0.0)
    found = chosen(X, weights=weights)
    assert found.members.max() < 30
    assert found.weights.sum() == pytest.approx(60.0)
    twice = chosen(np.vstack([X, X]), eps=0.0, first_size=1000, second_size=1000)
    assert len(twice.members) == 40
    np.testing.assert_allclose(twice.weights, 2.0, atol=1e-6)
