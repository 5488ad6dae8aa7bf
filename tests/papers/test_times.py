"""Seconds of the committed rows: one run at a time, means of one commit, phases within the fit."""

import math
import runpy
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def rows():
    return pd.read_parquet(ROOT / "results" / "_reference" / "reference.parquet")


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "reference.py"))


def test_no_two_reference_rows_overlap_in_time(rows, script):
    assert script["overlapping"](rows) == 0


def test_reference_rows_of_seconds_say_how_busy_other_processes_were(rows):
    long = rows[(rows["status"] == "ok") & (rows["fit_wall_s"] >= 0.25)]
    assert len(long) > 1000
    assert long[long["other_cpus"].isna()]["key"].tolist() == []


def test_reference_rows_that_are_averaged_are_of_one_commit(rows, script):
    """The seeds of one setting: a mean over two states of the code would be of neither."""
    own = rows[~rows["method"].map(script["foreign"])]
    assert len(own) > 1000
    setting = ["method", "method_version", "dataset", "variant", "preset", "params", "experiment"]
    commits = own.groupby(setting, dropna=False)["commit"].nunique()
    assert commits[commits > 1].index.tolist() == []
    assert not rows["dirty"].any()


def test_the_phases_of_a_reference_row_add_up_to_its_training_at_most(rows):
    """What was compiled in a phase is in no seconds of training: such a row is to be made anew."""
    beyond = []
    for row in rows[rows["status"] == "ok"].to_dict("records"):
        if row["phases_cpu"] is not None and row["fit_cpu_s"]:
            whole = math.fsum(dict(row["phases_cpu"]).values())
            if whole > 1.1 * row["fit_cpu_s"] + 0.03:
                beyond.append((row["method"], row["dataset"], row["key"]))
    assert beyond == []
