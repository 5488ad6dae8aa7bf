"""The base of `LearnedMetric`: maps rows by a fitted metric, and gives its widths and its size."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kbench.intrinsics.products import matmul
from kbench.kernels import KERNELS
from kbench.metric.columns import ColumnMap
from kbench.validated import validate_data


class MapsRows(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer x -> M^(1/2) x whose `fit` sets these attributes.

    Attributes
    ----------
    kernel_, structure_, scaling_, gamma_, column_map_, mean_ : see `LearnedMetric`
    _columns : (r,) ints, or None if the metric mixes features
        Features to which a diagonal metric gives a positive weight, the largest weight first.
    _weights : (r,) for a diagonal metric, or (d, r)
        Multiplies the rows that `column_map_` has mapped, less `mean_`.
    """

    kernel_: str
    structure_: str
    scaling_: str
    gamma_: float
    column_map_: ColumnMap
    mean_: np.ndarray
    _columns: np.ndarray | None
    _weights: np.ndarray

    @property
    def components_(self) -> np.ndarray:
        """(d, r) float64 with transform(x) = (x - mean_) components_."""
        if self._columns is None:
            return self._weights
        components = np.zeros((len(self.mean_), len(self._columns)))
        components[self._columns, np.arange(len(self._columns))] = self._weights
        return components

    @property
    def metric_(self) -> np.ndarray:
        """(d, d) float64, M in units of the input features."""
        return matmul(self.components_, self.components_.T)

    def widths(self) -> np.ndarray:
        """A diagonal metric as the gamma of each feature, for an estimator on untransformed rows.

        With these as `gamma` and `kernel=kernel_`, the estimator has the kernel values that
        `gamma_` gives on transformed rows.

        Returns
        -------
        (d,) float64
            0 for features that the metric leaves out.

        Raises
        ------
        NotFittedError
        ValueError
            The metric mixes features, or columns are mapped first.
        """
        check_is_fitted(self)
        if self._columns is None:
            raise ValueError(
                f"widths: structure_ is {self.structure_!r}, so that features are mixed; "
                "structure='diagonal' learns a width for each"
            )
        if self.scaling_ != "standard" or self.structure_ == "warped":
            raise ValueError(
                f"widths: scaling_ is {self.scaling_!r} and structure_ {self.structure_!r}, so "
                "that columns are mapped first; scaling='standard', structure='diagonal' map none"
            )
        power = KERNELS[self.kernel_].gamma_power
        widths = np.zeros(len(self.mean_))
        widths[self._columns] = self.gamma_ * self._weights**power
        return widths

    @property
    def nbytes_(self) -> int:
        """Bytes that `transform` needs."""
        return self._weights.nbytes + self.mean_.nbytes + self.column_map_.nbytes

    @property
    def _n_features_out(self) -> int:
        return self._weights.shape[-1]

    def transform(self, X: Any) -> np.ndarray:
        """M^(1/2) x of (mapped) rows X : (u, d), dense or CSR; (u, r) in the dtype of X."""
        return self.mapped(X)

    def mapped(self, X: Any) -> np.ndarray:
        """The rows of `transform`, as an array even if `set_output` asks for another container."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        dtype, X = X.dtype, self.column_map_(X)
        if self._columns is None:
            return np.asarray(matmul(X, self._weights) - matmul(self.mean_, self._weights), dtype)
        rows = X[:, self._columns]
        rows = rows.toarray() if sp.issparse(rows) else rows
        return np.asarray((rows - self.mean_[self._columns]) * self._weights, dtype)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
