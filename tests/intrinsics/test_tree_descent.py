"""Eight rows down a tree of comparisons against a plain loop."""

import numpy as np
import pytest
from numba import njit

from kbench.clustering.axis_tree import variance_tree
from kbench.intrinsics.tree_descent import ROWS, descend


@njit
def _descend(rows, stride, nodes, n_nodes, depth, reached):
    descend(rows, stride, nodes, n_nodes, depth, reached)


def plain_descend(rows, nodes, depth):
    """The same as a plain loop."""
    thresholds = nodes[1].view(np.float32)
    reached = np.zeros(len(rows), np.int64)
    for i, row in enumerate(rows):
        for _ in range(depth):
            node = reached[i]
            reached[i] = nodes[2, node] + (row[nodes[0, node]] > thresholds[node])
    return reached


@pytest.mark.parametrize("n_leaves", [1, 2, 30])
def test_rows_reach_the_nodes_of_the_plain_loop(n_leaves):
    rng = np.random.RandomState(0)
    X = np.round(rng.normal(size=(500, 4)), 1).astype(np.float32)
    tree = variance_tree(X, n_leaves, 3, rng)
    reached = np.empty(ROWS, np.int64)
    for start in (0, 100, 492):
        rows = X[start : start + ROWS].copy()
        _descend(rows.ctypes.data, 16, tree.nodes.ctypes.data, tree.nodes.shape[1], tree.depth,
                 reached.ctypes.data)  # fmt: skip
        np.testing.assert_array_equal(reached, plain_descend(rows, tree.nodes, tree.depth))
