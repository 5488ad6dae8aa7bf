"""Find the format, name and task of a user's own file, where the config does not set them.

`dataset=file dataset.path=my.csv dataset.source.columns.target=y` is then enough. The format
follows from the suffix, or from the first lines of a text with another suffix; the task follows
from the targets of the first rows (`task_of`). Keys that do not follow from the suffix are listed
in `assumed`, so that the run's line names them.
"""

import re
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data import formats
from kbench.data.formats import guarded
from kbench.data.formats.number_text import labels_of, one_spelling
from kbench.data.sources.content import text_pieces
from kbench.data.sources.folders import (
    COMPRESSION_SUFFIXES,
    absent_message,
    catalogue_table,
    expanded,
    in_catalogue,
    is_file,
)
from kbench.errors import ConfigError, DataError, DataNotFoundError, counted

DEFAULT_NAME = "file"
"""Name in `configs/dataset/file.yaml`; a config with another name keeps it."""

OWN_SPLIT = {"test_fraction": 0.2, "seed": 0}
"""The split in `configs/dataset/file.yaml`, which does not apply to files with own test rows."""

_SNIFFED_BYTES = 1 << 14  # bytes whose lines decide on the format of a text; set by hand

_LIBSVM_ROW = re.compile(
    rb"\s*([^\s,;|]+|[-+.0-9,]+)([ \t]+(qid:[0-9]+|\+?[0-9]+:[ \t]*[^\s:,;|]+))+\s*(#.*)?"
)
"""A row of LIBSVM text. Every field after the label must be a pair `index:value`, because a row of
a table may contain one such field, for example the time 12:30."""

# Suffixes of tables and arrays that are not read. Any other unknown suffix means text.
_NOT_READ = {
    *(".json", ".jsonl", ".xls", ".xlsx", ".ods", ".feather", ".arrow", ".orc", ".pkl", ".pickle"),
    *(".h5", ".hdf5", ".npy", ".rds", ".rdata", ".sav", ".dta", ".sas7bdat"),
}

MAX_CLASSES = 50
"""Number of different whole numbers above which targets are a regression's, not classes. Set by
hand; the run's line names the task."""

_DISTINCT_TEXT_ROWS = 10
"""Number of rows up to which all text targets may differ, as in a first try with a few rows. In
longer files such texts are names or dates, not classes. Set by hand."""

_TASK_ROWS = 100_000
"""Number of rows of text from which the task is found: more rows contain rarer targets, and take
longer. Set by hand."""


def complete(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a user's file with `source.format`, `name` and `task` filled in if absent.

    Other configs are returned as they are. Reads the file only if `task` is absent.

    Raises ConfigError: the format takes several files.
    Raises DataError: the file cannot be read.
    Raises DataNotFoundError: the file is needed to find the task, and there is none.
    """
    source = dict(config.get("source") or {})
    path = config.get("path")
    if source.get("kind") != "file" or not isinstance(path, str):
        return dict(config)
    assumed = list(config.get("assumed") or [])
    file = expanded(catalogue_table(path) if in_catalogue(path) else path)
    uncompressed = file.with_suffix("") if file.suffix in COMPRESSION_SUFFIXES[1:] else file
    if source.get("format") is None:
        if uncompressed.suffix.lower() in _NOT_READ:
            raise DataError(
                f"dataset.path={path}: kbench does not read {uncompressed.suffix} files; pandas "
                "can write the table as Parquet (to_parquet), NumPy two arrays as savez(FILE, X=X, "
                "y=y)"
            )
        source["format"] = format_by_suffix(str(file))
        if source["format"] is None:
            source["format"] = "csv" if is_file(file) and _is_table(file) else "libsvm"
            assumed += ["format"] if source["format"] == "csv" else []
    test_path = config.get("test_path")
    test_format = format_by_suffix(test_path) if isinstance(test_path, str) else None
    if format_by_suffix(str(file)) and test_format not in (None, source["format"]):
        raise DataError(
            f"dataset.test_path={test_path} is a {test_format} file, but dataset.path is "
            f"{source['format']}, should be files of one format"
        )
    file_format = formats.FORMATS.get(source["format"])
    if file_format and file_format.pieces:
        raise ConfigError(
            f"dataset.source.format is {source['format']}, which takes several files for each "
            "part; a data set with source.files names them"
        )
    completed = {**config, "source": source}
    if config.get("name") == DEFAULT_NAME:
        completed["name"] = own_name(path)
    if config.get("task") is None and file_format:
        if is_file(file):
            completed["task"] = task_of(source["format"], {"all": [file]}, source)
            assumed.append("task")
        elif not in_catalogue(path):
            raise DataNotFoundError(f"dataset.path: {absent_message(file)}")
    return {**completed, "assumed": assumed} if assumed else completed


def own_name(path: str) -> str:
    """The name of a user's file as a data set, without the suffix of a format."""
    file = Path(path)
    uncompressed = file.with_suffix("") if file.suffix in COMPRESSION_SUFFIXES[1:] else file
    is_format = (
        uncompressed.suffix in formats.SUFFIXES or uncompressed.suffix[1:] in formats.FORMATS
    )
    name = uncompressed.stem if is_format else uncompressed.name
    # NFC joins accents, which may be separate characters that are not letters.
    name = unicodedata.normalize("NFC", name)
    return re.sub(r"[^\w.-]", "_", name).lstrip("._-") or DEFAULT_NAME


def format_by_suffix(path: str) -> str | None:
    """The format by the suffix of a plain or compressed file; None if the suffix names none."""
    file = Path(path)
    uncompressed = file.with_suffix("") if file.suffix in COMPRESSION_SUFFIXES[1:] else file
    return formats.SUFFIXES.get(uncompressed.suffix.lower())


def _is_table(path: Path) -> bool:
    """Whether most of the first lines of a text have several fields, and none has LIBSVM pairs."""
    try:
        head = next((text for _, text, _ in text_pieces(path)), b"")
    except DataError:  # the reader of the file raises it again
        return False
    lines = head[:_SNIFFED_BYTES].removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1]
    if b"\0" in head[:_SNIFFED_BYTES]:
        return False
    rows = [line for line in lines if line.strip() and not line.startswith(b"#")]
    has_pairs = any(map(_LIBSVM_ROW.fullmatch, rows))
    two_fields = re.compile(rb"[^\s,;|][ \t]*[,;|\t ][ \t]*[^\s]")
    table_lines = [line for line in rows if two_fields.search(line.strip())]
    return bool(rows) and not has_pairs and len(table_lines) > len(rows) // 2


