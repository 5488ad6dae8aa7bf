"""Columns of an Arrow table as arrays: numbers become float64, texts become categories."""

from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats import dropping
from kbench.data.formats.number_text import date_remedy, time_remedy
from kbench.data.formats.table import Column
from kbench.errors import DataError

_PLAIN_EXTENSIONS = ("arrow.json", "arrow.bool8")
"""Types of Arrow's extensions that are read as the type that stores them."""


def columns(table: Any, path: Path) -> dict[str, Column]:
    """The columns of a `pyarrow.Table`; a missing number is NaN, a missing text empty.

    table : pyarrow.Table. Its columns are numbers, booleans, texts or dictionaries of texts.
    path : The file, for errors

    Raises DataError: a column has another type.
    """
    import pyarrow as pa
    from pyarrow import types

    arrays = {}
    for name in table.column_names:
        column = table.column(name)
        kind = column.type
        named = (table.schema.field(name).metadata or {}).get(b"ARROW:extension:name", b"")
        extension = named.decode(errors="replace")
        if extension and extension not in _PLAIN_EXTENSIONS:
            # As numbers pandas' periods would count months or days, whichever their unit is.
            raise DataError(
                f"{path}: column {name!r} is of type {extension}, should be numbers or texts; "
                f"{dropping(name)} leaves it out"
            )
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            column = column.cast(pa.string()).dictionary_encode()
        elif types.is_boolean(kind):
            column = column.cast(pa.int8())
        elif types.is_null(kind) or types.is_decimal(kind):
            column = column.cast(pa.float64())
        if types.is_dictionary(column.type):
            arrays[name] = _categories(column)
        elif types.is_floating(column.type) or types.is_integer(column.type):
            arrays[name] = Column(column.to_numpy().astype(np.float64, copy=False))
        else:
            remedy = ""
            if types.is_timestamp(kind) or types.is_date(kind):
                remedy = f"{date_remedy(name)}; "
            elif types.is_duration(kind):
                remedy = f"{time_remedy(name)}; "
            raise DataError(
                f"{path}: column {name!r} is of type {kind}, should be numbers or texts; {remedy}"
                f"{dropping(name)} leaves it out"
            )
    return arrays


def _categories(column: Any) -> Column:
    whole = column.unify_dictionaries().combine_chunks()
    texts = [str(text).strip() for text in whole.dictionary.to_pylist()]
    indices = whole.indices
    if whole.null_count:
        indices = indices.fill_null(len(texts))
        texts.append("")
    return Column.of_texts(indices.to_numpy(zero_copy_only=False), texts)
