"""Points of a figure's panels, read from rows and curves.

The points of a line are the settings of a method in the order of the parameters that differ, the
points of a curve, or one setting on data sets of several sizes. A front keeps only the settings
that no other setting of the method beats in both cost and score.
"""

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from kbench.papers.cells.readings import is_wall_seconds, least_seconds, mean_of
from kbench.papers.cells.runs import Runs, made_by, preference, version_of
from kbench.papers.figures.figure import AxisQuantity, Figure, Panel, PanelLine
from kbench.papers.printed.layout import Choice, paper
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.comparisons.tables import Line, Row, TimingConditions, contended
from kbench.report.statistics.fronts import pareto_indices

Point = tuple[float, float, float]  # x, y, standard deviation of y; in maps the value at (x, y)
Points = Mapping[str, Sequence[Point]]  # by the label of the line

# Why a line over wall seconds is not drawn.
DISTURBED = "other processes disturbed these wall seconds"


@dataclass(frozen=True)
class Drawn:
    """A panel with its points on one machine."""

    panel: Panel
    machine: TimingConditions
    data: str = ""  # The data set of kbench on which the points were measured
    # Label of a line -> its runs, a `Line` of rows for each setting.
    chosen: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    points: Points = field(default_factory=dict)  # Label of a line -> its points
    # Label -> points of runs that were stopped at their limit; the limit bounds y from below.
    stopped: Points = field(default_factory=dict)

    @cached_property
    def shown(self) -> dict[str, PanelLine]:
        """The lines that have points; empty if there is only one line, or only one setting."""
        lines, x = self.panel.lines, self.panel.x
        shown = {label: line for label, line in lines.items() if self.points.get(label)}
        abscissae = {point[0] for points in self.points.values() for point in points}
        compares = len(shown) >= (1 if self.panel.y.curve else min(2, len(lines)))
        sweeps = len(abscissae) > 1 or not (x.param or x.size)
        return shown if compares and sweeps else {}

    @property
    def n_runs(self) -> int:
        """Number of ok runs of the lines that have points."""
        return sum(len(_ok_rows(self.chosen[label])) for label in self.shown)

    @property
    def depends_on_machine(self) -> bool:
        """Whether a line that is drawn has seconds or memory on one of its axes."""
        return any(
            (line.x.depends_on_machine or line.y.depends_on_machine) and self.has(label)
            for label, line in self.panel.lines.items()
        )

    def has(self, label: str) -> bool:
        """Whether a line has points or runs that were stopped."""
        return bool(self.points.get(label) or self.stopped.get(label))

    @property
    def missing_lines(self) -> dict[str, str]:
        """Label of a line that is not drawn, or not completely -> the reason."""
        reasons = {}
        for label, line in self.panel.lines.items() if self.chosen else ():
            lines = self.chosen[label]
            failed = [match for match in lines if not match.ok]
            statuses = ", ".join(sorted({status for match in failed for status in match.failures}))
            if self.has(label):
                if failed and not self.stopped.get(label):
                    reasons[label] = f"{len(failed)} of {len(lines)} settings, {statuses}"
            elif len(failed) == len(lines):
                reasons[label] = statuses or "no rows"
            else:
                timed = any(map(is_wall_seconds, (*line.wanted.at, line.x.curve, line.y.curve)))
                disturbed = timed and all(map(contended, _ok_rows(lines)))
                reasons[label] = DISTURBED if disturbed else "no values"
        return reasons

    @property
    def n_contended(self) -> int:
        """Number of ok runs that other processes disturbed, of lines with seconds on an axis."""
        timed = [key for key, line in self.panel.lines.items() if line.x.timed or line.y.timed]
        return sum(contended(row) for label in timed for row in _ok_rows(self.chosen[label]))


