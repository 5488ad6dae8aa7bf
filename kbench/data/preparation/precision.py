"""Notes about distinct values of a column that become equal when they are stored in float32.

Examples are time stamps in seconds, 1700000000 + k: float32 has 24 bits, and distinguishes only
every 128th second. Scaling before storage preserves the differences. Whole numbers from 2^53 on,
such as identifiers of 18 digits, already become equal in float64.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kbench.data.preparation.scaling import ColumnScaling
from kbench.data.sources.rows import Rows, SparseRows

_ENTRIES = 1 << 18
"""Maximum number of entries that are compared, 2 MiB. More entries find equal values that are
further apart in the file, and cost memory. Set by hand."""
_ROWS = 1 << 16  # maximum number of rows that are compared; more take longer; set by hand
_MAX_MERGED = 0.01
"""Fraction of a column's distinct fractional values that may become equal without a note; of 65,536
random float64 numbers between 1 and 2, 0.4 % do. Whole numbers are counts or names, and get a note
if any two become equal. Set by hand."""
_MAX_NAMED = 3  # number of columns that a message names, so that it stays short; set by hand


def merged_columns(
    rows: Rows, scaling: ColumnScaling | None, name_of: Callable[[int], str]
) -> str | None:
    """A note about columns whose distinct values become equal in float32; or None.

    rows : Training rows, unscaled, of which the first are compared
    name_of : A function from the number of a column, from 0, to its name
    """
    sparse = isinstance(rows, SparseRows)
    lossy, huge = _lossy_sparse_columns(rows, scaling) if sparse else _lossy_columns(rows, scaling)
    notes = []
    if lossy:
        texts = [f"{name_of(j)} ({before} become {after})" for j, before, after in lossy]
        notes.append(
            f"distinct values merge in float32 in the column {_join(texts)}; dataset.scale=unit "
            "or standard keeps differences that are small beside the values"
        )
    if huge:
        notes.append(
            "whole numbers from 2^53 on are not all distinct in float64, in the column "
            f"{_join([name_of(j) for j in huge])}; identifiers are not features: "
            "dataset.source.columns.drop leaves a column of a table out"
        )
    return "; ".join(notes) or None


def _join(names: list[str]) -> str:
    suffix = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED])}{suffix}"


_MergedColumns = tuple[list[tuple[int, int, int]], list[int]]
"""(column, number of distinct values, number of distinct float32 values) for each column in which
values become equal in float32; and columns of whole numbers that become equal in float64."""


def _lossy_columns(rows: Rows, scaling: ColumnScaling | None) -> _MergedColumns:
    n_rows = max(2, min(_ROWS, _ENTRIES // max(1, rows.d)))
    X = _first_rows(rows.blocks(), n_rows, np.vstack)
    if X.dtype.itemsize < np.dtype(np.float64).itemsize:
        return [], []
    X = X.astype(np.float64, copy=False)  # converts other byte orders and longer floats
    largest = np.abs(X).max(axis=0)
    huge = [int(j) for j in np.flatnonzero(largest >= 2.0**53) if whole_and_huge(X[:, j])]
    inexact = np.flatnonzero((X.astype(np.float32) != X).any(axis=0))
    lossy = [_count_merged(int(j), np.unique(X[:, j]), scaling) for j in inexact]
    return [column for column in lossy if column is not None], huge


def whole_and_huge(values: np.ndarray) -> bool:
    """Whether values are whole numbers that float64 does not all represent exactly.

    Every float64 number from 2^53 on is whole. Above 2^64, identifiers are recognised by values
    that float32 cannot tell apart, because measurements spread further.
    """
    magnitude = float(np.abs(values).max(initial=0.0))
    if not (magnitude >= 2.0**53 and np.all(values == np.round(values))):
        return False
    # float64 rounds the largest unsigned 64-bit integers to 2^64.
    return magnitude <= 2.0**64 or float(np.ptp(values)) < magnitude * 2.0**-24


def _lossy_sparse_columns(rows: Any, scaling: ColumnScaling | None) -> _MergedColumns:
    """`_lossy_columns` of sparse rows, of which only stored entries are compared."""
    from scipy.sparse import vstack

    n_rows = max(2, min(_ROWS, _ENTRIES * rows.n // max(1, rows.nnz)))
    csr = _first_rows(rows.csr_blocks(), n_rows, partial(vstack, format="csr"))
    order = np.argsort(csr.indices, kind="stable")
    columns, values = csr.indices[order], csr.data[order]
    inexact = values.astype(np.float32) != values
    begins = np.flatnonzero(np.diff(columns, prepend=-1)).tolist()
    lossy, huge = [], []
    for begin, end in zip(begins, [*begins[1:], columns.size], strict=False):
        j, column_values = int(columns[begin]), values[begin:end]
        if inexact[begin:end].any():
            lossy.append(_count_merged(j, np.unique(column_values), scaling))
        if whole_and_huge(column_values):
            huge.append(j)
    return [column for column in lossy if column is not None], huge


def _first_rows(blocks: Iterator[Any], n: int, stack: Callable[[list[Any]], Any]) -> Any:
    """The first n rows of the blocks, or all rows if there are fewer."""
    pieces, n_rows = [], 0
    for block in blocks:
        pieces.append(block[: n - n_rows])
        n_rows += pieces[-1].shape[0]
        if n_rows == n:
            break
    return stack(pieces) if len(pieces) > 1 else pieces[0]


def _count_merged(
    j: int, values: np.ndarray, scaling: ColumnScaling | None
) -> tuple[int, int, int] | None:
    """(j, numbers of distinct `values` and of distinct float32 values); None if few are equal."""
    scaled = values if scaling is None else scaling.of_column(values, j)
    before, after = values.size, np.unique(scaled.astype(np.float32)).size
    # `whole_and_huge` is about whole numbers from 2^53 on.
    integers = bool(np.all(values == np.round(values)) and np.abs(values).max() < 2.0**53)
    min_distinct = before if integers else before * (1.0 - _MAX_MERGED)
    return (j, before, int(after)) if after < min_distinct else None
