"""Twenty tables as people have them: the rows that scikit-learn gets of data prepared by hand.

Each is written by the tool that people use, or letter by letter as R and Excel write it, and run by
the words of one command, in this process. The message of the row, which the command's line repeats,
says what was assumed; the accuracy of nearest neighbours is that on the same rows prepared by hand.
"""

import gzip

import numpy as np
import pandas as pd
import pytest
import scipy.io
from sklearn.datasets import dump_svmlight_file
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from support import merge, shipped

from kbench.config import composer, flatten, hydra_value
from kbench.data import Folders, open_prepared, prepare
from kbench.run.execution import worker
from kbench.run.planning.plan import make_plan

RNG = np.random.default_rng(7)
N = 120
X = RNG.normal(size=(N, 3)).round(3)
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
CITY = np.where(Y == 1, "Bern", "Rome")

CASES = {}


def case(*said, name="t.csv", **over):
    """Registers a writer: it gets a path, returns the features and labels by hand."""

    def register(write):
        CASES[write.__name__] = (write, name, said, over)
        return write

    return register


def columns(**options):
    return {"source": {"columns": options}}


def ran(path, over, folder):
    """The row's columns and the data of `kbench method=knn dataset.path=...`."""
    words = [f"dataset.{key}={hydra_value(value)}" for key, value in flatten(over).items()]
    words += ["method=knn", "method.n_neighbors=1", f"dataset.path={hydra_value(str(path))}"]

    def obtain(config, settings):
        return prepare(config, Folders.from_environment(settings.datasets_dir), download=False)

    with composer() as hydra:
        plan = make_plan(hydra, [*words, f"datasets_dir={folder}"], obtain=obtain)
    (run,) = plan.runs
    task = plan.task(run)
    row, _ = worker.run(task, worker.Live(lambda message: None), worker.SharedState())
    return row, open_prepared(task.prepared)


@case("the last column, 'y'", "task is binary")
def pandas_without_index(path):
    FRAME.to_csv(path, index=False)
    return X, Y


@case("first column has no name: it is an index")
def pandas_with_a_shuffled_index(path):
    frame = FRAME.sample(frac=1, random_state=3)
    frame.to_csv(path)
    return frame[["a", "b", "c"]], frame["y"]


@case("taken as the header, as it counts from 0 to 3")
def pandas_without_names(path):
    pd.DataFrame(np.c_[X, Y]).to_csv(path, index=False)
    return X, Y


@case("index of the rows", name="t.parquet")
def pandas_parquet_with_an_index(path):
    FRAME.sample(frac=1, random_state=1).to_parquet(path)
    frame = FRAME.sample(frac=1, random_state=1)
    return frame[["a", "b", "c"]], frame["y"]


@case("the last column, 'y'", name="t.parquet")
def polars_parquet(path):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME}).write_parquet(path)
    return X, Y


@case("first column has no name: it is an index")
def r_write_csv(path):
    """write.csv quotes texts and writes the rows' names in a column without a name."""
    rows = [f'"{k + 1}",{a},{b},{c},{y}' for k, (a, b, c, y) in enumerate(np.c_[X, Y].tolist())]
    path.write_text("\n".join(['"","a","b","c","y"', *rows]) + "\n")
    return X, Y


@case("first column has no name: it is an index", "read as csv", name="t.txt")
def r_write_table(path):
    """write.table separates by spaces; the header lacks the column of the rows' names."""
    rows = [f'"{k + 1}" {a} {b} {c} {y:g}' for k, (a, b, c, y) in enumerate(np.c_[X, Y].tolist())]
    path.write_text("\n".join(['"a" "b" "c" "y"', *rows]) + "\n")
    return X, Y


@case("'a' '", "decimal=point")
def excel_in_germany(path):
    """Semicolons, decimal commas, a byte order mark, Windows line ends."""
    rows = [";".join(f"{v:.3f}".replace(".", ",") for v in row) for row in X]
    lines = ["a;b;c;y", *(f"{row};{y}" for row, y in zip(rows, Y, strict=True))]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    return X, Y


@case("'price' '", "is read as")
def excel_with_money(path):
    price = X[:, 0] * 10_000
    lines = [f'"${p:,.2f}",{b},{y}' for p, b, y in zip(price, X[:, 1], Y, strict=True)]
    path.write_text("\n".join(["price,b,y", *lines]), newline="\r\n")
    return np.c_[price.round(2), X[:, 1]], Y


@case("'share' '")
def percentages(path):
    lines = [f"{a:.1f} %,{b},{y}" for a, b, y in zip(X[:, 0], X[:, 1], Y, strict=True)]
    path.write_text("\n".join(["share,b,y", *lines]))
    return np.c_[X[:, 0].round(1), X[:, 1]], Y


def _gaps():
    frame = FRAME.copy()
    frame.loc[frame.index % 7 == 0, "b"] = np.nan
    return frame


@case("filled with the mean of the training rows", missing="mean")
def gaps_filled_with_the_mean(path):
    _gaps().to_csv(path, index=False, na_rep="NA")
    return _gaps()[["a", "b", "c"]], Y


@case("rows with a missing number left out", missing="drop")
def gaps_left_out(path):
    _gaps().to_csv(path, index=False)
    whole = _gaps().dropna()
    return whole[["a", "b", "c"]], whole["y"]


@case("12 rows without a target left out")
def targets_that_are_missing(path):
    frame = FRAME.assign(y=FRAME["y"].astype(object))
    frame.loc[frame.index % 10 == 0, "y"] = None
    frame.to_csv(path, index=False, na_rep="?")
    kept = FRAME[FRAME.index % 10 != 0]
    return kept[["a", "b", "c"]], kept["y"]


