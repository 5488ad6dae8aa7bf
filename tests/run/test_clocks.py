"""A clock of the day that jumps during a sweep changes no limit, no time measured and no row."""

import importlib.util
from pathlib import Path

import pytest
from harness import furnish, kbench, rows, start, wait_for

SCRIPTS = Path(__file__).parents[2] / "scripts"
DAYS = 2 * 86_400


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    spec = importlib.util.spec_from_file_location("torture", SCRIPTS / "torture.py")
    torture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(torture)
    built = torture.jumping_clock(tmp_path_factory.mktemp("clock"))
    return built or pytest.skip("needs a C compiler and Linux")


@pytest.fixture
def here(tmp_path):
    return furnish(tmp_path)


def test_jumps_of_the_clock_end_no_run_and_lose_no_row(here, library, monkeypatch):
    kbench(here, "method=nothing", "seed=9", check=0)  # the data are prepared
    ahead = here / "seconds"
    ahead.write_text(str(DAYS))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("JUMPING_CLOCK", str(ahead))
    words = ["-m", "method=nothing", "seed=0,1", "method.seconds=0.6", "limits.wall_s=30"]
    runner = start(here, *words)
    wait_for(lambda: runner.poll() is not None or len(list((here / "results").glob("*.p*"))) == 2)
    ahead.write_text(str(-DAYS))  # while the second run is in progress
    _, said = runner.communicate(timeout=60)
    assert runner.returncode == 0, said
    found = rows(here)
    assert sorted(found["seed"]) == [0, 1, 9]
    assert set(found["status"]) == {"ok"}
    assert found["fit_wall_s"].between(0.0, 30.0).all()
    before = found.set_index("key")["started_at"]
    assert (before.max() - before.min()).days >= 1, "the clock did not jump"
    # What is done again by the early clock is newer than what was done by the late one.
    kbench(here, "merge", check=0)
    kbench(here, *words, "rerun=all", check=0)
    kbench(here, "merge", check=0)
    again = rows(here).query("attempt == 2").set_index("key")["started_at"]
    assert len(again) == 2
    assert (again > before.reindex(again.index)).all()
