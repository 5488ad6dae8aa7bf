"""Approximate nearest neighbours from random projection trees.

Dasgupta and Freund, "Random Projection Trees and Low Dimensional Manifolds" (STOC 2008), as used by
HSS compression (Chavez, Liu, Ghysels, Li and Rebrova, "Scalable and Memory-Efficient Kernel Ridge
Regression", IPDPS 2020): neighbours are exact within the leaves of a random tree. Trees are added,
and the nearest points of all trees kept, until the recall on a sample of points is high enough.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.clustering.cluster_tree import cluster_tree
from kbench.intrinsics.products import matmul
from kbench.kernels.kernel import csr_rows, squared_norms
from kbench.kernels.origin import origin_of
from kbench.kernels.sparse import products

# Up to this number of points all pairs are compared, exactly and in O(n^2 d). Set by hand.
EXACT_ROWS = 4096
# Smallest `leaf_size` of a tree: with larger leaves fewer trees reach the recall, but the time of a
# tree grows in proportion. Set by hand.
_MIN_LEAF_SIZE = 256
# Number of points whose true neighbours are computed to measure the recall. Each has k neighbours,
# so the standard error at a recall of 0.99 is below 1 %. Set by hand.
_N_CHECKED = 100
_ROUNDING = 1e-4  # guard: relative difference between two float32 computations of a distance
# Rows of a block of distances: more rows take more memory, fewer cost more calls. Set by hand.
_BLOCK_ROWS = 1024


def nearest_neighbours(
    X: Any,
    n_neighbours: int,
    rng: np.random.RandomState,
    *,
    max_trees: int = 6,
    recall: float = 0.99,
) -> np.ndarray:
    """Approximately nearest points of each point, itself included, in no particular order.

    Parameters
    ----------
    X : (n, d) array or CSR
    n_neighbours : int
        k; at most n.
    rng : RandomState
    max_trees : int
        Bound on the number of random trees.
    recall : float
        Stop before `max_trees` once this fraction of the true neighbours of 100 sampled points is
        found. A point as near as the k-th true neighbour counts as true, because of ties. The
        defaults are set by hand.

    Returns
    -------
    (n, k) int32

    Notes
    -----
    O(n (d + 1) (k + 256)) time for each tree and O(100 n d) for each estimate of the recall;
    O(n (d + k)) memory. Exact for up to 4,096 points.
    """
    n = X.shape[0]
    k = min(n_neighbours, n)
    points = _Points(X)
    ids = np.full((n, k), -1, np.int32)
    nearest = np.full((n, k), np.inf, np.float32)
    mark = np.full(n, -1, np.int64)
    all_points = np.arange(n)
    if n <= EXACT_ROWS:
        for start in range(0, n, _BLOCK_ROWS):
            rows = all_points[start : start + _BLOCK_ROWS]
            _merge(points.distances(rows, all_points), rows, all_points, ids, nearest, mark)
        return ids
    checked = rng.choice(n, _N_CHECKED, replace=False)
    # The k-th smallest distance; the point itself counts, at distance -1.
    kth_distances = np.partition(points.distances(checked, all_points), k - 1, axis=1)[:, k - 1]
    # A leaf has at least half of this number of points, so at least 2 k.
    leaf_size = max(_MIN_LEAF_SIZE, 4 * k)
    for _ in range(max_trees):
        tree = cluster_tree(points.rows, leaf_size, rng, rule="random")
        mark[:] = -1
        for leaf in tree.leaves:
            members = tree.permutation[tree.start[leaf] : tree.stop[leaf]]
            for start in range(0, len(members), _BLOCK_ROWS):
                rows = members[start : start + _BLOCK_ROWS]
                _merge(points.distances(rows, members), rows, members, ids, nearest, mark)
        limit = kth_distances + _ROUNDING * np.abs(kth_distances)
        if np.mean(nearest[checked] <= limit[:, None]) >= recall:
            break
    return ids


class _Points:
    """Rows in float32 (centred if dense), and their squared distances by matrix products."""

    def __init__(self, X: Any) -> None:
        if sp.issparse(X):
            self.rows = csr_rows(X).astype(np.float32)
        else:
            self.rows = (X - origin_of(X)).astype(np.float32)
        self._norms = squared_norms(self.rows).astype(np.float32)

    def distances(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Squared distances between points left : (a,) and right : (b,), -1 from a point to itself.

        Returns (a, b) float32.
        """
        A, B = self.rows[left], self.rows[right]
        if sp.issparse(A):
            values = np.empty((len(left), len(right)), np.float32)
            products(A, B, values)
            norms_a, norms_b = self._norms[left], self._norms[right]
        else:
            # Centring the block limits the digits that cancel between norms and products.
            centre = A.mean(axis=0)
            A, B = A - centre, B - centre
            values = matmul(A, B.T)
            norms_a, norms_b = (np.einsum("ij,ij->i", M, M) for M in (A, B))
        values *= -2.0
        values += norms_a[:, None]
        values += norms_b
        np.maximum(values, 0.0, out=values)
        values[left[:, None] == right] = -1.0
        return values


@njit(cache=True, nogil=True)
def _merge(distances, rows, columns, ids, nearest, mark):
    """Replace ids[rows] by the k nearest of these points and of `columns`.

    distances : (a, b), between the points rows : (a,) and columns : (b,).

    ids, nearest : (n, k), neighbours so far (-1 for none) and their distances, changed in place.
    mark : (n,), scratch memory in which mark[j] == row says that j is among the neighbours of row.
    """
    k, n_columns = ids.shape[1], columns.shape[0]
    near, points = np.empty(k + n_columns, np.float32), np.empty(k + n_columns, np.int32)
    for i in range(rows.shape[0]):
        row = rows[i]
        count, worst = 0, np.float32(-2.0)
        for q in range(k):
            if ids[row, q] >= 0:
                near[count], points[count] = nearest[row, q], ids[row, q]
                mark[points[count]] = row
                worst = max(worst, near[count])
                count += 1
        is_full = count == k
        for j in range(n_columns):
            d = distances[i, j]
            if (not is_full or d < worst) and mark[columns[j]] != row:
                near[count], points[count] = d, columns[j]
                count += 1
        _select(near, points, count, k)
        for q in range(min(k, count)):
            nearest[row, q], ids[row, q] = near[q], points[q]


@njit(cache=True, nogil=True)
def _select(values, points, count, k):
    """Bring the k smallest of values[:count], with their points, to the front (quickselect)."""
    low, high = 0, count - 1
    while low < high and k < count:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                points[i], points[j] = points[j], points[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            return
