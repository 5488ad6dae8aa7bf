"""Charts of rows by matplotlib, in files and notebooks: trade-offs, swept parameters, curves.

Pages have SVG charts of our own, because each of their marks opens its run. The charts of this
module are for papers and slides: figures of matplotlib, which users can change and save.
"""

import itertools
import json
import logging
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.errors import ConfigError
from kbench.mistyped import nearest
from kbench.report.comparisons.cells import title_with_splits
from kbench.report.comparisons.quantities import QUANTITIES, Quantity, quantity
from kbench.report.comparisons.quantities import SCORES as SCORES_OF_TASKS
from kbench.report.comparisons.tables import (
    PROBLEM_PARAMETERS,
    SCORES,
    Comparison,
    Line,
    Row,
    comparisons,
    is_seconds,
    shortest_text,
)
from kbench.report.statistics.days import Days
from kbench.report.statistics.fronts import CostAxis, pareto, points

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOG = logging.getLogger(__name__)

_MARKERS = "osD^vP*X<>"
# Number of panels side by side; width and height of a panel in inches. Set by hand.
_MAX_PANELS_ABREAST, _PANEL_WIDTH, _PANEL_HEIGHT = 3, 4.2, 3.3
# Inches of a legend entry without its letters, of a letter and of a line's height. Set by hand.
_ENTRY_WIDTH, _LETTER_WIDTH, _LINE_HEIGHT = 0.6, 0.08, 0.22
_TITLE_LETTERS = 65  # letters of the legend's title that fit below a panel; set by hand
# Values that span more than this factor get a logarithmic axis. Set by hand.
_LOG_AXIS_RATIO = 20.0

Styles = Mapping[str, dict[str, Any]]


