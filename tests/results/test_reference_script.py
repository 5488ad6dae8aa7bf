"""scripts/reference.py: rows, thinned curves and environments of a folder become reference rows."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from result_rows import make_row

from kbench.run.results import Curve, ResultsFolder

SCRIPT = Path(__file__).parents[2] / "scripts" / "reference.py"


@pytest.fixture
def collect():
    return runpy.run_path(str(SCRIPT))["main"]


def curve(name, n):
    x = np.arange(n, dtype=float)
    return Curve(curve=name, x_name="seconds", x=x, value=2.0 * x)


def folder_with(tmp_path, **changes):
    folder = ResultsFolder(tmp_path / "fresh")
    environment = folder.store_environment({"cpu": "one"})
    row = make_row(environment=environment, dirty=False, **changes)
    folder.write(row, [curve("objective", 1234), curve("gap", 1234), curve("short", 3)])
    return folder


def test_what_a_folder_holds_is_read_back_as_reference(tmp_path, collect):
    folder = folder_with(tmp_path)
    results = ResultsFolder(tmp_path / "results")
    collect(folder.path, results.path / "_reference")
    before = folder.read(reference=False).iloc[0]
    after = results.read().iloc[0]
    assert after["origin"] == "reference"
    assert (after["key"], after["accuracy"]) == (before["key"], before["accuracy"])
    assert results.environments() == folder.environments()
    curves = results.read_curves().set_index("curve")
    assert (curves["value"] == 2.0 * curves["x"]).all()
    places = {name: curves.loc[name, "x"].tolist() for name in ("objective", "gap", "short")}
    assert len(places["objective"]) <= 501
    assert places["objective"] == places["gap"]
    assert places["objective"][-1] == 1233.0
    assert places["short"] == [0.0, 1.0, 2.0]
    collect(folder.path, results.path / "_reference")
    assert len(results.read()) == 1


def test_rows_of_changed_code_are_refused(tmp_path, collect):
    folder = folder_with(tmp_path)
    folder.write(make_row(key="another", dirty=True))
    with pytest.raises(SystemExit, match="1 rows are of a work tree with changes"):
        collect(folder.path, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_an_empty_folder_is_one_line(tmp_path, collect):
    with pytest.raises(SystemExit, match="no rows"):
        collect(tmp_path / "nothing", tmp_path / "target")
