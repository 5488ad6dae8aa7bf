"""Weighted k-means: landmarks near the rows with large coefficients of a kernel machine.

Hsieh, Si and Dhillon, "Fast Prediction for Large-Scale Kernel Machines" (NIPS 2014), section 4:
with the weights w_i = a_i^2 of a trained model, the error of its approximation by landmarks is
bounded in terms of

    D = sum_i w_i ||x_i - u_c(i)||^2,

which Lloyd's iteration decreases. Initial centres are drawn as in k-means++ (Arthur and
Vassilvitskii, SODA 2007), with probabilities multiplied by the weights of the rows.
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
    """Return centres that are weighted means of their rows.

    Parameters
    ----------
    X : (n, d) array
    weights : (n,), >= 0, not all zero
        Rows of weight zero have no influence.
    n_clusters : int
    rng : RandomState
        Draws the initial centres.
    max_iter : int
        Bound on Lloyd's iterations, each of which lowers D and takes O(n k d) time; the default is
        set by hand.

    Returns
    -------
    (k, d) array of the dtype of X
        k <= n_clusters, at most the number of distinct rows of positive weight.

    Notes
    -----
    O(n k d) time for the initial centres and for each iteration, O(n d) memory.
    """
    positive = weights > 0
    X, weights = X[positive], weights[positive].astype(np.float64)
    weights /= weights.max()
    centres = _initial_centres(X, weights, n_clusters, rng)
    labels = None
    for _ in range(max_iter):
        new_labels = Centroids(centres).assign(X)
        if labels is not None and np.array_equal(new_labels, labels):
            break
        labels = new_labels
        order = np.argsort(labels, kind="stable")
        occupied, starts = np.unique(labels[order], return_index=True)
        sorted_weights = weights[order]
        sums = np.add.reduceat(X[order] * sorted_weights[:, None], starts, axis=0)
        # A centre that loses all its rows keeps its position.
        centres[occupied] = sums / np.add.reduceat(sorted_weights, starts)[:, None]
    return centres


def _initial_centres(
    X: np.ndarray, weights: np.ndarray, n_clusters: int, rng: np.random.RandomState
) -> np.ndarray:
    """Draw rows by weight times squared distance to the nearest of the rows drawn before."""
    rows = [_draw(weights, rng)]
    nearest = np.full(len(X), np.inf)
    while len(rows) < min(n_clusters, len(X)):
        nearest = np.minimum(nearest, ((X - X[rows[-1]]) ** 2).sum(axis=1))
        if not np.any(nearest > 0):
            break
        rows.append(_draw(weights * nearest, rng))
    return X[rows]


def _draw(mass: np.ndarray, rng: np.random.RandomState) -> int:
    """Draw an index with probabilities proportional to mass : (n,)."""
    cumulative = np.cumsum(mass)
    # With side="right" an index with mass 0 is never drawn.
    return min(
        int(np.searchsorted(cumulative, rng.uniform(0.0, cumulative[-1]), "right")), len(mass) - 1
    )
