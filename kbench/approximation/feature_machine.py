"""Evaluation of <w, z(x)> for explicit features z, at the least cost that z allows."""

from typing import Any

import numpy as np

from kbench.approximation.feature_map import FeatureMap
from kbench.approximation.landmarks import LandmarkFeatures
from kbench.prediction import KernelExpansion, prediction_dtype

# Rows whose features are held while their values are computed.
_BATCH = 2048


class FeatureMachine:
    """One or more linear functions of the features of a row.

    Features of landmarks are folded into the coefficients: f is an expansion in kernel values.

    Parameters
    ----------
    feature_map : FeatureMap, fitted
    weights : (n_features_out_, m) array

    Attributes
    ----------
    nbytes : int
        What has to be kept to evaluate it.
    """

    def __init__(self, feature_map: FeatureMap, weights: np.ndarray) -> None:
        self.feature_map = feature_map
        self.weights = weights
        self.expansion: KernelExpansion | None = None
        if isinstance(feature_map, LandmarkFeatures):
            coef = feature_map.landmark_coef(weights)
            kernel = feature_map.landmarks_
            dtype = prediction_dtype(kernel.astype(np.float32), coef)
            self.expansion = KernelExpansion(kernel, np.arange(len(kernel)), coef, dtype)

    @property
    def nbytes(self) -> int:
        if self.expansion is not None:
            return self.expansion.nbytes
        return self.feature_map.nbytes_ + self.weights.nbytes

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers."""
        if self.expansion is not None:
            return self.expansion.flops(n_features)
        return self.feature_map.flops(n_features) + self.weights.size / n_features

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64."""
        if self.expansion is not None:
            return self.expansion(X)
        values = np.empty((X.shape[0], self.weights.shape[1]))
        features = np.empty((min(_BATCH, len(values)), len(self.weights)), X.dtype)
        weights = self.weights.astype(X.dtype)
        for start in range(0, len(values), _BATCH):
            rows = slice(start, start + _BATCH)
            part = features[: len(values[rows])]
            self.feature_map.fill(X[rows], part)
            values[rows] = part @ weights
        return values
