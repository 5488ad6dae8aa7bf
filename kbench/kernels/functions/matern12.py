"""The Matern kernel of order 1/2, exp(-gamma ||x - z||): the Laplace kernel of recursive feature
machines.

The slope at distance zero is not zero, so rounding of small distances matters: a squared distance
computed by a product of matrices loses digits if points are close, and its root has half of the
remaining digits. Squared distances are therefore always computed from centred rows in float64, and
from differences where even that loses too much. The root and the exponential, which lose no digits,
are computed in the precision of the values.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.kernels.kernel import GAMMA, Kernel, parameter
from kbench.kernels.origin import origin_of
from kbench.kernels.registry import registered
from kbench.kernels.spectrum import Spectrum, student_spectrum
from kbench.stored import check_arrays, require

# Bound on the rounding error of a value whose squared distance is a product of rows. Above it, as
# for groups of rows that are far from each other, distances come from differences, which take about
# ten times as long. Set by hand.
_MAX_ROUNDING = 1e-3


@dataclass(frozen=True)
class CentredPoints:
    """Prepared points: centred rows and two columns, so that a product gives squared distances."""

    rows: np.ndarray  # (n, d + 2) float64: x, 1 and ||x||^2

    @property
    def shape(self) -> tuple[int]:
        return (len(self.rows),)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def __getitem__(self, rows: Any) -> "CentredPoints":
        return CentredPoints(self.rows[rows])


@registered
@dataclass(frozen=True)
class Matern12(Kernel):
    """k(x, z) = exp(-gamma ||x - z||_2).

    Reference: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, equation
    4.18. CSR rows become dense when they are prepared.
    """

    gamma: float = parameter(GAMMA)
    origin: np.ndarray | None = field(default=None, repr=False, compare=False)

    name: ClassVar[str] = "matern12"
    unit_diagonal: ClassVar[bool] = True
    gamma_power: ClassVar[int] = 1
    spectrum: ClassVar[Spectrum] = student_spectrum(0.5)

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        return math.exp(-self.gamma * math.dist(x, z))

    def bind(self, X: Any) -> Self:
        """Store the origin of the training rows X : (n, d), which is subtracted from all points."""
        mean = np.asarray(X.mean(axis=0), np.float64).ravel()
        return replace(self, origin=mean if sp.issparse(X) else origin_of(X, mean))

    def prepare(self, X: Any, dtype: np.dtype) -> CentredPoints:
        X = X.toarray() if sp.issparse(X) else X
        n, d = X.shape
        rows = np.empty((n, d + 2))
        np.subtract(X, 0.0 if self.origin is None else self.origin, out=rows[:, :d])
        rows[:, d] = 1.0
        np.einsum("ij,ij->i", rows[:, :d], rows[:, :d], out=rows[:, d + 1])
        return CentredPoints(rows)

    def _evaluate_tile(self, A: CentredPoints, B: CentredPoints, out: np.ndarray) -> None:
        if max(self._rounding(A), self._rounding(B)) > _MAX_ROUNDING:
            from scipy.spatial.distance import cdist  # takes 30 ms to import

            distances = cdist(A.rows[:, :-2], B.rows[:, :-2])
            distances *= -self.gamma
            np.exp(distances, out=out, casting="same_kind")
            return
        # (-2 a, ||a||^2, 1) (b, 1, ||b||^2)' = ||a - b||^2
        left = -2.0 * A.rows
        left[:, -2], left[:, -1] = A.rows[:, -1], 1.0
        distances = matmul(left, B.rows.T)
        np.maximum(distances, 0.0, out=out, casting="same_kind")
        np.sqrt(out, out=out)
        out *= -self.gamma
        np.exp(out, out=out)

    def _rounding(self, A: CentredPoints) -> float:
        """Bound on the error of a value, if squared distances of these rows are products."""
        # A squared distance sums d + 2 float64 products, whose absolute values add up to at most
        # 4 max ||x||^2: each partial sum is rounded by eps / 2 of that, and so are the two norms.
        squares = (len(A.rows.T) + 2) * np.finfo(np.float64).eps * A.rows[:, -1].max(initial=0.0)
        return self.gamma * math.sqrt(2.0 * squares)

    def diagonal(self, A: CentredPoints) -> np.ndarray:
        return np.ones(A.shape[0])

    def entry_error(self, A: CentredPoints) -> float:
        # 4 float32 eps cover the root, the exponential and two roundings.
        return 4.0 * float(np.finfo(np.float32).eps) + min(self._rounding(A), _MAX_ROUNDING)

    def check_points(self, points: Any, dtype: Any, n_features: int) -> int:
        # NumPy alone evaluates the points, and it checks indices.
        require(isinstance(points, CentredPoints), "the points are of another class")
        return check_arrays(points, rows=f"f8 n {n_features + 2}")["n"]
