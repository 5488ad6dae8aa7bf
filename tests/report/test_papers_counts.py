"""Counts beside the papers' cells: figures drawn, settings of a budget; curves over seconds."""

from paper_rows import runs
from report_rows import make_row

from kbench.report.papers.budgets import budgets
from kbench.report.papers.budgets import sheet as budget_sheet
from kbench.report.papers.coverage import figure_sheet
from kbench.report.papers.drawing import drawings
from kbench.report.papers.figures import drawn, figures
from kbench.report.papers.runs import identity

(EQUAL_TIME,) = [one for one in figures() if one.name == "dsgd_app_equal_time"]


def equal_time_runs():
    """Doubly SGD and NORMA on Adult, three points of their test error each."""
    rows = [
        make_row(method, 0.85, dataset="a9a", task="binary", params='{"max_time": 30}')
        for method in ("doubly_sgd", "norma")
    ]
    curves = {"test_error": ([1.0, 2.0, 4.0], [0.3, 0.2, 0.1])}
    return runs(*rows, curves={identity(row): curves for row in rows})


def test_a_curve_is_drawn_over_its_seconds():
    found = equal_time_runs()
    (panel,) = drawn(EQUAL_TIME, found, found.machines[0])
    assert panel.points["DoublySGD"] == [(1.0, 0.3, 0.0), (2.0, 0.2, 0.0), (4.0, 0.1, 0.0)]
    assert panel.panel.x.label == "wall seconds"


def test_panels_and_lines_of_figures_are_counted():
    whole = drawings(equal_time_runs(), {"dsgd"})
    shown = figure_sheet(whole)
    (line,) = shown.rows
    values = dict(zip(["paper", "figures", "panels", "no data"], line, strict=False))
    assert values["paper"] == "Doubly SGD"
    assert int(values["figures"]) == len(whole)
    assert (line[5], line[7]) == ("1", "2")  # one panel, two of its lines
    assert 0 < int(line[7]) < int(line[6])


def test_a_budget_says_how_many_settings_a_method_had():
    one = budgets()[0]
    rows = [
        make_row("ldkl", 0.9, dataset="a9a", params=f'{{"depth": {depth}}}', prediction_cost=cost)
        for depth, cost in ((3, 10.0), (5, 30.0))
    ]
    (line,) = budget_sheet(one, runs(*rows), {}).rows
    assert line[-1] == "2"
