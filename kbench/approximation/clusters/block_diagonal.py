"""BKA, the block kernel approximation: exact within clusters, zero between them.

Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (JMLR 18, 2017), section 3; the
partition by spectral clustering is ratio association on the kernel matrix of a sample. The squared
error of BKA is the sum of the squared entries between clusters, which is small if gamma is large.
"""

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from kbench.approximation.clipped import clipped
from kbench.approximation.clusters.local_expansions import LocalExpansions
from kbench.approximation.landmarks.spectrum import leading_eigenpairs
from kbench.approximation.operator import KernelApproximation, Machine
from kbench.approximation.rounding import warn_of_rounding
from kbench.clustering import Centroids, KernelCentres, kmeans_centroids, sampled_kmeans
from kbench.clustering.kernel_kmeans import occupied_centres
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.prediction import KernelExpansion, group_rows, prediction_dtype
from kbench.trace import Trace
from kbench.validated import TakesSparseRows, choice, fit_context, integer, usual, validate_data


class BlockDiagonalKernel(KernelApproximation):
    """blockdiag(K_1 .. K_c) of clusters of training rows.

    Parameters
    ----------
    kernels : list of KernelMatrix, by cluster
    groups : list of (n_s,) indices
        Training rows of each cluster; together 0 .. n-1.
    centres : Centroids or KernelCentres
        Assign new points to clusters.

    Notes
    -----
    Stores sum n_s^2 numbers in the precision of the kernels.
    """

    def __init__(
        self,
        kernels: list[KernelMatrix],
        groups: list[np.ndarray],
        centres: Centroids | KernelCentres,
    ) -> None:
        super().__init__(sum(len(rows) for rows in groups))
        self.kernels, self.groups, self.centres = kernels, groups, centres
        self.blocks = [kernel.block(np.arange(len(kernel))) for kernel in kernels]
        self.kernel_entries_ = sum(kernel.n_entries for kernel in kernels)
        self._positions = np.empty((2, self.shape[0]), np.intp)
        for s, rows in enumerate(groups):
            self._positions[:, rows] = [np.full(len(rows), s), np.arange(len(rows))]

    @property
    def nbytes_(self) -> int:
        n_bytes = sum(
            block.nbytes + rows.nbytes for block, rows in zip(self.blocks, self.groups, strict=True)
        )
        return n_bytes + self._positions.nbytes

    @property
    def n_parameters_(self) -> int:
        return sum(block.size for block in self.blocks)

    def _matmat(self, V: np.ndarray) -> np.ndarray:
        out = np.empty(V.shape)
        for block, rows in zip(self.blocks, self.groups, strict=True):
            out[rows] = matmul(block, V[rows].astype(block.dtype))
        return out

    def rows(self, indices: np.ndarray) -> np.ndarray:
        cluster, position = self._positions[:, indices]
        out = np.zeros((len(indices), self.shape[1]), self.blocks[0].dtype)
        for s in np.unique(cluster):
            in_block = np.flatnonzero(cluster == s)
            out[np.ix_(in_block, self.groups[s])] = self.blocks[s][position[in_block]]
        return out

    def cross(self, X: Any) -> np.ndarray:
        out = np.zeros((X.shape[0], self.shape[1]), self.blocks[0].dtype)
        for s, rows in group_rows(self.centres.assign(X)):
            matrix = self.kernels[s]
            values = np.empty((len(rows), len(matrix)), out.dtype)
            points = matrix.kernel.prepare(X[rows], matrix.dtype)
            matrix.kernel.evaluate(points, matrix.points(slice(None)), values)
            out[np.ix_(rows, self.groups[s])] = values
        return out

    def machine(self, coef: np.ndarray) -> Machine:
        machines = [
            KernelExpansion(
                kernel, np.arange(len(kernel)), coef[rows], prediction_dtype(kernel, coef[rows])
            )
            for kernel, rows in zip(self.kernels, self.groups, strict=True)
        ]
        return LocalExpansions(self.centres, machines, coef.shape[1])

    def scaled(self, scale: np.ndarray) -> "BlockDiagonalKernel":
        """S G S for S = diag(scale); O(sum n_s^2)."""
        scaled_copy = copy.copy(self)
        scaled_copy.blocks = [
            block * np.outer(scale[rows], scale[rows]).astype(block.dtype)
            for block, rows in zip(self.blocks, self.groups, strict=True)
        ]
        return scaled_copy

    def solve(self, Y: np.ndarray, alpha: float) -> np.ndarray:
        """(G + alpha I)^-1 Y, a Cholesky factorisation for each block. O(sum n_s^3 / 3)."""
        out = np.empty(Y.shape)
        for block, rows in zip(self.blocks, self.groups, strict=True):
            out[rows] = scipy.linalg.cho_solve(_cholesky(block, alpha), Y[rows])
        return out

    def preconditioner(self, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
        """(G + alpha I)^-1 by stored Cholesky factors, which take sum n_s^2 numbers of float64."""
        factors = [_cholesky(block, alpha) for block in self.blocks]

        def apply(R: np.ndarray) -> np.ndarray:
            out = np.empty(R.shape)
            for factor, rows in zip(factors, self.groups, strict=True):
                out[rows] = scipy.linalg.cho_solve(factor, R[rows])
            return out

        return apply


def _cholesky(block: np.ndarray, alpha: float) -> tuple[np.ndarray, bool]:
    """Cholesky factor of a block plus alpha I, float64."""
    shifted = block.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += alpha
    # LAPACK overwrites column-major arrays, so the transpose saves a copy.
    return scipy.linalg.cho_factor(shifted.T, overwrite_a=True, check_finite=False)


@dataclass(eq=False, repr=False)
class BKA(KernelParameters, TakesSparseRows, BaseEstimator):
    """Block kernel approximation.

    Parameters
    ----------
    n_clusters : int, default=10
        c, set by hand; at most the number of rows, and empty clusters are dropped.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; a positive semidefinite kernel, one gamma for all features.
    partition : {"kmeans", "spectral", "random"}, default="kmeans"
        "kmeans": k-means in input space. "spectral": ratio association on the kernel matrix of
        `n_samples` rows, by k-means on its first c eigenvectors. "random": random clusters, as a
        control; new rows go to the nearest of c random rows.
    n_samples : int or None, default=None
        Number of rows that are clustered; None is 20,000, or 2,000 for "spectral". Set by hand.
    kmeans_iter : int, default=10
        Largest number of iterations of k-means. Set by hand.
    memory_mb : float, default=4096.0
        Limit in MiB for the blocks and the float64 factor of the largest block together. `fit`
        raises a ValueError before it computes more than that. Set by hand.
    dtype : {"float32", "float64"}, default="float32"
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    matrix_ : BlockDiagonalKernel
    kernel_ : Kernel
        The kernel function that is approximated.
    labels_ : (n,) ints
    n_clusters_ : int
    kernel_entries_ : int
        sum n_s^2
    timings_ : dict of str to float
        Seconds of "cluster", "blocks".
    n_features_in_ : int

    Notes
    -----
    About n^2 d / c operations and n^2 / c numbers of memory for clusters of equal size.
    """

    _parameter_constraints: ClassVar[dict] = {
        **kernel_constraints("of_rows", "positive_semidefinite", function=True),
        "partition": [choice("kmeans", "spectral", "random")],
        "n_samples": [integer(1), None],
        "kmeans_iter": [integer(1)],
        **usual("n_clusters", "memory_mb", "dtype", "random_state"),
    }

    n_clusters: int = 10
    _: KW_ONLY
    partition: str = "kmeans"
    n_samples: int | None = None
    kmeans_iter: int = 10
    memory_mb: float = 4096.0
    dtype: str = "float32"
    random_state: Any = None

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Approximate the kernel matrix of rows X : (n, d), dense or CSR."""
        X = validate_data(self, X)
        n = X.shape[0]
        n_clusters = clipped("n_clusters", self.n_clusters, n)
        trace = Trace() if trace is None else trace
        rng = check_random_state(self.random_state)
        self.kernel_ = kernel = self._make_kernel(X)
        # Blocks of equal size take the least memory. If they exceed the limit, stop here.
        self._check_memory(np.full(n_clusters, n / n_clusters))
        with trace.phase("cluster"):
            centres, self.labels_ = self._cluster_rows(KernelMatrix(kernel, X), X, n_clusters, rng)
            groups = [rows for _, rows in group_rows(self.labels_)]
        self._check_memory(np.array([len(rows) for rows in groups]))
        with trace.phase("blocks"):
            kernels = [KernelMatrix(kernel, X[rows], self.dtype) for rows in groups]
            warn_of_rounding(kernels)
            self.matrix_ = BlockDiagonalKernel(kernels, groups, centres)
        self.n_clusters_ = len(groups)
        self.kernel_entries_ = self.matrix_.kernel_entries_
        self.timings_ = dict(trace.timings)
        return self

    def kernel_matrix(self, X: Any, *, trace: Trace | None = None) -> BlockDiagonalKernel:
        """`matrix_`, which `fit` has computed; X and trace are not used."""
        return self.matrix_

    def _check_memory(self, sizes: np.ndarray) -> None:
        """Raise a ValueError if the blocks of clusters of these sizes exceed `memory_mb`."""
        size_mb = (np.dtype(self.dtype).itemsize * (sizes**2).sum() + 8 * sizes.max() ** 2) / 2**20
        if size_mb > self.memory_mb:
            raise ValueError(
                f"the blocks of {len(sizes)} clusters, of up to {sizes.max():.0f} rows, and the "
                f"factor of the largest take {size_mb:.0f} MiB, more than "
                f"memory_mb={self.memory_mb:g}; use more clusters"
            )

    def _cluster_rows(
        self, kernel: KernelMatrix, X: Any, c: int, rng: np.random.RandomState
    ) -> tuple[Centroids | KernelCentres, np.ndarray]:
        """Centres, and the cluster of each row."""
        n = X.shape[0]
        max_samples = self.n_samples or (2000 if self.partition == "spectral" else 20000)
        sample = rng.choice(n, min(n, max(max_samples, c)), replace=False)
        if self.partition == "kmeans":
            return sampled_kmeans(X, c, sample, max_iter=self.kmeans_iter)
        if self.partition == "random":
            centroids = kmeans_centroids(X, c, sample[:c])
            return centroids, rng.permutation(n) % c
        gram = kernel.block(sample, kernel.points(sample)).astype(np.float64)
        _, vectors = leading_eigenpairs(gram, c, "lanczos", rng)
        _, sample_labels = sampled_kmeans(vectors, c, rng.permutation(len(sample)))
        return occupied_centres(kernel, sample, sample_labels)
