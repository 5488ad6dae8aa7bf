"""A point in the middle of the rows, so that differences from it lose few digits in float32."""

from typing import Any

import numpy as np
import scipy.sparse as sp

# Largest number of rows from which the middle is estimated: more rows estimate it better and take
# longer to sort in each column. Set by hand.
_MAX_SAMPLE = 33
# The middle of a column replaces its mean if their distance is more than this multiple of a width,
# the largest width of the densest half of any column: differences from the mean would lose 1e-5 of
# that width in float32. Set by hand.
_FAR_WIDTHS = 100.0
# If no row is farther from the mean than this many widths of the kernel, the mean is the origin:
# float32 then rounds distances by about 1e-6 of a width. Set by hand.
NEAR = 32.0


def origin_of(X: Any, mean: np.ndarray | None = None, columns: Any = slice(None)) -> np.ndarray:
    """Return the mean, or the middle of the densest half of some rows if outliers moved the mean.

    The choice is made for each column; (p,) float64. The densest half of a column is the shortest
    interval that holds half of its values in up to 33 rows.

    Differences from an origin far from most rows lose digits: one row of 1e10 among 1,000 moves the
    mean by 1e7, where float32 numbers are 1 apart.

    X : (n, d) array or CSR of floats, n > 0
    mean : (p,) float64, of `columns` of X; by default of all columns of an array
    columns : The p columns whose origin is wanted, by default all

    O(33 p) time and memory beside the mean.
    """
    if mean is None:
        mean = X.mean(axis=0, dtype=np.float64)
    rows = X[:: -(-X.shape[0] // _MAX_SAMPLE)][:, columns]
    values = (rows.toarray() if sp.issparse(rows) else rows).astype(np.float64)
    values.sort(axis=0)
    m = len(values)
    # Width of each interval that begins at a value and holds half of the values.
    widths = values[m // 2 :] - values[: m - m // 2]
    start, j = widths.argmin(axis=0), np.arange(values.shape[1])
    middle = values[start + m // 4, j]  # the median of the densest half
    width = widths[start, j].max(initial=0.0)
    if width == 0.0 and m > 2:  # most values are equal: take the range without both extremes
        width = (values[-2] - values[1]).max(initial=0.0)
    if width == 0.0:
        return mean
    return np.where(np.abs(mean - middle) > _FAR_WIDTHS * width, middle, mean)
