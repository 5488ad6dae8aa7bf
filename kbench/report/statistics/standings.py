"""Rankings of methods for data like the user's; no setting was chosen on test rows.

A competitor is a method with a setting that its experiment fixed before it saw any test row
(`tables` and `tuned`: defaults, or a search on training rows). It takes part if it has an outcome
on three data sets of the task, or on both if there are two. Its distance on a data set is the
relative difference to the best score of all competitors there, and zero within a few test rows of
that score; a failed run has an infinite distance and ranks last.
"""

import bisect
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kbench.config import options, read_yaml
from kbench.errors import ConfigError
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import decimals_for
from kbench.report.comparisons.tables import (
    Comparison,
    LearningTask,
    Line,
    Row,
    comparisons,
    shortest_text,
)
from kbench.report.sheet import Sheet
from kbench.report.statistics.compare import CHANCE_ROWS, ranks
from kbench.report.statistics.days import Days
from kbench.run.results.rows import WITHOUT_OUTCOME
from kbench.run.results.stopped import stopped_at

# Experiments whose settings were fixed before any test row was seen.
EXPERIMENTS = ("tables", "tuned")
# Size that the user names -> column of a data set's size, and the factor by which both may differ.
# Smaller factors leave one or two of the committed data sets, larger ones all of them. Set by hand.
_SIZE_FACTORS = {"n": ("n_train", 10.0), "classes": ("n_classes", 3.0), "d": ("n_features", 10.0)}
# Methods further behind the best score than this, in per cent, are not recommended for their speed.
# Set by hand.
_MAX_PERCENT_BEHIND = 50.0
# Minimum number of data sets of a competitor: fewer say little about a method. Set by hand.
_MIN_SETS = 3
# Number of rows to which seconds are scaled. Set by hand.
_SCALED_ROWS = 10_000
# Numbers of training rows that divide the data sets of a table into columns, because the best
# method depends on the number of rows. Set by hand.
_ROW_BOUNDS = (10_000, 100_000)


def standings(
    rows: Iterable[Row],
    task: str | None = None,
    n: int | None = None,
    d: int | None = None,
    classes: int | None = None,
) -> list[Sheet]:
    """A table for each task, the smallest median distance first.

    rows : iterable of mapping. As for `comparisons`; only rows of `EXPERIMENTS` count.
    task : {"binary", "multiclass", "regression"}, optional. Only this task is ranked.
    n, d, classes : Training rows, features and classes of the user's data. Only data sets within a
        factor of ten take part, and of three for classes. If fewer than two are left, some or all
        of these conditions are dropped, and a note says so. Without a task, `classes` decides
        between binary and multiclass.

    The notes before "Data sets" say what to try and what failed.

    Raises ConfigError: fewer than two data sets of the task have rows of such an experiment, or the
    task does not allow this number of classes.
    """
    if classes is not None:
        class_task = "binary" if classes == 2 else "multiclass"
        if classes < 2 or task not in (None, class_task):
            raise ConfigError(
                f"classes={classes}: task=binary has 2 classes, task=multiclass 3 or more, "
                "task=regression none"
            )
        task = class_task
    rows = list(rows)
    ended = [row for row in rows if row["status"] not in WITHOUT_OUTCOME]
    ranked_rows = [row for row in ended if {*EXPERIMENTS} & {*str(row["experiment"]).split(",")}]
    files = options("dataset")
    tables = [table for table in comparisons(_from_one_machine(ranked_rows)) if table.problem.task]
    leaking = [table for table in tables if _has_leak(files.get(table.problem.dataset))]
    tables = [table for table in tables if table not in leaking]
    sizes = {"n": n, "classes": classes, "d": d}
    # Conditions are dropped in this order: d, then classes, then both, then n, and so on.
    choices = itertools.product(*[(True, False)] * len(sizes))
    for choice in choices:
        conditions = {
            key: sizes[key] if uses else None for key, uses in zip(sizes, choice, strict=True)
        }
        by_task: defaultdict[str, list[Comparison]] = defaultdict(list)
        for table in tables:
            if task in (None, table.problem.task) and _is_like(table, conditions):
                by_task[str(table.problem.task)].append(table)
        ranked = [(name, sets) for name, sets in sorted(by_task.items()) if len(sets) > 1]
        if ranked:
            notes = [] if conditions == sizes else [_note_on_sizes(sizes, conditions)]
            days = Days(rows)
            left_out = [
                [title(table.problem) for table in leaking if table.problem.task == name]
                for name, _ in ranked
            ]
            return [
                _sheet(name, sets, notes, days, names)
                for (name, sets), names in zip(ranked, left_out, strict=True)
            ]
    condition = "" if task is None else f" of task={task}"
    raise ConfigError(
        f"fewer than two data sets{condition} have rows of the experiments "
        f"{' or '.join(EXPERIMENTS)}: run `kbench experiment={EXPERIMENTS[0]}`"
    )


