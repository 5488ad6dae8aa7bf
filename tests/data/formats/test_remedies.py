"""Lines and fields that are refused with their cause and a remedy that works; numbers like gaps."""

import datetime
import itertools
import re
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.io import savemat
from support import csv_file, features_of, later_rows, rows_of, saved, user_file
from support import opened_file as opened
from test_tables_as_people_write_them import FIRST, X, Y

from kbench.config import composer
from kbench.data.formats.gap_markers import GapMarkers
from kbench.data.formats.number_text import almost_a_number
from kbench.data.sources.piece_sizes import changed_piece_sizes
from kbench.errors import DataError

COMMENTS = ["# second batch, 3 May", "#a", "# a,b,c,y", "#0.1,0.2,0.3,1", "% a", "// a,b,c,y"]


# Line 300 comes after the records that show the form.
@pytest.mark.parametrize(("at", "categorical"), [(1, "auto"), (20, None), (300, "auto")])
@pytest.mark.parametrize("comment", COMMENTS)
def test_a_comment_among_the_rows_is_named(folders, comment, at, categorical):
    lines = ["a,b,c,y", *(",".join(map(str, row)) for row in np.tile(np.c_[X, Y], (10, 1)))]
    lines.insert(at, comment)
    path = csv_file(folders, lines)
    said = rf":{at + 1}: '{comment[:2].strip()}.* a comment should stand before the table .*grep"
    with pytest.raises(DataError, match=said):
        opened(path, folders, source={"columns": {"categorical": categorical}})


@pytest.mark.parametrize("at", [2, 20, 40])
@pytest.mark.parametrize(
    ("footer", "delimiter"), [("Source: a ministry", ","), ("(40 rows)", ";"), ("---+---", "|")]
)
def test_the_remedy_for_a_line_that_is_no_row_is_right(folders, footer, at, delimiter):
    lines = ["a,b,c,y", *(",".join(map(str, row)) for row in np.c_[X, Y])]
    lines = [line.replace(",", delimiter) for line in lines]
    lines.insert(at, footer)
    path = csv_file(folders, [*lines, ""])
    with pytest.raises(DataError, match=rf"t\.csv:{at + 1}: 1 field ") as error:
        opened(path, folders)
    line = int(re.search(r"`sed (\d+)d FILE`", str(error.value))[1])
    csv_file(folders, [*lines[: line - 1], *lines[line:], ""])
    assert opened(path, folders).n_train


def test_names_that_begin_with_a_number_sign_are_no_comments(folders):
    rows = (f"#{k},{X[k, 0]},{Y[k]}" for k in range(40))
    path = csv_file(folders, ["id,a,y", *rows])
    data = opened(path, folders, source={"columns": {"drop": ["id"]}}, **FIRST)
    np.testing.assert_array_equal(rows_of(data)[:, 0], X[:, 0].astype(np.float32))


@pytest.mark.parametrize("key", ["categorical", "drop", "group"])
@pytest.mark.parametrize("column", ["id", 1])
def test_texts_that_begin_with_a_number_sign_are_read_where_texts_are_expected(
    folders, key, column
):
    rows = (f"{'#' * (k == 5)}{k % 7},{X[k, 0]},{Y[k]}" for k in range(40))
    path = csv_file(folders, ["id,a,y", *rows])
    wanted = column if key == "group" else [column]
    data = opened(path, folders, source={"columns": {key: wanted}})
    assert data.n_train + data.n_test == 40


ALMOST = {  # the values that pandas' line in the message should find
    "Fortran": (["1.5D+03", "-2d-1", "3.5"], [1500, -0.2, 3.5]),
    "uncertainty": (["1.5 ± 0.1", "-2e-1+/-0.1", "3+-1"], [1.5, -0.2, 3]),
    "unit": (["1.5 kg", "-2e-1 kg", "3 kg"], [1.5, -0.2, 3]),
    "unit without a space": (["1.5eV", "-2e-1eV", "+3eV"], [1.5, -0.2, 3]),
    "compound unit": (["1.5 m/s²", "-2 m/s²", "3 m/s²"], [1.5, -2, 3]),
    "degrees": (["1.5°C", "-2 °C", "3°C"], [1.5, -2, 3]),
    "marks of direction": (["\u200f1.5", "\u200f-2\u200e", "3"], [1.5, -2, 3]),
    "limits": (["<1.5", ">= 2", "≤3"], [1.5, 2, 3]),
    "digits of Arabic": (["١.٥", "-٢", "3"], [1.5, -2, 3]),
    # CSV has no types, so that True and False of a feature are read there.
    "truth values": (["True", "False", "True"], [1, 0, 1]),
}


