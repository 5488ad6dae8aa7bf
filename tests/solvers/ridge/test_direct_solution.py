"""Iterative solvers of kernel ridge beside the direct solution."""

import numpy as np
import pytest
from ridge_problem import KERNELS, problem

from kbench.solvers.ridge.askotch import solve_askotch
from kbench.solvers.ridge.eigenpro import solve_eigenpro
from kbench.solvers.ridge.stochastic_dual import solve_stochastic_dual


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("solve", "options"),
    [
        (solve_askotch, {"block_size": 40, "rank": 20}),
        (solve_askotch, {"block_size": 40, "rank": 20, "accelerated": False}),
        (solve_eigenpro, {"batch_size": 30, "subsample_size": 120}),
        (solve_eigenpro, {"batch_size": 120, "subsample_size": 120}),
        (solve_stochastic_dual, {"batch_size": 30}),
        (solve_stochastic_dual, {"batch_size": 120}),
    ],
)
def test_the_solution_is_the_direct_one(kernel, dtype, solve, options):
    matrix, Y = problem(kernel, dtype=dtype)
    rng = np.random.RandomState(0)
    result = solve(matrix, Y, 0.5, **options, tol=1e-6, max_iter=4000, rng=rng)
    assert (result.converged, result.stop_reason) == (True, "tol")
    K = matrix.astype(np.float64).block(np.arange(len(Y))) + 0.5 * np.eye(len(Y))
    residual = np.linalg.norm(Y - K @ result.x, axis=0) / np.linalg.norm(Y, axis=0)
    assert residual.max() <= 1e-6
    np.testing.assert_allclose(result.residual, residual, rtol=1e-5)
    np.testing.assert_allclose(result.x, np.linalg.solve(K, Y), atol=5e-5)
