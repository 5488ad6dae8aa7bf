"""EigenPro 2 beside its pseudocode in NumPy, and its solutions beside the direct one."""

import numpy as np
import pytest
from ridge_problem import KERNELS, iterates, problem
from sklearn.exceptions import ConvergenceWarning

from kbench.methods import EigenPro3Regressor, EigenProRegressor
from kbench.solvers.ridge import eigenpro, eigenpro3
from kbench.solvers.ridge.eigenpro import lower_eigenvalues, solve_eigenpro
from kbench.trace import Trace


def reference(K, Y, lam, m, s, q, steps, seed):
    """The algorithm of the paper with dense matrices."""
    rng, n = np.random.RandomState(seed), len(K)
    S = np.sort(rng.choice(n, s, replace=False))
    K_SS = K[np.ix_(S, S)]
    values, e = np.linalg.eigh(K_SS / s)
    values, e = values[::-1], e[:, ::-1]
    psi = [e[:, i] @ K_SS / (np.sqrt(s) * values[i]) for i in range(q - 1)]
    low = [1.0 - (values[q - 1] + lam / n) / (values[i] + lam / n) for i in range(q - 1)]
    beta = (np.diag(K_SS) - sum(low[i] * values[i] * psi[i] ** 2 for i in range(q - 1))).max()
    step = 1.0 / (beta + lam + (m - 1) * values[q - 1])
    a, order = np.zeros(Y.shape), []
    for _ in range(steps):
        if len(order) < m:
            order = list(rng.permutation(n))
        B, order = np.sort(order[:m]), order[m:]
        g = K[B] @ a + lam * a[B] - Y[B]
        a[B] -= step * g
        for i in range(q - 1):
            component = e[:, i] @ K[np.ix_(S, B)] @ g
            a[S] += step * low[i] / (s * values[i]) * np.outer(e[:, i], component)
    return a


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("q", [1, 6])
@pytest.mark.parametrize("lam", [0.0, 0.05])
def test_iterates_are_those_of_the_pseudocode(kernel, q, lam):
    matrix, Y = problem(kernel)
    options = {"batch_size": 24, "subsample_size": 50, "n_directions": q, "max_iter": 12}
    shown, _ = iterates(solve_eigenpro, matrix, Y, lam, **options)
    K = matrix.block(np.arange(len(Y)))
    before = reference(K, Y, lam, 24, 50, q, 11, 3)
    np.testing.assert_allclose(shown[-2], before, rtol=1e-8, atol=1e-10)


def test_interpolation_without_a_ridge():
    matrix, Y = problem("laplacian", m=1)
    options = {"batch_size": 40, "subsample_size": 120, "max_iter": 4000}
    result = solve_eigenpro(matrix, Y, 0.0, **options, tol=1e-6, rng=np.random.RandomState(0))
    assert result.converged
    K = matrix.block(np.arange(len(Y)))
    np.testing.assert_allclose(K @ result.x, Y, atol=1e-5)


def test_lowered_eigenvalues_take_fewer_steps():
    steps = []
    for q in (1, None):
        matrix, Y = problem(n=300, m=1)
        options = {"batch_size": 100, "subsample_size": 300, "n_directions": q}
        rng = np.random.RandomState(0)
        steps.append(solve_eigenpro(matrix, Y, 1.0, **options, tol=1e-3, rng=rng).n_iter)
    assert steps[1] < 0.5 * steps[0]


@pytest.mark.parametrize("batch_size", [1, 10, 100])
def test_the_automatic_q_is_the_largest_whose_critical_batch_is_not_exceeded(batch_size):
    matrix, _ = problem(n=200)
    sample = np.arange(200)
    lowered = lower_eigenvalues(matrix, sample, batch_size=batch_size)
    assert lowered.q == 1 or lowered.beta / lowered.l_q <= batch_size
    further = lower_eigenvalues(matrix, sample, batch_size=batch_size, n_directions=lowered.q + 1)
    assert further.beta / further.l_q > batch_size
    # In the lowered kernel the first q eigenvalues are the q-th one.
    K = matrix.block(sample)
    by = np.linalg.eigvalsh(K)[::-1][: lowered.q - 1] / 200 - lowered.l_q
    K_P = K - 200 * (lowered.vectors * by) @ lowered.vectors.T
    np.testing.assert_allclose(np.linalg.eigvalsh(K_P)[-1], 200 * lowered.l_q, rtol=1e-8)
    np.testing.assert_allclose(K_P.diagonal().max(), lowered.beta, rtol=1e-8)


class Slow(Trace):
    """A clock that stands still but for the set-up."""

    now = 0.0

    def wall_s(self):
        return self.now


@pytest.mark.parametrize(
    ("module", "model"),
    [
        (eigenpro, EigenProRegressor(0.1, max_time=5.0)),
        (eigenpro3, EigenPro3Regressor(0.1, n_components=20, max_time=5.0)),
    ],
    ids=str,
)
def test_the_limit_of_time_includes_the_set_up(module, model, monkeypatch):
    rng, clock = np.random.default_rng(0), Slow()

    def lowered(*arguments, **options):
        clock.now += 10.0
        return lower_eigenvalues(*arguments, **options)

    monkeypatch.setattr(module, "lower_eigenvalues", lowered)
    X = rng.normal(size=(60, 3))
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model.fit(X, X[:, 0], trace=clock)
    assert model.n_iter_ == 1


@pytest.mark.parametrize(("max_time", "size"), [(None, 2000), (1e4, 2000), (4e-5, 46)])
def test_the_sample_takes_a_part_of_the_limit(max_time, size):
    X = np.random.default_rng(0).normal(size=(2100, 3))
    model = EigenProRegressor(0.1, max_iter=1, max_time=max_time)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, X[:, 0])
    assert model.subsample_size_ == size
