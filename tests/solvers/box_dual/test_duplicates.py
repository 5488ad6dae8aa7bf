"""Merging copies of points: the same problem, and a solution for every copy."""

import numpy as np
import pytest
import scipy.sparse as sp
from dual_problem import matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.solvers import solve_box_dual, solve_regression_dual
from kbench.solvers.box_dual.duplicates import Duplicates
from kbench.solvers.box_dual.options import SolverOptions


def copies(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, 3)).astype(float)
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 2] - 1.5 + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


@pytest.mark.parametrize("sparse", [False, True])
def test_kinds_are_the_distinct_rows_and_labels(sparse):
    X, y = copies(500)
    found = Duplicates.of(sp.csr_array(X) if sparse else X, y)
    expected = np.unique(np.column_stack([X, y]), axis=0)
    assert len(found.first) == len(expected)
    np.testing.assert_array_equal(X[found.first][found.kind], X)
    np.testing.assert_array_equal(y[found.first][found.kind], y)


def test_few_copies_are_not_merged():
    X = np.random.default_rng(0).normal(size=(400, 3))
    X[1] = X[0]
    y = np.ones(400)
    assert Duplicates.of(X, y) is None


@given(seed=st.integers(0, 1000), m=st.integers(1, 10), n=st.integers(1, 60))
@settings(max_examples=50)
def test_distributed_coefficients_add_up_and_at_most_one_copy_is_free(seed, m, n):
    rng = np.random.default_rng(seed)
    kind = np.concatenate([np.arange(m), rng.integers(0, m, n)])
    rng.shuffle(kind)
    sign = rng.choice([-1.0, 1.0], m)
    C = rng.uniform(0, 3, len(kind)) * rng.choice([0, 1, 1], len(kind))
    first = np.array([np.flatnonzero(kind == k)[0] for k in range(m)])
    total = np.bincount(kind, C, m)
    beta = sign * total * rng.choice([0, 0.3, 0.9, 1], m)
    lower, upper = np.minimum(0, sign[kind] * C), np.maximum(0, sign[kind] * C)
    shares = Duplicates(first, kind).distribute(beta, lower, upper)
    assert np.all((lower <= shares) & (shares <= upper))
    np.testing.assert_allclose(np.bincount(kind, shares, m), beta, atol=1e-10)
    free = (shares > lower) & (shares < upper)
    assert np.bincount(kind[free], minlength=m).max() <= 1


@pytest.mark.parametrize("intercept", [False, True])
def test_merging_does_not_change_the_solution(intercept):
    X, y = copies(600)
    C = np.random.default_rng(1).uniform(0, 2, 600)
    options = {"intercept": intercept, "tol": 1e-6}
    apart = solve_box_dual(matrix(X), y, C, **options)
    merged = solve_box_dual(matrix(X), y, C, options=SolverOptions(few_points=10), **options)
    assert merged.objective == pytest.approx(apart.objective, rel=1e-8)
    assert merged.kernel_entries < apart.kernel_entries
    g = y * (matrix(X).block(np.arange(600)) @ (merged.alpha * y)) - 1 + y * merged.intercept
    miss = np.where(merged.alpha < C, -g, 0), np.where(merged.alpha > 0, g, 0)
    assert np.max(miss) <= 1e-6
    assert abs(merged.alpha @ y) <= 1e-9 or not intercept


@pytest.mark.parametrize("total", [0.0, 40.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_merged_regressions_keep_bounds_that_differ_by_side_and_the_sum(intercept, total):
    X = copies(600)[0]
    t = np.sin(2 * X[:, 0]) + X[:, 2] % 2
    C = np.random.default_rng(1).uniform(0.1, 0.5, 600)
    lower, start = -0.2 * C, np.minimum(C, total * C / C.sum())
    options = {"epsilon": 0.0, "lower": lower, "coef0": start, "intercept": intercept, "tol": 1e-6}
    apart = solve_regression_dual(matrix(X), t, C, **options)
    merged = solve_regression_dual(matrix(X), t, C, options=SolverOptions(few_points=10), **options)
    assert merged.objective == pytest.approx(apart.objective, rel=1e-8)
    assert merged.kernel_entries < apart.kernel_entries
    b = merged.coef
    assert np.all((lower <= b) & (b <= C))
    assert (b == lower).any()
    assert (b == C).any()
    e = t - matrix(X).block(np.arange(600)) @ b - merged.intercept
    assert np.max(np.where(b < C, e, -1.0)) <= 1e-6
    assert np.min(np.where(b > lower, e, 1.0)) >= -1e-6
    assert b.sum() == pytest.approx(total, abs=1e-9) or not intercept
    gain = np.maximum(C * e, lower * e) - b * e
    assert merged.duality_gap == pytest.approx(gain.sum(), abs=1e-8)
