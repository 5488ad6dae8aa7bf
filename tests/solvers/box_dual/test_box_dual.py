"""The dual's solver against optimality conditions and independent quadratic solvers."""

import time

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from dual_problem import violation
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.svm import SVC

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_box_dual, solve_regression_dual
from kbench.solvers.box_dual.iterate import Budget, Iterate, show
from kbench.solvers.box_dual.options import SolverOptions
from kbench.trace import Trace

# Nested subsets, bounded memory and groups already for small problems.
MANY_LEVELS = SolverOptions(first_subset=64, few_points=100, whole_set=1024)


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


def assert_optimal(Q, y, C, result, tol, rounding=1e-9, p=-1.0):
    """Karush-Kuhn-Tucker at tol, with the gradient recomputed here.

    `rounding` bounds the error of a float64 kernel value of the solver.
    """
    G = Q @ result.alpha + p
    total = result.alpha.sum()
    # Far from the margin gradients may be from float32 values, whose errors are reported.
    error = rounding * (1 + total) + 8.0 * result.gradient_error
    np.testing.assert_allclose(result.gradient, G, atol=error)
    assert np.all((result.alpha >= 0) & (result.alpha <= C))
    at_zero, at_C = result.alpha == 0, result.alpha == C
    g = G + y * result.intercept
    miss = np.maximum(np.where(at_C, 0, -g), np.where(at_zero, 0, g)).max()
    allowed = tol + rounding * total
    if result.intercept:
        # LIBSVM's gap is both directions together.
        allowed = 0.5 * tol + rounding * total
    assert miss <= allowed
    assert result.violation <= tol
    assert result.objective == pytest.approx(
        0.5 * result.alpha @ (G + p), rel=1e-9, abs=rounding * total**2
    )
    gap = result.alpha @ np.maximum(g, 0) + (C - result.alpha) @ np.maximum(-g, 0)
    error = rounding * (1 + total) * (1 + np.sum(C))
    assert result.duality_gap == pytest.approx(gap, rel=1e-6, abs=error)


def assert_balanced(y, result, C):
    assert abs(y @ result.alpha) <= 1e-12 * (1 + np.sum(C))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear"])
def test_equals_an_independent_quadratic_solver(kernel, sparse, dtype):
    X, y = problem(300)
    C = np.random.default_rng(1).uniform(0.1, 3.0, 300)
    reference = matrix(X, np.float64, kernel).block(np.arange(300)) * np.outer(y, y)
    result = solve_box_dual(matrix(sp.csr_array(X) if sparse else X, dtype, kernel), y, C, tol=1e-6)
    assert_optimal(reference, y, C, result, 1e-6)
    assert result.objective == pytest.approx(box_qp(reference, C)[0], rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear"])
def test_with_intercept_equals_libsvm(kernel, dtype):
    X, y = problem(300)
    C = np.random.default_rng(1).uniform(0.1, 3.0, 300)
    K = matrix(X, np.float64, kernel).block(np.arange(300))
    svc = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K, y, sample_weight=C)
    alpha = np.zeros(300)
    alpha[svc.support_] = np.abs(svc.dual_coef_[0])
    result = solve_box_dual(matrix(X, dtype, kernel), y, C, intercept=True, tol=1e-6)
    Q = K * np.outer(y, y)
    assert_optimal(Q, y, C, result, 1e-6)
    assert_balanced(y, result, C)
    assert result.objective == pytest.approx(0.5 * alpha @ Q @ alpha - alpha.sum(), rel=1e-8)
    assert result.intercept == pytest.approx(svc.intercept_[0], abs=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_any_linear_term(intercept):
    # The dual of regression: each point twice, p = epsilon - t y.
    X, _ = problem(60)
    target = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    y = np.repeat([1.0, -1.0], 60)
    p = 0.1 - y * np.tile(target, 2)
    twice = np.vstack([X, X])
    result = solve_box_dual(matrix(twice), y, 2.0, intercept=intercept, linear=p, tol=1e-7)
    Q = signed(twice, y)
    C = np.full(120, 2.0)
    assert_optimal(Q, y, C, result, 1e-7, p=p)
    found = scipy.optimize.minimize(
        lambda a: (0.5 * a @ Q @ a + p @ a, Q @ a + p),
        np.zeros(120),
        jac=True,
        method="SLSQP",
        bounds=[(0, 2.0)] * 120,
        constraints={"type": "eq", "fun": lambda a: y @ a, "jac": lambda a: y} if intercept else (),
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    assert result.objective == pytest.approx(found.fun, rel=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shrinking", [False, True])
@pytest.mark.parametrize(("C", "noise"), [(0.1, 0.3), (10.0, 0.3), (1e6, 0.0)])
def test_problems_larger_than_a_working_set_are_solved(C, noise, shrinking, intercept):
    X, y = problem(1500, d=3, noise=noise)
    result = solve_box_dual(
        matrix(X),
        y,
        C,
        intercept=intercept,
        tol=1e-3,
        shrinking=shrinking,
        cache_mb=1,
        options=MANY_LEVELS,
    )
    assert result.converged
    assert_optimal(signed(X, y), y, np.full(1500, C), result, 1e-3)


@given(
    n=st.integers(1, 60),
    d=st.integers(1, 4),
    log_C=st.floats(-4, 4),
    log_gamma=st.floats(-6, 6),
    repeats=st.integers(1, 3),
    seed=st.integers(0, 10_000),
    intercept=st.booleans(),
)
@settings(max_examples=80)
def test_optimal_on_random_problems(n, d, log_C, log_gamma, repeats, seed, intercept):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(n, d)), repeats, axis=0)
    y = rng.choice([-1.0, 1.0], len(X))
    C = 10**log_C * rng.choice([0.0, 0.5, 1.0], len(X))
    result = solve_box_dual(matrix(X, gamma=10**log_gamma), y, C, intercept=intercept)
    # Exponents are inner products of d + 2 terms, of magnitudes up to 4 gamma ||x - mean||^2.
    spread = ((X - X.mean(axis=0)) ** 2).sum(axis=1).max()
    rounding = 1e-9 + 1.2e-16 * (d + 2) * 4 * 10**log_gamma * spread
    assert_optimal(signed(X, y, 10**log_gamma), y, C, result, 1e-3, rounding)


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


@pytest.mark.parametrize("intercept", [False, True])
def test_warm_start_from_the_solution_stops_at_once(intercept):
    X, y = problem(1000)
    first = solve_box_dual(matrix(X), y, 10.0, intercept=intercept)
    kernel = matrix(X)
    again = solve_box_dual(kernel, y, 10.0, intercept=intercept, alpha0=first.alpha)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.alpha, first.alpha)
    # The price is the columns of the support vectors.
    assert again.kernel_entries == 1000 * np.count_nonzero(first.alpha)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n", [1000, 1500])