def drawn_panels(figure: Figure, runs: Runs, machine: TimingConditions) -> list[Drawn]:
    """The panels with points on a machine, or with lines that are left out as disturbed.

    A panel shows the first data set on which most lines have points. With sizes as abscissae each
    line has a point for each data set that stands for the paper's.
    """
    panels = []
    for panel in figure.panels:
        choices = paper(figure.paper).data[panel.data]
        sets = [choices] if panel.x.size else [(choice,) for choice in choices]
        candidates = (_drawn_over_sets(figure, panel, runs, machine, choices) for choices in sets)
        panels.append(max(candidates, key=lambda panel: (len(panel.shown), len(panel.chosen))))
    return [panel for panel in panels if panel.shown or DISTURBED in panel.missing_lines.values()]


def _drawn_over_sets(
    figure: Figure, panel: Panel, runs: Runs, machine: TimingConditions, choices: Sequence[Choice]
) -> Drawn:
    """A panel with the runs on one data set, or on several if the abscissae are sizes."""
    chosen = {
        label: _runs_of(figure, line, runs, machine, choices) for label, line in panel.lines.items()
    }
    problems = [line.problem for lines in chosen.values() for line in lines]
    if not problems:
        return Drawn(panel, machine)
    points: dict[str, list[Point]] = {}
    stopped: dict[str, list[Point]] = {}
    # The row of a stopped run has no size, so the size comes from other runs on its data set.
    sizes = {
        (problem.dataset, problem.variant): float(size)
        for problem in problems
        if panel.x.size and (size := getattr(problem, panel.x.size)) is not None
    }
    for label, line in panel.lines.items():
        if panel.x.size:
            points[label], stopped[label] = _points_over_sizes(line.y, chosen[label], sizes)
        else:
            ordered = sorted(chosen[label], key=lambda match: _swept_values(line, match))
            point_lists = (sorted(_points(figure, line, match, runs)) for match in ordered)
            points[label] = list(itertools.chain.from_iterable(point_lists))
            if points[label] and points[label][0] > points[label][-1]:
                points[label].reverse()
        if figure.front:
            points[label] = sorted(points[label])
            pairs = [(cost, score) for cost, score, _ in points[label]]
            front = pareto_indices(pairs, QUANTITIES[panel.y.column].sign)
            points[label] = [points[label][i] for i in front]
    if panel.excess:
        points = _excess(points)
    data = choices[0].dataset if panel.x.size else title(problems[0])
    return Drawn(panel, machine, data, chosen, points, stopped)


def _runs_of(
    figure: Figure,
    line: PanelLine,
    runs: Runs,
    machine: TimingConditions,
    choices: Sequence[Choice],
) -> list[Line]:
    """The runs of a line from the figure's experiments: of one setting, or of all for a front."""
    lines_by_choice = (runs.lines(machine, line.wanted, choice) for choice in choices)
    lines = itertools.chain.from_iterable(lines_by_choice)
    if figure.front:
        return [candidate for candidate in lines if made_by(line.wanted.experiments, candidate)]
    return _lines_of_one_setting(lines, line)


def _lines_of_one_setting(lines: Iterable[Line], panel_line: PanelLine) -> list[Line]:
    """The runs of one setting and one version of the method, of which the experiments made some.

    The runs differ only in the swept parameters and in the data set. Other commands may have made
    some of the runs: a run that exists is not repeated, and its row names the experiment of the
    first command. Settings are compared by the version of the method, then by the number of points,
    then by `preference`, which also chooses among lines of equal parameters and data set.
    """
    settings: defaultdict[tuple[int, str], list[Line]] = defaultdict(list)
    for line in lines:
        fixed = {name: value for name, value in line.params.items() if name not in panel_line.swept}
        settings[version_of(line), json.dumps(fixed, sort_keys=True)].append(line)

    def order(members: Sequence[Line]) -> tuple[Any, ...]:
        n_ok = sum(bool(line.ok) for line in members)
        return n_ok > 0, version_of(members[0]), n_ok, max(map(preference, members))

    experiments = panel_line.wanted.experiments
    candidates = [s for s in settings.values() if any(made_by(experiments, line) for line in s)]
    members = max(candidates, key=order) if candidates else []
    by_task = {
        (line.problem.dataset, line.problem.variant, json.dumps(line.params, sort_keys=True)): line
        for line in sorted(members, key=preference)
    }
    return list(by_task.values())


