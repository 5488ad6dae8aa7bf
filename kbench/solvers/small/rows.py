"""Kernel values for the small-problem solver: of points (Gaussian kernel), or of any matrix.

`GaussianRows` of few features lets the compiled steps compute a row when they first need it, in
float32 where its rounding is small enough. With more features, and for every other kernel, blocks
of values are computed beforehand, all rows of a class against all of another.
"""

import math
from typing import Any, Protocol

import numpy as np
from numba import njit
from numba.extending import register_jitable

from kbench.intrinsics.products import matmul
from kbench.intrinsics.scalars import larger, with_64_bits
from kbench.kernels import KernelMatrix
from kbench.kernels.distances import check_spread
from kbench.kernels.kernel import Kernel, squared_norms
from kbench.kernels.origin import NEAR, origin_of
from kbench.kernels.threads import cached_property
from kbench.kernels.value_range import check_values, limit
from kbench.solvers.interior_point.counted_work import factorisation
from kbench.solvers.interior_point.factors import is_semidefinite
from kbench.solvers.interior_point.problem import LowRank, Matrix, StoredKernel
from kbench.solvers.small.steps import PADDING, POWER_ERROR, POWER_RELATIVE_ERROR

# Up to this many features rows are computed when they are needed; above, by one matrix product of
# both classes, which takes a quarter of the time for each value but computes rows that are never
# needed, with an error bound six times as large. Set by hand.
FEW_FEATURES = 300
# Up to this many features rows come from differences, which do not cancel in float32; above, from
# products, which take two thirds of the time (usps) and have an error that grows with the norms of
# points. Set by hand.
_FEATURES_OF_DIFFERENCES = 100
# The slope of exp(-r^2 / 2) is at most exp(-1/2).
_STEEPEST = math.exp(-0.5)
# If values times the root of gamma exceed this number, float64 kernel values come from differences:
# products of rows, which take a tenth of the time, would cancel to 6 digits or fewer. Set by hand.
_LARGE = 1e4
# Rows of a block whose exponents are computed together: 256 KB of float32 for 1,000 columns stay in
# the L2 cache. Set by hand.
_BLOCK_ROWS = 64
# Float64 values of any other kernel that are computed before they are stored in float32, 512 KiB:
# allocating a larger array takes longer than computing its values. Set by hand.
_BLOCK_ENTRIES = 2**16
_LOG2_E = math.log2(math.e)
# log(2) as a number of 32 bits, of which multiples are exact, and the rest.
_LOG_2 = 0.693147180369123816490, 1.90821492927058770002e-10
# Up to this many squared differences, float64 values come from compiled loops; above, from a matrix
# product, which takes a fifth of the time for each but 20 us more (`scripts/bench_small.py`).
_FEW_DIFFERENCES = 2**17


class KernelValues(Protocol):
    """Kernel values between n points, as the small-problem solver needs them.

    Attributes
    ----------
    n_entries : int. Values that `block` and `exact` have computed.
    """

    # (n, d) float32: prepared points for rows on demand, or None if values come from `block`.
    points: np.ndarray | None
    # (n,) float32: half the squared norms of `points` where values come from products, see
    # `_half_row`.
    halves: np.ndarray | None
    factor: float  # Of squared distances between `points`, if `halves` is None
    # (n, d) float64 points and the factor of their squared distances, for `values_of_few`; (0, d):
    # float64 values have to come from `centred`.
    exact_points: np.ndarray
    exact_factor: float
    diagonal: np.ndarray  # (n,) float32
    # A float32 value k has an error of at most entry_errors[0] |k| + entry_errors[1] c(k), see
    # `steps._fraction_of_largest_error`.
    entry_errors: tuple[float, float]

    @property
    def n_entries(self) -> int: ...

    def __len__(self) -> int: ...

    def block(self, rows: slice, columns: slice, out: np.ndarray | None = None) -> np.ndarray:
        """Return values between ranges of points, (a, b) float32, exact on the diagonal; they are
        written to `out` if given."""

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return values between the points of these indices; (a, b) float64."""

    def centred(self, points: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Float64 values (m, b) between the first m and all of b points, with which products of
        coefficients that sum to 0 keep their digits; and the offset (b,), whose scalar product with
        the coefficients is to be added to each of these products; None: there is no offset."""

    def work(self, n: int) -> float:
        """Return the multiplications of a factorisation of n points for `whole`; inf if their
        matrix is not semidefinite."""

    def whole(self, points: np.ndarray, *, centred: bool = True) -> Matrix | None:
        """Return the matrix of the points of these indices; None if it is not semidefinite.

        centred : whether the coefficients sum to 0, so that a factor's columns may be centred
        """


