"""Two studies of kbench's own: algorithm against implementation, and budgets for predictions.

*Algorithm against implementation* divides a speed-up into what the paper's idea and what the code
contributes. A system is a list of steps, from a common program to the paper's method. Its table has
a line for each problem and machine on which the last step and at least one other step have ok runs
with the same setting: the paper's own setting if the steps have run it, otherwise the setting that
most steps have run. A second line has the medians over all other settings, such as a grid. A part
is the quotient of the costs of two steps, or of phases of each: 5 means that the second step costs
a fifth of the first. A step is one line of rows from the system's experiments, or from any command
if these have none; cells prefer the same line (`kbench.papers.cells.runs.preference`). A part is a
gain only if the second step's score is about as good (`_gain`); a star marks other parts, and
medians leave them out. The last line has the median over data sets, each with its most rows.

A *budget* is a limit of the cost of predictions, a multiple of the time of a product with a vector.
A line of the table is a method on a data set, or a method with one of its ingredients left out. For
each limit the line has the best score of the settings within the limit, the cost of that setting,
and its parameters.
"""

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kbench.papers.cells.cell_notes import failure_notes, is_timed, status_text, timing_notes
from kbench.papers.cells.readings import mean_of, phases_of
from kbench.papers.cells.runs import Runs, made_by, preference, preferred_lines, preferred_rows
from kbench.papers.printed.causes import MAX_RELATIVE
from kbench.papers.printed.layout import (
    Choice,
    Selector,
    experiments_of,
    load,
    measure,
    paper,
    selector,
)
from kbench.report.comparisons.cells import describe_machine, title
from kbench.report.comparisons.quantities import Quantity, decimals_for, quantity
from kbench.report.comparisons.tables import (
    Comparison,
    Line,
    Row,
    TimingConditions,
    comparisons,
    measured,
)
from kbench.report.sheet import Sheet

# The last line of a system's table.
OVER_SETS = "median over data sets"

# A score counts as about as good if it is worse by at most this many points of accuracy, as in
# DC-SVM's section 5.4; other scores may be worse by `MAX_RELATIVE`. Set by hand.
MAX_LOSS = 1.0

# The parameters in which steps agree, in words, and the line of each step.
Setting = tuple[str, dict[str, Line]]
# Comparisons with their settings, the main setting first.
Compared = Sequence[tuple[Comparison, list[Setting]]]
# A row of a sheet, and the machine to name in it; None in rows that name no machine.
MachineRow = tuple[TimingConditions | None, list[str]]


@dataclass(frozen=True)
class CostRatio:
    """Two steps whose costs are divided, or the seconds of phases of the first and the second."""

    before: str
    after: str
    phases: Sequence[Sequence[str]] | None = None

    def __str__(self) -> str:
        if self.phases is None:
            return f"{self.before} ÷ {self.after}"
        first, second = map(" and ".join, self.phases)
        return f"{first} of {self.before} ÷ {second} of {self.after}"


@dataclass(frozen=True)
class System:
    """Steps by label, the parameters in which they agree, and what is compared.

    `own` are experiments whose settings are the paper's own; `kbench -m <run>` makes the rows.
    `without` are phases of the cost that no step needs, such as the validation that reports a
    score; `notes` say what the steps do not have in common.
    """

    name: str
    run: str
    steps: Mapping[str, Selector]
    same: Sequence[str]
    cost: Quantity
    score: Quantity
    parts: Mapping[str, CostRatio]
    own: Sequence[str] = ()
    without: Sequence[str] = ()
    notes: Sequence[str] = ()

    def cost_of(self, line: Line) -> float | None:
        """The mean cost (`mean_of`); None if it was not measured, or was cut short.

        If `without` names phases, runs whose phases are not known are left out.
        """
        whole = mean_of(line, self.cost.column)
        if whole is None or not self.without:
            return whole and whole[0]
        costs = [
            cost - math.fsum(phases.get(name, 0.0) for name in self.without)
            for row in line.ok
            if (cost := measured(row, self.cost.column)) is not None
            and (phases := phases_of(row)) is not None
        ]
        return statistics.fmean(costs) if costs else None


@cache
def systems() -> tuple[System, ...]:
    """All systems, in the order of the file; `where` selects what their steps have in common."""
    result = []
    for entry in map(dict, load("systems.yaml")):
        common = selector(run=entry["run"], **entry.pop("where", {}))
        entry["steps"] = {name: common & selector(**step) for name, step in entry["steps"].items()}
        entry["parts"] = {name: CostRatio(*part) for name, part in entry["parts"].items()}
        entry |= {name: quantity(entry[name]) for name in ("cost", "score")}
        result.append(System(**entry))
    return tuple(result)


