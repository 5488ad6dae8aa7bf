"""Budgets for predictions: the best setting of each method that predicts within a limit of cost.

A line of the table is a method on a data set, or a method with one of its ingredients left out. For
each limit, a multiple of the time of a product with a vector, it has the best score of the settings
within the limit, the cost of that setting, and its parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kbench.papers.cells.runs import Runs, those_of
from kbench.papers.printed.layout import Selector, experiments_of, load, paper, selector
from kbench.report.comparisons.cells import describe_machine, title
from kbench.report.comparisons.quantities import Quantity, quantity
from kbench.report.comparisons.tables import Line, Machine, Problem
from kbench.report.sheet import Sheet


@dataclass(frozen=True)
class Budgets:
    """Lines by label, the paper's names of the data sets, and the limits of the cost."""

    name: str
    paper: str
    run: str
    data: Sequence[str]
    lines: Mapping[str, Selector]
    cost: Quantity
    limits: Sequence[float]
    score: Quantity


@cache
def budgets() -> tuple[Budgets, ...]:
    """All of them, in the order of the file."""
    return tuple(
        Budgets(
            **one
            | {
                "lines": {
                    label: Selector(kernel=paper(one["paper"]).kernel) & selector(**spelt)
                    for label, spelt in one["lines"].items()
                },
                "cost": quantity(one["cost"]),
                "score": quantity(one["score"]),
            }
        )
        for one in load("budgets.yaml")
    )


def sheet(budget: Budgets, runs: Runs, environments: Mapping[str, Any]) -> Sheet:
    """The lines that have runs, by data set."""
    columns = (budget.score.title, budget.cost.title, "setting")
    header = ["", *(f"≤ {limit:g}×, {name}" for limit in budget.limits for name in columns)]
    header.append("settings")
    machines: dict[Machine, int] = {}
    rows = []
    for machine in runs.machines:
        for name in budget.data:
            for label, wanted in budget.lines.items():
                problem, lines = _lines(budget, runs, machine, wanted, name)
                if problem is None:
                    continue
                mark = machines.setdefault(machine, len(machines) + 1)
                cells = [cell for limit in budget.limits for cell in _within(limit, lines, budget)]
                rows.append([f"{title(problem)}: {label} [{mark}]", *cells, str(len(lines))])
    unit = f"{budget.cost.title} counts in products Xw of as many rows with a vector."
    notes = [
        f"{unit} Of the settings, counted in the last column, the best on the test rows is shown."
    ]
    notes += [f"[{mark}] {describe_machine(m, environments)}" for m, mark in machines.items()]
    if not rows:
        notes = [f'No rows: run "kbench -m {budget.run}"']
    groups = [name.partition(",")[0] for name in header[1:]]  # those of `≤ 20×, accuracy`
    name = f"{budget.name}: what a budget for predictions buys"
    return Sheet(name, 1, header, rows, notes, groups)


def _lines(
    budget: Budgets, runs: Runs, machine: Machine, wanted: Selector, name: str
) -> tuple[Problem | None, list[Line]]:
    """The ok lines of the first data set with any, among those that stand for the paper's.

    Lines of the table's experiments where there are any, otherwise of any command.
    """
    experiments = experiments_of(budget.run)
    for choice in paper(budget.paper).data[name]:
        ok = [pair for pair in runs.lines(machine, wanted, choice, experiments) if pair[0].ok]
        if ok:
            shown = those_of(experiments, ok)
            return shown[0][1], [line for line, _ in shown]
    return None, []


def _within(limit: float, lines: Sequence[Line], budget: Budgets) -> list[str]:
    """Score, cost and setting of the best line within the limit; if none is, the least cost."""
    measured = []
    for line in lines:
        cost, score = line.mean_sd(budget.cost.column), line.mean_sd(budget.score.column)
        if cost is not None and score is not None:
            measured.append((cost[0], score[0], line))
    if not measured:
        return ["", "", ""]
    within = [point for point in measured if point[0] <= limit]
    if not within:
        return ["–", f"from {budget.cost.text(min(point[0] for point in measured))}", ""]
    paid, reached, line = max(within, key=lambda point: (budget.score.sign * point[1], -point[0]))
    return [budget.score.text(reached), budget.cost.text(paid), line.setting]
