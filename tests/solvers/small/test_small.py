"""The small-problem solver: optimality by float64 values, against the large-problem solver."""

import numpy as np
import pytest
from dual_problem import box, product_sign, violation
from numba import njit
from sklearn.metrics.pairwise import rbf_kernel

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_box_dual
from kbench.solvers.small import GaussianRows, MatrixRows, StepLimits, solve_each, solve_pairs
from kbench.solvers.small.rows import FEW_FEATURES, by_feature, exponential
from kbench.solvers.small.steps import (
    POWER_ERROR,
    POWER_RELATIVE_ERROR,
    _fraction_of_largest_error,
    _half_row,
    _power_of_two,
)
from kbench.trace import Deadline, Trace

half_row = njit(lambda *arguments: _half_row(*arguments))
exponential_of = njit(lambda t: exponential(t))
power_of_two = njit(lambda t: _power_of_two(t))
fraction_of_largest_error = njit(lambda k: _fraction_of_largest_error(k))


def limits(tol=1e-3, max_iter=-1, max_time=None, trace=None, **more):
    trace = Trace() if trace is None else trace
    return StepLimits(tol, max_iter, Deadline(max_time, trace), trace, **more)


def binary(n=300, d=4):
    return product_sign(n, d)


def solve(X, y, C, gamma, limit, rows=None, coef0=None):
    rows = GaussianRows(X, gamma) if rows is None else rows
    lower, upper = box(y, C)
    return solve_each(rows, y[None], lower[None], upper[None], limit, coef0=coef0)


def test_stored_powers_are_within_their_bound():
    t = -np.abs(np.random.default_rng(0).standard_cauchy(200_000)).clip(0, 90)
    out = np.array([power_of_two(x) for x in t.astype(np.float32)])
    assert np.all(np.abs(out - np.exp2(t)) <= POWER_RELATIVE_ERROR * np.exp2(t) + POWER_ERROR)


def test_exponentials_have_two_units_in_the_last_place():
    t = -np.abs(np.random.default_rng(0).standard_cauchy(20_000)).clip(0, 690)
    out = np.array([exponential_of(x) for x in t])
    assert np.all(np.abs(out - np.exp(t)) <= 2.0 * np.spacing(np.exp(t)))
    assert exponential_of(0.0) == 1.0
    assert 0.0 < exponential_of(-1e300) < 1e-300


@pytest.mark.parametrize("d", [3, 8, 21, 64, 100, 150])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("gamma", "offset"), [(0.01, 0.0), (3.0, 0.0), (300.0, 0.0), (3.0, 1e3)])
def test_rows_on_demand_are_within_their_bound(d, gamma, offset, dtype):
    n = 40
    X = np.random.default_rng(0).normal(size=(n, d)) / np.sqrt(d) + offset
    X = X.astype(dtype)
    rows = GaussianRows(X, gamma)
    points, out = by_feature(rows.points), np.empty((n, n), np.float32)
    scratch = np.empty(points.shape[1], np.float32)
    for r in range(n):
        half_row(r, points, rows.halves, points, rows.halves, rows.factor, scratch, out[r])
    exact = rbf_kernel(X.astype(np.float64) - offset, gamma=gamma)
    relative, absolute = rows.entry_errors
    part = np.array([[fraction_of_largest_error(k) for k in row] for row in exact])
    # Values are not below 2^-100.
    error = np.abs(out - exact) - np.diag(np.abs(np.diag(out) - 1.0))
    assert np.all(error <= relative * exact + absolute * part + 2.0**-100)


def test_the_error_of_a_mean_is_at_most_that_of_the_mean_value():
    k, weights = np.random.default_rng(0).random((2, 100, 50)) ** 3
    weights /= weights.sum(axis=1, keepdims=True)
    part = np.array([[fraction_of_largest_error(x) for x in row] for row in k])
    means = [fraction_of_largest_error(x) for x in (weights * k).sum(axis=1)]
    assert np.all((weights * part).sum(axis=1) <= np.array(means) + 1e-12)


@pytest.mark.parametrize("d", [4, 7, 150, FEW_FEATURES + 1])
@pytest.mark.parametrize(("C", "tol"), [(1.0, 1e-3), (1e4, 1e-3), (1.0, 1e-8)])
def test_the_violation_is_true_in_float64_and_reported(d, C, tol):
    X, y = binary(d=d)
    gamma = 1.0 / d
    result = solve(X, y, C, gamma, limits(tol))
    K, beta = rbf_kernel(X, gamma=gamma), result.coef[0]
    true = violation(K, y, beta, *box(y, C))
    assert result.stop_reason == ("tol",)
    assert true <= tol * (1 + 1e-6)
    assert abs(true - result.violation[0]) <= 0.2 * tol
    assert abs(beta.sum()) <= 1e-9 * C
    assert result.duality_gap[0] >= 0.0
    e = y - K @ beta
    assert result.objective[0] == pytest.approx(-0.5 * beta @ (y + e), rel=1e-6)


@pytest.mark.parametrize("C", [0.5, 50.0])
def test_both_engines_find_the_same_minimum(C):
    X, y = binary(600)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, np.float64)
    large = solve_box_dual(kernel, y, C, intercept=True, tol=1e-6)
    small = solve(X, y, C, 0.5, limits(1e-6))
    assert small.objective[0] == pytest.approx(large.objective, rel=1e-6)
    assert small.intercept[0] == pytest.approx(large.intercept, abs=1e-4)


