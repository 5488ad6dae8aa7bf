"""Exact splitting of a problem into groups between which no kernel value can be seen.

If every point of a group has a distance of at least R from all others, and the coefficients of the
others sum to at most A, then what the others contribute to its residual is at most

    A max {k(x, z) : ||x - z|| >= R}  <=  A exp(-gamma R^2)

for the Gaussian kernel. With R = sqrt(log(A / slack) / gamma) that is below `slack`: groups solved
one by one to tol - slack are the whole problem solved to tol.

Groups are found by gaps of at least R in single features (the distance is at least their width),
feature after feature and group after group.
"""

import math

import numpy as np
import scipy.sparse as sp

from kbench.kernels import KernelMatrix
from kbench.kernels.exponential import Exponential


def independent_groups(kernel: KernelMatrix, total: float, slack: float) -> list[np.ndarray]:
    """Groups of points that do not see one another; empty where there is but one.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    total : float
        Bound on the sum of the coefficients.
    slack : float
        What may be neglected of a residual.

    Returns
    -------
    list of index arrays
        A partition of the n points. O(n log n) for each feature whose range is at least R.
    """
    X = kernel._X
    if not isinstance(kernel.kernel, Exponential) or sp.issparse(X) or total <= slack:
        return []
    radius = (math.log(total / slack) / kernel.kernel.gamma) ** (1.0 / kernel.kernel.power)
    wide = np.flatnonzero(X.max(axis=0) - X.min(axis=0) >= radius)
    label = np.zeros(len(X), np.intp)
    for j in wide:
        order = np.argsort(X[:, j], kind="stable")
        cuts = np.flatnonzero(np.diff(X[order, j]) >= radius)
        if len(cuts):
            side = np.empty(len(X), np.intp)
            side[order] = np.searchsorted(cuts, np.arange(len(X)))
            label = np.unique(label * (len(cuts) + 1) + side, return_inverse=True)[1]
    if not label.any():
        return []
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
