"""Kernel matrices of at most a few thousand rows, for many kernel widths one after the other.

Dense rows of the Gaussian kernel: squared distances are computed once, by matrix products in
float32, and exponentiated for each width. The rounding error of a kernel value is about
1e-7 gamma ||x||^2 with centred x, far below the tolerance 0.1 of the search. With few features, the
models compute the kernel rows that they need themselves, from differences. For other kernels and
wide CSR rows, `KernelMatrix` computes the values.
"""

import math
from collections.abc import Iterator
from typing import Any, Protocol, cast

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.kernels import KERNELS, KernelMatrix, make_kernel
from kbench.kernels.chunks import dense_on_used_columns
from kbench.kernels.distances import Exponential
from kbench.kernels.origin import origin_of
from kbench.solvers.small.rows import by_feature
from kbench.width_search.c_path import KernelRows, on_demand, stored

# Rows of a block of kernel values at validation rows: 512 x 4,000 float32 values are 8 MiB. Set by
# hand.
_BLOCK_ROWS = 512
# Rows of the matrix that are exponentiated together, so that they stay in the processor's cache.
# Set by hand.
_CACHED_ROWS = 32
# Least exponent of a kernel value: values below 2^-126 would be denormal numbers, with which
# processors compute many times more slowly.
_MIN_EXPONENT = -100.0 * math.log(2.0)
# Features up to which models of two classes compute rows when they first need them. Such models
# need half of the rows or fewer, but each width computes the differences again: of 1,600 rows a
# value takes 0.9 ns with 8 features, 2.2 with 22 and 3.9 with 54; a value of `matrix`, for three
# widths, 1.7 with 54. Set by hand.
_MAX_ON_DEMAND_FEATURES = 32
# Squared distances between validation and training rows are kept for all widths if there are at
# most this many: 16 MiB of float32. Writing more distances to new memory costs as much as computing
# them again.
# Set by hand.
_MAX_KEPT_DISTANCES = 2**22
# CSR rows are made dense if they take at most this many entries, 256 MiB of float32, and have at
# most `_MAX_DENSE_COLUMNS` columns, because products then take time for each column. Set by hand.
_MAX_DENSE_ENTRIES = 2**26
_MAX_DENSE_COLUMNS = 2**14
# Rows whose pairwise distances estimate the median: 500 rows give 125,000 pairs. Set by hand.
_MEDIAN_ROWS = 500