def system_sheet(system: System, runs: Runs, environments: Mapping[str, Any]) -> Sheet:
    """The table of a system: the main setting of each problem, then medians over other settings."""
    compared = compared_steps(system, runs)
    present = {step for _, settings in compared for _, steps in settings for step in steps}
    shown = [step for step in system.steps if step in present]
    header = ["data set", "setting"]
    for step in shown:
        header += [f"{step}, {system.cost.title}", f"{step}, {system.score.title}"]
    header += [f"× {part}" for part in system.parts] if compared else []
    parts = system.parts.values()
    rows: list[MachineRow] = []
    for comparison, ((setting, steps), *others) in compared:
        costs_and_scores: list[str] = []
        for line in map(steps.get, shown):
            cost = None if line is None else system.cost_of(line)
            shown_cost = _mean_text(line, system.cost) if cost is None else system.cost.text(cost)
            costs_and_scores += [shown_cost, _mean_text(line, system.score)]
        ratios = [_starred_ratio(steps, part, system) for part in parts]
        data = title(comparison.problem)
        rows.append((comparison.machine, [data, setting, *costs_and_scores, *ratios]))
        gains = [[_gain(steps, part, system) for _, steps in others] for part in parts]
        medians = [_median_text([q for q in part if q is not None], len(others)) for part in gains]
        if any(medians):
            blank = [""] * len(costs_and_scores)
            rows.append((None, [f"… median of {len(others)} others", "", *blank, *medians]))
    if rows:
        blank = [""] * (len(header) - 2 - len(parts))
        medians = [_median_over_sets(compared, part, system) for part in parts]
        rows.append((None, [OVER_SETS, "", *blank, *medians]))
    notes = _notes(system, compared, runs)
    if missing := [step for step in system.steps if step not in shown]:
        notes.append(f"Without runs at these settings: {', '.join(missing)}.")
    if not rows:
        lacking = f"No problem has ok runs of {list(system.steps)[-1]} and another step"
        notes = [f'{lacking} with the same settings: run "kbench -m {system.run}"']
    name = f"{system.name}: algorithm against implementation"
    return _with_machines(Sheet(name, 2, header, [], notes), rows, environments)


def _with_machines(
    sheet: Sheet, rows: Sequence[MachineRow], environments: Mapping[str, Any]
) -> Sheet:
    """The sheet with rows that name the number of their machine; the last notes describe these."""
    machines = dict.fromkeys(machine for machine, _ in rows if machine is not None)
    marks = {machine: f"[{index}]" for index, machine in enumerate(machines, start=1)}
    texts = [
        [first if machine is None else f"{first} {marks[machine]}", *rest]
        for machine, (first, *rest) in rows
    ]
    described = (f"{mark} {describe_machine(m, environments)}" for m, mark in marks.items())
    groups = [name.partition(",")[0] for name in sheet.header[1:]]  # the step of `a step, fit s`
    return replace(sheet, rows=texts, notes=[*sheet.notes, *described], groups=groups)


def _notes(system: System, compared: Compared, runs: Runs) -> list[str]:
    """Notes on the parts, on differences between steps, and on failed and disturbed runs."""
    definitions = "; ".join(f"{name} = {part}" for name, part in system.parts.items())
    notes = [f"× columns are quotients of {system.cost.title} of two steps: {definitions}."]
    if compared:
        title = system.score.title
        allowed = f"{MAX_LOSS:g} point" if title.endswith("%") else f"{MAX_RELATIVE:.0%}"
        notes.append(
            f"*: the second step's {title} is not known, or worse by more than {allowed}. Such"
            " quotients do not count as gains, and medians leave them out. The last line counts"
            " each data set once, with its largest number of training rows."
        )
    notes += system.notes if compared else []
    if phases := ", ".join(system.without):
        notes.append(f"Seconds are without those of phases that no step needs: {phases}.")
    lines = [line for _, settings in compared for line in settings[0][1].values()]
    for name in sorted({line.method for line in lines if isinstance(line.params.get("C"), list)}):
        notes.append(f"{name} fits several C at once: seconds of all, the score of the best.")
    left_out = sum(phases_of(row) is None for line in lines for row in line.ok)
    of_phases = system.without or any(part.phases for part in system.parts.values())
    if of_phases and left_out:
        notes.append(f"{left_out} runs whose phases were not measured, or disturbed, are left out.")
    cost = measure("", of=system.cost.column)
    for line in lines:
        notes += timing_notes(line, cost)
    if is_timed(cost):
        notes += runs.days.notes(row for line in lines for row in line.rows)
    ended = [note for line in lines if line.failures for note in failure_notes(line)]
    return notes + list(dict.fromkeys(ended))


