"""What is written is what is read, whatever else lies in the folder."""

import datetime
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_rows import CURVE, make_row

from kbench.errors import ConfigError, KbenchError
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.rows import SCHEMA_VERSION, STATUSES, newest, schema, to_table

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
FLOAT = st.floats(allow_nan=False)
INT64 = st.integers(-(2**63), 2**63 - 1)
BY_TYPE = {
    pa.string(): TEXT,
    pa.int64(): INT64,
    pa.float64(): FLOAT,
    pa.bool_(): st.booleans(),
    pa.map_(pa.string(), pa.float64()): st.dictionaries(TEXT, st.none() | FLOAT, max_size=3),
    pa.timestamp("us", tz="UTC"): st.datetimes(
        datetime.datetime(1971, 1, 1),
        datetime.datetime(2200, 1, 1),
        timezones=st.just(datetime.UTC),
    ),
}
SPECIAL = {
    "key": st.text("0123456789abcdef", min_size=8, max_size=64),
    "environment": st.text("0123456789abcdef", min_size=8, max_size=8),
    "threads": st.integers(1, 128),
    "attempt": st.integers(1, 2**40),
    "status": st.sampled_from(STATUSES),
    "params": st.dictionaries(TEXT, st.none() | FLOAT | TEXT, max_size=3).map(
        lambda params: json.dumps(params, sort_keys=True)
    ),
}
REQUIRED = ("key", "environment", "threads", "status", "method", "dataset")


@st.composite
def any_row(draw):
    row = {}
    for field in schema():
        values = SPECIAL.get(field.name, BY_TYPE[field.type])
        if field.name == "schema_version":
            continue
        row[field.name] = draw(values if field.name in REQUIRED else st.none() | values)
    return row


@settings(max_examples=25)
@given(row=any_row())
def test_row_comes_back_as_written(tmp_path_factory, row):
    folder = ResultsFolder(tmp_path_factory.mktemp("r") / "results")
    folder.write(row)
    expected = {**row, "schema_version": SCHEMA_VERSION, "origin": "own"}
    expected["attempt"] = row["attempt"] or 1
    assert folder.row(row["key"]) == expected
    folder.merge()
    assert folder.row(row["key"]) == expected


def test_numpy_scalars_are_values(tmp_path):
    folder = ResultsFolder(tmp_path)
    folder.write(make_row(seed=np.int32(3), accuracy=np.float32(0.5), converged=np.bool_(True)))
    row = folder.row("")
    assert (row["seed"], row["accuracy"], row["converged"]) == (3, 0.5, True)


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"acuracy": 0.5}, ValueError, "acuracy"),
        ({"seed": 1.5}, TypeError, "seed"),
        ({"seed": True}, TypeError, "seed"),
        ({"seed": 2**63}, TypeError, "seed"),
        ({"accuracy": "0.5"}, TypeError, "accuracy"),
        ({"accuracy": False}, TypeError, "accuracy"),
        ({"converged": 1}, TypeError, "converged"),
        ({"dataset": 3}, TypeError, "dataset"),
        ({"dataset": None}, ValueError, "dataset"),
        ({"phases": {"solve": "x"}}, TypeError, "phases"),
        ({"phases": [1.0]}, TypeError, "phases"),
        ({"started_at": datetime.datetime(2026, 1, 1)}, TypeError, "started_at"),
        ({"status": "fine"}, ValueError, "status"),
        ({"key": "../x"}, ValueError, "key"),
        ({"environment": "a-b"}, ValueError, "environment"),
        ({"params": '{"b": 1, "a": 2}'}, ValueError, "params"),
        ({"params": "[1]"}, ValueError, "params"),
        ({"params": "nonsense"}, ValueError, "params"),
    ],
)
def test_wrong_value_is_refused_by_its_column(tmp_path, change, error, named):
    folder = ResultsFolder(tmp_path / "results")
    with pytest.raises(error, match=named):
        folder.write(make_row(**change))
    assert not (tmp_path / "results").exists()


