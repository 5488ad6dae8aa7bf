"""The papers' figures as charts of the points that `figures` reads from the rows.

A line's label has the same colour and marker in all figures (`line_styles`). Legends and remarks
stand below the axes, never inside.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from operator import itemgetter
from typing import Any

from kbench.papers.cells.entries import ABSENT
from kbench.papers.cells.runs import Runs
from kbench.papers.figures.figure import Figure, figures
from kbench.papers.figures.panels import Drawn, drawn_panels
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.charts.style import Style, distinct_styles
from kbench.report.charts.svg import BEYOND, COVERING, Axis, Chart, Plot, value_grid
from kbench.report.comparisons.cells import describe_machine
from kbench.report.statistics.growth import fitted_power

# Width and height of a chart, and height of a chart with a square picture, in units of the view box
# so that three charts fit beside each other. Set by hand.
_WIDTH, _HEIGHT, _PICTURE_HEIGHT = 340, 270, 396

# Largest number of marks of a line; a curve with more points has a mark only at every k-th point.
# Set by hand.
_MAX_MARKS = 20

# Attribute in a chart's SVG -> its meaning.
_SIGN_MEANINGS = {
    BEYOND: "an arrow: a value beyond the axis",
    COVERING: "a line is dashed if most of its points lie on points of other lines",
}


@dataclass(frozen=True)
class Drawing:
    """A figure as charts."""

    figure: Figure
    charts: tuple[Chart, ...]  # Empty if no panel has points
    legend: tuple[tuple[str, Style], ...]
    remarks: tuple[str, ...]  # Machines, and why lines and panels are missing
    environments: tuple[str, ...] = ()  # Environments that the remarks name


def drawings(
    runs: Runs, environments: Mapping[str, Any], papers: Container[str] = PAPERS
) -> list[Drawing]:
    """The papers' figures; each panel shows the machine on which most of its lines have points.

    Ties between machines are decided by the number of runs behind the lines.
    """
    result = []
    for figure in (figure for figure in figures() if figure.paper in papers):
        candidates = [
            drawing for machine in runs.machines for drawing in drawn_panels(figure, runs, machine)
        ]
        by_panel = ([d for d in candidates if d.panel is panel] for panel in figure.panels)
        best = [max(ds, key=lambda d: (len(d.shown), d.n_runs)) for ds in by_panel if ds]
        result.append(_drawing(figure, best, environments))
    return result


def _drawing(figure: Figure, panels: Sequence[Drawn], environments: Mapping[str, Any]) -> Drawing:
    shown = [panel for panel in panels if panel.shown]
    entries: dict[str, Style] = {}
    drawer: Callable[[Figure, Drawn, str], Chart] = _line_chart
    if figure.heat or figure.image:
        lines = (points for panel in shown for points in panel.points.values())
        largest = max((point[2] for points in lines for point in points), default=1.0)
        drawer = partial(_map_chart, black=largest)  # the same in all panels
    else:
        labels = (label for panel in shown for label in panel.panel.lines if panel.has(label))
        entries = {label: line_styles()[label] for label in labels}
    charts = tuple(drawer(figure, panel, _panel_title(panel, shown)) for panel in shown)
    timed = [panel for panel in shown if panel.depends_on_machine]
    remarks = _merged_remarks(
        timed, lambda panel: [f"measured on {describe_machine(panel.machine, environments)}"]
    )
    remarks += _remarks(figure, panels)
    bodies = "".join(chart.body for chart in charts)
    remarks += [meaning for sign, meaning in _SIGN_MEANINGS.items() if sign in bodies]
    environment_names = sorted({panel.machine.environment for panel in timed})
    return Drawing(figure, charts, tuple(entries.items()), tuple(remarks), tuple(environment_names))


def _merged_remarks(
    panels: Sequence[Drawn], remarks: Callable[[Drawn], Iterable[str]]
) -> list[str]:
    """Remarks without duplicates; titles of panels precede a remark that is not on all panels."""
    titles: defaultdict[str, list[str]] = defaultdict(list)
    for panel in panels:
        for remark in remarks(panel):
            titles[remark].append(panel.panel.title)
    return [
        remark if len(names) == len(panels) else f"{'; '.join(dict.fromkeys(names))}: {remark}"
        for remark, names in titles.items()
    ]


def _remarks(figure: Figure, panels: Sequence[Drawn]) -> list[str]:
    """Remarks on panels and lines that are not drawn, disturbed runs, and numbers of runs."""
    missing = [empty for empty in figure.panels if empty not in [panel.panel for panel in panels]]
    not_present = paper(figure.paper).absent
    absent = dict.fromkeys(panel.data for panel in missing if panel.data in not_present)
    with_few_rows = dict.fromkeys(panel.title for panel in missing if panel.data not in not_present)
    remarks = []
    if absent:
        remarks.append(f"{ABSENT}: {', '.join(absent)}")
    if with_few_rows:
        scope = f" of {'; '.join(with_few_rows)}" if panels or absent else ""
        remarks.append(f'too few rows{scope}: run "kbench -m {figure.run}"')
    remarks += _merged_remarks(panels, lambda panel: _panel_remarks(figure, panel))
    levels = {panel.panel.data: figure.levels.get(panel.panel.data) for panel in panels}
    if texts := [f"{level:g} on {data}" for data, level in levels.items() if level is not None]:
        remarks.append(f"grey and dashed: the paper's value, {', '.join(texts)}")
    if figure.front:
        shown = [(panel, label) for panel in panels for label in panel.shown]
        n_kept = sum(len(panel.points[label]) for panel, label in shown)
        n = sum(len(panel.chosen[label]) for panel, label in shown)
        remarks.append(f"lines join settings that none beats in cost and score: {n_kept} of {n}")
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
        remarks.append(f"a curve shows the first seed, of up to {of_curves}")
    if of_points:
        means = "every point is one run" if of_points == 1 else f"means of up to {of_points} runs"
        remarks.append(means)
    return remarks


def _panel_remarks(figure: Figure, panel: Drawn) -> list[str]:
    """Remarks on missing lines, exponents of lines, and the order in which lines join points."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for label, why in panel.missing_lines.items():
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
    """A style for each label of a line, which is the same in all figures and unique in each."""
    return distinct_styles([label for p in f.panels for label in p.lines] for f in figures())


