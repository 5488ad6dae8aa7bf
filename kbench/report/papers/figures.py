"""Figures as data, read from `figures.yaml`: panels, their lines, points of rows and of curves.

The points of a line are its settings in the order of the abscissa, or those of a curve.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kbench.report.cells import title
from kbench.report.papers.layout import Selector, load, paper, put, repetitions, selector
from kbench.report.papers.runs import Runs
from kbench.report.quantities import QUANTITIES
from kbench.report.tables import Line, Machine

Point = tuple[float, float, float]  # x, y, deviation of y

# Curves whose names are no words.
_CURVES = {
    "samples": "rows seen",
    "solver_s": "solver's seconds",
    "n_parts": "parts",
    "n_clusters": "clusters",
    "test_error": "test error, share of rows",
    "test_mae": "test MAE",
}


@dataclass(frozen=True)
class Axis:
    """What an axis shows: a column of rows, a parameter, a curve, or the number of its point."""

    column: str = ""
    param: str = ""
    curve: str = ""
    count: str = ""

    @classmethod
    def of(cls, spelt: Any) -> "Axis":
        return cls(column=spelt) if isinstance(spelt, str) else cls(**spelt)

    @property
    def label(self) -> str:
        if self.curve in _CURVES:
            return _CURVES[self.curve]
        name = self.column or self.param or self.curve or self.count
        return QUANTITIES[name].title if name in QUANTITIES else name.replace("_", " ")


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `lines` select runs, with an ordinate of their own or the panel's."""

    title: str
    lines: Mapping[str, tuple[Selector, Axis]]
    x: Axis
    y: Axis
    excess: bool = False

    @property
    def data(self) -> str:
        """The paper's name of its data set."""
        (name,) = {wanted.data for wanted, _ in self.lines.values()}
        return name or ""


@dataclass(frozen=True)
class Figure:
    """A figure; with `heat` the panels are maps of that column, with `image` of their curves."""

    name: str
    paper: str
    caption: str
    run: str
    panels: Sequence[Panel]
    log: Sequence[str] = ()
    heat: str = ""
    image: bool = False

    @property
    def title(self) -> str:
        """`MEKA Figure 7`, `DC-SVM Figures 5 to 8, costs`, `DC-Pred++ appendix Figure 4`."""
        before, _, after = self.name.partition("_fig")
        number, *rest = after.split("_")
        words = f"Figure {number}"
        if rest and rest[0].isdecimal():
            words = f"Figures {number} to {rest.pop(0)}"
        appendix = "appendix " if before.endswith("_app") else ""
        return ", ".join([f"{paper(self.paper).title} {appendix}{words}", *rest])


@dataclass(frozen=True)
class Drawn:
    """A panel with its points, and the data set of kbench that they are of."""

    panel: Panel
    data: str = ""
    points: Mapping[str, list[Point]] = field(default_factory=dict)
    methods: Mapping[str, str] = field(default_factory=dict)


@cache
def figures() -> tuple[Figure, ...]:
    """All figures, in the order of the file."""
    return tuple(_figure(name, **spelt) for name, spelt in load("figures.yaml").items())


def drawn(figure: Figure, runs: Runs, machine: Machine) -> list[Drawn]:
    """The panels that have points on a machine."""
    found = [_points(figure, panel, runs, machine) for panel in figure.panels]
    return [one for one in found if any(one.points.values())]


def _figure(
    name: str,
    *,
    paper: str,
    caption: str,
    run: str,
    panel: Mapping[str, Any],
    lines: Mapping[str, Mapping[str, Any]],
    x: Any = None,
    y: Any = None,
    each: Any = None,
    excess: bool = False,
    log: Sequence[str] = (),
    heat: str = "",
    image: bool = False,
) -> Figure:
    panels = []
    for names in repetitions(each or {}):
        one = {"x": x, "y": y, **put(panel, names)}
        ordinate = Axis.of(one.pop("y"))
        abscissa, heading = Axis.of(one.pop("x")), one.pop("title")
        wanted = selector(**one)
        spelt = {
            label: (
                wanted & selector(**_without(line, "y")),
                Axis.of(line["y"]) if "y" in line else ordinate,
            )
            for label, line in lines.items()
        }
        panels.append(Panel(heading, spelt, abscissa, ordinate, excess))
    return Figure(name, paper, caption, run, panels, log, heat, image)


