"""Headers, indices, texts and numbers in tables as pandas, R and spreadsheets write them."""

import io
import re
import subprocess

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder
from support import csv_file, features_of, later_rows, merge, rows_of, saved, shipped, user_file
from support import opened_file as opened

from kbench.data import open_prepared, prepare
from kbench.data.formats.coding import RARE_ROWS
from kbench.data.formats.csv_records import delimiter_of, quoted_pattern, records
from kbench.data.formats.number_text import decorated_number
from kbench.data.sources.content import require_text
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.errors import ConfigError, DataError, DataNotFoundError

RNG = np.random.default_rng(1)
X = RNG.normal(size=(40, 3)).round(3)
Y = (X[:, 0] > 0).astype(int)


FIRST = {"split": {"kind": "first", "n_train": 30}}


def written(folders, header, body=None, name="t.csv"):
    path = folders.read_only[0] / name
    text = "\n".join(",".join(map(str, row)) for row in (np.c_[X, Y] if body is None else body))
    path.write_text(header + text + "\n")
    return path


HEADERS = {
    "counts from 0": ("0,1,2,3\n", None, "counts from 0 to 3"),
    "a text above numbers": ("1e3,null,yes,y\n", None, "is not a number and all below it are"),
    "one name": ("2018,2019,2020,target\n", None, "'target' is not a number"),
    "years above decimals": ("2018,2019,2020,2021\n", None, "whole numbers above decimals"),
    "named by the config": ("10,20,30,2020\n", 2020, "has the column '2020'"),
    "a name before a position": ("4,3,2,1\n", "1", "has the column '1'"),
    "names": ("a,b,c,y\n", None, None),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_header_of_any_kind_is_no_row(folders, case):
    header, target, said = HEADERS[case]
    columns = {"target": target}
    path = written(folders, header)
    data = opened(path, folders, source={"columns": columns}, **FIRST)
    np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))
    notes = [note for note in data.notes if "taken as the header" in note]
    assert (said is None) == (not notes)
    assert said is None or (said in notes[0] and "header=false" in notes[0])


PLACES = {  # the header and the columns below it
    "wavelengths beside a text": ("400.0,402.5,404.1,kind", np.c_[X, np.array(["u", "v"])[Y]]),
    "pixels beside a text": ("1,2,3,kind", np.c_[(9 * X).astype(int), np.array(["u", "v"])[Y]]),
    "wave numbers": ("4000,3998,3996,3994,3992", np.c_[X, X[:, 0], Y]),
    "years above counts": ("2015,2016,2017,2018,2019", np.c_[(9 * X).astype(int), Y, Y]),
    "a row of a rare class": ("0.5,0.1,0.4,kind", np.c_[X, np.array(["u", "v"])[Y]]),
    "a row of texts alone": ("u,v,w,u", np.array([*"uvwx"])[np.arange(160).reshape(40, 4) % 3]),
    "a row among windows of a ramp": ("1,2,3,4,5", np.add.outer(np.arange(2, 42), np.arange(5))),
}


@pytest.mark.parametrize("case", PLACES)
def test_the_places_of_a_series_are_no_row(folders, case):
    header, body = PLACES[case]
    path = written(folders, header + "\n", body.tolist())
    source = {"columns": {"categorical": "auto"}}
    data = opened(path, folders, task=None, source=source, **FIRST)
    said = any("in order, unlike those below" in note for note in data.notes)
    assert said == (not case.startswith("a row"))
    assert data.n_train + data.n_test == 41 - said


def test_zeros_before_numbers_are_said(folders):
    rows = [(f"0{1000 + k % 7}", k + 3, Y[k]) for k in range(40)]
    path = written(folders, "zip,b,y\n", rows)
    data = opened(path, folders, **FIRST)
    assert any("('01000' is read as 1000) in the column 'zip'" in note for note in data.notes)
    for columns in ({"categorical": ["zip"]}, {"drop": ["zip"]}, {"group": "zip"}):
        data = opened(path, folders, source={"columns": columns})
        assert not any("zeros before" in note for note in data.notes)


