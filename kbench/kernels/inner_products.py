"""Kernels that are functions of the inner product of two rows."""

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.intrinsics.products import matmul
from kbench.kernels.kernel import Kernel, check_float_rows, csr_rows, float_rows, squared_norms
from kbench.kernels.sparse import products
from kbench.kernels.value_range import limit, refuse


class InnerProductKernel(Kernel):
    """A function of inner products of prepared rows: a GEMM, then `_apply_function` in place."""

    @abstractmethod
    def _value_bound(self, squared_norm: float) -> float:
        """Bound |inner product| and |value| between rows of at most this squared norm."""

    def _prepared(self, X: Any, factor: float, dtype: np.dtype) -> Any:
        """Rows X : (n, d) times `factor`; raises KernelRangeError if `dtype` cannot hold values."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = float_rows(X if factor == 1.0 else X * factor, dtype)
            entries = rows.data if sp.issparse(rows) else rows
            if entries.size:
                largest = max(float(entries.max()), -float(entries.min()))
                # The norms are computed only if this bound on them is too large.
                if not self._value_bound(rows.shape[1] * largest * largest) <= limit(dtype):
                    value = self._value_bound(float(squared_norms(rows).max()))
                    if not value <= limit(dtype):
                        refuse(self, value, dtype)
        return rows

    @abstractmethod
    def _apply_function(self, out: np.ndarray) -> None:
        """Turn inner products into kernel values in place."""

    @abstractmethod
    def _error_factor(self, largest: float) -> float:
        """Bound |value| + |derivative * inner product| for inner products up to `largest`.

        Times the relative rounding error of inner products, this bounds the error of a value.
        """

    def _evaluate_tile(self, A: Any, B: Any, out: np.ndarray) -> None:
        if sp.issparse(B):
            inner = np.empty(out.shape, B.dtype)
            products(csr_rows(A), B, inner)
            out[...] = inner
        else:
            matmul(A.toarray() if sp.issparse(A) else A, B.T, out=out)
        self._apply_function(out)

    def bound(self, A: Any) -> float:
        return self._value_bound(float(squared_norms(A).max(initial=0.0)))

    def entry_error(self, A: Any) -> float:
        largest = float(squared_norms(A).max(initial=0.0))
        return float(np.finfo(np.float32).eps) * (A.shape[1] + 2) * self._error_factor(largest)

    def check_points(self, points: Any, dtype: Any, n_features: int) -> int:
        return check_float_rows(points, n_features)
