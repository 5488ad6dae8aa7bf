"""Runs on several random splits of one data set: their selection, and the error of their mean.

The variant of a row names its split, as `split.seed=3` or `split.fold=2,split.seed=1`, unless it is
the default split of the data set. Splits draw their test sets from the same rows, so their scores
are correlated, and the variance of the mean is larger than for independent scores.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

SPLIT = "split"  # key that `over_splits` adds to a row; not a column of the results

_SPLIT_WORDS = re.compile(r"(?:^|,)split\.(?:seed|fold)=\d+(?=,|$)")

Row = Mapping[str, Any]


def split_of(variant: str | None) -> tuple[str | None, str]:
    """A variant without seed and fold of its split, and both as text, "" for the default split.

    >>> split_of("raw,split.folds=2,split.fold=1,split.seed=3")
    ('raw,split.folds=2', 'split.fold=1,split.seed=3')
    """
    text = variant or ""
    names = [match[0].lstrip(",") for match in _SPLIT_WORDS.finditer(text)]
    return _SPLIT_WORDS.sub("", text).lstrip(",") or None, ",".join(names)


def over_splits(
    rows: Sequence[Row], setting: Callable[[Row], Hashable]
) -> tuple[list[Row], list[Row]]:
    """Separate the rows of settings that ran on several splits from the rows of a single split.

    Parameters
    ----------
    rows : sequence of mapping
    setting : Row -> method and parameters, which identify settings

    Returns
    -------
    list of mapping, list of mapping
        Rows in the first list have the variant without the split, the split under the key `SPLIT`,
        and the sizes of the split with the most training rows. A row of the default split is in
        both lists if another setting ran only on that split, so that both can be compared.
        Reference rows use the splits that the papers state and are in the second list.
    """
    variants = [split_of(row["variant"]) for row in rows]
    splits: defaultdict[Hashable, set[str]] = defaultdict(set)
    keys: list[tuple[Hashable, Hashable]] = []  # of the table and of the line of each row
    for row, (variant, split) in zip(rows, variants, strict=True):
        problem = (row["dataset"], variant, row["task"], row["data_sha256"])
        machine = (row["environment"], row["threads"], row["jobs"])
        keys.append(((problem, machine), (problem, machine, setting(row), row["origin"])))
        splits[keys[-1][1]].add(split)
    on_several = [
        row["origin"] != "reference" and len(splits[line]) > 1
        for row, (_, line) in zip(rows, keys, strict=True)
    ]
    single_tables = {
        table
        for (table, _), is_several, (_, split) in zip(keys, on_several, variants, strict=True)
        if not (is_several or split)
    }
    split_rows: list[Row] = []
    default_rows: list[Row] = []
    for row, (table, _), is_several, (variant, split) in zip(
        rows, keys, on_several, variants, strict=True
    ):
        if is_several:
            split_rows.append({**row, "variant": variant, SPLIT: split})
        if not is_several or (not split and table in single_tables):
            default_rows.append(row)
    return _equal_sizes(split_rows), default_rows


def _equal_sizes(rows: Sequence[Row]) -> list[Row]:
    """Rows with the sizes of the largest training set; `test_per_train` is a row's own ratio."""
    largest: dict[Hashable, Row] = {}
    for row in rows:
        problem = (row["dataset"], row["variant"], row["task"], row["data_sha256"])
        if (row["n_train"] or 0) >= (largest.get(problem, row)["n_train"] or 0):
            largest[problem] = row
    result: list[Row] = []
    for row in rows:
        sizes = largest[row["dataset"], row["variant"], row["task"], row["data_sha256"]]
        names = ("n_train", "n_test", "n_features", "n_classes")
        ratio = row["n_test"] / row["n_train"] if row["n_train"] and row["n_test"] else None
        result.append({**row, **{name: sizes[name] for name in names}, "test_per_train": ratio})
    return result


def mean_test_per_train(rows: Sequence[Row]) -> float:
    """Mean ratio of test rows to training rows of runs on several splits; 0 for other runs."""
    ratios = [row["test_per_train"] for row in rows if row.get("test_per_train") is not None]
    return math.fsum(ratios) / len(ratios) if ratios else 0.0


def corrected_error(values: Sequence[float], test_per_train: float) -> float | None:
    """Standard error of the mean of `values`, one for each split; None for fewer than two.

    The error is sqrt((1 / J + n_test / n_train) s^2) for J splits and sample variance s^2, from the
    corrected resampled variance of Nadeau and Bengio (2003), "Inference for the generalization
    error", Machine Learning 52, which accounts for training rows that splits have in common.
    """
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return math.sqrt((1.0 / n + test_per_train) * variance)
