"""From config to prepared arrays: identities, variants, wrong facts, failures on the way."""

import bz2
import errno
import gzip
import hashlib
import lzma
import multiprocessing
import os
import zipfile
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix, issparse
from support import left_over, libsvm_text, merge, named, one_file, opened, shipped, user_file

from kbench.data import (
    Folders,
    check_config,
    fingerprint,
    locate,
    open_prepared,
    prepare,
    status,
    with_variant,
)
from kbench.data.preparation import prepared
from kbench.data.preparation.copied_rows import copied_rows
from kbench.data.preparation.imputation import _fit_imputer
from kbench.data.sources.fetch import writable
from kbench.data.sources.rows import CsrArrays, DenseRows, SparseRows
from kbench.errors import ConfigError, DataError, DataNotFoundError

RNG = np.random.default_rng(0)
X = np.where(RNG.random((40, 6)) < 0.6, RNG.normal(size=(40, 6)).round(3), 0.0)
X[:, 4] = 2.5  # a constant column
Y = np.where(RNG.random(40) < 0.5, 1, -1)
TEXT = libsvm_text(X, Y)


@pytest.fixture
def toy(folders):
    """Both files of the data set `toy`."""
    raw = folders.read_only[0]
    (raw / "toy").write_text(libsvm_text(X[:30], Y[:30]))
    (raw / "toy.t").write_text(libsvm_text(X[30:], Y[30:]))
    return folders


def test_arrays_as_the_files_have_them(toy):
    data = opened(named(), toy)
    np.testing.assert_array_equal(data.X_train, X[:30].astype(np.float32))
    np.testing.assert_array_equal(data.X_test, X[30:].astype(np.float32))
    np.testing.assert_array_equal(data.y_train, Y[:30])
    assert (data.n_train, data.n_test, data.n_features, data.n_classes) == (30, 10, 6, 2)
    assert data.y_train.dtype == np.int32
    for array in (data.X_train, data.y_train):
        assert type(array) is np.ndarray
        assert array.flags.c_contiguous
        assert not array.flags.writeable


def test_csr_holds_the_same_rows_on_read_only_maps(toy):
    data = opened(named(storage="csr"), toy)
    assert issparse(data.X_train)
    assert data.X_train.has_sorted_indices
    assert data.X_train.indices.dtype == data.X_train.indptr.dtype == np.int32
    assert not data.X_train.data.flags.writeable
    np.testing.assert_array_equal(data.X_train.toarray(), X[:30].astype(np.float32))
    ones = np.ones(6, dtype=np.float32)
    np.testing.assert_allclose(data.X_test @ ones, X[30:].sum(axis=1), rtol=1e-5)
    anew = opened(named(storage="csr", split={"kind": "first", "n_train": 32}), toy)
    np.testing.assert_array_equal(anew.X_train.toarray(), X[:32].astype(np.float32))


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("over", ["train", "all"])
@pytest.mark.parametrize("scale", ["unit", "symmetric", "standard", "unit_global"])
def test_scaling_is_that_of_numpy(toy, scale, over, storage):
    config = named(scale=scale, scale_over=over, storage=storage)
    seen = (X if over == "all" else X[:30]).astype(np.float32).astype(np.float64)
    low, high = seen.min(axis=0), seen.max(axis=0)
    if scale == "unit_global":
        low, high = np.full(6, seen.min()), np.full(6, seen.max())
    shift, factor, base = low, 1 / np.where(high > low, high - low, np.inf), 0.0
    if scale == "symmetric":
        factor, base = 2 * factor, np.where(high > low, -1.0, 0.0)
    if scale == "standard":
        constant = seen.std(axis=0) < 1e-9
        shift, factor = seen.mean(axis=0), 1 / np.where(constant, np.inf, seen.std(axis=0))
    if storage == "csr":
        with pytest.raises(ConfigError, match=rf"dataset\.scale is {scale}, which moves zeros"):
            prepare(config, toy)
        assert left_over(toy.own) == []
        return
    data = opened(config, toy)
    for got, raw in ((data.X_train, X[:30]), (data.X_test, X[30:])):
        expected = (raw.astype(np.float32) - shift) * factor + base
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_scaling_of_a_sparse_matrix_without_negative_values_stays_sparse(folders):
    positive = np.abs(X)
    positive[0] = 0.0  # every column has a zero, so that zeros stay
    (folders.read_only[0] / "toy").write_text(libsvm_text(positive, Y))
    dense = opened(one_file(scale="unit", storage="dense"), folders)
    sparse = opened(one_file(scale="unit", storage="csr"), folders)
    np.testing.assert_allclose(sparse.X_train.toarray(), dense.X_train, rtol=1e-6)


