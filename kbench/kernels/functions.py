"""Kernel functions k(x, z) and how a block of their values is computed.

A kernel first *prepares* points (once), then *evaluates* blocks between prepared points (often).
Preparing does what would otherwise be repeated for every block: scaling, centring, packing. A new
kernel is a subclass of `Kernel` here (`_InnerProductKernel` if it is a function of inner products)
and a name in `named.make_kernel`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from kbench.kernels.value_range import check_values, limit, refuse

# A tile of 128 x 2048 float32 is 1 MB, so the passes after the product find it in the L2 cache.
_TILE_ROWS = 128
_TILE_COLUMNS = 2048
# Columns of a tile for points whose slices are copies: wider tiles make copying negligible.
_TILE_COLUMNS_COPIED = 16384


class Kernel(ABC):
    """A symmetric kernel function on rows of a matrix.

    Prepared points are opaque to callers: they can be indexed by an index array or a slice, have a
    `shape` whose first entry is the number of points, and go into `evaluate` and `accumulate`,
    whose second points B are always among the training rows that the kernel is bound to.
    """

    # Whether k(x, x) = 1 at all x.
    unit_diagonal: ClassVar[bool] = False

    def bind(self, X: Any) -> Self:
        """Return the same function, prepared to evaluate it accurately near the rows X : (n, d)."""
        return self

    def precision(self, X: Any, dtype: Any) -> np.dtype:
        """Return `dtype`, or float64 where values that are given for rows X need it."""
        return np.dtype(dtype)

    def rows(self, X: Any) -> Any:
        """Return X as an object whose points can be taken by an index array."""
        return X

    @abstractmethod
    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        """Prepare rows X : (n, d), dense or CSR, for `evaluate`. O(n d) time and memory."""

    def evaluate(self, A: Any, B: Any, out: np.ndarray) -> None:
        """Write k between prepared points A (a of them) and B (b) into out : (a, b), C order."""
        for rows in _slices(A.shape[0], _TILE_ROWS):
            left = A[rows]
            for columns in _slices(B.shape[0], _tile_columns(B)):
                self._evaluate_tile(left, B[columns], out[rows, columns])

    @abstractmethod
    def _evaluate_tile(self, A: Any, B: Any, out: np.ndarray) -> None:
        """`evaluate` for few points: a temporary array of the shape of `out` is cheap."""

    def accumulate(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        """Add k(A, B) @ coef to out : (a, m) float64; memory of one tile.

        coef : (b, m) in the precision of the kernel values; sums over tiles are in float64
        """
        tile = np.empty(min(_TILE_ROWS, A.shape[0]) * min(_tile_columns(B), B.shape[0]), coef.dtype)
        for rows in _slices(A.shape[0], _TILE_ROWS):
            left = A[rows]
            for columns in _slices(B.shape[0], _tile_columns(B)):
                right = B[columns]
                shape = left.shape[0], right.shape[0]
                block = tile[: shape[0] * shape[1]].reshape(shape)
                self._evaluate_tile(left, right, block)
                out[rows] += block @ coef[columns]

    @abstractmethod
    def diagonal(self, A: Any) -> np.ndarray:
        """Return k(x, x) of prepared points; (n,) float64."""

    def entry_error(self, A: Any) -> float:
        """Bound the absolute error of a float32 value between points A, given their exact rows."""
        return float(np.finfo(np.float32).eps * np.abs(self.diagonal(A)).max(initial=0.0))

    def nanoseconds(self, A: Any) -> float:
        """Estimated nanoseconds of one value between points A on one core; inf if unknown."""
        return math.inf

    def as_centres(self, A: Any) -> Any:
        """Return the part of A that is needed to make it the second argument of `evaluate`."""
        return A


class _InnerProductKernel(Kernel):
    """A kernel that is a function of inner products of prepared rows: one GEMM, then in place."""

    @abstractmethod
    def _largest(self, squared_norm: float) -> float:
        """Bound |inner product| and |value| between rows of at most this squared norm."""

    def _prepared(self, X: Any, factor: float, dtype: np.dtype) -> Any:
        """Rows X : (n, d) times `factor`, whose kernel values are in the range of `dtype`."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = _rows(X if factor == 1.0 else X * factor, dtype)
            entries = rows.data if sp.issparse(rows) else rows
            if entries.size:
                largest = max(float(entries.max()), -float(entries.min()))
                # The norms are looked at only where this bound on them is too large.
                if not self._largest(rows.shape[1] * largest * largest) <= limit(dtype):
                    value = self._largest(float(squared_norms(rows).max()))
                    if not value <= limit(dtype):
                        refuse(self, value, dtype)
        return rows

    @abstractmethod
    def _finish(self, out: np.ndarray) -> None:
        """Turn inner products into kernel values in place."""

    @abstractmethod
    def _slope(self, largest: float) -> float:
        """Bound |value| + |derivative * inner product| for inner products up to `largest`."""

    def _evaluate_tile(self, A: Any, B: Any, out: np.ndarray) -> None:
        if sp.issparse(B):
            from kbench.kernels.sparse import products

            inner = np.empty(out.shape, B.dtype)
            products(csr_rows(A), B, inner)
            out[...] = inner
        else:
            np.matmul(A.toarray() if sp.issparse(A) else A, B.T, out=out)
        self._finish(out)

    def entry_error(self, A: Any) -> float:
        largest = float(squared_norms(A).max(initial=0.0))
        return float(np.finfo(np.float32).eps) * (A.shape[1] + 2) * self._slope(largest)


