"""Points of a figure's panels, read from rows and curves.

The points of a line are the settings of a method in the order of the abscissa, the points of a
curve, or one setting on data sets of several sizes. A front keeps only the settings that no other
setting of the method beats in both cost and score.
"""

import json
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Any

from kbench.papers.cells.readings import column, least_seconds, mean_of, of_wall_seconds
from kbench.papers.cells.runs import Runs, made_by, preference, version_of
from kbench.papers.figures.figure import Axis, Figure, Panel, PanelLine
from kbench.papers.printed.layout import Choice, paper
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.comparisons.tables import Line, Machine, Problem, contended, mean_sd

Point = tuple[float, float, float]  # x, y, standard deviation of y; in maps the value at (x, y)
Points = Mapping[str, Sequence[Point]]  # by the label of the line
# The runs of a line: a `Line` for each setting, and the problem that it is of.
Pairs = Sequence[tuple[Line, Problem]]

# Why a line over wall seconds is not drawn.
DISTURBED = "other processes disturbed these wall seconds"


@dataclass(frozen=True)
class Drawn:
    """A panel with its points on one machine.

    Attributes
    ----------
    panel : Panel
    machine : Machine
    data : str
        The data set of kbench that the points are of.
    chosen : mapping
        Label of a line -> its runs.
    points : mapping
        Label of a line -> its points.
    stopped : mapping
        Label -> runs that were stopped at their limit: the abscissa, and the least seconds they
        take.
    """

    panel: Panel
    machine: Machine
    data: str = ""
    chosen: Mapping[str, Pairs] = field(default_factory=dict)
    points: Points = field(default_factory=dict)
    stopped: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    @cached_property
    def shown(self) -> dict[str, PanelLine]:
        """The lines that have points; none where one line would be alone, or one setting."""
        lines, x = self.panel.lines, self.panel.x
        shown = {label: line for label, line in lines.items() if self.points.get(label)}
        abscissae = {point[0] for points in self.points.values() for point in points}
        compares = len(shown) >= (1 if self.panel.y.curve else min(2, len(lines)))
        sweeps = len(abscissae) > 1 or not (x.param or x.size)
        return shown if compares and sweeps else {}

    @property
    def n_runs(self) -> int:
        """Number of ok runs of the lines that have points."""
        return sum(len(line.ok) for label in self.shown for line, _ in self.chosen[label])

    @property
    def depends_on_machine(self) -> bool:
        """Whether a line that is drawn has seconds or memory on one of its axes."""
        return any(
            (line.x.depends_on_machine or line.y.depends_on_machine)
            and (self.points.get(label) or self.stopped.get(label))
            for label, line in self.panel.lines.items()
        )

    @property
    def lacking(self) -> dict[str, str]:
        """Label of a line that is not drawn -> why it is not."""
        return {
            label: _why_not_drawn(line, self.chosen[label])
            for label, line in self.panel.lines.items()
            if self.chosen and not self.points[label] and not self.stopped.get(label)
        }

    @property
    def n_contended(self) -> int:
        """Number of ok runs that other processes disturbed, of lines with seconds on an axis."""
        timed = [label for label, one in self.panel.lines.items() if one.x.seconds or one.y.seconds]
        return sum(contended(row) for label in timed for row in _ok(self.chosen[label]))


def drawn(figure: Figure, runs: Runs, machine: Machine) -> list[Drawn]:
    """The panels with points on a machine, or with lines that are left out as disturbed.

    Each is of the first data set on which most lines have points. With sizes as abscissae each line
    has a point for each data set that stands for the paper's.
    """
    panels = []
    for panel in figure.panels:
        choices = paper(figure.paper).data[panel.data]
        sets = [choices] if panel.x.size else [(choice,) for choice in choices]
        made = [_of_sets(figure, panel, runs, machine, several) for several in sets]
        panels += [max(made, key=lambda one: (len(one.shown), len(one.chosen)))] if made else []
    return [one for one in panels if one.shown or DISTURBED in one.lacking.values()]


