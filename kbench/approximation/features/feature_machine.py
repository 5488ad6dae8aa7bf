"""Evaluation of <w, z(x)> for explicit features z, without computing z where that is cheaper."""

from typing import Any

import numpy as np

from kbench.approximation.features.feature_map import FeatureMap
from kbench.approximation.landmarks.landmarks import LandmarkFeatures
from kbench.clustering.axis_tree import single_leaf
from kbench.kernels import KernelMatrix
from kbench.kernels.exponential import RBF
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.prediction.flops import expansion_flops, require_width
from kbench.prediction.landmarks import LocalLandmarks, fits_float32, float32_offset
from kbench.prediction.packing import LandmarkMachine

# Rows per block of features: memory against the overhead of a call. Set by hand.
_BATCH = 2048
# At most this many Gaussian landmarks, on at most this many features, are evaluated by the float32
# code of fast prediction, sixteen landmarks at a time, provided that its rounding error is below
# _ROUNDING times the largest value at the landmarks.
_FEW_LANDMARKS, _FEW_FEATURES, _ROUNDING = 512, 1024, 1e-3


class FeatureMachine:
    """One or more linear functions of the features of a row.

    If the features are linear in kernel values of landmarks, they are folded into the coefficients:
    the function is a kernel expansion, and with few Gaussian landmarks a local machine of a single
    leaf (`kbench.prediction.landmarks`).

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
        self.expansion: KernelExpansion | LocalLandmarks | None = None
        if isinstance(feature_map, LandmarkFeatures):
            coef = feature_map.landmark_coef(weights)
            kernel = feature_map.landmarks_
            self.expansion = _single_leaf_machine(kernel, coef)
            if self.expansion is not None:
                return
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
            n_centres = len(self.feature_map.landmarks_)
            return expansion_flops(n_centres, self.weights.shape[1], n_features)
        return self.feature_map.flops(n_features) + self.weights.size / n_features

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d); (u, m) float64."""
        if self.expansion is not None:
            return self.expansion(X)
        require_width(X, self.feature_map.n_features_in_)
        values = np.empty((X.shape[0], self.weights.shape[1]))
        features = np.empty((min(_BATCH, len(values)), len(self.weights)), X.dtype)
        weights = self.weights.astype(X.dtype)
        for start in range(0, len(values), _BATCH):
            rows = slice(start, start + _BATCH)
            part = features[: len(values[rows])]
            self.feature_map.fill(X[rows], part)
            values[rows] = part @ weights
        return values


def _single_leaf_machine(kernel: KernelMatrix, coef: np.ndarray) -> LocalLandmarks | None:
    """The expansion in landmarks, coef : (l, m), as a local machine of one leaf; None if unfit."""
    function, X = kernel.kernel, kernel.X
    if not isinstance(function, RBF) or not isinstance(X, np.ndarray):
        return None
    if len(X) > _FEW_LANDMARKS or X.shape[1] > _FEW_FEATURES or not fits_float32(X):
        return None
    values = KernelMatrix(function, X, np.float64).product(np.arange(len(X)), coef)
    error = np.finfo(np.float32).eps * np.abs(coef).sum(axis=0)
    if np.any(error > _ROUNDING * np.abs(values).max(axis=0)):
        return None
    offset = float32_offset(X)
    landmarks = X if offset is None else X - offset
    machine = LandmarkMachine(
        np.zeros(coef.shape[1]), landmarks, np.full(len(X), function.gamma), coef
    )
    return LocalLandmarks(single_leaf(), [machine], X.shape[1], offset=offset)
