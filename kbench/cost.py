"""What it costs to predict a row, and the units of these costs: what it costs a linear model.

A row's share of the product of many rows with one vector, and, as the papers of 2014 have it, a
loop over the entries of one row after the other, as LIBLINEAR's `predict` runs it. Methods predict
as many rows as the unit has, where the test rows are fewer and that is fast: a call has its price,
checks of its input above all, that thousands of rows share.

Seconds are of the CPU where the platform counts these finely: wall seconds of a machine that works
for others, too, are also theirs.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

UNIT_ROWS = 20_000
UNIT_BYTES = 1 << 28
REPEATS = 5
# Slower predictions are not repeated for more rows than there are: the call does not show.
_FAST_S = 0.05
# Linux and macOS count CPU time by the nanosecond or microsecond, Windows by 16 ms.
COUNTS_CPU = time.get_clock_info("process_time").resolution <= 1e-6
_clock = time.process_time if COUNTS_CPU else time.perf_counter


def unit_rows(X: Any) -> Any:
    """20,000 rows, those of X again and again: so many that calls cost nothing.

    Parameters
    ----------
    X : (n, d) dense or CSR
        Dense rows become C-contiguous float32.
    """
    rows = X[np.arange(_most_rows(X)) % X.shape[0]]
    return np.ascontiguousarray(rows, np.float32) if isinstance(rows, np.ndarray) else rows


def _most_rows(X: Any) -> int:
    dense = isinstance(X, np.ndarray)
    return min(UNIT_ROWS, UNIT_BYTES // (4 * X.shape[1]) + 1) if dense else UNIT_ROWS


def prediction_s(predict: Callable[[Any], Any], X: Any, seconds: float) -> float:
    """Median seconds a row of `predict`.

    Parameters
    ----------
    X : (n, d) dense or CSR, the test rows. seconds : of `predict(X)`.
    """
    n = X.shape[0]
    size = min(_most_rows(X), int(n * _FAST_S / max(seconds, 1e-9)))
    if size <= n:
        return seconds / n
    rows = X[np.arange(size) % n]
    return median_s(lambda: predict(rows)) / size


def median_s(function: Callable[[], Any]) -> float:
    """Median seconds of a call, of at least five and of as many as fit into 2 ms."""
    function()
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < REPEATS or time.perf_counter() - begin < 0.002:
        start = _clock()
        function()
        seconds.append(_clock() - start)
    return statistics.median(seconds)


def linear_prediction_s(X: Any, n_outputs: int) -> float:
    """Median seconds a row of `X @ W`, the prediction of a linear model, in this process.

    Parameters
    ----------
    X : (n, d) dense or CSR. n_outputs : 1, or the number of classes when there are more than two.
    """
    rows = unit_rows(X)
    weights = np.ones(X.shape[1] if n_outputs == 1 else (X.shape[1], n_outputs), rows.dtype)
    return median_s(lambda: rows @ weights) / rows.shape[0]