def _of_sets(
    figure: Figure, panel: Panel, runs: Runs, machine: Machine, choices: Sequence[Choice]
) -> Drawn:
    chosen = {
        label: _choose(figure, line, runs, machine, choices) for label, line in panel.lines.items()
    }
    problems = [problem for pairs in chosen.values() for _, problem in pairs]
    if not problems:
        return Drawn(panel, machine)
    stopped: dict[str, Sequence[tuple[float, float]]] = {}
    if panel.x.size:
        # The row of a stopped run has no size; the other runs on its data set have it.
        sizes = {
            (one.dataset, one.variant): float(size)
            for one in problems
            if (size := getattr(one, panel.x.size)) is not None
        }
        ys = {label: panel.lines[label].y for label in chosen}
        points = {label: _over_sizes(ys[label], pairs, sizes) for label, pairs in chosen.items()}
        stopped = {label: _stopped(ys[label], pairs, sizes) for label, pairs in chosen.items()}
    else:
        points = {
            label: sorted(
                point for one, _ in chosen[label] for point in _points(figure, line, one, runs)
            )
            for label, line in panel.lines.items()
        }
    if figure.front:
        points = {label: _front(several, panel.y) for label, several in points.items()}
    if panel.excess:
        points = _excess(points)
    data = choices[0].dataset if panel.x.size else title(problems[0])
    return Drawn(panel, machine, data, chosen, points, stopped)


def _choose(
    figure: Figure, line: PanelLine, runs: Runs, machine: Machine, choices: Sequence[Choice]
) -> Pairs:
    """The runs of a line, made by the figure's experiments: of one setting, or all for a front."""
    experiments = figure.experiments
    pairs = [
        pair for choice in choices for pair in runs.lines(machine, line.wanted, choice, experiments)
    ]
    if figure.front:
        return [pair for pair in pairs if made_by(experiments, pair[0])]
    return _of_one_setting(pairs, line.swept, experiments)


def _of_one_setting(
    pairs: Iterable[tuple[Line, Problem]], swept: Container[str], experiments: Container[str]
) -> Pairs:
    """The runs of one setting and one version of the method, one that `experiments` made.

    They differ only in the parameters `swept` and in the data set. Other commands may have made
    some of them: a run that is there is not repeated, and its row names the first command's
    experiment. Of several settings that of the newest version counts, then the one with most
    points, then the one that cells prefer. Of several lines with the same parameters on one data
    set one is left.
    """
    settings: defaultdict[tuple[int, str], list[tuple[Line, Problem]]] = defaultdict(list)
    for line, problem in pairs:
        fixed = {name: value for name, value in line.params.items() if name not in swept}
        settings[version_of(line), json.dumps(fixed, sort_keys=True)].append((line, problem))

    def order(setting: tuple[int, str]) -> tuple[Any, ...]:
        lines = [line for line, _ in settings[setting]]
        n_ok = sum(bool(line.ok) for line in lines)
        return n_ok > 0, setting[0], n_ok, max(map(preference, lines))

    made = [
        setting
        for setting, members in settings.items()
        if any(made_by(experiments, line) for line, _ in members)
    ]
    members = settings[max(made, key=order)] if made else []
    places = {
        (problem.dataset, problem.variant, json.dumps(line.params, sort_keys=True)): (line, problem)
        for line, problem in sorted(members, key=lambda pair: preference(pair[0]))
    }
    return list(places.values())


def _ok(pairs: Pairs) -> list[Mapping[str, Any]]:
    return [row for line, _ in pairs for row in line.ok]


def _why_not_drawn(line: PanelLine, pairs: Pairs) -> str:
    """Why a line is not drawn that has these runs."""
    if not pairs:
        return "no rows"
    rows = _ok(pairs)
    if not rows:
        return ", ".join(sorted({status for line, _ in pairs for status in line.failures}))
    curves = (*line.wanted.at, line.x.curve, line.y.curve)
    disturbed = any(map(of_wall_seconds, curves)) and all(map(contended, rows))
    return DISTURBED if disturbed else "no values"


