"""MEKA's approximate kernel matrix, and the rows of its basis W for new points."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kbench.approximation.clusters.local_expansions import LocalExpansions
from kbench.approximation.features.factored import FactoredKernel
from kbench.approximation.operator import Machine
from kbench.clustering import Centroids
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.prediction import KernelExpansion, group_rows, prediction_dtype

# Rows per block of kernel values between rows and landmarks: memory against the overhead of a
# call. Set by hand.
_BATCH_ROWS = 8192


class LocalBasis(NamedTuple):
    """Basis of cluster s: point x of the cluster has the row k(x, Z_s) T_s in W_s."""

    points: Any  # Z_s : (m_s, d)
    landmarks: KernelMatrix  # kernel matrix of Z_s, float64
    projection: np.ndarray  # T_s : (m_s, k_s) float64

    def fill(self, X: Any, out: np.ndarray) -> None:
        """Write rows of W for X : (u, d) into out : (u, k_s)."""
        matrix = self.landmarks.astype(out.dtype)
        landmark_points = matrix.points(slice(None))
        projection = self.projection.astype(out.dtype)
        values = np.empty((min(_BATCH_ROWS, len(out)), len(projection)), out.dtype)
        for start in range(0, len(out), _BATCH_ROWS):
            rows = slice(start, start + _BATCH_ROWS)
            batch = values[: len(out[rows])]
            matrix.kernel.evaluate(
                matrix.kernel.prepare(X[rows], out.dtype), landmark_points, batch
            )
            matmul(batch, projection, out=out[rows])


class MEKABasis:
    """Computes rows of W of any points by the basis of their cluster; see `RowBasis`.

    Parameters
    ----------
    link : (r, r) array. L of G = W L W'.
    """

    def __init__(self, centroids: Centroids, local: list[LocalBasis], link: np.ndarray) -> None:
        self.centroids, self.local, self.link = centroids, local, link
        self.ranks = [basis.projection.shape[1] for basis in local]
        self.dtype = link.dtype

    def blocks(self, X: Any) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        for s, rows in group_rows(self.centroids.assign(X)):
            yield s, rows, basis_rows(self.local[s], X[rows], self.dtype)

    def machine(self, weights: np.ndarray) -> Machine:
        machines = []
        weights_by_cluster = np.split(weights, np.cumsum(self.ranks)[:-1])
        for basis, cluster_weights in zip(self.local, weights_by_cluster, strict=True):
            coef = matmul(basis.projection, cluster_weights)
            dtype = prediction_dtype(basis.landmarks.astype(np.float32), coef)
            centres = np.arange(len(basis.landmarks))
            machines.append(KernelExpansion(basis.landmarks, centres, coef, dtype))
        return LocalExpansions(self.centroids, machines, weights.shape[1])


class MEKAKernel(FactoredKernel):
    """The approximate kernel matrix that `MEKA` makes."""

    basis: MEKABasis

    def cross(self, X: Any) -> np.ndarray:
        WL = np.empty((X.shape[0], self.rank), self._linked_dtype)
        for s, rows, features in self.basis.blocks(X):
            WL[rows] = self._linked_features(s, features)
        return self._expand(WL)


def basis_rows(basis: LocalBasis, X: Any, dtype: Any) -> np.ndarray:
    """The rows W_s : (n_s, k_s) of points X : (n_s, d) of the cluster."""
    out = np.empty((X.shape[0], basis.projection.shape[1]), dtype)
    basis.fill(X, out)
    return out
