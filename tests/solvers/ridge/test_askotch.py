"""ASkotch beside its pseudocode in NumPy, and its solutions beside the direct one."""

import numpy as np
import pytest
from counted_clock import CountedClock
from ridge_problem import KERNELS, iterates, problem

from kbench.solvers.ridge.askotch import block_inverse, solve_askotch
from kbench.trace import Deadline


def reference(K, Y, lam, b, r, steps, seed, accelerated=True, damped=True):
    """The algorithm of the paper with dense matrices and explicit inverses."""
    rng, n = np.random.RandomState(seed), len(K)
    nu = n / b
    mu = min(lam, 1.0 / nu)
    beta, gamma = 1.0 - np.sqrt(mu / nu), 1.0 / np.sqrt(mu * nu)
    alpha = 1.0 / (1.0 + gamma * nu)
    w, v, z = (np.zeros(Y.shape) for _ in range(3))
    for _ in range(steps):
        block = np.sort(rng.choice(n, b, replace=False))
        I_B = np.eye(n)[:, block]
        K_BB = I_B.T @ K @ I_B
        Q = np.linalg.qr(rng.normal(size=(b, r)))[0]
        s = np.finfo(np.float64).eps * np.trace(K_BB)
        sketch = K_BB @ Q + s * Q
        nystrom = sketch @ np.linalg.solve(Q.T @ sketch, sketch.T)
        spectrum = np.linalg.eigvalsh(0.5 * (nystrom + nystrom.T))
        rho = lam + (spectrum[-r] - s if damped else 0.0)
        inverse = np.linalg.inv(nystrom + rho * np.eye(b))
        H = K_BB + lam * np.eye(b)
        q = rng.normal(size=b)
        for _ in range(10):
            L = (H @ q) @ inverse @ (H @ q) / (q @ H @ q)
            q = inverse @ H @ q
            q /= np.linalg.norm(q)
        d = inverse @ (I_B.T @ (K @ z + lam * z - Y)) / L
        w = z - I_B @ d
        if not accelerated:
            z = w
            continue
        v = beta * v + (1.0 - beta) * z - gamma * (I_B @ d)
        z = alpha * v + (1.0 - alpha) * w
    return w


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("options", [{}, {"accelerated": False}, {"damped": False}], ids=str)
def test_iterates_are_those_of_the_pseudocode(kernel, options):
    matrix, Y = problem(kernel)
    K = matrix.block(np.arange(len(Y)))
    expected = reference(K, Y, 0.05, 24, 8, 15, 3, **options)
    chosen = {"block_size": 24, "rank": 8, "max_iter": 15, **options}
    ours, _ = iterates(solve_askotch, matrix, Y, 0.05, **chosen)
    # The last state is shrunk, as of all solves that did not converge; the ratio is one number.
    ratio = (ours[-1] * expected).sum(axis=0) / (expected**2).sum(axis=0)
    np.testing.assert_allclose(ours[-1], ratio * expected, rtol=1e-8, atol=1e-10)
    before = reference(K, Y, 0.05, 24, 8, 14, 3, **options)
    np.testing.assert_allclose(ours[-2], before, rtol=1e-8, atol=1e-10)


def test_acceleration_lowers_the_residual_faster():
    residual = {}
    for accelerated in (True, False):
        matrix, Y = problem(n=100, m=1)
        rng = np.random.RandomState(0)
        options = {"block_size": 20, "rank": 5, "accelerated": accelerated, "max_iter": 500}
        residual[accelerated] = solve_askotch(matrix, Y, 1e-2, **options, rng=rng).residual.max()
    assert residual[True] < 0.5 * residual[False]


def test_blocks_that_make_the_automatic_nu_diverge_double_it():
    matrix, Y = problem(n=100, m=1, gamma=0.5)
    rng = np.random.RandomState(0)
    result = solve_askotch(matrix, Y, 1e-6, block_size=33, rank=33, max_iter=600, rng=rng)
    assert result.chosen["nu"] > 100 / 33
    assert np.isfinite(result.x).all()
    assert result.residual.max() < 1.0


@pytest.mark.parametrize("rank", [5, 30, 100])
def test_the_inverse_of_a_block_is_that_of_the_nystrom_approximation(rank):
    gram = problem()[0].block(np.arange(60), problem()[0].points(np.arange(60)))
    apply = block_inverse(gram, 0.1, rank, np.dtype(np.float64), np.random.RandomState(0), damped=0)
    Q = np.linalg.qr(np.random.RandomState(0).normal(size=(60, min(rank, 60))))[0]
    sketch = gram @ Q
    dense = sketch @ np.linalg.pinv(Q.T @ sketch) @ sketch.T + 0.1 * np.eye(60)
    np.testing.assert_allclose(apply(dense), np.eye(60), atol=1e-6)


def test_a_block_of_zeros_has_the_inverse_of_the_ridge():
    for damped in (True, False):
        rng = np.random.RandomState(0)
        apply = block_inverse(np.zeros((9, 9)), 0.5, 4, np.dtype(np.float32), rng, damped=damped)
        np.testing.assert_allclose(apply(np.eye(9)), 2.0 * np.eye(9), atol=1e-12)


def test_parameters_of_the_acceleration_that_contradict_each_other_are_refused():
    matrix, Y = problem()
    for mu, nu in ((0.6, 2.0), (0.5, 0.25)):
        with pytest.raises(ValueError, match=f"mu={mu:g} is above 1 / nu or nu, nu={nu:g}"):
            solve_askotch(
                matrix, Y, 0.1, block_size=20, rank=5, mu=mu, nu=nu, rng=np.random.RandomState(0)
            )


@pytest.mark.parametrize("max_time", [0.0, 2.0, 30.0])
def test_a_solve_that_runs_out_of_time_is_not_worse_than_zero(max_time):
    (matrix, Y), clock = problem(m=1), CountedClock()
    result = solve_askotch(
        matrix,
        Y,
        1e-4,
        block_size=20,
        rank=5,
        deadline=Deadline(max_time, clock),
        rng=np.random.RandomState(0),
        trace=clock,
    )
    assert (result.stop_reason, result.converged) == ("max_time", False)
    K = matrix.block(np.arange(len(Y)))

    def error(x):
        return float(np.sum((Y - K @ x) ** 2) + 1e-4 * np.sum(x * (K @ x)))

    assert error(result.x) <= error(0.0 * Y)
    assert result.n_iter >= 1
