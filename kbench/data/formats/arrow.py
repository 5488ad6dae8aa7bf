"""Convert columns of an Arrow table: numbers become float64, texts become categories."""

from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats import dropping, printable
from kbench.data.formats.number_text import date_remedy, time_remedy
from kbench.data.formats.table import Column
from kbench.errors import DataError

_PLAIN_EXTENSIONS = ("arrow.json", "arrow.bool8")
"""Arrow's extension types that are read like their storage types."""

_EXTENSION_REMEDIES = {
    "pandas.period": "in pandas, `frame[NAME].dt.to_timestamp().astype('int64')` makes numbers",
    "pandas.interval": "in pandas, `frame[NAME].array.mid` makes numbers",
}
_LIST_REMEDY = (
    "in pandas, `frame.join(pandas.DataFrame(frame.pop(NAME).tolist()).add_prefix('column_'))` "
    "makes columns, and dataset.source.columns.target names the target"
)
_TYPE_REMEDIES = {
    "is_list": _LIST_REMEDY,
    "is_large_list": _LIST_REMEDY,
    "is_fixed_size_list": _LIST_REMEDY,
    "is_struct": _LIST_REMEDY,
    "is_binary": "in pandas, `frame[NAME].str.decode('utf-8')` makes texts",
    "is_fixed_size_binary": "in pandas, `frame[NAME].str.decode('utf-8')` makes texts",
    "is_large_binary": "in pandas, `frame[NAME].str.decode('utf-8')` makes texts",
    "is_time": "in pandas, `pandas.to_timedelta(frame[NAME].astype(str)).dt.total_seconds()` makes "
    "seconds",
}
"""Test in pyarrow.types -> how pandas converts a column of such a type."""


def columns(table: Any, path: Path) -> dict[str, Column]:
    """The columns of a `pyarrow.Table`; a missing number is NaN, and a missing text is "".

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
        metadata = (table.schema.field(name).metadata or {}).get(b"ARROW:extension:name", b"")
        extension = getattr(kind, "extension_name", "") or metadata.decode(errors="replace")
        if extension and extension not in _PLAIN_EXTENSIONS:
            # The numbers of pandas' periods would count days or months, depending on the unit.
            raise _type_error(name, extension, _EXTENSION_REMEDIES.get(extension), path)
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
            if types.is_timestamp(kind) or types.is_date(kind):
                remedy = date_remedy(name)
            elif types.is_duration(kind):
                remedy = time_remedy(name)
            else:
                remedy = next(
                    (text for test, text in _TYPE_REMEDIES.items() if getattr(types, test)(kind)),
                    "",
                )
            raise _type_error(name, kind, remedy, path)
    return arrays


def _type_error(name: str, kind: Any, remedy: str | None, path: Path) -> DataError:
    """The error for a column of another type; remedy : a sentence with NAME for the column."""
    column = f"frame[{printable(name)!r}]"
    shown = (remedy or "").replace("frame[NAME]", column).replace("NAME", repr(printable(name)))
    return DataError(
        f"{path}: column {name!r} is of type {kind}, should be numbers or texts"
        + f"; {shown}" * bool(shown)
        + f"; {dropping(name)} leaves it out"
    )


def _categories(column: Any) -> Column:
    combined = column.unify_dictionaries().combine_chunks()
    texts = [str(text).strip() for text in combined.dictionary.to_pylist()]
    indices = combined.indices
    if combined.null_count:
        indices = indices.fill_null(len(texts))
        texts.append("")
    return Column.of_texts(indices.to_numpy(zero_copy_only=False), texts)
