"""Trees of comparisons of single features, which divide the input space into axis-aligned boxes.

A level costs one comparison; a level of a k-means tree costs inner products. scikit-learn grows the
trees, best split first (Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees",
1984). Their nodes are stored breadth first for `kbench.intrinsics.tree_descent`.
"""

from typing import Any

import numpy as np
from numba import njit

from kbench.intrinsics.tree_descent import ROWS, descend
from kbench.prediction.landmarks import Router
from kbench.stored import check_arrays, check_whole, require

# Largest number of rows from which `variance_tree` is grown: more rows take more time; with fewer,
# a few rows decide each of the last splits. Set by hand for a few hundred leaves.
_SAMPLE_SIZE = 10_000


@njit(nogil=True, cache=True)
def _assign_rows(X, nodes, depth, leaf, labels):
    """Write the leaves of C-contiguous float32 rows X : (n, d) into labels : (n,)."""
    n, stride = X.shape[0], 4 * X.shape[1]
    reached = np.empty(ROWS, np.int64)
    # The last group of eight rows overlaps the group before. If there are fewer than eight rows,
    # they descend one by one: with a stride of 0, all eight rows are the same.
    step = stride if n >= ROWS else 0
    for start in range(0, n, ROWS if step else 1):
        begin = min(start, n - ROWS) if step else start
        rows_at = X.ctypes.data + stride * begin
        descend(rows_at, step, nodes.ctypes.data, nodes.shape[1], depth, reached.ctypes.data)
        for r in range(ROWS if step else 1):
            labels[begin + r] = leaf[reached[r]]


class AxisTree(Router):
    """A partition of the input space into axis-aligned boxes.

    Parameters
    ----------
    feature : (n_nodes,) ints
    threshold : (n_nodes,) floats. Rows with x[feature] <= threshold go left.
    left, right : (n_nodes,) ints. Children; a leaf has negative numbers.

    Attributes
    ----------
    nodes : (3, n_nodes) uint32
        Breadth first: feature, threshold (the bits of a float32), left child.
    leaf : (n_nodes,) int64. Index of the leaf, -1 for inner nodes.
    n_leaves : int
    depth : int. Largest number of comparisons on the way to a leaf, at least 1.
    """

    def __init__(
        self, feature: np.ndarray, threshold: np.ndarray, left: np.ndarray, right: np.ndarray
    ) -> None:
        order, i = [0], 0
        while i < len(order):
            node = order[i]
            if left[node] >= 0:
                order += [left[node], right[node]]
            i += 1
        is_inner = left[order] >= 0
        self.nodes = np.zeros((3, len(order)), np.uint32)
        self.nodes[0] = np.where(is_inner, feature[order], 0)
        self.nodes[1] = (
            np.where(is_inner, _rounded_down(threshold[order]), np.inf).astype("f").view("u4")
        )
        # Breadth first, the children of the j-th inner node are nodes 2 j + 1 and 2 j + 2.
        self.nodes[2] = np.where(is_inner, 2 * np.cumsum(is_inner) - 1, np.arange(len(order)))
        self.leaf = np.where(is_inner, -1, np.cumsum(~is_inner) - 1).astype(np.int64)
        self.n_leaves = int((~is_inner).sum())
        self.depth = max(1, int(self.comparisons().max()))

    @property
    def nbytes(self) -> int:
        return self.nodes.nbytes + self.leaf.nbytes

    def comparisons(self) -> np.ndarray:
        """Number of comparisons on the way to each leaf; (n_leaves,)."""
        counts = np.zeros(self.nodes.shape[1])
        for node in np.flatnonzero(self.leaf < 0):
            child = int(self.nodes[2, node])
            counts[child : child + 2] = counts[node] + 1
        return counts[self.leaf >= 0]

    def route(self, X: np.ndarray, labels: np.ndarray) -> None:
        """Write the leaves of C-contiguous float32 rows X : (u, d) into labels : (u,) int64."""
        _assign_rows(X, self.nodes, self.depth, self.leaf, labels)

    def fits(self, n_features: int) -> bool:
        """Whether rows of `n_features` have all features that the tree compares."""
        return bool(self.nodes[0].max() < n_features)

    def assign(self, X: np.ndarray) -> np.ndarray:
        """Leaf of float32 rows X : (u, d); (u,) int64.

        Raises ValueError: the rows have too few features.
        """
        if not self.fits(X.shape[1]):
            raise ValueError(f"X has {X.shape[1]} features, the tree compares more")
        labels = np.empty(len(X), np.int64)
        self.route(np.ascontiguousarray(X, np.float32), labels)
        return labels

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        n = check_arrays(self, in_c_order=True, nodes="u4 3 n", leaf="i8 n")["n"]
        require(n > 0, "the tree has no node")
        is_inner = self.leaf < 0
        children = np.where(is_inner, 2 * np.cumsum(is_inner) - 1, np.arange(n))
        require(np.array_equal(self.nodes[2], children), "nodes should be breadth first")
        require(n == 2 * int(is_inner.sum()) + 1, "each inner node should have two children")
        require(
            np.all(children[is_inner] > np.flatnonzero(is_inner)), "nodes should be breadth first"
        )
        require(
            np.array_equal(self.leaf, np.where(is_inner, -1, np.cumsum(~is_inner) - 1)),
            "leaves should be numbered in the order of the nodes",
        )
        require(
            np.all(self.nodes[1].view(np.float32)[~is_inner] == np.inf),
            "thresholds of leaves should be inf",
        )
        check_whole(self, "n_leaves", n - int(is_inner.sum()), n - int(is_inner.sum()))
        depth = max(1, int(self.comparisons().max()))
        check_whole(self, "depth", depth, depth)


