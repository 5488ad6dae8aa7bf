"""Mean ranks of methods over data sets with Nemenyi's critical difference as a chart.

J. Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006, section
3.2.2. Each bar is as long as the critical difference and centred at a mean rank, so two methods
differ significantly where their bars do not overlap. Names stand at the axis, which stays readable
with twenty methods, where the brackets of Demsar's own figure would cross each other.
"""

from kbench.report.charts.style import Style
from kbench.report.charts.svg import Axis, Chart, Plot
from kbench.report.statistics.compare import LEVEL, critical_difference
from kbench.report.statistics.rankings import Ranking

_ROW = 22  # units of the view box for each method
_FRAME = 80  # units for the title and the axis


def rank_chart(ranking: Ranking) -> Chart:
    """One bar for each method of a ranking, the best mean rank on top."""
    standings = ranking.standings[::-1]
    k, n = len(standings), len(ranking.comparisons)
    difference = critical_difference(k, n)
    means = [standing.rank.mean for standing in standings]
    ends = [mean + sign * difference / 2.0 for mean in means for sign in (-1.0, 1.0)]
    level = f"{100 * (1.0 - LEVEL):.0f} % level"
    plot = Plot(
        Axis.around("mean rank, 1 is the best", [1.0, float(k), *ends], margin=0.02),
        Axis.named("", [standing.method for standing in standings]),
        label=f"Mean ranks over {n} data sets, critical difference {difference:.2f}",
        title=f"Bars that do not overlap differ (Nemenyi, {level}, {difference:.2f})",
        width=420,
        height=max(300, _FRAME + _ROW * k),
    )
    style = Style(0, 0)
    for row, (standing, mean) in enumerate(zip(standings, means, strict=True)):
        plot.line([(mean - difference / 2.0, row), (mean + difference / 2.0, row)], style)
        plot.mark(mean, row, style, words=f"{standing.method}: mean rank {mean:.2f}")
    return plot.chart()