@pytest.mark.parametrize(
    ("case", "form", "last"),
    sorted(
        {*itertools.product(ALMOST, ["csv", "arff"], ["a", "y"])} - {("truth values", "csv", "y")}
    ),
)
def test_the_remedy_for_what_is_almost_a_number_is_right(folders, case, form, last):
    """The line of pandas in the message is executed; the target is mended like a feature."""
    texts, values = ALMOST[case]
    names = ["y", "a"] if last == "a" else ["a", "y"]
    frame = pd.DataFrame({"a": texts, "y": [1, 0, 1]})[names]
    text = frame.to_csv(index=False)
    if form == "arff":
        head = "".join(f"@attribute {name} numeric\n" for name in names)
        text = f"@relation r\n{head}@data\n" + text.partition("\n")[2]
    path = folders.read_only[0] / f"t.{form}"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"t\.{form}:\d: .* 'a' is .*in pandas") as error:
        opened(path, folders, task="regression")
    line = re.search(r"`(frame\[.*?)`", str(error.value))[1]
    if case == "truth values":
        frame["a"] = frame["a"] == "True"  # as pandas reads them
    np.testing.assert_allclose(eval(line, {"frame": frame}), values)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_the_remedy_for_dates_is_right(folders, form, zone):
    dates = pd.date_range("2024-03-30", periods=40, freq="h", tz=zone)
    frame = pd.DataFrame({"day": dates, "y": Y})
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    with pytest.raises(DataError, match=r"column 'day'.*these are dates.*columns\.drop") as error:
        opened(path, folders)
    line = re.search(r"`(pandas.*?)`", str(error.value))[1]
    read = pd.read_csv(path) if form == "csv" else pd.read_parquet(path)
    numbers = eval(line, {"frame": read, "pandas": pd})
    assert len(set(np.diff(numbers))) == 1


DAY = 86_400_000_000
TIMES = {  # microseconds between the two values; seconds of times
    "day first": (["13.01.2024", "02.02.2024"], 20 * DAY),
    "day first with a short year": (["02.01.24", "13.01.24"], 11 * DAY),
    "American": (["1/13/2024", "2/2/2024"], 20 * DAY),
    "SAS": (["13JAN2024", "02FEB2024"], 20 * DAY),
    "month name": (["13-Jan-2024", "02-Feb-2024"], 20 * DAY),
    "month first": (["Jan 13, 2024", "Feb 2, 2024"], 20 * DAY),
    "months": (["2024-01", "2024-02"], 31 * DAY),
    "months with slashes": (["2024/01", "2024/02"], 31 * DAY),
    "without separators": (["20240113T000000", "20240202T000000"], 20 * DAY),
    "times": (["0:30", "12:45"], 44_100),
    "times with seconds": (["00:00:30", "12:45:10.5"], 45_880.5),
    "hours and minutes": (["0h30m", "12h45m"], 44_100),
    "ISO 8601": (["PT30M", "P1DT2H"], 91_800),
    "pandas' intervals": (["0 days 01:00:00", "2 days 00:00:00"], 169_200),
}


@pytest.mark.parametrize("case", TIMES)
@pytest.mark.parametrize("form", ["csv", "arff"])
def test_the_remedy_for_what_is_a_date_or_a_time_is_right(folders, case, form):
    texts, apart = TIMES[case]
    frame = pd.DataFrame({"t": texts * 2, "y": [0, 1] * 2})
    path = folders.read_only[0] / f"t.{form}"
    head = "@relation r\n@attribute t real\n@attribute y {0,1}\n@data\n"
    rows = frame.to_csv(index=False, header=form == "csv")
    path.write_text(rows if form == "csv" else head + rows.replace('"', "'"))
    with pytest.raises(DataError, match=r" 't' is .*these are (dates|times)") as error:
        opened(path, folders)
    line = re.search(r"`(pandas.*?)`", str(error.value))[1]
    with warnings.catch_warnings(
        action="ignore", category=UserWarning
    ):  # of formats that pandas takes one by one
        numbers = eval(line, {"frame": frame, "pandas": pd})
    # The unit of a date's number depends on pandas' version: seconds, micro- or nanoseconds.
    assert numbers[1] - numbers[0] in (apart, apart * 1000, apart / 1e6)


