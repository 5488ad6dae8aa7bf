"""Nystrom features of a given rank, from the leading eigenvectors of more landmarks; ensembles.

The form of the comparison in Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (JMLR
18, 2017): rank k from m = 2 k landmarks. With K_ZZ ~ U Sigma U' of rank k (`spectrum`),

    z(x) = Sigma^(-1/2) U' k(Z, x).

With all training points as landmarks this is the truncated eigendecomposition, the best rank-k
approximation there is. An ensemble (Kumar, Mohri and Talwalkar, "Ensemble Nystrom Method", NIPS
2009, uniform weights) is the mean of p approximations of rank k / p from disjoint landmarks: their
features side by side, divided by sqrt(p).
"""

from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from kbench.approximation.landmarks import LandmarkFeatures
from kbench.approximation.spectrum import leading_directions, leading_eigenpairs
from kbench.kernels import KernelMatrix

# Rows whose kernel values are float64 at a time.
_BATCH = 1024


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
    truncation : {"landmarks", "rows"}, default="landmarks"
        Rank k from the landmarks' kernel matrix alone, as in the paper, or the best rank k of the
        approximation by all landmarks, on `n_samples` rows: a smaller error at the same memory.
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
        U Sigma^(-1/2), or T of `kbench.approximation.spectrum`; block diagonal for an ensemble.
    eigenvalues_ : (r,)
        Of the landmarks' kernel matrices; of the rows' approximate one where truncation="rows".
    kernel_entries_ : int
        Kernel values computed in `fit`.
    components_, landmarks_, n_features_out_, nbytes_, n_parameters_
        As in `LandmarkFeatures`.

    Notes
    -----
    O(m^3) to fit with the exact solver, O(m d + m^2) more for each of `n_samples` rows where
    truncation="rows"; O(m d + m k) to transform a row, O(m^2) memory.
    """

    _parameter_constraints: ClassVar[dict] = {
        **LandmarkFeatures._parameter_constraints,
        "rank": [Interval(Integral, 1, None, closed="left")],
        "truncation": [StrOptions({"landmarks", "rows"})],
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
        truncation: str = "landmarks",
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
        self.truncation = truncation
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
        sample = None
        if self.truncation == "rows":
            X = validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
            )
            sample = X[rng.choice(X.shape[0], min(X.shape[0], self.n_samples), replace=False)]
        found = [self._decompose(self.landmarks_.take(part), sample, rng) for part in parts]
        self.eigenvalues_ = np.concatenate([values for values, _, _ in found])
        maps = [directions / np.sqrt(len(found)) for _, directions, _ in found]
        self.projection_ = maps[0] if len(maps) == 1 else scipy.linalg.block_diag(*maps)
        self.n_features_out_ = self.projection_.shape[1]
        self.kernel_entries_ = sum(entries for _, _, entries in found)
        return self

    def _decompose(
        self, landmarks: KernelMatrix, sample: Any, rng: np.random.RandomState
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Eigenvalues, T, and how many kernel values they took; of `sample` rows where given."""
        gram = landmarks.block(np.arange(len(landmarks)))
        rank = max(1, self.rank // self.n_experts)
        if sample is not None:
            columns = kernel_columns(landmarks, sample)
            found = leading_directions(gram, columns, rank, self.eigensolver, rng)
            return *found, landmarks.n_entries + sample.shape[0] * len(landmarks)
        values, vectors = leading_eigenpairs(gram, rank, self.eigensolver, rng)
        return values, vectors / np.sqrt(values), landmarks.n_entries

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


def kernel_columns(landmarks: KernelMatrix, X: Any) -> Iterator[np.ndarray]:
    """K_XZ of landmarks Z for rows X : (n, d), some at a time; (a, m) float64."""
    columns = landmarks.points(slice(None))
    for start in range(0, X.shape[0], _BATCH):
        rows = X[start : start + _BATCH]
        out = np.empty((rows.shape[0], len(landmarks)))
        landmarks.kernel.evaluate(
            landmarks.kernel.prepare(rows, np.dtype(np.float64)), columns, out
        )
        yield out