def figure(
    rows: Iterable[Row], x: str, y: str | None, curves: "pd.DataFrame | None" = None
) -> "Figure":
    """A panel for each data set, with a colour and a marker for each method.

    rows : iterable of mapping. As for `comparisons`.
    x : A column of measured values shows methods and settings as marks, which are means over seeds
        with standard deviations, and the Pareto front as dashes. A parameter shows lines over its
        values. If `y` is a curve, x is `seconds`, another abscissa of a curve, or a curve. Methods
        without the curve of a test score are marks at their final cost and score.
    y : A column of measured values, or a curve; by default the first score of the task
    curves : As `ResultsFolder.read_curves` returns them

    Raises ConfigError: nothing can be drawn, because no row has the column, parameter or curve.
    """
    from matplotlib.figure import Figure

    rows = list(rows)
    keys = {row["key"] for row in rows}
    triples = (
        () if curves is None else zip(curves["curve"], curves["x_name"], curves["key"], strict=True)
    )
    pairs = {(name, abscissa) for name, abscissa, key in triples if key in keys}
    # Two curves with the same abscissa are drawn one against the other.
    pairs |= {(b, a) for (a, s), (b, t) in itertools.permutations(pairs, 2) if s == t and a != b}
    params = {name for row in rows for name in json.loads(row["params"] or "{}")}
    of_curves = (y, x) in pairs and x not in params
    added = {name for row in rows for name in row.get(SCORES) or ()}
    _check_axes(x, y, pairs, params, added)
    scores = {*QUANTITIES, *added}
    score = None if y is None or of_curves or y not in scores else quantity(y, "y", added)
    tables = comparisons(rows, score, splits=not of_curves)
    plotted = [(table, _all_series(table, x, y, score, curves, of_curves)) for table in tables]
    plotted = [(comparison, series) for comparison, series in plotted if series]
    if not plotted:
        raise ConfigError(f"no run has numbers for both x={x} and y={y or 'a score'}")
    methods = sorted({method for _, series in plotted for method, *_ in series})
    if absent := sorted({row["method"] for row in rows} - {*methods}):
        _LOG.warning("not drawn, without numbers on both axes: %s", ", ".join(absent))
    colours = [f"C{i}" for i in range(10)]  # matplotlib's cycle
    styles: Styles = {
        method: {
            "color": colours[i % 10],
            "marker": _MARKERS[i % len(_MARKERS)],
            "fillstyle": "none",  # a mark below another stays visible
        }
        for i, method in enumerate(methods)
    }
    width = min(_MAX_PANELS_ABREAST, len(plotted))
    height = math.ceil(len(plotted) / width)
    columns = int(_PANEL_WIDTH * width / (_ENTRY_WIDTH + _LETTER_WIDTH * max(map(len, methods))))
    columns = max(1, min(columns, len(methods)))
    explanation = _explanation(plotted, x, y)
    if x == "seconds" or is_seconds(x) or is_seconds(str(y)):
        ok = (row for comparison, _ in plotted for line in comparison.lines for row in line.ok)
        explanation = f"{explanation}. {Days(rows).remark(ok)}".removesuffix(". ")
    lines = math.ceil(len(methods) / columns) + len(explanation) // (_TITLE_LETTERS * width)
    legend_height = 0.3 + _LINE_HEIGHT * lines  # inches, set by hand
    fig = Figure(
        figsize=(_PANEL_WIDTH * width, _PANEL_HEIGHT * height + legend_height), layout="constrained"
    )
    panels = list(itertools.chain(*fig.subplots(height, width, squeeze=False)))
    titles = [title_with_splits(comparison.problem) for comparison, _ in plotted]
    for axes, (comparison, series), name in zip(panels, plotted, titles, strict=False):
        _draw_panel(axes, comparison, series, styles, x, y, score, of_curves=of_curves)
        machine = comparison.machine
        subtitle = (
            f"\n{machine.environment}, {machine.threads} threads, n={comparison.problem.n_train}"
        )
        axes.set_title(name + (subtitle if titles.count(name) > 1 else ""), fontsize="medium")
    for axes in panels[len(plotted) :]:
        axes.set_axis_off()
    handles = {
        method: panels[0].plot([], [], linestyle="", **styles[method])[0] for method in methods
    }
    fig.legend(
        handles.values(),
        handles,
        loc="outside lower center",
        ncols=columns,
        title="\n".join(textwrap.wrap(explanation, _TITLE_LETTERS * width)),
        title_fontsize="small",
    )
    return fig


def _check_axes(
    x: str, y: str | None, pairs: set[tuple[str, str]], params: set[str], added: set[str]
) -> None:
    """Raise a ConfigError for axes that no run has; a pair is a curve and its abscissa."""
    names = {*QUANTITIES, *added, *(name for name, _ in pairs)}
    if y is not None and y not in names:
        more = "; metrics=[NAME] adds a score to a run" if not nearest(y, names) else ""
        raise ConfigError(f"y={y}{nearest(y, names)}: no run has such values{more}")
    abscissae = {abscissa: sorted(n for n, a in pairs if a == abscissa) for _, abscissa in pairs}
    if x in set(abscissae) - {*params, *QUANTITIES} and y not in abscissae[x]:
        raise ConfigError(f"x={x} belongs to curves: write y={' or y='.join(abscissae[x])}")
    y_abscissae = sorted(a for n, a in pairs if n == y)
    if y_abscissae and y not in {*QUANTITIES, *added} and x not in y_abscissae:
        raise ConfigError(f"y={y} is a curve: write x={' or x='.join(y_abscissae)}")
    if x not in {*QUANTITIES, *params, *abscissae}:
        name = x.removeprefix("method.")
        hint = nearest(name, {*QUANTITIES, *params, *abscissae})
        raise ConfigError(
            f"x={x}{hint}: x should be a parameter of the methods, a measured quantity "
            f"({', '.join(QUANTITIES)}), or the abscissa of a curve"
            + (f" ({', '.join(sorted(abscissae))})" if abscissae else "")
        )