def test_the_random_split_is_the_documented_permutation(folders):
    (folders.read_only[0] / "toy").write_text(TEXT)
    data = opened(one_file(split={"seed": 5, "test_fraction": 0.3}), folders)
    order = np.random.RandomState(5).permutation(40)
    np.testing.assert_array_equal(data.X_train, X[order[:28]].astype(np.float32))
    np.testing.assert_array_equal(data.y_test, Y[order[28:]])
    counted = opened(one_file(split={"seed": 5, "n_train": 20, "n_test": 7}), folders)
    np.testing.assert_array_equal(counted.y_train, Y[order[:20]])
    np.testing.assert_array_equal(counted.y_test, Y[order[20:27]])
    first = opened(one_file(split={"kind": "first", "n_train": 25}), folders)
    np.testing.assert_array_equal(first.y_train, Y[:25])
    np.testing.assert_array_equal(first.y_test, Y[25:])


def test_a_stratified_split_keeps_shares_and_loses_no_row(folders):
    (folders.read_only[0] / "toy").write_text(TEXT)
    data = opened(one_file(split={"stratified": True}), folders)
    for label in (-1, 1):
        assert np.sum(data.y_train == label) == round(0.75 * np.sum(label == Y))
    together = np.vstack([data.X_train, data.X_test])
    expected = np.unique(X.astype(np.float32), axis=0)
    np.testing.assert_array_equal(np.unique(together, axis=0), expected)


def test_the_first_rows_are_scaled_as_all_of_them(toy):
    whole = opened(named(scale="unit"), toy)
    part = opened(named(scale="unit", first_train=7, first_test=3), toy)
    np.testing.assert_array_equal(part.X_train, whole.X_train[:7])
    np.testing.assert_array_equal(part.y_test, whole.y_test[:3])
    csr = opened(named(storage="csr", first_train=7), toy)
    np.testing.assert_array_equal(csr.X_train.toarray(), X[:7].astype(np.float32))
    unscaled = opened(named(scale="none", scale_over="all"), toy)
    assert any("scale_over is all, but dataset.scale is none" in note for note in unscaled.notes)
    for name in ("first_train", "first_test"):
        data = opened(named(**{name: 1000}), toy)
        assert any(f"dataset.{name} is 1000, there are " in note for note in data.notes)