@pytest.mark.parametrize("header", ["", "-1.5,0,0.5,1\n"])
def test_a_first_row_of_numbers_is_a_row(folders, header):
    data = opened(written(folders, header), folders, **FIRST)
    assert data.n_train + data.n_test == 40 + bool(header)
    assert any("has no header, its first line is a row" in note for note in data.notes)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *(("2020", 2020), ("1e3", 1000.0), ("yes", True), ("yes", "yes"), ("null", "null")),
        *(("2", 2), ("gro\u0308\u00dfe", "gr\u00f6\u00dfe")),  # an accent of its own, from macOS
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet", "arff"])
def test_a_name_wins_over_a_position(folders, form, name, wanted):
    frame = pd.DataFrame(np.c_[Y, X], columns=[name, "a", "b", "c"])
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    data = opened(path, folders, source={"columns": {"target": wanted}}, **FIRST)
    np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))


@pytest.mark.parametrize(
    "header", [",2019,2020,2021,2022", ",0.1,0.5,0.9,1.3", ",10,20,30,40", "2019,2020,2021,y"]
)
def test_a_header_of_numbers_above_an_index_is_no_row(folders, header):
    body = np.c_[np.arange(40)[::-1], X, Y]
    lines = [",".join([str(int(row[0])), *map(str, row[1:])]) for row in body]
    path = csv_file(folders, [header, *lines])
    data = opened(path, folders, **FIRST)
    np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))
    assert data.n_classes == 2


@pytest.mark.parametrize("blank", [" ", "   ", '" "', "NA ", " NA", "\t"])
@pytest.mark.parametrize("at", [0, 39])
def test_a_cell_of_blanks_is_a_missing_number(folders, blank, at):
    body = np.c_[X, Y].astype(object)
    body[at, 1] = blank
    path = written(folders, "a,b,c,y\n", body)
    data = opened(path, folders, missing="mean", **FIRST)
    expected = X.astype(np.float64)
    expected[at, 1] = np.delete(X[:30, 1], [at] if at < 30 else []).mean()
    np.testing.assert_allclose(rows_of(data), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["id", "PassengerId", "Nr."])
@pytest.mark.parametrize("begin", [0, 1])
def test_a_column_that_numbers_the_rows_is_said_whatever_its_name(folders, name, begin):
    numbers = np.random.default_rng(0).permutation(40) + begin
    for values, said in ((numbers, True), (2 * numbers, False)):
        path = written(folders, f"{name},b,c,y\n", np.c_[values, X[:, 1:], Y])
        data = opened(path, folders, **FIRST)
        assert any("numbers the rows and is taken as a feature" in n for n in data.notes) == said


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("order", ["as it was", "shuffled", "of texts", "named"])
@pytest.mark.parametrize("last", ["y", "c"])
def test_pandas_index_is_neither_feature_nor_target(folders, form, order, last):
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=Y)
    frame = frame[[*[c for c in frame if c != last], last]]
    if order == "shuffled":
        frame = frame.sample(frac=1, random_state=0)
    elif order == "of texts":
        frame.index = [f"row {k}" for k in range(40)]
    elif order == "named":
        if form == "csv":
            pytest.skip("a CSV file does not say that a column with a name was the index")
        frame.index = pd.Index([*range(47, 7, -1)], name="key")
    path = folders.read_only[0] / f"t.{form}"
    frame.to_csv(path) if form == "csv" else frame.to_parquet(path)
    columns = {} if last == "y" else {"target": "y"}
    data = opened(path, folders, source={"columns": columns}, **FIRST)
    expected = frame.drop(columns="y").to_numpy().astype(np.float32)
    np.testing.assert_array_equal(rows_of(data), expected)
    stored = form == "csv" or order != "as it was"
    assert any("index of the rows" in note for note in data.notes) == stored
    rows = later_rows(user_file(path), folders, data.preparation)
    np.testing.assert_array_equal(features_of(data.preparation, rows), expected)


