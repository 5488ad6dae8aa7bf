"""Approximate nearest neighbours from random projection trees.

Dasgupta and Freund, "Random Projection Trees and Low Dimensional Manifolds" (STOC 2008), as used by
HSS compression (Chavez, Liu, Ghysels, Li and Rebrova, "Scalable and Memory-Efficient Kernel Ridge
Regression", IPDPS 2020): neighbours are exact within the leaves of a random tree, and the best over
several trees are kept, until a sample shows enough of them to be true.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.clustering.cluster_tree import cluster_tree
from kbench.kernels.functions import csr_rows, squared_norms
from kbench.kernels.sparse import products

# Up to here every pair of points is compared.
_BRUTE_FORCE = 4096
_LEAF = 256
_CHECKED = 100
_BLOCK = 1024


def nearest_neighbours(
    X: Any,
    n_neighbours: int,
    rng: np.random.RandomState,
    *,
    max_trees: int = 6,
    recall: float = 0.99,
) -> np.ndarray:
    """Near points of each point, in no order, itself among them.

    Parameters
    ----------
    X : (n, d) array or CSR
    n_neighbours : int
        k; all n where there are fewer.
    rng : RandomState
    max_trees : int
    recall : float
        Share of true neighbours, on 100 sampled points, at which to stop before `max_trees`. Points
        as near as the k-th true neighbour count, so that duplicates do no harm.

    Returns
    -------
    (n, k) int32

    Notes
    -----
    A tree costs O(n (d + 1) (k + 256)), the check 100 n d; memory O(n (d + k)). Exact for up to
    4,096 points.
    """
    n = X.shape[0]
    k = min(n_neighbours, n)
    points = _Points(X)
    ids = np.full((n, k), -1, np.int32)
    best = np.full((n, k), np.inf, np.float32)
    mark = np.full(n, -1, np.int64)
    everything = np.arange(n)
    if n <= _BRUTE_FORCE:
        for first in range(0, n, _BLOCK):
            rows = everything[first : first + _BLOCK]
            _merge(points.distances(rows, everything), rows, everything, ids, best, mark)
        return ids
    checked = rng.choice(n, _CHECKED, replace=False)
    # The k-th smallest, itself at distance -1 included.
    exact = np.partition(points.distances(checked, everything), k - 1, axis=1)[:, k - 1]
    # A leaf of at least half of this size has a full table.
    leaf_size = max(_LEAF, 4 * k)
    for _ in range(max_trees):
        tree = cluster_tree(points.rows, leaf_size, rng, rule="random")
        mark[:] = -1
        for leaf in tree.leaves:
            members = tree.permutation[tree.start[leaf] : tree.stop[leaf]]
            for first in range(0, len(members), _BLOCK):
                rows = members[first : first + _BLOCK]
                _merge(points.distances(rows, members), rows, members, ids, best, mark)
        limit = exact + 1e-4 * np.abs(exact)
        if np.mean(best[checked] <= limit[:, None]) >= recall:
            break
    return ids


class _Points:
    """Rows in float32, dense ones centred, whose squared distances are products."""

    def __init__(self, X: Any) -> None:
        if sp.issparse(X):
            self.rows = csr_rows(X).astype(np.float32)
        else:
            self.rows = (X - X.mean(axis=0, dtype=np.float64)).astype(np.float32)
        self._norms = squared_norms(self.rows).astype(np.float32)

    def distances(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Squared distances, -1 from a point to itself; (a, b) float32."""
        A, B = self.rows[left], self.rows[right]
        if sp.issparse(A):
            values = np.empty((len(left), len(right)), np.float32)
            products(A, B, values)
            norms_a, norms_b = self._norms[left], self._norms[right]
        else:
            # Close to the origin little is lost where norms and product cancel.
            centre = A.mean(axis=0)
            A, B = A - centre, B - centre
            values = A @ B.T
            norms_a, norms_b = (np.einsum("ij,ij->i", M, M) for M in (A, B))
        values *= -2.0
        values += norms_a[:, None]
        values += norms_b
        np.maximum(values, 0.0, out=values)
        values[left[:, None] == right] = -1.0
        return values


@njit(cache=True, nogil=True)
def _merge(distances, rows, columns, ids, best, mark):
    """Keep the nearest of ids[rows] and `columns`, given their distances : (a, b)."""
    k, n_columns = ids.shape[1], columns.shape[0]
    near, who = np.empty(k + n_columns, np.float32), np.empty(k + n_columns, np.int32)
    for i in range(rows.shape[0]):
        row = rows[i]
        count, worst = 0, np.float32(-2.0)
        for q in range(k):
            if ids[row, q] >= 0:
                near[count], who[count] = best[row, q], ids[row, q]
                mark[who[count]] = row
                worst = max(worst, near[count])
                count += 1
        full = count == k
        for j in range(n_columns):
            d = distances[i, j]
            if (not full or d < worst) and mark[columns[j]] != row:
                near[count], who[count] = d, columns[j]
                count += 1
        _select(near, who, count, k)
        for q in range(min(k, count)):
            best[row, q], ids[row, q] = near[q], who[q]


@njit(cache=True, nogil=True)
def _select(values, who, count, k):
    """Bring the k smallest of values[:count] to the front (Hoare's selection)."""
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
                who[i], who[j] = who[j], who[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            return