def _without(spelt: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in spelt.items() if name != key}


def _points(figure: Figure, panel: Panel, runs: Runs, machine: Machine) -> Drawn:
    """Of the first data set on which most lines have points."""
    best = Drawn(panel)
    for choice in paper(figure.paper).data[panel.data]:
        points, methods, names = {}, {}, []
        for label, (wanted, y) in panel.lines.items():
            lines = runs.lines(machine, wanted, choice)
            points[label] = sorted(
                point
                for line, _ in lines
                for point in _of_line(figure, panel, wanted.at, y, line, runs)
            )
            methods[label] = wanted.methods[0]
            names += [title(problem) for _, problem in lines]
        if panel.excess:
            points = _excess(points)
        if figure.heat or panel.x.param:  # a single setting is no sweep
            points = {k: p for k, p in points.items() if len({x for x, _, _ in p}) > 1}
        full = sum(map(bool, points.values()))
        enough = 1 if panel.y.curve else min(2, len(panel.lines))
        if full >= enough and full > sum(map(bool, best.points.values())):
            best = Drawn(panel, names[0], points, methods)
    return best


def _of_line(
    figure: Figure, panel: Panel, at: Mapping[str, float], y: Axis, line: Line, runs: Runs
) -> list[Point]:
    if figure.image:
        values = [value for (value,) in runs.points(line.ok, y.curve)]
        side = math.isqrt(len(values))
        whole = side * side == len(values)
        return [(i % side, i // side, one) for i, one in enumerate(values)] if whole else []
    if y.curve:
        return _of_curves(panel.x, at, y, line, runs)
    if figure.heat and panel.x.curve:
        height = _mean(y, line)
        told = runs.over(line.ok, panel.x.curve, figure.heat) if height else []
        return [(x, height[0], value) for x, value in told if height]
    abscissa, ordinate = _mean(panel.x, line), _mean(y, line)
    if abscissa is None or ordinate is None:
        return []
    if figure.heat:
        value = line.mean_sd(figure.heat)
        return [] if value is None else [(abscissa[0], ordinate[0], value[0])]
    return [(abscissa[0], ordinate[0], ordinate[1] or 0.0)]


def _of_curves(x: Axis, at: Mapping[str, float], y: Axis, line: Line, runs: Runs) -> list[Point]:
    """Points where the curves `at` are what they should be, numbered where `x` is no curve."""
    names = [*at, *([x.curve] if x.curve else []), y.curve]
    told = [
        point[len(at) :]
        for point in runs.points(line.ok, *names)
        if point[: len(at)] == tuple(at.values())
    ]
    if x.curve:
        return [(place, value, 0.0) for place, value in told]
    return [(float(i), value, 0.0) for i, (value,) in enumerate(told, start=1)]


def _mean(axis: Axis, line: Line) -> tuple[float, float | None] | None:
    """Of the line, in the unit of the axis."""
    if axis.param:
        value = line.params.get(axis.param)
        return (float(value), None) if isinstance(value, (int, float)) and line.ok else None
    measured = line.mean_sd(axis.column)
    if measured is None:
        return None
    factor = QUANTITIES[axis.column].factor
    mean, sd = measured
    return mean * factor, None if sd is None else sd * factor


def _excess(points: Mapping[str, list[Point]]) -> dict[str, list[Point]]:
    """(y - best) / |best|, without the best itself, whose logarithm does not exist."""
    values = [y for line in points.values() for _, y, _ in line]
    best = min(values, default=0.0)
    return {
        label: [(x, (y - best) / abs(best), 0.0) for x, y, _ in line if y > best]
        for label, line in points.items()
    }
