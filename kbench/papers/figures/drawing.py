"""The papers' figures as charts of the points that `figures` reads from the rows.

A method has one colour and one marker in all of them (`kbench.report.charts.style`).
"""

import math
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kbench.papers.cells.entry import ABSENT
from kbench.papers.cells.growth import exponent
from kbench.papers.cells.runs import Runs, most_first
from kbench.papers.figures.figure import Figure, figures
from kbench.papers.figures.panels import Drawn, drawn
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.charts.style import Style, distinct
from kbench.report.charts.svg import Axis, Chart, Plot, marker
from kbench.report.comparisons.cells import describe_machine
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.comparisons.tables import Machine

# Width and height of a chart in units of the view box; three charts stand beside each other.
_WIDTH, _HEIGHT = 340, 270

# Largest number of marks of a line; a curve of more points has a mark at every k-th point.
_MOST_MARKS = 20

_REGRESSOR = "_regressor"


@dataclass(frozen=True)
class Drawing:
    """A figure as charts (none if no panel has points), and remarks on its machines and on gaps.

    `drawn`, `ended` and `wanted` count lines with points, lines without points because runs ended
    at the limit that all have, and lines of the panels whose data are available.
    `environments` are those of the machines that the remarks name.
    """

    figure: Figure
    charts: tuple[Chart, ...]
    legend: tuple[tuple[str, Style], ...]
    remarks: tuple[str, ...]
    drawn: int = 0
    wanted: int = 0
    ended: int = 0
    environments: tuple[str, ...] = ()


def drawings(
    runs: Runs, environments: Mapping[str, Any], papers: Container[str] = PAPERS
) -> list[Drawing]:
    """The papers' figures, each panel of the machine on which most of its lines have points.

    Of two with as many lines, it is of that with more runs behind them.
    """
    made = []
    for figure in (one for one in figures() if one.paper in papers):
        of_machines = [(machine, drawn(figure, runs, machine)) for machine in runs.machines]
        shown = most_first(of_machines, lambda one: _n_lines(one[1]))
        # Without any points, the machine that has lines which are left out as disturbed.
        shown = shown or [one for one in of_machines if one[1]][:1]
        found = []
        for panel in figure.panels:
            here = [(m, one) for m, panels in shown for one in panels if one.panel is panel]
            if here:
                found.append(max(here, key=lambda one: (_n_lines([one[1]]), one[1].n_all_runs)))
        made.append(_drawing(figure, found, len(shown), environments))
    return made


def _n_lines(panels: Sequence[Drawn]) -> int:
    """Number of lines that have points."""
    return sum(bool(line) for one in panels for line in one.points.values())


def _machines(
    found: Sequence[tuple[Machine, Drawn]], n_machines: int, environments: Mapping[str, Any]
) -> list[str]:
    """Where seconds and memory of a figure were measured, and on how many machines it has rows.

    found : the panels with their machines
    n_machines : how many have points
    """
    said = []
    panels: dict[Machine, list[str]] = {}
    for machine, one in found:
        panels.setdefault(machine, []).append(one.panel.title)
    if any(one.depends_on_machine for _, one in found):
        for machine, titles in panels.items():
            which = f"{'; '.join(dict.fromkeys(titles))}: " if len(panels) > 1 else ""
            said.append(f"{which}measured on {describe_machine(machine, environments)}")
    if n_machines > 1:
        said.append(f"rows of {n_machines} machines; a panel is of the one with most of its lines")
    return said


def _drawing(
    figure: Figure,
    on_machines: Sequence[tuple[Machine, Drawn]],
    n_machines: int,
    environments: Mapping[str, Any],
) -> Drawing:
    found = [one for _, one in on_machines]
    panels = [one for one in found if one.has_points]
    charts = tuple(_chart(figure, one) for one in panels)
    entries: dict[str, Style] = {}
    if not figure.exponents and not figure.heat and not figure.image:
        for one in panels:
            for label, style in _styles(one).items():
                if one.points.get(label) or one.stopped.get(label):
                    entries.setdefault(label, style)
    absent = paper(figure.paper).absent
    wanted = sum(len(one.lines) for one in figure.panels if one.data not in absent)
    named = {machine.environment for machine, one in on_machines if one.depends_on_machine}
    return Drawing(
        figure,
        charts,
        tuple(entries.items()),
        (*_machines(on_machines, n_machines, environments), *_remarks(figure, found)),
        _n_lines(panels),
        wanted,
        sum(len(one.ended) for one in panels),
        tuple(sorted(named)),
    )


