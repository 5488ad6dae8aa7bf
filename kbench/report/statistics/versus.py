"""Pairwise comparison of methods over the data sets on which they all have runs.

Differences are between runs on the same data, split and seed. Over several random splits of a data
set they are tested by the corrected resampled t test. Scores on a fixed scale (accuracy, F1, ...)
are compared by differences, quantities with a unit (seconds, bytes, RMSE) by ratios, whose mean
over data sets is geometric. Costs are compared on one machine only, scores across machines.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbench.errors import counted
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import QUANTITIES, SCORES, Quantity
from kbench.report.comparisons.splits import mean_test_per_train
from kbench.report.comparisons.tables import (
    Comparison,
    Line,
    Row,
    comparisons,
    is_seconds,
    measured,
    pair_key,
    unequal_parameters,
)
from kbench.report.sheet import Sheet
from kbench.report.statistics.compare import (
    LEVEL,
    CorrectedTest,
    Interval,
    bootstrap_mean,
    corrected_t,
    critical_difference,
    friedman,
    mean_ranks,
    ranks,
)
from kbench.report.statistics.days import Days

FEW_TEST_ROWS = 10
"""With fewer test rows than this, over all splits, neither method wins by a score: one row of ten
changes an accuracy by ten points. Set by hand."""

# Decimals of differences of quantities whose decimals depend on the value. Set by hand.
_DECIMALS = 4

_PERCENT = f"{100 * LEVEL:g} %"

# Columns of `pair_records`.
PAIR_COLUMNS = ["dataset", "a", "b", "metric", "kind", "pairs", "mean_a", "mean_b"]
PAIR_COLUMNS += ["estimate", "low", "high", "outcome", "splits", "standard_error", "t", "p"]


@dataclass(frozen=True)
class PairedValues:
    """Two methods on one data set; `a` and `b` are their values for the seeds both finished.

    `where` names the data set and its size, `splits` the split of each value. A split has `n_test`
    test rows; divided by its training rows they are `test_per_train`.
    """

    where: str
    first: Line
    second: Line
    quantity: Quantity
    a: list[float] = field(default_factory=list)
    b: list[float] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    test_per_train: float = 0.0
    n_test: int | None = None

    @property
    def is_of_few_rows(self) -> bool:
        """Whether the values are scores of too few test rows to say which method is better."""
        is_score = self.quantity in SCORES or self.quantity.column not in QUANTITIES
        is_small = self.n_test is not None and self.n_test * max(1, self.n_splits) < FEW_TEST_ROWS
        return is_score and is_small

    @property
    def n_splits(self) -> int:
        """Number of splits that both methods have finished."""
        return len(set(self.splits))

    @property
    def corrected(self) -> CorrectedTest | None:
        """The test over splits, each with its mean over seeds; None below two splits."""
        by_split: defaultdict[str, list[float]] = defaultdict(list)
        for split, difference in zip(self.splits, self.differences, strict=True):
            by_split[split].append(difference)
        means = [math.fsum(values) / len(values) for values in by_split.values()]
        return corrected_t(means, self.test_per_train)

    @property
    def differences(self) -> list[float]:
        """a - b for each seed, or log(a / b) if the quantity is compared by ratios."""
        pairs = zip(self.a, self.b, strict=True)
        if self.quantity.ratio:
            return [math.log(a / b) for a, b in pairs]
        return [a - b for a, b in pairs]

    @property
    def means(self) -> tuple[float, float]:
        """The means of both methods, geometric if the quantity is compared by ratios."""
        a, b = (self._mean(values) for values in (self.a, self.b))
        return a, b

    def _mean(self, values: Sequence[float]) -> float:
        if self.quantity.ratio:
            return math.exp(math.fsum(map(math.log, values)) / len(values))
        return math.fsum(values) / len(values)

    @property
    def outcome(self) -> str:
        """Result of the first method: win, tie or loss; means that are printed alike are a tie.

        The text is empty if no seed was finished by both, or if a score has too few test rows.
        """
        if not self.a or self.is_of_few_rows:
            return ""
        first, second = self.means
        if self.quantity.text(first) == self.quantity.text(second):
            return "tie"
        return "win" if self.quantity.sign * (first - second) > 0 else "loss"


@dataclass(frozen=True)
class Versus:
    """The compared methods with their comparisons and quantities."""

    methods: list[str]
    comparisons: list[Comparison]  # One for each data set
    quantities: list[Quantity]  # The compared quantity of each data set
    # Method -> number of its settings, for methods with several, whose best setting takes part.
    n_settings: dict[str, int]

    def pairs(self) -> list[PairedValues]:
        """Every pair of methods on every data set where both have runs."""
        pairs = []
        for first, second in itertools.combinations(self.methods, 2):
            for comparison, quantity in self._tables({first, second}):
                best = comparison.best_lines
                pairs.append(_paired_values(comparison, best[first], best[second], quantity))
        order = [_data_name(comparison) for comparison in self.comparisons]
        return sorted(pairs, key=lambda pair: order.index(pair.where))

    def shared(self) -> list[tuple[Comparison, Quantity]]:
        """The data sets on which every method has runs."""
        return self._tables({*self.methods})

    def _tables(self, methods: set[str]) -> list[tuple[Comparison, Quantity]]:
        """The data sets on which all of `methods` have runs, without duplicates.

        A table of one split is left out if a table of several splits also has these methods.
        """
        tables = zip(self.comparisons, self.quantities, strict=True)
        compared = [pair for pair in tables if methods <= set(pair[0].best_lines)]
        with_splits = {_data_identity(table) for table, _ in compared if table.problem.n_splits > 1}
        return [
            (table, quantity)
            for table, quantity in compared
            if table.problem.n_splits > 1 or _data_identity(table) not in with_splits
        ]


def _data_identity(comparison: Comparison) -> tuple[str | None, ...]:
    """The identity of a comparison's data, which leaves out its splits."""
    problem = comparison.problem
    options = [
        option for option in (problem.variant or "").split(",") if "split.folds" not in option
    ]
    return problem.dataset, ",".join(options), problem.task, problem.data_sha256


