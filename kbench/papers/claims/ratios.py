"""The picture of the papers' claims: measured over printed, with a mark that links to each claim.

Ratios, values and fractions of cases are drawn at the measured figure over the printed one, other
claims at the difference of both. Our own questions have no printed figure and no mark.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kbench.papers.claims.decision import Verdict
from kbench.papers.printed.layout import PAPERS, legend, paper
from kbench.report.charts.style import Style
from kbench.report.charts.svg import Axis, Chart, Plot, marker
from kbench.report.page.tags import element, figure, words

_MARK = 10.0  # units of the view box between the centres of marks that touch; set by hand
# Names and marks of open claims, by whether our runs keep their bound.
_OPEN = {"kept": Style(2, 2), "missed": Style(1, 4), "neither": Style(4, 3)}
_ROW = 38  # units of the view box that a line of marks is high; set by hand


class Dot(NamedTuple):
    """A mark: its value, words and target, the line it stands on, and the style of its outcome."""

    value: float
    words: str
    target: str
    line: str
    style: Style


def picture(verdicts: Sequence[Verdict], claim_id: Callable[[int], str]) -> str:
    """The picture as HTML; empty without figures of claims."""
    dots: dict[bool, list[Dot]] = {True: [], False: []}  # by whether their values are ratios
    marks: dict[str, Style] = {}
    for number, verdict in enumerate(verdicts):
        if verdict.figures is None or verdict.printed is None or verdict.claim.ours:
            continue
        measured, printed = verdict.figures[0], verdict.printed[0]
        relative = verdict.claim.kind in ("ratio", "value") or verdict.claim.case is not None
        if not math.isfinite(measured) or (relative and min(measured, printed) <= 0.0):
            continue  # rows bound the figure on one side alone, or it has no logarithm
        value = measured / printed if relative else measured - printed
        tooltip = f"{verdict.claim.says} Verdict: {verdict.outcome}."
        name, outcome = paper(verdict.claim.paper).title, verdict.outcome
        kept = {True: "kept", False: "missed", None: "neither"}[verdict.kept_by_rows]
        open_one = f"open, {kept}", _OPEN[kept]
        word, style = open_one if outcome.reason else (outcome.word, outcome.style)
        marks[word] = style
        dots[relative].append(Dot(value, tooltip, claim_id(number), name, style))
    charts = [_chart(several, log=relative) for relative, several in dots.items() if several]
    return figure(charts, sorted(marks.items()), legend("picture")) if charts else ""


def _chart(dots: Sequence[Dot], *, log: bool) -> Chart:
    title, guide = ("measured ÷ printed", 1.0) if log else ("measured − printed, points", 0.0)
    names = [paper(name).title for name in PAPERS]
    used = [name for name in names if any(dot.line == name for dot in dots)]
    across = Axis.around(title, [guide, *(dot.value for dot in dots)], log=log, margin=0.03)
    up = Axis.named("", used[::-1])
    height = 60 + _ROW * len(used)
    drawn = Plot(across, up, label=f"{title}, by paper", width=470, height=height)
    drawn.line([(guide, -0.5), (guide, len(used) - 0.5)], kind="guide")
    for name in used:
        level = drawn.at(guide, up.names.index(name))[1]
        taken: list[tuple[float, float]] = []
        for dot in sorted(dot for dot in dots if dot.line == name):
            x = drawn.at(dot.value, 0.0)[0]
            y = _free(x, level, taken)
            taken.append((x, y))
            mark = marker(x, y, dot.style)
            tooltip = element("title", words(dot.words))
            drawn.add(element("a", tooltip + mark, href=f"#{dot.target}", tabindex=-1))
    return drawn.chart()


def _free(x: float, level: float, taken: Sequence[tuple[float, float]]) -> float:
    """The height nearest to `level` at which a mark at `x` covers no other one.

    If a line has no free position, marks overlap.
    """
    steps = int(_ROW / _MARK)
    for step in range(steps):
        y = level + (step + 1) // 2 * _MARK * (-1 if step % 2 else 1)
        if all(math.hypot(x - a, y - b) >= _MARK for a, b in taken):
            return y
    return level