def _over_sizes(y: Axis, pairs: Pairs, sizes: Mapping[Any, float]) -> list[Point]:
    """The point of each data set: its size, and the mean of the runs, none of which was stopped."""
    made = [
        (sizes.get((problem.dataset, problem.variant)), _mean(y, line))
        for line, problem in pairs
        if least_seconds(line) is None or y.column != "fit_s"
    ]
    return sorted((x, mean[0], mean[1] or 0.0) for x, mean in made if x is not None and mean)


def _stopped(y: Axis, pairs: Pairs, sizes: Mapping[Any, float]) -> list[tuple[float, float]]:
    made = [
        (sizes.get((problem.dataset, problem.variant)), least_seconds(line))
        for line, problem in pairs
        if y.column == "fit_s"
    ]
    return [(x, least) for x, least in made if x is not None and least is not None]


def _points(figure: Figure, panel_line: PanelLine, line: Line, runs: Runs) -> list[Point]:
    """The points of one setting of a line."""
    x, y = panel_line.x, panel_line.y
    if figure.image:
        values = [value for (value,) in runs.points(line.ok, y.curve)]
        side = math.isqrt(len(values))
        is_square = side * side == len(values)
        return [(i % side, i // side, v) for i, v in enumerate(values)] if is_square else []
    if y.curve:
        return _of_curves(panel_line, line, runs)
    ordinate = _mean(y, line)
    if ordinate is None:
        return []
    if figure.heat:
        scores: defaultdict[float, list[float]] = defaultdict(list)
        for row in line.ok:
            for place, score in runs.over(row, x.curve, figure.heat):
                scores[place].append(score)
        return [(place, ordinate[0], fmean(values)) for place, values in scores.items()]
    abscissa = _mean(x, line)
    return [] if abscissa is None else [(abscissa[0], ordinate[0], ordinate[1] or 0.0)]


def _of_curves(panel_line: PanelLine, line: Line, runs: Runs) -> list[Point]:
    """Points at which the curves `at` have the selected values, numbered if x is not a curve."""
    x, y, at = panel_line.x, panel_line.y, panel_line.wanted.at
    names = [*at, *([x.curve] if x.curve else []), y.curve]
    points = [
        point[len(at) :]
        for point in runs.points(line.ok, *names)
        if point[: len(at)] == tuple(at.values())
    ]
    if x.curve:
        return [(place, value, 0.0) for place, value in points]
    return [(float(i), value, 0.0) for i, (value,) in enumerate(points, start=1)]


def _mean(axis: Axis, line: Line) -> tuple[float, float | None] | None:
    """Mean and standard deviation of the line's runs, in the unit of the axis."""
    if axis.param:
        value = line.params.get(axis.param)
        return (float(value), None) if isinstance(value, (int, float)) and line.ok else None
    if axis.phase:
        if line.cut_short(axis.column):
            return None
        seconds = [column(row, axis.column) for row in line.ok]
        return mean_sd([value for value in seconds if value is not None])
    measured = mean_of(line, axis.column)
    if measured is None:
        return None
    factor = QUANTITIES[axis.column].factor
    mean, sd = measured
    return mean * factor, None if sd is None else sd * factor


def _front(points: Sequence[Point], y: Axis) -> list[Point]:
    """Points in the order of their costs, each better than all that are cheaper."""
    sign = QUANTITIES[y.column].sign
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point[0], -sign * point[1])):
        if not front or sign * point[1] > sign * front[-1][1]:
            front.append(point)
    return front


def _excess(points: Points) -> dict[str, list[Point]]:
    """(y - best) / |best|, without the best itself, whose difference 0 has no logarithm."""
    values = [y for line in points.values() for _, y, _ in line]
    best = min(values, default=0.0)
    return {
        label: [(x, (y - best) / abs(best), 0.0) for x, y, _ in line if y > best]
        for label, line in points.items()
    }
