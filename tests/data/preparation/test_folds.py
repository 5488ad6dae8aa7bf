"""Folds of all rows as test rows: scikit-learn's, stratified and grouped as random splits are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

from kbench.data.configs.dataset import splits
from kbench.data.preparation.split import split_rows
from kbench.errors import ConfigError

Y = np.repeat([0.0, 1.5, 7.0], [40, 30, 20])[np.random.default_rng(0).permutation(90)]
GROUPS = np.arange(90) // 3
SPLITTERS = {
    (False, False): KFold,
    (True, False): StratifiedKFold,
    (False, True): GroupKFold,
    (True, True): StratifiedGroupKFold,
}


def parts(folds, *, stratified=False, groups=None, seed=0, y=Y):
    asked = {"kind": "random", "folds": folds, "stratified": stratified, "seed": seed}
    return [split_rows(y, {**asked, "fold": k}, groups) for k in range(1, folds + 1)]


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize(("stratified", "grouped"), SPLITTERS)
def test_folds_are_those_of_scikit_learn_in_the_order_of_the_permutation(stratified, grouped, seed):
    groups = GROUPS if grouped else None
    made = parts(5, stratified=stratified, groups=groups, seed=seed)
    splitter = SPLITTERS[stratified, grouped](5, shuffle=True, random_state=seed)
    labels = np.unique(Y, return_inverse=True)[1]
    order = np.random.RandomState(seed).permutation(90)
    expected = splitter.split(np.zeros(90), labels, groups)
    for (train, test), (their_train, their_test) in zip(made, expected, strict=True):
        assert train.tolist() == order[np.isin(order, their_train)].tolist()
        assert test.tolist() == order[np.isin(order, their_test)].tolist()
    if grouped:
        assert all(not {*GROUPS[train]} & {*GROUPS[test]} for train, test in made)


@given(st.integers(2, 9), st.integers(9, 60), st.integers(0, 9))
def test_every_row_tests_once_and_trains_otherwise(folds, n, seed):
    made = parts(folds, seed=seed, y=np.zeros(n))
    assert sorted(np.concatenate([test for _, test in made])) == list(range(n))
    for train, test in made:
        assert sorted([*train, *test]) == list(range(n))


@pytest.mark.parametrize(
    ("folds", "changes", "said"),
    [
        (91, {}, "folds is 91, there are 90 rows"),
        (21, {"stratified": True}, "a class has 20 rows"),
        (31, {"groups": GROUPS}, "there are 30 groups of rows"),
    ],
)
def test_too_many_folds_are_refused(folds, changes, said):
    with pytest.raises(ConfigError, match=said):
        parts(folds, **changes)


def test_no_group_is_left_to_train():
    split = {"kind": "random", "test_fraction": 0.9}
    for n, refused in ((2, True), (9, True), (10, False)):
        groups = np.arange(3 * n) % n
        if refused:
            with pytest.raises(ConfigError, match=f"leaves none of {n} groups of rows to train"):
                split_rows(groups, split, groups)
        else:
            assert np.unique(groups[split_rows(groups, split, groups)[0]]).size == 1


def test_repeats_are_the_seeds_from_the_split_s_own_on():
    split = {"kind": "random", "test_fraction": 0.2, "seed": 4, "repeats": 3}
    assert splits({"split": split}) == [{"repeats": None, "seed": seed} for seed in (4, 5, 6)]
    assert splits({"split": {**split, "repeats": None}}) == [{}]
    both = splits({"split": {**split, "repeats": 2, "folds": 2}})
    assert [(one["seed"], one["fold"]) for one in both] == [(4, 1), (4, 2), (5, 1), (5, 2)]
    assert all(one["test_fraction"] is one["n_train"] is one["n_test"] is None for one in both)
    one = splits({"split": {**split, "repeats": None, "folds": 3, "fold": 2}})
    assert [(o["seed"], o["fold"]) for o in one] == [(4, 2)]


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ({"repeats": "many"}, "dataset.split.repeats is 'many', should be a whole number"),
        ({"folds": 1}, "dataset.split.folds is 1"),
        ({"fold": 1}, "dataset.split.fold is 1, dataset.split.folds is null"),
        ({"folds": 2, "fold": 3}, "dataset.split.fold is 3, dataset.split.folds is 2"),
        ({"kind": "given", "folds": 2}, "dataset.split.kind is given"),
        ({"kind": "first", "repeats": 2}, "dataset.split.kind is first"),
    ],
)
def test_splits_that_cannot_be_are_refused(split, said):
    with pytest.raises(ConfigError, match=said):
        splits({"split": {"kind": "random", "seed": 0, **split}})


def test_a_test_file_is_no_part_of_a_random_split():
    config = {"source": {"kind": "file"}, "test_path": "b", "split": {"kind": "random", "folds": 2}}
    with pytest.raises(ConfigError, match=r"dataset\.test_path names the test rows"):
        splits(config)
