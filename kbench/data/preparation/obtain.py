"""Load rows from raw files, bundled tables and generators; check facts and split the rows."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbench.data import formats
from kbench.data.configs.dataset import require_effect
from kbench.data.formats import FORMATS, guarded, printable
from kbench.data.preparation.column_notes import column_notes
from kbench.data.preparation.copied_rows import copied_rows
from kbench.data.preparation.imputation import STRATEGIES, Imputation, rows_with_missing
from kbench.data.preparation.imputation import learn as learn_imputation
from kbench.data.preparation.split import is_stratified, split_rows
from kbench.data.preparation.target import numbered, wanted_rows
from kbench.data.sources import bundled, generators
from kbench.data.sources.folders import FileStatus, in_catalogue, part_of
from kbench.data.sources.rows import CsrArrays, DenseRows, GeneratedRows, Rows, SparseRows, join
from kbench.data.sources.spill import spill
from kbench.errors import ConfigError, DataError, counted

# Number of test rows below which the line of a run warns: one row of ten changes an accuracy by ten
# points. A larger number would also warn about scores that are accurate enough. Set by hand.
_FEW_ROWS = 10


def generator(config: Mapping[str, Any]) -> generators.Generator:
    """The generator that a config describes."""
    noise = config.get("noise") or 0.0
    name = config["source"]["generator"]
    return generators.build(name, d=config["d"], seed=config["seed"], noise=noise)


class Loaded(NamedTuple):
    """Rows of a data set, unscaled, with raw targets."""

    # Rows without missing numbers.
    train: Rows
    test: Rows
    rule: dict[str, Any]  # `target` of the config, in which text labels are replaced by numbers
    labels: tuple[str, ...] | None = None  # The text label of each number
    layout: formats.ColumnLayout | None = None  # Columns and categories, if the files are tables
    imputation: Imputation | None = None  # The values that replaced missing numbers
    # Whether indices of LIBSVM text start at 0; None for other formats.
    zero_based: bool | None = None
    notes: tuple[str, ...] = ()  # What was assumed, left out or filled, one sentence each


class RawParts(NamedTuple):
    """The rows of each part as in the files; the other attributes are as in `Loaded`.

    n_without_target : Number of rows that the reader left out because they lack a target.
    """

    parts: list[Any]
    labels: tuple[str, ...] | None = None
    layout: formats.ColumnLayout | None = None
    zero_based: bool | None = None
    notes: tuple[str, ...] = ()
    n_without_target: int = 0


def load(
    config: Mapping[str, Any],
    files: list[FileStatus],
    scratch: Path,
    memory_mb: float | None = None,
) -> Loaded:
    """Training and test rows of a data set.

    config : Checked
    files : All present
    scratch : A folder for arrays that may be larger than memory; made if needed, deleted by the
        caller.
    memory_mb : Memory that a guarded reader may use, in MiB; see `kbench.data.formats.guarded`

    Raises DataError: a file is malformed, or not the one that the facts describe.
    Raises ConfigError: the split does not fit the number of rows.
    """
    rule = dict(config.get("target") or {})
    if config["source"]["kind"] == "generator":
        gen = generator(config)
        n, n_test = config["n"], config["n_test"]
        return Loaded(GeneratedRows(gen, "train", n), GeneratedRows(gen, "test", n_test), rule)
    raw = read_parts(config, files, scratch, memory_mb)
    notes = [*_assumptions(config, raw), *raw.notes]
    rule = numbered(config["task"], rule, raw.labels)
    parts, missing_notes = _without_missing(config, raw)
    wanted_parts = []
    for part in parts:
        indices = wanted_rows(part.y, rule)
        wanted_parts.append(part if indices is None else part.take(indices))
    train, test, row_notes = _train_and_test(config, wanted_parts)
    if rule.get("train") == "normal":
        normal = np.flatnonzero(~np.isin(train.y, rule["outlier"]))
        row_notes.append(f"{train.n - normal.size} outliers are left out of the training rows")
        train = train.take(normal)
    if config["source"]["kind"] == "file" and (copies_note := copied_rows(train, test)):
        row_notes.append(copies_note)
    if config["source"]["kind"] == "file" and test.n < _FEW_ROWS:
        row_notes.append(
            f"scores are of {counted(test.n, 'test row')} alone, too few to be accurate; "
            "`kbench tune` with tune.cv=5 compares on all training rows"
        )
    imputation = None
    kind = config.get("missing") or "error"
    if kind in STRATEGIES:
        n_missing = [int(rows_with_missing(rows).sum()) for rows in (train, test)]
        imputation = learn_imputation(kind, train, column_names(raw.layout))
        train, test = imputation.of(train), imputation.of(test)
        if any(n_missing):
            row_notes.append(
                f"missing numbers in {n_missing[0]} training and {n_missing[1]} test rows are "
                f"filled with the {STRATEGIES[kind]} of the training rows"
                + f"; indicator features added: {imputation.indicated.size}"
                * (kind == "indicator")
            )
    return Loaded(
        train,
        test,
        rule,
        raw.labels,
        raw.layout,
        imputation,
        raw.zero_based,
        (*notes, *missing_notes, *row_notes),
    )


def _without_missing(config: Mapping[str, Any], raw: RawParts) -> tuple[list[Any], list[str]]:
    """The parts without rows that lack the target or, with `missing: drop`, a number; and notes."""
    usable_parts, n_targets, n_numbers = [], raw.n_without_target, 0
    for part in raw.parts:
        usable = np.isfinite(part.y)
        n_targets += int(np.count_nonzero(~usable))
        if config.get("missing") == "drop":
            complete = ~rows_with_missing(part)
            n_numbers += int(np.count_nonzero(usable & ~complete))
            usable &= complete
        usable_parts.append(part if usable.all() else part.take(np.flatnonzero(usable)))
    notes = []
    if n_targets:
        notes.append(
            f"{counted(n_targets, 'row')} without a target left out; dataset.target.missing=error "
            "refuses such rows"
        )
    if n_numbers:
        notes.append(f"{counted(n_numbers, 'row')} with a missing number left out")
    for part, key in zip(usable_parts, ("path", "test_path"), strict=False):
        if part.n == 0:
            file = config.get(key) or config["name"]
            if n_numbers:
                raise DataError(
                    f"{file}: no row is left, each lacks a number; dataset.source.columns.drop="
                    "[NAME] leaves out a column of gaps, dataset.missing=mean fills them"
                )
            raise DataError(
                f"{file}: no row is left, each lacks a target or a number; "
                "dataset.source.columns.target=NAME chooses another column as the target"
            )
    return usable_parts, notes


def _train_and_test(config: Mapping[str, Any], parts: list[Any]) -> tuple[Any, Any, list[str]]:
    """Training rows, test rows, and notes about stratification and groups."""
    split = config.get("split") or {}
    own_test = config["source"]["kind"] == "file" and len(parts) == 2
    if len(parts) == 2 and (own_test or split.get("kind", "given") == "given"):
        require_effect(config, own_test=own_test)
        return parts[0], parts[1], []
    if split.get("kind", "given") == "given":
        raise ConfigError(
            "dataset.split.kind is given, but the file has one part, should be random or first"
        )
    all_rows = join(parts)
    groups = all_rows.groups
    notes = []
    if split.get("stratified") and not is_stratified(split):
        notes.append(
            "the split is not stratified, as dataset.split.n_train and n_test name numbers of "
            "rows: dataset.split.test_fraction alone keeps the proportions of the classes"
        )
    if split["kind"] != "random" or split.get("group") is False:
        note = "rows of one group may be in both parts, as dataset.split"
        key = ".group is false" if split["kind"] == "random" else f".kind is {split['kind']}"
        notes += [] if groups is None else [note + key]
        train, test = split_rows(all_rows.y, split)
        return all_rows.take(train), all_rows.take(test), notes
    if groups is None and split.get("group"):
        raise ConfigError(
            "dataset.split.group is true, but the rows have no groups: a table has them in the "
            "column that dataset.source.columns.group names, LIBSVM text as qid:NUMBER, an .npz or "
            ".mat file as an array groups"
        )
    train, test = split_rows(all_rows.y, split, groups)
    if groups is not None:
        counts = [np.unique(groups[rows]).size for rows in (train, test)]
        notes.append(
            f"rows of one group ({_group_name(config)}) stay together: {counts[0]} groups train, "
            f"{counts[1]} test; dataset.split.group=false divides single rows"
        )
    return all_rows.take(train), all_rows.take(test), notes


def _group_name(config: Mapping[str, Any]) -> str:
    """What holds the groups of the rows, for messages: a column, an array, or qid."""
    source = config["source"]
    name = (source.get("columns") or {}).get("group")
    if FORMATS[source.get("format") or "libsvm"].options == "arrays":
        name = (source.get("arrays") or {}).get("groups") or "groups"
    return "qid" if name is None else printable(str(name))


def column_names(layout: formats.ColumnLayout | None) -> Callable[[int], str]:
    """A function from the number of a feature, from 0, to its name in messages."""
    names: list[str] = []
    rare = {} if layout is None else layout.get("rare", {})
    for name, categories in ({} if layout is None else layout["columns"]).items():
        names += [repr(printable(name))] * max(1, len(categories) + (name in rare))
    return lambda j: names[j] if j < len(names) else str(j + 1)


def _assumptions(config: Mapping[str, Any], raw: RawParts) -> list[str]:
    """Notes about the format, target and task that were assumed for a user's own file."""
    source, assumed, notes = config["source"], config.get("assumed") or [], []
    if source["kind"] != "file":
        return []
    if "format" in assumed:
        notes.append(
            f"the file is read as {source['format']}, as its name does not say its format; "
            "dataset.source.format=... sets it"
        )
    target = None if raw.layout is None else raw.layout["target"]
    has_target = (source.get("columns") or {}).get("target") is not None
    if target is not None and not has_target and not in_catalogue(str(config["path"])):
        notes.append(
            f"the last column, {printable(target)!r}, is taken as the target; "
            "dataset.source.columns.target=NAME chooses another"
        )
    if "task" in assumed:
        y = np.concatenate([part.y for part in raw.parts])
        n = np.unique(y[np.isfinite(y)]).size
        other = "multiclass" if config["task"] == "regression" else "regression"
        values = counted(n, "different value" if raw.labels is None else "different text")
        notes.append(
            f"the task is {config['task']}, as the target has {values}; "
            f"dataset.task={other} sets another"
        )
    if raw.layout is not None:
        notes += column_notes(raw.layout, raw.parts[0], config["task"])
    return notes


