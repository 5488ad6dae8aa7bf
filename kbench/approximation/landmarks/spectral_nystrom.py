"""Nystrom features of a given rank, from the leading eigenvectors of more landmarks; ensembles.

Si, Hsieh and Dhillon, "Memory Efficient Kernel Approximation" (JMLR 18, 2017), compare with these
features of rank k from m = 2 k landmarks. With K_ZZ ~ U Sigma U' of rank k (`spectrum`),

    z(x) = Sigma^(-1/2) U' k(Z, x).

With all training points as landmarks this is the truncated eigendecomposition, the best rank-k
approximation. An ensemble (Kumar, Mohri and Talwalkar, "Ensemble Nystrom Method", NIPS 2009,
uniform weights) is the mean of p approximations of rank k / p from disjoint landmarks; it has their
features side by side, divided by sqrt(p).
"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.utils._param_validation import Interval, RealNotInt

from kbench.approximation.clipped import clipped
from kbench.approximation.features.stored_numbers import CONSTRAINTS, chosen_rank, require_one
from kbench.approximation.landmarks.landmarks import LandmarkFeatures
from kbench.approximation.landmarks.spectrum import leading_directions, leading_eigenpairs
from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.validated import POSITIVE, choice, integer

# Rows per block of float64 kernel values: memory against the overhead of a call. Set by hand.
_BATCH_ROWS = 1024


@dataclass(eq=False, repr=False)
class SpectralNystrom(LandmarkFeatures):
    """Features whose inner products are the rank-k Nystrom approximation of a kernel.

    Parameters
    ----------
    rank : int or None, default=128
        k, set by hand; fewer features if eigenvalues vanish. None: `numbers_per_row` sets it.
    numbers_per_row : float or None, default=None
        Numbers that all features of the n training rows keep, divided by n. With rank=None it sets
        the rank, so that approximations can be compared at equal memory.
    n_landmarks : int, float, "all" or None, default=None
        Number of landmarks, at most all rows. A float is a multiple of `rank`; None means 2.0, as
        in the comparison of the MEKA paper. "all" rows give the truncated eigendecomposition, the
        best approximation of its rank.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; a positive semidefinite kernel, one gamma for all features.
    landmarks : {"uniform", "kmeans", "rpcholesky"}, default="uniform"
        As in `LandmarkFeatures`.
    truncation : {"landmarks", "rows"}, default="landmarks"
        Rank k from the landmarks' kernel matrix alone, as in the paper, or the best rank k of the
        approximation by all landmarks, on `n_samples` rows: a smaller error at the same memory.
    eigensolver : {"exact", "randomized", "lanczos"}, default="exact"
        As in `kbench.approximation.landmarks.spectrum`.
    n_experts : int, default=1
        p; more than one makes an ensemble, which divides columns and landmarks among the experts.
    n_samples : int, default=20000
    kmeans_iter : int, default=5
        As in `LandmarkFeatures`.
    memory_mb : float, default=4096.0
        Largest size in MiB of the landmarks' kernel matrix; a larger one is refused. Set by hand.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    projection_ : (m, r) float64
        U Sigma^(-1/2), or T of `kbench.approximation.landmarks.spectrum`; block diagonal for an
        ensemble.
    eigenvalues_ : (r,)
        Eigenvalues of the landmarks' kernel matrices; with truncation="rows", of the approximate
        matrix of the sampled rows.
    kernel_entries_ : int
        Kernel values computed in `fit`.
    components_, landmarks_, n_features_out_, nbytes_, n_parameters_
        As in `LandmarkFeatures`.

    Notes
    -----
    With m landmarks: O(m^3) time to fit with the exact solver, and O(m d + m^2) more for each of
    `n_samples` rows with truncation="rows"; O(m d + m k) to transform a row; O(m^2) memory.
    """

    _leaves_out_small: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict] = {
        **{k: v for k, v in LandmarkFeatures._parameter_constraints.items() if k != "n_components"},
        **CONSTRAINTS,
        "n_landmarks": [
            integer(1),
            Interval(RealNotInt, 1, None, closed="left"),
            choice("all"),
            None,
        ],
        "truncation": [choice("landmarks", "rows")],
        "eigensolver": [choice("exact", "randomized", "lanczos")],
        "n_experts": [integer(1)],
        "memory_mb": [POSITIVE],
    }

    n_components: int = field(init=False, default=0)  # no parameter: `rank` takes its place
    rank: int | None = 128
    _: KW_ONLY
    numbers_per_row: float | None = None
    n_landmarks: float | str | None = None
    truncation: str = "landmarks"
    eigensolver: str = "exact"
    n_experts: int = 1
    memory_mb: float = 4096.0

    def _n_landmarks_for(self, n: int) -> int:
        n_landmarks = 2.0 if self.n_landmarks is None else self.n_landmarks
        if isinstance(n_landmarks, str):
            return n
        return (
            int(n_landmarks)
            if isinstance(n_landmarks, Integral)
            else round(n_landmarks * self._rank(n))
        )

    def _rank(self, n: int) -> int:
        """k for n rows."""
        return chosen_rank(self.rank, self.numbers_per_row, n, lambda rank: rank * n)

    def _validate_params(self) -> None:
        super()._validate_params()
        require_one(self.rank, self.numbers_per_row)

    def _fit(self, X: Any, rng: np.random.RandomState) -> None:
        # Landmarks and eigensolver have generators of their own, from one seed: neither changes the
        # other's random numbers.
        seed = rng.randint(2**31)
        if self.rank is not None:
            clipped("rank", self.rank, X.shape[0])
        super()._fit(X, np.random.RandomState(seed))
        n_per_expert = -(-len(self.landmarks_) // self.n_experts)
        size_mb = 8.0 * n_per_expert**2 / 2**20
        if size_mb > self.memory_mb:
            raise ValueError(
                f"the kernel matrix of {n_per_expert} landmarks takes {size_mb:.0f} MiB, more than "
                f"memory_mb={self.memory_mb:g}"
            )
        rng = np.random.RandomState(seed)
        experts = np.array_split(np.arange(len(self.landmarks_)), self.n_experts)
        experts = [landmarks for landmarks in experts if len(landmarks)]
        rank = max(1, self._rank(X.shape[0]) // self.n_experts)
        sample = None
        if self.truncation == "rows":
            sample = X[rng.choice(X.shape[0], min(X.shape[0], self.n_samples), replace=False)]
        decompositions = [
            self._decompose(self.landmarks_.take(expert), rank, sample, rng) for expert in experts
        ]
        self.eigenvalues_ = np.concatenate([eigenvalues for eigenvalues, _, _ in decompositions])
        projections = [directions / np.sqrt(len(experts)) for _, directions, _ in decompositions]
        self.projection_ = (
            projections[0] if len(projections) == 1 else scipy.linalg.block_diag(*projections)
        )
        self.n_features_out_ = self.projection_.shape[1]
        self.kernel_entries_ = sum(entries for _, _, entries in decompositions)

    def _decompose(
        self, landmarks: KernelMatrix, rank: int, sample: Any, rng: np.random.RandomState
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """Eigenvalues, T and the number of kernel values computed for one expert's landmarks.

        `sample` : (s, d) rows with truncation="rows", otherwise None.
        """
        gram = landmarks.block(np.arange(len(landmarks)))
        if sample is not None:
            columns = kernel_columns(landmarks, sample)
            eigenvalues, directions = leading_directions(gram, columns, rank, self.eigensolver, rng)
            return eigenvalues, directions, landmarks.n_entries + sample.shape[0] * len(landmarks)
        eigenvalues, vectors = leading_eigenpairs(gram, rank, self.eigensolver, rng)
        return eigenvalues, vectors / np.sqrt(eigenvalues), landmarks.n_entries

    @property
    def nbytes_(self) -> int:
        return super().nbytes_ + self.projection_.nbytes

    @property
    def n_parameters_(self) -> int:
        return super().n_parameters_ + int(np.count_nonzero(self.projection_))

    def landmark_coef(self, coef: np.ndarray) -> np.ndarray:
        return matmul(self.projection_, coef)

    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        fill_kernel = super()._filler(dtype)
        projection = self.projection_.astype(dtype)

        def fill(X: Any, out: np.ndarray) -> None:
            values = np.empty((len(out), len(projection)), dtype)
            fill_kernel(X, values)
            matmul(values, projection, out=out)

        return fill


def kernel_columns(landmarks: KernelMatrix, X: Any) -> Iterator[np.ndarray]:
    """K_XZ for rows X : (n, d) and landmarks Z in blocks of rows, each (a, m) float64."""
    landmark_points = landmarks.points(slice(None))
    for start in range(0, X.shape[0], _BATCH_ROWS):
        rows = X[start : start + _BATCH_ROWS]
        block = np.empty((rows.shape[0], len(landmarks)))
        landmarks.kernel.evaluate(
            landmarks.kernel.prepare(rows, np.dtype(np.float64)), landmark_points, block
        )
        yield block
