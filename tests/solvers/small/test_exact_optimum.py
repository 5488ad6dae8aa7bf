"""Exact optima of small problems: KKT conditions in float64, against the interior-point method."""

import numpy as np
import pytest
from dual_problem import violation
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import StandardScaler

from kbench.methods import KernelSVC, KernelSVR
from kbench.solvers.interior_point.duals import solve_interior
from kbench.solvers.interior_point.problem import StoredKernel
from kbench.solvers.small import GaussianRows, StepLimits, exact_optimum, solve_each
from kbench.solvers.small.face import (
    HIGH,
    LOW,
    N_PART,
    N_SCRATCH,
    NOT_DEFINITE,
    OPTIMAL,
    OUT_OF_BUDGET,
    TARGET,
    B,
    E,
    to_optimum,
)
from kbench.trace import Deadline, Trace

EPS = np.finfo(float).eps
NO_LIMIT = StepLimits(1e-3, -1, Deadline(None, Trace()), Trace())


@pytest.fixture
def at_any_cost(monkeypatch):
    """Ends are computed whatever they cost beside the steps."""
    monkeypatch.setattr(exact_optimum, "_ALLOWED", 1e15)
    monkeypatch.setattr(exact_optimum, "_ALLOWED_FROM_PYTHON", 1e15)


def random_problem(seed, n, rank, epsilon, C, repeated):
    """A semidefinite matrix, targets, bounds and a feasible start."""
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(n, rank))
    V[: n // 3] = V[n // 3 : 2 * (n // 3)] if repeated else V[: n // 3]
    z = rng.normal(size=n) if epsilon else np.where(rng.random(n) < 0.5, 1.0, -1.0)
    lower = np.full(n, -C) if epsilon else np.minimum(0.0, C * z)
    upper = np.full(n, C) if epsilon else np.maximum(0.0, C * z)
    beta = rng.uniform(lower, upper) * (rng.random(n) < 0.7)
    at_bound = rng.random(n) < 0.3
    beta[at_bound] = np.where(z > 0, upper, lower)[at_bound]
    return V @ V.T, z, lower, upper, beta


def run(K, z, lower, upper, beta, epsilon, budget=1e12):
    n = len(z)
    part = np.zeros((N_PART, n))
    part[B], part[TARGET], part[LOW], part[HIGH] = beta, z, lower, upper
    scratch = np.empty((n, n)), np.empty((N_SCRATCH, n)), np.empty(n, np.int64)
    status = to_optimum(K, part, epsilon, 64.0 * EPS, budget, *scratch)
    return status, part[B].copy(), part[E].copy()


def objective(K, z, beta, epsilon):
    return 0.5 * beta @ K @ beta - z @ beta + epsilon * np.abs(beta).sum()


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**20),
    n=st.integers(1, 40),
    rank=st.integers(1, 50),
    epsilon=st.sampled_from([0.0, 0.05, 0.5]),
    C=st.sampled_from([1e-2, 1.0, 1e3]),
    repeated=st.booleans(),
)
def test_the_end_is_an_optimum_of_the_same_sum(seed, n, rank, epsilon, C, repeated):
    K, z, lower, upper, beta = random_problem(seed, n, rank, epsilon, C, repeated)
    status, end, e = run(K, z, lower, upper, beta, epsilon)
    size = K.diagonal().max() * max(1.0, np.abs(beta).sum()) + 1.0
    assert status == OPTIMAL
    assert np.all((lower <= end) & (end <= upper))
    assert abs(end.sum() - beta.sum()) <= 100.0 * EPS * max(1.0, np.abs(beta).sum() + n * C)
    assert np.allclose(e, z - K @ end, rtol=0.0, atol=1e-13 * size * n)
    assert violation(K, z, end, lower, upper, epsilon) <= 1e-10 * size
    before, after = (objective(K, z, x, epsilon) for x in (beta, end))
    assert after <= before + 1e-12 * (abs(before) + size)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**20), budget=st.floats(0.0, 3e4), epsilon=st.sampled_from([0.0, 0.1]))