def read_parts(
    config: Mapping[str, Any],
    files: list[FileStatus],
    scratch: Path,
    memory_mb: float | None = None,
) -> RawParts:
    """The rows of each part as in the files, missing numbers and targets included if allowed.

    The parameters are those of `load`.
    """
    if files[0].role == "bundled":
        return RawParts(_load_bundled(config, files))
    name = config["source"].get("format") or "libsvm"
    source = {
        "missing": config.get("missing") or "error",
        "missing_target": (config.get("target") or {}).get("missing") or "drop",
        **config["source"],
    }
    if name == "libsvm":
        return _load_libsvm(config, files, scratch, source)
    paths: dict[str, list[Path]] = {}
    for file in files:
        assert file.path is not None
        paths.setdefault(part_of(file.role), []).append(file.path)
    request = (name, paths, source, config["task"], _target_range(config))
    if formats.FORMATS[name].guarded:
        rows_by_part = guarded.read(*request, scratch, memory_mb=memory_mb)
    else:
        rows_by_part = formats.read(*request, scratch)
    widths = {part: rows.X.shape[1] for part, rows in rows_by_part.items()}
    if len(set(widths.values())) > 1:
        counts = " and ".join(f"{width} ({part})" for part, width in widths.items())
        raise DataError(f"{config['name']}: the parts have {counts} features, should be the same")
    _check_facts(
        config, {part: rows.y for part, rows in rows_by_part.items()}, max(widths.values()), files
    )
    parts = [
        DenseRows(rows.X, rows.y, groups=rows.groups)
        if isinstance(rows.X, np.ndarray)
        else SparseRows(CsrArrays.of(rows.X), rows.y, groups=rows.groups)
        for rows in rows_by_part.values()
    ]
    first = next(iter(rows_by_part.values()))
    left_out = sum(rows.n_without_target for rows in rows_by_part.values())
    return RawParts(parts, first.labels, first.layout, None, first.notes, left_out)


