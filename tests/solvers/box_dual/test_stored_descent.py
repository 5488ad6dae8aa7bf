"""Problems with more free points than a working set holds, whose kernel matrix is stored."""

import math

import numpy as np
import pytest
from dual_problem import box, violation
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_box_dual, solve_regression_dual
from kbench.solvers.box_dual import block_descent, stored_descent
from kbench.solvers.box_dual.iterate import Budget, Iterate
from kbench.solvers.box_dual.options import ALL_ON, SolverOptions
from kbench.solvers.box_dual.row_cache import RowCache
from kbench.solvers.box_dual.stored_descent import StoredDescent
from kbench.trace import Trace

GAMMA, C = 0.1, 100.0


@pytest.fixture
def stored(monkeypatch):
    """How often a descent on a stored matrix was begun."""
    calls, solve = [], StoredDescent.solve

    def counted(self, target):
        calls.append(len(self.S))
        return solve(self, target)

    monkeypatch.setattr(StoredDescent, "solve", counted)
    return calls


def noise(n=2400, d=10):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def solved(X, y, **arguments):
    matrix = KernelMatrix(make_kernel("rbf", X, gamma=GAMMA), X)
    return solve_box_dual(matrix, y, arguments.pop("C", C), intercept=True, **arguments)


def test_a_classifier_has_the_solution_in_fewer_steps(stored):
    X, y = noise()
    fast = solved(X, y)
    assert stored
    seen = len(stored)
    slow = solved(X, y, options=SolverOptions(stored_matrix=False))
    assert len(stored) == seen
    assert fast.n_iter < 0.5 * slow.n_iter
    assert fast.objective == pytest.approx(slow.objective, rel=1e-6)
    beta, K = y * fast.alpha, rbf_kernel(X, gamma=GAMMA)
    assert violation(K, y, beta, *box(y, C)) <= 1e-3 * (1 + 1e-9)
    assert beta.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("huge", [1e4, 1e6])
def test_a_large_bound_is_solved(huge, stored):
    X, y = noise()
    result = solved(X, y, C=huge)
    assert stored
    assert result.converged
    K = rbf_kernel(X, gamma=GAMMA)
    assert violation(K, y, y * result.alpha, *box(y, huge)) <= 1e-3 * (1 + 1e-6)


@pytest.mark.parametrize("nanoseconds", [0.0, block_descent._STORED_NS])
def test_a_regression_has_the_solution(nanoseconds, stored, monkeypatch):
    """Its matrix is stored only after values that took as long."""
    monkeypatch.setattr(block_descent, "_STORED_NS", nanoseconds)
    X, _ = noise(2200, 26)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * np.random.default_rng(1).normal(size=len(X))
    matrix = KernelMatrix(make_kernel("rbf", X, gamma=GAMMA), X)
    options = SolverOptions(few_points=1000)
    coef = solve_regression_dual(matrix, y, C, epsilon=0.1, options=options).coef
    assert bool(stored) == (nanoseconds == 0.0)
    assert violation(rbf_kernel(X, gamma=GAMMA), y, coef, -C, C, 0.1) <= 1e-3 * (1 + 1e-9)


def test_a_minimum_that_was_not_found_is_waited_for_twice_as_long(stored, monkeypatch):
    X, y = noise()
    steps, attempts = [], []
    pairs, minimum = stored_descent.pair_steps, stored_descent.descend_to_minimum

    def counted(*arguments):
        steps.append(pairs(*arguments))
        return steps[-1]

    def failed(*arguments):
        attempts.append(sum(steps))
        return None if len(attempts) < 2 else minimum(*arguments)

    monkeypatch.setattr(stored_descent, "pair_steps", counted)
    monkeypatch.setattr(stored_descent, "descend_to_minimum", failed)
    solved(X, y)
    assert stored
    assert len(attempts) >= 2
    # Three factorisations' worth of steps follow a failure, one comes before.
    assert attempts[1] - attempts[0] > attempts[0]


def test_the_limit_on_steps_is_kept(stored):
    X, y = noise()
    whole = solved(X, y)
    result = solved(X, y, max_iter=whole.n_iter - 1000)
    assert stored
    assert (result.n_iter, result.stop_reason) == (whole.n_iter - 1000, "max_iter")


def test_a_matrix_beyond_the_memory_is_not_stored(stored):
    X, y = noise()
    assert solved(X, y, cache_mb=4.0).converged
    assert all(4 * points**2 <= 4 * 2**20 for points in stored)


@pytest.mark.parametrize("d", [5, 400])
def test_the_stored_matrix_is_the_kernel_matrix(d):
    X, _ = noise(1200, d)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=1.0 / d), X)
    cache = RowCache(kernel, 10.0, 1)
    columns = np.random.default_rng(2).permutation(1200)[:1100]
    cache.lay_out(columns, 1150)
    coef = np.linspace(-1.0, 1.0, 1100)
    before = cache.product(columns, coef)
    K = cache.matrix()
    np.testing.assert_allclose(K, rbf_kernel(X[columns], gamma=1.0 / d), atol=1e-5)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(cache.product(columns, coef), before, atol=1e-4)


@given(
    n=st.integers(5, 120),
    seed=st.integers(0, 999),
    bound=st.sampled_from([0.1, 3.0, 1e3]),
    epsilon=st.sampled_from([0.0, 0.2]),
    gamma=st.sampled_from([0.02, 1.0]),
)
@settings(max_examples=60)
def test_small_problems_with_equal_rows_are_solved(n, seed, bound, epsilon, gamma):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))[rng.integers(0, n, n)]
    z = rng.normal(size=n) if epsilon else rng.choice([-1.0, 1.0], n)
    C = bound * rng.uniform(0.5, 2.0, n)
    lower, upper = (-C, C) if epsilon else box(z, C)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=gamma), X, np.float64)
    budget = Budget(math.inf, None, Trace())
    iterate = Iterate(kernel, z, lower, upper, epsilon=epsilon, coupled=True, budget=budget)
    K = rbf_kernel(X, gamma=gamma)
    StoredDescent(iterate, kernel, np.arange(n), K, ALL_ON).solve(5e-5)
    beta = iterate.beta
    assert np.all((lower <= beta) & (beta <= upper))
    assert beta.sum() == pytest.approx(0.0, abs=1e-9 * np.abs(beta).sum() + 1e-12)
    e = z - K @ beta
    np.testing.assert_allclose(iterate.residual, e, atol=1e-7 * max(1.0, bound))
    assert violation(K, z, beta, lower, upper, epsilon) <= 1e-4 * (1 + 1e-3)
    objective = 0.5 * beta @ K @ beta - z @ beta + epsilon * np.abs(beta).sum()
    assert iterate.objective == pytest.approx(objective, rel=1e-6, abs=1e-9)
