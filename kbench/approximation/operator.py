"""The interface of kernel approximations, and their error.

Two kinds of objects:

- An *approximation* (`Approximation`) is a scikit-learn estimator: it has parameters, `fit(X)`
  chooses clusters, landmarks or frequencies, and `kernel_matrix(X)` returns the approximate kernel
  matrix of the rows it was fitted to. MEKA, BKA and HSSMatrix build the matrix in `fit`. Feature
  maps (Nystrom features, random Fourier features, Fastfood) are also transformers; they do not
  store the features of training rows, and compute the features of X in `kernel_matrix`.
- An *approximate kernel matrix* (`KernelApproximation`) is a symmetric n x n linear operator that
  stores far fewer than n^2 numbers: products `G @ V`, rows, values at new points (`cross`),
  regularised solves.

`kernel_error` measures the error of any of them on sampled rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator

from kbench.kernels import Kernel, KernelMatrix
from kbench.prediction.local import RowFunction
from kbench.trace import Trace

# Bytes of exact kernel values that `kernel_error` holds at a time: memory against the overhead of
# a call. Set by hand.
_BLOCK_BYTES = 1 << 26


class Machine(RowFunction, Protocol):
    """A fitted function X : (u, d) -> (u, m) float64, with its memory and its cost for a row."""

    @property
    def nbytes(self) -> int: ...


class RowOperator(Protocol):
    """A square matrix whose rows can be computed: (a,) indices -> (a, n)."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def rows(self, indices: np.ndarray) -> np.ndarray: ...


class KernelApproximation(LinearOperator, ABC):
    """Base class of the approximate kernel matrices of n training points.

    A `scipy.sparse.linalg.LinearOperator` of shape (n, n), in the order of the training rows.
    Products are float64, whatever the precision of the stored numbers.

    Parameters
    ----------
    n : int
    kernel_entries : int
        Kernel values that were computed to build the matrix.

    Attributes
    ----------
    kernel_entries_ : int
    nbytes_ : int
        Bytes of the stored numbers that a product uses.
    n_parameters_ : int
        Number of stored nonzero numbers: the memory axis of the papers.
    """

    def __init__(self, n: int, kernel_entries: int = 0) -> None:
        super().__init__(np.dtype(np.float64), (n, n))
        self.kernel_entries_ = kernel_entries

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
        """The function X -> cross(X) @ coef for coef : (n, m).

        The function keeps the arrays that its evaluation needs, if possible of fewer than n points.
        """

    @abstractmethod
    def solve(self, Y: np.ndarray, alpha: float) -> np.ndarray:
        """(G + alpha I)^-1 Y for Y : (n, m) and alpha > 0; (n, m) float64.

        If G + alpha I is not positive definite, the negative eigenvalues of G are replaced by zero,
        with a RuntimeWarning.
        """

    def ridge_machine(
        self, Y: np.ndarray, alpha: float, scale: np.ndarray | None = None
    ) -> Machine:
        """The function X -> cross(X) @ (G + alpha I)^-1 Y for Y : (n, m).

        scale : (n,), square roots s of the rows' weights; the coefficients are then
            (G + alpha diag(1/s^2))^-1 Y.

        Raises
        ------
        ValueError
            If `scale` is given and this form of matrix has no `scaled`.
        """
        if scale is None:
            return self.machine(self.solve(Y, alpha))
        scale_column = scale[:, None]
        return self.machine(scale_column * self.scaled(scale).solve(scale_column * Y, alpha))

    @abstractmethod
    def preconditioner(self, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
        """A map R : (n, m) -> (n, m) float64 close to (G + alpha I)^-1 R, for conjugate gradients.

        The map is symmetric positive definite for alpha > 0, even if G is indefinite.
        """

    def scaled(self, scale: np.ndarray) -> "KernelApproximation":
        """S G S for S = diag(scale), scale : (n,); for weighted least squares.

        Raises
        ------
        ValueError
            This form of matrix has no cheap product with S.
        """
        raise ValueError(f"{type(self).__name__} takes no sample_weight")


class Approximation(Protocol):
    """A kernel approximation as an estimator, fitted or not.

    An approximation also has scikit-learn's `get_params`, `set_params` and, if it draws random
    numbers, a parameter `random_state`.

    Attributes
    ----------
    kernel_ : Kernel
        After `fit`: the kernel function that is approximated.
    """

    kernel_: Kernel

    def fit(self, X: Any, y: Any = None, *, trace: Trace | None = None) -> Self:
        """Fit to rows X : (n, d), dense or CSR, naming phases to the trace."""

    def kernel_matrix(self, X: Any, *, trace: Trace | None = None) -> KernelApproximation:
        """The approximate kernel matrix of X : (n, d), the rows that `fit` was called on."""


def sampled_rows(n: int, n_rows: int, rng: np.random.RandomState) -> np.ndarray:
    """min(n, n_rows) of the indices 0 .. n-1, drawn without replacement, ascending."""
    return np.arange(n) if n_rows >= n else np.sort(rng.choice(n, n_rows, replace=False))


def kernel_error(
    kernel: KernelMatrix | Callable[[np.ndarray], np.ndarray],
    approximation: RowOperator,
    rows: np.ndarray,
) -> float:
    """Relative Frobenius error of an approximation on rows R: ||G_R - G~_R|| / ||G_R||.

    Parameters
    ----------
    kernel : KernelMatrix, or a function from (a,) indices to the exact rows : (a, n)
        For example the `__getitem__` of an array of exact rows that several calls share.
    approximation : KernelApproximation, or another matrix with `shape` and `rows`
    rows : (a,) indices, R

    Returns
    -------
    float

    Notes
    -----
    O(a n d) time for the exact rows, and the time of the approximate rows. At most 64 MiB of exact
    rows are in memory at a time.
    """
    exact_rows = kernel.block if isinstance(kernel, KernelMatrix) else kernel
    batch_size = max(1, _BLOCK_BYTES // (8 * approximation.shape[1]))
    squared_error = squared_norm = 0.0
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        values = exact_rows(batch)
        squared_norm += _sum_of_squares(values)
        squared_error += _sum_of_squares(values - approximation.rows(batch))
    return float(np.sqrt(squared_error / squared_norm)) if squared_norm else 0.0


def _sum_of_squares(values: np.ndarray) -> float:
    """Sum of squares; each row in the precision of `values`, the sum of the rows in float64."""
    return float(np.einsum("ij,ij->i", values, values).sum(dtype=np.float64))
