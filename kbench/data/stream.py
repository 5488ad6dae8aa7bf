"""Rows of a raw file chunk by chunk, for `partial_fit` on files larger than memory.

>>> from kbench.data import chunks
>>> for X, y in chunks("big.libsvm", rows=10_000, n_features=784):  # doctest: +SKIP
...     model.partial_fit(X, y, classes=[-1, 1])

It uses the readers of a preparation, with the same checks and errors. Foreign parsers (Parquet) run
in this process.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kbench.config import nearest
from kbench.data.formats import row_of
from kbench.errors import ConfigError

Chunks = Iterator[tuple[Any, np.ndarray]]


def chunks(
    *paths: str | Path,
    format: str = "libsvm",
    rows: int = 65536,
    n_features: int | None = None,
    columns: Mapping[str, Any] | None = None,
    task: str = "binary",
) -> Chunks:
    """Read a file in chunks of `rows` rows, with memory of a few chunks.

    Parameters
    ----------
    *paths : str or Path
        The file; for npy the files of the features and of the targets. LIBSVM text and tables may
        be compressed; a compressed .npy or Parquet file is read into memory.
    format : {"libsvm", "csv", "parquet", "npy"}
    rows : int
        Rows per chunk; the last chunk may be smaller.
    n_features : int, optional
        libsvm: number of columns and largest index allowed. Without it the file is read twice.
    columns : mapping, optional
        csv, parquet: `source.columns` of a config (target, categorical, drop, delimiter, ...). If
        there are columns of texts, the file is read twice: first for their categories.
    task : {"binary", "multiclass", "regression"}
        csv: targets of a regression have to be numbers; others may be texts, which become their
        index in sorted order.

    Yields
    ------
    X : ndarray or csr_matrix, shape (rows, d)
        float32, for npy the type of the file. CSR for LIBSVM text and if there are categories.
    y : ndarray of float64, shape (rows,)
        As in the file.

    Raises
    ------
    ConfigError
        An argument has no valid value.
    DataError
        `file:line` (text) or `file, row (chunk)`, what was found, and what would be right. Earlier
        chunks have been yielded by then.

    Notes
    -----
    O(bytes) time.
    """
    if format not in _READERS:
        hint = nearest(format, _READERS) or f"; there are {', '.join(_READERS)}"
        raise ConfigError(f"format is {format!r}, which cannot be read in chunks{hint}")
    wanted = 2 if format == "npy" else 1
    if len(paths) != wanted:
        raise ConfigError(f"{len(paths)} files of format {format}, should be {wanted}")
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ConfigError(f"rows is {rows!r}, should be a whole number from 1")
    options = {"n_features": n_features, "columns": columns or {}, "task": task}
    return _READERS[format]([Path(path) for path in paths], rows, options)


def _libsvm(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Chunks:
    from kbench.data import libsvm  # imports numba

    width = options["n_features"]
    if width is None:
        for found in libsvm.pieces(paths[0]):
            width = found.n_features
    pieces = libsvm.pieces(paths[0], n_features=max(width, 1))
    yield from _regrouped(((found.to_csr(), found.labels) for found in pieces), rows)


def _npy(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Chunks:
    from kbench.data.formats import arrays

    X, y = (arrays.npy(path) for path in paths)
    arrays.require_shapes(X, y, paths, ("X", "y"))
    for path, name, array in zip(paths, "Xy", (X, y), strict=True):
        arrays.require_numbers(array, path, name)
    for begin in range(0, y.size, rows):
        part = slice(begin, begin + rows)
        arrays.require_finite(X[part], row_of(paths[0], begin, rows))
        arrays.require_finite_targets(y[part], row_of(paths[1], begin, rows))
        yield np.array(X[part]), y[part].astype(np.float64)


def _csv(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Chunks:
    from kbench.data.formats.csv_text import tables

    text_target = options["task"] != "regression"
    yield from _tables(partial(tables, text_target=text_target), paths[0], rows, options)


def _parquet(paths: list[Path], rows: int, options: Mapping[str, Any]) -> Chunks:
    from kbench.data.formats.parquet import tables

    yield from _tables(partial(tables, chunk=rows), paths[0], rows, options)


def _tables(
    tables: Callable[..., Iterator[Any]], path: Path, rows: int, options: Mapping[str, Any]
) -> Chunks:
    from kbench.data.formats.table import Coding

    coding = Coding(options["columns"])
    for table in tables(path, options["columns"]):
        coding.learn(table, training=True)
        if coding.only_numbers:
            break
    parts = (coding.part([table]) for table in tables(path, options["columns"]))
    yield from _regrouped(((part.X, part.y) for part in parts), rows)


_READERS: dict[str, Callable[[list[Path], int, Mapping[str, Any]], Chunks]] = {
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
