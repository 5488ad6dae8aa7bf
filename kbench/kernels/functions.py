"""Kernel functions k(x, z) and how a block of their values is computed.

A kernel first *prepares* points (once), then *evaluates* blocks between prepared points (often).
Preparing does what would otherwise be repeated for every block. For the Gaussian kernel that is
centring, scaling and appending the squared norm: with z = sqrt(2 gamma) (x - origin),

    -gamma ||x - x'||^2 = <[z, 1, -||z||^2/2], [z', -||z'||^2/2, 1]>,

so that one matrix product gives the exponent, whatever the number of features. The price is
cancellation: the exponent carries an absolute error of about eps * gamma * (||x - origin||^2 +
||x' - origin||^2), eps = 6e-8 in float32. Centring keeps it small; float64 removes it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import manhattan_distances

# exp(-87) is the last normal float32: below it, denormal numbers would slow every later product.
_SMALLEST_EXPONENT = -87.0


class Kernel(ABC):
    """A symmetric kernel function on rows of a matrix.

    Prepared points are opaque to callers: they can be indexed by an index array or a slice, have a
    `shape` whose first entry is the number of points, and go into `evaluate`.
    """

    def bind(self, X: Any) -> Self:
        """Return the same function with what X : (n, d) tells about evaluating it accurately."""
        return self

    def rows(self, X: Any) -> Any:
        """Return X as something whose points can be taken by an index array."""
        return X

    @abstractmethod
    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        """Prepare rows X : (n, d), dense or CSR, for `evaluate`. O(n d) time and memory."""

    @abstractmethod
    def evaluate(self, A: Any, B: Any, out: np.ndarray) -> None:
        """Write k between prepared points A (a of them) and B (b) into out : (a, b)."""

    @abstractmethod
    def diagonal(self, A: Any) -> np.ndarray:
        """k(x, x) for prepared points; (n,) float64."""

    def as_centres(self, A: Any) -> Any:
        """What has to be kept of A so that it can be the second argument of `evaluate`."""
        return A


class _InnerProductKernel(Kernel):
    """A kernel that is a function of inner products of prepared rows: one GEMM, then in place."""

    @abstractmethod
    def _finish(self, out: np.ndarray) -> None:
        """Turn inner products into kernel values in place."""

    def _left(self, A: Any) -> np.ndarray:
        return A.toarray() if sp.issparse(A) else A

    def evaluate(self, A: Any, B: Any, out: np.ndarray) -> None:
        left = self._left(A)
        if sp.issparse(B):
            out[...] = (B @ left.T).T
        else:
            np.matmul(left, B.T, out=out)
        self._finish(out)


@dataclass(frozen=True)
class Linear(_InnerProductKernel):
    """k(x, z) = <x, z>."""

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return _rows(X, dtype)

    def _finish(self, out: np.ndarray) -> None:
        pass

    def diagonal(self, A: Any) -> np.ndarray:
        return _squared_norms(A)


@dataclass(frozen=True)
class Polynomial(_InnerProductKernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree."""

    gamma: float
    degree: int = 3
    coef0: float = 0.0

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return _rows(X * np.sqrt(self.gamma), dtype)

    def _finish(self, out: np.ndarray) -> None:
        out += self.coef0
        # Products instead of np.power, which goes through a scalar pow for float arrays.
        base = out.copy() if self.degree > 1 else out
        for bit in bin(self.degree)[3:]:
            out *= out
            if bit == "1":
                out *= base

    def diagonal(self, A: Any) -> np.ndarray:
        return (_squared_norms(A) + self.coef0) ** self.degree


