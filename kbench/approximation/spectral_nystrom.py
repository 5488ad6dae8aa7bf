"""Nystrom features of a given rank, from the leading eigenvectors of more landmarks; ensembles.

The form of the comparison in Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (JMLR
18, 2017): rank k from m = 2 k landmarks. With K_ZZ ~ U Sigma U' of rank k (`spectrum`),

    z(x) = Sigma^(-1/2) U' k(Z, x).

With all training points as landmarks this is the truncated eigendecomposition, the best rank-k
approximation there is. An ensemble (Kumar, Mohri and Talwalkar, "Ensemble Nystrom Method", NIPS
2009, uniform weights) is the mean of p approximations of rank k / p from disjoint landmarks: their
features side by side, divided by sqrt(p).
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.approximation.landmarks import LandmarkFeatures
from kbench.approximation.spectrum import leading_eigenpairs
from kbench.kernels import KernelMatrix


class SpectralNystrom(LandmarkFeatures):
    """Features whose inner products are the rank-k Nystrom approximation of a kernel.

    Parameters
    ----------
    n_components : int, default=256
        Landmarks; all rows where there are fewer.
    rank : int, default=128
        k; fewer where eigenvalues vanish.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    landmarks : {"uniform", "kmeans", "rpcholesky"}, default="uniform"
        As in `LandmarkFeatures`.
    eigensolver : {"exact", "randomized", "lanczos"}, default="exact"
        As in `kbench.approximation.spectrum`.
    n_experts : int, default=1
        p; more than one is an ensemble.
    n_samples : int, default=20000
    kmeans_iter : int, default=5
        As in `LandmarkFeatures`.
    memory_mb : float, default=4096.0
        MiB that the kernel matrix of the landmarks may take; more are refused.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    projection_ : (m, r) float64
        U Sigma^(-1/2); block diagonal for an ensemble.
    eigenvalues_ : (r,)
        Of the landmarks' kernel matrices.
    components_, landmarks_, n_features_out_, nbytes_, n_parameters_
        As in `LandmarkFeatures`.

    Notes
    -----
    O(m^3) to fit with the exact solver, O(m d + m k) to transform a row, O(m^2) memory.
    """

    _parameter_constraints: ClassVar[dict] = {
        **LandmarkFeatures._parameter_constraints,
        "rank": [Interval(Integral, 1, None, closed="left")],
        "eigensolver": [StrOptions({"exact", "randomized", "lanczos"})],
        "n_experts": [Interval(Integral, 1, None, closed="left")],
        "memory_mb": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components: int = 256,
        *,
        rank: int = 128,
        kernel: str | Callable[[Any, Any], np.ndarray] = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: str = "uniform",
        eigensolver: str = "exact",
        n_experts: int = 1,
        n_samples: int = 20000,
        kmeans_iter: int = 5,
        memory_mb: float = 4096.0,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_components,
            kernel=kernel,
            gamma=gamma,
            degree=degree,
            coef0=coef0,
            landmarks=landmarks,
            n_samples=n_samples,
            kmeans_iter=kmeans_iter,
            random_state=random_state,
        )
        self.rank = rank
        self.eigensolver = eigensolver
        self.n_experts = n_experts
        self.memory_mb = memory_mb

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the landmarks and decompose their kernel matrix; X : (n, d), dense or CSR."""
        super().fit(X)
        size = -(-len(self.landmarks_) // self.n_experts)
        needed = 8.0 * size**2 / 2**20
        if needed > self.memory_mb:
            raise ValueError(
                f"the kernel matrix of {size} landmarks takes {needed:.0f} MiB, more than "
                f"memory_mb={self.memory_mb:g}"
            )
        rng = check_random_state(self.random_state)
        parts = np.array_split(np.arange(len(self.landmarks_)), self.n_experts)
        parts = [part for part in parts if len(part)]
        found = [self._decompose(self.landmarks_, part, rng) for part in parts]
        self.eigenvalues_ = np.concatenate([values for values, _ in found])
        maps = [vectors / np.sqrt(len(found) * values) for values, vectors in found]
        self.projection_ = maps[0] if len(maps) == 1 else scipy.linalg.block_diag(*maps)
        self.n_features_out_ = self.projection_.shape[1]
        return self

    def _decompose(
        self, matrix: KernelMatrix, part: np.ndarray, rng: np.random.RandomState
    ) -> tuple[np.ndarray, np.ndarray]:
        gram = matrix.block(part, matrix.points(part))
        rank = max(1, self.rank // self.n_experts)
        return leading_eigenpairs(gram, rank, self.eigensolver, rng)

    @property
    def nbytes_(self) -> int:
        return super().nbytes_ + self.projection_.nbytes

    @property
    def n_parameters_(self) -> int:
        return super().n_parameters_ + int(np.count_nonzero(self.projection_))

    def landmark_coef(self, coef: np.ndarray) -> np.ndarray:
        return self.projection_ @ coef

    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        fill_kernel = super()._filler(dtype)
        projection = self.projection_.astype(dtype)

        def fill(X: Any, out: np.ndarray) -> None:
            values = np.empty((len(out), len(projection)), dtype)
            fill_kernel(X, values)
            np.matmul(values, projection, out=out)

        return fill