@pytest.mark.parametrize("missing", ["error", "mean", "drop"])
@pytest.mark.parametrize(
    ("fields", "odd"), [("${k},001.50", "unknown"), ("{k},5", "0.455"), ("(1,{k}00.00)", "n/k")]
)
def test_a_late_field_of_another_form_is_no_missing_number(folders, missing, fields, odd):
    """It comes after the records in which the form of the file is found."""
    rows = [f"{fields.format(k=k % 9 + 1)};{k % 2}" for k in range(400)]
    rows[300] = f"{odd};1"
    path = folders.read_only[0] / "t.csv"
    path.write_text("a;y\n" + "\n".join(rows))
    with pytest.raises(DataError, match=rf"t\.csv:302: column 'a' is '{odd}', should be a number"):
        opened(path, folders, missing=missing)
    columns = {"categorical": "auto"}
    data = opened(path, folders, source={"columns": columns}, **FIRST)
    assert any("'a' holds texts: one feature for each of 9" in note for note in data.notes)
    assert not any("is read as" in note for note in data.notes)


@pytest.mark.parametrize("head", ["sep=;\n", "# made by me\n# on a day\n", "#a;b;c;y\n", "\n\n"])
def test_what_precedes_a_table_is_no_row(folders, head):
    rows = [";".join(map(str, row)) for row in np.c_[X, Y]]
    names = "" if head.startswith("#a") else "a;b;c;y\n"
    path = folders.read_only[0] / "t.csv"
    path.write_text(head + names + "\n".join(rows))
    data = opened(path, folders, **FIRST)
    np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))
    said = any("2 lines before the table, beginning with #, left out" in n for n in data.notes)
    assert said == ("made" in head)


