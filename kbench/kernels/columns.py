"""Columns of a matrix by index, on several threads."""

from typing import Any

import numpy as np
from numba import njit, types

from kbench.kernels.handing_over import SHARED, shared
from kbench.kernels.threads import in_parts

_NANOSECONDS = 0.4
# A cache line of the output.
_MULTIPLE = 16


def take_columns(array: np.ndarray, columns: Any) -> np.ndarray:
    """array[:, columns] : (p, m), C-contiguous, of array : (p, n) float32, float64 or uint32.

    columns : slice or (m,) indices
    """
    if isinstance(columns, slice):
        return np.ascontiguousarray(array[:, columns])
    # Unsigned: no index counts from the end, and none has to be looked at for that.
    indices = np.ascontiguousarray(columns, np.int64).view(np.uint64)
    out = np.empty((len(array), len(indices)), array.dtype)

    cost = _NANOSECONDS * out.size
    in_parts(_gather, array, indices, out, n=len(indices), nanoseconds=cost, multiple=_MULTIPLE)
    return out


def _signature(dtype: types.Type) -> Any:
    source = types.Array(dtype, 2, "C", readonly=True)
    return types.void(source, types.uint64[::1], dtype[:, ::1], *SHARED)


@njit
def _gather_part(array, indices, out, start, stop):
    """out[:, start:stop] = array[:, indices[start:stop]]"""
    for k in range(array.shape[0]):
        source, target = array[k], out[k]
        for j in range(start, stop):
            target[j] = source[indices[j]]


_share_gather = shared(_gather_part)


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(
    [_signature(dtype) for dtype in (types.float32, types.float64, types.uint32)],
    cache=True,
    nogil=True,
)
def _gather(array, indices, out, n, part, boxes):
    _share_gather((array, indices, out), n, part, boxes)
