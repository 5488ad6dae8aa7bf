"""Columns of an Arrow table as arrays: numbers become float32, texts become categories."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats.table import Column
from kbench.errors import DataError


def columns(
    table: Any, target: str | None, path: Path, where: Callable[[int], str]
) -> dict[str, Column]:
    """The columns of a `pyarrow.Table`; a missing number is NaN.

    Parameters
    ----------
    table : pyarrow.Table
        Its columns are numbers, booleans, texts or dictionaries of texts.
    target : str or None
        Name of the column whose numbers are kept in float64.
    path : Path
        The file, for errors.
    where : callable
        Maps a row number from 0 to its place in the file, for errors.

    Raises
    ------
    DataError
        A column has another type, or a text is missing.
    """
    import pyarrow as pa
    from pyarrow import types

    arrays = {}
    for name in table.column_names:
        column = table.column(name)
        kind = column.type
        if types.is_string(kind) or types.is_large_string(kind):
            column = column.dictionary_encode()
        elif types.is_boolean(kind):
            column = column.cast(pa.int8())
        if types.is_dictionary(column.type):
            arrays[name] = _categories(column, name, where)
        elif types.is_floating(column.type) or types.is_integer(column.type):
            values = column.to_numpy()
            arrays[name] = Column(values.astype(np.float64 if name == target else np.float32))
        else:
            raise DataError(
                f"{path}: column {name!r} is of type {kind}, should be numbers or texts; "
                "dataset.source.columns.drop leaves it out"
            )
    return arrays


def _categories(column: Any, name: str, where: Callable[[int], str]) -> Column:
    whole = column.unify_dictionaries().combine_chunks()
    if whole.null_count:
        row = int(np.flatnonzero(whole.is_null().to_numpy(zero_copy_only=False))[0])
        raise DataError(f"{where(row)}: column {name!r} is missing, should be a text")
    texts = [str(text).strip() for text in whole.dictionary.to_pylist()]
    categories = tuple(dict.fromkeys(texts))
    place = {text: k for k, text in enumerate(categories)}
    lookup = np.array([place[text] for text in texts], dtype=np.int32)
    codes = whole.indices.to_numpy()
    return Column(lookup[codes] if lookup.size else codes.astype(np.int32), categories)
