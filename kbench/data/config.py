"""What the config of a data set may hold, in one table, and its check before anything is loaded.

`configs/dataset/<name>.yaml` holds these keys, and `configs/config.yaml` what each of them is where
that file does not say; the command line sets any of them (`dataset.scale=none`). A variant is the
form in which one paper uses the data: a named set of the same keys that replace the data set's own.
Where a variant is chosen its keys win; one of them is changed by
`dataset.variants.<variant>.<key>=...`.
"""

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kbench.config import nearest
from kbench.data.folders import BUNDLED_FILES, part_of
from kbench.data.formats import FORMATS
from kbench.errors import ConfigError

TASKS = ("binary", "multiclass", "regression")
SCALES = ("none", "unit", "symmetric", "standard", "unit_global")
GENERATORS = ("covtype_like", "noisy_function")
USES = ("svm", "dcsvm", "krr", "approx", "hss", "dcpred", "dsgd")

Check = Callable[[Any], str | None]
"""Says what would be right where a value is wrong, else None."""


def _one_of(*allowed: str) -> Check:
    return lambda v: None if v in allowed else f"one of {', '.join(allowed)}"


def _whole(least: int) -> Check:
    def check(value: Any) -> str | None:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if good else f"a whole number from {least}"

    return check


def _number(value: Any) -> str | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    good = number and abs(value) < float("inf")
    return None if good else "a finite number"


def _not_negative(value: Any) -> str | None:
    return None if not _number(value) and value >= 0 else "a number from 0"


def _share(value: Any) -> str | None:
    return None if not _number(value) and 0 < value < 1 else "a number between 0 and 1"


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "text"


def _truth(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _name(value: Any) -> str | None:
    good = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value)
    return None if good else "a name of letters, digits, '.', '_' and '-'"


def _sha256(value: Any) -> str | None:
    good = isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value)
    return None if good else "64 hexadecimal digits"


def _numbers(value: Any) -> str | None:
    good = isinstance(value, list) and value and not any(_number(v) for v in value)
    return None if good else "a list of numbers"


def _texts(value: Any) -> str | None:
    good = isinstance(value, list) and value and not any(_text(v) for v in value)
    return None if good else "a list of texts"


def _labels(value: Any) -> str | None:
    good = not _numbers(value) or not _texts(value)
    return None if good else "a list of numbers, or of texts"


def _range(value: Any) -> str | None:
    good = not _numbers(value) and len(value) == 2 and value[0] <= value[1]
    return None if good else "two numbers, the least and the largest"


def _column(value: Any) -> str | None:
    place = isinstance(value, int) and not isinstance(value, bool) and value != 0
    return None if place or not _text(value) else "a column's name, or its place from 1 (-1: last)"


def _columns(value: Any) -> str | None:
    good = isinstance(value, list) and not any(_column(v) for v in value)
    return None if good else "a list of columns: names, or places from 1 (-1 is the last)"


class Key(NamedTuple):
    check: Check
    meaning: str
    optional: bool = True
    """Whether null, or no such key at all, is fine."""


