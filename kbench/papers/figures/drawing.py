"""The papers' figures as charts of the points that `figures` reads from the rows.

A method has one colour and one marker in all of them (`kbench.report.charts.style`).
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from kbench.papers.cells.entries import ABSENT
from kbench.papers.cells.runs import Runs
from kbench.papers.figures.figure import Figure, figures
from kbench.papers.figures.panels import Drawn, drawn
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.charts.style import Style, distinct
from kbench.report.charts.svg import Axis, Chart, Plot, marker
from kbench.report.comparisons.cells import describe_machine
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.statistics.growth import fitted_power

# Width and height of a chart in units of the view box; three charts stand beside each other. Set by
# hand.
_WIDTH, _HEIGHT = 340, 270

# Largest number of marks of a line; a curve of more points has a mark at every k-th point only. Set
# by hand.
_MAX_MARKS = 20

_REGRESSOR = "_regressor"


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
        by_panel = [[one for one in every if one.panel is panel] for panel in figure.panels]
        best = [
            max(candidates, key=lambda one: (len(one.shown), one.n_runs))
            for candidates in by_panel
            if candidates
        ]
        made.append(_drawing(figure, best, environments))
    return made


def _drawing(figure: Figure, panels: Sequence[Drawn], environments: Mapping[str, Any]) -> Drawing:
    shown = [panel for panel in panels if panel.shown]
    entries: dict[str, Style] = {}
    if not figure.exponents and not figure.heat and not figure.image:
        for panel in shown:
            for label, style in _styles(panel).items():
                if panel.points.get(label) or panel.stopped.get(label):
                    entries.setdefault(label, style)
    charts = tuple(_chart(figure, panel) for panel in shown)
    timed = [panel for panel in shown if panel.depends_on_machine]
    measured = _remarks_of_panels(
        timed, lambda panel: [f"measured on {describe_machine(panel.machine, environments)}"]
    )
    remarks = (*measured, *_remarks(figure, panels))
    named = sorted({panel.machine.environment for panel in timed})
    return Drawing(figure, charts, tuple(entries.items()), remarks, tuple(named))


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


def _remarks(figure: Figure, panels: Sequence[Drawn]) -> tuple[str, ...]:
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
    remarks += _remarks_of_panels(panels, _lacking)
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
    return tuple(remarks)


def _lacking(panel: Drawn) -> list[str]:
    """The lines of a panel that have no points, by the reason."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for label, why in panel.lacking.items():
        lines[why].append(label)
    return [f"not drawn, {why}: {'; '.join(labels)}" for why, labels in lines.items()]


@cache
def method_styles(*further: tuple[str, ...]) -> Mapping[str, Style]:
    """A style for each method of the figures, the same in all of them, and of further groups.

    A method's regressor is the same method.
    """
    panels = [panel for figure in figures() for panel in figure.panels]
    own = [
        [name for line in panel.lines.values() for name in line.wanted.methods] for panel in panels
    ]
    styles: dict[str, Style] = {}
    for groups in (own, further):
        methods = [[name.removesuffix(_REGRESSOR) for name in group] for group in groups]
        styles = distinct(methods, styles)
    return styles | {f"{name}{_REGRESSOR}": style for name, style in styles.items()}


def _chart(figure: Figure, panel: Drawn) -> Chart:
    """A panel with its points."""
    if figure.image:
        return _image(figure, panel)
    return _map(figure, panel) if figure.heat else _lines(figure, panel)


def _title(panel: Drawn) -> str:
    """The panel's title, and the data set where the title does not begin with it."""
    title, data = panel.panel.title, panel.data
    begins = re.match(rf"{re.escape(data)}(?!\w)", title, re.IGNORECASE)
    return title if begins else f"{title}\non {data}"


def _plot(figure: Figure, panel: Drawn, across: Axis, up: Axis, width: int = _WIDTH) -> Plot:
    title = _title(panel)
    label = f"{figure.title}: {figure.caption}; {title}".replace("\n", " ")
    return Plot(across, up, label=label, title=title, width=width, height=_HEIGHT)


