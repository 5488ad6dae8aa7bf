"""Runs of several random splits of one data set: which they are, and the error of their mean.

A split that is not the data set's own is named in the variant of a row, `split.seed=3` or
`split.fold=2,split.seed=1`. Test sets of splits are drawn from the same rows, so their scores
are correlated, and the variance of their mean is larger than that of independent ones.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

SPLIT = "split"  # key that a row gets here; no column of the results

_IDENTITY = re.compile(r"(?:^|,)split\.(?:seed|fold)=\d+(?=,|$)")

Row = Mapping[str, Any]


def split_of(variant: str | None) -> tuple[str | None, str]:
    """A variant without the seed and the fold of its split, and these; "" is the own split.

    >>> split_of("raw,split.folds=2,split.fold=1,split.seed=3")
    ('raw,split.folds=2', 'split.fold=1,split.seed=3')
    """
    text = variant or ""
    names = [found[0].lstrip(",") for found in _IDENTITY.finditer(text)]
    return _IDENTITY.sub("", text).lstrip(",") or None, ",".join(names)


def over_splits(
    rows: Sequence[Row], setting: Callable[[Row], Hashable]
) -> tuple[list[Row], list[Row]]:
    """The rows whose setting was run on several splits, and those of one split.

    Parameters
    ----------
    rows : sequence of mapping
    setting : callable
        What tells a method with its parameters from others.

    Returns
    -------
    list of mapping, list of mapping
        The first rows have the variant without their split, its name in `SPLIT`, and the sizes of
        the largest training part. Rows of the data set's own split are in both lists where another
        setting has that split alone, so that both can be compared on it. Rows that came with
        kbench are of the splits that the papers state, and are in the second list.
    """
    named = [split_of(row["variant"]) for row in rows]
    splits: defaultdict[Hashable, set[str]] = defaultdict(set)
    keys: list[tuple[Hashable, Hashable]] = []
    for row, (variant, split) in zip(rows, named, strict=True):
        problem = (row["dataset"], variant, row["task"], row["data_sha256"])
        machine = (row["environment"], row["threads"], row["jobs"])
        keys.append(((problem, machine), (problem, machine, setting(row), row["origin"])))
        splits[keys[-1][1]].add(split)
    several = [
        row["origin"] != "reference" and len(splits[line]) > 1
        for row, (_, line) in zip(rows, keys, strict=True)
    ]
    alone = {
        place
        for (place, _), many, (_, split) in zip(keys, several, named, strict=True)
        if not (many or split)
    }
    over: list[Row] = []
    single: list[Row] = []
    for row, (place, _), many, (variant, split) in zip(rows, keys, several, named, strict=True):
        if many:
            over.append({**row, "variant": variant, SPLIT: split})
        if not many or (not split and place in alone):
            single.append(row)
    return _equal_sizes(over), single


def _equal_sizes(rows: Sequence[Row]) -> list[Row]:
    """The rows with the sizes of the largest training part, and their own in `test_per_train`."""
    largest: dict[Hashable, Row] = {}
    for row in rows:
        problem = (row["dataset"], row["variant"], row["task"], row["data_sha256"])
        if (row["n_train"] or 0) >= (largest.get(problem, row)["n_train"] or 0):
            largest[problem] = row
    made: list[Row] = []
    for row in rows:
        sizes = largest[row["dataset"], row["variant"], row["task"], row["data_sha256"]]
        names = ("n_train", "n_test", "n_features", "n_classes")
        own = row["n_test"] / row["n_train"] if row["n_train"] and row["n_test"] else None
        made.append({**row, **{name: sizes[name] for name in names}, "test_per_train": own})
    return made


def test_per_train(rows: Sequence[Row]) -> float:
    """Mean ratio of test rows to training rows of runs on several splits."""
    known = [row["test_per_train"] for row in rows if row.get("test_per_train") is not None]
    return math.fsum(known) / len(known) if known else 0.0


def corrected_error(values: Sequence[float], test_per_train: float) -> float | None:
    """Standard error of the mean of `values`, one for each split; None of fewer than two.

    Notes
    -----
    sqrt((1 / J + n_test / n_train) s^2) for J splits and their sample variance s^2: the corrected
    resampled variance of Nadeau and Bengio (2003), "Inference for the generalization error",
    Machine Learning 52, which accounts for training rows that splits have in common.
    """
    n = len(values)
    if n < 2:
        return None
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    return math.sqrt((1.0 / n + test_per_train) * variance)
