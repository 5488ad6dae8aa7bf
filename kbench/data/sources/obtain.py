"""Rows from raw files, bundled tables and generators; facts are checked, rows are split."""

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbench.data import formats
from kbench.data.formats import printable
from kbench.data.preparation.split import split_rows
from kbench.data.preparation.target import numbered, wanted_rows
from kbench.data.sources import bundled, generators, guarded
from kbench.data.sources.folders import FileStatus, is_mirror, part_of
from kbench.data.sources.rows import CsrArrays, DenseRows, GeneratedRows, Rows, SparseRows, join
from kbench.data.sources.spill import spill
from kbench.errors import ConfigError, DataError

# Names that a table's first column has where pandas has written its index.
_INDEX_NAMES = ("", "Unnamed: 0", "index", "__index_level_0__")


def generator(config: Mapping[str, Any]) -> generators.Generator:
    """The generator that a config describes."""
    noise = config.get("noise") or 0.0
    name = config["source"]["generator"]
    return generators.build(name, d=config["d"], seed=config["seed"], noise=noise)


class Loaded(NamedTuple):
    """Rows of a data set, unscaled, with raw targets.

    Attributes
    ----------
    train, test : Rows
    rule : dict
        `target` of the config, labels that are texts replaced by numbers.
    labels : tuple of str or None
        The texts of the numbers.
    layout : Layout or None
        Columns and categories, if the files are tables.
    """

    train: Rows
    test: Rows
    rule: dict[str, Any]
    labels: tuple[str, ...] | None = None
    layout: formats.Layout | None = None


def load(
    config: Mapping[str, Any],
    files: list[FileStatus],
    scratch: Path,
    memory_mb: float | None = None,
) -> Loaded:
    """Training and test rows of a data set.

    Parameters
    ----------
    config : mapping
        Checked.
    files : list of FileStatus
        All present.
    scratch : Path
        A folder for arrays that may be larger than memory. It is made if it is needed; the caller
        deletes it.
    memory_mb : float, optional
        Memory that a guarded reader may use, in MiB; see `kbench.data.sources.guarded`.

    Raises
    ------
    DataError
        A file is malformed, or not the one that the facts describe.
    ConfigError
        The split does not fit the number of rows.
    """
    rule = dict(config.get("target") or {})
    if config["source"]["kind"] == "generator":
        made = generator(config)
        n, n_test = config["n"], config["n_test"]
        return Loaded(GeneratedRows(made, "train", n), GeneratedRows(made, "test", n_test), rule)
    parts, labels, layout = read_parts(config, files, scratch, memory_mb)
    if layout is not None:
        _name_assumed_target(config, layout["target"])
        _name_row_index(config, layout, parts[0])
    rule = numbered(config["task"], rule, labels)
    kept = []
    for part in parts:
        wanted = wanted_rows(part.y, rule)
        kept.append(part if wanted is None else part.take(wanted))
    split = config.get("split") or {}
    own_test = config["source"]["kind"] == "file" and len(kept) == 2
    if len(kept) == 2 and (own_test or split.get("kind", "given") == "given"):
        return Loaded(kept[0], kept[1], rule, labels, layout)
    if split.get("kind", "given") == "given":
        raise ConfigError("dataset.split.kind is given, but the file has one part: random or first")
    whole = join(kept)
    train, test = split_rows(whole.y, split)
    return Loaded(whole.take(train), whole.take(test), rule, labels, layout)


def _name_assumed_target(config: Mapping[str, Any], target: str) -> None:
    """Warn if a user's own file does not say which column is the target."""
    source = config["source"]
    named = (source.get("columns") or {}).get("target") is not None
    if source["kind"] == "file" and not named and not is_mirror(str(config["path"])):
        warnings.warn(
            f"{config['path']}: the last column, {printable(target)!r}, is taken as the target; "
            "dataset.source.columns.target=NAME chooses another",
            stacklevel=2,
        )


def _name_row_index(config: Mapping[str, Any], layout: formats.Layout, rows: Rows) -> None:
    """Warn if the first feature of a user's own file only counts the rows.

    pandas writes such a column without a name, unless it is told `index=False`.
    """
    first = next(iter(layout["columns"]), None)
    if config["source"]["kind"] != "file" or first not in _INDEX_NAMES:
        return
    values = np.concatenate([block[:, 0] for block in rows.blocks()])
    if np.array_equal(values - values[0], np.arange(rows.n)):
        warnings.warn(
            f"{config['path']}: the first column, {printable(first)!r}, counts the rows, as pandas "
            "writes its index, and is taken as a feature; dataset.source.columns.drop=[1] leaves "
            "it out",
            stacklevel=2,
        )