class Gram(Protocol):
    """Kernel values between n training rows, and between them and v validation rows."""

    def matrix(self, gamma: float) -> np.ndarray:
        """Values between training rows; (n, n) float32, overwritten by the next call."""

    def kernel_rows(self, gamma: float) -> KernelRows:
        """`matrix` for a model that may not need all rows; overwritten by the next call."""

    def blocks(self, gamma: float, columns: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Slices of validation rows, and their values at some training rows; (b, c) float32."""


class PreparedRows:
    """All training rows, prepared for kernel matrices of subsets of them.

    Parameters
    ----------
    X : (n, d) array or CSR
    kernel : Name of a kernel that is exponential in a distance

    Attributes
    ----------
    unit : float
        Kernel width of a median distance: 1 / median ||x - z||^2, or 1 / median ||x - z||_1 for a
        kernel of this distance.
    """

    def __init__(self, X: Any, kernel: str, rng: np.random.Generator) -> None:
        n, d = X.shape
        self.kernel, self._exponent = kernel, 0
        fits_dense = d <= _MAX_DENSE_COLUMNS and n * d <= _MAX_DENSE_ENTRIES
        if kernel == "rbf" and (not sp.issparse(X) or fits_dense):
            X = X.toarray() if sp.issparse(X) else X
            X = X - origin_of(X)
            # Squares of rows of any scale are within float32: X is divided by a power of two.
            self._exponent = int(np.frexp(np.abs(X).max(initial=0.0))[1])
            X = np.ldexp(X, -self._exponent).astype(np.float32)
            self._norms = np.einsum("ij,ij->i", X, X)
        self.X = X
        self._scratch = [np.empty(0, np.float32), np.empty(0, np.float32)]
        self.unit = self._unit(rng)

    def __len__(self) -> int:
        return self.X.shape[0]

    @property
    def is_centred(self) -> bool:
        """Whether the rows are dense, centred float32 and the kernel is Gaussian."""
        return self.kernel == "rbf" and not sp.issparse(self.X)

    def _unit(self, rng: np.random.Generator) -> float:
        sample = self.X[rng.permutation(len(self))[:_MEDIAN_ROWS]]
        sample = dense_on_used_columns(sample).astype(np.float64)
        pairs = np.triu_indices(len(sample), 1)
        if cast(type[Exponential], KERNELS[self.kernel]).power == 1:
            distances = np.array([np.abs(sample - x).sum(axis=1) for x in sample])[pairs]
        else:
            squares = np.einsum("ij,ij->i", sample, sample)
            distances = (squares[:, None] + squares - matmul(2.0 * sample, sample.T))[pairs]
            # Differences of this size are rounding errors of the norms: the rows are equal.
            distances[distances < 1e-12 * squares.max()] = 0.0
        median = float(np.median(distances)) if len(distances) else 0.0
        if median <= 0.0:
            # Most rows are equal; the mean is positive unless all are.
            median = float(np.mean(distances)) if len(distances) else 0.0
        return float(np.ldexp(1.0 / median if median > 0.0 else 1.0, -2 * self._exponent))

    def scaled(self, gamma: float) -> float:
        """The width for the scaled rows `X` that equals `gamma` for the given rows."""
        return float(np.ldexp(gamma, 2 * self._exponent))

    def nearest(self, row: int, count: int) -> np.ndarray:
        """The `count` rows nearest to one row, in order of Euclidean distance. O(n d)."""
        if self.is_centred:
            distances = self._norms - 2.0 * matmul(self.X, self.X[row])
        else:
            x = self.X[[row]]
            product = matmul(self.X, x.T)
            product = product.toarray() if sp.issparse(product) else product
            squares = self.X.multiply(self.X) if sp.issparse(self.X) else self.X**2
            distances = np.asarray(squares.sum(axis=1)).ravel() - 2.0 * product.ravel()
        chosen = np.argpartition(distances, count - 1)[:count]
        return chosen[np.argsort(distances[chosen], kind="stable")]

    def gram(self, training: np.ndarray, validation: np.ndarray) -> Gram:
        """Kernel values of training and validation rows with these indices."""
        if self.is_centred:
            return _GaussianGram(self, training, validation)
        return _KernelGram(self, training, validation)

    def scratch(self, buffer_index: int, n: int) -> np.ndarray:
        """Return an uninitialised (n, n) float32 view of one of two scratch buffers.

        The first touch of new memory costs as much as the kernel values in it; so the search
        keeps its two largest matrices between sets of rows.
        """
        if len(self._scratch[buffer_index]) < n * n:
            self._scratch[buffer_index] = np.empty(n * n, np.float32)
        return self._scratch[buffer_index][: n * n].reshape(n, n)


class _GaussianGram:
    """Gaussian kernel values of centred dense rows, from squared distances."""

    def __init__(self, rows: PreparedRows, training: np.ndarray, validation: np.ndarray) -> None:
        A, a = rows.X[training], rows._norms[training]
        self._rows, self._A = rows, A
        # ||x - z||^2 = <(-2 x, ||x||^2, 1), (z, 1, ||z||^2)>
        self._right = np.column_stack([A, np.ones_like(a), a])
        self._left = _left_factors(rows.X[validation], rows._norms[validation])
        self._distances: np.ndarray | None = None
        self._to_validation: np.ndarray | None = None
        if len(validation) * len(training) <= _MAX_KEPT_DISTANCES:
            self._to_validation = matmul(self._left, self._right.T)

    def matrix(self, gamma: float) -> np.ndarray:
        n, gamma = len(self._A), self._rows.scaled(gamma)
        out = self._rows.scratch(0, n)
        if self._distances is None:
            # Not A @ A.T: NumPy copies one half of such a product to the other, which takes as long
            # as to compute it with 250 features, and longer with fewer.
            self._distances = self._rows.scratch(1, n)
            matmul(_left_factors(self._A, self._right[:, -1]), self._right.T, out=self._distances)
        for start in range(0, n, _CACHED_ROWS):
            rows = slice(start, start + _CACHED_ROWS)
            _exponentiate(self._distances[rows], gamma, out[rows])
        np.fill_diagonal(out, 1.0)
        return out

    def kernel_rows(self, gamma: float) -> KernelRows:
        n, d = self._A.shape
        if d > _MAX_ON_DEMAND_FEATURES:
            return stored(self.matrix(gamma))
        gamma = self._rows.scaled(gamma)
        return on_demand(by_feature(self._A), gamma, self._rows.scratch(0, n))

    def blocks(self, gamma: float, columns: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        right, gamma = self._right[columns].T, self._rows.scaled(gamma)
        for start in range(0, len(self._left), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            if self._to_validation is not None:
                values = self._to_validation[rows].take(columns, axis=1)
            else:
                values = matmul(self._left[rows], right)
            for first in range(0, len(values), _CACHED_ROWS):
                tile = values[first : first + _CACHED_ROWS]
                _exponentiate(tile, gamma, tile)
            yield rows, values


def _left_factors(X: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Left factors of squared distances : (n, d + 2), for rows X and their squared norms."""
    return np.column_stack([np.float32(-2.0) * X, norms, np.ones_like(norms)])


def _exponentiate(distances: np.ndarray, gamma: float, out: np.ndarray) -> None:
    """Write exp(-gamma distances) into out; rounding errors below distance 0 count as 0."""
    np.multiply(distances, np.float32(-gamma), out=out)
    np.clip(out, np.float32(_MIN_EXPONENT), np.float32(0.0), out=out)
    np.exp(out, out=out)


class _KernelGram:
    """Values of any kernel and of CSR rows, by `KernelMatrix`."""

    def __init__(self, rows: PreparedRows, training: np.ndarray, validation: np.ndarray) -> None:
        self._name, self._A, self._B = rows.kernel, rows.X[training], rows.X[validation]
        self._out = rows.scratch(0, len(training))
        self._bound: tuple[float, KernelMatrix] | None = None

    def _kernel_matrix(self, gamma: float) -> KernelMatrix:
        if self._bound is None or self._bound[0] != gamma:
            kernel = make_kernel(self._name, self._A, gamma=gamma)
            self._bound = gamma, KernelMatrix(kernel, self._A, np.float32)
        return self._bound[1]

    def matrix(self, gamma: float) -> np.ndarray:
        matrix = self._kernel_matrix(gamma)
        return matrix.block(np.arange(len(matrix)), out=self._out)

    def kernel_rows(self, gamma: float) -> KernelRows:
        return stored(self.matrix(gamma))

    def blocks(self, gamma: float, columns: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        matrix = self._kernel_matrix(gamma)
        points = matrix.points(columns)
        for start in range(0, self._B.shape[0], _BLOCK_ROWS):
            rows = self._B[start : start + _BLOCK_ROWS]
            values = np.empty((rows.shape[0], len(columns)), np.float32)
            matrix.kernel.evaluate(matrix.kernel.prepare(rows, matrix.dtype), points, values)
            yield slice(start, start + rows.shape[0]), values
