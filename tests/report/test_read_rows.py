"""`kbench.read_rows`: the rows of a folder as a data frame, whatever versions and files it has."""

import pandas as pd
import pyarrow.parquet as pq
import pytest
from report_rows import failed, make_row

import kbench
from kbench.errors import ConfigError
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.rows import schema, to_table


@pytest.fixture
def folder(tmp_path):
    return ResultsFolder(tmp_path / "results")


def test_every_column_is_there_whatever_the_first_file_lacks(folder):
    folder.path.mkdir()
    old = to_table(make_row("svc", 0.9)).drop_columns(["kernel_entries", "phases", "tag"])
    pq.write_table(old, folder.path / "a-first.parquet")
    folder.write(make_row("krr", 0.8, kernel_entries=5, tag="mine"))
    rows = kbench.read_rows(folder.path).set_index("method")
    assert {*schema().names} - {"method"} <= {*rows.columns}
    assert rows.loc["krr", ["kernel_entries", "tag"]].tolist() == [5, "mine"]
    assert rows.loc["svc", ["kernel_entries", "tag"]].isna().all()


def test_attempts_of_a_run_are_one_row_of_the_newest_with_median_seconds(folder):
    row = make_row("svc", 0.9)
    for attempt, seconds in ((1, 1.0), (2, 7.0), (3, 2.0)):
        folder.write({**row, "attempt": attempt, "fit_wall_s": seconds})
    rows = kbench.read_rows(folder.path)
    assert rows[["attempt", "fit_wall_s"]].to_numpy().tolist() == [[3, 2.0]]


def test_failed_runs_are_rows_and_the_order_is_that_of_names(folder):
    folder.write(make_row("svc", 0.9, 1))
    folder.write(failed("ridge", "timeout"))
    folder.write(make_row("svc", 0.9, 0))
    rows = kbench.read_rows(folder.path)
    assert rows[["method", "seed"]].to_numpy().tolist() == [["ridge", 0], ["svc", 0], ["svc", 1]]
    assert rows["status"].tolist() == ["timeout", "ok", "ok"]
    assert pd.isna(rows["accuracy"][0])


def test_a_damaged_file_is_named_and_a_missing_folder_is_an_error(folder):
    with pytest.raises(ConfigError, match="there is no folder"):
        kbench.read_rows(folder.path)
    folder.write(make_row("svc", 0.9))
    (folder.path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.warns(UserWarning, match=r"broken\.parquet"):
        assert len(kbench.read_rows(folder.path)) == 1
