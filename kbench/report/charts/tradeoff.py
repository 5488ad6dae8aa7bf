"""The score of each line of a comparison against a cost: fit time, or prediction.

The cost has a logarithmic axis. A score far worse than the others (beyond Tukey's fence) would
compress their range, so it is drawn on the edge, with an arrow and its value. The dashed stairs
are the Pareto front of the others: no other setting is both cheaper and better.
The methods on the front are named beside their marks where there is space.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from kbench.report.charts.style import Style
from kbench.report.charts.svg import LETTER, LINE, Axis, Chart, Plot, marker, short
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.tables import Comparison
from kbench.report.statistics.fronts import Cost, FrontPoint, pareto, points

_MARK = 5.0  # half the width of a marker, in units of the view box; set by hand


def fence(scores: Sequence[float], sign: int) -> float | None:
    """Tukey's fence on the worse side: 1.5 interquartile ranges beyond the quartile.

    None where there are too few scores, or too many equal ones, to define outliers.
    """
    if len(scores) < 4:
        return None
    low, _, high = statistics.quantiles(scores, n=4, method="inclusive")
    if low == high:
        return None
    return low - 1.5 * (high - low) if sign > 0 else high + 1.5 * (high - low)


def tradeoff(
    comparison: Comparison, cost: Cost, styles: Mapping[str, Style], hidden: int
) -> Chart | None:
    """The chart of one comparison; None where no line has both a score and the cost.

    styles : mapping of method to Style
    hidden : Marks of a method's lines from this index on, its further settings, are drawn faintly
    """
    drawn_points = points(comparison, cost)
    if not drawn_points:
        return None
    quantity, sign = comparison.score, comparison.score.sign
    limit = fence([point.score for point in drawn_points], sign)
    kept = [
        p for p in drawn_points if limit is None or sign * p.score >= sign * limit
    ] or drawn_points
    ends = [p.score + side * p.sd for p in kept for side in (-1, 1)]
    up = Axis.around(quantity.title, [end * quantity.factor for end in ends], margin=0.07)
    across = Axis.around(f"{cost.title}, {cost.unit}", [p.cost for p in drawn_points], log=True)
    what = f"{quantity.title} against {cost.title} ({cost.unit})"
    label = f"{what}, one mark for each method and setting"
    drawn = Plot(across, up, label=label, title=what, width=450)
    front = pareto(kept, sign)
    _stairs(drawn, front, quantity)
    seen: dict[str, int] = {}
    for point in drawn_points:
        method = point.line.method
        seen[method] = seen.get(method, 0) + 1
        faint = seen[method] > hidden
        _mark(drawn, point, quantity, cost, styles[method], faint=faint)
    if len(front) > 1:
        taken = [drawn.at(p.cost, p.score * quantity.factor) for p in drawn_points]
        best = {point.line.method: point for point in front}  # a method's last point is its best
        for method, point in best.items():
            _name(drawn, method, drawn.at(point.cost, point.score * quantity.factor), taken)
    return drawn.chart()


def _stairs(drawn: Plot, front: Sequence[FrontPoint], quantity: Quantity) -> None:
    if len(front) < 2:
        return
    corners = [(front[0].cost, front[0].score * quantity.factor)]
    for point in front[1:]:
        corners.append((point.cost, corners[-1][1]))
        corners.append((point.cost, point.score * quantity.factor))
    drawn.line(corners, kind="guide")


def _mark(
    drawn: Plot, point: FrontPoint, quantity: Quantity, cost: Cost, style: Style, *, faint: bool
) -> None:
    """A marker that links to its runs; beyond the axis an arrow and the value."""
    words = f"{point.line.label}: {quantity.title} {quantity.text(point.score)}"
    words += f", {cost.words(point.cost)}"
    score, sd = point.score * quantity.factor, point.sd * quantity.factor
    beside = drawn.beside(point.cost, score, style, sd=sd, text=quantity.text(point.score))
    drawn.add(
        f'<a{" class=more" if faint else ""} tabindex="-1" data-m="{escape(point.line.method)}"'
        f' href="#run-{escape(point.line.address)}"><title>{escape(words)}</title>{beside}'
        f"{marker(*drawn.at(point.cost, score), style)}</a>"
    )


def _name(
    drawn: Plot, method: str, at: tuple[float, float], taken: list[tuple[float, float]]
) -> None:
    """The method's name on the side of its mark with the most space; none if no side is free.

    `taken` holds the centres of marks and, afterwards, points along the name.
    """
    width = LETTER * len(method)
    best: tuple[int, float, float] | None = None
    for left in (at[0] - 2 * _MARK - width, at[0] + 2 * _MARK):
        for middle in (at[1] - LINE, at[1] + LINE, at[1]):
            inside = left >= drawn.left and left + width <= drawn.right
            if not inside or not drawn.top <= middle <= drawn.bottom - LINE / 2:
                continue
            hidden = sum(
                left - _MARK < x < left + width + _MARK and abs(y - middle) < LINE / 2 + _MARK
                for x, y in taken
            )
            if best is None or hidden < best[0]:
                best = hidden, left, middle
    if best is None or best[0] > 0:
        return
    _, left, middle = best
    steps = math.ceil(width / (2 * _MARK))
    taken += [(left + width * i / steps, middle) for i in range(steps + 1)]
    place = f'x="{short(left)}" y="{short(middle)}" dy=".35em" data-m="{escape(method)}"'
    drawn.add(f'<text class="name" {place}>{escape(method)}</text>')
