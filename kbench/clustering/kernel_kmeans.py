"""Two-step kernel k-means: cluster a sample in feature space, then assign every point.

Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector Machines" (ICML 2014),
section 3; after Ghitta, Jin, Havens and Jain, "Approximate Kernel k-means" (KDD 2011). With sample
S of m points and clusters S_1 .. S_k of it, E_cj = 1/|S_c| for j in S_c,

    ||phi(x) - mu_c||^2 = k(x, x) + (E K_SS E')_cc - 2 (E k_S(x))_c.
"""

from typing import Any

import numpy as np

from kbench.kernels import Kernel, KernelMatrix, expand
from kbench.kernels.matrix import nbytes

# Distances of so many points to all centres are held at a time.
_BATCH = 8192


class KernelCentres:
    """Cluster centres in feature space, as means of sampled points.

    Parameters
    ----------
    kernel : KernelMatrix
    sample : (m,) indices
    labels : (m,) cluster of each sampled point, 0 .. k-1, none empty
    """

    def __init__(self, kernel: KernelMatrix, sample: np.ndarray, labels: np.ndarray) -> None:
        self._kernel: Kernel = kernel.kernel
        self._dtype = kernel.dtype
        self._points = kernel.centres(sample)
        self._mean = _indicator(labels)
        gram = kernel.block(sample, kernel.points(sample))
        self._square = np.einsum("cj,jc->c", self._mean, gram @ self._mean.T)

    @property
    def n_clusters(self) -> int:
        return len(self._square)

    @property
    def nbytes(self) -> int:
        return nbytes(self._points) + self._mean.nbytes + self._square.nbytes

    def assign(self, X: Any) -> np.ndarray:
        """Nearest centre of rows X : (u, d) or, precomputed, (u, n); (u,) ints. O(u m (d + k))."""
        labels = np.empty(X.shape[0], np.intp)
        for start in range(0, len(labels), _BATCH):
            rows = slice(start, start + _BATCH)
            labels[rows] = self._nearest(self._kernel.prepare(X[rows], self._dtype))
        return labels

    def assign_training(self, kernel: KernelMatrix) -> np.ndarray:
        """Nearest centre of the n points of the matrix; (n,) ints."""
        labels = np.empty(len(kernel), np.intp)
        for start in range(0, len(labels), _BATCH):
            rows = slice(start, start + _BATCH)
            labels[rows] = self._nearest(kernel.points(rows))
        kernel.count(len(kernel) * self._mean.shape[1])
        return labels

    def _nearest(self, points: Any) -> np.ndarray:
        inner = expand(self._kernel, points, self._points, self._mean.T, self._dtype)
        return np.argmin(self._square - 2.0 * inner, axis=1)


def two_step_kernel_kmeans(
    kernel: KernelMatrix,
    n_clusters: int,
    sample: np.ndarray,
    rng: np.random.RandomState,
    *,
    max_iter: int = 20,
) -> tuple[KernelCentres, np.ndarray]:
    """Partition the n points of a kernel matrix.

    Parameters
    ----------
    kernel : KernelMatrix
    n_clusters : int
        Clusters asked for; empty ones are dropped, so there may be fewer.
    sample : (m,) indices
        Points that are clustered.
    rng : RandomState
        Of the first labels of the sample.
    max_iter : int
        Bound on the iterations on the sample.

    Returns
    -------
    centres : KernelCentres
    labels : (n,) ints, every cluster of `centres` occurs

    Notes
    -----
    O(n m d + n m k) time, O(m^2) memory and a batch.
    """
    gram = kernel.block(sample, kernel.points(sample)).astype(np.float64)
    start = rng.randint(min(n_clusters, len(sample)), size=len(sample))
    sample_labels = kernel_kmeans(gram, start, max_iter=max_iter)
    centres = KernelCentres(kernel, sample, sample_labels)
    labels = centres.assign_training(kernel)
    occupied = np.unique(labels)
    if len(occupied) < centres.n_clusters:
        # Stopped before convergence, a cluster may keep none of its own points.
        kept = np.isin(sample_labels, occupied)
        centres = KernelCentres(kernel, sample[kept], _without_gaps(sample_labels[kept]))
        labels = _without_gaps(labels)
    return centres, labels


def kernel_kmeans(gram: np.ndarray, labels: np.ndarray, max_iter: int = 20) -> np.ndarray:
    """Lloyd's iteration in feature space.

    Parameters
    ----------
    gram : (m, m) float64 kernel matrix
    labels : (m,) ints
        Where to start.
    max_iter : int

    Returns
    -------
    (m,) ints 0 .. k-1 without gaps; sum_c sum_{j in S_c} ||phi(x_j) - mu_c||^2 is no larger than at
    the start.
    """
    labels = _without_gaps(labels)
    for _ in range(max_iter):
        mean = _indicator(labels)
        inner = mean @ gram
        square = np.einsum("cj,cj->c", inner, mean)
        new = _without_gaps(np.argmin(square[:, None] - 2.0 * inner, axis=0))
        if np.array_equal(new, labels):
            break
        labels = new
    return labels


def _indicator(labels: np.ndarray) -> np.ndarray:
    """E : (k, m), row c is 1/|S_c| on S_c."""
    indicator = np.equal.outer(np.arange(labels.max() + 1), labels).astype(np.float64)
    return indicator / indicator.sum(axis=1, keepdims=True)


def _without_gaps(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].reshape(-1)
