"""The bias-free solver against optimality conditions and an independent quadratic solver."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import kbench.solvers.box_dual as box_dual
from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_box_dual
from kbench.solvers.coordinate_descent import descend
from kbench.solvers.row_cache import RowCache
from kbench.trace import Trace


def problem(n, d=4, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, -1] + noise * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def matrix(X, dtype=np.float32, kernel="rbf", gamma=0.5):
    return KernelMatrix(make_kernel(kernel, X, gamma=gamma, degree=3, coef0=1.0), X, dtype)


def box_qp(Q, C):
    """An independent solution: L-BFGS-B, then Newton on the free variables."""
    e = np.ones(len(Q))
    found = scipy.optimize.minimize(
        lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - e),
        np.zeros(len(Q)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, c) for c in C],
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 0, "gtol": 1e-9},
    )
    return found.fun, found.x


def signed(X, y, gamma=0.5):
    """Q from direct differences, which are exact for points that coincide."""
    return np.exp(-gamma * cdist(X, X, "sqeuclidean")) * np.outer(y, y)


def assert_optimal(Q, C, result, tol, rounding=1e-9):
    """Karush-Kuhn-Tucker at tol, with the gradient recomputed here.

    `rounding` bounds the error of a float64 kernel value of the solver.
    """
    G = Q @ result.alpha - 1
    total = result.alpha.sum()
    np.testing.assert_allclose(result.gradient, G, atol=rounding * (1 + total))
    tol = tol + rounding * total
    assert np.all((result.alpha >= 0) & (result.alpha <= C))
    at_zero, at_C = result.alpha == 0, result.alpha == C
    assert np.all(G[at_zero & (C > 0)] >= -tol)
    assert np.all(G[at_C & (C > 0)] <= tol)
    assert np.all(np.abs(G[~at_zero & ~at_C]) <= tol)
    assert result.violation <= tol
    objective = 0.5 * result.alpha @ (G - 1)
    assert result.objective == pytest.approx(objective, rel=1e-9, abs=rounding * total**2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear"])
def test_equals_an_independent_quadratic_solver(kernel, sparse, dtype):
    X, y = problem(300)
    C = np.random.default_rng(1).uniform(0.1, 3.0, 300)
    reference = matrix(X, np.float64, kernel).block(np.arange(300)) * np.outer(y, y)
    result = solve_box_dual(matrix(sp.csr_array(X) if sparse else X, dtype, kernel), y, C, tol=1e-6)
    assert_optimal(reference, C, result, 1e-6)
    assert result.objective == pytest.approx(box_qp(reference, C)[0], rel=1e-6)


@pytest.mark.parametrize("shrinking", [False, True])
@pytest.mark.parametrize(("C", "noise"), [(0.1, 0.3), (10.0, 0.3), (1e6, 0.0)])
def test_larger_than_a_working_set(C, noise, shrinking):
    X, y = problem(1500, d=3, noise=noise)
    result = solve_box_dual(matrix(X), y, C, tol=1e-3, shrinking=shrinking, cache_mb=1)
    assert result.converged
    assert_optimal(signed(X, y), np.full(1500, C), result, 1e-3)


def test_an_enormous_bound():
    X, y = problem(400, d=3)
    result = solve_box_dual(matrix(X), y, 1e6)
    assert_optimal(signed(X, y), np.full(400, 1e6), result, 1e-3)


@given(
    n=st.integers(1, 60),
    d=st.integers(1, 4),
    log_C=st.floats(-4, 4),
    log_gamma=st.floats(-6, 6),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=60, deadline=None)
def test_optimal_on_random_problems(n, d, log_C, log_gamma, repeats, seed):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(n, d)), repeats, axis=0)
    y = rng.choice([-1.0, 1.0], len(X))
    C = 10**log_C * rng.choice([0.0, 0.5, 1.0], len(X))
    result = solve_box_dual(matrix(X, gamma=10**log_gamma), y, C)
    # Exponents are inner products of d + 2 terms, of magnitudes up to 4 gamma ||x - mean||^2.
    spread = ((X - X.mean(axis=0)) ** 2).sum(axis=1).max()
    rounding = 1e-9 + 1.2e-16 * (d + 2) * 4 * 10**log_gamma * spread
    assert_optimal(signed(X, y, 10**log_gamma), C, result, 1e-3, rounding)


@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_points(n):
    X, y = np.eye(2)[:n], np.array([1.0, -1.0])[:n]
    result = solve_box_dual(matrix(X, gamma=1e6), y, 5.0)
    np.testing.assert_allclose(result.alpha, np.ones(n))
    assert result.objective == pytest.approx(-0.5 * n)


def test_an_identity_kernel_is_solved_by_one():
    X, y = problem(700)
    np.testing.assert_allclose(solve_box_dual(matrix(X, gamma=1e6), y, 5.0).alpha, 1, atol=1e-3)
    np.testing.assert_allclose(solve_box_dual(matrix(X, gamma=1e6), y, 0.5).alpha, 0.5)


def test_a_constant_kernel_is_solved_by_the_difference_of_classes():
    # K = 1: f depends on s = sum y a only through s^2 / 2, so the larger class balances the rest.
    X, y = problem(700)
    result = solve_box_dual(matrix(X, gamma=1e-14), y, 1.0, tol=1e-6)
    small, large = sorted([(y > 0).sum(), (y < 0).sum()])
    s = min(large - small, 1.0)
    assert result.objective == pytest.approx(0.5 * s * s - 2 * small - s, rel=1e-6)


def test_warm_start_from_the_solution_stops_at_once():
    X, y = problem(1000)
    first = solve_box_dual(matrix(X), y, 10.0)
    kernel = matrix(X)
    again = solve_box_dual(kernel, y, 10.0, alpha0=first.alpha)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.alpha, first.alpha)
    # The price is the columns of the support vectors.
    assert again.kernel_entries == 1000 * np.count_nonzero(first.alpha)


def test_warm_start_is_clipped_into_the_box():
    X, y = problem(100)
    result = solve_box_dual(matrix(X), y, 1.0, alpha0=np.full(100, 50.0))
    assert_optimal(signed(X, y), np.ones(100), result, 1e-3)


def test_zero_upper_bounds_remove_points():
    X, y = problem(900)
    C = np.where(np.arange(900) % 3 == 0, 0.0, 2.0)
    kept = C > 0
    whole = solve_box_dual(matrix(X), y, C, tol=1e-6)
    part = solve_box_dual(matrix(X[kept]), y[kept], 2.0, tol=1e-6)
    assert not whole.alpha[~kept].any()
    assert whole.objective == pytest.approx(part.objective, rel=1e-7)


@pytest.mark.parametrize(
    ("limits", "reason"), [({"max_iter": 100}, "max_iter"), ({"max_time": 0.0}, "max_time")]
)
def test_a_limit_leaves_a_true_report(limits, reason):
    X, y = problem(1200)
    result = solve_box_dual(matrix(X), y, 10.0, **limits)
    assert not result.converged
    assert result.stop_reason == reason
    assert result.n_iter <= 100
    np.testing.assert_allclose(result.gradient, signed(X, y) @ result.alpha - 1, atol=1e-9)


def test_same_input_same_bits():
    X, y = problem(1500)
    first, second = (solve_box_dual(matrix(X), y, 10.0, cache_mb=2) for _ in range(2))
    np.testing.assert_array_equal(first.alpha, second.alpha)
    assert (first.objective, first.n_iter) == (second.objective, second.n_iter)


def test_read_only_input():
    X, y = problem(600)
    C = np.full(600, 3.0)
    for array in (X, y, C):
        array.flags.writeable = False
    assert solve_box_dual(matrix(X), y, C).converged


def test_trace_sees_a_falling_objective_and_the_last_is_the_result():
    X, y = problem(1500)
    states = []
    result = solve_box_dual(
        matrix(X, np.float64), y, 10.0, trace=Trace(lambda seconds, state: states.append(state))
    )
    objectives = [state["objective"] for state in states]
    assert len(objectives) > 3
    assert np.all(np.diff(objectives) <= 1e-9 * abs(result.objective))
    assert objectives[-1] == pytest.approx(result.objective, rel=1e-9)


def test_an_interrupt_passes_through():
    def interrupt(seconds, state):
        raise KeyboardInterrupt

    X, y = problem(1500)
    with pytest.raises(KeyboardInterrupt):
        solve_box_dual(matrix(X), y, 10.0, trace=Trace(interrupt))


def test_kernel_entries_are_what_the_matrix_counted():
    X, y = problem(1500)
    kernel = matrix(X)
    kernel.block(np.arange(2))
    result = solve_box_dual(kernel, y, 1.0)
    assert result.kernel_entries == kernel.n_entries - 2 * 1500


def test_a_smaller_cache_gives_the_same_solution_for_more_entries(monkeypatch):
    X, y = problem(2500, noise=1.0)
    built = []

    class Spy(RowCache):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            built.append(self.nbytes)

    monkeypatch.setattr(box_dual, "RowCache", Spy)
    small = solve_box_dual(matrix(X), y, 10.0, cache_mb=0.5)
    assert max(built) <= 0.5 * 2**20
    large = solve_box_dual(matrix(X), y, 10.0, cache_mb=200)
    assert small.kernel_entries > large.kernel_entries
    assert small.objective == pytest.approx(large.objective, rel=1e-5)


def test_descend_is_plain_coordinate_descent():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(90, 90))
    Q = A @ A.T / 90 + np.diag(rng.uniform(0, 1, 90))
    C = rng.uniform(0, 2, 90)
    alpha, g = np.zeros(90), -np.ones(90)
    naive, h, decrease = np.zeros(90), -np.ones(90), 0.0
    steps, fell = descend(Q, alpha, g, C, Q.diagonal().copy(), 1e-30, 200)
    for _ in range(200):
        move = np.clip(naive - h / Q.diagonal(), 0, C) - naive
        gain = -move * (h + 0.5 * Q.diagonal() * move)
        i = gain.argmax()
        naive[i] += move[i]
        h += move[i] * Q[i]
        decrease += gain[i]
    assert steps == 200
    np.testing.assert_allclose(alpha, naive, atol=1e-6)
    np.testing.assert_allclose(g, Q @ alpha - 1, atol=1e-12)
    assert fell == pytest.approx(decrease, rel=1e-9)


@given(seed=st.integers(0, 1000), slots=st.integers(16, 60))
@settings(max_examples=30, deadline=None)
def test_row_cache_is_the_matrix_through_evictions_and_shrinking(seed, slots):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3))
    gram = signed(X, np.ones(80))
    columns = np.arange(80)
    cache = RowCache(matrix(X, np.float64), columns, slots * 80 * 8 / 2**20)
    for step in range(12):
        if step % 4 == 3:
            kept = rng.random(len(columns)) < 0.7
            columns = columns[kept]
            cache.keep_columns(columns, kept)
        rows = rng.choice(80, rng.integers(1, 40), replace=False)
        coef = rng.normal(size=len(rows))
        total = np.ones(len(columns))
        cache.add_products(rows, coef, total)
        np.testing.assert_allclose(total, 1 + coef @ gram[np.ix_(rows, columns)], atol=1e-12)
    assert cache.nbytes <= slots * 80 * 8
