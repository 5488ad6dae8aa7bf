"""Recommendation of methods for a data set, from the rows of the data sets most similar to it.

The distance of two problems of the same task is the Euclidean distance of (log10 n, log10 d, log10
density), where n is the number of training rows, d of features, and density the fraction of
non-zero entries, which is left out unless it is known for both. Methods are ranked by the mean rank
of their best settings over the nearest problems. Among the methods within `CLOSE` of the best score
the cheapest to train and the cheapest to predict with are named.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kbench.report.cells import title
from kbench.report.compare import ranks
from kbench.report.quantities import QUANTITIES, decimals_for
from kbench.report.sheet import Sheet
from kbench.report.tables import Comparison, Line

# Number of nearest problems whose rows are used: more give more evidence from less similar data.
# Set by hand.
NEAREST = 3

# Relative difference to the best score up to which a method counts as equally good.
CLOSE = 0.01

_FIT, _PREDICT = QUANTITIES["fit_s"], QUANTITIES["prediction_cost"]


@dataclass(frozen=True)
class Wanted:
    """The data set to recommend methods for; its name and density may be unknown."""

    task: str
    n: int
    d: int
    dataset: str | None = None
    density: float | None = None

    def distance(self, comparison: Comparison) -> float:
        """Distance of the sizes in orders of magnitude; 0 for the data set itself."""
        problem = comparison.problem
        if problem.dataset == self.dataset:
            return 0.0
        assert problem.n_train is not None
        assert problem.n_features is not None
        parts = [problem.n_train / self.n, problem.n_features / self.d]
        own = density(comparison)
        if own and self.density:
            parts.append(own / self.density)
        return math.hypot(*map(math.log10, parts))


@dataclass(frozen=True)
class Evidence:
    """A method on each of the nearest problems: its best line, its rank and its gap.

    `gaps` are relative differences to the best score of each problem.
    """

    method: str
    lines: Mapping[int, Line]
    ranks: Sequence[float]
    gaps: Sequence[float]

    @property
    def mean_rank(self) -> float:
        return math.fsum(self.ranks) / len(self.ranks)

    @property
    def mean_gap(self) -> float:
        return math.fsum(self.gaps) / len(self.gaps)

    def cost(self, column: str) -> float | None:
        """Geometric mean over the problems; None where one was not measured."""
        values = [line.mean_sd(column) for line in self.lines.values()]
        if any(value is None or value[0] <= 0.0 for value in values):
            return None
        return math.exp(math.fsum(math.log(v[0]) for v in values if v) / len(values))


@dataclass(frozen=True)
class Recommendation:
    """The nearest problems with their distances, and the methods on them, the best first."""

    wanted: Wanted
    nearest: list[tuple[float, Comparison]]
    evidence: list[Evidence]
    choices: Mapping[str, str] = field(default_factory=dict)


def recommend(comparisons: Sequence[Comparison], wanted: Wanted) -> Recommendation:
    """Rank the methods that have runs on all of the nearest problems."""
    problems: dict[str, Comparison] = {}
    for one in comparisons:
        sized = one.problem.task == wanted.task and one.problem.n_train and one.problem.n_features
        name = title(one.problem)
        if sized and (name not in problems or _methods(one) > _methods(problems[name])):
            problems[name] = one
    if wanted.density is None:
        known = (density(one) for one in comparisons if one.problem.dataset == wanted.dataset)
        wanted = replace(wanted, density=next(filter(None, known), None))
    pairs = [(wanted.distance(one), one) for one in problems.values() if _methods(one) > 1]
    nearest = sorted(pairs, key=lambda pair: (pair[0], title(pair[1].problem)))[:NEAREST]
    evidence = _evidence([one for _, one in nearest])
    return Recommendation(wanted, nearest, evidence, _choices(evidence))


def sheets(found: Recommendation) -> list[Sheet]:
    """The nearest problems, and the methods on them with the recommendations below."""
    wanted = found.wanted
    rows = [
        [
            title(one.problem),
            f"{one.problem.n_train:,}",
            str(one.problem.n_features),
            _number(density(one)),
            f"{distance:.2f}",
            str(_methods(one)),
        ]
        for distance, one in found.nearest
    ]
    header = ["data set", "train rows", "features", "density", "distance", "methods"]
    size = f"{wanted.task}, {wanted.n:,} training rows of {wanted.d} features"
    if wanted.density is not None:
        size += f", density {_number(wanted.density)}"
    near = Sheet(f"Nearest to {wanted.dataset or 'it'}: {size}", 1, header, rows)
    table = [
        [
            one.method,
            f"{one.mean_rank:.1f}",
            f"{100 * one.mean_gap:.2f}",
            _number(one.cost(_FIT.column)),
            _number(one.cost(_PREDICT.column)),
        ]
        for one in found.evidence
    ]
    columns = ["method", "mean rank", "% behind the best", _FIT.title, _PREDICT.title]
    notes = [f"{what}: {method}" for what, method in found.choices.items()]
    notes.append("Times are geometric means over these data sets; scores are of test rows.")
    return [near, Sheet("Methods with runs on all of them", 1, columns, table, notes)]


def density(comparison: Comparison) -> float | None:
    """Fraction of training entries that are non-zero; None where no row has it."""
    rows = (row for line in comparison.lines for row in line.rows)
    return next((row["density"] for row in rows if row["density"] is not None), None)


def _evidence(nearest: Sequence[Comparison]) -> list[Evidence]:
    best = [best_lines(one) for one in nearest]
    shared = sorted(set.intersection(*map(set, best))) if best else []
    if not shared:
        return []
    scores = np.array(
        [
            [_score(one, lines[method]) for method in shared]
            for one, lines in zip(nearest, best, strict=True)
        ]
    )
    signs = [one.score.sign for one in nearest]
    placed = np.vstack([ranks(row[None], sign) for row, sign in zip(scores, signs, strict=True)])
    tops = [row.max() if sign > 0 else row.min() for row, sign in zip(scores, signs, strict=True)]
    found = []
    for j, method in enumerate(shared):
        gaps = [
            abs(top - score) / (abs(top) or 1.0)
            for top, score in zip(tops, scores[:, j], strict=True)
        ]
        lines = {i: own[method] for i, own in enumerate(best)}
        found.append(Evidence(method, lines, placed[:, j].tolist(), gaps))
    return sorted(found, key=lambda one: (one.mean_rank, one.mean_gap, one.method))


def _choices(evidence: Sequence[Evidence]) -> dict[str, str]:
    if not evidence:
        return {}
    choices = {"Best score": evidence[0].method}
    least = min(one.mean_gap for one in evidence)
    close = [one for one in evidence if one.mean_gap <= least + CLOSE]
    share = f"within {100 * CLOSE:g} % of the best"
    for what, column in (("train", _FIT.column), ("predict with", _PREDICT.column)):
        costs = {one.method: cost for one in close if (cost := one.cost(column)) is not None}
        if costs:
            choices[f"Fastest to {what}, {share}"] = min(costs, key=costs.__getitem__)
    return choices


def best_lines(comparison: Comparison) -> dict[str, Line]:
    """Method -> its best line that has a score; lines come best first."""
    found: dict[str, Line] = {}
    for line in comparison.lines:
        if line.mean_sd(comparison.score.column) is not None:
            found.setdefault(line.method, line)
    return found


def _methods(comparison: Comparison) -> int:
    return len(best_lines(comparison))


def _score(comparison: Comparison, line: Line) -> float:
    measured = line.mean_sd(comparison.score.column)
    assert measured is not None
    return measured[0]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.{decimals_for(value, 3)}f}"
