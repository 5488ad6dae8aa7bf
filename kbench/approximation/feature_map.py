"""Explicit feature maps z with <z(x), z(x')> close to a kernel, as scikit-learn transformers.

A map writes the features of a batch of rows into memory that its caller owns, in that memory's
precision: `transform` gives all of them in the precision of X, `FeatureBlocks` a bounded part.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kbench.trace import Trace

_MIN_BATCH = 32


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of the maps; a subclass has `fit`, `_filler`, `nbytes_` and `n_parameters_`.

    Attributes
    ----------
    n_features_out_ : int
    nbytes_ : int
        Bytes that the fitted map keeps.
    n_parameters_ : int
        Numbers that it keeps, the memory axis of the papers.
    """

    n_features_out_: int

    # A batch of features is finished before it leaves the L2 cache.
    _batch_bytes: ClassVar[int] = 1 << 20

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def transform(self, X: Any) -> np.ndarray:
        """Features of rows X : (u, d), dense or CSR; (u, n_features_out_) in the dtype of X."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        out = np.empty((X.shape[0], self.n_features_out_), X.dtype)
        self.fill(X, out)
        return out

    def fill(self, X: Any, out: np.ndarray) -> None:
        """Write the features of checked rows X : (u, d) into out : (u, n_features_out_).

        The dtype of `out`, float32 or float64, is the precision of the computation.
        """
        fill = self._filler(out.dtype)
        batch = max(_MIN_BATCH, self._batch_bytes // (out.itemsize * self.n_features_out_))
        for start in range(0, len(out), batch):
            rows = slice(start, start + batch)
            fill(X[rows], out[rows])

    @abstractmethod
    def flops(self, n_features: int) -> float:
        """Cost of a row's features, in products of `n_features` numbers."""

    @abstractmethod
    def _filler(self, dtype: np.dtype) -> Callable[[Any, np.ndarray], None]:
        """A function that does what `fill` does, for a batch of rows and `out` of this dtype."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class FeatureBlocks:
    """Features of a training set, in float32, as rows that a solver asks for (`RowBlocks`).

    Parameters
    ----------
    feature_map : FeatureMap, fitted
    X : (n, d) array or CSR, checked
    memory_mb : float
        MiB of features that are held. Where all fit, they are computed once.
    trace : Trace, optional
        Charged with "features".

    Attributes
    ----------
    n_rows_computed : int
    """

    def __init__(
        self, feature_map: FeatureMap, X: Any, memory_mb: float, trace: Trace | None = None
    ) -> None:
        self.shape = (X.shape[0], feature_map.n_features_out_)
        self.n_rows_computed = 0
        self._map, self._X, self._trace = feature_map, X, trace
        fitting = int(memory_mb * 2**20) // (4 * self.shape[1])
        self._size = min(max(fitting, _MIN_BATCH), self.shape[0])
        self._buffer = np.empty((self._size, self.shape[1]), np.float32)
        self._held: slice | None = None

    def slices(self) -> list[slice]:
        n, size = self.shape[0], self._size
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def block(self, rows: slice) -> np.ndarray:
        features = self._buffer[: rows.stop - rows.start]
        if rows != self._held:
            with nullcontext() if self._trace is None else self._trace.phase("features"):
                self._map.fill(self._X[rows], features)
            self._held = rows
            self.n_rows_computed += len(features)
        return features


def dense(X: Any, dtype: np.dtype) -> np.ndarray:
    """Rows as a C-contiguous array; a copy only where something changes."""
    return np.ascontiguousarray(X.toarray() if sp.issparse(X) else X, dtype)
