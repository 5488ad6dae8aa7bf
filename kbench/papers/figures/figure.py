"""Figures as data, read from `figures.yaml`: panels, their lines, points of rows and of curves.

The points of a line are the settings of a method in the order of the abscissa, the points of a
curve, or one setting on data sets of several sizes. A front keeps only the settings that no other
setting of the method beats in both cost and score.
"""

import itertools
import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

from kbench.papers.cells.runs import (
    TRAINING,
    Runs,
    column,
    least_seconds,
    made_by,
    mean_of,
    of_one_hour,
    of_wall_seconds,
    preference,
    version_of,
)
from kbench.papers.printed.layout import (
    Choice,
    Selector,
    experiments_of,
    load,
    paper,
    repetitions,
    selector,
    substituted,
)
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.comparisons.tables import (
    Line,
    Machine,
    Problem,
    Row,
    began,
    contended,
    mean_sd,
    of_seconds,
)

Point = tuple[float, float, float]  # x, y, deviation of y

# Runs with more seconds between them are of different days. With six hours the runs of one evening
# (`results/_reference`, 2026-11-23) were of two, so that no day had all lines of DC-SVM's Figure 3.
_NIGHT_S = 12 * 3600.0

_SIZES = {"n_train": "training rows", "n_features": "features"}
# Titles of curves whose names are not words.
_CURVES = {
    "samples": "rows seen",
    "seconds": "wall seconds",
    "solver_s": "solver's wall seconds",
    "n_parts": "parts",
    "n_clusters": "clusters",
    "test_error": "test error, fraction of rows",
    "test_mae": "test MAE",
}


@dataclass(frozen=True)
class Axis:
    """The quantity of an axis: a column, a parameter, a curve, a size, or the number of a point.

    A column `phases.x` is the seconds of a phase.
    """

    column: str = ""
    param: str = ""
    curve: str = ""
    size: str = ""
    count: str = ""

    @classmethod
    def of(cls, spelt: Any) -> "Axis":
        return cls(column=spelt) if isinstance(spelt, str) else cls(**spelt)

    @property
    def phase(self) -> bool:
        return self.column.startswith("phases.")

    @property
    def seconds(self) -> bool:
        """Whether its values are seconds of whole runs or of their phases."""
        return of_seconds(self.column)

    @property
    def depends_on_machine(self) -> bool:
        """Whether its values are seconds or memory."""
        return self.seconds or of_wall_seconds(self.curve) or self.column.endswith("_bytes")

    @property
    def label(self) -> str:
        if self.phase:
            return "seconds"
        if self.curve in _CURVES:
            return _CURVES[self.curve]
        name = self.column or self.param or self.curve or _SIZES.get(self.size) or self.count
        return QUANTITIES[name].title if name in QUANTITIES else name.replace("_", " ")


class PanelLine(NamedTuple):
    """A line of a panel: its runs, its axes, and the parameters in which its points differ."""

    wanted: Selector
    x: Axis
    y: Axis
    swept: frozenset[str]


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its lines; a line without axes of its own has those of the panel."""

    title: str
    lines: Mapping[str, PanelLine]
    x: Axis
    y: Axis
    excess: bool = False

    @property
    def data(self) -> str:
        """The paper's name of its data set."""
        (name,) = {wanted.data for wanted, *_ in self.lines.values()}
        return name or ""


@dataclass(frozen=True)
class Figure:
    """A figure; with `heat` the panels are maps of that column, with `image` of their curves.

    With `exponents` the legend has b of the y = a x^b that comes nearest to a line; with `front`
    the abscissa is a cost and lines are Pareto fronts; `section` is the paper's, where the figure
    has no number.
    """

    name: str
    paper: str
    caption: str
    run: str
    panels: Sequence[Panel]
    log: Sequence[str] = ()
    heat: str = ""
    image: bool = False
    exponents: bool = False
    front: bool = False
    section: str = ""

    @property
    def experiments(self) -> frozenset[str]:
        """The experiments of whose settings its lines are."""
        return experiments_of(self.run)

    @property
    def title(self) -> str:
        """`MEKA Figure 7`, `DC-SVM Figures 5 to 8, costs`, `DC-Pred++ appendix Figure 4`.

        `DC-SVM, scaling` where the paper has no such figure.
        """
        if self.section:
            return f"{paper(self.paper).title} {self.section}"
        before, numbered, after = self.name.partition("_fig")
        if not numbered:
            return f"{paper(self.paper).title}, {before.removeprefix(self.paper).strip('_')}"
        number, *rest = after.split("_")
        words = f"Figure {number}"
        if rest and rest[0].isdecimal():
            words = f"Figures {number} to {rest.pop(0)}"
        appendix = "appendix " if before.endswith("_app") else ""
        return ", ".join([f"{paper(self.paper).title} {appendix}{words}", *rest])


