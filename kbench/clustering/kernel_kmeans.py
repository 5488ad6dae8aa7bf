"""Kernel k-means of many points through a sample S of m of them, in two ways.

Centres are mu_c = sum_{j in S} W_cj phi(x_j), so that

    ||phi(x) - mu_c||^2 = k(x, x) + (W K_SS W')_cc - 2 (W k_S(x))_c.

Two-step: the sample alone is clustered, W_cj = 1/|S_c| for j in S_c, and every point goes to the
nearest centre. Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support Vector
Machines" (ICML 2014), section 3.

Approximate kernel k-means: all points are clustered, their means projected onto the span of the
sample, W = U K_nS K_SS^+ with U_ci = 1/|V_c| for i in V_c, until labels repeat. Ghitta, Jin, Havens
and Jain, "Approximate Kernel k-means" (KDD 2011).
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit, types

from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.matrix import nbytes

# Kernel values of so many points are held at a time: few enough for the processor's cache.
_BATCH = 1024


class KernelCentres:
    """Cluster centres in feature space, as combinations of sampled points.

    Parameters
    ----------
    kernel : KernelMatrix
    sample : (m,) indices
    weights : (k, m) array or CSR
        W, one row for each centre. CSR where every sampled point belongs to one centre.
    """

    def __init__(
        self, kernel: KernelMatrix, sample: np.ndarray, weights: np.ndarray | sp.csr_array
    ) -> None:
        self._kernel: Kernel = kernel.kernel
        gram = kernel.block(sample, kernel.points(sample))
        self._square = np.asarray((weights * (weights @ gram)).sum(axis=1), np.float64)
        self._starts: np.ndarray | None = None
        if not isinstance(weights, np.ndarray):
            # The points of a centre side by side: their values are then added up as they lie.
            self._starts = weights.indptr.astype(np.int64)
            sample, weights = sample[weights.indices], weights.data
        self._points = kernel.centres(sample)
        self._weights = weights.astype(kernel.dtype)

    @property
    def n_clusters(self) -> int:
        return len(self._square)

    @property
    def n_products(self) -> int:
        """Products of two rows that `assign` takes for one."""
        return self._points.shape[0]

    @property
    def nbytes(self) -> int:
        starts = 0 if self._starts is None else self._starts.nbytes
        return nbytes(self._points) + self._weights.nbytes + starts + self._square.nbytes

    def assign(self, X: Any) -> np.ndarray:
        """Nearest centre of rows X : (u, d) or, precomputed, (u, n); (u,) ints.

        O(u m d + u w), w the weights that are not zero: m of means, m k of projections.
        """
        labels = np.empty(X.shape[0], np.intp)
        for start in range(0, len(labels), _BATCH):
            rows = slice(start, start + _BATCH)
            labels[rows] = self._nearest(self._kernel.prepare(X[rows], self._weights.dtype))
        return labels

    def assign_training(self, kernel: KernelMatrix) -> np.ndarray:
        """Nearest centre of the n points of the matrix; (n,) ints."""
        labels = np.empty(len(kernel), np.intp)
        for start in range(0, len(labels), _BATCH):
            rows = slice(start, start + _BATCH)
            labels[rows] = self._nearest(kernel.points(rows))
        kernel.count(len(kernel) * self.n_products)
        return labels

    def _nearest(self, points: Any) -> np.ndarray:
        values = np.empty((points.shape[0], self._points.shape[0]), self._weights.dtype)
        self._kernel.evaluate(points, self._points, values)
        if self._starts is None:
            return np.argmin(self._square[:, None] - 2.0 * (self._weights @ values.T), axis=0)
        labels = np.zeros(len(values), np.int64)
        _nearest_mean(values, self._weights, self._starts, self._square, labels)
        return labels


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
    O(n m d + n k) time, O(m^2) memory and a batch.
    """
    gram = kernel.block(sample, kernel.points(sample)).astype(np.float64)
    start = rng.randint(min(n_clusters, len(sample)), size=len(sample))
    sample_labels = kernel_kmeans(gram, start, max_iter=max_iter)
    centres = KernelCentres(kernel, sample, mean_weights(sample_labels))
    labels = centres.assign_training(kernel)
    occupied = np.unique(labels)
    if len(occupied) < centres.n_clusters:
        # Stopped before convergence, a cluster may keep none of its own points.
        kept = np.isin(sample_labels, occupied)
        weights = mean_weights(_without_gaps(sample_labels[kept]))
        centres = KernelCentres(kernel, sample[kept], weights)
        labels = _without_gaps(labels)
    return centres, labels