def interior_work(kernel: Kernel, X: Any, n: int) -> float:
    """Multiplications of a factorisation of n points of this kernel, see `KernelValues.work`.

    X : (n_train, d) rows, or None or (n_train, n_train) values if these are given
    """
    if not kernel.of_rows:
        return factorisation(n, math.inf)  # `KernelValues.whole` checks the values
    if not kernel.is_definite:
        return math.inf
    return factorisation(n, kernel.rank(X.shape[1]))


def padded(n: Any, d: int) -> tuple[int, Any]:
    """The shape of n points of d features for `descend`: multiples of 4 and of PADDING."""
    return -(-d // 4) * 4, -(-n // PADDING) * PADDING


def by_feature(points: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return points : (n, d) transposed for `descend` and padded with zeros; written to `out`, an
    array of zeros, if given.

    Takes O(n d). A few rows are copied at a time, so that they stay in the L1 cache.
    """
    n, d = points.shape
    out = np.zeros(padded(n, d), points.dtype) if out is None else out
    for start in range(0, n, _BLOCK_ROWS):
        rows = points[start : start + _BLOCK_ROWS]
        out[:d, start : start + len(rows)] = rows.T
    return out


_OPTIONS: Any = {"fastmath": {"contract", "nsz", "reassoc"}, "_nrt": False}
_CALLED: Any = {**_OPTIONS, "no_cfunc_wrapper": True, "cache": True, "nogil": True}


@register_jitable(**_OPTIONS)
def squared_distance(a, b):
    """||a - b||^2"""
    total = 0.0
    for k in range(a.shape[0]):
        total += (a[k] - b[k]) * (a[k] - b[k])
    return total


# Not "reassoc": it would add the two parts of log(2).
@register_jitable(fastmath={"contract", "nsz"}, _nrt=False)
def exponential(t):
    """e^t for t <= 0 to 2 units in the last place, not below e^-700; loops over it are vectorised.

    e^t = 2^k e^r with |r| <= log(2) / 2, e^r by its Taylor series, whose remainder is 2e-16.
    """
    t = larger(t, -700.0)
    k = np.floor(t * _LOG2_E + 0.5)
    r = (t - k * _LOG_2[0]) - k * _LOG_2[1]
    p = 1 / 39916800 + r * (1 / 479001600)
    p = 1 / 3628800 + r * p
    p = 1 / 362880 + r * p
    p = 1 / 40320 + r * p
    p = 1 / 5040 + r * p
    p = 1 / 720 + r * p
    p = 1 / 120 + r * p
    p = 1 / 24 + r * p
    p = 1 / 6 + r * p
    p = 0.5 + r * p
    p = 1.0 + r * p
    return (1.0 + r * p) * with_64_bits((np.int64(np.int32(k)) + 1023) << 52)


@njit(error_model="numpy", **_CALLED)
def values_of_few(exact, points, factor, out):
    """out[i, j] = exp(-factor ||x_i - x_j||^2), x the rows `points` of `exact`, for the first i."""
    m, n_columns = out.shape
    for i in range(m):
        row = out[i]
        for j in range(i):
            row[j] = out[j, i]
        row[i] = 1.0
        for j in range(i + 1, n_columns):
            row[j] = -factor * squared_distance(exact[points[i]], exact[points[j]])
        for j in range(i + 1, n_columns):
            row[j] = exponential(row[j])


_values_of_few: Any = values_of_few  # mypy takes compiled functions for ones without arguments


class GaussianRows:
    """exp(-gamma ||x - z||^2) between dense rows, see `KernelValues`.

    Parameters
    ----------
    X : (n, d) array, float32 or float64
    """

    def __init__(self, X: np.ndarray, gamma: float) -> None:
        n, d = X.shape
        self._X, self._gamma = X, gamma
        self._largest = math.sqrt(gamma) * max(float(X.max()), -float(X.min()))
        if not self._largest < _LARGE:
            with np.errstate(over="ignore"):
                widest = float(np.ptp(X, axis=0).max())
            check_spread(gamma, math.sqrt(gamma), widest)
        self.diagonal = np.ones(n, np.float32)
        self.n_entries = 0
        self.points: np.ndarray | None = None
        self.halves: np.ndarray | None = None
        self.exact_points, self.exact_factor = np.empty((0, d)), 0.5
        self.factor = 1.0
        if d <= _FEATURES_OF_DIFFERENCES:
            # A power of two near sqrt(gamma): it rounds nothing, and no square overflows.
            unit = math.ldexp(1.0, math.frexp(gamma)[1] // 2)
            self.factor = _LOG2_E * gamma / unit**2
            # Differences of rows that have float32 values need no center and no rounding.
            exact, rounding = np.multiply(X, unit, dtype=np.float64), 0.0
            self.points = exact.astype(np.float32)
            if not (self.points == exact).all():
                exact = unit * (X - self._origin)
                self.points = exact.astype(np.float32)
                largest = float(squared_norms(self.points - exact).max(initial=0.0))
                # Each distance changes by at most the rounding of two points.
                rounding = 2.0 * math.sqrt(2.0 * gamma * largest) / unit
            self.exact_points, self.exact_factor = exact, gamma / unit**2
            # Roundings are relative to a sum of positive terms: 2 of a squared difference, 4 and 2
            # of additions in a group of sixteen features, one for each group and each four other
            # features after the first, which is added to zero, and 2 of the factor.
            n_rounded = 2 + 4 + 2 + d // 16 + -(-(d % 16) // 4) - 1 + 2
            error = n_rounded * POWER_ERROR + _STEEPEST * rounding
            self.entry_errors = (POWER_RELATIVE_ERROR, error)
            return
        Z, h = self._scaled
        # A rounded addition of products has an error of 2^-24 |x| |z|, which is at most 2 max h.
        unit = 2.0 * float(h.max(initial=0.0)) * 2.0**-24
        if d <= FEW_FEATURES:
            self.points = (math.sqrt(_LOG2_E) * Z).astype(np.float32)
            self.halves = (_LOG2_E * h).astype(np.float32)
            if self._largest <= _LARGE:
                self.exact_points = Z
            # As above, and points are rounded (2), and h (1 for two of them and their sum).
            exponent = unit * (6 + d // 16 + 3 + 2 + 2)
        else:
            self._Z32, self._h32 = Z.astype(np.float32), h.astype(np.float32)
            # d additions of a matrix product in any order, and 6 for points, h and differences.
            exponent = unit * (d + 6)
        self.entry_errors = (math.expm1(min(exponent, 1.0)) + POWER_RELATIVE_ERROR, POWER_ERROR)

    def __len__(self) -> int:
        return len(self._X)

    @property
    def _origin(self) -> np.ndarray:
        mean = self._X.mean(axis=0, dtype=np.float64)
        return mean if self._largest <= NEAR else origin_of(self._X, mean)

    @cached_property
    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        """Points Z whose kernel is exp(-||x - z||^2 / 2), and half their squared norms; float64."""
        Z = self._X - self._origin
        Z *= math.sqrt(2.0 * self._gamma)
        return Z, 0.5 * squared_norms(Z)

    def centred(self, points: np.ndarray, m: int) -> tuple[np.ndarray, None]:
        few = m * len(points) * self._X.shape[1] <= _FEW_DIFFERENCES
        if len(self.exact_points) and few:
            out = np.empty((m, len(points)))
            _values_of_few(self.exact_points, points, self.exact_factor, out)
            self.n_entries += out.size
            return out, None
        if self._largest > _LARGE:
            return self.exact(points[:m], points), None
        Z, h = (values.take(points, axis=0) for values in self._scaled)
        return self._of_scaled(Z[:m], h[:m], Z, h), None

    def work(self, n: int) -> float:
        return factorisation(n, math.inf)

    def whole(self, points: np.ndarray, *, centred: bool = True) -> Matrix:
        K = self.exact(points, points)
        np.fill_diagonal(K, 1.0)
        return StoredKernel(K, centred=centred)

    def block(self, rows: slice, columns: slice, out: np.ndarray | None = None) -> np.ndarray:
        values = self._values(self._Z32, self._h32, rows, columns)
        if rows == columns:
            np.fill_diagonal(values, 1.0)
        if out is None:
            return values
        out[:] = values
        return out

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if self._largest > _LARGE:
            self.n_entries += len(rows) * len(columns)
            from scipy.spatial.distance import cdist  # takes 30 ms to import

            squares = cdist(self._X[rows], self._X[columns], "sqeuclidean")
            values: np.ndarray = np.exp(-self._gamma * squares)
            return values
        return self._values(*self._scaled, rows, columns)

    def _values(
        self, Z: np.ndarray, h: np.ndarray, rows: np.ndarray | slice, columns: np.ndarray | slice
    ) -> np.ndarray:
        return self._of_scaled(Z[rows], h[rows], Z[columns], h[columns])

    def _of_scaled(
        self, Z_rows: np.ndarray, h_rows: np.ndarray, Z_columns: np.ndarray, h_columns: np.ndarray
    ) -> np.ndarray:
        out: np.ndarray = matmul(Z_rows, Z_columns.T)
        self.n_entries += out.size
        for start in range(0, len(out), _BLOCK_ROWS):
            values = out[start : start + _BLOCK_ROWS]
            values -= h_columns
            values -= h_rows[start : start + _BLOCK_ROWS, None]
            np.minimum(values, 0.0, out=values)
            np.exp(values, out=values)
        return out


class MatrixRows:
    """Any kernel's matrix, in float64 blocks, see `KernelValues`.

    Parameters
    ----------
    kernel : KernelMatrix, float64
    order : (n,) ints. The points, in their order here.
    """

    points: np.ndarray | None = None
    halves: np.ndarray | None = None
    factor = exact_factor = 1.0
    exact_points = np.empty((0, 0))

    def __init__(self, kernel: KernelMatrix, order: np.ndarray) -> None:
        self._kernel, self._order = kernel, order
        self._work: dict[int, float] = {}
        diagonal = kernel.diagonal()[order]
        check_values(kernel.kernel, diagonal, np.float32)
        self.diagonal = diagonal.astype(np.float32)
        # float32 rounds by half a unit in the last place.
        self.entry_errors = (0.5 * float(np.finfo(np.float32).eps), 0.0)
        # If no bound on the values is known beforehand, every block is checked.
        self._is_known = kernel.bound() <= limit(np.float32)

    def __len__(self) -> int:
        return len(self.diagonal)

    @property
    def n_entries(self) -> int:
        return self._kernel.n_entries

    def centred(self, points: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray | None]:
        kernel, X = self._kernel.kernel, self._kernel.X
        if not self._has_narrow_map:
            prepared = self._kernel.points(self._order[points])
            out = np.empty((m, len(points)))
            kernel.evaluate(prepared[:m], prepared, out)
            self._kernel.count(out.size)
            return out, None
        V = kernel.explicit_map(X[self._order[points]])
        mean = V.sum(axis=0) / len(V)
        offset = matmul(V, mean)
        V = V - mean
        self._kernel.count(m * len(V))
        return matmul(V[:m], V.T), offset

    @cached_property
    def _has_narrow_map(self) -> bool:
        """Whether the kernel has an explicit map that takes no longer than its values."""
        kernel, X = self._kernel.kernel, self._kernel.X
        return kernel.of_rows and X is not None and kernel.rank(X.shape[1]) <= X.shape[1]

    def work(self, n: int) -> float:
        if n not in self._work:
            self._work[n] = interior_work(self._kernel.kernel, self._kernel.X, n)
        return self._work[n]

    def whole(self, points: np.ndarray, *, centred: bool = True) -> Matrix | None:
        kernel, n = self._kernel.kernel, len(points)
        if self.work(n) < factorisation(n, math.inf):
            rows = self._kernel.X[self._order[points]]
            return LowRank(kernel.explicit_map(rows), centred=centred)
        K = self.exact(points, points)
        if not (kernel.is_definite or is_semidefinite(K)):
            return None
        return StoredKernel(K, centred=centred)

    def block(self, rows: slice, columns: slice, out: np.ndarray | None = None) -> np.ndarray:
        order = self._order[rows]
        points = self._kernel.points(self._order[columns])
        m = points.shape[0]
        out = np.empty((len(order), m), np.float32) if out is None else out
        # Float64 values of few rows at a time: to allocate memory for all values would take longer
        # than to compute them.
        step = max(1, _BLOCK_ENTRIES // max(1, m))
        values = np.empty((min(step, len(order)), m))
        for start in range(0, len(order), step):
            batch = order[start : start + step]
            block = self._kernel.block(batch, points, values[: len(batch)])
            if not self._is_known:
                check_values(self._kernel.kernel, block, np.float32)
            out[start : start + step] = block
        return out

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        points = self._kernel.points(self._order[columns])
        return self._kernel.block(self._order[rows], points)


def of_classes(
    rows: KernelValues, starts: np.ndarray, sizes: np.ndarray, memory_mb: float | None
) -> tuple[tuple, np.ndarray]:
    """Return the arguments `n_features` to `known` of `solve_problems`, and the columns POINTS to
    N_KEPT of `plan` : (k, 4).

    starts, sizes : ints; first point and number of points of k classes, 0 without a problem
    memory_mb : MiB for values within classes; None if these are not kept
    """
    # Lists: most fits have few classes, for which arrays take longer.
    counts, source, in_blocks = sizes.tolist(), rows.points, rows.points is None
    spans = [slice(a, a + n) for a, n in zip(starts.tolist(), counts, strict=False)]
    keeps = memory_mb is not None and (
        in_blocks or 4 * sum(n * n for n in counts) <= memory_mb * 2**20
    )
    offsets, d, n_numbers, n_kept = [], 0, 0, 0
    for n in counts:
        d, width = (0, 0) if source is None else padded(n, source.shape[1])
        offsets.append((n_numbers, width, n_kept, n if keeps else 0))
        n_numbers, n_kept = n_numbers + d * width, n_kept + (n * n if keeps else 0)
    kept, known = np.empty(n_kept, np.float32), np.zeros(len(rows), np.uint8)
    points = np.zeros(n_numbers, np.float32)
    for span, (start, width, first_kept, n) in zip(spans, offsets, strict=True):
        if source is not None:
            by_feature(source[span], points[start : start + d * width].reshape(d, width))
        elif keeps:
            known[span] = 1
            rows.block(span, span, kept[first_kept : first_kept + n * n].reshape(n, n))
    return (d, points, rows.halves, kept, known), np.array(offsets)