@dataclass(frozen=True)
class Drawn:
    """A panel with its points, and the data set of kbench that they are of.

    `stopped` are runs over their limit of seconds: the abscissa and what they take at least.
    `disturbed` are lines over wall seconds that are left out because other processes disturbed all
    their runs. `n_seeds` is the largest number of seeds of a line of which one seed's curve is
    drawn. `n_contended` are runs whose seconds are drawn although other processes disturbed them.
    `lacking` are the lines without points, and why they have none. `n_runs` is the largest number
    of runs whose mean a point is; 0 where all lines are curves. `n_all_runs` counts all runs of the
    lines with points. `ended` are lines without points because runs ended at their limit, one that
    no run of the experiments on these data exceeds. `off` is the factor by which seconds of equal
    runs differ on the machine, if those that are drawn are of several hours, else 1.
    """

    panel: Panel
    data: str = ""
    points: Mapping[str, list[Point]] = field(default_factory=dict)
    stopped: Mapping[str, list[tuple[float, float]]] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)
    disturbed: Sequence[str] = ()
    n_seeds: int = 1
    n_contended: int = 0
    lacking: Mapping[str, str] = field(default_factory=dict)
    n_runs: int = 0
    n_all_runs: int = 0
    ended: Sequence[str] = ()
    off: float = 1.0

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


@cache
def figures() -> tuple[Figure, ...]:
    """All figures, in the order of the file."""
    return tuple(
        _figure(name, kernel=paper(spelt["paper"]).kernel, **spelt)
        for name, spelt in load("figures.yaml").items()
    )


def drawn(figure: Figure, runs: Runs, machine: Machine) -> list[Drawn]:
    """The panels that have points on a machine, or lines that are left out as disturbed."""
    panels = [_points(figure, panel, runs, machine) for panel in figure.panels]
    return [one for one in panels if one.has_points or one.disturbed]


def _figure(
    name: str,
    *,
    kernel: str,
    paper: str,
    caption: str,
    run: str,
    panel: Mapping[str, Any],
    lines: Mapping[str, Mapping[str, Any]],
    x: Any = None,
    y: Any = None,
    each: Any = None,
    excess: bool = False,
    sweep: str | Sequence[str] = (),
    **rest: Any,
) -> Figure:
    panels = []
    for names in repetitions(each or {}):
        one = {"x": x, "y": y, **substituted(panel, names)}
        x_of_all, y_of_all, heading = one.pop("x"), one.pop("y"), one.pop("title")
        wanted = Selector(kernel=kernel) & selector(**one)
        spelt = {
            label: _panel_line(wanted, {"x": x_of_all, "y": y_of_all, "sweep": sweep, **line})
            for label, line in lines.items()
        }
        panels.append(Panel(heading, spelt, Axis.of(x_of_all), Axis.of(y_of_all), excess))
    return Figure(name, paper, caption, run, panels, **rest)


def _panel_line(wanted: Selector, spelt: Mapping[str, Any]) -> PanelLine:
    spelt = dict(spelt)
    x, y, sweep = Axis.of(spelt.pop("x")), Axis.of(spelt.pop("y")), spelt.pop("sweep")
    swept = {sweep} if isinstance(sweep, str) else set(sweep)
    swept |= {axis.param for axis in (x, y) if axis.param}
    return PanelLine(wanted & selector(**spelt), x, y, frozenset(swept))


