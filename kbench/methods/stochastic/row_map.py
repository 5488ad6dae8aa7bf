"""Map of rows before random features: scale, unit length, principal axes, centre.

Dai et al. (NIPS 2014) scale the rows of mnist to unit length and project them onto the leading axes
of their second moments, without centring.
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.kernels.origin import origin_of

# CSR batches up to this width become dense, so that they can be centred; wider ones would take too
# much memory. Set by hand.
_MAX_DENSE_COLUMNS = 4096
# Rows from which the axes are computed (more are more accurate and take longer), and rows mapped at
# a time (more take more memory, fewer cost more calls). Both are set by hand.
_AXES_ROWS, _BATCH_ROWS = 100_000, 8192
# Guard: largest magnitude of a feature. Sums of products of larger ones with frequencies, and their
# squares, may leave the range of float32.
_MAX_MAGNITUDE = 1e15
# Guard: rows of smaller magnitude are scaled up, because their float32 squares would underflow.
_MIN_MAGNITUDE = 1e-10


class RowMap:
    """x -> (scale x / ||scale x||) V - c; the norm, V and c are optional.

    Parameters
    ----------
    unit_norm : Whether rows are divided by their norms
    pca_components : Columns of V; None for no projection
    centred : Whether c is the mean of the mapped rows: the arguments of the cosines then stay small
        and keep their digits in float32. Wide CSR rows are not centred.

    Attributes
    ----------
    scale : float
        1, or a power of two if the rows are so small that float32 squares would underflow.
    axes : (d, pca_components) float32 or None. V, largest axis first.
    centre : (d,) or (pca_components,) float32
    """

    def __init__(self, unit_norm: bool, pca_components: int | None, *, centred: bool) -> None:
        self.unit_norm, self.pca_components, self.centred = unit_norm, pca_components, centred
        self.axes: np.ndarray | None = None
        self.scale = 1.0

    def fit(self, X: Any) -> "RowMap":
        """Learn scale, axes and centre of rows X : (n, d) array or CSR. O(n d^2 + d^3) with axes.

        Raises
        ------
        ValueError
            Features above 1e15 in magnitude, or more axes than features.
        """
        n, d = X.shape
        self.scale = 1.0
        magnitude = self.require_moderate(X)
        if 0.0 < magnitude < _MIN_MAGNITUDE:
            self.scale = 2.0 ** -np.floor(np.log2(magnitude))
        if self.pca_components is not None:
            if self.pca_components > d:
                raise ValueError(
                    f"pca_components is {self.pca_components}, should be at most the number of "
                    f"features, {d}"
                )
            sample = X[:: max(1, -(-n // _AXES_ROWS))]
            moments = np.zeros((d, d))
            for start in range(0, sample.shape[0], _BATCH_ROWS):
                rows = self._normalise(_dense(sample[start : start + _BATCH_ROWS], self.scale))
                moments += matmul(rows.T, rows)
            leading = (d - self.pca_components, d - 1)
            _, axes = scipy.linalg.eigh(moments, subset_by_index=leading)
            self.axes = np.ascontiguousarray(axes[:, ::-1], np.float32)
        if self.transforms_rows:
            row_sum = sum(
                self._map(X[start : start + _BATCH_ROWS]).sum(axis=0, dtype=np.float64)
                for start in range(0, n, _BATCH_ROWS)
            )
            self.centre = np.asarray(row_sum / n, np.float32)
        elif d <= _MAX_DENSE_COLUMNS:
            mean = np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()
            self.centre = np.asarray(origin_of(X, mean) * self.scale, np.float32)
        else:
            self.centre = np.zeros(d, np.float32)
        if not self.centred:
            self.centre[:] = 0.0
        return self

    def __call__(self, X: Any) -> Any:
        """Map rows X : (b, d) array or CSR to C-contiguous or CSR float32 rows."""
        if sp.issparse(X) and X.shape[1] > _MAX_DENSE_COLUMNS and not self.transforms_rows:
            return (X if self.scale == 1.0 else X * self.scale).astype(np.float32)
        return np.ascontiguousarray(self._map(X) - self.centre, np.float32)

    def require_moderate(self, X: Any) -> float:
        """Return the largest magnitude in rows X; raise a ValueError above 1e15 after scaling."""
        largest = float(max(X.max(), -X.min())) if X.shape[0] else 0.0
        bound = _MAX_MAGNITUDE / self.scale
        if largest > bound:
            raise ValueError(f"X contains {largest:.3g} in magnitude, should be at most {bound:g}")
        return largest

    @property
    def nbytes(self) -> int:
        return self.centre.nbytes + (0 if self.axes is None else self.axes.nbytes)

    @property
    def transforms_rows(self) -> bool:
        """Whether rows are normalised or projected."""
        return self.unit_norm or self.axes is not None

    def _map(self, X: Any) -> np.ndarray:
        X = self._normalise(_dense(X, self.scale))
        return X if self.axes is None else matmul(X, self.axes)

    def _normalise(self, X: np.ndarray) -> np.ndarray:
        if not self.unit_norm:
            return X
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(norms > 0, norms, 1.0).astype(X.dtype)


def _dense(X: Any, scale: float) -> np.ndarray:
    """Rows as a dense array, multiplied by `scale` in float64 unless it is 1."""
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    return X if scale == 1.0 else X.astype(np.float64) * scale
