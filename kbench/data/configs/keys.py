"""A table of the keys that the config of a data set may have.

`configs/dataset/<name>.yaml` sets the keys, and `configs/config.yaml` has their defaults. The
command line can set every key (`dataset.scale=none`).
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kbench.data.formats import DELIMITERS, FORMATS
from kbench.data.sources.folders import BUNDLED_FILES, in_catalogue, is_file_name, name_in_url

TASKS = ("binary", "multiclass", "regression", "outlier")
SCALES = ("none", "unit", "symmetric", "standard", "unit_global")
GENERATORS = ("covtype_like", "noisy_function")
USES = ("svm", "dcsvm", "krr", "approx", "hss", "dcpred", "dcpred_trained", "dsgd")

Check = Callable[[Any], str | None]
"""A function that returns None for a valid value, else a description of valid values."""


def _one_of(*allowed: str) -> Check:
    return lambda v: None if v in allowed else f"one of {', '.join(allowed)}"


def _integer_from(minimum: int) -> Check:
    def check(value: Any) -> str | None:
        is_valid = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
        return None if is_valid else f"a whole number from {minimum}"

    return check


def _number(value: Any) -> str | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    is_valid = is_number and abs(value) < float("inf")
    return None if is_valid else "a finite number"


def _not_negative(value: Any) -> str | None:
    return None if not _number(value) and value >= 0 else "a number from 0"


def _fraction(value: Any) -> str | None:
    return None if not _number(value) and 0 < value < 1 else "a number between 0 and 1"


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "text"


def _boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _name(value: Any) -> str | None:
    is_valid = isinstance(value, str) and re.fullmatch(r"[^\W_][\w.-]*", value)
    return None if is_valid else "a name of letters, digits, '.', '_' and '-'"


def _sha256(value: Any) -> str | None:
    is_valid = isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value)
    return None if is_valid else "64 hexadecimal digits"


def _numbers(value: Any) -> str | None:
    is_valid = isinstance(value, list) and value and not any(_number(v) for v in value)
    return None if is_valid else "a list of numbers"


def _texts(value: Any) -> str | None:
    is_valid = isinstance(value, list) and value and not any(_text(v) for v in value)
    return None if is_valid else "a list of texts"


def _names_of_columns(value: Any) -> str | None:
    check = _integer_from(0)  # a name such as 2020 arrives as a number
    is_valid = isinstance(value, list) and value and not any(_text(v) and check(v) for v in value)
    return None if is_valid else "a list of names"


def _file_names(value: Any) -> str | None:
    is_valid = not _texts(value) and all(is_file_name(name) for name in value)
    return (
        None if is_valid else "a list of file names, without folders and not beginning with . or _"
    )


def _url(value: Any) -> str | None:
    expected = "http://..., https://..., openml:NUMBER or sklearn:NAME, ending in a file name"
    if not isinstance(value, str):
        return expected
    scheme = urlsplit(value).scheme
    if in_catalogue(value):
        return None
    if scheme not in ("http", "https", "file") or not is_file_name(name_in_url(value)):
        return expected
    return None


def _labels(value: Any) -> str | None:
    # A label such as True or 1 arrives as a truth value or number, although the file has texts.
    is_valid = isinstance(value, list) and value and not any(_column(v) for v in value)
    return None if is_valid else "a list of labels"


def _range(value: Any) -> str | None:
    is_valid = not _numbers(value) and len(value) == 2 and value[0] <= value[1]
    return None if is_valid else "two numbers, the least and the largest"


def _column(value: Any) -> str | None:
    # A name such as 2020, 1e3 or yes arrives as a number or truth value.
    is_valid = isinstance(value, (int, float)) or not _text(value)
    return None if is_valid else "a column's name, or its place from 1 (-1: last)"


def _columns(value: Any) -> str | None:
    is_valid = isinstance(value, list) and not any(_column(v) for v in value)
    return None if is_valid else "a list of columns: names, or places from 1 (-1 is the last)"


def _columns_or_auto(value: Any) -> str | None:
    return None if value == "auto" or not _columns(value) else f"auto, or {_columns(0)}"


def _zero_based(value: Any) -> str | None:
    return None if value == "auto" or isinstance(value, bool) else "auto, true or false"


class Key(NamedTuple):
    """The check of a key's value, and what the value means."""

    check: Check
    meaning: str
    optional: bool = True
    """Whether the key may be null or absent."""
    null: Any = None
    """The value that null stands for; None if null is a value of its own."""


