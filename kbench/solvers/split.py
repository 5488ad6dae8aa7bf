"""Exact decomposition into groups between which all kernel values together are below the tolerance.

If every point of a group has a distance of at least R from all others, and the coefficients of the
others sum to at most A, then the others contribute to its residual at most

    A max {k(x, z) : d(x, z) >= R}  <=  A exp(-gamma R^p),    d the p-norm, p = 2 (Gaussian) or 1

With R = (log(A / neglected) / gamma)^(1/p) that is at most `neglected`: groups solved one by one to
tol - neglected solve the whole problem to tol. This is the divide step of DC-SVM (Hsieh, Si and
Dhillon 2014), made exact.

Two lower bounds on distances find groups:

- a gap of at least R between consecutive values of a single feature;
- bounding boxes of clusters: d(x, z)^p >= sum_j gap_j^p, gap_j the gap between two boxes in feature
  j. Clusters whose boxes are closer than R are joined; the connected components are the groups.

Shows on covtype_30k and covtype_74k, whose one-hot columns separate 74 groups
(`scripts/ablate_svm.py`, `groups`).
"""

import math

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from kbench.kernels import KernelMatrix
from kbench.kernels.exponential import Exponential

# Points of a sample that is examined first (250,000 distances, 2 ms): if it is connected, there is
# no search for clusters.
_SAMPLE = 500
# Clusters are seeded with one of this many sampled points and improved by this many Lloyd steps:
# small clusters have tight bounding boxes, but each pair of boxes is compared.
_POINTS_PER_CLUSTER = 8
_LLOYD_STEPS = 3
# Rows whose distances to the cluster centres are computed at a time: memory against the overhead of
# a call. Set by hand.
_CHUNK = 4096
# Bound on the numbers of combined labels, so that they stay below 2^63.
_MOST_LABELS = 2**62


def independent_groups(
    kernel: KernelMatrix, total: float, neglected: float, least: int = 1
) -> list[np.ndarray]:
    """Find groups of points between which kernel values may be neglected; empty if there is one.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    total : float
        Bound on the sum of the coefficients' absolute values.
    neglected : float
        Error of the residual that may be neglected.
    least : int
        Smaller groups are combined: solving each has a fixed cost.

    Returns
    -------
    list of index arrays
        A partition of the n points. O(n log n) for each feature whose range is at least R, and
        O(n d n_clusters) for the clusters if a sample of the points is not connected.
    """
    X, function = kernel.X, kernel.kernel
    if not isinstance(function, Exponential) or sp.issparse(X) or total <= neglected:
        return []
    power = function.power
    reach = math.log(total / neglected) / function.gamma  # R^p
    radius, layout = reach ** (1.0 / power), function.layout
    label = np.zeros(len(X), np.intp)
    # An upper bound on the range of every feature.
    if layout is None or max(2.0 * layout.spread, layout.gap) >= radius:
        label = _by_gaps(X, radius)
    if not label.any():
        label = _by_boxes(X, reach, power)
    if label.any():
        label = _combined(label, least)
    if not label.any():
        return []
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _combined(label: np.ndarray, least: int) -> np.ndarray:
    """Return labels from 0 after groups of fewer than `least` points are combined; (n,)."""
    sizes = np.bincount(label)
    small = sizes < least
    before = np.cumsum(np.where(small, sizes, 0)) - sizes
    combined = np.where(small, before // least, len(label) + np.arange(len(sizes)))
    return np.unique(combined[label], return_inverse=True)[1]


def _by_gaps(X: np.ndarray, radius: float, most_labels: int = _MOST_LABELS) -> np.ndarray:
    """Return the label of each point's group, from gaps in single features; (n,)."""
    label, n_labels = np.zeros(len(X), np.int64), 1
    for j in np.flatnonzero(X.max(axis=0) - X.min(axis=0) >= radius):
        values = np.ascontiguousarray(X[:, j])
        ordered = np.sort(values)
        last = ordered[:-1][np.diff(ordered) >= radius]
        if len(last):
            if n_labels > most_labels // (len(last) + 1):
                used, label = np.unique(label, return_inverse=True)
                n_labels = len(used)
            n_labels *= len(last) + 1
            label = label * (len(last) + 1) + np.searchsorted(last, values)
    return np.unique(label, return_inverse=True)[1] if n_labels > 1 else label


def _by_boxes(X: np.ndarray, reach: float, power: int) -> np.ndarray:
    """Return the same from bounding boxes of clusters; `reach` is R^p."""
    metric = "sqeuclidean" if power == 2 else "cityblock"
    sample = X[np.linspace(0, len(X) - 1, min(_SAMPLE, len(X))).astype(np.intp)]
    if (cdist(sample[:1], sample, metric) < reach).all():
        return np.zeros(len(X), np.intp)
    n_components, component = connected_components(
        cdist(sample, sample, metric) < reach, directed=False
    )
    if n_components == 1:
        return np.zeros(len(X), np.intp)
    # Sorted, so that every component has seeds in proportion to its points.
    seeds = sample[np.argsort(component, kind="stable")][::_POINTS_PER_CLUSTER]
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