def _points(figure: Figure, panel: Panel, runs: Runs, machine: Machine) -> Drawn:
    """Of the first data set on which most lines have points, or of all where `x` is a size."""
    if panel.x.size:
        return _over_sizes(figure, panel, runs, machine)
    best = Drawn(panel)
    for choice in paper(figure.paper).data[panel.data]:
        chosen = _chosen(figure, panel, runs, machine, (choice,))
        measured = {
            label: sorted(
                point
                for line, _ in chosen[label]
                for point in _of_line(figure, one.wanted.at, one.x, one.y, line, runs)
            )
            for label, one in panel.lines.items()
        }
        shown = measured
        if figure.front:
            shown = {label: _front(line, panel.y) for label, line in shown.items()}
        if panel.excess:
            shown = _excess(shown)
        points = {
            label: [] if _sweeps(figure, one) and _single(shown[label]) else shown[label]
            for label, one in panel.lines.items()
        }
        curves = {
            label: chosen[label]
            for label, one in panel.lines.items()
            if one.y.curve or (one.x.curve and not figure.heat)
        }
        disturbed = [k for k, lines in curves.items() if _disturbed(panel.lines[k], lines)]
        full = sum(map(bool, points.values()))
        least = 1 if panel.y.curve else min(2, len(panel.lines))
        if full >= least and full > sum(map(bool, best.points.values())):
            problem = next(problem for lines in chosen.values() for _, problem in lines)
            n_seeds = [len(line.ok) for lines in curves.values() for line, _ in lines]
            best = Drawn(
                panel,
                title(problem),
                points,
                methods=_methods(panel),
                disturbed=disturbed,
                n_seeds=max(n_seeds, default=1),
                n_contended=_n_contended(panel, chosen),
                lacking={
                    label: _why_none(chosen[label], measured[label])
                    for label, line in points.items()
                    if not line and label not in disturbed
                },
                n_runs=_n_runs(panel, chosen, points),
                n_all_runs=_n_all_runs(chosen, points),
                ended=_ended(figure, runs, machine, chosen, points),
                off=_off(panel, chosen, runs, machine),
            )
        elif disturbed and not best.has_points:
            best = Drawn(panel, disturbed=disturbed)
    return best


def _methods(panel: Panel) -> dict[str, str]:
    return {label: one.wanted.methods[0] for label, one in panel.lines.items()}


def _chosen(
    figure: Figure, panel: Panel, runs: Runs, machine: Machine, choices: Sequence[Choice]
) -> dict[str, list[tuple[Line, Problem]]]:
    """The runs of each line, of the figure's experiments: of one setting, or all for a front."""
    chosen = {}
    for label, one in panel.lines.items():
        pairs = [
            pair
            for choice in choices
            for pair in runs.lines(machine, one.wanted, choice, figure.experiments)
        ]
        if figure.front:
            chosen[label] = [pair for pair in pairs if made_by(figure.experiments, pair[0])]
        else:
            chosen[label] = _of_one_setting(pairs, one.swept, figure.experiments)
    return _of_same_days(panel, chosen)


