"""Recommendation of methods for a data set, from the rows of the data sets most similar to it.

The distance of two problems is the Euclidean distance of (log10 n, log10 d, log10 density), where n
is the number of training rows, d of features, and density the fraction of non-zero entries, which
is left out unless it is known for both. Problems of two and of several classes are one order of
magnitude apart. Problems farther than `FARTHEST` orders of magnitude say nothing.

Methods are compared in pairs, so that a method needs rows on some of the problems only. The model
of the logarithm of the error of method m on problem p (1 - accuracy, or the RMSE of regression) is

    log error = u_p + v_m + noise,    weight of a row exp(-distance of p),

fitted by weighted least squares. Differences of the v are the weighted means of paired differences
where all pairs are there. The v are shrunk towards their mean as if each method had
`PRIOR` rows that say nothing. On the data set itself measured errors take the place of the model.

`scripts/bench_recommend.py` leaves each data set of the reference rows out in turn.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import QUANTITIES, decimals_for
from kbench.report.comparisons.tables import Comparison, Line
from kbench.report.text.sheet import Sheet

# Number of nearest problems whose rows are used. With 8 the mean regret on the reference rows is
# 1.4 points instead of 0.7 (`scripts/bench_recommend.py`).
NEAREST = 20
# Orders of magnitude beyond which a problem is no evidence. Set by hand.
FARTHEST = 2.5
# Rows without information that a method is taken to have.
PRIOR = 1.0
# Methods are ranked by their expected log error plus this multiple of its standard error.
CAUTION = 1.0
# Relative difference to the best score up to which a method counts as equally good.
CLOSE = 0.01
# Quantile of the normal distribution of the interval of an expected score: 80 %.
_Z = 1.28

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
        if problem.task != self.task:
            parts.append(10.0)
        own = density(comparison)
        if own and self.density:
            parts.append(own / self.density)
        return math.hypot(*map(math.log10, parts))


@dataclass(frozen=True)
class Evidence:
    """What the rows say of a method.

    Attributes
    ----------
    lines : problem number -> its best line
    ratio : float
        Expected error as a multiple of that of the best method.
    score, low, high : float
        Expected score and its interval of 80 %; the measured score, three times, if there is one.
    """

    method: str
    lines: Mapping[int, Line]
    ratio: float
    score: float
    low: float
    high: float
    measured: bool

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
    reason: str = ""
    command: str = ""


def recommend(comparisons: Sequence[Comparison], wanted: Wanted) -> Recommendation:
    """Rank the methods by their runs on the nearest problems."""
    problems: dict[str, Comparison] = {}
    for one in comparisons:
        # Two and more classes are compared with each other, one order of magnitude apart.
        alike = (one.problem.task == "regression") == (wanted.task == "regression")
        sized = alike and one.problem.n_train and one.problem.n_features
        name = title(one.problem)
        if sized and (name not in problems or _methods(one) > _methods(problems[name])):
            problems[name] = one
    if wanted.density is None:
        known = (density(one) for one in comparisons if one.problem.dataset == wanted.dataset)
        wanted = replace(wanted, density=next(filter(None, known), None))
    pairs = [(wanted.distance(one), one) for one in problems.values()]
    pairs = [(far, one) for far, one in pairs if far <= FARTHEST and _methods(one) > 1]
    pairs.sort(
        key=lambda pair: (
            pair[1].problem.dataset != wanted.dataset,
            pair[0],
            title(pair[1].problem),
        )
    )
    nearest = pairs[:NEAREST]
    fit_task = [best_lines(one) for _, one in pairs if one.problem.task == wanted.task]
    evidence = _evidence(wanted, nearest, set().union(*fit_task))
    choices = _choices(evidence)
    if not evidence:
        return Recommendation(wanted, nearest, evidence)
    command = f"kbench method={evidence[0].method} dataset={wanted.dataset or 'NAME'}"
    return Recommendation(
        wanted, nearest, evidence, choices, _reason(wanted, nearest, evidence), command
    )


def sheets(recommendation: Recommendation) -> list[Sheet]:
    """The nearest problems, and the methods on them with the recommendations below."""
    wanted = recommendation.wanted
    rows = [
        [
            title(one.problem),
            f"{one.problem.n_train:,}",
            str(one.problem.n_features),
            _number(density(one)),
            f"{distance:.2f}",
            str(_methods(one)),
        ]
        for distance, one in recommendation.nearest
    ]
    header = ["data set", "train rows", "features", "density", "distance", "methods"]
    size = f"{wanted.task}, {wanted.n:,} training rows of {wanted.d} features"
    if wanted.density is not None:
        size += f", density {_number(wanted.density)}"
    near = Sheet(f"Nearest to {wanted.dataset or 'it'}: {size}", 1, header, rows)
    table = [
        [
            one.method,
            str(len(one.lines)),
            f"{one.ratio:.2f}",
            _number(one.score) if one.measured else f"{_number(one.low)} to {_number(one.high)}",
            _number(one.cost(_FIT.column)),
            _number(one.cost(_PREDICT.column)),
        ]
        for one in recommendation.evidence
    ]
    score = recommendation.nearest[0][1].score.title
    columns = [
        "method",
        "data sets",
        "error / best",
        f"expected {score}",
        _FIT.title,
        _PREDICT.title,
    ]
    notes = [f"{what}: {method}" for what, method in recommendation.choices.items()]
    notes.append(f"Why: {recommendation.reason}.")
    notes.append(f"Run: {recommendation.command}")
    notes.append(
        "An expected score is an interval of 80 %, or the score measured on this data set itself. "
        "Times are geometric means over a method's data sets."
    )
    return [
        near,
        Sheet("Methods by paired comparisons on these data sets", 1, columns, table, notes),
    ]


def density(comparison: Comparison) -> float | None:
    """Fraction of training entries that are non-zero; None where no row has it."""
    rows = (row for line in comparison.lines for row in line.rows)
    return next((row["density"] for row in rows if row["density"] is not None), None)


def log_error(comparison: Comparison, score: float) -> float:
    """log of 1 - score, or of the score itself where less is better.

    No error is taken to be below half an error among the test rows.
    """
    if comparison.score.sign < 0:
        return math.log(max(score, 1e-12))
    return math.log(max(1.0 - score, 0.5 / (comparison.problem.n_test or 1000)))


def _score_of(comparison: Comparison, logarithm: float) -> float:
    error = math.exp(logarithm)
    return error if comparison.score.sign < 0 else 1.0 - min(error, 1.0)


def _evidence(
    wanted: Wanted, nearest: Sequence[tuple[float, Comparison]], known: set[str]
) -> list[Evidence]:
    """Evidence of the `known` methods, those that have rows of the task."""
    best = [{m: line for m, line in best_lines(one).items() if m in known} for _, one in nearest]
    methods = sorted(set().union(*best))
    if not methods:
        return []
    number = {method: j for j, method in enumerate(methods)}
    cells = [
        (p, number[method], log_error(one, _score(one, line)), math.exp(-far))
        for p, ((far, one), lines) in enumerate(zip(nearest, best, strict=True))
        for method, line in lines.items()
    ]
    p, m, errors, weights = (np.array(column) for column in zip(*cells, strict=True))
    levels, effects, spread = _additive(p, m, errors, weights, len(nearest), len(methods))
    of_problem = np.exp([-far for far, _ in nearest])
    first = nearest[0][1]
    own = best[0] if first.problem.dataset == wanted.dataset else {}
    # A new data set's level is that of its neighbours, which differ.
    level = levels[0] if own else float(np.average(levels, weights=of_problem))
    doubt = 0.0 if own else float(np.average((levels - level) ** 2, weights=of_problem))
    candidates = []
    doubts = dict.fromkeys(methods, 0.0)
    for j, method in enumerate(methods):
        lines = {i: lines[method] for i, lines in enumerate(best) if method in lines}
        if method in own:
            measured = _score(first, own[method])
            log, low, high = log_error(first, measured), measured, measured
        else:
            rows = float(weights[m == j].sum())
            log = level + effects[j]
            doubts[method] = CAUTION * math.sqrt(spread / (rows + PRIOR))
            sd = math.sqrt(doubt + spread * (1.0 + 1.0 / (rows + PRIOR)))
            ends = _score_of(first, log - _Z * sd), _score_of(first, log + _Z * sd)
            low, high = min(ends), max(ends)
        candidates.append((log, method, lines, low, high))
    # Measured methods first, because the others are guesses.
    candidates.sort(key=lambda one: (one[1] not in own, one[0] + doubts[one[1]], one[1]))
    least = min(one[0] for one in candidates if one[1] in own or not own)
    return [
        Evidence(
            method, lines, math.exp(log - least), _score_of(first, log), low, high, method in own
        )
        for log, method, lines, low, high in candidates
    ]


def _additive(
    p: np.ndarray,
    m: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    n_problems: int,
    n_methods: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """Levels u, effects v with values ~ u[p] + v[m], and the variance of what is left.

    Minimises sum_i w_i (values_i - u_p - v_m)^2 + PRIOR sum_m v_m^2.
    """
    design = np.zeros((len(values), n_problems + n_methods))
    design[np.arange(len(values)), p] = 1.0
    design[np.arange(len(values)), n_problems + m] = 1.0
    normal = design.T @ (weights[:, None] * design)
    shrunk = n_problems + np.arange(n_methods)
    normal[shrunk, shrunk] += PRIOR
    solution = np.linalg.solve(normal, design.T @ (weights * values))
    left = values - design @ solution
    return solution[:n_problems], solution[n_problems:], float(np.average(left**2, weights=weights))


def _reason(
    wanted: Wanted, nearest: Sequence[tuple[float, Comparison]], evidence: Sequence[Evidence]
) -> str:
    first = evidence[0]
    if first.measured:
        count = sum(one.measured for one in evidence)
        return f"{first.method} has the best score of {count} methods with rows on {wanted.dataset}"
    wins = pairs = 0
    for other in evidence[1:]:
        for i in first.lines.keys() & other.lines.keys():
            one = nearest[i][1]
            ours, theirs = (log_error(one, _score(one, e.lines[i])) for e in (first, other))
            wins, pairs = wins + (ours <= theirs), pairs + 1
    return (
        f"{first.method} has rows on {len(first.lines)} of the {len(nearest)} nearest problems, "
        f"and is at least as good there in {wins} of {pairs} comparisons with another method"
    )


def _choices(evidence: Sequence[Evidence]) -> dict[str, str]:
    if not evidence:
        return {}
    first = evidence[0]
    choices = {"Best score": first.method}
    close = [
        one
        for one in evidence
        if one.measured == first.measured
        and abs(one.score - first.score) <= CLOSE * abs(first.score)
    ]
    share = f"within {100 * CLOSE:g} % of the best"
    for what, column in (("train", _FIT.column), ("predict with", _PREDICT.column)):
        costs = {one.method: cost for one in close if (cost := one.cost(column)) is not None}
        if costs:
            choices[f"Fastest to {what}, {share}"] = min(costs, key=costs.__getitem__)
    return choices


def best_lines(comparison: Comparison) -> dict[str, Line]:
    """Method -> its best line that has a score; lines come best first."""
    best: dict[str, Line] = {}
    for line in comparison.lines:
        if line.mean_sd(comparison.score.column) is not None:
            best.setdefault(line.method, line)
    return best


def _methods(comparison: Comparison) -> int:
    return len(best_lines(comparison))


def _score(comparison: Comparison, line: Line) -> float:
    measured = line.mean_sd(comparison.score.column)
    assert measured is not None
    return measured[0]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.{decimals_for(value, 3)}f}"
