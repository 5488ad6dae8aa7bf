"""The score of each line of a comparison against a cost, as inline SVG: fit time, or prediction.

The cost is on a logarithmic axis. A score far worse than the others (Tukey's fence) would flatten
them all; it is drawn on the edge, with an arrow and its value. The dashed staircase is the Pareto
front of the others: none of them is both cheaper and better than those on it, and the methods on it
are named where there is room.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from kbench.report.quantities import Quantity
from kbench.report.style import Style
from kbench.report.tables import Comparison, Line


@dataclass(frozen=True)
class Cost:
    """What a plot has on its abscissa."""

    column: str
    title: str
    unit: str

    def words(self, value: float) -> str:
        return f"{self.title} {value:.3g} {self.unit}"


FIT = Cost("fit_wall_s", "fit time", "s")
PREDICTION = Cost("prediction_cost", "prediction", "× linear model")
COSTS = (FIT, PREDICTION)

# Units of the view box.
_WIDTH, _HEIGHT = 520, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 14, 46
_LETTER, _LINE, _MARK = 6.2, 13.0, 5.0  # a name's letters and height, half a mark


@dataclass(frozen=True)
class Point:
    """A line's mean cost and score, and the score's deviation (0 for one seed)."""

    line: Line
    cost: float
    score: float
    sd: float


def points(comparison: Comparison, cost: Cost = FIT) -> list[Point]:
    """Of the lines that have both a cost above zero and a finite score."""
    found = []
    for line in comparison.lines:
        paid, score = line.mean_sd(cost.column), line.mean_sd(comparison.score.column)
        if paid and score and paid[0] > 0.0 and math.isfinite(score[0]):
            found.append(Point(line, paid[0], score[0], score[1] or 0.0))
    return found


def pareto(found: Sequence[Point], sign: int) -> list[Point]:
    """The points than which none is both cheaper and better, the cheapest first."""
    front: list[Point] = []
    for point in sorted(found, key=lambda p: (p.cost, -sign * p.score)):
        if not front or sign * point.score > sign * front[-1].score:
            front.append(point)
    return front


def fence(scores: Sequence[float], sign: int) -> float | None:
    """Tukey's fence on the worse side: 1.5 interquartile ranges beyond the quartile.

    None where there are too few scores, or too many equal ones, to speak of outliers.
    """
    if len(scores) < 4:
        return None
    low, _, high = statistics.quantiles(scores, n=4, method="inclusive")
    if low == high:
        return None
    return low - 1.5 * (high - low) if sign > 0 else high + 1.5 * (high - low)


def plot(
    comparison: Comparison,
    cost: Cost,
    styles: Mapping[str, Style],
    methods: Mapping[str, int],
    hidden: int,
) -> str:
    """The SVG element; empty where there is nothing to draw.

    Parameters
    ----------
    comparison : Comparison
    cost : Cost
    styles : mapping of method to Style
    methods : mapping of method to int
        Numbers by which the page filters.
    hidden : int
        Lines of one method from which on its points are drawn faintly: further settings.
    """
    found = points(comparison, cost)
    if not found:
        return ""
    quantity, sign = comparison.score, comparison.score.sign
    across = _CostAxis(cost, [point.cost for point in found])
    up = _ScoreAxis(found, quantity)
    label = (
        f"{quantity.title} against {cost.title} ({cost.unit}), one mark for each method and setting"
    )
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    parts = [f'<svg class="plot" {size} role="img" aria-label="{escape(label)}">']
    parts += [*across.drawn(), *up.drawn()]
    front = pareto([point for point in found if not up.clipped(point.score)], sign)
    if len(front) > 1:
        stairs = f"M{across(front[0].cost)} {up(front[0].score)}" + "".join(
            f"H{across(point.cost)}V{up(point.score)}" for point in front[1:]
        )
        parts.append(f'<path class="front" d="{stairs}"/>')
    seen: dict[str, int] = {}
    for point in found:
        method = point.line.method
        seen[method] = seen.get(method, 0) + 1
        kind = " more" if seen[method] > hidden else ""
        parts.append(_mark(point, across, up, styles[method], methods[method], kind))
    if len(front) > 1:
        marks = [(float(across(point.cost)), float(up(point.score))) for point in found]
        ends = {point.line.method: point for point in front}  # of several the best
        for method, point in ends.items():
            at = float(across(point.cost)), float(up(point.score))
            parts += _name(method, at, marks, methods[method])
    parts.append("</svg>")
    return "".join(parts)


class _CostAxis:
    """Costs on a logarithmic scale."""

    def __init__(self, cost: Cost, values: Sequence[float]) -> None:
        self.cost = cost
        low, high = math.log10(min(values)), math.log10(max(values))
        pad = max(0.06 * (high - low), 0.15)
        self.low, self.high = low - pad, high + pad

    def __call__(self, value: float) -> str:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return _short(_LEFT + share * (_WIDTH - _LEFT - _RIGHT))

    def drawn(self) -> list[str]:
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        inside = [d for d in decades if self.low <= d <= self.high]
        if len(inside) > 1:
            ticks = [10.0**d for d in inside]
        else:
            fine = [step * 10.0**d for d in decades for step in (1, 2, 5)]
            ticks = [t for t in fine if self.low <= math.log10(t) <= self.high]
        bottom = _HEIGHT - _BOTTOM
        parts = []
        for tick in ticks:
            x = self(tick)
            parts.append(f'<path class="grid" d="M{x} {_TOP}V{bottom}"/>')
            parts.append(f'<text class="x" x="{x}" y="{bottom + 18}">{tick:g}</text>')
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        words = f"{self.cost.title}, {self.cost.unit}"
        parts.append(f'<text class="x" x="{middle:g}" y="{_HEIGHT - 6}">{words}</text>')
        return parts


class _ScoreAxis:
    """Scores on a linear scale, without those beyond Tukey's fence."""

    def __init__(self, found: Sequence[Point], quantity: Quantity) -> None:
        self.quantity = quantity
        limit = fence([point.score for point in found], quantity.sign)
        sign = quantity.sign
        kept = [
            point for point in found if limit is None or sign * point.score >= sign * limit
        ] or list(found)
        low = min(point.score - point.sd for point in kept)
        high = max(point.score + point.sd for point in kept)
        pad = 0.07 * (high - low) or 0.02 * abs(high) or 1.0
        self.low, self.high = low - pad, high + pad

    def __call__(self, score: float) -> str:
        share = (min(max(score, self.low), self.high) - self.low) / (self.high - self.low)
        return _short(_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM))

    def clipped(self, score: float) -> bool:
        return not self.low <= score <= self.high

    def drawn(self) -> list[str]:
        factor = self.quantity.factor
        step = _nice((self.high - self.low) * factor / 5)
        first = math.ceil(self.low * factor / step)
        last = math.floor(self.high * factor / step)
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        right = _WIDTH - _RIGHT
        parts = []
        for k in range(first, last + 1):
            y = self(k * step / factor)
            parts.append(f'<path class="grid" d="M{_LEFT} {y}H{right}"/>')
            text = f"{k * step:.{decimals}f}"
            parts.append(f'<text class="y" x="{_LEFT - 7}" y="{y}" dy=".35em">{text}</text>')
        middle = (_TOP + _HEIGHT - _BOTTOM) / 2
        parts.append(
            f'<text class="x" transform="translate(13 {middle:g}) rotate(-90)">'
            f"{escape(self.quantity.title)}</text>"
        )
        return parts


