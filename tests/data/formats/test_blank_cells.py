"""Blank rows and columns, rows without a target, columns of one file alone: over all formats."""

import re
from functools import partial
from unicodedata import normalize

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from support import csv_file, features_of, later_rows, merge, opened, rows_of, saved, user_file
from test_kinds_of_values import READ_OTHERWISE, TABLES, N, X, Y, config_of

from kbench.data import prepare
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.errors import DataError

FIRST = {"split": {"kind": "first", "n_train": 40}}


@pytest.mark.parametrize("form", TABLES)
def test_nothing_is_learnt_of_a_row_that_is_left_out(folders, form):
    words = np.where(X[:, 1] > 0, "up", "down").astype(object)
    words[:8] = "only there"
    frame = pd.DataFrame({"a": X[:, 0], "word": words, "y": Y})
    frame.loc[:7, "y"] = np.nan
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    columns = {"source": {"columns": {"categorical": "auto"}}}
    data = opened(user_file(path, **merge(columns, FIRST)), folders)
    assert any(note.startswith("8 rows without a target left out") for note in data.notes)
    expected = np.c_[X[:, 0], words == "down", words == "up"][8:].astype(np.float32)
    np.testing.assert_array_equal(rows_of(data), expected)


def test_labels_that_no_row_has_are_no_classes(folders):
    """As in a frame of pandas that was filtered."""
    labels = pd.Categorical(np.where(Y > 0, "up", "down"), ["down", "gone", "up"])
    path = folders.read_only[0] / "t.parquet"
    pd.DataFrame({"a": X[:, 0], "y": labels}).to_parquet(path)
    for task in (None, "binary"):
        data = opened(user_file(path, task=task), folders)
        assert (data.task, data.n_classes) == ("binary", 2)
        assert data.preparation.target.texts == ("down", "up")


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("kind", [str, "category"])
def test_a_column_of_texts_may_lack_all_of_them_in_the_test_file(folders, form, kind):
    """Parquet gives a column without values no type; it stays one of texts."""
    words = pd.Series(np.where(X[:, 1] > 0, "up", "down")).astype(kind)
    train = pd.DataFrame({"a": X[:, 0], "word": words, "y": Y})
    test = train.assign(word=pd.Categorical([None] * N) if kind == "category" else None)
    paths = [
        str(saved(frame, folders.read_only[0] / f"{name}.{form}"))
        for name, frame in (("train", train), ("test", test))
    ]
    columns = {"source": {"columns": {"categorical": "auto", "target": "y"}}}
    data = opened(user_file(paths[0], test_path=paths[1], **columns), folders)
    np.testing.assert_array_equal(data.X_test, np.c_[X[:, 0], 0 * X[:, :2]].astype(np.float32))
    assert any("60 rows have a text in the column 'word' that no" in n for n in data.notes)


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("where", ["path", "test_path"])
def test_a_column_of_one_file_alone_is_dropped_if_the_command_says_so(folders, form, where):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    same = {"path": frame[:40], "test_path": frame[40:]}
    more = {**same, where: same[where].assign(z=1.0)[["z", "a", "b", "c", "y"]]}

    def read(parts, task="binary", **columns):
        for key, part in parts.items():
            saved(part, folders.read_only[0] / f"{key}.{form}")
        train, test = (folders.read_only[0] / f"{key}.{form}" for key in parts)
        told = {"task": task, "source": {"columns": columns}}
        return opened(user_file(train, test_path=str(test), **told), folders)

    with pytest.raises(DataError, match=r"column 'z', .*columns\.drop=\[z\] leaves it out"):
        read(more)
    for task in ("binary", None):
        np.testing.assert_array_equal(rows_of(read(more, task, drop=["z"])), X.astype(np.float32))
    with pytest.raises(DataError, match="column 'z'"):
        read(more, drop=["zz"])
    with pytest.raises(DataError, match="no column 'zz' here nor in the other files"):
        read(same, drop=["zz"])


