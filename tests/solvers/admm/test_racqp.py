"""RACQP reaches LIBSVM's solution with one block and with several."""

import numpy as np
import pytest
from dual_problem import libsvm, matrix, product_sign
from sklearn.metrics.pairwise import rbf_kernel

from kbench.solvers import solve_racqp

X, Y = product_sign()
K = rbf_kernel(X, gamma=0.5)


def solve(**options):
    options = {"max_iter": 3000, "tol": 1e-9, **options}
    return solve_racqp(matrix(X), Y, np.ones(200), np.random.RandomState(0), **options)


def objective(w, factor=1.0):
    return 0.5 * factor * (Y * w) @ K @ (Y * w) - w.sum()


@pytest.mark.parametrize("mode", ["rac", "rp"])
@pytest.mark.parametrize("n_blocks", [1, 5])
def test_reaches_the_optimum(mode, n_blocks):
    result = solve(mode=mode, n_blocks=n_blocks)
    best, intercept = libsvm(K, Y, 1.0)
    assert result.converged
    assert objective(result.w) == pytest.approx(best, rel=1e-8)
    assert result.multiplier == pytest.approx(intercept, abs=1e-6)
    assert abs(Y @ result.x) <= 1e-9
    assert result.w.min() >= 0.0
    assert result.w.max() <= 1.0


def test_one_cyclic_block_is_one_random_block():
    a, b = (solve(mode=mode, n_blocks=1, max_iter=50) for mode in ("cyclic", "rac"))
    np.testing.assert_allclose(a.x, b.x, atol=1e-9)


def test_the_authors_scaling_is_twice_the_bound_and_half_the_solution():
    doubled = solve(n_blocks=1, factor=2.0)
    assert objective(doubled.w, 2.0) == pytest.approx(libsvm(K, Y, 2.0)[0] / 2, rel=1e-8)


def test_the_drivers_five_iterations_stop_early():
    result = solve(n_blocks=2, beta=0.2, max_iter=5, tol=0.1)
    assert result.n_iter == 5
    assert not result.converged
    assert result.stop_reason == "max_iter"
    assert result.primal > 0.1