def test_a_known_gradient_costs_no_kernel_values(intercept, n):
    X, y = problem(n)
    first = solve_box_dual(matrix(X), y, 10.0, intercept=intercept)
    start = {"alpha0": first.alpha, "gradient_error": first.gradient_error, "intercept": intercept}
    again = solve_box_dual(matrix(X), y, 10.0, gradient0=first.gradient, **start)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.alpha, first.alpha)
    support = np.count_nonzero(first.alpha)
    # In float32, what decides is looked at once more in float64.
    assert again.kernel_entries == (0 if n == 1000 else n * support)
    half = np.where(np.arange(n) % 2, first.gradient, np.nan)
    part = solve_box_dual(matrix(X), y, 10.0, gradient0=half, **start)
    assert part.kernel_entries - again.kernel_entries == n // 2 * support
    assert part.objective == pytest.approx(first.objective, rel=1e-12)


@given(
    seed=st.integers(0, 1000),
    intercept=st.booleans(),
    known=st.floats(0.0, 1.0),
    C=st.floats(0.1, 20.0),
    n=st.sampled_from([50, 1100]),
    grouped=st.booleans(),
    inside=st.booleans(),
)
@settings(max_examples=15)
def test_any_start_with_a_partly_known_gradient_leads_to_the_solution(
    seed, intercept, known, C, n, grouped, inside
):
    X, y = problem(n, seed=seed)
    X[: n // 2] += 100.0 * grouped
    X[::7] = X[0]
    y[::7] = y[0]
    rng = np.random.default_rng(seed)
    most = C if inside else 10.0
    alpha = rng.uniform(0.0, most, n) * rng.integers(0, 2, n)
    gradient = signed(X, y) @ alpha - 1.0
    gradient[rng.random(n) > known] = np.nan
    options = {
        "intercept": intercept,
        "alpha0": alpha,
        "tol": 1e-5,
        "options": SolverOptions(few_points=40),
    }
    result = solve_box_dual(matrix(X), y, C, gradient0=gradient, **options)
    without = solve_box_dual(matrix(X), y, C, **options)
    assert result.converged
    assert result.objective == pytest.approx(without.objective, rel=1e-6)
    assert_optimal(signed(X, y), y, np.full(n, C), result, 1e-5, rounding=1e-6)
    if intercept:  # the sum is that of the start
        least, most = -C * np.sum(y < 0), C * np.sum(y > 0)
        total = np.clip(y @ alpha, least, most)
        assert y @ result.alpha == pytest.approx(total, abs=1e-9 * n * C)


def test_an_error_of_the_known_gradient_is_corrected():
    X, y = problem(1500)
    first = solve_box_dual(matrix(X), y, 10.0)
    wrong = first.gradient + 0.05 * np.random.default_rng(0).uniform(-1, 1, 1500)
    result = solve_box_dual(
        matrix(X), y, 10.0, alpha0=first.alpha, gradient0=wrong, gradient_error=0.05
    )
    assert_optimal(signed(X, y), y, np.full(1500, 10.0), result, 1e-3, rounding=1e-6)


@pytest.mark.parametrize(
    ("limits", "reason"), [({"max_iter": 100}, "max_iter"), ({"max_time": 0.0}, "max_time")]
)
def test_after_a_limit_the_result_describes_its_alpha(limits, reason):
    X, y = problem(1200)
    result = solve_box_dual(matrix(X), y, 10.0, **limits)
    assert not result.converged
    assert result.stop_reason == reason
    assert result.n_iter <= 100
    np.testing.assert_allclose(result.gradient, signed(X, y) @ result.alpha - 1, atol=1e-9)


def test_reported_objectives_fall_and_the_last_is_the_result():
    X, y = problem(1500)
    states = []
    result = solve_box_dual(
        matrix(X, np.float64),
        y,
        10.0,
        trace=Trace(lambda seconds, state: states.append(state)),
        options=SolverOptions(whole_set=1024),
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


def test_kernel_entries_are_counted_by_the_matrix():
    X, y = problem(1500)
    kernel = matrix(X)
    kernel.block(np.arange(2))
    result = solve_box_dual(kernel, y, 1.0)
    assert result.kernel_entries == kernel.n_entries - 2 * 1500


def test_a_smaller_cache_gives_the_same_solution_for_more_entries():
    X, y = problem(2500, noise=1.0)
    # The same distances in 500 features, where kernel values are expensive enough to store.
    X = X @ np.linalg.qr(np.random.default_rng(0).normal(size=(500, X.shape[1])))[0].T
    small = solve_box_dual(matrix(X), y, 10.0, cache_mb=0.5)
    large = solve_box_dual(matrix(X), y, 10.0, cache_mb=200)
    assert small.kernel_entries > large.kernel_entries
    assert small.objective == pytest.approx(large.objective, rel=1e-5)


def test_nested_subsets_compute_less_than_the_matrix():
    X, y = problem(20000, noise=0.05)
    result = solve_box_dual(matrix(X), y, 1.0)
    assert result.converged
    n_support = np.count_nonzero(result.alpha)
    assert result.kernel_entries < 4 * 20000 * n_support


def test_a_wide_kernel_with_a_large_bound_converges():
    X, y = problem(700, 2, seed=5)[:2]
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.02), X)
    result = solve_box_dual(kernel, y, 1000.0)
    assert result.stop_reason == "tol"
    K = kernel.astype(np.float64).block(np.arange(700))
    gradient = y * (K @ (y * result.alpha)) - 1.0
    up, down = result.alpha < 1000.0, result.alpha > 0.0
    assert max(-gradient[up].min(), gradient[down].max()) <= 1e-3


