"""Reading in chunks: the rows of the whole file, memory of a few chunks, errors with places."""

import gzip
from collections import deque
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import libsvm_text

from kbench.data import chunks
from kbench.data.formats import libsvm, read
from kbench.errors import ConfigError, DataError


def gathered(parts, rows):
    """All rows, dense, after a look at the sizes of the chunks."""
    parts = list(parts)
    sizes = [y.size for _, y in parts]
    assert all(size == rows for size in sizes[:-1])
    assert 1 <= sizes[-1] <= rows
    X = [X if isinstance(X, np.ndarray) else X.toarray() for X, _ in parts]
    assert [len(block) for block in X] == sizes
    return np.vstack(X), np.concatenate([y for _, y in parts])


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    columns = {
        "u": rng.normal(size=n).astype(np.float32),
        "kind": rng.choice(["b", "a", "c c"], n),
        "v": rng.integers(-9, 9, n),
        "y": rng.choice(["no", "yes"], n),
    }
    return pd.DataFrame(columns)


ROWS, SIZE = st.integers(1, 40), st.integers(1, 300)


@given(n=st.integers(1, 50), rows=ROWS, size=SIZE, width=st.sampled_from([None, 9]))
@settings(max_examples=40)
def test_chunks_of_libsvm_text_are_its_rows(tmp_path_factory, chunk, n, rows, size, width):
    rng = np.random.default_rng(n)
    X = np.where(rng.random((n, 6)) < 0.4, rng.normal(size=(n, 6)).round(2), 0)
    text = libsvm_text(X, rng.integers(0, 3, n)).encode()
    path = tmp_path_factory.mktemp("text") / "f.gz"
    path.write_bytes(gzip.compress(text))
    whole = libsvm.parse(text, name="f", n_features=width)
    chunk(size)
    found, y = gathered(chunks(path, rows=rows, n_features=width), rows)
    expected = whole.to_csr().toarray()
    np.testing.assert_array_equal(found, expected if expected.shape[1] else np.zeros((n, 1)))
    np.testing.assert_array_equal(y, whole.labels)


@given(n=st.integers(1, 40), rows=ROWS, size=SIZE)
@settings(max_examples=15)
def test_chunks_of_tables_are_their_rows(tmp_path_factory, chunk, n, rows, size):
    """CSV and Parquet, with categories and without, against pandas."""
    frame = table(n, seed=n)
    folder = tmp_path_factory.mktemp("tables")
    frame.to_csv(folder / "f.csv", index=False)
    frame.to_parquet(folder / "f.parquet", row_group_size=7)
    kinds = pd.get_dummies(frame["kind"], dtype=float)
    expected = pd.concat([frame["u"], kinds, frame["v"]], axis=1)
    labels = sorted(set(frame["y"]))
    chunk(size)
    for form, told in (("csv", {"categorical": ["kind"]}), ("parquet", {})):
        in_chunks = partial(chunks, folder / f"f.{form}", format=form, rows=rows)
        parts = in_chunks(columns=told)
        X, y = gathered(parts, rows)
        np.testing.assert_allclose(X, expected, rtol=1e-6)
        assert [labels[int(k)] for k in y] == list(frame["y"])
        told = {"drop": ["kind", "y"], "target": "v"}
        parts = in_chunks(columns=told, task="regression")
        X, y = gathered(parts, rows)
        np.testing.assert_array_equal(X[:, 0].astype(np.float32), frame["u"])
        np.testing.assert_array_equal(y, frame["v"])


@pytest.mark.parametrize("size", [1, 5, 17, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\nu,v\r\n1,2\r\n\r\n3\r\n", r"f:6: 1 field between delimiters ',', should be 2"),
        ("u,v\n1,2\n3,x\n", r"f:3: target 'v' is 'x', should be a number"),
        ("u,v\n1,2\n\n\n,4\n", r"f:5: column 'u' is missing, should be a number"),
        ("u,v\n1,2\n3,4\n5\r6,7\n", r"f:4: a carriage return within the line"),
        ("u,v\n1,2\n3,inf\n", r"f:3: target 'v' is inf"),
        ("u,v\n", r"f: no rows"),
        ("\n \n\n", r"f: no rows"),
        ("", r"f: no rows"),
    ],
)
def test_errors_of_tables_do_not_know_the_size_of_pieces(tmp_path, chunk, size, text, message):
    (tmp_path / "f").write_bytes(text.encode())
    chunk(size)
    with pytest.raises(DataError, match=f"{message}"):
        list(chunks(tmp_path / "f", format="csv", task="regression"))
    with pytest.raises(DataError, match=f"{message}"):
        read("csv", {"all": [tmp_path / "f"]}, {}, "regression", None, tmp_path)


def test_a_category_is_located_in_any_piece(tmp_path, chunk):
    (tmp_path / "train").write_text("a,1\nb,2\n" * 9)
    (tmp_path / "test").write_text("a,1\nb,2\n\n" * 9 + "c,5\n")
    parts = {name: [tmp_path / name] for name in ("train", "test")}
    for size in (1, 6, 50, 1 << 20):
        chunk(size)
        with pytest.raises(DataError, match=r"test:28: column '1' is 'c', which no training row"):
            read("csv", parts, {"columns": {"categorical": [1]}}, "regression", None, tmp_path)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8])