def _remarks(figure: Figure, panels: Sequence[Drawn]) -> tuple[str, ...]:
    """Which panels and lines are not drawn, and why; of how many runs the others are."""
    explained = [one.panel for one in panels]
    absent, bare = [], []
    for panel in figure.panels:
        if panel not in explained:
            if panel.data in paper(figure.paper).absent:
                absent.append(panel.data)
            else:
                bare.append(panel.title)
    said = []
    if absent:
        said.append(f"{ABSENT}: {', '.join(dict.fromkeys(absent))}")
    if bare:
        which = f" of {'; '.join(dict.fromkeys(bare))}" if panels or absent else ""
        said.append(f'too few rows{which}: run "kbench -m {figure.run}"')
    said += _lacking(panels)
    for one in panels:
        if one.disturbed:
            names = ", ".join(one.disturbed)
            said.append(f"{one.panel.title}, {names}: other processes disturbed these wall seconds")
    if n_contended := sum(one.n_contended for one in panels):
        runs = "one run" if n_contended == 1 else f"{n_contended} runs"
        said.append(f"other processes disturbed {runs}, whose seconds may be too many")
    if (off := max((one.off for one in panels), default=1.0)) > 1.0:
        said.append(f"seconds of several hours, in which equal runs differ by up to {off:.3g} ×")
    n_seeds = max((one.n_seeds for one in panels), default=1)
    if n_seeds > 1:
        said.append(f"a curve is that of the first seed, of up to {n_seeds}")
    if n_runs := max((one.n_runs for one in panels), default=0):
        means = "every point is one run" if n_runs == 1 else f"means of up to {n_runs} runs"
        said.append(means)
    return tuple(said)


def _lacking(panels: Sequence[Drawn]) -> list[str]:
    """The lines of the charts that have no points, with the panels and the reason."""
    shown = [one for one in panels if one.has_points]
    titles: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for one in shown:
        for why in dict.fromkeys(one.lacking.values()):
            names = "; ".join(label for label, reason in one.lacking.items() if reason == why)
            titles[why, names].append(one.panel.title)
    return [
        ("" if len(of) == len(shown) else f"{'; '.join(dict.fromkeys(of))}: ")
        + f"not drawn, {why}: {names}"
        for (why, names), of in titles.items()
    ]


@cache
def method_styles(*further: tuple[str, ...]) -> Mapping[str, Style]:
    """A style for each method of the figures, the same in all of them, and of further groups.

    A method's regressor is the same method.
    """
    groups = [
        [name for wanted, *_ in panel.lines.values() for name in wanted.methods]
        for figure in figures()
        for panel in figure.panels
    ]
    styles = distinct(map(_methods, further), distinct(map(_methods, groups)))
    return styles | {f"{name}{_REGRESSOR}": style for name, style in styles.items()}


def _methods(names: Iterable[str]) -> list[str]:
    return [name.removesuffix(_REGRESSOR) for name in names]


def _chart(figure: Figure, one: Drawn) -> Chart:
    """A panel with its points."""
    if figure.image:
        return _image(figure, one)
    return _map(figure, one) if figure.heat else _lines(figure, one)


def _title(one: Drawn) -> str:
    """The panel's title, and the data set where the title does not begin with it."""
    title, data = one.panel.title, one.data
    begins = re.match(rf"{re.escape(data)}(?!\w)", title, re.IGNORECASE)
    return title if begins else f"{title}\non {data}"


def _label(figure: Figure, one: Drawn) -> str:
    return f"{figure.title}: {figure.caption}; {_title(one)}".replace("\n", " ")