def test_an_attempt_that_is_written_again_replaces_row_and_curves(tmp_path):
    folder = ResultsFolder(tmp_path)
    first = folder.write(make_row(status="timeout"), [CURVE, {**CURVE, "curve": "gap"}])
    assert list(folder.read_curves()["value"]) == [3.0, 2.0, 3.0, 2.0]
    second = folder.write(make_row())
    assert second == first
    assert len(pd.read_parquet(tmp_path)) == 1
    assert folder.read_curves().empty
    with pytest.raises(ValueError, match="objective"):
        folder.write(make_row(), [{**CURVE, "x": [0.0]}])


def test_curves_of_reference_rows_stand_until_a_row_replaces_theirs(tmp_path):
    folder = ResultsFolder(tmp_path)
    given = ResultsFolder(tmp_path / "_reference")
    given.write(make_row(), [CURVE])
    given.write(make_row(key="another"), [{**CURVE, "value": [5.0, 4.0]}])
    assert list(folder.read_curves(reference=True)["value"]) == [3.0, 2.0, 5.0, 4.0]
    assert folder.read_curves().empty
    folder.write(make_row(status="timeout"))
    assert list(folder.read_curves(reference=True)["value"]) == [5.0, 4.0]
    folder.write(make_row(), [{**CURVE, "value": [7.0, 6.0]}])
    assert list(folder.read_curves(reference=True)["value"]) == [5.0, 4.0, 7.0, 6.0]


@pytest.mark.parametrize("merged", [False, True])
def test_a_rerun_replaces_the_row_although_the_clock_went_back(tmp_path, merged):
    folder = ResultsFolder(tmp_path)
    first = make_row(1, status="timeout")
    folder.write(first)
    if merged:
        folder.merge()
    again = {**first, "status": "ok"}
    again["started_at"] -= datetime.timedelta(days=2)
    ResultsFolder(tmp_path).write(again)
    for _ in range(2):
        (row,) = ResultsFolder(tmp_path).read().to_dict("records")
        assert row["status"] == "ok"
        assert row["started_at"] - first["started_at"] == datetime.timedelta(microseconds=1)
        assert folder.finished("0a1b2c3d", 1)[first["key"]]["status"] == "ok"
        folder.merge()


@given(ages=st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=8))
@settings(max_examples=50)
def test_newest_is_the_last_by_age_then_by_position(ages):
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    row = {"key": "k", "environment": "e", "threads": 1, "status": "ok"}
    tables = [
        to_table(
            {
                **row,
                "method": "svc",
                "dataset": "digits",
                "seed": position,
                "started_at": None if age is None else start + datetime.timedelta(seconds=age),
            }
        )
        for position, age in enumerate(ages)
    ]
    keyed = [(-1 if age is None else age, position) for position, age in enumerate(ages)]
    assert newest(pa.concat_tables(tables))["seed"].to_pylist() == [max(keyed)[1]]


def test_a_folder_anywhere_has_the_rows_that_come_with_kbench(tmp_path, monkeypatch):
    given = Path(__file__).parents[3] / "results" / "_reference"
    monkeypatch.setattr("kbench.run.results.folder._REFERENCE_FOLDERS", (tmp_path / "none", given))
    folder = ResultsFolder(tmp_path / "results")
    assert folder.has_reference
    assert len(folder.read(reference=True)) > len(folder.read()) == 0


