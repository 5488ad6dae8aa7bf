"""Weighted k-means: landmarks where a kernel machine has its large coefficients.

Si, Hsieh and Dhillon, "Fast Prediction for Large-Scale Kernel Machines" (NIPS 2014), section 4:
with the weights w_i = a_i^2 of a trained machine, the approximation error of its landmark form is
bounded by

    D = sum_i w_i ||x_i - u_c(i)||^2,

which Lloyd's iteration lowers. Starts are drawn as in Arthur and Vassilvitskii, "k-means++" (SODA
2007), each row with its weight.
"""

import numpy as np

from kbench.clustering.kmeans import Centroids


def weighted_kmeans(
    X: np.ndarray,
    weights: np.ndarray,
    n_clusters: int,
    rng: np.random.RandomState,
    *,
    max_iter: int = 10,
) -> np.ndarray:
    """Centres that are weighted means of their rows.

    Parameters
    ----------
    X : (n, d) array
    weights : (n,), >= 0, not all zero
        Rows of weight zero have no influence.
    n_clusters : int
    rng : RandomState
        Of the first centres.
    max_iter : int

    Returns
    -------
    (k, d) array of the dtype of X
        k <= n_clusters: no more than distinct rows of positive weight.

    Notes
    -----
    O(n k d) time for the start and for each iteration, O(n d) memory.
    """
    kept = weights > 0
    X, weights = X[kept], weights[kept].astype(np.float64)
    weights /= weights.max()
    centres = _spread(X, weights, n_clusters, rng)
    labels = None
    for _ in range(max_iter):
        new = Centroids(centres).assign(X)
        if labels is not None and np.array_equal(new, labels):
            break
        labels = new
        order = np.argsort(labels, kind="stable")
        occupied, starts = np.unique(labels[order], return_index=True)
        mass = weights[order]
        sums = np.add.reduceat(X[order] * mass[:, None], starts, axis=0)
        # A centre that lost its rows stays where it was.
        centres[occupied] = sums / np.add.reduceat(mass, starts)[:, None]
    return centres


def _spread(
    X: np.ndarray, weights: np.ndarray, n_clusters: int, rng: np.random.RandomState
) -> np.ndarray:
    """First centres: each with probability proportional to weight x squared distance from them."""
    chosen = [_draw(weights, rng)]
    nearest = np.full(len(X), np.inf)
    while len(chosen) < min(n_clusters, len(X)):
        nearest = np.minimum(nearest, ((X - X[chosen[-1]]) ** 2).sum(axis=1))
        if not np.any(nearest > 0):
            break
        chosen.append(_draw(weights * nearest, rng))
    return X[chosen]


def _draw(mass: np.ndarray, rng: np.random.RandomState) -> int:
    total = np.cumsum(mass)
    # "right": a row without mass is never drawn.
    return min(int(np.searchsorted(total, rng.uniform(0.0, total[-1]), "right")), len(mass) - 1)
