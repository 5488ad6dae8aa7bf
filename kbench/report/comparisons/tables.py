"""Grouping of rows into comparisons: runs that may be compared, and only those.

A comparison is about one problem (data set, variant, sizes, content) on one machine (environment,
threads, runs at a time). Each of its lines is one method with one setting of its parameters, over
all seeds. Only seeds are averaged, and every setting keeps a line of its own.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from kbench.report.comparisons.quantities import Quantity, leading_score
from kbench.report.comparisons.splits import (
    SPLIT,
    corrected_error,
    mean_test_per_train,
    over_splits,
    split_of,
)
from kbench.run.results.stopped import time_limit

Row = Mapping[str, Any]
# Key of a row that summarises several attempts of a run; its value is the rows of these attempts.
REPEATS = "repeats"
# Column with a mapping from names to values of the scores that a command asked for.
SCORES = "scores"

# Parameters of the optimisation problem, as scikit-learn names them; others choose the algorithm.
PROBLEM_PARAMETERS = (
    "kernel",
    "C",
    "alpha",
    "gamma",
    "degree",
    "coef0",
    "epsilon",
    "fit_intercept",
)

# A run is contended if other processes kept more than this number of processors busy during its
# fit. In a row without `other_cpus`, a fit on one thread is contended if its wall seconds are more
# than this multiple of its CPU seconds. Lower values leave out more wall seconds. Set by hand.
_MAX_OTHER_CPUS, _MAX_WALL_PER_CPU = 0.2, 1.5

# Compared seconds -> the columns with CPU and with wall seconds.
_CLOCKS = {"fit_s": ("fit_cpu_s", "fit_wall_s"), "predict_s": ("predict_cpu_s", "predict_wall_s")}


@dataclass(frozen=True)
class LearningTask:
    """A learning task on one data set; sizes are None where no run has loaded the data.

    Runs on several random splits share one problem, with the sizes of the largest training part.
    """

    dataset: str
    variant: str | None
    task: str | None
    data_sha256: str | None
    n_train: int | None = None
    n_test: int | None = None
    n_features: int | None = None
    n_classes: int | None = None
    n_splits: int = 1
    # Whether other content has the same name, as files of one name in two folders.
    has_namesake: bool = False


@dataclass(frozen=True)
class TimingConditions:
    """Machine, threads and simultaneous runs; only times under equal conditions are compared."""

    environment: str
    threads: int
    jobs: int | None


@dataclass(frozen=True)
class Line:
    """One method with one setting."""

    method: str
    params: dict[str, Any]
    problem: LearningTask
    # One row for each seed and split: the newest ok row; if none is ok, the newest of the rows with
    # the longest time limit.
    rows: list[Row]
    # The parameters in which the method's settings differ in this comparison, as `C=1 gamma=2`.
    setting: str = ""
    # Number of further rows of the same seeds, run under other limits or options.
    set_aside: int = 0

    @property
    def name(self) -> str:
        """The method, with a dagger if reference rows take part."""
        mark = "†" if any(row["origin"] == "reference" for row in self.rows) else ""
        return f"{self.method}{mark}"

    @property
    def label(self) -> str:
        """Name and setting."""
        return f"{self.name} {self.setting}".rstrip()

    @property
    def identifier(self) -> str:
        """An identifier of the first row that differs between machines, unlike the run's key.

        Ten digits of the key are enough for the rows of one page (set by hand).
        """
        row = self.rows[0]
        return f"{row['key'][:10]}-{row['environment']}-{row['threads']}"

    @cached_property
    def ok(self) -> list[Row]:
        return [row for row in self.rows if row["status"] == "ok"]

    @property
    def failures(self) -> Counter[str]:
        """Status -> count of the runs that are not ok."""
        return Counter(row["status"] for row in self.rows if row["status"] != "ok")

    @property
    def attempts(self) -> int:
        """Number of attempts behind the ok rows, each of which is the median of its attempts."""
        return sum(len(row.get(REPEATS) or [row]) for row in self.ok)

    def is_cut_short(self, column: str) -> bool:
        """Whether the column is fit time and a run timed out, so that a mean would be too low."""
        of_the_fit = column.startswith(("fit_", "phases."))
        return of_the_fit and any(row["status"] == "timeout" for row in self.rows)

    @property
    def not_converged(self) -> int:
        return sum(row["converged"] is False for row in self.ok)

    def mean_sd(self, column: str) -> tuple[float, float | None] | None:
        """Mean and standard deviation over the ok seeds.

        The deviation is the sample's (n - 1), None for one seed; None where nothing was measured,
        or the column is `is_cut_short`.
        """
        if self.is_cut_short(column):
            return None
        return mean_sd(self._values_by_split(column))

    @property
    def n_splits(self) -> int:
        """Number of random splits with an ok run."""
        return len({row.get(SPLIT) for row in self.ok})

    def standard_error(self, column: str) -> float | None:
        """Standard error of the mean over splits, corrected for their common rows.

        Several seeds of a split count as their mean. The error is None with fewer than two splits,
        if nothing was measured, or if the column is `is_cut_short`.
        """
        if self.is_cut_short(column):
            return None
        means = self._values_by_split(column) if self.n_splits > 1 else []
        return corrected_error(means, mean_test_per_train(self.ok))

    def deviation(self, column: str) -> float | None:
        """The number behind a ±: the standard error over splits, or the deviation over seeds."""
        if self.n_splits > 1:
            return self.standard_error(column)
        mean = self.mean_sd(column)
        return None if mean is None else mean[1]

    def _values_by_split(self, column: str) -> list[float]:
        """The values of a column; with several splits, the mean over seeds of each split."""
        by_split: defaultdict[Any, list[float]] = defaultdict(list)
        for row in self.ok:
            if (value := measured(row, column)) is not None:
                by_split[row.get(SPLIT)].append(value)
        if self.n_splits < 2:
            return [value for values in by_split.values() for value in values]
        return [math.fsum(values) / len(values) for values in by_split.values()]

    def spread(self, column: str, *, relative: bool = False) -> float | None:
        """Largest difference between attempts of one run, `relative` to the run's median if set.

        None if no run was measured twice.
        """
        spreads = []
        for row in self.ok:
            values = [measured(repeat, column) for repeat in row.get(REPEATS) or ()]
            numbers = [value for value in values if value is not None]
            median = measured(row, column)
            if len(numbers) > 1 and median is not None:
                scale = (median or 1.0) if relative else 1.0
                spreads.append((max(numbers) - min(numbers)) / scale)
        return max(spreads, default=None)


@dataclass(frozen=True)
class Comparison:
    """Lines of one table, the best by `score` first, failures last."""

    problem: LearningTask
    machine: TimingConditions
    score: Quantity
    lines: list[Line] = field(default_factory=list)

    @property
    def best_lines(self) -> dict[str, Line]:
        """Method -> its best line; if no run of the method is ok, its first line."""
        best: dict[str, Line] = {}
        for line in self.lines:
            best.setdefault(line.method, line)
        return best

    def shortened(self, settings: int) -> "tuple[Comparison, dict[str, int]]":
        """Keep `settings` lines of each method; also count all lines of methods that lose some."""
        counts: Counter[str] = Counter()
        lines = []
        for line in self.lines:
            counts[line.method] += 1
            if counts[line.method] <= settings:
                lines.append(line)
        cut_methods = {
            method: count for method, count in sorted(counts.items()) if count > settings
        }
        return replace(self, lines=lines), cut_methods


def measured(row: Row, column: str) -> float | None:
    """A number of a row, of a column or an added score; None where it was not measured.

    `fit_s` and `predict_s` are the seconds that tables compare: CPU seconds of runs on one thread,
    which other processes disturb least, and wall seconds of all others. Wall seconds of contended
    runs count as not measured.
    """
    if column in _CLOCKS:
        cpu, wall = _CLOCKS[column]
        column = cpu if row["threads"] == 1 and row[cpu] is not None else wall
    value = row[column] if column in row else (row.get(SCORES) or {}).get(column)
    if value is None or (column.endswith("_wall_s") and contended(row)):
        return None
    return float(value)


def is_seconds(column: str) -> bool:
    """Whether a column holds seconds, of a whole stage or of a phase."""
    return column.endswith("_s") or column.startswith("phases.")


def method_version(row: Row) -> int:
    """The version of the method that made a row; 1 for rows that are older than the column."""
    return int(row.get("method_version") or 1)


def contended(row: Row) -> bool:
    """Whether other processes disturbed a run, so that its wall seconds do not count."""
    other_cpus = row.get("other_cpus")
    if other_cpus is not None:
        return bool(other_cpus > _MAX_OTHER_CPUS)
    wall, cpu = row["fit_wall_s"], row["fit_cpu_s"]
    if row["threads"] != 1 or wall is None or cpu is None:
        return False
    return bool(wall > _MAX_WALL_PER_CPU * cpu)


def unequal_parameters(lines: Iterable[Line]) -> list[str]:
    """`Compared at different C: 1 (svc); loo (kernel_svc).`, for each shared parameter."""
    lines, remarks = list(lines), []
    for name in PROBLEM_PARAMETERS:
        tried: dict[str, dict[str, None]] = {}  # method -> its values
        for line in lines:
            if name in line.params:
                tried.setdefault(line.method, {})[shortest_text(line.params[name])] = None
        by_values: dict[frozenset[str], list[str]] = {}
        for method, values in tried.items():
            by_values.setdefault(frozenset(values), []).append(method)
        if len(by_values) > 1:
            groups = [f"{_listed(values)} ({', '.join(m)})" for values, m in by_values.items()]
            remarks.append(f"{name}: {'; '.join(groups)}")
    quantile_values = [line.params["quantile"] for line in lines if line.params.get("quantile")]
    quantiles = set(map(shortest_text, quantile_values))
    notes = [f"Compared at different {remark}." for remark in remarks]
    if len(quantiles) > 1:
        notes.append(
            f"Compared at different quantiles ({_listed(quantiles)}): their pinball losses and "
            "coverages are not comparable; metrics=[pinball_loss_0.5] adds the loss at one "
            "quantile to all runs."
        )
    return notes


def _listed(values: Iterable[Any]) -> str:
    """The sorted values, or the number of them if there are more than four (set by hand)."""
    ordered = sorted(values)
    return ", ".join(ordered) if len(ordered) <= 4 else f"{len(ordered)} values"


def mean_sd(values: Sequence[float]) -> tuple[float, float | None] | None:
    """Mean and the sample's standard deviation, None for one value; None if there are no values."""
    if not values:
        return None
    if len(values) == 1:
        return values[0], None
    if min(values) == max(values):  # a mean rounds, and equal values have no deviation from it
        return values[0], 0.0
    mean = math.fsum(values) / len(values)
    # Two passes of exact sums; statistics.stdev, which computes with fractions, takes longer.
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def comparisons(
    rows: Iterable[Row], metric: Quantity | None = None, *, splits: bool = False
) -> list[Comparison]:
    """Group rows into comparisons, ordered by data set, variant, size, and machine.

    rows : iterable of mapping
        Rows with `origin` and every column that this module reads, None where the value is null.
    metric : The score to lead with wherever a run has measured it; elsewhere, and without
        `metric`, the first score of the task leads.
    splits : Whether the user's own runs on several random splits of a data set are averaged like
        runs on several seeds. Otherwise every split is a problem of its own.
    """
    rows = list(rows)
    contents: defaultdict[Any, set[Any]] = defaultdict(set)
    for row in rows:
        contents[_name(row)].add(row["data_sha256"])
    namesakes = {name for name, checksums in contents.items() if len(checksums - {None}) > 1}
    split_rows: list[Row] = []
    if splits:
        split_rows, rows = over_splits(rows, lambda row: (row["method"], sorted_parameters(row)))
    compared = _grouped(rows, _problems(rows, namesakes), metric)
    n_splits: defaultdict[LearningTask, set[str]] = defaultdict(set)
    problems = _problems(split_rows, namesakes)
    for row, problem in zip(split_rows, problems, strict=True):
        n_splits[problem].add(row[SPLIT])
    problems = [replace(problem, n_splits=len(n_splits[problem])) for problem in problems]
    return sorted([*compared, *_grouped(split_rows, problems, metric)], key=_sort_key)


