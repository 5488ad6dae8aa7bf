"""The training rows divided again: folds, fractions, parts; the test rows are never looked at."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from kbench.data import Folders, check_config, open_prepared, prepare
from kbench.data.preparation.split import holdout_rows
from kbench.errors import ConfigError

labels = st.lists(st.integers(0, 3), min_size=8, max_size=80).map(np.array)
seeds = st.integers(0, 2**32 - 1)


def fold(k, of, **more):
    return {"folds": of, "fold": k, **more}


@given(labels, seeds, st.integers(2, 8))
def test_folds_are_a_partition_and_stratified(y, seed, k):
    parts = [holdout_rows(y, fold(i + 1, k, seed=seed), classes=True) for i in range(k)]
    assert sorted(np.concatenate([validate for _, validate in parts])) == list(range(y.size))
    for train, validate in parts:
        assert sorted([*train, *validate]) == list(range(y.size))
    sizes = [validate.size for _, validate in parts]
    assert max(sizes) - min(sizes) <= 1
    for label in np.unique(y):
        counts = [np.count_nonzero(y[validate] == label) for _, validate in parts]
        assert max(counts) - min(counts) <= 1


@given(labels, seeds, st.integers(2, 5), st.data())
def test_parts_are_nested_stratified_and_have_every_class(y, seed, k, data):
    train, _ = holdout_rows(y, fold(1, k, seed=seed), classes=True)
    present = np.unique(y[train])
    small = data.draw(st.integers(present.size, train.size))
    large = data.draw(st.integers(small, train.size))
    parts = [
        holdout_rows(y, fold(1, k, seed=seed, rows=m), classes=True)[0] for m in (small, large)
    ]
    assert set(parts[0]) <= set(parts[1]) <= set(train)
    assert np.array_equal(np.unique(y[parts[0]]), present)
    for label in present:
        share = np.count_nonzero(y[train] == label) / train.size
        assert abs(np.count_nonzero(y[parts[0]] == label) - share * small) <= present.size


@given(labels, seeds, st.floats(0.1, 0.9))
def test_a_fraction_is_rounded_and_stratified(y, seed, fraction):
    train, validate = holdout_rows(y, {"fraction": fraction, "seed": seed}, classes=True)
    assert validate.size == round(fraction * y.size)
    assert sorted([*train, *validate]) == list(range(y.size))
    for label, count in zip(*np.unique(y, return_counts=True), strict=True):
        found = np.count_nonzero(y[validate] == label)
        assert abs(found - count * validate.size / y.size) <= np.unique(y).size


@given(st.integers(10, 50), seeds)
def test_a_regression_is_divided_by_the_permutation_alone(n, seed):
    y = np.random.default_rng(seed).normal(size=n)
    order = np.random.RandomState(seed).permutation(n)
    train, validate = holdout_rows(y, fold(2, 3, seed=seed, rows=4), classes=False)
    assert np.array_equal(validate, np.sort(order[1::3]))
    assert np.array_equal(train, np.sort(np.delete(order, np.s_[1::3])[:4]))


def test_the_seed_alone_decides():
    y = np.arange(60) % 3
    first, again, other = (
        holdout_rows(y, fold(1, 5, seed=seed), classes=True)[1] for seed in (4, 4, 5)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("holdout", "said"),
    [
        (fold(1, 7), "holdout.folds is 7, there are 6 training rows"),
        (fold(1, 2, rows=4), "holdout.rows is 4, there are 3 rows to train"),
        ({"fraction": 0.01}, "leaves 6 of 6 training rows to train"),
    ],
)
def test_more_than_there_is(holdout, said):
    with pytest.raises(ConfigError, match=said):
        holdout_rows(np.array([0, 0, 0, 1, 1, 1]), holdout, classes=True)


def digits(**more):
    source = {"kind": "sklearn", "bundled": "digits"}
    split = {"kind": "random", "test_fraction": 0.2, "seed": 0}
    return {"name": "digits", "task": "multiclass", "source": source, "split": split, **more}


@pytest.mark.parametrize(
    ("holdout", "said"),
    [
        ({"folds": 5}, "holdout should have folds and fold, or fraction"),
        ({"folds": 5, "fold": 1, "fraction": 0.5}, "holdout should have folds and fold, or fract"),
        ({"folds": 5, "fold": 6}, "holdout.fold is 6, there are 5 folds"),
        ({"folds": 1, "fold": 1}, "holdout.folds is 1, should be a whole number from 2"),
    ],
)
def test_a_config_that_divides_nothing(holdout, said):
    with pytest.raises(ConfigError, match=said):
        check_config(digits(holdout=holdout))


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_the_prepared_arrays_are_shared_and_those_of_the_test_rows_not_opened(tmp_path, storage):
    folders = Folders.from_environment(tmp_path)
    whole = prepare(digits(storage="dense"), folders)
    data = open_prepared(whole)
    folder = prepare(digits(storage="dense", holdout=fold(2, 5)), folders)
    assert folder == whole
    if storage == "csr":
        folder = as_csr(folder, tmp_path)
    for path in folder.glob("?_test*.npy"):
        path.unlink()
    part = open_prepared(folder, fold(2, 5, rows=100))
    train, validate = holdout_rows(data.y_train, fold(2, 5, rows=100), classes=True)
    for X, rows in ((part.X_train, train), (part.X_test, validate)):
        dense = X if storage == "dense" else X.toarray()
        assert np.array_equal(dense, data.X_train[rows])
        assert X.dtype == np.float32
        assert not (X if storage == "dense" else X.data).flags.writeable
    assert np.array_equal(part.y_test, data.y_train[validate])
    assert part.n_classes == 10


def as_csr(folder, tmp_path):
    """The same training rows as `prepare` writes sparse ones."""
    other = tmp_path / "csr"
    other.mkdir()
    X = csr_matrix(np.load(folder / "X_train.npy"))
    for name in ("data", "indices", "indptr"):
        np.save(other / f"X_train.{name}.npy", getattr(X, name))
    (other / "y_train.npy").write_bytes((folder / "y_train.npy").read_bytes())
    meta = (folder / "meta.json").read_text().replace('"dense"', '"csr"')
    (other / "meta.json").write_text(meta)
    return other


def test_more_folds_than_groups_are_refused_by_the_key_of_the_command():
    groups = np.repeat(np.arange(4), 5)
    with pytest.raises(ConfigError, match=r"tune\.cv is 5, there are 4 groups of training rows"):
        holdout_rows(np.zeros(20), fold(1, 5), classes=False, groups=groups)
