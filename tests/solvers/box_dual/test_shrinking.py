"""Coordinate descent with shrinking reaches the same solution; no point is shrunk for good."""

import numpy as np
import pytest
from dual_problem import matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.solvers import solve_box_dual
from kbench.solvers.box_dual.shrinking import shrinking_descent
from kbench.trace import Trace


def problem(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.5, 5.0, n)


@given(seed=st.integers(0, 1000), n=st.integers(1, 150), cache_mb=st.sampled_from([0.0, 0.01, 10]))
@settings(max_examples=25)
def test_the_solution_is_that_of_the_dual(seed, n, cache_mb):
    X, y, C = problem(n, seed)
    alpha = shrinking_descent(matrix(X), y, C, tol=1e-6, cache_mb=cache_mb, shrink_every=10)
    Q = matrix(X).block(np.arange(n)) * np.outer(y, y)
    G = Q @ alpha - 1.0
    assert np.all((alpha >= 0) & (alpha <= C))
    assert np.all(G[alpha < C] >= -2e-6)
    assert np.all(G[alpha > 0] <= 2e-6)
    objective = 0.5 * alpha @ Q @ alpha - alpha.sum()
    exact = solve_box_dual(matrix(X), y, C, tol=1e-8)
    assert objective == pytest.approx(exact.objective, rel=1e-6)


def test_points_are_shrunk_and_the_objective_is_true_throughout():
    X, y, C = problem(800)
    reported = []
    trace = Trace(lambda seconds, state: reported.append(state))
    alpha = shrinking_descent(matrix(X), y, C, shrink_every=100, trace=trace)
    Q = matrix(X).block(np.arange(800)) * np.outer(y, y)
    for state in reported:
        true = 0.5 * state["alpha"] @ Q @ state["alpha"] - state["alpha"].sum()
        assert state["objective"] == pytest.approx(true, rel=1e-9)
        assert np.all(state["candidates"][state["alpha"] > 0])
    assert np.all(np.diff([state["objective"] for state in reported]) <= 0)
    *before, last = (np.count_nonzero(state["candidates"]) for state in reported)
    assert last == np.count_nonzero(alpha) <= before[-1] < 0.8 * len(y)


def test_shrinking_saves_kernel_values():
    X, y, C = problem(800)
    spent = []
    for shrink_every in (100, 0):
        kernel = matrix(X)
        shrinking_descent(kernel, y, C, cache_mb=0, shrink_every=shrink_every)
        spent.append(kernel.n_entries)
    assert spent[0] < spent[1]