def test_an_end_that_is_not_reached_is_no_worse(seed, budget, epsilon):
    K, z, lower, upper, beta = random_problem(seed, 30, 20, epsilon, 10.0, False)
    status, end, _ = run(K, z, lower, upper, beta, epsilon, budget)
    assert status in (OPTIMAL, OUT_OF_BUDGET)
    assert np.all((lower <= end) & (end <= upper))
    before, after = (objective(K, z, x, epsilon) for x in (beta, end))
    assert after <= before + 1e-10 * (1.0 + abs(before))


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_end_is_that_of_the_interior_point_method(epsilon):
    K, z, lower, upper, beta = random_problem(3, 60, 25, epsilon, 5.0, False)
    beta -= beta
    _, end, _ = run(K, z, lower, upper, beta, epsilon)
    other = solve_interior(
        StoredKernel(K), z, lower, upper, coupled=True, tol=1e-6, epsilon=epsilon
    )
    assert objective(K, z, end, epsilon) == pytest.approx(other.objective, rel=1e-10)
    # The rank exceeds the number of free points, so that there is one optimum.
    assert np.allclose(end, other.coef, atol=1e-7)


def test_a_matrix_that_is_not_semidefinite_is_left_alone():
    K = -np.eye(6)
    z = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    status, *_ = run(K, z, np.minimum(0, z), np.maximum(0, z), 0.5 * z, 0.0)
    assert status == NOT_DEFINITE


@pytest.mark.parametrize("standardised", [False, True])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("table", [load_iris, load_wine, load_diabetes])
def test_tables_end_at_their_optimum_after_few_steps(table, C, kernel, standardised, at_any_cost):
    if table is load_diabetes and C > 1e2:
        pytest.skip("most of its rows are free: the interior-point method takes over")
    X, y = table(return_X_y=True)
    X = StandardScaler().fit_transform(X) if standardised else X
    keep = y < 2 if table is not load_diabetes else slice(None)
    X, y = X[keep], y[keep]
    model = (KernelSVR if table is load_diabetes else KernelSVC)(kernel=kernel, C=C).fit(X, y)
    assert model.converged_
    assert not model.notes_
    assert np.max(model.n_iter_) <= 8_000  # at C = 1e6 steps alone take 30,000 and more
    beta = np.zeros(len(X))
    beta[model.support_] = np.ravel(model.dual_coef_)
    epsilon = getattr(model, "epsilon", 0.0)
    z = y if table is load_diabetes else np.where(y == 1, 1.0, -1.0)
    lower = np.full(len(z), -C) if epsilon else np.minimum(0.0, C * z)
    upper = np.full(len(z), C) if epsilon else np.maximum(0.0, C * z)
    X = X - X.mean(axis=0) if kernel == "linear" else X  # the sum of beta is 0
    parameters = {"gamma": model._gamma, "degree": 3, "coef0": 0.0}
    K = pairwise_kernels(X, metric=kernel, filter_params=True, **parameters)
    # Sums of coefficients as large as C are rounded by this.
    rounding = 64.0 * EPS * np.abs(beta).sum() * K.diagonal().max()
    assert violation(K, z, beta, lower, upper, epsilon) <= 1e-6 + rounding


@pytest.mark.parametrize("C", [1.0, 1e6])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("table", [load_iris, load_wine, load_breast_cancer])
def test_small_tables_end_at_their_optimum(table, kernel, C):
    X, y = table(return_X_y=True)
    model = KernelSVC(kernel=kernel, C=C).fit(StandardScaler().fit_transform(X), y)
    assert model.violation_ <= 1e-6
    assert model.duality_gap_ <= 1e-6 * abs(model.objective_)


def test_points_that_no_step_has_moved_can_enter(at_any_cost):
    # Equal rows of one class: steps move one of them, the optimum's equations all.
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(30, 3)), 3, axis=0)
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=90) > 0, 1.0, -1.0)
    bounds = np.minimum(0, y)[None], np.maximum(0, y)[None]
    result = solve_each(GaussianRows(X, 0.5), y[None], *bounds, NO_LIMIT)
    K = pairwise_kernels(X, metric="rbf", gamma=0.5)
    beta = result.coef[0]
    assert violation(K, y, beta, bounds[0][0], bounds[1][0], 0.0) <= 1e-12
    assert result.violation[0] <= 1e-12
    assert abs(beta.sum()) <= 1e-13
