"""A diagonal metric whose weights also vary along each column.

A diagonal metric weighs column j by the root of the mean squared gradient of f along it. Here the
mean is taken over the rows near a value x_j = t only,

    w_j(t) = sqrt(mean of (df/dx_j)^2 over the rows with x_j near t),    z_j = integral of w_j,

so that the distance |z_j - z'_j| counts what f changes between two values: thresholds become
jumps, waves keep their place, and tails along which nothing changes become points. With one mean
for all values this is the diagonal metric of `kbench.metric.rounds`.

Such monotone maps of the inputs of a kernel are the input warping of J. Snoek, K. Swersky, R.
Zemel, R. Adams, "Input warping for Bayesian optimization of non-stationary functions", ICML 2014;
there the maps have a given form and are chosen by likelihood.
"""

import numpy as np

from kbench.metric.columns import ColumnMap

# Rows over which squares are averaged, for each knot of a map. The mean of m squares of normal
# numbers has the relative deviation sqrt(2 / m): 8 rows estimate a slope to a quarter of it, and
# a threshold within 8 rows. Set by hand.
_ROWS_PER_KNOT = 8


def warp_of_gradients(
    X: np.ndarray, previous_map: np.ndarray | ColumnMap, squares: np.ndarray
) -> ColumnMap | None:
    """Maps whose slopes are local root mean squares of gradients; None if all gradients vanish.

    X : (a, d) rows before the map
    previous_map : The map behind which the gradients were taken, or (d,) constant slopes
    squares : (a, d) squared gradients at the rows, with respect to mapped columns

    The mapped rows have total variance 1. O(a d log a).
    """
    squares = squares * _slopes(previous_map, X) ** 2
    maps = [_integral(x, square) for x, square in zip(X.T, squares.T, strict=True)]
    max_knots = max(len(column_knots) for column_knots, _ in maps)
    knots, values = (
        np.stack([np.pad(pair[k], (0, max_knots - len(pair[k])), "edge") for pair in maps], axis=1)
        for k in (0, 1)
    )
    total = float(ColumnMap(knots, values)(X).var(axis=0).sum())
    if not np.isfinite(total) or total <= 0.0:
        return None
    return ColumnMap(knots, values / np.sqrt(total))


def _integral(x: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knots and values of the map of a column x : (a,), with squared gradients (a,) at x."""
    order = np.argsort(x, kind="stable")
    x, squares = x[order], squares[order]
    # Equal values have one slope.
    group = np.searchsorted(x, x) // _ROWS_PER_KNOT
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    counts = np.diff(starts, append=len(x))
    knots = np.concatenate([x[:1], np.add.reduceat(x, starts) / counts, x[-1:]])
    slopes = np.sqrt(np.add.reduceat(squares, starts) / counts)
    slopes = np.concatenate([slopes[:1], slopes, slopes[-1:]])
    # The mean of equal numbers may round to a larger one; knots must not fall.
    knots = np.maximum.accumulate(np.minimum(knots, x[-1]))
    rises = 0.5 * (slopes[1:] + slopes[:-1]) * np.diff(knots)
    return knots, np.concatenate([[0.0], np.cumsum(rises)])


def _slopes(previous_map: np.ndarray | ColumnMap, X: np.ndarray) -> np.ndarray:
    """Slopes of a map at rows X : (a, d); beyond the knots those of the last interval."""
    if not isinstance(previous_map, ColumnMap):
        return np.broadcast_to(previous_map, X.shape)
    slopes = np.empty(X.shape)
    for k, (knots, values) in enumerate(
        zip(previous_map.knots.T, previous_map.values.T, strict=True)
    ):
        intervals = np.flatnonzero(np.diff(knots) > 0.0)
        if not len(intervals):
            slopes[:, k] = 0.0
            continue
        rises = np.diff(values)[intervals] / np.diff(knots)[intervals]
        slopes[:, k] = rises[np.searchsorted(knots[intervals[1:]], X[:, k], side="right")]
    return slopes
