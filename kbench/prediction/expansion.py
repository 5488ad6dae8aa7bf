"""Evaluation of kernel expansions f(x) = sum_j coef_j k(x, z_j) for many rows x at once.

Rows are evaluated in batches and kernel values in tiles that stay in cache; no other memory is
needed.
"""

from typing import Any

import numpy as np

from kbench.kernels import KernelMatrix, expand
from kbench.kernels.kernel import check_n_features, check_points
from kbench.kernels.matrix import nbytes
from kbench.prediction.flops import expansion_flops, require_width
from kbench.stored import check_arrays, require

_BATCH_ROWS = 8192  # more take more memory, fewer more overhead of calls; set by hand
# Float32 kernel values may change f by up to eps sum |coef|. If this bound exceeds 0.01 of the
# deviation of f, or of the margin 1, values are float64, which takes more time. Set by hand.
_FLOAT32_ERROR = 0.01
# Rows far from all others, for the width of a kernel of distances, are themselves rounded: above
# this error of a value of at most 1, all values are float64. Set by hand.
_FLOAT32_ENTRY_ERROR = 1e-3
# Centres at which the deviation of f is measured. Set by hand.
_DEVIATION_CENTRES = 64
# Up to this number of centres float64 costs little, because other work per row dominates
# (`scripts/bench_prediction.py`).
_FEW_CENTRES = 512


def prediction_dtype(
    kernel: KernelMatrix, coef: np.ndarray, indices: np.ndarray | None = None
) -> np.dtype:
    """Precision in which to evaluate expansions with coefficients coef : (s, m).

    It is float64 for few centres, or if the coefficients are so large that rounding kernel values
    to float32 would change f visibly; otherwise it is the precision of the matrix.

    indices : (s,) ints, the points that are centres; None if all points are. If their number is not
        s, f cannot be evaluated at them, and its deviation is taken as 1.
    """
    # |k(x, z)|^2 <= k(x, x) k(z, z) bounds the values at points like the centres.
    scale = kernel.diagonal().max(initial=0.0)
    error = np.finfo(np.float32).eps * scale * np.abs(coef).sum(axis=0).max(initial=0.0)
    if len(coef) <= _FEW_CENTRES or error > _FLOAT32_ERROR:
        return np.dtype(np.float64)
    if kernel.kernel.unit_diagonal and kernel.entry_error > _FLOAT32_ENTRY_ERROR:
        return np.dtype(np.float64)
    indices = np.arange(len(kernel)) if indices is None else indices
    if len(coef) == len(indices):
        points = kernel.points(sample_centres(indices)), kernel.points(indices)
        values = expand(kernel.kernel, *points, np.asarray(coef), kernel.dtype)
        if error > _FLOAT32_ERROR * error_unit(values):
            return np.dtype(np.float64)
    return kernel.dtype


def sample_centres(indices: np.ndarray) -> np.ndarray:
    """64 evenly spaced centres, at which the deviation of functions is measured."""
    return indices[np.linspace(0, len(indices) - 1, _DEVIATION_CENTRES).astype(np.intp)]


def error_unit(values: np.ndarray) -> float:
    """Scale to compare errors of m functions with, from their values (k, m): the least deviation,
    which has the unit of the targets, but at most the margin 1."""
    return min(1.0, float(values.std(axis=0).min()))


class KernelExpansion:
    """One or more functions in the span of the same centres.

    Parameters
    ----------
    kernel : KernelMatrix
        The kernel and the training points; only the centres are kept.
    indices : (s,) ints
        Training points that are centres.
    coef : (s, m) array
        Coefficients of m functions.
    dtype : float32 or float64
        Precision of kernel values; see `prediction_dtype`.

    Attributes
    ----------
    n_features : int or None
        d; None for precomputed kernel values.
    nbytes : int
        Bytes of the centres and coefficients.
    """

    def __init__(
        self, kernel: KernelMatrix, indices: np.ndarray, coef: np.ndarray, dtype: np.dtype
    ) -> None:
        self.n_features = None if kernel.X is None else int(kernel.X.shape[1])
        self.coef = np.asarray(coef, np.float64)
        self.dtype = dtype
        matrix = kernel.astype(dtype)
        self.kernel = matrix.kernel
        self.centres = matrix.centres(indices)

    @property
    def nbytes(self) -> int:
        return nbytes(self.centres) + self.coef.nbytes

    def flops(self, n_features: int) -> float:
        """Cost of a row, in products of `n_features` numbers."""
        s, m = self.coef.shape
        return expansion_flops(s, m, n_features)

    def __call__(self, X: Any) -> np.ndarray:
        """Values at rows X : (u, d) (precomputed: (u, n)); (u, m) float64. O(u s d).

        Rows so far from all centres that their float32 kernel values vanish are evaluated again in
        float64, in which values of a Gaussian kernel vanish below 2^-900 = exp(-624) instead of
        exp(-69). Farther away all kernel values are equal, and f is about 0: the intercept decides,
        or without an intercept the sign of the sum of the coefficients.

        Raises ValueError: the rows have a different number of features.
        """
        require_width(X, self.n_features)
        outputs = np.empty((X.shape[0], self.coef.shape[1]))
        # Rows with |f| below the threshold are evaluated again; float64 values need no threshold.
        may_vanish = self.dtype == np.float32 and self.kernel.unit_diagonal
        threshold = self.kernel.vanished * np.abs(self.coef).sum(axis=0) if may_vanish else 0.0
        for start in range(0, len(outputs), _BATCH_ROWS):
            rows = slice(start, start + _BATCH_ROWS)
            outputs[rows] = self._evaluate(X[rows], self.dtype)
            vanished = start + np.flatnonzero((np.abs(outputs[rows]) < threshold).any(axis=1))
            if len(vanished):
                outputs[vanished] = self._evaluate(X[vanished], np.dtype(np.float64))
        return outputs

    def check_stored(self) -> None:
        """Raise a ValueError unless compiled code may read the arrays (`kbench.stored`)."""
        lengths = check_arrays(self, coef="f8 s m")
        n_features = check_n_features(self, self.kernel)
        n = check_points(self.kernel, self.centres, self.dtype, n_features)
        require(n == lengths["s"], f"there are {n} centres for {lengths['s']} coefficients")

    def _evaluate(self, X: Any, dtype: np.dtype) -> np.ndarray:
        points = self.kernel.prepare(X, dtype)
        return expand(self.kernel, points, self.centres, self.coef, dtype)