def _advice(sheet: Sheet) -> list[str]:
    """The first two methods of a ranking for each number of rows, and those that predict faster.

    All equal methods are named. A method counts as predicting faster if it takes less than half of
    the seconds (set by hand) of every method nearer to the best score.
    """
    columns = list(map(list, zip(*sheet.rows, strict=True)))
    cells = dict(zip(sheet.header, columns, strict=True))
    names = cells["method"]
    texts = []
    for column in [name for name in sheet.header if name.endswith(" rows")] or ["% behind"]:
        numbers = [text for text in cells[column] if _is_number(text)]
        best = sorted(numbers, key=float)[:2]
        first = [
            " = ".join(n for n, text in zip(names, cells[column], strict=True) if text == behind)
            for behind in dict.fromkeys(best)
        ]
        shown = ", then ".join(first) or "none"
        texts.append(f"with {column} {shown}" if column != "% behind" else shown)
    advice = [f"To try first: {'; '.join(texts)}."]
    fastest, faster = math.inf, []
    timed = zip(names, cells["% behind"], cells["predict s"], strict=True)
    complete = [line for line in timed if _is_number(line[1]) and _is_number(line[2])]
    for name, behind, seconds in sorted(complete, key=lambda line: float(line[1])):
        if float(seconds) < fastest / 2.0:
            if math.isfinite(fastest) and float(behind) <= _MAX_PERCENT_BEHIND:
                faster.append(f"{name} ({behind} % behind, {seconds} s per {_SCALED_ROWS:,} rows)")
            fastest = float(seconds)
    return [*advice, f"To predict faster: {', '.join(faster)}."] if faster else advice


def _is_number(text: str) -> bool:
    return text not in ("", "fails")


def _from_one_machine(rows: Sequence[Row]) -> list[Row]:
    """Rows of the machine with the most rows, because seconds of two machines do not compare."""
    of_machine: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        of_machine[row["environment"], row["threads"]].append(row)
    return max(of_machine.values(), key=len, default=[])


def _is_like(comparison: Comparison, user_sizes: Mapping[str, int | None]) -> bool:
    """Whether each size that the user names is within its factor of the data set's size."""
    for key, user in user_sizes.items():
        column, factor = _SIZE_FACTORS[key]
        size = getattr(comparison.problem, column)
        if user is not None and not (size and max(size, user) <= factor * min(size, user)):
            return False
    return True


def _note_on_sizes(user_sizes: Mapping[str, int | None], kept: Mapping[str, int | None]) -> str:
    """A note on sizes that were dropped because too few data sets are alike."""
    asked_text, kept_text = (
        ", ".join(f"{name}={size:,}" for name, size in sizes.items() if size)
        for sizes in (user_sizes, kept)
    )
    factors = {f"{_SIZE_FACTORS[name][1]:g} of {name}" for name in user_sizes if user_sizes[name]}
    range_text = f"are for {kept_text} alone" if kept_text else "are all there are"
    within = "a factor of " + " and ".join(sorted(factors))
    return f"No answer for {asked_text}: no two data sets are within {within}; these {range_text}."


