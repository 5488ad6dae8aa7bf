"""The config of a data set: its variants, its check, and the keys that change the arrays.

A variant is the form in which one paper uses the data: a named set of keys that override the keys
of the data set. `dataset.variants.<variant>.<key>=...` changes a key of a variant.
`kbench.data.configs.keys` lists all keys.
"""

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.data.configs.keys import CSV_KEYS, KEYS, USES
from kbench.data.configs.own_file import OWN_SPLIT, complete
from kbench.data.formats import FORMATS
from kbench.data.sources.folders import part_of
from kbench.errors import ConfigError
from kbench.mistyped import nearest

_KNOWN_KEYS = frozenset(KEYS)
_WITHOUT_INFLUENCE = frozenset(
    (
        *("about", "homepage", "licence", "use", "variants", "source", "path", "test_path"),
        *("chunks", "assumed"),
    )
)


def with_variant(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with the keys of its variant applied.

    Raises
    ------
    ConfigError
        There is no such variant; the message lists the nearest names.
    """
    result = copy.deepcopy(dict(config))
    variant = result.get("variant")
    if variant is None:
        return result
    if not isinstance(variant, str):
        raise ConfigError(f"dataset.variant is {variant!r}, should be a name")
    variants = result.get("variants") or {}
    if variant not in variants:
        if not variants:
            raise ConfigError(f"dataset.variant={variant}: {config.get('name')} has no variants")
        hint = nearest(str(variant), variants) or f"; it has: {', '.join(sorted(variants))}"
        raise ConfigError(
            f"dataset.variant={variant}: {config.get('name')} has no such variant{hint}"
        )
    result = _merge(result, copy.deepcopy(variants[variant] or {}))
    result["variants"] = {variant: {}}  # applying the variant twice changes nothing
    return result


def by_files(config: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The data set itself, and its variants that use other raw files.

    Returns
    -------
    list of (str, dict)
        One entry for each set of raw files: the names of the variants that use it, separated by
        commas, and the config of the first variant. The data set comes first with an empty name.
    """
    configs: list[tuple[list[str], dict[str, Any]]] = [
        ([], with_variant({**config, "variant": None}))
    ]
    for name, variant in (config.get("variants") or {}).items():
        if not ((variant or {}).get("source") or {}).get("files"):
            continue
        variant_config = with_variant({**config, "variant": name})
        matches = (
            n for n, c in configs if c["source"].get("files") == variant_config["source"]["files"]
        )
        names = next(matches, None)
        if names is None:
            configs.append(([name], variant_config))
        elif names:  # an empty list is the data set itself, whose variants are not listed
            names.append(name)
    return [(", ".join(names), variant_config) for names, variant_config in configs]


def _merge(base: dict[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in overrides.items():
        current = base.get(key)
        if isinstance(current, dict) and isinstance(value, Mapping):
            _merge(current, value)
        else:
            base[key] = value
    return base


def influence(config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a config on which the prepared arrays depend, besides the raw content."""

    def equals_null(value: Any, key_path: str) -> bool:
        """Whether null would have the same meaning."""
        key = KEYS.get(key_path)
        null = None if key is None or key_path not in equal_to_null else key.null
        return value is None or (type(value) is type(null) and value == null)

    def without_nulls(value: Any, key_path: str = "") -> Any:
        if isinstance(value, Mapping):
            inner = {k: (v, f"{key_path}.{k}".lstrip(".")) for k, v in value.items()}
            return {k: without_nulls(*pair) for k, pair in inner.items() if not equals_null(*pair)}
        return value

    config_keys = {k: v for k, v in config.items() if k not in _WITHOUT_INFLUENCE}
    if isinstance(config.get("target"), Mapping):
        config_keys["target"] = {**config["target"], "scale": target_scale(config)}
    source = config.get("source") or {}
    # Shipped configs contain `X: X` and `drop: []`, which are hashed in the keys of reference rows.
    # Values under `source` that mean the same as null are therefore left out for users' files only.
    is_file = source.get("kind") == "file"
    equal_to_null = {key_path for key_path in KEYS if is_file or not key_path.startswith("source.")}
    if source.get("zero_based") not in (None, "auto"):
        config_keys["source"] = {"zero_based": source["zero_based"]}
    if source.get("format") not in (None, "libsvm"):
        names = ("format", "columns", "arrays")
        config_keys["source"] = {k: source[k] for k in names if source.get(k)}
    if config.get("scale") == "none" and "scale_over" in config:
        config_keys["scale_over"] = "train"  # without a scaling the key has no effect
    config_keys = without_nulls(config_keys)
    if not config_keys.get("source", {}).get("arrays", True):
        del config_keys["source"]["arrays"]
    return config_keys


def target_scale(config: Mapping[str, Any]) -> str:
    """`target.scale` of a config; if it is null, "fit" for numbers and "none" for labels."""
    target = config.get("target") or {}
    if target.get("scale") is not None:
        return str(target["scale"])
    return "fit" if config.get("task") == "regression" and not target.get("positive") else "none"


def check_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """`with_variant(config)` after a check of every key and value.

    Loads no data except a user's own file if `task` is null: `kbench.data.configs.own_file` fills
    in the keys that the config of such a file lacks.

    Raises
    ------
    ConfigError
        A key is unknown or its value is wrong; one line names the key, the value found and what
        would be right.
    DataError
        A user's own file cannot be read.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"config is {config!r}, should be a mapping of a data set's keys")
    variants = config.get("variants") or {}
    if not isinstance(variants, Mapping) or not all(
        isinstance(variant or {}, Mapping) for variant in variants.values()
    ):
        raise ConfigError(f"dataset.variants is {variants!r}, should map names to keys")
    for name, variant in variants.items():
        _check_keys(variant or {}, f"dataset.variants.{name}.")
    checked = with_variant(config)
    _check_keys(checked, "dataset.")
    # The path is checked before `complete`, which reads the file to find the task.
    if (checked.get("source") or {}).get("kind") == "file" and not checked.get("path"):
        raise ConfigError("dataset.path has no value: add dataset.path=FILE to the command")
    checked = complete(checked)
    _check_present(checked)
    _check_together(checked)
    return checked


def _check_keys(config: Mapping[str, Any], prefix: str) -> None:
    for key_path, value in _flattened(config):
        if key_path in ("variants", "use", "about") or key_path.startswith("variants."):
            continue
        if key_path.startswith("use."):
            use = key_path.split(".")[1]
            if use not in USES:
                raise ConfigError(
                    f"{prefix}use.{use}: no such use, should be one of {', '.join(USES)}"
                )
            continue
        pattern = re.sub(r"^(source\.files)\.[^.]+", r"\1.*", key_path)
        key = KEYS.get(pattern)
        if key is None:
            if isinstance(value, Mapping) and any(k.startswith(f"{pattern}.") for k in _KNOWN_KEYS):
                continue  # an empty group
            subkeys = sorted(k for k in _KNOWN_KEYS if k.startswith(f"{pattern}."))
            if subkeys:
                column = "dataset.source.columns.target"
                raise ConfigError(
                    f"{prefix}{key_path} is {value!r}, should be set key by key: "
                    + ", ".join(subkeys)
                    + f"; {column}=NAME chooses the column" * (pattern == "target")
                )
            hint = nearest(pattern, _KNOWN_KEYS) or nearest(pattern.rpartition(".")[2], _KNOWN_KEYS)
            raise ConfigError(f"{prefix}{key_path}: no such key of a data set{hint}")
        if value is not None and (expected := key.check(value)):
            hint = ""
            if isinstance(value, list) and value and not any(map(key.check, value)):
                hint = f"; -m {prefix}{key_path}=A,B makes a run of each value"
                hint += ", source.files of a config joins files" * key_path.endswith("path")
            raise ConfigError(f"{prefix}{key_path} is {value!r}, should be {expected}{hint}")


def _flattened(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for key, value in config.items():
        key_path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and key_path not in KEYS:
            pairs += _flattened(value, f"{key_path}.")
        else:
            pairs.append((key_path, value))
    return pairs


def _check_present(config: Mapping[str, Any]) -> None:
    for key_path, key in KEYS.items():
        if key.optional or "*" in key_path:
            continue
        value: Any = config
        for name in key_path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            raise ConfigError(f"dataset.{key_path} has no value, should be {key.meaning}")


def _check_together(config: Mapping[str, Any]) -> None:
    source, split = config["source"], config.get("split") or {}
    kind = source["kind"]
    needs = {"files": "files", "sklearn": "bundled", "generator": "generator"}
    if kind in needs and not source.get(needs[kind]):
        raise ConfigError(f"dataset.source.{needs[kind]} has no value, kind {kind} needs it")
    if kind == "files":
        _check_files(source, split)
    _check_format_keys(config)
    _check_holdout(config.get("holdout") or {})
    if kind == "generator":
        for name in ("n", "n_test", "d", "seed"):
            if config.get(name) is None:
                raise ConfigError(f"dataset.{name} has no value, a generator needs it")
    require_effect(config)
    sizes = ["test_fraction", "n_train", *(["folds"] if split.get("kind") == "random" else [])]
    if split.get("kind") in ("random", "first") and not any(map(split.get, sizes)):
        raise ConfigError(
            f"dataset.split is {split['kind']}: set dataset.split.{', '.join(sizes[:-1])} or "
            f"{sizes[-1]}"
        )
    task, target = config["task"], config.get("target") or {}
    facts = config.get("facts") or {}
    n = facts.get("n") or (facts.get("n_train") or 0) + (facts.get("n_test") or 0)
    if n and split.get("kind", "given") != "given" and not target.get("negative"):
        rows_of_split(n, split)
    if split.get("folds"):
        _refuse_beside_folds(split, ("n_train", "n_test"))
    if split.get("stratified") and task == "regression":
        raise ConfigError("dataset.split.stratified is for classes, dataset.task is regression")
    has_labels = [bool(target.get(name)) for name in ("positive", "negative")]
    if task == "outlier":
        if any(has_labels):
            raise ConfigError(
                "dataset.target.positive and negative are for binary tasks, dataset.task is "
                "outlier: null, and dataset.target.outlier names the outliers"
            )
        if not target.get("outlier"):
            raise ConfigError(
                "dataset.target.outlier has no value, should be a list of the labels of outliers"
            )
        if target.get("train") == "normal" and kind == "generator":
            raise ConfigError(
                "dataset.target.train is normal, but all rows of a generator train: should be all"
            )
    for name in ("outlier", "train"):
        if task != "outlier" and target.get(name):
            raise ConfigError(
                f"dataset.target.{name} is for dataset.task=outlier, dataset.task is {task}"
            )
    if task == "multiclass" and any(has_labels):
        raise ConfigError(
            f"dataset.target.positive and negative are for binary tasks, dataset.task is {task}"
        )
    if task == "regression" and any(has_labels) and not all(has_labels):
        raise ConfigError(
            "dataset.target has one of positive and negative, a regression on 1 and 0 takes both"
        )
    if task != "regression" and target.get("scale", "none") not in (None, "none"):
        raise ConfigError(f"dataset.target.scale is for regression, dataset.task is {task}")


def require_effect(config: Mapping[str, Any], *, own_test: bool | None = None) -> None:
    """Refuse keys of `split` that do not influence the split.

    Runs that differ only in such a key would be equal, and reports would take them for several
    splits without any variation.

    own_test : Whether a user's file has test rows of its own; None: whether it has a `test_path`
    """
    split, is_file = config.get("split") or {}, (config.get("source") or {}).get("kind") == "file"
    kind = split.get("kind") or "given"
    if own_test is None:
        own_test = is_file and bool(config.get("test_path"))
    used_keys = {"random": (*split,), "first": ("test_fraction", "n_train", "n_test")}.get(kind, ())
    reason = (
        f"dataset.split.kind is {kind}: dataset.split.kind=random divides all rows, those of a "
        "test file too"
    )
    if own_test:
        subject = "dataset.test_path names" if config.get("test_path") else "the file itself names"
        used_keys, reason = (), f"{subject} the test rows; leave one of them out"
    for key, value in split.items():
        is_default = is_file and OWN_SPLIT.get(key) == value
        if value and key not in ("kind", *used_keys) and not is_default:
            raise ConfigError(f"dataset.split.{key} is {value!r}, but {reason}")


def rows_of_split(n: int, split: Mapping[str, Any]) -> tuple[int, int]:
    """The numbers of training and test rows of a split of n rows, of kind random or first.

    Raises ConfigError: there are fewer rows, or one part is empty.
    """
    folds = split.get("folds")
    if folds and folds > n:
        raise ConfigError(f"dataset.split.folds is {folds}, there are {n} rows")
    n_train = split.get("n_train")
    if n_train is None:
        fraction = 1.0 / folds if folds else split["test_fraction"]
        n_train = round((1.0 - fraction) * n)
    n_test = split.get("n_test") or n - n_train
    if n_train < 1 or n_test < 1 or n_train + n_test > n:
        raise ConfigError(
            f"dataset.split asks for {n_train} training and {n_test} test rows, there are {n}"
        )
    return n_train, n_test


def splits(config: Mapping[str, Any], typed: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The keys of `split` for each of the runs that `split.repeats` and `split.folds` ask for.

    Repeat r, counted from 0, has the seed `split.seed` + r and equals a run with this seed alone.

    config : The config of a data set with its variant applied; it need not be checked
    typed : Keys of the command line. Folds take the place of sizes that the config alone has.

    Returns one empty dictionary if `split` asks for a single split.

    Raises ConfigError: a value is wrong, or the test rows are not drawn at random.
    """
    split = config.get("split") or {}
    kind = split.get("kind") if "dataset.split.kind" in typed else None
    if config.get("test_path") and kind in ("random", "first"):
        raise ConfigError(
            f"dataset.split.kind is {kind}, but dataset.test_path names the test rows; leave one "
            "of them out"
        )
    names = ("repeats", "folds", "fold")
    first_key = next((name for name in names if split.get(name) is not None), None)
    if first_key is None:
        return [{}]
    _check_keys({"split": {name: split.get(name) for name in (*names, "seed")}}, "dataset.")
    require_effect(config)
    folds, fold = split.get("folds"), split.get("fold")
    if fold is not None and (folds is None or fold > folds):
        raise ConfigError(f"dataset.split.fold is {fold}, dataset.split.folds is {folds or 'null'}")
    seeds = [(split.get("seed") or 0) + r for r in range(split.get("repeats") or 1)]
    if folds is None:
        return [{"repeats": None, "seed": seed} for seed in seeds]
    sizes = ("test_fraction", "n_train", "n_test")
    _refuse_beside_folds(split, [name for name in sizes if f"dataset.split.{name}" in typed])
    replacements = dict.fromkeys(("repeats", *sizes))
    fold_numbers = range(1, folds + 1) if fold is None else [fold]
    return [{**replacements, "seed": seed, "fold": k} for seed in seeds for k in fold_numbers]


def _refuse_beside_folds(split: Mapping[str, Any], sizes: Sequence[str]) -> None:
    """Refuse sizes of a split that its folds would ignore."""
    if ignored := [name for name in sizes if split.get(name)]:
        raise ConfigError(
            f"dataset.split.folds takes the place of {' and '.join(ignored)}; set one or the other"
        )


def _check_format_keys(config: Mapping[str, Any]) -> None:
    """Refuse keys that the reader of the files would ignore."""
    source = config["source"]
    name = source.get("format") or "libsvm"
    has_files = source["kind"] in ("file", "files")
    fact = f"the format is {name}" if has_files else "the data set has no files"
    options = {key: source.get(key) for key in ("columns", "arrays", "zero_based")}
    pairs = _flattened({"source": options, "n_features": config.get("n_features")})
    for key_path, value in pairs:
        option = "zero_based" if key_path == "n_features" else key_path.split(".")[1]
        formats = [n for n, file_format in FORMATS.items() if file_format.options == option]
        if key_path in CSV_KEYS:
            formats = ["csv"]
        if value not in (None, [], {}, "error", "auto") and not (has_files and name in formats):
            raise ConfigError(
                f"dataset.{key_path} is {value!r}, but {fact}; it is for {', '.join(formats)}"
            )


def _check_holdout(holdout: Mapping[str, Any]) -> None:
    folds, fold, fraction = (holdout.get(name) for name in ("folds", "fold", "fraction"))
    if holdout and (fraction is None) == (folds is None or fold is None):
        raise ConfigError("dataset.holdout should have folds and fold, or fraction")
    if folds is not None and fold is not None and fold > folds:
        raise ConfigError(f"dataset.holdout.fold is {fold}, there are {folds} folds")


def _check_files(source: Mapping[str, Any], split: Mapping[str, Any]) -> None:
    """Refuse `source.files` whose keys do not form complete parts in the format."""
    name = source.get("format") or "libsvm"
    file_format = FORMATS[name]
    pieces_by_part: dict[str, list[str]] = {}
    for role in source["files"]:
        pieces_by_part.setdefault(part_of(role), []).append(role.partition("_")[2])
    if set(pieces_by_part) not in ({"train", "test"}, {"all"}):
        raise ConfigError(
            f"dataset.source.files has {', '.join(sorted(source['files']))}, should be train and "
            "test, or all"
        )
    for part, names in pieces_by_part.items():
        if file_format.pieces and tuple(names) != file_format.pieces:
            expected = " and ".join(f"{part}_{piece}" for piece in file_format.pieces)
            raise ConfigError(
                f"dataset.source.files has {', '.join(sorted(source['files']))}, format {name} "
                f"takes {expected} in this order"
            )
        if not file_format.pieces and len(names) > 1 and name not in ("csv", "parquet", "arff"):
            raise ConfigError(
                f"dataset.source.files has {len(names)} files of {part}, format {name} takes one"
            )
    has_one_part = set(pieces_by_part) == {"all"}
    if name == "cifar10" and not has_one_part:
        raise ConfigError("dataset.source.files of format cifar10 should be all: its one archive")
    if has_one_part and not file_format.splits and split.get("kind", "given") == "given":
        raise ConfigError(
            "dataset.split.kind is given, but there is one file, should be random or first"
        )
