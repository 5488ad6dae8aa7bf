"""The dual with the parameter nu: feasibility, KKT conditions and bounds, recomputed by NumPy."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from dual_problem import matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.kernels import KernelMatrix, make_kernel
from kbench.kernels.functions.precomputed import Precomputed
from kbench.solvers import solve_regression_dual
from kbench.solvers.nu_dual import nu_descent as nu_dual
from kbench.solvers.nu_dual.nu_descent import solve_nu_dual
from kbench.solvers.nu_dual.pairs import solve_nu_pairs
from kbench.solvers.nu_dual.side_steps import side_steps
from kbench.trace import Deadline, Trace

NUMBERS = ("objective", "intercept", "epsilon", "duality_gap", "violation")


def problem(n, kind, seed=0, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    weight = rng.integers(1, 4, n) / 2.0
    target = np.sin(X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    if kind == "regression":
        return X, target, -weight, weight
    first = target > np.median(target)
    return X, np.zeros(n), np.where(first, 0.0, -weight), np.where(first, weight, 0.0)


def require_optimal(K, z, lower, upper, norm, result, tol):
    """KKT conditions of the problem with the result's multipliers, and its own figures."""
    b = result.coef
    assert (b >= lower).all()
    assert (b <= upper).all()
    assert abs(b.sum()) <= 1e-9 * norm
    e = z - K @ b
    s, epsilon = e - result.intercept, result.epsilon
    # Where b can grow the slope must not exceed epsilon sign(b), where it can fall not be below it.
    up = s - np.where(b >= 0.0, epsilon, -epsilon)
    down = s - np.where(b > 0.0, epsilon, -epsilon)
    assert up[b < upper].max(initial=-np.inf) <= 1.01 * tol
    assert down[b > lower].min(initial=np.inf) >= -1.01 * tol
    size = np.abs(b).sum()
    if (lower < 0.0).any() and ((lower < 0.0) & (upper > 0.0)).any():
        assert size <= norm * (1.0 + 1e-9)
        assert epsilon >= 0.0
        assert epsilon * (norm - size) <= 1e-6 * norm + tol
    else:
        assert size == pytest.approx(norm, rel=1e-9)
        assert b[upper > 0.0].sum() == pytest.approx(norm / 2.0, rel=1e-9)
    objective = 0.5 * b @ K @ b - z @ b
    assert result.objective == pytest.approx(objective, rel=1e-8, abs=1e-10)
    # The primal objective at the multipliers is above the dual one by the gap.
    loss = np.maximum(0.0, np.maximum(upper * (s - epsilon), lower * (s + epsilon))).sum()
    primal = 0.5 * b @ K @ b + loss + epsilon * norm
    assert primal + objective == pytest.approx(result.duality_gap, rel=1e-6, abs=1e-8)
    assert result.duality_gap >= -1e-9


@given(
    n=st.integers(4, 60),
    nu=st.floats(0.02, 0.95),
    kind=st.sampled_from(["classes", "regression"]),
    seed=st.integers(0, 10_000),
)
@settings(max_examples=40)
def test_kkt_conditions_hold_and_multipliers_belong_to_the_solution(n, nu, kind, seed):
    X, z, lower, upper = problem(n, kind, seed)
    norm = 2.0 * nu * min(upper.sum(), -lower.sum()) if kind == "classes" else nu * upper.sum()
    kernel = matrix(X)
    result = solve_nu_dual(kernel, z, lower, upper, norm, tol=1e-6)
    assert result.stop_reason in ("tol", "margin")
    require_optimal(kernel.block(np.arange(n)), z, lower, upper, norm, result, 1e-6)


@pytest.mark.parametrize("nu", [0.05, 0.5, 0.98])
@pytest.mark.parametrize("kind", ["classes", "regression"])
@pytest.mark.parametrize(("scale", "C"), [(1.0, 1e6), (1e3, 10.0), (1e3, 1e6)])
def test_large_bounds_and_values_take_bounded_steps(kind, scale, C, nu):
    """Steps of two coefficients alone would take billions; LIBSVM does not end either. Rounding,
    another on each processor, decides between 5 and 11 million at the largest."""
    X, z, lower, upper = problem(40, kind)
    X *= np.array([1.0, scale, 1.0])
    if kind == "regression":
        lower, upper = C * lower, C * upper
    norm = 2.0 * nu * min(upper.sum(), -lower.sum())
    kernel = KernelMatrix(make_kernel("linear", X), X, np.float64)
    result = solve_nu_dual(kernel, z, lower, upper, norm, tol=1e-3)
    assert result.n_iter < 1e8
    assert np.abs(result.coef).sum() <= norm * (1.0 + 1e-9)
    assert abs(result.coef.sum()) <= 1e-9 * norm
    if result.stop_reason == "precision":
        assert result.violation <= 1e-13 * norm * (X**2).sum(axis=1).max()
    else:
        assert result.violation <= 1e-3