def test_target_rules(folders):
    labels = np.arange(40) % 5
    (folders.read_only[0] / "toy").write_text(libsvm_text(X, labels))
    first = {"split": {"kind": "first", "n_train": 25}}
    many = opened(one_file(task="multiclass", **first), folders)
    np.testing.assert_array_equal(many.y_train, labels[:25])
    assert (many.n_classes, many.y_train.dtype) == (5, np.int32)
    rest = opened(one_file(target={"positive": [1, 3]}, **first), folders)
    np.testing.assert_array_equal(rest.y_train, np.where(np.isin(labels[:25], [1, 3]), 1, -1))
    rule = {"positive": [4], "negative": [2]}
    pair = opened(one_file(target=rule, split={"kind": "first", "n_train": 9}), folders)
    kept = labels[np.isin(labels, [2, 4])]
    np.testing.assert_array_equal(pair.y_train, np.where(kept[:9] == 4, 1, -1))
    assert pair.n_test == kept.size - 9
    for scale, expected in {
        "none": labels,
        "max": labels / labels[:25].max(),
        "unit": labels / 4.0,
        "standard": (labels - labels[:25].mean()) / labels[:25].std(),
    }.items():
        real = opened(one_file(task="regression", target={"scale": scale}, **first), folders)
        np.testing.assert_allclose(real.y_test, expected[25:])
        assert (real.y_train.dtype, real.n_classes) == (np.float64, None)


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({}, r"the labels are 0, 1, 2, 3, 4: name the positive ones by dataset\.target\.positive"),
        ({"target": {"positive": [9]}}, r"dataset\.target\.positive has 9, but the labels are 0"),
        ({"target": {"positive": [0, 1, 2, 3, 4]}}, r"positive has every label"),
        ({"split": {"n_train": 50}}, r"asks for 50 training and .* there are 40"),
        *(
            ({"task": "multiclass", "split": {"stratified": stratified, "test_fraction": f}}, said)
            for stratified, f, said in (
                (True, 0.01, "leaves no row to test"),
                (True, 0.99, "leaves no row to train"),
                (False, 0.01, "asks for 40 training and 0 test rows"),
                (False, 0.99, "asks for 0 training and 40 test rows"),
            )
        ),
        ({"facts": {"n": 10}, "split": {"n_train": 30}}, r"asks for 30 training .* there are 10"),
    ],
)
def test_rules_that_do_not_fit_the_data(folders, over, message):
    (folders.read_only[0] / "toy").write_text(libsvm_text(X, np.arange(40) % 5))
    with pytest.raises(ConfigError, match=message):
        prepare(one_file(**over), folders)
    assert left_over(folders.own) == []


def test_a_fraction_is_no_class_label(folders):
    (folders.read_only[0] / "toy").write_text("0.5 1:1\n1 1:1\n2 1:1\n3 1:1\n")
    with pytest.raises(DataError, match=r"label 0\.5: a class label should be a whole number"):
        prepare(one_file(task="multiclass"), folders)


@pytest.mark.parametrize(
    ("fact", "message"),
    [
        ({"n_train": 31}, r"toy: n_train is 30 in .*toy, should be 31"),
        ({"n_test": 9}, r"toy: n_test is 10 in .*toy\.t, should be 9"),
        ({"n_features": 7}, r"toy: n_features is 6 in .*, should be 7"),
        ({"n_classes": 3}, r"toy: n_classes is 2 in .*, should be 3"),
        ({"positives": [1, 2]}, r"toy: positives is \[\d+, \d+\] in .*, should be \[1, 2\]"),
    ],
)
def test_facts_that_the_files_do_not_match(toy, fact, message):
    with pytest.raises(DataError, match=message):
        prepare(named(facts=fact), toy)
    assert left_over(toy.own) == []
    right = {"n_train": 30, "n_test": 10, "n_features": 6, "n_classes": 2}
    right["positives"] = [int(np.sum(Y[:30] == 1)), int(np.sum(Y[30:] == 1))]
    prepare(named(facts=right), toy)


def test_a_target_out_of_range_is_named_by_file_and_line(toy):
    (toy.read_only[0] / "toy.t").write_text("\ufeff# two rows\n1 1:2\n\n3 6:1 # here\n")
    config = named(task="regression", n_features=6, facts={"target": [-1, 2]})
    with pytest.raises(DataError, match=r"toy\.t:4: target 3, should be from -1 to 2$"):
        prepare(config, toy)
    assert left_over(toy.own) == []