def _grouped(
    rows: Sequence[Row], problems: Sequence[LearningTask], metric: Quantity | None
) -> list[Comparison]:
    """A comparison for each problem and machine."""
    groups: defaultdict[tuple[LearningTask, TimingConditions], list[Row]] = defaultdict(list)
    for row, problem in zip(rows, problems, strict=True):
        conditions = TimingConditions(row["environment"], row["threads"], row["jobs"])
        groups[problem, conditions].append(row)
    compared = []
    for (problem, machine), members in groups.items():
        score = leading_score(problem.task)
        if metric is not None and any(measured(row, metric.column) is not None for row in members):
            score = metric
        compared.append(Comparison(problem, machine, score, _lines(members, problem, score)))
    return compared


def _sort_key(comparison: Comparison) -> tuple[Any, ...]:
    problem, machine = comparison.problem, comparison.machine
    sizes = (problem.n_train or 0, problem.n_test or 0, problem.n_features or 0)
    names = (problem.dataset, problem.variant or "", problem.task or "")
    return (
        *names,
        *sizes,
        problem.n_splits,
        problem.data_sha256 or "",
        -len(comparison.lines),  # the machine with the most lines comes first
        machine.environment,
        machine.threads,
        machine.jobs or 0,
    )


def _name(row: Row) -> tuple[Any, ...]:
    """Data set, variant without its split, and task."""
    return row["dataset"], split_of(row["variant"])[0], row["task"]


