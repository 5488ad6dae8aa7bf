"""Folds of all rows as test rows: scikit-learn's, stratified and grouped as random splits are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from support import csv_file, opened_file, shipped

from kbench.data.configs.dataset import require_effect, splits
from kbench.data.configs.keys import KEYS
from kbench.data.configs.own_file import OWN_SPLIT
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


VALUES = {  # that say something, of every key of `split`
    "test_fraction": 0.3,
    "n_train": 9,
    "n_test": 9,
    "seed": 1,
    "stratified": True,
    "group": True,
    "repeats": 2,
    "folds": 2,
    "fold": 1,
}
READ = {"given": set(), "first": {"test_fraction", "n_train", "n_test"}, "test rows": set()}


@pytest.mark.parametrize("key", VALUES)
@pytest.mark.parametrize("division", READ)
def test_a_key_that_divides_no_rows_is_refused(key, division):
    """Runs that differ in it alone would be equal, and reports take them for several splits."""
    split = {"kind": "random" if division == "test rows" else division, key: VALUES[key]}
    config = {"source": {"kind": "file"}, "split": split}
    config["test_path"] = "b" if division == "test rows" else None
    if key in READ[division]:
        require_effect(config)
        return
    named = "test_path" if division == "test rows" else f"kind is {division}"
    said = rf"dataset\.split\.{key} is {VALUES[key]}, but dataset\..*{named}"
    with pytest.raises(ConfigError, match=said):
        require_effect(config)
    with pytest.raises(ConfigError, match="the file itself names the test rows"):
        require_effect(config | {"test_path": None}, own_test=True)


@pytest.mark.parametrize("asked", [{"repeats": 2}, {"folds": 3}, {"fold": 1}])
def test_prepared_data_are_of_one_split(folders, asked):
    path = csv_file(folders, ["a,y", *(f"{k},{k % 2}" for k in range(60))])
    with pytest.raises(ConfigError, match="asks for several splits, prepared data are of one"):
        opened_file(path, folders, split=asked)


def test_every_key_of_a_split_is_tried():
    keys = {name.partition(".")[2] for name in KEYS if name.startswith("split.")}
    assert keys == {*VALUES, "kind"}
    own = shipped("file")["split"]
    assert {key: own[key] for key in OWN_SPLIT} == OWN_SPLIT


@pytest.mark.parametrize("sizes", [{"n_train": 30}, {"n_test": 12}])
def test_numbers_of_rows_win_over_proportions_of_classes(folders, sizes):
    path = csv_file(folders, ["a,y", *(f"{k},{k % 7 == 0:d}" for k in range(60))])
    split = {"stratified": True, **sizes}
    data = opened_file(path, folders, split=split)
    plain = opened_file(path, folders, split=sizes)
    np.testing.assert_array_equal(data.X_train, plain.X_train)
    assert (data.n_train, data.n_test) == ((30, 30) if "n_train" in sizes else (48, 12))
    assert any("the split is not stratified" in note for note in data.notes)


def test_the_first_rows_are_a_fraction_or_a_number(folders):
    path = csv_file(folders, ["a,y", *(f"{k},{k % 2}" for k in range(60))])
    for split, n in (({}, 48), ({"test_fraction": 0.5}, 30), ({"n_train": 10}, 10)):
        data = opened_file(path, folders, split={"kind": "first", **split})
        np.testing.assert_array_equal(data.X_train[:, 0], np.arange(n))
