"""Kernels that fall exponentially with distance: Gaussian (RBF) and Laplacian.

    k(x, z) = exp(-gamma sum_k |x_k - z_k|^power),    power = 2 or 1

`bind` chooses from the training rows how values are computed, here and nowhere else:

- dense rows, and CSR rows whose dense copy is not much larger: columns with two values are packed
  into words of bits, the others are subtracted (`layout`, `tiles`). The error of a value is a few
  eps at any gamma and any distance from the origin, because nothing cancels;
- Gaussian kernels of many quantised (8-bit) features with the same step (images): integer inner
  products (`lattice`, `byte_tiles`), if the processor has the instruction;
- wide CSR rows: products of sparse rows (RBF), ||x - z||^2 = ||x||^2 + ||z||^2 - 2 <x, z>. This
  loses eps gamma (||x||^2 + ||z||^2); if that is too much for float32, float64 is used.

The usual way, a matrix product and then exponentials, loses eps gamma ||x - origin||^2 (3e-5 on
covtype at gamma = 32). With AVX-512 it is slower at every number of features; with AVX2 alone it is
slower up to a hundred features and at most a quarter faster beyond (`scripts/bench_kernels.py`,
OpenBLAS).
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.byte_products import has_vnni
from kbench.kernels import byte_tiles, tiles
from kbench.kernels.chunks import dense_chunks, each_chunk
from kbench.kernels.columns import take_columns
from kbench.kernels.functions import Kernel, csr_rows, squared_norms
from kbench.kernels.lattice import BytePoints, nanoseconds_of_bytes
from kbench.kernels.layout import Layout, Packing

# Bound on scaled training features. New features are clipped to _FARTHEST, where the kernel with
# all training rows is 0 in float32 and squares are still finite.
_LARGEST_FEATURE = 1e15
_FARTHEST = 1e16

# Rows and columns of a temporary block of kernel values between sparse points, 8 MB in float32.
_SPARSE_ROWS = 1024
_SPARSE_COLUMNS = 2048
# Bound on the error of float32 values between sparse rows; beyond it float64 is used.
_SPARSE_ERROR = 1e-5


def check_spread(gamma: float, scale: float, widest: float) -> None:
    """ValueError if features that spread over `widest`, times `scale`, make exponents overflow."""
    if not scale * widest < _LARGEST_FEATURE:
        raise ValueError(
            f"gamma={gamma} is too large for features that spread over {widest:.3g}: "
            "exponents overflow; scale the features or lower gamma"
        )


@dataclass(frozen=True)
class DensePoints:
    """Prepared points for `tiles`.

    Attributes
    ----------
    features : (p, n), padded with zeros to a multiple of four
        Centred, and scaled so that differences give exponents to base 2.
    words : (w, n) uint32 or None
        Bits of the two-valued columns. None: at least one of the rows has a third value, so these
        columns are among the features.
    factor : (n,) float64 or None
        Factor of all kernel values with training rows: the contribution of columns that are
        constant in the training rows, but not in these.
    """

    features: np.ndarray
    words: np.ndarray | None
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


@dataclass(frozen=True)
class Exponential(Kernel):
    """exp(-gamma d(x, z)).

    Attributes
    ----------
    gamma : float
    layout : Layout or None
        None before `bind` and for wide CSR rows.
    packing : Packing
        Switches for ablations and tests.
    """

    gamma: float
    layout: Layout | None = field(default=None, repr=False, compare=False)
    packing: Packing = field(default=Packing(), repr=False, compare=False)

    power: ClassVar[int]
    unit_diagonal: ClassVar[bool] = True

    def bind(self, X: Any) -> Self:
        if sp.issparse(X):
            X = csr_rows(X)
        layout = Layout.of(X, self.packing)
        if layout is not None:
            check_spread(self.gamma, self._scale, max(layout.spread, layout.gap))
        return replace(self, layout=layout)

    def prepare(self, X: Any, dtype: np.dtype) -> Any:
        if sp.issparse(X):
            X = csr_rows(X)
        if self.layout is None:
            return self._prepare_sparse(sp.csr_array(X), dtype)
        return self._prepare_dense(X, self.layout, dtype)

    def _prepare_dense(self, X: Any, layout: Layout, dtype: np.dtype) -> "DensePoints | BytePoints":
        n, p, q = X.shape[0], len(layout.features), len(layout.bits)
        factor = self._factor(X, layout)
        if layout.lattice is not None and self.power == 2 and self._multiplies_bytes():
            points = layout.lattice.pack(X, dtype, factor)
            if points is not None:
                return points
        words = layout.pack(X)
        features = np.zeros((_padded(p if words is not None else p + q), n), dtype)

        def write(first: int, columns: np.ndarray, origin: np.ndarray) -> None:
            target = features[first : first + len(columns)]

            def scale(rows: slice, values: np.ndarray) -> None:
                target[:, rows] = self._scaled(values - origin).T

            if len(columns):
                each_chunk(X, columns, scale)

        write(0, layout.features, layout.origin)
        if words is None:
            write(p, layout.bits, layout.low)
        return DensePoints(features, words, factor)

    def _factor(self, X: Any, layout: Layout) -> np.ndarray | None:
        """Return the contribution of columns that are constant in the training rows; (n,)."""
        factor = np.ones(X.shape[0])
        for rows, values in dense_chunks(X, layout.constants) if len(layout.constants) else ():
            distance = (np.abs(self._scaled(values - layout.values)) ** self.power).sum(axis=1)
            factor[rows] = np.exp2(-distance)
        return None if np.all(factor == 1.0) else factor

    @abstractmethod
    def _prepare_sparse(self, X: Any, dtype: np.dtype) -> Any: ...

    def _scaled(self, differences: np.ndarray) -> np.ndarray:
        return np.clip(differences * self._scale, -_FARTHEST, _FARTHEST)

    @property
    def _scale(self) -> float:
        return (self.gamma * tiles.LOG2_E) ** (1.0 / self.power)

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
            byte_tiles.fill(A, B, self._byte_unit(), out)
        else:
            unit, squared = self._metric()
            tiles.fill(self._operands(A, B, out.dtype), unit, squared=squared, out=out)
        for factor in (A.factor, None if B.factor is None else B.factor[:, None]):
            if factor is not None:
                out.T[...] *= factor

    @abstractmethod
    def _evaluate_sparse(self, A: Any, B: Any, out: np.ndarray) -> None: ...

    def accumulate(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        if self.layout is None:
            self._accumulate_sparse(A, B, coef, out)
        elif coef.shape[1] > 1:
            super().accumulate(A, B, coef, out)
        else:
            self._accumulate_dense(A, B, coef, out)

    def _accumulate_sparse(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        # The left points are converted to CSC for every block: they are the smaller side.
        for start in range(0, B.shape[0], _SPARSE_ROWS):
            left, weights = B[start : start + _SPARSE_ROWS], coef[start : start + _SPARSE_ROWS]
            for first in range(0, A.shape[0], _SPARSE_COLUMNS):
                right = A[first : first + _SPARSE_COLUMNS]
                block = np.empty((left.shape[0], right.shape[0]), coef.dtype)
                self._evaluate_sparse(left, right, block)
                out[first : first + _SPARSE_COLUMNS] += (weights.T @ block).T

    def _accumulate_dense(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        weights = coef[:, 0] if B.factor is None else coef[:, 0] * B.factor
        weights = weights.astype(coef.dtype, copy=False)
        values = np.zeros(len(out))
        if self._are_bytes(A, B):
            byte_tiles.accumulate(B, A, self._byte_unit(), weights, values)
        else:
            unit, squared = self._metric()
            operands = self._operands(B, A, coef.dtype)
            tiles.accumulate(operands, unit, squared=squared, coef=weights, out=values)
        out[:, 0] += values if A.factor is None else values * A.factor

    def _multiplies_bytes(self) -> bool:
        return self.packing.bytes and has_vnni()

    def _are_bytes(self, A: Any, B: Any) -> bool:
        both = isinstance(A, BytePoints) and isinstance(B, BytePoints)
        return both and self._multiplies_bytes()

    def _metric(self) -> tuple[float, bool]:
        """Return the exponent's increment per differing bit, and whether to square differences."""
        assert self.layout is not None
        return self.gamma * tiles.LOG2_E * self.layout.gap**self.power, self.power == 2

    def _byte_unit(self) -> float:
        """Return the exponent's increment per unit of squared distance on the lattice."""
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
        """Return the same points with features in `dtype`; all columns are features if they are
        bytes."""
        if isinstance(points, DensePoints):
            return replace(points, features=points.features.astype(dtype, copy=False))
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
        p, q = len(layout.features), len(layout.bits)
        features = np.zeros((_padded(p + q), points.shape[0]), points.features.dtype)
        features[:p] = points.features[:p]
        features[p : p + q] = layout.unpack(points.words) * (layout.gap * self._scale)
        return DensePoints(features, None, points.factor)

    def diagonal(self, A: Any) -> np.ndarray:
        return np.ones(A.shape[0])

    def entry_error(self, A: Any) -> float:
        eps = 0.5 * float(np.finfo(np.float32).eps)
        if self.layout is None:
            return self._sparse_error(A)
        if isinstance(A, BytePoints):
            assert self.layout.lattice is not None
            return 8.0 * eps + self.layout.lattice.entry_error(np.dtype(np.float32), self._scale)
        # Features are rounded once, by eps |z|, and |z - z'|^power 2^-|z - z'|^power < 1/2.
        features = A.features.astype(np.float64)
        norm = np.max((np.abs(features) ** self.power).sum(axis=0), initial=0.0)
        return eps * (5.0 + 0.4 * len(features) + 2.0 * float(norm) ** (1.0 / self.power))

    def nanoseconds(self, A: Any) -> float:
        if isinstance(A, BytePoints):
            return nanoseconds_of_bytes(len(A.words))
        if isinstance(A, DensePoints):
            return tiles.nanoseconds(len(A.features), 0 if A.words is None else len(A.words))
        return super().nanoseconds(A)

    @abstractmethod
    def _sparse_error(self, A: Any) -> float: ...