COMPRESSED = {
    "toy": lambda b: b,
    "toy.xz": lzma.compress,
    "toy.bz2": bz2.compress,
    "toy.gz": gzip.compress,
    "toy.libsvm": lzma.compress,  # told by content, not by name
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compression_is_told_by_content_and_does_not_change_the_data(folders, name):
    (folders.read_only[0] / name).write_bytes(COMPRESSED[name](TEXT.encode()))
    config = one_file()
    config["source"]["files"]["all"]["names"].append("toy.libsvm")
    assert fingerprint(config, folders) == hashlib.sha256(TEXT.encode()).hexdigest()
    assert opened(config, folders).sha256 == fingerprint(config, folders)


def test_zip_of_one_file_is_read_and_of_several_refused(folders):
    place = folders.read_only[0] / "toy.zip"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("inner/data.txt", TEXT)
        archive.writestr("__MACOSX/inner/._data.txt", "of macOS")
    assert opened(one_file(), folders).n_train == 30
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr("other.txt", TEXT)
    with pytest.raises(DataError, match=r"toy\.zip: holds 2 files, should be one"):
        prepare(one_file(), folders)


@pytest.mark.parametrize("compress", [lzma.compress, bz2.compress, gzip.compress])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_archives(folders, compress, damage):
    content = bytearray(compress(TEXT.encode()))
    if damage == "cut":
        del content[len(content) // 2 :]
    else:
        content[len(content) // 2] ^= 0xFF
    (folders.read_only[0] / "toy.x").write_bytes(content)
    with pytest.raises(DataError, match=r"toy\.x: (damaged|.*:\d+:|.*label)"):
        prepare(user_file(folders.read_only[0] / "toy.x"), folders)
    assert left_over(folders.own) == []


def test_two_files_and_their_order_identify_the_data(toy):
    sums = [hashlib.sha256(libsvm_text(X[s], Y[s]).encode()).hexdigest()
            for s in (slice(30), slice(30, None))]  # fmt: skip
    assert fingerprint(named(), toy) == hashlib.sha256("".join(sums).encode()).hexdigest()


def test_what_was_hashed_is_not_read_again_until_it_changes(toy, opened):
    raw = str(toy.read_only[0] / "toy")
    before = fingerprint(named(), toy)
    assert raw in opened
    opened.clear()
    assert fingerprint(named(), toy) == before
    assert raw not in opened
    (toy.read_only[0] / "toy").write_text(TEXT)
    assert fingerprint(named(), toy) != before


def test_a_second_prepare_reads_nothing(toy, opened):
    first = prepare(named(), toy)
    assert status(named(), toy).prepared == first
    raw = str(toy.read_only[0] / "toy")
    assert raw in opened
    opened.clear()
    assert prepare(named(), toy) == first
    assert raw not in opened


@pytest.mark.parametrize(
    "over",
    [
        {"scale": "unit"},
        {"scale": "unit", "scale_over": "all"},
        {"first_train": 5},
        {"storage": "csr"},
        {"target": {"positive": [-1]}},
        {"variants": {"v": {}}, "variant": "v"},
    ],
)
def test_what_changes_the_arrays_changes_the_folder(toy, over):
    assert prepare(named(), toy) != prepare(named(**over), toy)


def test_what_does_not_change_the_arrays_shares_the_folder(toy):
    same = named(about="x", use={"svm": {"C": 3}}, licence="y", first_train=None)
    assert prepare(named(), toy) == prepare(same, toy)


def test_variants():
    config = named(variants={"hss": {"scale": "unit", "split": {"seed": 3}}})
    assert with_variant(config) == config
    chosen = with_variant(merge(config, {"variant": "hss"}))
    assert chosen["scale"] == "unit"
    assert chosen["split"] == {**config["split"], "seed": 3}
    assert with_variant(chosen) == chosen
    assert config["scale"] == "none"
    with pytest.raises(ConfigError, match=r"dataset\.variant=hs: toy has no such .*nearest: hss"):
        with_variant(merge(config, {"variant": "hs"}))
    with pytest.raises(ConfigError, match="toy has no variants"):
        with_variant(named(variant="hss"))


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"scael": "unit"}, r"dataset\.scael: no such key of a data set \(nearest: .*scale"),
        ({"split": {"sed": 1}}, r"dataset\.split\.sed: no such key .*split\.seed"),
        ({"scale": "unti"}, r"dataset\.scale is 'unti', should be one of none, unit"),
        ({"task": "ranking"}, r"dataset\.task is 'ranking', should be one of binary"),
        ({"task": None}, r"dataset\.task has no value"),
        ({"n_features": 0}, r"dataset\.n_features is 0, should be a whole number from 1"),
        ({"n_features": 2.5}, r"dataset\.n_features is 2\.5, should be a whole number"),
        ({"first_train": True}, r"dataset\.first_train is True, should be a whole number"),
        ({"split": {"test_fraction": 1.0}}, r"test_fraction is 1\.0, should be a number between"),
        ({"split": {"kind": "random"}}, r"set dataset\.split\.test_fraction, n_train or folds"),
        ({"split": {"kind": "first"}}, r"set dataset\.split\.test_fraction or n_train"),
        ({"target": {"positive": 2}}, r"target\.positive is 2, should be a list of labels"),
        ({"task": "multiclass", "target": {"positive": [2]}}, r"are for binary tasks"),
        ({"target": {"scale": "max"}}, r"dataset\.target\.scale is for regression"),
        ({"use": {"smv": {"C": 1}}}, r"dataset\.use\.smv: no such use, should be one"),
        ({"variants": {"v": {"scale": 3}}}, r"dataset\.variants\.v\.scale is 3, should be one"),
        ({"source": {"kind": "csv"}}, r"dataset\.source\.kind is 'csv', should be one of files"),
        ({"source": {"kind": "generator"}}, r"dataset\.source\.generator has no value"),
        ({"source": {"files": {"train": {"nmes": ["x"]}}}}, r"nmes: no such key .*names"),
        ({"source": {"files": {"valid": {"names": ["x"]}}}}, r"should be train and test, or all"),
        ({"name": "a/b"}, r"dataset\.name is 'a/b', should be a name of letters"),
        *(
            ({"source": source}, said)
            for source, said in (
                ({"format": "cvs"}, r"source\.format is 'cvs', should be one of libsvm, csv"),
                ({"columns": {"target": []}}, r"target is \[\], should be a column's name"),
                ({"columns": {"drop": "x"}}, r"columns\.drop is 'x', should be a list of columns"),
                ({"columns": {"delimiter": ","}}, r"delimiter is ',', should be one of comma"),
                ({"columns": {"targt": 1}}, r"columns\.targt: no such key .*columns\.target"),
                ({"format": "idx"}, r"format idx takes train_images and train_labels in"),
                ({"format": "mat", "files": {"train_2": {"names": ["x"]}}}, r"mat takes one"),
                ({"format": "cifar10"}, r"cifar10 should be all: its one archive"),
            )
        ),
    ],
)
def test_configs_that_cannot_be(folders, over, message):
    config = named(**over)
    with pytest.raises(ConfigError, match=message) as error:
        check_config(config)
    assert "\n" not in str(error.value)
    assert not folders.own.exists()


