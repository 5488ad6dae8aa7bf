"""The picture of the papers' claims: measured over printed, a mark for each that links to it.

A claim about a ratio or a value stands at its figure over the paper's, one about a difference or a
share of cases at the difference of both. Our own questions have no printed figure and no mark.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kbench.papers.claims.decision import Verdict
from kbench.papers.claims.outcomes import OUTCOMES, Outcome
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.charts.svg import Axis, Chart, Plot, marker
from kbench.report.page.tags import element, figure, words

_MARK = 10.0  # units of the view box between the centres of marks that touch
_ROW = 38  # units of the view box that a line of marks is high

_CAPTION = (
    "The papers' claims, measured beside printed: at the dashed line both are the same. Seconds are"
    " of different machines. A mark opens its claim."
)


@dataclass(frozen=True)
class Dot:
    """A mark: the line it stands on, its value, outcome, words and target."""

    line: str
    value: float
    outcome: Outcome
    words: str
    target: str


def picture(verdicts: Sequence[Verdict], claim_id: Callable[[int], str]) -> str:
    """The picture as HTML; empty without figures of claims."""
    ratios = _dots(verdicts, claim_id, relative=True)
    differences = _dots(verdicts, claim_id, relative=False)
    charts = []
    if ratios:
        charts.append(_chart(ratios, "measured ÷ printed", 1.0, log=True))
    if differences:
        charts.append(_chart(differences, "measured − printed, points", 0.0, log=False))
    used = {dot.outcome.word: dot.outcome.style for dot in (*ratios, *differences)}
    legend = [(one.word, one.style) for one in OUTCOMES if one.word in used]
    return figure(charts, list(dict(legend).items()), _CAPTION) if charts else ""


def _dots(
    verdicts: Sequence[Verdict], claim_id: Callable[[int], str], *, relative: bool
) -> list[Dot]:
    """Claims whose figures are compared by a ratio, or those by a difference."""
    dots = []
    for number, verdict in enumerate(verdicts):
        if verdict.figures is None or verdict.printed is None or verdict.claim.ours:
            continue
        measured, printed = verdict.figures[0], verdict.printed[0]
        is_ratio = verdict.claim.kind in ("ratio", "value")  # a share of cases, too, is relative
        is_ratio = is_ratio or verdict.claim.case is not None
        if is_ratio != relative or (is_ratio and min(measured, printed) <= 0.0):
            continue
        value = measured / printed if is_ratio else measured - printed
        if not math.isfinite(value):
            continue  # rows bound the figure on one side alone
        tooltip = f"{verdict.claim.says} Verdict: {verdict.outcome}."
        name = paper(verdict.claim.paper).title
        dots.append(Dot(name, value, verdict.outcome, tooltip, claim_id(number)))
    return dots


def _chart(dots: Sequence[Dot], title: str, guide: float, *, log: bool) -> Chart:
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
        for dot in sorted((d for d in dots if d.line == name), key=lambda d: (d.value, d.words)):
            x = drawn.at(dot.value, 0.0)[0]
            y = _free(x, level, taken)
            taken.append((x, y))
            mark = marker(x, y, dot.outcome.style)
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
