"""Seeded random features by the name of their kernel, and its bandwidth by the median rule."""

from typing import Any

import numpy as np

from kbench.approximation.seeded.convolution_blocks import ConvolutionBlocks
from kbench.approximation.seeded.seeded_features import (
    GaussianBlocks,
    LaplacianBlocks,
    MaternBlocks,
    SeededFeatures,
    SpectrumBlocks,
    TensorSketchBlocks,
)
from kbench.kernels import KERNELS
from kbench.kernels.chunks import dense_on_used_columns
from kbench.kernels.registry import kernel_names
from kbench.kernels.spectrum import IsotropicSpectrum

# Rows whose 500,000 pairs give the median distance: its accuracy against O(rows^2 d) time. Set by
# hand.
_MEDIAN_ROWS = 1000


def seeded_features(
    kernel: str,
    d: int,
    n_features: int,
    seed: int,
    gamma: float,
    *,
    smoothness: float = 1.5,
    degree: int = 3,
    coef0: float = 0.0,
    cache_mb: float = 0.0,
) -> SeededFeatures:
    """Seeded features of one of `seeded_kernels`; see the classes."""
    if kernel == "poly":
        return TensorSketchBlocks(
            d, n_features, seed, gamma, degree=degree, coef0=coef0, cache_mb=cache_mb
        )
    if kernel == "matern":
        return MaternBlocks(d, n_features, seed, gamma, smoothness=smoothness, cache_mb=cache_mb)
    if kernel in _BLOCK_CLASSES:
        return _BLOCK_CLASSES[kernel](d, n_features, seed, gamma, cache_mb=cache_mb)
    return SpectrumBlocks(d, n_features, seed, gamma, kernel=kernel, cache_mb=cache_mb)


_BLOCK_CLASSES: dict[str, Any] = {
    "rbf": GaussianBlocks,
    "laplacian": LaplacianBlocks,
    "convolution": ConvolutionBlocks,
}


def seeded_kernels() -> list[str]:
    """Names of the kernels that have seeded features."""
    isotropic_kernels = [
        name
        for name in kernel_names("spectrum")
        if isinstance(KERNELS[name].spectrum, IsotropicSpectrum)
    ]
    return sorted({*_BLOCK_CLASSES, "matern", "poly", *isotropic_kernels})


def median_gamma(X: Any, rng: np.random.RandomState) -> float:
    """gamma = 1 / (2 m^2), m the median nonzero distance between 1,000 rows of X; 1 if
    all these rows are equal.

    O(1000^2 d) time.
    """
    from scipy.spatial.distance import pdist

    sample = X[rng.choice(X.shape[0], min(_MEDIAN_ROWS, X.shape[0]), replace=False)]
    distances = pdist(dense_on_used_columns(sample).astype(np.float64))
    distances = distances[distances > 0]
    return float(0.5 / np.median(distances) ** 2) if len(distances) else 1.0