@pytest.mark.parametrize("form", TABLES)
def test_later_rows_may_have_what_training_left_out_and_nothing_else(folders, form):
    """Names that are all rare, and an index, in a file of any format of tables."""
    names = [f"n{k}" for k in range(N)]
    frame = pd.DataFrame({"Unnamed: 0": np.arange(N), "größte Höhe": X[:, 0], "id": names})
    columns = {"target": "y", "categorical": "auto"}

    def written(frame, form, name):
        return saved(frame, folders.read_only[0] / f"{name}.{form}")

    def features(frame, later):
        config = user_file(written(frame, later, "later"))
        rows = later_rows(config, folders, data.preparation)
        return features_of(data.preparation, rows)[:, 0]

    path = written(frame.assign(y=Y), form, "t")
    data = opened(user_file(path, source={"columns": columns}), folders)
    assert data.n_features == 1
    said = r"a column 'z', the training file had none; .*drop=\[z\]"
    for later in TABLES:
        expected = X[:, 0].astype(np.float32)
        np.testing.assert_array_equal(features(frame, later), expected)
        alone = frame[["größte Höhe"]].rename(columns=partial(normalize, "NFD"))
        np.testing.assert_array_equal(features(alone.assign(y=Y), later), expected)
        np.testing.assert_array_equal(features(alone, later), expected)
        with pytest.raises(DataError, match=said):
            features(frame.assign(z="text"), later)


@pytest.mark.parametrize("form", TABLES)
def test_a_further_column_of_later_rows_is_dropped_if_the_command_says_so(folders, form):
    """What was said of the columns of the training file holds, too."""
    words = np.where(X[:, 1] > 0, "up", "down")
    frame = pd.DataFrame({"id": np.arange(N) * 7, "a": X[:, 0], "word": words, "y": Y})
    columns = {"target": "y", "categorical": "auto", "drop": ["id"]}
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    data = opened(user_file(path, source={"columns": columns}), folders)
    later = saved(frame.drop(columns="id").assign(z=1.0), folders.read_only[0] / f"later.{form}")

    def features(**columns):
        config = user_file(later, source={"columns": columns})
        rows = later_rows(config, folders, data.preparation, own_source=bool(columns))
        return features_of(data.preparation, rows)

    with pytest.raises(DataError, match=r"columns\.drop=\[z\] leaves it out"):
        features()
    with pytest.raises(DataError, match=r"columns\.drop names 'a', a feature of the model"):
        features(drop=["z", "a"])
    expected = np.c_[X[:, 0], words == "down", words == "up"].astype(np.float32)
    np.testing.assert_array_equal(features(drop=["z"]), expected)
    np.savez(later.with_suffix(".npz"), X=X, y=Y)
    config = user_file(later.with_suffix(".npz"))
    with pytest.raises(DataError, match=f"is a npz file, the model was trained on {form}"):
        later_rows(config, folders, data.preparation)


BLANKS = {
    "columns": ("{h},,\n", "{r},,\n", ""),
    "one column": ("{h},\n", "{r},\n", ""),
    "rows": ("{h}\n", "{r}\n", ",,,\n,,,\n"),
    "rows and columns": ("{h},,\r\n", "{r},,\r\n", ",,,,,\r\n" * 3),
    "of the rows alone": ("{h}\n", "{r},\n", ""),
    "without a header": ("", "{r},,\n", ""),
    "columns that pandas has read": ("{h},Unnamed: 4,Unnamed: 5\n", "{r},,\n", ""),
}


@pytest.mark.parametrize("case", BLANKS)
@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_blank_cells_at_the_end_of_a_sheet_are_no_data(folders, case, between):
    header, row, tail = BLANKS[case]
    rows = [row.format(r=",".join(map(str, values))) for values in np.c_[X, Y].tolist()]
    text = header.format(h="a,b,c,y") + "".join(rows) + tail
    path = folders.read_only[0] / "t.csv"
    path.write_bytes(text.replace(",", between).encode())
    data = opened(user_file(path, **FIRST), folders)
    np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))
    if "column" in case or case in ("of the rows alone", "without a header"):
        assert any("last " in note and "left out" in note for note in data.notes)
    if "rows" in case and tail and between != "\t":  # a line of tabs is a blank line
        assert any("without a target left out" in note for note in data.notes)


# The size is of the pieces in which the file is read.
@pytest.mark.parametrize(
    ("between", "size"), [(",", 40), (";", 1 << 20), ("\t", 40), (" ", 1 << 20)]
)
@pytest.mark.parametrize("blank", ["", " ", "\t", " \t\t ", "\f"])
def test_blank_lines_among_the_rows_are_no_rows(folders, between, blank, size):
    lines = ["a,b,c,y", *(",".join(map(str, row)) for row in np.c_[X, Y].tolist())]
    lines[7:7] = lines[20:20] = ["BLANK", "BLANK"]
    text = "\r\n".join(lines).replace(",", between).replace("BLANK", blank)
    path = folders.read_only[0] / "t.csv"
    path.write_bytes(text.encode())
    with changed_piece_sizes(text=size):
        data = opened(user_file(path, **FIRST), folders)
        np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))
        lines[30] = "NA,1,1,1"
        text = "\r\n".join(lines).replace(",", between).replace("BLANK", blank)
        path.write_bytes(text.encode())
        with pytest.raises(DataError, match=r"t\.csv:31: column 'a' is missing"):
            opened(user_file(path, **FIRST), folders)