@pytest.mark.parametrize("kind", ["classes", "regression"])
@pytest.mark.parametrize("cache_mb", [0.0, 1.0, 1000.0])
def test_working_sets_subsets_and_float32_reach_the_solution_of_one_set(
    kind, cache_mb, monkeypatch
):
    n = 500
    X, z, lower, upper = problem(n, kind)
    norm = 0.3 * upper.sum()
    whole = solve_nu_dual(matrix(X), z, lower, upper, norm, tol=1e-7)
    monkeypatch.setattr(nu_dual, "_WORKING_SET", 32)
    monkeypatch.setattr(nu_dual, "FLOAT64_POINTS", 16)
    kernel = matrix(X, np.float32)
    small = solve_nu_dual(kernel, z, lower, upper, norm, tol=1e-4, cache_mb=cache_mb)
    assert small.stop_reason == "tol"
    assert small.violation <= 1e-4
    require_optimal(matrix(X).block(np.arange(n)), z, lower, upper, norm, small, 1e-4)
    assert -1e-9 <= small.objective - whole.objective <= small.duality_gap
    assert small.epsilon == pytest.approx(whole.epsilon, abs=2e-4)


@pytest.mark.parametrize("kind", ["classes", "regression"])
def test_residuals_that_cannot_matter_are_not_summed_afresh(kind, monkeypatch):
    monkeypatch.setattr(nu_dual, "FLOAT64_POINTS", 16)
    X, z, lower, upper = problem(500, kind)
    n_values, fields = [], []
    for error in (nu_dual._SUM_UNITS, np.inf):
        monkeypatch.setattr(nu_dual, "_SUM_UNITS", error)
        kernel = matrix(X, np.float32)
        result = solve_nu_dual(kernel, z, lower, upper, 0.2 * upper.sum())
        n_values.append(kernel.n_entries)
        fields.append(np.array([getattr(result, name) for name in NUMBERS]))
    assert n_values[0] < n_values[1] - 100 * np.count_nonzero(result.coef)
    np.testing.assert_allclose(*fields, rtol=1e-12)


def test_a_regression_whose_norm_is_not_reached_has_no_tube():
    X, z, lower, upper = problem(80, "regression")
    kernel = matrix(X)
    result = solve_nu_dual(kernel, z, lower, upper, upper.sum(), tol=1e-8)
    assert result.epsilon == 0.0
    assert np.abs(result.coef).sum() < upper.sum()
    plain = solve_regression_dual(kernel, z, upper, epsilon=0.0, tol=1e-8)
    assert result.objective == pytest.approx(plain.objective, rel=1e-10)


def test_the_tube_of_nu_is_the_epsilon_of_the_same_regression():
    X, z, lower, upper = problem(200, "regression")
    kernel = matrix(X)
    result = solve_nu_dual(kernel, z, lower, upper, 0.4 * upper.sum(), tol=1e-8)
    plain = solve_regression_dual(kernel, z, upper, epsilon=result.epsilon, tol=1e-8)
    np.testing.assert_allclose(plain.coef, result.coef, atol=1e-5)


def test_a_class_that_is_used_up_and_one_coefficient_each_are_feasible():
    X, z, lower, upper = problem(40, "classes")
    largest = 2.0 * min(upper.sum(), -lower.sum())
    kernel = matrix(X)
    result = solve_nu_dual(kernel, z, lower, upper, largest, tol=1e-6)
    require_optimal(kernel.block(np.arange(40)), z, lower, upper, largest, result, 1e-6)


@pytest.mark.parametrize("limit", [{"max_iter": 3}, {"max_time": 0.0}])
@pytest.mark.parametrize("kind", ["classes", "regression"])
def test_a_limit_leaves_a_feasible_point_and_says_so(kind, limit):
    X, z, lower, upper = problem(300, kind)
    norm = 0.3 * upper.sum()
    result = solve_nu_dual(matrix(X), z, lower, upper, norm, **limit)
    assert result.stop_reason == next(iter(limit))
    assert result.n_iter <= limit.get("max_iter", 0)
    assert (result.coef >= lower).all()
    assert (result.coef <= upper).all()
    assert np.abs(result.coef).sum() <= norm * (1.0 + 1e-9)
    assert result.duality_gap > 0.0