@pytest.mark.parametrize("text", ["abc", "", "x1", "#5", "1;2", "kg", "1.0.2"])
def test_other_texts_are_no_numbers_with_something_beside(text):
    assert almost_a_number(text, "a") is None


def test_no_line_of_pandas_cuts_a_decimal_comma():
    assert "pandas" not in almost_a_number("1,5 kg", "a")
    assert "a hexadecimal number, 31 is right" in almost_a_number("0x1F", "a")
    assert "single quotes are part of a field" in almost_a_number("'1'", "a")
    assert "a line of sums is not a row" in almost_a_number("Total", "a")


@pytest.mark.parametrize(
    "name", ["t", "a\\b", "it's", "a b", "x,y", "é=1", "${a}", "[z]", "null", "7"]
)
def test_the_word_that_leaves_a_column_out_is_read_as_its_name(folders, name):
    path = folders.read_only[0] / "t.parquet"
    days = pd.date_range("2024-03-30", periods=40)
    pd.DataFrame({name: days, "a": X[:, 0], "y": Y}).to_parquet(path)
    with pytest.raises(DataError) as error:
        opened(path, folders)
    word = re.search(r"dataset\.source\.columns\.drop=\[.*\](?= leaves it out)", str(error.value))[
        0
    ]
    with composer() as hydra:
        assert hydra.value(*word.split("=", 1)) == [name]


LEVELS = {
    "levels": pd.MultiIndex.from_product([["f", "g"], ["mean", "std"]]),
    "named levels": pd.MultiIndex.from_product([["f", "g"], ["mean", "std"]], names=["s", "q"]),
    "units": pd.MultiIndex.from_arrays([list("abcy"), ["kg", "m", "s", ""]]),
}


@pytest.mark.parametrize("case", LEVELS)
@pytest.mark.parametrize(("index", "categorical"), [(False, None), (True, "auto")])
def test_a_second_line_of_names_is_named(folders, case, index, categorical):
    frame = pd.DataFrame(np.c_[X, Y], columns=LEVELS[case])
    path = folders.read_only[0] / "t.csv"
    frame.to_csv(path, index=index)
    with pytest.raises(DataError, match=r"t\.csv:2: a second line of names or units \("):
        opened(path, folders, source={"columns": {"categorical": categorical}})
    frame.columns = frame.columns.map("_".join)  # what the message says
    frame.to_csv(path, index=index)
    data = opened(path, folders, **FIRST)
    np.testing.assert_array_equal(rows_of(data), X.astype(np.float32))


@pytest.mark.parametrize("form", ["csv", "arff", "libsvm"])
def test_carriage_returns_alone_are_named(folders, form):
    lines = {
        "csv": ["a,y", *(f"{a},{y}" for a, y in zip(X[:, 0], Y, strict=True))],
        "arff": ["@relation r", "@attribute a real", "@attribute y {0,1}", "@data", "1,0", "2,1"],
        "libsvm": [f"{y} 1:{a}" for a, y in zip(X[:, 0], Y, strict=True)],
    }[form]
    path = folders.read_only[0] / f"t.{form}"
    path.write_bytes("\r".join(lines).encode())
    with pytest.raises(DataError, match=rf"t\.{form}:1: a carriage return .* LF or CR LF; `tr"):
        opened(path, folders)


MARKED = {
    "temperature": ([-999, 3.5, 12.25, -999, -8], -999),
    "two markers": ([-9999, 3.5, -999, -9999, -8, -999], -9999),
    "a share": ([9999, 0.5, 0.25, 9999], 9999),
    "with gaps": ([np.nan, -99, 1, 5, -99, np.nan], -99),
}
ORDINARY = {
    "years": [1990, 2024, 9999, 9999, 2001],
    "prices": [9.99, 99.99, 999, 999, 349],
    "large values": [-999, -999, 350, -420, 12],
    "one value": [-999, 1, 2, 3],
    "a constant beside": [-999, 0, -999, 0],
    "nothing beside": [-999, -999, np.nan],
    "missing": [np.nan, np.nan],
    "beyond the marker": [-999, -999, -1000, 1, 2],
}


