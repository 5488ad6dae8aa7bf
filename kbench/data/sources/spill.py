"""Rows read piece by piece, spilled to disk as CSR arrays and memory-mapped.

So a preparation needs memory for a block of rows only, however large the raw file is. The arrays
are in the prepared folder until the prepared arrays are written.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.sources.rows import CsrArrays, SparseRows

_TYPES = {"data": np.float32, "indices": np.int32, "indptr": np.int64, "y": np.float64}


def spill(
    parts: Iterable[tuple[str, Iterator[tuple[Any, np.ndarray]]]], folder: Path
) -> dict[str, SparseRows]:
    """Write the rows of several parts one after the other, and map them.

    Parameters
    ----------
    parts : iterable of (str, iterator of (csr_matrix, ndarray))
        The name of a part and its rows with their targets, piece by piece.
    folder : Path
        Folder of the arrays; it must not exist yet.

    Returns
    -------
    dict of str to SparseRows
        All on the same arrays. The number of columns is the largest of any piece; stored zeros are
        left out.

    Notes
    -----
    O(entries) time. Memory: a piece and 8 bytes per row; disk: 8 bytes per entry, 16 per row.
    """
    folder.mkdir()
    width, ends = 1, {}
    with ExitStack() as stack:
        files = {n: stack.enter_context(open(folder / n, "wb")) for n in _TYPES}
        files["indptr"].write(np.zeros(1, dtype=np.int64).data)
        n = nnz = 0
        for name, pieces in parts:
            begin = n
            for X, y in pieces:
                X.eliminate_zeros()
                width = max(width, X.shape[1])
                ends_of_rows = X.indptr[1:].astype(np.int64) + nnz
                values = {"data": X.data, "indices": X.indices, "indptr": ends_of_rows, "y": y}
                for key, array in values.items():
                    files[key].write(np.ascontiguousarray(array, dtype=_TYPES[key]).data)
                n, nnz = n + y.size, nnz + X.nnz
            ends[name] = (begin, n)
    mapped = {n: _map(folder / n, dtype) for n, dtype in _TYPES.items()}
    arrays = CsrArrays(mapped["data"], mapped["indices"], mapped["indptr"], width)
    return {
        name: SparseRows(arrays, mapped["y"], np.arange(begin, end))
        for name, (begin, end) in ends.items()
    }


def _map(path: Path, dtype: Any) -> np.ndarray:
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