@pytest.mark.parametrize(
    "title", ["Report of May", "|1x3 Cross validator", "May; June", "May\nby A, B"]
)
def test_a_title_above_a_table_is_named(folders, title):
    path = folders.read_only[0] / "t.csv"
    path.write_text(f"{title}\n\na,b,y\n" + "1,2,0\n2,3,1\n" * 20)
    first, *more = title.split("\n")
    said = rf"t\.csv:1: '{re.escape(first)}' is not a row .*tail -n \+{3 + len(more)}"
    with pytest.raises(DataError, match=said):
        opened(user_file(path), folders)
    path.write_text(path.read_text().partition("\n\n")[2])
    assert opened(user_file(path), folders).n_features == 2


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_failed_formulas_are_gaps_and_no_comments(folders, between):
    texts = ["#WERT!", "#VALEUR!", "#¡REF!", "#NOM?", "#NV", "#N/A", "#DIV/0!"]
    rows = [f"{a}{between}{y}" for a, y in zip(X[:, 0], Y, strict=True)]
    rows[5 : 5 + len(texts)] = [f"{text}{between}{k % 2}" for k, text in enumerate(texts)]
    path = csv_file(folders, [f"a{between}y", *rows])
    with pytest.raises(DataError, match=r"t\.csv:7: column 'a' is missing"):
        opened(user_file(path), folders)
    data = opened(user_file(path, missing="drop", **FIRST), folders)
    whole = np.delete(X[:, 0], range(5, 5 + len(texts)))
    np.testing.assert_array_equal(rows_of(data)[:, 0], whole.astype(np.float32))


@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_blanks_of_unicode_about_numbers_are_no_text(folders, between):
    rows = [f"{a},\u00a0{b}\u2003,{y:g}" for (a, b, _), y in zip(X, Y, strict=True)]
    lines = ["a,b,y", *rows]
    path = csv_file(folders, (line.replace(",", between) for line in lines))
    data = opened(user_file(path, **FIRST), folders)
    np.testing.assert_array_equal(rows_of(data), X[:, :2].astype(np.float32))


@pytest.mark.parametrize("form", READ_OTHERWISE)
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_one_class_alone_is_no_task(folders, form, task):
    with pytest.raises(DataError, match=f"task is {task}, but the target is 1 in all 60 rows"):
        prepare(config_of(form, folders, X, np.ones(N), task=task), folders)


@pytest.mark.parametrize("names", [["a", "a", "y"], ["a"], []])
def test_columns_that_parquet_should_have(folders, names):
    path = folders.read_only[0] / "t.parquet"
    columns = [pa.array(np.arange(5)) for _ in names]
    parquet.write_table(pa.Table.from_arrays(columns, names), path)
    with pytest.raises(DataError, match=r"t\.parquet: (two|1|0) columns.*, should be two at least"):
        opened(user_file(path), folders)


@pytest.mark.parametrize("form", TABLES)
def test_blanks_around_a_name_are_none_of_it(folders, form):
    frame = pd.DataFrame({"a": X[:, 0], "y ": Y, "b": X[:, 1]})
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    for target in ("y", "y ", " y"):
        data = opened(user_file(path, source={"columns": {"target": target}}, **FIRST), folders)
        np.testing.assert_array_equal(rows_of(data), X[:, :2].astype(np.float32))


def test_files_of_two_formats_are_no_data_set(folders):
    paths = []
    for form in ("csv", "parquet"):
        frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
        paths.append(str(saved(frame, folders.read_only[0] / f"t.{form}")))
    with pytest.raises(DataError, match=r"is a parquet file, but dataset\.path is csv"):
        prepare(user_file(paths[0], test_path=paths[1]), folders)


def test_signs_that_differ_are_said(folders):
    signs = ["$5", "€7", "$0", "0", "$1.5", "€2"] * 10
    path = csv_file(folders, ["price,y", *(f"{t},{k % 2}" for k, t in enumerate(signs))])
    data = opened(user_file(path, **FIRST), folders)
    (note,) = [n for n in data.notes if "beside them" in n]
    assert "'price' have '$' and '€' beside them" in note
    csv_file(folders, ["price,y", *(f"${k},{k % 2}" for k in range(60))])
    assert not any("beside them" in n for n in opened(user_file(path, **FIRST), folders).notes)


