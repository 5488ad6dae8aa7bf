"""Later rows are treated as those of the data set: the same bits, the same targets."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import issparse, vstack
from support import later_rows, libsvm_text, merge, named, opened, saved, shipped, user_file

from kbench.data import Folders, Preparation
from kbench.data.formats import FORMATS
from kbench.data.preparation.target import learn
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.data.sources.rows import CsrArrays, SparseRows
from kbench.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
X = np.where(RNG.random((60, 6)) < 0.6, RNG.random((60, 6)).round(3), 0.0)
X[0] = 0.0  # every column has a zero, so that zeros stay
Y = np.where(RNG.random(60) < 0.5, 1, -1)


def applied(preparation, rows):
    """Features of all rows as one matrix, and the targets."""
    blocks = list(preparation.features(rows))
    stacked = vstack(blocks, format="csr") if issparse(blocks[0]) else np.vstack(blocks)
    return stacked, preparation.target.encode(rows.y)


def assert_same(found, expected):
    assert issparse(found) == issparse(expected)
    assert found.dtype == expected.dtype == np.float32
    if issparse(found):
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("block_bytes", [200, 1 << 20])
@pytest.mark.parametrize(
    ("storage", "scale"),
    [("dense", "none"), ("dense", "unit"), ("dense", "standard"), ("csr", "none"), ("csr", "unit")],
)
def test_the_test_file_becomes_the_test_rows(folders, storage, scale, block_bytes):
    raw = folders.read_only[0]
    (raw / "toy").write_text(libsvm_text(X[:40], Y[:40]))
    (raw / "toy.t").write_text(libsvm_text(X[40:, :5], Y[40:]))  # lacks the last column
    config = named(storage=storage, scale=scale)
    data = opened(config, folders)
    plain = data.preparation.plain()
    preparation = Preparation.from_plain(plain)
    for source in (config, user_file(raw / "toy.t")):
        with changed_piece_sizes(block=block_bytes):
            found, y = applied(preparation, later_rows(source, folders, preparation))
        assert_same(found, data.X_test)
        np.testing.assert_array_equal(y, data.y_test)


def test_categories_and_text_labels_of_a_table(folders):
    raw = folders.read_only[0]
    (raw / "toy").write_text("c,a,y\nred,1,no\nblue,2,yes\nred,3,no\n")
    (raw / "toy.t").write_text("c,a,y\nblue,4,yes\n")
    source = {"format": "csv", "columns": {"categorical": ["c"], "target": "y"}}
    data = opened(merge(named(source=source), {"scale": "unit"}), folders)
    preparation = Preparation.from_plain(
        json.loads(json.dumps(data.preparation.plain(), default=list))
    )
    (raw / "new").write_text("a,c\n4,blue\n")
    (raw / "strange").write_text("a,c,y\n4,blue,perhaps\n")
    for name, known in (("toy.t", True), ("new", False), ("strange", False)):
        rows = later_rows(user_file(raw / name), folders, preparation)
        found, _ = applied(preparation, rows)
        np.testing.assert_array_equal(found, data.X_test)
        assert bool(preparation.target.known(rows.y).all()) == known
    np.testing.assert_array_equal(preparation.target.decode(np.array([-1, 1])), ["no", "yes"])


@settings(max_examples=12)  # the first example imports pyarrow
@given(size=st.integers(1, 80))
def test_further_rows_of_a_table_that_is_read_piece_by_piece(tmp_path_factory, size):
    root = tmp_path_factory.mktemp("pieces")
    folders = Folders(root / "datasets", (root,))
    texts, labels = np.array(["red", "blue", "green"])[np.arange(30) % 3], Y[:30] > 0
    rows = [f"{c},{k},{label}" for k, (c, label) in enumerate(zip(texts, labels, strict=True))]
    (root / "toy").write_text("\n".join(["c,a,y", *rows]))
    (root / "toy.t").write_text("\n".join(["c,a,y", *rows[::-1]]))
    columns = {"categorical": ["c"], "target": "y"}
    data = opened(named(source={"format": "csv", "columns": columns}), folders)
    with changed_piece_sizes(text=size):
        found, y = applied(
            data.preparation, later_rows(user_file(root / "toy.t"), folders, data.preparation)
        )
    np.testing.assert_array_equal(found, data.X_test)
    np.testing.assert_array_equal(y, data.y_test)


def test_arrays_may_lack_their_targets(folders):
    raw = folders.read_only[0]
    np.savez(raw / "all.npz", X=X.astype(np.float32), y=Y)
    config = user_file(raw / "all.npz", source={"format": "npz"})
    data = opened(config, folders)
    np.savez(raw / "new.npz", X=X.astype(np.float32))
    new = user_file(raw / "new.npz", source={"format": "npz"})
    rows = later_rows(new, folders, data.preparation, own_source=True)
    found, _ = applied(data.preparation, rows)
    assert_same(found, X.astype(np.float32))
    assert not data.preparation.target.known(rows.y).any()


TABLES = sorted(name for name, form in FORMATS.items() if form.table)


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("later_form", TABLES)
def test_places_of_columns_are_those_of_the_training_file(folders, form, later_form):
    """`drop=[1]` means the first column of the training file, wherever later rows have it."""
    raw = folders.read_only[0]
    frame = pd.DataFrame(
        {"id": np.arange(60) * 7.0, "c": np.where(Y > 0, "u", "v"), "a": X[:, 1], "b": X[:, 2]}
    )
    categorical = ["c"] if form == "arff" else [2]  # ARFF's strings are found by name
    columns = {"target": "y", "drop": [1], "categorical": categorical}
    path = saved(frame.assign(y=Y), raw / f"t.{form}")
    config = user_file(path, source={"format": form, "columns": columns}, split={"kind": "first"})
    preparation = opened(config, folders).preparation
    expected = applied(preparation, later_rows(config, folders, preparation))[0]
    for k, names in enumerate((["b", "a", "id", "c"], ["a", "b", "c"])):
        config = user_file(saved(frame[names], raw / f"new{k}.{later_form}"))
        found = applied(preparation, later_rows(config, folders, preparation))[0]
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("columns", "text", "expected"),
    [
        ({}, "2,1,0\n1,2,1\n", [[2, 1], [1, 2]]),  # the columns are called 1, 2 and 3
        ({}, "2,1\n1,2\n", [[2, 1], [1, 2]]),
        ({"names": ["p", "q", "y"]}, "q,p\n1,2\n", [[2, 1]]),
        ({"header": False, "names": ["p", "q", 5]}, "2,1,0\n", [[2, 1]]),
    ],
)
def test_the_first_line_of_later_rows_is_a_header_if_it_has_the_names(
    folders, columns, text, expected
):
    raw = folders.read_only[0]
    (raw / "t.csv").write_text("".join(f"{k % 3},{k % 4},{k % 2}\n" for k in range(40)))
    config = user_file(raw / "t.csv", source={"format": "csv", "columns": columns})
    preparation = opened(config, folders).preparation
    (raw / "new.csv").write_text(text)
    found, _ = applied(preparation, later_rows(user_file(raw / "new.csv"), folders, preparation))
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


def test_later_rows_in_a_format_that_does_not_exist_are_one_line(folders):
    raw = folders.read_only[0]
    saved(pd.DataFrame({"a": X[:, 0], "y": Y}), raw / "t.csv")
    config = user_file(raw / "t.csv", source={"format": "csv"})
    preparation = opened(config, folders).preparation
    with pytest.raises(ConfigError, match=r"source\.format is 'excel', should be one of"):
        later_rows(merge(config, {"source": {"format": "excel"}}), folders, preparation)


def test_rows_of_another_width_or_task_are_refused(folders):
    raw = folders.read_only[0]
    (raw / "toy").write_text(libsvm_text(X, Y))
    (raw / "toy.t").write_text(libsvm_text(X, Y))
    preparation = opened(named(), folders).preparation
    (raw / "wide").write_text("1 9:1\n")
    with pytest.raises(DataError, match="9"):
        later_rows(user_file(raw / "wide"), folders, preparation)
    iris = shipped("iris", task="binary", target={"positive": [1]})
    rows = later_rows(iris, folders, preparation)
    with pytest.raises(DataError, match="4 features, the model was trained on 6"):
        next(preparation.features(rows))
    with pytest.raises(ConfigError, match=r"dataset\.holdout divides training rows"):
        later_rows(named(holdout={"folds": 3, "fold": 1}), folders, preparation)
    with pytest.raises(ConfigError, match="is multiclass, the model's is binary"):
        later_rows(shipped("iris"), folders, preparation)


@pytest.mark.parametrize(
    "change",
    [
        {"target": {"task": "binary", "more": 1}},
        {"target": None},
        {"scaling": [np.ones(3)]},
        {"scaling": [np.ones(5)] * 3},
        {"storage": "disk"},
        {"layout": {"columns": {"a": [1]}, "target": "y"}},
        {"layout": {"columns": 1, "target": "y"}},
        {"source": 1},
        {"n_features": None},
    ],
    ids=str,
)
def test_a_preparation_that_is_none_is_one_line(folders, change):
    raw = folders.read_only[0]
    (raw / "toy").write_text(libsvm_text(X, Y))
    (raw / "toy.t").write_text(libsvm_text(X, Y))
    plain = opened(named(), folders).preparation.plain()
    with pytest.raises(DataError):
        Preparation.from_plain(plain | change)
    with pytest.raises(DataError):
        Preparation.from_plain(None)


LABELS = st.lists(st.integers(-3, 9).map(float), min_size=2, max_size=20)


@given(
    labels=LABELS,
    n_train=st.integers(1, 19),
    scale=st.sampled_from(["none", "max", "unit", "standard"]),
)
def test_regression_targets_go_there_and_back(labels, n_train, scale):
    y = np.array(labels)
    targets, n_classes = learn("regression", y[:n_train], y[n_train:], {"scale": scale})
    assert n_classes is None
    np.testing.assert_allclose(targets.decode(targets.encode(y)), y, atol=1e-9)


@given(labels=LABELS.filter(lambda labels: len(set(labels)) > 1))
def test_classes_go_there_and_back(labels):
    y = np.array(labels)
    targets, n_classes = learn("multiclass", y, y, {})
    np.testing.assert_array_equal(targets.decode(targets.encode(y)), y)
    assert n_classes == len(set(labels))
    if len(set(labels)) == 2:
        targets, _ = learn("binary", y, y, {})
        assert set(targets.encode(y)) == {-1, 1}
        np.testing.assert_array_equal(targets.decode(targets.encode(y)), y)
    assert targets.known(y).all()
    assert targets.known(np.append(y, 100.0)).sum() == len(y)


def test_classes_of_several_labels_stay_signs():
    y = np.arange(10.0)
    targets, _ = learn("binary", y, y, {"positive": [0, 2, 4, 6, 8]})
    np.testing.assert_array_equal(targets.decode(np.array([-1, 1])), [-1, 1])
    assert targets.known(y).all()


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_a_regression_on_two_labels_goes_on_with_later_rows(scale):
    y = np.array([4.0, 9.0, 4.0, 9.0, 9.0])
    targets, _ = learn("regression", y, y, {"positive": [4], "negative": [9], "scale": scale})
    np.testing.assert_allclose(targets.decode(targets.encode(y)), y == 4, atol=1e-12)
    assert targets.known(y).all()
    assert targets.known(np.array([4.0, 7.0])).tolist() == [True, False]


def test_blocks_of_sparse_rows_are_bounded_by_their_entries():
    from scipy.sparse import random_array

    X = random_array((100, 50_000), density=2e-4, format="csr", rng=0)
    wide = SparseRows(CsrArrays.of(X), np.ones(100))
    targets, _ = learn("binary", np.array([0.0, 1.0]), np.array([]), {})
    preparation = Preparation(targets, 50_000, "csr", None, {}, None)
    with changed_piece_sizes(block=800):
        blocks = list(preparation.features(wide))
    assert sum(block.shape[0] for block in blocks) == 100
    assert 5 < len(blocks) < 20  # 1,000 entries, about 100 a block


@pytest.mark.parametrize("kind", [int, float])
def test_categories_that_are_numbers_in_pandas_are_categories(folders, kind):
    raw = folders.read_only[0]
    frame = pd.DataFrame({"a": X[:, 0], "c": (np.arange(60) % 3).astype(kind), "y": Y})
    saved(frame.astype({"c": "category"}), raw / "t.parquet")
    config = user_file(raw / "t.parquet", source={"format": "parquet"}, split={"kind": "first"})
    data = opened(config, folders)
    assert data.n_features == 4
    assert any("c (3 numbers as texts)" in note for note in data.notes)
    saved(frame, raw / "new.parquet")
    found = [
        applied(data.preparation, later_rows(user_file(raw / name), folders, data.preparation))[0]
        for name in ("t.parquet", "new.parquet")
    ]
    assert_same(*found)
