"""The score of each line of a comparison against the cost of fits or of predictions.

The cost has a logarithmic axis. A score beyond Tukey's fence would compress the range of the other
scores, so its mark is on the edge, with an arrow and the value. Dashed stairs show the Pareto front
of the other marks: no setting is both cheaper and better than a setting on the front. Methods on
the front are named beside their marks if there is space.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from kbench.report.charts.style import Style
from kbench.report.charts.svg import LETTER, LINE, NARROW, Axis, Chart, Plot, marker, short
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.tables import Comparison
from kbench.report.statistics.fronts import CostAxis, FrontPoint, pareto, points

# Half the width of a marker, in units of the view box; the part of the scores' range that the axis
# leaves free above and below them; fewest scores whose quartiles define outliers. Set by hand.
_HALF_MARK, _MARGIN, _MIN_FENCED_SCORES = 5.0, 0.07, 4


def inner_fence(scores: Sequence[float], sign: int) -> float | None:
    """Tukey's fence on the worse side: 1.5 interquartile ranges beyond the quartile.

    This is Tukey's inner fence; `svg.outer_fences` are the outer ones, on both sides of an axis.

    None if there are too few scores, or too many equal scores, to define outliers.
    """
    if len(scores) < _MIN_FENCED_SCORES:
        return None
    low, _, high = statistics.quantiles(scores, n=4, method="inclusive")
    if low == high:
        return None
    return low - 1.5 * (high - low) if sign > 0 else high + 1.5 * (high - low)


def tradeoff(
    comparison: Comparison, cost: CostAxis, styles: Mapping[str, Style], n_clear: int
) -> Chart | None:
    """The chart of one comparison; None if no line has both a score and the cost.

    styles : mapping of method to Style
    n_clear : Marks of a method's first `n_clear` lines are clear, marks of its other lines faint
    """
    drawn_points = points(comparison, cost)
    if not drawn_points:
        return None
    quantity, sign = comparison.score, comparison.score.sign
    limit = inner_fence([point.score for point in drawn_points], sign)
    inside = [
        p for p in drawn_points if limit is None or sign * p.score >= sign * limit
    ] or drawn_points
    ends = [p.score + side * p.sd for p in inside for side in (-1, 1)]
    y_axis = Axis.around(quantity.title, [end * quantity.factor for end in ends], margin=_MARGIN)
    x_axis = Axis.around(f"{cost.title}, {cost.unit}", [p.cost for p in drawn_points], log=True)
    title = f"{quantity.title} against {cost.title} ({cost.unit})"
    label = f"{title}, one mark for each method and setting"
    plot = Plot(x_axis, y_axis, label=label, title=title, width=NARROW)
    front = pareto(inside, sign)
    _draw_stairs(plot, front, quantity)
    counts: dict[str, int] = {}
    for point in drawn_points:
        method = point.line.method
        counts[method] = counts.get(method, 0) + 1
        faint = counts[method] > n_clear
        _draw_mark(plot, point, quantity, cost, styles[method], faint=faint)
    if len(front) > 1:
        occupied = [plot.at(p.cost, p.score * quantity.factor) for p in drawn_points]
        best = {point.line.method: point for point in front}  # a method's last point is its best
        for method, point in best.items():
            _draw_name(plot, method, plot.at(point.cost, point.score * quantity.factor), occupied)
    return plot.chart()


def _draw_stairs(plot: Plot, front: Sequence[FrontPoint], quantity: Quantity) -> None:
    if len(front) < 2:
        return
    corners = [(front[0].cost, front[0].score * quantity.factor)]
    for point in front[1:]:
        corners.append((point.cost, corners[-1][1]))
        corners.append((point.cost, point.score * quantity.factor))
    plot.line(corners, kind="guide")


def _draw_mark(
    plot: Plot, point: FrontPoint, quantity: Quantity, cost: CostAxis, style: Style, *, faint: bool
) -> None:
    """Draw a marker that links to its runs; beyond the axis also an arrow and the value."""
    tooltip = f"{point.line.label}: {quantity.title} {quantity.text(point.score)}"
    tooltip += f", {cost.text(point.cost)}"
    score, sd = point.score * quantity.factor, point.sd * quantity.factor
    beside = plot.beside(point.cost, score, style, sd=sd, text=quantity.text(point.score))
    plot.add(
        f'<a{" class=more" if faint else ""} tabindex="-1" data-m="{escape(point.line.method)}"'
        f' href="#run-{escape(point.line.identifier)}"><title>{escape(tooltip)}</title>{beside}'
        f"{marker(*plot.at(point.cost, score), style)}</a>"
    )


def _draw_name(
    plot: Plot, method: str, mark: tuple[float, float], occupied: list[tuple[float, float]]
) -> None:
    """Draw the method's name on the side of its mark with the most space, if a side is free.

    `occupied` holds the centres of marks; points along the name are added.
    """
    width = LETTER * len(method)
    best: tuple[int, float, float] | None = None
    for left in (mark[0] - 2 * _HALF_MARK - width, mark[0] + 2 * _HALF_MARK):
        for middle in (mark[1] - LINE, mark[1] + LINE, mark[1]):
            inside = left >= plot.left and left + width <= plot.right
            if not inside or not plot.top <= middle <= plot.bottom - LINE / 2:
                continue
            n_covered = sum(
                left - _HALF_MARK < x < left + width + _HALF_MARK
                and abs(y - middle) < LINE / 2 + _HALF_MARK
                for x, y in occupied
            )
            if best is None or n_covered < best[0]:
                best = n_covered, left, middle
    if best is None or best[0] > 0:
        return
    _, left, middle = best
    steps = math.ceil(width / (2 * _HALF_MARK))
    occupied += [(left + width * i / steps, middle) for i in range(steps + 1)]
    position = f'x="{short(left)}" y="{short(middle)}" dy=".35em" data-m="{escape(method)}"'
    plot.add(f'<text class="name" {position}>{escape(method)}</text>')