def _sheet(
    task: str,
    sets: Sequence[Comparison],
    remarks: Sequence[str],
    days: Days,
    left_out: Sequence[str],
) -> Sheet:
    files = options("method")
    methods = {line.method for table in sets for line in table.lines} & files.keys()
    with_metric = {name for name in methods if "metric" in read_yaml(files[name])}
    lines = [{_competitor_name(line, with_metric): line for line in table.lines} for table in sets]
    all_names = sorted({name for group in lines for name in group})
    min_sets = min(_MIN_SETS, len(sets))
    names = [name for name in all_names if sum(name in group for group in lines) >= min_sets]
    distances: defaultdict[str, dict[int, float]] = defaultdict(dict)  # by index of the data set
    rank_lists: defaultdict[str, list[float]] = defaultdict(list)
    for index, (comparison, group) in enumerate(zip(sets, lines, strict=True)):
        competitors = [name for name in names if name in group]
        means = [group[name].mean_sd(comparison.score.column) for name in competitors]
        scores = [math.nan if mean is None else mean[0] for mean in means]
        scores = _with_ties(scores, comparison)
        behind = _distances(scores, _best_score(comparison, scores))
        for name, distance, rank in zip(
            competitors, behind, ranks([scores], comparison.score.sign)[0], strict=True
        ):
            distances[name][index] = distance
            rank_lists[name].append(float(rank))
    # Distances over different data sets are not comparable, so methods with fewer sets come last.
    order = sorted(
        names, key=lambda n: (-len(distances[n]), statistics.median(distances[n].values()), n)
    )
    by_row_range = _by_row_range(sets)
    rows = [
        _sheet_row(
            name,
            distances[name],
            by_row_range,
            rank_lists[name],
            [k[name] for k in lines if name in k],
        )
        for name in order
    ]
    header = ["method", "% behind", *by_row_range, "mean rank", "sets", "failed"]
    header += ["fit s", "predict s"]
    titles = ", ".join(_with_size(table.problem) for table in sets)
    meaning = (
        f"% behind: median over data sets of the {sets[0].score.title.removesuffix(' %')}'s"
        f" difference to the best method's, in per cent of it; 0 below {CHANCE_ROWS} test rows."
        " Mean rank ± its standard error over data sets, where it varies. Sets: the number of data"
        " sets; methods with fewer come last."
    )
    seconds = (
        "fit s, predict s: median over data sets of the CPU seconds of one thread, divided by the"
        f" rows and times {_SCALED_ROWS:,}, in environment {sets[0].machine.environment}; fits of"
        " kernel methods grow faster than their rows. Each method has one setting, which was fixed"
        " or searched on training rows."
    )
    notes = [f"Data sets (rows x features): {titles}.", meaning]
    if left_out:
        notes.append(
            f"Left out, because their features hold the target: {', '.join(sorted(left_out))}."
        )
    if by_row_range:
        counts = ", ".join(f"{len(indices)} with {name}" for name, indices in by_row_range.items())
        notes.append(
            f"Columns of rows: % behind on data sets of that size alone ({counts}), empty for"
            " methods that have not run on all of them, “fails” for those that failed on half."
        )
    sizes = f"{len(sets)} data sets{_range(sets, 'n_train', 'rows')}"
    classes = _range(sets, "n_classes", "classes") if task == "multiclass" else ""
    groups = [*["distance"] * (1 + len(by_row_range)), *["others"] * 5] if by_row_range else ()
    name = f"Which model: {task}, {sizes}{classes}"
    sheet = Sheet(name, 1, header, rows, groups=groups)
    advice = [*remarks, *_advice(sheet), *_failures(names, lines)]
    days_note = days.remark(row for group in lines for line in group.values() for row in line.ok)
    return replace(sheet, notes=[*advice, *notes, seconds, *([days_note] if days_note else [])])


def _failures(names: Sequence[str], lines: Sequence[Mapping[str, Line]]) -> list[str]:
    """Which methods failed on which data set, and at which limit."""
    texts = []
    for name, group in itertools.product(names, lines):
        if name in group and not group[name].ok:
            line = group[name]
            limits = [s for row in line.rows if (s := stopped_at(row)) is not None]
            longest = f"stopped at its limit of {max(limits, default=0.0):g} s"
            why = longest if limits else ", ".join(line.failures)
            texts.append(f"{name} on {title(line.problem)} ({why})")
    return [f"Failed: {'; '.join(texts)}."] if texts else []


def _has_leak(config: Path | None) -> bool:
    """Whether the features of a data set hold its target, so that it cannot rank methods."""
    return config is not None and bool((read_yaml(config).get("facts") or {}).get("leak"))


