"""Transformation of rows before random features: unit length, principal axes, centring.

Dai et al. (NIPS 2014) scale mnist's rows to unit length and project them onto the leading axes of
their second-moment matrix, without centring.
"""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

# CSR batches with at most this many columns are converted to dense arrays.
_DENSE_COLUMNS = 4096
# Number of rows from which the principal axes are computed, as in the paper's experiments.
_SAMPLE = 100_000
# Rows that are transformed at a time.
_BATCH = 8192
# Largest magnitude of a feature for which products with frequencies stay within float32's range.
_LARGEST_FEATURE = 1e15


class RowMap:
    """x -> (x / ||x||) V - c, each of the three steps optional.

    Parameters
    ----------
    unit_norm : bool
    pca_components : int or None
        Columns of V; None skips the projection.
    centred : bool
        Whether c is the mean of the mapped rows. For rows far from the origin, the arguments of the
        cosines would be large and lose digits. Wide CSR rows are not centred.

    Attributes
    ----------
    axes : (d, pca_components) float32 or None
        V, largest axis first.
    centre : (d,) or (pca_components,) float32
    """

    def __init__(self, unit_norm: bool, pca_components: int | None, *, centred: bool) -> None:
        self.unit_norm, self.pca_components, self.centred = unit_norm, pca_components, centred
        self.axes: np.ndarray | None = None

    def fit(self, X: Any) -> "RowMap":
        """Compute axes and centre of rows X : (n, d) array or CSR. O(n d^2 + d^3) with axes."""
        n, d = X.shape
        if self.pca_components is not None:
            if self.pca_components > d:
                raise ValueError(
                    f"pca_components is {self.pca_components}, should be at most the number of "
                    f"features, {d}"
                )
            sample = X[:: max(1, -(-n // _SAMPLE))]
            moments = np.zeros((d, d))
            for start in range(0, sample.shape[0], _BATCH):
                part = self._unit(_dense(sample[start : start + _BATCH]))
                moments += part.T @ part
            leading = (d - self.pca_components, d - 1)
            _, axes = scipy.linalg.eigh(moments, subset_by_index=leading)
            self.axes = np.ascontiguousarray(axes[:, ::-1], np.float32)
        if self.changes:
            total = sum(
                self._map(X[start : start + _BATCH]).sum(axis=0, dtype=np.float64)
                for start in range(0, n, _BATCH)
            )
            self.centre = np.asarray(total / n, np.float32)
        elif d <= _DENSE_COLUMNS:
            self.centre = np.asarray(X.mean(axis=0, dtype=np.float64), np.float32).ravel()
        else:
            self.centre = np.zeros(d, np.float32)
        if not self.centred:
            self.centre[:] = 0.0
        return self

    def __call__(self, X: Any) -> Any:
        """The transformed rows X : (b, d) array or CSR: float32, C-contiguous or CSR."""
        if sp.issparse(X) and X.shape[1] > _DENSE_COLUMNS and not self.changes:
            return X.astype(np.float32)
        return np.ascontiguousarray(self._map(X) - self.centre, np.float32)

    @property
    def nbytes(self) -> int:
        return self.centre.nbytes + (0 if self.axes is None else self.axes.nbytes)

    @property
    def changes(self) -> bool:
        """Whether rows are scaled or projected, not only centred."""
        return self.unit_norm or self.axes is not None

    def _map(self, X: Any) -> np.ndarray:
        X = self._unit(_dense(X))
        return X if self.axes is None else X @ self.axes

    def _unit(self, X: np.ndarray) -> np.ndarray:
        if not self.unit_norm:
            return X
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(norms > 0, norms, 1.0).astype(X.dtype)


def require_moderate(X: Any) -> None:
    """Raise ValueError if products with frequencies could exceed float32's range."""
    if X.shape[0] and max(X.max(), -X.min()) > _LARGEST_FEATURE:
        raise ValueError(
            f"X contains {max(X.max(), -X.min()):.3g} in magnitude, "
            f"should be at most {_LARGEST_FEATURE:g}"
        )


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else np.asarray(X)