def test_one_file_needs_a_split():
    with pytest.raises(ConfigError, match=r"dataset\.split\.kind is given, but there is one file"):
        check_config(one_file(split={"kind": "given"}))


def test_absent_files_are_named_with_what_to_do(folders):
    places = locate(named(), folders)
    assert [(f.role, f.name, f.path) for f in places] == [
        ("train", "toy", None),
        ("test", "toy.t", None),
    ]
    assert any("raw" in c and "*" in c for c in places[0].candidates)
    pattern = (
        r"^toy: toy is not there, it comes from http://127\.0\.0\.1:9/toy\.xz; put it "
        r"\(plain, xz, bz2, gz or zip\) into .*datasets or .*raw$"
    )
    for call in (fingerprint, lambda c, f: prepare(c, f, download=False)):
        with pytest.raises(DataNotFoundError, match=pattern):
            call(named(), folders)
    with pytest.raises(DataNotFoundError, match="toy is not there, nowhere to fetch it from"):
        prepare(one_file(), folders)
    assert not status(named(), folders).present
    with pytest.raises(DataNotFoundError, match=r"dataset\.path: there is no file /no/such$"):
        prepare(user_file("/no/such"), folders)
    with pytest.raises(DataNotFoundError, match=r"dataset\.test_path: there is no file /no/such$"):
        prepare(user_file(__file__, test_path="/no/such"), folders)


def test_own_files_come_first_then_the_data_sets_folder(folders):
    raw = folders.read_only[0]
    for place in (raw / "zzz", raw, raw / "toy", folders.own):
        place.mkdir(exist_ok=True)
        (place / "toy.xz" if place.name != "raw" else place / "toy.bz2").touch()
        assert locate(one_file(), folders)[0].path.parent == place
    assert locate(one_file(), Folders(folders.own / "absent", (raw,)))[0].path.parent.name == "toy"


