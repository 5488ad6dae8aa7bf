"""Performance profiles of a ranking as SVG: by seconds to accuracy, and by the score's gap."""

import math
from collections.abc import Sequence

from kbench.report.papers.drawing import method_styles, svg
from kbench.report.papers.figures import Axis, Drawn, Figure, Panel, Point
from kbench.report.rankings import Ranking
from kbench.report.recommend import CLOSE

# Lines in one pair of axes that a reader can follow.
LINES = 8

_WORST = 0.1  # the largest gap that is shown


def profiles(found: Ranking) -> str:
    """The profiles of the `LINES` methods of the best mean rank, as an SVG document."""
    shown = found.standings[:LINES]
    names = {one.method: one.method for one in shown}
    largest = max((r for one in shown for r in one.ratios if math.isfinite(r)), default=1.0)
    share = Axis(count="share of data sets")
    times = Axis(count="seconds, as a multiple of the fastest")
    gap = Axis(count="% behind the best score")
    reached = f"within {100 * CLOSE:g} % of the best score"
    panels = [
        Drawn(
            Panel(reached, {}, times, share),
            reached,
            {one.method: _steps(one.ratios, 1.0, largest, 1.0) for one in shown},
            methods=names,
        ),
        Drawn(
            Panel("score", {}, gap, share),
            "score",
            {one.method: _steps(one.gaps, 0.0, _WORST, 100.0) for one in shown},
            methods=names,
        ),
    ]
    figure = Figure(f"rankings_{found.task}", "", "", "", [], ("x",))
    return svg(figure, panels, method_styles(tuple(names)))


def _steps(values: Sequence[float], low: float, high: float, unit: float) -> list[Point]:
    """The share of `values` up to each abscissa from `low` to `high`, as a staircase."""
    points: list[Point] = [(low * unit, 0.0, 0.0)]
    for i, value in enumerate(sorted(v for v in values if v <= high), start=1):
        points += [(value * unit, points[-1][1], 0.0), (value * unit, i / len(values), 0.0)]
    return [*points, (high * unit, points[-1][1], 0.0)]


def caption(found: Ranking) -> str:
    """What the drawing shows."""
    few = min(LINES, len(found.standings))
    return f"Performance profiles, {found.task}: the {few} methods of the best mean rank"
