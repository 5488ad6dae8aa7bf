"""Algorithm against implementation: how much of a gain is a paper's idea, how much faster code.

A system is a list of steps, from a usual program to the paper's method. A line of its table is one
problem, machine and setting on which the last step and another one have ok runs; a part is the cost
of one step over that of another, so 5 is five times less.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kbench.report.cells import describe_machine, title
from kbench.report.papers.layout import Selector, load, selector
from kbench.report.papers.runs import Runs, preference
from kbench.report.quantities import Quantity, decimals_for, quantity
from kbench.report.tables import Comparison, Line, Machine
from kbench.report.versus import Sheet


@dataclass(frozen=True)
class System:
    """Steps by label, the parameters in which they agree, and what is compared."""

    name: str
    steps: Mapping[str, Selector]
    same: Sequence[str]
    cost: Quantity
    score: Quantity
    parts: Mapping[str, tuple[str, str]]


@cache
def systems() -> tuple[System, ...]:
    """All systems, in the order of the file."""
    return tuple(
        System(
            one["name"],
            {label: selector(**spelt) for label, spelt in one["steps"].items()},
            one["same"],
            quantity(one["cost"]),
            quantity(one["score"]),
            {label: (before, after) for label, (before, after) in one["parts"].items()},
        )
        for one in load("systems.yaml")
    )


def sheet(system: System, runs: Runs, environments: Mapping[str, Any]) -> Sheet:
    """The lines of a system, ordered by data set."""
    costs = [f"{step}, {system.cost.title}" for step in system.steps]
    scores = [f"{step}, {system.score.title}" for step in system.steps]
    columns = [name for pair in zip(costs, scores, strict=True) for name in pair]
    header = ["data set", *columns, *(f"× {part}" for part in system.parts)]
    last = list(system.steps)[-1]
    machines: dict[Machine, int] = {}
    rows = []
    for comparison, shared, steps in _meetings(system, runs):
        mark = machines.setdefault(comparison.machine, len(machines) + 1)
        line = [f"{title(comparison.problem)} {shared} [{mark}]"]
        for step in system.steps:
            own = steps.get(step)
            line += [_text(own, system.cost), _text(own, system.score)]
        for before, after in system.parts.values():
            line.append(_part(steps.get(before), steps.get(after), system.cost))
        rows.append(line)
    parts = "; ".join(f"{part}: {a} over {b}" for part, (a, b) in system.parts.items())
    notes = [f"× is {system.cost.title} of one step over that of another, {parts}."]
    notes += [f"[{mark}] {describe_machine(m, environments)}" for m, mark in machines.items()]
    if not rows:
        notes = [f"No problem has ok runs of {last} and another step with the same settings."]
    return Sheet(f"{system.name}: algorithm against implementation", 1, header, rows, notes)


def _meetings(system: System, runs: Runs) -> list[tuple[Comparison, str, dict[str, Line]]]:
    """Where steps meet: comparison, the shared setting in words, step -> its line."""
    labels = {method: step for step, one in system.steps.items() for method in one.methods}
    last = list(system.steps)[-1]
    met = []
    for comparison in runs.comparisons(labels):
        by_setting: defaultdict[str, dict[str, Line]] = defaultdict(dict)
        for line in comparison.lines:
            if not line.ok or any(name not in line.params for name in system.same):
                continue
            shared = {name: line.params[name] for name in system.same}
            steps = by_setting[json.dumps(shared)]
            step = labels[line.method]
            if step not in steps or preference(line) > preference(steps[step]):
                steps[step] = line
        for text, steps in sorted(by_setting.items()):
            words = " ".join(f"{name}={value}" for name, value in json.loads(text).items())
            if len(steps) > 1 and last in steps:
                met.append((comparison, words, steps))
    return met


def _text(line: Line | None, of: Quantity) -> str:
    measured = None if line is None else line.mean_sd(of.column)
    return "" if measured is None else of.text(measured[0])


def _part(before: Line | None, after: Line | None, of: Quantity) -> str:
    values = [None if line is None else line.mean_sd(of.column) for line in (before, after)]
    if values[0] is None or values[1] is None or not values[1][0]:
        return ""
    ratio = values[0][0] / values[1][0]
    return f"{ratio:.{decimals_for(ratio, 2)}f}"
