"""The kernel matrix of a data set, computed block by block when needed, never as a whole.

Solvers and clusterings work on a `KernelMatrix`; `expand` evaluates a fitted model. Values that
are only multiplied by coefficients never leave the processor's cache.
"""

import copy
import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.kernels.kernel import Kernel, check_points
from kbench.stored import check_arrays, check_whole, require

# `square` computes blocks of rows on and right of the diagonal: more blocks compute fewer values
# twice, small blocks are slow. Least rows of a block and largest number of blocks, and nanoseconds
# for copying a value to the other triangle (`scripts/bench_everyday.py`, embeddings).
_MIN_BLOCK_ROWS, _MAX_BLOCKS, _COPYING_NS = 128, 8, 1.5


class KernelMatrix:
    """K = (k(x_i, x_j)) of n points.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d) array, float32 or float64, or CSR
        Kept by reference. For `Precomputed`, (n, n) kernel values.
    dtype : float32 or float64
        Precision of the prepared points and of the blocks.
    is_part : Whether X is a subset of the rows to which the kernel is bound

    Attributes
    ----------
    dtype : float32 or float64
        As given, or float64 where float32 cannot hold the values of `Precomputed`.
    n_entries : int
        Kernel values computed so far, in any precision (see `astype`).

    Notes
    -----
    Memory is one prepared copy of X, O(n d); a value costs O(d) (O(nnz) of the rows for wide CSR).
    The kind of data decides how values are computed (`kbench.kernels.distances`). Blocks and
    products use as many threads as numba and BLAS may.
    """

    def __init__(
        self, kernel: Kernel, X: Any, dtype: Any = np.float32, *, is_part: bool = False
    ) -> None:
        self.kernel = kernel.bind_part(X) if is_part else kernel.bind(X)
        self.dtype = kernel.precision(X, dtype)
        self._counter = np.zeros(1, np.int64)
        self._X = kernel.rows(X)
        self._prepared: Any = None
        self._allowance = 0

    def __len__(self) -> int:
        return self._X.shape[0]

    @property
    def _points(self) -> Any:
        """All points, prepared at their first use, because some matrices use only a few of them."""
        if self._prepared is None:
            self._prepared = self.kernel.prepare(self._X, self.dtype)
        return self._prepared

    @property
    def X(self) -> Any:
        """The rows, (n, d) dense or CSR; None for a precomputed kernel."""
        return self._X if isinstance(self._X, np.ndarray) or sp.issparse(self._X) else None

    @property
    def n_entries(self) -> int:
        return int(self._counter[0])

    def count(self, n_entries: int) -> None:
        """Add to the attribute `n_entries`; callers count values that they compute elsewhere."""
        self._counter += n_entries

    def astype(self, dtype: Any) -> "KernelMatrix":
        """Return the matrix in `dtype`: this one, or one prepared from the original rows."""
        if self.dtype == dtype:
            return self
        converted = copy.copy(self)
        converted.dtype = np.dtype(dtype)
        # Often few points are used in the other precision. Points are prepared when they are used,
        # until n have been prepared in this way; then all n points are prepared once.
        converted._prepared, converted._allowance = None, len(self)
        return converted

    def take(self, indices: np.ndarray) -> "KernelMatrix":
        """Return the matrix of some of the points, prepared anew."""
        return KernelMatrix(self.kernel, self._X[indices], self.dtype, is_part=True)

    @property
    def entry_error(self) -> float:
        """Bound on the absolute error of a float32 value, given the exact rows. O(n d)."""
        return self.kernel.entry_error(self._points)

    def bound(self) -> float:
        """Bound on the absolute values; inf if they are not known beforehand. O(n d)."""
        return 1.0 if self.kernel.unit_diagonal else self.kernel.bound(self._points)

    @property
    def nanoseconds(self) -> float:
        """Estimated nanoseconds of one value on one core; inf if unknown."""
        return self.kernel.nanoseconds(self._points)

    def diagonal(self) -> np.ndarray:
        """k(x_i, x_i) : (n,) float64."""
        if self.kernel.unit_diagonal:
            return np.ones(len(self))
        return self.kernel.diagonal(self._points)

    def points(self, indices: np.ndarray | slice) -> Any:
        """Return the prepared points of these rows, to pass as `columns` several times."""
        if self._prepared is None and self._allowance > 0:
            rows = self._X[indices]
            self._allowance -= rows.shape[0]
            return self.kernel.prepare(rows, self.dtype)
        return self._points[indices]

    def centres(self, indices: np.ndarray) -> Any:
        """Return the prepared points of these rows, reduced to what prediction needs."""
        return self.kernel.as_centres(self.points(indices))

    def block(
        self, rows: np.ndarray, columns: Any = None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute K[rows][:, columns].

        Parameters
        ----------
        rows : (a,) indices
        columns : b prepared points (see `points`); default all n
        out : (a, b) of this matrix's dtype, C-contiguous

        Returns
        -------
        (a, b) array, `out` if given
        """
        columns = self._points if columns is None else columns
        if out is None:
            out = np.empty((len(rows), columns.shape[0]), self.dtype)
        self.kernel.evaluate(self.points(rows), columns, out)
        self.count(out.size)
        return out

    def square(self, rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Compute K[rows][:, rows] : (a, a), in `out` if given, for rows : (a,) indices.

        Values that take longer to compute than to copy are computed once for both triangles.
        """
        points, m = self.points(rows), len(rows)
        if out is None:
            out = np.empty((m, m), self.dtype)
        step = max(_MIN_BLOCK_ROWS, -(-m // _MAX_BLOCKS))
        if step >= m or not _COPYING_NS < self.nanoseconds < math.inf:
            self.kernel.evaluate(points, points, out)
            self.count(out.size)
            return out
        scratch = np.empty(step * m, self.dtype)
        for start in range(0, m, step):
            left, columns = points[start : start + step], points[start:]
            block = scratch[: left.shape[0] * columns.shape[0]].reshape(left.shape[0], -1)
            self.kernel.evaluate(left, columns, block)
            self.count(block.size)
            out[start : start + step, start:] = block
            out[start:, start : start + step] = block.T
        return out

    def product(self, columns: np.ndarray, coef: np.ndarray, rows: Any = None) -> np.ndarray:
        """Compute K[rows][:, columns] @ coef without storing the values.

        Parameters
        ----------
        columns : (b,) indices
        coef : (b,) or (b, m)
        rows : (a,) indices, or their prepared points (see `points`); default all n

        Returns
        -------
        (a,) or (a, m) float64
            Kernel values have this matrix's dtype; sums of a few products are formed in it, and
            added up in float64.
        """
        is_index = isinstance(rows, np.ndarray) and rows.ndim == 1
        left = self._points if rows is None else self.points(rows) if is_index else rows
        self.count(left.shape[0] * len(columns))
        return expand(self.kernel, left, self.points(columns), coef, self.dtype)

    def check_stored(self) -> None:
        """Raise a ValueError unless points, layout and rows fit each other (`kbench.stored`)."""
        rows = self._X
        require(isinstance(rows, np.ndarray) or sp.issparse(rows), "the matrix has no rows")
        require(
            rows.ndim == 2 and rows.dtype in (np.float32, np.float64), "the rows are not floats"
        )
        check_arrays(self, _counter="i8 1")
        check_whole(self, "_allowance", 0, 1 << 62)
        points, expected = self._prepared, rows.shape[0]
        if points is None:
            # Preparing no rows checks the layout.
            require(isinstance(self.kernel, Kernel), "kernel is of another class")
            points, expected = self.kernel.prepare(rows[:0], self.dtype), 0
        n = check_points(self.kernel, points, self.dtype, rows.shape[1])
        require(n == expected, f"there are {n} prepared points for {rows.shape[0]} rows")


def expand(kernel: Kernel, A: Any, B: Any, coef: np.ndarray, dtype: Any) -> np.ndarray:
    """Evaluate kernel expansions: sum_j k(a_i, b_j) coef_j.

    Parameters
    ----------
    A, B : a and b prepared points
    coef : (b,) or (b, m)
    dtype : float32 or float64
        Precision of the points.

    Returns
    -------
    (a,) or (a, m) float64
    """
    values = np.zeros((A.shape[0], *coef.shape[1:]))
    weights = (coef if coef.ndim == 2 else coef[:, None]).astype(dtype)
    if A.shape[0] and B.shape[0]:
        kernel.accumulate(A, B, weights, values if coef.ndim == 2 else values[:, None])
    return values


def nbytes(points: Any) -> int:
    """Return the number of bytes of prepared points."""
    if sp.issparse(points):
        return points.data.nbytes + points.indices.nbytes + points.indptr.nbytes
    return points.nbytes
