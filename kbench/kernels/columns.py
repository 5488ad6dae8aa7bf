"""Gathering columns of a matrix by index, on several threads."""

from typing import Any

import numpy as np
from numba import njit

from kbench.kernels.threads import run
from kbench.kernels.work_sharing import Loop, divided, share

# Nanoseconds to gather a value (`scripts/bench_kernels.py`); the number of threads follows from it.
_NS_PER_VALUE = 0.4
# Threads take multiples of this number of columns, a cache line of 32-bit numbers (64 bytes), so
# that hardly any two threads write to the same line.
_CACHE_LINE = 16


def take_columns(array: np.ndarray, columns: Any) -> np.ndarray:
    """Return array[:, columns] : (p, m), C-contiguous.

    array : (p, n) float32, float64 or uint32, C-contiguous
    columns : slice or (m,) indices
    """
    if isinstance(columns, slice):
        return np.ascontiguousarray(array[:, columns])
    # With unsigned indices, the compiled loop does not test for negative ones.
    indices = np.ascontiguousarray(columns, np.int64).view(np.uint64)
    out = np.empty((len(array), len(indices)), array.dtype)
    cost = _NS_PER_VALUE * out.size
    run(_GATHER, array, indices, out, n=len(indices), nanoseconds=cost, multiple=_CACHE_LINE)
    return out


@njit(cache=True, nogil=True)
def _gather(array, indices, out, start, stop):
    """out[:, start:stop] = array[:, indices[start:stop]]"""
    for k in range(array.shape[0]):
        source, target = array[k], out[k]
        for j in range(start, stop):
            target[j] = source[indices[j]]


_expose_gather = divided(_gather)


@njit(cache=True, nogil=True)
def _shared_gather(arguments, n, block, mailboxes):
    share(_expose_gather(arguments), n, block, mailboxes)


_GATHER = Loop(_gather, _shared_gather)