@pytest.mark.parametrize("part", [0.1, 0.9, 1.0, 1.5])
def test_points_that_both_classes_have_leave_no_margin(part):
    """A matrix of kernel values, whose points are unknown, decides by more steps."""
    X, z, lower, upper = problem(300, "classes")
    first, second = np.flatnonzero(upper), np.flatnonzero(lower)
    X[first[:60]] = X[second[:60]]
    shared = 2.0 * np.minimum(upper[first[:60]], -lower[second[:60]]).sum()
    known = solve_nu_dual(matrix(X), z, lower, upper, part * shared)
    values = KernelMatrix(Precomputed(), matrix(X).block(np.arange(300)), np.float64)
    unknown = solve_nu_dual(values, z, lower, upper, part * shared)
    expected = "margin" if part <= 1.0 else "tol"
    assert known.stop_reason == unknown.stop_reason == expected
    # Steps of a matrix differ in rounding.
    assert (known.n_iter < 0.8 * unknown.n_iter) == (part <= 1.0)
    assert known.violation <= 1e-3


def test_a_trace_sees_the_violation_fall():
    X, z, lower, upper = problem(100, "classes")
    seen = []
    trace = Trace(lambda _, state: seen.append((state["objective"], state["violation"])))
    solve_nu_dual(matrix(X), z, lower, upper, 20.0, trace=trace)
    assert seen[-1][0] < seen[0][0]
    assert seen[-1][1] <= 1e-3


@pytest.mark.parametrize("cache_mb", [1000.0, 0.0])
@pytest.mark.parametrize("limit", ["tol", "max_iter", "max_time", "trace", "interior", "margin"])
@pytest.mark.parametrize("k", [2, 4])
def test_pairs_are_the_problems_of_their_classes(k, limit, cache_mb, monkeypatch):
    """Whether the compiled loop solves them or leaves them to `solve_nu_dual`."""
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, 40 * k)])
    X = rng.normal(size=(len(labels), 3)) + rng.normal(size=(k, 3))[labels]
    X[labels < 2] *= limit != "margin"
    bounds = rng.integers(1, 4, len(labels)) / 2.0
    pairs = np.array([(1, 0)] if k == 2 else list(itertools.combinations(range(k), 2)))
    norms = 0.6 * np.array([bounds[labels == c].sum() for c in range(k)])[pairs].min(axis=1)
    options = {"tol": 1e-8, "cache_mb": cache_mb, "max_iter": 7 if limit == "max_iter" else -1}
    if limit == "interior":
        monkeypatch.setattr(nu_dual, "steps_before", lambda *_: 5)
    max_time = 0.0 if limit == "max_time" else None
    trace = Trace((lambda *_: None) if limit == "trace" else None)
    deadline, kernel = Deadline(max_time, trace), matrix(X)
    result = solve_nu_pairs(
        kernel, labels, bounds, norms, pairs, deadline=deadline, trace=trace, **options
    )
    for p, (a, b) in enumerate(pairs):
        rows = np.concatenate([np.flatnonzero(labels == c) for c in (a, b)])
        first = labels[rows] == a
        lower, upper = np.where(first, 0.0, -bounds[rows]), np.where(first, bounds[rows], 0.0)
        part, z = kernel.take(rows), np.zeros(len(rows))
        alone = solve_nu_dual(part, z, lower, upper, norms[p], max_time=max_time, **options)
        assert result.stop_reason[p] == alone.stop_reason
        for name in NUMBERS:
            assert getattr(result, name)[p] == pytest.approx(getattr(alone, name), abs=1e-6)
        coef = np.where(first, result.coef[b - (b > a), rows], result.coef[a - (a > b), rows])
        assert 0.5 * coef @ part.block(np.arange(len(rows))) @ coef == pytest.approx(
            alone.objective, rel=1e-9, abs=1e-12
        )
        if limit == "tol":
            K = part.block(np.arange(len(rows)))
            found = replace(alone, coef=coef, objective=result.objective[p])
            require_optimal(K, z, lower, upper, norms[p], found, 1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("slack", [-1.0, 0.0, 2.0])
def test_steps_keep_sums_and_spend_slack_only(dtype, slack):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 30))
    K = (A @ A.T / 30 + np.eye(30)).astype(dtype)
    z, upper = rng.normal(size=30), np.full(30, 0.5)
    lower = -upper if slack >= 0.0 else np.where(np.arange(30) < 15, 0.0, -0.5)
    upper = upper if slack >= 0.0 else np.where(np.arange(30) < 15, 0.5, 0.0)
    beta = np.where(np.arange(30) % 15 < 4, np.where(np.arange(30) < 15, 0.2, -0.2), 0.0)
    before, e = beta.copy(), z - K.astype(float) @ beta
    steps, left = side_steps(
        K, beta, e, lower, upper, K.diagonal().astype(float), slack, 1e-4, 10_000
    )
    assert 0 < steps < 10_000
    assert beta.sum() == pytest.approx(before.sum(), abs=1e-12)
    grown = np.abs(beta).sum() - np.abs(before).sum()
    assert grown == pytest.approx(slack - left if slack >= 0.0 else 0.0, abs=1e-12)
    assert left >= 0.0 or slack < 0.0
    np.testing.assert_allclose(e, z - K.astype(float) @ beta, atol=1e-5)
