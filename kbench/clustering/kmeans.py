"""k-means in input space: centroids of a sample are computed, then every row goes to the nearest.

The fast DC-SVM variants (Hsieh, Si and Dhillon, ICML 2014) and block kernel approximation use this
partition: if a kernel decreases with distance, values between rows of different clusters are small.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul

# Largest number of inner products of a batch of rows with all centroids: 2 MiB of float64, which
# argmax still finds in the L2 cache; and the least number of rows of a batch, because GEMM is slow
# on fewer rows. Both are set by hand.
_BLOCK_VALUES = 1 << 18
_MIN_BATCH = 64
# Squared distance of the centroids from 0, as a multiple of that from their mean, above which the
# mean is subtracted from dense rows: products of float32 would lose 10 of their 24 bits. Set by
# hand.
_FAR = 2.0**10


class Centroids:
    """Cluster centres in input space.

    Parameters
    ----------
    means : (k, d) array
    """

    def __init__(self, means: np.ndarray) -> None:
        self.means = means
        self._half_square = 0.5 * np.einsum("cj,cj->c", means, means, dtype=np.float64)

    @property
    def n_clusters(self) -> int:
        return len(self.means)

    @property
    def n_products(self) -> int:
        """Inner products of two rows that `assign` takes for each row."""
        return len(self.means)

    @property
    def nbytes(self) -> int:
        return self.means.nbytes + self._half_square.nbytes

    def assign(self, X: Any) -> np.ndarray:
        """Nearest centroid of rows X : (u, d), dense or CSR; (u,) ints.

        O(u k d) time; memory of the inner products of a batch of rows with all centroids.
        """
        labels = np.empty(X.shape[0], np.intp)
        means, half_square, origin = self.means, self._half_square, None
        if not sp.issparse(X) and self._may_be_far():
            mean = self.means.mean(axis=0)
            centred = self.means - mean
            squares = np.einsum("cj,cj->c", centred, centred, dtype=np.float64)
            if half_square.max(initial=0.0) > _FAR * squares.max(initial=0.0):
                means, half_square, origin = centred, 0.5 * squares, mean
        half_square = half_square.astype(np.result_type(X.dtype, self.means.dtype))
        batch = max(_MIN_BATCH, _BLOCK_VALUES // self.n_clusters)
        for start in range(0, len(labels), batch):
            rows = slice(start, start + batch)
            # The nearest centroid m of x has the largest x'm - ||m||^2 / 2.
            closeness = matmul(X[rows] if origin is None else X[rows] - origin, means.T)
            closeness -= half_square
            labels[rows] = np.argmax(closeness, axis=1)
        return labels

    def _may_be_far(self) -> bool:
        """Whether the centroids may be far from 0 for their spread, by their lengths alone.

        Lengths that differ by c show a centroid at least c / 2 from the mean. That is known in O(k)
        operations, a fraction of the time of one row.
        """
        if not len(self.means):
            return False
        largest, smallest = self._half_square.max(), self._half_square.min()
        spread = np.sqrt(2.0 * largest) - np.sqrt(2.0 * smallest)
        return bool(largest > _FAR * (0.5 * spread) ** 2)


def sampled_kmeans(
    X: Any, n_clusters: int, sample: np.ndarray, *, max_iter: int = 10
) -> tuple[Centroids, np.ndarray]:
    """Partition rows by Lloyd's k-means on a sample of them.

    Parameters
    ----------
    X : (n, d) array or CSR
    n_clusters : int
        Largest number of clusters; empty ones are dropped.
    sample : (m,) indices
        Rows that are clustered, in random order: the first ones are the initial centroids.
    max_iter : int
        Bound on the iterations on the sample; the default is set by hand.

    Returns
    -------
    centroids : Centroids
    labels : (n,) ints; every cluster of `centroids` has a row
    """
    means = kmeans_centroids(X, n_clusters, sample, max_iter=max_iter).means
    labels = Centroids(means).assign(X)
    occupied, labels = np.unique(labels, return_inverse=True)
    return Centroids(means[occupied]), labels.reshape(-1)


def kmeans_centroids(
    X: Any, n_clusters: int, sample: np.ndarray, *, max_iter: int = 10
) -> Centroids:
    """Centroids by Lloyd's k-means on a sample of rows.

    Parameters
    ----------
    X, n_clusters, sample, max_iter
        As in `sampled_kmeans`.

    Returns
    -------
    Centroids
        min(n_clusters, m) of them. A centroid that loses all its points keeps its last position.
    """
    rows = X[sample]
    initial = rows[: min(n_clusters, len(sample))]
    means = initial.toarray() if sp.issparse(initial) else initial.copy()
    labels: np.ndarray | None = None
    for _ in range(max_iter):
        new_labels = Centroids(means).assign(rows)
        if labels is not None and np.array_equal(new_labels, labels):
            break
        labels = new_labels
        occupied, index = np.unique(labels, return_inverse=True)
        averaging_matrix = sp.csr_array(
            (1.0 / np.bincount(index)[index], (index, np.arange(len(index)))),
            shape=(len(occupied), len(index)),
            dtype=means.dtype,
        )
        new_means = matmul(averaging_matrix, rows)
        means[occupied] = new_means.toarray() if sp.issparse(new_means) else new_means
    return Centroids(means)
