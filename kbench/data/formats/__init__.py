"""Readers of raw files other than LIBSVM text, one module per format.

Each module has `read(parts, source, task)`. It takes the files of the parts `train` and `test`, or
`all`, and returns the rows of each part as the files hold them. Readers of tables also take a
folder, in which they keep features that may be larger than memory. A module is imported when a file
of its format is read.
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
    """How files of a format form a part of a data set."""

    # Module of this package. LIBSVM text has none: `kbench.data.formats.libsvm` reads it.
    module: str | None
    # The files of a part if it needs several of different content, for example `train_images` and
    # `train_labels`. A part of any other format is one file, or several files of the same form that
    # are concatenated: `train_1`, `train_2`.
    pieces: tuple[str, ...] = ()
    splits: bool = False  # Whether a single file, `all`, may hold training and test rows
    # Whether files are read by a child process (`kbench.data.formats.guarded`), because a damaged
    # file may crash the parser or make it allocate without bound.
    guarded: bool = True
    # Whether the module's `read` takes a folder for the features, see `features_file`.
    table: bool = False

    @property
    def options(self) -> str | None:
        """The key of `source` that says how such files are interpreted."""
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
"""Formats that the suffix of a user's file stands for; any other file is LIBSVM text."""

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
"""Delimiters of CSV text by their names in a config; `space` is any run of spaces and tabs."""


@dataclass(frozen=True)
class PartRows:
    """Rows of one part, as its files hold them."""

    # ndarray or csr_matrix, shape (n, d): numbers in float64, or in the type of the file's arrays;
    # a missing one is NaN.
    X: Any
    # (n,) float64: targets. If the file's targets are texts: indices into `labels`. A missing one
    # is NaN.
    y: np.ndarray
    labels: tuple[str, ...] | None  # The texts, sorted, the same for all parts
    # Maps a row number from 0 to `file:line` or `file, row k`. None for rows that a child process
    # has read and checked.
    where: Callable[[int], str] | None
    layout: "ColumnLayout | None" = None  # Of a table
    # (n,) int64: rows with equal numbers stay on one side of a random split.
    groups: np.ndarray | None = None
    # What the reader assumed or left out, one sentence each, the same for all parts.
    notes: tuple[str, ...] = ()
    n_without_target: int = 0  # Rows that the reader has left out because they lack a target