def task_of(format_name: str, parts: Mapping[str, list[Path]], source: Mapping[str, Any]) -> str:
    """The task that the targets of some files suggest.

    format_name : Format of the files
    parts : The files of each part, by the name of the part
    source : `source` of the config

    Returns binary for two different targets; multiclass for texts, and for at most MAX_CLASSES
    different whole numbers; otherwise regression.

    Raises DataError: most rows have different texts, such as dates or names; or all rows have the
    same target.
    """
    targets: set[float | str] = set()
    labels = targets
    n_rows = 0
    for values in _targets(format_name, parts, source):
        targets.update(values.tolist())
        n_rows += values.size
        labels = _as_labels(targets)
        numbers = [value for value in labels if isinstance(value, float)]
        # Float64 does not distinguish whole numbers from 2^53 on, so they are not classes.
        no_class = any(v % 1 or abs(v) >= 2.0**53 for v in numbers)
        if len(labels) > 2 and (len(numbers) > MAX_CLASSES or no_class):
            return "regression"
        if n_rows >= _TASK_ROWS and len(labels) > 1:  # the rows may be sorted by their targets
            break
    texts = [value for value in labels if isinstance(value, str)]
    if len(labels) == 1:
        first_path = next(path for paths in parts.values() for path in paths)
        (value,) = labels
        label = f"{value:.17g}" if isinstance(value, float) else formats.excerpt(value)
        rounded = isinstance(value, float) and abs(value) >= 2.0**53
        raise DataError(
            f"{first_path}: the target is {label!r} in all {n_rows} rows"
            + ", as float64 rounds whole numbers from 2^53 on" * rounded
            + ", should have two values at least"
            + "; dataset.source.columns.target=NAME chooses another column"
            * formats.FORMATS[format_name].table
        )
    if len(texts) > max(MAX_CLASSES, n_rows // 2) or len(texts) == n_rows > _DISTINCT_TEXT_ROWS:
        first_path = next(path for paths in parts.values() for path in paths)
        raise DataError(
            f"{first_path}: the target has {len(texts)} different texts in {n_rows} rows, as "
            f"{formats.excerpt(min(texts))!r}, which are not classes; "
            "dataset.source.columns.target=NAME chooses another column, dataset.task=multiclass "
            "accepts them nevertheless"
        )
    return "binary" if len(labels) == 2 else "multiclass"


def require_rows_for_folds(config: Mapping[str, Any]) -> None:
    """Refuse more folds than a user's file has rows with a target, before each fold becomes a run.

    config : A checked config. Text is read only until there are as many rows as folds.
    """
    source, folds = config["source"], (config.get("split") or {}).get("folds")
    path = expanded(str(config.get("path")))
    if source.get("kind") != "file" or not folds or not is_file(path):
        return
    n = 0
    for values in _targets(source["format"], {"all": [path]}, source):
        n += values.size
        if n >= folds:
            return
    raise ConfigError(f"dataset.split.folds is {folds}, there are {counted(n, 'row')}")


def _targets(
    format_name: str, parts: Mapping[str, list[Path]], source: Mapping[str, Any]
) -> Iterator[np.ndarray]:
    """Yield the targets of all files in pieces: arrays of float64, or of texts."""
    paths = [path for files in parts.values() for path in files]
    # Features may be missing, as only targets are read; a test file may have further columns.
    source = {**source, "missing": "allowed", "missing_target": "drop", "some_files": True}
    if format_name == "libsvm":
        from kbench.data.formats import libsvm

        for path in paths:
            allowed = {"missing": True, "missing_target": True}
            for rows in libsvm.pieces(path, zero_based=None, **allowed):
                yield rows.labels[~np.isnan(rows.labels)]
        return
    if format_name == "csv":
        from kbench.data.formats.csv_text import tables
        from kbench.data.formats.table import Options

        options = Options(source.get("columns") or {}, source=source, several=True)
        for path in paths:
            for table in tables(path, options):
                assert table.target is not None
                column = table.columns[table.target]
                yield np.array(column.categories, dtype=object)[column.values]
        return
    with tempfile.TemporaryDirectory() as folder:
        request = (format_name, parts, {**source, "format": format_name}, "multiclass", None)
        read = guarded.read if formats.FORMATS[format_name].guarded else formats.read
        rows_by_part = read(*request, Path(folder) / "arrays")
        for part in rows_by_part.values():
            labels = part.labels
            y = np.array(part.y)[np.isfinite(part.y)]
            yield y if labels is None else np.array(labels, dtype=object)[y.astype(np.intp)]


def _as_labels(targets: set[float | str]) -> set[float | str]:
    """The labels among the targets; texts that are all numbers become numbers."""
    texts = {value for value in targets if isinstance(value, str)}
    labels = one_spelling(labels_of(texts))
    number_of = {text: formats.number(text) for text in labels}
    numbers = {value for value in number_of.values() if value is not None}
    converted = numbers if None not in number_of.values() else labels
    return {*converted, *(targets - texts)}