def _mark(
    point: Point, across: _CostAxis, up: _ScoreAxis, style: Style, method: int, kind: str
) -> str:
    quantity = up.quantity
    x, y = across(point.cost), up(point.score)
    words = f"{point.line.label}: {quantity.title} {quantity.text(point.score)}"
    words += f", {across.cost.words(point.cost)}"
    whisker = ""
    if up.clipped(point.score):
        below = point.score < up.low
        text = f"{'↓' if below else '↑'} {quantity.text(point.score)}"
        right = float(x) > _WIDTH / 2
        at = 'dx="-9" class="end"' if right else 'dx="9"'
        whisker = f'<text x="{x}" y="{y}" dy="{"-.2em" if below else ".9em"}" {at}>{text}</text>'
    elif point.sd > 0.0:
        ends = up(point.score - point.sd), up(point.score + point.sd)
        whisker = f'<path class="sd" d="M{x} {ends[0]}V{ends[1]}"/>'
    return (
        f'<a class="c{style.colour}{kind}" data-m="{method}"'
        f' href="#run-{point.line.address}"><title>{escape(words)}</title>{whisker}'
        f'<use href="#s{style.marker}" x="{x}" y="{y}"/></a>'
    )


def _name(
    method: str, at: tuple[float, float], taken: list[tuple[float, float]], number: int
) -> list[str]:
    """The method's name beside its mark, on the emptiest side; none where every side is taken.

    `taken` holds centres of marks and, afterwards, points along the name.
    """
    width = _LETTER * len(method)
    best: tuple[int, float, float] | None = None
    for left in (at[0] - 2 * _MARK - width, at[0] + 2 * _MARK):
        for middle in (at[1] - _LINE, at[1] + _LINE, at[1]):
            inside = left >= _LEFT and left + width <= _WIDTH - _RIGHT
            if not inside or not _TOP <= middle <= _HEIGHT - _BOTTOM - _LINE / 2:
                continue
            hidden = sum(
                left - _MARK < x < left + width + _MARK and abs(y - middle) < _LINE / 2 + _MARK
                for x, y in taken
            )
            if best is None or hidden < best[0]:
                best = hidden, left, middle
    if best is None or best[0] > 0:
        return []
    _, left, middle = best
    steps = math.ceil(width / (2 * _MARK))
    taken += [(left + width * i / steps, middle) for i in range(steps + 1)]
    at_text = f'x="{_short(left)}" y="{_short(middle)}" dy=".35em"'
    return [f'<text class="name" data-m="{number}" {at_text}>{escape(method)}</text>']


def _nice(step: float) -> float:
    """The next of 1, 2 and 5 times a power of ten, from `step` on."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= step * (1 - 1e-9))


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
