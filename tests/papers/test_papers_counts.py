"""Counts beside the papers' cells: figures drawn, settings of a budget; curves over seconds."""

from paper_rows import rbf, runs
from report_rows import make_row

from kbench.papers.cells.entries import entry, filled
from kbench.papers.cells.runs import identity
from kbench.papers.cells.sheets import coverage
from kbench.papers.figures.figure import figures
from kbench.papers.figures.panels import drawn_panels
from kbench.papers.printed.layout import CellPlace, paper
from kbench.papers.printed.numbers import printed
from kbench.papers.studies import budget_sheet, budgets

(EQUAL_TIME,) = [one for one in figures() if one.name == "dsgd_app_equal_time"]


def equal_time_runs():
    """Doubly SGD and NORMA on Adult, three points of their test error each."""
    asked = {"experiment": "dsgd_fig1_1_sc2"}
    params = '{"max_time": 30, "preconditioned": true}'
    rows = [
        make_row(method, 0.85, dataset="a9a", task="binary", params=params, **asked)
        for method in ("doubly_sgd", "norma")
    ]
    curves = {"test_error": ([1.0, 2.0, 4.0], [0.3, 0.2, 0.1])}
    return runs(*rows, curves={identity(row): curves for row in rows})


def test_a_curve_is_drawn_over_its_seconds():
    found = equal_time_runs()
    (panel,) = drawn_panels(EQUAL_TIME, found, found.machines[0])
    assert panel.points["NORMA"] == [(1.0, 30.0, 0.0), (2.0, 20.0, 0.0), (4.0, 10.0, 0.0)]
    assert panel.panel.x.label == "wall seconds"


def test_a_budget_says_how_many_settings_a_method_had():
    one = budgets()[0]
    rows = [
        make_row("ldkl", 0.9, dataset="a9a", params=f'{{"depth": {depth}}}', prediction_cost=cost)
        for depth, cost in ((3, 10.0), (5, 30.0))
    ]
    (line,) = budget_sheet(one, runs(*rows), {}).rows
    assert line[-1] == "2"


def test_totals_and_dashes_are_no_cells():
    tables = paper("dcsvm").tables
    assert coverage(filled(tables["table5"], runs())).cells == 0
    of_table = [one for place, one in printed("dcsvm").items() if place[0] == "table9"]
    dashes = sum(one.text == "-" for one in of_table)
    assert dashes == 2
    assert coverage(filled(tables["table9"], runs())).cells == len(of_table) - dashes


def test_levels_in_wall_seconds_say_so_and_leave_disturbed_runs_out():
    table = paper("dcsvm").tables["table6"]
    rows, curves = [], {}
    for seed, (other_cpus, seconds) in enumerate(((0.0, 0.25), (0.9, 0.75))):
        told = {"dataset": "covtype_93k", "level_tol": 0.001, "other_cpus": other_cpus}
        rows.append(rbf("dcsvm", 0.9, seed, gamma=32, **told))
        curves[identity(rows[-1])] = {
            "n_clusters": ([1.0, 2.0], [256.0, 64.0]),
            "cluster_s": ([1.0, 2.0], [seconds, seconds]),
        }

    def clustering(found):
        return entry(CellPlace(table, "4", "", "clustering"), found, found.machines[0])

    both = clustering(runs(*rows, curves=curves))
    assert (both.value, both.sd) == (0.25, None)
    assert "dcsvm on covtype_93k: wall seconds" in both.notes
    (note,) = [one for one in both.notes if "left out" in one]
    assert "disturbed 1 of 2 runs, which are left out" in note
    disturbed = clustering(runs(rows[1], curves=curves))
    assert disturbed.value is None
    assert any("left out" in one for one in disturbed.notes)
