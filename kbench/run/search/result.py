"""The result of a search for parameters, and what a tuned file says of it."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kbench.run.planning.task import Run
from kbench.run.results.added_scores import AddedScore
from kbench.run.results.metrics import MetricSpec
from kbench.run.search.halving import Candidate, Search


@dataclass
class SearchResult:
    """The result of a search.

    Attributes
    ----------
    method, dataset : str
        Names in the command.
    of : str or None
        Name of the set of tuned files in the experiment's plan.
    metric : MetricSpec or AddedScore
    about : dict
        Entries of the tuned file about the data set and the method.
    dropped : list of str
        Parts of the command that had no effect, with the reason.
    varied : list of str
        Parameters that the search chooses or the command line sets.
    ranked : list of Candidate
        Candidates with a score, best first.
    failed : list of (Run, status, message)
        Trials that are not ok.
    counts : Counter
        Status -> trials.
    rungs : list of (training rows, candidates)
        Rungs that were started.
    cpu_s : float
        CPU seconds of all fits and predictions.
    newest : datetime or None
        Start of the last trial.
    budget_spent : bool
        Whether the budget ended the search.
    stopped_by : int or None
        The signal that ended the search.
    tuner : str or None
        The method that chose the parameters by itself.
    sampler : str or None
        What proposed the settings of a search over intervals: tpe or random.
    split : Search or None
        Its validation split, where the search would have had folds.
    """

    method: str
    dataset: str
    of: str | None
    metric: MetricSpec | AddedScore
    about: dict[str, Any]
    dropped: list[str]
    varied: list[str] = field(default_factory=list)
    ranked: list[Candidate] = field(default_factory=list)
    failed: list[tuple[Run, str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    rungs: list[tuple[int, int]] = field(default_factory=list)
    cpu_s: float = 0.0
    newest: datetime | None = None
    budget_spent: bool = False
    stopped_by: int | None = None
    tuner: str | None = None
    sampler: str | None = None
    split: Search | None = None

    @property
    def exit_code(self) -> int:
        """As of a runner: 1 if a trial failed."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return 1 if self.failed else 0

    @property
    def params(self) -> dict[str, Any]:
        """The varied parameters of the best candidate."""
        return {name: self.ranked[0].params[name] for name in self.varied}

    def summary(self, search: Search) -> dict[str, Any]:
        """Entries of the tuned file about the search; they depend only on the trials."""
        best = self.ranked[0]
        search = self.split or search
        validated = {"folds": search.folds, "validation": search.validation}
        del validated["folds" if search.validation else "validation"]
        return {
            **({"tuner": self.tuner} if self.tuner else {}),
            **({"sampler": self.sampler} if self.sampler else {}),
            "metric": self.metric.name,
            "mean": best.mean,
            "sd": best.sd,
            **validated,
            "rows": best.rows,
            "rungs": [{"rows": rows, "candidates": n} for rows, n in self.rungs],
            "trials": self.counts.total(),
            "failed": self.counts.total() - self.counts["ok"],
            "budget": search.budget,
            "cpu_s": round(self.cpu_s, 2),
            "complete": not self.budget_spent,
            **self.about,
            "date": self.newest.isoformat(timespec="seconds") if self.newest else None,
        }
