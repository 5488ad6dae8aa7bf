"""Write Parquet files of a folder, and read them while other processes write and merge files."""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.errors import ConfigError, first_line
from kbench.files import atomic_file

if TYPE_CHECKING:
    import pyarrow as pa

# Prefix of a file that `kbench.run.results.merge` has renamed and not yet deleted.
CLAIMED = ".claimed-"
# Prefix of a file that holds rows of many runs.
MERGED = "merged-"


@dataclass(frozen=True)
class ParquetFile:
    """The content of a file at one moment."""

    path: Path
    digest: bytes  # SHA-256 of the bytes read
    table: "pa.Table"  # The requested columns that the file has
    columns: tuple[str, ...]  # All columns of the file


@dataclass(frozen=True)
class FolderContent:
    """The files that were read, and a line for each file that could not be read."""

    files: list[ParquetFile]
    skipped: list[str]


def read_parquet_files(
    folder: Path,
    columns: Sequence[str] | None = None,
    is_wanted: Callable[[str], bool] = lambda name: True,
) -> FolderContent:
    """Read every Parquet file of `folder` without its sub-folders; an absent folder is empty.

    A merge writes rows to a new file before it deletes the old files. Names are therefore listed
    again after reading, until there is no new name. No row is missed, but a row may occur twice.

    columns : Names of columns; a file may lack some. is_wanted : Whether a file name is read.
    """
    files: list[ParquetFile] = []
    skipped: list[str] = []
    read_names: set[str] = set()
    while new_names := {name for name in _parquet_names(folder) - read_names if is_wanted(name)}:
        for name in sorted(new_names):
            _read_file(folder / name, columns, files, skipped)
        read_names |= new_names
    return FolderContent(files, skipped)


def _parquet_names(folder: Path) -> set[str]:
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return set()
    except OSError as exc:
        raise ConfigError(f"cannot read the folder {folder}: {exc.strerror}") from exc
    return {
        name
        for name in names
        if name.endswith(".parquet") and (name[0] not in "._" or name.startswith(CLAIMED))
    }


def _read_file(
    path: Path, columns: Sequence[str] | None, files: list[ParquetFile], skipped: list[str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe could wait for ever
            skipped.append(f"{path}: skipped, not a regular file")
            return
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as exc:
        skipped.append(f"{path}: skipped, {exc.strerror}")
        return
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        names = tuple(file.schema_arrow.names)
        present_columns = None if columns is None else [name for name in columns if name in names]
        table = file.read(columns=present_columns, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as exc:
        skipped.append(f"{path}: skipped, not a readable Parquet file ({first_line(exc)})")
        return
    files.append(ParquetFile(path, hashlib.sha256(content).digest(), table, names))


def write_parquet(table: "pa.Table", path: Path) -> None:
    """Write a file of rows or curves, atomically."""
    import pyarrow.parquet as pq

    with atomic_file(path) as file:
        pq.write_table(table, file, compression="zstd")


def write_merged(table: "pa.Table", folder: Path) -> Path:
    """Write rows of many runs to a file with a new name."""
    path = folder / f"{MERGED}{os.urandom(6).hex()}.parquet"
    write_parquet(table, path)
    return path
