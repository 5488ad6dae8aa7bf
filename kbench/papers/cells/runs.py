"""Selection of runs: which line of which comparison fills a cell."""

import json
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from kbench.papers.cells.readings import SECONDS, column, is_wall_seconds, training_seconds
from kbench.papers.printed.layout import Choice, Measure, Selector
from kbench.report.comparisons.tables import (
    Line,
    Row,
    TimingConditions,
    comparisons,
    contended,
    method_version,
    start_time,
)
from kbench.report.statistics.days import Days

Identity = tuple[str, str, int]
Curve = tuple[Sequence[float], Sequence[float]]
Curves = Mapping[Identity, Mapping[str, Curve]]
# Conditions, data set and its variant.
MachineProblem = tuple[TimingConditions, str, str | None]
Params = Mapping[str, Any]

# Experiments of kbench's own studies, and the prefix of experiments that try a cause of a
# difference (`causes.yaml`): rows of these never fill a cell or a line of a paper.
_STUDIES = {"tables", "tuned", "defaults", "reference"}
_TRIED_CAUSE = "cause_"

# Largest logarithm of the ratio of the abscissae of a curve's point and of the selected place. The
# two differ where empty clusters leave a level fewer clusters than the paper's. Set by hand.
_MAX_LOG_RATIO = math.log(1.5)


class Match(NamedTuple):
    """The line that fills a cell, and the data set that stands for the paper's.

    `others` is the number of further lines that match the selector, among lines of the table's own
    experiments if there are any, otherwise among all.
    """

    line: Line
    choice: Choice
    others: int


class Runs:
    """The rows of a results folder, and the curves that belong to them.

    Parameters
    ----------
    rows : sequence of mapping. Rows for `comparisons`.
    curves : mapping
        (key, environment, threads) -> curve -> abscissae and values. Abscissae are seconds unless
        the name states another one, such as `accuracy over C`.
    """

    def __init__(self, rows: Sequence[Row], curves: Curves | None = None) -> None:
        self.rows = rows
        self._by_method: defaultdict[MachineProblem, defaultdict[str, list[tuple[Row, Params]]]]
        self._by_method = defaultdict(lambda: defaultdict(list))
        for row in filter(fills_cells, rows):
            machine = TimingConditions(row["environment"], row["threads"], row["jobs"])
            problem = machine, row["dataset"], row["variant"]
            params = json.loads(row["params"] or "{}")
            self._by_method[problem][row["method"]].append((row, params))
        self._curves = curves or {}
        # Cells, claims and figures ask for the same rows and lines several times.
        self.matching = cache(self._matching)
        self._lines: dict[tuple[int, ...], list[Line]] = {}
        self.machine_problems = sorted(self._by_method, key=_sort_key)
        self.machines = list(dict.fromkeys(machine for machine, *_ in self.machine_problems))

    @cached_property
    def days(self) -> Days:
        """Machine speed by day, of all rows."""
        return Days(self.rows)

    def find(
        self, machine: TimingConditions, wanted: Selector, choices: Sequence[Choice]
    ) -> Match | None:
        """The line of the first data set that has ok runs, else of the first that has any runs.

        Lines with rows of the selector's experiments are preferred. A layout should select one line
        (`Match.others` is 0, as a test asserts of the reference rows); otherwise `preference`
        decides.
        """
        first_failed = None
        for choice in choices:
            lines = preferred_lines(wanted.experiments, self.lines(machine, wanted, choice))
            if not lines:
                continue
            match = Match(max(lines, key=preference), choice, len(lines) - 1)
            if match.line.ok:
                return match
            first_failed = first_failed or match
        return first_failed

    def lines(self, machine: TimingConditions, wanted: Selector, choice: Choice) -> list[Line]:
        """All lines of one data set that match a selector, from the rows of `preferred_rows`."""
        rows = preferred_rows(wanted.experiments, self.matching(machine, wanted, choice))
        key = tuple(map(id, rows))
        if key not in self._lines:
            self._lines[key] = [line for table in comparisons(rows) for line in table.lines]
        return self._lines[key]

    def points(self, rows: Sequence[Row], *names: str) -> list[tuple[float, ...]]:
        """Values of several curves at their common times, from the first row that has all curves.

        The name `seconds` stands for the times themselves; the last name must be a curve. Rows
        whose wall seconds were disturbed are skipped if a name is of wall seconds.
        """
        timed = any(map(is_wall_seconds, names))
        for row in rows:
            curves = self._curves.get(identity(row), {})
            if names[-1] not in curves or (timed and contended(row)):
                continue
            times, _ = curves[names[-1]]
            curves = {**curves, SECONDS: (times, times)}
            if all(name in curves for name in names):
                values = [dict(zip(*curves[name], strict=True)) for name in names]
                common = [t for t in values[-1] if all(t in curve for curve in values)]
                return [tuple(curve[t] for curve in values) for t in common]
        return []

    def points_over(self, row: Row, x: str, y: str) -> list[tuple[float, float]]:
        """Points of a row's curve `y` over the parameter `x`; empty without such a curve."""
        points = self._curves.get(identity(row), {}).get(f"{y} over {x}", ((), ()))
        return list(zip(*points, strict=True))

    def values(self, line: Line, measure: Measure, at: Mapping[str, float]) -> list[float]:
        """The known values of the ok seeds; empty for seconds that are `is_cut_short`.

        Training seconds come from `training_seconds`.
        """
        if measure.is_training_seconds:
            return training_seconds(line)
        if any(map(line.is_cut_short, measure.of)):
            return []
        values = [self._read(row, measure, at) for row in line.ok]
        return [value for value in values if value is not None]

    def _matching(self, machine: TimingConditions, wanted: Selector, choice: Choice) -> list[Row]:
        """All rows of one data set that match a selector, however they ended."""
        params = {**wanted.all_params, **choice.params}
        accepted = {
            name: value if isinstance(value, list) else [value] for name, value in params.items()
        }
        problem = machine, choice.dataset, choice.variant
        by_method: Mapping[str, Sequence[tuple[Row, Params]]] = self._by_method.get(problem, {})
        # Selectors without methods read sizes of data, which runs with any kernel have.
        kernel = wanted.kernel if wanted.methods and "kernel" not in params else ""
        return [
            row
            for method in wanted.methods or by_method
            for row, actual in by_method.get(method, ())
            if (not kernel or actual.get("kernel", kernel) == kernel)
            and all(
                name in actual and any(_is_equal(actual[name], value) for value in values)
                for name, values in accepted.items()
            )
        ]

    def _read(self, row: Row, measure: Measure, at: Mapping[str, float]) -> float | None:
        if measure.curve:
            return self._on_curve(row, measure, {} if measure.pick == "end" else at)
        addends = [column(row, name) for name in measure.of]
        if not addends or any(addend is None for addend in addends):
            return None
        value = math.fsum(addend for addend in addends if addend is not None) * measure.factor
        if measure.per is not None:
            divisor = column(row, measure.per)
            return value / divisor if divisor else None
        return value

    def _on_curve(self, row: Row, measure: Measure, at: Mapping[str, float]) -> float | None:
        """The value of a curve where other curves or its abscissa are near `at`."""
        if is_wall_seconds(measure.curve) and contended(row):
            return None
        curves = self._curves.get(identity(row), {})
        if not at:
            values = curves.get(measure.curve, ((), ()))[1]
            return values[-1] if values else None
        points: Iterable[Sequence[float]] = self.points([row], *at, measure.curve)
        if not points and len(at) == 1:
            points = self.points_over(row, next(iter(at)), measure.curve)
        in_range = [
            (distance, value)
            for *coordinates, value in points
            if (distance := max(map(_log_ratio, coordinates, at.values()))) < _MAX_LOG_RATIO
        ]
        nearest = min((distance for distance, _ in in_range), default=0.0)
        nearby = [value for distance, value in in_range if distance == nearest]
        if not nearby:
            return None
        return math.fsum(nearby) if measure.pick == "sum" else nearby[-1]


