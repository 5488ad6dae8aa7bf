"""Facts of k-means in input and feature space."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.clustering import (
    KernelCentres,
    approximate_kernel_kmeans,
    kernel_kmeans,
    mean_weights,
    sampled_kmeans,
    two_step_kernel_kmeans,
)
from kbench.kernels import KernelMatrix, make_kernel


def blobs(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 4.0 * rng.integers(0, 3, size=(n, 1))


def objective(gram, labels):
    """sum_c sum_{j in S_c} ||phi(x_j) - mu_c||^2, from the definition."""
    total = np.trace(gram)
    for c in np.unique(labels):
        members = labels == c
        total -= gram[np.ix_(members, members)].sum() / members.sum()
    return total


@given(k=st.integers(1, 8), gamma=st.floats(0.01, 50.0), seed=st.integers(0, 1000))
@settings(max_examples=30)
def test_kernel_kmeans_never_raises_its_objective(k, gamma, seed):
    X = blobs(60, seed=seed)
    gram = KernelMatrix(make_kernel("rbf", X, gamma=gamma), X, np.float64).block(np.arange(60))
    labels = np.random.default_rng(seed).integers(0, k, 60)
    values = [objective(gram, labels)]
    for _ in range(10):
        labels = kernel_kmeans(gram, labels, max_iter=1)
        values.append(objective(gram, labels))
    assert np.all(np.diff(values) <= 1e-9 * abs(values[0]))


def test_linear_kernel_objective_is_that_of_kmeans():
    X = blobs(100)
    labels = kernel_kmeans(X @ X.T, np.random.default_rng(0).integers(0, 4, 100))
    inertia = sum(
        ((X[labels == c] - X[labels == c].mean(axis=0)) ** 2).sum() for c in np.unique(labels)
    )
    assert objective(X @ X.T, labels) == pytest.approx(inertia)
    # A fixed point of Lloyd's iteration in input space.
    means = np.array([X[labels == c].mean(axis=0) for c in range(labels.max() + 1)])
    distances = ((X[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_array_equal(distances.argmin(axis=1), labels)


@pytest.mark.parametrize("sparse", [False, True])
def test_two_step_labels_of_the_sample_are_the_converged_ones(sparse):
    X = blobs()
    data = sp.csr_array(X) if sparse else X
    kernel = KernelMatrix(make_kernel("rbf", data, gamma=0.1), data, np.float64)
    sample = np.random.RandomState(3).choice(400, 80, replace=False)
    centres, labels = two_step_kernel_kmeans(kernel, 5, sample, np.random.RandomState(1))
    start = np.random.RandomState(1).randint(5, size=80)
    gram = kernel.block(sample, kernel.points(sample))
    np.testing.assert_array_equal(labels[sample], kernel_kmeans(gram, start))
    np.testing.assert_array_equal(centres.assign(data), labels)
    np.testing.assert_array_equal(np.unique(labels), np.arange(centres.n_clusters))


def test_two_step_assigns_to_the_nearest_mean_in_feature_space():
    X, new = blobs(), blobs(50, seed=9)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.1), X, np.float64)
    sample = np.arange(100)
    centres, labels = two_step_kernel_kmeans(kernel, 4, sample, np.random.RandomState(0))
    gram = kernel.block(sample, kernel.points(sample))
    cross = np.exp(-0.1 * ((new[:, None] - X[:100]) ** 2).sum(axis=2))
    distances = np.column_stack(
        [
            1 - 2 * cross[:, own].mean(axis=1) + gram[np.ix_(own, own)].mean()
            for own in (labels[:100] == c for c in range(centres.n_clusters))
        ]
    )
    np.testing.assert_array_equal(centres.assign(new), distances.argmin(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_means_of_sampled_points_are_the_same_centres_as_their_weights_in_full(dtype):
    X, new = blobs(), blobs(300, seed=9)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.1), X, dtype)
    rng = np.random.default_rng(0)
    sample = rng.permutation(400)[:90]
    weights = mean_weights(rng.permutation(np.arange(90) % 7))
    means, full = (
        KernelCentres(kernel, sample, weights),
        KernelCentres(kernel, sample, weights.toarray()),
    )
    np.testing.assert_array_equal(means.assign(new), full.assign(new))
    np.testing.assert_array_equal(means.assign_training(kernel), full.assign_training(kernel))
    assert means.n_products == full.n_products == 90
    assert means.nbytes < full.nbytes


@pytest.mark.parametrize("sparse", [False, True])
def test_kmeans_assigns_to_the_nearest_centroid_and_none_is_empty(sparse):
    X = np.repeat(blobs(100), 4, axis=0)
    data = sp.csr_array(X) if sparse else X
    sample = np.random.RandomState(0).permutation(400)[:200]
    centroids, labels = sampled_kmeans(data, 30, sample)
    distances = ((X[:, None] - centroids.means) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances[np.arange(400), labels], distances.min(axis=1), atol=1e-9)
    np.testing.assert_array_equal(np.unique(labels), np.arange(centroids.n_clusters))


def test_coinciding_points_make_one_cluster():
    X = np.ones((50, 2))
    kernel = KernelMatrix(make_kernel("rbf", X), X)
    sample = np.arange(20)
    for centres, labels in (
        sampled_kmeans(X, 5, sample),
        two_step_kernel_kmeans(kernel, 5, sample, np.random.RandomState(0)),
    ):
        assert centres.n_clusters == 1
        assert not labels.any()


def test_approximate_kernel_kmeans_lowers_the_projected_objective_to_a_fixed_point():
    X = blobs()
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.1), X, np.float64)
    sample = np.random.RandomState(2).choice(400, 60, replace=False)
    K = kernel.block(np.arange(400))
    projected = K[:, sample] @ np.linalg.pinv(K[np.ix_(sample, sample)]) @ K[sample]
    objectives = []
    for max_iter in (0, 1, 2, 5, 100):
        rng = np.random.RandomState(1)
        centres, labels = approximate_kernel_kmeans(kernel, 5, sample, rng, max_iter=max_iter)
        objectives.append(objective(projected, labels))
        np.testing.assert_array_equal(np.unique(labels), np.arange(centres.n_clusters))
    np.testing.assert_array_equal(centres.assign(X), labels)
    # The first start is not the others': the sample's own clustering had no iteration.
    assert np.all(np.diff(objectives[3:]) <= 1e-9)
    # A fixed point: every point is nearest to the projected mean of its own cluster.
    U = np.equal.outer(np.arange(centres.n_clusters), labels) / np.bincount(labels)[:, None]
    distances = np.einsum("cj,cj->c", U @ projected, U)[:, None] - 2 * U @ projected
    np.testing.assert_array_equal(distances.argmin(axis=0), labels)


def test_approximate_kernel_kmeans_of_a_whole_sample_is_kernel_kmeans():
    X = blobs(80)
    kernel = KernelMatrix(make_kernel("rbf", X, gamma=0.1), X, np.float64)
    everything = np.arange(80)
    centres, labels = approximate_kernel_kmeans(kernel, 4, everything, np.random.RandomState(0))
    start = np.random.RandomState(0).randint(4, size=80)
    np.testing.assert_array_equal(labels, kernel_kmeans(kernel.block(everything), start))
    np.testing.assert_array_equal(centres.assign(X), labels)


@pytest.mark.parametrize(
    ("dtype", "shift"),
    [(np.float32, 2.0**13), (np.float32, 2.0**17), (np.float64, 2.0**30), (np.float64, 2.0**40)],
)
def test_rows_far_from_zero_go_to_the_nearest_centroid(dtype, shift):
    """Products of rows at 1e4 in float32 sent a third of the rows to another centroid."""
    X = (np.round(blobs() * 64.0) / 64.0 + shift).astype(dtype)
    centroids, labels = sampled_kmeans(X, 6, np.arange(400))
    assert centroids.n_clusters > 3
    distances = ((X[:, None] - shift) - (centroids.means - shift)).astype(np.float64) ** 2
    nearest = distances.sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == labels) > 0.99