def _target_range(config: Mapping[str, Any]) -> list[float] | None:
    """Least and largest target that the facts allow."""
    limits: list[float] | None = (config.get("facts") or {}).get("target")
    return limits


def _load_bundled(config: Mapping[str, Any], files: list[FileStatus]) -> list[Any]:
    X, y = bundled.load(config["source"]["bundled"], [f.path for f in files if f.path])
    _check_facts(config, {"all": y}, X.shape[1], files)
    return [DenseRows(X, y)]


def _load_libsvm(
    config: Mapping[str, Any], files: list[FileStatus], scratch: Path, source: Mapping[str, Any]
) -> RawParts:
    """Rows of each LIBSVM file, all with equal numbers of columns, on memory maps in `scratch`.

    Unless `source.zero_based` is set, indices start at 0 in all files if any file has an index 0,
    so they are shifted after the last file. source : As in `kbench.data.formats.read`.
    """
    from kbench.data.formats import libsvm

    zero_based_key = source.get("zero_based")
    allowed = {key: source[key] != "error" for key in ("missing", "missing_target")}
    auto, n_features = zero_based_key in (None, "auto"), config.get("n_features")
    first_is_zero = None if auto else bool(zero_based_key)
    largest_index, lowest_index = 0, 1
    with_zero: set[Path] = set()  # files in which the index 0 occurs

    def pieces(path: Path) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
        nonlocal largest_index, lowest_index
        for rows in libsvm.pieces(path, n_features=n_features, zero_based=first_is_zero, **allowed):
            largest_index = max(largest_index, rows.largest_index)
            if auto and rows.indices.size:
                lowest = int(rows.indices.min())
                lowest_index = min(lowest_index, lowest)
                if lowest == 0:
                    with_zero.add(path)
            yield rows.to_csr(), rows.labels, rows.groups

    def columns(width: int) -> tuple[int, int]:
        """The first column in the arrays, and the number of columns."""
        first = int(auto and lowest_index == 1)
        return first, n_features or max(1, width - first)

    paths = {file.role: file.path for file in files if file.path is not None}
    parts = spill(((role, pieces(path)) for role, path in paths.items()), scratch, columns)
    zero_based = lowest_index == 0 if auto else bool(zero_based_key)
    largest_index -= auto and not zero_based
    if n_features is not None and largest_index > n_features:
        for path in paths.values():  # raises an error that names the line
            deque(libsvm.pieces(path, n_features=n_features, zero_based=True, **allowed), maxlen=0)
    where = {role: partial(libsvm.line_of, path) for role, path in paths.items()}
    for role, part in parts.items():
        formats.require_targets(part.y, where[role], _target_range(config))
    for file in files:
        if file.sample is not None:
            parts[file.role] = _sampled(parts[file.role], *file.sample, file)
    _check_facts(config, {role: p.y for role, p in parts.items()}, largest_index, files)
    note = "indices start at 0, as the index 0 occurs; dataset.source.zero_based=false refuses it"
    if without_zero := [str(path) for path in paths.values() if path not in with_zero]:
        note += (
            f"; {without_zero[0]} has no index 0: if its indices start at 1, its features are not "
            "those of the other file, and all files should start alike"
        )
    notes = (note,) if auto and zero_based else ()
    return RawParts(list(parts.values()), zero_based=zero_based, notes=notes)


def _sampled(part: Any, n: int, seed: int, file: FileStatus) -> Any:
    """n random rows of `part`, in the order of the file."""
    if n > part.n:
        raise DataError(f"{file.path}: has {part.n} rows, should have {n} at least")
    return part.take(np.sort(np.random.RandomState(seed).permutation(part.n)[:n]))


def _check_facts(
    config: Mapping[str, Any],
    labels: dict[str, np.ndarray],
    n_features: int,
    files: list[FileStatus],
) -> None:
    """Raise DataError for the first fact of the config that the files do not fulfil."""
    facts = config.get("facts") or {}
    fact_of = {"all": "n", "train": "n_train", "test": "n_test"}
    measured: dict[str, Any] = {fact_of[role]: y.size for role, y in labels.items()}
    measured["n_features"] = n_features
    # A missing target does not count as a class.
    classes = np.unique(np.concatenate([np.unique(y[np.isfinite(y)]) for y in labels.values()]))
    measured["n_classes"] = int(classes.size)
    if classes.size:
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
