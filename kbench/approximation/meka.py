"""MEKA: low rank within clusters, and small matrices between them.

Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (ICML 2014; JMLR 18, 2017). With
clusters V_1 .. V_c, n_s points in V_s:

    1. k-means in input space on a sample, then every point goes to its nearest centroid;
    2. W_s = k(X_s, Z_s) U Sigma^(-1/2), the rank-k Nystrom basis of the block (s, s) with landmarks
       Z_s of the cluster, K(Z_s, Z_s) ~ U Sigma U'; L_ss = I;
    3. L_st between clusters, zero where the kernel of the centroids is small;

    G ~ W L W',    W = blockdiag(W_1 .. W_c).

Rank c k from n k + (c k)^2 numbers. Links are found in one of two ways:

- "sampled", the papers': min ||G_st - W_s L_st W_t'|| on (1 + rho) k rows of either cluster, by
  pseudo-inverses. Where a basis is nearly singular on its sample the least squares are unstable,
  and G may become indefinite;
- "galerkin": T_s' K(Z_s, Z_t) T_t with T = U Sigma^(-1/2): the Nystrom approximation with all
  landmarks, restricted to the bases. Positive semidefinite when no block is dropped.

A basis may also come from the whole of its row of blocks (JMLR, section 7.2): landmarks from all
clusters, and T_s the k directions of their span that hold most of the cluster's points
(`leading_directions`).
"""

from collections.abc import Callable
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from kbench.approximation.factored import FactoredKernel
from kbench.approximation.local_expansions import LocalExpansions
from kbench.approximation.operator import Machine
from kbench.approximation.spectral_nystrom import kernel_columns
from kbench.approximation.spectrum import leading_directions, leading_eigenpairs
from kbench.clustering import Centroids, kmeans_centroids, sampled_kmeans
from kbench.kernels import Kernel, KernelMatrix, make_kernel
from kbench.prediction import KernelExpansion, group_rows, prediction_dtype
from kbench.trace import Trace

# Kernel values of rows and landmarks that are held at a time.
_BATCH = 8192
_KMEANS_ITER = 5


class LocalBasis(NamedTuple):
    """What gives a point of a cluster its row of W: k(x, Z_s) T_s."""

    points: Any  # Z_s : (m_s, d)
    landmarks: KernelMatrix  # of Z_s, float64
    projection: np.ndarray  # T_s : (m_s, k_s) float64

    def fill(self, X: Any, out: np.ndarray) -> None:
        """Write rows of W for X : (u, d) into out : (u, k_s)."""
        matrix = self.landmarks.astype(out.dtype)
        columns = matrix.points(slice(None))
        projection = self.projection.astype(out.dtype)
        values = np.empty((min(_BATCH, len(out)), len(projection)), out.dtype)
        for start in range(0, len(out), _BATCH):
            rows = slice(start, start + _BATCH)
            part = values[: len(out[rows])]
            matrix.kernel.evaluate(matrix.kernel.prepare(X[rows], out.dtype), columns, part)
            np.matmul(part, projection, out=out[rows])


class MEKAKernel(FactoredKernel):
    """The approximate kernel matrix that `MEKA` makes.

    Parameters
    ----------
    centroids : Centroids
    local : list of LocalBasis, by cluster
    groups, bases, link
        As in `FactoredKernel`.
    """

    def __init__(
        self,
        centroids: Centroids,
        local: list[LocalBasis],
        groups: list[np.ndarray],
        bases: list[np.ndarray],
        link: np.ndarray,
    ) -> None:
        super().__init__(groups, bases, link)
        self.centroids, self.local = centroids, local

    def cross(self, X: Any) -> np.ndarray:
        out = np.empty((X.shape[0], self.shape[1]), self.bases[0].dtype)
        for s, rows in group_rows(self.centroids.assign(X)):
            features = np.empty((len(rows), self.bases[s].shape[1]), out.dtype)
            self.local[s].fill(X[rows], features)
            out[rows] = self._expand(s, features)
        return out

    def machine(self, coef: np.ndarray) -> Machine:
        weights = self.weights(coef)
        machines = []
        for basis, columns in zip(self.local, self._columns, strict=True):
            folded = basis.projection @ weights[columns]
            dtype = prediction_dtype(basis.landmarks.astype(np.float32), folded)
            centres = np.arange(len(basis.landmarks))
            machines.append(KernelExpansion(basis.landmarks, centres, folded, dtype))
        return LocalExpansions(self.centroids, machines, coef.shape[1])


