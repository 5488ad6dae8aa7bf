"""Settings of a search: validation splits, rungs of successive halving, budget, ranking.

Source: Jamieson and Talwalkar (AISTATS 2016); the resource of halving is training rows.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbench.errors import ConfigError
from kbench.run.results.added_scores import AddedScore
from kbench.run.results.metrics import MetricSpec


@dataclass(frozen=True)
class Search:
    """Settings of a search; defaults without a source are set by hand."""

    folds: int = 5  # Number of folds of cross-validation, scikit-learn's default
    # Fraction of training rows in a single validation split, which replaces the folds.
    validation: float | None = None
    # Whether all candidates are compared on few training rows, and only the best ones on more.
    halving: bool = False
    # From rung to rung it multiplies the rows and divides the candidates; scikit-learn's default.
    factor: int = 3
    # Fewest training rows of a rung. Fewer rows rank candidates by chance, more rows take longer.
    min_rows: int = 200
    rows: int | None = None  # Maximum of training rows of a trial; None means no limit
    runs: int | None = None  # Total number of trials, including those of earlier commands
    # No trial starts later than this many seconds after the start of the search.
    seconds: float | None = None
    # Column that ranks the candidates; None means the first metric of the task.
    metric: str | None = None
    # Words tune.KEY=VALUE of the command that have no effect if there is only one setting.
    search_words: tuple[str, ...] = ()

    @property
    def budget(self) -> str | None:
        """The budget as a text: '100 runs', '60 s', or both; None without a limit."""
        parts = [f"{self.runs} runs"] if self.runs is not None else []
        parts += [f"{self.seconds:g} s"] if self.seconds is not None else []
        return " and ".join(parts) or None

    def require_budget(self) -> None:
        """Refuse a search over intervals without a budget or with halving."""
        if self.budget is None:
            raise ConfigError(
                "a search over intervals needs an end: add tune.runs=40 or tune.seconds=600"
            )
        if self.halving:
            raise ConfigError("tune.halving takes lists of values, not intervals; leave it out")

    @property
    def validation_text(self) -> str:
        """The validation as a text: '5 folds' or '20 % held out'."""
        if self.validation is None:
            return f"{self.folds} folds"
        return f"{100 * self.validation:g} % held out"

    def holdouts(self, seed: int) -> list[dict[str, Any]]:
        """Values of `dataset.holdout`, one for each split of the training rows."""
        if self.validation is None:
            folds = range(1, self.folds + 1)
            return [{"seed": seed, "folds": self.folds, "fold": fold} for fold in folds]
        return [{"seed": seed, "fraction": self.validation}]

    def rungs(self, n_rows: int, n_candidates: int) -> list[int]:
        """Number of training rows of each rung; the last rung has `n_rows`, at most `rows`."""
        n_rows = min(n_rows, self.rows or n_rows)
        n_rungs = 1
        while self.halving and min(n_candidates, n_rows / self.min_rows) >= self.factor**n_rungs:
            n_rungs += 1
        return [round(n_rows / self.factor**i) for i in reversed(range(n_rungs))]

    def n_survivors(self, n: int) -> int:
        """How many of n candidates go on to the next rung."""
        return math.ceil(n / self.factor)

    def holdout_overrides(self, seed: int, rows: int | None) -> list[str]:
        """Overrides that turn a plan into the trials of a rung, including the sweep over folds."""
        words = [f"seed={seed}"] if seed else []
        words += [f"rows={rows}"] if rows else []
        if self.validation is None:
            words += [f"folds={self.folds}", f"fold={','.join(map(str, range(1, self.folds + 1)))}"]
        else:
            words.append(f"fraction={self.validation}")
        return [f"++dataset.holdout.{word}" for word in words]


@dataclass
class Candidate:
    """One setting of the parameters, with its scores in the last rung that it finished."""

    index: int  # position in the grid, from 0
    params: Mapping[str, Any]
    rung: int = -1  # the last rung that the candidate finished
    rows: int = 0  # training rows of that rung
    scores: list[float] = field(default_factory=list)  # one score per fold

    @property
    def mean(self) -> float:
        """Mean score over the folds."""
        return statistics.fmean(self.scores)

    @property
    def sd(self) -> float | None:
        """Standard deviation over the folds (divisor n - 1); None for a single split."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else None


def ranked(candidates: Iterable[Candidate], metric: MetricSpec | AddedScore) -> list[Candidate]:
    """Candidates with a score, best first: by rung, then mean score, then position in the grid."""
    sign = -1.0 if metric.direction == "max" else 1.0
    return sorted(
        (c for c in candidates if c.scores), key=lambda c: (-c.rung, sign * c.mean, c.index)
    )