def _problems(rows: list[Row], namesakes: set[Any]) -> list[LearningTask]:
    """The problem of each row; namesakes : Names of data sets with several contents.

    A run that failed before its data were loaded has no sizes. If other runs loaded the same data
    and have exactly one problem, the failed run belongs to that problem.
    """
    tasks = [LearningTask(r["dataset"], r["variant"], r["task"], r["data_sha256"]) for r in rows]
    pairs = zip(tasks, map(_name, rows), strict=True)
    unsized = [replace(task, has_namesake=name in namesakes) for task, name in pairs]
    sizes = ("n_train", "n_test", "n_features", "n_classes")
    sized = [
        task if row["n_train"] is None else replace(task, **{size: row[size] for size in sizes})
        for task, row in zip(unsized, rows, strict=True)
    ]
    loaded: defaultdict[LearningTask, set[LearningTask]] = defaultdict(set)
    for task, problem in zip(unsized, sized, strict=True):
        if problem.n_train is not None:
            loaded[task].add(problem)
    return [
        next(iter(loaded[task])) if problem == task and len(loaded[task]) == 1 else problem
        for task, problem in zip(unsized, sized, strict=True)
    ]


def _lines(rows: list[Row], problem: LearningTask, score: Quantity) -> list[Line]:
    """A line for each setting of each method, the best mean of `score` first, failures last.

    rows : Rows of one problem on one machine. If a setting has several rows with the same split and
        seed, one of them is taken (`_one_per_split_and_seed`).
    """
    by_setting: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        by_setting[row["method"], sorted_parameters(row)].append(row)
    by_method: defaultdict[str, list[Line]] = defaultdict(list)
    for (method, _), members in by_setting.items():
        best = _one_per_split_and_seed(members)
        by_method[method].append(
            Line(method, _parameters(best[0]), problem, best, set_aside=len(members) - len(best))
        )
    lines = [line for of_method in by_method.values() for line in _named_by_setting(of_method)]

    def order(line: Line) -> tuple[Any, ...]:
        mean = line.mean_sd(score.column)
        rank = (1, 0.0) if mean is None else (0, -score.sign * mean[0])
        return (*rank, line.method, line.setting)

    return sorted(lines, key=order)


