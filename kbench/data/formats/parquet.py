"""Reader of Parquet tables: texts and dictionaries are categories, all else numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.data.content import read as read_bytes
from kbench.data.formats import Part, row_of
from kbench.data.formats.arrow import columns
from kbench.data.formats.table import Table, chosen, read_tables, require_finite, target_of
from kbench.errors import DataError


def read(parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str) -> dict[str, Part]:
    """Rows of each part; see `kbench.data.formats.read`. Memory: the whole of each file."""
    return read_tables(parts, source, _table)


def _table(path: Path, options: Mapping[str, Any]) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        found = parquet.read_table(pa.BufferReader(read_bytes(path)), use_threads=False)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: no Parquet file, or damaged ({reason})") from None
    names = found.column_names
    if not names or not found.num_rows:
        raise DataError(f"{path}: no rows")
    target = target_of(names, options, path)
    dropped = set(chosen(names, options, "drop", path)) - {target}
    found = found.drop_columns(sorted(dropped))
    for name in chosen(names, options, "categorical", path):
        if name not in dropped and name != target:
            place = found.column_names.index(name)
            found = found.set_column(place, name, _as_texts(found.column(name), name, path))
    arrays = columns(found, target, path)
    require_finite(arrays, path)
    return Table(path, arrays, target, found.num_rows, row_of(path))


def _as_texts(column: Any, name: str, path: Path) -> Any:
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise DataError(
            f"{path}: column {name!r} is of type {column.type}, should be numbers or texts"
        ) from None
