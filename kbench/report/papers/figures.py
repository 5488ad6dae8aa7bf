"""Figures from rows and curves, as SVG that is the same for the same rows.

A method has one colour and one marker in all of them (`kbench.report.style`); marks of a line are
its settings, joined in the order of the abscissa. Everything else is in `figures.yaml`.
"""

import io
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from kbench.report.cells import title
from kbench.report.papers.layout import PAPERS, Selector, load, paper, put, repetitions, selector
from kbench.report.papers.runs import Runs
from kbench.report.quantities import QUANTITIES
from kbench.report.style import COLOURS, styles
from kbench.report.tables import Line, Machine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The outlines of `kbench.report.style.MARKERS`, in matplotlib's letters.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_WIDTH, _HEIGHT = 2.9, 2.3  # inches of a panel
_ACROSS = 3

_STYLE: Any = {
    "svg.hashsalt": "kbench",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#dde1e5",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}

Point = tuple[float, float, float]  # x, y, deviation of y


@dataclass(frozen=True)
class Axis:
    """What an axis shows: a column of rows, a parameter or a curve."""

    column: str = ""
    param: str = ""
    curve: str = ""

    @classmethod
    def of(cls, spelt: Any) -> "Axis":
        return cls(column=spelt) if isinstance(spelt, str) else cls(**spelt)

    @property
    def label(self) -> str:
        name = self.column or self.param or self.curve
        return QUANTITIES[name].title if name in QUANTITIES else name.replace("_", " ")


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `lines` select runs, with an ordinate of their own or the panel's."""

    title: str
    lines: Mapping[str, tuple[Selector, Axis]]
    x: Axis
    y: Axis
    excess: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure; with `heat` the panels are maps of that column."""

    name: str
    paper: str
    caption: str
    run: str
    panels: Sequence[Panel]
    log: Sequence[str] = ()
    heat: str = ""

    @property
    def title(self) -> str:
        """`MEKA Figure 7`, `DC-SVM Figures 5 to 8`, `DC-SVM Figure 3, accuracy`."""
        number, _, rest = self.name.partition("_fig")[2].partition("_")
        words = f"Figures {number} to {rest}" if rest.isdecimal() else f"Figure {number}"
        further = f", {rest}" if rest and not rest.isdecimal() else ""
        return f"{paper(self.paper).title} {words}{further}"


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


def drawings(runs: Runs, papers: Container[str] = PAPERS) -> list[tuple[Figure, str | None]]:
    """The papers' figures as SVG, of the machine on which most panels have points; None of none."""
    methods = sorted({row["method"] for row in runs.rows})
    found: list[tuple[Figure, str | None]] = []
    for figure in (one for one in figures() if one.paper in papers):
        machines = [drawn(figure, runs, machine) for machine in runs.machines]
        panels = max(machines, key=len, default=[])
        found.append((figure, svg(figure, panels, methods) if panels else None))
    return found


def drawn(figure: Figure, runs: Runs, machine: Machine) -> list[Drawn]:
    """The panels that have points on a machine."""
    found = [_points(figure, panel, runs, machine) for panel in figure.panels]
    return [one for one in found if any(one.points.values())]


def svg(figure: Figure, panels: Sequence[Drawn], methods: Sequence[str]) -> str:
    """The figure as an SVG document.

    Parameters
    ----------
    figure : Figure
    panels : sequence of Drawn
    methods : sequence of str
        All methods of the report, which share out the colours and markers.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    across = min(_ACROSS, len(panels))
    down = math.ceil(len(panels) / across)
    with mpl.rc_context(_STYLE):
        canvas = Canvas(
            figsize=(_WIDTH * max(2, across), _HEIGHT * down + 0.35), layout="constrained"
        )
        FigureCanvasSVG(canvas)
        axes = canvas.subplots(down, across, squeeze=False).ravel()
        handles: dict[str, Any] = {}
        for place, one in zip(axes, panels, strict=False):
            if figure.heat:
                _map(place, figure, one)
            else:
                place.grid(True)
                _lines(place, figure, one, methods, handles)
            known = one.panel.title.lower().startswith(one.data.lower())
            place.set_title(one.panel.title if known else f"{one.panel.title}\non {one.data}")
        for place in axes[len(panels) :]:
            place.set_visible(False)
        if len(handles) > 1:
            canvas.legend(
                handles.values(), handles.keys(), loc="outside lower center", ncols=5, fontsize=8
            )
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


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
    return Figure(name, paper, caption, run, panels, log, heat)


def _without(spelt: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in spelt.items() if name != key}


def _points(figure: Figure, panel: Panel, runs: Runs, machine: Machine) -> Drawn:
    """Of the first data set on which most lines have points."""
    best = Drawn(panel)
    (data,) = {wanted.data for wanted, _ in panel.lines.values()}
    for choice in paper(figure.paper).data[data or ""]:
        points, methods, names = {}, {}, []
        for label, (wanted, y) in panel.lines.items():
            lines = runs.lines(machine, wanted, choice)
            points[label] = sorted(
                point for line, _ in lines for point in _of_line(figure, panel, y, line, runs)
            )
            methods[label] = wanted.methods[0]
            names += [title(problem) for _, problem in lines]
        if panel.excess:
            points = _excess(points)
        if figure.heat or panel.x.param:  # a single setting is no sweep
            points = {k: p for k, p in points.items() if len({x for x, _, _ in p}) > 1}
        full = sum(map(bool, points.values()))
        enough = min(2, len(panel.lines))
        if full >= enough and full > sum(map(bool, best.points.values())):
            best = Drawn(panel, names[0], points, methods)
    return best


def _of_line(figure: Figure, panel: Panel, y: Axis, line: Line, runs: Runs) -> list[Point]:
    if y.curve:
        return (
            [(x, value, 0.0) for x, value in runs.curve(line.ok, panel.x.curve, y.curve)]
            if line.ok
            else []
        )
    abscissa = _mean(panel.x, line)
    if figure.heat:
        ordinate, value = _mean(y, line), line.mean_sd(figure.heat)
        if abscissa is None or ordinate is None or value is None:
            return []
        return [(abscissa[0], ordinate[0], value[0])]
    ordinate = _mean(y, line)
    if abscissa is None or ordinate is None:
        return []
    return [(abscissa[0], ordinate[0], ordinate[1] or 0.0)]


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


def _lines(
    place: "Axes",
    figure: Figure,
    one: Drawn,
    methods: Sequence[str],
    handles: dict[str, Any],
) -> None:
    several = len(set(one.methods.values())) < len(one.methods)
    marks = styles(one.methods if several else methods)
    for label, points in one.points.items():
        if not points:
            continue
        style = marks[label if several else one.methods[label]]
        x, y, sd = zip(*points, strict=True)
        (handle,) = place.plot(
            x,
            y,
            color=COLOURS[style.colour][0],
            marker=_MARKERS[style.marker],
            markersize=4.5,
            linewidth=1.1,
        )
        if any(sd):
            place.errorbar(x, y, sd, fmt="none", ecolor=COLOURS[style.colour][0], elinewidth=0.8)
        handles.setdefault(label, handle)
    if "x" in figure.log and all(p[0] > 0 for line in one.points.values() for p in line):
        place.set_xscale("log")
    if ("y" in figure.log or one.panel.excess) and all(
        p[1] > 0 for line in one.points.values() for p in line
    ):
        place.set_yscale("log")
    for axis in (place.xaxis, place.yaxis):
        if axis.get_scale() == "log":
            _decades(axis)
    excess = "relative excess of " if one.panel.excess else ""
    place.set_xlabel(one.panel.x.label)
    place.set_ylabel(excess + one.panel.y.label)


def _decades(axis: Any) -> None:
    """Ticks at powers of ten; at 1, 2 and 5 times them where there are less than two."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    wide = math.floor(math.log10(high)) - math.ceil(math.log10(low)) >= 1
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _map(place: "Axes", figure: Figure, one: Drawn) -> None:
    """Cells with their values in them, so that no colour has to be read."""
    quantity = QUANTITIES[figure.heat]
    points = [point for line in one.points.values() for point in line]
    xs = sorted({point[0] for point in points})
    ys = sorted({point[1] for point in points})
    values = [[math.nan] * len(xs) for _ in ys]
    for x, y, value in points:
        values[ys.index(y)][xs.index(x)] = value * quantity.factor
    place.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    known = [v for row in values for v in row if not math.isnan(v)]
    middle = (min(known) + max(known)) / 2
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if not math.isnan(value):
                ink = "black" if value > middle else "white"
                place.text(j, i, f"{value:.2f}", ha="center", va="center", color=ink)
    place.set_xticks(range(len(xs)), [f"{x:g}" for x in xs])
    place.set_yticks(range(len(ys)), [f"{y:g}" for y in ys])
    place.set_xlabel(one.panel.x.label)
    place.set_ylabel(one.panel.y.label)
