"""The model that gives every row the same values."""

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.prediction.flops import require_width


class Constant:
    """f(x) = values : (m,), for rows of `n_features` features."""

    def __init__(self, values: np.ndarray, n_features: int) -> None:
        self.values, self.n_features = values, n_features

    @property
    def constant(self) -> np.ndarray:
        """The values in the shape of `LocalLandmarks.constant`, for a single leaf; (1, m)."""
        return self.values[None]

    def compile(self) -> Callable[[np.ndarray], np.ndarray]:
        """A function of one row, as `LocalLandmarks.compile` returns it."""
        return lambda x: self.values

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)

    def flops(self, n_features: int) -> float:
        return 0.0

    def __call__(self, X: Any) -> np.ndarray:
        require_width(X, self.n_features)
        return np.repeat(self.values[None], X.shape[0], axis=0)