KEYS: dict[str, Key] = {
    "name": Key(_name, "as in `dataset=`, in rows and tables", optional=False),
    "about": Key(_text, "what the rows and the target are, in one line"),
    "homepage": Key(_text, "page that describes the data"),
    "licence": Key(_text, "terms of use, or where they are found"),
    "task": Key(_one_of(*TASKS), f"{' | '.join(TASKS)}", optional=False),
    "source.kind": Key(
        _one_of("files", "sklearn", "generator", "file"),
        "files: of a named data set | sklearn: a set bundled with scikit-learn | generator |"
        " file: one of yours, at `path`",
        optional=False,
    ),
    "source.format": Key(
        _one_of(*FORMATS),
        "of the files: libsvm (where nothing is said) | csv: text with delimiters | parquet |"
        " arff | idx: bytes as MNIST has them | npy: pairs of arrays | npz: `X` and `y`, or"
        " `X_train`, `y_train`, `X_test`, `y_test` | mat: MATLAB | cifar10: its tar archive |"
        " xyz: tar archive of molecules and a table of their energies",
    ),
    "source.columns.delimiter": Key(
        _one_of("comma", "semicolon", "tab", "space"),
        "csv: what stands between fields; else what the first line has most of",
    ),
    "source.columns.header": Key(
        _truth, "csv: whether the first line names the columns; else: where it has no number"
    ),
    "source.columns.names": Key(
        _texts, "csv: names of the columns in order; else as the header has them, or 1, 2, ..."
    ),
    "source.columns.target": Key(
        _column, "csv, parquet, arff: the target, by name or by place from 1; -1, the last, if null"
    ),
    "source.columns.categorical": Key(
        _columns, "csv, parquet, arff: columns of categories; each becomes one feature a category"
    ),
    "source.columns.drop": Key(_columns, "csv, parquet, arff: columns to leave out"),
    "source.columns.unknown": Key(
        _one_of("error", "ignore"),
        "csv, parquet, arff: a category that the training file lacks is an error | ignore: all its"
        " features are 0",
    ),
    "source.arrays.X": Key(_text, "npz, mat: name of the features; X if null"),
    "source.arrays.y": Key(_text, "npz, mat: name of the targets; y if null"),
    "source.arrays.matrices": Key(
        _one_of("sorted_triangle"),
        "npz, mat: X of shape (n, k, k) becomes the upper triangles after rows and columns are"
        " sorted by norm",
    ),
    "source.bundled": Key(_one_of(*BUNDLED_FILES), "sklearn: which of its sets"),
    "source.generator": Key(_one_of(*GENERATORS), "generator: which one"),
    "source.files.*.names": Key(
        _texts,
        "accepted file names, first one preferred; compression is"
        " recognised by content, its suffix may follow",
        optional=False,
    ),
    "source.files.*.url": Key(_text, "where the file is fetched from"),
    "source.files.*.sha256": Key(_sha256, "of the file as fetched, where it is published"),
    "source.files.*.otherwise.names": Key(
        _texts, "the file to draw rows from where the first is not found", optional=False
    ),
    "source.files.*.otherwise.url": Key(_text, "as above"),
    "source.files.*.otherwise.sha256": Key(_sha256, "as above"),
    "source.files.*.otherwise.sample.n": Key(_whole(1), "rows to draw", optional=False),
    "source.files.*.otherwise.sample.seed": Key(_whole(0), "of the draw", optional=False),
    "path": Key(_text, "file: the file, plain or compressed"),
    "test_path": Key(_text, "file: its test rows; without it `split` divides `path`"),
    "n": Key(_whole(1), "generator: training rows"),
    "n_test": Key(_whole(1), "generator: test rows"),
    "d": Key(_whole(1), "generator: features"),
    "seed": Key(_whole(0), "generator: of the function and the rows"),
    "noise": Key(_not_negative, "generator: share of flipped labels, or standard deviation"),
    "n_features": Key(_whole(1), "width, where files may lack the last columns"),
    "facts.n": Key(_whole(1), "rows of the file, where there is one"),
    "facts.n_train": Key(_whole(1), "rows of the training file"),
    "facts.n_test": Key(_whole(1), "rows of the test file"),
    "facts.n_features": Key(_whole(1), "largest index in the files, features of a table"),
    "facts.n_classes": Key(_whole(2), "different labels in the files"),
    "facts.positives": Key(_numbers, "rows with the largest of two labels, by file"),
    "facts.target": Key(_range, "least and largest target that a row may have"),
    "target.positive": Key(
        _labels,
        "binary: labels of class +1; else the larger of two labels; regression: labels that"
        " become 1, with `negative` those that become 0",
    ),
    "target.negative": Key(
        _labels,
        "binary: labels of class -1, rows with others are left out; else all that are not positive",
    ),
    "target.scale": Key(
        _one_of("none", "max", "unit", "standard"),
        "regression: none | max:"
        " divided by the largest magnitude | unit: to [0, 1] | standard; as the"
        " training rows have it",
    ),
    "scale": Key(
        _one_of(*SCALES),
        "columns: none | unit: to [0, 1] | symmetric: to [-1, 1] | standard: mean 0, variance 1 |"
        " unit_global: all by one range to [0, 1], for pixels; constant columns become 0",
    ),
    "scale_over": Key(_one_of("train", "all"), "rows that the scaling looks at"),
    "split.kind": Key(
        _one_of("given", "random", "first"),
        "given: the files as they are | random |"
        " first: the first n_train rows train, the rest test; random and first take"
        " all files together",
    ),
    "split.test_fraction": Key(_share, "random: share of test rows"),
    "split.n_train": Key(_whole(1), "random, first: training rows, in place of test_fraction"),
    "split.n_test": Key(_whole(1), "random, first: test rows; else all others"),
    "split.seed": Key(
        _whole(0),
        "random: of numpy.random.RandomState(seed).permutation(n), whose first n_train rows train",
    ),
    "split.stratified": Key(_truth, "random: keep the shares of the classes"),
    "first_train": Key(_whole(1), "only the first so many training rows, after split and scaling"),
    "first_test": Key(_whole(1), "only the first so many test rows, after split and scaling"),
    "storage": Key(
        _one_of("auto", "dense", "csr"),
        "of the prepared arrays; auto: dense unless wide and sparse",
    ),
    "variant": Key(_name, "which of `variants` to use"),
}
"""Every key of a data set's config but the free ones: `use.<use>.<parameter>` (kernel and
method parameters by use, with `from`: the table they come from) and `variants.<name>.<key>`."""

