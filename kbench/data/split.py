"""Which rows train and which test."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kbench.errors import ConfigError


def split_rows(y: np.ndarray, split: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the training and of the test part, in the order in which they are used.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Labels; looked at only where the split is stratified.
    split : mapping
        kind: random or first; n_train, n_test, or test_fraction; seed; stratified.

    Notes
    -----
    random is `numpy.random.RandomState(seed).permutation(n)`, whose first
    `round((1 - test_fraction) n)` rows train. Stratified, the same permutation is walked class by
    class, each class giving the rounded share of its rows.
    """
    n = y.size
    order = np.arange(n)
    if split["kind"] == "random":
        order = np.random.RandomState(split.get("seed") or 0).permutation(n)
    n_train = split.get("n_train")
    if n_train is None:
        if split.get("stratified"):
            return _stratified(order, y, 1.0 - split["test_fraction"])
        n_train = round((1.0 - split["test_fraction"]) * n)
    n_test = split.get("n_test") or n - n_train
    if n_train < 1 or n_test < 1 or n_train + n_test > n:
        raise ConfigError(
            f"dataset.split asks for {n_train} training and {n_test} test rows, there are {n}"
        )
    return order[:n_train], order[n_train : n_train + n_test]


def _stratified(order: np.ndarray, y: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    trains = np.zeros(y.size, dtype=bool)
    for label in np.unique(y):
        members = order[y[order] == label]
        trains[members[: round(share * members.size)]] = True
    return order[trains[order]], order[~trains[order]]
