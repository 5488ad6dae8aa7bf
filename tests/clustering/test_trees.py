"""Cluster trees and nearest neighbours: partitions, order, agreement with brute force."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import NearestNeighbors

from kbench.clustering import cluster_tree, nearest_neighbours

RULES = ["2means", "kd", "pca", "cobble", "natural", "random"]


def points(n=1000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 4.0 * rng.integers(3, size=(n, 1))


@settings(max_examples=40)
@given(
    n=st.integers(1, 300),
    leaf_size=st.integers(2, 40),
    n_distinct=st.integers(1, 300),
    rule=st.sampled_from(RULES),
    balanced=st.booleans(),
    sparse=st.booleans(),
)
def test_nodes_partition_the_points(n, leaf_size, n_distinct, rule, balanced, sparse):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n_distinct, 3))[rng.randint(n_distinct, size=n)]
    X = sp.csr_array(X) if sparse else X
    tree = cluster_tree(X, leaf_size, rng, rule=rule, balanced=balanced)
    np.testing.assert_array_equal(np.sort(tree.permutation), np.arange(n))
    sizes = tree.stop - tree.start
    assert sizes.min() >= 1
    assert sizes[-1] == n
    assert tree.level[-1] == 0
    leaves = tree.leaves
    assert sizes[leaves].max() < max(leaf_size, 2)
    np.testing.assert_array_equal(tree.stop[leaves][:-1], tree.start[leaves][1:])
    for i in np.setdiff1d(np.arange(len(tree)), leaves):
        left, right = tree.left[i], tree.right[i]
        assert left < right == i - 1
        assert (tree.start[left], tree.stop[left]) == (tree.start[i], tree.start[right])
        assert tree.stop[right] == tree.stop[i]
        assert tree.level[left] == tree.level[right] == tree.level[i] + 1
        assert sizes[i] >= leaf_size


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "natural"])
@pytest.mark.parametrize("sparse", [False, True])
def test_training_rows_are_assigned_to_their_leaf(rule, sparse):
    X = points()
    rows = sp.csr_array(X) if sparse else X
    tree = cluster_tree(rows, 50, np.random.RandomState(0), rule=rule)
    labels = tree.assign(rows)
    for leaf in tree.leaves:
        members = tree.permutation[tree.start[leaf] : tree.stop[leaf]]
        assert np.mean(labels[members] == leaf) > 0.99


def test_natural_order_refuses_to_assign_new_rows():
    tree = cluster_tree(points(), 50, np.random.RandomState(0), rule="natural")
    np.testing.assert_array_equal(tree.permutation, np.arange(1000))
    with pytest.raises(ValueError, match="natural order cannot place new rows"):
        tree.assign(points())


def test_balanced_trees_have_leaves_of_one_size():
    tree = cluster_tree(points(1001), 50, np.random.RandomState(0), balanced=True)
    sizes = (tree.stop - tree.start)[tree.leaves]
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("sparse", [False, True])
def test_two_means_cuts_halfway_between_the_means_of_its_sides(sparse):
    X = points(1500)
    X[::3, 0] += 30.0
    rows = sp.csr_array(X) if sparse else X
    tree = cluster_tree(rows, 1500, np.random.RandomState(0))
    sides = [X[tree.permutation[tree.start[i] : tree.stop[i]]] for i in (0, 1)]
    assert sorted(map(len, sides)) == [500, 1000]
    means = np.array([side.mean(axis=0) for side in sides])
    split = tree.splits[-1]
    np.testing.assert_allclose(split.vector, means[1] - means[0])
    values = np.concatenate(sides) @ split.vector
    halfway = means.mean(axis=0) @ split.vector
    assert split.threshold == values[values >= halfway].min()


def test_outliers_do_not_make_a_chain():
    X = np.concatenate([points(500, 2), 10.0 ** np.arange(1, 31)[:, None] * np.ones(2)])
    tree = cluster_tree(X, 20, np.random.RandomState(0))
    assert tree.level.max() < 60


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("n", "k"), [(30, 50), (3000, 16), (6000, 16), (6000, 200)])
def test_recall_of_neighbours_is_high(n, k, sparse):
    X = points(n)
    rows = sp.csr_array(X) if sparse else X
    ids = nearest_neighbours(rows, k, np.random.RandomState(0), max_trees=20)
    assert ids.shape == (n, min(k, n))
    assert (ids == np.arange(n)[:, None]).any(axis=1).all()
    assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()
    some = slice(None, None, max(1, n // 500))
    exact = NearestNeighbors(n_neighbors=min(k, n)).fit(X)
    true = exact.kneighbors(X[some], return_distance=False)
    hits = np.mean([np.isin(a, b).mean() for a, b in zip(ids[some], true, strict=True)])
    assert hits > (0.999 if n <= 4096 else 0.97)


def test_duplicates_are_neighbours_of_one_another():
    X = np.repeat(points(500), 12, axis=0)
    ids = nearest_neighbours(X, 10, np.random.RandomState(0), max_trees=10)
    same = np.abs(X[ids] - X[:, None]).max(axis=2) == 0
    assert same.mean() > 0.98
    everything = np.zeros((5000, 3))
    ids = nearest_neighbours(everything, 5, np.random.RandomState(0))
    assert (ids >= 0).all()