def _styles(panel: Drawn) -> Mapping[str, Style]:
    """The style of each line: its method's, or a style for each line if a method has several."""
    methods = {label: line.wanted.methods[0] for label, line in panel.panel.lines.items()}
    if len(set(methods.values())) < len(methods):
        return distinct([methods])
    further = distinct([list(methods.values())], method_styles())
    return {label: further[method] for label, method in methods.items()}


def _lines(figure: Figure, panel: Drawn) -> Chart:
    lines = (*panel.points.values(), *panel.stopped.values())
    known = [point for line in lines for point in line]
    xs = [x for x, _, _ in known]
    ys = [y + side * sd for _, y, sd in known for side in (-1, 1)]
    excess = "relative excess of " if panel.panel.excess else ""
    wants_log = "y" in figure.log or panel.panel.excess
    # A mean less a larger deviation has no logarithm; the axis then covers the means only.
    if wants_log and min(ys) <= 0.0:
        ys = [y for _, y, _ in known]
    across = Axis.around(panel.panel.x.label, xs, log="x" in figure.log and min(xs) > 0.0)
    up = Axis.around(excess + panel.panel.y.label, ys, log=wants_log and min(ys) > 0.0)
    plot = _plot(figure, panel, across, up)
    styles = _styles(panel)
    for name, points in panel.points.items():
        style = styles[name]
        for x, y, _ in panel.stopped.get(name, ()):
            plot.mark(x, y, style, hollow=True, words=f"{name}: stopped at its limit")
        if points:
            plot.line([(x, y) for x, y, _ in points], style)
            every = math.ceil(len(points) / _MAX_MARKS)
            for x, y, sd in points[::every]:
                plot.mark(x, y, style, words=f"{name}: {x:.4g}, {y:.4g}", sd=sd)
    if figure.exponents:
        _exponents(plot, panel, styles)
    return plot.chart()


def _exponents(plot: Plot, panel: Drawn, styles: Mapping[str, Style]) -> None:
    """The legend in the upper left corner, where no line is.

    The largest size of a line stands beside its exponent, because a method that was stopped there
    has no points of larger sizes.
    """
    shown = [name for name, points in panel.points.items() if points or panel.stopped.get(name)]
    for i, name in enumerate(shown):
        sizes = [x for x, *_ in panel.points[name]]
        power = fitted_power(panel.points[name])
        words = name if power is None else f"{name}: {power[0]:.2f}, up to {max(sizes):,.0f}"
        y = plot.top + 14.0 + 15.0 * i
        plot.add(marker(plot.left + 12, y - 4, styles[name]))
        plot.text(plot.left + 22, y, words, "name")


def _image(figure: Figure, panel: Drawn) -> Chart:
    (points,) = panel.points.values()
    side = math.isqrt(len(points))
    values = [value for _, _, value in sorted(points, key=lambda point: (point[1], point[0]))]
    rows = [values[i * side : (i + 1) * side] for i in range(side)]
    empty = Axis(f"0 is white, {max(values):.3g} is black", 0.0, 1.0, names=("",))
    plot = _plot(figure, panel, empty, Axis.named("", [""]), width=_HEIGHT)
    plot.image(rows)
    return plot.chart()


def _map(figure: Figure, panel: Drawn) -> Chart:
    """A heat map with the values printed in its cells."""
    quantity = QUANTITIES[figure.heat]
    points = [point for line in panel.points.values() for point in line]
    xs = sorted({point[0] for point in points})
    ys = sorted({point[1] for point in points})
    values = [[math.nan] * len(xs) for _ in ys]
    for x, y, value in points:
        values[ys.index(y)][xs.index(x)] = value * quantity.factor
    across = Axis.named(panel.panel.x.label, [f"{x:g}" for x in xs])
    up = Axis.named(panel.panel.y.label, [f"{y:g}" for y in ys])
    plot = _plot(figure, panel, across, up)
    plot.cells(values, [[f"{value:.2f}" for value in row] for row in values])
    return plot.chart()
