"""Points of a figure's panels, read from rows and curves.

The points of a line are the settings of a method in the order of the abscissa, the points of a
curve, or one setting on data sets of several sizes. A front keeps only the settings that no other
setting of the method beats in both cost and score.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from kbench.papers.cells.readings import column, least_seconds, mean_of
from kbench.papers.cells.runs import Runs
from kbench.papers.figures.figure import Axis, Figure, Panel, PanelLine
from kbench.papers.figures.selection import (
    Chosen,
    choose,
    is_disturbed,
    n_contended,
)
from kbench.papers.printed.layout import paper
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.comparisons.tables import Line, Machine, Problem, mean_sd

Point = tuple[float, float, float]  # x, y, standard deviation of y; in maps the value at (x, y)
Points = Mapping[str, Sequence[Point]]  # by the label of the line


@dataclass(frozen=True)
class Drawn:
    """A panel with its points.

    Attributes
    ----------
    panel : Panel
    data : str
        The data set of kbench that the points are of.
    points : mapping
        Label of a line -> its points.
    stopped : mapping
        Label -> runs that were stopped at their limit: the abscissa, and the least seconds they
        take.
    methods : mapping
        Label -> method.
    disturbed : sequence of str
        Lines over wall seconds that are left out because other processes disturbed all their runs.
    n_seeds : int
        Largest number of seeds of a line of which one seed's curve is drawn.
    n_contended : int
        Runs whose seconds are drawn although other processes disturbed them.
    lacking : mapping
        Label of a line without points -> why it has none.
    n_runs : int
        Largest number of runs whose mean a point is; 0 if all lines are curves.
    n_all_runs : int
        Number of all runs of the lines with points.
    """

    panel: Panel
    data: str = ""
    points: Points = field(default_factory=dict)
    stopped: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)
    disturbed: Sequence[str] = ()
    n_seeds: int = 1
    n_contended: int = 0
    lacking: Mapping[str, str] = field(default_factory=dict)
    n_runs: int = 0
    n_all_runs: int = 0

    @property
    def has_points(self) -> bool:
        return any(self.points.values())

    @property
    def depends_on_machine(self) -> bool:
        """Whether a line that is drawn has seconds or memory on one of its axes."""
        return any(
            (line.x.depends_on_machine or line.y.depends_on_machine)
            and (self.points.get(label) or self.stopped.get(label))
            for label, line in self.panel.lines.items()
        )


def drawn(figure: Figure, runs: Runs, machine: Machine) -> list[Drawn]:
    """The panels that have points on a machine, or lines that are left out as disturbed."""
    panels = [
        (_over_sizes if panel.x.size else _on_one_set)(figure, panel, runs, machine)
        for panel in figure.panels
    ]
    return [panel for panel in panels if panel.has_points or panel.disturbed]


def _on_one_set(figure: Figure, panel: Panel, runs: Runs, machine: Machine) -> Drawn:
    """The panel of the first data set on which most lines have points."""
    best = Drawn(panel)
    for choice in paper(figure.paper).data[panel.data]:
        chosen = choose(figure, panel, runs, machine, (choice,))
        measured = {
            label: sorted(
                point
                for runs_of_setting, _ in chosen[label]
                for point in _points(figure, line, runs_of_setting, runs)
            )
            for label, line in panel.lines.items()
        }
        shown = measured
        if figure.front:
            shown = {label: _front(points, panel.y) for label, points in shown.items()}
        if panel.excess:
            shown = _excess(shown)
        points = {
            label: [] if _sweeps(figure, line) and _has_one_abscissa(shown[label]) else shown[label]
            for label, line in panel.lines.items()
        }
        curves = {
            label: chosen[label]
            for label, line in panel.lines.items()
            if line.y.curve or (line.x.curve and not figure.heat)
        }
        disturbed = [
            label for label, pairs in curves.items() if is_disturbed(panel.lines[label], pairs)
        ]
        n_lines = sum(map(bool, points.values()))
        min_lines = 1 if panel.y.curve else min(2, len(panel.lines))
        if n_lines >= min_lines and n_lines > sum(map(bool, best.points.values())):
            problem = next(problem for pairs in chosen.values() for _, problem in pairs)
            n_seeds = [len(line.ok) for pairs in curves.values() for line, _ in pairs]
            best = Drawn(
                panel,
                title(problem),
                points,
                methods=_methods(panel),
                disturbed=disturbed,
                n_seeds=max(n_seeds, default=1),
                n_contended=n_contended(panel, chosen),
                lacking={
                    label: _why_not_drawn(chosen[label], measured[label])
                    for label, line in points.items()
                    if not line and label not in disturbed
                },
                n_runs=_n_runs(panel, chosen, points),
                n_all_runs=_n_all_runs(chosen, points),
            )
        elif disturbed and not best.has_points:
            best = Drawn(panel, disturbed=disturbed)
    return best


def _over_sizes(figure: Figure, panel: Panel, runs: Runs, machine: Machine) -> Drawn:
    """The panel with one point of each line for each data set that stands for the paper's."""
    choices = paper(figure.paper).data[panel.data]
    measured: dict[str, list[Point]] = {label: [] for label in panel.lines}
    stopped: dict[str, list[tuple[float, float]]] = {label: [] for label in panel.lines}
    chosen = choose(figure, panel, runs, machine, choices)
    # The row of a stopped run has no size; the other runs on its data set have it.
    sizes = {
        (problem.dataset, problem.variant): size
        for pairs in chosen.values()
        for _, problem in pairs
        if (size := getattr(problem, panel.x.size)) is not None
    }
    for label, pairs in chosen.items():
        y = panel.lines[label].y
        for line, problem in pairs:
            x = sizes.get((problem.dataset, problem.variant))
            mean, least = _mean(y, line), least_seconds(line) if y.column == "fit_s" else None
            if x is None:
                continue
            if least is not None:
                stopped[label].append((float(x), least))
            elif mean is not None:
                measured[label].append((float(x), mean[0], mean[1] or 0.0))
        measured[label].sort()
    points = {
        label: line if stopped[label] or not _has_one_abscissa(line) else []
        for label, line in measured.items()
    }
    over_several = [line for line in points.values() if not _has_one_abscissa(line)]
    if len(over_several) < min(2, len(points)):
        return Drawn(panel)
    return Drawn(
        panel,
        choices[0].dataset,
        points,
        stopped,
        _methods(panel),
        n_contended=n_contended(panel, chosen),
        lacking={
            label: _why_not_drawn(chosen[label], measured[label])
            for label, line in points.items()
            if not line and not stopped[label]
        },
        n_runs=_n_runs(panel, chosen, points),
        n_all_runs=_n_all_runs(chosen, points),
    )


