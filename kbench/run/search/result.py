"""The result of a search for parameters, and its entries in a tuned file."""

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
    """The result of a search."""

    method: str  # Name in the command
    dataset: str  # Name in the command
    tuned_set: str | None  # Name of the set of tuned files in the experiment's plan
    metric: MetricSpec | AddedScore
    about: dict[str, Any]  # Entries of the tuned file about the data set and the method
    dropped: list[str]  # Parts of the command that had no effect, with the reason
    # Parameters that the search chooses or the command line sets.
    varied: list[str] = field(default_factory=list)
    ranked: list[Candidate] = field(default_factory=list)  # Candidates with a score, best first
    # (run, status, message) of trials that are not ok.
    failed: list[tuple[Run, str, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # Status -> number of trials
    # (number of training rows, number of candidates) of rungs that were started.
    rungs: list[tuple[int, int]] = field(default_factory=list)
    cpu_s: float = 0.0  # CPU seconds of all fits and predictions
    last_started_at: datetime | None = None  # start of the last trial
    budget_spent: bool = False  # Whether the budget ended the search
    stopped_by: int | None = None  # The signal that ended the search
    tuner: str | None = None  # The self-tuning method that chose the parameters
    sampler: str | None = None  # Sampler of a search over intervals: tpe or random
    # The settings of a tuner's trial, which has one validation split; None: those of the command.
    tuner_search: Search | None = None

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if a trial failed, 128 + a signal that ended the search, else 0."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return 1 if self.failed else 0

    @property
    def params(self) -> dict[str, Any]:
        """The varied parameters of the best candidate."""
        return {name: self.ranked[0].params[name] for name in self.varied}

    def summary(self, search: Search) -> dict[str, Any]:
        """Entries of the tuned file about the search, which depend only on the trials."""
        best = self.ranked[0]
        search = self.tuner_search or search
        chosen_by = {"tuner": self.tuner, "sampler": self.sampler}
        validation_key = "validation" if search.validation else "folds"
        return {
            **{name: value for name, value in chosen_by.items() if value},
            "metric": self.metric.name,
            "mean": best.mean,
            "sd": best.sd,
            validation_key: getattr(search, validation_key),
            "rows": best.rows,
            "rungs": [{"rows": rows, "candidates": n} for rows, n in self.rungs],
            "trials": self.counts.total(),
            "failed": self.counts.total() - self.counts["ok"],
            "budget": search.budget,
            "cpu_s": round(self.cpu_s, 2),
            "complete": not self.budget_spent,
            **self.about,
            "date": self.last_started_at.isoformat(timespec="seconds")
            if self.last_started_at
            else None,
        }
