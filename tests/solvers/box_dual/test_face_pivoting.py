"""The minimum over the free points of a regression against its optimality conditions."""

import numpy as np
import pytest
from dual_problem import violation
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_regression_dual
from kbench.solvers.box_dual.face_pivoting import face_minimum
from kbench.solvers.box_dual.options import SolverOptions


@given(m=st.integers(2, 120), seed=st.integers(0, 999), far=st.sampled_from([0.01, 0.3]))
@settings(max_examples=60)
def test_the_minimum_satisfies_the_optimality_conditions(m, seed, far):
    rng = np.random.default_rng(seed)
    K = rbf_kernel(rng.normal(size=(m, 3)), gamma=0.3)
    low, high = -rng.uniform(0.1, 1.0, m), rng.uniform(0.1, 1.0, m)
    beta, rate = 0.5 * (low + high), far * rng.normal(size=m)
    new = face_minimum(K.copy(), beta, rate, low, high)
    if new is None:
        return
    assert np.all((low <= new) & (new <= high))
    assert new.sum() == pytest.approx(beta.sum(), abs=1e-10)
    gradient = rate - K @ (new - beta) - 1e-9 * m * (new - beta)
    highest, lowest = gradient[new < high], gradient[new > low]
    assert highest.max(initial=-np.inf) - lowest.min(initial=np.inf) <= 1e-6


def test_ends_that_are_met_are_exact():
    beta, rate = np.full(11, 0.5), np.zeros(11)
    rate[0] = 2.0
    new = face_minimum(np.eye(11), beta, rate, np.zeros(11), np.ones(11))
    assert new[0] == 1.0
    np.testing.assert_allclose(new[1:], 0.45)


def test_equal_points_leave_a_matrix_that_has_an_inverse():
    beta = np.linspace(0.2, 0.8, 6)
    new = face_minimum(np.ones((6, 6)), beta, np.zeros(6), np.zeros(6), np.ones(6))
    np.testing.assert_allclose(new, beta)


def test_a_face_that_is_far_from_the_solution_is_left_to_the_pairs():
    beta, rate = np.full(10, 0.5), np.repeat([9.0, -9.0], 5)
    assert face_minimum(np.eye(10), beta, rate, np.zeros(10), np.ones(10)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_saves_steps_and_leaves_the_solution(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=2000)
    matrix = KernelMatrix(make_kernel("rbf", X, gamma=0.2), X, dtype)
    fast, slow = (
        solve_regression_dual(matrix, y, 100.0, epsilon=0.05, options=SolverOptions(face_newton=on))
        for on in (True, False)
    )
    assert fast.n_iter < 0.7 * slow.n_iter
    assert fast.objective == pytest.approx(slow.objective, rel=1e-5)
    K = rbf_kernel(X, gamma=0.2)
    assert violation(K, y, fast.coef, -100.0, 100.0, 0.05) <= 1e-3 * (1 + 1e-9)
    assert fast.coef.sum() == pytest.approx(0.0, abs=1e-9)
