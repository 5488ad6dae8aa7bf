"""What a budget for predictions buys: which setting is shown, and what stands beside it."""

import csv
import io
import itertools
import json

import pytest
from paper_rows import rbf, runs
from report_rows import folder_of

from kbench.papers.printed.layout import Selector, paper, selector
from kbench.papers.studies import Budgets, budget_sheet, budgets
from kbench.report import make_papers
from kbench.report.comparisons.quantities import quantity

OWN = Selector(experiments=frozenset({"demo"}))
ONE = Budgets(
    "Fast",
    "dcpred",
    "experiment=demo",
    ["ijcnn1"],
    {
        "on": OWN & selector(method="dcpred", params={"pseudo": "monomials"}),
        "off": OWN & selector(method="dcpred", params={"pseudo": "none"}),
        "exact": OWN & selector(method="kernel_svc"),
    },
    quantity("prediction_cost"),
    [20, 50],
    quantity("accuracy"),
)


def dcpred(accuracy, cost, *, m=8, pseudo="monomials", seed=0, **changes):
    params = {"n_landmarks": m, "pseudo": pseudo, "landmarks": "weighted", "error_rows": 0}
    params["n_leaves"] = 16
    changes |= {"params": json.dumps(params, sort_keys=True), "prediction_cost": cost}
    return rbf("dcpred", accuracy, seed=seed, **changes)


def table(*rows):
    found = budget_sheet(ONE, runs(*rows), {})
    return {line[0]: line[1:] for line in found.rows}, found


def test_the_best_setting_within_each_budget_is_shown():
    lines, found = table(
        dcpred(0.90, 9.0, m=4),
        dcpred(0.92, 18.0, m=8),
        dcpred(0.91, 19.0, m=16),
        dcpred(0.95, 50.0, m=32),
        dcpred(0.99, 51.0, m=64),
        dcpred(0.80, 60.0, pseudo="none"),
        rbf("kernel_svc", 0.98, prediction_cost=None),
    )
    assert found.header[1:4] == ["≤ 20×, accuracy %", "≤ 20×, predict × Xw", "≤ 20×, setting"]
    assert lines == {
        "ijcnn1: on [1]": [
            "92.00",
            "18.0",
            "n_landmarks=8",
            "95.00",
            "50.0",
            "n_landmarks=32",
            "5",
        ],
        "ijcnn1: off [1]": ["–", "from 60.0", "", "–", "from 60.0", "", "1"],
        "ijcnn1: exact [1]": [""] * 6 + ["1"],
    }


def test_of_equal_scores_the_cheaper_is_shown_and_seeds_are_averaged():
    lines, _ = table(
        dcpred(0.90, 15.0, m=4),
        dcpred(0.89, 16.0, m=8),
        dcpred(0.91, 18.0, m=8, seed=1),
    )
    assert lines["ijcnn1: on [1]"][:3] == ["90.00", "15.0", "n_landmarks=4"]


def test_machines_stand_apart():
    lines, found = table(dcpred(0.9, 9.0), dcpred(0.8, 9.0, environment="ffff0000"))
    assert set(lines) == {"ijcnn1: on [1]", "ijcnn1: on [2]"}
    assert sorted(line[0] for line in lines.values()) == ["80.00", "90.00"]
    assert sum(note.startswith("[") for note in found.notes) == 2


@pytest.mark.parametrize("one", budgets(), ids=lambda one: one.name)
def test_without_rows_the_command_is_named(one):
    found = budget_sheet(one, runs(), {})
    assert found.rows == []
    assert found.notes == [f'No rows: run "kbench -m {one.run}"']
    assert set(one.data) <= set(paper(one.paper).data)


def test_in_every_format(tmp_path):
    folder = folder_of(tmp_path, dcpred(0.9, 9.0))
    text = make_papers(folder, tables=["budgets"], reference=False, width=100)
    assert "DC-Pred++: what a budget for predictions buys" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    written = make_papers(folder, tables=["budgets"], format="csv", reference=False)
    lines = csv.reader(io.StringIO(written))
    assert ["ijcnn1: DC-Pred++ [1]", "90.00", "9.00"] in [line[:3] for line in lines]


@pytest.mark.parametrize("one", budgets(), ids=lambda one: one.name)
def test_no_setting_stands_in_two_lines(one):
    """Otherwise leaving an ingredient out could not win."""

    def accepted(wanted, name):
        value = wanted.params[name]
        return value if isinstance(value, list) else [value]

    for a, b in itertools.combinations(one.lines.values(), 2):
        if set(a.methods) & set(b.methods):
            shared = a.params.keys() & b.params.keys()
            apart = [n for n in shared if not set(accepted(a, n)) & set(accepted(b, n))]
            assert apart, (a, b)


def test_settings_of_the_table_s_experiment_come_before_better_ones_of_other_commands():
    lines, _ = table(
        dcpred(0.90, 9.0, m=4, experiment="demo"), dcpred(0.99, 9.0, m=8, experiment="other")
    )
    assert lines["ijcnn1: on [1]"] == ["90.00", "9.00", "n_landmarks=4"] * 2 + ["1"]
    lines, _ = table(dcpred(0.99, 9.0, m=8, experiment="other"))
    assert lines["ijcnn1: on [1]"][0] == "99.00"
