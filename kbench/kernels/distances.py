"""Kernels that are functions of a distance: Gaussian (RBF), Laplacian, Matern, Cauchy.

    k(x, z) = f(t),    t = -rate sum_k |x_k - z_k|^power,    power = 2 or 1

f(0) = 1 and f does not decrease. The slopes of f and of h(u) = f(-u^power) are at most 1, and so is
|u h'(u)|. Kernels that fall exponentially with distance, k = 2^t, are products over the features,
which saves time where features are constant.

`bind` alone chooses, from the training rows, how values are computed:

- dense rows, and CSR rows whose dense copy is not much larger: columns with two values are packed
  into words of bits, the others are subtracted (`layout`, `tiles`). The error of a value is a few
  eps at any gamma and any distance from the origin, because nothing cancels;
- Gaussian values of many quantised (8-bit) features with the same step (images): integer inner
  products (`lattice`, `byte_tiles`), if the processor has the instruction;
- wide CSR rows: products of sparse rows, ||x - z||^2 = ||x||^2 + ||z||^2 - 2 <x, z> (power = 2).
  This loses eps gamma (||x||^2 + ||z||^2); if that is too much for float32, float64 is used.

Dense rows are not multiplied as matrices: a product and then exponentials would lose
eps gamma ||x - origin||^2 (3e-5 on covtype at gamma = 32) and be slower than tiles, with AVX-512 at
every number of features, with AVX2 alone up to a hundred features; beyond a hundred the product
would be at most a quarter faster (`scripts/bench_kernels.py`, OpenBLAS).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.intrinsics.byte_products import has_vnni
from kbench.intrinsics.products import matmul
from kbench.kernels import byte_tiles, tiles
from kbench.kernels.chunks import dense_chunks, each_chunk, each_slice
from kbench.kernels.columns import take_columns
from kbench.kernels.kernel import (
    GAMMA,
    Kernel,
    check_float_rows,
    csr_rows,
    parameter,
    squared_norms,
)
from kbench.kernels.lattice import BytePoints, nanoseconds_of_bytes
from kbench.kernels.layout import Layout, Packing
from kbench.kernels.sparse import exponentiate, products
from kbench.kernels.work_sharing import Loop
from kbench.stored import check_arrays, check_indices, require

# Guard: bound on scaled training features. New features are clipped to _CLIPPED_FEATURE, at which
# kernel values with all training rows are negligible and squares are finite in float32.
_LARGEST_FEATURE = 1e15
_CLIPPED_FEATURE = 1e16

# Rows and columns of a block of values between sparse points, 8 MiB in float32. Set by hand.
_SPARSE_ROWS = 1024
_SPARSE_COLUMNS = 2048
# Terms of the bound on a value's error, in units of eps / 2: for f, for each feature in the sum,
# and for each unit of the length of a prepared point, whose features are rounded. The first two are
# set by hand; the third counts two points, as the slopes of f are at most 1.
_F_ROUNDINGS, _SUM_ROUNDINGS, _FEATURE_ROUNDINGS = 5.0, 0.4, 2.0
# Bound on the error of float32 values between sparse rows; beyond it float64 is used. Set by hand.
_SPARSE_ERROR = 1e-5


def check_spread(gamma: float, scale: float, widest: float) -> None:
    """Raise ValueError if features up to `widest` from the origin make exponents overflow."""
    if not scale * widest < _LARGEST_FEATURE:
        raise ValueError(
            f"gamma={gamma} is too large for features that spread over {widest:.3g}: "
            "exponents overflow; scale the features or lower gamma"
        )


@dataclass(frozen=True)
class DensePoints:
    """Prepared points for `tiles`."""

    # (p, n), padded with zeros to a multiple of four: centred, and scaled so that differences give
    # exponents to base 2.
    features: np.ndarray
    # (w, n) uint32: bits of the two-valued columns. None if a row has a third value in one of them;
    # these columns are then among the features.
    words: np.ndarray | None
    # (n,) float64: factor of a row's values with all training rows, for columns that are constant
    # in the training rows but not in this row. A kernel that is not a product over features has a
    # last feature instead, which is 0 for training rows.
    factor: np.ndarray | None

    @property
    def shape(self) -> tuple[int]:
        return (self.features.shape[1],)

    @property
    def nbytes(self) -> int:
        arrays = (self.features, self.words, self.factor)
        return sum(array.nbytes for array in arrays if array is not None)

    def __getitem__(self, rows: Any) -> "DensePoints":
        return DensePoints(
            take_columns(self.features, rows),
            None if self.words is None else take_columns(self.words, rows),
            None if self.factor is None else self.factor[rows],
        )

    def check_stored(self) -> None:
        check_arrays(self, features="f4|f8 p n", words="?u4 w n", factor="?f8 n")


@dataclass(frozen=True)
class SparsePoints:
    """Prepared points of wide CSR data: rows z : (n, d) CSR, and ||z||^2 / 2 : (n,) float64."""

    rows: Any
    halves: np.ndarray

    @property
    def shape(self) -> tuple[int]:
        return self.halves.shape

    @property
    def nbytes(self) -> int:
        data = self.rows.data.nbytes + self.rows.indices.nbytes + self.rows.indptr.nbytes
        return data + self.halves.nbytes

    def __getitem__(self, rows: Any) -> "SparsePoints":
        return SparsePoints(self.rows[rows], self.halves[rows])

    def check_stored(self) -> None:
        rows = self.rows
        require(sp.issparse(rows) and rows.format == "csr", "rows should be CSR")
        require(rows.dtype in (np.float32, np.float64), "rows should be floats")
        n = check_arrays(self, halves="f8 n")["n"]
        require(rows.shape[0] == n, f"there are {n} halves for {rows.shape[0]} rows")


@dataclass(frozen=True)
class DistanceKernel(Kernel):
    """A function of a distance; a subclass states `_rate`, `_tiles` and `_apply_to_products`."""

    gamma: float = parameter(GAMMA)
    # None before `bind` and for wide CSR rows.
    layout: Layout | None = field(default=None, repr=False, compare=False)
    # Whether bits and bytes are packed: switches for ablations and tests.
    packing: Packing = field(default=Packing(), repr=False, compare=False)

    # Power of the feature differences in t.
    power: ClassVar[int] = 2
    # Compiled tiles of f.
    _tiles: ClassVar[Loop]
    unit_diagonal: ClassVar[bool] = True

    @property
    @abstractmethod
    def _rate(self) -> float:
        """Factor of the sum of differences in t."""

    def bind(self, X: Any) -> Self:
        if sp.issparse(X):
            X = csr_rows(X)
        layout = Layout.of(X, self.packing)
        if layout is not None:
            check_spread(self.gamma, self._scale, max(layout.spread, layout.gap))
        return replace(self, layout=layout)

    def bind_part(self, X: Any) -> Self:
        layout = self.layout
        if layout is None or layout.lattice is not None or len(layout.bits):
            return self.bind(X)
        # Differences from the origin of all rows may be larger than from these rows' own, and are
        # then rounded more. The layout of all rows stays if this rounding is less than that of the
        # sum over features, as `entry_error` bounds both.
        p = len(layout.features)
        longest = (p * (self._scale * layout.spread) ** self.power) ** (1.0 / self.power)
        return self if _FEATURE_ROUNDINGS * longest <= _SUM_ROUNDINGS * p else self.bind(X)

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        if sp.issparse(X):
            X = csr_rows(X)
        if self.layout is None:
            return self._prepare_sparse(sp.csr_array(X), dtype)
        return self._prepare_dense(X, self.layout, dtype)

    def _prepare_dense(self, X: Any, layout: Layout, dtype: np.dtype) -> "DensePoints | BytePoints":
        n, p, q = X.shape[0], len(layout.features), len(layout.bits)
        distance = self._distance_of_constants(X, layout)
        factor = None
        if self.exponential and distance is not None:
            factor = np.exp2(-distance)
            factor = None if np.all(factor == 1.0) else factor
        if layout.lattice is not None and self._multiplies_bytes():
            points = layout.lattice.pack(X, dtype, factor)
            if points is not None:
                return points
        words = layout.pack(X)
        width = p if words is not None else p + q
        features = np.zeros((_padded(width + self._n_distance_features(layout)), n), dtype)

        def write_columns(first: int, columns: np.ndarray, origin: np.ndarray) -> None:
            target = features[first : first + len(columns)]
            is_sparse = sp.issparse(X)
            # Chunks of sparse rows have these columns alone, chunks of dense rows have all.
            positions = np.arange(len(columns)) if is_sparse else columns

            def write_rows(rows: slice, values: np.ndarray) -> None:
                _write_scaled(values, positions, origin, self._scale, target, rows.start)

            if len(columns) and is_sparse:
                each_chunk(X, columns, write_rows)
            elif len(columns):
                each_slice(X, write_rows)

        write_columns(0, layout.features, layout.origin)
        if words is None:
            write_columns(p, layout.bits, layout.low)
        if self._n_distance_features(layout) and distance is not None:
            features[width] = np.minimum(distance ** (1.0 / self.power), _CLIPPED_FEATURE)
        return DensePoints(features, words, factor)

    def _distance_of_constants(self, X: Any, layout: Layout) -> np.ndarray | None:
        """Return the part of -t that comes from columns constant in the training rows; (n,).

        In CSR rows, columns of zeros take O(nnz); another constant is stored in every training row,
        so that its column is converted to dense chunks.
        """
        if not len(layout.constants):
            return None
        distance = np.zeros(X.shape[0])
        columns, constants = layout.constants, layout.values
        if sp.issparse(X):
            is_zero = constants == 0.0
            zero_columns = X[:, columns[is_zero]]
            terms = np.abs(self._scaled(zero_columns.data.astype(np.float64))) ** self.power
            rows_of_terms = np.repeat(np.arange(X.shape[0]), np.diff(zero_columns.indptr))
            distance += np.bincount(rows_of_terms, terms, minlength=X.shape[0])
            columns, constants = columns[~is_zero], constants[~is_zero]
        for rows, values in dense_chunks(X, columns) if len(columns) else ():
            terms = np.abs(self._scaled(values - constants)) ** self.power
            distance[rows] += terms.sum(axis=1)
        return distance

    def _n_distance_features(self, layout: Layout) -> int:
        """Number of features that hold the distance of constant columns: 0 or 1."""
        return int(len(layout.constants) > 0 and not self.exponential)

    def _prepare_sparse(self, X: Any, dtype: np.dtype) -> Any:
        Z = X.astype(np.float64) * math.sqrt(2.0 * self._rate)
        halves = 0.5 * squared_norms(Z)
        # Two half norms and an inner product, of magnitudes up to 4 times the largest half norm
        # together, are each rounded by eps / 2, and so are their sums.
        if 4.0 * np.finfo(np.float32).eps * halves.max(initial=0.0) > _SPARSE_ERROR:
            dtype = np.dtype(np.float64)
        return SparsePoints(Z.astype(dtype), halves)

    def _scaled(self, differences: np.ndarray) -> np.ndarray:
        return np.clip(differences * self._scale, -_CLIPPED_FEATURE, _CLIPPED_FEATURE)

    @property
    def _scale(self) -> float:
        return self._rate ** (1.0 / self.power)

    def evaluate(self, A: Any, B: Any, out: np.ndarray) -> None:
        if self.layout is None:
            super().evaluate(A, B, out)
        else:
            self._evaluate_dense(A, B, out)

    def _evaluate_tile(self, A: Any, B: Any, out: np.ndarray) -> None:
        if self.layout is None:
            self._evaluate_sparse(A, B, out)
        else:
            self._evaluate_dense(A, B, out)

    def _evaluate_dense(self, A: Any, B: Any, out: np.ndarray) -> None:
        if self._are_bytes(A, B):
            byte_tiles.fill(A, B, self._byte_scale(), out)
        else:
            per_bit, squared = self._tile_parameters()
            operands = self._operands(A, B, out.dtype)
            tiles.fill(self._tiles, operands, per_bit, squared=squared, out=out)
        for factor in (A.factor, None if B.factor is None else B.factor[:, None]):
            if factor is not None:
                out.T[...] *= factor

    def _evaluate_sparse(self, A: Any, B: Any, out: np.ndarray) -> None:
        # New rows may have larger norms than any training row, and are then in float64.
        dtype = np.result_type(A.rows.dtype, B.rows.dtype)
        values = np.empty(out.shape, dtype)
        products(A.rows.astype(dtype, copy=False), B.rows.astype(dtype, copy=False), values)
        self._apply_to_products(values, A.halves.astype(dtype), B.halves.astype(dtype))
        out[...] = values

    @abstractmethod
    def _apply_to_products(self, values: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        """Replace inner products of sparse rows by f(product - left - right).

        left, right : half the squared norms of the rows
        """

    def accumulate(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        if self.layout is None:
            self._accumulate_sparse(A, B, coef, out)
        elif coef.shape[1] > 1:
            super().accumulate(A, B, coef, out)
        else:
            self._accumulate_dense(A, B, coef, out)

    def _accumulate_sparse(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        # Each product converts its left points to CSC, so these are the smaller block of the two.
        for start in range(0, B.shape[0], _SPARSE_ROWS):
            left, weights = B[start : start + _SPARSE_ROWS], coef[start : start + _SPARSE_ROWS]
            for first in range(0, A.shape[0], _SPARSE_COLUMNS):
                right = A[first : first + _SPARSE_COLUMNS]
                block = np.empty((left.shape[0], right.shape[0]), coef.dtype)
                self._evaluate_sparse(left, right, block)
                out[first : first + _SPARSE_COLUMNS] += matmul(weights.T, block).T

    def _accumulate_dense(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        weights = coef[:, 0] if B.factor is None else coef[:, 0] * B.factor
        weights = weights.astype(coef.dtype, copy=False)
        values = np.zeros(len(out))
        if self._are_bytes(A, B):
            byte_tiles.accumulate(B, A, self._byte_scale(), weights, values)
        else:
            per_bit, squared = self._tile_parameters()
            operands = self._operands(B, A, coef.dtype)
            tiles.accumulate(
                self._tiles, operands, per_bit, squared=squared, coef=weights, out=values
            )
        out[:, 0] += values if A.factor is None else values * A.factor

    def _multiplies_bytes(self) -> bool:
        is_gaussian = self.exponential and self.power == 2
        return is_gaussian and self.packing.bytes and has_vnni()

    def _are_bytes(self, A: Any, B: Any) -> bool:
        both = isinstance(A, BytePoints) and isinstance(B, BytePoints)
        return both and self._multiplies_bytes()

    def _tile_parameters(self) -> tuple[float, bool]:
        """Return the exponent's change per differing bit, and whether to square differences."""
        assert self.layout is not None
        return self._rate * self.layout.gap**self.power, self.power == 2

    def _byte_scale(self) -> float:
        """Return the exponent's change for each unit of squared distance on the lattice."""
        assert self.layout is not None
        assert self.layout.lattice is not None
        return (self._scale * self.layout.lattice.step) ** 2

    def _operands(self, A: Any, B: Any, dtype: np.dtype) -> tiles.Operands:
        """Return points A as the left and B as the right side of tiles, features in `dtype`."""
        A, B = self._as_features(A, dtype), self._as_features(B, dtype)
        if (A.words is None) != (B.words is None):
            A, B = self._without_words(A), self._without_words(B)
        right_words = np.empty((0, B.shape[0]), np.uint32) if B.words is None else B.words
        left = np.zeros((_padded(A.shape[0]), A.features.shape[0]), A.features.dtype)
        left[: A.shape[0]] = A.features.T
        left_words = np.zeros((len(left), len(right_words)), np.uint32)
        if A.words is not None:
            left_words[: A.shape[0]] = A.words.T
        return left, left_words, B.features, right_words

    def _as_features(self, points: Any, dtype: np.dtype) -> DensePoints:
        """Return the same points with features in `dtype`; bytes are converted to features."""
        if isinstance(points, DensePoints):
            if points.features.dtype == dtype:
                return points
            return replace(points, features=points.features.astype(dtype))
        layout = self.layout
        assert layout is not None
        assert layout.lattice is not None
        values = layout.lattice.unpack(points)
        features = np.zeros((_padded(len(values)), points.shape[0]), dtype)
        origin = np.concatenate([layout.origin, layout.low])
        features[: len(values)] = self._scaled(values - origin[:, None])
        return DensePoints(features, None, points.factor)

    def _without_words(self, points: DensePoints) -> DensePoints:
        """Return the same points with two-valued columns as features."""
        if points.words is None:
            return points
        layout = self.layout
        assert layout is not None
        p, q, n_last = len(layout.features), len(layout.bits), self._n_distance_features(layout)
        features = np.zeros((_padded(p + q + n_last), points.shape[0]), points.features.dtype)
        features[:p] = points.features[:p]
        features[p + q : p + q + n_last] = points.features[p : p + n_last]
        features[p : p + q] = layout.unpack(points.words) * (layout.gap * self._scale)
        return DensePoints(features, None, points.factor)

    def diagonal(self, A: Any) -> np.ndarray:
        return np.ones(A.shape[0])

    def entry_error(self, A: Any) -> float:
        half_eps = 0.5 * float(np.finfo(np.float32).eps)
        if self.layout is None:
            return self._sparse_error(A)
        if isinstance(A, BytePoints):
            assert self.layout.lattice is not None
            # `power_of_two` has an error of up to 4 half eps, and three roundings of the exponent t
            # change a value by |t 2^t ln 2| < 0.4 half eps each; 8 has a margin, set by hand.
            lattice_error = self.layout.lattice.entry_error(np.dtype(np.float32), self._scale)
            return 8.0 * half_eps + lattice_error
        # Features z are rounded once, by |z| eps / 2; the slope of u -> f(-u^power), and u times
        # the slope, are below 1.
        features = A.features.astype(np.float64)
        norm = np.max((np.abs(features) ** self.power).sum(axis=0), initial=0.0)
        length = float(norm) ** (1.0 / self.power)
        of_sum, of_features = _SUM_ROUNDINGS * len(features), _FEATURE_ROUNDINGS * length
        return half_eps * (_F_ROUNDINGS + of_sum + of_features)

    def nanoseconds(self, A: Any) -> float:
        if isinstance(A, BytePoints):
            return nanoseconds_of_bytes(len(A.words))
        if isinstance(A, DensePoints):
            return tiles.nanoseconds(len(A.features), 0 if A.words is None else len(A.words))
        return super().nanoseconds(A)

    def _sparse_error(self, A: Any) -> float:
        return _SPARSE_ERROR

    def check_stored(self) -> None:
        require(isinstance(self.layout, Layout | None), "layout is of another class")

    def check_points(self, points: Any, dtype: Any, n_features: int) -> int:
        layout = self.layout
        if layout is None:
            return self._check_sparse(points, n_features)
        p, q = len(layout.features), len(layout.bits)
        for columns in (layout.features, layout.bits, layout.constants):
            check_indices(columns, n_features, "columns of the layout")
        if isinstance(points, BytePoints):
            require(layout.lattice is not None, "the points are bytes, the layout has no lattice")
            require(len(points.words) == -(-(p + q) // 4), "wrong number of words per point")
            return int(points.shape[0])
        require(isinstance(points, DensePoints), "the points are of another class")
        require(points.features.dtype == dtype, f"the points should be {dtype}")
        width = (p + q if points.words is None else p) + self._n_distance_features(layout)
        require(
            len(points.features) == _padded(width), "the points have a wrong number of features"
        )
        if points.words is not None:
            require(len(points.words) == layout.n_words, "wrong number of words per point")
        return int(points.shape[0])

    def _check_sparse(self, points: Any, n_features: int) -> int:
        require(isinstance(points, SparsePoints), "the points are of another class")
        return check_float_rows(points.rows, n_features)


@dataclass(frozen=True)
class Exponential(DistanceKernel):
    """exp(-gamma d(x, z)) = 2^t."""

    exponential: ClassVar[bool] = True
    _tiles: ClassVar[Loop] = tiles.POWERS_OF_TWO

    @property
    def _rate(self) -> float:
        return self.gamma * tiles.LOG2_E

    def _apply_to_products(self, values: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        exponentiate(values, left, right)


def _padded(count: int) -> int:
    return -(-count // tiles.UNROLLED) * tiles.UNROLLED


@njit(cache=True, nogil=True)
def _write_scaled(values, columns, origin, scale, target, first):
    """target[:, first + i] = scale (values[i, columns] - origin), clipped, for every row i.

    values : (m, d) C-contiguous, columns, origin : (p,), target : (p, n). Values of every type are
    scaled in float64. The loop takes a third of the time of NumPy's operations on a chunk (`fit` of
    wide rows in `scripts/bench_everyday.py`, embeddings).
    """
    for k in range(len(columns)):
        column, shift, row = columns[k], origin[k], target[k]
        for i in range(values.shape[0]):
            scaled = (np.float64(values[i, column]) - shift) * scale
            row[first + i] = min(max(scaled, -_CLIPPED_FEATURE), _CLIPPED_FEATURE)
