"""Cost of predicting a row, in units of the cost of a linear model.

The unit is the time per row of the product of many rows with a linear model's weights;
`kbench.run.execution.row_loop` has the unit of the papers of 2014, a loop over the nonzeros of one
row after the other. A fast method is timed on as many rows as the unit, even if there are fewer
test rows, so that the fixed cost of a call (mostly checks of its input) is negligible for both.

Seconds are CPU seconds where the platform counts these finely, because wall seconds include the
work of other processes.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

# Number of rows of the unit, and limit of their memory in bytes (256 MiB). The time of the matrix
# product per row is constant from about 5,000 rows on. Set by hand.
UNIT_ROWS = 20_000
UNIT_BYTES = 1 << 28
# Minimum number of timed calls, whose median counts, and wall seconds for which shorter calls are
# repeated, because single calls vary. Set by hand.
MIN_CALLS = 3
_MIN_TIMED_S = 0.002
# Largest fraction of a timed call that its fixed cost, the time to predict one row, may take; and
# seconds of a call that suffice whatever the fixed cost is. The fixed cost is 0.1 ms for most
# methods, and 6 ms for a random forest, whose call would take 0.3 s without the second limit. Set
# by hand.
_MAX_FIXED_FRACTION = 0.02
_SUFFICIENT_S = 0.05
# Linux and macOS count CPU time in nanoseconds or microseconds, Windows in steps of 16 ms.
COUNTS_CPU = time.get_clock_info("process_time").resolution <= 1e-6
_clock = time.process_time if COUNTS_CPU else time.perf_counter


def unit_rows(X: Any) -> Any:
    """Return `UNIT_ROWS` repeated rows of X, or fewer if these exceed `UNIT_BYTES`.

    X : (n, d) dense or CSR. Dense rows are converted to C-contiguous float32.
    """
    rows = X[np.arange(_max_rows(X)) % X.shape[0]]
    return np.ascontiguousarray(rows, np.float32) if isinstance(rows, np.ndarray) else rows


def _max_rows(X: Any) -> int:
    dense = isinstance(X, np.ndarray)
    return min(UNIT_ROWS, UNIT_BYTES // (4 * X.shape[1]) + 1) if dense else UNIT_ROWS


def prediction_s(predict: Callable[[Any], Any], X: Any, seconds: float) -> float:
    """Return the seconds per row of calls of `predict` in which the fixed cost is small.

    X : (n, d) dense or CSR. The test rows.
    seconds : Measured time of one call predict(X)
    """
    n = X.shape[0]
    if seconds >= _SUFFICIENT_S:
        return seconds / n
    long_enough_s = min(_SUFFICIENT_S, fixed_s(predict, X) / _MAX_FIXED_FRACTION)
    n_rows = min(_max_rows(X), int(n * long_enough_s / max(seconds, 1e-9)))  # guard
    if n_rows <= n:
        return seconds / n
    rows = X[np.arange(n_rows) % n]
    return median_s(lambda: predict(rows)) / n_rows


def fixed_s(predict: Callable[[Any], Any], X: Any) -> float:
    """Return the median seconds of `predict` of one row of X : (n, d), the fixed cost of a call."""
    row = X[:1]
    return median_s(lambda: predict(row))


def median_s(function: Callable[[], Any]) -> float:
    """Return the median seconds of `MIN_CALLS` calls, or of more if they take less than 2 ms."""
    function()
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < MIN_CALLS or time.perf_counter() - begin < _MIN_TIMED_S:
        start = _clock()
        function()
        seconds.append(_clock() - start)
    return statistics.median(seconds)


def linear_prediction_s(X: Any, n_outputs: int) -> float:
    """Return the median seconds per row of `X @ W`, the prediction of a linear model.

    X : (n, d) dense or CSR
    n_outputs : 1, or the number of classes if there are more than two
    """
    rows = unit_rows(X)
    weights = np.ones(X.shape[1] if n_outputs == 1 else (X.shape[1], n_outputs), rows.dtype)
    return median_s(lambda: rows @ weights) / rows.shape[0]