def test_a_drawn_sample_stands_in_for_an_absent_file(folders):
    raw = folders.read_only[0]
    config = one_file(split={"kind": "first", "n_train": 20})
    other = {"names": ["whole"], "url": "http://127.0.0.1:9/w", "sample": {"n": 25, "seed": 0}}
    config["source"]["files"]["all"]["otherwise"] = other
    assert locate(config, folders)[0].name == "whole"
    (raw / "whole").write_text(TEXT)
    data = opened(config, folders)
    drawn = np.sort(np.random.RandomState(0).permutation(40)[:25])
    np.testing.assert_array_equal(data.X_train, X[drawn[:20]].astype(np.float32))
    (raw / "toy").write_text(libsvm_text(X[:25], Y[:25]))
    own = opened(config, folders)
    np.testing.assert_array_equal(own.y_train, Y[:20])
    assert own.sha256 != data.sha256


def test_a_file_of_the_user_with_and_without_test_rows(folders):
    train, test = folders.read_only[0] / "mine.txt", folders.read_only[0] / "more.txt"
    train.write_text("1 1:1\n-1 2:1\n1 1:2\n-1 2:2\n1 1:3\n")
    test.write_text("1 7:1\n-1 2:3\n")
    alone = opened(user_file(train), folders)
    assert (alone.n_train, alone.n_test, alone.n_features) == (4, 1, 2)
    both = opened(user_file(train, test_path=str(test)), folders)
    assert (both.n_train, both.n_test, both.n_features) == (5, 2, 7)


def test_generators_stream_into_the_same_arrays_that_they_yield(folders):
    from kbench.data.sources.generators import build

    config = shipped("covtype_like", n=5000, n_test=300, d=20, seed=7)
    data = opened(config, folders)
    chunks = list(build("covtype_like", d=20, seed=7, noise=0.05).chunks("train", 5000))
    np.testing.assert_array_equal(data.X_train, np.vstack([c for c, _ in chunks]))
    np.testing.assert_array_equal(data.y_train, np.concatenate([y for _, y in chunks]))
    assert data.X_test.shape == (300, 20)
    assert locate(config, folders) == []
    assert data.sha256 == fingerprint(config, folders)
    fewer = opened({**config, "n": 4500}, folders)
    np.testing.assert_array_equal(fewer.X_train, data.X_train[:4500])
    scaled = opened({**config, "scale": "standard", "first_train": 100}, folders)
    column = data.X_train[:, 0]
    expected = (column[:100] - column.mean()) / column.std()
    np.testing.assert_allclose(scaled.X_train[:, 0], expected, atol=1e-5)
    np.testing.assert_array_equal(scaled.y_train, data.y_train[:100])
    with pytest.raises(ConfigError, match=r"dataset\.storage is csr, but covtype_like is dense"):
        prepare({**config, "storage": "csr"}, folders)


def _prepare_and_report(config, folders, barrier, queue):
    barrier.wait()
    try:
        queue.put(str(prepare(config, folders)))
    except BaseException as error:
        queue.put(repr(error))


