"""Reader of Parquet tables: texts and dictionaries are categories, other columns are numbers.

pandas' index, which the file's metadata name, is left out.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unicodedata import normalize

from kbench.data.formats import PartRows, parsing, place_in_file
from kbench.data.formats.arrow import columns
from kbench.data.formats.coding import read_tables
from kbench.data.formats.table import Options, Roles, Table, checked_table, roles_of
from kbench.data.sources.content import read as read_bytes
from kbench.errors import DataError

_MAGIC = b"PAR1"
# More values or bytes at a time need more memory, fewer cost more calls. Set by hand.
_BATCH_VALUES = 1 << 18  # values decoded at a time: 2 MiB in float64
_BUFFER_BYTES = 1 << 16  # bytes of a column that are read at a time


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str, folder: Path
) -> dict[str, PartRows]:
    """Rows of each part; see `kbench.data.formats.read`."""
    return read_tables(parts, source, task, folder, tables)


def tables(path: Path, options: Options, *, chunk: int | None = None) -> Iterator[Table]:
    """Read a file batch by batch, with memory for a page and the dictionary of each column.

    A file that is compressed as a whole is decompressed into memory.

    path : The file, which may be compressed as a whole
    chunk : Rows per chunk, if errors should give the number of the chunk
    """
    import pyarrow as pa
    from pyarrow import parquet

    n = 0
    with parsing(path, "a Parquet file"):
        with open(path, "rb") as raw:
            plain = raw.read(len(_MAGIC)) == _MAGIC
        # By default pyarrow would read a row group, which may be the whole file, at once.
        source = parquet.ParquetFile(
            path if plain else pa.BufferReader(read_bytes(path)),
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
        )
        with source:
            names = [normalize("NFC", name) for name in source.schema_arrow.names]
            min_columns = 2 if options.known is None else 1  # later rows need no target
            if len(names) < min_columns or len(set(names)) < len(names):
                repeated = [name for name, count in Counter(names).items() if count > 1]
                fault = f"two columns {repeated[0]!r}" if repeated else f"{len(names)} columns"
                raise DataError(f"{path}: {fault}, should be two at least, of different names")
            metadata = source.schema_arrow.metadata
            roles = roles_of(names, options, path, _index_columns(metadata, names))
            if options.known is None:
                categorical = _categorical_columns(metadata, names) - {
                    *roles.dropped,
                    roles.target,
                    roles.group,
                }
                roles = roles._replace(texts=roles.texts | categorical)
            rows = max(1, _BATCH_VALUES // max(1, len(names)))
            # An iterator over all groups would keep the pages of all groups in memory.
            for group in range(source.num_row_groups):
                for batch in source.iter_batches(rows, row_groups=[group], use_threads=False):
                    if batch.num_rows:
                        table = pa.Table.from_batches([batch]).rename_columns(names)
                        where = place_in_file(path, n, chunk)
                        arrays = columns(_used_columns(table, roles, path, options), path)
                        texts = (name for name, column in arrays.items() if column.categories)
                        options.typed_texts.update(texts)
                        options.note_plain(arrays)
                        yield checked_table(path, arrays, roles, batch.num_rows, where, options)
                        n += batch.num_rows
    if not n:
        raise DataError(f"{path}: no rows")


def _index_columns(metadata: Mapping[bytes, bytes] | None, names: list[str]) -> list[str]:
    """The columns that are pandas' index; empty if the index is not stored as a column."""
    try:
        index_names = json.loads((metadata or {})[b"pandas"])["index_columns"]
        index = {normalize("NFC", name) for name in index_names if isinstance(name, str)}
        return [name for name in names if name in index]
    except (KeyError, TypeError, ValueError):
        return []


def _categorical_columns(metadata: Mapping[bytes, bytes] | None, names: list[str]) -> set[str]:
    """The columns that are categories in pandas; Parquet keeps no dictionary of numbers."""
    try:
        columns = json.loads((metadata or {})[b"pandas"])["columns"]
        kinds = {normalize("NFC", str(c["name"])): c["pandas_type"] for c in columns}
        return {name for name in names if kinds.get(name) == "categorical"}
    except (KeyError, TypeError, ValueError):
        return set()


def _used_columns(table: Any, roles: Roles, path: Path, options: Options) -> Any:
    """The table without dropped columns, with categories, groups and empty typed texts as texts."""
    table = table.drop_columns(sorted(roles.dropped))
    texts = roles.texts | ({roles.group} if roles.group is not None else set())
    typed_texts = options.typed_texts & {*table.column_names}
    empty = {name for name in typed_texts if table.column(name).null_count == table.num_rows}
    for name in sorted(texts | empty):
        index = table.column_names.index(name)
        table = table.set_column(index, name, _as_texts(table.column(name), name, path))
    return table


def _as_texts(column: Any, name: str, path: Path) -> Any:
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise DataError(
            f"{path}: column {name!r} is of type {column.type}, should be numbers or texts"
        ) from None