def versus(rows: Iterable[Row], methods: Sequence[str], metric: Quantity | None) -> Versus:
    """Collect the data sets and the runs that `methods` have in common.

    rows : iterable of mapping. As for `comparisons`.
    methods : At least two
    metric : The compared quantity; by default the first score of the task. A method with several
        settings takes part with the setting of the best score, even if costs are compared.
    """
    rows = [row for row in rows if row["method"] in methods]
    score = metric if metric in SCORES or (metric and metric.column not in QUANTITIES) else None
    if metric == score:
        rows = [{**row, "environment": "", "threads": 0, "jobs": None} for row in rows]
    largest: dict[Any, Comparison] = {}
    for comparison in comparisons(rows, score, splits=True):
        prior = largest.get(comparison.problem)
        if len(comparison.best_lines) > 1 and (prior is None or _size(comparison) > _size(prior)):
            largest[comparison.problem] = comparison
    tables = list(largest.values())
    quantities = [comparison.score if metric is None else metric for comparison in tables]
    usable = [i for i, comparison in enumerate(tables) if _has_quantity(comparison, quantities[i])]
    counts: dict[str, int] = {}
    for i in usable:
        for line in tables[i].lines:
            count = sum(other.method == line.method for other in tables[i].lines)
            counts[line.method] = max(count, counts.get(line.method, 0))
    return Versus(
        methods=list(methods),
        comparisons=[tables[i] for i in usable],
        quantities=[quantities[i] for i in usable],
        n_settings={method: count for method, count in sorted(counts.items()) if count > 1},
    )