def class_tree(
    X: np.ndarray, y: np.ndarray, n_leaves: int, min_rows: int, weights: np.ndarray
) -> AxisTree:
    """Grow a tree that separates the classes y : (n,) by splits of the largest information gain.

    X : (n, d) float32
    n_leaves : Largest number of leaves
    min_rows : Least number of rows in a leaf
    weights : (n,). Weights of the rows in the entropy.
    """
    if n_leaves == 1:
        return single_leaf()
    # Imported here because it takes 50 ms, and most methods grow no tree.
    from sklearn.tree import DecisionTreeClassifier

    tree: Any = DecisionTreeClassifier(
        criterion="entropy", max_leaf_nodes=n_leaves, min_samples_leaf=min_rows, random_state=0
    )
    return _from_sklearn(tree.fit(X, y, sample_weight=weights))


def target_tree(X: np.ndarray, y: np.ndarray, n_leaves: int, min_rows: int) -> AxisTree:
    """Grow a tree by the splits that reduce the variance of the targets y : (n,) most.

    Parameters as in `class_tree`.
    """
    if n_leaves == 1:
        return single_leaf()
    from sklearn.tree import DecisionTreeRegressor

    tree: Any = DecisionTreeRegressor(
        max_leaf_nodes=n_leaves, min_samples_leaf=min_rows, random_state=0
    )
    return _from_sklearn(tree.fit(X, y))


def variance_tree(
    X: np.ndarray, n_leaves: int, min_rows: int, rng: np.random.RandomState
) -> AxisTree:
    """Grow a tree by the splits that reduce the variance of a sample of the rows X most.

    Parameters as in `class_tree`.
    """
    if n_leaves == 1:
        return single_leaf()
    from sklearn.tree import DecisionTreeRegressor

    rows = rng.permutation(len(X))[:_SAMPLE_SIZE]
    min_leaf_rows = max(1, min_rows * len(rows) // len(X))
    tree: Any = DecisionTreeRegressor(
        max_leaf_nodes=n_leaves, min_samples_leaf=min_leaf_rows, random_state=0
    )
    return _from_sklearn(tree.fit(X[rows], X[rows]))


def _from_sklearn(fitted: Any) -> AxisTree:
    tree = fitted.tree_
    return AxisTree(tree.feature, tree.threshold, tree.children_left, tree.children_right)


def single_leaf() -> AxisTree:
    """The tree with one leaf, which compares nothing."""
    no_node = np.array([-1])
    return AxisTree(no_node, np.zeros(1), no_node, no_node)


def _rounded_down(threshold: np.ndarray) -> np.ndarray:
    """Return the largest float32 up to `threshold`; both split float32 rows in the same way."""
    rounded = threshold.astype(np.float32)
    is_above = rounded > threshold
    rounded[is_above] = np.nextafter(rounded[is_above], np.float32(-np.inf))
    return rounded
