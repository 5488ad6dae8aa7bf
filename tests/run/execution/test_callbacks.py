"""Functions of the user's own get every row, and their errors lose none."""

import json

import pandas as pd
import pytest
from harness import kbench, refusal

TRACKER = """
import json, pathlib, sys

def store(row):
    with open("seen.jsonl", "a") as file:
        file.write(json.dumps(row, default=str) + "\\n")
    row.clear()

def broken(row):
    raise RuntimeError("no server")

def leaves(row):
    sys.exit("away")

number = 3
"""


@pytest.fixture
def here(here, monkeypatch):
    modules = here / "modules"
    modules.mkdir()
    (modules / "tracker.py").write_text(TRACKER)
    monkeypatch.syspath_prepend(modules)
    return here


def test_every_row_is_passed_on_and_errors_are_warnings(here):
    words = ["-m", "method=knn,dummy", "dataset=iris", "seed=0,1", "metrics=[log_loss]"]
    words.append("callbacks=[tracker:broken,tracker:store,tracker:leaves]")
    done = kbench(here, *words, check=0, env={"PYTHONPATH": str(here / "modules")})
    assert "4 ok" in done.stdout
    assert done.stderr.count("callback tracker:broken: RuntimeError: no server (shown once") == 1
    assert done.stderr.count("callback tracker:leaves: SystemExit: away") == 1
    rows = pd.read_parquet(here / "results").set_index("key")
    seen = [json.loads(line) for line in (here / "seen.jsonl").read_text().splitlines()]
    assert len(seen) == len(rows) == 4
    for row in seen:
        stored = rows.loc[row["key"]]
        for name in ("method", "seed", "accuracy", "status", "params", "fit_cpu_s"):
            assert row[name] == stored[name]
        assert row["scores"] == dict(stored["scores"])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("no_such:function", "callbacks names no_such:function: No module named 'no_such'"),
        ("tracker:nothing", "has no attribute 'nothing'"),
        ("tracker:number", "which is not a function"),
        ("tracker", "callbacks names 'tracker', should be package.module:function"),
    ],
)
def test_what_is_no_function_is_one_line_before_a_run(here, capsys, value, said):
    words = ["method=knn", "dataset=iris", f"callbacks=[{value}]"]
    for command in ([], ["plan"]):
        assert said in refusal(capsys, *command, *words)
    assert not (here / "results").exists()
