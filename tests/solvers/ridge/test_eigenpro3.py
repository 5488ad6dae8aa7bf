"""EigenPro 3 beside its pseudocode in NumPy, and its solutions beside the direct ones."""

import numpy as np
import pytest
from ridge_problem import KERNELS, iterates, problem

from kbench.solvers.ridge.eigenpro import lower_eigenvalues
from kbench.solvers.ridge.eigenpro3 import solve_eigenpro3
from kbench.solvers.ridge.normal_equations import NormalEquations
from kbench.trace import Deadline, Trace

# float64 kernel values are damped by this on the diagonal of K_ZZ, as float32 ones are.
DAMPING = np.finfo(np.float32).eps
CENTRES = np.arange(0, 120, 4)


def directions(K_SS, q, rho):
    """e_i, l_q, D and beta for i < q."""
    s = len(K_SS)
    values, e = np.linalg.eigh(K_SS / s)
    values, e = values[::-1], e[:, ::-1]
    low = 1.0 - (values[q - 1] + rho) / (values[: q - 1] + rho)
    psi2 = s * e[:, : q - 1] ** 2  # psi_i(x)^2 l_i at the rows of S, divided by l_i
    beta = (np.diag(K_SS) - psi2 @ (low * values[: q - 1])).max()
    return e[:, : q - 1], values[q - 1], low / (s * values[: q - 1]), beta


def batches(n, m, rng):
    while True:
        order = rng.permutation(n)
        for start in range(0, n - m + 1, m):
            yield np.sort(order[start : start + m])


def reference(K, Y, lam, Z, m, s, q, steps, seed, inner_q=None, reduction=False, period=1):
    """The algorithm with dense matrices, f as coefficients F of all n rows.

    Projects after `period` steps, by two passes of EigenPro 2 if `inner_q` is given.
    """
    rng, n, p = np.random.RandomState(seed), len(K), len(Z)
    S = np.sort(rng.choice(p, s, replace=False))
    K_ZZ, K_Zn = K[np.ix_(Z, Z)], K[Z]
    E, l_q, D, beta = directions(K_ZZ[np.ix_(S, S)], q, lam / n)
    step = 1.0 / (beta + (m - 1) * l_q + m / n * lam)
    T = np.sort(rng.choice(p, p, replace=False)) if inner_q else None
    a, r, before, reduced, visits = np.zeros((p, Y.shape[1])), 0.0 * Y, 1.0, False, 0
    F, U, since = 0.0 * Y, 0.0 * Y, 0
    rows = batches(n, m, rng)
    for _ in range(steps):
        B = next(rows)
        g = K[B] @ F - Y[B]
        G = m / n * r if reduced else 0.0 * Y
        G[B] += g - r[B] if reduced else g
        r[B] = g
        G += m / n * lam * F
        G[Z[S]] -= E @ (D[:, None] * (E.T @ K[Z[S]] @ G))
        F, U, since = F - step * G, U + step * G, since + 1
        if since == period or reduced:
            if inner_q:
                a = a - inexact(K_ZZ, K_Zn @ U, T, inner_q, rng)
            else:
                a = a - np.linalg.solve(K_ZZ + DAMPING * np.eye(p), K_Zn @ U)
            F, U, since = 0.0 * Y, 0.0 * Y, 0
            F[Z] = a
        visits += m
        if visits >= n:
            residual = np.linalg.norm(K_Zn @ r + lam * K_ZZ @ a, axis=0)
            residual = (residual / np.linalg.norm(K_Zn @ Y, axis=0)).max()
            reduced |= reduction and residual > 0.5 * before
            before, visits = residual, 0
    return a