_KNOWN = frozenset(KEYS)
_WITHOUT_INFLUENCE = frozenset(
    ("about", "homepage", "licence", "use", "variants", "source", "path", "test_path")
)


def with_variant(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with its variant's keys in place.

    Raises
    ------
    ConfigError
        There is no such variant; the message has the nearest names.
    """
    merged = copy.deepcopy(dict(config))
    variant = merged.get("variant")
    if variant is None:
        return merged
    variants = merged.get("variants") or {}
    if variant not in variants:
        if not variants:
            raise ConfigError(f"dataset.variant={variant}: {config.get('name')} has no variants")
        hint = nearest(str(variant), variants) or f"; it has: {', '.join(sorted(variants))}"
        raise ConfigError(
            f"dataset.variant={variant}: {config.get('name')} has no such variant{hint}"
        )
    merged = _merge(merged, copy.deepcopy(variants[variant] or {}))
    merged["variants"] = {variant: {}}  # so that doing this again changes nothing
    return merged


def _merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in over.items():
        old = base.get(key)
        if isinstance(old, dict) and isinstance(value, Mapping):
            _merge(old, value)
        else:
            base[key] = value
    return base


def influence(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a config that, beside the raw content, the prepared arrays depend on."""

    def said(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: said(v) for k, v in value.items() if v is not None}
        return value

    kept = {k: v for k, v in config.items() if k not in _WITHOUT_INFLUENCE}
    source = config.get("source") or {}
    if source.get("format") not in (None, "libsvm"):
        kept["source"] = {k: source[k] for k in ("format", "columns", "arrays") if source.get(k)}
    return said(kept)


def check_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`with_variant(config)`, after a look at every key and value; loads nothing.

    Raises
    ------
    ConfigError
        One line with the key, the value found and what would be right; an unknown key with the
        nearest known ones.
    """
    for name, variant in (config.get("variants") or {}).items():
        _check_keys(variant or {}, f"dataset.variants.{name}.")
    merged = with_variant(config)
    _check_keys(merged, "dataset.")
    _check_present(merged)
    _check_together(merged)
    return merged


def _check_keys(config: Mapping[str, Any], prefix: str) -> None:
    for path, value in _leaves(config):
        if path in ("variants", "use", "about") or path.startswith("variants."):
            continue
        if path.startswith("use."):
            use = path.split(".")[1]
            if use not in USES:
                raise ConfigError(
                    f"{prefix}use.{use}: no such use, should be one of {', '.join(USES)}"
                )
            continue
        pattern = re.sub(r"^(source\.files)\.[^.]+", r"\1.*", path)
        key = KEYS.get(pattern)
        if key is None:
            if isinstance(value, Mapping) and any(k.startswith(f"{pattern}.") for k in _KNOWN):
                continue  # an empty group
            hint = nearest(pattern, _KNOWN) or nearest(pattern.rpartition(".")[2], _KNOWN)
            raise ConfigError(f"{prefix}{path}: no such key of a data set{hint}")
        if value is not None and (right := key.check(value)):
            raise ConfigError(f"{prefix}{path} is {value!r}, should be {right}")


def _leaves(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in config.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and path not in KEYS:
            found += _leaves(value, f"{path}.")
        else:
            found.append((path, value))
    return found


def _check_present(config: Mapping[str, Any]) -> None:
    for path, key in KEYS.items():
        if key.optional or "*" in path:
            continue
        value: Any = config
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is None:
            raise ConfigError(f"dataset.{path} has no value, should be {key.meaning}")


def _check_together(config: Mapping[str, Any]) -> None:
    source, split = config["source"], config.get("split") or {}
    kind = source["kind"]
    needs = {"files": "files", "sklearn": "bundled", "generator": "generator"}
    if kind in needs and not source.get(needs[kind]):
        raise ConfigError(f"dataset.source.{needs[kind]} has no value, kind {kind} needs it")
    if kind == "files":
        _check_files(source, split)
    if kind == "file" and FORMATS[source.get("format") or "libsvm"].pieces:
        raise ConfigError(
            f"dataset.source.format is {source['format']}, which takes several files a part; a "
            "data set with source.files names them"
        )
    if kind == "file" and not config.get("path"):
        raise ConfigError("dataset.path has no value: add dataset.path=FILE to the command")
    if kind == "generator":
        for name in ("n", "n_test", "d", "seed"):
            if config.get(name) is None:
                raise ConfigError(f"dataset.{name} has no value, a generator needs it")
    if split.get("kind") == "random" and not (split.get("test_fraction") or split.get("n_train")):
        raise ConfigError("dataset.split is random: set dataset.split.test_fraction or n_train")
    if split.get("kind") == "first" and not split.get("n_train"):
        raise ConfigError("dataset.split is first: set dataset.split.n_train")
    task, target = config["task"], config.get("target") or {}
    told = [bool(target.get(name)) for name in ("positive", "negative")]
    if task == "multiclass" and any(told):
        raise ConfigError(
            f"dataset.target.positive and negative are for binary tasks, dataset.task is {task}"
        )
    if task == "regression" and any(told) and not all(told):
        raise ConfigError(
            "dataset.target has one of positive and negative, a regression on 1 and 0 takes both"
        )
    if task != "regression" and target.get("scale", "none") not in (None, "none"):
        raise ConfigError(f"dataset.target.scale is for regression, dataset.task is {task}")


def _check_files(source: Mapping[str, Any], split: Mapping[str, Any]) -> None:
    """Whether the keys of `source.files` make up parts of the format."""
    name = source.get("format") or "libsvm"
    form = FORMATS[name]
    pieces: dict[str, list[str]] = {}
    for role in source["files"]:
        pieces.setdefault(part_of(role), []).append(role.partition("_")[2])
    if set(pieces) not in ({"train", "test"}, {"all"}):
        raise ConfigError(
            f"dataset.source.files has {', '.join(sorted(source['files']))}, should be train and "
            "test, or all"
        )
    for part, found in pieces.items():
        if form.pieces and tuple(found) != form.pieces:
            wanted = " and ".join(f"{part}_{piece}" for piece in form.pieces)
            raise ConfigError(
                f"dataset.source.files has {', '.join(sorted(source['files']))}, format {name} "
                f"takes {wanted} in this order"
            )
        if not form.pieces and len(found) > 1 and name not in ("csv", "parquet", "arff"):
            raise ConfigError(
                f"dataset.source.files has {len(found)} files of {part}, format {name} takes one"
            )
    one = set(pieces) == {"all"}
    if name == "cifar10" and not one:
        raise ConfigError("dataset.source.files of format cifar10 should be all: its one archive")
    if one and not form.splits and split.get("kind", "given") == "given":
        raise ConfigError("dataset.split.kind is given, but there is one file: random or first")
