"""Rows of a raw file chunk by chunk, for `partial_fit` on files larger than memory.

>>> from kbench.data import chunks
>>> for X, y in chunks("big.libsvm", rows=10_000, n_features=784):  # doctest: +SKIP
...     model.partial_fit(X, y, classes=[-1, 1])

The readers, checks and errors are those of `kbench.data.prepare`, but foreign parsers (Parquet) run
in this process.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.configs.keys import KEYS
from kbench.data.formats import place_in_file, require_present
from kbench.errors import ConfigError
from kbench.mistyped import nearest

Chunks = Iterator[tuple[Any, np.ndarray]]
Pieces = Iterator[tuple[Any, np.ndarray, str]]

_NOTHING_MISSING = {"missing": "error", "missing_target": "error"}


def chunks(
    *paths: str | Path,
    format: str = "libsvm",
    rows: int = 65536,
    n_features: int | None = None,
    columns: Mapping[str, Any] | None = None,
    task: str = "binary",
    zero_based: bool | str = "auto",
) -> Chunks:
    """Read a file in chunks of `rows` rows, with memory of a few chunks.

    Parameters
    ----------
    *paths : str or Path
        Files whose rows are concatenated; for npy the file of the features and the file of the
        targets. LIBSVM text and tables may be compressed; a compressed .npy or Parquet file is read
        into memory.
    format : {"libsvm", "csv", "parquet", "npy"}
    rows : int
        Rows per chunk; the last chunk may be smaller. More rows take more memory, fewer cost more
        calls; the default is set by hand.
    n_features : int, optional
        libsvm: number of columns and largest index allowed. If it is None, the files are read
        twice.
    columns : mapping, optional
        csv, parquet: `source.columns` of a config (target, categorical, drop, delimiter, ...). If
        there are columns of texts, the files are read twice: first for their categories.
    task : {"binary", "multiclass", "regression"}
        csv, parquet: targets of a regression have to be numbers; others may be texts, which become
        their index in sorted order.
    zero_based : bool or "auto"
        libsvm: whether indices start at 0. "auto" means that they start at 0 if the files are read
        twice and have an index 0, and at 1 otherwise.

    Yields
    ------
    X : ndarray or csr_matrix, shape (rows, d)
        float64, for npy the type of the file. CSR for LIBSVM text and if there are categories.
    y : ndarray of float64, shape (rows,)
        Targets as in the file.

    Raises
    ------
    ConfigError
        An argument has no valid value.
    DataError
        A file is malformed; the message has `file:line` (text) or `file, row (chunk)`. Chunks
        before the error have been yielded.

    Notes
    -----
    O(bytes) time.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ConfigError(f"rows is {rows!r}, should be a whole number from 1")
    options = read_options(n_features, columns, task, zero_based)
    blocks = pieces(format, [Path(path) for path in paths], rows, options)
    return _chunks_of_rows(((X, y) for X, y, _ in blocks), rows)


def read_options(n_features: Any, columns: Any, task: Any, zero_based: Any) -> dict[str, Any]:
    """A dictionary of these arguments of `chunks`, checked as the keys of a config are."""
    columns = {} if columns is None else columns
    if not isinstance(columns, Mapping):
        raise ConfigError(f"columns is {columns!r}, should be a mapping such as {{'target': 'y'}}")
    column_keys = [key.rpartition(".")[2] for key in KEYS if key.startswith("source.columns.")]
    for name in columns:
        if name not in column_keys:
            hint = nearest(str(name), column_keys) or f"; there are {', '.join(column_keys)}"
            raise ConfigError(f"columns has no key {name!r}{hint}")
    values = {"n_features": n_features, "task": task, "source.zero_based": zero_based}
    values |= {f"source.columns.{name}": value for name, value in columns.items()}
    for key, value in values.items():
        expected = None if value is None else KEYS[key].check(value)
        if expected or (key == "task" and value is None):
            raise ConfigError(
                f"{key.removeprefix('source.')} is {value!r}, should be {expected or 'a task'}"
            )
    return {"n_features": n_features, "columns": columns, "task": task, "zero_based": zero_based}


def pieces(
    format: str, paths: list[Path], rows: int, options: Mapping[str, Any]
) -> Iterator[tuple[Any, np.ndarray, str]]:
    """Pieces of any size: X, y and the place for messages.

    rows : Rows per piece of npy, and per chunk in the messages of Parquet
    options : From `read_options`
    """
    require_readable(format, paths)
    return _READERS[format](paths, rows, options)


