"""Stochastic dual descent beside its pseudocode in NumPy, and beside the direct solution."""

import numpy as np
import pytest
from ridge_problem import KERNELS, iterates, problem

from kbench.solvers.ridge.stochastic_dual import solve_stochastic_dual


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
    options = {"batch_size": 24, "step_size": 1.2, "momentum": momentum, "averaging": 0.2}
    shown, _ = iterates(solve_stochastic_dual, matrix, Y, 0.05, **options, max_iter=20)
    before = reference(K, Y, 0.05, 24, 0.01, 0.2, 19, 3, momentum)
    np.testing.assert_allclose(shown[-2], before, rtol=1e-8, atol=1e-10)
    # The last state is shrunk, as of all solves that did not converge: by one number a target.
    last = reference(K, Y, 0.05, 24, 0.01, 0.2, 20, 3, momentum)
    ratio = (shown[-1] * last).sum(axis=0) / (last**2).sum(axis=0)
    np.testing.assert_allclose(shown[-1], ratio * last, rtol=1e-8, atol=1e-10)


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
