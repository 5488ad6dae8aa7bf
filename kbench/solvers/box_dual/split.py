"""Exact decomposition into groups between which kernel values may be neglected at the tolerance.

If every point of a group is at a distance of at least R from all points of other groups, and the
absolute coefficients of these sum to at most A, they contribute to a residual in the group at most

    A max {k(x, z) : d(x, z) >= R}  <=  A exp(-gamma R^p),    d the p-norm, p = 2 (Gaussian) or 1

With R = (log(A / neglected) / gamma)^(1/p) this bound is `neglected`: groups solved one by one to
tol - neglected solve the whole problem to tol. This is the divide step of DC-SVM (Hsieh, Si and
Dhillon 2014), made exact.

Groups are found in two steps. The points are divided into sets, called boxes after their bounding
boxes, and boxes closer than R are joined: d(x, z)^p >= sum_j gap_j^p, gap_j the gap between the two
boxes in feature j. The connected components are valid groups for any division into boxes, but boxes
that mix groups join them. Two divisions are tried, the second if the first shows no groups:

- A box has the points on the same side of every wide gap between consecutive values of a feature. A
  gap of R separates groups by itself. Narrower gaps add up: points of two categories in one-hot
  columns differ in two columns, so that their boxes have the distance sqrt(2) if each gap is 1.
- A box is a cluster of k-means.

Covtype_30k and covtype_74k, whose one-hot columns separate 74 groups, are solved faster this way
(`scripts/ablate_svm.py`, `groups`).
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from kbench.kernels import KernelMatrix
from kbench.kernels.distances import Exponential

# Points of a sample that is examined first (250,000 distances, 7 ms for 54 features): if it is
# connected, there is no search for groups. Set by hand.
_SAMPLE = 500
# Width of the gaps that divide boxes, to the power of p and as a fraction of R^p: eight features
# with such a gap separate two groups. Narrower gaps mostly come from outliers
# (docs/solver.md, "Constants").
_MIN_GAP = 1 / 8
# Largest number of pairs of boxes for each point: comparing the pairs then takes O(n d), as the
# search for gaps does (docs/solver.md, "Constants").
_PAIRS_PER_POINT = 4
# Every eighth point of the sample is the seed of a cluster, which three Lloyd steps improve: more
# clusters have smaller boxes, but all pairs of boxes are compared. Set by hand.
_POINTS_PER_CLUSTER = 8
_LLOYD_STEPS = 3
# Rows whose distances to the cluster centres are computed at a time: memory against the overhead of
# a call. Set by hand.
_CHUNK_ROWS = 4096
# Guard: combined labels stay below 2^63.
_MAX_LABELS = 2**62


def independent_groups(
    kernel: KernelMatrix, norm: float, neglected: float, min_size: int = 1
) -> list[np.ndarray]:
    """Find groups of points between which kernel values may be neglected; empty if there is one.

    kernel : KernelMatrix of n points
    norm : Bound on |b|_1, the sum of the coefficients' absolute values
    neglected : Error of the residual that may be neglected
    min_size : Smaller groups are combined, because the solution of a group has a fixed cost

    Returns a partition of the n points. The time is that of a sample if the sample is connected;
    else O(n log n) for each feature whose range is at least 8^(-1/p) R, and O(n d n_clusters) for
    clusters.
    """
    X, function = kernel.X, kernel.kernel
    if not isinstance(function, Exponential) or sp.issparse(X) or norm <= neglected:
        return []
    power = function.power
    threshold = math.log(norm / neglected) / function.gamma  # R^p
    sample = X[np.linspace(0, len(X) - 1, min(_SAMPLE, len(X))).astype(np.intp)]
    component = _components(sample, threshold, power)
    if not component.any():
        return []
    label = _groups_by_gaps(X, threshold, power)
    if not label.any():
        # Sorted, so that every component has seeds in proportion to its points.
        seeds = sample[np.argsort(component, kind="stable")][::_POINTS_PER_CLUSTER]
        label = _join_close_boxes(X, _clusters(X, sample, seeds, power), threshold, power)
    if label.any():
        label = _combine_small(label, min_size)
    if not label.any():
        return []
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _combine_small(label: np.ndarray, min_size: int) -> np.ndarray:
    """Combine groups of fewer than `min_size` points; return labels from 0, (n,)."""
    sizes = np.bincount(label)
    is_small = sizes < min_size
    before = np.cumsum(np.where(is_small, sizes, 0)) - sizes
    combined = np.where(is_small, before // min_size, len(label) + np.arange(len(sizes)))
    return np.unique(combined[label], return_inverse=True)[1]


def _components(sample: np.ndarray, threshold: float, power: int) -> np.ndarray:
    """Return the connected component of each point; points closer than R are connected."""
    if (_distances(sample[:1], sample, power) < threshold).all():
        return np.zeros(len(sample), np.intp)
    is_near = _distances(sample, sample, power) < threshold
    return connected_components(is_near, directed=False)[1]


def _distances(A: np.ndarray, B: np.ndarray, power: int) -> np.ndarray:
    """Return d(a, b)^p for all rows of A and B."""
    return cdist(A, B, "sqeuclidean" if power == 2 else "cityblock")


class _Gaps(NamedTuple):
    """Gaps between consecutive values of feature j."""

    j: int
    before: np.ndarray  # value before each gap, ascending
    width: np.ndarray

    def at_least(self, width: float) -> "_Gaps":
        is_wide = self.width >= width
        return _Gaps(self.j, self.before[is_wide], self.width[is_wide])


def _groups_by_gaps(X: np.ndarray, threshold: float, power: int) -> np.ndarray:
    """Return the label of each point's group, (n,), from boxes between gaps; `threshold` is R^p."""
    radius = threshold ** (1.0 / power)
    gaps = _gaps(X, (_MIN_GAP * threshold) ** (1.0 / power))
    group = _labels_between(X, [feature.at_least(radius) for feature in gaps])
    if all((feature.width >= radius).all() for feature in gaps):
        return group
    max_boxes = math.isqrt(_PAIRS_PER_POINT * len(X))
    if int(group.max()) >= max_boxes:
        return group
    return _join_close_boxes(X, _divide_at_gaps(X, gaps, group, max_boxes), threshold, power)