# Parameters of a setting except the swept parameter, as texts, sorted by name.
_OtherParameters = tuple[tuple[str, str], ...]
# method, label, abscissae, ordinates, deviations or None; `label` is "" for marks.
_Series = tuple[str, str, list[float], list[float], list[float] | None]


def _all_series(
    comparison: Comparison,
    x: str,
    y: str | None,
    score: Quantity | None,
    curves: "pd.DataFrame | None",
    of_curves: bool,
) -> list[_Series]:
    if of_curves:
        assert curves is not None
        return _curve_series(comparison, x, str(y), curves)
    if score is not None and comparison.score != score:
        return []
    if x in QUANTITIES:
        return [
            (point.line.method, "", [point.cost * _factor(x)], [_in_unit(comparison, point.score)],
             [point.sd * comparison.score.factor])
            for point in points(comparison, CostAxis(x, x, ""))
        ]  # fmt: skip
    return _swept_series(comparison, x)


def _curve_series(comparison: Comparison, x: str, y: str, curves: "pd.DataFrame") -> list[_Series]:
    series: list[_Series] = []
    is_score = y.removeprefix("test_") in QUANTITIES
    for line in comparison.lines:
        curves_of_line = [
            (line.method, f"{line.label}, seed {row['seed']}", *curve, None)
            for row in line.rows
            if (curve := _run_curve(curves[curves["key"] == row["key"]], row["environment"], x, y))
        ]
        series += curves_of_line
        if is_score and not curves_of_line:
            # A method without a curve is a mark at its final cost and score.
            cost = line.mean_sd("fit_wall_s" if x == "seconds" else x)
            score = line.mean_sd(y.removeprefix("test_"))
            if cost is not None and score is not None:
                series.append((line.method, "", [cost[0]], [score[0]], [score[1] or 0.0]))
    return series


def _run_curve(
    curves: "pd.DataFrame", environment: str, x: str, y: str
) -> tuple[list[float], list[float]] | None:
    """A curve of one run, over its abscissa or over another curve with the same abscissa."""
    own_curves = curves[curves["environment"] == environment]
    for abscissa, group in own_curves[own_curves["curve"] == y].groupby("x_name"):
        if abscissa == x:
            return group["x"].tolist(), group["value"].tolist()
        other = own_curves[(own_curves["curve"] == x) & (own_curves["x_name"] == abscissa)]
        if len(other):
            abscissae = np.interp(group["x"], other["x"], other["value"])
            return abscissae.tolist(), group["value"].tolist()
    return None


def _swept_series(comparison: Comparison, name: str) -> list[_Series]:
    """Lines over the values of `name`: one for each method and setting of other parameters."""
    groups: defaultdict[tuple[str, _OtherParameters], list[Line]] = defaultdict(list)
    for line in comparison.lines:
        value = line.params.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            others = sorted((k, shortest_text(v)) for k, v in line.params.items() if k != name)
            groups[line.method, tuple(others)].append(line)
    series: list[_Series] = []
    for (method, setting), lines in groups.items():
        label = _problem_differences(setting, [others for m, others in groups if m == method])
        measured = sorted(
            (line.params[name], mean[0], line.deviation(comparison.score.column) or 0.0)
            for line in lines
            if (mean := line.mean_sd(comparison.score.column)) is not None
        )
        if measured:
            means = [_in_unit(comparison, mean) for _, mean, _ in measured]
            spread = [_in_unit(comparison, bar) for *_, bar in measured]
            series.append((method, label, [float(v) for v, *_ in measured], means, spread))
    return series


def _problem_differences(setting: _OtherParameters, settings: Sequence[_OtherParameters]) -> str:
    """The problem's parameters in which a setting differs from other settings of its method."""
    values, all_settings = dict(setting), [dict(others) for others in settings]
    return " ".join(
        f"{name}={values[name]}"
        for name in PROBLEM_PARAMETERS
        if name in values and any(other.get(name) != values[name] for other in all_settings)
    )


