"""ADMM on exact kernels: LIBSVM's solution in the long run, the paper's early stop in the short."""

import numpy as np
import pytest
from dual_problem import libsvm, product_sign
from sklearn.metrics.pairwise import rbf_kernel

from kbench.solvers import balance, intercepts, solve_admm


@pytest.fixture
def problem():
    X, y = product_sign()
    return rbf_kernel(X, gamma=0.5), y[:, None]


def factoriser(K, calls=None):
    def factorise(beta):
        if calls is not None:
            calls.append(beta)
        inverse = np.linalg.inv(K + beta * np.eye(len(K)))
        return lambda B: inverse @ B

    return factorise


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_long_runs_reach_libsvm(problem, C):
    K, Y = problem
    objective, intercept = libsvm(K, Y[:, 0], C)
    plain = solve_admm(factoriser(K), Y, np.full_like(Y, C), 10.0, max_iter=20000)
    adaptive = solve_admm(factoriser(K), Y, np.full_like(Y, C), 10.0, max_iter=20000, tol=1e-8)
    assert adaptive.converged
    for result in (plain, adaptive):
        coef = Y * result.z
        value = 0.5 * np.sum(coef * (K @ coef)) - result.z.sum()
        assert value == pytest.approx(objective, rel=1e-6)
        assert result.multiplier[0] == pytest.approx(intercept, abs=1e-4)
        b = intercepts(lambda V: K @ V, Y, result.z, np.full_like(Y, C))
        assert b[0] == pytest.approx(intercept, abs=1e-4)


def test_iterates_stay_on_the_hyperplane_and_in_the_box(problem):
    K, Y = problem
    result = solve_admm(factoriser(K), Y, np.full_like(Y, 0.05), 10.0, max_iter=10)
    assert abs(Y[:, 0] @ result.x[:, 0]) < 1e-12 * len(Y)
    assert result.z.min() >= 0.0
    assert result.z.max() <= 0.05
    assert result.n_iter == 10


def test_ten_iterations_do_not_feel_large_bounds(problem):
    """Each moves x by about 1/beta, which is why the paper's tables tie over C."""
    K, Y = problem
    largest = []
    for beta in (1e2, 1e3, 1e4):
        C = np.tile([1.0, 10.0], (len(Y), 1))
        result = solve_admm(factoriser(K), np.tile(Y, 2), C, beta, max_iter=10)
        np.testing.assert_array_equal(result.z[:, 0], result.z[:, 1])
        largest.append(result.z.max())
    assert np.all(np.diff(largest) < 0)
    assert largest[2] == pytest.approx(10 / 1e4, rel=0.2)


def test_problems_together_are_problems_alone(problem):
    K, Y = problem
    both = np.column_stack([Y[:, 0], np.roll(Y[:, 0], 7)])
    C = np.column_stack([np.full(len(Y), 0.1), np.linspace(0.0, 1.0, len(Y))])
    together = solve_admm(factoriser(K), both, C, 50.0, max_iter=30)
    for j in range(2):
        alone = solve_admm(factoriser(K), both[:, [j]], C[:, [j]], 50.0, max_iter=30)
        np.testing.assert_allclose(together.z[:, [j]], alone.z, atol=1e-12)


def test_factorises_once_unless_beta_is_far_off(problem):
    K, Y = problem
    calls = []
    solve_admm(factoriser(K, calls), Y, np.ones_like(Y), 1e2, max_iter=10)
    assert calls == [1e2]
    calls.clear()
    result = solve_admm(factoriser(K, calls), Y, np.ones_like(Y), 1e5, max_iter=5000, tol=1e-6)
    assert result.converged
    assert 2 <= len(calls) <= 1 + result.n_iter // 40


def test_a_beta_that_cannot_be_factorised_is_given_up(problem):
    K, Y = problem

    def factorise(beta):
        if beta < 20.0:
            raise np.linalg.LinAlgError("not positive definite")
        return factoriser(K)(beta)

    result = solve_admm(factorise, Y, np.ones_like(Y), 1e3, max_iter=5000, tol=1e-2)
    assert result.converged
    assert result.beta >= 20.0
    with pytest.raises(np.linalg.LinAlgError):
        solve_admm(factorise, Y, np.ones_like(Y), 10.0)


def test_without_free_variables_the_intercept_is_that_of_least_loss():
    z = np.array([[0.0, 0.5], [1.0, 0.5], [1.0, 1.0]])
    Y = np.array([[1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]])
    b = intercepts(lambda V: np.zeros_like(V), Y, z, np.ones_like(z))
    np.testing.assert_array_equal(b, [-1.0, 0.0])


def test_balance_reaches_the_hyperplane_and_keeps_what_is_at_its_bound():
    rng = np.random.default_rng(0)
    C = np.ones((200, 3))
    Y = np.repeat([[1.0], [-1.0]], 100, axis=0) * np.ones(3)
    z = np.clip(rng.normal(0.5, 0.5, size=C.shape), 0.0, C)
    z[:, 2] = Y[:, 2] > 0  # no free variable
    balanced = balance(Y, z, C)
    np.testing.assert_allclose((Y * balanced).sum(axis=0), 0.0, atol=1e-12)
    assert np.all((balanced >= 0.0) & (balanced <= z))
    assert np.all(balanced[z == 0.0] == 0.0)
    assert np.all(balanced[:, :2][z[:, :2] == 1.0] == 1.0)
    assert np.all(balanced[:, 2] == 0.0)
    np.testing.assert_array_equal(balance(Y, 0.0 * z, C), 0.0 * z)


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_steps_never_grow_on_positive_semidefinite_matrices_and_do_beyond(problem, shift):
    K, Y = problem
    values, vectors = np.linalg.eigh(K)
    indefinite = (vectors * np.where(np.arange(len(K)) % 2, values, -shift)) @ vectors.T
    growths = [
        solve_admm(factoriser(indefinite), Y, np.full_like(Y, 10.0), 4.0, max_iter=m).growth
        for m in range(1, 12)
    ]
    assert growths[0] == 1.0
    if shift == 0.0:
        assert (np.diff(growths) <= 1e-12).all()
    else:
        # Along these eigenvectors by 4 / (4 - 3) each time.
        assert growths[-1] > 2.0**20


def test_growth_is_that_of_the_worst_problem_and_unknown_where_beta_moves(problem):
    K, Y = problem
    C = np.array([[0.01, 10.0]])
    alone = [solve_admm(factoriser(K), Y, np.full_like(Y, c), 4.0, max_iter=5).growth for c in C[0]]
    assert alone[0] != alone[1]
    together = solve_admm(factoriser(K), np.tile(Y, 2), np.tile(C, (200, 1)), 4.0, max_iter=5)
    assert together.growth == pytest.approx(max(alone))
    assert np.isnan(solve_admm(factoriser(K), Y, np.ones_like(Y), 4.0, max_iter=5, tol=1.0).growth)
