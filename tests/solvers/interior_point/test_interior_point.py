"""The interior-point method: optimality by naive sums, other solvers, and one form by another."""

import numpy as np
import pytest
from dual_problem import box, violation
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from scipy.optimize import linprog
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR, NuSVC

from kbench.solvers.interior_point.active_set import finish
from kbench.solvers.interior_point.counted_work import factorisation, is_low_rank, steps_before
from kbench.solvers.interior_point.duals import rounding, solve_interior
from kbench.solvers.interior_point.factors import (
    factorised_definite,
    factorised_symmetric,
    is_semidefinite,
)
from kbench.solvers.interior_point.predictor_corrector import minimise
from kbench.solvers.interior_point.problem import BoxQP, LowRank, StoredKernel


def rows(n=80, d=4, seed=0, scales=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    z = np.where(X @ rng.normal(size=d) + 0.7 * rng.normal(size=n) > 0.2, 1.0, -1.0)
    return X * (1.0 if scales is None else np.asarray(scales)), z


def primal_minus_dual(K, z, coef, C, epsilon, b):
    """The duality gap of a classifier (epsilon None) or a regression, by both objectives."""
    values = K @ coef
    if epsilon is None:
        loss, linear = np.maximum(0.0, 1.0 - z * (values + b)), z @ coef
    else:
        loss = np.maximum(0.0, np.abs(z - values - b) - epsilon)
        linear = z @ coef - epsilon * np.abs(coef).sum()
    return 0.5 * coef @ values + np.sum(C * loss) - (linear - 0.5 * coef @ values)


def centred(X, coupled):
    return X - X.mean(axis=0) if coupled else X


@pytest.mark.parametrize("coupled", [True, False])
@pytest.mark.parametrize("form", [LowRank, StoredKernel])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("epsilon", [None, 0.0, 0.1])
def test_both_objectives_meet(epsilon, C, form, coupled):
    X, z = rows()
    K = X @ X.T
    if epsilon is not None:
        z = X[:, 0] + 0.1 * np.arange(len(X)) % 3
    lower, upper = box(z, C) if epsilon is None else (np.full(80, -C), np.full(80, C))
    matrix = form(X if form is LowRank else K, centred=coupled)
    result = solve_interior(
        matrix, z, lower, upper, coupled=coupled, tol=1e-6, epsilon=epsilon or 0.0
    )
    assert result.stop_reason == "tol"
    assert result.n_iter < 60
    assert np.all((lower <= result.coef) & (result.coef <= upper))
    assert violation(K, z, result.coef, lower, upper, epsilon or 0.0, coupled=coupled) <= 1e-6
    gap = primal_minus_dual(K, z, result.coef, C, epsilon, result.intercept)
    scale = max(1e-9, abs(result.objective))
    assert abs(gap) <= 1e-8 * scale
    assert abs(gap - result.duality_gap) <= 1e-8 * scale
    assert coupled or result.intercept == 0.0
    assert not coupled or abs(result.coef.sum()) <= 1e-12 * np.abs(result.coef).sum()


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_a_classifier_is_that_of_libsvm(C):
    X, z = rows()
    result = solve_interior(LowRank(X, centred=True), z, *box(z, C), coupled=True, tol=1e-8)
    other = SVC(kernel="linear", C=C, tol=1e-10).fit(X, z)
    assert np.allclose(X.T @ result.coef, other.coef_[0], atol=1e-6)
    assert np.isclose(result.intercept, other.intercept_[0], atol=1e-6)
    at_bound = np.abs(result.coef) == C
    assert np.array_equal(np.flatnonzero(result.coef), np.sort(other.support_))
    assert at_bound.sum() == np.sum(np.abs(other.dual_coef_) == C)


@pytest.mark.parametrize("form", [LowRank, StoredKernel])
def test_a_regression_is_that_of_libsvm(form):
    X, _ = rows()
    y = X[:, 0] + np.sin(3 * X[:, 1])
    matrix = form(X if form is LowRank else X @ X.T, centred=True)
    result = solve_interior(
        matrix, y, np.full(80, -2.0), np.full(80, 2.0), coupled=True, tol=1e-8, epsilon=0.1
    )
    other = SVR(kernel="linear", C=2.0, epsilon=0.1, tol=1e-10).fit(X, y)
    assert np.allclose(X.T @ result.coef, other.coef_[0], atol=1e-6)
    assert np.isclose(result.intercept, other.intercept_[0], atol=1e-6)


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4])
def test_columns_of_any_scale_are_solved(C):
    X, z = rows(scales=[1e-4, 1.0, 50.0, 2e3])
    X += [0.0, 5.0, 300.0, 1e4]
    result = solve_interior(LowRank(X, centred=True), z, *box(z, C), coupled=True, tol=1e-3)
    assert result.stop_reason == "tol"
    assert result.n_iter < 60
    V = centred(X, True)
    assert violation(V @ V.T, z, result.coef, *box(z, C)) <= 1e-3
    assert result.duality_gap <= 1e-6 * abs(result.objective)


