"""The time of a plan is the sum of medians of similar rows, and the plan says which they are."""

import re

import pytest
from harness import planned

from kbench.cli import main
from kbench.run.planning.command import canonical
from kbench.run.planning.durations import COLUMNS, duration_lines, duration_text

OVERHEAD_S = 0.1


def row(fit_s, run, **changes):
    """A row of the settings of `run` whose fit took so many seconds."""
    known = {"method": run.method, "dataset": run.dataset, "environment": "here", "n_train": 1000}
    known |= {"params": canonical(run.params)}
    return dict.fromkeys(COLUMNS) | known | {"fit_wall_s": fit_s} | changes


def said(runs, rows, at_once=1, environment="here"):
    """(seconds, number of runs, basis) of the first line, and the other lines."""
    lines = duration_lines(runs, rows, environment, at_once)
    found = re.fullmatch(r"time: about (.+) for (\d+) runs?(?:, \d at a time)? \((.+)\)", lines[0])
    return found and (found[1], int(found[2]), found[3]), lines[1:]


def test_other_seeds_of_the_same_settings_come_first_then_the_same_data():
    runs = planned("method=svc", "dataset=digits", "method.C=1,10", "seed=0,1").runs
    known = next(run for run in runs if run.params["C"] == 1)
    rows = [row(second, known, predict_wall_s=1.0) for second in (1.0, 3.0, 50.0)]
    found, others = said(runs, rows)
    assert found[:2] == (duration_text(4 * (3.0 + 1.0 + OVERHEAD_S)), 4)
    assert found[2] == (
        "2 by rows of the same settings, here; 2 by rows of the same method and data set, here"
    )
    assert others == []


def test_rows_of_this_machine_come_before_those_of_others():
    (run,) = planned("method=svc", "dataset=digits").runs
    there = row(60.0, run, environment="there")
    assert said([run], [there])[0][2] == "1 by rows of the same settings, on other machines"
    assert said([run], [there, row(2.0, run)])[0][0] == duration_text(2.0 + OVERHEAD_S)
    assert said([run], [there], environment=None)[0][2].endswith("here")


def test_data_of_similar_size_stand_in_and_no_others_do():
    (digits,) = planned("method=svc", "dataset=digits").runs  # 1,797 rows
    (iris,) = planned("method=svc", "dataset=iris").runs
    (near,) = planned("method=svc", "dataset=breast_cancer").runs
    rows = [
        row(5.0, near, n_train=1000, dataset="near"),
        row(90.0, near, n_train=9000, dataset="f"),
    ]
    found, others = said([digits, iris], rows)
    assert found == (
        duration_text(5.0 + OVERHEAD_S),
        1,
        "1 by rows of the same method on data of similar size, here",
    )
    assert others == ["time: not known for 1 run, which no row is similar to"]


def test_a_limit_ends_runs_and_several_at_a_time_share_the_time():
    runs = planned("method=svc", "dataset=digits", "seed=0,1,2,3", "limits.wall_s=10").runs
    rows = [row(500.0, runs[0], load_s=1.0)]
    assert said(runs, rows)[0][0] == duration_text(4 * (10.0 + 1.0 + OVERHEAD_S))
    assert said(runs, rows, at_once=2)[0][0] == duration_text(2 * (10.0 + 1.0 + OVERHEAD_S))
    assert said(runs[:1], rows, at_once=2)[0][0] == duration_text(10.0 + 1.0 + OVERHEAD_S)


def test_runs_without_similar_rows_are_counted():
    runs = planned("method=svc,knn", "dataset=digits").runs
    (other,) = planned("method=mlp", "dataset=digits").runs
    assert duration_lines(runs, [row(1.0, other)], "here", 1) == [
        "time: not known for 2 runs, which no row is similar to"
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.51, "0.51 s"), (99, "99 s"), (600, "10 minutes"), (9000, "2.5 hours")]
)
def test_durations_are_spoken(seconds, text):
    assert duration_text(seconds) == text


def test_the_command_says_how_long(tmp_path, monkeypatch, capsys):
    """Of a run of this folder, and of reference rows, which come with kbench."""
    monkeypatch.chdir(tmp_path)
    assert main(["method=dummy", "dataset=iris"]) == 0
    capsys.readouterr()
    assert main(["plan", "-m", "method=dummy", "dataset=iris", "seed=0,1,2"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-2] == "3 runs: 2 to run, 1 done, 1 ok"
    assert re.fullmatch(r"time: about \d+(\.\d+)? s for 2 runs \(2 by rows of .*, here\)", out[-1])
    assert main(["plan", "method=dummy", "dataset=iris"]) == 0
    assert "time:" not in capsys.readouterr().out
