"""Trials of a search: runs in the folder `_tune` of the results, and the scores of their rows."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kbench.run.execution.runner import Runner, environment_of, finished_here
from kbench.run.execution.sandbox import Sandbox
from kbench.run.planning.command import canonical
from kbench.run.planning.plan import Plan
from kbench.run.planning.task import Run
from kbench.run.results.folder import TRIALS
from kbench.run.search.halving import Candidate, Search
from kbench.run.search.result import SearchResult
from kbench.settings import Settings


def climb(
    trials: Plan,
    sandbox: Sandbox,
    candidates: list[Candidate],
    step: tuple[int, int],
    search: Search,
    result: SearchResult,
    expired: Callable[[], bool],
) -> None:
    """Do the trials of one rung, and store the scores of candidates that finished every fold."""
    folds: defaultdict[str, list[Run]] = defaultdict(list)
    for run in trials.runs:
        folds[canonical(run.params)].append(run)
    trials.runs = [run for c in candidates for run in folds[canonical(c.params)]]
    if search.runs is not None:
        left = max(0, search.runs - result.counts.total())
        result.budget_spent = len(trials.runs) > left
        del trials.runs[left:]
    runner = Runner(trials, sandbox)

    def unwanted(run: Run) -> bool:
        """Whether the run is not needed: its candidate failed on another fold, or time is up."""
        if any(other.params == run.params for other, _, _ in runner.summary.failed):
            return True
        late = expired()
        result.budget_spent |= late
        return late

    # The runs of a path are started together, and would continue after the time is up.
    paths = search.seconds is None
    summary = runner.execute(finished_here(trials), skip=unwanted, paths=paths)
    result.stopped_by = summary.stopped_by
    result.failed += summary.failed
    scores = scores_of(runner, result)
    for candidate in candidates:
        own = [scores.get(run.key) for run in folds[canonical(candidate.params)]]
        known = [score for score in own if score is not None]
        if len(known) == len(own):
            candidate.rung, candidate.rows = step
            candidate.scores = known


def scores_of(runner: Runner, result: SearchResult) -> dict[str, float]:
    """key -> score of the trials of a rung that are ok; adds all trials to `result.counts`."""
    frame = runner.folder.read(reference=False)
    keys = {run.key for run in runner.plan.runs}
    threads = runner.plan.runs[0].threads if runner.plan.runs else 1
    frame = frame[frame["key"].isin(keys) & (frame["threads"] == threads)]
    environment = environment_of(runner.plan)
    if environment is not None:
        frame = frame[frame["environment"] == environment]
    frame = frame.sort_values("started_at").drop_duplicates("key", keep="last")
    result.counts.update(frame["status"])
    result.cpu_s += float(frame[["fit_cpu_s", "predict_cpu_s"]].sum().sum())
    if len(frame):
        newest = frame["started_at"].max().to_pydatetime()
        result.newest = max(newest, result.newest or newest)
    ok = frame[frame["status"] == "ok"]
    name = result.metric.name
    if name not in ok:
        ok = ok.copy()
        ok[name] = [(scores or {}).get(name) for scores in ok["scores"]]
    reasons = dict(zip(ok["key"], ok["message"], strict=True))
    ok = ok[ok[name].notna()]
    scores = dict(zip(ok["key"], ok[name].astype(float), strict=True))
    result.failed += [
        (run, "no score", reasons[run.key] or f"no {name}")
        for run in runner.plan.runs
        if run.key in reasons and run.key not in scores
    ]
    return scores


def of_trials(plan: Plan) -> Settings:
    """The settings of a plan with the folder in which trials have their rows."""
    home = str(Path(plan.settings.results_dir) / TRIALS)
    return replace(plan.settings, results_dir=home)
