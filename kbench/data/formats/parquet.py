"""Reader of Parquet tables: texts and dictionaries are categories, other columns numbers.

The index that pandas stores beside the columns, and names in the file's metadata, is left out.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unicodedata import normalize

from kbench.data.formats import PartRows, parsing, row_of
from kbench.data.formats.arrow import columns
from kbench.data.formats.coding import read_tables
from kbench.data.formats.table import Options, Roles, Table, checked_table, roles_of
from kbench.data.sources.content import read as read_bytes
from kbench.errors import DataError

_MAGIC = b"PAR1"
_BATCH_VALUES = 1 << 18  # values decoded at a time: 2 MiB in float64; set by hand
_BUFFER_BYTES = 1 << 16  # bytes of a column that are read at a time; set by hand


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
        # With pyarrow's defaults a row group, which may be the whole file, is read at once.
        opened = parquet.ParquetFile(
            path if plain else pa.BufferReader(read_bytes(path)),
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
        )
        with opened:
            names = [normalize("NFC", name) for name in opened.schema_arrow.names]
            least = 2 if options.known is None else 1  # later rows need no target
            if len(names) < least or len(set(names)) < len(names):
                twice = [name for name, n in Counter(names).items() if n > 1]
                fault = f"two columns {twice[0]!r}" if twice else f"{len(names)} columns"
                raise DataError(f"{path}: {fault}, should be two at least, of different names")
            roles = roles_of(names, options, path, _index(opened.schema_arrow.metadata, names))
            rows = max(1, _BATCH_VALUES // max(1, len(names)))
            # An iterator over all groups would keep the pages of those that it has read.
            for group in range(opened.num_row_groups):
                for batch in opened.iter_batches(rows, row_groups=[group], use_threads=False):
                    if batch.num_rows:
                        table = pa.Table.from_batches([batch]).rename_columns(names)
                        where = row_of(path, n, chunk)
                        arrays = columns(_kept(table, roles, path, options), path)
                        texts = (name for name, column in arrays.items() if column.categories)
                        options.typed_texts.update(texts)
                        options.note_plain(arrays)
                        yield checked_table(path, arrays, roles, batch.num_rows, where, options)
                        n += batch.num_rows
    if not n:
        raise DataError(f"{path}: no rows")


def _index(metadata: Mapping[bytes, bytes] | None, names: list[str]) -> list[str]:
    """The columns that are pandas' index; none if it only counts the rows and is not stored."""
    try:
        stored = json.loads((metadata or {})[b"pandas"])["index_columns"]
        index = {normalize("NFC", name) for name in stored if isinstance(name, str)}
        return [name for name in names if name in index]
    except (KeyError, TypeError, ValueError):
        return []


def _kept(table: Any, roles: Roles, path: Path, options: Options) -> Any:
    """The table without dropped columns; categories and groups as texts, also without any value."""
    table = table.drop_columns(sorted(roles.dropped))
    texts = roles.texts | ({roles.group} if roles.group is not None else set())
    typed = options.typed_texts & {*table.column_names}
    empty = {name for name in typed if table.column(name).null_count == table.num_rows}
    for name in sorted(texts | empty):
        place = table.column_names.index(name)
        table = table.set_column(place, name, _as_texts(table.column(name), name, path))
    return table


def _as_texts(column: Any, name: str, path: Path) -> Any:
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise DataError(
            f"{path}: column {name!r} is of type {column.type}, should be numbers or texts"
        ) from None
