"""Exact splitting of a problem into groups between which no kernel value can be seen.

If every point of a group has a distance of at least R from all others, and the coefficients of the
others sum to at most A, then what the others contribute to its residual is at most

    A max {k(x, z) : d(x, z) >= R}  <=  A exp(-gamma R^p),    d the p-norm, p = 2 (Gaussian) or 1

With R = (log(A / slack) / gamma)^(1/p) that is below `slack`: groups solved one by one to
tol - slack are the whole problem solved to tol.

Two bounds on distances find groups:

- a gap of at least R in a single feature: the distance is at least its width;
- boxes around clusters: d(x, z)^p >= sum_j gap_j^p, gap_j the gap between two boxes in feature j.
  Clusters whose boxes are closer than R are joined, and what is left apart are groups.
"""

import math

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from kbench.kernels import KernelMatrix
from kbench.kernels.exponential import Exponential

# Points that are looked at first: where they hang together, so do nearly all.
_SAMPLE = 500
_POINTS_PER_CLUSTER = 8
_LLOYD_STEPS = 3
_CHUNK = 4096
_MOST_LABELS = 2**62


def independent_groups(
    kernel: KernelMatrix, total: float, slack: float, least: int = 1
) -> list[np.ndarray]:
    """Groups of points that do not see one another; empty where there is but one.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    total : float
        Bound on the sum of the coefficients.
    slack : float
        What may be neglected of a residual.
    least : int
        Groups of fewer points are put together: apart they may take more time than their points.

    Returns
    -------
    list of index arrays
        A partition of the n points. O(n log n) for each feature whose range is at least R, and
        O(n d) for the clusters where a sample of the points does not hang together.
    """
    X, function = kernel.X, kernel.kernel
    if not isinstance(function, Exponential) or sp.issparse(X) or total <= slack:
        return []
    power = function.power
    reach = math.log(total / slack) / function.gamma  # R^p
    radius, layout = reach ** (1.0 / power), function.layout
    label = np.zeros(len(X), np.intp)
    # No feature ranges over more than this.
    if layout is None or max(2.0 * layout.spread, layout.gap) >= radius:
        label = _by_gaps(X, radius)
    if not label.any():
        label = _by_boxes(X, reach, power)
    if label.any():
        label = _bundled(label, least)
    if not label.any():
        return []
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _bundled(label: np.ndarray, least: int) -> np.ndarray:
    """Number of each point's group, from 0, once those of fewer than `least` are put together."""
    sizes = np.bincount(label)
    few = sizes < least
    before = np.cumsum(np.where(few, sizes, 0)) - sizes
    bundle = np.where(few, before // least, len(label) + np.arange(len(sizes)))
    return np.unique(bundle[label], return_inverse=True)[1]


def _by_gaps(X: np.ndarray, radius: float) -> np.ndarray:
    """Number of each point's group; (n,)."""
    label, n_labels = np.zeros(len(X), np.int64), 1
    for j in np.flatnonzero(X.max(axis=0) - X.min(axis=0) >= radius):
        values = np.ascontiguousarray(X[:, j])
        ordered = np.sort(values)
        last = ordered[:-1][np.diff(ordered) >= radius]
        if len(last):
            if n_labels > _MOST_LABELS // (len(last) + 1):
                seen, label = np.unique(label, return_inverse=True)
                n_labels = len(seen)
            n_labels *= len(last) + 1
            label = label * (len(last) + 1) + np.searchsorted(last, values)
    return np.unique(label, return_inverse=True)[1] if n_labels > 1 else label


def _by_boxes(X: np.ndarray, reach: float, power: int) -> np.ndarray:
    """The same from the boxes of clusters; `reach` is R^p."""
    metric = "sqeuclidean" if power == 2 else "cityblock"
    sample = X[np.linspace(0, len(X) - 1, min(_SAMPLE, len(X))).astype(np.intp)]
    if (cdist(sample[:1], sample, metric) < reach).all():
        return np.zeros(len(X), np.intp)
    n_parts, part = connected_components(cdist(sample, sample, metric) < reach, directed=False)
    if n_parts == 1:
        return np.zeros(len(X), np.intp)
    # Every part of the sample gets its share of the clusters.
    seeds = sample[np.argsort(part, kind="stable")][::_POINTS_PER_CLUSTER]
    for _ in range(_LLOYD_STEPS):
        nearest = cdist(sample, seeds, metric).argmin(axis=1)
        seeds = np.array([sample[nearest == c].mean(axis=0) for c in np.unique(nearest)])
    cluster = np.empty(len(X), np.intp)
    for start in range(0, len(X), _CHUNK):
        rows = slice(start, start + _CHUNK)
        cluster[rows] = cdist(X[rows], seeds, metric).argmin(axis=1)
    used, cluster = np.unique(cluster, return_inverse=True)
    low = np.array([X[cluster == c].min(axis=0) for c in range(len(used))])
    high = np.array([X[cluster == c].max(axis=0) for c in range(len(used))])
    gaps = np.maximum(low[:, None] - high, low - high[:, None]).clip(0.0)
    joined = connected_components((gaps**power).sum(axis=2) < reach, directed=False)[1]
    return joined[cluster]
