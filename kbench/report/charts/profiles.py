"""Charts of a ranking: performance profiles by seconds to accuracy and by the score's gap, and mean
ranks."""

import math
from collections.abc import Mapping, Sequence

from kbench.report.charts.rank_chart import rank_chart
from kbench.report.charts.style import Style, distinct
from kbench.report.charts.svg import Axis, Chart, Plot
from kbench.report.statistics.rankings import CLOSE, Ranking

# Largest number of methods in one chart: more lines cannot be distinguished.
LINES = 8

_WORST = 0.1  # largest relative difference to the best score that is shown


def in_profiles(ranking: Ranking) -> tuple[str, ...]:
    """The methods of which the charts show profiles."""
    return tuple(standing.method for standing in ranking.standings[:LINES])


def ranking_charts(
    ranking: Ranking, known: Mapping[str, Style] | None = None
) -> tuple[list[Chart], list[tuple[str, Style]]]:
    """Profiles of the `LINES` methods of the best mean rank with their legend, and all mean ranks.

    `known` are styles that methods have in other charts.
    """
    shown = ranking.standings[:LINES]
    methods = in_profiles(ranking)
    of_all = distinct([methods], known)
    styles = {method: of_all[method] for method in methods}
    largest = max(
        (r for standing in shown for r in standing.ratios if math.isfinite(r)), default=1.0
    )
    reached = f"within {100 * CLOSE:g} % of the best score"
    times = {
        standing.method: _steps(standing.ratios, 1.0, max(largest, 2.0), 1.0) for standing in shown
    }
    gaps = {standing.method: _steps(standing.gaps, 0.0, _WORST, 100.0) for standing in shown}
    charts = [
        _staircases(reached, "seconds, as a multiple of the fastest", times, styles, log=True),
        _staircases("score", "% behind the best score", gaps, styles, log=False),
        rank_chart(ranking),
    ]
    return charts, list(styles.items())


def _staircases(
    title: str,
    abscissa: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    styles: Mapping[str, Style],
    *,
    log: bool,
) -> Chart:
    xs = [x for line in lines.values() for x, _ in line]
    across = Axis(abscissa, min(xs), max(xs), log=log)
    up = Axis("fraction of data sets", 0.0, 1.04)
    label = f"Performance profiles: {title}"
    drawn = Plot(across, up, label=label, title=title, width=420, height=300)
    for name, line in lines.items():
        drawn.line(line, styles[name])
        for x, y in line[2::2]:
            drawn.mark(x, y, styles[name], words=f"{name}: {y:.2f} of the data sets at {x:.3g}")
    return drawn.chart()


def _steps(
    values: Sequence[float], low: float, high: float, unit: float
) -> list[tuple[float, float]]:
    """The fraction of `values` up to each abscissa from `low` to `high`, as a staircase."""
    points = [(low * unit, 0.0)]
    for i, value in enumerate(sorted(v for v in values if v <= high), start=1):
        points += [(value * unit, points[-1][1]), (value * unit, i / len(values))]
    return [*points, (high * unit, points[-1][1])]


def caption(ranking: Ranking) -> str:
    """The caption of the charts."""
    few = min(LINES, len(ranking.standings))
    return (
        f"Performance profiles, {ranking.task}: the {few} methods of the best mean rank; mean "
        "ranks of all with critical differences"
    )