def inexact(K_ZZ, h, T, q, rng):
    p = len(K_ZZ)
    E, l_q, D, beta = directions(K_ZZ[np.ix_(T, T)], q, 0.0)
    theta = np.zeros(h.shape)
    for _, block in zip(range(2), batches(p, p, rng), strict=False):
        g = K_ZZ[block] @ theta - h[block]
        theta[block] -= g / (beta + (p - 1) * l_q)
        theta[T] += E @ (D[:, None] * (E.T @ (K_ZZ[np.ix_(T, block)] @ g))) / (beta + (p - 1) * l_q)
    return theta


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("lam", [0.0, 0.05])
@pytest.mark.parametrize("reduction", [False, True])
@pytest.mark.parametrize("projection_passes", [0, 2])
@pytest.mark.parametrize("period", [1, 3])
def test_iterates_are_those_of_the_pseudocode(kernel, lam, reduction, projection_passes, period):
    matrix, Y = problem(kernel, gamma=3.0)
    options = {"projection_passes": projection_passes, "variance_reduction": reduction}
    options["projection_period"] = period
    options |= {"centres": CENTRES, "subsample_size": 25, "n_directions": 5, "batch_size": 24}
    shown, result = iterates(solve_eigenpro3, matrix, Y, lam, max_iter=6, **options)
    inner = lower_eigenvalues(matrix, CENTRES, batch_size=len(CENTRES)).q
    K = matrix.block(np.arange(len(Y)))
    chosen = {"reduction": reduction, "period": period}
    chosen["inner_q"] = inner if projection_passes else None
    q = int(result.chosen["directions"])
    assert q > 1
    expected = reference(K, Y, lam, CENTRES, 24, 25, q, 29, 3, **chosen)
    np.testing.assert_allclose(shown[-2], expected, rtol=1e-8, atol=1e-10)


def solve(matrix, Y, lam, centres=CENTRES, **options):
    given = {"subsample_size": len(centres), "n_directions": 6, "tol": 1e-6, "max_iter": 300}
    rng = np.random.RandomState(0)
    return solve_eigenpro3(matrix, Y, lam, centres=centres, rng=rng, **(given | options))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 7},
        {"batch_size": 120},
        {"projection_passes": 2},
        {"projection_passes": 2, "projection_period": 4},
    ],
    ids=str,
)
def test_the_solution_is_the_direct_one(kernel, dtype, options):
    matrix, Y = problem(kernel, dtype=dtype)
    result = solve(matrix, Y, 0.5, **options)
    assert result.converged
    K = matrix.astype(np.float64).block(np.arange(len(Y)))
    K_Zn, K_ZZ = K[CENTRES], K[np.ix_(CENTRES, CENTRES)]
    A, target = K_Zn @ K_Zn.T + 0.5 * K_ZZ, K_Zn @ Y
    residual = np.linalg.norm(A @ result.x - target, axis=0) / np.linalg.norm(target, axis=0)
    np.testing.assert_allclose(residual, result.residual, rtol=1e-3)
    assert residual.max() <= 1e-6
    np.testing.assert_allclose(K_Zn.T @ result.x, K_Zn.T @ np.linalg.solve(A, target), atol=1e-4)


def test_with_all_rows_as_centres_the_solution_is_that_of_kernel_ridge():
    matrix, Y = problem("laplacian")
    result = solve(matrix, Y, 0.5, centres=np.arange(len(Y)), n_directions=12)
    assert result.converged
    K = matrix.block(np.arange(len(Y)))
    np.testing.assert_allclose(result.x, np.linalg.solve(K + 0.5 * np.eye(len(Y)), Y), atol=1e-3)


def test_steps_of_the_paper_converge_where_the_centres_interpolate_and_else_do_not():
    matrix, Y = problem("laplacian")
    paper = {"batch_size": 24, "variance_reduction": False}
    assert not solve(matrix, Y, 0.0, **paper | {"max_iter": 60}).converged
    K_nZ = matrix.block(np.arange(len(Y)))[:, CENTRES]
    interpolated = K_nZ @ Y[CENTRES]
    result = solve(matrix, interpolated, 0.0, **paper)
    assert result.converged
    np.testing.assert_allclose(K_nZ @ result.x, interpolated, atol=1e-4)