def _parameters(row: Row) -> dict[str, Any]:
    """The row's parameters without a `random_state` that equals the seed."""
    params = json.loads(row["params"] or "{}")
    if params.get("random_state") == row["seed"]:
        params.pop("random_state", None)
    return params


def sorted_parameters(row: Row) -> str:
    """The parameters as one text, equal for runs that differ only in their seed."""
    return _sorted_text(row["params"], row["seed"])


# A report groups the same rows in several ways. The number of kept texts is set by hand.
@lru_cache(maxsize=1 << 16)
def _sorted_text(params: str | None, seed: int | None) -> str:
    return json.dumps(_parameters({"params": params, "seed": seed}), sort_keys=True)


def _one_per_split_and_seed(rows: list[Row]) -> list[Row]:
    """The newest ok row of each split and seed; if none is ok, as `Line.rows` says."""
    best: dict[Any, Row] = {}
    for row in sorted(rows, key=_preference):
        best[row.get(SPLIT), row["seed"]] = row
    return sorted(best.values(), key=pair_key)


def pair_key(row: Row) -> tuple[str, bool, int]:
    """Key by which the runs of two methods are paired; it sorts by split, then by seed."""
    return row.get(SPLIT) or "", row["seed"] is not None, row["seed"] or 0


def _preference(row: Row) -> tuple[bool, float, float]:
    """Sort key of the rows of a seed: failed rows by their time limit, then ok rows by age."""
    ok = row["status"] == "ok"
    return ok, 0.0 if ok else time_limit(row), start_time(row)


def start_time(row: Row) -> float:
    """When a run began, in seconds since 1970; 0 for a row without a start time."""
    return row["started_at"].timestamp() if row["started_at"] is not None else 0.0


def _named_by_setting(lines: list[Line]) -> list[Line]:
    """The lines of one method, each named by the parameters in which they differ."""
    if len(lines) == 1:
        return lines
    names = dict.fromkeys(name for line in lines for name in line.params)
    varying = [
        name
        for name in names
        if len({json.dumps(line.params.get(name, "absent"), sort_keys=True) for line in lines}) > 1
    ]
    return [replace(line, setting=_setting(line.params, varying)) for line in lines]


def _setting(params: Mapping[str, Any], names: Iterable[str]) -> str:
    """`name=value` for each name; `no name` for rows older than the parameter."""
    return " ".join(
        f"{name}={shortest_text(params[name])}" if name in params else f"no {name}"
        for name in names
    )


def shortest_text(value: Any) -> str:
    """The shortest text that reads back as the same value of a parameter."""
    if isinstance(value, float):
        text = f"{value:g}"
        return text if float(text) == value else repr(value).removesuffix(".0")
    return value if isinstance(value, str) else json.dumps(value)