def _swept_values(panel_line: PanelLine, line: Line) -> list[float]:
    """The numerical values of the parameters in which the settings of a line differ."""
    values = (line.params.get(name) for name in sorted(panel_line.swept))
    return [float(value) for value in values if isinstance(value, (int, float))]


def _ok_rows(lines: Iterable[Line]) -> list[Row]:
    return [row for line in lines for row in line.ok]


def _points_over_sizes(
    y: AxisQuantity, lines: Iterable[Line], sizes: Mapping[Any, float]
) -> tuple[list[Point], list[Point]]:
    """Points (size, mean), and points (size, lower bound of seconds) of stopped runs."""
    points: list[Point] = []
    stopped: list[Point] = []
    for line in lines:
        size = sizes.get((line.problem.dataset, line.problem.variant))
        if size is None:
            continue
        bound = least_seconds(line) if y.column == "fit_s" else None
        if bound is not None:
            stopped.append((size, bound, 0.0))
        elif mean := _mean_sd(y, line):
            points.append((size, *mean))
    return sorted(points), stopped


def _points(figure: Figure, panel_line: PanelLine, line: Line, runs: Runs) -> list[Point]:
    """The points of one setting of a line."""
    x, y = panel_line.x, panel_line.y
    if figure.image:
        values = [value for (value,) in runs.points(line.ok, y.curve)]
        side = math.isqrt(len(values))
        square = values if side * side == len(values) else ()
        return [(i % side, i // side, value) for i, value in enumerate(square)]
    if y.curve:
        return _points_of_curves(panel_line, line, runs)
    if (ordinate := _mean_sd(y, line)) is None:
        return []
    if figure.heat:
        scores: defaultdict[float, list[float]] = defaultdict(list)
        for row in line.ok:
            for abscissa, score in runs.points_over(row, x.curve, figure.heat):
                scores[abscissa].append(score * QUANTITIES[figure.heat].factor)
        return [(abscissa, ordinate[0], fmean(values)) for abscissa, values in scores.items()]
    mean_x = _mean_sd(x, line)
    return [] if mean_x is None else [(mean_x[0], *ordinate)]


def _points_of_curves(panel_line: PanelLine, line: Line, runs: Runs) -> list[Point]:
    """Points at which the curves `at` have the selected values, numbered if x is not a curve."""
    x, y, at = panel_line.x, panel_line.y, panel_line.wanted.at
    names = [*at, *([x.curve] if x.curve else []), y.curve]
    points = [
        point[len(at) :]
        for point in runs.points(line.ok, *names)
        if point[: len(at)] == tuple(at.values())
    ]
    if x.curve:
        return [(abscissa, value * y.factor, 0.0) for abscissa, value in points]
    return [(float(i), value * y.factor, 0.0) for i, (value,) in enumerate(points, start=1)]


def _mean_sd(axis: AxisQuantity, line: Line) -> tuple[float, float] | None:
    """Mean and standard deviation (0 for one run) of a line, in the unit of the axis."""
    if axis.param:
        value = line.params.get(axis.param)
        return (float(value), 0.0) if isinstance(value, (int, float)) and line.ok else None
    if (measured := mean_of(line, axis.column)) is None:
        return None
    return measured[0] * axis.factor, (measured[1] or 0.0) * axis.factor


def _excess(points: Points) -> dict[str, list[Point]]:
    """(y - best) / |best|, without the best point, whose difference 0 has no logarithm."""
    values = [y for line in points.values() for _, y, _ in line]
    best = min(values, default=0.0)
    return {
        label: [(x, (y - best) / abs(best), 0.0) for x, y, _ in line if y > best]
        for label, line in points.items()
    }