KEYS: dict[str, Key] = {
    "name": Key(_name, "the name in `dataset=`, in rows and in tables", optional=False),
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
        "of the files: libsvm (the default) | csv: text with delimiters | parquet |"
        " arff | idx: bytes as MNIST has them | npy: pairs of arrays | npz: `X` and `y`, or"
        " `X_train`, `y_train`, `X_test`, `y_test` | mat: MATLAB | cifar10: its tar archive |"
        " xyz: tar archive of molecules and a table of their energies",
    ),
    "source.columns.delimiter": Key(
        _one_of(*DELIMITERS),
        "csv: character between fields; by default the most frequent one of the first line",
    ),
    "source.columns.header": Key(
        _boolean,
        "csv: whether the first line names the columns; by default this follows from a comparison"
        " with the lines below",
    ),
    "source.columns.decimal": Key(
        _one_of("point", "comma"),
        "csv: character before the decimals of numbers such as `1.234,5` or `$1,234.50`; the other"
        " one separates thousands; by default found from such numbers in the file",
    ),
    "source.columns.names": Key(
        _names_of_columns,
        "csv: names of the columns in order; by default those of the header, or 1, 2, ...",
    ),
    "source.columns.target": Key(
        _column,
        "csv, parquet, arff: the target, by name or by place from 1; -1, the last, if null",
    ),
    "source.columns.group": Key(
        _column,
        "csv, parquet, arff: a column whose equal values, such as those of one person, stay on one"
        " side of a random split; it is no feature",
    ),
    "source.columns.categorical": Key(
        _columns_or_auto,
        "csv, parquet, arff: columns of categories; each category becomes a feature | auto:"
        " every column of texts; categories of fewer than 5 rows share a feature, and unknown ones"
        " have zeros",
        null=[],
    ),
    "source.columns.drop": Key(_columns, "csv, parquet, arff: columns to leave out", null=[]),
    "source.columns.unknown": Key(
        _one_of("error", "ignore"),
        "csv, parquet, arff: a category that the training file lacks is an error | ignore: all its"
        " features are 0",
        null="error",
    ),
    "source.zero_based": Key(
        _zero_based,
        "libsvm: whether indices start at 0; auto: they do if any file of the set has an index 0",
        null="auto",
    ),
    "source.arrays.X": Key(_text, "npz, mat: name of the features; X if null", null="X"),
    "source.arrays.y": Key(_text, "npz, mat: name of the targets; y if null", null="y"),
    "source.arrays.groups": Key(
        _text,
        "npz, mat: name of the groups, a number for each row; rows with equal numbers stay on one"
        " side of a random split; groups if null",
        null="groups",
    ),
    "source.arrays.matrices": Key(
        _one_of("sorted_triangle"),
        "npz, mat: X of shape (n, k, k) becomes the upper triangles after rows and columns are"
        " sorted by norm",
    ),
    "source.bundled": Key(_one_of(*BUNDLED_FILES), "sklearn: name of the bundled set"),
    "source.generator": Key(_one_of(*GENERATORS), "generator: its name"),
    "source.files.*.names": Key(
        _file_names,
        "accepted file names, first one preferred; compression is"
        " recognised by content, its suffix may follow",
        optional=False,
    ),
    "source.files.*.url": Key(
        _url,
        "address of the file; file: only by `kbench data prepare`; sklearn:NAME and"
        " openml:NUMBER ask scikit-learn's fetcher"
        " and keep a parquet table, the target its last column",
    ),
    "source.files.*.sha256": Key(_sha256, "published checksum of the file as fetched"),
    "source.files.*.otherwise.names": Key(
        _file_names, "the file from which rows are drawn if the first is absent", optional=False
    ),
    "source.files.*.otherwise.url": Key(_url, "address of that file"),
    "source.files.*.otherwise.sha256": Key(_sha256, "published checksum of that file"),
    "source.files.*.otherwise.sample.n": Key(_integer_from(1), "rows to draw", optional=False),
    "source.files.*.otherwise.sample.seed": Key(
        _integer_from(0), "seed of the draw", optional=False
    ),
    "path": Key(
        _text, "file: the file, plain or compressed; or openml:NUMBER, a data set of OpenML"
    ),
    "test_path": Key(_text, "file: its test rows; without it `split` divides `path`"),
    "n": Key(_integer_from(1), "generator: training rows"),
    "n_test": Key(_integer_from(1), "generator: test rows"),
    "d": Key(_integer_from(1), "generator: features"),
    "seed": Key(_integer_from(0), "generator: seed of the function and the rows"),
    "noise": Key(_not_negative, "generator: fraction of flipped labels, or standard deviation"),
    "n_features": Key(
        _integer_from(1), "number of features, if files of LIBSVM text may lack the last columns"
    ),
    "facts.n": Key(_integer_from(1), "rows of the file, if there is one file"),
    "facts.n_train": Key(_integer_from(1), "rows of the training file"),
    "facts.n_test": Key(_integer_from(1), "rows of the test file"),
    "facts.n_features": Key(
        _integer_from(1), "largest index of LIBSVM text, number of features of a table"
    ),
    "facts.n_classes": Key(_integer_from(2), "different labels in the files"),
    "facts.positives": Key(_numbers, "rows with the largest of two labels, by file"),
    "facts.leak": Key(
        _boolean, "whether features contain the target; rankings leave the data set out"
    ),
    "facts.target": Key(_range, "least and largest target that a row may have"),
    "target.positive": Key(
        _labels,
        "binary: labels of class +1; else the larger of two labels; regression: labels that"
        " become 1; the labels of `negative` become 0",
    ),
    "target.negative": Key(
        _labels,
        "binary: labels of class -1, rows with others are left out; else all that are not positive",
    ),
    "target.outlier": Key(
        _labels, "outlier: labels of the outliers, class -1; all others are normal, class +1"
    ),
    "target.train": Key(
        _one_of("all", "normal"),
        "outlier: rows to train on, whose labels the method does not see: all, also if null |"
        " normal: outliers are left out of the training rows",
        null="all",
    ),
    "target.scale": Key(
        _one_of("fit", "none", "max", "unit", "standard"),
        "regression: fit, if null and there are no labels: mean 0 and variance 1 for the method"
        " alone, scores are in the unit of the files | none | max: divided by the largest magnitude"
        " | unit: to [0, 1] | standard: as fit, scores too; all are estimated from training rows",
    ),
    "target.missing": Key(
        _one_of("drop", "error"),
        "drop, also if null: a row without a target is left out | error: it is refused",
        null="drop",
    ),
    "missing": Key(
        _one_of("error", "mean", "median", "indicator", "drop"),
        "error, also if null: a missing number is refused | mean, median: filled with that of the"
        " column's training rows | indicator: mean, and a feature that marks it | drop: the row is"
        " left out",
        null="error",
    ),
    "scale": Key(
        _one_of(*SCALES),
        "columns: none | unit: to [0, 1] | symmetric: to [-1, 1] | standard: mean 0, variance 1 |"
        " unit_global: all columns by one range to [0, 1], for pixels; constant columns become 0",
    ),
    "scale_over": Key(_one_of("train", "all"), "rows from which the scaling is estimated"),
    "split.kind": Key(
        _one_of("given", "random", "first"),
        "given: the files as they are | random |"
        " first: the first rows train, the rest test; random and first take"
        " all files together",
    ),
    "split.test_fraction": Key(_fraction, "random, first: fraction of test rows"),
    "split.n_train": Key(
        _integer_from(1), "random, first: training rows, in place of test_fraction"
    ),
    "split.n_test": Key(_integer_from(1), "random, first: test rows; else all others"),
    "split.seed": Key(
        _integer_from(0),
        "random: seed of numpy.random.RandomState(seed).permutation(n), whose first n_train rows"
        " train",
    ),
    "split.stratified": Key(
        _boolean, "random: keep the proportions of the classes; with test_fraction or folds"
    ),
    "split.group": Key(
        _boolean,
        "random: whether rows of one group (source.columns.group, qid of LIBSVM text) stay on one"
        " side; true if null",
        null=True,
    ),
    "split.repeats": Key(
        _integer_from(1),
        "random: number of splits, each a run of its own, with the seeds from split.seed on",
    ),
    "split.folds": Key(
        _integer_from(2),
        "random: number of folds of all rows, each the test rows of a run, in place of"
        " test_fraction, n_train and n_test; scikit-learn's KFold or its stratified and grouped"
        " forms, shuffled with split.seed; split.repeats makes that many divisions",
    ),
    "split.fold": Key(_integer_from(1), "folds: number of the only fold to run, from 1"),
    "first_train": Key(
        _integer_from(1), "number of training rows kept, from the first, after split and scaling"
    ),
    "first_test": Key(
        _integer_from(1), "number of test rows kept, from the first, after split and scaling"
    ),
    "holdout.folds": Key(
        _integer_from(2), "number of folds of the training rows; one fold replaces the test rows"
    ),
    "holdout.fold": Key(_integer_from(1), "which fold, from 1"),
    "holdout.fraction": Key(
        _fraction, "instead of folds: fraction of the training rows that validate"
    ),
    "holdout.rows": Key(_integer_from(1), "number of remaining rows to train on; all if null"),
    "holdout.seed": Key(_integer_from(0), "seed of the division into folds; 0 if null", null=0),
    "storage": Key(
        _one_of("auto", "dense", "csr"),
        "form of the prepared arrays; auto: sparse rows are dense with at most 1,024 columns and"
        " 2 GiB, or if more than a quarter of the entries are not zero, and otherwise CSR",
    ),
    "chunks": Key(
        _one_of("auto", "always", "never"),
        "whether a method that can learn out of core reads the prepared rows in chunks; auto: if"
        " their arrays take more than half of limits.memory_mb",
    ),
    "variant": Key(_name, "which of `variants` to use"),
    "assumed": Key(_columns, "file: keys whose values kbench found from the file; set by kbench"),
}
"""Every key of a data set's config except the free ones: `use.<use>.<parameter>` (kernel and
method parameters by use, with `from`: the table they come from) and `variants.<name>.<key>`."""

CSV_KEYS = frozenset(name for name, key in KEYS.items() if key.meaning.startswith("csv:"))
"""Keys that only CSV text takes, as other tables have names and types of their own."""
