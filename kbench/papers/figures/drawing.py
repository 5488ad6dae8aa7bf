"""The papers' figures as charts of the points that `figures` reads from the rows.

A line's label has one colour and one marker in all of them (`line_styles`). Legends and remarks
stand below the axes, never inside them.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter
from typing import Any

from kbench.papers.cells.entries import ABSENT
from kbench.papers.cells.runs import Runs
from kbench.papers.figures.figure import Figure, figures
from kbench.papers.figures.panels import Drawn, drawn
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.charts.style import Style, distinct
from kbench.report.charts.svg import BEYOND, COVERING, Axis, Chart, Plot, table
from kbench.report.comparisons.cells import describe_machine
from kbench.report.statistics.growth import fitted_power

# Width and height of a chart, and height of one with a square picture, in units of the view box;
# three charts stand beside each other. Set by hand.
_WIDTH, _HEIGHT, _SQUARE = 340, 270, 396

# Largest number of marks of a line; a curve of more points has a mark at every k-th point only. Set
# by hand.
_MAX_MARKS = 20

# What a chart's SVG has -> what it means.
_SIGNS = {
    BEYOND: "an arrow: a value beyond the axis",
    COVERING: "a line is dashed if most of its points lie on those of others",
}


@dataclass(frozen=True)
class Drawing:
    """A figure as charts."""

    figure: Figure
    charts: tuple[Chart, ...]  # Empty if no panel has points
    legend: tuple[tuple[str, Style], ...]
    remarks: tuple[str, ...]  # The machines that measured it, and why lines and panels are missing
    environments: tuple[str, ...] = ()  # Environments that the remarks name


def drawings(
    runs: Runs, environments: Mapping[str, Any], papers: Container[str] = PAPERS
) -> list[Drawing]:
    """The papers' figures, each panel of the machine on which most of its lines have points.

    Of two machines with as many lines, the one with more runs behind them counts.
    """
    made = []
    for figure in (known for known in figures() if known.paper in papers):
        every = [one for machine in runs.machines for one in drawn(figure, runs, machine)]
        of_panels = ([one for one in every if one.panel is panel] for panel in figure.panels)
        best = [max(a, key=lambda one: (len(one.shown), one.n_runs)) for a in of_panels if a]
        made.append(_drawing(figure, best, environments))
    return made


def _drawing(figure: Figure, panels: Sequence[Drawn], environments: Mapping[str, Any]) -> Drawing:
    shown = [panel for panel in panels if panel.shown]
    entries: dict[str, Style] = {}
    drawer: Callable[[Figure, Drawn, str], Chart] = _lines
    if figure.heat or figure.image:
        lines = (points for panel in shown for points in panel.points.values())
        largest = max((point[2] for points in lines for point in points), default=1.0)
        drawer = partial(_grid, black=largest)  # the same in all panels
    else:
        labels = (label for panel in shown for label in panel.panel.lines if panel.has(label))
        entries = {label: line_styles()[label] for label in labels}
    charts = tuple(drawer(figure, panel, _title(panel, shown)) for panel in shown)
    timed = [panel for panel in shown if panel.depends_on_machine]
    remarks = _remarks_of_panels(
        timed, lambda panel: [f"measured on {describe_machine(panel.machine, environments)}"]
    )
    remarks += _remarks(figure, panels)
    bodies = "".join(chart.body for chart in charts)
    remarks += [meaning for sign, meaning in _SIGNS.items() if sign in bodies]
    named = sorted({panel.machine.environment for panel in timed})
    return Drawing(figure, charts, tuple(entries.items()), tuple(remarks), tuple(named))


def _remarks_of_panels(
    panels: Sequence[Drawn], remarks: Callable[[Drawn], Iterable[str]]
) -> list[str]:
    """Each remark once; a remark that is not about all panels begins with their titles."""
    titles: defaultdict[str, list[str]] = defaultdict(list)
    for panel in panels:
        for remark in remarks(panel):
            titles[remark].append(panel.panel.title)
    return [
        remark if len(where) == len(panels) else f"{'; '.join(dict.fromkeys(where))}: {remark}"
        for remark, where in titles.items()
    ]


def _remarks(figure: Figure, panels: Sequence[Drawn]) -> list[str]:
    """Remarks on panels and lines that are not drawn, disturbed runs, and numbers of runs."""
    without = [empty for empty in figure.panels if empty not in [panel.panel for panel in panels]]
    not_present = paper(figure.paper).absent
    absent = dict.fromkeys(panel.data for panel in without if panel.data in not_present)
    few = dict.fromkeys(panel.title for panel in without if panel.data not in not_present)
    remarks = []
    if absent:
        remarks.append(f"{ABSENT}: {', '.join(absent)}")
    if few:
        which = f" of {'; '.join(few)}" if panels or absent else ""
        remarks.append(f'too few rows{which}: run "kbench -m {figure.run}"')
    remarks += _remarks_of_panels(panels, lambda panel: _of_panel(figure, panel))
    known = {panel.panel.data: figure.levels.get(panel.panel.data) for panel in panels}
    if levels := [f"{level:g} on {data}" for data, level in known.items() if level is not None]:
        remarks.append(f"grey and dashed: the paper's value, {', '.join(levels)}")
    if figure.front:
        shown = [(panel, label) for panel in panels for label in panel.shown]
        kept = sum(len(panel.points[label]) for panel, label in shown)
        tried = sum(len(panel.chosen[label]) for panel, label in shown)
        remarks.append(f"lines join settings that none beats in cost and score: {kept} of {tried}")
    if n_contended := sum(panel.n_contended for panel in panels):
        runs = "one run" if n_contended == 1 else f"{n_contended} runs"
        remarks.append(f"the timings of {runs} may be too long (other load)")
    # A curve shows one seed, any other point the mean over seeds.
    counts: dict[bool, list[int]] = {True: [], False: []}
    for panel in panels:
        for label, line in panel.shown.items():
            is_curve = bool(line.y.curve or (line.x.curve and not figure.heat))
            counts[is_curve] += [len(line.ok) for line in panel.chosen[label]]
    of_curves, of_points = (max(counts[kind], default=0) for kind in (True, False))
    if of_curves > 1:
        remarks.append(f"a curve is that of the first seed, of up to {of_curves}")
    if of_points:
        means = "every point is one run" if of_points == 1 else f"means of up to {of_points} runs"
        remarks.append(means)
    return remarks


def _of_panel(figure: Figure, panel: Drawn) -> list[str]:
    """What is not drawn, the exponents of lines, and the order in which they join their points."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for label, why in panel.lacking.items():
        lines[why].append(label)
    remarks = [f"not drawn, {why}: {'; '.join(labels)}" for why, labels in lines.items()]
    powers, names = [], frozenset[str]()
    for label, points in panel.points.items() if not figure.heat else ():
        if figure.exponents and (power := fitted_power(points)):
            powers.append(f"{label} {power[0]:.2f} (to {points[-1][0]:,.0f})")
        if list(points) != sorted(points, key=itemgetter(0)):
            names |= panel.panel.lines[label].swept - {""}
    if powers:
        remarks.append(f"exponents of the lines: {', '.join(powers)}")
    if names:
        remarks.append(f"lines join their points in the order of {' or '.join(sorted(names))}")
    return remarks


