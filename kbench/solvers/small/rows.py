"""Where the small engine finds kernel values: points of the Gaussian kernel, or any kernel matrix.

`GaussianRows` of few features lets the compiled steps compute a row when they first need it. With
more features, and for every other kernel, blocks of values are computed beforehand, all rows of a
class against all of another.
"""

import math
from typing import Protocol

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.kernels.functions import squared_norms
from kbench.solvers.small.steps import POWER_ERROR, POWER_RELATIVE_ERROR

# Up to this many features rows are computed when they are needed; above, one matrix product of
# both classes is used, which is faster per value but computes rows that are never needed. The
# product takes 0.8 of the time of `KernelSVC.fit` on 3,000 rows of USPS (d = 256) and 1.8 of it on
# digits (d = 64): CPU seconds of one thread with this constant at 10 and at 1,000.
FEW_FEATURES = 100
# Rows of a block whose exponents are computed together: 256 KB of float32 for 1,000 columns stay in
# the L2 cache.
_BLOCK_ROWS = 64
_LOG2_E = math.log2(math.e)


class Rows(Protocol):
    """Kernel values between n points, as the small engine needs them.

    Attributes
    ----------
    points : (d, n) float64 or None
        Prepared points for rows on demand, or None if `block` is to be asked.
    halves : (n,) float64
        Half the squared norms of `points`.
    diagonal : (n,) float32
    entry_errors : tuple of two floats
        A float32 value k has an error of at most entry_errors[0] |k| + entry_errors[1].
    n_entries : int
        Values that `block` and `exact` have computed.
    """

    points: np.ndarray | None
    halves: np.ndarray
    diagonal: np.ndarray
    entry_errors: tuple[float, float]

    @property
    def n_entries(self) -> int: ...

    def __len__(self) -> int: ...

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        """Values between ranges of points; (a, b) float32, exact on the diagonal."""

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Values between points of these indices; (a, b) float64."""


class GaussianRows:
    """exp(-gamma ||x - z||^2) between dense rows, see `Rows`.

    Parameters
    ----------
    X : (n, d) array, float32 or float64
    gamma : float
    """

    def __init__(self, X: np.ndarray, gamma: float) -> None:
        n, d = X.shape
        self._Z = (X - X.mean(axis=0, dtype=np.float64)) * math.sqrt(2.0 * gamma)
        self._h = 0.5 * squared_norms(self._Z)
        self.halves = self._h * _LOG2_E
        self.diagonal = np.ones(n, np.float32)
        self.n_entries = 0
        self.points: np.ndarray | None = None
        self.entry_errors = (POWER_RELATIVE_ERROR, POWER_ERROR)
        if d <= FEW_FEATURES:
            self.points = np.zeros((-(-d // 4) * 4, n))
            np.multiply(self._Z.T, math.sqrt(_LOG2_E), out=self.points[:d])
        else:
            self._Z32, self._h32 = self._Z.astype(np.float32), self._h.astype(np.float32)
            # |fl(<x, z>) - <x, z>| <= (d + 1) eps |x| |z| / 2, and norms are rounded as well.
            eps = float(np.finfo(np.float32).eps)
            exponent = eps * (d + 6) * float(self._h.max(initial=0.0))
            self.entry_errors = (math.expm1(min(exponent, 1.0)) + eps, 0.0)

    def __len__(self) -> int:
        return len(self.halves)

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        values = self._values(self._Z32, self._h32, rows, columns)
        if rows == columns:
            np.fill_diagonal(values, 1.0)
        return values

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self._values(self._Z, self._h, rows, columns)

    def _values(
        self,
        Z: np.ndarray,
        h: np.ndarray,
        rows: np.ndarray | slice,
        columns: np.ndarray | slice,
    ) -> np.ndarray:
        out = Z[rows] @ Z[columns].T
        self.n_entries += out.size
        h_rows, h_columns = h[rows, None], h[columns]
        for start in range(0, len(out), _BLOCK_ROWS):
            values = out[start : start + _BLOCK_ROWS]
            values -= h_columns
            values -= h_rows[start : start + _BLOCK_ROWS]
            np.minimum(values, 0.0, out=values)
            np.exp(values, out=values)
        return out


class MatrixRows:
    """Any kernel's matrix, in float64 blocks, see `Rows`.

    Parameters
    ----------
    kernel : KernelMatrix, float64
    order : (n,) ints
        The points, in their order here.
    """

    points: np.ndarray | None = None

    def __init__(self, kernel: KernelMatrix, order: np.ndarray) -> None:
        self._kernel, self._order = kernel, order
        diagonal = kernel.diagonal()[order]
        self.halves = np.zeros(len(diagonal))
        self.diagonal = diagonal.astype(np.float32)
        # float32 rounds by half a unit in the last place.
        self.entry_errors = (0.5 * float(np.finfo(np.float32).eps), 0.0)

    def __len__(self) -> int:
        return len(self.diagonal)

    @property
    def n_entries(self) -> int:
        return self._kernel.n_entries

    def block(self, rows: slice, columns: slice) -> np.ndarray:
        points = np.arange(len(self))
        return self.exact(points[rows], points[columns]).astype(np.float32)

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        points = self._kernel.points(self._order[columns])
        return self._kernel.block(self._order[rows], points)