def test_preparing_a_report_does_not_count_as_time_of_the_fit():
    X, y = problem(20)
    shown = []
    trace = Trace(lambda seconds, state: shown.append((seconds, state["alpha"])))
    budget = Budget(trace=trace)
    lower, upper = np.minimum(y, 0.0), np.maximum(y, 0.0)
    iterate = Iterate(matrix(X), y, lower, upper, coupled=True, budget=budget)

    def expand(beta):
        time.sleep(0.05)
        return np.tile(beta, 2)

    show(iterate, 0.5, 20, expand=expand)
    ((seconds, alpha),) = shown
    assert alpha.shape == (40,)
    assert trace.paused_wall_s >= 0.05
    assert seconds < 0.05


def regression(n=500, d=3):
    """Two distant clusters, a tenth of the rows twice, targets and bounds of different sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    X[: n // 3] += 40.0
    X[-n // 10 :] = X[: n // 10]
    targets = np.sin(2.0 * X[:, 0]) + 0.2 * rng.normal(size=n)
    targets[-n // 20 :] = targets[n // 10 - n // 20 : n // 10]
    return X, targets, rng.uniform(0.5, 3.0, n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "options",
    [SolverOptions(), SolverOptions(few_points=100, first_subset=32, smallest_group=32)],
    ids=["whole", "subsets"],
)
def test_regression_is_the_dual_with_every_point_twice(dtype, intercept, options):
    X, targets, C = regression()
    n, tol = len(X), 1e-4
    result = solve_regression_dual(
        matrix(X, dtype), targets, C, epsilon=0.1, intercept=intercept, tol=tol, options=options
    )
    twice = solve_box_dual(
        matrix(np.vstack([X, X]), np.float64),
        np.repeat([1.0, -1.0], n),
        np.tile(C, 2),
        linear=0.1 - np.concatenate([targets, -targets]),
        intercept=intercept,
        tol=1e-7,
    )
    b, K = result.coef, matrix(X, np.float64).block(np.arange(n))
    objective = 0.5 * b @ K @ b - targets @ b + 0.1 * np.abs(b).sum()
    assert result.objective == pytest.approx(objective, rel=1e-6)
    assert objective == pytest.approx(twice.objective, abs=tol * np.abs(b).sum())
    assert result.converged
    assert np.all(np.abs(b) <= C)
    e = targets - K @ b
    assert violation(K, targets, b, -C, C, 0.1, coupled=intercept) <= tol * (1 + 1e-6)
    assert b.sum() == pytest.approx(0.0, abs=1e-10) or not intercept
    primal = 0.5 * b @ K @ b + C @ np.maximum(0.0, np.abs(e - result.intercept) - 0.1)
    assert result.duality_gap == pytest.approx(primal + objective, rel=1e-4)
    # With an intercept they are groups only if at most half of the pairs of points lie within them.
    assert (result.n_groups > 1) == (options.few_points < n and not intercept)