def preferred_rows(experiments: Container[str], rows: Sequence[Row]) -> list[Row]:
    """The rows of each run that `experiments` made; all rows of a run if they made none of them.

    A run may have several rows, made with different limits.
    """
    by_run: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        by_run[row["method"], row["params"], row["data_sha256"], row["seed"]].append(row)
    preferred = []
    for rows_of_run in by_run.values():
        preferred += [row for row in rows_of_run if asked_by(experiments, row)] or rows_of_run
    return preferred


def made_by(experiments: Container[str], line: Line) -> bool:
    """Whether one of `experiments` asked for a run of the line."""
    return any(asked_by(experiments, row) for row in line.rows)


def asked_by(experiments: Container[str], row: Row) -> bool:
    """Whether one of `experiments` asked for the run of a row."""
    return any(name in experiments for name in asking_experiments(row))


def preferred_lines(experiments: Container[str], lines: list[Line]) -> list[Line]:
    """The lines that the experiments made, or all if they made none."""
    return [line for line in lines if made_by(experiments, line)] or lines


def asking_experiments(row: Row) -> list[str]:
    """The experiments that asked for the run of a row."""
    return [name for name in (row.get("experiment") or "").split(",") if name]


def fills_cells(row: Row) -> bool:
    """Whether a row may fill a cell: rows that only studies or trials of causes made may not."""
    names = asking_experiments(row)
    return not names or not all(n in _STUDIES or n.startswith(_TRIED_CAUSE) for n in names)


def _sort_key(problem: MachineProblem) -> tuple[Any, ...]:
    machine, dataset, variant = problem
    return machine.environment, machine.threads, machine.jobs or 0, dataset, variant or ""


def identity(row: Row) -> Identity:
    """The columns that identify a row."""
    return row["key"], row["environment"], row["threads"]


def version_of(line: Line) -> int:
    """The version of the method that made a line."""
    return max(map(method_version, line.rows))


def preference(line: Line) -> tuple[Any, ...]:
    """Sort key of matching lines; the line with the largest key fills the cell.

    The key compares, in this order: any ok run, version of the method, number of ok seeds, newest
    run.
    """
    newest = max(map(start_time, line.rows), default=0.0)
    return bool(line.ok), version_of(line), len(line.ok), newest, line.identifier


def _log_ratio(a: float, b: float) -> float:
    """The absolute logarithm of the ratio of two numbers; infinite if one is not positive."""
    if a == b:
        return 0.0
    return abs(math.log(a / b)) if a > 0.0 < b else math.inf


def _is_equal(actual: Any, wanted: Any) -> bool:
    numbers = (int, float)
    if isinstance(actual, numbers) and isinstance(wanted, numbers):
        return isinstance(actual, bool) == isinstance(wanted, bool) and math.isclose(
            actual, wanted, rel_tol=1e-9
        )
    return bool(actual == wanted)
