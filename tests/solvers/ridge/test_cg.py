"""Conjugate gradients, and the exact kernel ridge solver on top of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from kbench.kernels import KernelMatrix, make_kernel
from kbench.solvers import solve_cg, solve_kernel_ridge


def problem(n, m, seed, condition=1e3):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A = (Q * np.geomspace(1.0, condition, n)) @ Q.T
    return 0.5 * (A + A.T), rng.normal(size=(n, m))


@given(n=st.integers(1, 40), m=st.integers(1, 4), seed=st.integers(0, 1000))
@settings(max_examples=30)
def test_solution_is_the_direct_one(n, m, seed):
    A, B = problem(n, m, seed)
    result = solve_cg(lambda V: A @ V, B, tol=1e-10, max_iter=2000)
    assert result.converged
    assert not result.indefinite
    np.testing.assert_allclose(result.x, np.linalg.solve(A, B), atol=1e-6)
    residual = np.linalg.norm(B - A @ result.x, axis=0) / np.linalg.norm(B, axis=0)
    assert residual.max() < 1e-9


def test_the_inverse_as_preconditioner_takes_one_step():
    A, B = problem(50, 3, 0, 1e8)
    inverse = np.linalg.inv(A)
    result = solve_cg(lambda V: A @ V, B, precondition=lambda R: inverse @ R, tol=1e-6)
    assert result.n_iter == 1
    plain = solve_cg(lambda V: A @ V, B, max_iter=60)
    assert plain.n_iter == 60
    assert not plain.converged


def test_an_indefinite_matrix_is_noticed():
    A = np.diag([1.0, 2.0, -1.0])
    result = solve_cg(lambda V: A @ V, np.ones((3, 1)))
    assert result.indefinite
    assert not result.converged
    assert np.isfinite(result.x).all()


def test_a_target_of_zeros_has_the_solution_zero():
    A, B = problem(20, 2, 0)
    B[:, 1] = 0.0
    result = solve_cg(lambda V: A @ V, B, tol=1e-9)
    assert result.converged
    np.testing.assert_array_equal(result.x[:, 1], 0.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-5])
def test_exact_ridge_to_the_tolerance_in_either_precision(dtype, alpha):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(300, 3)), rng.normal(size=(300, 2))
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.5), X, dtype)
    result = solve_kernel_ridge(kernel, Y, alpha, tol=1e-9, max_iter=200)
    assert result.converged
    K = rbf_kernel(X, gamma=0.5) + alpha * np.eye(300)
    residual = np.linalg.norm(Y - K @ result.x, axis=0) / np.linalg.norm(Y, axis=0)
    assert residual.max() < 1e-7
    if dtype == "float64":
        assert result.n_iter <= 3
