"""Two kinds of kernel k-means of n points, with centres in the span of a sample S of m points.

Centres are mu_c = sum_{j in S} W_cj phi(x_j), so that

    ||phi(x) - mu_c||^2 = k(x, x) + (W K_SS W')_cc - 2 (W k_S(x))_c.

Two-step kernel k-means clusters only the sample, W_cj = 1/|S_c| for j in S_c, and assigns every
point to the nearest centre: Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support
Vector Machines" (ICML 2014), section 3.

Approximate kernel k-means clusters all points, with cluster means projected onto the span of the
sample, W = U K_nS K_SS^+ with U_ci = 1/|V_c| for i in V_c, until no label changes: Chitta, Jin,
Havens and Jain, "Approximate Kernel k-means" (KDD 2011).
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit

from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.kernel import check_n_features, check_points
from kbench.kernels.matrix import nbytes
from kbench.prediction.flops import require_width
from kbench.stored import check_arrays, require

# Points per block of kernel values with the sample, 4 MiB of float32 for a sample of 1,000 points:
# larger blocks take more memory, smaller ones make the matrix products slow. Set by hand.
_BATCH = 1024


class KernelCentres:
    """Cluster centres in feature space, as combinations of sampled points.

    Parameters
    ----------
    kernel : KernelMatrix
    sample : (m,) indices
    weights : (k, m) array or CSR
        W, one row for each centre. CSR if every sampled point belongs to one centre.

    Attributes
    ----------
    n_features : int or None
        d; None for precomputed kernel values.
    """

    def __init__(
        self, kernel: KernelMatrix, sample: np.ndarray, weights: np.ndarray | sp.csr_array
    ) -> None:
        self._kernel: Kernel = kernel.kernel
        self.n_features = None if kernel.X is None else int(kernel.X.shape[1])
        gram = kernel.block(sample, kernel.points(sample))
        # ||mu_c||^2 : (k,); model files have the name `_square`.
        self._square = np.asarray((weights * matmul(weights, gram)).sum(axis=1), np.float64)
        self._starts: np.ndarray | None = None
        if not isinstance(weights, np.ndarray):
            # Sort the sample by centre, so that the values of a centre are contiguous.
            self._starts = weights.indptr.astype(np.int64)
            sample, weights = sample[weights.indices], weights.data
        self._points = kernel.centres(sample)
        self._weights = weights.astype(kernel.dtype)

    @property
    def n_clusters(self) -> int:
        return len(self._square)

    @property
    def n_products(self) -> int:
        """Inner products of two rows that `assign` takes for each row."""
        return self._points.shape[0]

    @property
    def nbytes(self) -> int:
        starts = 0 if self._starts is None else self._starts.nbytes
        return nbytes(self._points) + self._weights.nbytes + starts + self._square.nbytes

    def assign(self, X: Any) -> np.ndarray:
        """Nearest centre of rows X : (u, d) or, precomputed, (u, n); (u,) ints.

        O(u m d + u w) time; w is the number of non-zero weights, m for means and m k for
        projections.

        Raises
        ------
        ValueError
            The rows have a different number of features.
        """
        require_width(X, self.n_features)
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
            return np.argmin(self._square[:, None] - 2.0 * matmul(self._weights, values.T), axis=0)
        labels = np.zeros(len(values), np.int64)
        _nearest_mean(values, self._weights, self._starts, self._square, labels)
        return labels

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        n_features = check_n_features(self, self._kernel)
        starts = self._starts
        if starts is None:
            lengths = check_arrays(self, _weights="f4|f8 k m", _square="f8 k")
        else:
            lengths = check_arrays(self, _weights="f4|f8 m", _square="f8 k", _starts="i8 s")
            k, m = lengths["k"], lengths["m"]
            require(len(starts) == k + 1, f"_starts has {len(starts)} entries, should have {k + 1}")
            rising = starts[0] == 0 and np.all(np.diff(starts) >= 0) and starts[-1] == m
            require(rising, f"_starts should rise from 0 to {m}")
        n = check_points(self._kernel, self._points, self._weights.dtype, n_features)
        require(n == lengths["m"], f"there are {n} points for {lengths['m']} weights")


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
        Largest number of clusters; empty ones are dropped.
    sample : (m,) indices
        Points that are clustered.
    rng : RandomState
        Draws the first labels of the sample.
    max_iter : int
        Bound on the iterations on the sample; the default is set by hand.

    Returns
    -------
    centres : KernelCentres
    labels : (n,) ints; every cluster of `centres` has a point

    Notes
    -----
    O(n m d + n k) time; memory of m^2 numbers and a block of kernel values.
    """
    gram = kernel.block(sample, kernel.points(sample)).astype(np.float64)
    first_labels = rng.randint(min(n_clusters, len(sample)), size=len(sample))
    sample_labels = kernel_kmeans(gram, first_labels, max_iter=max_iter)
    return occupied_centres(kernel, sample, sample_labels)


