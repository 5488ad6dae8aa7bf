"""Diagnostic: ranks of a clustered kernel matrix's blocks, and angles between their column spaces.

Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (JMLR 18, 2017), Table 3 and Figure
3: blocks in one row have nearly the same column space, which MEKA exploits.
"""

from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from kbench.approximation import BKA, Machine
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.methods.base.composition import fresh_part
from kbench.methods.base.ridge import RidgeClassifierMixin, RidgeEstimator
from kbench.trace import Trace
from kbench.validated import POSITIVE, integer, real


class BlockSpectra(RidgeClassifierMixin, RidgeEstimator):
    """Kernel ridge regression on the diagonal blocks, with the spectra of all blocks.

    With G_st the kernel values between clusters s and t, n_s x n_t, the rank of each block is

        |{i : sigma_i(G_st) > max(n_s, n_t) sigma_1(G_st) rank_tol}|    (Table 3 of the MEKA paper)

    and for s != t the cosines of the principal angles between the spaces of the `n_angles` leading
    left singular vectors of G_ss and of G_st, which measure how much of an off-diagonal block the
    basis of the diagonal block represents (Figure 3).

    Parameters
    ----------
    approximation : BKA or None, default=None
        Clusters and kernel; None is `BKA(5)`, the clusters of Table 3. It is cloned before it is
        fitted. If its `random_state` is None, it gets that of the estimator.
    alpha : float, default=1.0
        Added to the diagonal of the kernel matrix.
    rank_tol : float, default=1e-6
        Singular values below max(n_s, n_t) sigma_1 `rank_tol` count as zero.
    n_angles : int, default=100
        Number of singular vectors compared, or those of the block if it has fewer. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    labels_ : (n,) ints
        Cluster of each row.
    ranks_ : (c, c) ints
        Rank of G_st in row s and column t.
    cosines_ : (c, c, n_angles) float64
        Descending; NaN where s = t, and where a block has fewer than `n_angles` singular vectors.
    kernel_entries_ : int
        Kernel values of the diagonal blocks.
    kernel_numbers_ : int
        Numbers that the diagonal blocks store.
    timings_ : dict of str to float
        Seconds of "cluster", "blocks", "spectra", "solve".
    classes_, model_bytes_, n_features_in_

    Notes
    -----
    O(n^2 d + n^3 / c) time; memory of 3 n^2 / c^2 numbers in addition to that of BKA.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.approximation import BKA
    >>> from kbench.methods import BlockSpectra
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranks = [BlockSpectra(BKA(5, partition=p), random_state=0).fit(X, y).ranks_.sum()
    ...          for p in ("kmeans", "random")]
    >>> bool(ranks[0] < ranks[1])
    True

    References
    ----------
    S. Si, C.-J. Hsieh, I. S. Dhillon, "Memory Efficient Kernel Approximation", JMLR 18, 2017.
    """

    _parameter_constraints: ClassVar[dict] = {
        **RidgeEstimator._parameter_constraints,
        "alpha": [POSITIVE],
        "approximation": [BKA, None],
        "rank_tol": [real(0, 1, closed="left")],
        "n_angles": [integer(0)],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        approximation: BKA | None = None,
        *,
        alpha: float = 1.0,
        rank_tol: float = 1e-6,
        n_angles: int = 100,
        random_state: Any = None,
    ) -> None:
        self.approximation = approximation
        self.alpha = alpha
        self.rank_tol = rank_tol
        self.n_angles = n_angles
        self.random_state = random_state

    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        bka = fresh_part(self.approximation, BKA(5), self.random_state).fit(X, trace=trace)
        matrix = bka.matrix_
        self.labels_ = bka.labels_
        self.kernel_entries_, self.kernel_numbers_ = matrix.kernel_entries_, matrix.n_parameters_
        with trace.phase("spectra"):
            self._set_spectra(KernelMatrix(bka.kernel_, X, np.float64), matrix.groups, trace)
        with trace.phase("solve"):
            return matrix.machine(matrix.solve(Y, self.alpha))

    def _set_spectra(self, kernel: KernelMatrix, groups: list[np.ndarray], trace: Trace) -> None:
        """Set `ranks_` and `cosines_`, and report each block to the trace."""
        c = len(groups)
        self.ranks_ = np.empty((c, c), np.intp)
        self.cosines_ = np.full((c, c, self.n_angles), np.nan)
        for s, rows in enumerate(groups):
            basis, self.ranks_[s, s] = self._spectrum(kernel, rows, rows)
            trace(row=s, column=s, rank=int(self.ranks_[s, s]))
            for t in np.delete(np.arange(c), s):
                vectors, self.ranks_[s, t] = self._spectrum(kernel, rows, groups[t])
                k = min(self.n_angles, basis.shape[1], vectors.shape[1])
                # Rounding may take a cosine above one.
                cosines = np.minimum(
                    scipy.linalg.svdvals(matmul(basis[:, :k].T, vectors[:, :k])), 1.0
                )
                self.cosines_[s, t, :k] = cosines
                trace(row=s, column=t, rank=int(self.ranks_[s, t]))
                for i, cosine in enumerate(cosines):
                    trace(angle_row=s, angle_column=t, angle=i + 1, cosine=float(cosine))

    def _spectrum(
        self, kernel: KernelMatrix, rows: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Left singular vectors of a block, and its numerical rank."""
        block = kernel.block(rows, kernel.points(columns))
        vectors, singular_values, _ = scipy.linalg.svd(block, full_matrices=False)
        threshold = max(block.shape) * singular_values[0] * self.rank_tol
        return vectors, int(np.sum(singular_values > threshold))
