"""Binary cluster trees: points are bisected until leaves are small, and numbered leaf by leaf.

A rule orders the points of a node, as in STRUMPACK's `binary_tree_clustering` (Rebrova et al., "A
Study of Clustering Techniques and Hierarchical Matrix Formats for Kernel Ridge Regression", IPDPSW
2018):

- 2means: along the line between two centres of Lloyd's iteration;
- kd: along the coordinate of the largest range;
- pca: along the first eigenvector of P'P, not centred;
- cobble: by the distance from the point that is farthest from the centroid;
- natural: by their row numbers;
- random: along a Gaussian direction, for the search of neighbours.

All rules split at the median, except for 2-means, which by default splits halfway between the
centres: leaves then differ in size, and blocks between siblings have lower ranks than with medians.
CSR rows stay sparse.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul

# Largest number of a node's rows from which centres and directions are computed: more rows make a
# split more precise and take more time. Set by hand.
_SAMPLE_SIZE = 2000
# Largest number of Lloyd iterations of a 2-means split, which need not converge. Set by hand.
_LLOYD_ITERATIONS = 10
# Iterations of the power method: more bring `pca` nearer to the first eigenvector and take more
# time. Set by hand.
_POWER_ITERATIONS = 30
# Each side of a split gets at least 1/32 of the points, which bounds the depth by O(log n). A
# larger fraction makes shallower trees and moves more splits away from the gap. Set by hand.
_MAX_IMBALANCE = 32


@dataclass(frozen=True)
class Split:
    """A node's hyperplane or sphere: rows whose value is at or above the threshold go right."""

    vector: np.ndarray  # (d,)
    threshold: float
    by_distance: bool = False  # Whether the value is ||x - vector||^2 instead of <x, vector>

    def values(self, X: Any) -> np.ndarray:
        """Values that are compared with the threshold, of rows X : (m, d); (m,)."""
        return squared_distances(X, self.vector) if self.by_distance else matmul(X, self.vector)


@dataclass(frozen=True)
class ClusterTree:
    """Nodes in postorder: children before parents, left before right, the root last.

    Attributes
    ----------
    permutation : (n,) ints
        Index of the original point at each position.
    start, stop : (nodes,) ints
        Node i holds the positions start[i] .. stop[i] - 1.
    left, right : (nodes,) ints
        Children; -1 for leaves.
    level : (nodes,) ints
        Distance from the root.
    splits : list of Split or None
        For each node; None for leaves and in the natural order.
    """

    permutation: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    left: np.ndarray
    right: np.ndarray
    level: np.ndarray
    splits: list[Split | None]

    def __len__(self) -> int:
        return len(self.start)

    @property
    def leaves(self) -> np.ndarray:
        """Nodes without children, from left to right."""
        return np.flatnonzero(self.left < 0)

    @property
    def nbytes(self) -> int:
        arrays = (self.permutation, self.start, self.stop, self.left, self.right, self.level)
        vectors = (split.vector.nbytes for split in self.splits if split is not None)
        return sum(array.nbytes for array in arrays) + sum(vectors)

    def assign(self, X: Any) -> np.ndarray:
        """Leaf (node number) of rows X : (u, d); (u,). O(u d depth).

        Raises
        ------
        ValueError
            The tree has the natural order, which is not defined for other rows.
        """
        labels = np.empty(X.shape[0], np.intp)
        stack = [(len(self) - 1, np.arange(X.shape[0]))]
        while stack:
            node, rows = stack.pop()
            if self.left[node] < 0:
                labels[rows] = node
                continue
            split = self.splits[node]
            if split is None:
                raise ValueError("a tree in the natural order cannot place new rows")
            goes_right = split.values(X[rows]) >= split.threshold
            stack.append((int(self.left[node]), rows[~goes_right]))
            stack.append((int(self.right[node]), rows[goes_right]))
        return labels


def cluster_tree(
    X: Any,
    leaf_size: int,
    rng: np.random.RandomState,
    *,
    rule: str = "2means",
    balanced: bool = False,
) -> ClusterTree:
    """Bisect rows until nodes have fewer than `leaf_size` rows.

    Parameters
    ----------
    X : (n, d) array or CSR
    leaf_size : int, >= 2
    rng : RandomState
    rule : {"2means", "kd", "pca", "cobble", "natural", "random"}
    balanced : bool
        Whether 2-means splits at the median as well.

    Returns
    -------
    ClusterTree

    Notes
    -----
    O(n d log(n / leaf_size)) time, and the memory of one copy of X.
    """
    split_rows = _RULES[rule]
    n = X.shape[0]
    if X.dtype == np.float32 and not 1e-15 < max(X.max(), -X.min()) < 1e15:
        # Guard: float32 squares would overflow (3e38) or underflow (1e-38).
        X = X.astype(np.float64)
    permutation = np.arange(n)
    # Nodes in the order root, right, left; reversed, this is the postorder.
    visited: list[tuple[int, int, int, Split | None, bool]] = []
    stack = [(0, n, 0)]
    while stack:
        start, stop, level = stack.pop()
        size, split = stop - start, None
        is_leaf = size < leaf_size
        if not is_leaf:
            members = permutation[start:stop]
            rows = X[members] if rule != "natural" else None
            split, threshold = split_rows(rows, rng)
            values = np.arange(size) if split is None else split.values(rows)
            middle = size // 2
            if not balanced and threshold is not None:
                n_left = int(np.count_nonzero(values < threshold))
                min_size = size // _MAX_IMBALANCE
                middle = min(max(n_left, min_size, 1), size - min_size - 1)
            order = values if split is None else np.argpartition(values, middle)
            permutation[start:stop] = members[order]
            if split is not None:
                split = Split(split.vector, float(values[order[middle]]), split.by_distance)
            stack.append((start, start + middle, level + 1))
            stack.append((start + middle, stop, level + 1))
        visited.append((start, stop, level, split, is_leaf))
    return _postorder(permutation, visited[::-1])


