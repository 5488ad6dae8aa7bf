"""Scores against costs: the points of a comparison, and their Pareto front."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kbench.report.comparisons.tables import Comparison, Line


@dataclass(frozen=True)
class CostAxis:
    """The abscissa of a chart: a column of the rows, its title and unit."""

    column: str
    title: str
    unit: str

    def text(self, value: float) -> str:
        return f"{self.title} {value:.3g} {self.unit}"


FIT = CostAxis("fit_s", "fit time", "s")
PREDICTION = CostAxis("prediction_cost", "prediction", "× Xw")
COST_AXES = (FIT, PREDICTION)


@dataclass(frozen=True)
class FrontPoint:
    """A line's mean cost and score."""

    line: Line
    cost: float
    score: float
    sd: float  # Half the length of the score's error bar (`Line.deviation`)


def points(comparison: Comparison, cost: CostAxis = FIT) -> list[FrontPoint]:
    """A point for each line with a cost above zero and a finite score."""
    result = []
    for line in comparison.lines:
        cost_mean, score = line.mean_sd(cost.column), line.mean_sd(comparison.score.column)
        if cost_mean and score and cost_mean[0] > 0.0 and math.isfinite(score[0]):
            bar = line.deviation(comparison.score.column) or 0.0
            result.append(FrontPoint(line, cost_mean[0], score[0], bar))
    return result


def pareto(candidates: Sequence[FrontPoint], sign: int) -> list[FrontPoint]:
    """The points of the Pareto front (`pareto_indices`), the cheapest first."""
    pairs = [(point.cost, point.score) for point in candidates]
    return [candidates[i] for i in pareto_indices(pairs, sign)]


def pareto_indices(pairs: Sequence[tuple[float, float]], sign: int) -> list[int]:
    """Indices of the pairs of cost and score on the Pareto front, the cheapest first.

    No other pair is as good in both and better in one; of equal pairs the first is taken. More is
    better if the score's `sign` is 1, less if it is -1.
    """
    front: list[int] = []
    for i in sorted(range(len(pairs)), key=lambda i: (pairs[i][0], -sign * pairs[i][1])):
        if not front or sign * pairs[i][1] > sign * pairs[front[-1]][1]:
            front.append(i)
    return front
