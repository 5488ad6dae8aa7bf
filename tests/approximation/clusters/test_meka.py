"""Facts of mathematics about MEKA, BKA and the rank-k Nystrom approximations."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from kbench.approximation import BKA, MEKA, LowRankKernel, SpectralNystrom
from kbench.approximation.landmarks.pivots import randomly_pivoted_landmarks
from kbench.approximation.landmarks.spectrum import leading_eigenpairs
from kbench.kernels import KernelMatrix, make_kernel
from kbench.trace import Trace

EXACT = {"dtype": "float64", "random_state": 0}


def points(n=200, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 2.0 * rng.integers(0, 3, size=(n, 1))


def dense(matrix):
    return matrix.rows(np.arange(matrix.shape[0]))


def relative(K, G):
    return np.linalg.norm(K - G) / np.linalg.norm(K)


def nystrom_error(X, **options):
    feature_map = SpectralNystrom(random_state=0, **options).fit(X)
    return relative(
        rbf_kernel(X, gamma=options["gamma"]), dense(LowRankKernel(feature_map, X, "f8"))
    )


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans"])
def test_one_cluster_is_the_nystrom_approximation(landmarks):
    X = points()
    model = MEKA(15, n_clusters=1, gamma=0.3, landmarks=landmarks, n_landmarks=30, **EXACT).fit(X)
    Z = model.matrix_.basis.local[0].points
    assert Z.shape == (30, 3)
    values, vectors = np.linalg.eigh(rbf_kernel(Z, gamma=0.3))
    C = rbf_kernel(X, Z, gamma=0.3) @ vectors[:, -15:] / np.sqrt(values[-15:])
    np.testing.assert_allclose(dense(model.matrix_), C @ C.T, atol=1e-8)


def test_bases_of_partition_rows_are_the_best_that_landmarks_of_all_clusters_allow():
    X = points()
    K = rbf_kernel(X, gamma=0.3)
    options = {"gamma": 0.3, "basis_sampling": "partition_rows", "landmarks": "uniform", **EXACT}
    # All points as landmarks: the leading eigenvectors of each diagonal block, but for directions
    # of 1e-6 of the first, which are left out.
    model = MEKA(6, n_clusters=4, n_landmarks=200, **options).fit(X)
    G = dense(model.matrix_)
    for rows in model.matrix_.groups:
        values, vectors = np.linalg.eigh(K[np.ix_(rows, rows)])
        expected = (vectors[:, -6:] * values[-6:]) @ vectors[:, -6:].T
        np.testing.assert_allclose(G[np.ix_(rows, rows)], expected, atol=1e-5)
    assert np.linalg.eigvalsh(G)[0] > -1e-8
    # Fewer: kernel values of the landmarks, of rows and them twice, and of the landmarks' pairs.
    model = MEKA(6, n_clusters=4, n_landmarks=20, **options).fit(X)
    assert model.kernel_entries_ == 4 * 20**2 + 2 * 200 * 20 + 6 * 20**2
    # One cluster: Nystrom truncated on the rows.
    model = MEKA(15, n_clusters=1, n_landmarks=40, **options).fit(X)
    Z = model.matrix_.basis.local[0].points
    C = rbf_kernel(X, Z, gamma=0.3)
    full = C @ np.linalg.pinv(rbf_kernel(Z, gamma=0.3), rcond=1e-12, hermitian=True) @ C.T
    values, vectors = np.linalg.eigh(full)
    expected = (vectors[:, -15:] * values[-15:]) @ vectors[:, -15:].T
    np.testing.assert_allclose(dense(model.matrix_), expected, atol=1e-5)


@pytest.mark.parametrize("link", ["galerkin", "sampled"])
def test_with_all_points_links_are_projections_onto_the_bases(link):
    X = points()
    K = rbf_kernel(X, gamma=0.3)
    sampled = {"rho": 100.0, "pinv_cut": 1e-10} if link == "sampled" else {}
    model = MEKA(6, n_clusters=4, gamma=0.3, link=link, n_landmarks=200, **sampled, **EXACT).fit(X)
    G = dense(model.matrix_)
    bases = [np.linalg.qr(basis)[0] for basis in model.matrix_.bases]
    groups = model.matrix_.groups
    for s, (Q, rows) in enumerate(zip(bases, groups, strict=True)):
        for t, (P, columns) in enumerate(zip(bases, groups, strict=True)):
            if s != t or link == "galerkin":
                block = K[np.ix_(rows, columns)]
                expected = Q @ (Q.T @ block @ P) @ P.T
                np.testing.assert_allclose(G[np.ix_(rows, columns)], expected, atol=1e-9)


@pytest.mark.parametrize("link", ["galerkin", "sampled"])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_all_columns_are_the_kernel_itself(link, kernel):
    X = points(120)
    K = (rbf_kernel if kernel == "rbf" else laplacian_kernel)(X, gamma=1.0)
    options = {"kernel": kernel, "gamma": 1.0, "link": link, "n_landmarks": 120}
    if link == "sampled":
        options["pinv_cut"] = 1e-12
    model = MEKA(120, n_clusters=3, **options, **EXACT).fit(X)
    assert relative(K, dense(model.matrix_)) < 1e-4


def test_error_falls_with_the_rank_and_is_below_nystrom_of_that_rank():
    X = points(400, 4)
    K = rbf_kernel(X, gamma=0.5)
    errors = [
        relative(K, dense(MEKA(rank, n_clusters=4, gamma=0.5, **EXACT).fit(X).matrix_))
        for rank in (5, 15, 40)
    ]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < nystrom_error(X, n_landmarks=80, rank=40, gamma=0.5)


def test_galerkin_links_leave_the_matrix_positive_semidefinite():
    X = points()
    for seed in range(5):
        model = MEKA(8, n_clusters=5, gamma=1.0, dtype="float64", random_state=seed).fit(X)
        assert np.linalg.eigvalsh(dense(model.matrix_))[0] > -1e-9
        assert model.matrix_.eigenvalues()[0] > -1e-9


def test_psd_removes_the_negative_eigenvalues_of_sampled_links():
    X = points()
    options = {"n_clusters": 5, "gamma": 0.1, "link": "sampled", "rho": 0.0, "pinv_cut": 1e-6}
    plain, repaired = (
        MEKA(12, psd=psd, **options, **EXACT).fit(X).matrix_ for psd in (False, True)
    )
    assert np.linalg.eigvalsh(plain.link)[0] < -1e-3
    values, vectors = np.linalg.eigh(plain.link)
    np.testing.assert_allclose(
        repaired.link, (vectors * np.maximum(values, 0.0)) @ vectors.T, atol=1e-9
    )
    assert np.linalg.eigvalsh(dense(repaired))[0] > -1e-9
    with pytest.warns(RuntimeWarning, match="negative ones are replaced by zero"):
        solution = plain.solve(np.ones((200, 1)), 1e-4)
    values, vectors = np.linalg.eigh(dense(plain))
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    expected = np.linalg.solve(clipped + 1e-4 * np.eye(200), np.ones((200, 1)))
    np.testing.assert_allclose(solution, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_links_of_far_clusters_can_be_left_out():
    X = points()
    full = MEKA(5, n_clusters=6, gamma=0.3, **EXACT).fit(X)
    k = full.ranks_[0]
    everything = full.matrix_.n_parameters_
    assert everything == 200 * k + (6 * k) ** 2 - 6 * k * (k - 1)
    third = MEKA(5, n_clusters=6, gamma=0.3, zero_fraction=1 / 3, **EXACT).fit(X)
    assert third.matrix_.n_parameters_ == everything - 2 * 5 * k * k
    means = full.matrix_.basis.centroids.means
    similar = np.tril(rbf_kernel(means, gamma=0.3), -1)
    near = MEKA(5, n_clusters=6, gamma=0.3, eps=0.05, **EXACT).fit(X)
    assert near.matrix_.n_parameters_ == 200 * k + 6 * k + 2 * k * k * (similar > 0.05).sum()


def test_ranks_by_strategy():
    X = points(300)
    options = {"n_clusters": 4, "gamma": 20.0, **EXACT}
    sizes = np.bincount(MEKA(6, **options).fit(X).labels_)
    assert list(MEKA(6, **options).fit(X).ranks_) == [6] * 4
    by_size = MEKA(6, rank_strategy="size", **options).fit(X)
    np.testing.assert_array_equal(by_size.ranks_, np.ceil(24 * sizes / 300))
    total = MEKA(20, rank_strategy="total", **options).fit(X)
    np.testing.assert_array_equal(total.ranks_, np.ceil(20 * sizes / 300))
    assert MEKA(6, rank_strategy="eigenvalues", **options).fit(X).ranks_.sum() == 24


@pytest.mark.parametrize("link", ["galerkin", "sampled"])
def test_kernel_values_and_numbers_are_those_of_the_formulas(link):
    X = points(500)
    model = MEKA(10, n_clusters=5, gamma=1.0, landmarks="uniform", link=link, **EXACT).fit(X)
    n_s, k = np.bincount(model.labels_), model.ranks_
    assert n_s.min() >= 30
    links = 10 * (20**2 if link == "galerkin" else 30**2)
    assert model.kernel_entries_ == 5 * 20**2 + 500 * 20 + links
    assert model.matrix_.n_parameters_ == (n_s * k).sum() + np.count_nonzero(model.matrix_.link)
    held = sum(basis.nbytes for basis in model.matrix_.bases) + model.matrix_.link.nbytes
    assert model.matrix_.nbytes_ == held + 3 * 8 * 500
    assert set(model.timings_) == {"cluster", "bases", "links"}


def test_clusters_smaller_than_the_rank_and_rows_that_are_all_the_same():
    X = points(40, 2)
    model = MEKA(30, n_clusters=12, gamma=0.3, **EXACT).fit(X)
    assert model.ranks_.max() <= np.bincount(model.labels_).max()
    assert relative(rbf_kernel(X, gamma=0.3), dense(model.matrix_)) < 1e-3
    same = MEKA(5, n_clusters=4, gamma=0.3, **EXACT).fit(np.ones((20, 3)))
    assert same.n_clusters_ == 1
    np.testing.assert_allclose(dense(same.matrix_), np.ones((20, 20)), atol=1e-9)
    wide = np.random.default_rng(0).normal(size=(60, 90))
    assert (
        relative(
            rbf_kernel(wide, gamma=0.001),
            dense(MEKA(8, n_clusters=2, gamma=0.001, **EXACT).fit(wide).matrix_),
        )
        < 0.1
    )


def test_jobs_do_not_change_the_result():
    X = points()
    one, two = (MEKA(8, n_clusters=3, gamma=0.3, n_jobs=jobs, **EXACT).fit(X) for jobs in (1, 2))
    np.testing.assert_array_equal(dense(one.matrix_), dense(two.matrix_))


@pytest.mark.parametrize("partition", ["kmeans", "spectral", "random"])
def test_squared_error_of_bka_is_the_sum_of_squared_omitted_entries(partition):
    X = points()
    K = rbf_kernel(X, gamma=0.3)
    model = BKA(5, gamma=0.3, partition=partition, **EXACT).fit(X)
    same = np.equal.outer(model.labels_, model.labels_)
    np.testing.assert_allclose(dense(model.matrix_), np.where(same, K, 0.0), atol=1e-12)
    assert model.matrix_.n_parameters_ == model.kernel_entries_ == same.sum()


def test_clusters_of_near_points_have_lower_error_than_random_ones():
    X = points()
    K = rbf_kernel(X, gamma=2.0)
    errors = {
        partition: relative(
            K, dense(BKA(4, gamma=2.0, partition=partition, **EXACT).fit(X).matrix_)
        )
        for partition in ("kmeans", "spectral", "random")
    }
    assert max(errors["kmeans"], errors["spectral"]) < 0.8 * errors["random"]


def test_blocks_beyond_memory_mb_are_refused():
    with pytest.raises(ValueError, match=r"the blocks of 1 clusters, .* memory_mb=0.4"):
        BKA(1, memory_mb=0.4).fit(points())
    # 200^2 numbers of float32 and as many of float64.
    BKA(1, memory_mb=0.46).fit(points())
    # What does not fit even in blocks of one size is refused before there are clusters.
    trace = Trace()
    with pytest.raises(ValueError, match=r"the blocks of 15 clusters, of up to 38734 rows, .*"):
        BKA(15).fit(np.zeros((581_012, 1), np.float32), trace=trace)
    assert not trace.timings
    with pytest.raises(ValueError, match=r"of 200 landmarks takes .* memory_mb=0.1"):
        SpectralNystrom(n_landmarks=200, memory_mb=0.1).fit(points())


def test_no_rank_k_approximation_is_below_the_eigendecomposition():
    X = points(300, 4)
    options = {"rank": 25, "gamma": 0.5}
    best = nystrom_error(X, n_landmarks=300, eigensolver="lanczos", **options)
    values = np.linalg.eigvalsh(rbf_kernel(X, gamma=0.5))
    assert best == pytest.approx(np.linalg.norm(values[:-25]) / np.linalg.norm(values), rel=1e-4)
    for landmarks in ("uniform", "kmeans", "rpcholesky"):
        for eigensolver in ("exact", "randomized"):
            error = nystrom_error(
                X, n_landmarks=60, landmarks=landmarks, eigensolver=eigensolver, **options
            )
            assert best < error < 0.6


@pytest.mark.parametrize("eigensolver", ["exact", "randomized", "lanczos"])
def test_truncation_on_the_rows_is_the_best_rank_k_in_the_span_of_the_landmarks(eigensolver):
    X = points(300)
    K = rbf_kernel(X, gamma=0.3)
    options = {"n_landmarks": 60, "gamma": 0.3}
    full = SpectralNystrom(rank=60, random_state=0, **options).fit(X)
    values, vectors = np.linalg.eigh(dense(LowRankKernel(full, X, "f8")))
    expected = relative(K, (vectors[:, -15:] * values[-15:]) @ vectors[:, -15:].T)
    kept = {"rank": 15, "eigensolver": eigensolver, **options}
    found = nystrom_error(X, truncation="rows", **kept)
    assert found == pytest.approx(expected, rel=1e-2 if eigensolver == "randomized" else 1e-4)
    assert found < nystrom_error(X, **kept)
    largest, _ = leading_eigenpairs(K, 15, eigensolver, np.random.RandomState(0))
    np.testing.assert_allclose(largest, np.linalg.eigvalsh(K)[:-16:-1], rtol=0.05)
    # Half of the rows give nearly the same directions, for half of the kernel values.
    model = SpectralNystrom(truncation="rows", n_samples=150, random_state=0, **kept).fit(X)
    assert model.kernel_entries_ == 60 * 60 + 150 * 60
    assert relative(K, dense(LowRankKernel(model, X, "f8"))) < 1.15 * expected


def test_an_ensemble_is_the_mean_of_its_experts():
    X = points()
    model = SpectralNystrom(30, n_landmarks=60, n_experts=3, gamma=0.3, random_state=0).fit(X)
    assert model.n_features_out_ == 30
    expected = np.zeros((200, 200))
    for Z in np.array_split(model.components_, 3):
        values, vectors = np.linalg.eigh(rbf_kernel(Z, gamma=0.3))
        C = rbf_kernel(X, Z, gamma=0.3) @ vectors[:, -10:] / np.sqrt(values[-10:])
        expected += C @ C.T / 3
    np.testing.assert_allclose(dense(LowRankKernel(model, X, "f8")), expected, atol=1e-8)


def test_randomised_eigenvectors_come_close_to_the_exact_ones():
    X = points(300)
    options = {"n_landmarks": 100, "rank": 20, "gamma": 0.3}
    exact = nystrom_error(X, **options)
    assert nystrom_error(X, eigensolver="randomized", **options) == pytest.approx(exact, rel=0.01)


def test_pivots_are_distinct_and_stop_near_the_rank():
    X = np.vstack([np.repeat(points(10), 20, axis=0), points(30, seed=4)])
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=3.0), X)
    found = randomly_pivoted_landmarks(kernel, 40, np.random.RandomState(0))
    assert len(np.unique(X[found], axis=0)) == len(found) == 40
    assert len(randomly_pivoted_landmarks(kernel, 230, np.random.RandomState(0))) <= 60


def test_pivots_are_better_than_uniform_landmarks_on_uneven_points():
    rng = np.random.default_rng(0)
    X = np.vstack([0.01 * rng.normal(size=(400, 2)), 4.0 * rng.normal(size=(40, 2))])
    errors = {
        landmarks: nystrom_error(X, n_landmarks=30, rank=30, gamma=0.5, landmarks=landmarks)
        for landmarks in ("uniform", "rpcholesky")
    }
    assert errors["rpcholesky"] < 0.5 * errors["uniform"]
