"""Algorithm against implementation: the parts of a gain due to the paper's idea and to the code.

A system is a list of steps, from a common program to the paper's method. Its table has a line for
each problem and machine: for the paper's own setting if the last step and another one have ok runs
of it, otherwise for the setting that most steps have run. A second line has the medians over all
other settings, such as those of a grid. A part is the quotient of the costs of two steps, or of
phases of each: 5 means that the second costs a fifth.

One run stands for a step: that of the system's experiments, or the only one that matches. If
several match and these experiments do not tell which one counts, the step is left out and a note
says so.
"""

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kbench.papers.cells.cell_notes import clocks, ended_as, limits
from kbench.papers.cells.readings import mean_of, phase_seconds
from kbench.papers.cells.runs import Runs, those_of
from kbench.papers.printed.layout import Selector, experiments_of, load, paper, selector
from kbench.report.comparisons.cells import describe_machine, title
from kbench.report.comparisons.quantities import Quantity, decimals_for, quantity
from kbench.report.comparisons.tables import Comparison, Line, Machine
from kbench.report.sheet import Sheet

# The parameters in which steps agree, in words, and the line of each step.
Setting = tuple[str, dict[str, Line]]
# The values of these parameters -> step -> the lines that match it.
Matching = defaultdict[tuple[Any, ...], defaultdict[str, list[Line]]]


@dataclass(frozen=True)
class Part:
    """Two steps whose costs are divided, or the seconds of phases of the first and the second."""

    before: str
    after: str
    phases: tuple[Sequence[str], Sequence[str]] | None = None

    def __str__(self) -> str:
        if self.phases is None:
            return f"{self.before} over {self.after}"
        first, second = map(" and ".join, self.phases)
        return f"{self.before}, {first}, over {self.after}, {second}"


@dataclass(frozen=True)
class System:
    """Steps by label, the parameters in which they agree, and what is compared.

    `own` are tables whose settings are the paper's own; `kbench -m <run>` makes the rows. `without`
    are phases of the cost that no step needs, such as the validation that reports a score; `notes`
    say what the steps do not have in common.
    """

    name: str
    run: str
    steps: Mapping[str, Selector]
    same: Sequence[str]
    cost: Quantity
    score: Quantity
    parts: Mapping[str, Part]
    own: Sequence[str] = ()
    without: Sequence[str] = ()
    notes: Sequence[str] = ()

    def cost_of(self, line: Line) -> float | None:
        """The mean cost (`mean_of`); None where it was not measured, or cut short."""
        whole = mean_of(line, self.cost.column)
        if whole is None or not self.without:
            return whole and whole[0]
        phases = [phase_seconds(row, name) or 0.0 for row in line.ok for name in self.without]
        return whole[0] - math.fsum(phases) / len(line.ok) if line.ok else None


@cache
def systems() -> tuple[System, ...]:
    """All systems, in the order of the file."""
    return tuple(
        System(
            entry["name"],
            entry["run"],
            {
                label: selector(**entry.get("where", {})) & selector(**spelt)
                for label, spelt in entry["steps"].items()
            },
            entry["same"],
            quantity(entry["cost"]),
            quantity(entry["score"]),
            {label: _spelt(part) for label, part in entry["parts"].items()},
            entry.get("own", ()),
            entry.get("without", ()),
            entry.get("notes", ()),
        )
        for entry in load("systems.yaml")
    )


def _spelt(spelt: Sequence[str] | Mapping[str, Sequence[str]]) -> Part:
    """A part as the file spells it: two steps, or `steps`, and `phases` of each."""
    if not isinstance(spelt, Mapping):
        before, after = spelt
        return Part(before, after)
    (before, after), (first, second) = spelt["steps"], spelt["phases"]
    return Part(before, after, (first, second))


def sheet(system: System, runs: Runs, environments: Mapping[str, Any]) -> Sheet:
    """The lines of a system, ordered by data set."""
    met, left_out = _meetings(system, runs)
    ran = {step for _, settings in met for _, steps in settings for step in steps}
    shown = [step for step in system.steps if step in ran]
    header = ["data set", "setting"]
    for step in shown:
        header += [f"{step}, {system.cost.title}", f"{step}, {system.score.title}"]
    header += [f"× {part}" for part in system.parts] if met else []
    machines: dict[Machine, int] = {}
    rows = []
    ended: dict[str, None] = {}
    for comparison, ((words, steps), *others) in met:
        mark = machines.setdefault(comparison.machine, len(machines) + 1)
        line = [f"{title(comparison.problem)} [{mark}]", words]
        for step in shown:
            own = steps.get(step)
            line += [_cost(own, system), _text(own, system.score)]
            if own is not None and own.failures:
                ended |= dict.fromkeys(limits(own, comparison.problem))
        parts = system.parts.values()
        rows.append(line + [_ratio(_quotient(steps, part, system)) for part in parts])
        if others:
            line = ["… median of others", str(len(others)), *[""] * (2 * len(shown))]
            for part in parts:
                known = [_quotient(steps, part, system) for _, steps in others]
                line.append(_median([one for one in known if one is not None]))
            rows += [line] if any(line[2:]) else []
    words = "; ".join(f"{name}: {part}" for name, part in system.parts.items())
    notes = [f"× is {system.cost.title} of one step over that of another, {words}."]
    notes += system.notes if met else []
    if phases := ", ".join(system.without):
        notes.append(f"Seconds are without those of phases that no step needs: {phases}.")
    lines = [line for _, settings in met for line in settings[0][1].values()]
    for name in sorted({line.method for line in lines if isinstance(line.params.get("C"), list)}):
        notes += [f"{name} fits several C at once: seconds of all, the score of the best."]
    for comparison, (setting, *_) in met:
        for own in setting[1].values():
            notes += clocks(own, comparison.problem, [system.cost.column])
    if gone := [step for step in system.steps if step not in shown]:
        notes.append(f"Without runs at these settings: {', '.join(gone)}.")
    notes += ended
    notes += [f"[{mark}] {describe_machine(m, environments)}" for m, mark in machines.items()]
    if not rows:
        last = list(system.steps)[-1]
        lacking = f"No problem has ok runs of {last} and another step with the same settings"
        notes = [f'{lacking}: run "kbench -m {system.run}"']
    for (step, where), n_settings in left_out.items():
        ends = "s" if n_settings > 1 else ""
        notes.append(
            f"{step} on {where} is left out at {n_settings} setting{ends}, where several runs match"
            " and the paper's experiments do not tell which one counts."
        )
    return Sheet(f"{system.name}: algorithm against implementation", 2, header, rows, notes)