class MEKA(BaseEstimator):
    """Memory efficient kernel approximation.

    Parameters
    ----------
    rank : int, default=128
        k, columns of W in each cluster; fewer where a cluster has fewer points or eigenvalues.
    n_clusters : int, default=10
        c; empty clusters are dropped.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    landmarks : {"kmeans", "uniform"}, default="kmeans"
        Centroids of k-means within the cluster, or points of it drawn without replacement.
    n_landmarks : int or None, default=None
        Of each cluster; None is `rank` for k-means and, as in the papers, 2 `rank` for points and
        wherever there is a choice of directions in their span.
    basis_sampling : {"diagonal", "partition_rows"}, default="diagonal"
        Landmarks of a cluster's basis: from the cluster, or from all rows.
    link : {"galerkin", "sampled"}, default="galerkin"
    rho : float, default=2.0
        "sampled": (1 + rho) `rank` rows of each cluster.
    pinv_cut : float, default=0.03
        "sampled": singular values of a basis on its sample that are smaller, relative to the first,
        count as zero. 1e-6 in the authors' program.
    eps : float, default=0.0
        Links are zero where the kernel of the two centroids is at most this; 0.1 in the papers.
    zero_fraction : float, default=0.0
        Share of the links that are zero, those with the smallest kernel of the centroids; 0.1 in
        the authors' program, in place of `eps`.
    rank_strategy : {"same", "size", "eigenvalues", "total"}, default="same"
        How c `rank` columns are shared: evenly, by points, or by the largest eigenvalues of all
        clusters' landmarks. "total", as in the authors' program: `rank` columns in all, by points.
    psd : bool, default=False
        Set negative eigenvalues of L to zero (MEKA-PSD).
    n_samples : int, default=20000
        Rows that k-means works on.
    kmeans_iter : int, default=10
    dtype : {"float32", "float64"}, default="float32"
        Of W and L.
    n_jobs : int or None, default=None
        Clusters whose bases are computed at once, through joblib. The result does not depend on it.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    matrix_ : MEKAKernel
    labels_ : (n,) ints
        Cluster of each row.
    ranks_ : (c,) ints
        k_s
    n_clusters_ : int
    kernel_entries_ : int
        Kernel values computed in `fit`.
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

    _parameter_constraints: ClassVar[dict] = {
        "rank": [Interval(Integral, 1, None, closed="left")],
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions({"rbf", "laplacian", "poly", "linear"}), callable],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "landmarks": [StrOptions({"kmeans", "uniform"})],
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "basis_sampling": [StrOptions({"diagonal", "partition_rows"})],
        "link": [StrOptions({"galerkin", "sampled"})],
        "rho": [Interval(Real, 0, None, closed="left")],
        "pinv_cut": [Interval(Real, 0, 1, closed="left")],
        "eps": [Interval(Real, 0, None, closed="left")],
        "zero_fraction": [Interval(Real, 0, 1, closed="both")],
        "rank_strategy": [StrOptions({"same", "size", "eigenvalues", "total"})],
        "psd": ["boolean"],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "kmeans_iter": [Interval(Integral, 1, None, closed="left")],
        "dtype": [StrOptions({"float32", "float64"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        rank: int = 128,
        *,
        n_clusters: int = 10,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: str = "kmeans",
        n_landmarks: int | None = None,
        basis_sampling: str = "diagonal",
        link: str = "galerkin",
        rho: float = 2.0,
        pinv_cut: float = 0.03,
        eps: float = 0.0,
        zero_fraction: float = 0.0,
        rank_strategy: str = "same",
        psd: bool = False,
        n_samples: int = 20000,
        kmeans_iter: int = 10,
        dtype: str = "float32",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.basis_sampling = basis_sampling
        self.link = link
        self.rho = rho
        self.pinv_cut = pinv_cut
        self.eps = eps
        self.zero_fraction = zero_fraction
        self.rank_strategy = rank_strategy
        self.psd = psd
        self.n_samples = n_samples
        self.kmeans_iter = kmeans_iter
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Approximate the kernel matrix of rows X : (n, d), dense or CSR."""
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32])
        n = X.shape[0]
        if self.n_clusters > n:
            raise ValueError(f"n_clusters={self.n_clusters} is more than n_samples={n}")
        trace = Trace() if trace is None else trace
        rng = check_random_state(self.random_state)
        kernel = make_kernel(self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
        with trace.phase("cluster"):
            sample = rng.choice(n, min(n, max(self.n_samples, self.n_clusters)), replace=False)
            centroids, self.labels_ = sampled_kmeans(
                X, self.n_clusters, sample, max_iter=self.kmeans_iter
            )
            groups = [rows for _, rows in group_rows(self.labels_)]
        with trace.phase("bases"):
            local, based = self._local_bases(X, kernel, groups, rng)
            bases = self._bases(X, groups, local)
        with trace.phase("links"):
            blocks, linked = self._links(X, kernel, groups, local, bases, centroids, rng)
            link = self._assemble(blocks, [basis.shape[1] for basis in bases])
        self.ranks_ = np.array([basis.shape[1] for basis in bases])
        self.n_clusters_ = len(groups)
        self.matrix_ = MEKAKernel(centroids, local, groups, bases, link)
        sizes = [(len(b.landmarks), len(rows)) for b, rows in zip(local, groups, strict=True)]
        self.kernel_entries_ = based + linked + sum(m * n_s for m, n_s in sizes)
        self.timings_ = dict(trace.timings)
        return self

    def _local_bases(
        self, X: Any, kernel: Kernel, groups: list[np.ndarray], rng: np.random.RandomState
    ) -> tuple[list[LocalBasis], int]:
        """Landmarks and projections of the clusters, and how many kernel values they took."""
        across = self.basis_sampling == "partition_rows"
        points = [self._choose(X if across else X[rows], rng) for rows in groups]
        landmarks = [KernelMatrix(kernel, part, np.float64) for part in points]
        grams = [matrix.block(np.arange(len(matrix))) for matrix in landmarks]
        entries = sum(matrix.n_entries for matrix in landmarks)
        ranks = self._ranks(grams, [len(rows) for rows in groups])
        local = []
        for s, (matrix, gram, rank) in enumerate(zip(landmarks, grams, ranks, strict=True)):
            if across:
                rows = groups[s]
                rows = rng.choice(rows, min(len(rows), self.n_samples), replace=False)
                columns = kernel_columns(matrix, X[rows])
                _, directions = leading_directions(gram, columns, rank, "exact", rng)
                entries += len(rows) * len(matrix)
            else:
                values, vectors = leading_eigenpairs(gram, rank, "exact", rng)
                directions = vectors / np.sqrt(values)
            local.append(LocalBasis(points[s], matrix, directions))
        return local, entries

    def _choose(self, X: Any, rng: np.random.RandomState) -> Any:
        """Landmarks among, or from, rows X."""
        n = X.shape[0]
        wanted = self.n_landmarks
        if wanted is None:
            wanted = self.rank if self.landmarks == "kmeans" else 2 * self.rank
            uneven = self.rank_strategy in ("size", "eigenvalues")
            if uneven or (self.basis_sampling, self.landmarks) == ("partition_rows", "kmeans"):
                wanted *= 2
        size = min(wanted, n)
        if self.landmarks == "uniform":
            return X[rng.choice(n, size, replace=False)]
        if size == n:
            return X.toarray() if sp.issparse(X) else X
        sample = rng.choice(n, min(n, max(size, self.n_samples)), replace=False)
        return kmeans_centroids(X, size, sample, max_iter=_KMEANS_ITER).means

    def _ranks(self, grams: list[np.ndarray], sizes: list[int]) -> list[int]:
        """Columns of W for each cluster."""
        c, n = len(grams), sum(sizes)
        if self.rank_strategy == "same":
            return [self.rank] * c
        if self.rank_strategy != "eigenvalues":
            total = self.rank * (c if self.rank_strategy == "size" else 1)
            return [-(-total * size // n) for size in sizes]
        values = [scipy.linalg.eigvalsh(gram) for gram in grams]
        cluster = np.repeat(np.arange(c), [len(v) for v in values])
        top = np.argsort(-np.concatenate(values), kind="stable")[: self.rank * c]
        return [max(1, count) for count in np.bincount(cluster[top], minlength=c)]

    def _bases(self, X: Any, groups: list[np.ndarray], local: list[LocalBasis]) -> list[np.ndarray]:
        computed: list[np.ndarray] = Parallel(n_jobs=self.n_jobs)(
            delayed(_basis)(basis, X[rows], self.dtype)
            for basis, rows in zip(local, groups, strict=True)
        )
        return computed

    def _links(
        self,
        X: Any,
        kernel: Kernel,
        groups: list[np.ndarray],
        local: list[LocalBasis],
        bases: list[np.ndarray],
        centroids: Centroids,
        rng: np.random.RandomState,
    ) -> tuple[dict[tuple[int, int], np.ndarray], int]:
        """L_st for the pairs s > t that are not dropped, and how many kernel values they took."""
        if self.link == "galerkin":
            # One matrix of all landmarks: each point is prepared once.
            points = _stack([basis.points for basis in local])
            left = [basis.projection for basis in local]
        else:
            chosen = [
                rng.choice(len(g), min(len(g), int((1 + self.rho) * self.rank)), replace=False)
                for g in groups
            ]
            points = X[np.concatenate([g[v] for g, v in zip(groups, chosen, strict=True)])]
            left = [
                scipy.linalg.pinv(basis[v].astype(np.float64), rtol=self.pinv_cut).T
                for basis, v in zip(bases, chosen, strict=True)
            ]
        matrix = KernelMatrix(kernel, points, np.float64)
        ends = np.cumsum([0] + [len(factor) for factor in left])
        where = [np.arange(a, b) for a, b in pairwise(ends)]
        blocks = {}
        for s, t in self._kept_pairs(kernel, centroids):
            gram = matrix.block(where[s], matrix.points(where[t]))
            blocks[s, t] = left[s].T @ gram @ left[t]
        return blocks, matrix.n_entries

    def _kept_pairs(self, kernel: Kernel, centroids: Centroids) -> list[tuple[int, int]]:
        """Pairs s > t of clusters whose link is not set to zero."""
        means = KernelMatrix(kernel, centroids.means, np.float64)
        similar = means.block(np.arange(len(means)))
        pairs = [(s, t) for s in range(len(means)) for t in range(s)]
        pairs.sort(key=lambda pair: similar[pair])
        pairs = pairs[round(self.zero_fraction * len(pairs)) :]
        return [pair for pair in pairs if self.eps == 0.0 or similar[pair] > self.eps]

    def _assemble(self, blocks: dict[tuple[int, int], np.ndarray], ranks: list[int]) -> np.ndarray:
        ends = np.cumsum([0, *ranks])
        link = np.eye(ends[-1])
        for (s, t), block in blocks.items():
            link[ends[s] : ends[s + 1], ends[t] : ends[t + 1]] = block
            link[ends[t] : ends[t + 1], ends[s] : ends[s + 1]] = block.T
        if self.psd:
            values, vectors = scipy.linalg.eigh(link)
            negative = values < 0.0
            link -= (vectors[:, negative] * values[negative]) @ vectors[:, negative].T
        return link.astype(self.dtype)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _basis(basis: LocalBasis, X: Any, dtype: str) -> np.ndarray:
    """W_s : (n_s, k_s)."""
    out = np.empty((X.shape[0], basis.projection.shape[1]), dtype)
    basis.fill(X, out)
    return out


def _stack(parts: list[Any]) -> Any:
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.vstack(parts)