def _by_row_range(sets: Sequence[Comparison]) -> dict[str, list[int]]:
    """Title of a range of training rows -> indices of its data sets, if there are two or more."""
    groups: list[list[int]] = [[] for _ in range(len(_ROW_BOUNDS) + 1)]
    for index, table in enumerate(sets):
        if table.problem.n_train is not None:
            groups[bisect.bisect_left(_ROW_BOUNDS, table.problem.n_train)].append(index)
    ends = (_ends([sets[i] for i in group], "n_train") for group in groups)
    titles = (f"{'-'.join(texts)} rows" for texts in ends)
    titled = zip(titles, groups, strict=True)
    return {title: group for title, group in titled if 1 < len(group) < len(sets)}


def _range(sets: Sequence[Comparison], size: str, unit: str) -> str:
    """The smallest and the largest size of the data sets, in words."""
    ends = _ends(sets, size)
    return f", {' to '.join(ends)} {unit}" if ends else ""


def _ends(sets: Sequence[Comparison], size: str) -> list[str]:
    """The smallest and the largest known size as texts, or the only one; empty without sizes."""
    sizes = sorted({value for table in sets if (value := getattr(table.problem, size)) is not None})
    return list(dict.fromkeys(f"{end:,}" for end in (*sizes[:1], *sizes[-1:])))


def _with_size(problem: LearningTask) -> str:
    n, d = (f"{size:,}" if size else "?" for size in (problem.n_train, problem.n_features))
    return f"{title(problem)} ({n} x {d})"


def _competitor_name(line: Line, with_metric: Collection[str]) -> str:
    """The method, and its metric if it has that parameter.

    with_metric : Methods that have the parameter. Early rows lack it where its value is null, which
        was then the default.
    """
    if line.method not in with_metric and "metric" not in line.params:
        return line.method
    return f"{line.method} metric={shortest_text(line.params.get('metric'))}"


def _sheet_row(
    name: str,
    distances: Mapping[int, float],
    by_row_range: Mapping[str, Sequence[int]],
    rank_list: Sequence[float],
    lines: Sequence[Line],
) -> list[str]:
    behind = [_median_distance(distances, distances)]
    behind += [
        "" if set(indices) - set(distances) else _median_distance(distances, indices)
        for indices in by_row_range.values()
    ]
    mean = statistics.fmean(rank_list)
    error = (
        statistics.stdev(rank_list) / math.sqrt(len(rank_list)) if len(rank_list) > 1 else math.nan
    )
    spread = "" if math.isnan(error) or error == 0.0 else f" ± {error:.1f}"
    failed = sum(not line.ok for line in lines)
    seconds = [_seconds(lines, "fit_s", "n_train"), _seconds(lines, "predict_s", "n_test")]
    return [name, *behind, f"{mean:.1f}{spread}", str(len(rank_list)), str(failed or ""), *seconds]


def _median_distance(distances: Mapping[int, float], indices: Iterable[int]) -> str:
    """The median distance over some of the data sets, in per cent."""
    median = statistics.median(distances[index] for index in indices)
    return f"{100 * median:.2f}" if math.isfinite(median) else "fails"


def _seconds(lines: Sequence[Line], column: str, rows: str) -> str:
    """The median seconds for `_SCALED_ROWS` rows, to two significant digits (set by hand)."""
    seconds = [
        measured[0] * _SCALED_ROWS / line.ok[0][rows]
        for line in lines
        if line.ok and line.ok[0][rows] and (measured := line.mean_sd(column)) is not None
    ]
    if not seconds:
        return ""
    median = statistics.median(seconds)
    return f"{median:.{decimals_for(median, 2)}f}"


def _with_ties(scores: Sequence[float], comparison: Comparison) -> list[float]:
    """The scores; an accuracy fewer than `CHANCE_ROWS` test rows from the best becomes the best."""
    best, n = _best_score(comparison, scores), comparison.problem.n_test
    if comparison.score.column != "accuracy" or not n:
        return list(scores)
    return [best if abs(best - score) * n < CHANCE_ROWS else score for score in scores]


def _distances(scores: Sequence[float], best_score: float) -> list[float]:
    """Relative differences to the best score; infinite for failures, whose score is NaN."""
    return [
        math.inf if math.isnan(s) else abs(best_score - s) / (abs(best_score) or 1.0)
        for s in scores
    ]


def _best_score(comparison: Comparison, scores: Sequence[float]) -> float:
    """The best of `scores`, in which NaN stands for a failure; NaN if all failed."""
    sign = comparison.score.sign
    valid = [score for score in scores if not math.isnan(score)]
    return max(valid, key=lambda score: sign * score, default=math.nan)
