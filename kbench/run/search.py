"""How parameters are chosen: divisions of the training rows, rungs, budget, and who is ahead."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbench.run.metrics import MetricSpec


@dataclass(frozen=True)
class Search:
    """What a search may do.

    Attributes
    ----------
    folds : int
        Of cross-validation.
    validation : float or None
        One division in place of the folds: the share of training rows that validate.
    halving : bool
        Whether rungs of fewer training rows choose who goes on to more of them.
    factor : int
        Between two rungs: so many times the rows, and one in so many candidates.
    min_rows : int
        Fewest training rows of a rung.
    rows : int or None
        Most training rows of a trial; None is all that the division leaves.
    runs : int or None
        Trials in all, those done before included.
    seconds : float or None
        Since the search began; no trial begins later.
    metric : str or None
        Column of the rows; None is the first metric of the task.
    """

    folds: int = 5
    validation: float | None = None
    halving: bool = False
    factor: int = 3
    min_rows: int = 200
    rows: int | None = None
    runs: int | None = None
    seconds: float | None = None
    metric: str | None = None

    @property
    def budget(self) -> str | None:
        """'100 runs', '60 s', or both; None where there is none."""
        parts = [f"{self.runs} runs"] if self.runs is not None else []
        parts += [f"{self.seconds:g} s"] if self.seconds is not None else []
        return " and ".join(parts) or None

    @property
    def division(self) -> str:
        """'5 folds' or '20 % held out'."""
        if self.validation is None:
            return f"{self.folds} folds"
        return f"{100 * self.validation:g} % held out"

    @property
    def first_holdout(self) -> dict[str, Any]:
        """The division, as `dataset.holdout`, that leaves the fewest rows to train on."""
        if self.validation is None:
            return {"folds": self.folds, "fold": 1}
        return {"fraction": self.validation}

    def rungs(self, n_rows: int, n_candidates: int) -> list[int]:
        """Training rows of each rung, the last of which has all `n_rows`, or `rows` of them."""
        n_rows = min(n_rows, self.rows or n_rows)
        levels = 1
        while self.halving and min(n_candidates, n_rows / self.min_rows) >= self.factor**levels:
            levels += 1
        return [round(n_rows / self.factor**i) for i in reversed(range(levels))]

    def survivors(self, n: int) -> int:
        """Of n candidates of a rung."""
        return math.ceil(n / self.factor)

    def holdouts(self, seed: int, rows: int | None) -> list[str]:
        """Overrides, a sweep over the folds among them, that make runs the trials of a rung."""
        words = [f"seed={seed}"] if seed else []
        words += [f"rows={rows}"] if rows else []
        if self.validation is None:
            words += [f"folds={self.folds}", f"fold={','.join(map(str, range(1, self.folds + 1)))}"]
        else:
            words.append(f"fraction={self.validation}")
        return [f"++dataset.holdout.{word}" for word in words]


@dataclass
class Candidate:
    """One setting of the parameters.

    place : in the grid, from 0. rung, rows, scores : the last rung that it finished, its training
    rows, and the score on each fold.
    """

    place: int
    params: Mapping[str, Any]
    rung: int = -1
    rows: int = 0
    scores: list[float] = field(default_factory=list)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.scores)

    @property
    def sd(self) -> float | None:
        """The sample's (n - 1) over the folds; None where there is one division."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


def ranked(candidates: Iterable[Candidate], metric: MetricSpec) -> list[Candidate]:
    """Those with a score, best first: later rung, better mean, earlier in the grid."""
    sign = -1.0 if metric.direction == "max" else 1.0
    return sorted(
        (c for c in candidates if c.scores), key=lambda c: (-c.rung, sign * c.mean, c.place)
    )
