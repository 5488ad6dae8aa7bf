"""Passes over the rows of a matrix, a chunk at a time, dense and in float64."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.kernels.threads import run_tasks

# Limits of a chunk: rows, and values of dense rows (256 KiB in float64, which fit the L2 cache).
# Chunks of CSR rows have any width: `layout` has refused rows that would take too much memory as
# dense ones. Sums are added by chunk, so that other limits round origins, and with them kernel
# values, differently. Set by hand.
_MAX_ROWS = 4096
_MAX_VALUES = 1 << 15
# Dense copies of CSR rows with more columns than this have only the columns in use: that saves
# memory and costs a search for these columns. Set by hand.
_MAX_COLUMNS_IN_FULL = 1 << 14


def dense_chunks(X: Any, columns: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of rows with X[rows, columns] as dense float64."""
    for rows in _slices(X):
        yield rows, _dense(X[rows], columns)


def dense_on_used_columns(X: Any) -> np.ndarray:
    """Return rows X : (m, d) as a dense array, without the columns of zeros of wide CSR rows.

    Distances and inner products between the rows do not change. Memory is m numbers for each
    column that is kept: for wide rows, at most m for each stored entry of X.
    """
    if sp.issparse(X):
        if X.shape[1] > _MAX_COLUMNS_IN_FULL:
            X = X[:, np.unique(X.indices)]
        X = X.toarray()
    return np.asarray(X)


def each_chunk(X: Any, columns: np.ndarray, work: Callable[[slice, np.ndarray], None]) -> None:
    """Call work(rows, X[rows][:, columns]) with dense float64 values for every chunk of rows.

    The order is arbitrary, and several calls run at once if threads are allowed.
    """
    _for_each_chunk(X, work, lambda chunk: _dense(chunk, columns))


def each_slice(X: np.ndarray, work: Callable[[slice, np.ndarray], None]) -> None:
    """`each_chunk` with all columns of dense rows, C-contiguous; float32 rows stay float32."""
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    _for_each_chunk(X, work, lambda chunk: np.ascontiguousarray(chunk, dtype))


def _for_each_chunk(
    X: Any, work: Callable[[slice, np.ndarray], None], read: Callable[[Any], np.ndarray]
) -> None:
    def task(rows: slice) -> None:
        work(rows, read(X[rows]))

    run_tasks(functools.partial(task, rows) for rows in _slices(X))


def _slices(X: Any) -> Iterator[slice]:
    step = _MAX_ROWS
    if not sp.issparse(X):
        step = min(step, _MAX_VALUES // (X.shape[1] + 1) + 1)
    for start in range(0, X.shape[0], step):
        yield slice(start, start + step)


def _dense(chunk: Any, columns: np.ndarray) -> np.ndarray:
    if sp.issparse(chunk):
        chunk = chunk[:, columns].toarray() if len(columns) < chunk.shape[1] else chunk.toarray()
    elif len(columns) < chunk.shape[1]:
        chunk = chunk[:, columns]
    return chunk.astype(np.float64, copy=False)