@pytest.mark.parametrize("kernel", ["laplacian", "poly", "linear"])
def test_blocks_of_any_kernel_and_the_large_engine_agree(kernel):
    X, y = binary(200)
    matrix = KernelMatrix(make_kernel(kernel, X, gamma=0.3, coef0=1.0), X, np.float64)
    large = solve_box_dual(matrix, y, 2.0, intercept=True, tol=1e-6)
    small = solve(X, y, 2.0, 0.3, limits(1e-6), rows=MatrixRows(matrix, np.arange(200)))
    assert small.objective[0] == pytest.approx(large.objective, rel=1e-6)


@pytest.mark.parametrize("memory_mb", [0.0, 100.0])
@pytest.mark.parametrize("d", [5, 120, FEW_FEATURES + 1])
def test_pairs_are_the_binary_problems_with_or_without_kept_values(d, memory_mb):
    rng = np.random.default_rng(0)
    X, sizes = rng.normal(size=(200, d)), [70, 1, 80, 49]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    X[70:] += 0.3
    C, pairs = rng.uniform(1.0, 5.0, 200), [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    gamma = 1.0 / d
    result = solve_pairs(GaussianRows(X, gamma), starts, C, limits(), pairs, memory_mb=memory_mb)
    for p, (a, b) in enumerate(pairs):
        rows = np.r_[starts[a] : starts[a + 1], starts[b] : starts[b + 1]]
        z = np.r_[np.ones(sizes[a]), -np.ones(sizes[b])]
        span_a, span_b = np.s_[starts[a] : starts[a + 1]], np.s_[starts[b] : starts[b + 1]]
        beta = np.r_[result.coef[b - 1, span_a], result.coef[a, span_b]]
        K = rbf_kernel(X[rows], gamma=gamma)
        true = violation(K, z, beta, *box(z, C[rows]))
        assert true <= 1e-3 * (1 + 1e-6)
        assert result.violation[p] == pytest.approx(true, abs=2e-5)


def test_regression_satisfies_its_conditions_far_from_the_origin():
    X, _ = binary(300)
    y = 1e5 + np.sin(X[:, 0]) + 0.1 * X[:, 1]
    C = np.full((1, 300), 10.0)
    result = solve_each(GaussianRows(X, 0.5), y[None], -C, C, limits(1e-4), epsilon=0.05)
    true = violation(rbf_kernel(X, gamma=0.5), y, result.coef[0], -C[0], C[0], 0.05)
    assert true <= 1e-4 * (1 + 1e-6)


def test_calls_in_pieces_and_a_watching_trace_change_no_bit():
    X, y = binary(500)
    whole = solve(X, y, 100.0, 0.5, limits())
    seen = []
    trace = Trace(lambda s, state: seen.append(state))
    watched = solve(X, y, 100.0, 0.5, limits(trace=trace, steps_per_call=7))
    np.testing.assert_array_equal(watched.coef, whole.coef)
    assert seen[-1]["violation"] <= 1e-3
    assert len(seen) > 10


def test_a_warm_start_at_the_solution_takes_no_step():
    X, y = binary()
    first = solve(X, y, 5.0, 0.5, limits())
    again = solve(X, y, 5.0, 0.5, limits(), coef0=first.coef)
    assert again.n_iter[0] == 0
    np.testing.assert_array_equal(again.coef, first.coef)


@pytest.mark.parametrize("limit", [{"max_iter": 5}, {"max_time": 0.0}])
def test_after_a_limit_the_report_is_true(limit):
    X, y = binary()
    result = solve(X, y, 10.0, 0.5, limits(**limit))
    K, beta = rbf_kernel(X, gamma=0.5), result.coef[0]
    true = violation(K, y, beta, *box(y, 10.0))
    assert result.stop_reason == tuple(limit)
    # From float64 kernel values: the stored float32 rows leave about 1e-7.
    assert result.violation[0] == pytest.approx(true, abs=1e-11)


def test_duplicates_with_other_labels_and_weights_of_zero():
    X, y = binary(100)
    X, y = np.vstack([X, X[:50]]), np.concatenate([y, -y[:50]])
    C = np.where(np.arange(150) % 7 == 0, 0.0, 3.0)
    result = solve(X, y, C, 0.5, limits())
    assert np.all(result.coef[0, C == 0.0] == 0.0)
    live = C > 0
    K = rbf_kernel(X[live], gamma=0.5)
    true = violation(K, y[live], result.coef[0, live], *box(y[live], C[live]))
    assert true <= 1e-3 * (1 + 1e-6)


@pytest.mark.parametrize("d", [5, 120])
def test_a_read_only_memory_map_and_float32_rows_are_solved_to_the_tolerance(d, tmp_path):
    X, y = binary(d=d)
    X, gamma = X.astype(np.float32), 1.0 / d
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    in_memory, from_disk = solve(X, y, 5.0, gamma, limits()), solve(mapped, y, 5.0, gamma, limits())
    np.testing.assert_array_equal(from_disk.coef, in_memory.coef)
    K = rbf_kernel(X.astype(np.float64), gamma=gamma)
    true = violation(K, y, in_memory.coef[0], *box(y, 5.0))
    assert true <= 1e-3 * (1 + 1e-6)


def test_pairs_of_a_read_only_memory_map_are_those_of_the_array(tmp_path):
    X, starts = binary(150)[0].astype(np.float32), np.array([0, 50, 100, 150])
    np.save(tmp_path / "X.npy", X)
    mapped, pairs = np.load(tmp_path / "X.npy", mmap_mode="r"), [(0, 1), (0, 2), (1, 2)]
    results = [
        solve_pairs(GaussianRows(rows, 0.5), starts, np.full(150, 2.0), limits(), pairs)
        for rows in (X, mapped)
    ]
    np.testing.assert_array_equal(results[1].coef, results[0].coef)