def approximate_kernel_kmeans(
    kernel: KernelMatrix,
    n_clusters: int,
    sample: np.ndarray,
    rng: np.random.RandomState,
    *,
    max_iter: int = 20,
) -> tuple[KernelCentres, np.ndarray]:
    """Partition the n points of a kernel matrix, all of them taking part in the clustering.

    Starts from the two-step partition. Parameters and results as in `two_step_kernel_kmeans`.

    Notes
    -----
    O(m^3) and O(n m (d + k)) for each iteration; O(m^2) memory and a batch, since kernel values are
    computed again in each iteration. With all points in the sample this is kernel k-means.
    """
    centres, labels = two_step_kernel_kmeans(kernel, n_clusters, sample, rng, max_iter=max_iter)
    gram = kernel.block(sample, kernel.points(sample)).astype(np.float64)
    projection = scipy.linalg.pinvh(gram, rtol=len(sample) * np.finfo(kernel.dtype).eps)
    for _ in range(max_iter):
        weights = _mean_values(kernel, sample, labels) @ projection
        new = KernelCentres(kernel, sample, weights).assign_training(kernel)
        centres = KernelCentres(kernel, sample, weights[np.unique(new)])
        before, labels = labels, _without_gaps(new)
        if np.array_equal(labels, before):
            break
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
        mean = mean_weights(labels)
        inner = mean @ gram
        square = mean @ inner[labels, np.arange(len(labels))]
        new = _without_gaps(np.argmin(square[:, None] - 2.0 * inner, axis=0))
        if np.array_equal(new, labels):
            break
        labels = new
    return labels


def _signature(real: types.Type) -> Any:
    weights, starts, square = (
        types.Array(dtype, 1, "C", readonly=True) for dtype in (real, types.int64, types.float64)
    )
    return types.void(real[:, ::1], weights, starts, square, types.int64[::1])


@njit(
    [_signature(dtype) for dtype in (types.float32, types.float64)],
    cache=True,
    nogil=True,
    fastmath={"reassoc", "contract", "nsz"},
)
def _nearest_mean(values, weights, starts, square, labels):
    """argmin_c square_c - 2 sum_j w_j values_ij over starts_c <= j < starts_{c+1}."""
    for i in range(values.shape[0]):
        lowest = np.inf
        for c in range(square.shape[0]):
            total = values.dtype.type(0.0)
            for j in range(starts[c], starts[c + 1]):
                total += weights[j] * values[i, j]
            distance = square[c] - 2.0 * total
            if distance < lowest:
                lowest = distance
                labels[i] = c


def _mean_values(kernel: KernelMatrix, sample: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """U K_nS : (k, m) float64, the mean over each cluster of the values at sampled points."""
    points = kernel.points(sample)
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), len(sample)))
    for start in range(0, len(labels), _BATCH):
        rows = np.arange(start, min(start + _BATCH, len(labels)))
        members = sp.csr_array(
            (np.ones(len(rows)), (labels[rows], np.arange(len(rows)))), (len(counts), len(rows))
        )
        sums += members @ kernel.block(rows, points)
    return sums / counts[:, None]


def mean_weights(labels: np.ndarray) -> sp.csr_array:
    """E : (k, m), row c is 1/|S_c| on S_c."""
    share = 1.0 / np.bincount(labels)
    return sp.csr_array(
        (share[labels], (labels, np.arange(len(labels)))), (len(share), len(labels))
    )


def _without_gaps(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1].reshape(-1)
