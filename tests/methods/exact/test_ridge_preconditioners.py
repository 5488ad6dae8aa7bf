"""Preconditioners of kernel ridge: accelerated randomly pivoted Cholesky, and KRILL for FALKON."""

import numpy as np
import pytest

from kbench.approximation.landmarks.pivots import randomly_pivoted_cholesky
from kbench.kernels import KernelMatrix, make_kernel
from kbench.methods import FalkonRegressor, KernelRidge, KernelRidgeClassifier
from kbench.methods.approximate.falkon import _sign_embedding
from kbench.solvers.ridge.kernel_ridge import low_rank_inverse

KERNELS = ["rbf", "laplacian", "matern32", "matern52"]


def data(n=240, m=1):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X.sum(axis=1))[:, None] + 0.1 * rng.normal(size=(n, m))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("block", [1, 16, 64])
def test_the_factor_is_the_nystrom_approximation_at_its_pivots(kernel, block):
    X, _ = data()
    K = KernelMatrix(make_kernel(kernel, X, gamma=0.5, degree=3, coef0=0.0), X)
    pivots, F = randomly_pivoted_cholesky(K, 40, np.random.RandomState(0), block)
    assert len(set(pivots.tolist())) == len(pivots) == F.shape[1] == 40
    exact = K.astype(np.float64).block(np.arange(240))
    columns = exact[:, pivots]
    nystrom = columns @ np.linalg.solve(exact[np.ix_(pivots, pivots)], columns.T)
    np.testing.assert_allclose(F @ F.T, nystrom, atol=2e-4)


@pytest.mark.parametrize("seed", range(10))
def test_pivots_that_rounding_makes_dependent_have_a_factor(seed):
    X = np.random.default_rng(seed).normal(size=(300, 3)).astype(np.float32)
    K = KernelMatrix(make_kernel("rbf", X, gamma=0.17, degree=3, coef0=0.0), X)
    F = randomly_pivoted_cholesky(K, 300, np.random.RandomState(seed))[1]
    assert np.abs(F @ F.T - K.block(np.arange(300))).max() <= 1e-2


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 0.05), (np.float64, 1e-8)])
def test_the_low_rank_inverse(dtype, tolerance):
    F = np.random.RandomState(0).normal(size=(5000, 7)).astype(dtype)
    V = np.random.RandomState(1).normal(size=(5000, 2))
    solved = low_rank_inverse(F, 0.3)(V)
    exact = F.astype(np.float64)
    np.testing.assert_allclose(exact @ (exact.T @ solved) + 0.3 * solved, V, atol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_accelerated_cholesky_gives_the_exact_solution_in_fewer_steps(kernel, weighted):
    X, Y = data(m=2)
    weight = np.random.RandomState(2).uniform(0.1, 3.0, len(X)) if weighted else None
    settings = {"kernel": kernel, "gamma": 0.1}
    expected = KernelRidge(0.05, **settings).fit(X, Y, weight)
    steps = []
    for size in (1, 80):
        model = KernelRidge(
            0.05, **settings, solver="pcg", preconditioner="rpcholesky", n_landmarks=size
        ).fit(X, Y, weight)
        assert model.converged_
        np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-5, atol=1e-4)
        steps.append(model.n_iter_)
    assert steps[1] < 0.5 * steps[0]
    least = len(X) * 80 + model.n_iter_ * len(X) ** 2
    assert least <= model.kernel_entries_ <= 1.5 * least


def test_it_takes_no_more_steps_than_landmarks_of_a_sample():
    X, y = data(400)
    steps = {}
    for preconditioner in (None, "nystrom", "rpcholesky"):
        steps[preconditioner] = (
            KernelRidgeClassifier(
                1e-3, gamma=0.3, solver="pcg", n_landmarks=60, preconditioner=preconditioner
            )
            .fit(X, y[:, 0] > 0)
            .n_iter_
        )
    assert steps["nystrom"] == steps[None]
    assert steps["rpcholesky"] <= 1.2 * steps[None] + 1


@pytest.mark.parametrize("memory_mb", [0.0, 100.0])
def test_krill_solves_the_system_of_the_landmarks(memory_mb):
    X, y = data(600)
    settings = {"alpha": 1e-3, "gamma": 0.1, "random_state": 0, "tol": 1e-10, "error_rows": 0}
    settings["memory_mb"] = memory_mb
    rows = FalkonRegressor(40, **settings).fit(X, y)
    krill = FalkonRegressor(40, preconditioner="krill", **settings).fit(X, y)
    np.testing.assert_allclose(krill.predict(X), rows.predict(X), atol=5e-3)
    # The embedding keeps all lengths to a factor, so that the condition number is bounded.
    assert krill.converged_
    assert krill.n_iter_ < 60


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weight", [None, np.arange(1100) % 3])
def test_a_factorisation_longer_than_the_time_limit_is_not_begun(monkeypatch, weight):
    """Of 20,000 rows it took 26 s of max_time=2."""
    X, y = data(1100)
    model = KernelRidge(1e-3, kernel="rbf", gamma=0.1)
    whole = model.fit(X, y, weight).score(X, y, weight)
    monkeypatch.setattr("kbench.solvers.ridge.kernel_ridge.shifted_cholesky", None)
    model.set_params(max_time=1e-6).fit(X, y, weight)
    assert model.n_iter_ == 1
    assert model.score(X, y, weight) > whole - 0.1


@pytest.mark.parametrize("preconditioner", ["rows", "krill"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_preconditioner_takes_no_more_than_half_of_the_time(preconditioner):
    """Of 5,000 landmarks it took 172 s of max_time=20; what is left out costs iterations only."""
    X, y = data(3000)
    settings = {"alpha": 1e-3, "gamma": 0.1, "random_state": 0, "error_rows": 0, "memory_mb": 0.0}
    whole, cut = (
        FalkonRegressor(100, preconditioner=preconditioner, max_time=limit, **settings).fit(X, y)
        for limit in (None, 0.0)
    )
    assert (cut.n_iter_, whole.converged_) == (1, True)
    # The gram matrix, a block of rows, the products of one iteration and of the right-hand side
    assert cut.kernel_entries_ <= 100 * (100 + 512 + 3 * 3000)
    assert cut.score(X, y) > 0.0


def test_the_sign_embedding_keeps_lengths_on_average():
    rng = np.random.RandomState(0)
    Phi = _sign_embedding(80, 1000, rng)
    assert Phi.has_canonical_format
    assert set(np.diff(Phi.indptr)) == {8}
    np.testing.assert_allclose(Phi.multiply(Phi).sum(axis=0), 1.0)
    V = rng.normal(size=(1000, 200))
    ratio = np.square(Phi @ V).sum(axis=0) / np.square(V).sum(axis=0)
    assert abs(ratio.mean() - 1.0) < 0.03
    assert _sign_embedding(3, 5, rng).shape == (3, 5)