@dataclass(frozen=True)
class RBF(_InnerProductKernel):
    """k(x, z) = exp(-gamma ||x - z||^2).

    `origin` : (d,), the point that dense rows are centred at; `bind` sets it to the mean.
    CSR rows are not centred: that would make them dense.
    """

    gamma: float
    origin: np.ndarray | None = field(default=None, repr=False, compare=False)

    def bind(self, X: Any) -> "RBF":
        return replace(self, origin=None if sp.issparse(X) else X.mean(axis=0, dtype=np.float64))

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        if self.origin is not None:
            X = (X.toarray() if sp.issparse(X) else X) - self.origin
        Z = X.astype(np.float64, copy=False) * np.sqrt(2.0 * self.gamma)
        half = -0.5 * _squared_norms(Z)[:, None]
        if sp.issparse(Z):
            return sp.csr_array(sp.hstack([Z, half, np.ones_like(half)]), dtype=dtype)
        points = np.empty((Z.shape[0], Z.shape[1] + 2), dtype)
        points[:, :-2], points[:, -2:-1], points[:, -1] = Z, half, 1.0
        return points

    def _left(self, A: Any) -> np.ndarray:
        left = A.toarray() if sp.issparse(A) else A.copy()
        left[:, -2:] = left[:, :-3:-1].copy()
        return left

    def _finish(self, out: np.ndarray) -> None:
        np.clip(out, _SMALLEST_EXPONENT, 0.0, out=out)
        np.exp(out, out=out)

    def diagonal(self, A: Any) -> np.ndarray:
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class Laplacian(Kernel):
    """k(x, z) = exp(-gamma ||x - z||_1)."""

    gamma: float

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return _rows(X, dtype)

    def evaluate(self, A: Any, B: Any, out: np.ndarray) -> None:
        if sp.issparse(A) != sp.issparse(B):
            A, B = sp.csr_array(A), sp.csr_array(B)
        out[...] = manhattan_distances(A, B)
        out *= -self.gamma
        np.clip(out, _SMALLEST_EXPONENT, 0.0, out=out)
        np.exp(out, out=out)

    def diagonal(self, A: Any) -> np.ndarray:
        return np.ones(A.shape[0])


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A callable `function(A, B) -> (a, b)` of two blocks of rows, as `sklearn.svm.SVC` takes."""

    function: Callable[[Any, Any], np.ndarray]

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return X

    def evaluate(self, A: Any, B: Any, out: np.ndarray) -> None:
        values = np.asarray(self.function(A, B))
        if values.shape != out.shape:
            raise ValueError(
                f"kernel returned shape {values.shape} for blocks of {A.shape[0]} and "
                f"{B.shape[0]} rows; expected {out.shape}"
            )
        out[...] = values

    def diagonal(self, A: Any) -> np.ndarray:
        values = np.empty(A.shape[0])
        block = np.empty((32, 32))
        for start in range(0, len(values), 32):
            rows = A[start : start + 32]
            square = block[: rows.shape[0], : rows.shape[0]]
            self.evaluate(rows, rows, square)
            values[start : start + 32] = square.diagonal()
        return values


@dataclass(frozen=True)
class _GramRows:
    """Rows of a given kernel matrix: their values against the training points, and who they are."""

    values: np.ndarray | None  # (a, n); None for centres, which only need to be known by number
    ids: np.ndarray  # (a,) positions among the n training points; meaningless for new points

    @property
    def shape(self) -> tuple[int]:
        return self.ids.shape

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + (0 if self.values is None else self.values.nbytes)

    def __getitem__(self, rows: Any) -> "_GramRows":
        return _GramRows(None if self.values is None else self.values[rows], self.ids[rows])


@dataclass(frozen=True)
class Precomputed(Kernel):
    """Rows of X are kernel values against the n training points: (n, n), later (u, n)."""

    def rows(self, X: Any) -> _GramRows:
        return X if isinstance(X, _GramRows) else _GramRows(X, np.arange(X.shape[0]))

    def prepare(self, X: Any, dtype: np.dtype) -> _GramRows:
        # In the precision that it came in: a copy would double the n x n memory for nothing.
        return self.rows(X)

    def evaluate(self, A: _GramRows, B: _GramRows, out: np.ndarray) -> None:
        assert A.values is not None
        out[...] = A.values[:, B.ids]

    def diagonal(self, A: _GramRows) -> np.ndarray:
        assert A.values is not None
        return A.values[np.arange(A.shape[0]), A.ids].astype(np.float64)

    def as_centres(self, A: _GramRows) -> _GramRows:
        return _GramRows(None, A.ids)


def _rows(X: Any, dtype: np.dtype) -> Any:
    return sp.csr_array(X, dtype=dtype) if sp.issparse(X) else np.ascontiguousarray(X, dtype)


def _squared_norms(A: Any) -> np.ndarray:
    """||a||^2 of each row, summed in float64; (n,)."""
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A, dtype=np.float64)


def make_kernel(
    name: str | Callable[[Any, Any], np.ndarray],
    X: Any,
    *,
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
) -> Kernel:
    """The kernel that an estimator's parameters name, in the sense of `sklearn.svm.SVC`.

    Parameters
    ----------
    name : {"rbf", "laplacian", "poly", "linear", "precomputed"} or callable
    X : (n, d) dense or CSR
        Training rows; they define the number behind `gamma="scale"`, 1 / (d Var(X)), and "auto",
        1 / d.
    """
    if callable(name):
        return FunctionKernel(name)
    if name == "precomputed":
        return Precomputed()
    if name == "linear":
        return Linear()
    width = _bandwidth(gamma, X)
    if name == "rbf":
        return RBF(width)
    if name == "laplacian":
        return Laplacian(width)
    return Polynomial(width, degree, coef0)


def _bandwidth(gamma: float | str, X: Any) -> float:
    if not isinstance(gamma, str):
        return float(gamma)
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if sp.issparse(X):
        X = X.astype(np.float64)
        variance = X.multiply(X).mean() - X.mean() ** 2
    else:
        variance = X.var(dtype=np.float64)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
