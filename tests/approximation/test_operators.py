"""What every approximate kernel matrix must do, by comparison with the dense matrix that it is."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from kbench.approximation import (
    BKA,
    MEKA,
    Fastfood,
    HSSMatrix,
    KernelApproximation,
    LandmarkFeatures,
    LowRankKernel,
    Nystrom,
    RandomFeatures,
    RandomFourierFeatures,
    SpectralNystrom,
    kernel_error,
    sampled_rows,
)
from kbench.kernels import KernelMatrix, make_kernel
from kbench.trace import Trace

OPTIONS = {"gamma": 0.2, "random_state": 0}


def points(n=160, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 3.0 * rng.integers(0, 3, size=(n, 1))


def low_rank(feature_map):
    def make(X, dtype="float64"):
        return LowRankKernel(feature_map.set_params(**OPTIONS).fit(X), X, dtype)

    return make


def structured(approximation):
    def make(X, dtype="float64"):
        return approximation.set_params(dtype=dtype, **OPTIONS).fit(X).matrix_

    return make


def compressed(**parameters):
    def make(X, dtype="float64"):
        matrix = HSSMatrix(leaf_size=20, dtype=dtype, **parameters, **OPTIONS)
        return matrix.fit(X).kernel_matrix(X)

    return make


APPROXIMATIONS = {
    "hss": compressed(preset="precise", trace_tol=1e-9),
    "nystrom": low_rank(Nystrom(40)),
    "spectral": low_rank(SpectralNystrom(20, n_landmarks=40)),
    "rows": low_rank(SpectralNystrom(20, n_landmarks=40, truncation="rows")),
    "kmeans": low_rank(SpectralNystrom(20, n_landmarks=40, landmarks="kmeans")),
    "rpcholesky": low_rank(SpectralNystrom(20, n_landmarks=40, landmarks="rpcholesky")),
    "randomized": low_rank(SpectralNystrom(20, n_landmarks=40, eigensolver="randomized")),
    "ensemble": low_rank(SpectralNystrom(21, n_landmarks=42, n_experts=3)),
    "eigen": low_rank(SpectralNystrom(20, n_landmarks=1000, eigensolver="lanczos")),
    "fourier": low_rank(RandomFourierFeatures(32)),
    "fastfood": low_rank(Fastfood(32)),
    "landmark_features": low_rank(LandmarkFeatures(12)),
    "random_features": low_rank(RandomFeatures(16, features="orthogonal")),
    "bka": structured(BKA(4)),
    "bka_spectral": structured(BKA(4, partition="spectral")),
    "meka": structured(MEKA(10, n_clusters=4)),
    "meka_uniform": structured(MEKA(10, n_clusters=4, landmarks="uniform")),
    "meka_sampled": structured(MEKA(10, n_clusters=4, link="sampled")),
    "meka_psd": structured(MEKA(10, n_clusters=4, link="sampled", psd=True)),
    "meka_eps": structured(MEKA(10, n_clusters=4, eps=0.1)),
    "meka_partition_rows": structured(MEKA(10, n_clusters=4, basis_sampling="partition_rows")),
    "meka_ranks": structured(MEKA(10, n_clusters=4, rank_strategy="eigenvalues")),
}


def test_preconditioner_of_no_directions_is_that_of_the_diagonal_blocks():
    X = points()
    G = APPROXIMATIONS["meka"](X)
    blocks = np.zeros((160, 160))
    for rows in G.groups:
        blocks[np.ix_(rows, rows)] = G.rows(rows)[:, rows]
    P = G.preconditioner(0.5, rank=0)(np.eye(160))
    np.testing.assert_allclose(P @ (blocks + 0.5 * np.eye(160)), np.eye(160), atol=1e-8)


ESTIMATORS = [
    BKA(4),
    Fastfood(32),
    HSSMatrix(leaf_size=20),
    LandmarkFeatures(12),
    MEKA(10, n_clusters=4),
    Nystrom(40),
    RandomFeatures(16),
    RandomFourierFeatures(32),
    SpectralNystrom(20),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_every_approximation_has_the_same_interface(estimator):
    X = points()
    trace = Trace()
    fitted = clone(estimator).set_params(**OPTIONS).fit(X, trace=trace)
    np.testing.assert_allclose(
        KernelMatrix(fitted.kernel_, X, np.float64).block(np.arange(9)),
        rbf_kernel(X[:9], X, gamma=0.2),
        atol=1e-9,
    )
    G = fitted.kernel_matrix(X, trace=trace)
    assert isinstance(G, KernelApproximation)
    assert G.shape == (160, 160)
    landmarks = not isinstance(estimator, (Fastfood, RandomFeatures, RandomFourierFeatures))
    assert (G.kernel_entries_ > 0) == landmarks
    assert G.n_parameters_ > 0
    # Phases account for the time of both steps.
    assert trace.timings
    assert all(seconds >= 0.0 for seconds in trace.timings.values())


@pytest.mark.parametrize(
    "estimator",
    [e for e in ESTIMATORS if "dtype" in e.get_params() and not isinstance(e, MEKA)],
    ids=lambda estimator: type(estimator).__name__,
)
def test_widths_that_float32_does_not_resolve_are_said(estimator):
    X = points()
    X[::2, 0] += 1e8 * np.arange(80)
    with pytest.warns(UserWarning, match='float32 values may be off.*set dtype="float64"'):
        clone(estimator).set_params(dtype="float32", **OPTIONS).fit(X)


@pytest.mark.parametrize("name", APPROXIMATIONS)
class TestOperator:
    def test_products_rows_and_transpose_are_those_of_one_symmetric_matrix(self, name):
        X = points()
        G = APPROXIMATIONS[name](X)
        everything = np.arange(len(X))
        dense = G.rows(everything)
        assert G.shape == dense.shape == (160, 160)
        np.testing.assert_allclose(dense, dense.T, atol=1e-9)
        V = np.random.default_rng(1).normal(size=(160, 3))
        np.testing.assert_allclose(G @ V, dense @ V, atol=1e-8)
        np.testing.assert_allclose(G @ V[:, 0], dense @ V[:, 0], atol=1e-8)
        np.testing.assert_allclose(G.T @ V, dense.T @ V, atol=1e-8)
        np.testing.assert_allclose(V.T @ G, V.T @ dense, atol=1e-8)
        some = np.array([7, 3, 159, 3])
        np.testing.assert_allclose(G.rows(some), dense[some], atol=1e-12)

    def test_training_points_as_new_points_have_their_rows(self, name):
        X = points()
        G = APPROXIMATIONS[name](X)
        np.testing.assert_allclose(G.cross(X), G.rows(np.arange(len(X))), atol=1e-7)

    def test_machine_is_the_cross_matrix_times_its_coefficients(self, name):
        X, X_new = points(), points(50, seed=5)
        G = APPROXIMATIONS[name](X)
        coef = np.random.default_rng(2).normal(size=(160, 2))
        machine = G.machine(coef)
        np.testing.assert_allclose(machine(X_new), G.cross(X_new) @ coef, atol=1e-4)
        assert machine.nbytes > 0
        copy = pickle.loads(pickle.dumps(machine))
        np.testing.assert_array_equal(copy(X_new), machine(X_new))

    def test_solves_are_those_of_the_dense_matrix(self, name):
        X = points()
        G = APPROXIMATIONS[name](X)
        dense = G.rows(np.arange(len(X)))
        Y = np.random.default_rng(3).normal(size=(160, 2))
        for alpha in (2.0, 5.0):
            expected = np.linalg.solve(dense + alpha * np.eye(160), Y)
            np.testing.assert_allclose(G.solve(Y, alpha), expected, atol=1e-8)

    def test_preconditioner_is_positive_definite_and_the_inverse_where_small(self, name):
        X = points()
        for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-4)):
            G = APPROXIMATIONS[name](X, dtype)
            P = G.preconditioner(2.0)(np.eye(160))
            np.testing.assert_allclose(P, P.T, atol=tolerance)
            assert np.linalg.eigvalsh(0.5 * (P + P.T))[0] > 0
            values, vectors = np.linalg.eigh(G.rows(np.arange(160)).astype(float))
            expected = (vectors / (np.maximum(values, 0.0) + 2.0)) @ vectors.T
            np.testing.assert_allclose(P, expected, atol=10 * tolerance)

    def test_half_of_the_bytes_in_single_precision(self, name):
        X = points()
        G, H = (APPROXIMATIONS[name](X, dtype) for dtype in ("float64", "float32"))
        dense = G.rows(np.arange(len(X)))
        assert H.rows(np.arange(3)).dtype == np.float32
        np.testing.assert_allclose(H.rows(np.arange(len(X))), dense, atol=2e-3)
        # Ranks of a compressed matrix follow its pivots, which rounding may change.
        assert G.n_parameters_ == pytest.approx(H.n_parameters_, rel=1e-2)
        # Row numbers are held beside the values.
        assert H.nbytes_ <= 0.5 * G.nbytes_ + 2 * 8 * 3 * 160
        assert G.nbytes_ >= 8 * G.n_parameters_

    def test_sparse_rows_and_duplicates(self, name):
        X = points()
        X[np.abs(X) < 0.5] = 0.0
        X[80:100] = X[0]
        dense, sparse = APPROXIMATIONS[name](X), APPROXIMATIONS[name](sp.csr_array(X))
        everything = np.arange(len(X))
        np.testing.assert_allclose(sparse.rows(everything), dense.rows(everything), atol=1e-5)
        np.testing.assert_allclose(dense.rows(np.array([0]))[0, 80:100], dense.rows([0])[0, 0])

    def test_a_seed_decides_everything(self, name):
        X = points()
        everything = np.arange(len(X))
        first, second = APPROXIMATIONS[name](X), APPROXIMATIONS[name](X)
        np.testing.assert_array_equal(first.rows(everything), second.rows(everything))

    def test_error_is_the_relative_frobenius_norm_on_the_rows(self, name):
        X = points()
        G = APPROXIMATIONS[name](X)
        rows = sampled_rows(160, 30, np.random.RandomState(0))
        K = rbf_kernel(X[rows], X, gamma=0.2)
        expected = np.linalg.norm(K - G.rows(rows)) / np.linalg.norm(K)
        kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.2), X, np.float64)
        assert kernel_error(kernel, G, rows) == pytest.approx(expected, rel=1e-7)
        assert kernel.n_entries == 30 * 160
        full = rbf_kernel(X, gamma=0.2)
        assert kernel_error(full.__getitem__, G, rows) == pytest.approx(expected, rel=1e-7)
