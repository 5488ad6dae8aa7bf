"""Hierarchical k-means: a tree whose leaves partition the rows, and fast descent in it.

Step 1 of Algorithm 2 of Hsieh, Si and Dhillon, "Fast Prediction for Large-Scale Kernel Machines"
(NIPS 2014). At each node a row goes to the child with the nearest centre, so that a tree with K
leaves and b branches computes about b log_b(K) distances instead of K. A node with b children takes
b - 1 inner products: child j is nearer than child 0 if (c_j - c_0)'(x - c_0) > ||c_j - c_0||^2 / 2.
"""

import heapq
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.clustering.kmeans import sampled_kmeans
from kbench.intrinsics.landmark_tiles import LANES, weighted_difference
from kbench.prediction.landmark_layout import aligned
from kbench.prediction.landmarks import Router
from kbench.stored import MAX_FEATURES, check_arrays, check_indices, check_whole, require

# Rows of a CSR matrix that are converted to dense float32 rows at a time: more rows take more
# memory, fewer cost more calls. Set by hand.
_BATCH = 8192
# Largest number of a node's rows on which its k-means is computed: more rows make the centres more
# precise and take more time. Set by hand.
_SAMPLE_SIZE = 10_000
# Number of rows that descend a level together, so that the processor overlaps their sums: more rows
# need more cache. Set by hand.
_GROUP_SIZE = 16


@njit(nogil=True, cache=True)
def _descend(X, planes, halves, first, n_children, leaf, labels):
    """Write the leaves of C-contiguous float32 rows X : (n, d) into labels : (n,)."""
    d, padded_d = X.shape[1], planes.shape[1]
    n_blocks = padded_d // LANES
    padded, node = np.zeros((_GROUP_SIZE, padded_d), np.float32), np.empty(_GROUP_SIZE, np.int64)
    planes_at, padded_at = planes.ctypes.data, padded.ctypes.data
    for start in range(0, X.shape[0], _GROUP_SIZE):
        n = min(_GROUP_SIZE, X.shape[0] - start)
        for r in range(n):
            node[r] = 0
            for k in range(d):
                padded[r, k] = X[start + r, k]
        has_moved = True
        while has_moved:
            has_moved = False
            for r in range(n):
                count = n_children[node[r]]
                if count == 0:
                    continue
                has_moved, origin = True, first[node[r]]
                nearest, largest = origin, np.float32(0.0)
                row_at, origin_at = padded_at + 4 * padded_d * r, planes_at + 4 * padded_d * origin
                for child in range(origin + 1, origin + count):
                    plane_at = planes_at + 4 * padded_d * child
                    # Positive if this child is nearer to the row than the first child is.
                    plane_value = weighted_difference(row_at, origin_at, plane_at, n_blocks)
                    plane_value -= halves[child]
                    nearest = child if plane_value > largest else nearest
                    largest = max(plane_value, largest)
                node[r] = nearest
        for r in range(n):
            labels[start + r] = leaf[node[r]]