@case("'city' holds texts", **columns(categorical="auto"))
def texts(path):
    pd.DataFrame({"a": X[:, 0], "city": CITY, "y": Y}).to_csv(path, index=False)
    return np.c_[X[:, 0], CITY == "Bern", CITY == "Rome"], Y


@case("the last column, 'kind'", name="t.arff")
def openml_arff(path):
    rows = [f"{a},{b},{'yes' if y else 'no'}" for a, b, y in zip(X[:, 0], X[:, 1], Y, strict=True)]
    head = "% OpenML\n@RELATION t\n@ATTRIBUTE a REAL\n@ATTRIBUTE b REAL\n@ATTRIBUTE kind {no,yes}\n"
    path.write_text(f"{head}@DATA\n" + "\n".join(rows))
    return X[:, :2], Y


@case("task is binary", name="t.mat")
def matlab(path):
    scipy.io.savemat(path, {"X": X, "y": Y})
    return X, Y


@case("indices start at 0", name="t.libsvm")
def scikit_learn_s_libsvm(path):
    dump_svmlight_file(X, Y, str(path))
    return X, Y


@case("task is binary", name="t.csv.gz")
def quoted_breaks(path):
    notes = [f'"line one,\nline ""{k}"""' for k in range(N)]
    rows = [f"{n},{a},{b},{y}" for n, (a, b), y in zip(notes, X[:, :2], Y, strict=True)]
    path.write_bytes(gzip.compress("\n".join(["note,a,b,y", *rows]).encode()))
    return X[:, :2], Y


@case("task is binary", name="t.npz")
def wide(path):
    broad = RNG.normal(size=(50, 2000))
    labels = (broad[:, 0] > 0).astype(int)
    np.savez(path, X=broad, y=labels)
    return broad, labels


@case("merge in float32 in the column 'time'")
def time_stamps(path):
    frame = pd.DataFrame({"time": 1_700_000_000 + np.arange(N), "a": X[:, 0], "y": Y})
    frame.to_csv(path, index=False)
    return frame[["time", "a"]], Y


@case("'a' holds texts", "lacks 18 texts", **columns(categorical="auto"))
def polars_csv_with_nulls(path):
    """polars writes a missing text as an empty field, and truth values as `true` and `false`."""
    kinds = np.where(np.arange(N) % 7 == 0, "", np.where(Y == 1, "Bern", "Rome"))
    rows = [f"{k},{b},{str(bool(y)).lower()}" for k, b, y in zip(kinds, X[:, 1], Y, strict=True)]
    path.write_text("\n".join(["a,b,y", *rows]) + "\n")
    return np.c_[kinds == "", kinds == "Bern", kinds == "Rome", X[:, 1]], Y


@case("the file has no header", "read as csv", name="t.dat")
def matlab_writematrix(path):
    """writematrix(M, "t.dat") writes no header, and as many digits as a number has."""
    np.savetxt(path, np.c_[X, Y], delimiter=",", fmt="%.15g")
    return X, Y


@case("read as csv", "the last column, 'y'", name="t.txt")
def numpy_savetxt_with_a_header(path):
    np.savetxt(path, np.c_[X, Y], header="a b c y")
    return X, Y


quoted = CASES["quoted_breaks"]
CASES["quoted_breaks"] = (*quoted[:3], columns(drop=["note"]))


@pytest.mark.parametrize("name", CASES)
def test_a_table_is_read_as_by_hand_and_what_was_assumed_is_said(folders, name):
    write, file, said, over = CASES[name]
    path = folders.read_only[0] / file
    features, labels = write(path)
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels)
    row, data = ran(path, over, folders.read_only[0] / "prepared")
    for words in said:
        assert words in row["message"]
    assert all(note in row["message"] for note in data.notes)
    order = np.random.RandomState(0).permutation(len(labels))
    train, test = np.split(order, [round(0.8 * len(labels))])
    if np.isnan(features).any():
        features = SimpleImputer().fit(features[train]).transform(features)
    np.testing.assert_allclose(data.X_train, features[train].astype(np.float32), rtol=1e-6)
    np.testing.assert_allclose(data.X_test, features[test].astype(np.float32), rtol=1e-6)
    signs = np.where(labels == labels.max(), 1, -1)
    hand = KNeighborsClassifier(1).fit(features[train], signs[train])
    if name != "time_stamps":  # whose values merge, as it says
        assert row["accuracy"] == hand.score(features[test], signs[test])


def test_a_million_rows_are_read_as_by_hand(folders):
    """1e6 x 5: the note, the rows, and a sample of the values."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(1_000_000, 5)).round(4)
    labels = (numbers[:, 0] > 0).astype(int)
    frame = pd.DataFrame(numbers, columns=list("abcde")).assign(y=labels)
    path = folders.read_only[0] / "t.csv"
    frame.to_csv(path)
    data = open_prepared(prepare(merge(shipped("file"), {"path": str(path)}), folders))
    assert any("first column has no name: it is an index" in note for note in data.notes)
    order = np.random.RandomState(0).permutation(1_000_000)
    assert (data.n_train, data.n_test) == (800_000, 200_000)
    np.testing.assert_array_equal(data.X_train, numbers[order[:800_000]].astype(np.float32))
    np.testing.assert_array_equal(data.y_test, np.where(labels[order[800_000:]], 1, -1))
