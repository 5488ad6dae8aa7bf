"""Scale columns by x -> factor * (x - shift) + base, estimated on training rows or on all rows.

The formula is computed in float64 and rounded to float32 once. A constant column becomes 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kbench.data.sources.rows import Rows, SparseRows
from kbench.errors import ConfigError


@dataclass(frozen=True)
class ColumnScaling:
    """factor * (x - shift) + base, each of shape (d,)."""

    shift: np.ndarray
    factor: np.ndarray
    base: np.ndarray

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Scaled float32 copy of X : (rows, d)."""
        scaled = X - self.shift
        scaled *= self.factor
        scaled += self.base
        return scaled.astype(np.float32)

    def of_column(self, values: np.ndarray, j: int) -> np.ndarray:
        """Values of column j, scaled in float64."""
        return self.factor[j] * (values - self.shift[j]) + self.base[j]

    def require_zeros(self, kind: str) -> None:
        """Refuse a scaling, of kind `kind`, under which zeros do not stay zeros."""
        if not np.all(self.base == self.shift * self.factor):
            raise ConfigError(
                f"dataset.scale is {kind}, which moves zeros, but dataset.storage is csr: "
                "storage=dense, or scale=none"
            )


def fit_scaling(kind: str, parts: Iterable[Rows]) -> ColumnScaling | None:
    """Estimate the scaling of kind `kind` from the columns of all `parts` together.

    kind : {"none", "unit", "symmetric", "standard", "unit_global"}
        unit: to [0, 1]; symmetric: to [-1, 1]; standard: mean 0 and variance 1 (divided by n);
        unit_global: like unit, with the least and the largest value of all columns together.
        Zeros that a sparse file leaves out count as values.

    Returns ColumnScaling, or None for "none".
    """
    if kind == "none":
        return None
    fit = _standard if kind == "standard" else _range
    low, spread = fit(list(parts))
    if kind == "unit_global":
        high = np.max(low + spread)
        low = np.full_like(low, low.min())
        spread = high - low
    constant = ~(spread > 0.0)
    factor = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, spread))
    if kind != "symmetric":
        return ColumnScaling(low, factor, np.zeros_like(low))
    return ColumnScaling(low, 2.0 * factor, np.where(constant, 0.0, -1.0))


def _range(parts: list[Rows]) -> tuple[np.ndarray, np.ndarray]:
    """Least value and range of each column."""
    low = np.full(parts[0].d, np.inf)
    high = np.full(parts[0].d, -np.inf)
    for rows in parts:
        if isinstance(rows, SparseRows):
            for csr in rows.csr_blocks():
                np.minimum(low, csr.min(axis=0).toarray().ravel(), out=low)
                np.maximum(high, csr.max(axis=0).toarray().ravel(), out=high)
            continue
        for X in rows.blocks():
            np.minimum(low, X.min(axis=0), out=low)
            np.maximum(high, X.max(axis=0), out=high)
    return low, high - low


def _standard(parts: list[Rows]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column, in two passes to avoid cancellation."""
    n = sum(rows.n for rows in parts)
    mean = np.zeros(parts[0].d)
    for X in (X for rows in parts for X in rows.blocks()):
        mean += X.sum(axis=0, dtype=np.float64)
    mean /= n
    variance = np.zeros(parts[0].d)
    for X in (X for rows in parts for X in rows.blocks()):
        variance += ((X - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(variance / n)
    # Guard: rounding gives a constant column a deviation of about 1e-16 times its mean, not 0.
    return mean, np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)
