"""Readers of raw files, one module per format.

Each module except `libsvm` has `read(parts, source, task)`. It takes the files of the parts `train`
and `test`, or `all`, and returns the rows of each part as the files hold them. Readers of tables
also take a folder, to which they write features that may be larger than memory. A module is
imported when a file of its format is read. Files are found and decompressed in `sources`; rows are
scaled and split in `preparation`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from kbench.config import hydra_value
from kbench.errors import DataError, KbenchError

FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
"""Least magnitude that rounds to infinity in float32."""


class Format(NamedTuple):
    """A file format, and how its files form a part of a data set."""

    # Module of this package with `read`; None for LIBSVM text, see `kbench.data.formats.libsvm`.
    module: str | None
    # The files of a part that consists of files of different content, for example `train_images`
    # and `train_labels`. In other formats a part is one file, or several files of the same form
    # that are concatenated: `train_1`, `train_2`.
    pieces: tuple[str, ...] = ()
    splits: bool = False  # Whether a single file, `all`, may hold training and test rows
    # Whether files are read by a child process (`kbench.data.formats.guarded`), because a damaged
    # file may crash the parser or make it allocate without bound.
    guarded: bool = True
    # Whether the module's `read` takes a folder for the features, see `features_file`.
    table: bool = False

    @property
    def options(self) -> str | None:
        """The key of `source` that describes how to read such files; None if there is none."""
        if self.module is None:
            return "zero_based"
        return "columns" if self.table else "arrays" if self.module == "arrays" else None


FORMATS = {
    "libsvm": Format(None, guarded=False),
    "csv": Format("csv_text", guarded=False, table=True),
    "parquet": Format("parquet", table=True),
    "arff": Format("arff", guarded=False, table=True),
    "idx": Format("idx", pieces=("images", "labels")),
    "npy": Format("arrays", pieces=("X", "y"), guarded=False),
    "npz": Format("arrays", splits=True),
    "mat": Format("arrays"),
    "cifar10": Format("cifar10", splits=True),
    "xyz": Format("molecules"),
}

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arff": "arff",
    ".npz": "npz",
    ".mat": "mat",
}
"""Formats of a user's files by their suffixes; a file with another suffix is LIBSVM text."""

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
"""Delimiters of CSV text by their names in a config; `space` is any run of spaces and tabs."""


@dataclass(frozen=True)
class PartRows:
    """Rows of one part, as its files hold them."""

    # ndarray or csr_matrix, shape (n, d): numbers in float64, or in the type of the file's arrays;
    # a missing number is NaN.
    X: Any
    # (n,) float64: targets, or indices into `labels` if the file's targets are texts. A missing
    # target is NaN.
    y: np.ndarray
    labels: tuple[str, ...] | None  # The texts of targets, sorted, the same for all parts
    # Maps a row number from 0 to `file:line` or `file, row k`. None for rows that a child process
    # has read and checked.
    where: Callable[[int], str] | None
    layout: "ColumnLayout | None" = None  # None if the file is not a table
    # (n,) int64: rows with equal numbers stay on one side of a random split.
    groups: np.ndarray | None = None
    # What the reader assumed or left out, one sentence each, the same for all parts.
    notes: tuple[str, ...] = ()
    n_without_target: int = 0  # Number of rows that the reader left out for lack of a target


class ColumnLayout(TypedDict):
    """How the columns of a table became features.

    A later table is read the same way if `source.known` is {"layout": ..., "labels": ...}. If it
    lacks the target column, all targets are missing. A target text that the training file lacks
    becomes NaN, and is appended to `PartRows.labels`.

    columns : dict of str to list of str
        The feature columns, in order, with the categories of each; an empty list means numbers.
    target : str
    rare : dict of str to list of str
        Categories that share one feature, the last one of their column.
    group : str or None
        The column of the groups of rows, which is not a feature.
    marks : dict of str to list of str
        The signs beside the numbers of a column, such as "%"; other columns have no signs.
    decimal : str
        The character before the decimals, if a file of text shows it.
    left_out : list of str
        Columns that do not become features: those that the config drops, an index of the rows,
        texts that are all rare. Later rows may lack these columns.
    """

    columns: dict[str, list[str]]
    target: str
    rare: NotRequired[dict[str, list[str]]]
    group: NotRequired[str | None]
    marks: NotRequired[dict[str, list[str]]]
    decimal: NotRequired[str]
    left_out: NotRequired[list[str]]


def read(
    name: str,
    parts: Mapping[str, list[Path]],
    source: Mapping[str, Any],
    task: str,
    target_range: Sequence[float] | None,
    folder: Path,
) -> dict[str, PartRows]:
    """Read the rows of each part.

    name : A key of FORMATS that has a module
    parts : mapping of str to list of Path
        Files of train and test, or all, in the order of the config.
    source : `source` of the config, whose keys `columns` and `arrays` describe the files, and three
        more keys. `missing`: "error" refuses a missing number, otherwise it becomes NaN.
        `missing_target`: "error" refuses a missing target; otherwise a reader of tables leaves the
        row out, and other readers return NaN. `some_files`: whether the data set has other files.
    task : Targets of a regression must be numbers; targets of other tasks may be texts
    target_range : Least and largest target allowed (`facts.target`)
    folder : Where readers of tables write features; made if needed. Returned arrays map its files,
        so the caller deletes the folder when the rows are no longer used.

    Raises DataError: a file has another format or does not match `source`, or has a target
    outside `target_range`.
    """
    module = import_module(f"{__name__}.{FORMATS[name].module}")
    scratch = (folder,) if FORMATS[name].table else ()
    rows_by_part: dict[str, PartRows] = module.read(parts, source, task, *scratch)
    for part in rows_by_part.values():
        assert part.where is not None
        require_targets(part.y, part.where, target_range)
    return rows_by_part


