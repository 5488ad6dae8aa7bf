"""From a comparison to the words of its table: columns, units, rounding, the best of a column."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from kbench.report.tables import Comparison, Line, Machine, Problem


@dataclass(frozen=True)
class Quantity:
    """A column of measured values.

    Attributes
    ----------
    column : str
        The row's column.
    title : str
        Name and unit, as the header has them.
    direction : {"max", "min"}
        Which of two values is better.
    factor : float
        From the row's unit to the header's.
    digits : int
        Significant digits.
    decimals : int, optional
        Digits after the point instead, the same for all values.
    """

    column: str
    title: str
    direction: Literal["max", "min"] = "min"
    factor: float = 1.0
    digits: int = 3
    decimals: int | None = None

    @property
    def header(self) -> str:
        return f"{self.title} {'↑' if self.direction == 'max' else '↓'}"


# After the score, the most important first: a narrow terminal loses the last ones.
COSTS = (
    Quantity("fit_wall_s", "fit s"),
    Quantity("predict_wall_s", "predict s"),
    Quantity("prediction_cost", "predict × linear"),
    Quantity("fit_cpu_s", "fit CPU s"),
    Quantity("peak_bytes", "peak MB", factor=1e-6),
    Quantity("model_bytes", "model MB", factor=1e-6),
)


@dataclass(frozen=True)
class Cell:
    """A value and its spread, rounded, or the status of runs of which none was ok.

    `best` where none in the column is better as printed.
    """

    mean: str = ""
    sd: str = ""
    best: bool = False
    status: str = ""


@dataclass(frozen=True)
class Grid:
    """A table without a layout: `cells[i][j]` is line i, quantity j.

    `runs[i]` says how many runs of line i there are and how many were ok.
    """

    quantities: list[Quantity]
    names: list[str]
    cells: list[list[Cell]]
    runs: list[str]

    def without_spreads(self) -> "Grid":
        """The grid without deviations, but that of the score."""
        cells = [[row[0], *(replace(cell, sd="") for cell in row[1:])] for row in self.cells]
        return replace(self, cells=cells)

    def without(self, index: int) -> "Grid":
        """The grid less one quantity."""
        cells = [row[:index] + row[index + 1 :] for row in self.cells]
        quantities = self.quantities[:index] + self.quantities[index + 1 :]
        return replace(self, quantities=quantities, cells=cells)


def grid(comparison: Comparison) -> Grid:
    """The table of one comparison; quantities that no line has measured are left out."""
    score = _score(comparison.problem)
    measured = [
        q for q in COSTS if any(line.mean_sd(q.column) is not None for line in comparison.lines)
    ]
    quantities = [score, *measured]
    columns = [_mark_best(q, comparison.lines, _column(q, comparison.lines)) for q in quantities]
    cells = [list(row) for row in zip(*columns, strict=True)]
    for row, line in zip(cells, comparison.lines, strict=True):
        if not line.ok:
            row[0] = Cell(status=", ".join(sorted(line.failures)))
    return Grid(
        quantities=quantities,
        names=[line.label for line in comparison.lines],
        cells=cells,
        runs=[_runs(line) for line in comparison.lines],
    )


def decimals_for(value: float, digits: int) -> int:
    """Digits after the point, at most six, that show `value` with `digits` significant ones."""
    if value == 0.0 or not math.isfinite(value):
        return 0
    return min(6, max(0, digits - 1 - math.floor(math.log10(abs(value)))))


def describe_problem(problem: Problem) -> str:
    """`multiclass, 10 classes; 1,437 train and 360 test rows of 64 features`."""
    parts = [problem.task or "task unknown"]
    if problem.task == "multiclass" and problem.n_classes:
        parts.append(f", {problem.n_classes} classes")
    if problem.n_train is None:
        return "".join(parts) + "; sizes unknown: no run loaded the data"
    test = f"{problem.n_test:,}" if problem.n_test is not None else "?"
    return "".join(parts) + (
        f"; {problem.n_train:,} train and {test} test rows of {problem.n_features} features"
    )


def title(problem: Problem) -> str:
    """The data set's name and its variant."""
    return f"{problem.dataset} ({problem.variant})" if problem.variant else problem.dataset


def describe_machine(machine: Machine, environments: Mapping[str, Mapping[str, Any]]) -> str:
    """`AMD EPYC, 2 cores, 24 GiB, Debian 12; 1 thread; environment 0a1b2c3d`."""
    env = environments.get(machine.environment, {})
    hardware = [
        str(env[name]) + unit
        for name, unit in (("cpu", ""), ("cores", " cores"), ("ram_gib", " GiB"), ("os", ""))
        if env.get(name)
    ]
    parts = [", ".join(hardware)] if hardware else []
    parts.append(f"{machine.threads} thread{'s' if machine.threads != 1 else ''}")
    if machine.jobs is not None and machine.jobs > 1:
        parts.append(f"{machine.jobs} runs at a time")
    return "; ".join([*parts, f"environment {machine.environment}"])


def _score(problem: Problem) -> Quantity:
    metric = problem.metric
    if metric.name == "accuracy":
        return Quantity("accuracy", "accuracy %", "max", factor=100.0, decimals=2)
    return Quantity(metric.name, metric.name.upper(), metric.direction, digits=4)


def _column(quantity: Quantity, lines: list[Line]) -> list[Cell]:
    return [_cell(quantity, line) for line in lines]


def _cell(quantity: Quantity, line: Line) -> Cell:
    measured = line.mean_sd(quantity.column)
    if measured is None:
        return Cell()
    mean = measured[0] * quantity.factor
    decimals = quantity.decimals
    if decimals is None:
        decimals = decimals_for(mean, quantity.digits)
    spread = "" if measured[1] is None else f"{measured[1] * quantity.factor:.{decimals}f}"
    return Cell(f"{mean:.{decimals}f}", spread)


def _mark_best(quantity: Quantity, lines: list[Line], cells: list[Cell]) -> list[Cell]:
    """Mark the best mean and all that read the same; nothing when there is no choice."""
    means = [line.mean_sd(quantity.column) for line in lines]
    values = {i: mean[0] for i, mean in enumerate(means) if mean is not None}
    if len(values) < 2:
        return cells
    pick = max if quantity.direction == "max" else min
    best = cells[pick(values, key=values.__getitem__)].mean
    return [replace(cell, best=cell.mean == best) for cell in cells]


def _runs(line: Line) -> str:
    total, ok = len(line.rows), len(line.ok)
    return str(total) if ok == total else f"{ok} of {total} ok"
