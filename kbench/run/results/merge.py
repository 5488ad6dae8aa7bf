"""Compact a results folder: many small files become one file, and no row is lost.

    1. Read every file of rows completely.
    2. Write the newest row of each run to a new file, and flush it to the disk.
    3. Rename each file that was read (an atomic step) to a name that only merges use. Delete it if
       its bytes are unchanged. If the bytes have changed, a run has written its row again in the
       meantime, and the file gets its name back.

A crash after any step leaves every row in at least one file. If a row is in two files, every reader
counts it once. The next merge continues with the remaining files, including renamed ones. The lock
only keeps two merges from doing the same work; without file locks the steps are also safe.

Files that are damaged, hold other data, or come from a newer version of kbench are not changed.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kbench.errors import KbenchError
from kbench.files import remove_abandoned
from kbench.run.results import rows
from kbench.run.results.files import CLAIMED, MERGED, ParquetFile, read_parquet_files, write_merged


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge."""

    path: Path | None  # The merged file; None if there are no rows
    rows: int  # Rows in it
    files: int  # Files that went into it
    replaced: int  # Rows that were dropped because the same run has a newer one
    skipped: list[str]  # Files that were not merged, one line each: `file: reason`

    def __str__(self) -> str:
        if self.path is None:
            text = "nothing to merge: no rows"
        elif self.files == 0:
            text = f"nothing to merge: {self.rows} rows in {self.path.name}"
        else:
            text = f"{self.rows} rows of {self.files} files in {self.path.name}"
        if self.replaced:
            text += f", {self.replaced} older rows dropped"
        return "\n".join([text, *self.skipped])


def merge(folder: Path) -> MergeReport:
    """Compact the rows of `folder` into one file; sweeps and other merges may run at the same time.

    Takes memory for all rows, and O(rows log rows) time.

    Raises KbenchError: the folder cannot be written, or a merged file cannot be removed.
    """
    if not folder.is_dir():
        return MergeReport(None, 0, 0, 0, [])
    with lock(folder):
        for path in [*folder.glob(".*.tmp"), *folder.glob("_*/.*.tmp")]:
            remove_abandoned(path)
        content = read_parquet_files(folder)
        sources, tables, skipped = rows_of(content.files)
        skipped = content.skipped + skipped
        if not tables:
            return MergeReport(None, 0, 0, 0, skipped)
        all_rows = pa.concat_tables(tables)
        newest = rows.newest(all_rows)
        replaced = len(all_rows) - len(newest)
        if len(sources) == 1 and replaced == 0 and sources[0].path.name.startswith(MERGED):
            return MergeReport(sources[0].path, len(newest), 0, 0, skipped)
        path = write_merged(newest, folder)
        try:
            for source in sources:
                _delete_if_unchanged(source)
        except OSError as exc:  # the rows are then in two files, and the next merge removes one
            raise KbenchError(f"cannot remove merged files in {folder}: {exc.strerror}") from exc
    return MergeReport(path, len(newest), len(sources), replaced, skipped)


def finish_killed_merge(folder: Path) -> None:
    """Finish a merge that was killed.

    Every reader calls this, because programs such as pandas do not read files that a merge renamed.
    Nothing happens during another merge, or if the folder cannot be written.
    """
    errors = (OSError, KbenchError, rows.ForeignFileError)
    with contextlib.suppress(*errors), lock(folder, wait=False):
        content = read_parquet_files(folder, is_wanted=lambda name: not name.startswith(CLAIMED))
        _, tables, _ = rows_of(content.files)
        kept_rows = {row for table in tables for row in _identities(table)}
        claimed = read_parquet_files(folder, is_wanted=lambda name: name.startswith(CLAIMED))
        for file in claimed.files:
            if not set(_identities(rows.conform(file.table))) <= kept_rows:
                with contextlib.suppress(FileExistsError):  # the file there has a newer row
                    os.link(file.path, folder / file.path.name.split("-", 2)[2])
            file.path.unlink()


def _identities(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """A tuple for each row of a table, different for different rows."""
    columns = [table[name].to_pylist() for name in (*rows.IDENTITY, "started_at")]
    return zip(*columns, strict=True)


def rows_of(files: list[ParquetFile]) -> tuple[list[ParquetFile], list[pa.Table], list[str]]:
    """The files that hold rows, their rows, and a line for each file that is not changed."""
    sources, tables, skipped = [], [], []
    for file in files:
        if (unknown := rows.newer_column(file.columns)) is not None:
            # Reading ignores the unknown column, but merging would delete it.
            skipped.append(f"{file.path}: left alone, column {unknown!r} is of a newer kbench")
            continue
        try:
            tables.append(rows.conform(file.table))
        except rows.ForeignFileError as exc:
            skipped.append(f"{file.path}: left alone, {exc}")
        else:
            sources.append(file)
    return sources, tables, skipped


def _delete_if_unchanged(source: ParquetFile) -> None:
    """Step 3 of a merge, for a file whose rows are in the merged file."""
    path = source.path
    if path.name.startswith(CLAIMED):  # a merge that was killed renamed it
        path.unlink(missing_ok=True)
        return
    claimed = path.with_name(f"{CLAIMED}{os.urandom(4).hex()}-{path.name}")
    try:
        path.rename(claimed)
    except FileNotFoundError:
        return
    if hashlib.sha256(claimed.read_bytes()).digest() != source.digest:
        # `link` does not overwrite a file with a newer row, which the run wrote meanwhile. Without
        # hard links the file stays claimed, and readers and the next merge read it.
        try:
            os.link(claimed, path)
        except FileExistsError:
            pass
        except OSError:
            return
    claimed.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Lock a folder against other changes of many rows.

    Raises OSError: the folder is locked, and `wait` is false.
    Raises KbenchError: the folder cannot be written.
    """
    try:
        file = (folder / ".merge.lock").open("a")
    except OSError as exc:
        raise KbenchError(f"cannot write in {folder}: {exc.strerror}") from exc
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            if not wait:
                raise
        yield