def occupied_centres(
    kernel: KernelMatrix, sample: np.ndarray, sample_labels: np.ndarray
) -> tuple[KernelCentres, np.ndarray]:
    """Return the means of the clusters of a sample, and the nearest mean of all n points as labels.

    Clusters whose mean is nearest to no point are dropped.
    """
    centres = KernelCentres(kernel, sample, mean_weights(sample_labels))
    labels = centres.assign_training(kernel)
    occupied = np.unique(labels)
    if len(occupied) < centres.n_clusters:
        is_kept = np.isin(sample_labels, occupied)
        weights = mean_weights(_without_gaps(sample_labels[is_kept]))
        centres = KernelCentres(kernel, sample[is_kept], weights)
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
    """Partition the n points of a kernel matrix by clustering all of them.

    Starts from the two-step partition. Parameters and results as in `two_step_kernel_kmeans`.

    Notes
    -----
    O(m^3) time, and O(n m (d + k)) for each iteration, which computes the kernel values again;
    memory of m^2 numbers and a block of kernel values. With all points in the sample this is kernel
    k-means.
    """
    centres, labels = two_step_kernel_kmeans(kernel, n_clusters, sample, rng, max_iter=max_iter)
    gram = kernel.block(sample, kernel.points(sample)).astype(np.float64)
    # Values are rounded to `kernel.dtype`, so eigenvalues below m eps times the largest may be
    # rounding errors; the pseudoinverse takes them for 0.
    projection = scipy.linalg.pinvh(gram, rtol=len(sample) * np.finfo(kernel.dtype).eps)
    for _ in range(max_iter):
        weights = matmul(_mean_values(kernel, sample, labels), projection)
        new_labels = KernelCentres(kernel, sample, weights).assign_training(kernel)
        centres = KernelCentres(kernel, sample, weights[np.unique(new_labels)])
        previous, labels = labels, _without_gaps(new_labels)
        if np.array_equal(labels, previous):
            break
    return centres, labels


def kernel_kmeans(gram: np.ndarray, labels: np.ndarray, max_iter: int = 20) -> np.ndarray:
    """Lloyd's iteration in feature space.

    Parameters
    ----------
    gram : (m, m) float64 kernel matrix
    labels : (m,) ints
        Labels before the first iteration.
    max_iter : int
        Bound on the iterations; the default is set by hand.

    Returns
    -------
    (m,) ints 0 .. k-1, each the label of a point; sum_c sum_{j in S_c} ||phi(x_j) - mu_c||^2 is not
    larger than for the first labels.
    """
    labels = _without_gaps(labels)
    for _ in range(max_iter):
        weights = mean_weights(labels)
        inner = matmul(weights, gram)  # <mu_c, phi(x_j)> : (k, m)
        squared_norms = matmul(weights, inner[labels, np.arange(len(labels))])
        new_labels = _without_gaps(np.argmin(squared_norms[:, None] - 2.0 * inner, axis=0))
        if np.array_equal(new_labels, labels):
            break
        labels = new_labels
    return labels


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _nearest_mean(values, weights, starts, squared_norms, labels):
    """labels_i = argmin_c squared_norms_c - 2 sum_j w_j values_ij, starts_c <= j < starts_{c+1}."""
    for i in range(values.shape[0]):
        lowest = np.inf
        for c in range(squared_norms.shape[0]):
            total = values.dtype.type(0.0)
            for j in range(starts[c], starts[c + 1]):
                total += weights[j] * values[i, j]
            distance = squared_norms[c] - 2.0 * total
            if distance < lowest:
                lowest = distance
                labels[i] = c


def _mean_values(kernel: KernelMatrix, sample: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """U K_nS : (k, m) float64, the mean kernel values of each cluster with the sampled points.

    sample : (m,) indices
    labels : (n,) ints 0 .. k-1, each the label of a point

    O(n m d) time; memory of a block of kernel values.
    """
    points = kernel.points(sample)
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), len(sample)))
    for start in range(0, len(labels), _BATCH):
        rows = np.arange(start, min(start + _BATCH, len(labels)))
        members = sp.csr_array(
            (np.ones(len(rows)), (labels[rows], np.arange(len(rows)))), (len(counts), len(rows))
        )
        sums += matmul(members, kernel.block(rows, points))
    return sums / counts[:, None]


def mean_weights(labels: np.ndarray) -> sp.csr_array:
    """W : (k, m) of the cluster means: row c is 1/|S_c| on S_c and 0 elsewhere."""
    inverse_sizes = 1.0 / np.bincount(labels)
    return sp.csr_array(
        (inverse_sizes[labels], (labels, np.arange(len(labels)))), (len(inverse_sizes), len(labels))
    )


def _without_gaps(labels: np.ndarray) -> np.ndarray:
    """Renumber the labels that occur as 0 .. k - 1."""
    return np.unique(labels, return_inverse=True)[1].reshape(-1)
