"""Kernel values against landmarks: the hidden layer of a network of radial basis functions.

Moody and Darken, "Fast Learning in Networks of Locally-Tuned Processing Units" (Neural Computation
1, 1989): units k(x, z_j) around centres z_j found by k-means. Nystrom features start from them.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from kbench.approximation.clipped import clipped
from kbench.approximation.features.feature_map import FeatureMap
from kbench.approximation.landmarks.pivots import randomly_pivoted_landmarks
from kbench.clustering import kmeans_centroids
from kbench.clustering.axis_tree import single_leaf
from kbench.errors import warn
from kbench.kernels import KernelMatrix
from kbench.kernels.constraints import KernelParameters, kernel_constraints
from kbench.kernels.functions.rbf import RBF
from kbench.kernels.inner_products import InnerProductKernel
from kbench.kernels.matrix import nbytes
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.flops import TRANSCENDENTAL
from kbench.prediction.landmark_layout import LandmarkMachine
from kbench.prediction.landmarks import LocalLandmarks, fits_float32, float32_offset
from kbench.stored import MAX_FEATURES, check_arrays, check_whole, require
from kbench.validated import choice, integer, usual

# Maximum numbers of Gaussian landmarks and of features for the float32 code of fast prediction,
# which takes sixteen landmarks at a time, and the largest rounding error for which it is used, as a
# fraction of the largest value at the landmarks. Set by hand.
_MAX_LANDMARKS, _MAX_COLUMNS, _MAX_ROUNDING = 512, 1024, 1e-3


# Guard: parts of kernel values below this multiple of the largest k(z, z) of the landmarks are left
# out, because in float32 features along them would consist of rounding errors.
NEGLIGIBLE_VALUE = 1e-6
# Fraction of the rows, or of the columns, that may be left out without a warning. Set by hand.
_MAX_LOST = 0.1


def _warn_of_lost_scales(matrix: KernelMatrix) -> None:
    """Warn if rows or columns are so small beside the largest that features leave them out."""
    if matrix.kernel.unit_diagonal:
        return
    values = matrix.diagonal()
    is_lost = (values > 0.0) & (values < NEGLIGIBLE_VALUE * values.max(initial=0.0))
    if np.mean(is_lost) > _MAX_LOST:
        warn(
            f"{is_lost.sum()} of {len(values)} rows have kernel values k(x, x) below "
            f"{NEGLIGIBLE_VALUE:g} times the largest, {values.max():.3g}, and the features leave "
            "them out: leave out the largest rows, or scale the rows"
        )
    elif isinstance(matrix.kernel, InnerProductKernel) and matrix.X is not None:
        rows = abs(matrix.X).max(axis=0)
        sizes = np.ravel(rows.toarray() if sp.issparse(rows) else rows).astype(np.float64)
        largest = sizes.max(initial=0.0)
        is_lost = (sizes > 0.0) & (sizes < np.sqrt(NEGLIGIBLE_VALUE) * largest)
        if np.mean(is_lost) > _MAX_LOST:
            warn(
                f"{is_lost.sum()} of {len(sizes)} columns are below "
                f"{np.sqrt(NEGLIGIBLE_VALUE):g} times the largest, which has entries of "
                f"{largest:.3g}, and the features leave them out: scale the columns"
            )


@dataclass(eq=False, repr=False)
class LandmarkFeatures(KernelParameters, FeatureMap):
    """Features z_j(x) = k(x, landmark j).

    Parameters
    ----------
    n_components : int, default=100
        Number of landmarks, or all rows if there are fewer. The default is scikit-learn's.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; a positive semidefinite kernel, one gamma for all features.
    landmarks : {"uniform", "kmeans", "rpcholesky"}, default="uniform"
        Rows drawn without replacement; centroids of k-means on a sample of the rows; or rows of a
        sample, chosen by randomly pivoted Cholesky (`kbench.approximation.landmarks.pivots`).
    n_samples : int, default=20000
        Number of rows of the sample for "kmeans" and "rpcholesky". Set by hand.
    kmeans_iter : int, default=5
        Iterations of k-means, which need not converge (Zhang and Kwok, IEEE Trans. Neural Networks
        21, 2010).
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    components_ : (m, d) array or CSR
        The landmarks.
    landmarks_ : KernelMatrix
        The kernel matrix of the landmarks, in float64.
    n_features_out_, nbytes_, n_parameters_
        As in `FeatureMap`.

    Notes
    -----
    With s = min(n, n_samples) and m landmarks: O(s m d kmeans_iter) time for k-means, O(s m (d +
    m)) for pivots. Transforming a row costs O(m d).
    """

    # Bytes of a batch, 32 MiB: more take more memory, fewer cost more calls. Batches may exceed the
    # caches, because the kernel functions work in tiles that fit them. Set by hand.
    _batch_bytes: ClassVar[int] = 1 << 25
    _phase: ClassVar[str] = "landmarks"
    # Whether features leave out what is below `NEGLIGIBLE_VALUE`; pivots on a sample always do.
    _leaves_out_small: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict] = {
        **kernel_constraints("of_rows", "positive_semidefinite", function=True),
        "landmarks": [choice("uniform", "kmeans", "rpcholesky")],
        "n_samples": [integer(1)],
        "kmeans_iter": [integer(1)],
        **usual("n_components", "random_state"),
    }

    n_components: int = 100
    _: KW_ONLY
    landmarks: str = "uniform"
    n_samples: int = 20000
    kmeans_iter: int = 5
    random_state: Any = None

    def _fit(self, X: Any, rng: np.random.RandomState) -> None:
        self.kernel_ = self._make_kernel(X)
        self.components_ = self._choose_landmarks(
            X, min(self._n_landmarks_for(X.shape[0]), X.shape[0]), rng
        )
        self.landmarks_ = KernelMatrix(self.kernel_, self.components_, np.float64)
        self.n_features_out_ = len(self.landmarks_)
        was_sampled = self.landmarks == "rpcholesky" and len(self.landmarks_) < X.shape[0]
        if self._leaves_out_small and not was_sampled:
            _warn_of_lost_scales(self.landmarks_)

    def _n_landmarks_for(self, n: int) -> int:
        """Number of landmarks for n rows."""
        return clipped("n_components", self.n_components, n)

    def _choose_landmarks(self, X: Any, n_landmarks: int, rng: np.random.RandomState) -> Any:
        """The landmarks : (n_landmarks, d)."""
        n = X.shape[0]
        if self.landmarks == "uniform" or n_landmarks == n:
            return X[rng.choice(n, n_landmarks, replace=False)]
        sample = rng.choice(n, min(n, max(n_landmarks, self.n_samples)), replace=False)
        if self.landmarks == "rpcholesky":
            matrix = KernelMatrix(self.kernel_, X[sample])
            _warn_of_lost_scales(matrix)
            return X[sample[randomly_pivoted_landmarks(matrix, n_landmarks, rng)]]
        return kmeans_centroids(X, n_landmarks, sample, max_iter=self.kmeans_iter).means

    def flops(self, n_features: int) -> float:
        kernel_flops = len(self.landmarks_) * (1.0 + TRANSCENDENTAL / n_features)
        return kernel_flops + len(self.landmarks_) * self.n_features_out_ / n_features

    @property
    def nbytes_(self) -> int:
        return nbytes(self.components_) + nbytes(self.landmarks_.points(slice(None)))

    @property
    def n_parameters_(self) -> int:
        return len(self.landmarks_) * self.n_features_in_

    @property
    def n_landmarks_(self) -> int:
        """Kernel values that are computed for the features of a row."""
        return len(self.landmarks_)

    def landmark_coef(self, coef: np.ndarray) -> np.ndarray:
        """Coefficients of the landmarks in <coef, z(x)>; coef : (n_features_out_, m)."""
        return coef

    def expansion(self, weights: np.ndarray) -> KernelExpansion | LocalLandmarks:
        """<weights, z(x)> as an expansion in the landmarks, or for few Gaussian landmarks as a leaf
        of `kbench.prediction.landmarks`."""
        kernel, coef = self.landmarks_, self.landmark_coef(weights)
        leaf = _single_leaf(kernel, coef)
        if leaf is not None:
            return leaf
        dtype = prediction_dtype(kernel.astype(np.float32), coef)
        return KernelExpansion(kernel, np.arange(len(kernel)), coef, dtype)

    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        matrix = self.landmarks_.astype(dtype)
        kernel, landmarks = matrix.kernel, matrix.points(slice(None))

        def fill(X: Any, out: np.ndarray) -> None:
            kernel.evaluate(kernel.prepare(X, dtype), landmarks, out)

        return fill

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        d = check_whole(self, "n_features_in_", 1, MAX_FEATURES)
        matrix = self.landmarks_
        require(isinstance(matrix, KernelMatrix), "landmarks_ is of another class")
        require(matrix._X.shape[1] == d, f"the landmarks have {matrix._X.shape[1]} features")
        check_whole(self, "n_features_out_", 1, MAX_FEATURES)
        n = len(matrix)
        if hasattr(self, "projection_"):
            check_arrays(self, projection_=f"f8 {n} {self.n_features_out_}")
            return
        check_whole(self, "n_features_out_", n, n)
        if hasattr(self, "factor_"):
            check_arrays(self, factor_=f"f8 {n} {n}")


def _single_leaf(kernel: KernelMatrix, coef: np.ndarray) -> LocalLandmarks | None:
    """The expansion, coef : (l, m), as one leaf of landmarks; None if a limit is exceeded."""
    function, X = kernel.kernel, kernel.X
    if not isinstance(function, RBF) or not isinstance(X, np.ndarray):
        return None
    if len(X) > _MAX_LANDMARKS or X.shape[1] > _MAX_COLUMNS or not fits_float32(X):
        return None
    values = KernelMatrix(function, X, np.float64).product(np.arange(len(X)), coef)
    error = np.finfo(np.float32).eps * np.abs(coef).sum(axis=0)
    if np.any(error > _MAX_ROUNDING * np.abs(values).max(axis=0)):
        return None
    offset = float32_offset(X)
    landmarks = X if offset is None else X - offset
    machine = LandmarkMachine(
        np.zeros(coef.shape[1]), landmarks, np.full(len(X), function.gamma), coef
    )
    return LocalLandmarks(single_leaf(), [machine], X.shape[1], offset=offset)