def _methods(panel: Panel) -> dict[str, str]:
    return {label: line.wanted.methods[0] for label, line in panel.lines.items()}


def _sweeps(figure: Figure, line: PanelLine) -> bool:
    """Whether a line goes through several settings, so that a single point is no line."""
    return bool(line.swept) and not figure.front and not line.y.curve


def _has_one_abscissa(points: Sequence[Point]) -> bool:
    """Whether all points have one abscissa, or there is no point."""
    return len({x for x, _, _ in points}) < 2


def _why_not_drawn(pairs: Sequence[tuple[Line, Problem]], measured: Sequence[Point]) -> str:
    """Why a line is not drawn that has these runs, and no more than these points."""
    if not pairs:
        return "no rows"
    if not any(line.ok for line, _ in pairs):
        return ", ".join(sorted({status for line, _ in pairs for status in line.failures}))
    return "a single point" if measured else "no values"


def _n_runs(panel: Panel, chosen: Chosen, points: Points) -> int:
    """The largest number of runs behind a point of the drawn lines that are no curves."""
    labels = [label for label, line in panel.lines.items() if points[label] and not line.y.curve]
    return max((len(line.ok) for label in labels for line, _ in chosen[label]), default=0)


def _n_all_runs(chosen: Chosen, points: Points) -> int:
    """The number of all runs of the lines that have points."""
    return sum(len(line.ok) for label in chosen if points[label] for line, _ in chosen[label])


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
    if figure.heat and x.curve:
        scores: defaultdict[float, list[float]] = defaultdict(list)
        for row in line.ok:
            for place, score in runs.over(row, x.curve, figure.heat):
                scores[place].append(score)
        height = _mean(y, line)
        return [(place, height[0], fmean(values)) for place, values in scores.items() if height]
    abscissa, ordinate = _mean(x, line), _mean(y, line)
    if abscissa is None or ordinate is None:
        return []
    if figure.heat:
        value = line.mean_sd(figure.heat)
        return [] if value is None else [(abscissa[0], ordinate[0], value[0])]
    return [(abscissa[0], ordinate[0], ordinate[1] or 0.0)]


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