def sheets(comparison: Versus) -> list[Sheet]:
    """Tables of mean ranks, and of differences over all data sets and on each data set."""
    pairs = comparison.pairs()
    split_pairs = [pair for pair in pairs if pair.n_splits > 1]
    single_pairs = [pair for pair in pairs if pair.n_splits < 2]
    sheets = [_overall_sheet(pairs), *([_data_set_sheet(single_pairs)] if single_pairs else [])]
    sheets += [_split_sheet(split_pairs)] if split_pairs else []
    shared = comparison.shared()
    if shared:
        sheets.insert(0, _rank_sheet(comparison.methods, shared))
    few_rows = {pair.where: pair.n_test for pair in pairs if pair.is_of_few_rows}
    sheets[-1].notes.extend(
        f"{where}: scores are of {counted(n or 0, 'test row')} alone, no method wins by them."
        for where, n in few_rows.items()
    )
    for table in comparison.comparisons:
        best = [table.best_lines[m] for m in comparison.methods if m in table.best_lines]
        sheets[-1].notes.extend(
            f"{_data_name(table)}: {remark}" for remark in unequal_parameters(best)
        )
    seconds = [
        row
        for table, quantity in zip(comparison.comparisons, comparison.quantities, strict=True)
        for method in comparison.methods
        if is_seconds(quantity.column) and method in table.best_lines
        for row in table.best_lines[method].ok
    ]
    if days_remark := Days.of(comparison.comparisons).remark(seconds):
        sheets[-1].notes.append(days_remark)
    if comparison.n_settings:
        counts = ", ".join(f"{method} ({count})" for method, count in comparison.n_settings.items())
        sheets[-1].notes.append(
            "A method with several settings takes part with the setting that is best on the test"
            f" set: {counts}; this favours methods with many settings."
        )
    return sheets


def pair_records(pairs: Iterable[PairedValues]) -> list[dict[str, Any]]:
    """One record for each pair of methods on each data set, without rounding.

    The column `pairs` counts the values that both methods have, one for each seed and split;
    without any, columns from `mean_a` on are None, except `outcome`. `estimate`, `low` and `high`
    are a difference a - b or a ratio a / b, as `kind` says. With several splits the interval is
    that of the corrected t test, else a bootstrap over seeds; only the test has `standard_error`
    and `t`, which are of log ratios if `kind` is a ratio, and `p`.
    """
    records = []
    for pair in pairs:
        record: dict[str, Any] = dict.fromkeys(PAIR_COLUMNS)
        record |= {
            "dataset": pair.where,
            "a": pair.first.label,
            "b": pair.second.label,
            "metric": pair.quantity.column,
            "kind": "ratio" if pair.quantity.ratio else "difference",
            "pairs": len(pair.a),
            "outcome": pair.outcome,
        }
        if pair.a:
            interval = _in_unit(bootstrap_mean([pair.differences]), pair.quantity)
            if (test := pair.corrected) is not None:
                interval = _in_unit(test.interval, pair.quantity)
                record |= {"standard_error": test.standard_error, "t": test.t, "p": test.p}
            record["splits"] = max(1, pair.n_splits)
            record["mean_a"], record["mean_b"] = pair.means
            record |= {"estimate": interval.mean, "low": interval.low, "high": interval.high}
        records.append(record)
    return records


def _rank_sheet(methods: Sequence[str], shared: Sequence[tuple[Comparison, Quantity]]) -> Sheet:
    signed = [
        [quantity.sign * _mean(comparison.best_lines[method], quantity) for method in methods]
        for comparison, quantity in shared
    ]
    table = ranks(signed, 1)
    means = mean_ranks(table)
    failed = [sum(math.isnan(row[j]) for row in signed) for j in range(len(methods))]
    best = (table == table.min(axis=1, keepdims=True)).sum(axis=0)
    order = sorted(range(len(methods)), key=lambda j: (means[j].mean, methods[j]))
    rows = [
        [methods[j], f"{means[j].mean:.2f}", _limits(means[j], 2), str(best[j]), str(failed[j])]
        for j in order
    ]
    notes = [f"{_PERCENT} intervals by the bootstrap over data sets; a failure ranks last."]
    notes += _note_on_few(len(shared), "data sets") if len(shared) > 1 else []
    if len(shared) > 1:
        test = friedman(table)
        difference = critical_difference(len(methods), len(shared))
        if test is not None:
            notes.append(f"Friedman's chi-squared {test[0]:.3g}, p = {test[1]:.2g}.")
        remark = "" if difference < len(methods) - 1 else ", more than these ranks can differ by"
        notes.append(
            f"Nemenyi's critical difference of mean ranks, 5 % level: {difference:.2f}{remark}."
        )
    sets = f"{len(shared)} data set{'' if len(shared) == 1 else 's'}"
    header = ["method", "mean rank", _PERCENT, "best on", "failed on"]
    return Sheet(f"Mean ranks over {sets} that all methods have", 1, header, rows, notes)