@pytest.mark.parametrize("case", MARKED | ORDINARY)
@pytest.mark.parametrize("pieces", [1, 2])
def test_numbers_that_look_like_gaps_are_said(case, pieces):
    values, marker = MARKED[case] if case in MARKED else (ORDINARY[case], None)
    markers = GapMarkers()
    for piece in np.array_split(np.array(values, dtype=np.float64), pieces):
        markers.learn("c", piece)
    notes = markers.notes()
    if marker is None:
        assert notes == []
    else:
        said = f"in the column 'c' {values.count(marker)} values are {marker} and the others lie"
        assert sum(note.startswith(said) for note in notes) == 1


@pytest.mark.parametrize("form", ["csv", "parquet", "arff"])
@pytest.mark.parametrize("target", ["y", "c", "classes"])
def test_numbers_that_look_like_gaps_are_read_as_they_are(folders, form, target):
    frame = pd.DataFrame({"c": np.where(np.arange(40) % 4, X[:, 1], -999), "y": Y})
    over = {"task": "binary" if target == "y" else "regression"}
    if target == "classes":
        frame["c"] = np.where(np.arange(40) % 4, Y, -999)
        target, over = "c", {"task": "multiclass"}
    path = saved(frame, folders.read_only[0] / f"t.{form}")
    data = opened(path, folders, source={"columns": {"target": target}}, **FIRST, **over)
    found = rows_of(data)[:, 0] if target == "y" else [*data.y_train, *data.y_test]
    np.testing.assert_array_equal(np.float32(found), np.float32(frame["c"]))
    assert any(
        "'c' 10 values are -999" in note and "dataset.missing" in note for note in data.notes
    )


SAID = {  # the columns beside y, and what is said of them or of the last line
    "copy of the classes": ({"lab": Y}, "'lab' has one value for each"),
    "classes in other words": ({"lab": np.where(Y, "a", "b")}, "'lab' has one value for each"),
    "classes by half": ({"lab": Y * np.arange(40) % 3}, None),
    "numbers of the rows": ({"a": X[:, 0], "k": np.argsort(X[:, 1])}, "'k' numbers the rows"),
    "line of sums": ({"a": X[:, 0], "t": [*"uv" * 19, "u", "Total"]}, r"last line has 'Total'"),
    "a word of every line": ({"a": X[:, 0], "t": ["sum", "mean"] * 20}, None),
    "dashes": ({"a": ["-", " - ", *X[2:, 0]]}, "'a' '-' is a missing number; write 0 where"),
}
UNITS = {
    "inches": (X[:, 0] / 2.54, True),
    "Fahrenheit, rounded": ((100 * X[:, 0] * 1.8 + 32).round(1), True),
    "nearly": (X[:, 0] + 0.01 * X[:, 1], False),
    "constant": (np.ones(40), False),
}


@pytest.mark.parametrize("case", SAID | UNITS)
def test_columns_that_are_hardly_features_are_said(folders, case):
    columns, said = SAID.get(case) or ({"unit": UNITS[case][0]}, "'unit' is the target in another")
    over = {"task": "regression"} if case in UNITS else {}
    frame = pd.DataFrame(columns).assign(b=X[:, 2], y=X[:, 0] if case in UNITS else Y)
    path = folders.read_only[0] / "t.csv"
    frame.to_csv(path, index=False)
    auto = {"columns": {"categorical": "auto"}} if case != "dashes" else {}
    notes = opened(path, folders, source=auto, missing="mean", test_path=str(path), **over).notes
    remarks = ("one value for", "numbers the", "last line", "'-' is a", "in another")
    found = [note for note in notes if any(remark in note for remark in remarks)]
    assert len(found) == (said is not None and (case not in UNITS or UNITS[case][1]))
    assert not found or re.search(said, found[0])
    assert any("40 of 40 test rows are equal to training rows" in note for note in notes)