def read_parts(
    config: Mapping[str, Any],
    files: list[FileStatus],
    scratch: Path,
    memory_mb: float | None = None,
) -> tuple[list[Any], tuple[str, ...] | None, formats.Layout | None]:
    """The rows of each part as in the files; and for tables their labels and layout.

    The parameters are those of `load`.
    """
    if files[0].role == "bundled":
        return _bundled(config, files), None, None
    name = config["source"].get("format") or "libsvm"
    if name == "libsvm":
        return _libsvm(config, files, scratch), None, None
    paths: dict[str, list[Path]] = {}
    for file in files:
        assert file.path is not None
        paths.setdefault(part_of(file.role), []).append(file.path)
    request = (name, paths, config["source"], config["task"], _target_range(config))
    if formats.FORMATS[name].guarded:
        rows_by_part = guarded.read(*request, scratch, memory_mb=memory_mb)
    else:
        rows_by_part = formats.read(*request, scratch)
    widths = {part: rows.X.shape[1] for part, rows in rows_by_part.items()}
    if len(set(widths.values())) > 1:
        shown = " and ".join(f"{width} ({part})" for part, width in widths.items())
        raise DataError(f"{config['name']}: the parts have {shown} features, should be the same")
    _check_facts(
        config, {part: rows.y for part, rows in rows_by_part.items()}, max(widths.values()), files
    )
    parts = [
        DenseRows(rows.X, rows.y)
        if isinstance(rows.X, np.ndarray)
        else SparseRows(CsrArrays.of(rows.X), rows.y)
        for rows in rows_by_part.values()
    ]
    first = next(iter(rows_by_part.values()))
    return parts, first.labels, first.layout


def _target_range(config: Mapping[str, Any]) -> list[float] | None:
    """Least and largest target that the facts allow."""
    limits: list[float] | None = (config.get("facts") or {}).get("target")
    return limits


def _bundled(config: Mapping[str, Any], files: list[FileStatus]) -> list[Any]:
    X, y = bundled.load(config["source"]["bundled"], [f.path for f in files if f.path])
    _check_facts(config, {"all": y}, X.shape[1], files)
    return [DenseRows(X, y)]


def _libsvm(config: Mapping[str, Any], files: list[FileStatus], scratch: Path) -> list[Any]:
    """Rows of each LIBSVM file, all of one width, on memory maps in `scratch`."""
    from kbench.data.formats import libsvm

    largest = 0

    def pieces(path: Path) -> Iterator[tuple[Any, np.ndarray]]:
        nonlocal largest
        for rows in libsvm.pieces(path, n_features=config.get("n_features")):
            largest = max(largest, rows.largest_index)
            yield rows.to_csr(), rows.labels

    paths = {file.role: file.path for file in files if file.path is not None}
    parts = spill(((role, pieces(path)) for role, path in paths.items()), scratch)
    where = {role: partial(libsvm.line_of, path) for role, path in paths.items()}
    for role, part in parts.items():
        formats.require_targets(part.y, where[role], _target_range(config))
    for file in files:
        if file.sample is not None:
            parts[file.role] = _draw(parts[file.role], *file.sample, file)
    _check_facts(config, {role: p.y for role, p in parts.items()}, largest, files)
    return list(parts.values())


def _draw(part: Any, n: int, seed: int, file: FileStatus) -> Any:
    if n > part.n:
        raise DataError(f"{file.path}: has {part.n} rows, should have {n} at least")
    return part.take(np.sort(np.random.RandomState(seed).permutation(part.n)[:n]))


def _check_facts(
    config: Mapping[str, Any],
    labels: dict[str, np.ndarray],
    largest: int,
    files: list[FileStatus],
) -> None:
    """Compare what the files hold with the config's facts; DataError names the first difference."""
    facts = config.get("facts") or {}
    fact_of = {"all": "n", "train": "n_train", "test": "n_test"}
    measured: dict[str, Any] = {fact_of[role]: y.size for role, y in labels.items()}
    measured["n_features"] = largest
    classes = np.unique(np.concatenate([np.unique(y) for y in labels.values()]))
    measured["n_classes"] = int(classes.size)
    measured["positives"] = [int(np.sum(y == classes[-1])) for y in labels.values()]
    names: dict[str, str] = {}
    for file in files:
        fact = fact_of.get(part_of(file.role), "n")
        names[fact] = f"{names[fact]} and {file.path}" if fact in names else str(file.path)
    for fact, expected in facts.items():
        if expected is not None and fact in measured and measured[fact] != expected:
            where = names.get(fact) or " and ".join(str(f.path) for f in files)
            raise DataError(
                f"{config['name']}: {fact} is {measured[fact]} in {where}, should be {expected}"
            )
