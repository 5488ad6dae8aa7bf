"""A comparison as a table of rounded texts, which marks the best of each column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbench.errors import counted
from kbench.report.comparisons.quantities import COSTS, Quantity
from kbench.report.comparisons.tables import (
    Comparison,
    LearningTask,
    Line,
    TimingConditions,
    contended,
)


@dataclass(frozen=True)
class Cell:
    """A rounded mean and its deviation, or the status if no run is ok.

    `deviation` is the number behind a ±, as in `Line.deviation`: the standard error over several
    splits, otherwise the standard deviation over seeds. `best` means that no printed value of the
    column is better.
    """

    mean: str = ""
    deviation: str = ""
    best: bool = False
    status: str = ""

    @property
    def decimals(self) -> int:
        """Number of digits after the decimal point of the value."""
        return len(self.mean.partition(".")[2])


@dataclass(frozen=True)
class Grid:
    """A table before any format is chosen: `cells[i][j]` is quantity j of line i.

    `runs[i]` is the number of runs of line i, with the number of ok runs if some are not ok.
    """

    quantities: list[Quantity]
    names: list[str]
    cells: list[list[Cell]]
    runs: list[str]

    def without_deviations(self) -> "Grid":
        """The grid without deviations, except those of the score."""
        cells = [[row[0], *(replace(cell, deviation="") for cell in row[1:])] for row in self.cells]
        return replace(self, cells=cells)

    def without(self, index: int) -> "Grid":
        """The grid without the quantity `index`."""
        cells = [row[:index] + row[index + 1 :] for row in self.cells]
        quantities = self.quantities[:index] + self.quantities[index + 1 :]
        return replace(self, quantities=quantities, cells=cells)


def grid(comparison: Comparison, columns: Sequence[Quantity] = COSTS) -> Grid:
    """The table of one comparison: its score, then `columns`.

    Quantities that no line has measured are left out.
    """
    score = comparison.score
    measured = [
        q
        for q in columns
        if q != score and any(mean_sd(line, q) is not None for line in comparison.lines)
    ]
    quantities = [score, *measured]
    lines = comparison.lines
    by_column = [_mark_best(q, lines, [_cell(q, line) for line in lines]) for q in quantities]
    cells = [list(row) for row in zip(*by_column, strict=True)]
    for row, line in zip(cells, lines, strict=True):
        if not line.ok:
            row[0] = Cell(status=", ".join(sorted(line.failures)))
    return Grid(
        quantities=quantities,
        names=[line.label for line in comparison.lines],
        cells=cells,
        runs=[_run_counts(line) for line in comparison.lines],
    )


def describe_problem(problem: LearningTask) -> str:
    """`multiclass, 10 classes; 1,437 train and 360 test rows of 64 features`."""
    parts = [problem.task or "task unknown"]
    if problem.task == "multiclass" and problem.n_classes:
        parts.append(f", {problem.n_classes} classes")
    if problem.n_train is None:
        return "".join(parts) + "; sizes unknown: no run loaded the data"
    test = f"{problem.n_test:,}" if problem.n_test is not None else "?"
    return "".join(parts) + (
        f"; {problem.n_train:,} train and {test} test rows of {problem.n_features} features"
        + (f", mean over {problem.n_splits} splits" if problem.n_splits > 1 else "")
    )


def title(problem: LearningTask) -> str:
    """The data set's name and variant, and the checksum beside other data of the same name."""
    checksum = f"data {str(problem.data_sha256)[:8]}" if problem.has_namesake else None
    remarks = ", ".join(filter(None, [problem.variant, checksum]))
    return f"{problem.dataset} ({remarks})" if remarks else problem.dataset


def describe_concurrency(machine: TimingConditions) -> str:
    """`1 thread`, and the number of simultaneous runs if it is above 1."""
    jobs = f", {machine.jobs} runs at a time" if machine.jobs and machine.jobs > 1 else ""
    return f"{counted(machine.threads, 'thread')}{jobs}"


def title_with_splits(problem: LearningTask) -> str:
    """The title, and the number of splits if means are taken over several."""
    return title(problem) + (f", {problem.n_splits} splits" if problem.n_splits > 1 else "")


def describe_machine(
    machine: TimingConditions, environments: Mapping[str, Mapping[str, Any]]
) -> str:
    """`AMD EPYC, 2 cores, 24 GiB, Debian 12; 1 thread; environment 0a1b2c3d`."""
    env = environments.get(machine.environment, {})
    hardware = [
        str(env[name]) + unit
        for name, unit in (("cpu", ""), ("cores", " cores"), ("ram_gib", " GiB"), ("os", ""))
        if env.get(name)
    ]
    parts = [", ".join(hardware)] if hardware else []
    parts += [str(env["variables"])] if env.get("variables") else []
    return "; ".join([*parts, describe_concurrency(machine), f"environment {machine.environment}"])


def mean_sd(line: Line, quantity: Quantity) -> tuple[float, float | None] | None:
    """`Line.mean_sd`; for prediction costs, disturbed runs do not count.

    Prediction costs are ratios of wall seconds, which other processes prolong.
    """
    if quantity.column.startswith("prediction_cost") and any(map(contended, line.rows)):
        line = replace(line, rows=[row for row in line.rows if not contended(row)])
    return line.mean_sd(quantity.column)


def _cell(quantity: Quantity, line: Line) -> Cell:
    measured = mean_sd(line, quantity)
    if measured is None:
        return Cell()
    mean, sd = measured
    if line.n_splits > 1:
        sd = line.standard_error(quantity.column)
    decimals = quantity.decimals_of(mean)
    return Cell(quantity.text(mean), "" if sd is None else quantity.text(sd, decimals))


def _mark_best(quantity: Quantity, lines: list[Line], cells: list[Cell]) -> list[Cell]:
    """Mark the best mean and all means that are printed alike; a single mean gets no mark."""
    means = [mean_sd(line, quantity) for line in lines]
    values = {i: mean[0] for i, mean in enumerate(means) if mean is not None}
    if len(values) < 2 or not quantity.direction:
        return cells
    best_of = max if quantity.direction == "max" else min
    best = cells[best_of(values, key=values.__getitem__)].mean
    return [replace(cell, best=True) if cell.mean == best else cell for cell in cells]


def _run_counts(line: Line) -> str:
    total, ok = len(line.rows), len(line.ok)
    return str(total) if ok == total else f"{ok} of {total} ok"
