"""Division of rows into training and test rows, and of training rows for validation."""

from collections.abc import Mapping
from math import ceil
from typing import Any

import numpy as np

from kbench.data.configs.dataset import rows_of_split
from kbench.errors import ConfigError


def split_rows(
    y: np.ndarray, split: Mapping[str, Any], groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the training part and of the test part, in the order of the prepared arrays.

    y : ndarray, shape (n,). Labels. Their values count only if the split is stratified.
    split : `split` of a config: kind (random or first), n_train and n_test or test_fraction, seed,
        stratified, or folds and fold (from 1).
    groups : ndarray of int64, shape (n,), optional
        Rows with equal numbers stay on one side of a random split.

    Raises ConfigError: there are fewer rows or groups than requested, or `n_train`, `n_test` or
    `stratified` is set although the rows have groups.

    A random split takes the first `round((1 - test_fraction) n)` rows of
    `numpy.random.RandomState(seed).permutation(n)` for training. A stratified split without
    `n_train` and `n_test` takes such a fraction of each class. Groups are divided by scikit-learn's
    GroupShuffleSplit, and folds are those of its KFold, StratifiedKFold, GroupKFold or
    StratifiedGroupKFold (`shuffle=True`) with the same seed. The rows are always in the order of
    the permutation.
    """
    if split.get("folds"):
        return _split_fold(y, split, groups)
    if groups is not None:
        return _split_groups(groups, split)
    n = y.size
    order = np.arange(n)
    if split["kind"] == "random":
        order = np.random.RandomState(split.get("seed") or 0).permutation(n)
    if is_stratified(split):
        return _split_stratified(order, y, 1.0 - split["test_fraction"])
    n_train, n_test = rows_of_split(n, split)
    return order[:n_train], order[n_train : n_train + n_test]


def is_stratified(split: Mapping[str, Any]) -> bool:
    """Whether a random split keeps the proportions of classes; n_train and n_test exclude it."""
    sizes = split.get("n_train") or split.get("n_test")
    return bool(split.get("stratified")) and not sizes


def _split_groups(groups: np.ndarray, split: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.model_selection import GroupShuffleSplit

    for key in ("n_train", "n_test", "stratified"):
        if split.get(key):
            raise ConfigError(
                f"dataset.split.{key} is {split[key]!r}, but whole groups of rows are divided: "
                "dataset.split.test_fraction alone, or dataset.split.group=false"
            )
    n_groups = np.unique(groups).size
    if n_groups < 2:
        raise ConfigError(
            "all rows are of one group, which cannot be divided into training and test rows; "
            "dataset.split.group=false divides single rows"
        )
    seed = split.get("seed") or 0
    if n_groups == ceil(split["test_fraction"] * n_groups):  # as scikit-learn rounds
        raise ConfigError(
            f"dataset.split.test_fraction is {split['test_fraction']}, which leaves none of "
            f"{n_groups} groups of rows to train"
        )
    shuffled = GroupShuffleSplit(1, test_size=split["test_fraction"], random_state=seed)
    train, _ = next(shuffled.split(groups, groups=groups))
    order = np.random.RandomState(seed).permutation(groups.size)
    in_training = np.zeros(groups.size, dtype=bool)
    in_training[train] = True
    return order[in_training[order]], order[~in_training[order]]


def _split_fold(
    y: np.ndarray, split: Mapping[str, Any], groups: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    from sklearn import model_selection

    folds, seed = split["folds"], split.get("seed") or 0
    n_units = y.size if groups is None else np.unique(groups).size
    if n_units < folds:
        units = "rows" if groups is None else "groups of rows"
        raise ConfigError(f"dataset.split.folds is {folds}, there are {n_units} {units}")
    labels = None
    if split.get("stratified"):
        labels = np.unique(y, return_inverse=True)[1]
        if (rarest := int(np.bincount(labels).min())) < folds:
            raise ConfigError(
                f"dataset.split.folds is {folds}, but a class has {rarest} rows, which a stratified"
                " split cannot give to every fold; dataset.split.stratified=false divides all rows"
            )
    name = f"{'Stratified' * (labels is not None)}{'Group' * (groups is not None)}KFold"
    splitter = getattr(model_selection, name)(folds, shuffle=True, random_state=seed)
    in_test = np.zeros(y.size, dtype=bool)
    parts = list(splitter.split(np.zeros((y.size, 0)), labels, groups))
    in_test[parts[split["fold"] - 1][1]] = True
    order = np.random.RandomState(seed).permutation(y.size)
    return order[~in_test[order]], order[in_test[order]]


def _split_stratified(
    order: np.ndarray, y: np.ndarray, train_fraction: float
) -> tuple[np.ndarray, np.ndarray]:
    in_training = np.zeros(y.size, dtype=bool)
    for label in np.unique(y):
        members = order[y[order] == label]
        in_training[members[: round(train_fraction * members.size)]] = True
    if in_training.all() or not in_training.any():
        raise ConfigError(
            f"dataset.split.test_fraction is {1.0 - train_fraction:.6g}, which leaves no row to "
            + ("test" if in_training.all() else "train")
        )
    return order[in_training[order]], order[~in_training[order]]


def holdout_rows(
    y: np.ndarray, holdout: Mapping[str, Any], *, classes: bool, groups: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Divide training rows; returns ascending numbers of rows to train on and to validate on.

    y : ndarray, shape (n,). Targets of the training rows.
    holdout : `holdout` of a config: folds and fold (from 1), or fraction; rows; seed
    classes : Whether y holds classes. The division is then stratified: the sizes of two folds
        differ by at most one, for each class and in total.
    groups : ndarray of int64, shape (n,), optional
        Rows with equal numbers stay on one side. Groups in random order go to the smallest fold, or
        to the validation rows until their fraction is reached.

    Raises ConfigError: there are fewer rows than requested.

    `numpy.random.RandomState(seed).permutation(n)` is sorted by class, and its element k goes to
    fold k modulo the number of folds. For a subset of m rows, the rows of each class get
    equidistant positions from 0 in [0, 1), and the m rows with the lowest positions are taken. Such
    subsets are nested, and contain every class if m is at least the number of classes.
    """
    n = y.size
    labels = y if classes else np.zeros(n, dtype=np.int8)
    order = np.random.RandomState(holdout.get("seed") or 0).permutation(n)
    order = order[np.argsort(labels[order], kind="stable")]
    folds, fold, fraction = (holdout.get(name) for name in ("folds", "fold", "fraction"))
    if groups is not None:
        in_validation = _held_out_groups(groups, holdout)[order]
        train, validate = order[~in_validation], order[in_validation]
    elif folds is not None and fold is not None:
        if folds > n:
            raise ConfigError(f"dataset.holdout.folds is {folds}, there are {n} training rows")
        in_validation = np.arange(n) % folds == fold - 1
        train, validate = order[~in_validation], order[in_validation]
    else:
        order = _spread(order, labels)
        n_train = n - round(holdout["fraction"] * n)
        if not 0 < n_train < n:
            raise ConfigError(
                f"dataset.holdout.fraction is {fraction}, which leaves {n_train} of {n} training "
                "rows to train"
            )
        train, validate = order[:n_train], order[n_train:]
    rows = holdout.get("rows") or train.size
    if rows > train.size:
        raise ConfigError(f"dataset.holdout.rows is {rows}, there are {train.size} rows to train")
    return np.sort(_spread(train, labels)[:rows]), np.sort(validate)


def _held_out_groups(groups: np.ndarray, holdout: Mapping[str, Any]) -> np.ndarray:
    """Whether each row validates, shape (n,)."""
    _, group_of_row, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    shuffled = np.random.RandomState(holdout.get("seed") or 0).permutation(sizes.size)
    folds, fold = holdout.get("folds"), holdout.get("fold")
    if folds is None or fold is None:
        n_wanted = holdout["fraction"] * groups.size
        # The last group is held out if at most half of its rows exceed the number wanted.
        held_out = shuffled[np.cumsum(sizes[shuffled]) - sizes[shuffled] / 2 <= n_wanted]
    else:
        if sizes.size < folds:
            raise ConfigError(
                f"tune.cv is {folds}, there are {sizes.size} groups of training rows to divide"
            )
        fold_sizes, fold_of_group = np.zeros(folds), np.zeros(sizes.size, dtype=int)
        for group in shuffled:
            fold_of_group[group] = np.argmin(fold_sizes)
            fold_sizes[fold_of_group[group]] += sizes[group]
        held_out = np.flatnonzero(fold_of_group == fold - 1)
    in_validation: np.ndarray = np.isin(group_of_row, held_out)
    if not 0 < np.count_nonzero(in_validation) < groups.size:
        raise ConfigError(
            f"dataset.holdout divides {sizes.size} groups of rows into training and validation "
            "rows, but one side is empty"
        )
    return in_validation


def _spread(order: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Reorder row numbers that are grouped by class so that every prefix is stratified."""
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    rank = np.arange(order.size) - np.repeat(starts, counts)
    return order[np.argsort(rank / np.repeat(counts, counts), kind="stable")]