@dataclass(frozen=True)
class RBF(Exponential):
    """k(x, z) = exp(-gamma ||x - z||^2)."""

    power: ClassVar[int] = 2

    def _prepare_sparse(self, X: Any, dtype: np.dtype) -> SparsePoints:
        Z = X.astype(np.float64) * math.sqrt(2.0 * self.gamma * tiles.LOG2_E)
        halves = 0.5 * squared_norms(Z)
        # Two half norms and an inner product are summed, each with an error of half an eps.
        if 4.0 * np.finfo(np.float32).eps * halves.max(initial=0.0) > _SPARSE_ERROR:
            dtype = np.dtype(np.float64)
        return SparsePoints(Z.astype(dtype), halves)

    def _evaluate_sparse(self, A: SparsePoints, B: SparsePoints, out: np.ndarray) -> None:
        from kbench.kernels.sparse import exponentiate, products

        # New rows may have larger norms than any training row, and are then in float64.
        dtype = np.result_type(A.rows.dtype, B.rows.dtype)
        values = np.empty(out.shape, dtype)
        products(A.rows.astype(dtype, copy=False), B.rows.astype(dtype, copy=False), values)
        exponentiate(values, A.halves.astype(dtype), B.halves.astype(dtype))
        out[...] = values

    def _sparse_error(self, A: SparsePoints) -> float:
        return _SPARSE_ERROR


@dataclass(frozen=True)
class Laplacian(Exponential):
    """k(x, z) = exp(-gamma ||x - z||_1)."""

    power: ClassVar[int] = 1

    def _prepare_sparse(self, X: Any, dtype: np.dtype) -> Any:
        return X.astype(np.float64)

    def _evaluate_sparse(self, A: Any, B: Any, out: np.ndarray) -> None:
        # Imported here because it takes 50 ms, and only sparse rows under this kernel need it.
        from sklearn.metrics.pairwise import manhattan_distances

        values = manhattan_distances(A, B)
        values *= -self.gamma
        least = tiles.least_exponent(out.dtype) / tiles.LOG2_E
        np.clip(values, least, 0.0, out=values)
        np.exp(values, out=out, casting="same_kind")

    def _sparse_error(self, A: Any) -> float:
        return float(np.finfo(np.float32).eps)


def _padded(count: int) -> int:
    return -(-count // tiles.STEP) * tiles.STEP
