"""Attempts of one run: numbered, kept by merges, and read from files that know no attempts."""

import datetime

import pandas as pd
import pyarrow.parquet as pq
import pytest
from result_rows import CURVE, make_row

from kbench.run.results.folder import ResultsFolder


def attempt(number, **changes):
    row = make_row(**changes)
    start = row["started_at"] + datetime.timedelta(minutes=number)
    return {**row, "attempt": number, "started_at": start}


def numbered(folder):
    row = make_row()
    return folder.next_attempt(row["key"], row["environment"], row["threads"])


@pytest.mark.parametrize("merged", [False, True])
def test_every_attempt_has_a_row_also_after_merges(tmp_path, merged):
    folder = ResultsFolder(tmp_path)
    for number in (1, 2, 3):
        assert numbered(folder) == number
        folder.write(attempt(number, accuracy=number / 10))
        if merged:
            folder.merge()
    own = folder.read().sort_values("attempt")
    assert own["accuracy"].tolist() == [0.1, 0.2, 0.3]
    assert len(pd.read_parquet(tmp_path)) == 3
    (outcome,) = folder.finished("0a1b2c3d", 1).values()
    assert outcome["status"] == "ok"
    assert folder.row("")["attempt"] == 3
    assert folder.merge().replaced == 0


def test_attempts_without_an_outcome_are_repeated_under_their_number(tmp_path):
    folder = ResultsFolder(tmp_path)
    folder.write(attempt(1))
    folder.write(attempt(2, status="interrupted"))
    assert numbered(folder) == 2
    (outcome,) = folder.finished("0a1b2c3d", 1).values()
    assert outcome["status"] == "interrupted"
    folder.write(attempt(2, status="timeout"))
    assert sorted(folder.read()["status"]) == ["ok", "timeout"]
    assert numbered(folder) == 3


def test_other_environments_and_threads_count_their_own_attempts(tmp_path):
    folder = ResultsFolder(tmp_path)
    folder.write(attempt(4, threads=12))
    folder.write(attempt(7, environment="ffffffff"))
    assert numbered(folder) == 1
    folder.write(attempt(1))
    assert numbered(folder) == 2


def test_a_merged_attempt_that_is_newer_than_the_file_of_an_older_one_counts(tmp_path):
    """A merge that was killed leaves the file of an old attempt beside the merged newer one."""
    folder = ResultsFolder(tmp_path)
    old = folder.write(attempt(1))
    content = old.read_bytes()
    folder.write(attempt(2, status="timeout"))
    folder.merge()
    old.write_bytes(content)
    assert numbered(ResultsFolder(tmp_path)) == 3
    assert len(folder.read()) == 2
    assert folder.merge().replaced == 1


def test_a_file_that_knows_no_attempts_has_the_first_one(tmp_path):
    folder = ResultsFolder(tmp_path)
    path = folder.write(attempt(1, accuracy=0.25))
    pq.write_table(pq.read_table(path).drop_columns(["attempt"]), path)
    folder = ResultsFolder(tmp_path)
    assert folder.read()["attempt"].tolist() == [1]
    assert numbered(folder) == 2
    folder.write(attempt(2, accuracy=0.5))
    folder.merge()
    assert sorted(folder.read()["accuracy"]) == [0.25, 0.5]


def test_curves_are_those_of_the_newest_attempt_that_has_some(tmp_path):
    folder = ResultsFolder(tmp_path)
    folder.write(attempt(1), [CURVE])
    folder.write(attempt(2), [{**CURVE, "value": [5.0, 4.0]}])
    folder.write(attempt(10, status="timeout"))
    assert folder.read_curves()["value"].tolist() == [5.0, 4.0]
    folder.write(attempt(11), [{**CURVE, "value": [7.0, 6.0]}])
    assert folder.read_curves()["value"].tolist() == [7.0, 6.0]