def _overall_sheet(pairs: Sequence[PairedValues]) -> Sheet:
    groups: dict[tuple[str, str, Quantity], list[PairedValues]] = {}
    for pair in pairs:
        key = (pair.first.method, pair.second.method, pair.quantity)
        groups.setdefault(key, []).append(pair)
    rows = []
    for (first, other, quantity), members in groups.items():
        paired = [pair for pair in members if pair.a]
        outcomes = [pair.outcome for pair in paired]
        counts = "/".join(str(outcomes.count(name)) for name in ("win", "tie", "loss"))
        estimate = ["", ""]
        if paired:
            estimate = _estimate_texts(
                bootstrap_mean([pair.differences for pair in paired]), quantity
            )
        row = [
            f"{first} {_operator(quantity)} {other}",
            quantity.header,
            str(len(paired)),
            *estimate,
        ]
        rows.append([*row, counts])
    header = ["pair", "metric", "data sets", "mean", _PERCENT, "win/tie/loss"]
    note = (
        "− is the mean of differences, ÷ the geometric mean of ratios, over the seeds of a data set"
        " and then over data sets; intervals draw data sets and seeds within them. Means that print"
        " alike tie; a pair without a seed that both finished is left out."
    )
    notes = [note]
    fewest = min(len([pair for pair in members if pair.a]) for members in groups.values())
    notes += _note_on_few(fewest, "data sets") if fewest > 1 else []
    if any(pair.n_splits > 1 for pair in pairs):
        notes.append(
            "These intervals take splits of a data set as independent, although they share rows;"
            " intervals on each data set are corrected for it."
        )
    return Sheet("Pairs over all data sets", 2, header, rows, notes)


def _data_set_sheet(pairs: Sequence[PairedValues]) -> Sheet:
    rows = []
    for pair in pairs:
        names = f"{pair.first.label} {_operator(pair.quantity)} {pair.second.label}"
        if not pair.a:
            failures = {**pair.first.failures, **pair.second.failures}
            why = ", ".join(sorted(failures)) or "no common seed"
            rows.append([pair.where, names, pair.quantity.header, "0", "", "", "", "", why])
            continue
        estimate = _estimate_texts(bootstrap_mean([pair.differences]), pair.quantity)
        side_means = [pair.quantity.text(mean) for mean in pair.means]
        row = [pair.where, names, pair.quantity.header, str(len(pair.a)), *side_means, *estimate]
        rows.append([*row, pair.outcome])
    header = ["data set", "pair", "metric", "seeds", "first", "second", "mean", _PERCENT]
    header.append("outcome")
    varied = [len(pair.a) for pair in pairs if len(set(pair.differences)) > 1]
    notes = _note_on_few(min(varied), "seeds") if varied else []
    return Sheet("Pairs on each data set, paired over seeds", 3, header, rows, notes)


def _note_on_few(n: int, unit: str) -> list[str]:
    """A remark on bootstrap intervals of n values if n is small.

    Such an interval lies between the least and the largest value, which enclose the median with the
    probability 1 - 2^(1 - n).
    """
    max_coverage = 1.0 - 2.0 ** (1 - n)
    if max_coverage >= LEVEL:
        return []
    percent = f"{100 * max_coverage:.0f} %"
    return [f"An interval of {n} {unit} covers the true value in at most {percent} of cases."]


