"""Diagnostic: what the blocks of a divided kernel matrix have in common, MEKA's reason to exist."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.utils._param_validation import Interval

from kbench.approximation import BlockDiagonalKernel, KernelApproximation
from kbench.kernels import KernelMatrix
from kbench.methods._ridge import KernelParameter
from kbench.methods.bka_ridge import BKAClassifier
from kbench.trace import Trace

_SHARED = (
    "n_clusters",
    "alpha",
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "partition",
    "n_samples",
    "kmeans_iter",
    "random_state",
)


class BlockSpectra(BKAClassifier):
    """Kernel ridge on the diagonal blocks, and on the way the spectra of all blocks.

    With G_st the kernel values between clusters s and t, n_s x n_t, the rank of each block is

        |{i : sigma_i(G_st) > max(n_s, n_t) sigma_1(G_st) rank_tol}|    (Table 3 of the MEKA paper)

    and for s != t the cosines of the principal angles between the spaces of the `n_angles` leading
    left singular vectors of G_ss and of G_st tell how much of an off-diagonal block the basis of
    the diagonal one represents (Figure 3).

    Parameters
    ----------
    n_clusters : int, default=5
    alpha : float, default=1.0
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    partition : {"kmeans", "spectral", "random"}, default="kmeans"
    n_samples : int or None, default=None
    kmeans_iter : int, default=10
        All as in `BKAClassifier`.
    rank_tol : float, default=1e-6
    n_angles : int, default=100
        Fewer where a block has fewer rows or columns.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_ : (n,) ints
        Cluster of each row.
    ranks_ : (c, c) ints
        Of G_st, in row s and column t.
    cosines_ : (c, c, n_angles) float64
        Descending; NaN where s = t, and beyond what the blocks have.
    kernel_entries_, n_parameters_, n_iter_, converged_, timings_, model_bytes_
        As in `BKAClassifier`; "spectra" in addition.
    classes_, n_features_in_

    Notes
    -----
    O(n^2 d + n^3 / c) time, 3 n^2 / c^2 numbers beside those of BKA.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.methods import BlockSpectra
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranks = [BlockSpectra(5, partition=p, random_state=0).fit(X, y).ranks_.sum()
    ...          for p in ("kmeans", "random")]
    >>> bool(ranks[0] < ranks[1])
    True

    References
    ----------
    S. Si, C.-J. Hsieh, I. S. Dhillon, "Memory Efficient Kernel Approximation", JMLR 18, 2017.
    """

    _parameter_constraints: ClassVar[dict] = {
        **{name: BKAClassifier._parameter_constraints[name] for name in _SHARED},
        "rank_tol": [Interval(Real, 0, 1, closed="left")],
        "n_angles": [Interval(Integral, 0, None, closed="left")],
    }

    # Of BKAClassifier: the machine itself is no matter here.
    solver = "direct"
    error_rows = 0
    memory_mb = 4096.0

    def __init__(
        self,
        n_clusters: int = 5,
        *,
        alpha: float = 1.0,
        kernel: KernelParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        partition: str = "kmeans",
        n_samples: int | None = None,
        kmeans_iter: int = 10,
        rank_tol: float = 1e-6,
        n_angles: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.partition = partition
        self.n_samples = n_samples
        self.kmeans_iter = kmeans_iter
        self.rank_tol = rank_tol
        self.n_angles = n_angles
        self.random_state = random_state

    def _approximate(self, X: Any, rng: np.random.RandomState, trace: Trace) -> KernelApproximation:
        matrix = super()._approximate(X, rng, trace)
        assert isinstance(matrix, BlockDiagonalKernel)
        with trace.phase("spectra"):
            self.labels_ = np.empty(X.shape[0], np.intp)
            for s, rows in enumerate(matrix.groups):
                self.labels_[rows] = s
            self._look(KernelMatrix(self._kernel(X), X, np.float64), matrix.groups, trace)
        return matrix

    def _look(self, kernel: KernelMatrix, groups: list[np.ndarray], trace: Trace) -> None:
        """Set `ranks_` and `cosines_`, telling the trace of each block."""
        c = len(groups)
        self.ranks_ = np.empty((c, c), np.intp)
        self.cosines_ = np.full((c, c, self.n_angles), np.nan)
        for s, rows in enumerate(groups):
            own, self.ranks_[s, s] = self._spectrum(kernel, rows, rows)
            trace(row=s, column=s, rank=int(self.ranks_[s, s]))
            for t in np.delete(np.arange(c), s):
                vectors, self.ranks_[s, t] = self._spectrum(kernel, rows, groups[t])
                k = min(self.n_angles, own.shape[1], vectors.shape[1])
                # Rounding may take a cosine above one.
                cosines = np.minimum(scipy.linalg.svdvals(own[:, :k].T @ vectors[:, :k]), 1.0)
                self.cosines_[s, t, :k] = cosines
                trace(row=s, column=t, rank=int(self.ranks_[s, t]))
                for i, cosine in enumerate(cosines):
                    trace(angle_row=s, angle_column=t, angle=i + 1, cosine=float(cosine))

    def _spectrum(
        self, kernel: KernelMatrix, rows: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Left singular vectors of a block, and its numerical rank."""
        block = kernel.block(rows, kernel.points(columns))
        vectors, values, _ = scipy.linalg.svd(block, full_matrices=False)
        return vectors, int(np.sum(values > max(block.shape) * values[0] * self.rank_tol))