class ColumnLayout(TypedDict):
    """How the columns of a table became features.

    A later table is read the same way if `source.known` is {"layout": ..., "labels": ...}. It may
    lack the target, which then is missing. A text that the training file lacks becomes NaN, and
    follows those of the training file in `PartRows.labels`.

    columns : dict of str to list of str
        The feature columns, in order, with the categories of each; an empty list for numbers.
    target : str
    rare : dict of str to list of str
        Categories that share one feature, the last one of their column.
    group : str or None
        The column of the groups of rows, which is not a feature.
    marks : dict of str to list of str
        The signs beside the numbers of a column, such as "%"; none in columns that it lacks.
    decimal : str
        The character before the decimals, where a file of text shows it.
    left_out : list of str
        Columns that do not become features although the config does not drop them: an index of the
        rows, texts that are all rare. Later rows may have them or not.
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
    source : `source` of the config: `columns` and `arrays` say how to interpret the files. Three
        keys are added to it. `missing`: with "error" a missing number is refused, otherwise it
        becomes NaN. `missing_target`: with "error" a missing target is refused, otherwise its row
        is left out, by the reader of a table, and for arrays and LIBSVM text by the caller, who
        gets NaN. `some_files`: whether these are not all files of the data set.
    task : Targets of a regression must be numbers; targets of other tasks may be texts
    target_range : Least and largest target allowed (`facts.target`)
    folder : Where readers of tables keep features; it is made if it is needed. The arrays map files
        in it, so the caller deletes it when the rows are no longer used.

    Raises DataError: a file is not of the format, differs from what `source` says, or has a target
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
    """The .npy file of the dense features of a part, where a reader or its caller keeps them."""
    return folder / f"{part}.X.npy"


MISSING_REMEDY = (
    "dataset.missing=mean, median or indicator fills such values, dataset.missing=drop leaves the "
    "rows out"
)
# An infinite number says that something went wrong, such as a division by zero: it is not filled as
# a missing one is, unless the user has made it one.
INFINITE_REMEDY = "write nan in its place if it is missing (dataset.missing), or leave the row out"
LINE_END_REMEDY = "lines should end in LF or CR LF; `tr '\\r' '\\n' < FILE` makes them so"
MISSING_TARGET_REMEDY = "dataset.target.missing=drop leaves such rows out"


def require_present(
    y: np.ndarray, where: Callable[[int], str], source: Mapping[str, Any], name: str = ""
) -> None:
    """Refuse a missing target if `source.missing_target` is "error", and an infinite one always.

    y : (n,), NaN where the target is missing; name : of the target's column.
    """
    shown = f" {name!r}" if name else ""
    infinite = np.flatnonzero(np.isinf(y))
    if infinite.size:
        row = int(infinite[0])
        raise DataError(
            f"{where(row)}: target{shown} is {y[row]}, should be a finite number; write nan in its "
            "place if it is missing"
        )
    if source.get("missing_target") != "error":
        return
    missing = np.flatnonzero(np.isnan(y))
    if missing.size:
        raise DataError(
            f"{where(int(missing[0]))}: target{shown} is missing; {MISSING_TARGET_REMEDY}"
        )


def require_targets(
    y: np.ndarray, where: Callable[[int], str], target_range: Sequence[float] | None
) -> None:
    """Refuse a target outside `target_range` (least, largest); y : (n,)."""
    if not target_range:
        return
    low, high = target_range
    outside = np.flatnonzero((y < low) | (y > high))
    if outside.size:
        raise DataError(
            f"{where(int(outside[0]))}: target {y[outside[0]]:g}, should be from {low:g} to "
            f"{high:g}"
        )


@contextmanager
def parsing(path: Path, expected: str) -> Iterator[None]:
    """Turn every exception of a parser into one DataError that names the file.

    NumPy, SciPy, pyarrow and the standard library raise whatever a damaged file leads them to
    (RuntimeError, KeyError, TokenError, StopIteration, ...), so all exceptions are caught.

    expected : What the file should be, with its article: "a Parquet file"
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
    """`text` as one line of at most `length` characters, control characters as `\\x00`."""
    shown = (c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split())[:length])
    return "".join(shown)[:length]


def listed(names: Iterable[str]) -> str:
    """The first twelve of some names that a file holds, for a message."""
    shown = list(islice(names, 13))
    return printable(", ".join(shown[:12])) + (", ..." if len(shown) > 12 else "") or "nothing"


def dropping(name: str) -> str:
    """The word of a command that leaves a column out."""
    return f"dataset.source.columns.drop={printable(hydra_value([name]), 400)}"


def number(text: str) -> float | None:
    """The number that a field of a text file spells, nan and inf included; None for other texts.

    Python's own `float` would also take `1_000` and digits of other scripts.
    """
    if "_" in text or not text.isascii():
        return None
    try:
        return float(text)
    except ValueError:
        return None


def finite_number(text: str) -> float:
    """As `number`, but NaN for anything that is not a finite number."""
    value = number(text)
    return value if value is not None and math.isfinite(value) else math.nan


def row_of(path: Path, begin: int = 0, chunk: int | None = None) -> Callable[[int], str]:
    """A function from a row number to `file, row k`, for files without lines.

    begin : Number of rows before row 0
    chunk : Rows per chunk; the text then names the chunk too
    """
    return partial(_row, path, begin, chunk)


def _row(path: Path, begin: int, chunk: int | None, row: int) -> str:
    place = begin + row + 1
    return f"{path}, row {place}" + (f" (chunk {(place - 1) // chunk + 1})" if chunk else "")
