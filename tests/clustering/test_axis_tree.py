"""Trees of comparisons: what scikit-learn grew is what is walked."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from kbench.clustering.axis_tree import AxisTree, class_tree, variance_tree


def rows(n=1000, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("n_leaves", [1, 2, 30])
def test_rows_reach_scikit_learns_leaves(n_leaves):
    X, y = rows()
    # Values on the thresholds themselves.
    X = np.round(X, 1)
    ours = class_tree(X, y, n_leaves, 3, np.ones(len(X)))
    assert ours.n_leaves == n_leaves
    labels = ours.assign(X)
    np.testing.assert_array_equal(np.unique(labels), np.arange(n_leaves))
    if n_leaves > 1:
        theirs = DecisionTreeClassifier(
            criterion="entropy", max_leaf_nodes=n_leaves, min_samples_leaf=3, random_state=0
        ).fit(X, y)
        pairs = np.unique(np.column_stack([labels, theirs.apply(X)]), axis=0)
        assert len(pairs) == n_leaves


@pytest.mark.parametrize("size", [1, 7, 8, 9, 250])
def test_labels_do_not_depend_on_the_batch(size):
    X, _ = rows()
    tree = variance_tree(X, 20, 5, np.random.RandomState(0))
    batches = [tree.assign(X[i : i + size]) for i in range(0, len(X), size)]
    np.testing.assert_array_equal(np.concatenate(batches), tree.assign(X))
    assert len(tree.assign(X[:0])) == 0


def test_boxes_lower_the_variance_of_all_features():
    X, _ = rows(3000)
    tree = variance_tree(X, 40, 5, np.random.RandomState(0))
    labels = tree.assign(X)
    within = sum(((X[labels == k] - X[labels == k].mean(axis=0)) ** 2).sum() for k in range(40))
    assert within < 0.5 * ((X - X.mean(axis=0)) ** 2).sum()


def test_a_threshold_between_float32_numbers_splits_them_alike():
    low = np.float32(0.1)
    high = np.nextafter(low, np.float32(1))
    leaf = np.array([1, -1, -1]), np.array([2, -1, -1])
    for threshold in (np.float64(low), (np.float64(low) + np.float64(high)) / 2):
        tree = AxisTree(np.zeros(3, int), np.array([threshold, 0, 0]), *leaf)
        labels = tree.assign(np.array([[low], [high]], np.float32))
        np.testing.assert_array_equal(labels, [0, 1])