def compared_steps(system: System, runs: Runs) -> list[tuple[Comparison, list[Setting]]]:
    """Comparisons in which the last step and another step have ok runs with the same setting.

    Each comparison comes with its settings, the main setting first, and the line of each step.
    """
    experiments = experiments_of(system.run)
    steps_of: defaultdict[int, list[str]] = defaultdict(list)  # by id: lines keep the row objects
    rows: list[Row] = []
    for machine, dataset, variant in runs.machine_problems:
        choice, step_rows = Choice(dataset, variant), {}
        for step, wanted in system.steps.items():
            for row in runs.matching(machine, wanted, choice):
                step_rows[id(row)] = row
                steps_of[id(row)].append(step)
        rows += preferred_rows(experiments, list(step_rows.values()))
    last, compared = list(system.steps)[-1], []
    for comparison in comparisons(rows):
        matches: defaultdict[tuple[Any, ...], dict[str, Line]] = defaultdict(dict)
        # Rows of a line match the same steps; the last of several lines stands for a step.
        for line in sorted(
            comparison.lines, key=lambda line: (made_by(experiments, line), preference(line))
        ):
            for values in _line_settings(system, line):
                matches[values] |= dict.fromkeys(steps_of[id(line.rows[0])], line)
        settings = []
        for values, steps in sorted(matches.items(), key=lambda item: str(item[0])):
            n_ok = sum(bool(line.ok) for line in steps.values())
            if n_ok > 1 and last in steps and steps[last].ok:
                is_of_paper = any(made_by(system.own, line) for line in steps.values())
                settings.append((not is_of_paper, -n_ok, _setting_text(system, values), steps))
        if settings:
            settings.sort(key=lambda setting: setting[:2])
            compared.append((comparison, [(text, steps) for *_, text, steps in settings]))
    return compared


def _line_settings(system: System, line: Line) -> list[tuple[Any, ...]]:
    """The settings of a line: one for each C of a fit, none if the method lacks a parameter."""
    values = [line.params.get(name) for name in system.same]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [] if None in values else list(itertools.product(*lists))


def _setting_text(system: System, values: Sequence[Any]) -> str:
    texts = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in values)
    return " ".join(map("=".join, zip(system.same, texts, strict=True))) or "each step its own"


def _mean_text(line: Line | None, quantity: Quantity) -> str:
    """The mean; if there is none, how failed runs ended."""
    if line is None:
        return ""
    measured = line.mean_sd(quantity.column)
    if measured is not None:
        return quantity.text(measured[0])
    return status_text(line) if line.failures else ""


def _quotient(steps: Mapping[str, Line], part: CostRatio, system: System) -> float | None:
    """The cost of a step or phase divided by another's; None if one is unknown, or the other 0."""
    if part.before not in steps or part.after not in steps:
        return None
    lines = steps[part.before], steps[part.after]
    if part.phases is None:
        before, after = map(system.cost_of, lines)
    else:
        before, after = map(_seconds_of, lines, part.phases)
    return None if before is None or not after else before / after


def _gain(steps: Mapping[str, Line], part: CostRatio, system: System) -> float | None:
    """The quotient of a part if the second step's score is known and about as good."""
    quotient, score = _quotient(steps, part, system), system.score
    if quotient is None:
        return None
    first, second = (steps[name].mean_sd(score.column) for name in (part.before, part.after))
    if first is None or second is None:
        return None
    percent = score.title.endswith("%")
    allowed = MAX_LOSS if percent else MAX_RELATIVE * abs(first[0]) * score.factor
    loss = score.sign * (first[0] - second[0]) * score.factor
    return quotient if loss <= allowed + 1e-9 else None  # guard against rounding of the loss


def _starred_ratio(steps: Mapping[str, Line], part: CostRatio, system: System) -> str:
    """The quotient of a part; a star marks one that does not count as a gain."""
    text = _ratio_text(_quotient(steps, part, system))
    return f"{text}*" if text and _gain(steps, part, system) is None else text