def _panel_title(panel: Drawn, shown: Sequence[Drawn]) -> str:
    """The title, with the axis in which equal titles differ, and with the data set if missing."""
    title, data = panel.panel.title, panel.data
    names_data = re.match(rf"{re.escape(data)}(?!\w)", title, re.IGNORECASE)
    same_title = [other.panel for other in shown if other.panel.title == title]
    if len({other.y.label for other in same_title}) > 1:
        title += f": {panel.panel.y.label}"
    elif len(same_title) > 1:
        title += f": {panel.panel.x.label}"
    return title if names_data else f"{title}\non {data}"


def _plot(figure: Figure, title: str, x: Axis, y: Axis, height: int = _HEIGHT) -> Plot:
    label = f"{figure.title}: {figure.caption}; {title}".replace("\n", " ")
    return Plot(x, y, label=label, title=title, width=_WIDTH, height=height)


def _line_chart(figure: Figure, panel: Drawn, title: str) -> Chart:
    x, y, level = panel.panel.x, panel.panel.y, figure.levels.get(panel.panel.data)
    all_points = list(chain(*panel.points.values(), *panel.stopped.values()))
    xs, means = [x for x, _, _ in all_points], [(y, sd) for _, y, sd in all_points]
    x_axis = Axis.around(x.label, xs, log="x" in figure.log and min(xs) > 0.0)
    y_axis = Axis.of_means(
        "relative excess of " * panel.panel.excess + y.label,
        means if level is None else [*means, (level, 0.0)],
        log="y" in figure.log or panel.panel.excess,
        whole=bool(y.curve),
    )
    plot, grid = _plot(figure, title, x_axis, y_axis), xs if x.param else ()
    if level is not None:
        plot.line([(x_axis.low, level), (x_axis.high, level)], kind="guide")
    for name, points in panel.points.items():
        style = line_styles()[name]
        for place, value, _ in panel.stopped.get(name, ()):
            plot.mark(place, value, style, hollow=True, tooltip=f"{name}: stopped at its limit")
        if points:
            plot.line([(x, value) for x, value, _ in points], style, grid=grid)
            for place, value, sd in points[:: math.ceil(len(points) / _MAX_MARKS)]:
                plot.mark(place, value, style, tooltip=f"{name}: {place:.4g}, {value:.4g}", sd=sd)
    return plot.chart()


def _map_chart(figure: Figure, panel: Drawn, title: str, black: float) -> Chart:
    """A heat map with the values printed in its cells, or a picture."""
    x, y = panel.panel.x, panel.panel.y
    (points,) = panel.points.values()
    xs, ys, rows = value_grid(points)
    if figure.image:
        empty = Axis(f"0 is white, {black:.3g} is black", 0.0, 1.0, names=("",))
        plot = _plot(figure, title, empty, Axis.named("", [""]), height=_PICTURE_HEIGHT)
        plot.image(rows, black)
    else:
        x_axis = Axis.named(x.label, [f"{value:g}" for value in xs])
        y_axis = Axis.named(y.label, [f"{y.names.get(value, value):g}" for value in ys])
        plot = _plot(figure, title, x_axis, y_axis)
        plot.cells(rows, [[f"{value:.2f}" for value in row] for row in rows])
    return plot.chart()