def _of_one_setting(
    pairs: Iterable[tuple[Line, Problem]], swept: Container[str], experiments: Container[str]
) -> list[tuple[Line, Problem]]:
    """The runs of one setting and one version of the method, one that `experiments` made.

    They differ in the parameters `swept` and in the data set alone. Other commands may have made
    some of them: a run that is there is not repeated, and its row names the first command's
    experiment. Of several settings that of the newest version counts, then the one with most
    points, and as for cells. Of several lines with the same parameters on one data set one is left.
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
        for setting, of_it in settings.items()
        if any(made_by(experiments, line) for line, _ in of_it)
    ]
    of_one = settings[max(made, key=order)] if made else []
    places = {
        (problem.dataset, problem.variant, json.dumps(line.params, sort_keys=True)): (line, problem)
        for line, problem in sorted(of_one, key=lambda pair: preference(pair[0]))
    }
    return list(places.values())


def _sweeps(figure: Figure, one: PanelLine) -> bool:
    """Whether a line goes through several settings, so that a single point is none."""
    return bool(one.swept) and not figure.front and not one.y.curve


def _single(points: Sequence[Point]) -> bool:
    """Whether all points have one abscissa, or there is none."""
    return len({x for x, _, _ in points}) < 2


def _why_none(chosen: Sequence[tuple[Line, Problem]], measured: Sequence[Point]) -> str:
    """Why a line is not drawn that has these runs, and these points at most."""
    if not chosen:
        return "no rows"
    if not any(line.ok for line, _ in chosen):
        return ", ".join(sorted({status for line, _ in chosen for status in line.failures}))
    return "a single point" if measured else "no values"


def _disturbed(one: PanelLine, lines: Iterable[tuple[Line, Problem]]) -> bool:
    """Whether a line is over wall seconds, and other processes disturbed all its runs."""
    names = (*one.wanted.at, one.x.curve, one.y.curve)
    rows = [row for line, _ in lines for row in line.ok]
    return bool(rows) and any(map(of_wall_seconds, names)) and all(map(contended, rows))


def _n_contended(panel: Panel, chosen: Mapping[str, list[tuple[Line, Problem]]]) -> int:
    """Number of ok runs that other processes disturbed, of the lines whose axes have seconds."""
    return sum(map(contended, _timed(panel, chosen)))


def _off(
    panel: Panel, chosen: Mapping[str, list[tuple[Line, Problem]]], runs: Runs, machine: Machine
) -> float:
    """By how much the seconds of the lines may be off, as runs of several hours are; else 1."""
    if of_one_hour(list(map(began, _timed(panel, chosen)))):
        return 1.0
    return runs.drift(machine, TRAINING, apart=True).factor


def _of_same_days(
    panel: Panel, chosen: dict[str, list[tuple[Line, Problem]]]
) -> dict[str, list[tuple[Line, Problem]]]:
    """The lines, those over seconds without the runs of days on which another one has none.

    Seconds of equal runs differ from day to day, so a mean over two days would stand beside one of
    the slower day alone. Without a day of which all lines over seconds have runs, all runs stay.
    """
    starts = sorted(map(began, _timed(panel, chosen)))
    begins = [b for a, b in itertools.pairwise([-math.inf, *starts]) if b - a > _NIGHT_S]

    def day(row: Row) -> int:
        return bisect_right(begins, began(row))

    labels = _over_seconds(panel)
    days = [{day(row) for line, _ in chosen[label] for row in line.ok} for label in labels]
    common = set[int]().union(*days).intersection(*filter(None, days))
    if not common:
        return chosen

    def of_these(line: Line) -> Line:
        rows = [row for row in line.rows if day(row) in common]
        return replace(line, rows=rows) if rows else line

    found = {label: [(of_these(line), of) for line, of in chosen[label]] for label in labels}
    return {**chosen, **found}


def _over_seconds(panel: Panel) -> list[str]:
    """The lines whose axes have seconds."""
    return [label for label, one in panel.lines.items() if one.x.seconds or one.y.seconds]


def _timed(panel: Panel, chosen: Mapping[str, list[tuple[Line, Problem]]]) -> list[Row]:
    """The ok runs of the lines whose axes have seconds."""
    return [row for label in _over_seconds(panel) for line, _ in chosen[label] for row in line.ok]


def _n_runs(
    panel: Panel,
    chosen: Mapping[str, Sequence[tuple[Line, Problem]]],
    points: Mapping[str, Sequence[Point]],
) -> int:
    """The largest number of runs behind a point of the lines that are drawn and are no curves."""
    drawn_ = [label for label, one in panel.lines.items() if points[label] and not one.y.curve]
    return max((len(line.ok) for label in drawn_ for line, _ in chosen[label]), default=0)


def _n_all_runs(
    chosen: Mapping[str, Sequence[tuple[Line, Problem]]], points: Mapping[str, Sequence[Point]]
) -> int:
    """The number of all runs of the lines that have points."""
    return sum(len(line.ok) for label in chosen if points[label] for line, _ in chosen[label])


def _over_sizes(figure: Figure, panel: Panel, runs: Runs, machine: Machine) -> Drawn:
    """One point of a line from each data set that stands for the paper's."""
    choices = paper(figure.paper).data[panel.data]
    points: dict[str, list[Point]] = {label: [] for label in panel.lines}
    stopped: dict[str, list[tuple[float, float]]] = {label: [] for label in panel.lines}
    chosen = _chosen(figure, panel, runs, machine, choices)
    # The row of a stopped run has no size; the other runs on its data set have it.
    sizes = {
        (problem.dataset, problem.variant): size
        for lines in chosen.values()
        for _, problem in lines
        if (size := getattr(problem, panel.x.size)) is not None
    }
    for label, lines in chosen.items():
        for line, problem in lines:
            x = sizes.get((problem.dataset, problem.variant))
            y = panel.lines[label].y
            value, least = _mean(y, line), least_seconds(line) if y.column == "fit_s" else None
            if x is None:
                continue
            if least is not None:
                stopped[label].append((float(x), least))
            elif value is not None:
                points[label].append((float(x), value[0], value[1] or 0.0))
    measured = {label: sorted(line) for label, line in points.items()}
    points = {
        label: line if stopped[label] or not _single(line) else []
        for label, line in measured.items()
    }
    several = [line for line in points.values() if not _single(line)]
    if len(several) < min(2, len(points)):
        return Drawn(panel)
    n_contended = _n_contended(panel, chosen)
    lacking = {
        label: _why_none(chosen[label], measured[label])
        for label, line in points.items()
        if not line and not stopped[label]
    }
    return Drawn(
        panel,
        choices[0].dataset,
        points,
        stopped,
        _methods(panel),
        n_contended=n_contended,
        lacking=lacking,
        n_runs=_n_runs(panel, chosen, points),
        n_all_runs=_n_all_runs(chosen, points),
        ended=_ended(figure, runs, machine, chosen, points),
        off=_off(panel, chosen, runs, machine),
    )