NO_TEXTS = [  # the first bytes, and what is said
    (b"PAR1", "a Parquet file, which dataset.source.format=parquet reads"),
    (b"ARROW1", "an Arrow or Feather file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"SQLite format 3", "a SQLite database"),
    ("a;y".encode("utf-16"), "UTF-16 text; `iconv -f UTF-16 -t UTF-8`"),
    ("a;y".encode("utf-16-be"), "UTF-16 text; `iconv -f UTF-16BE -t UTF-8`"),
    ("a;y".encode("utf-16-le"), "UTF-16 text; `iconv -f UTF-16LE -t UTF-8`"),
    (b"a" * 257 + b"ustar", "a tar archive"),
    (b"\x1f\x9d", "compressed by compress"),
    (b"\n<!DOCTYPE html>\n<html>", "an HTML or XML page"),
    (b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
    (b'{"a": 1, "y": 2}\n{"a": 2, "y": 3}\n', "lines of JSON"),
    (b'[{"a": 1,\n "y": 2}]', "JSON; `pandas.read_json"),
    (b"[[1, 2], [2, 3]]", "JSON; `pandas.read_json"),
]


@pytest.mark.parametrize(
    ("name", "magic", "what"),
    [
        *(("t.csv", *case) for case in NO_TEXTS),
        *((name, *NO_TEXTS[0]) for name in ("t.arff", "t.libsvm", "t")),
    ],
)
def test_a_file_that_is_no_text_is_named(folders, name, magic, what):
    path = folders.read_only[0] / name
    path.write_bytes(magic + bytes(range(256)) * 4)
    with pytest.raises(DataError, match=f"not rows of text in UTF-8 but {what}"):
        opened(path, folders)


@pytest.mark.parametrize("head", [b"<TICKER>,<DATE>,<CLOSE>\n", b"<5,a,y\n", b"<A>;<B>\n"])
def test_headers_in_angle_brackets_are_no_markup(tmp_path, head):
    require_text(head + b"1.5,2.5,0\n", tmp_path)


NUMBERS = {
    "decimal comma": (["1,5", "-0,25", "3"], ";", [1.5, -0.25, 3]),
    "comma and points": (["1.234,5", "12,25", "1.000.000,0"], ";", [1234.5, 12.25, 1e6]),
    "thousands": (["1,234", "12,345,678", "999"], ",", [1234, 12345678, 999]),
    "currency": (["$1,234.50", "-$3.25", "$7"], ",", [1234.5, -3.25, 7]),
    "euro": (["1.234,50 €", "3,25 €", "7,00 €"], ";", [1234.5, 3.25, 7]),
    "accountant": (["(1,234.50)", "3.25", "7.00"], ",", [-1234.5, 3.25, 7]),
    "accounts": (["$ (1,234.50)", "$ 3.25", "$ -"], ",", [-1234.5, 3.25, 0]),
    "percent": (["12.5%", "3 %", "100%"], ",", [12.5, 3, 100]),
    "swiss": (["1'234.50", "1'000'000.25", "7"], ",", [1234.5, 1000000.25, 7]),
    "french": (["1\u202f234,50", "3,25", "7,5"], ";", [1234.5, 3.25, 7.5]),
    "swiss of Windows": (["1\u2019234.5", "1\u2019000\u2019000", "7"], ",", [1234.5, 1e6, 7]),
    "minus of typography": (["\u22121.5", "3.25", "2.5e\u22121"], ",", [-1.5, 3.25, 0.25]),
    "dash as minus": (["\u20131.5", "3.25", "2.5e\u20131"], ",", [-1.5, 3.25, 0.25]),
    "SAP": (["1.234,50-", "3,25", "0,125-"], ";", [-1234.5, 3.25, -0.125]),
    "dollars of a country": (["US$1,234.50", "R$ 3.25", "-C$7.5"], ",", [1234.5, 3.25, -7.5]),
    "kroner": (["1 234,50 SEK", "-3,25 SEK", "(7,00 SEK)"], ";", [1234.5, -3.25, -7]),
}


@pytest.mark.parametrize(
    ("case", "late"),
    [
        *((case, False) for case in NUMBERS),
        *((case, True) for case in ("decimal comma", "thousands", "accounts", "french")),
    ],
)
def test_numbers_as_people_write_them(folders, case, late):
    """`late` : the first such number comes after the records that show the form of the file."""
    texts, delimiter, values = NUMBERS[case]
    before = ["5", "6"] * (150 if late else 0)
    values, texts = [5.0, 6.0] * (len(before) // 2) + values, before + texts
    lines = [f'"{t}"{delimiter}{k % 2}' for k, t in enumerate(texts)]
    path = csv_file(folders, [f"price{delimiter}y", *lines])
    data = opened(path, folders, split={"kind": "first", "n_train": 2})
    np.testing.assert_array_equal(rows_of(data)[:, 0], np.float32(values))
    assert any("'price'" in note and "is read as" in note for note in data.notes)
    path.write_text("\n".join([f"a{delimiter}price", *(f'{k}{delimiter}"{t}"' for k, t in
                                                       enumerate(texts))]))  # fmt: skip
    regression = opened(path, folders, task="regression", split={"kind": "first", "n_train": 2})
    np.testing.assert_allclose([*regression.y_train, *regression.y_test], values)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
@pytest.mark.parametrize(("late", "decimals"), [(False, "0.5"), (True, "12.25")])
def test_a_plain_number_shows_what_a_comma_separates(folders, delimiter, late, decimals):
    rows = [(7, decimals, k % 2) for k in range(300 if late else 20)]
    rows[-1] = ('"1,234"', decimals, 1)
    lines = (delimiter.join(map(str, row)) for row in [("a", "b", "y"), *rows])
    path = csv_file(folders, lines)
    data = opened(path, folders)
    assert max(data.X_train[:, 0].max(), data.X_test[:, 0].max()) == 1234
    assert any("'1,234' is read as 1234; " in note for note in data.notes)


SPREADSHEET = {  # whether thousands are likely; the fields
    "of any size": (True, ["987", "1.234", "-12.345", "5"]),
    "large ones alone": (True, ["1.234", "-12.345"]),
    "decimals of any size": (False, ["987", "1.234", "0.5"]),
    "large whole numbers": (False, ["98765", "1.234", "5"]),
    "small numbers": (False, ["0.234", "1.234", "5"]),
}


@pytest.mark.parametrize("case", SPREADSHEET)
@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_points_that_may_separate_thousands_are_said(folders, case, delimiter):
    likely, texts = SPREADSHEET[case]
    lines = [f"{text}{delimiter}{k % 2}" for k, text in enumerate(10 * texts)]
    path = csv_file(folders, [f"a{delimiter}y", *lines])
    notes = [note for note in opened(path, folders).notes if "decimal=comma" in note]
    assert notes == [f"in the column 'a' '1.234' is read as 1.234; {note}" for note in
                     ["dataset.source.columns.decimal=comma reads thousands"] * likely]  # fmt: skip


@pytest.mark.parametrize("place", ["test file", "later rows", "late row", "config"])
@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_decimals_that_one_place_shows_hold_in_all(folders, place, delimiter):
    """`1.234` is 1234 where another row, column or file has `1.234,5`."""
    raw = folders.read_only[0]

    def made(name, rows):
        text = "\n".join(["a;b;y", *rows]).replace(";", delimiter)
        (raw / name).write_text(text)
        return raw / name

    shown = [f"1.234,5;{k};{k % 2}" for k in range(300)]
    whole = ["1.234;1.234;0", "5;1;1"]
    later = made("later.csv", whole)
    split = {"split": {"kind": "first", "test_fraction": 2 / 302}}
    if place == "test file":
        data = opened(made("t.csv", shown), folders, test_path=str(later))
    elif place == "late row":
        data = opened(made("t.csv", shown + whole), folders, **split)
    elif place == "config":
        columns = {"source": {"columns": {"decimal": "comma"}}}
        data = opened(made("t.csv", 150 * whole + whole), folders, **columns, **split)
    else:
        data = opened(made("t.csv", shown), folders)
    found, notes = data.X_test, data.notes
    if place == "later rows":
        rows = later_rows(user_file(later), folders, data.preparation)
        found, notes = features_of(data.preparation, rows), rows.notes
    np.testing.assert_array_equal(found, [[1234, 1234], [5, 1]])
    assert any("'b' '1.234' is read as 1234; " in note for note in notes)


# Line 300 comes after the records that show the form.
@pytest.mark.parametrize(
    ("at", "categorical", "end"),
    [(1, None, "\n"), (20, "auto", "\r\n"), (300, None, "\r\n"), (300, "auto", "\n")],
)
def test_a_header_that_is_repeated_is_named(folders, at, categorical, end):
    header, *rows = "a,b,c,y", *(",".join(map(str, row)) for row in np.tile(np.c_[X, Y], (10, 1)))
    path = folders.read_only[0] / "t.csv"
    path.write_bytes(end.join([header, *rows[:at], header, *rows[at:]]).encode())
    columns = {"categorical": categorical}
    with pytest.raises(DataError, match=rf"t\.csv:{at + 2}: the header again") as error:
        opened(path, folders, source={"columns": columns})
    command = re.search("`(awk.*)`", str(error.value))[1].replace("FILE", str(path))
    made = subprocess.run(command, shell=True, capture_output=True, check=True).stdout
    path.write_bytes(made)
    assert opened(path, folders, source={"columns": columns}, **FIRST).n_test == 370


@given(st.floats(-1e9, 1e9), st.sampled_from([".", ","]), st.integers(0, 6))
def test_a_number_is_read_back_from_its_decorated_form(value, decimal, digits):
    text = f"{value:,.{digits}f}"
    other = text if decimal == "." else text.translate(str.maketrans(",.", ".,"))
    for decorated_text in (other, f"$ {other}", f"{other} EUR", f"{other}%"):
        assert decorated_number(decorated_text, decimal) == float(f"{value:.{digits}f}")


@pytest.mark.parametrize(
    "text",
    ["", "abc", "1,23,456", "12.34.56", "$", "1,2345.6", "--5", "1 2", "2-", "5.-", "-1.5-", "KM$"],
)
def test_what_is_no_decorated_number(text):
    assert decorated_number(text, ".") is None


TRUTHS = {
    "pandas": ("True", "False", None),
    "R": ("TRUE", "FALSE", None),
    "polars": ("true", "false", None),
    "with categories": ("True", "False", "auto"),
}


@pytest.mark.parametrize("case", TRUTHS)
def test_truth_values_are_the_numbers_that_parquet_has(folders, case):
    """As a feature; a target of truth values keeps its labels, and what is neither is refused."""
    true, false, categorical = TRUTHS[case]
    words = np.where(X[:, 1] > 0, true, false)
    table = np.c_[X[:, 0].astype(str), words, np.where(Y, true, false)].tolist()
    columns = {"source": {"columns": {"categorical": categorical}}, **FIRST}
    data = opened(written(folders, "a,b,y\n", table), folders, **columns)
    np.testing.assert_array_equal(rows_of(data), np.c_[X[:, 0], X[:, 1] > 0].astype(np.float32))
    assert set(data.preparation.target.texts) == {true, false}
    said = [note for note in data.notes if "true is read as 1 and false as 0" in note]
    assert len(said) == 1
    assert "'b'" in said[0]
    for times, found in (
        (1, f"{true}', should be a number; dataset"),
        (6, "maybe', .*; the fields"),
    ):
        later = [*table, *table] * times
        later[-1] = [later[-1][0], "maybe", later[-1][2]]
        path = written(folders, "a,b,y\n", later, f"{times}.csv")
        if categorical is None:
            with pytest.raises(DataError, match=f"'b' is '{found}"):
                opened(path, folders, **columns)
        else:
            data = opened(path, folders, **columns)
            assert any("'b' holds texts" in note for note in data.notes)


@given(st.lists(st.sampled_from("abcdefg"), min_size=12, max_size=80))
@settings(max_examples=30)
def test_texts_become_features_as_scikit_learn_encodes_them(tmp_path_factory, texts):
    from kbench.data.formats import read

    frame = pd.DataFrame({"x": np.arange(len(texts)) / 4, "word": texts, "y": 1.5})
    path = tmp_path_factory.mktemp("csv") / "toy"
    frame.to_csv(path, index=False)
    source = {"columns": {"categorical": "auto"}}
    part = read("csv", {"all": [path]}, source, "regression", None, path.parent / "s")["all"]
    encoder = OneHotEncoder(min_frequency=RARE_ROWS, handle_unknown="ignore")
    expected = encoder.fit_transform(frame[["word"]]).toarray()
    found = part.X if isinstance(part.X, np.ndarray) else part.X.toarray()
    if frame["word"].value_counts().max() < RARE_ROWS:
        expected = expected[:, :0]
    np.testing.assert_array_equal(found, np.c_[frame["x"], expected])


@pytest.mark.parametrize("form", ["csv", "parquet", "arff"])
def test_unknown_texts_of_later_rows_are_zero(folders, form):
    frame = pd.DataFrame({"x": X[:, 0], "city": ["Bern", "Rome"] * 19 + ["Oslo"] * 2, "y": Y})
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    columns = {"target": "y", "categorical": "auto"}
    data = opened(path, folders, source={"columns": columns}, **FIRST)
    assert data.n_features == 4  # x, Bern, Rome and the rare one
    assert any("'city' holds texts" in note and "1 rare" in note for note in data.notes)
    new = folders.read_only[0] / f"new.{form}"
    saved(pd.DataFrame({"x": [1.0, 1, 1], "city": ["Rome", "Oslo", "Wien"], "y": [0, 1, 0]}), new)
    rows = later_rows(user_file(new), folders, data.preparation)
    found = features_of(data.preparation, rows)
    np.testing.assert_array_equal(found[:, 1:], [[0, 1, 0], [0, 0, 1], [0, 0, 0]])


def test_a_text_deep_in_a_column_is_found(folders):
    lines = [f"{k},{k % 2}" for k in range(400)] + ["later,1"] * 6
    path = csv_file(folders, ["a,y", *lines])
    with pytest.raises(DataError, match=r"t\.csv:402: column 'a' is 'later'.*categorical=auto"):
        opened(path, folders)
    data = opened(path, folders, source={"columns": {"categorical": "auto"}})
    assert data.n_features == 2  # later, and the rare ones


@pytest.mark.parametrize("at", [1, 10_000])  # 10,000 : after the head of the file
@pytest.mark.parametrize("text", [r"5\" pipe", r"a, \"b, c\" d"])
def test_quotes_that_a_backslash_precedes_are_named(folders, at, text):
    """A comma within them would be a delimiter, and all names one column too far left."""
    path = folders.read_only[0] / "t.csv"
    columns = {"source": {"columns": {"categorical": "auto"}}}

    def features(texts):
        rows = (f'{k},"{text}",{k % 2}' for k, text in enumerate(texts))
        path.write_text("\n".join(["a,t,y", *rows]))
        return opened(path, folders, **columns).n_features

    assert features(["C:\\", "D:\\"] * 20) == 3
    texts = ["u", "v"] * (at // 2 + 20)
    texts[at] = text
    with pytest.raises(DataError, match=rf"t\.csv:{at + 2}: a quote .* `pandas\.read_csv") as error:
        features(texts)
    line = re.search(r"`(.*)`", str(error.value))[1]
    eval(line, {"pandas": pd, "FILE": path, "NEW": path})
    assert opened(path, folders, **columns).n_features == 4


@pytest.mark.parametrize("size", [40, 1 << 20])  # pieces of 40 bytes end within quotes
def test_quotes_hold_line_breaks_and_delimiters(folders, size):
    texts = ["two\nlines, and a comma", "a ; semicolon", 'a "quote"', "plain"] * 10
    frame = pd.DataFrame({"t": texts, "x": X[:, 0], "y": Y})
    path = folders.read_only[0] / "t.csv"
    frame.to_csv(path, index=False, lineterminator="\r\n")
    columns = {"categorical": ["t"], "target": "y"}
    with changed_piece_sizes(text=size):
        data = opened(path, folders, source={"columns": columns}, **FIRST)
    order = sorted(set(texts))
    np.testing.assert_array_equal(
        rows_of(data)[:, :4].argmax(axis=1), list(map(order.index, texts))
    )
    path.write_text(path.read_text() + "x,oops,1\n")
    with pytest.raises(DataError, match=r"t\.csv:52: column 'x' is 'oops', should be a number"):
        opened(path, folders, source={"columns": columns})
    path.write_text('t,x,y\n"a",1,0\n"open,2,1\nb,3,1\n')
    with pytest.raises(DataError, match=r"t\.csv:3: "):
        opened(path, folders, source={"columns": columns})


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("first", ["a", "t", "y"])
def test_a_quote_after_a_blank_is_one(folders, delimiter, first):
    texts = ["one, two; three\tfour", 'a ""word"", ""two""', "two\nlines"]
    fields = {"a": X[:, 0], "t": [f'"{texts[k % 3]}"' for k in range(40)], "y": Y.astype(str)}
    names = [first, *(set(fields) - {first})]
    lines = [f"{delimiter} ".join(names)]
    lines += [f"{delimiter} ".join(str(fields[n][k]) for n in names) for k in range(40)]
    path = csv_file(folders, (f" {line}" for line in lines))
    data = opened(path, folders, source={"columns": {"categorical": ["t"], "target": "y"}}, **FIRST)
    assert data.n_features == 4
    place = [name for name in names if name != "y"].index("a") * 3
    np.testing.assert_array_equal(rows_of(data)[:, place], X[:, 0].astype(np.float32))


@given(st.lists(st.lists(st.text('ab",;\n', max_size=5), min_size=2, max_size=2), min_size=1))
def test_records_are_those_of_the_csv_module(rows):
    import csv

    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    found = list(records(stream.getvalue().encode(), 1, quoted_pattern(",")))
    assert len(found) == len(rows)
    lines = np.cumsum([1, *(1 + sum(text.count("\n") for text in row) for row in rows)])
    assert [line for line, _ in found] == lines[:-1].tolist()


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        (b"a,b\n1,2\n", ","),
        (b"a;b\n1,5;2,5\n", ";"),
        (b"1,5;2,5\n3,5;4,5\n", ";"),
        (b"a|b\n1|2\n", "|"),
        (b'"a;b","c;d"\n"e;f",1\n', ","),
        (b"a\tb c\n1\t2 3\n", "\t"),
        (b"1 2\n3 4\n", " "),
        (b'18.0  8 70\t"a car"\n15.0  8 70\t"b"\n', " "),
        (b"1 234\tx y\n5 678\tz\n", "\t"),
    ],
)
def test_the_delimiter_divides_all_lines_alike(text, delimiter):
    assert delimiter_of(text, None) == delimiter


def test_a_table_under_another_suffix(folders):
    path = written(folders, "a,b,c,y\n", name="t.txt")
    config = shipped("file", path=str(path), **FIRST)
    data = open_prepared(prepare(config, folders))
    np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))
    assert any("read as csv" in note and "dataset.source.format" in note for note in data.notes)
    assert any("task is binary, as the target has 2" in note for note in data.notes)
    for between in (",", ";", "\t", " | "):  # times of day are no pairs of LIBSVM
        rows = [f"12:{k % 60:02}{between}u 7:5{between}{X[k, 0]}{between}{Y[k]}" for k in range(40)]
        path.write_text("\n".join([between.join(["time", "t", "a", "y"]), *rows]))
        drop = {"source": {"columns": {"drop": ["time", "t"]}}}
        assert opened(path, folders, **drop, **FIRST).n_features == 1
    for index in ("1", "+1"):
        path.write_text("\n".join(f"{y} {index}:{x}" for x, y in zip(X[:, 0], Y, strict=True)))
        data = open_prepared(prepare(shipped("file", path=str(path), **FIRST), folders))
        assert data.n_features == 1


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("~nobody_of_this_name/t.csv", ConfigError, "no home folder of ~nobody_of_this_name"),
        ("nothing*.csv", DataNotFoundError, "no file matches"),
        ("some*.csv", DataNotFoundError, "1 more match"),
    ],
)
def test_paths_that_name_no_file(folders, path, error, message):
    raw = folders.read_only[0]
    for name in ("some1.csv", "some2.csv"):
        (raw / name).write_text("a,y\n1,2\n")
    place = path if path.startswith("~") else str(raw / path)
    for task in ("binary", None):
        with pytest.raises(error, match=message):
            prepare(user_file(place, task=task), folders)