@pytest.mark.parametrize("form", TABLES)
@pytest.mark.parametrize("first", ["percent", "plain"])
def test_signs_that_one_file_lacks_are_said(folders, form, first):
    """12 % in the training file and 0.12 in the test file, or in later rows of any format."""
    frame = pd.DataFrame({"a": X[:, 0], "y": Y})
    percent = frame.assign(a=[f"{100 * a:.1f} %" for a in X[:, 0]])
    raw = folders.read_only[0]
    paths = [saved(percent, raw / "percent.csv"), saved(frame, raw / f"plain.{form}")]
    paths = paths if first == "percent" else paths[::-1]
    source = {"format": paths[0].suffix[1:], "columns": {"target": "y"}}
    data = opened(user_file(paths[0], source=source, **FIRST), folders)
    assert not any("beside them" in note for note in data.notes)
    rows = later_rows(user_file(paths[1]), folders, data.preparation)
    said = "the numbers in the column 'a' have nothing and '%' beside them"
    assert any(said in note for note in rows.notes)
    if form == "csv":
        config = user_file(paths[0], test_path=str(paths[1]), source=source)
        assert any(said in note for note in opened(config, folders).notes)


SPELLINGS = {
    "case": ("Bern", "bern"),
    "accents": ("Z\u00fcrich", "Zu\u0308rich"),
    "blanks": ("New York", "New  York"),
    "hidden characters": ("lo", "l\u200bo"),
}


@pytest.mark.parametrize(
    ("form", "case"),
    [*(("csv", case) for case in SPELLINGS), ("arff", "case"), ("parquet", "case")],
)
def test_texts_that_differ_in_spelling_alone_are_said(folders, form, case):
    pair = SPELLINGS[case]
    words = np.array(["Rome", *pair], dtype=object)[np.arange(N) % 3]
    roles = {"y": ({}, "classes"), "word": ({"categorical": "auto"}, "categories"),
             "g": ({"group": "g"}, "groups")}  # fmt: skip
    for name, (columns, what) in roles.items():
        frame = pd.DataFrame({"a": X[:, 0]}).assign(**{name: words})
        frame = frame if name == "y" else frame.assign(y=Y)
        path = saved(frame, folders.read_only[0] / f"{name}.{form}")
        source = {"columns": {"target": "y", **columns}}
        for wanted in (True, False):
            data = opened(user_file(path, source=source, task=None, **FIRST), folders)
            said = [n for n in data.notes if f"are two {what}, though they differ" in n]
            assert len(said) == wanted
            saved(frame.replace({pair[1]: "<Bern"}), path)


@pytest.mark.parametrize("form", TABLES)
def test_truth_values_in_several_spellings_are_two_classes(folders, form):
    """As pandas reads them; and so are those of later rows."""
    spelt = np.where(Y > 0, "True", "False").astype(object)
    mixed = np.where(np.arange(N) % 2, np.char.upper(spelt.astype(str)), spelt)
    source = {"columns": {"target": "y"}}
    path = saved(pd.DataFrame({"a": X[:, 0], "y": mixed}), folders.read_only[0] / f"t.{form}")
    data = opened(user_file(path, source=source, task=None, **FIRST), folders)
    assert data.preparation.target.texts == ("False", "True")
    np.testing.assert_array_equal(np.r_[data.y_train, data.y_test], np.where(Y > 0, 1, -1))
    assert any("targets False, True are one class each" in note for note in data.notes)
    saved(pd.DataFrame({"a": X[:, 0], "y": np.char.lower(spelt.astype(str))}), path)
    rows = later_rows(user_file(path, source=source), folders, data.preparation)
    np.testing.assert_array_equal(data.preparation.target.encode(rows.y), np.where(Y > 0, 1, -1))


@pytest.mark.parametrize("form", ["arff", "parquet"])
@pytest.mark.parametrize("other", ["8", "8.5", "8,5", "$8"])
def test_texts_that_become_features_unasked_are_said(folders, form, other):
    frame = pd.DataFrame({"a": X[:, 0], "code": np.where(Y > 0, "007", other), "y": Y})
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    if form == "arff":
        path.write_text(path.read_text().replace("'code' string", f"code {{007, '{other}'}}"))
    data = opened(user_file(path, source={"columns": {"target": "y"}}, **FIRST), folders)
    said = "columns of texts become one feature a category: code (2 numbers as texts)"
    assert said in data.notes
    if other != "8":
        return
    data = opened(user_file(path, source={"columns": {"target": "code"}}, **FIRST), folders)
    assert "the target '007' is read as the number 7" in data.notes
