"""The command of a row, given again, is the run of the row."""

import json
import os
import random
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kbench.config import composer, hydra_value
from kbench.report.statistics.standings import standings
from kbench.run.planning.plan import make_plan

needs_data = pytest.mark.skipif(
    "KBENCH_DATA" not in os.environ, reason="needs real data: set KBENCH_DATA"
)

ROWS = Path(__file__).parents[2] / "results" / "_reference" / "reference.parquet"
# Experiments whose plans take seconds, and in which variants of data sets, tuned files, grids and
# parameters of the plan override each other.
EXPERIMENTS = ["dcpred_app_fig4", "dcpred_fig1", "dcpred_front", "dcsvm_table5", "dsgd_fig1_1_sc2"]
EXPERIMENTS += ["hss_table4", "meka_fig1", "meka_fig9"]


def names_parameters(command, params):
    """Whether a command names all these parameters with these values."""
    named = dict(word.lstrip("+").partition("=")[::2] for word in shlex.split(command))
    return all(says(named.get(f"method.{name}"), value) for name, value in params.items())


def says(text, value):
    """Whether an override is this value; rows hold a whole number without its decimal point."""
    if text is None or isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        return text == hydra_value(value)
    try:
        return float(text) == value
    except ValueError:
        return False


def test_the_command_of_every_committed_row_names_all_parameters_of_the_row():
    """Then changed defaults of a method cannot change what the command runs.

    Of the rows with equal parameters, which differ in data and seed, one is looked at.
    """
    table = pq.read_table(ROWS, columns=["key", "method", "command", "params"]).to_pylist()
    rows = {(row["method"], row["params"]): row for row in table}.values()
    lacking = [
        row["key"]
        for row in rows
        if not names_parameters(row["command"], json.loads(row["params"] or "{}"))
    ]
    assert lacking == []


@needs_data
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_commands_of_an_experiment_make_the_same_runs(experiment):
    with composer() as hydra:
        runs = make_plan(hydra, [f"experiment={experiment}"], multirun=True).runs
        if not runs:
            pytest.skip(f"the data sets of {experiment} are not in KBENCH_DATA")
        for run in random.Random(experiment).sample(runs, min(4, len(runs))):
            (again,) = make_plan(hydra, shlex.split(run.command)[1:]).runs
            assert again.params == run.params
            assert again.key == run.key
            assert (run.experiment, again.experiment) == (experiment, None)


def test_the_readme_names_the_first_methods_of_the_ranking(reference):
    """What README says under "What to use when"."""
    tasks = ("binary", "multiclass", "regression")
    sheets = {task: standings(reference.rows, task)[0] for task in tasks}

    def first(column, task):
        sheet = sheets[task]
        j = sheet.header.index("% behind") + column
        known = [row for row in sheet.rows if row[j] not in ("", "fails")]
        return [row[0].partition(" ")[0] for row in sorted(known, key=lambda row: float(row[j]))]

    assert "tuned_svc" in first(1, "binary")[:3]
    assert {*first(2, "binary")[:2]} == {"hist_gradient_boosting", "tuned_svc"}
    assert first(3, "binary")[0] == "hist_gradient_boosting"
    assert first(0, "multiclass")[0] == "tuned_svc"
    assert first(0, "regression")[:2] == ["rfm", "tuned_boosting"]