def test_two_processes_prepare_the_same_at_once(folders):
    context = multiprocessing.get_context("spawn")
    barrier, queue = context.Barrier(2), context.Queue()
    config = shipped("covtype_like", n=60_000, n_test=10, d=20)
    workers = [
        context.Process(target=_prepare_and_report, args=(config, folders, barrier, queue))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    answers = {queue.get(timeout=120) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(answers) == 1
    assert open_prepared(answers.pop()).n_train == 60_000
    assert left_over(folders.own) == []


def test_without_locks_the_first_rename_wins(toy, monkeypatch):
    from kbench.data.preparation import prepare as preparation

    final = prepare(named(), toy)
    temporary = final.with_name(".other")
    temporary.mkdir()
    preparation._rename(temporary, final)
    assert open_prepared(final).n_train == 30


def test_what_a_killed_process_left_is_swept(toy):
    final = prepare(named(), toy)
    left = final.with_name(".dead.1")
    left.mkdir()
    (left / "X_train.npy").touch()
    prepare(named(scale="unit"), toy)
    assert left_over(toy.own) == []


@pytest.mark.parametrize("name", ["toy", "toy.t"])
def test_a_file_that_changes_while_it_is_read_is_refused(toy, monkeypatch, name):
    from kbench.data.preparation import prepare as preparation

    def build(*request):
        built(*request)
        with open(toy.read_only[0] / name, "a") as file:
            file.write("1 1:2\n")

    built = preparation._build
    monkeypatch.setattr(preparation, "_build", build)
    with pytest.raises(DataError, match=rf"{name}.* changed while it was read; run the command"):
        prepare(named(), toy)
    assert left_over(toy.own) == []
    monkeypatch.undo()
    data = opened(named(), toy)
    assert (data.n_train, data.n_test) == ((31, 10) if name == "toy" else (30, 11))


CONTINUOUS = np.random.default_rng(1).normal(size=(400, 2))
DISCRETE = np.round(CONTINUOUS)
COPIES = {  # training and test rows, the number of copies that is said
    "drawn alike": (CONTINUOUS[:200], CONTINUOUS[200:], 0),
    "a few drawn again": (CONTINUOUS[:200], CONTINUOUS[180:280], 20),
    "by chance": (CONTINUOUS[:200], CONTINUOUS[199:299], 0),
    "few values": (DISCRETE[:200], DISCRETE[200:], 0),
    "most rows twice": (CONTINUOUS[[*range(200), *range(120)]], CONTINUOUS[120:230:2], 40),
    "one file": (CONTINUOUS, CONTINUOUS, 400),
}


@pytest.mark.parametrize("case", COPIES)
def test_test_rows_that_are_training_rows_are_said(case):
    train, test, n = COPIES[case]

    def rows(X, is_sparse, y=0.0):
        y += X[:, 0] > 0
        return SparseRows(CsrArrays.of(csr_matrix(X)), y) if is_sparse else DenseRows(X, y)

    for kinds in product((False, True), repeat=2):
        note = copied_rows(rows(train, kinds[0]), rows(test, kinds[1]))
        assert (note or "0 of").startswith(f"{n} of")
        assert copied_rows(rows(train, kinds[0]), rows(test, kinds[1], 1.0)) is None


def test_a_folder_without_its_last_file_is_made_anew(toy):
    final = prepare(named(), toy)
    (final / prepared.META).unlink()
    with pytest.raises(DataError, match=r"not a prepared data set .*delete the folder"):
        open_prepared(final)
    assert prepare(named(), toy) == final
    assert open_prepared(final).n_train == 30


@pytest.mark.parametrize(
    ("config", "nbytes"),
    [(named(), 500), (shipped("covtype_like", n=20_000), 100_000)],
    ids=["files", "generator"],
)
def test_a_full_disk_leaves_nothing(toy, largest_file, config, nbytes):
    """Written by a memory map, the rows would end the process (SIGBUS on a full disk)."""
    said = rf"{config['name']}: no space left to write .*datasets_dir=FOLDER"
    with largest_file(nbytes), pytest.raises(DataError, match=said):
        prepare(config, toy)
    assert left_over(toy.own) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_one_line_whatever_the_system_calls_it(tmp_path, code):
    with (
        pytest.raises(DataError, match=rf"no space left to write \({os.strerror(code)}\); free"),
        writable(tmp_path),
    ):
        raise OSError(code, os.strerror(code))


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written(toy, monkeypatch, code):
    def refuse(self, *args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(DataError, match=r"toy: cannot be written .* datasets_dir=FOLDER"):
        prepare(named(), toy)
    assert len(fingerprint(named(), toy)) == 64  # needs no folder of its own


def test_a_file_in_the_place_of_the_folder(toy):
    toy.own.write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        prepare(named(), toy)


@pytest.mark.parametrize("of", [np.asarray, csr_array])
def test_columns_without_any_value_are_found(of):
    X = np.array([[np.nan, 0.0, np.nan, 0.0], [np.nan, 0.0, 2.0, np.nan]])
    assert _fit_imputer("mean", of(X))[1].tolist() == [0]
