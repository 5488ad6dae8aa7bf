"""A clock of the day that jumps during a sweep changes no limit, no time measured and no row."""

import runpy
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import furnish, kbench, rows, start, wait_for

from kbench.compiling import CompileClock
from kbench.run.execution.worker import _LiveTrace

SCRIPT = Path(__file__).parents[3] / "scripts" / "torture.py"
DAYS = 2 * 86_400


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    jumping_clock = runpy.run_path(str(SCRIPT))["jumping_clock"]
    built = jumping_clock(tmp_path_factory.mktemp("clock"))
    return built or pytest.skip("needs a C compiler and Linux")


@pytest.fixture
def here(tmp_path):
    return furnish(tmp_path)


def test_what_is_compiled_in_a_phase_belongs_neither_to_it_nor_to_the_fit():
    compiled = CompileClock(lambda on: None)
    told = SimpleNamespace(compiled=compiled, phase_of_fit=lambda name: None)
    seen = []
    begin = time.perf_counter(), time.process_time()  # before the trace, whose clock it bounds
    trace = _LiveTrace(lambda seconds, state: seen.append(seconds), told)
    with trace.phase("train"):
        compiled.begin()
        while time.process_time() - begin[1] < 0.3:
            pass
        compiled.end()
        trace(objective=1.0)
    wall, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    assert compiled.cpu_s > 0.2
    assert trace.timings["train"] <= wall - compiled.wall_s
    assert trace.cpu_timings["train"] <= cpu - compiled.cpu_s
    assert trace.fit_cpu_s() < compiled.cpu_s
    assert seen[0] <= wall - compiled.wall_s


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
