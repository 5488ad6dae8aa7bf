"""Rows of other folders: none is lost, none comes twice, nothing of the other folder is believed or
changed."""

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from result_rows import CURVE, EPOCH, make_row, write_environment

from kbench import read_rows
from kbench.errors import ConfigError
from kbench.run.results.folder import TRIALS, ResultsFolder
from kbench.run.results.imported_rows import gather


def content(folder):
    return {
        path.relative_to(folder): hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def plain(folder, but=("schema_version", "attempt")):
    """The rows of a folder as comparable texts."""
    frame = ResultsFolder(folder).read().drop(columns=list(but))
    return sorted(frame.astype(str).to_json(orient="records", lines=True).splitlines())


@pytest.fixture
def folders(tmp_path):
    """An own folder, and another with a further attempt, a further run and a trial."""
    own, other = tmp_path / "own", tmp_path / "other"
    ResultsFolder(own).write(make_row(0, accuracy=0.5), [CURVE])
    ResultsFolder(own).write(make_row(1))
    ResultsFolder(other).write(make_row(1))
    ResultsFolder(other).write(
        make_row(0, accuracy=0.75, started_at=EPOCH.replace(year=2027), scores={"log_loss": 0.5}),
        [{**CURVE, "value": [5.0, 4.0]}],
    )
    ResultsFolder(other).write(make_row(2, environment="ffffffff", tag="b"))
    ResultsFolder(other / TRIALS).write(make_row(3, variant="tune"))
    write_environment(other, "ffffffff", "other")
    return own, other


def test_rows_curves_and_environments_come_once(folders):
    own, other = folders
    before, mine, theirs = content(other), plain(own), plain(other)
    report, trials = gather(own, other)
    assert (report.n_copied, report.n_present) == (2, 1)
    assert dict(report.environments) == {"0a1b2c3d": 1, "ffffffff": 1}
    assert len(report.renumbered) == 1
    assert (trials.n_copied, len(ResultsFolder(own / TRIALS).read())) == (1, 1)
    assert content(other) == before
    assert set(plain(own)) == {*mine, *theirs}
    assert len(plain(own)) == 4
    attempts = ResultsFolder(own).read().query("seed == 0").set_index("attempt")
    assert attempts["accuracy"].to_dict() == {1: 0.5, 2: 0.75}
    curves = ResultsFolder(own).read_curves()  # of the newest attempt
    assert list(curves["value"]) == [5.0, 4.0]
    assert json.loads((own / "_environments" / "ffffffff.json").read_text()) == {"cpu": "other"}
    assert "no description of environment 0a1b2c3d" in str(report)
    assert "1 rows are further attempts of runs that both folders have" in str(report)
    again, _ = gather(own, other)
    assert (again.n_copied, again.n_present, again.renumbered) == (0, 3, [])
    assert len(plain(own)) == 4


def test_an_environment_that_is_described_otherwise_is_named(folders):
    own, other = folders
    write_environment(own, "ffffffff", "mine")
    report, _ = gather(own, other)
    assert "environment ffffffff is described otherwise here" in str(report)
    assert json.loads((own / "_environments" / "ffffffff.json").read_text()) == {"cpu": "mine"}


@settings(max_examples=8)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.booleans()), max_size=8))
def test_all_attempts_of_both_folders_are_there(tmp_path_factory, attempts):
    base = tmp_path_factory.mktemp("both")
    began = set()
    for number, second, mine in attempts:
        folder = ResultsFolder(base / ("a" if mine else "b"))
        start = EPOCH.replace(second=second)
        row = make_row(number, started_at=start)
        key = row["key"], row["environment"], 1
        folder.write({**row, "attempt": folder.next_attempt(*key)})
    for name in ("a", "b"):
        (base / name).mkdir(exist_ok=True)
        for row in ResultsFolder(base / name).read().to_dict("records"):
            began.add((row["key"], row["started_at"]))
    gather(base / "a", base / "b")
    found = ResultsFolder(base / "a").read()
    assert {(row.key, row.started_at) for row in found.itertuples()} == began
    assert len(found) == len(began)
    assert not found.duplicated(["key", "attempt"]).any()


def test_a_folder_is_not_brought_to_itself(folders):
    own, _ = folders
    with pytest.raises(ConfigError, match="is the folder that rows are brought to"):
        gather(own, own.parent / "own")


@pytest.mark.parametrize("newer", ["own", "other"])
def test_a_model_and_a_log_are_those_of_the_newest_attempt(tmp_path, newer):
    for name in ("own", "other"):
        folder = ResultsFolder(tmp_path / name)
        row = make_row(0, started_at=EPOCH.replace(year=2026 + (name == newer)))
        folder.write(row)
        folder.write_log(row["key"], name)
        folder.model_path(row["key"]).parent.mkdir()
        folder.model_path(row["key"]).write_text(name)
    for _ in range(2):
        gather(tmp_path / "own", tmp_path / "other")
    folder = ResultsFolder(tmp_path / "own")
    assert folder.model_path(row["key"]).read_text() == newer
    assert (folder.path / "_logs" / f"{row['key']}.txt").read_text() == newer


def test_a_copy_by_pandas_is_no_file_of_a_newer_kbench(tmp_path):
    ResultsFolder(tmp_path / "own").write(make_row(0))
    rows = read_rows(tmp_path / "own")
    (tmp_path / "copy").mkdir()
    rows.to_parquet(tmp_path / "copy" / "rows.parquet")
    report, *_ = gather(tmp_path / "all", tmp_path / "copy")
    assert (report.n_copied, report.skipped) == (1, [])
