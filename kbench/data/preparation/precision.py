"""Distinct values of a column that become one value when they are stored in float32.

A time stamp in seconds, 1700000000 + k, is such a value: float32 has 24 bits and tells apart only
every 128th. Values that are scaled before they are stored keep their differences. Whole numbers
from 2^53 on, such as identifiers of 18 digits, merge in float64 already.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kbench.data.preparation.scaling import ColumnScaling
from kbench.data.sources.rows import Rows, SparseRows

_ENTRIES = 1 << 18
"""Entries that are compared, 2 MiB. More would find values that lie further apart in the file, and
take more of the memory that a preparation is limited to. Set by hand."""
_ROWS = 1 << 16  # rows that are compared at most; set by hand
_LOST = 0.01
"""Fraction of the distinct fractional values of a column that may become equal without a word. Of
65,536 measurements between 1 and 2 with all digits of float64 0.4 % do. Whole numbers are counts or
names: not one may. Set by hand."""
_NAMED = 3  # columns that a message names; set by hand


def merged_columns(
    rows: Rows, scaling: ColumnScaling | None, name_of: Callable[[int], str]
) -> str | None:
    """A sentence about columns whose distinct values merge in float32; None if there are none.

    rows : Training rows, unscaled; the first ones are compared
    name_of : The name of a column by its number from 0
    """
    sparse = isinstance(rows, SparseRows)
    lost, huge = _lossy_sparse_columns(rows, scaling) if sparse else _lossy_columns(rows, scaling)
    notes = []
    if lost:
        shown = [f"{name_of(j)} ({before} become {after})" for j, before, after in lost]
        notes.append(
            f"distinct values merge in float32 in the column {_named(shown)}; dataset.scale=unit "
            "or standard keeps differences that are small beside the values"
        )
    if huge:
        notes.append(
            "whole numbers from 2^53 on are not all distinct in float64, in the column "
            f"{_named([name_of(j) for j in huge])}; identifiers are not features: "
            "dataset.source.columns.drop leaves a column of a table out"
        )
    return "; ".join(notes) or None


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


Lost = tuple[list[tuple[int, int, int]], list[int]]
"""(column, distinct values, distinct stored values) of each column that loses some in float32; and
the columns of whole numbers that float64 does not tell apart."""


def _lossy_columns(rows: Rows, scaling: ColumnScaling | None) -> Lost:
    wanted = max(2, min(_ROWS, _ENTRIES // max(1, rows.d)))
    X = _first(rows.blocks(), wanted, np.vstack)
    if X.dtype.itemsize < np.dtype(np.float64).itemsize:
        return [], []
    X = X.astype(np.float64, copy=False)  # of the other byte order, or of more digits
    largest = np.abs(X).max(axis=0)
    huge = [int(j) for j in np.flatnonzero(largest >= 2.0**53) if whole_and_huge(X[:, j])]
    inexact = np.flatnonzero((X.astype(np.float32) != X).any(axis=0))
    lossy = [_count_merged(int(j), np.unique(X[:, j]), scaling) for j in inexact]
    return [column for column in lossy if column is not None], huge


def whole_and_huge(values: np.ndarray) -> bool:
    """Whether values are whole numbers of 64 bits, and some of them not exact in float64."""
    magnitude = float(np.abs(values).max(initial=0.0))
    # The largest numbers of 64 bits without a sign are rounded to 2^64.
    return 2.0**53 <= magnitude <= 2.0**64 and bool(np.all(values == np.round(values)))


def _lossy_sparse_columns(rows: Any, scaling: ColumnScaling | None) -> Lost:
    """As `_lossy_columns`; only stored entries are compared."""
    from scipy.sparse import vstack

    wanted = max(2, min(_ROWS, _ENTRIES * rows.n // max(1, rows.nnz)))
    csr = _first(rows.csr_blocks(), wanted, partial(vstack, format="csr"))
    order = np.argsort(csr.indices, kind="stable")
    columns, values = csr.indices[order], csr.data[order]
    inexact = values.astype(np.float32) != values
    begins = np.flatnonzero(np.diff(columns, prepend=-1)).tolist()
    lossy, huge = [], []
    for begin, end in zip(begins, [*begins[1:], columns.size], strict=False):
        j, of_column = int(columns[begin]), values[begin:end]
        if inexact[begin:end].any():
            lossy.append(_count_merged(j, np.unique(of_column), scaling))
        if whole_and_huge(of_column):
            huge.append(j)
    return [column for column in lossy if column is not None], huge


def _first(blocks: Iterator[Any], n: int, stack: Callable[[list[Any]], Any]) -> Any:
    """The first n rows of some blocks, or all of them."""
    pieces, rows = [], 0
    for block in blocks:
        pieces.append(block[: n - rows])
        rows += pieces[-1].shape[0]
        if rows == n:
            break
    return stack(pieces) if len(pieces) > 1 else pieces[0]


def _count_merged(
    j: int, values: np.ndarray, scaling: ColumnScaling | None
) -> tuple[int, int, int] | None:
    """values : the distinct ones of column j, in order, float64."""
    stored = values if scaling is None else scaling.of_column(values, j)
    before, after = values.size, np.unique(stored.astype(np.float32)).size
    # From 2^53 on float64 itself does not distinguish all whole numbers.
    whole = bool(np.all(values == np.round(values)) and np.abs(values).max() < 2.0**53)
    min_distinct = before if whole else before * (1.0 - _LOST)
    return (j, before, int(after)) if after < min_distinct else None
