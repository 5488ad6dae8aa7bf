"""Charts of the search of a self-tuning estimator: kernel width, C or ridge, held-out errors.

The points are the values that `kbench.width_search` reports to the trace of the fit; the results
folder keeps them as curves over seconds.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kbench.report.charts.svg import NARROW, Axis, Chart, Plot, short
from kbench.report.comparisons.tables import Comparison
from kbench.run.results.rows import RUN

if TYPE_CHECKING:
    import pandas as pd

# The values of a run in the columns `RUN`.
RunKey = tuple[Any, ...]

# Radii of points measured on the fewest and on the most rows, and of the ring around the chosen
# point, in units of the view box. Set by hand.
_RADII, _RING_RADIUS = (3.0, 6.5), 10.0
# Opacities of the point with the highest and with the lowest error. Set by hand.
_OPACITIES = (0.08, 1.0)


class TriedModel(NamedTuple):
    """One model that a search tried."""

    gamma: float
    penalty: float  # C or alpha
    error: float  # on held-out rows
    n_rows: float  # training rows


class Searched(NamedTuple):
    """The search of one run."""

    penalty: str  # "C" or "alpha"
    points: list[TriedModel]  # the last measurement of each pair of parameters
    chosen: tuple[float, float]  # gamma and penalty


def searches(curves: "pd.DataFrame") -> dict[RunKey, Searched]:
    """Run -> its search; `curves` as `ResultsFolder.read_curves` returns them."""
    is_choice = curves["curve"].isin(("chosen_C", "chosen_alpha"))
    runs = curves.loc[is_choice, list(RUN)].drop_duplicates()
    by_run = {}
    for run, run_curves in curves.merge(runs, on=list(RUN)).groupby(list(RUN)):
        columns = {name: curve["value"].tolist() for name, curve in run_curves.groupby("curve")}
        penalty = "C" if "chosen_C" in columns else "alpha"
        names = ("gamma", penalty, "validation_error", "n_rows")
        # Rows of earlier versions lack `n_rows` and the ridge of each error.
        if len({len(columns.get(name, ())) for name in names}) > 1 or "chosen_gamma" not in columns:
            continue
        rows = zip(*(columns[name] for name in names), strict=True)
        points = {values[:2]: TriedModel(*values) for values in rows}
        if points:
            chosen = columns["chosen_gamma"][-1], columns[f"chosen_{penalty}"][-1]
            by_run[run] = Searched(penalty, list(points.values()), chosen)
    return by_run


def search_charts(comparison: Comparison, by_run: Mapping[RunKey, Searched]) -> list[Chart]:
    """A chart for each method with a search, which shows the first run of its best setting."""
    charts: dict[str, Chart] = {}
    for line in comparison.lines:
        for row in line.ok:
            search = by_run.get(tuple(row[name] for name in RUN))
            if search is not None and line.method not in charts:
                charts[line.method] = _chart(line.label, search)
    return list(charts.values())


def _chart(label: str, search: Searched) -> Chart:
    gammas = [point.gamma for point in search.points] + [search.chosen[0]]
    penalties = [point.penalty for point in search.points] + [search.chosen[1]]
    title = (
        f"{label}: held-out errors of the search\n"
        "stronger colour: lower error; larger: more training rows"
    )
    plot = Plot(
        Axis.around("gamma", gammas, log=True),
        Axis.around(f"{search.penalty} (ring: chosen)", penalties, log=True),
        label=f"held-out error of {label} over gamma and {search.penalty}",
        title=title,
        width=NARROW,
    )
    errors = sorted({point.error for point in search.points})
    sizes = sorted({point.n_rows for point in search.points})
    for point in sorted(search.points, key=lambda point: -point.error):
        rank = 1.0 - errors.index(point.error) / max(1, len(errors) - 1)
        size_rank = sizes.index(point.n_rows) / max(1, len(sizes) - 1)
        tooltip = f"gamma {point.gamma:.4g}, {search.penalty} {point.penalty:.4g}: "
        tooltip += f"error {point.error:.4g} with {point.n_rows:.0f} training rows"
        # The square makes the models with the lowest errors stand out. Set by hand.
        opacity = f'fill-opacity="{_interpolate(_OPACITIES, rank**2):.2f}"'
        circle = _circle(plot, point.gamma, point.penalty, _interpolate(_RADII, size_rank))
        plot.add(f'<circle class="cell" {circle} {opacity}><title>{tooltip}</title></circle>')
    plot.add(f'<circle class="sd c1" {_circle(plot, *search.chosen, _RING_RADIUS)}/>')
    return plot.chart()


def _circle(plot: Plot, x: float, y: float, radius: float) -> str:
    cx, cy = plot.at(x, y)
    return f'cx="{short(cx)}" cy="{short(cy)}" r="{short(radius)}"'


def _interpolate(ends: tuple[float, float], fraction: float) -> float:
    return ends[0] + fraction * (ends[1] - ends[0])