def _split_sheet(pairs: Sequence[PairedValues]) -> Sheet:
    rows = []
    for pair in pairs:
        test = pair.corrected
        assert test is not None
        names = f"{pair.first.label} {_operator(pair.quantity)} {pair.second.label}"
        mean, limits = _estimate_texts(test.interval, pair.quantity)
        error = "" if pair.quantity.ratio else _printed_error(test.standard_error, pair.quantity)
        side_means = [pair.quantity.text(mean) for mean in pair.means]
        texts = (test.p, f"{test.p:.2g}"), (test.t, f"{test.t:+.2f}")
        numbers = ["" if math.isnan(n) else text for n, text in texts]
        row = [pair.where, names, mean, error, limits, *numbers, str(pair.n_splits), *side_means]
        rows.append([*row, pair.quantity.header])
    # The most important columns come first, because narrow terminals cut off the last ones.
    header = ["data set", "pair", "mean", "s.e.", _PERCENT, "p", "t", "splits", "first", "second"]
    header.append("metric")
    note = (
        "s.e. is the standard error of the corrected resampled t (Nadeau and Bengio 2003): the"
        " variance of the mean of J paired differences is (1/J + test rows / training rows) times"
        " the differences' variance. The value of a split is its mean over seeds. Ratios are tested"
        " by their logarithms, whose interval is transformed back."
    )
    counts = sorted({pair.n_splits for pair in pairs})
    n_splits = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return Sheet(f"Pairs on each data set, paired over {n_splits} splits", 2, header, rows, [note])


def _printed_error(error: float, quantity: Quantity) -> str:
    decimals = _DECIMALS if quantity.decimals is None else quantity.decimals
    return f"{error * quantity.factor:.{decimals}f}"


def _paired_values(
    comparison: Comparison, first: Line, second: Line, quantity: Quantity
) -> PairedValues:
    usable = [
        {
            pair_key(row): value
            for row in line.ok
            if (value := measured(row, quantity.column)) is not None
            and (value > 0.0 or not quantity.ratio)
        }
        for line in (first, second)
    ]
    keys = sorted(set(usable[0]) & set(usable[1]))
    a, b = ([values[key] for key in keys] for values in usable)
    ratio = mean_test_per_train([*first.ok, *second.ok])
    where, n_test = _data_name(comparison), comparison.problem.n_test
    return PairedValues(
        where, first, second, quantity, a, b, [key[0] for key in keys], ratio, n_test
    )


def _size(comparison: Comparison) -> tuple[int, int]:
    """Numbers of methods and of ok runs."""
    return len(comparison.best_lines), sum(len(line.ok) for line in comparison.lines)


def _has_quantity(comparison: Comparison, quantity: Quantity) -> bool:
    return any(line.mean_sd(quantity.column) is not None for line in comparison.lines)


def _mean(line: Line, quantity: Quantity) -> float:
    mean = line.mean_sd(quantity.column)
    return math.nan if mean is None else mean[0]


def _data_name(comparison: Comparison) -> str:
    size = comparison.problem.n_train
    return title(comparison.problem) + ("" if size is None else f", n={size}")


def _operator(quantity: Quantity) -> str:
    return "÷" if quantity.ratio else "−"


def _in_unit(interval: Interval, quantity: Quantity) -> Interval:
    """Turn logarithms into ratios; differences stay in the row's unit."""
    if not quantity.ratio:
        return interval
    ends = [None if limit is None else math.exp(limit) for limit in (interval.low, interval.high)]
    return Interval(math.exp(interval.mean), *ends)


def _estimate_texts(interval: Interval, quantity: Quantity) -> list[str]:
    """The estimate and its interval as printed."""
    in_unit = _in_unit(interval, quantity)
    limits = [] if in_unit.low is None or in_unit.high is None else [in_unit.low, in_unit.high]
    if quantity.ratio:
        texts = [f"{value:.3g}" for value in (in_unit.mean, *limits)]
    else:
        decimals = _DECIMALS if quantity.decimals is None else quantity.decimals
        texts = [f"{value * quantity.factor:+.{decimals}f}" for value in (in_unit.mean, *limits)]
    return [texts[0], f"[{texts[1]}, {texts[2]}]" if limits else ""]


def _limits(interval: Interval, decimals: int) -> str:
    if interval.low is None or interval.high is None:
        return ""
    return f"[{interval.low:.{decimals}f}, {interval.high:.{decimals}f}]"