@pytest.mark.parametrize("write", [np.savez, lambda path, **arrays: savemat(path, arrays)])
@pytest.mark.parametrize("shape", ["(3, 40)", "(40,)", "(40, 2, 2)"])
def test_arrays_of_another_shape_say_which_has_the_right_one(folders, write, shape):
    made, remedy = {
        "(3, 40)": (X.T, "X.T"),
        "(40,)": (X[:, 0], "X.reshape(-1, 1)" if write is np.savez else "X.T"),  # or MATLAB's row
        "(40, 2, 2)": (np.zeros((40, 2, 2)), "X.reshape(len(X), -1)"),
    }[shape]
    path = folders.read_only[0] / f"t.{'npz' if write is np.savez else 'mat'}"
    write(path, X=made, y=Y)
    with pytest.raises(DataError, match=re.escape(f"should be (n, d) and (n,); {remedy}")):
        opened(path, folders)


@pytest.mark.parametrize("case", ["struct", "cells", "7.3"])
def test_what_matlab_writes_otherwise_is_named_with_its_words(folders, case):
    path = folders.read_only[0] / "t.mat"
    words = np.where(Y, "u", "v").astype(object)
    made = {"struct": {"s": {"X": X, "y": Y}}, "cells": {"X": X, "y": words}, "7.3": {}}[case]
    savemat(path, made)
    if case == "7.3":
        path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + bytes(500))
    said = {"struct": "'-struct', 's'", "cells": r"[~, ~, y] = unique(y)", "7.3": "'-v7'"}[case]
    with pytest.raises(DataError, match=f"in MATLAB, `.*{re.escape(said)}"):
        opened(path, folders)


OTHER_TYPES = {  # of Parquet, and the numbers or texts that the line in the message makes
    "list": (pa.array(X.tolist()), X),
    "fixed list": (pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3), X),
    "struct": (pa.array([dict(zip("abc", row, strict=True)) for row in X.tolist()]), X),
    "binary": (pa.array([b"u", b"v"] * 20), ["u", "v"] * 20),
    "fixed binary": (pa.array([b"u", b"v"] * 20, pa.binary(1)), ["u", "v"] * 20),
    "time": (pa.array([datetime.time(k % 24, 30) for k in range(40)]), None),
    "period": (pd.period_range("2024-01", periods=40, freq="M"), None),
    "interval": (pd.arrays.IntervalArray.from_breaks(np.arange(41)), np.arange(40) + 0.5),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_the_remedy_for_a_column_of_another_type_is_right(folders, case):
    values, expected = OTHER_TYPES[case]
    path = folders.read_only[0] / "t.parquet"
    if isinstance(values, pa.Array):
        parquet.write_table(pa.table({"v": values, "y": Y}), path)
    else:
        pd.DataFrame({"v": values, "y": Y}).to_parquet(path)
    with pytest.raises(
        DataError,
        match=r"column 'v' is of type .*, should be numbers or texts.*in pandas.*columns\.drop",
    ) as error:
        opened(path, folders)
    line = re.search(r"`(.*?)`", str(error.value))[1]
    made = eval(line, {"frame": pd.read_parquet(path), "pandas": pd})
    frame = made if isinstance(made, pd.DataFrame) else pd.DataFrame({"v": made, "y": Y})
    frame.to_parquet(path)
    columns = {"target": "y"}
    assert opened(path, folders, source={"columns": columns}).n_train == 32
    found = frame.drop(columns="y").to_numpy()
    if expected is not None:
        np.testing.assert_array_equal(found.squeeze(), expected)
    assert len(frame.drop(columns="y").drop_duplicates()) > 1


SLIPS = {  # a table's columns, and what is said of it
    "a slip among numbers": ({"a": [*X[1:, 0], "n.d."], "y": Y}, "39 numbers, but also 'n.d.'"),
    "a text of few rows": ({"a": [*"uvw", *[""] * 37], "y": Y}, None),
    "grades": ({"a": [*"K1234567"] * 5, "y": Y}, None),
    "a line of units": ({"a": ["cm", *X[1:, 0]], "y": ["", *Y[1:]]}, "'a' holds numbers alone"),
    "a class among numbers": ({"a": X[:, 0], "y": [0, 1, 1, "abs"] * 10}, "'abs' are texts"),
    "classes": ({"a": X[:, 0], "y": [0, "u", "v", "w"] * 10}, None),
}


