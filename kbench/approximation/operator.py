"""Approximate kernel matrices: symmetric n x n operators that hold far fewer than n^2 numbers.

What all have in common: products, rows, values at new points, and regularised solves. The error is
measured in one place, `kernel_error`, by rows that are drawn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.sparse.linalg import LinearOperator

from kbench.kernels import KernelMatrix

# Kernel values that are compared at a time, bytes.
_BLOCK_BYTES = 1 << 26


class Machine(Protocol):
    """A function X : (u, d) -> (u, m) float64 that knows the bytes it keeps and a row's cost."""

    @property
    def nbytes(self) -> int: ...

    def flops(self, n_features: int) -> float: ...

    def __call__(self, X: Any) -> np.ndarray: ...


class Rows(Protocol):
    """A square matrix that gives its rows: (a,) indices -> (a, n)."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def rows(self, indices: np.ndarray) -> np.ndarray: ...


class KernelApproximation(LinearOperator, ABC):
    """Base of the approximate kernel matrices of n training points.

    A `scipy.sparse.linalg.LinearOperator` of shape (n, n), in the order of the training rows;
    products are float64 whatever is stored.

    Attributes
    ----------
    nbytes_ : int
        Bytes that products need.
    n_parameters_ : int
        Numbers that they need, zeros left out: the memory axis of the papers.
    """

    def __init__(self, n: int) -> None:
        super().__init__(np.dtype(np.float64), (n, n))

    @property
    @abstractmethod
    def nbytes_(self) -> int: ...

    @property
    @abstractmethod
    def n_parameters_(self) -> int: ...

    @abstractmethod
    def _matmat(self, V: np.ndarray) -> np.ndarray: ...

    def _adjoint(self) -> "KernelApproximation":
        return self

    def _transpose(self) -> "KernelApproximation":
        return self

    @abstractmethod
    def rows(self, indices: np.ndarray) -> np.ndarray:
        """Rows of the matrix; (a,) -> (a, n), in the precision that is stored."""

    @abstractmethod
    def cross(self, X: Any) -> np.ndarray:
        """Approximate kernel between rows X : (u, d) and the n training points; (u, n)."""

    @abstractmethod
    def machine(self, coef: np.ndarray) -> Machine:
        """The function cross(X) @ coef of rows X, without the n training points; coef : (n, m)."""

    @abstractmethod
    def solve(self, Y: np.ndarray, alpha: float) -> np.ndarray:
        """(G + alpha I)^-1 Y for Y : (n, m) and alpha > 0; (n, m) float64.

        Where G + alpha I is not positive definite, negative eigenvalues of G count as zero, and a
        RuntimeWarning says so.
        """

    @abstractmethod
    def preconditioner(self, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
        """For conjugate gradients: a map (n, m) -> (n, m) float64 close to (G + alpha I)^-1.

        Symmetric positive definite for alpha > 0, whatever G is.
        """

    def solve_path(self, Y: np.ndarray, alphas: np.ndarray) -> np.ndarray:
        """`solve` for each of several alphas; (len(alphas), n, m). One decomposition where G has
        a small one."""
        return np.stack([self.solve(Y, float(alpha)) for alpha in alphas])


def sampled_rows(n: int, n_rows: int, rng: np.random.RandomState) -> np.ndarray:
    """Up to `n_rows` of n row numbers, drawn without replacement, in order."""
    return np.arange(n) if n_rows >= n else np.sort(rng.choice(n, n_rows, replace=False))


def kernel_error(
    kernel: KernelMatrix | Callable[[np.ndarray], np.ndarray],
    approximation: Rows,
    rows: np.ndarray,
) -> float:
    """Relative Frobenius error of an approximation on rows R: ||G_R - G~_R|| / ||G_R||.

    Parameters
    ----------
    kernel : KernelMatrix, or a function that gives rows of it
        An array's `__getitem__` is such a function: exact rows that are held serve many calls.
    approximation : KernelApproximation, or another matrix that gives its rows (`HSSMatrix`)
    rows : (a,) indices

    Returns
    -------
    float

    Notes
    -----
    O(a n d) for the exact rows and the cost of the approximate ones; some ten MiB at a time.
    """
    exact = kernel.block if isinstance(kernel, KernelMatrix) else kernel
    step = max(1, _BLOCK_BYTES // (8 * approximation.shape[1]))
    missed = total = 0.0
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        values = exact(part)
        total += _squares(values)
        missed += _squares(values - approximation.rows(part))
    return float(np.sqrt(missed / total)) if total else 0.0


def _squares(values: np.ndarray) -> float:
    """Sum of squares: rows in the precision of `values`, their sum in float64."""
    return float(np.einsum("ij,ij->i", values, values).sum(dtype=np.float64))
