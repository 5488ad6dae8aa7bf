"""Readers of raw files other than LIBSVM text, one module a format.

Each module has `read(parts, source, task)`: the files of the parts `train` and `test`, or `all`,
in, the rows of each part out, as the files have them. A reader is imported when a file of its
format is read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np


class Format(NamedTuple):
    """How the files of a format make up a part.

    Attributes
    ----------
    module : str or None
        In this package; None for LIBSVM text, which has a reader of its own.
    pieces : tuple of str
        The files that a part consists of, `train_images` and `train_labels`; without them a part
        is one file, or several of the same form one after the other: `train_1`, `train_2`.
    splits : bool
        Whether a single file, `all`, may hold both parts.
    """

    module: str | None
    pieces: tuple[str, ...] = ()
    splits: bool = False


FORMATS = {
    "libsvm": Format(None),
    "csv": Format("csv_text"),
    "parquet": Format("parquet"),
    "arff": Format("arff"),
    "idx": Format("idx", pieces=("images", "labels")),
    "npy": Format("arrays", pieces=("X", "y")),
    "npz": Format("arrays", splits=True),
    "mat": Format("arrays"),
    "cifar10": Format("cifar10", splits=True),
    "xyz": Format("molecules"),
}


DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "space": " "}
"""Of CSV text, by their names in a config; `space` is any run of spaces and tabs."""


@dataclass(frozen=True)
class Part:
    """Rows of one part, as its files have them.

    Attributes
    ----------
    X : ndarray or csr_matrix, shape (n, d)
    y : ndarray of float64, shape (n,)
        Targets; where they are texts, places in `labels`.
    labels : tuple of str or None
        The texts, sorted, the same for all parts.
    where : callable
        Row number from 0 -> `file:line`, or `file, row k`.
    layout : Layout or None
        Of a table.
    """

    X: Any
    y: np.ndarray
    labels: tuple[str, ...] | None
    where: Callable[[int], str]
    layout: "Layout | None" = None


class Layout(TypedDict):
    """How the columns of a table became features.

    A later table is read the same way with `source.known` set to {"layout": ..., "labels": ...};
    it may lack the target, which becomes 0, and labels may be unknown, which become NaN.

    columns : dict of str to list of str
        The columns of the features, in order, with the categories of each; none for numbers.
    target : str
    """

    columns: dict[str, list[str]]
    target: str


def read(
    name: str, parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str
) -> dict[str, Part]:
    """The rows of each part.

    Parameters
    ----------
    name : str
        One of FORMATS with a module.
    parts : mapping of str to list of Path
        Files of train and test, or all, in the order of the config.
    source : mapping
        `source` of the config: `columns` and `arrays` say how the files are meant.
    task : str
        A regression's targets are numbers; else they may be texts.

    Raises
    ------
    DataError
        A file is not of the format, or not as `source` says.
    """
    module = import_module(f"{__name__}.{FORMATS[name].module}")
    found: dict[str, Part] = module.read(parts, source, task)
    return found


def row_of(path: Path, begin: int = 0, chunk: int | None = None) -> Callable[[int], str]:
    """`where` of files without lines, for rows from `begin`; with the number of their chunk."""

    def where(row: int) -> str:
        number = begin + row + 1
        if chunk is None:
            return f"{path}, row {number}"
        return f"{path}, row {number} (chunk {(number - 1) // chunk + 1})"

    return where