@pytest.mark.parametrize("case", SLIPS)
def test_texts_that_hide_a_column_of_numbers_are_said(folders, case):
    columns, said = SLIPS[case]
    path = folders.read_only[0] / "t.csv"
    pd.DataFrame(columns).assign(b=X[:, 1]).to_csv(path, index=False)
    source = {"columns": {"categorical": "auto", "target": "y"}}
    notes = opened(path, folders, task="multiclass", source=source).notes
    found = [n for n in notes if "column of numbers" in n or "are texts beside" in n]
    assert len(found) == (said is not None)
    assert all(said in note for note in found)


def test_arrays_that_are_not_read_are_said(folders):
    path = folders.read_only[0] / "t.npz"
    halves = {"X_train": X[:30], "y_train": Y[:30]}
    np.savez(path, **halves, X_test=X[30:], y_test=Y[30:], X=X, y=Y, X_val=X)
    assert "arrays of the file that are not used: X, X_val, y" in opened(path, folders).notes
    np.savez(path, **halves)
    with pytest.raises(DataError, match=r"no array X_test.*arrays\.X=X_train reads it alone"):
        opened(path, folders)
    alone = {"arrays": {"X": "X_train", "y": "y_train"}}
    assert opened(path, folders, source=alone).n_train == 24


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_that_are_taken_by_their_order_are_said(folders, form):
    path = folders.read_only[0] / "t.npz"
    np.savez(path, X=X, y=Y)
    data = opened(path, folders)
    later = folders.read_only[0] / f"later.{form}"
    frame = pd.DataFrame(X, columns=[*"cab"]).assign(y=Y)
    frame.to_csv(later, index=False) if form == "csv" else frame.to_parquet(later)
    rows = later_rows(user_file(later), folders, data.preparation, own_source=True)
    assert any("taken in their order" in note and note.endswith("c, a, b") for note in rows.notes)


def test_later_rows_without_a_header_are_named_by_the_remedy(folders):
    path = folders.read_only[0] / "t.csv"
    frame = pd.DataFrame(X, columns=[*"abc"]).assign(y=Y)
    frame.to_csv(path, index=False)
    data = opened(path, folders)
    later = path.with_name("later.csv")
    frame.to_csv(later, index=False, header=False)
    with pytest.raises(DataError, match=r"no column 'a', .*dataset\.source\.columns\.names=\["):
        later_rows(user_file(later), folders, data.preparation)
    named = user_file(later, source={"columns": {"names": [*"abcy"]}})
    rows = later_rows(named, folders, data.preparation, own_source=True)
    np.testing.assert_array_equal(features_of(data.preparation, rows), X.astype(np.float32))


@pytest.mark.parametrize("named", [True, False])
def test_a_test_file_without_a_header_is_told_so(folders, named):
    lines = [",".join(map(str, row)) for row in np.c_[X, Y]]
    train, test = (folders.read_only[0] / name for name in ("t.csv", "u.csv"))
    train.write_text("\n".join(["a,b,c,y", *lines]))
    test.write_text("\n".join(["a,b,c,z"] * named + lines))
    said = r"there are a, b, c, z" if named else "no header, its first line should name the columns"
    with pytest.raises(DataError, match=rf"u\.csv:1: no column 'y'.*{said}"):
        opened(train, folders, test_path=str(test))


@pytest.mark.parametrize("n", [3, 40, 400])  # 400 : the file has several pieces
@pytest.mark.parametrize("last", ["sums", "a row"])
def test_a_last_line_of_sums_is_noted(folders, n, last):
    rows = np.round(np.random.default_rng(0).uniform(1, 2, (n, 2)), 3)
    end = rows.sum(axis=0) if last == "sums" else rows[0]
    lines = [f"{a!r},{b!r},{k % 2}" for k, (a, b) in enumerate([*rows.tolist(), end.tolist()])]
    path = csv_file(folders, ["a,b,y", *lines])
    with changed_piece_sizes(text=1 << 12):
        data = opened(path, folders)
    assert any("are the sums of the lines above" in note for note in data.notes) == (last == "sums")
