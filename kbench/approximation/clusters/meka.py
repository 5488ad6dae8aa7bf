"""MEKA: low rank within clusters, and small matrices between them.

Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (ICML 2014; JMLR 18, 2017). With
clusters V_1 .. V_c, n_s points in V_s:

    1. k-means in input space on a sample, then every point goes to its nearest centroid;
    2. W_s = k(X_s, Z_s) U Sigma^(-1/2), the rank-k Nystrom basis of the block (s, s) with landmarks
       Z_s of the cluster, K(Z_s, Z_s) ~ U Sigma U'; L_ss = I;
    3. L_st between clusters, zero where the kernel of the centroids is small;

    G ~ W L W',    W = blockdiag(W_1 .. W_c).

G has the rank c k and n k + (c k)^2 numbers. The links L_st come from one of two formulas:

- "sampled", the papers': min ||G_st - W_s L_st W_t'|| on (1 + rho) k rows of either cluster, by
  pseudo-inverses. Where a basis is nearly singular on its sample the least squares are unstable,
  and G may become indefinite;
- "galerkin": T_s' K(Z_s, Z_t) T_t with T = U Sigma^(-1/2): the Nystrom approximation with all
  landmarks, restricted to the bases. Positive semidefinite when no block is dropped.

A basis may also come from the whole of its row of blocks (JMLR, section 7.2): its landmarks are
from all clusters, and T_s has the k directions of their span in which the cluster's points have
the largest norm (`leading_directions`).
"""

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from kbench import presets
from kbench.approximation.clipped import clipped
from kbench.approximation.clusters.meka_matrix import LocalBasis, MEKABasis, MEKAKernel, basis_rows
from kbench.approximation.features.stored_numbers import CONSTRAINTS, chosen_rank, require_one
from kbench.approximation.landmarks.spectral_nystrom import kernel_columns
from kbench.approximation.landmarks.spectrum import leading_directions, leading_eigenpairs
from kbench.clustering import Centroids, kmeans_centroids, sampled_kmeans
from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.prediction import group_rows
from kbench.trace import Trace
from kbench.validated import (
    NOT_NEGATIVE,
    TakesSparseRows,
    choice,
    fit_context,
    integer,
    real,
    usual,
    validate_data,
)

# Iterations of the k-means that chooses landmarks within a cluster: more take time, and landmarks
# need not be exact means. Set by hand.
_LANDMARK_ITERATIONS = 5


