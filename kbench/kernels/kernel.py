"""What a kernel is, and how a block of its values is computed.

A kernel first *prepares* points (once), then *evaluates* blocks between prepared points (often).
Preparing does what would otherwise be repeated for every block: scaling, centring, packing.

A kernel with a name is one class in one file of `kbench/kernels/functions`, a frozen dataclass with
the decorator `registered` (`kbench.kernels.registry`). The class derives from `Kernel` or from a
subclass with the fast code of its kind: `InnerProductKernel`, `DistanceKernel`. Estimators have
parameters with the names of the fields that `parameter` declares. Class attributes say what a
kernel can do, and estimators choose by them the kernels that they accept.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.kernels.spectrum import Spectrum
from kbench.stored import MAX_FEATURES, check_number, check_whole, require
from kbench.validated import canonical

# Rows and columns of a tile, 1 MiB in float32, which stays in the L2 cache. Set by hand.
_TILE_ROWS = 128
_TILE_COLUMNS = 2048
# Columns of a tile for points whose slices are copies: larger tiles need fewer copies and more
# memory. Set by hand.
_TILE_COLUMNS_COPIED = 16384

# Guard: largest whole parameter in a model file, such as a degree. Larger ones overflow all values.
_LARGEST_WHOLE = 1 << 20


@dataclass(frozen=True)
class Range:
    """Values that a parameter may have."""

    low: float | None = None  # Lower bound; None if the parameter may have any value
    open: bool = False  # Whether `low` itself is excluded
    whole: bool = False  # Whether only whole numbers are allowed
    # Whether estimators also take "scale" and "auto", which `Kernel.default_gamma` resolves.
    automatic: bool = False


GAMMA = Range(0.0, open=True, automatic=True)


def parameter(values: Range, default: Any = MISSING) -> Any:
    """Declare a field of a kernel that is a parameter of estimators."""
    return field(default=default, metadata={"range": values})


class Kernel(ABC):
    """A symmetric kernel function on rows of a matrix.

    Prepared points are opaque to callers. An index array or a slice selects some of them; the first
    entry of `shape` is their number. `evaluate` and `accumulate` take two sets of points, of which
    the second, B, is always among the training rows that the kernel is bound to.
    """

    # Name of the kernel as the parameter `kernel` of estimators.
    name: ClassVar[str]
    # Whether values are computed from rows; False if the rows themselves are kernel values.
    of_rows: ClassVar[bool] = True
    # Whether every kernel matrix is positive semidefinite; precomputed values are not checked.
    positive_semidefinite: ClassVar[bool] = True
    # Whether k is exp(-gamma d) with a sum d over features. Such a k is a product over the
    # features, and falls so fast that values between distant groups of points are negligible.
    exponential: ClassVar[bool] = False
    # Distribution of the frequencies of random Fourier features; None if k is not shift-invariant.
    spectrum: ClassVar[Spectrum | None] = None
    # Power p of the distance r in gamma r^p: if rows are multiplied by s, gamma is divided by s^p.
    gamma_power: ClassVar[int] = 2
    # Whether k(x, x) = 1 for all x.
    unit_diagonal: ClassVar[bool] = False
    # Float32 values of kernels that fall with distance are at least 2^-100. If |f| of an expansion
    # f is below `vanished` times its sum of |coefficients|, values at this limit may be more than a
    # thousandth (2^-10) of f, and f is computed in float64.
    vanished: ClassVar[float] = 2.0**-90

    @classmethod
    def default_gamma(cls, inverse_square: float) -> float:
        """Return gamma="scale" or "auto" from the inverse of a mean squared length of the rows."""
        return math.sqrt(inverse_square) if cls.gamma_power == 1 else inverse_square

    @property
    def is_definite(self) -> bool:
        """Whether all matrices of these parameters are known to be positive semidefinite."""
        return self.of_rows and self.positive_semidefinite

    def rank(self, n_features: int) -> float:
        """Return the number of columns of `explicit_map`; inf if this kernel has none."""
        return math.inf

    def explicit_map(self, X: Any) -> np.ndarray:
        """Return V : (n, rank) float64 with k(x_i, x_j) = <v_i, v_j> of rows X : (n, d).

        X is dense or CSR; O(n rank) time and memory.
        """
        raise NotImplementedError(f"{type(self).__name__} has no explicit map")

    def naive(self, x: np.ndarray, z: np.ndarray) -> float:
        """Return k(x, z) of two rows by the definition; tests compare fast values with it."""
        raise NotImplementedError(f"{type(self).__name__} has no formula")

    def bind(self, X: Any) -> Self:
        """Return the same function, prepared to evaluate it accurately near the rows X : (n, d)."""
        return self

    def bind_part(self, X: Any) -> Self:
        """As `bind`, for some of the rows to which this function is bound."""
        return self.bind(X)

    def precision(self, X: Any, dtype: Any) -> np.dtype:
        """Return `dtype`, or float64 if precomputed kernel values X need it."""
        return np.dtype(dtype)

    def rows(self, X: Any) -> Any:
        """Return X as an object that can be indexed by an array of row numbers."""
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
        """`evaluate` for so few points that a temporary array of the shape of `out` is cheap."""

    def accumulate(self, A: Any, B: Any, coef: np.ndarray, out: np.ndarray) -> None:
        """Add k(A, B) @ coef to out : (a, m) float64, for prepared points A (a of them) and B (b).

        coef : (b, m) in the precision of the kernel values; sums over tiles are in float64

        Takes the time of a * b kernel values and O(a b m), and the memory of one tile.
        """
        tile = np.empty(min(_TILE_ROWS, A.shape[0]) * min(_tile_columns(B), B.shape[0]), coef.dtype)
        for rows in _slices(A.shape[0], _TILE_ROWS):
            left = A[rows]
            for columns in _slices(B.shape[0], _tile_columns(B)):
                right = B[columns]
                shape = left.shape[0], right.shape[0]
                block = tile[: shape[0] * shape[1]].reshape(shape)
                self._evaluate_tile(left, right, block)
                out[rows] += matmul(block, coef[columns])

    @abstractmethod
    def diagonal(self, A: Any) -> np.ndarray:
        """Return k(x, x) of prepared points; (n,) float64."""

    def entry_error(self, A: Any) -> float:
        """Bound the absolute error of a float32 value between points A, given their exact rows."""
        return float(np.finfo(np.float32).eps * np.abs(self.diagonal(A)).max(initial=0.0))

    def bound(self, A: Any) -> float:
        """Bound the absolute value between points A; inf if unknown."""
        return math.inf

    def nanoseconds(self, A: Any) -> float:
        """Estimated nanoseconds of one value between points A on one core; inf if unknown."""
        return math.inf

    def as_centres(self, A: Any) -> Any:
        """Return the part of A that is needed to make it the second argument of `evaluate`."""
        return A

    def check_stored(self) -> None:
        """Raise a ValueError unless all parameters are in their ranges (`kbench.stored`)."""
        for name, values in parameters(type(self)).items():
            if values.whole:
                check_whole(self, name, int(values.low or 0), _LARGEST_WHOLE)
                continue
            number = check_number(self, name)
            if values.low is not None:
                fits = number > values.low if values.open else number >= values.low
                require(fits, f"{name} is {number:g}, should be above {values.low:g}")

    def check_points(self, points: Any, dtype: Any, n_features: int) -> int:
        """Check prepared points of a model file, and return how many there are.

        n_features : of the rows from which the points were prepared

        Raises
        ------
        ValueError
            Compiled code may not read the points, or a model file cannot hold them.
        """
        raise ValueError(f"a model file cannot hold points of {type(self).__name__}")


def parameters(kernel: type[Kernel]) -> dict[str, Range]:
    """Return the parameters of a kernel that estimators set, by name."""
    fields = getattr(kernel, "__dataclass_fields__", {}).values()
    return {item.name: item.metadata["range"] for item in fields if "range" in item.metadata}


def check_points(kernel: Any, points: Any, dtype: Any, n_features: int) -> int:
    """`Kernel.check_points` of a stored object that should be a kernel."""
    require(isinstance(kernel, Kernel), "kernel is of another class")
    require(dtype in (np.float32, np.float64), "dtype should be float32 or float64")
    # A file may give the object an attribute `check_points`, so the method of the class is called.
    return type(kernel).check_points(kernel, points, dtype, n_features)


def check_n_features(owner: Any, kernel: Any) -> int:
    """Return the stated number of features of `owner`; 1 for precomputed kernel values."""
    if isinstance(kernel, Kernel) and not type(kernel).of_rows:
        require(owner.n_features is None, "n_features should be None")
        return 1
    return check_whole(owner, "n_features", 1, MAX_FEATURES)


def check_float_rows(rows: Any, n_features: int) -> int:
    """Require dense or CSR rows of floats; return how many there are."""
    require(isinstance(rows, np.ndarray) or sp.issparse(rows), "the points are not rows")
    require(rows.ndim == 2 and rows.dtype in (np.float32, np.float64), "the points are not rows")
    n_columns = rows.shape[1]
    require(
        n_columns == n_features, f"the points have {n_columns} features, should have {n_features}"
    )
    require(isinstance(rows, np.ndarray) or rows.format == "csr", "the points should be CSR")
    return int(rows.shape[0])


def csr_rows(X: Any) -> Any:
    """X as a CSR array with each column at most once in a row."""
    return canonical(sp.csr_array(X))


def dense_float64(X: Any) -> np.ndarray:
    """X : (n, d), dense or CSR, as a dense float64 array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)


def squared_norms(A: Any) -> np.ndarray:
    """||a||^2 of each row, summed in float64; (n,)."""
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A, dtype=np.float64)


def float_rows(X: Any, dtype: np.dtype) -> Any:
    """X in `dtype`, CSR or C-contiguous."""
    return csr_rows(X).astype(dtype) if sp.issparse(X) else np.ascontiguousarray(X, dtype)


def _slices(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _tile_columns(B: Any) -> int:
    return _TILE_COLUMNS if isinstance(B, np.ndarray) else _TILE_COLUMNS_COPIED