def test_eigenvectors_of_other_rows_than_centres_would_move_the_fixed_point():
    matrix, Y = problem()
    K, others = matrix.block(np.arange(len(Y))), CENTRES + 1
    K_Zn = K[CENTRES]
    minimiser = np.linalg.lstsq(K_Zn.T, Y, rcond=1e-10)[0]
    g = K_Zn.T @ minimiser - Y
    moved = {}
    for name, S in {"centres": CENTRES, "others": others}.items():
        E, _, D, _ = directions(K[np.ix_(S, S)], 6, 0.0)
        h = K_Zn @ g - K[np.ix_(CENTRES, S)] @ E @ (D[:, None] * (E.T @ K[S] @ g))
        moved[name] = np.linalg.norm(h) / np.linalg.norm(K_Zn @ Y)
    assert moved["centres"] < 1e-6 < 1e-3 < moved["others"]


def test_a_step_size_that_diverges_is_halved():
    matrix, Y = problem(n=200)
    few = np.arange(0, 200, 8)
    options = {"n_directions": 25, "batch_size": 200, "tol": 1e-2, "max_iter": 1000}
    result = solve(matrix, Y, 1e-3, centres=few, **options)
    lowered = lower_eigenvalues(matrix, few, batch_size=200, max_directions=25, ridge=1e-3 / 200)
    first = 200 / (lowered.beta + 199 * lowered.l_q + 1e-3)
    halvings = np.log2(first / result.chosen["step_size"])
    assert halvings >= 0.99
    assert halvings == pytest.approx(round(halvings))
    assert result.converged


def test_a_residual_that_rises_again_is_told_once():
    matrix, Y = problem()
    state = NormalEquations(
        matrix, Y, 0.0, CENTRES, tol=1e-9, max_iter=99, rng=np.random.RandomState(0)
    )
    everything, none = np.arange(len(Y)), (np.empty(0, np.intp), np.empty((0, Y.shape[1])))
    solution = np.linalg.lstsq(matrix.block(everything)[:, CENTRES], Y, rcond=1e-8)[0]
    told = []
    for multiple in (0.0, 0.9, 0.7, 0.3, 0.3, 0.9):
        state.gradient(everything, multiple * solution, reduces_variance=True, further_centres=none)
        estimate = state.estimate_after_pass(multiple * solution)
        np.testing.assert_allclose(estimate, 1.0 - multiple, rtol=1e-6)
        told.append(state.rises)
    assert told == [False, False, False, True, False, False]


def test_lowered_eigenvalues_take_fewer_passes():
    matrix, Y = problem(n=300, m=1)
    centres = np.arange(0, 300, 3)
    options = {"centres": centres, "batch_size": 300, "tol": 1e-3, "max_iter": 2000}
    passes = [solve(matrix, Y, 1.0, n_directions=q, **options).n_iter for q in (1, 10)]
    assert passes[1] < 0.5 * passes[0]


def test_targets_that_are_zero_get_coefficients_zero():
    matrix, Y = problem()
    result = solve(matrix, np.column_stack([0.0 * Y[:, 0], Y]), 0.5)
    assert result.converged
    assert not result.x[:, 0].any()


@pytest.mark.parametrize("reason", ["max_iter", "max_time"])
def test_a_fit_that_ends_before_is_no_worse_than_zero(reason):
    matrix, Y = problem()
    limits = {"max_iter": {"max_iter": 1}, "max_time": {"deadline": Deadline(0.0, Trace())}}
    result = solve(matrix, Y, 0.5, batch_size=24, **limits[reason])
    assert not result.converged
    assert result.stop_reason == reason
    assert result.n_iter == 1
    K = matrix.block(np.arange(len(Y)))
    fitted = K[:, CENTRES] @ result.x
    norms = np.einsum("ij,ij->j", result.x, K[np.ix_(CENTRES, CENTRES)] @ result.x)
    objective = np.square(fitted - Y).sum(axis=0) + 0.5 * norms
    assert np.all(objective <= np.square(Y).sum(axis=0))