def test_indices_from_zero_are_recognised_over_all_files(folders):
    raw = folders.read_only[0]
    (raw / "a.libsvm").write_text("1 1:5 2:6\n0 2:7\n")
    (raw / "b.libsvm").write_text("1 0:9\n0 1:8\n")
    config = merge(user_file(raw / "a.libsvm"), {"test_path": str(raw / "b.libsvm")})
    data = open_prepared(prepare(config, folders))
    np.testing.assert_array_equal(data.X_train, [[0, 5, 6], [0, 0, 7]])
    np.testing.assert_array_equal(data.X_test, [[9, 0, 0], [0, 8, 0]])
    (note,) = (note for note in data.notes if "indices start at 0" in note)
    assert "a.libsvm has no index 0: if its indices start at 1" in note
    (raw / "c.libsvm").write_text("1 0:2\n0 1:3\n")
    alike = merge(user_file(raw / "c.libsvm"), {"test_path": str(raw / "b.libsvm")})
    notes = open_prepared(prepare(alike, folders)).notes
    assert not any("has no index 0" in note for note in notes)
    rows = later_rows(user_file(raw / "a.libsvm"), folders, data.preparation)
    np.testing.assert_array_equal(features_of(data.preparation, rows), data.X_train)
    told = merge(config, {"source": {"zero_based": False}})
    with pytest.raises(DataError, match=r"b\.libsvm:1: index 0 in '0:9', should be from 1"):
        prepare(told, folders)
    narrow = merge(config, {"n_features": 2})
    with pytest.raises(DataError, match=r"a\.libsvm:1: index 2, the data set has 2 features"):
        prepare(narrow, folders)