def _gaps(X: np.ndarray, width: float) -> list[_Gaps]:
    """Return the features that have gaps of at least `width`, with these gaps."""
    result = []
    for j in np.flatnonzero(X.max(axis=0) - X.min(axis=0) >= width):
        sorted_column = np.sort(X[:, j])
        wide = _Gaps(int(j), sorted_column[:-1], np.diff(sorted_column)).at_least(width)
        if len(wide.width):
            result.append(wide)
    return result


def _labels_between(X: np.ndarray, gaps: list[_Gaps], max_labels: int = _MAX_LABELS) -> np.ndarray:
    """Return labels from 0 of the points that no gap separates; (n,)."""
    label, n_labels = np.zeros(len(X), np.int64), 1
    for j, before, _ in gaps:
        n_sides = len(before) + 1
        if n_labels > max_labels // n_sides:
            used, label = np.unique(label, return_inverse=True)
            n_labels = len(used)
        n_labels *= n_sides
        label = label * n_sides + np.searchsorted(before, X[:, j])
    return np.unique(label, return_inverse=True)[1]


def _divide_at_gaps(
    X: np.ndarray, gaps: list[_Gaps], group: np.ndarray, max_boxes: int
) -> np.ndarray:
    """Divide the groups at the gaps of each feature that keeps the boxes at `max_boxes` or fewer.

    Features with wider gaps come first. Returns labels from 0; (n,).
    """
    box, n_boxes = group, int(group.max()) + 1
    for j, before, _ in sorted(gaps, key=lambda feature: -float(feature.width.max())):
        n_sides = len(before) + 1
        if n_sides > max_boxes:
            continue
        finer_box = box * n_sides + np.searchsorted(before, X[:, j])
        is_used = np.bincount(finer_box, minlength=n_boxes * n_sides) > 0
        n_used = int(np.count_nonzero(is_used))
        if n_used <= max_boxes:
            box, n_boxes = (np.cumsum(is_used) - 1)[finer_box], n_used
    return box


def _clusters(X: np.ndarray, sample: np.ndarray, seeds: np.ndarray, power: int) -> np.ndarray:
    """Return the label from 0 of each point's cluster; (n,)."""
    for _ in range(_LLOYD_STEPS):
        nearest = _distances(sample, seeds, power).argmin(axis=1)
        seeds = np.array([sample[nearest == c].mean(axis=0) for c in np.unique(nearest)])
    cluster = np.empty(len(X), np.intp)
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        cluster[rows] = _distances(X[rows], seeds, power).argmin(axis=1)
    return np.unique(cluster, return_inverse=True)[1]


def _join_close_boxes(X: np.ndarray, box: np.ndarray, threshold: float, power: int) -> np.ndarray:
    """Join the boxes that are closer than R, and return the label of each point's group; (n,).

    `threshold` is R^p.
    """
    order = np.argsort(box, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(box))[:-1]])
    ordered = X[order]
    low, high = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
    distance = np.zeros((len(starts), len(starts)))
    for below, above in zip(high.T, low.T, strict=True):
        gap = np.subtract.outer(above, below).clip(0.0)
        distance += (gap + gap.T) ** power
    return connected_components(distance < threshold, directed=False)[1][box]
