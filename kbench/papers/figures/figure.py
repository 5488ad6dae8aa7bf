"""Figures as data, read from `figures.yaml`: panels, their lines and axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from kbench.papers.cells.readings import is_wall_seconds
from kbench.papers.printed.layout import Selector, load, paper, repetitions, selector, substituted
from kbench.report.comparisons.quantities import QUANTITIES
from kbench.report.comparisons.tables import is_seconds


@dataclass(frozen=True)
class AxisQuantity:
    """The quantity of an axis, with the keys of `figures.yaml`: exactly one of the first five.

    `column` may be `phases.x`, the seconds of a phase; `size` is a size of the data. `names` maps
    values of the runs to the numbers at a map's ticks.
    """

    column: str = ""
    param: str = ""
    curve: str = ""
    size: str = ""
    count: str = ""
    title: str = ""
    names: Mapping[float, float] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Any) -> "AxisQuantity":
        return cls(column=spec) if isinstance(spec, str) else cls(**spec)

    @property
    def timed(self) -> bool:
        """Whether the values are seconds of runs or of phases."""
        return is_seconds(self.column)

    @property
    def depends_on_machine(self) -> bool:
        """Whether the values are seconds or memory."""
        return self.timed or is_wall_seconds(self.curve) or self.column.endswith("_bytes")

    @property
    def label(self) -> str:
        """The title of the axis; `legend.yaml` has titles that do not follow from the name."""
        name = self.column or self.param or self.curve or self.size or self.count
        column = name.removeprefix("test_")
        if self.title or column in QUANTITIES:
            return self.title or "test " * (column != name) + QUANTITIES[column].title
        default = "seconds" if name.startswith("phases.") else name.replace("_", " ")
        return str(load("legend.yaml")["axes"].get(name, default))

    @property
    def factor(self) -> float:
        """The factor from the rows' unit to the axis's; a curve `test_x` has the unit of `x`."""
        name = (self.column or self.curve).removeprefix("test_")
        return QUANTITIES[name].factor if name in QUANTITIES else 1.0


class PanelLine(NamedTuple):
    """A line of a panel: the selector of its runs, its axes, and parameters `swept` by points."""

    wanted: Selector
    x: AxisQuantity
    y: AxisQuantity
    swept: frozenset[str]


@dataclass(frozen=True)
class Panel:
    """One pair of axes and its lines; lines have the axes of the panel unless they name others.

    With `excess`, the ordinate is the relative distance to the best value of all lines.
    """

    title: str
    lines: Mapping[str, PanelLine]
    x: AxisQuantity
    y: AxisQuantity
    excess: bool = False

    @property
    def data(self) -> str:
        """The paper's name of the panel's data set."""
        (name,) = {wanted.data for wanted, *_ in self.lines.values()}
        return name or ""


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, with the keys of `figures.yaml`.

    `name` is the figure's HTML id, such as `meka_fig7`; `title` is, for example, `MEKA Figure 7`.
    """

    name: str
    title: str
    paper: str
    caption: str
    run: str
    panels: Sequence[Panel]
    log: Sequence[str] = ()
    heat: str = ""
    image: bool = False
    exponents: bool = False
    front: bool = False
    printed: str = ""
    levels: Mapping[str, float] = field(default_factory=dict)  # Data set -> the paper's value


@cache
def figures() -> tuple[Figure, ...]:
    """All figures, in the order of the file."""
    return tuple(
        _figure(name, kernel=paper(spec["paper"]).kernel, **spec)
        for name, spec in load("figures.yaml").items()
    )


def _figure(
    name: str,
    *,
    kernel: str,
    panel: Mapping[str, Any],
    lines: Mapping[str, Mapping[str, Any]],
    x: Any = None,
    y: Any = None,
    each: Any = None,
    excess: bool = False,
    sweep: str | Sequence[str] = (),
    **figure_keys: Any,
) -> Figure:
    panels = []
    for names in repetitions(each or {}):
        keys = {"x": x, "y": y, "kernel": kernel, **substituted(panel, names)}
        panel_x, panel_y, title = keys.pop("x"), keys.pop("y"), keys.pop("title")
        panel_runs = selector(run=figure_keys["run"], **keys)
        panel_lines = {
            label: _panel_line(panel_runs, {"x": panel_x, "y": panel_y, "sweep": sweep, **line})
            for label, line in lines.items()
        }
        panels.append(
            Panel(title, panel_lines, AxisQuantity.of(panel_x), AxisQuantity.of(panel_y), excess)
        )
    return Figure(name=name, panels=panels, **figure_keys)


def _panel_line(panel_runs: Selector, spec: Mapping[str, Any]) -> PanelLine:
    spec = dict(spec)
    x, y = (AxisQuantity.of(spec.pop(axis)) for axis in "xy")
    sweep = spec.pop("sweep")
    swept = {sweep} if isinstance(sweep, str) else set(sweep)
    swept |= {axis.param for axis in (x, y) if axis.param}
    return PanelLine(panel_runs & selector(**spec), x, y, frozenset(swept))
