"""Maps of single columns that come before a learned metric.

A metric stretches features linearly. An outlier, a heavy tail or an integer that stands for a
category cannot be mended that way, so each column is mapped first:

    standard   x                                                    (nothing is done)
    clipped    u / sqrt(1 + (u / 3)^2),   u = 1.349 (x - median) / (interquartile range)
    quantile   normal quantile of the rank of x among the training rows, ties at their mean rank

The clipped map is that of D. Holzmuller, L. Grinsztajn, I. Steinwart, "Better by default: strong
pre-tuned MLPs and boosted trees on tabular data", NeurIPS 2024: it is nearly linear in the bulk,
and bounded. All maps keep the order of the values, and are affine for columns of two values.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

# Number of knots of a quantile map: 500 resolve the bulk to 1 / 500 of the rows, and more take more
# memory. Set by hand.
_KNOTS = 500
# Clipped values tend to plus and minus this many deviations: the 3 of that paper.
_BOUND = 3.0
# Interquartile range of the standard normal distribution.
_NORMAL_IQR = 1.349
# Maximum number of values of an integer column that get an indicator each, and of all indicators:
# the time of a kernel value grows with them. Set by hand.
_MAX_VALUES, _MAX_INDICATORS = 40, 500


@dataclass(frozen=True)
class ColumnMap:
    """A map of dense rows (n, d) to rows (n, d + indicators)."""

    # (q, d) float64: column k is interpolated linearly from `knots[:, k]` to `values[:, k]`; q = 0
    # leaves the columns as they are, q = 1 clips them: then `knots` is the centre and `values` the
    # unit.
    knots: np.ndarray
    values: np.ndarray
    # tuple of (column, values): integer columns that get an indicator for each of their values,
    # behind all others.
    codes: tuple[tuple[int, np.ndarray], ...] = ()
    # Means and deviations (d + indicators,) of mapped columns, and a map of the standardised ones
    # that was learned (`kbench.metric.warp`), if any.
    warp: "tuple[np.ndarray, np.ndarray, ColumnMap] | None" = None

    @staticmethod
    def of(X: np.ndarray, name: str, *, indicators: bool = False) -> "ColumnMap":
        """The map of this name for training rows X : (n, d)."""
        codes = code_columns(X) if indicators else ()
        if name == "clipped":
            low, centre, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
            unit = (high - low) / _NORMAL_IQR
            # The interquartile range is 0 if most values are equal: half of the range replaces it.
            unit = np.where(unit > 0.0, unit, 0.5 * (X.max(axis=0) - X.min(axis=0)))
            unit = np.where(unit > 0.0, unit, 1.0)
            return ColumnMap(centre[None], unit[None], codes)
        if name == "quantile":
            probabilities = (np.arange(min(_KNOTS, len(X))) + 0.5) / min(_KNOTS, len(X))
            knots = np.quantile(X, probabilities, axis=0)
            values = np.empty_like(knots)
            for knot, value in zip(knots.T, values.T, strict=True):
                first = np.searchsorted(knot, knot, side="left")
                last = np.searchsorted(knot, knot, side="right") - 1
                value[:] = ndtri(0.5 * (probabilities[first] + probabilities[last]))
            return ColumnMap(knots, values, codes)
        empty = np.empty((0, X.shape[1]))
        return ColumnMap(empty, empty, codes)

    @property
    def nbytes(self) -> int:
        n_bytes = self.knots.nbytes + self.values.nbytes + sum(v.nbytes for _, v in self.codes)
        return n_bytes + (0 if self.warp is None else sum(array.nbytes for array in self.warp))

    @property
    def sources(self) -> np.ndarray:
        """The input column of each output column; (d + indicators,)."""
        repeated = [np.full(len(values), column) for column, values in self.codes]
        return np.concatenate([np.arange(self.knots.shape[1]), *repeated])

    def __call__(self, X: Any) -> Any:
        """Mapped rows of X : (n, d); CSR rows stay CSR only where nothing is mapped."""
        if not len(self.knots) and not self.codes and self.warp is None:
            return X
        rows = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
        if len(self.knots) == 1:
            scaled = (rows - self.knots) / self.values
            mapped = scaled / np.hypot(1.0, scaled / _BOUND)
        elif len(self.knots):
            mapped = np.empty_like(rows)
            for k in range(rows.shape[1]):
                mapped[:, k] = np.interp(rows[:, k], self.knots[:, k], self.values[:, k])
        else:
            mapped = rows
        indicators = [np.equal.outer(rows[:, column], values) for column, values in self.codes]
        mapped = np.hstack([mapped, *indicators])
        if self.warp is None:
            return mapped
        mean, deviation, warp = self.warp
        return warp((mapped - mean) / deviation)


def code_columns(X: np.ndarray) -> tuple[tuple[int, np.ndarray], ...]:
    """Columns of integers with few values, which may stand for categories, and their values."""
    codes = []
    for column in range(X.shape[1]):
        # A few rows exclude most columns of real numbers, so that those are not sorted.
        if (X[:100, column] % 1.0 != 0.0).any():
            continue
        values = np.unique(X[:, column])
        if 2 < len(values) <= _MAX_VALUES and (values % 1.0 == 0.0).all():
            codes.append((column, values))
    has_too_many = sum(len(values) for _, values in codes) > _MAX_INDICATORS
    return () if has_too_many else tuple(codes)


def has_curved_maps(X: np.ndarray) -> bool:
    """Whether some column has more than two values, so that not all maps of it are affine."""
    low, high = X.min(axis=0), X.max(axis=0)
    return bool(((low < X) & (high > X)).any())
