"""Rows of a raw file chunk by chunk, for `partial_fit` on files larger than memory.

>>> from kbench.data import chunks
>>> for X, y in chunks("big.libsvm", rows=10_000, n_features=784):  # doctest: +SKIP
...     model.partial_fit(X, y, classes=[-1, 1])

This module uses the readers of a preparation, with the same checks and errors. Foreign parsers
(Parquet) run in this process.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.configs.keys import KEYS
from kbench.data.formats import require_present, row_of
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
        Files whose rows follow one another; for npy the files of the features and of the targets.
        LIBSVM text and tables may be compressed; a compressed .npy or Parquet file is read into
        memory.
    format : {"libsvm", "csv", "parquet", "npy"}
    rows : int
        Rows per chunk; the last chunk may be smaller.
    n_features : int, optional
        libsvm: number of columns and largest index allowed. Without it the files are read twice.
    columns : mapping, optional
        csv, parquet: `source.columns` of a config (target, categorical, drop, delimiter, ...). If
        there are columns of texts, the files are read twice: first for their categories.
    task : {"binary", "multiclass", "regression"}
        csv: targets of a regression have to be numbers; others may be texts, which become their
        index in sorted order.
    zero_based : bool or "auto"
        libsvm: whether indices start at 0. "auto" finds out where the files are read twice, and
        otherwise takes them to start at 1.

    Yields
    ------
    X : ndarray or csr_matrix, shape (rows, d)
        float64, for npy the type of the file. CSR for LIBSVM text and if there are categories.
    y : ndarray of float64, shape (rows,)
        As in the file.

    Raises
    ------
    ConfigError
        An argument has no valid value.
    DataError
        `file:line` (text) or `file, row (chunk)`, what was found, and what would be
        right. Earlier chunks have been yielded by then.

    Notes
    -----
    O(bytes) time.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ConfigError(f"rows is {rows!r}, should be a whole number from 1")
    options = read_options(n_features, columns, task, zero_based)
    blocks = pieces(format, [Path(path) for path in paths], rows, options)
    return _regrouped(((X, y) for X, y, _ in blocks), rows)


def read_options(n_features: Any, columns: Any, task: Any, zero_based: Any) -> dict[str, Any]:
    """These arguments of `chunks`, checked as the keys of a config are."""
    columns = {} if columns is None else columns
    if not isinstance(columns, Mapping):
        raise ConfigError(f"columns is {columns!r}, should be a mapping such as {{'target': 'y'}}")
    known = [key.rpartition(".")[2] for key in KEYS if key.startswith("source.columns.")]
    for name in columns:
        if name not in known:
            hint = nearest(str(name), known) or f"; there are {', '.join(known)}"
            raise ConfigError(f"columns has no key {name!r}{hint}")
    values = {"n_features": n_features, "task": task, "source.zero_based": zero_based}
    values |= {f"source.columns.{name}": value for name, value in columns.items()}
    for path, value in values.items():
        wrong = None if value is None else KEYS[path].check(value)
        if wrong or (path == "task" and value is None):
            raise ConfigError(
                f"{path.removeprefix('source.')} is {value!r}, should be {wrong or 'a task'}"
            )
    return {"n_features": n_features, "columns": columns, "task": task, "zero_based": zero_based}


def pieces(
    format: str, paths: list[Path], rows: int, options: Mapping[str, Any]
) -> Iterator[tuple[Any, np.ndarray, str]]:
    """The rows of files in pieces of any size, each with its file and number for messages.

    `options` : the mapping of `read_options`. `chunks` describes everything else.
    """
    require_readable(format, paths)
    return _READERS[format](paths, rows, options)


def require_readable(format: str, paths: list[Path]) -> None:
    """Raise a ConfigError unless this number of files of this format can be read in pieces."""
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
    """The options with the number of columns of LIBSVM files, and with their first index."""
    from kbench.data.formats import libsvm

    known = None if options["zero_based"] == "auto" else bool(options["zero_based"])
    lowest_index, width = 1, 0
    for path in paths:
        for rows in libsvm.pieces(path, zero_based=known):
            lowest_index = min(lowest_index, int(rows.indices.min(initial=1)))
            width = max(width, rows.largest_index)
    zero_based = lowest_index == 0 if known is None else known
    # With an unknown base, indices were read with a column for 0.
    width = max(1, width - (known is None and not zero_based))
    return {**options, "n_features": width, "zero_based": zero_based}


def _libsvm(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Pieces:
    from kbench.data.formats import libsvm

    if options["n_features"] is None:
        options = surveyed(paths, options)
    how = {"n_features": options["n_features"], "zero_based": options["zero_based"] is True}
    for path in paths:
        for k, rows_of_piece in enumerate(libsvm.pieces(path, **how), start=1):
            yield rows_of_piece.to_csr(), rows_of_piece.labels, f"{path}, chunk {k}"


def _npy(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Pieces:
    from kbench.data.formats import arrays

    X, y = (arrays.npy(path) for path in paths)
    arrays.require_shapes(X, y, paths, ("X", "y"))
    for path, name, array in zip(paths, "Xy", (X, y), strict=True):
        arrays.require_numbers(array, path, name)
    for begin in range(0, y.size, rows):
        part = slice(begin, begin + rows)
        arrays.require_numbers_in(X[part], row_of(paths[0], begin, rows), {})
        require_present(y[part], row_of(paths[1], begin, rows), _NOTHING_MISSING)
        place = f"{paths[0]}, rows from {begin + 1} on"
        yield np.array(X[part]), y[part].astype(np.float64), place


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

    how = Options(
        options["columns"], source=_NOTHING_MISSING, text_target=options["task"] != "regression"
    )
    coding = Coding(how)
    for path in paths:
        for table in tables(path, how):
            coding.learn(table, training=True)
            if coding.only_numbers:
                break
    for path in paths:
        for k, table in enumerate(tables(path, how), start=1):
            coding.learn(table, training=False)  # refuses a file with other columns
            part = coding.part([table])
            yield part.X, part.y, f"{path}, chunk {k}"


_READERS: dict[str, Callable[[list[Path], int, Mapping[str, Any]], Pieces]] = {
    "libsvm": _libsvm,
    "csv": _csv,
    "parquet": _parquet,
    "npy": _npy,
}


def _regrouped(pieces: Chunks, rows: int) -> Chunks:
    """The rows of the pieces in chunks of `rows` rows."""
    held: list[tuple[Any, np.ndarray]] = []
    n = 0
    for X, y in pieces:
        held.append((X, y))
        n += y.size
        if n < rows:
            continue
        X, y = _stacked(held)
        left = n % rows
        for begin in range(0, n - left, rows):
            yield X[begin : begin + rows], y[begin : begin + rows]
        held, n = ([(X[n - left :], y[n - left :])], left) if left else ([], 0)
    if held:
        yield _stacked(held)


def _stacked(pieces: list[tuple[Any, np.ndarray]]) -> tuple[Any, np.ndarray]:
    if len(pieces) == 1:
        return pieces[0]
    y = np.concatenate([y for _, y in pieces])
    if isinstance(pieces[0][0], np.ndarray):
        return np.vstack([X for X, _ in pieces]), y
    from scipy.sparse import vstack

    return vstack([X for X, _ in pieces], format="csr"), y