def test_chunks_of_arrays(tmp_path, kind):
    X = np.random.default_rng(0).integers(0, 200, (103, 4)).astype(kind)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.arange(103))
    paths = (tmp_path / "X.npy", tmp_path / "y.npy")
    found, y = gathered(chunks(*paths, format="npy", rows=20), 20)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(y, np.arange(103.0))


def test_a_number_that_is_missing_is_named_with_row_and_chunk(tmp_path):
    """Chunks before it have come by then."""
    X, y = np.ones((400, 3), dtype=np.float32), np.ones(400)
    X[365, 1] = np.nan
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    frame = pd.DataFrame({"u": X[:, 1], "y": y})
    frame.to_parquet(tmp_path / "f.parquet", row_group_size=100)
    parts = chunks(tmp_path / "X.npy", tmp_path / "y.npy", format="npy", rows=10)
    for _ in range(36):
        next(parts)
    message = r"X\.npy, row 366 \(chunk 37\): column 2 is nan, should be a finite number"
    with pytest.raises(DataError, match=message):
        next(parts)
    message = r"f\.parquet, row 366 \(chunk 37\): column 'u' is missing, should be a number"
    with pytest.raises(DataError, match=message):
        list(chunks(tmp_path / "f.parquet", format="parquet", rows=10))
    X[365, 1], y[9] = 0, np.inf
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(DataError, match=r"y\.npy, row 10 \(chunk 1\): target is inf"):
        list(chunks(tmp_path / "X.npy", tmp_path / "y.npy", format="npy", rows=10))


@pytest.mark.parametrize("groups", [1, 40])
def test_a_parquet_file_is_held_a_few_pages_at_a_time(tmp_path, groups):
    n, d = 400_000, 10
    X = np.random.default_rng(0).random((n, d)).astype(np.float32)
    table = pa.table([*X.T, np.ones(n)], names=[*(f"x{j}" for j in range(d)), "y"])
    path = tmp_path / "f.parquet"
    plain = {"compression": "none", "use_dictionary": False, "data_page_size": 1 << 15}
    pa.parquet.write_table(table, path, row_group_size=n // groups, **plain)
    del table
    before, peak = pa.total_allocated_bytes(), 0
    for _ in chunks(path, format="parquet", rows=1000):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < path.stat().st_size / 5


def test_memory_is_that_of_a_few_chunks(tmp_path, peak_bytes):
    """10 MB of each form, read in chunks of 1,000 rows of 50: 0.2 MB each in float32."""
    n, d = 50_000, 50
    X = np.random.default_rng(0).integers(1, 9, (n, d)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.ones(n))
    names = [f"x{j}" for j in range(d)]
    whole = pa.table([*X.T, np.ones(n)], names=[*names, "y"])
    pa.parquet.write_table(whole, tmp_path / "f.parquet", row_group_size=2000)
    row = " ".join(f"{j + 1}:2" for j in range(d))
    (tmp_path / "f").write_text(f"1 {row}\n" * n)
    del X, whole
    readings = {
        "npy": lambda: chunks(tmp_path / "X.npy", tmp_path / "y.npy", format="npy", rows=1000),
        "parquet": lambda: chunks(tmp_path / "f.parquet", format="parquet", rows=1000),
        "libsvm": lambda: chunks(tmp_path / "f", rows=1000, n_features=d),
    }
    for form, reading in readings.items():
        assert sum(y.size for _, y in reading()) == n
        assert peak_bytes(lambda reading=reading: deque(reading(), maxlen=1)) < (15 << 20), form


@pytest.mark.parametrize(
    ("paths", "told", "message"),
    [
        (["f"], {"format": "csw"}, r"'csw', which cannot be read in chunks \(nearest: csv"),
        (["f"], {"format": "mat"}, r"format is 'mat', which cannot be read in chunks"),
        (["f"], {"format": "npy"}, "format npy needs 2 files.*; 1 were given"),
        (["f"], {"rows": 0}, r"rows is 0, should be a whole number from 1"),
        (["f"], {"rows": 2.5}, r"rows is 2\.5"),
    ],
)
def test_arguments_that_cannot_be(paths, told, message):
    with pytest.raises(ConfigError, match=message):
        chunks(*paths, **told)


def test_files_that_cannot_be_read(tmp_path):
    for form in ("libsvm", "csv", "parquet"):
        with pytest.raises(DataError, match=r"nothing: "):
            list(chunks(tmp_path / "nothing", format=form))
    (tmp_path / "f").write_text("1 1:2\n")
    with pytest.raises(DataError, match=r"f: damaged or another format, should be a Parquet file"):
        list(chunks(tmp_path / "f", format="parquet"))
    np.save(tmp_path / "X.npy", np.ones((3, 2)))
    np.save(tmp_path / "y.npy", np.ones(4))
    paths = (tmp_path / "X.npy", tmp_path / "y.npy")
    with pytest.raises(DataError, match=r"X\.npy and .*y\.npy: X has shape \(3, 2\) and y \(4,\)"):
        list(chunks(*paths, format="npy"))
    np.save(tmp_path / "y.npy", np.array(["a", "b", "c"]))
    with pytest.raises(DataError, match=r"y\.npy: y is of type <U1, should be numbers"):
        list(chunks(*paths, format="npy"))
