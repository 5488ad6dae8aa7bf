"""Reliability curves: the fraction of right predictions against their probability.

Test rows are grouped by the probability of their predicted class, and a curve has a mark for each
group. Marks of calibrated probabilities lie on the diagonal (Guo, Pleiss, Sun and Weinberger, "On
Calibration of Modern Neural Networks", ICML 2017). Tooltips have the expected calibration error,
which is the mean distance to the diagonal over all rows.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbench.report.charts.style import Style
from kbench.report.charts.svg import NARROW, Axis, Chart, Plot
from kbench.report.comparisons.tables import Comparison, Line
from kbench.run.results.metrics import RELIABILITY, RELIABILITY_ROWS, RELIABILITY_X
from kbench.run.results.rows import RUN

if TYPE_CHECKING:
    import pandas as pd

# Fraction of the axes' range that stays free beside the marks. Set by hand.
_MARGIN = 0.03

# The values of a run in the columns `RUN`.
RunKey = tuple[Any, ...]
# For each group of rows: confidence, fraction of right predictions, and fraction of all rows.
Groups = list[tuple[float, float, float]]


def reliability_curves(curves: "pd.DataFrame") -> dict[RunKey, Groups]:
    """Run -> its groups of rows; `curves` as `ResultsFolder.read_curves` returns them."""
    groups = {}
    group_curves = curves[curves["x_name"] == RELIABILITY_X]
    for run, points in group_curves.groupby(list(RUN)):
        right = points[points["curve"] == RELIABILITY]
        rows = points[points["curve"] == RELIABILITY_ROWS]
        groups[run] = list(zip(right["x"], right["value"], rows["value"], strict=True))
    return groups


def reliability_chart(
    comparison: Comparison, groups: Mapping[RunKey, Groups], styles: Mapping[str, Style]
) -> Chart | None:
    """The curve of each method's best setting with groups; None if no method has groups."""
    best: dict[str, tuple[Line, Groups]] = {}
    for line in comparison.lines:
        for row in line.ok:
            bins = groups.get(tuple(row[name] for name in RUN))
            if bins and line.method not in best:
                best[line.method] = line, bins
    if not best:
        return None
    lowest_confidence = min(confidence for _, bins in best.values() for confidence, _, _ in bins)
    lowest_fraction = min(right for _, bins in best.values() for _, right, _ in bins)
    titles = "probability of the predicted class", "fraction of right predictions"
    x_axis = Axis.around(titles[0], [lowest_confidence, 1.0], margin=_MARGIN)
    y_axis = Axis.around(titles[1], [min(lowest_confidence, lowest_fraction), 1.0], margin=_MARGIN)
    label = "fraction of right predictions against the probability of the predicted class"
    title = "calibration: right predictions by their probability"
    plot = Plot(x_axis, y_axis, label=label, title=title, width=NARROW)
    start = max(x_axis.low, y_axis.low)
    plot.line([(start, start), (1.0, 1.0)], kind="guide")
    for method, (line, bins) in best.items():
        plot.line([(confidence, right) for confidence, right, _ in bins], styles[method])
        error = sum(rows * abs(confidence - right) for confidence, right, rows in bins)
        for confidence, right, rows in bins:
            tooltip = f"{line.label}: {right:.3f} right of {100 * rows:.1f} % of the rows"
            tooltip += f", probability {confidence:.3f}; expected calibration error {error:.4f}"
            plot.mark(confidence, right, styles[method], tooltip=tooltip)
    return plot.chart()