def _styles(one: Drawn) -> Mapping[str, Style]:
    """The style of each line: that of its method, or one for each line if a method has several."""
    if len(set(one.methods.values())) < len(one.methods):
        return distinct([one.methods])
    known = method_styles()
    further = distinct([list(one.methods.values())], known)
    return {label: further[method] for label, method in one.methods.items()}


def _lines(figure: Figure, one: Drawn) -> Chart:
    known = [point for line in one.points.values() for point in line]
    stopped = [point for line in one.stopped.values() for point in line]
    xs = [point[0] for point in known] + [x for x, _ in stopped]
    ys = [y + side * sd for _, y, sd in known for side in (-1, 1)] + [y for _, y in stopped]
    excess = "relative excess of " if one.panel.excess else ""
    wants_log = "y" in figure.log or one.panel.excess
    # A mean less a larger deviation has no logarithm; the axis then covers the means only.
    if wants_log and min(ys) <= 0.0:
        ys = [y for _, y, _ in known] + [y for _, y in stopped]
    across = Axis.around(one.panel.x.label, xs, log="x" in figure.log and min(xs) > 0.0)
    up = Axis.around(excess + one.panel.y.label, ys, log=wants_log and min(ys) > 0.0)
    title, label = _title(one), _label(figure, one)
    plot = Plot(across, up, label=label, title=title, width=_WIDTH, height=_HEIGHT)
    styles = _styles(one)
    for name, points in one.points.items():
        style = styles[name]
        for x, y in one.stopped.get(name, ()):
            plot.mark(x, y, style, hollow=True, words=f"{name}: stopped at its limit")
        if points:
            plot.line([(x, y) for x, y, _ in points], style)
            every = math.ceil(len(points) / _MOST_MARKS)
            for x, y, sd in points[::every]:
                plot.mark(x, y, style, words=f"{name}: {x:.4g}, {y:.4g}", sd=sd)
    if figure.exponents:
        _exponents(plot, one, styles)
    return plot.chart()


def _exponents(plot: Plot, one: Drawn, styles: Mapping[str, Style]) -> None:
    """The legend in the upper left corner, where no line is.

    Beside the exponent of a line stands its largest size, since a method that was stopped there
    has none of the larger ones.
    """
    shown = [name for name, points in one.points.items() if points or one.stopped.get(name)]
    for i, name in enumerate(shown):
        sizes = [x for x, *_ in one.points[name]]
        power = exponent(one.points[name])
        words = name if power is None else f"{name}: {power:.2f}, up to {max(sizes):,.0f}"
        y = plot.top + 14.0 + 15.0 * i
        plot.add(marker(plot.left + 12, y - 4, styles[name]))
        plot.text(plot.left + 22, y, words, "name")


def _image(figure: Figure, one: Drawn) -> Chart:
    (points,) = one.points.values()
    side = math.isqrt(len(points))
    values = [value for _, _, value in sorted(points, key=lambda point: (point[1], point[0]))]
    rows = [values[i * side : (i + 1) * side] for i in range(side)]
    empty = Axis(f"0 is white, {max(values):.3g} is black", 0.0, 1.0, names=("",))
    title, label = _title(one), _label(figure, one)
    plot = Plot(
        empty, Axis.named("", [""]), label=label, title=title, width=_HEIGHT, height=_HEIGHT
    )
    plot.image(rows)
    return plot.chart()


def _map(figure: Figure, one: Drawn) -> Chart:
    """A heat map with the values printed in its cells."""
    quantity = QUANTITIES[figure.heat]
    points = [point for line in one.points.values() for point in line]
    xs = sorted({point[0] for point in points})
    ys = sorted({point[1] for point in points})
    values = [[math.nan] * len(xs) for _ in ys]
    for x, y, value in points:
        values[ys.index(y)][xs.index(x)] = value * quantity.factor
    across = Axis.named(one.panel.x.label, [f"{x:g}" for x in xs])
    up = Axis.named(one.panel.y.label, [f"{y:g}" for y in ys])
    title, label = _title(one), _label(figure, one)
    plot = Plot(across, up, label=label, title=title, width=_WIDTH, height=_HEIGHT)
    plot.cells(values, [[f"{value:.2f}" for value in row] for row in values])
    return plot.chart()