@cache
def line_styles() -> Mapping[str, Style]:
    """A style for each label of a line, the same in all figures; no two of a figure share one."""
    return distinct([label for panel in one.panels for label in panel.lines] for one in figures())


def _title(panel: Drawn, shown: Sequence[Drawn]) -> str:
    """The title, the axis in which equal titles differ, and a data set that it does not name."""
    title, data = panel.panel.title, panel.data
    begins = re.match(rf"{re.escape(data)}(?!\w)", title, re.IGNORECASE)
    same = [one.panel for one in shown if one.panel.title == title]
    if len({one.y.label for one in same}) > 1:
        title += f": {panel.panel.y.label}"
    elif len(same) > 1:
        title += f": {panel.panel.x.label}"
    return title if begins else f"{title}\non {data}"


def _plot(figure: Figure, title: str, across: Axis, up: Axis, height: int = _HEIGHT) -> Plot:
    label = f"{figure.title}: {figure.caption}; {title}".replace("\n", " ")
    return Plot(across, up, label=label, title=title, width=_WIDTH, height=height)


def _lines(figure: Figure, panel: Drawn, title: str) -> Chart:
    x, y, level = panel.panel.x, panel.panel.y, figure.levels.get(panel.panel.data)
    known = [point for line in (*panel.points.values(), *panel.stopped.values()) for point in line]
    xs, means = [x for x, _, _ in known], [(y, sd) for _, y, sd in known]
    across = Axis.around(x.label, xs, log="x" in figure.log and min(xs) > 0.0)
    up = Axis.of_means(
        "relative excess of " * panel.panel.excess + y.label,
        means if level is None else [*means, (level, 0.0)],
        log="y" in figure.log or panel.panel.excess,
        whole=bool(y.curve),
    )
    plot = _plot(figure, title, across, up)
    if level is not None:
        plot.line([(across.low, level), (across.high, level)], kind="guide")
    for name, points in panel.points.items():
        style = line_styles()[name]
        for at, value, _ in panel.stopped.get(name, ()):
            plot.mark(at, value, style, hollow=True, words=f"{name}: stopped at its limit")
        if points:
            plot.line([(at, value) for at, value, _ in points], style, grid=xs if x.param else ())
            for at, value, sd in points[:: math.ceil(len(points) / _MAX_MARKS)]:
                plot.mark(at, value, style, words=f"{name}: {at:.4g}, {value:.4g}", sd=sd)
    return plot.chart()


def _grid(figure: Figure, panel: Drawn, title: str, black: float) -> Chart:
    """A heat map with the values printed in its cells, or a picture."""
    x, y = panel.panel.x, panel.panel.y
    (points,) = panel.points.values()
    xs, ys, rows = table(points)
    if figure.image:
        empty = Axis(f"0 is white, {black:.3g} is black", 0.0, 1.0, names=("",))
        plot = _plot(figure, title, empty, Axis.named("", [""]), height=_SQUARE)
        plot.image(rows, black)
    else:
        across = Axis.named(x.label, [f"{value:g}" for value in xs])
        up = Axis.named(y.label, [f"{y.names.get(value, value):g}" for value in ys])
        plot = _plot(figure, title, across, up)
        plot.cells(rows, [[f"{value:.2f}" for value in row] for row in rows])
    return plot.chart()