@dataclass(eq=False, repr=False)
class MEKA(KernelParameters, TakesSparseRows, BaseEstimator):
    """Memory efficient kernel approximation.

    Where a default is "by preset", None means the value that `preset` has in
    `kbench.presets.MEKA`; any other value wins over the preset. The value in brackets is the one
    for preset=None.

    Parameters
    ----------
    rank : int or None, default=128
        k, columns of W in each cluster; fewer if a cluster has fewer points or eigenvalues. None:
        `numbers_per_row` sets it.
    numbers_per_row : float or None, default=None
        Numbers that W and L keep, divided by the number of rows. With rank=None it sets the rank,
        the same in each cluster, so that approximations can be compared at equal memory.
    n_clusters : int, default=10
        c, set by hand; at most the number of rows, and empty clusters are dropped.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; a positive semidefinite kernel, one gamma for all features.
    preset : {"paper", "released"} or None, default=None
        "paper": points as landmarks and sampled links, as published except for `pinv_cut`.
        "released": the authors' program, where `rank` is the rank of the whole matrix and a tenth
        of the links is zero.
    landmarks : {"kmeans", "uniform"}, default by preset ("kmeans")
        Centroids of k-means within the cluster, or its points, drawn without replacement.
    n_landmarks : int or None, default=None
        Landmarks of each cluster. None means `rank` centroids or, as in the papers, 2 `rank`
        points; twice as many of either for rank_strategy="size" and "eigenvalues", and twice as
        many centroids for basis_sampling="partition_rows".
    basis_sampling : {"diagonal", "partition_rows"}, default by preset ("diagonal")
        Landmarks of a cluster's basis come from the cluster, or from all rows.
    link : {"galerkin", "sampled"}, default by preset ("galerkin")
        How the matrices L_st between clusters are computed; see the head of this module.
    rho : float, default by preset (2.0)
        For link="sampled": (1 + rho) `rank` rows of each cluster are sampled.
    pinv_cut : float, default by preset (0.03)
        For link="sampled": singular values of a basis on its sample below this multiple of the
        largest are treated as zero. The authors' program has 1e-6.
    eps : float, default by preset (0.0)
        Links are zero if the kernel value of the two centroids is at most this; 0 keeps them all.
        The ICML 2014 version states 0.1, which does not reproduce its Table 7 (`kbench.presets`).
    zero_fraction : float, default by preset (0.0)
        Fraction of the links that are zero, those with the smallest kernel values of the
        centroids; 0.1 in the authors' program, which has no `eps`.
    rank_strategy : {"same", "size", "eigenvalues", "total"}, default by preset ("same")
        How the c `rank` columns are divided: evenly, in proportion to the points, or by the largest
        eigenvalues of all clusters' landmarks. "total", as in the authors' program: `rank` columns
        in all, in proportion to the points.
    psd : bool, default=False
        Replace negative eigenvalues of L by zero (MEKA-PSD).
    n_samples : int, default by preset (20000)
        Largest number of rows on which k-means runs and, with basis_sampling="partition_rows", of
        rows of a cluster from which the directions of its basis are computed.
    kmeans_iter : int, default by preset (10)
        Largest number of iterations of k-means.
    dtype : {"float32", "float64"}, default="float32"
        Precision of W and L.
    n_jobs : int or None, default=None
        Clusters whose bases are computed in parallel, through joblib. The result does not depend
        on it.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    matrix_ : MEKAKernel
    kernel_ : Kernel
        The kernel function that is approximated.
    effective_params_ : dict
        The parameters that presets set, with their values in this fit.
    labels_ : (n,) ints
        Cluster of each row.
    ranks_ : (c,) ints
        k_s
    n_clusters_ : int
    kernel_entries_ : int
        Kernel values computed in `fit`, without those between centroids.
    timings_ : dict of str to float
        Seconds of "cluster", "bases", "links": T_C, T_W, T_L of the papers.
    n_features_in_ : int

    Notes
    -----
    O(n c d) for the clusters, O(n m (k + d) + c m^3) for the bases, O(c^2 m k (m + k)) for the
    links (m = (1 + rho) k when sampled); memory n k + (c k)^2 numbers and a batch.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from kbench.approximation import MEKA
    >>> X = load_digits().data / 16
    >>> G = MEKA(64, n_clusters=5, gamma=0.1, random_state=0).fit(X).matrix_
    >>> K = rbf_kernel(X, gamma=0.1)
    >>> bool(np.linalg.norm(G.rows(np.arange(len(X))) - K) < 0.1 * np.linalg.norm(K))
    True
    """

    # Landmarks by k-means, and the rows of a cluster's sample, are dense: 3.6 float64 copies of up
    # to 4,096 rows, measured as `kbench.validated` says.
    dense_rows: ClassVar[tuple[float, int]] = (3.6, 4096)

    _parameter_constraints: ClassVar[dict] = {
        **CONSTRAINTS,
        **kernel_constraints("of_rows", "positive_semidefinite", function=True),
        "preset": [choice("paper", "released"), None],
        "landmarks": [choice("kmeans", "uniform"), None],
        "n_landmarks": [integer(1), None],
        "basis_sampling": [choice("diagonal", "partition_rows"), None],
        "link": [choice("galerkin", "sampled"), None],
        "rho": [NOT_NEGATIVE, None],
        "pinv_cut": [real(0, 1, closed="left"), None],
        "eps": [NOT_NEGATIVE, None],
        "zero_fraction": [real(0, 1, closed="both"), None],
        "rank_strategy": [choice("same", "size", "eigenvalues", "total"), None],
        "psd": ["boolean"],
        "n_samples": [integer(1), None],
        "kmeans_iter": [integer(1), None],
        **usual("n_clusters", "dtype", "n_jobs", "random_state"),
    }

    rank: int | None = 128
    _: KW_ONLY
    numbers_per_row: float | None = None
    n_clusters: int = 10
    preset: str | None = None
    landmarks: str | None = None
    n_landmarks: int | None = None
    basis_sampling: str | None = None
    link: str | None = None
    rho: float | None = None
    pinv_cut: float | None = None
    eps: float | None = None
    zero_fraction: float | None = None
    rank_strategy: str | None = None
    psd: bool = False
    n_samples: int | None = None
    kmeans_iter: int | None = None
    dtype: str = "float32"
    n_jobs: int | None = None
    random_state: Any = None

    def _validate_params(self) -> None:
        super()._validate_params()
        require_one(self.rank, self.numbers_per_row)
        self._settings()

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Approximate the kernel matrix of rows X : (n, d), dense or CSR.

        Raises
        ------
        ValueError
            A parameter is out of range; or `rho` or `pinv_cut` is set, but `link` is "galerkin".
        """
        X = validate_data(self, X)
        n = X.shape[0]
        trace = Trace() if trace is None else trace
        rng = check_random_state(self.random_state)
        params = self._settings()
        self.effective_params_ = vars(params)
        if self.rank is not None:
            clipped("rank", self.rank, n)
        n_clusters = clipped("n_clusters", self.n_clusters, n)
        self.kernel_ = kernel = self._make_kernel(X)
        with trace.phase("cluster"):
            sample = rng.choice(n, min(n, max(params.n_samples, n_clusters)), replace=False)
            centroids, self.labels_ = sampled_kmeans(
                X, n_clusters, sample, max_iter=params.kmeans_iter
            )
            groups = [rows for _, rows in group_rows(self.labels_)]
            pairs = self._linked_pairs(kernel, centroids, params)
            params.rank = self._rank([len(rows) for rows in groups], pairs)
        with trace.phase("bases"):
            local_bases, basis_entries = self._local_bases(X, kernel, groups, params, rng)
            bases: list[np.ndarray] = Parallel(n_jobs=self.n_jobs)(
                delayed(basis_rows)(basis, X[rows], self.dtype)
                for basis, rows in zip(local_bases, groups, strict=True)
            )
        with trace.phase("links"):
            blocks, link_entries = self._links(
                X, kernel, groups, local_bases, bases, pairs, params, rng
            )
            link = self._assemble(blocks, [basis.shape[1] for basis in bases])
        self.ranks_ = np.array([basis.shape[1] for basis in bases])
        self.n_clusters_ = len(groups)
        sizes = [(len(b.landmarks), len(rows)) for b, rows in zip(local_bases, groups, strict=True)]
        self.kernel_entries_ = basis_entries + link_entries + sum(m * n_s for m, n_s in sizes)
        basis = MEKABasis(centroids, local_bases, link)
        self.matrix_ = MEKAKernel(basis, groups, bases, self.kernel_entries_)
        self.timings_ = dict(trace.timings)
        return self

    def kernel_matrix(self, X: Any, *, trace: Trace | None = None) -> MEKAKernel:
        """The approximate kernel matrix of the rows of `fit`: `matrix_`."""
        return self.matrix_

    def row_basis(self) -> MEKABasis:
        """The `RowBasis` that computes the rows of W of any points."""
        return self.matrix_.basis

    def _settings(self) -> SimpleNamespace:
        """The parameters that presets set, with the user's values or else the preset's."""
        params = SimpleNamespace(
            **presets.resolve(self.preset, presets.MEKA, self.get_params(deep=False))
        )
        default = presets.MEKA[self.preset]
        for name in ("rho", "pinv_cut"):
            if params.link == "galerkin" and getattr(params, name) != default[name]:
                raise ValueError(
                    f"{name}={getattr(params, name)} belongs to link='sampled' and has no effect "
                    f"with link='galerkin'; set link='sampled', or leave {name} out"
                )
        if self.numbers_per_row is not None and params.rank_strategy != "same":
            raise ValueError(
                f"numbers_per_row sets the same rank for each cluster, got "
                f"rank_strategy={params.rank_strategy!r}; set rank instead"
            )
        return params

    def _local_bases(
        self,
        X: Any,
        kernel: Kernel,
        groups: list[np.ndarray],
        params: SimpleNamespace,
        rng: np.random.RandomState,
    ) -> tuple[list[LocalBasis], int]:
        """Landmarks and projections of the clusters, and the number of kernel values computed.

        With basis_sampling="partition_rows", at most `n_samples` rows of a cluster determine its
        directions.
        """
        from_all_rows = params.basis_sampling == "partition_rows"
        landmark_points = [
            self._choose_landmarks(X if from_all_rows else X[rows], params, rng) for rows in groups
        ]
        landmarks = [KernelMatrix(kernel, points, np.float64) for points in landmark_points]
        grams = [matrix.block(np.arange(len(matrix))) for matrix in landmarks]
        kernel_entries = sum(matrix.n_entries for matrix in landmarks)
        ranks = self._ranks(grams, [len(rows) for rows in groups], params)
        bases = []
        for s, (matrix, gram, rank) in enumerate(zip(landmarks, grams, ranks, strict=True)):
            if from_all_rows:
                rows = groups[s]
                rows = rng.choice(rows, min(len(rows), params.n_samples), replace=False)
                columns = kernel_columns(matrix, X[rows])
                _, directions = leading_directions(gram, columns, rank, "exact", rng)
                kernel_entries += len(rows) * len(matrix)
            else:
                eigenvalues, vectors = leading_eigenpairs(gram, rank, "exact", rng)
                directions = vectors / np.sqrt(eigenvalues)
            bases.append(LocalBasis(landmark_points[s], matrix, directions))
        return bases, kernel_entries

    def _choose_landmarks(self, X: Any, params: SimpleNamespace, rng: np.random.RandomState) -> Any:
        """Landmarks of one cluster: some of the rows X, or centroids of them."""
        n = X.shape[0]
        max_landmarks = self.n_landmarks
        if max_landmarks is None:
            by_kmeans = params.landmarks == "kmeans"
            max_landmarks = params.rank if by_kmeans else 2 * params.rank
            uneven = params.rank_strategy in ("size", "eigenvalues")
            if uneven or (params.basis_sampling == "partition_rows" and by_kmeans):
                max_landmarks *= 2
        n_landmarks = min(max_landmarks, n)
        if params.landmarks == "uniform":
            return X[rng.choice(n, n_landmarks, replace=False)]
        if n_landmarks == n:
            return X
        sample = rng.choice(n, min(n, max(n_landmarks, params.n_samples)), replace=False)
        return kmeans_centroids(X, n_landmarks, sample, max_iter=_LANDMARK_ITERATIONS).means

    def _rank(self, sizes: list[int], pairs: list[tuple[int, int]]) -> int:
        """The rank k for clusters of these sizes whose `pairs` are linked."""

        def count(rank: int) -> float:
            columns = [min(rank, size) for size in sizes]
            stored = sum(a * size for a, size in zip(columns, sizes, strict=True))
            if self.psd:  # without its negative eigenvalues L is dense
                return stored + sum(columns) ** 2
            return stored + sum(columns) + 2 * sum(columns[s] * columns[t] for s, t in pairs)

        return chosen_rank(self.rank, self.numbers_per_row, sum(sizes), count)

    def _ranks(
        self, grams: list[np.ndarray], sizes: list[int], params: SimpleNamespace
    ) -> list[int]:
        """Columns of W for each cluster, from its landmarks' Gram matrix and its size."""
        c, n = len(grams), sum(sizes)
        if params.rank_strategy == "same":
            return [params.rank] * c
        if params.rank_strategy != "eigenvalues":
            n_columns = params.rank * (c if params.rank_strategy == "size" else 1)
            return [-(-n_columns * size // n) for size in sizes]
        eigenvalues = [scipy.linalg.eigvalsh(gram) for gram in grams]
        cluster_of_eigenvalue = np.repeat(np.arange(c), [len(v) for v in eigenvalues])
        largest = np.argsort(-np.concatenate(eigenvalues), kind="stable")[: params.rank * c]
        return [max(1, count) for count in np.bincount(cluster_of_eigenvalue[largest], minlength=c)]

    def _links(
        self,
        X: Any,
        kernel: Kernel,
        groups: list[np.ndarray],
        local_bases: list[LocalBasis],
        bases: list[np.ndarray],
        pairs: list[tuple[int, int]],
        params: SimpleNamespace,
        rng: np.random.RandomState,
    ) -> tuple[dict[tuple[int, int], np.ndarray], int]:
        """L_st for the pairs s > t that are not dropped, and the number of kernel values."""
        if params.link == "galerkin":
            # One matrix of all landmarks, so that the kernel preprocesses each point once.
            points = _stack([basis.points for basis in local_bases])
            factors = [basis.projection for basis in local_bases]
        else:
            samples = [
                rng.choice(
                    len(rows), min(len(rows), int((1 + params.rho) * params.rank)), replace=False
                )
                for rows in groups
            ]
            points = X[
                np.concatenate(
                    [rows[sampled] for rows, sampled in zip(groups, samples, strict=True)]
                )
            ]
            factors = [
                scipy.linalg.pinv(basis[sampled].astype(np.float64), rtol=params.pinv_cut).T
                for basis, sampled in zip(bases, samples, strict=True)
            ]
        matrix = KernelMatrix(kernel, points, np.float64)
        offsets = np.cumsum([0] + [len(factor) for factor in factors])
        positions = [np.arange(a, b) for a, b in pairwise(offsets)]
        blocks = {}
        for s, t in pairs:
            gram = matrix.block(positions[s], matrix.points(positions[t]))
            blocks[s, t] = matmul(matmul(factors[s].T, gram), factors[t])
        return blocks, matrix.n_entries

    @staticmethod
    def _linked_pairs(
        kernel: Kernel, centroids: Centroids, params: SimpleNamespace
    ) -> list[tuple[int, int]]:
        """Pairs s > t of clusters whose link is not set to zero."""
        means = KernelMatrix(kernel, centroids.means, np.float64)
        similarities = means.block(np.arange(len(means)))
        pairs = [(s, t) for s in range(len(means)) for t in range(s)]
        pairs.sort(key=lambda pair: similarities[pair])
        pairs = pairs[round(params.zero_fraction * len(pairs)) :]
        return [pair for pair in pairs if params.eps == 0.0 or similarities[pair] > params.eps]

    def _assemble(self, blocks: dict[tuple[int, int], np.ndarray], ranks: list[int]) -> np.ndarray:
        """L : (r, r) of the linked blocks, with L_ss = I; without negative eigenvalues for psd."""
        offsets = np.cumsum([0, *ranks])
        link = np.eye(offsets[-1])
        for (s, t), block in blocks.items():
            link[offsets[s] : offsets[s + 1], offsets[t] : offsets[t + 1]] = block
            link[offsets[t] : offsets[t + 1], offsets[s] : offsets[s + 1]] = block.T
        if self.psd:
            eigenvalues, vectors = scipy.linalg.eigh(link)
            negative = eigenvalues < 0.0
            link -= matmul(vectors[:, negative] * eigenvalues[negative], vectors[:, negative].T)
        return link.astype(self.dtype)


def _stack(blocks: list[Any]) -> Any:
    if any(map(sp.issparse, blocks)):  # means of clusters are dense, rows of few points are not
        return sp.vstack([sp.csr_array(block) for block in blocks], format="csr")
    return np.vstack(blocks)
