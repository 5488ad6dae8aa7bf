"""Facts of weighted k-means and of the k-means tree."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.clustering import kmeans_tree, weighted_kmeans


def blobs(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 4.0 * rng.integers(0, 3, size=(n, 1))


def nearest(X, centres):
    distances = ((X[:, None] - centres) ** 2).sum(axis=2)
    return distances.argmin(axis=1), distances.min(axis=1)


def test_centres_are_the_weighted_means_of_their_rows():
    X, weights = blobs(), np.random.default_rng(1).uniform(0.1, 5.0, 400)
    centres = weighted_kmeans(X, weights, 5, np.random.RandomState(0), max_iter=200)
    assert len(centres) == 5
    labels, _ = nearest(X, centres)
    for c, centre in enumerate(centres):
        own = labels == c
        np.testing.assert_allclose(centre, np.average(X[own], axis=0, weights=weights[own]))


@given(seed=st.integers(0, 1000), k=st.integers(1, 8))
@settings(max_examples=30)
def test_equal_weights_of_any_size_are_plain_kmeans(seed, k):
    X = blobs(60, seed=seed)
    one = weighted_kmeans(X, np.ones(60), k, np.random.RandomState(seed), max_iter=100)
    other = weighted_kmeans(X, np.full(60, 2.0**-40), k, np.random.RandomState(seed), max_iter=100)
    np.testing.assert_array_equal(one, other)
    labels, _ = nearest(X, one)
    for c, centre in enumerate(one):
        np.testing.assert_allclose(centre, X[labels == c].mean(axis=0), atol=1e-12)


@given(seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_an_iteration_never_raises_the_objective(seed):
    X = blobs(80, seed=seed)
    weights = np.random.default_rng(seed).exponential(size=80)
    values = [
        weights
        @ nearest(X, weighted_kmeans(X, weights, 6, np.random.RandomState(3), max_iter=t))[1]
        for t in range(6)
    ]
    assert np.all(np.diff(values) <= 1e-9 * values[0])


def test_rows_without_weight_have_no_influence():
    X, weights = blobs(), np.zeros(400)
    weights[::3] = 2.0
    whole = weighted_kmeans(X, weights, 7, np.random.RandomState(0))
    part = weighted_kmeans(X[::3], weights[::3], 7, np.random.RandomState(0))
    np.testing.assert_array_equal(whole, part)


def test_no_more_centres_than_distinct_rows():
    X = np.repeat(blobs(4), 10, axis=0)
    centres = weighted_kmeans(X, np.ones(40), 9, np.random.RandomState(0))
    assert len(centres) == 4


@pytest.mark.parametrize("n_leaves", [1, 2, 7, 16, 30])
@pytest.mark.parametrize("branching", [2, 4])
def test_tree_has_the_requested_number_of_leaves(n_leaves, branching):
    X = blobs(2000)
    tree = kmeans_tree(X, n_leaves, np.random.RandomState(0), branching=branching)
    assert tree.n_leaves == n_leaves
    np.testing.assert_array_equal(np.unique(tree.assign(X)), np.arange(n_leaves))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_go_to_the_nearest_child_of_each_node(sparse):
    X = blobs(3000, d=9)
    tree = kmeans_tree(X, 20, np.random.RandomState(0))
    expected = []
    for x in X.astype(np.float32):
        node = 0
        while tree.n_children[node]:
            children = np.arange(tree.first[node], tree.first[node] + tree.n_children[node])
            node = children[((tree.centres[children] - x) ** 2).sum(axis=1).argmin()]
        expected.append(tree.leaf[node])
    labels = tree.assign(sp.csr_array(X) if sparse else X)
    assert np.mean(labels == expected) > 0.999


def test_coinciding_rows_are_one_leaf():
    tree = kmeans_tree(np.ones((50, 2)), 8, np.random.RandomState(0))
    assert tree.n_leaves == 1
