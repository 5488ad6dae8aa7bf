"""Rows a few at a time, dense and in float64, whatever they are stored as."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

_ROWS = 4096
# Values of dense rows that are taken at a time: they stay in the L2 cache on their way.
_VALUES = 1 << 16


def dense_chunks(X: Any, columns: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """X[:, columns] as dense float64, some rows at a time."""
    step = _ROWS
    if not sp.issparse(X):
        step = min(step, _VALUES // (X.shape[1] + 1) + 1)
    for start in range(0, X.shape[0], step):
        rows = slice(start, start + step)
        part = X[rows]
        if sp.issparse(part):
            part = part[:, columns].toarray() if len(columns) < X.shape[1] else part.toarray()
        elif len(columns) < X.shape[1]:
            part = part[:, columns]
        yield rows, part.astype(np.float64, copy=False)