def test_finished_is_of_one_environment_and_thread_count(tmp_path):
    folder = ResultsFolder(tmp_path)
    scores = {"log_loss": None, "r": 0.5}
    here = make_row(0, message="m", model="x", scores=scores)
    folder.write(here)
    folder.write(make_row(1, environment="ffffffff"))
    folder.write(make_row(2, threads=2))
    outcome = {"status": "ok", "message": "m", "source_sha256": "aa", "model": "x", "tag": None}
    outcome["scores"] = scores
    assert folder.finished("0a1b2c3d", 1) == {here["key"]: outcome}
    found = folder.latest(here["key"], "0a1b2c3d", 1)
    assert found == {**outcome, "attempt": 1, "started_at": here["started_at"]}
    for other in (
        ("ab", "0a1b2c3d", 1),
        (here["key"], "ffffffff", 1),
        (here["key"], "0a1b2c3d", 2),
    ):
        assert folder.latest(*other) is None


def test_reference_rows_are_read_but_never_finished(tmp_path):
    reference, own = ResultsFolder(tmp_path / "_reference"), ResultsFolder(tmp_path)
    for number in (0, 1):
        reference.write(make_row(number, accuracy=0.1))
    reference.store_environment({"cpu": "theirs"})
    own.write(make_row(1, accuracy=0.9))
    own.store_environment({"cpu": "mine"})
    assert len(own.finished("0a1b2c3d", 1)) == 1
    frame = own.read(reference=True).set_index("origin")
    assert frame["accuracy"].to_dict() == {"reference": 0.1, "own": 0.9}
    assert set(own.read()["origin"]) == {"own"}
    assert sorted(env["cpu"] for env in own.environments().values()) == ["mine", "theirs"]
    assert len(pd.read_parquet(tmp_path)) == 1


def test_what_is_no_row_is_named_and_skipped(tmp_path):
    folder = ResultsFolder(tmp_path)
    good = folder.write(make_row(0))
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "foreign.parquet")
    pd.DataFrame(
        {"key": ["k"], "environment": ["e"], "threads": ["many"], "status": ["ok"]}
    ).to_parquet(tmp_path / "types.parquet")
    (tmp_path / "cut.parquet").write_bytes(good.read_bytes()[:-20])
    (tmp_path / "empty.parquet").touch()
    (tmp_path / "text.parquet").write_text("no Parquet")
    (tmp_path / "folder.parquet").mkdir()
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "sub").mkdir()
    shutil.copy(good, tmp_path / "sub" / "other.parquet")
    (tmp_path / "README.md").write_text("text")
    damaged = {"foreign", "types", "cut", "empty", "text", "folder", "pipe"}

    assert len(folder.read()) == 1
    assert {line.split(".parquet")[0].rsplit("/")[-1] for line in folder.warnings} == damaged
    assert all("\n" not in line for line in folder.warnings)
    assert "not a regular file" in "".join(folder.warnings)
    assert len(folder.finished("0a1b2c3d", 1)) == 1
    assert len(folder.warnings) == len(damaged)

    report = folder.merge()
    assert (report.rows, report.files) == (1, 1)
    assert len(report.skipped) == len(damaged)
    assert str(report).splitlines()[1:] == report.skipped
    for name in damaged:
        assert (tmp_path / f"{name}.parquet").exists()


def test_older_files_lack_columns_and_stay_readable(tmp_path):
    folder = ResultsFolder(tmp_path)
    folder.write(make_row(0))
    old = to_table(make_row(1)).drop_columns(["kernel_entries", "phases", "source_sha256"])
    old = old.set_column(old.column_names.index("seed"), "seed", old["seed"].cast(pa.int32()))
    pq.write_table(old, tmp_path / "merged-0.parquet")
    for _ in range(2):
        frame = folder.read().set_index("seed")
        assert frame.loc[0, "phases"] == {"solve": 0.25}
        assert pd.isna(frame.loc[1, "phases"])
        assert len(folder.finished("0a1b2c3d", 1)) == 2
        assert not folder.warnings
        assert folder.merge().rows == 2