def _median_over_sets(compared: Compared, part: CostRatio, system: System) -> str:
    """The median gain over data sets, and how many of the data sets with a quotient have a gain."""
    gains: dict[str, float | None] = {}
    for comparison, ((_, steps), *_) in sorted(
        compared, key=lambda c: -(c[0].problem.n_train or 0)
    ):
        if _quotient(steps, part, system) is not None:
            gains.setdefault(comparison.problem.dataset, _gain(steps, part, system))
    valid = [gain for gain in gains.values() if gain is not None]
    if not valid:
        return f"none of {len(gains)} sets" if gains else ""
    n_sets = f"{len(valid)} of {len(gains)}" if len(valid) < len(gains) else f"{len(valid)}"
    return f"{_ratio_text(statistics.median(valid))} over {n_sets} sets"


def _seconds_of(line: Line, phases: Sequence[str]) -> float | None:
    """The mean seconds of `phases` over runs with known phases; None if no run has them."""
    per_row = [seconds for row in line.ok if (seconds := phases_of(row)) is not None]
    if not per_row or any(set(phases).isdisjoint(seconds) for seconds in per_row):
        return None
    return statistics.fmean(
        math.fsum(seconds.get(name, 0.0) for name in phases) for seconds in per_row
    )


def _ratio_text(value: float | None) -> str:
    return "" if value is None else f"{value:.{decimals_for(value, 2)}f}"


def _median_text(gains: Sequence[float], n_settings: int) -> str:
    """The median of gains, and their number where some of `n_settings` settings have no gain."""
    if not gains:
        return ""
    middle = _ratio_text(statistics.median(gains))
    return middle if len(gains) == n_settings else f"{middle} ({len(gains)} settings)"


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
    """All budgets, in the order of the file."""
    result = []
    for entry in load("budgets.yaml"):
        common = selector(run=entry["run"], kernel=paper(entry["paper"]).kernel)
        lines = {label: common & selector(**step) for label, step in entry["lines"].items()}
        quantities = {name: quantity(entry[name]) for name in ("cost", "score")}
        result.append(Budgets(**{**entry, **quantities, "lines": lines}))
    return tuple(result)


def budget_sheet(budget: Budgets, runs: Runs, environments: Mapping[str, Any]) -> Sheet:
    """The lines that have runs, by data set."""
    columns = (budget.score.title, budget.cost.title, "setting")
    header = ["", *(f"≤ {limit:g}×, {name}" for limit in budget.limits for name in columns)]
    header.append("settings")
    rows: list[MachineRow] = []
    selections = itertools.product(runs.machines, budget.data, budget.lines.items())
    for machine, name, (label, wanted) in selections:
        if lines := _ok_lines(budget, runs, machine, wanted, name):
            cells = [cell for limit in budget.limits for cell in _best_within(limit, lines, budget)]
            method = f"{title(lines[0].problem)}: {label}"
            rows.append((machine, [method, *cells, str(len(lines))]))
    unit = f"{budget.cost.title} counts in products Xw of as many rows with a vector."
    notes = [
        f"{unit} Of the settings, which the last column counts, the best on test rows is shown."
    ]
    if not rows:
        notes = [f'No rows: run "kbench -m {budget.run}"']
    name = f"{budget.name}: what a budget for predictions buys"
    return _with_machines(Sheet(name, 1, header, [], notes), rows, environments)


def _ok_lines(
    budget: Budgets, runs: Runs, machine: TimingConditions, wanted: Selector, name: str
) -> list[Line]:
    """The ok lines of the first choice of data that has any, for the paper's data set `name`.

    The lines come from the table's experiments if possible, otherwise from any command.
    """
    for choice in paper(budget.paper).data[name]:
        ok = [line for line in runs.lines(machine, wanted, choice) if line.ok]
        if ok:
            return preferred_lines(wanted.experiments, ok)
    return []


def _best_within(limit: float, lines: Sequence[Line], budget: Budgets) -> list[str]:
    """Score, cost and setting of the best line within the limit; without any, the least cost."""
    points = []
    for line in lines:
        cost, score = line.mean_sd(budget.cost.column), line.mean_sd(budget.score.column)
        if cost is not None and score is not None:
            points.append((cost[0], score[0], line))
    if not points:
        return ["", "", ""]
    within = [point for point in points if point[0] <= limit]
    if not within:
        return ["–", f"from {budget.cost.text(min(point[0] for point in points))}", ""]
    best = max(within, key=lambda point: (budget.score.sign * point[1], -point[0]))
    return [budget.score.text(best[1]), budget.cost.text(best[0]), best[2].setting]
