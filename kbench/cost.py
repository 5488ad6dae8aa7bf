"""The unit of prediction costs: a row's share of the product of many rows with one vector."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

UNIT_ROWS = 20_000
UNIT_BYTES = 1 << 28
REPEATS = 5


def unit_rows(X: Any) -> Any:
    """20,000 rows, those of X again and again: so many that calls cost nothing.

    Parameters
    ----------
    X : (n, d) dense or CSR
        Dense rows become C-contiguous float32.
    """
    n, d = X.shape
    size = UNIT_ROWS if not isinstance(X, np.ndarray) else min(UNIT_ROWS, UNIT_BYTES // (4 * d) + 1)
    rows = X[np.arange(size) % n]
    return np.ascontiguousarray(rows, np.float32) if isinstance(rows, np.ndarray) else rows


def median_s(function: Callable[[], Any]) -> float:
    """Median wall seconds of a call, of at least five and of as many as fit into 2 ms."""
    function()
    seconds: list[float] = []
    begin = time.perf_counter()
    while len(seconds) < REPEATS or time.perf_counter() - begin < 0.002:
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
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