def test_whitening_is_exact_for_nearly_dependent_columns():
    X, z = rows(d=3)
    X = np.column_stack([X, X[:, 0] + 1e-7 * X[:, 1], np.ones(80), np.zeros(80), X[:, 2]])
    first = solve_interior(LowRank(X, centred=True), z, *box(z, 1.0), coupled=True, tol=1e-8)
    second = solve_interior(
        StoredKernel(X @ X.T, centred=True), z, *box(z, 1.0), coupled=True, tol=1e-8
    )
    assert first.stop_reason == second.stop_reason == "tol"
    assert np.isclose(first.objective, second.objective, rtol=1e-10)
    assert np.isclose(first.intercept, second.intercept, atol=1e-6)


def test_equal_rows_have_coefficients_in_the_middle_of_all_optima():
    X, z = rows(n=30, d=2)
    twice, both = np.repeat(X, 2, axis=0), np.repeat(z, 2)
    result = solve_interior(
        LowRank(twice, centred=True), both, *box(both, 1.0), coupled=True, tol=1e-8
    )
    once = solve_interior(LowRank(X, centred=True), z, *box(z, 2.0), coupled=True, tol=1e-8)
    assert np.allclose(result.coef[::2] + result.coef[1::2], once.coef, atol=1e-6)
    # Rows that the problem does not tell apart have the same coefficient.
    assert np.allclose(result.coef[::2], result.coef[1::2], atol=1e-6)


def test_a_kernel_without_values_leaves_a_linear_program():
    z = np.where(np.arange(12) < 5, 1.0, -1.0)
    lower, upper = box(z, 3.0)
    result = solve_interior(
        StoredKernel(np.zeros((12, 12))), z, lower, upper, coupled=True, tol=1e-6
    )
    other = linprog(-z, A_eq=np.ones((1, 12)), b_eq=[0.0], bounds=np.column_stack([lower, upper]))
    assert result.stop_reason == "tol"
    assert np.isclose(result.objective, other.fun)


def test_a_second_equality_is_that_of_nu_svc():
    X, z = rows()
    K, nu = rbf_kernel(X, gamma=0.5), 0.4
    problem = BoxQP(
        StoredKernel(K),
        np.zeros(80),
        *box(z, 1.0),
        np.vstack([np.ones(80), z]),
        np.array([0.0, nu * 80]),
        np.ones(1),
    )
    optimum = finish(problem, minimise(problem, 1e-10))
    assert optimum.equality_error <= 1e-10
    assert optimum.violation <= 1e-8
    other = NuSVC(nu=nu, gamma=0.5, tol=1e-10).fit(X, z)
    # LIBSVM divides its solution by the multiplier of the second equality.
    scaled = np.zeros(80)
    scaled[other.support_] = other.dual_coef_[0]
    assert np.allclose(optimum.x / -optimum.b[1], scaled, atol=1e-5)


