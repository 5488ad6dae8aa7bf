"""Nystrom features: the projection onto the span of landmarks in feature space.

Williams and Seeger, "Using the Nystrom Method to Speed Up Kernel Machines" (NIPS 2000); landmarks
by k-means after Zhang, Tsang and Kwok, "Improved Nystrom Low-Rank Approximation and Error Analysis"
(ICML 2008). With landmarks Z and K_ZZ = R'R,

    z(x) = R^-T k(Z, x),      <z(x), z(x')> = k(x, Z) K_ZZ^-1 k(Z, x'),

which is k(x, x') if x or x' is a landmark. R comes from a pivoted Cholesky factorisation and not
from eigenvectors: the features differ by a rotation, which does not change inner products, and take
an eighth of the time of eigenvectors to factorise and half of the time to transform
(`scripts/bench_approximation.py nystrom` compares with scikit-learn's Nystroem).
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from kbench.approximation.landmarks.landmarks import NEGLIGIBLE_VALUE, LandmarkFeatures
from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.named import pairwise_kernel, pairwise_names
from kbench.validated import choice, real


class Nystrom(LandmarkFeatures):
    """Features whose inner products are the Nystrom approximation of a kernel.

    The parameters, and the attributes not listed here, are those of `LandmarkFeatures`. `kernel`
    may also be any of scikit-learn's pairwise kernels, and None is the default of
    `sklearn.kernel_approximation.Nystroem` for gamma (1 / d), degree (3) and coef0 (1).

    Attributes
    ----------
    normalization_ : (r, r) float64
        R^-T: the features of x are k(x, landmarks) normalization_'.
    factor_ : (r, r) float64
        R, upper triangular; r <= n_components, because landmarks in the span of others are dropped.
    n_features_out_ : int
        r
    kernel_entries_ : int

    Notes
    -----
    O(m^3 / 3) time to factorise m landmarks; O(m d + m^2) to transform a row, O(m^2) memory.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from kbench.approximation import Nystrom
    >>> X, _ = load_iris(return_X_y=True)
    >>> Z = Nystrom(100, gamma=0.1, random_state=0).fit_transform(X)
    >>> float(abs(Z @ Z.T - rbf_kernel(X, gamma=0.1)).max()) < 0.01
    True
    """

    _leaves_out_small: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        **LandmarkFeatures._parameter_constraints,
        "kernel": [choice(*pairwise_names()), callable],
        "gamma": [*LandmarkFeatures._parameter_constraints["gamma"], None],
        "degree": [real(1, None, closed="left"), None],
        "coef0": [*LandmarkFeatures._parameter_constraints["coef0"], None],
    }

    def _make_kernel(self, X: Any) -> Kernel:
        if callable(self.kernel):
            return super()._make_kernel(X)
        return pairwise_kernel(
            self.kernel, X, gamma=self.gamma, degree=self.degree, coef0=self.coef0
        )

    @property
    def normalization_(self) -> np.ndarray:
        return scipy.linalg.solve_triangular(self.factor_, np.eye(len(self.factor_))).T

    def _fit(self, X: Any, rng: np.random.RandomState) -> None:
        super()._fit(X, rng)
        matrix = self.landmarks_
        all_points = np.arange(len(matrix))
        gram = matrix.block(all_points)
        # A landmark whose residual is smaller lies in the span of the others.
        min_residual = NEGLIGIBLE_VALUE * float(gram.diagonal().max())
        factor, pivots, rank, _ = lapack.dpstrf(gram.T, tol=min_residual, overwrite_a=1)
        if rank == 0:
            raise ValueError(
                f"all kernel values of the {len(gram)} landmarks are 0, so that there is no "
                "feature; leave out rows of zeros, or take a kernel with k(0, 0) > 0"
            )
        independent = pivots[:rank] - 1
        self.components_ = self.components_[independent]
        self.landmarks_ = KernelMatrix(matrix.kernel, self.components_, np.float64)
        self.factor_ = np.asfortranarray(np.triu(factor[:rank, :rank]))
        self.n_features_out_ = rank
        self.kernel_entries_ = matrix.n_entries

    @property
    def nbytes_(self) -> int:
        return super().nbytes_ + self.factor_.nbytes

    @property
    def n_parameters_(self) -> int:
        rank = len(self.factor_)
        return super().n_parameters_ + rank * (rank + 1) // 2

    def landmark_coef(self, coef: np.ndarray) -> np.ndarray:
        return scipy.linalg.solve_triangular(self.factor_, coef)

    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        fill_kernel = super()._filler(dtype)
        factor = np.asfortranarray(self.factor_, dtype)
        solve = blas.strsm if dtype == np.float32 else blas.dtrsm

        def fill(X: Any, out: np.ndarray) -> None:
            fill_kernel(X, out)
            # BLAS takes column-major arrays: the transpose of `out` is one, so no copy is made.
            solve(1.0, factor, out.T, trans_a=1, overwrite_b=1)

        return fill