@dataclass(frozen=True)
class Linear(_InnerProductKernel):
    """k(x, z) = <x, z>."""

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return self._prepared(X, 1.0, dtype)

    def _finish(self, out: np.ndarray) -> None:
        pass

    def _largest(self, squared_norm: float) -> float:
        return squared_norm

    def _slope(self, largest: float) -> float:
        return largest

    def diagonal(self, A: Any) -> np.ndarray:
        return squared_norms(A)


@dataclass(frozen=True)
class Polynomial(_InnerProductKernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree."""

    gamma: float
    degree: int = 3
    coef0: float = 0.0

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return self._prepared(X, np.sqrt(self.gamma), dtype)

    def _largest(self, squared_norm: float) -> float:
        try:
            return float(max(squared_norm, (squared_norm + abs(self.coef0)) ** self.degree))
        except OverflowError:
            return math.inf

    def _finish(self, out: np.ndarray) -> None:
        out += self.coef0
        # Repeated squaring, because np.power calls a scalar pow for each value.
        base = out.copy() if self.degree > 1 else out
        for bit in bin(self.degree)[3:]:
            out *= out
            if bit == "1":
                out *= base

    def _slope(self, largest: float) -> float:
        return (self.degree + 1) * (largest + abs(self.coef0)) ** self.degree

    def diagonal(self, A: Any) -> np.ndarray:
        return (squared_norms(A) + self.coef0) ** self.degree


@dataclass(frozen=True)
class Sigmoid(_InnerProductKernel):
    """k(x, z) = tanh(gamma <x, z> + coef0), in general not positive semidefinite."""

    gamma: float
    coef0: float = 0.0

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return self._prepared(X, np.sqrt(self.gamma), dtype)

    def _largest(self, squared_norm: float) -> float:
        return squared_norm + abs(self.coef0)

    def _finish(self, out: np.ndarray) -> None:
        out += self.coef0
        np.tanh(out, out=out)

    def _slope(self, largest: float) -> float:
        return 1.0 + largest

    def diagonal(self, A: Any) -> np.ndarray:
        return np.tanh(squared_norms(A) + self.coef0)


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A callable `function(A, B) -> (a, b)` of two blocks of rows, as `sklearn.svm.SVC` takes."""

    function: Callable[[Any, Any], np.ndarray]

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        return X

    def _evaluate_tile(self, A: Any, B: Any, out: np.ndarray) -> None:
        values = np.asarray(self.function(A, B))
        check_values(self, values, out.dtype)
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
            self._evaluate_tile(rows, rows, square)
            values[start : start + 32] = square.diagonal()
        return values


@dataclass(frozen=True)
class _GramRows:
    """Rows of a given kernel matrix: values against the training points, and their numbers."""

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

    def precision(self, X: Any, dtype: Any) -> np.dtype:
        values = X.values if isinstance(X, _GramRows) else X
        if values is None or not values.size:
            return np.dtype(dtype)
        largest = max(float(values.max()), -float(values.min()))
        return np.dtype(dtype if largest <= limit(dtype) else np.float64)

    def rows(self, X: Any) -> _GramRows:
        return X if isinstance(X, _GramRows) else _GramRows(X, np.arange(X.shape[0]))

    def prepare(self, X: Any, dtype: np.dtype) -> _GramRows:
        # Not converted: a copy would double the memory of n^2 values without making them better.
        return self.rows(X)

    def _evaluate_tile(self, A: _GramRows, B: _GramRows, out: np.ndarray) -> None:
        assert A.values is not None
        values = A.values[:, B.ids]
        check_values(self, values, out.dtype)
        out[...] = values

    def diagonal(self, A: _GramRows) -> np.ndarray:
        assert A.values is not None
        return A.values[np.arange(A.shape[0]), A.ids].astype(np.float64)

    def as_centres(self, A: _GramRows) -> _GramRows:
        return _GramRows(None, A.ids)


def csr_rows(X: Any) -> Any:
    """X as CSR with each column at most once in a row."""
    rows = sp.csr_array(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def squared_norms(A: Any) -> np.ndarray:
    """||a||^2 of each row, summed in float64; (n,)."""
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A, dtype=np.float64)


def _rows(X: Any, dtype: np.dtype) -> Any:
    return csr_rows(X).astype(dtype) if sp.issparse(X) else np.ascontiguousarray(X, dtype)


def _slices(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _tile_columns(B: Any) -> int:
    return _TILE_COLUMNS if isinstance(B, np.ndarray) else _TILE_COLUMNS_COPIED