@given(data=st.data())
@settings(max_examples=60)
def test_what_is_said_to_be_solved_is_solved(data):
    seed = data.draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4, 4, d)
    if data.draw(st.booleans(), label="equal rows"):
        X[rng.integers(0, n, n // 2)] = X[0]
    if data.draw(st.booleans(), label="constant columns"):
        X[:, 0], X[:, -1] = 0.0, 3.0
    C = 10.0 ** data.draw(st.floats(-3, 10), label="log C") * np.ones(n)
    if data.draw(st.booleans(), label="weights"):
        C *= rng.integers(0, 3, n)
    coupled = data.draw(st.booleans(), label="coupled")
    epsilon = data.draw(st.sampled_from([None, 0.0, 0.1]), label="epsilon")
    z = rng.choice([-1.0, 1.0], n) if epsilon is None else rng.normal(size=n)
    lower, upper = box(z, C) if epsilon is None else (-C, C)
    assume((lower < upper).any())
    V = centred(X, coupled)
    form = data.draw(st.sampled_from(["factor", "rbf"]), label="form")
    K = rbf_kernel(X, gamma=1.0 / d) if form == "rbf" else V @ V.T
    matrix = StoredKernel(K, centred=coupled) if form == "rbf" else LowRank(X, centred=coupled)
    result = solve_interior(
        matrix, z, lower, upper, coupled=coupled, tol=1e-3, epsilon=epsilon or 0.0
    )
    assert result.stop_reason in ("tol", "rounding", "failed")
    coef = result.coef
    assert np.all((lower <= coef) & (coef <= upper))
    assert np.all(coef[lower == upper] == 0.0)
    if result.stop_reason == "failed":
        return
    assert not coupled or abs(coef.sum()) <= 1e-9 * np.abs(coef).sum()
    unseen = 4.0 * rounding(matrix.diagonal, coef)
    true = violation(K, z, coef, lower, upper, epsilon or 0.0, coupled=coupled)
    assert true <= (result.violation if result.stop_reason == "rounding" else 1e-3) + unseen


def test_limits_end_it_without_a_claim():
    X, z = rows()
    for options in ({"max_iter": 2}, {"stopped": lambda: True}):
        result = solve_interior(
            LowRank(X, centred=True), z, *box(z, 1.0), coupled=True, tol=1e-6, **options
        )
        assert result.stop_reason == ("max_iter" if "max_iter" in options else "max_time")
        assert result.violation > 1e-6


def test_a_box_without_an_interior_is_not_claimed():
    X, _ = rows()
    one_class = np.ones(80)
    result = solve_interior(
        LowRank(X, centred=True), one_class, *box(one_class, 1.0), coupled=True, tol=1e-3
    )
    assert result.stop_reason == "failed" or not result.coef.any()


def test_semidefinite_matrices_are_told_from_others():
    X, _ = rows(n=40)
    assert is_semidefinite(X @ X.T)
    assert is_semidefinite(np.zeros((3, 3)))
    assert not is_semidefinite(np.tanh(X @ X.T - 1.0))
    assert not is_semidefinite(np.array([[1.0, 0.5], [0.0, 1.0]]))


def test_a_matrix_that_rounding_left_singular_is_solved_with():
    B, right = np.full((3, 3), 1e20), np.full(3, 3e20)
    np.testing.assert_allclose(B @ factorised_definite(B.copy())(right), right, rtol=1e-6)


@pytest.mark.parametrize("number", [np.nan, 0.0])
@pytest.mark.parametrize("factorised", [factorised_definite, factorised_symmetric])
def test_a_matrix_that_cannot_be_solved_with_is_an_error(factorised, number):
    with pytest.raises(LinAlgError, match=r"not finite|not positive definite|singular"):
        factorised(np.diag(np.full(3, number)))


def test_the_choice_is_by_counted_work():
    assert is_low_rank(10_000, 6, 6)
    assert is_low_rank(6000, 100, 100)
    assert not is_low_rank(100, 11, 1000), "more than a tenth of the rows"
    assert not is_low_rank(10_000, 900, 20), "25 n r^2 above n^2 d"
    assert not is_low_rank(10_000, np.inf, 6)
    assert factorisation(300, np.inf) == 300**3 / 3
    assert factorisation(300, 4) == 300 * 4 * 5
    assert steps_before(500, factorisation(500, np.inf)) > steps_before(500, 500 * 30 * 31)