def features_file(folder: Path, part: str) -> Path:
    """The .npy file of the dense features of a part."""
    return folder / f"{part}.X.npy"


MISSING_REMEDY = (
    "dataset.missing=mean, median or indicator fills such values, dataset.missing=drop leaves the "
    "rows out"
)
# An infinite number comes from an error such as a division by zero, so it is not filled as a
# missing number is, unless the user writes nan in its place.
INFINITE_REMEDY = "write nan in its place if it is missing (dataset.missing), or leave the row out"
LINE_END_REMEDY = "lines should end in LF or CR LF; `tr '\\r' '\\n' < FILE` makes them so"
MISSING_TARGET_REMEDY = "dataset.target.missing=drop leaves such rows out"


def require_present(
    y: np.ndarray, where: Callable[[int], str], source: Mapping[str, Any], name: str = ""
) -> None:
    """Refuse a missing target if `source.missing_target` is "error", and an infinite one always.

    y : (n,), NaN for a missing target. name : The target's column.
    """
    about = f" {name!r}" if name else ""
    infinite = np.flatnonzero(np.isinf(y))
    if infinite.size:
        row = int(infinite[0])
        raise DataError(
            f"{where(row)}: target{about} is {y[row]}, should be a finite number; write nan in its "
            "place if it is missing"
        )
    if source.get("missing_target") != "error":
        return
    missing = np.flatnonzero(np.isnan(y))
    if missing.size:
        raise DataError(
            f"{where(int(missing[0]))}: target{about} is missing; {MISSING_TARGET_REMEDY}"
        )


def require_targets(
    y: np.ndarray, where: Callable[[int], str], target_range: Sequence[float] | None
) -> None:
    """Refuse a target outside `target_range` (least, largest); y : (n,).

    Without a range, targets should lie in that of float32: squares of targets from 1e154 on, which
    scales and scores sum, are infinite.
    """
    low, high = target_range or (-FLOAT32_OVERFLOW, FLOAT32_OVERFLOW)
    outside = np.flatnonzero((y < low) | (y > high))
    if outside.size:
        raise DataError(
            f"{where(int(outside[0]))}: target {y[outside[0]]:g}, should be from {low:g} to "
            f"{high:g}"
        )


@contextmanager
def parsing(path: Path, expected: str) -> Iterator[None]:
    """Turn every exception of a parser into one DataError that names the file.

    For damaged files NumPy, SciPy, pyarrow and the standard library raise exceptions of many
    classes (RuntimeError, KeyError, TokenError, StopIteration, ...), so all exceptions are caught.

    expected : The kind of file in words, such as "a Parquet file"
    """
    try:
        yield
    except KbenchError:
        raise
    except MemoryError:
        raise DataError(
            f"{path}: needs more memory than is allowed or available, should be a smaller file; "
            "limits.memory_mb raises the limit"
        ) from None
    except Exception as error:
        reason = printable(str(error)) or type(error).__name__
        raise DataError(
            f"{path}: damaged or another format, should be {expected} ({reason})"
        ) from None


def printable(text: str, length: int = 200) -> str:
    """`text` as one line of at most `length` characters, control characters as `\\x00`.

    The default length bounds messages; it is set by hand.
    """
    characters = (c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split())[:length])
    return "".join(characters)[:length]


def excerpt(text: str) -> str:
    """The beginning of a field or line, as messages quote it; its length is set by hand."""
    return printable(text, 60)


def listed(names: Iterable[str]) -> str:
    """At most twelve of the names (set by hand), separated by commas, for a message."""
    shown = list(islice(names, 13))
    return printable(", ".join(shown[:12])) + (", ..." if len(shown) > 12 else "") or "nothing"


def dropping(name: str) -> str:
    """The override, for a message, that leaves a column out; cut off at 400 characters."""
    return f"dataset.source.columns.drop={printable(hydra_value([name]), 400)}"


def number(text: str) -> float | None:
    """The number in a field of a text file, nan and inf included; None for other texts.

    Unlike Python's `float`, it refuses `1_000` and digits of other scripts.
    """
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def finite_number(text: str) -> float:
    """The finite number in a field of a text file; NaN for other texts."""
    value = number(text)
    return value if value is not None and math.isfinite(value) else math.nan


def place_in_file(path: Path, begin: int = 0, chunk: int | None = None) -> Callable[[int], str]:
    """A function from a row number to `file, row k`, for files without lines.

    begin : Number of rows before row 0
    chunk : Rows per chunk, if the text should also name the chunk
    """
    return partial(_place, path, begin, chunk)


def _place(path: Path, begin: int, chunk: int | None, row: int) -> str:
    k = begin + row + 1
    return f"{path}, row {k}" + (f" (chunk {(k - 1) // chunk + 1})" if chunk else "")
