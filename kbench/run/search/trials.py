"""Trials of a search, which are runs with rows in the folder `_tune` of the results folder."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kbench.config import Composer
from kbench.run.execution.preparing import obtain_in
from kbench.run.execution.runner import Runner, environment_of, finished_here
from kbench.run.execution.sandbox import Sandbox
from kbench.run.planning.command import canonical
from kbench.run.planning.plan import Plan, make_plan
from kbench.run.planning.task import Run
from kbench.run.results.folder import TRIALS
from kbench.run.search.halving import Candidate, Search
from kbench.run.search.result import SearchResult


class Trials:
    """Runs the trials of a search, and writes scores and counts into its result.

    plan : The runs of the candidates on all training rows.
    began : `time.monotonic()` at the start of the search.
    """

    def __init__(
        self,
        composer: Composer,
        sandbox: Sandbox,
        plan: Plan,
        search: Search,
        result: SearchResult,
        began: float,
    ) -> None:
        self._composer, self._sandbox, self._began = composer, sandbox, began
        self.plan, self.search, self.result = plan, search, result
        self.seed = plan.runs[0].seed

    @property
    def is_expired(self) -> bool:
        """Whether the time of the search is over."""
        seconds = self.search.seconds
        return seconds is not None and time.monotonic() - self._began >= seconds

    def plan_of(self, words: Sequence[str], rows: int | None) -> Plan:
        """The trials of the runs of `words`, on `rows` training rows or, if None, on all rows."""
        trials = make_plan(
            self._composer,
            [*words, *self.search.holdout_overrides(self.seed, rows)],
            multirun=True,
            obtain=obtain_in(self._sandbox),
        )
        trials_folder = str(Path(self.plan.settings.results_dir) / TRIALS)
        trials.settings = replace(self.plan.settings, results_dir=trials_folder)
        return trials

    def run_rung(self, trials: Plan, candidates: list[Candidate], rung: int, rows: int) -> None:
        """Run the trials of a rung, and store the scores of candidates that finished every fold."""
        search, result = self.search, self.result
        fold_runs: defaultdict[str, list[Run]] = defaultdict(list)  # params -> runs, one per fold
        for run in trials.runs:
            fold_runs[canonical(run.params)].append(run)
        trials.runs = [run for c in candidates for run in fold_runs[canonical(c.params)]]
        if search.runs is not None:
            n_left = max(0, search.runs - result.counts.total())
            result.budget_spent = len(trials.runs) > n_left
            del trials.runs[n_left:]
        runner = Runner(trials, self._sandbox)

        def is_unwanted(run: Run) -> bool:
            """Whether the run's candidate failed on another fold, or the time is over."""
            if any(other.params == run.params for other, _, _ in runner.summary.failed):
                return True
            is_expired = self.is_expired
            result.budget_spent |= is_expired
            return is_expired

        # The runs of a regularisation path share a worker, so `is_unwanted` could not skip the
        # later runs. With a limit of seconds each run therefore has its own worker.
        paths = search.seconds is None
        summary = runner.execute(finished_here(trials), skip=is_unwanted, paths=paths)
        result.stopped_by = summary.stopped_by
        result.failed += summary.failed
        scores = self._scores(runner)
        for candidate in candidates:
            fold_scores = [scores.get(run.key) for run in fold_runs[canonical(candidate.params)]]
            finished = [score for score in fold_scores if score is not None]
            if len(finished) == len(fold_scores):
                candidate.rung, candidate.rows, candidate.scores = rung, rows, finished

    def _scores(self, runner: Runner) -> dict[str, float]:
        """key -> score of the trials of a rung with status ok; adds all trials to the counts."""
        result = self.result
        frame = runner.folder.read(reference=False)
        keys = {run.key for run in runner.plan.runs}
        threads = runner.plan.settings.limits.threads
        frame = frame[frame["key"].isin(keys) & (frame["threads"] == threads)]
        environment = environment_of(runner.plan)
        if environment is not None:
            frame = frame[frame["environment"] == environment]
        frame = frame.sort_values("started_at").drop_duplicates("key", keep="last")
        result.counts.update(frame["status"])
        result.cpu_s += float(frame[["fit_cpu_s", "predict_cpu_s"]].sum().sum())
        if len(frame):
            last_start = frame["started_at"].max().to_pydatetime()
            result.last_started_at = max(last_start, result.last_started_at or last_start)
        ok_rows = frame[frame["status"] == "ok"]
        name = result.metric.name
        if name not in ok_rows:
            ok_rows = ok_rows.copy()
            ok_rows[name] = [(scores or {}).get(name) for scores in ok_rows["scores"]]
        reasons = dict(zip(ok_rows["key"], ok_rows["message"], strict=True))
        ok_rows = ok_rows[ok_rows[name].notna()]
        scores = dict(zip(ok_rows["key"], ok_rows[name].astype(float), strict=True))
        result.failed += [
            (run, "no score", reasons[run.key] or f"no {name}")
            for run in runner.plan.runs
            if run.key in reasons and run.key not in scores
        ]
        return scores