def matching(system: System, runs: Runs) -> list[tuple[Comparison, Matching]]:
    """All lines that match a step, by comparison, shared parameters and step.

    Of a step with lines of the system's experiments these alone.
    """
    experiments = experiments_of(system.run)
    found = []
    for comparison, lines in runs.meetings(system.steps, experiments):
        matches: Matching = defaultdict(lambda: defaultdict(list))
        for step, line in lines:
            for values in _values(system, line):
                matches[values][step].append(line)
        for by_step in matches.values():
            for step, several in by_step.items():
                pairs = [(line, comparison.problem) for line in several]
                by_step[step] = [line for line, _ in those_of(experiments, pairs)]
        found.append((comparison, matches))
    return found


def _meetings(
    system: System, runs: Runs
) -> tuple[list[tuple[Comparison, list[Setting]]], Counter[tuple[str, str]]]:
    """Where steps meet: comparison, and its settings, the one that stands for them first.

    Also, by step and data set, the number of settings at which several runs match.
    """
    last = list(system.steps)[-1]
    own = _own(system)
    met = []
    left_out: Counter[tuple[str, str]] = Counter()
    for comparison, matches in matching(system, runs):
        problem = comparison.problem
        settings = []
        for values, by_step in matches.items():
            steps = {step: lines[0] for step, lines in by_step.items() if len(lines) == 1}
            if last in by_step and len(by_step) > 1:
                where = title(problem)
                left_out.update((step, where) for step in by_step if step not in steps)
            ok = [step for step, line in steps.items() if line.ok]
            if len(ok) > 1 and last in ok:
                stated = (problem.dataset, problem.variant, values) in own
                settings.append((stated, len(ok), values, steps))
        settings.sort(key=lambda one: (not one[0], -one[1], str(one[2])))
        if settings:
            named = [(_words(system, values), steps) for _, _, values, steps in settings]
            met.append((comparison, named))
    return met, left_out


def _values(system: System, line: Line) -> list[tuple[Any, ...]]:
    """The settings of a line: one for each C of a fit; none if the method lacks a parameter."""
    values = [line.params.get(name) for name in system.same]
    spread = [value if isinstance(value, list) else [value] for value in values]
    return [] if None in values else list(itertools.product(*spread))


def _own(system: System) -> set[tuple[str, str | None, tuple[Any, ...]]]:
    """Data set, variant and values of the shared parameters, as the paper's tables have them."""
    settings = set()
    for name in system.own:
        of, _, table = name.partition("_")
        layout = paper(of).tables[table]
        for row, column in itertools.product(layout.rows.values(), layout.columns.values()):
            wanted = row & column
            for choice in paper(of).data[wanted.data] if wanted.data else ():
                params = {**wanted.params, **choice.params}
                if all(one in params for one in system.same):
                    values = tuple(params[one] for one in system.same)
                    settings.add((choice.dataset, choice.variant, values))
    return settings


def _words(system: System, values: Sequence[Any]) -> str:
    pairs = zip(system.same, values, strict=True)
    words = " ".join(f"{name}={_short(value)}" for name, value in pairs)
    return words or "each step its own"


def _cost(line: Line | None, system: System) -> str:
    cost = None if line is None else system.cost_of(line)
    return _text(line, system.cost) if cost is None else system.cost.text(cost)


def _text(line: Line | None, of: Quantity) -> str:
    """The mean, or the status of runs that failed."""
    if line is None:
        return ""
    measured = line.mean_sd(of.column)
    if measured is not None:
        return of.text(measured[0])
    return ended_as(line) if line.failures else ""


def _quotient(steps: Mapping[str, Line], part: Part, system: System) -> float | None:
    """The cost of one step, or of its phase, over that of another; None if one is not known."""
    if part.before not in steps or part.after not in steps:
        return None
    lines = steps[part.before], steps[part.after]
    if part.phases is None:
        before, after = map(system.cost_of, lines)
    else:
        before, after = map(_seconds_of, lines, part.phases)
    return None if before is None or not after else before / after


def _seconds_of(line: Line, phases: Sequence[str]) -> float | None:
    """The mean seconds of phases together; None if a run has none of them."""
    whole = []
    for row in line.ok:
        seconds = [phase_seconds(row, one) for one in phases]
        known = [one for one in seconds if one is not None]
        if not known:
            return None
        whole.append(math.fsum(known))
    return statistics.fmean(whole) if whole else None


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.{decimals_for(value, 2)}f}"


def _median(values: Sequence[float]) -> str:
    """The median, and the number of its values: not every step has run at every setting."""
    return f"{_ratio(statistics.median(values))} of {len(values)}" if values else ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