def _ended(
    figure: Figure,
    runs: Runs,
    machine: Machine,
    chosen: Mapping[str, list[tuple[Line, Problem]]],
    points: Mapping[str, list[Point]],
) -> list[str]:
    """The lines without points because runs ended at the largest limit of the experiments."""
    return [
        label
        for label, pairs in chosen.items()
        if not points[label]
        and any(line.failures for line, _ in pairs)
        and all(
            runs.at_limit(line, problem, machine, figure.experiments)
            for line, problem in pairs
            if line.failures
        )
    ]


def _of_line(
    figure: Figure, at: Mapping[str, float], x: Axis, y: Axis, line: Line, runs: Runs
) -> list[Point]:
    if figure.image:
        values = [value for (value,) in runs.points(line.ok, y.curve)]
        side = math.isqrt(len(values))
        whole = side * side == len(values)
        return [(i % side, i // side, one) for i, one in enumerate(values)] if whole else []
    if y.curve:
        return _of_curves(x, at, y, line, runs)
    if figure.heat and x.curve:
        over: defaultdict[float, list[float]] = defaultdict(list)
        for row in line.ok:
            for place, score in runs.over(row, x.curve, figure.heat):
                over[place].append(score)
        height = _mean(y, line)
        return [(place, height[0], fmean(values)) for place, values in over.items() if height]
    abscissa, ordinate = _mean(x, line), _mean(y, line)
    if abscissa is None or ordinate is None:
        return []
    if figure.heat:
        value = line.mean_sd(figure.heat)
        return [] if value is None else [(abscissa[0], ordinate[0], value[0])]
    return [(abscissa[0], ordinate[0], ordinate[1] or 0.0)]


def _of_curves(x: Axis, at: Mapping[str, float], y: Axis, line: Line, runs: Runs) -> list[Point]:
    """Points at which the curves `at` have the given values, numbered if `x` is not a curve."""
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
    """Of the line, in the unit of the axis."""
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
    for point in sorted(points, key=lambda one: (one[0], -sign * one[1])):
        if not front or sign * point[1] > sign * front[-1][1]:
            front.append(point)
    return front


def _excess(points: Mapping[str, list[Point]]) -> dict[str, list[Point]]:
    """(y - best) / |best|, without the best itself, whose difference 0 has no logarithm."""
    values = [y for line in points.values() for _, y, _ in line]
    best = min(values, default=0.0)
    return {
        label: [(x, (y - best) / abs(best), 0.0) for x, y, _ in line if y > best]
        for label, line in points.items()
    }