def _joins_problems(comparison: Comparison, y: str | None) -> bool:
    """Whether a curve strings together the binary problems of several classes."""
    scores = {score.column for score in SCORES_OF_TASKS}
    return (comparison.problem.n_classes or 0) > 2 and str(y).removeprefix("test_") not in scores


def _explanation(drawn: Sequence[tuple[Comparison, list[_Series]]], x: str, y: str | None) -> str:
    """A sentence that explains marks, bars and dashes of a figure."""
    series = [item for _, lines in drawn for item in lines]
    if all(spread is None for *_, spread in series):
        joins = {_joins_problems(comparison, y) for comparison, _ in drawn}
        dots = "dots: steps of the binary problems of several classes, one problem after another"
        return "; ".join(["a line for each run"] * (False in joins) + [dots] * (True in joins))
    phrases = ["means of a setting" if x in QUANTITIES else f"means of settings that differ in {x}"]
    bars = any(spread and any(spread) for *_, spread in series)
    over_splits = {comparison.problem.n_splits > 1 for comparison, _ in drawn}
    kinds = {False: "± standard deviation over seeds", True: "± standard error over splits"}
    phrases += [kinds[several] for several in sorted(over_splits)] if bars else []
    return "; ".join([*phrases, *(["dashed: Pareto front"] if x in QUANTITIES else [])])


def _in_unit(comparison: Comparison, value: float) -> float:
    return value * comparison.score.factor


def _factor(column: str) -> float:
    return QUANTITIES[column].factor


def _draw_panel(
    axes: "Axes",
    comparison: Comparison,
    series: Sequence[_Series],
    styles: Styles,
    x: str,
    y: str | None,
    score: Quantity | None,
    *,
    of_curves: bool,
) -> None:
    """Draw the series; sizes (points), opacities and numbers of ticks are set by hand."""
    from matplotlib.ticker import NullFormatter

    has_costs = x in QUANTITIES and not of_curves
    for method, label, xs, ys, spread in series:
        style = {**styles[method], "label": label, "markersize": 5, "linewidth": 1.2}
        if spread is None:
            # A line from one binary problem to the next would be a zigzag.
            kind = "." if _joins_problems(comparison, y) else "-"
            axes.plot(xs, ys, kind, color=style["color"], label=label, linewidth=1.2, alpha=0.8)
        else:
            bars = spread if any(spread) else None
            axes.errorbar(xs, ys, bars, linestyle="none" if has_costs else "-", **style)
            offset: dict[str, Any] = {
                "xytext": (-4, 5),
                "textcoords": "offset points",
                "ha": "right",
            }
            axes.annotate(
                label, (xs[-1], ys[-1]), fontsize="x-small", color=style["color"], **offset
            )
    abscissae = [value for _, _, xs, _, _ in series for value in xs]
    if min(abscissae) > 0.0 and max(abscissae) > _LOG_AXIS_RATIO * min(abscissae):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.locator_params(axis="x", nbins=5)
        axes.ticklabel_format(axis="x", scilimits=(-3, 5), useMathText=True)
    if has_costs:
        _draw_front(axes, comparison, x)
    axes.set_xlabel(QUANTITIES[x].title if has_costs else x)
    axes.set_ylabel(str(y) if y is not None and score is None else comparison.score.title)
    axes.grid(alpha=0.3)


def _draw_front(axes: "Axes", comparison: Comparison, x: str) -> None:
    """Draw the Pareto front as dashed stairs; their grey level and width are set by hand."""
    front = pareto(points(comparison, CostAxis(x, x, "")), comparison.score.sign)
    if len(front) > 1:
        xs = [point.cost * _factor(x) for point in front]
        ys = [_in_unit(comparison, point.score) for point in front]
        axes.step(xs, ys, where="post", color="0.4", linestyle="--", linewidth=1, zorder=0)