class KMeansTree(Router):
    """A partition of the input space into the leaves of a tree of centres.

    Parameters
    ----------
    centres : (n_nodes, d) float32
        The root comes first; its centre is not used.
    first, n_children : (n_nodes,) int64
        The children of a node are the `n_children` nodes from `first` on; a leaf has none.

    Attributes
    ----------
    n_features, n_leaves : int
    """

    def __init__(self, centres: np.ndarray, first: np.ndarray, n_children: np.ndarray) -> None:
        self.n_features, self.first, self.n_children = centres.shape[1], first, n_children
        # The centre of each first child, and the differences of its siblings' centres from it.
        planes = np.pad(centres, [(0, 0), (0, -centres.shape[1] % LANES)]).astype(np.float32)
        self.halves = np.zeros(len(centres), np.float32)
        for node in np.flatnonzero(n_children):
            siblings = slice(first[node] + 1, first[node] + n_children[node])
            planes[siblings] -= planes[first[node]]
            self.halves[siblings] = 0.5 * (planes[siblings].astype(np.float64) ** 2).sum(axis=1)
        self.planes = aligned(planes.ravel()).reshape(planes.shape)
        self.n_leaves = int((n_children == 0).sum())
        self.leaf = np.where(n_children == 0, np.cumsum(n_children == 0) - 1, -1).astype(np.int64)

    @property
    def nbytes(self) -> int:
        arrays = (self.planes, self.halves, self.first, self.n_children, self.leaf)
        return sum(array.nbytes for array in arrays)

    @property
    def centres(self) -> np.ndarray:
        """(n_nodes, d) float32"""
        centres = self.planes[:, : self.n_features].copy()
        for node in np.flatnonzero(self.n_children):
            origin = self.first[node]
            centres[origin + 1 : origin + self.n_children[node]] += centres[origin]
        return centres

    def distances(self) -> np.ndarray:
        """Number of distances on the way to each leaf; (n_leaves,)."""
        counts = np.zeros(len(self.first))
        for node in np.flatnonzero(self.n_children):
            children = slice(self.first[node], self.first[node] + self.n_children[node])
            counts[children] = counts[node] + self.n_children[node]
        return counts[self.n_children == 0]

    def divided(self, leaf: int, subtree: "KMeansTree") -> "KMeansTree":
        """Return the tree with `subtree` in place of a leaf; rows of other leaves stay in them.

        The leaves after `leaf` are renumbered down by 1, and the leaves of `subtree` come last.
        """
        (node,) = np.flatnonzero(self.leaf == leaf)
        tree, n = KMeansTree.__new__(KMeansTree), len(self.first)
        tree.n_features, tree.n_leaves = self.n_features, self.n_leaves + subtree.n_leaves - 1
        tree.n_children = np.concatenate([self.n_children, subtree.n_children[1:]])
        tree.first = np.concatenate([self.first, subtree.first[1:] + n - 1])
        tree.n_children[node], tree.first[node] = subtree.n_children[0], subtree.first[0] + n - 1
        tree.halves = np.concatenate([self.halves, subtree.halves[1:]])
        planes = np.concatenate([self.planes, subtree.planes[1:]])
        tree.planes = aligned(planes.ravel()).reshape(planes.shape)
        is_leaf = tree.n_children == 0
        tree.leaf = np.where(is_leaf, np.cumsum(is_leaf) - 1, -1).astype(np.int64)
        return tree

    def assign(self, X: Any) -> np.ndarray:
        """Leaf of rows X : (u, d) array or CSR; (u,) int64.

        O(u d b log K) time and the memory of a batch of rows; distances are float32.

        Raises
        ------
        ValueError
            The rows have another number of features than the tree.
        """
        if not self.fits(X.shape[1]):
            raise ValueError(f"X has {X.shape[1]} features, the tree has {self.n_features}")
        labels = np.empty(X.shape[0], np.int64)
        for start in range(0, len(labels), _BATCH):
            rows = X[start : start + _BATCH]
            rows = rows.toarray() if sp.issparse(rows) else rows
            self.route(np.ascontiguousarray(rows, np.float32), labels[start : start + _BATCH])
        return labels

    def fits(self, n_features: int) -> bool:
        """Whether the tree is for rows of `n_features`."""
        return self.n_features == n_features

    def route(self, X: np.ndarray, labels: np.ndarray) -> None:
        """Write the leaves of C-contiguous float32 rows into labels : (u,) int64."""
        _descend(X, self.planes, self.halves, self.first, self.n_children, self.leaf, labels)

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        d = check_whole(self, "n_features", 1, MAX_FEATURES)
        padded_d = -(-d // LANES) * LANES
        lengths = check_arrays(
            self,
            in_c_order=True,
            first="i8 n",
            n_children="i8 n",
            halves="f4 n",
            leaf="i8 n",
            planes=f"f4 n {padded_d}",
        )
        n, is_inner = lengths["n"], self.n_children != 0
        check_indices(self.n_children, n + 1, "n_children")
        nodes = np.flatnonzero(is_inner)
        check_indices(self.first, n + 1, "first")
        require(np.all(self.first[nodes] > nodes), "children should come after their node")
        require(
            np.all(self.first[nodes] + self.n_children[nodes] <= n),
            "children should be nodes of the tree",
        )
        require(
            np.array_equal(self.leaf, np.where(is_inner, -1, np.cumsum(~is_inner) - 1)),
            "leaves should be numbered in the order of the nodes",
        )
        check_whole(self, "n_leaves", n - len(nodes), n - len(nodes))


def kmeans_tree(
    X: Any, n_leaves: int, rng: np.random.RandomState, *, branching: int = 4, max_iter: int = 10
) -> KMeansTree:
    """Split the leaf with the most rows by k-means until there are `n_leaves`.

    Parameters
    ----------
    X : (n, d) array or CSR
    n_leaves : int
        Number of leaves; there are fewer if rows coincide.
    rng : RandomState
        Draws the rows on which k-means is computed.
    branching : int
        Children of a node; the last split may have fewer, so that there are exactly `n_leaves`.
    max_iter : int
        Bound on the iterations of each k-means. The defaults are set by hand.

    Notes
    -----
    O(n d b log K) time.
    """
    centres: list[np.ndarray] = [np.zeros(X.shape[1], np.float32)]
    first, n_children = [0], [0]
    heap = [(-X.shape[0], 0)]
    members = {0: np.arange(X.shape[0])}
    n_missing = n_leaves - 1
    while heap and n_missing > 0:
        _, node = heapq.heappop(heap)
        rows = members.pop(node)
        node_rows = X[rows]
        sample = rng.permutation(len(rows))[:_SAMPLE_SIZE]
        k = min(branching, n_missing + 1)
        centroids, labels = sampled_kmeans(node_rows, k, sample, max_iter=max_iter)
        if centroids.n_clusters == 1:
            continue
        first[node], n_children[node] = len(centres), centroids.n_clusters
        n_missing -= centroids.n_clusters - 1
        for cluster, mean in enumerate(centroids.means):
            child, child_rows = len(centres), rows[labels == cluster]
            centres.append(mean.astype(np.float32))
            first.append(0)
            n_children.append(0)
            if len(child_rows) > 1:
                members[child] = child_rows
                heapq.heappush(heap, (-len(child_rows), child))
    return KMeansTree(np.array(centres), np.array(first, np.int64), np.array(n_children, np.int64))
