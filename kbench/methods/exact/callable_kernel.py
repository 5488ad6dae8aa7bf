"""Kernels that are functions of rows, called as scikit-learn calls them: with all training rows.

`SVC` calls a function once with all rows of `fit`, and once with the new rows and the fitted rows.
Some kernels rely on that: a kernel centred at the training rows is wrong between a few of them. The
rows are passed unchanged, as arrays, CSR, lists or texts, and the values may be sparse.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import (
    _num_samples,
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from kbench.intrinsics.products import matmul
from kbench.kernels.constraints import KernelParameters
from kbench.kernels.functions.callable import function_values
from kbench.kernels.functions.precomputed import Precomputed
from kbench.kernels.kernel import Kernel
from kbench.methods.base.box_svc import BoxSVC, warn_of_limits
from kbench.methods.base.quick_checks import QuickChecks
from kbench.methods.base.training_kernel import require_symmetric, training_kernel
from kbench.methods.base.widths import scaled_rows, with_widths
from kbench.prediction.flops import expansion_flops
from kbench.validated import NOT_NEGATIVE, usual

# Bytes (64 MiB) of the kernel values that one call of the function returns, if not all values fit
# into `cache_size`: more bytes take more memory, fewer take more calls. Set by hand.
_CALL_BYTES = 2**26


def kernel_values(function: Any, A: Any, B: Any) -> np.ndarray:
    """Finite values of a kernel function between rows A and B; (a, b) float64."""
    values = function_values(function, A, B).astype(np.float64, copy=False)
    assert_all_finite(values, input_name="kernel values")
    return values


@dataclass(frozen=True)
class NumberedRows:
    """A subset of the rows of `fit`, by their numbers."""

    ids: np.ndarray  # (s,) ints

    @property
    def shape(self) -> tuple[int]:
        return self.ids.shape

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes

    def __getitem__(self, rows: Any) -> "NumberedRows":
        return NumberedRows(self.ids[rows])


@dataclass(frozen=True)
class WholeRowsKernel(Kernel):
    """Values of a function between the rows of `fit`; each call has all rows on one side.

    A few columns therefore cost as many values as all columns.
    """

    function: Any
    X: Any = field(compare=False)

    def rows(self, X: Any) -> NumberedRows:
        return X if isinstance(X, NumberedRows) else NumberedRows(np.arange(_num_samples(X)))

    def prepare(self, X: Any, dtype: np.dtype) -> NumberedRows:
        return self.rows(X)

    def _blocks(self, A: NumberedRows) -> Any:
        """Yield slices of A and their values against all rows."""
        n = _num_samples(self.X)
        step = max(1, _CALL_BYTES // (8 * n))
        for start in range(0, len(A.ids), step):
            rows = slice(start, start + step)
            block = _safe_indexing(self.X, A.ids[rows])
            yield rows, kernel_values(self.function, block, self.X)

    def evaluate(self, A: NumberedRows, B: NumberedRows, out: np.ndarray) -> None:
        for rows, values in self._blocks(A):
            out[rows] = values[:, B.ids]

    _evaluate_tile = evaluate

    def accumulate(
        self, A: NumberedRows, B: NumberedRows, coef: np.ndarray, out: np.ndarray
    ) -> None:
        for rows, values in self._blocks(A):
            out[rows] += matmul(values[:, B.ids], coef)

    def diagonal(self, A: NumberedRows) -> np.ndarray:
        diagonal = np.empty(len(A.ids))
        for rows, values in self._blocks(A):
            diagonal[rows] = values[np.arange(len(values)), A.ids[rows]]
        return diagonal


class ValueCentres:
    """Centres of a model whose `predict` gets kernel values with all rows of `fit`, (u, n).

    indices : (s,) numbers of the centres among the rows of `fit`, thus columns of these values
    """

    def __init__(self, indices: np.ndarray) -> None:
        self.indices = indices

    @property
    def nbytes(self) -> int:
        return self.indices.nbytes

    def __len__(self) -> int:
        return len(self.indices)

    def values(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X, np.float64)[:, self.indices]

    def flops(self, n_outputs: int, n_features: int) -> float:
        return expansion_flops(len(self), n_outputs, n_features)


# Constraints of the parameters of `TakesAnyRows`.
EXACT_CONSTRAINTS: dict[str, list[Any]] = {
    **with_widths(BoxSVC._parameter_constraints),
    "cache_size": [NOT_NEGATIVE],
    "verbose": ["verbose"],
    **usual("shrinking"),
}


@dataclass(eq=False, repr=False, kw_only=True)
class TakesAnyRows(KernelParameters, QuickChecks):
    """Base of the exact estimators: parameters, and rows of any kind for a callable `kernel`."""

    shrinking: bool = True
    tol: float = 1e-3
    cache_size: float = 1000.0
    verbose: bool = False
    max_iter: int = -1
    max_time: float | None = None
    dtype: str = "float32"

    def _checked_rows_and_targets(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        if not callable(self.kernel):
            return super()._checked_rows_and_targets(X, y, **options)
        check_consistent_length(X, y)
        y = column_or_1d(y, warn=True)
        if y.dtype.kind == "f" or options.get("y_numeric"):
            y = np.asarray(y, np.float64) if options.get("y_numeric") else y
            assert_all_finite(y, input_name="y")
        shape: Any = getattr(X, "shape", ())
        if len(shape) == 2:
            self.n_features_in_ = shape[1]
        return X, y

    def _warn(self, reasons: set[str]) -> None:
        """Warn of stops for other reasons than "tol"."""
        warn_of_limits(reasons, self, self.tol, self.max_iter)

    def _training_values(self, X: Any) -> tuple[Any, bool]:
        """All kernel values (n, n) of the function, and whether they fit into `cache_size`.

        If they do not fit, returns the rows X, for `WholeRowsKernel`.
        """
        n = _num_samples(X)
        self._fit_rows = X
        if 8 * n * n <= self.cache_size * 2**20:
            return kernel_values(self.kernel, X, X), True
        return X, False

    def _training_kernel(self, X: Any) -> tuple[Any, Kernel]:
        """The rows or values that solvers take for rows X, and their kernel; sets `_gamma`."""
        X = scaled_rows(self, X)
        if callable(self.kernel):
            X, fits_into_cache = self._training_values(X)
            if fits_into_cache:
                require_symmetric(X, "a callable kernel")
            kernel: Kernel = Precomputed() if fits_into_cache else WholeRowsKernel(self.kernel, X)
        else:
            kernel = training_kernel(self, X)
        self._gamma = float(getattr(kernel, "gamma", 0.0))
        return X, kernel

    def _new_values(self, X: Any) -> np.ndarray:
        """Kernel values between new rows and the fitted rows; (u, n)."""
        check_is_fitted(self)
        return kernel_values(self.kernel, X, self._fit_rows)

    def _row_blocks(self, X: Any) -> list[Any]:
        """Divide new rows into blocks whose kernel values fit into `cache_size`."""
        u, n = _num_samples(X), _num_samples(self._fit_rows)
        step = max(1, int(self.cache_size * 2**20) // (8 * n))
        if u <= step:
            return [X]
        return [
            _safe_indexing(X, np.arange(start, min(start + step, u))) for start in range(0, u, step)
        ]
