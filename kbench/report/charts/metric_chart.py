"""A learned metric as charts: its diagonal, and the directions that it stretches most."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.report.charts.style import Style
from kbench.report.charts.svg import Axis, Chart, Plot, document

# Largest numbers of features and directions in the charts. Set by hand.
_MAX_FEATURES, _MAX_DIRECTIONS = 15, 4
# Height of a feature's row, of title and axis together, and width of the charts, in units of the
# view box. Set by hand.
_ROW_HEIGHT, _FRAME_HEIGHT, _WIDTH = 20, 90, 420


def draw_metric(metric: Any, names: Sequence[str] | None = None) -> str:
    """Charts of a fitted `LearnedMetric` as an SVG document.

    The first chart shows the diagonal of M for standardised features (`feature_importances_`), the
    second chart the eigenvectors of the largest eigenvalues of a full M: each cell is the square of
    a feature's coefficient, in per cent of the direction. The charts have the features with the
    largest diagonal, at most 15; indicators of a column's values are added up.

    Parameters
    ----------
    metric : LearnedMetric, fitted
    names : sequence of d str, optional
        Names of the features. The default is `feature_names_in_`, or x0, x1, ...

    Raises
    ------
    ValueError
        `metric` is not fitted, or there are more or fewer names than features.
    """
    importances = getattr(metric, "feature_importances_", None)
    if importances is None:
        raise ValueError(f"metric is {type(metric).__name__}, should be a fitted LearnedMetric")
    if names is None:
        names = getattr(metric, "feature_names_in_", [f"x{j}" for j in range(len(importances))])
    if len(names) != len(importances):
        raise ValueError(f"{len(names)} names for {len(importances)} features")
    order = np.argsort(-importances, kind="stable")[:_MAX_FEATURES][::-1]
    labels = [str(names[j]) for j in order]
    charts = [_diagonal(100.0 * importances[order], labels)]
    if metric.structure_ not in ("diagonal", "warped"):
        charts.append(_directions(metric, order, labels))
    return document(charts)


def _diagonal(percent: np.ndarray, labels: Sequence[str]) -> Chart:
    plot = Plot(
        Axis(
            "per cent of the trace", 0.0, 1.05 * float(percent.max())
        ),  # 5 % stay free; set by hand
        Axis.named("", labels),
        label="Diagonal of the learned metric",
        title="Diagonal of M, standardised features",
        width=_WIDTH,
        height=_FRAME_HEIGHT + _ROW_HEIGHT * len(labels),
    )
    style = Style(0, 0)
    for row, (name, value) in enumerate(zip(labels, percent.tolist(), strict=True)):
        plot.line([(0.0, row), (value, row)], style)
        plot.mark(value, row, style, tooltip=f"{name}: {value:.1f} %")
    return plot.chart()


def _directions(metric: Any, order: np.ndarray, labels: Sequence[str]) -> Chart:
    scale = np.where(np.isfinite(metric.scale_), metric.scale_, 0.0)
    squares = (metric.components_ * scale[:, None]) ** 2
    lengths = squares.sum(axis=0)
    leading = np.argsort(-lengths, kind="stable")[:_MAX_DIRECTIONS]
    by_feature = np.zeros((len(metric.feature_importances_), len(leading)))
    np.add.at(by_feature, metric.column_map_.sources, squares[:, leading])
    percent = 100.0 * by_feature / lengths[leading]
    headers = [f"{value:.0f} %" for value in 100.0 * lengths[leading] / lengths.sum()]
    plot = Plot(
        Axis.named("eigenvalue, per cent of the trace", headers),
        Axis.named("", labels),
        label="Leading directions of the learned metric",
        title="Leading directions, squared coefficients in %",
        width=_WIDTH,
        height=_FRAME_HEIGHT + _ROW_HEIGHT * len(labels),
    )
    cells = percent[order].tolist()
    plot.cells(cells, [[f"{value:.0f}" for value in row] for row in cells])
    return plot.chart()
