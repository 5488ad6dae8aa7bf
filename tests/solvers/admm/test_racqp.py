"""RACQP reaches LIBSVM's solution with one block and with several."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from kbench.kernels import KernelMatrix
from kbench.kernels.functions.rbf import RBF
from kbench.solvers import solve_racqp


def problem(n=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


def solve(X, y, C, **options):
    kernel = KernelMatrix(RBF(0.5), X, np.float64)
    options = {"max_iter": 3000, "tol": 1e-9, **options}
    return solve_racqp(kernel, y, np.full(len(y), C), np.random.RandomState(0), **options)


def libsvm(X, y, C):
    model = SVC(C=C, gamma=0.5, tol=1e-9).fit(X, y)
    coef = model.dual_coef_[0]
    K = rbf_kernel(X[model.support_], gamma=0.5)
    return 0.5 * coef @ K @ coef - np.abs(coef).sum(), model.intercept_[0]


def objective(X, y, w, factor=1.0):
    return 0.5 * factor * (y * w) @ rbf_kernel(X, gamma=0.5) @ (y * w) - w.sum()


@pytest.mark.parametrize("mode", ["rac", "rp"])
@pytest.mark.parametrize("n_blocks", [1, 5])
def test_reaches_the_optimum(mode, n_blocks):
    X, y = problem()
    result = solve(X, y, 1.0, mode=mode, n_blocks=n_blocks)
    best, intercept = libsvm(X, y, 1.0)
    assert result.converged
    assert objective(X, y, result.w) == pytest.approx(best, rel=1e-8)
    assert result.multiplier == pytest.approx(intercept, abs=1e-6)
    assert abs(y @ result.x) <= 1e-9
    assert result.w.min() >= 0.0
    assert result.w.max() <= 1.0


def test_one_cyclic_block_is_one_random_block():
    X, y = problem()
    a = solve(X, y, 1.0, mode="cyclic", n_blocks=1, max_iter=50)
    b = solve(X, y, 1.0, mode="rac", n_blocks=1, max_iter=50)
    np.testing.assert_allclose(a.x, b.x, atol=1e-9)


def test_the_authors_scaling_is_twice_the_bound_and_half_the_solution():
    X, y = problem()
    doubled = solve(X, y, 1.0, n_blocks=1, factor=2.0)
    assert objective(X, y, doubled.w, 2.0) == pytest.approx(libsvm(X, y, 2.0)[0] / 2, rel=1e-8)


def test_the_drivers_five_iterations_stop_early():
    X, y = problem()
    result = solve(X, y, 1.0, n_blocks=2, beta=0.2, max_iter=5, tol=0.1)
    assert result.n_iter == 5
    assert not result.converged
    assert result.stop_reason == "max_iter"
    assert result.primal > 0.1
