"""The first picture of a page: measured over printed, for every claim and every table.

A claim about a ratio or a value is a mark at its figure over the paper's, one about a difference or
a fraction of settings a mark at the difference of both. A table has two marks, the medians over its
cells of measured over printed: of seconds, with multiples of a linear model's time, and of scores
(accuracies and errors). Marks link to their claim or table.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kbench.papers.cells.entry import SECONDS_IN, Filled, quantity_of
from kbench.papers.claims.decision import FAILS, HOLDS, WEAKER, Verdict
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.charts.style import Style
from kbench.report.charts.svg import Axis, Chart, Plot, marker
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.page.tags import element, figure, words

# Green circles, yellow triangles and red crosses for verdicts; blue squares and grey diamonds for
# tables: no two differ in colour alone.
_STYLES = {
    f"claim {HOLDS}": Style(2, 0),
    f"claim {WEAKER}": Style(4, 2),
    f"claim {FAILS}": Style(1, 6),
    "table, seconds": Style(0, 1),
    "table, scores": Style(6, 3),
}

_MARK = 10.0  # units of the view box between the centres of marks that touch
_ROW = 38  # units of the view box that a line of marks is high

_CAPTION = (
    "Measured over printed. A claim stands at its figure over the paper's, a table at the median"
    " over its cells, seconds and scores apart; 1 is what the paper prints. Seconds are of"
    " different machines. Claims about differences stand on the right, where 0 is the paper's."
)


@dataclass(frozen=True)
class Dot:
    """A mark: the line it stands on, its value, kind (of `_STYLES`), words and target."""

    line: str
    value: float
    kind: str
    words: str
    target: str


def picture(
    filled: Sequence[Filled], verdicts: Sequence[Verdict], claim_id: Callable[[int], str]
) -> str:
    """The picture as HTML; empty without measured cells."""
    ratios = [*_claims(verdicts, claim_id, relative=True), *_tables(filled)]
    differences = _claims(verdicts, claim_id, relative=False)
    charts = []
    if ratios:
        charts.append(_chart(ratios, "measured ÷ printed", 1.0, log=True, width=470))
    if differences:
        charts.append(_chart(differences, "measured − printed, points", 0.0, log=False, width=470))
    used = {dot.kind for dot in (*ratios, *differences)}
    legend = [(kind, style) for kind, style in _STYLES.items() if kind in used]
    return figure(charts, legend, _CAPTION) if charts else ""


def _claims(
    verdicts: Sequence[Verdict], claim_id: Callable[[int], str], *, relative: bool
) -> list[Dot]:
    """Claims whose figures are compared by a ratio (fractions, too), or those by a difference."""
    dots = []
    for number, verdict in enumerate(verdicts):
        if verdict.figure is None or verdict.printed is None:
            continue
        is_ratio = verdict.claim.kind in ("ratio", "value") or verdict.claim.case is not None
        if is_ratio != relative or (is_ratio and min(verdict.figure, verdict.printed) <= 0.0):
            continue
        value = verdict.figure / verdict.printed if is_ratio else verdict.figure - verdict.printed
        name = paper(verdict.claim.paper).title
        tooltip = f"{verdict.claim.says} Verdict: {verdict.outcome}."
        dots.append(
            Dot(f"{name} claims", value, f"claim {verdict.outcome}", tooltip, claim_id(number))
        )
    return dots


def _tables(filled: Iterable[Filled]) -> list[Dot]:
    """The medians of measured over printed of each table, seconds and scores apart.

    Sizes, memory, ranks and orders of growth are neither.
    """
    dots = []
    for form in filled:
        values: dict[str, list[float]] = {"seconds": [], "scores": []}
        for group in form.groups:
            quantity = quantity_of(group.measure)
            if not group.measure.reads:
                continue
            for entry in group.entries:
                printed = entry.printed.number if entry.printed else None
                if entry.value is None or not entry.printed or not printed or printed <= 0.0:
                    continue
                unit = entry.printed.unit
                measured = entry.value * quantity.factor / SECONDS_IN.get(unit, 1.0)
                timed = unit in ("s", "ms/row", "x linear") or unit in SECONDS_IN
                scored = entry.compared and quantity.column in QUANTITIES
                if measured > 0.0 and (timed or scored):
                    values["seconds" if timed else "scores"].append(measured / printed)
        for kind, ratios in values.items():
            if ratios:
                name = f"{form.paper.title} {form.table.number}"
                middle = statistics.median(ratios)
                tooltip = f"{name}, {kind}: median {middle:.3g} of {len(ratios)} cells"
                line = f"{form.paper.title} tables"
                dots.append(Dot(line, middle, f"table, {kind}", tooltip, form.table.id))
    return dots


def _chart(dots: Sequence[Dot], title: str, guide: float, *, log: bool, width: int) -> Chart:
    names = [f"{paper(name).title} {what}" for name in PAPERS for what in ("claims", "tables")]
    used = [name for name in names if any(dot.line == name for dot in dots)]
    across = Axis.around(title, [guide, *(dot.value for dot in dots)], log=log, margin=0.03)
    up = Axis.named("", used[::-1])
    height = 60 + _ROW * len(used)
    drawn = Plot(across, up, label=f"{title}, by paper", width=width, height=height)
    drawn.line([(guide, -0.5), (guide, len(used) - 0.5)], kind="guide")
    for name in used:
        level = drawn.at(guide, up.names.index(name))[1]
        taken: list[tuple[float, float]] = []
        for dot in sorted((d for d in dots if d.line == name), key=lambda d: (d.value, d.words)):
            x = drawn.at(dot.value, 0.0)[0]
            y = _free(x, level, taken)
            taken.append((x, y))
            mark = marker(x, y, _STYLES[dot.kind])
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
