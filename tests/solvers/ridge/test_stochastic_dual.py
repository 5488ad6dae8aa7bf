"""Stochastic dual descent beside its pseudocode in NumPy, and beside the direct solution."""

import numpy as np
import pytest
from ridge_problem import KERNELS, problem

from kbench.solvers.ridge.stochastic_dual import solve_stochastic_dual
from kbench.trace import Trace


def reference(K, Y, lam, b, beta, r, steps, seed, rho=0.9):
    """Algorithm 1 of the paper with dense matrices."""
    rng, n = np.random.RandomState(seed), len(K)
    a, v, average = np.zeros(Y.shape), np.zeros(Y.shape), np.zeros(Y.shape)
    for _ in range(steps):
        chosen = np.zeros((n, 1))
        chosen[rng.choice(n, b, replace=False)] = 1.0
        ahead = a + rho * v
        g = (n / b) * chosen * (K @ ahead + lam * ahead - Y)
        v = rho * v - beta * g
        a = a + v
        average = r * a + (1.0 - r) * average
    return average


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_iterates_are_those_of_the_pseudocode(kernel, momentum):
    matrix, Y = problem(kernel)
    K = matrix.block(np.arange(len(Y)))
    shown = []
    solve_stochastic_dual(
        matrix,
        Y,
        0.05,
        batch_size=24,
        step_size=1.2,
        momentum=momentum,
        averaging=0.2,
        tol=1e-12,
        max_iter=20,
        rng=np.random.RandomState(3),
        trace=Trace(lambda _, state: shown.append(state["predict"])),
        predictor=lambda x: x.copy(),
    )
    before = reference(K, Y, 0.05, 24, 0.01, 0.2, 19, 3, momentum)
    np.testing.assert_allclose(shown[-2], before, rtol=1e-8, atol=1e-10)
    # The last state is shrunk, as of all solves that did not converge: by one number a target.
    last = reference(K, Y, 0.05, 24, 0.01, 0.2, 20, 3, momentum)
    ratio = (shown[-1] * last).sum(axis=0) / (last**2).sum(axis=0)
    np.testing.assert_allclose(shown[-1], ratio * last, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [30, 120])
def test_the_solution_is_the_direct_one(kernel, dtype, batch_size):
    matrix, Y = problem(kernel, dtype=dtype)
    result = solve_stochastic_dual(
        matrix, Y, 0.5, batch_size=batch_size, tol=1e-6, rng=np.random.RandomState(0), max_iter=4000
    )
    assert result.converged
    K = matrix.astype(np.float64).block(np.arange(len(Y))) + 0.5 * np.eye(len(Y))
    residual = np.linalg.norm(Y - K @ result.x, axis=0) / np.linalg.norm(Y, axis=0)
    assert residual.max() <= 1e-6
    np.testing.assert_allclose(result.x, np.linalg.solve(K, Y), atol=5e-5)


@pytest.mark.parametrize("gamma", [1e-3, 0.3, 30.0])
@pytest.mark.parametrize("batch_size", [8, 40, 150])
def test_the_automatic_step_is_stable_and_close_to_the_largest(gamma, batch_size):
    matrix, Y = problem(n=150, m=1, gamma=gamma)
    options = {"batch_size": batch_size, "max_iter": 300, "tol": 1e-9}
    rng = np.random.RandomState(0)
    chosen = solve_stochastic_dual(matrix, Y, 0.1, **options, rng=rng).chosen["step_size"]
    for factor, kept in ((1.0, True), (64.0, False)):
        rng = np.random.RandomState(0)
        result = solve_stochastic_dual(
            matrix, Y, 0.1, step_size=factor * chosen, **options, rng=rng
        )
        assert (result.chosen["step_size"] == factor * chosen) == kept
        assert result.residual.max() <= 1.0
