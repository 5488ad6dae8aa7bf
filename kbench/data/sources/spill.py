"""Write rows piece by piece to disk as CSR arrays, and map the arrays.

A preparation of raw files of any size therefore needs memory only for a block of rows. The arrays
are in the prepared folder until the prepared arrays are written.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.sources.rows import CsrArrays, SparseRows
from kbench.files import mapped_numbers

_DTYPES = {
    "data": np.float64,
    "indices": np.int32,
    "indptr": np.int64,
    "y": np.float64,
    "groups": np.int64,
}


def spill(
    parts: Iterable[tuple[str, Iterator[tuple[Any, np.ndarray, np.ndarray]]]],
    folder: Path,
    columns: Callable[[int], tuple[int, int]] = lambda width: (0, width),
) -> dict[str, SparseRows]:
    """Write the rows of several parts one after the other, and map them.

    parts : iterable of (str, iterator of (csr_matrix, ndarray, ndarray))
        The name of each part, and pieces of its rows with targets and groups; the group -1 means
        that the row is a group of its own.
    folder : Folder of the arrays, which must not exist
    columns : A function, called after the last piece, from the largest number of columns of a piece
        to the stored column that becomes column 0, and the number of columns.

    Returns dict of str to SparseRows, which all map the same arrays; stored zeros are left out.

    O(entries) time. Memory: a piece and 8 bytes per row; disk: 12 bytes per entry, 24 per row.
    """
    folder.mkdir()
    width, ranges = 1, {}
    with ExitStack() as stack:
        files = {key: stack.enter_context(open(folder / key, "wb")) for key in _DTYPES}
        files["indptr"].write(np.zeros(1, dtype=np.int64).data)
        n = nnz = 0
        has_groups = False
        for name, pieces in parts:
            begin = n
            for X, y, groups in pieces:
                X.eliminate_zeros()
                width = max(width, X.shape[1])
                row_ends = X.indptr[1:].astype(np.int64) + nnz
                without_group = groups < 0
                has_groups |= not without_group.all()
                groups = np.where(without_group, -1 - np.arange(n, n + y.size), groups)
                arrays_of_piece = {
                    "data": X.data,
                    "indices": X.indices,
                    "indptr": row_ends,
                    "y": y,
                    "groups": groups,
                }
                for key, array in arrays_of_piece.items():
                    files[key].write(np.ascontiguousarray(array, dtype=_DTYPES[key]).data)
                n, nnz = n + y.size, nnz + X.nnz
            ranges[name] = (begin, n)
    mapped = {key: mapped_numbers(folder / key, dtype) for key, dtype in _DTYPES.items()}
    first_column, d = columns(width)
    arrays = CsrArrays(mapped["data"], mapped["indices"], mapped["indptr"], d, first_column)
    groups_of_rows = mapped["groups"] if has_groups else None
    return {
        name: SparseRows(arrays, mapped["y"], np.arange(begin, end), groups_of_rows)
        for name, (begin, end) in ranges.items()
    }
