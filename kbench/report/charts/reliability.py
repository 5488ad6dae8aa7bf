"""Reliability curves: how often a prediction is right against how sure the method is of it.

Test rows are grouped by the probability of their predicted class, and a curve has a mark for each
group. Calibrated probabilities lie on the diagonal (Guo, Pleiss, Sun and Weinberger, "On
Calibration of Modern Neural Networks", ICML 2017). The words of a curve name its expected
calibration error: the mean distance to the diagonal over all rows.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbench.report.charts.style import Style
from kbench.report.charts.svg import Axis, Chart, Plot
from kbench.report.comparisons.tables import Comparison, Line
from kbench.run.results.metrics import RELIABILITY, RELIABILITY_ROWS, RELIABILITY_X
from kbench.run.results.rows import RUN

if TYPE_CHECKING:
    import pandas as pd

Run = tuple[Any, ...]
# Confidence, fraction of right predictions, and fraction of all rows, of each group of rows.
Groups = list[tuple[float, float, float]]


def reliability_curves(curves: "pd.DataFrame") -> dict[Run, Groups]:
    """The groups of every run that has some; `curves` as `ResultsFolder.read_curves` has them."""
    groups = {}
    of_groups = curves[curves["x_name"] == RELIABILITY_X]
    for run, points in of_groups.groupby(list(RUN)):
        right = points[points["curve"] == RELIABILITY]
        rows = points[points["curve"] == RELIABILITY_ROWS]
        groups[run] = list(zip(right["x"], right["value"], rows["value"], strict=True))
    return groups


def reliability_chart(
    comparison: Comparison, groups: Mapping[Run, Groups], styles: Mapping[str, Style]
) -> Chart | None:
    """The curve of each method's best setting that has one; None where no method has one."""
    shown: dict[str, tuple[Line, Groups]] = {}
    for line in comparison.lines:
        for row in line.ok:
            of_run = groups.get(tuple(row[name] for name in RUN))
            if of_run and line.method not in shown:
                shown[line.method] = line, of_run
    if not shown:
        return None
    lowest_confidence = min(
        confidence for _, of_run in shown.values() for confidence, _, _ in of_run
    )
    lowest = min(right for _, of_run in shown.values() for _, right, _ in of_run)
    across = Axis.around(
        "probability of the predicted class", [lowest_confidence, 1.0], margin=0.03
    )
    up = Axis.around(
        "fraction of right predictions", [min(lowest_confidence, lowest), 1.0], margin=0.03
    )
    label = "fraction of right predictions against the probability of the predicted class"
    title = "calibration: right predictions by their probability"
    drawn = Plot(across, up, label=label, title=title, width=450)
    start = max(across.low, up.low)
    drawn.line([(start, start), (1.0, 1.0)], kind="guide")
    for method, (line, of_run) in shown.items():
        drawn.line([(confidence, right) for confidence, right, _ in of_run], styles[method])
        error = sum(rows * abs(confidence - right) for confidence, right, rows in of_run)
        for confidence, right, rows in of_run:
            words = f"{line.label}: {right:.3f} right of {100 * rows:.1f} % of the rows"
            words += f", probability {confidence:.3f}; expected calibration error {error:.4f}"
            drawn.mark(confidence, right, styles[method], words=words)
    return drawn.chart()
