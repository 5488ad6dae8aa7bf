"""Rows a few at a time, dense and in float64, whatever they are stored as."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.kernels.threads import in_any_order

_ROWS = 4096
# Values of dense rows that are taken at a time: they stay in the L2 cache on their way.
_VALUES = 1 << 15


def dense_chunks(X: Any, columns: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """X[:, columns] as dense float64, some rows at a time."""
    for rows in _slices(X):
        yield rows, _dense(X[rows], columns)


def each_chunk(X: Any, columns: np.ndarray, work: Callable[[slice, np.ndarray], None]) -> None:
    """Call work(rows, X[rows][:, columns]), dense and float64, for some rows at a time.

    In any order, and several at once where threads are allowed.
    """
    _each(X, work, lambda part: _dense(part, columns))


def each_slice(X: np.ndarray, work: Callable[[slice, np.ndarray], None]) -> None:
    """The same with all columns of dense rows, C-contiguous, as float32 where they are."""
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    _each(X, work, lambda part: np.ascontiguousarray(part, dtype))


def _each(
    X: Any, work: Callable[[slice, np.ndarray], None], read: Callable[[Any], np.ndarray]
) -> None:
    def task(rows: slice) -> None:
        work(rows, read(X[rows]))

    in_any_order(functools.partial(task, rows) for rows in _slices(X))


def _slices(X: Any) -> Iterator[slice]:
    step = _ROWS
    if not sp.issparse(X):
        step = min(step, _VALUES // (X.shape[1] + 1) + 1)
    for start in range(0, X.shape[0], step):
        yield slice(start, start + step)


def _dense(part: Any, columns: np.ndarray) -> np.ndarray:
    if sp.issparse(part):
        part = part[:, columns].toarray() if len(columns) < part.shape[1] else part.toarray()
    elif len(columns) < part.shape[1]:
        part = part[:, columns]
    return part.astype(np.float64, copy=False)
