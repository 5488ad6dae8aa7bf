"""Figures as SVG that is the same for the same rows.

A method has one colour and one marker in all of them (`kbench.report.style`).
"""

import io
import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kbench.report.papers.entries import ABSENT
from kbench.report.papers.figures import Drawn, Figure, drawn, figures
from kbench.report.papers.growth import exponent
from kbench.report.papers.layout import PAPERS, paper
from kbench.report.papers.runs import Runs
from kbench.report.quantities import QUANTITIES
from kbench.report.style import COLOURS, Style, distinct

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# The outlines of `kbench.report.style.MARKERS`, in matplotlib's letters.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_WIDTH, _HEIGHT = 2.9, 2.3  # inches of a panel
_ACROSS = 3
_MOST_MARKS = 20  # of a line
_REGRESSOR = "_regressor"
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

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


@dataclass(frozen=True)
class Drawing:
    """A figure as an SVG document, None where no panel has points, and what its panels lack."""

    figure: Figure
    svg: str | None
    remarks: tuple[str, ...]


def drawings(runs: Runs, papers: Container[str] = PAPERS) -> list[Drawing]:
    """The papers' figures, each of the machine on which most panels have points."""
    found = []
    for figure in (one for one in figures() if one.paper in papers):
        machines = [drawn(figure, runs, machine) for machine in runs.machines]
        panels = max(machines, key=len, default=[])
        text = svg(figure, panels, method_styles()) if panels else None
        found.append(Drawing(figure, text, _remarks(figure, panels)))
    return found


def _remarks(figure: Figure, panels: Sequence[Drawn]) -> tuple[str, ...]:
    """Which panels have no points, and why."""
    shown = [one.panel for one in panels]
    absent, bare = [], []
    for panel in figure.panels:
        if panel not in shown:
            if panel.data in paper(figure.paper).absent:
                absent.append(panel.data)
            else:
                bare.append(panel.title)
    said = []
    if absent:
        said.append(f"{ABSENT}: {', '.join(dict.fromkeys(absent))}")
    if bare:
        which = f" of {'; '.join(dict.fromkeys(bare))}" if panels or absent else ""
        said.append(f'no rows{which}: run "kbench -m {figure.run}"')
    return tuple(said)


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
    found = distinct(map(_methods, further), distinct(map(_methods, groups)))
    return found | {f"{name}{_REGRESSOR}": style for name, style in found.items()}


def _methods(names: Iterable[str]) -> list[str]:
    return [name.removesuffix(_REGRESSOR) for name in names]


def svg(figure: Figure, panels: Sequence[Drawn], marks: Mapping[str, Style]) -> str:
    """The figure as an SVG document.

    Parameters
    ----------
    figure : Figure
    panels : sequence of Drawn
    marks : mapping
        Method -> its style.
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
            if figure.image:
                _image(canvas, place, one)
            elif figure.heat:
                _map(place, figure, one)
            else:
                place.grid(True)
                _lines(place, figure, one, marks, handles)
            place.set_title(_title(one))
        for place in axes[len(panels) :]:
            place.set_visible(False)
        if max(len(one.points) for one in panels) > 1 and handles and not figure.exponents:
            canvas.legend(
                handles.values(),
                handles.keys(),
                loc="outside lower center",
                ncols=max(1, int(canvas.get_figwidth() / _entry_width(handles))),
                fontsize=8,
            )
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def _title(one: Drawn) -> str:
    """The panel's title, and the data set where that does not begin with it."""
    title, data = one.panel.title, one.data
    begins = re.match(rf"{re.escape(data)}(?!\w)", title, re.IGNORECASE)
    return title if begins else f"{title}\non {data}"


def _entry_width(labels: Iterable[str]) -> float:
    """Inches that an entry of a legend takes, sample and gap included."""
    return 0.6 + 0.065 * max(map(len, labels))


def _lines(
    place: "Axes",
    figure: Figure,
    one: Drawn,
    marks: Mapping[str, Style],
    handles: dict[str, Any],
) -> None:
    several = len(set(one.methods.values())) < len(one.methods)
    own = distinct([one.methods]) if several else marks
    for label, points in one.points.items():
        style = own[label if several else one.methods[label]]
        if stopped := one.stopped.get(label):
            place.plot(
                *zip(*stopped, strict=True),
                color=COLOURS[style.colour][0],
                marker=_MARKERS[style.marker],
                markersize=4.5,
                fillstyle="none",
                linestyle="none",
                label=label if not points else None,
            )
        if not points:
            continue
        x, y, sd = zip(*points, strict=True)
        (handle,) = place.plot(
            x,
            y,
            color=COLOURS[style.colour][0],
            marker=_MARKERS[style.marker],
            markersize=4.5,
            markevery=math.ceil(len(points) / _MOST_MARKS),
            linewidth=1.1,
        )
        if any(sd):
            place.errorbar(x, y, sd, fmt="none", ecolor=COLOURS[style.colour][0], elinewidth=0.8)
        handles.setdefault(label, handle)
        power = exponent(points) if figure.exponents else None
        handle.set_label(label if power is None else f"{label}: {power:.2f}")
    if figure.exponents:
        place.legend(title="exponent", fontsize=6.5, title_fontsize=6.5)
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
    """Ticks at powers of ten, or 1, 2 and 5 times them, or even ones, where there are too few."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    locator: Any = MaxNLocator(4)
    for steps in ((1.0,), (1.0, 2.0, 5.0)):
        if sum(low <= step * 10.0**power <= high for power in powers for step in steps) > 1:
            locator = LogLocator(subs=steps)
            break
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: decade(value)))


def decade(value: float) -> str:
    """`0.01`, `20000`, `10⁶`, `2·10⁻⁵`."""
    if 1e-3 <= value < 1e5:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if float(mantissa) == 1.0 else f"{float(mantissa):g}·{power}"


def _image(canvas: "Canvas", place: "Axes", one: Drawn) -> None:
    (points,) = one.points.values()
    side = math.isqrt(len(points))
    values = [value for _, _, value in sorted(points, key=lambda point: (point[1], point[0]))]
    rows = [values[i * side : (i + 1) * side] for i in range(side)]
    image = place.imshow(rows, cmap="cividis", vmin=0.0, vmax=max(values), interpolation="nearest")
    canvas.colorbar(image, ax=place, shrink=0.8)
    place.set_xticks([])
    place.set_yticks([])


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
