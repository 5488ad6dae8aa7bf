"""Rankings of methods over data sets: mean ranks, time to accuracy, profiles, Pareto fronts.

Performance profiles are those of E. Dolan and J. Moré, "Benchmarking optimization software with
performance profiles", Math. Program. 91, 2002. A method solves a data set if one of its settings
comes within the relative difference `CLOSE` of the best score there; its time is that of the
fastest such setting. Its profile maps a factor to the fraction of data sets that the method solves
within that factor of the fastest method's time.

A ranking takes the data sets of a task that have at least half as many methods as the data set with
the most, and the methods that have runs on all of them. Of a data set in several forms (variants,
numbers of rows) one counts, that with the most methods, because the bootstrap and Nemenyi's test
assume independent data sets. A failed run ranks last and solves nothing; a method whose package is
not installed is left out.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import decimals_for
from kbench.report.comparisons.tables import Comparison, Machine
from kbench.report.sheet import Sheet
from kbench.report.statistics.compare import Interval, mean_ranks, ranks
from kbench.report.statistics.fronts import COSTS, FIT, Cost, pareto, points
from kbench.run.results.rows import WITHOUT_OUTCOME

# Relative difference to the best score of a data set within which a setting solves it. Less would
# count the noise of seeds, more would let settings pass that are fast and poor. Set by hand.
CLOSE = 0.01
# Below six data sets no two methods differ at the 5 % level whatever their ranks are: in a sign
# test five wins out of five have p = 0.06. A bootstrap interval would suggest otherwise.
_MIN_SETS = 6


@dataclass(frozen=True)
class Standing:
    """One method over the data sets of a ranking, in their order."""

    method: str
    rank: Interval
    best: int  # Data sets on which none is better
    gaps: tuple[float, ...]  # Relative differences to the best score, infinite where it has none
    # Seconds to within `CLOSE` of the best score as multiples of the fastest method's, infinite
    # where no setting came so close.
    ratios: tuple[float, ...]
    # Data sets on which one of its settings is on the Pareto front of score and fit time, and on
    # that of score and prediction cost.
    to_train: int
    to_predict: int

    @property
    def solved(self) -> int:
        return sum(map(math.isfinite, self.ratios))


@dataclass(frozen=True)
class Ranking:
    """Standings on one machine, the best mean rank first."""

    task: str
    machine: Machine
    comparisons: list[Comparison]
    standings: list[Standing]


def rankings(comparisons: Iterable[Comparison]) -> list[Ranking]:
    """One ranking for each task and machine with two data sets and two methods or more."""
    groups: defaultdict[tuple[str, Machine], list[Comparison]] = defaultdict(list)
    for comparison in comparisons:
        if (
            comparison.problem.task
            and comparison.lines[0].mean_sd(comparison.score.column) is not None
        ):
            groups[comparison.problem.task, comparison.machine].append(comparison)
    made = []
    for (task, machine), every in groups.items():
        members = _one_form_each(every)
        most = max(len(_methods(member)) for member in members)
        core = [member for member in members if 2 * len(_methods(member)) >= most]
        shared = sorted(set.intersection(*map(_methods, core)))
        if len(core) > 1 and len(shared) > 1:
            made.append(Ranking(task, machine, core, _standings(core, shared)))
    return sorted(
        made,
        key=lambda ranking: (ranking.task, ranking.machine.environment, ranking.machine.threads),
    )


def _one_form_each(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Of each data set the comparison with the most methods; of equal ones that of most rows."""

    def order(comparison: Comparison) -> tuple[int, int]:
        return len(_methods(comparison)), comparison.problem.n_train or 0

    chosen: dict[str, Comparison] = {}
    for comparison in comparisons:
        held = chosen.get(comparison.problem.dataset)
        if held is None or order(comparison) > order(held):
            chosen[comparison.problem.dataset] = comparison
    return list(chosen.values())


