"""Explicit feature maps z with <z(x), z(x')> close to a kernel, as scikit-learn transformers.

A map writes the features of a batch of rows into an array of its caller, in the precision of that
array. `transform` computes all features in the precision of X, `FeatureBlocks` bounded blocks of
them; `LowRankKernel` is the kernel matrix Z Z' of the features Z, `FeatureMachine` a linear
function of the features of new rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from kbench.approximation.features.factored import FactoredKernel
from kbench.approximation.operator import KernelApproximation, Machine
from kbench.intrinsics.products import matmul
from kbench.kernels import Kernel
from kbench.prediction import KernelExpansion
from kbench.prediction.flops import expansion_flops, require_width
from kbench.prediction.landmarks import LocalLandmarks
from kbench.stored import require
from kbench.trace import Trace
from kbench.validated import fit_context, validate_data

# Minimum number of rows in a batch, however many features there are: fewer make BLAS calls
# inefficient. Set by hand.
MIN_BATCH = 32
# Rows per block in which a `FeatureMachine` computes features: memory against the overhead of a
# call. Set by hand.
_BATCH_ROWS = 2048
# Number of columns of CSR rows up to which batches become dense, because BLAS is then faster than
# sparse products. A wider dense batch would take more memory than the entries of all rows. Set by
# hand.
_DENSE_COLUMNS = 1 << 14


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class of the maps, an `Approximation` of `kbench.approximation.operator`.

    A subclass defines `_fit`, `_filler`, `flops`, `nbytes_` and `n_parameters_`.

    Attributes
    ----------
    kernel_ : Kernel
        The function that is approximated.
    n_features_out_ : int
    kernel_entries_ : int
        Kernel values computed in `fit`.
    nbytes_ : int
        Bytes that the fitted map keeps.
    n_parameters_ : int
        Numbers that the fitted map keeps, the memory axis of the papers.
    """

    kernel_: Kernel
    n_features_out_: int
    kernel_entries_ = 0

    # Bytes of a batch of features, which stays in the L2 cache until it is finished. Set by hand.
    _batch_bytes: ClassVar[int] = 1 << 20

    # Phase to which the trace charges `fit`.
    _phase: ClassVar[str] = "features"

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Choose the features for rows like X : (n, d), dense or CSR.

        Raises
        ------
        ValueError
            A parameter is out of range, or two contradict each other.
        """
        X = validate_data(self, X)
        with nullcontext() if trace is None else trace.phase(self._phase):
            self._fit(X, check_random_state(self.random_state))
        return self

    @abstractmethod
    def _fit(self, X: Any, rng: np.random.RandomState) -> None:
        """Set the fitted attributes from checked rows X : (n, d)."""

    @property
    def n_landmarks_(self) -> int:
        """Kernel values that are computed for the features of a row."""
        return 0

    def expansion(self, weights: np.ndarray) -> KernelExpansion | LocalLandmarks | None:
        """<weights, z(x)> for weights : (n_features_out_, m) as an expansion in landmarks, if the
        features are linear in kernel values of landmarks; else None."""
        return None

    def kernel_matrix(self, X: Any, *, trace: Trace | None = None) -> KernelApproximation:
        """G = Z Z' with the features Z of checked rows X : (n, d), in float32; 4 n r bytes."""
        with nullcontext() if trace is None else trace.phase("features"):
            return LowRankKernel(self, X)

    def row_basis(self) -> "FeatureBasis":
        """The `RowBasis` that computes the features of any rows."""
        return FeatureBasis(self)

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def transform(self, X: Any) -> np.ndarray:
        """Features of rows X : (u, d), dense or CSR; (u, n_features_out_) in the dtype of X."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        out = np.empty((X.shape[0], self.n_features_out_), X.dtype)
        self.fill(X, out)
        return out

    def fill(self, X: Any, out: np.ndarray) -> None:
        """Write the features of checked rows X : (u, d) into out : (u, n_features_out_).

        The dtype of `out`, float32 or float64, is the precision of the computation.
        """
        fill_batch = self._filler(out.dtype)
        batch_rows = max(MIN_BATCH, self._batch_bytes // (out.itemsize * self.n_features_out_))
        if is_wide(X):
            # Some maps make a batch of wide rows dense in float64, which has to be bounded, too.
            batch_rows = min(batch_rows, max(1, self._batch_bytes // (8 * X.shape[1])))
        for start in range(0, len(out), batch_rows):
            rows = slice(start, start + batch_rows)
            fill_batch(X[rows], out[rows])

    @abstractmethod
    def flops(self, n_features: int) -> float:
        """Cost of a row's features, in products of `n_features` numbers."""

    @abstractmethod
    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        """A function (X, out) like `fill`, for one batch of rows and `out` of this dtype."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class LowRankKernel(FactoredKernel):
    """G = Z Z' with the explicit features Z of the training rows.

    Parameters
    ----------
    feature_map : FeatureMap, fitted
    X : (n, d) checked rows
    dtype : float32 or float64
    """

    basis: "FeatureBasis"

    def __init__(self, feature_map: FeatureMap, X: Any, dtype: Any = np.float32) -> None:
        features = np.empty((X.shape[0], feature_map.n_features_out_), dtype)
        feature_map.fill(X, features)
        kernel_entries = feature_map.kernel_entries_ + len(features) * feature_map.n_landmarks_
        super().__init__(
            FeatureBasis(feature_map), [np.arange(len(features))], [features], kernel_entries
        )

    def cross(self, X: Any) -> np.ndarray:
        features = np.empty((X.shape[0], self.rank), self.bases[0].dtype)
        self.basis.feature_map.fill(X, features)
        return matmul(features, self.bases[0].T)


class FeatureBasis:
    """W = Z, the explicit features of a map, in one block; see `RowBasis`."""

    link = None
    dtype = np.dtype(np.float32)

    def __init__(self, feature_map: FeatureMap) -> None:
        self.feature_map = feature_map
        self.ranks = [feature_map.n_features_out_]

    def blocks(self, X: Any) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        features = np.empty((X.shape[0], self.ranks[0]), self.dtype)
        self.feature_map.fill(X, features)
        yield 0, np.arange(len(features)), features

    def machine(self, weights: np.ndarray) -> Machine:
        return FeatureMachine(self.feature_map, weights)


class FeatureMachine:
    """One or more linear functions of the features of a row.

    If the features are linear in kernel values of landmarks, the function is evaluated as an
    expansion in these values (`FeatureMap.expansion`), without computing the features.

    Parameters
    ----------
    feature_map : FeatureMap, fitted
    weights : (n_features_out_, m) array

    Attributes
    ----------
    nbytes : int
        Bytes that evaluation needs.
    """

    def __init__(self, feature_map: FeatureMap, weights: np.ndarray) -> None:
        self.feature_map = feature_map
        self.weights = weights
        self.expansion = feature_map.expansion(weights)

    @property
    def nbytes(self) -> int:
        if self.expansion is not None:
            return self.expansion.nbytes
        return self.feature_map.nbytes_ + self.weights.nbytes

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers."""
        if self.expansion is not None:
            n_outputs = self.weights.shape[1]
            return expansion_flops(self.feature_map.n_landmarks_, n_outputs, n_features)
        return self.feature_map.flops(n_features) + self.weights.size / n_features

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64."""
        if self.expansion is not None:
            return self.expansion(X)
        require_width(X, self.feature_map.n_features_in_)
        values = np.empty((X.shape[0], self.weights.shape[1]))
        features = np.empty((min(_BATCH_ROWS, len(values)), len(self.weights)), X.dtype)
        weights = self.weights.astype(X.dtype)
        for start in range(0, len(values), _BATCH_ROWS):
            rows = slice(start, start + _BATCH_ROWS)
            batch = features[: len(values[rows])]
            self.feature_map.fill(X[rows], batch)
            values[rows] = matmul(batch, weights)
        return values

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        weights, feature_map = self.weights, self.feature_map
        require(isinstance(weights, np.ndarray) and weights.ndim == 2, "weights should be a matrix")
        require(weights.dtype in (np.float32, np.float64), "weights should be floats")
        n_features = feature_map.n_features_out_
        require(
            len(weights) == n_features,
            f"there are {len(weights)} weights for {n_features} features",
        )


class FeatureBlocks:
    """Features of a training set in float32, in the blocks of rows that a solver requests.

    Implements `RowBlocks` of `kbench.solvers.linear.linear_dual`.

    Parameters
    ----------
    feature_map : FeatureMap, fitted
    X : (n, d) array or CSR, checked
    memory_mb : float
        MiB of features that are held. If all features fit, they are computed once.
    trace : Trace, optional
        The time of computing features is charged to its phase "features".

    Attributes
    ----------
    n_rows_computed : int
        Rows whose features were computed, with repetitions.
    """

    def __init__(
        self, feature_map: FeatureMap, X: Any, memory_mb: float, trace: Trace | None = None
    ) -> None:
        self.shape = (X.shape[0], feature_map.n_features_out_)
        self.n_rows_computed = 0
        self._map, self._X, self._trace = feature_map, X, trace
        max_rows = int(memory_mb * 2**20) // (4 * self.shape[1])
        self._block_rows = min(max(max_rows, MIN_BATCH), self.shape[0])
        self._buffer = np.empty((self._block_rows, self.shape[1]), np.float32)
        self._held_rows: slice | None = None

    def slices(self) -> list[slice]:
        n, block_rows = self.shape[0], self._block_rows
        return [slice(start, min(start + block_rows, n)) for start in range(0, n, block_rows)]

    def block(self, rows: slice) -> np.ndarray:
        features = self._buffer[: rows.stop - rows.start]
        if rows != self._held_rows:
            with nullcontext() if self._trace is None else self._trace.phase("features"):
                self._map.fill(self._X[rows], features)
            self._held_rows = rows
            self.n_rows_computed += len(features)
        return features


def is_wide(X: Any) -> bool:
    """Whether X is CSR with more than `_DENSE_COLUMNS` columns, so that batches stay sparse."""
    return sp.issparse(X) and X.shape[1] > _DENSE_COLUMNS


def to_dense(X: Any, dtype: np.dtype) -> np.ndarray:
    """Rows as a C-contiguous array of this dtype; X itself if it is such an array."""
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype)
