"""Rows in chunks from files and generators: the same rows as in memory, and errors with a place."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

from kbench.data import ChunkedRows, chunked_files, chunked_generator
from kbench.data.sources.generators import build
from kbench.errors import ConfigError, DataError
from kbench.methods import DCSVC


@pytest.fixture
def rows():
    rng = np.random.RandomState(0)
    return rng.randn(60, 4).astype(np.float32), rng.randint(0, 2, 60) * 2.0 - 1.0


def everything(chunked, rows=7):
    found = list(chunked.blocks(rows))
    assert [block.X.shape[0] for block in found[:-1]] == [rows] * (len(found) - 1)
    return np.concatenate([block.X for block in found]), np.concatenate([b.y for b in found])


def test_files_of_each_format_are_read_in_order(rows, tmp_path):
    X, y = rows
    for number, part in enumerate((slice(0, 25), slice(25, 60))):
        dump_svmlight_file(X[part], y[part], str(tmp_path / f"{number}.libsvm"), zero_based=False)
        table = pd.DataFrame(X[part], columns=list("abcd")).assign(y=y[part])
        table.to_csv(tmp_path / f"{number}.csv", index=False)
        table.to_parquet(tmp_path / f"{number}.parquet", row_group_size=10)
    for format in ("libsvm", "csv", "parquet"):
        paths = [tmp_path / f"{number}.{format}" for number in (0, 1)]
        for width in (None, 4) if format == "libsvm" else (None,):
            chunked = chunked_files(*paths, format=format, n_features=width)
            for _ in range(2):
                found, labels = everything(chunked)
                np.testing.assert_allclose(found, X, rtol=1e-6)
                np.testing.assert_array_equal(labels, y)
            assert chunked.shape == (60, 4)


def test_wide_libsvm_rows_stay_sparse(rows, tmp_path):
    X, y = rows
    dump_svmlight_file(X, y, str(tmp_path / "wide"), zero_based=False)
    (block,) = chunked_files(tmp_path / "wide", n_features=5000).blocks()
    assert block.X.shape == (60, 5000)
    np.testing.assert_allclose(block.X[:, :4].toarray(), X, rtol=1e-6)


def test_a_generator_makes_the_same_rows_again():
    options = {"d": 54, "seed": 3, "noise": 0.1}
    X, y = next(build("covtype_like", **options).chunks("test", 500))
    found, labels = everything(chunked_generator("covtype_like", 500, part="test", **options), 99)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(labels, y)


def test_what_is_wrong_with_a_file_is_named(rows, tmp_path):
    X, y = rows
    good, bad = tmp_path / "good.csv", tmp_path / "bad.csv"
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    table.to_csv(good, index=False)
    table.rename(columns={"c": "z"}).to_csv(bad, index=False)
    with pytest.raises(DataError, match=r"bad\.csv:1: no column 'c', .*good\.csv has it"):
        everything(chunked_files(good, bad, format="csv"))
    table.assign(e=1.0)[[*"abcde", "y"]].to_csv(bad, index=False)
    with pytest.raises(DataError, match=r"bad\.csv:1: a column 'e', .*good\.csv has none"):
        everything(chunked_files(good, bad, format="csv"))
    table.assign(y=0.5).to_csv(bad, index=False)
    with pytest.raises(DataError, match=r"bad\.csv, chunk 1: row 1 .* label 0\.5, .* of -1, 1$"):
        everything(chunked_files(good, bad, format="csv", task="regression", classes=[-1, 1]))
    (tmp_path / "text").write_text("1 1:0.5\n-1 7:1\n")
    with pytest.raises(DataError, match=r"text:2: "):
        everything(chunked_files(tmp_path / "text", n_features=3))
    with pytest.raises(ConfigError, match="no file of format libsvm"):
        chunked_files(n_features=3)
    with pytest.raises(ConfigError, match="format is 'arff', which cannot be read in chunks"):
        chunked_files(good, format="arff")


def test_len_counts_rows_that_nobody_has_counted(rows):
    X, y = rows
    passes = []

    def read(_):
        passes.append(1)
        return iter([(X[:20], y[:20]), (X[20:], y[20:])])

    chunked = ChunkedRows(read, n_features=4)
    assert len(chunked) == len(chunked) == 60
    assert len(passes) == 1


def test_integers_become_floats_and_other_types_are_refused():
    chunked = ChunkedRows(lambda _: iter([(np.eye(3, dtype=int), None)]), n_features=3)
    (block,) = chunked.blocks()
    assert block.X.dtype == np.float32
    for wrong in ({"dtype": int}, {"memory_mb": 0}):
        with pytest.raises(ValueError, match="should be"):
            ChunkedRows(lambda _: iter(()), n_features=3, **wrong)


def test_dask_arrays_are_rows_a_partition_at_a_time():
    array = pytest.importorskip("dask.array")
    X, y = np.random.RandomState(0).rand(50, 3).astype(np.float32), np.arange(50) % 2
    wanted = DCSVC(2, random_state=0).fit(ChunkedRows.of_arrays(X, y)).decision_function(X)
    for chunk in (50, 17):
        found = array.from_array(X, (chunk, 3)), array.from_array(y, chunk)
        rows = ChunkedRows.of_dask(*found)
        model = DCSVC(2, random_state=0).fit(rows)
        np.testing.assert_array_equal(model.decision_function(rows), wanted)
        assert rows.shape == (50, 3)
    with pytest.raises(ValueError, match="X has 3 partitions and y 1; rechunk them alike"):
        ChunkedRows.of_dask(found[0], array.from_array(y, 50))
    with pytest.raises(ValueError, match="with all columns in one chunk"):
        ChunkedRows.of_dask(array.from_array(X, (50, 2)), array.from_array(y, 50))


def test_dask_dataframes_are_rows_a_partition_at_a_time():
    dataframe = pytest.importorskip("dask.dataframe")
    X, y = np.random.RandomState(0).rand(50, 3), np.arange(50) % 2
    table = dataframe.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}), npartitions=3)
    rows = ChunkedRows.of_dask(table[["a", "b"]], table["y"], dtype=np.float64)
    blocks = list(rows.blocks(20))
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), X[:, :2])
    np.testing.assert_array_equal(np.concatenate([block.y for block in blocks]), y)