def sheet(ranking: Ranking) -> Sheet:
    """A line for each method."""
    n = len(ranking.comparisons)
    near = f"{100 * CLOSE:g} %"
    header = ["method", "mean rank", "95 %", "best on", "% behind", "near on", "× fastest"]
    header += ["fit front", "predict front"]
    rows = []
    for standing in ranking.standings:
        limits = f"{standing.rank.low:.1f} to {standing.rank.high:.1f}" if n >= _MIN_SETS else ""
        reached = [ratio for ratio in standing.ratios if math.isfinite(ratio)]
        middle = float(np.median(reached)) if reached else 0.0
        times = f"{middle:.{decimals_for(middle, 3)}f}" if reached else ""
        row = [
            standing.method,
            f"{standing.rank.mean:.1f}",
            limits,
            str(standing.best),
            _percent(standing.gaps),
        ]
        rows.append(
            [*row, str(standing.solved), times, str(standing.to_train), str(standing.to_predict)]
        )
    sets = ", ".join(title(comparison.problem) for comparison in ranking.comparisons)
    notes = [
        f"Data sets: {sets}; of several forms of one that with the most methods.",
        "Methods: those with runs on all data sets.",
        f"% behind: median difference to the best score; near on: sets within {near} of it.",
        f"× fastest: median seconds, as multiples, of the fastest setting within {near}.",
        "Fronts: sets where no other setting is better in score and fit time, or prediction cost.",
        "Ranks are of a method's best setting by test score, which flatters methods with many.",
    ]
    if n < _MIN_SETS:
        notes.append(f"No intervals: fewer than {_MIN_SETS} data sets show no difference at 5 %.")
    return Sheet(f"Rankings: {ranking.task}, {n} data sets", 1, header, rows, notes, header[1:])


def _standings(core: Sequence[Comparison], methods: Sequence[str]) -> list[Standing]:
    scores = np.array([_scores(comparison, methods) for comparison in core])
    placed = np.vstack(
        [
            ranks(row[None], comparison.score.sign)
            for row, comparison in zip(scores, core, strict=True)
        ]
    )
    tops = [best_score(comparison, row) for comparison, row in zip(core, scores, strict=True)]
    seconds = np.array(
        [
            [_seconds(comparison, m, top) for m in methods]
            for comparison, top in zip(core, tops, strict=True)
        ]
    )
    gaps = np.array([distances(row, top) for row, top in zip(scores, tops, strict=True)])
    fastest = seconds.min(axis=1, keepdims=True)
    solved = np.isfinite(seconds)
    ratios = np.divide(seconds, fastest, out=np.full_like(seconds, math.inf), where=solved)
    fronts = [[_front(comparison, methods, cost) for comparison in core] for cost in COSTS]
    intervals = mean_ranks(placed)
    best = (placed == placed.min(axis=1, keepdims=True)).sum(axis=0)
    standings = [
        Standing(
            method,
            intervals[j],
            int(best[j]),
            tuple(gaps[:, j].tolist()),
            tuple(ratios[:, j].tolist()),
            *(sum(method in front for front in own) for own in fronts),
        )
        for j, method in enumerate(methods)
    ]
    return sorted(standings, key=lambda standing: (standing.rank.mean, standing.method))


def _methods(comparison: Comparison) -> set[str]:
    """Methods with a run that came to an end; an absent package is not a failure of its method."""
    return {
        line.method
        for line in comparison.lines
        if any(row["status"] not in WITHOUT_OUTCOME for row in line.rows)
    }


def _scores(comparison: Comparison, methods: Sequence[str]) -> list[float]:
    best = comparison.best_lines
    measured = [m in best and best[m].mean_sd(comparison.score.column) for m in methods]
    return [pair[0] if pair else math.nan for pair in measured]


def distances(scores: Sequence[float], top: float) -> list[float]:
    """Relative differences to the best score; infinite where a score is NaN, that of a failure."""
    return [math.inf if math.isnan(s) else abs(top - s) / (abs(top) or 1.0) for s in scores]


def best_score(comparison: Comparison, scores: Sequence[float]) -> float:
    """The best of `scores`, of which failures are NaN; NaN where all failed."""
    sign = comparison.score.sign
    known = [score for score in scores if not math.isnan(score)]
    return max(known, key=lambda score: sign * score, default=math.nan)


def _seconds(comparison: Comparison, method: str, top: float) -> float:
    """Seconds of the fastest setting that comes within `CLOSE` of the best score, `top`."""
    return min(
        (
            point.cost
            for point in points(comparison, FIT)
            if point.line.method == method and abs(top - point.score) <= CLOSE * (abs(top) or 1.0)
        ),
        default=math.inf,
    )


def _front(comparison: Comparison, methods: Sequence[str], cost: Cost) -> set[str]:
    of_methods = [point for point in points(comparison, cost) if point.line.method in methods]
    return {point.line.method for point in pareto(of_methods, comparison.score.sign)}


def _percent(gaps: Sequence[float]) -> str:
    middle = float(np.median(gaps))
    return f"{100 * middle:.2f}" if math.isfinite(middle) else ""