def squared_distances(X: Any, centre: np.ndarray) -> np.ndarray:
    """||x - centre||^2 of rows X : (m, d), dense or CSR; (m,)."""
    if not sp.issparse(X):
        difference = X - centre
        return np.einsum("ij,ij->i", difference, difference)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.maximum(squares - 2.0 * matmul(X, centre) + matmul(centre, centre), 0.0)


def _postorder(
    permutation: np.ndarray, nodes: list[tuple[int, int, int, Split | None, bool]]
) -> ClusterTree:
    left, right = np.full(len(nodes), -1), np.full(len(nodes), -1)
    subtree_roots: list[int] = []
    for i, (_, _, _, _, is_leaf) in enumerate(nodes):
        if not is_leaf:
            right[i], left[i] = subtree_roots.pop(), subtree_roots.pop()
        subtree_roots.append(i)
    start, stop, level = (np.array([node[k] for node in nodes]) for k in range(3))
    return ClusterTree(permutation, start, stop, left, right, level, [node[3] for node in nodes])


# A rule returns a split, whose threshold `cluster_tree` replaces, and the threshold of an
# unbalanced split; None stands for the median.
_SplitAndThreshold = tuple[Split | None, float | None]


def _two_means(rows: Any, rng: np.random.RandomState) -> _SplitAndThreshold:
    sample = _sample(rows, rng)
    m = sample.shape[0]
    first = _row(sample, rng.randint(m))
    distances = squared_distances(sample, first).astype(np.float64)
    total = distances.sum()
    second = _row(sample, rng.choice(m, p=distances / total)) if total > 0 else first
    previous = np.zeros(0, bool)
    for _ in range(_LLOYD_ITERATIONS):
        direction = second - first
        goes_right = matmul(sample, direction) >= 0.5 * matmul(first + second, direction)
        n_right = int(np.count_nonzero(goes_right))
        if n_right in (0, m) or np.array_equal(goes_right, previous):
            break
        sums = matmul(np.stack([~goes_right, goes_right]).astype(sample.dtype), sample)
        first, second = sums[0] / (m - n_right), sums[1] / n_right
        previous = goes_right
    direction = second - first
    return Split(direction, 0.0), float(0.5 * matmul(first + second, direction))


def _kd(rows: Any, rng: np.random.RandomState) -> _SplitAndThreshold:
    extent = rows.max(axis=0) - rows.min(axis=0)
    extent = extent.toarray().ravel() if sp.issparse(extent) else extent
    direction = np.zeros(rows.shape[1], rows.dtype)
    direction[np.argmax(extent)] = 1.0
    return Split(direction, 0.0), None


def _pca(rows: Any, rng: np.random.RandomState) -> _SplitAndThreshold:
    sample = _sample(rows, rng)
    direction = rng.standard_normal(rows.shape[1]).astype(rows.dtype)
    for _ in range(_POWER_ITERATIONS):
        direction = matmul(matmul(sample, direction), sample)
        norm = np.linalg.norm(direction)
        if norm == 0.0:
            break
        direction /= norm
    return Split(direction, 0.0), None


def _cobble(rows: Any, rng: np.random.RandomState) -> _SplitAndThreshold:
    farthest = int(np.argmax(squared_distances(rows, _mean(rows))))
    return Split(_row(rows, farthest), 0.0, by_distance=True), None


def _random(rows: Any, rng: np.random.RandomState) -> _SplitAndThreshold:
    return Split(rng.standard_normal(rows.shape[1]).astype(rows.dtype), 0.0), None


_RULES: dict[str, Callable[[Any, np.random.RandomState], _SplitAndThreshold]] = {
    "2means": _two_means,
    "kd": _kd,
    "pca": _pca,
    "cobble": _cobble,
    "natural": lambda rows, rng: (None, None),
    "random": _random,
}


def _sample(rows: Any, rng: np.random.RandomState) -> Any:
    m = rows.shape[0]
    return rows if m <= _SAMPLE_SIZE else rows[rng.choice(m, _SAMPLE_SIZE, replace=False)]


def _row(rows: Any, i: int) -> np.ndarray:
    return rows[[i]].toarray().ravel() if sp.issparse(rows) else rows[i].copy()


def _mean(rows: Any) -> np.ndarray:
    return np.asarray(rows.mean(axis=0)).ravel()
