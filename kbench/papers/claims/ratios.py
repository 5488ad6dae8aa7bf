"""The picture of the papers' claims, with marks that link to the claims.

Marks of ratios, values and fractions of cases are at the quotient of the measured and the printed
figure, marks of other claims at the difference. Our own questions print no figure and have no mark.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kbench.papers.claims.decision import Verdict
from kbench.papers.printed.layout import PAPERS, legend, paper
from kbench.report.charts.style import Style
from kbench.report.charts.svg import Axis, Chart, Plot, marker
from kbench.report.page.tags import element, escaped, figure

_MARK_DISTANCE = 10.0  # of the centres of touching marks, in units of the view box; set by hand
# What our runs say of an open claim's bound -> mark of the claim.
_OPEN_STYLES = {"kept": Style(2, 2), "missed": Style(1, 4), "neither": Style(4, 3)}
_ROW_HEIGHT = 38  # height of a line of marks, in units of the view box; set by hand


class Dot(NamedTuple):
    """A mark: its value, tooltip, link target, the paper's title, and the style of its outcome."""

    value: float
    tooltip: str
    target: str
    paper: str
    style: Style


def picture(verdicts: Sequence[Verdict], claim_id: Callable[[int], str]) -> str:
    """The picture as HTML; empty without figures of claims."""
    dots: dict[bool, list[Dot]] = {True: [], False: []}  # whether values are ratios -> marks
    marks: dict[str, Style] = {}
    for index, verdict in enumerate(verdicts):
        if verdict.figures is None or verdict.printed is None or verdict.claim.ours:
            continue
        measured, printed = verdict.figures[0], verdict.printed[0]
        is_ratio = verdict.claim.kind in ("ratio", "value") or verdict.claim.case is not None
        if not math.isfinite(measured) or (is_ratio and min(measured, printed) <= 0.0):
            continue  # the figure is only bounded on one side, or has no logarithm
        value = measured / printed if is_ratio else measured - printed
        tooltip = f"{verdict.claim.says} Verdict: {verdict.outcome}."
        name, outcome = paper(verdict.claim.paper).title, verdict.outcome
        answer = {True: "kept", False: "missed", None: "neither"}[verdict.kept_by_rows]
        open_mark = f"open, {answer}", _OPEN_STYLES[answer]
        word, style = open_mark if outcome.reason else (outcome.word, outcome.style)
        marks[word] = style
        dots[is_ratio].append(Dot(value, tooltip, claim_id(index), name, style))
    charts = [_chart(group, log=is_ratio) for is_ratio, group in dots.items() if group]
    return figure(charts, sorted(marks.items()), legend("picture")) if charts else ""


def _chart(dots: Sequence[Dot], *, log: bool) -> Chart:
    title, guide = ("measured ÷ printed", 1.0) if log else ("measured − printed, points", 0.0)
    names = [paper(name).title for name in PAPERS]
    titles = [name for name in names if any(dot.paper == name for dot in dots)]
    x_axis = Axis.around(title, [guide, *(dot.value for dot in dots)], log=log, margin=0.03)
    y_axis = Axis.named("", titles[::-1])
    height = 60 + _ROW_HEIGHT * len(titles)  # 60: title and axis; sizes and margin: set by hand
    plot = Plot(x_axis, y_axis, label=f"{title}, by paper", width=470, height=height)
    plot.line([(guide, -0.5), (guide, len(titles) - 0.5)], kind="guide")
    for name in titles:
        level = plot.at(guide, y_axis.names.index(name))[1]
        occupied: list[tuple[float, float]] = []
        for dot in sorted(dot for dot in dots if dot.paper == name):
            x = plot.at(dot.value, 0.0)[0]
            y = _free_ordinate(x, level, occupied)
            occupied.append((x, y))
            mark = marker(x, y, dot.style)
            tooltip = element("title", escaped(dot.tooltip))
            plot.add(element("a", tooltip + mark, href=f"#{dot.target}", tabindex=-1))
    return plot.chart()


def _free_ordinate(x: float, level: float, occupied: Sequence[tuple[float, float]]) -> float:
    """The ordinate nearest to `level` at which a mark at `x` covers no other mark.

    If the line has no free position, the ordinate is `level`, and marks overlap.
    """
    steps = int(_ROW_HEIGHT / _MARK_DISTANCE)
    for step in range(steps):
        y = level + (step + 1) // 2 * _MARK_DISTANCE * (-1 if step % 2 else 1)
        if all(math.hypot(x - a, y - b) >= _MARK_DISTANCE for a, b in occupied):
            return y
    return level
