"""What files of every format have in common: precision, missing values, groups, and their targets.

The formats are those of the table of formats: one that holds numbers and has no writer here fails.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupShuffleSplit
from support import (
    csv_file,
    features_of,
    later_rows,
    merge,
    named,
    opened,
    rows_of,
    saved,
    user_file,
)

from kbench.data import check_config, chunks, open_prepared, prepare
from kbench.data.formats import FORMATS
from kbench.data.preparation.imputation import STRATEGIES
from kbench.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3)).round(3)
Y = (X[:, 0] > 0).astype(float)


def _frame(X, y):
    return pd.DataFrame(X, columns=list("abc")[: X.shape[1]]).assign(y=y)


def _libsvm(path, X, y):
    lines = [
        " ".join([repr(float(t)), *(f"{j + 1}:{v!r}" for j, v in enumerate(row))])
        for t, row in zip(y, X.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines))


def _npy(path, X, y):
    np.save(path.with_name("X.npy"), X)
    np.save(path.with_name("y.npy"), y)


TABLES = sorted(name for name, form in FORMATS.items() if form.table)
WRITERS = {
    "libsvm": _libsvm,
    **dict.fromkeys(TABLES, lambda path, X, y: saved(_frame(X, y), path)),
    "npy": _npy,
    "npz": lambda path, X, y: np.savez(path, X=X, y=y),
    "mat": lambda path, X, y: scipy.io.savemat(path, {"X": X, "y": y}),
}
BYTES_OR_ATOMS = {"idx", "cifar10", "xyz"}
"""Formats of images and molecules, which cannot hold such values."""


def config_of(form, folders, X, y, **over):
    """The config of a file of this format with these rows, of which the first 40 train."""
    path = folders.read_only[0] / f"t.{form}"
    WRITERS[form](path, X, y)
    over = merge({"split": {"kind": "first", "n_train": 40}}, over)
    if form == "npy":
        files = {f"all_{n}": {"names": [f"{n}.npy"], "url": None} for n in "Xy"}
        config = named(**merge({"task": "binary"}, over))
        return config | {"source": {"kind": "files", "format": "npy", "files": files}}
    source = {"format": form}
    if form in TABLES:
        source["columns"] = {"target": "y"}
    return user_file(path, **merge({"source": source}, over))


def test_every_format_of_numbers_is_tested():
    assert set(WRITERS) | BYTES_OR_ATOMS == set(FORMATS)


@pytest.mark.parametrize("form", sorted(WRITERS))
@pytest.mark.parametrize("whole", [True, False])
def test_values_are_scaled_before_they_are_rounded(folders, form, whole):
    times = 1.7e9 + np.arange(N) * (1.0 if whole else 0.5)
    stamped = np.column_stack([times, X[:, :2]])
    scaled = opened(config_of(form, folders, stamped, Y, scale="unit"), folders)
    assert np.unique(scaled.X_train[:, 0]).size == 40
    np.testing.assert_allclose(scaled.X_train[:, 0], np.arange(40) / 39, atol=1e-6)
    assert not any("merge" in note for note in scaled.notes)
    plain = opened(config_of(form, folders, stamped, Y), folders)
    (note,) = [note for note in plain.notes if "merge in float32" in note]
    assert f"column {repr('a') if form in TABLES else 1} (40 become" in note
    assert "dataset.scale=unit" in note


@pytest.mark.parametrize("form", ["libsvm", "csv", "parquet"])
def test_chunks_are_not_rounded(folders, form):
    path = folders.read_only[0] / f"t.{form}"
    stamped = np.column_stack([1.7e9 + np.arange(N), X[:, :2]])
    WRITERS[form](path, stamped, Y)
    found = np.vstack([np.asarray(X.todense() if form == "libsvm" else X) for X, _ in
                       chunks(path, format=form)])  # fmt: skip
    np.testing.assert_allclose(found, stamped, rtol=1e-15)


def lacking():
    """X with a missing number in column b of a training and of a test row, and two in c."""
    copy = X.copy()
    copy[[7, 45], 1] = np.nan
    copy[[3, 50], 2] = np.nan
    return copy


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_a_missing_number_is_refused_with_its_place_and_the_remedies(folders, form):
    config = config_of(form, folders, lacking(), Y)
    with pytest.raises(DataError, match=r"missing=mean, median or indicator .*=drop") as error:
        prepare(config, folders)
    place = {
        "libsvm": ":4: value 'nan' of index 3",
        "csv": ":5: column 'c'",
        "arff": ":10: column 'c'",
        "parquet": "row 4: column 'c'",
    }
    assert place.get(form, "row 4: column 3 is nan") in str(error.value)


@pytest.mark.parametrize("form", sorted(WRITERS))
@pytest.mark.parametrize(
    ("value", "missing"), [(np.inf, "error"), (-np.inf, "mean"), (np.inf, "drop")]
)
def test_an_infinite_number_is_refused_with_its_place_and_a_remedy(folders, form, value, missing):
    """It is not filled as a missing one is: something has gone wrong, such as a division by 0."""
    copy = X.copy()
    copy[3, 2] = value
    config = config_of(form, folders, copy, Y, missing=missing)
    with pytest.raises(DataError, match=r"finite number.*write nan in its place") as error:
        prepare(config, folders)
    place = {"libsvm": ":4: value", "csv": ":5: column 'c'", "arff": ":10: column 'c'"}
    assert place.get(form, "row 4: column ") in str(error.value)


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("role", ["path", "test_path"])
def test_the_file_in_which_no_row_is_left_is_named(folders, form, role):
    full = config_of(form, folders, X, Y)["path"]
    empty = str(folders.read_only[0] / f"empty.{form}")
    WRITERS[form](Path(empty), X, np.full(N, np.nan))
    paths = {"path": full, "test_path": full} | {role: empty}
    with pytest.raises(DataError, match=rf"empty\.{form}: no row is left"):
        prepare(user_file(paths["path"], test_path=paths["test_path"], task="regression"), folders)


@pytest.mark.parametrize("form", sorted(WRITERS))
@pytest.mark.parametrize("kind", sorted(STRATEGIES))
def test_missing_numbers_are_filled_as_scikit_learn_does(folders, form, kind):
    data = opened(config_of(form, folders, lacking(), Y, missing=kind), folders)
    strategy = "mean" if kind == "indicator" else kind
    imputer = SimpleImputer(strategy=strategy, add_indicator=kind == "indicator")
    expected = imputer.fit_transform(lacking()[:40]).astype(np.float32)
    np.testing.assert_array_equal(data.X_train, expected)
    np.testing.assert_array_equal(data.X_test, imputer.transform(lacking()[40:]).astype(np.float32))
    assert any(
        f"missing numbers in 2 training and 2 test rows are filled with the {strategy}" in note
        for note in data.notes
    )


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_rows_with_missing_numbers_are_left_out(folders, form):
    data = opened(config_of(form, folders, lacking(), Y, missing="drop"), folders)
    whole = X[np.isfinite(lacking()).all(axis=1)].astype(np.float32)
    np.testing.assert_array_equal(np.vstack([data.X_train, data.X_test]), whole)
    assert any("4 rows with a missing number left out" in note for note in data.notes)


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_a_missing_target_is_no_class(folders, form):
    """And nothing is required of the features of such a row, which counts in the places."""
    features, y = X.copy(), Y.copy()
    y[[2, 30, 59]] = np.nan
    features[[30, 59]] = np.nan
    data = opened(config_of(form, folders, features, y), folders)
    assert (data.n_classes, data.n_train, data.n_test) == (2, 40, 17)
    whole = np.delete(X, [2, 30, 59], axis=0).astype(np.float32)
    np.testing.assert_array_equal(rows_of(data), whole)
    assert any("3 rows without a target left out" in note for note in data.notes)
    with pytest.raises(DataError, match=r"target.*missing; dataset\.target\.missing=drop") as error:
        prepare(config_of(form, folders, X, y, target={"missing": "error"}), folders)
    place = {"libsvm": ":3:", "csv": ":4:", "arff": ":9:"}.get(form, "row 3:")
    assert place in str(error.value)
    features[7, 1] = np.nan
    with pytest.raises(DataError, match=r"missing|is nan|'nan'") as error:
        prepare(config_of(form, folders, features, y), folders)
    place = {"libsvm": ":8:", "csv": ":9:", "arff": ":14:"}.get(form, "row 8:")
    assert place in str(error.value)


WHOLE = {  # a column, and whether float64 tells its numbers apart
    "keys": (2.0**60 + 256 * np.arange(N), False),
    "the largest of 64 bits": (np.full(N, 2.0**64), False),
    "31 digits": (1e30 * (1.0 + np.arange(N) / 2**50), False),
    "densities": (1e30 * (1.0 + np.arange(N)), True),
    "fractions": (X[:, 1], True),
}


@pytest.mark.parametrize(
    ("form", "case"),
    [*((form, "keys") for form in sorted(WRITERS)), *(("csv", case) for case in [*WHOLE][1:])],
)
def test_whole_numbers_that_float64_does_not_tell_apart_are_said(folders, form, case):
    numbers, distinct = WHOLE[case]
    features = np.column_stack([numbers, X[:, 0]])
    data = opened(config_of(form, folders, features, Y, scale="unit"), folders)
    said = f"not all distinct in float64, in the column {repr('a') if form in TABLES else 1}"
    assert any(said in note for note in data.notes) != distinct


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_huge_targets_are_no_classes(folders, form):
    task = "regression" if form == "npy" else None  # a named data set, which has a task
    data = opened(config_of(form, folders, X, 1e25 * X[:, 0], task=task), folders)
    assert data.task == "regression"


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_targets_whose_squares_are_infinite_are_refused(folders, form):
    y = np.where(np.arange(N) == 5, 1e160, X[:, 0])
    with pytest.raises(DataError, match=r"target 1e\+160, should be from -3\.4.*e\+38 to"):
        prepare(config_of(form, folders, X, y, task="regression"), folders)


READ_OTHERWISE = ["csv", "npz"]
"""A table and arrays; what follows is said of the rows that any reader gives."""


@pytest.mark.parametrize("form", READ_OTHERWISE)
def test_classes_of_test_rows_alone_are_said(folders, form):
    for begin, said in ((41, "19 test rows of classes that no training row has"), (39, None)):
        y = np.where(np.arange(N) < begin, Y, 7)
        data = opened(config_of(form, folders, X, y, task="multiclass"), folders)
        notes = [note for note in data.notes if "no training row has" in note]
        assert notes == ([f"{said} count as errors: 7"] if said else [])


@pytest.mark.parametrize("form", READ_OTHERWISE)
def test_targets_that_float64_rounds_are_said(folders, form):
    for first, said in ((2.0**53, True), (2.0**52, False)):
        config = config_of(form, folders, X, first + 2 * np.arange(N), task="regression")
        notes = opened(config, folders).notes
        assert any("whole numbers from 2^53 on, which float64 rounds" in n for n in notes) == said


@pytest.mark.parametrize("code", [c for c in np.typecodes["AllInteger"] + np.typecodes["Float"]
                                  if np.dtype(c).itemsize >= 4 and c != "f"])  # fmt: skip
@pytest.mark.parametrize("order", "<>")
def test_arrays_of_any_type_say_what_merges_in_float32(folders, code, order):
    path = folders.read_only[0] / "t.npz"
    stamps = (1_700_000_000 + np.arange(N)).astype(np.dtype(code).newbyteorder(order))
    np.savez(path, X=stamps[:, None], y=Y)
    notes = opened(user_file(path), folders).notes
    assert any("distinct values merge in float32 in the column 1" in note for note in notes)


KEYS_OF_READERS = {"columns": {"target": "y"}, "arrays": {"X": "features"}, "zero_based": True}


@pytest.mark.parametrize("form", sorted(FORMATS))
@pytest.mark.parametrize("group", KEYS_OF_READERS)
def test_a_key_that_the_reader_would_not_look_at_is_refused(form, group):
    files = {f"all_{p}" if p else "all": {"names": [f"f{p}"]} for p in FORMATS[form].pieces or [""]}
    source = {"kind": "files", "format": form, "files": files, group: KEYS_OF_READERS[group]}
    config = named(task="multiclass", split={"kind": "first", "n_train": 3})
    config["source"] = source
    if FORMATS[form].options == group:
        assert check_config(config)["source"][group]
        return
    if group == "zero_based":
        with pytest.raises(ConfigError, match=rf"n_features is 2, but the format is {form}"):
            check_config({**config, "source": {**source, group: None}, "n_features": 2})
    with pytest.raises(ConfigError, match=rf"source\.{group}.*but the format is {form}; it"):
        check_config(config)


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_groups_that_a_file_lacks_are_refused(folders, form):
    """Not divided without them: rows of a group would be on both sides of the split."""
    groups = {"columns": {"columns": {"group": "user"}}, "arrays": {"arrays": {"groups": "user"}}}
    told = groups.get(FORMATS[form].options)
    if form == "npy" or told is None:
        pytest.skip("the format names no groups")
    with pytest.raises(DataError, match=r"no (column|array) '?user'?, which dataset\.source\."):
        prepare(config_of(form, folders, X, Y, source=told), folders)


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("names", [["Unnamed: 0"], ["...1"], ["Unnamed: 0.1", "Unnamed: 0"]])
def test_an_index_that_pandas_has_read_and_written_again_is_left_out(folders, form, names):
    frame = _frame(X, Y)
    for name in names:
        frame.insert(0, name, np.arange(N))
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    data = opened(user_file(path), folders)
    assert data.n_features == 3
    assert sum("is an index of the rows and is left out" in n for n in data.notes) == len(names)
    source = {"columns": {"target": names[0]}}
    kept = opened(user_file(path, source=source, task="regression"), folders)
    assert kept.n_features == 4


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("wanted", [None, "y"])
def test_a_test_file_has_the_target_of_the_training_file(folders, form, wanted):
    """Whatever the order of its columns; a test file without that column is refused."""
    over = {"task": "regression", "source": {"columns": {"target": wanted}}}
    train = config_of(form, folders, X[:40], X[:40, 0] + X[:40, 1], split={"kind": "given"})["path"]
    frame = _frame(X[40:], X[40:, 0] + X[40:, 1])
    later = folders.read_only[0] / f"later.{form}"

    def written(frame):
        return user_file(train, test_path=str(saved(frame, later)), **over)

    data = opened(written(frame[["y", "c", "b", "a"]]), folders)
    np.testing.assert_array_equal(data.X_test, X[40:].astype(np.float32))
    np.testing.assert_allclose(data.y_test, X[40:, 0] + X[40:, 1])
    with pytest.raises(DataError, match=r"later\..*no column 'y'"):
        prepare(written(frame[["a", "b", "c"]]), folders)


@pytest.mark.parametrize("form", TABLES)
def test_a_regression_is_of_numbers_alone(folders, form):
    """A text has no place in the alphabet for its value; numbers may be stored as texts."""
    source = {"columns": {"target": "y"}}
    over = {"task": "regression", "source": source, "split": {"kind": "first"}}
    file = folders.read_only[0] / f"t.{form}"
    data = opened(user_file(saved(_frame(X, [*map(str, X[:, 0])]), file), **over), folders)
    np.testing.assert_array_equal([*data.y_train, *data.y_test], X[:, 0])
    config = user_file(saved(_frame(X, [f"{k} kg" for k in range(N)]), file), **over)
    with pytest.raises(DataError, match=r"'y' is '0 kg', should be a number.*'kg' is the unit"):
        prepare(config, folders)


TRUTH = np.where(Y > 0, "True", "False")


@pytest.mark.parametrize("trained", TABLES)
@pytest.mark.parametrize("later", TABLES)
@pytest.mark.parametrize("targets", [TRUTH, Y])
def test_targets_of_later_rows_are_those_of_training_or_unknown(folders, trained, later, targets):
    """1 is True in any format; a number is no place in the list of classes."""
    raw = folders.read_only[0]

    def known(y, later_y):
        over = {"source": {"columns": {"target": "y"}}}
        data = opened(user_file(saved(_frame(X, y), raw / f"t.{trained}"), **over), folders)
        rows = user_file(saved(_frame(X, later_y), raw / f"later.{later}"))
        y = later_rows(rows, folders, data.preparation).y
        target = data.preparation.target
        return target.known(y), target.encode(y)

    for later_y in (TRUTH, Y):
        there, y = known(targets, later_y)
        assert there.all()
        np.testing.assert_array_equal(y, 2 * Y - 1)
    assert not known(np.where(Y > 0, "yes", "no"), Y)[0].any()


@pytest.mark.parametrize(
    "form", sorted({*WRITERS, *(f"{name} of texts" for name in TABLES)} - {"npy"})
)
@pytest.mark.parametrize("classes", [[1, 2], [3, 4], ["pos", "neg"], [0, 1]])
def test_labels_of_later_rows_that_the_model_lacks_are_said(folders, form, classes):
    """In one line, with those of the model: a score over what is left misleads."""
    name, _, texts = form.partition(" ")
    if isinstance(classes[0], str) and name not in TABLES:
        pytest.skip("such files hold numbers alone")
    own, known = (np.array(["no", "yes"]), "'no', 'yes'") if texts else (np.array([0, 1]), "0, 1")
    data = opened(config_of(name, folders, X, own[Y.astype(int)]), folders)
    later = config_of(name, folders, X, np.array(classes)[Y.astype(int)])
    notes = later_rows(later, folders, data.preparation).notes
    strange = [repr(f"{c}") if texts else repr(c) for c in classes if texts or c not in own]
    said = f"rows whose target is {', '.join(sorted(strange))} are not scored: it is not a class of"
    assert [n for n in notes if "not scored" in n] == [
        f"{said} the model, which are {known}" for _ in strange[:1]
    ]


@pytest.mark.parametrize("trained", TABLES)
@pytest.mark.parametrize("later", TABLES)
def test_later_rows_may_come_in_any_format_of_tables(folders, trained, later):
    data = opened(config_of(trained, folders, lacking(), Y, missing="mean"), folders)
    file = config_of(later, folders, lacking()[40:], Y[40:])["path"]
    rows = later_rows(user_file(file), folders, data.preparation)
    np.testing.assert_array_equal(features_of(data.preparation, rows), data.X_test)
    assert any("missing numbers in 2 rows are filled" in note for note in rows.notes)


MISSING = ["", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "<NA>", "#N/A", "\\N", "#DIV/0!"]
MISSING += ["(null)", "[NULL]"]
DOUBTFUL_TARGETS = ["None", "-", "n.a."]


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize(
    "values", [["red", "blue"] * (N // 2), [np.nan, *range(N - 1)]], ids=["texts", "a gap first"]
)
def test_later_rows_may_be_a_single_column(folders, form, values):
    raw, frame = folders.read_only[0], pd.DataFrame({"a": values, "y": Y})
    columns = {"target": "y", "categorical": "auto"}
    config = user_file(saved(frame, raw / f"t.{form}"), missing="mean", source={"columns": columns})
    data = opened(config, folders)
    later = user_file(saved(frame[["a"]], raw / f"later.{form}"))
    rows = later_rows(later, folders, data.preparation)
    assert len(features_of(data.preparation, rows)) == N


@pytest.mark.parametrize("text", DOUBTFUL_TARGETS)
def test_a_doubtful_target_is_missing_among_numbers_and_said_among_texts(folders, text):
    for labels, classes in (("0", "1"), 2), (("x", "y"), 3):
        rows = [f"{row[0]},{labels[int(t)]}" for row, t in zip(X, Y, strict=True)]
        rows[5] = f"{X[5, 0]},{text}"
        path = csv_file(folders, ["a,y", *rows])
        data = opened(user_file(path, task=None), folders)
        assert data.n_classes == classes
        words = "rows without a target" if classes == 2 else f"{text!r} is a class of its own"
        assert any(words.replace("rows", "row") in note for note in data.notes)


@pytest.mark.parametrize("labels", [("x", "y"), ("0", "1")])
def test_a_missing_label_is_spelt_in_many_ways(folders, labels):
    rows = [f"{row[0]},{labels[int(t)]}" for row, t in zip(X, Y, strict=True)]
    rows[5 : 5 + len(MISSING)] = [f"{X[5, 0]},{text}" for text in MISSING]
    path = csv_file(folders, ["a,y", *rows])
    data = opened(user_file(path, task=None), folders)
    n_rows = N - len(MISSING)
    assert (data.task, data.n_classes, data.n_train + data.n_test) == ("binary", 2, n_rows)
    said = "the target 'NA', 'NULL', 'NaN', 'nan', 'null' stands for a missing one"
    assert any(said in note for note in data.notes) == (labels == ("x", "y"))  # NA may be Namibia


def test_a_missing_number_is_spelt_in_many_ways(folders):
    firsts = [*MISSING, *"1" * (N - len(MISSING))]
    rows = [f"{text},{row[0]},{y:g}" for text, row, y in zip(firsts, X, Y, strict=True)]
    path = csv_file(folders, ["a,b,y", *rows])
    data = opened(user_file(path, missing="drop"), folders)
    assert data.n_train + data.n_test == N - len(MISSING)


def with_groups(form, folders, groups):
    """A file with groups; in tables they are column `g` of texts."""
    path = folders.read_only[0] / f"g.{form}"
    if form == "libsvm":
        rows = zip(Y, groups, X[:, 0], strict=True)
        path.write_text("".join(f"{y:g} qid:{g} 1:{x}\n" for y, g, x in rows))
        return user_file(path)
    if form in ARRAYS:
        arrays = {"X": X[:, :1], "y": Y, "groups": groups}
        np.savez(path, **arrays) if form == "npz" else scipy.io.savemat(path, arrays)
        return user_file(path, source={"format": form})
    frame = pd.DataFrame({"a": X[:, 0], "g": [f"user {g}" for g in groups], "y": Y})
    if form != "arff":
        saved(frame, path)
    else:
        text = frame.to_csv(index=False, header=False, quotechar="'", quoting=2)
        names = ",".join(sorted({f"'{g}'" for g in frame["g"]}))
        kind = "string" if groups[0] % 2 else f"{{{names}}}"
        head = f"@relation r\n@attribute a real\n@attribute g {kind}\n@attribute y real\n"
        path.write_text(f"{head}@data\n{text}")
    return user_file(path, source={"format": form, "columns": {"target": "y", "group": "g"}})


ARRAYS = sorted(
    name for name, form in FORMATS.items() if form.options == "arrays" and not form.pieces
)


@pytest.mark.parametrize(("odd", "least"), [(True, 0), (False, 2**62), (True, 2**63 - 14)])
@pytest.mark.parametrize("form", ["libsvm", *TABLES, *ARRAYS])
def test_rows_of_a_group_stay_on_one_side(folders, form, odd, least):
    """Also where the numbers of groups are hashes, which float64 does not tell apart."""
    groups = least + np.append(2 - odd, RNG.integers(1, 13, N - 1))
    config = with_groups(form, folders, groups)
    data = opened(config, folders)
    assert data.n_features == 1
    group_of = {np.float32(x): g for x, g in zip(X[:, 0], groups, strict=True)}
    train, test = ({group_of[x] for x in part[:, 0]} for part in (data.X_train, data.X_test))
    assert not train & test
    assert len(train | test) == np.unique(groups).size
    said = {"libsvm": "qid", **dict.fromkeys(TABLES, "g")}.get(form, "groups")
    assert any(
        f"one group ({said})" in note and f"{len(train)} groups train" in note
        for note in data.notes
    )
    fold = open_prepared(prepare(config, folders), {"folds": 3, "fold": 2})
    sides = [{group_of[x] for x in part[:, 0]} for part in (fold.X_train, fold.X_test)]
    assert not sides[0] & sides[1]
    apart = opened(merge(config, {"split": {"group": False}}), folders)
    assert any("may be in both parts" in note for note in apart.notes)
    assert {group_of[x] for x in apart.X_train[:, 0]} & {group_of[x] for x in apart.X_test[:, 0]}


@pytest.mark.parametrize("form", ["libsvm", *TABLES, *ARRAYS])
def test_groups_are_divided_as_scikit_learn_divides_them(folders, form):
    """Whatever the order in which groups appear: splitters number them by their values."""
    groups = RNG.permutation(np.repeat([3, 20, 100, 4, 11, 7], 10))
    config = with_groups(form, folders, groups)
    data = opened(config, folders)
    splitter = GroupShuffleSplit(1, test_size=0.2, random_state=config["split"].get("seed", 0))
    names = [f"user {g}" for g in groups] if form in TABLES else groups
    train, test = next(splitter.split(X, Y, names))
    for part, rows in ((data.X_train, train), (data.X_test, test)):
        np.testing.assert_array_equal(np.sort(part[:, 0]), np.sort(X[rows, 0].astype(np.float32)))


@pytest.mark.parametrize("form", ["libsvm", *TABLES, *ARRAYS])
def test_groups_of_given_test_rows_that_train_too_are_said(folders, form):
    raw, number = folders.read_only[0], np.arange(N) // 6
    config = with_groups(form, folders, number)
    path = Path(config["path"])
    (raw / "train").mkdir()
    train = path.rename(raw / "train" / path.name)
    for shift, said in ((4, "6 groups, in 36 of 60"), (20, None)):
        test = with_groups(form, folders, number + shift)["path"]
        data = opened({**config, "path": str(train), "test_path": str(test)}, folders)
        notes = [note for note in data.notes if "have groups of test rows" in note]
        assert [said in note for note in notes] == [True] * (said is not None)


@pytest.mark.parametrize("form", TABLES)
def test_a_target_among_the_categories_is_refused(folders, form):
    path = saved(_frame(X, Y), folders.read_only[0] / f"t.{form}")
    columns = {"target": "y", "categorical": ["y"]}
    with pytest.raises(DataError, match="categorical names the target 'y'"):
        opened(user_file(path, source={"columns": columns}), folders)


def test_rows_without_a_group_are_said(folders):
    groups = np.repeat(np.arange(6.0), 10)
    groups[[1, 50]] = np.nan
    path = folders.read_only[0] / "t.csv"
    pd.DataFrame({"a": X[:, 0], "g": groups, "y": Y}).to_csv(path, index=False)
    source = {"format": "csv", "columns": {"target": "y", "group": "g"}}
    data = opened(user_file(path, source=source), folders)
    assert any("each of 2 rows without a group is a group of its own" in n for n in data.notes)


@pytest.mark.parametrize("form", READ_OTHERWISE)
def test_a_regression_is_learnt_in_another_unit(folders, form):
    years = 2000 + X[:, 1]
    fit = {"task": "regression", "target": {"scale": None}}
    data = opened(config_of(form, folders, X, years, **fit), folders)
    np.testing.assert_allclose([data.y_train.mean(), data.y_train.std()], [0, 1], atol=1e-9)
    target = data.preparation.target
    np.testing.assert_allclose(target.scored(data.y_test), years[40:])
    plain = opened(config_of(form, folders, X, years, task="regression"), folders)
    np.testing.assert_array_equal(plain.y_test, years[40:])
    np.testing.assert_array_equal(plain.preparation.target.scored(plain.y_test), years[40:])


@pytest.mark.parametrize("form", sorted(set(WRITERS) - {"npy"}))
@pytest.mark.parametrize("kind", ["median", "indicator"])
def test_later_rows_are_filled_with_what_the_training_rows_had(folders, form, kind):
    config = config_of(form, folders, lacking(), Y, missing=kind, scale="standard")
    data = opened(config, folders)
    rows = later_rows(config, folders, data.preparation)
    np.testing.assert_array_equal(features_of(data.preparation, rows)[40:], data.X_test)