def test_newer_files_are_read_but_not_merged(tmp_path):
    folder = ResultsFolder(tmp_path)
    folder.write(make_row(0))
    new = to_table(make_row(1)).append_column("watts", pa.array([3.0]))
    pq.write_table(new, tmp_path / "new.parquet")
    assert len(folder.read()) == 2
    report = folder.merge()
    assert report.rows == 1
    assert "watts" in report.skipped[0]
    assert pq.read_table(tmp_path / "new.parquet").column_names[-1] == "watts"


def test_row_by_prefix(tmp_path):
    folder = ResultsFolder(tmp_path)
    with pytest.raises(ConfigError, match="no row"):
        folder.row("ab")
    for key in ("ab12", "ab34", "cd56"):
        folder.write(make_row(key=key))
    assert folder.row("ab1")["key"] == "ab12"
    with pytest.raises(ConfigError, match="2 keys begin with 'ab': ab12, ab34") as error:
        folder.row("ab")
    assert "\n" not in str(error.value)
    newer = make_row(key="cd56", threads=4)
    newer["started_at"] += datetime.timedelta(days=1)
    folder.write(newer)
    assert folder.row("cd")["threads"] == 4


def test_failed_write_leaves_nothing(tmp_path, largest_file):
    folder = ResultsFolder(tmp_path)
    folder.write(make_row(0, accuracy=0.25))
    with (
        largest_file(1000),
        pytest.raises(KbenchError, match=r"cannot write .*parquet: File too large"),
    ):
        folder.write(make_row(0, accuracy=0.75))
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.suffix for path in left] == [".parquet"] * 2  # the row, and the file of columns
    assert folder.row("")["accuracy"] == 0.25


def test_a_place_that_cannot_hold_results_is_named(tmp_path):
    (tmp_path / "file").touch()
    folder = ResultsFolder(tmp_path / "file")
    with pytest.raises(ConfigError, match=r"cannot read the folder .*file: Not a directory"):
        folder.read()
    with pytest.raises(KbenchError, match=r"cannot write .*file/"):
        folder.write(make_row())


def test_environment_and_log_files(tmp_path):
    folder = ResultsFolder(tmp_path / "results")
    assert folder.read().empty
    assert folder.finished("0a1b2c3d", 1) == {}
    assert not folder.path.exists()
    name = folder.store_environment({"cpu": "x"})
    assert folder.store_environment({"cpu": "x"}) == name
    assert folder.environments() == {name: {"cpu": "x"}}
    assert folder.write_log("ab", "one\ud800two").read_text() == "one\\ud800two"


@pytest.mark.parametrize("params", ["{not json", "[1]", "[" * 100_000])
def test_params_that_are_no_mapping_are_skipped_and_left_alone(tmp_path, params):
    folder = ResultsFolder(tmp_path)
    folder.write(make_row(0))
    bad = pq.read_table(folder.write(make_row(1)))
    column = bad.schema.get_field_index("params")
    foreign = bad.set_column(column, "params", pa.array([params]))
    pq.write_table(foreign, tmp_path / "bad.parquet")
    assert len(folder.read()) == 2
    assert "is not the JSON text of a mapping" in "".join(folder.warnings)
    folder.merge()
    assert (tmp_path / "bad.parquet").exists()


@pytest.mark.parametrize("name", ["key", "environment", "threads", "status", "method", "dataset"])
def test_rows_without_what_identifies_them_are_skipped(tmp_path, name):
    folder = ResultsFolder(tmp_path)
    good = pq.read_table(folder.write(make_row(0)))
    place = good.schema.get_field_index(name)
    nothing = pa.nulls(len(good), good.schema.field(name).type)
    pq.write_table(good.set_column(place, name, nothing), tmp_path / "null.parquet")
    pq.write_table(good.append_column(name, good[name]), tmp_path / "twice.parquet")
    assert len(folder.read()) == 1
    assert sorted(line.partition(": ")[2] for line in folder.warnings) == [
        f"skipped, no rows of kbench (no value of {name!r} in some rows)",
        f"skipped, no rows of kbench (two columns {name!r})",
    ]
    assert folder.merge().files == 1
