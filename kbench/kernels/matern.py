"""The Matern kernel of order 1/2, exp(-gamma ||x - z||): the Laplace kernel of recursive feature
machines.

Its slope at distance zero does not vanish, so rounding of small distances matters: the square of a
distance that was computed by a product of matrices loses digits where points are close, and its
root loses half of those that are left. Distances are therefore computed from centred rows in
float64, whatever the precision of the values; the exponential, which takes most of the time, is
evaluated in the precision that was asked for.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from kbench.kernels.functions import Kernel


@dataclass(frozen=True)
class CentredPoints:
    """Prepared points: centred rows and their squared norms.

    Attributes
    ----------
    rows : (n, d) float64
    squares : (n,) float64
    """

    rows: np.ndarray
    squares: np.ndarray

    @property
    def shape(self) -> tuple[int]:
        return self.squares.shape

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.squares.nbytes

    def __getitem__(self, rows: Any) -> "CentredPoints":
        return CentredPoints(self.rows[rows], self.squares[rows])


@dataclass(frozen=True)
class Matern12(Kernel):
    """k(x, z) = exp(-gamma ||x - z||_2).

    Reference: C. Rasmussen, C. Williams, "Gaussian Processes for Machine Learning", 2006, equation
    4.18. CSR rows become dense when they are prepared.
    """

    gamma: float
    origin: np.ndarray | None = field(default=None, repr=False, compare=False)

    unit_diagonal: ClassVar[bool] = True

    def bind(self, X: Any) -> Self:
        """Remember the mean of the training rows X : (n, d), which is subtracted from all
        points."""
        return replace(self, origin=np.asarray(X.mean(axis=0), np.float64).ravel())

    def prepare(self, X: Any, dtype: np.dtype) -> CentredPoints:
        rows = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
        if self.origin is not None:
            rows = rows - self.origin
        return CentredPoints(rows, np.einsum("ij,ij->i", rows, rows))

    def _evaluate_tile(self, A: CentredPoints, B: CentredPoints, out: np.ndarray) -> None:
        distances = A.rows @ B.rows.T
        distances *= -2.0
        distances += A.squares[:, None]
        distances += B.squares
        np.maximum(distances, 0.0, out=distances)
        np.sqrt(distances, out=distances)
        np.multiply(distances, -self.gamma, out=out, casting="same_kind")
        np.exp(out, out=out)

    def diagonal(self, A: CentredPoints) -> np.ndarray:
        return np.ones(A.shape[0])