def require_readable(format: str, paths: list[Path]) -> None:
    """Raise ConfigError for a format that cannot be read in pieces or a wrong number of files."""
    if format not in _READERS:
        hint = nearest(format, _READERS) or f"; there are {', '.join(_READERS)}"
        raise ConfigError(f"format is {format!r}, which cannot be read in chunks{hint}")
    if format == "npy" and len(paths) != 2:
        raise ConfigError(
            f"format npy needs 2 files, of features and of targets; {len(paths)} were given"
        )
    if not paths:
        raise ConfigError(f"no file of format {format} was given; at least one is needed")


def surveyed(paths: list[Path], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, completed by reading LIBSVM files: the number of columns and the first index."""
    from kbench.data.formats import libsvm

    first_is_zero = None if options["zero_based"] == "auto" else bool(options["zero_based"])
    lowest_index, width = 1, 0
    for path in paths:
        for rows in libsvm.pieces(path, zero_based=first_is_zero):
            lowest_index = min(lowest_index, int(rows.indices.min(initial=1)))
            width = max(width, rows.largest_index)
    zero_based = lowest_index == 0 if first_is_zero is None else first_is_zero
    # If the base is not known, `libsvm.pieces` adds a column for index 0.
    width = max(1, width - (first_is_zero is None and not zero_based))
    return {**options, "n_features": width, "zero_based": zero_based}


def _libsvm(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Pieces:
    from kbench.data.formats import libsvm

    if options["n_features"] is None:
        options = surveyed(paths, options)
    arguments = {"n_features": options["n_features"], "zero_based": options["zero_based"] is True}
    for path in paths:
        for k, rows_of_piece in enumerate(libsvm.pieces(path, **arguments), start=1):
            yield rows_of_piece.to_csr(), rows_of_piece.labels, f"{path}, chunk {k}"


def _npy(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Pieces:
    from kbench.data.formats import arrays

    X, y = (arrays.npy(path) for path in paths)
    arrays.require_shapes(X, y, paths, ("X", "y"))
    for path, name, array in zip(paths, "Xy", (X, y), strict=True):
        arrays.require_numbers(array, path, name)
    for begin in range(0, y.size, rows):
        block = slice(begin, begin + rows)
        arrays.require_numbers_in(X[block], place_in_file(paths[0], begin, rows), {})
        require_present(y[block], place_in_file(paths[1], begin, rows), _NOTHING_MISSING)
        where = f"{paths[0]}, rows from {begin + 1} on"
        yield np.array(X[block]), y[block].astype(np.float64), where


def _csv(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Pieces:
    from kbench.data.formats.csv_text import tables

    return _tables(tables, paths, options)


def _parquet(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Pieces:
    from kbench.data.formats.parquet import tables

    return _tables(partial(tables, chunk=rows), paths, options)


def _tables(
    tables: Callable[..., Iterator[Any]], paths: list[Path], options: Mapping[str, Any]
) -> Pieces:
    from kbench.data.formats.coding import Coding
    from kbench.data.formats.table import Options

    table_options = Options(
        options["columns"], source=_NOTHING_MISSING, text_target=options["task"] != "regression"
    )
    coding = Coding(table_options)
    for path in paths:
        for table in tables(path, table_options):
            coding.learn(table, training=True)
            if coding.only_numbers:
                break  # without columns of texts, later tables add no category
    for path in paths:
        for k, table in enumerate(tables(path, table_options), start=1):
            coding.learn(table, training=False)  # raises an error for other columns
            rows = coding.part([table])
            yield rows.X, rows.y, f"{path}, chunk {k}"


_READERS: dict[str, Callable[[list[Path], int, Mapping[str, Any]], Pieces]] = {
    "libsvm": _libsvm,
    "csv": _csv,
    "parquet": _parquet,
    "npy": _npy,
}


def _chunks_of_rows(pieces: Chunks, rows: int) -> Chunks:
    """The rows of the pieces in chunks of `rows` rows."""
    buffered: list[tuple[Any, np.ndarray]] = []
    n_buffered = 0
    for X, y in pieces:
        buffered.append((X, y))
        n_buffered += y.size
        if n_buffered < rows:
            continue
        X, y = _concatenate(buffered)
        n_left = n_buffered % rows
        for begin in range(0, n_buffered - n_left, rows):
            yield X[begin : begin + rows], y[begin : begin + rows]
        buffered, n_buffered = (
            ([(X[n_buffered - n_left :], y[n_buffered - n_left :])], n_left) if n_left else ([], 0)
        )
    if buffered:
        yield _concatenate(buffered)


def _concatenate(pieces: list[tuple[Any, np.ndarray]]) -> tuple[Any, np.ndarray]:
    if len(pieces) == 1:
        return pieces[0]
    y = np.concatenate([y for _, y in pieces])
    if isinstance(pieces[0][0], np.ndarray):
        return np.vstack([X for X, _ in pieces]), y
    from scipy.sparse import vstack

    return vstack([X for X, _ in pieces], format="csr"), y
