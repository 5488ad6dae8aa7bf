"""Choose a method's parameters on the training rows by cross-validation and successive halving.

    for each rung m_1 < m_2 < ... < all rows:            (without halving there is one rung)
        a trial for each candidate and fold: fit m rows of the other folds, score on the fold
        keep the best 1/factor of the candidates by their mean score

The resource of successive halving (Jamieson and Talwalkar, AISTATS 2016) is training rows.
If two means are equal, the candidate that is earlier in the grid is better.

A search covers one method and one data set. An experiment makes one search for each of its pairs,
and its `plan.tune` is the budget of each search.

If the command gives intervals (`intervals.py`), there is no list of candidates: settings are
proposed one after the other until the budget is spent.

If the command gives only one setting and the method has a tuner (`meta.tuner` of its file), this
self-tuning method chooses the parameters in one trial. Its score on the held-out rows is the score
of the search.

A trial is a run on the data set with `dataset.holdout` set. It has a key, limits and a row like any
other run, in `_tune` of the results folder, and is not repeated. It never opens the test rows.
Trials that differ only along the method's regularisation path (`meta.path`, usually C) are fitted
in one worker, unless `tune.seconds` is set. Each fit starts from the previous solution, so its time
is shorter than a single fit.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from kbench import __version__
from kbench.config import Composer, options, read_yaml
from kbench.errors import ConfigError
from kbench.mistyped import nearest
from kbench.run.execution.preload import worker_sandbox
from kbench.run.execution.preparing import obtain_in
from kbench.run.execution.rehearsal import check_methods
from kbench.run.execution.sandbox import Sandbox
from kbench.run.planning.command import canonical
from kbench.run.planning.plan import Plan, make_plan
from kbench.run.planning.request import Pair, pairs, read_request, recipe_of
from kbench.run.planning.source import source_sha256
from kbench.run.planning.task import Run
from kbench.run.planning.tuned_files import NO_TUNED_FILE, tuned_set_of
from kbench.run.results.added_scores import QUANTILE_SCORES, SCORE_COLUMNS, AddedScore, added_score
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.metrics import METRICS, RANKINGS, MetricSpec
from kbench.run.search.halving import Candidate, Search, ranked
from kbench.run.search.intervals import Space, proposals
from kbench.run.search.result import SearchResult
from kbench.run.search.trials import Trials

# Fraction of the training rows on which a self-tuning method is scored. More rows give a more
# accurate score, and leave fewer rows to fit. Set by hand.
_HELD_OUT_FRACTION = 0.2

# Guard: a search ends after this many rounds of proposals in succession without a new setting.
_MAX_REPEATED_ROUNDS = 100

# Overrides of a tuner: it may choose no scaler, metric or kernel that the tuned method lacks.
_TUNER_OVERRIDES = ("method.scaler=null", "method.metric=null", "method.kernel=rbf")


@dataclass
class Searches:
    """The searches of a command."""

    pair_overrides: list[list[str]]  # The overrides of each search
    sandbox: Sandbox  # Starts the workers of all trials
    tuned_set: str | None = None  # The name of the experiment's set of tuned files
    budget: Mapping[str, Any] = field(default_factory=dict)  # `plan.tune` of the experiment
    absent: dict[str, str] = field(default_factory=dict)  # Data set -> message


def searches(composer: Composer, overrides: Sequence[str]) -> Searches:
    """Divide a command into searches, one for each method and data set.

    Raises ConfigError: a name, key or value is wrong; or an experiment states no budget, or has two
    variants of a data set for one method.
    Raises DataError: a data set is malformed.
    """
    space = Space.of(composer, overrides)
    typed_overrides = overrides
    if space is not None:
        overrides = space.overrides(space.ends)
    experiment = _experiment(composer, overrides)
    if experiment is None:
        _searched_pair(composer, overrides)
    recipe = recipe_of(composer, experiment)
    budget = recipe.get("tune")
    if experiment is not None and not (budget and isinstance(budget, Mapping)):
        raise ConfigError(
            f"experiment {experiment} cannot be tuned: its plan states no budget, such as "
            "`tune: {runs: 20}`; name a method and a data set"
        )
    words = _without_tuned(overrides)
    plan = make_plan(composer, words, multirun=True)
    sandbox = worker_sandbox(overrides)
    check_methods(sandbox, plan)
    if experiment is None:
        return Searches([list(typed_overrides)], sandbox)
    plan = make_plan(composer, words, multirun=True, obtain=obtain_in(sandbox))
    variants: dict[tuple[str, str], str | None] = {}
    for run in plan.runs:
        if variants.setdefault((run.method, run.dataset), run.variant) != run.variant:
            raise ConfigError(
                f"{run.method} has two variants of {run.dataset} in experiment {experiment}; a "
                "search takes one"
            )
    others = [w for w in overrides if w.partition("=")[0] not in ("method", "dataset")]
    commands = [[*others, f"method={method}", f"dataset={dataset}"] for method, dataset in variants]
    return Searches(commands, sandbox, tuned_set_of(recipe), recipe["tune"], plan.absent)


def tune(
    composer: Composer,
    overrides: Sequence[str],
    search: Search,
    sandbox: Sandbox,
    show_line: Callable[[str], None],
    tuned_set: str | None = None,
) -> SearchResult:
    """Do the missing trials of one of the `searches`, and rank the candidates.

    show_line : Called with a line for the user at the start of each rung.
    tuned_set : Name of the set of tuned files to which the result belongs.

    Raises ConfigError: a name, key or value is wrong, or there is only one candidate and the method
    has no tuner.
    Raises DataError: the data set is absent or malformed.
    """
    began = time.monotonic()
    space = Space.of(composer, overrides)
    if space is not None:
        overrides = space.overrides(space.ends)
        search.require_budget()
    pair = _searched_pair(composer, overrides)
    words = _without_tuned(overrides)
    plan = make_plan(composer, words, multirun=True, obtain=obtain_in(sandbox))
    if not plan.runs:
        raise ConfigError("; ".join([*plan.absent.values(), *plan.dropped]))
    first_run = plan.runs[0]
    metric = _metric(first_run.task, search.metric)
    if (first_run.dataset_config.get("target") or {}).get("train") == "normal":
        raise ConfigError(
            "dataset.target.train is normal, so that no outlier is among the rows that are held "
            "out to choose by; dataset.target.train=all keeps the outliers"
        )
    if isinstance(metric, AddedScore):
        plan.settings = replace(plan.settings, metrics=[*plan.settings.metrics, metric.name])
        check_methods(sandbox, plan)
    tuner = tuner_of(first_run) if len(plan.runs) == 1 else None
    if tuner is not None:
        tuned_set = None
        method_words = [word for word in words if word.lstrip("+").startswith("method.")]
        if ignored := [*method_words, *search.search_words]:
            raise ConfigError(
                f"{ignored[0]}: {tuner} would choose the parameters without it, in one trial on "
                "one split; with it, name grid=NAME or several values, as in method.C=1,10,100"
            )
        search = replace(search, validation=search.validation or _HELD_OUT_FRACTION)
    result = SearchResult(
        first_run.method,
        first_run.dataset,
        tuned_set,
        metric,
        _search_facts(first_run, tuned_set),
        plan.dropped,
        tuner=tuner,
    )
    trials = Trials(composer, sandbox, plan, search, result, began)
    if tuner is not None:
        return _run_tuner(trials, words, tuner, show_line)
    if len(plan.runs) == 1:
        raise ConfigError(
            f"nothing to choose from: {first_run.method} has one setting here; add grid=NAME or "
            "several values, as in method.C=1,10,100"
        )
    dataset_words = [
        *pair.overrides,
        *(w for w in overrides if w.lstrip("+").startswith("dataset.")),
    ]
    # The config without the command's settings of the method.
    default = composer.compose(
        [f"method={pair.method}", f"dataset={pair.dataset}", *dataset_words, NO_TUNED_FILE]
    )
    candidates = [Candidate(index, run.params) for index, run in enumerate(plan.runs)]
    if (
        metric in QUANTILE_SCORES
        and len({canonical(c.params.get("quantile")) for c in candidates}) > 1
    ):
        raise ConfigError(
            f"tune.metric is {metric.name!r} and method.quantile has several values, should have "
            "one: losses of different quantiles are not comparable"
        )
    result.varied = _varied_params(pair.method, candidates, default["method"])
    rows = _train_rows(plan, search)
    if space is not None:
        return _search_intervals(trials, space, rows, show_line)
    rungs = search.rungs(rows, len(candidates))
    survivors = candidates
    if search.budget:  # random order, so that a spent budget does not leave out the grid's end
        order = np.random.RandomState(first_run.seed).permutation(len(candidates))
        survivors = [candidates[i] for i in order]
    for rung, rows in enumerate(rungs):
        prefix = f"rung {rung + 1} of {len(rungs)}: " if len(rungs) > 1 else ""
        show_line(
            f"{prefix}{len(survivors)} candidates, {search.validation_text}, {rows} training rows"
        )
        result.rungs.append((rows, len(survivors)))
        # Sizes of folds differ by one row, which a limit would leave out of the larger training
        # sets, so the last rung has no limit.
        is_limited = rung + 1 < len(rungs) or rows == search.rows
        trials.run_rung(trials.plan_of(words, rows if is_limited else None), survivors, rung, rows)
        result.ranked = ranked(candidates, result.metric)
        in_rung = [c for c in result.ranked if c.rung == rung]
        survivors = in_rung[: search.n_survivors(len(survivors))]
        if result.budget_spent or result.stopped_by is not None or not survivors:
            break
    return result


def _search_intervals(
    trials: Trials, space: Space, rows: int, show_line: Callable[[str], None]
) -> SearchResult:
    """Score settings that a sampler proposes.

    A setting has one trial for each fold. As many settings are proposed at a time as have all their
    trials in the jobs of `parallel`, but at least one.
    """
    search, result = trials.search, trials.result
    direction: Literal["max", "min"] = "max" if result.metric.direction == "max" else "min"
    sampler = proposals(space, trials.seed, direction)
    rows = min(rows, search.rows or rows)
    n_folds = 1 if search.validation else search.folds
    at_once = max(1, trials.plan.settings.parallel.at_once // n_folds)
    show_line(
        f"{sampler.description}: {space.description()}; "
        f"{search.validation_text}, {rows} training rows"
    )
    result.sampler = sampler.name
    candidate_of: dict[str, Candidate] = {}
    n_repeated = 0
    while n_repeated < _MAX_REPEATED_ROUNDS:
        n_left = sys.maxsize if search.runs is None else search.runs - result.counts.total()
        settings = [sampler.propose() for _ in range(min(at_once, n_left // n_folds))]
        result.budget_spent = not settings or trials.is_expired
        if result.budget_spent:
            break
        untried = {canonical(s): s for s in settings if canonical(s) not in candidate_of}
        n_repeated = 0 if untried else n_repeated + 1
        if untried:
            words = space.overrides([*untried.values()])
            plan = trials.plan_of(_without_tuned(words), search.rows)
            distinct = {canonical(run.params): run.params for run in plan.runs}
            for key, params in zip(untried, distinct.values(), strict=True):
                candidate_of[key] = Candidate(len(candidate_of), params)
            trials.run_rung(plan, [candidate_of[key] for key in untried], 0, rows)
            if result.budget_spent or result.stopped_by is not None:
                break
        for setting in settings:
            candidate = candidate_of[canonical(setting)]
            sampler.tell(setting, candidate.mean if candidate.scores else None)
    result.rungs.append((rows, len(candidate_of)))
    result.ranked = ranked(candidate_of.values(), result.metric)
    return result


def tuner_of(run: Run) -> str | None:
    """The self-tuning method that chooses the parameters of the run's method; None without one.

    Tuners search for a width of the Gaussian kernel, so methods with another kernel have no tuner.
    """
    meta = read_yaml(options("method")[run.method]).get("meta") or {}
    tuners = meta.get("tuner") or {}
    return tuners.get(run.task) if run.params.get("kernel", "rbf") == "rbf" else None


def _run_tuner(
    trials: Trials, words: Sequence[str], tuner: str, show_line: Callable[[str], None]
) -> SearchResult:
    """Run the tuner on the training rows of one split, and take its parameters as the result.

    The tuner reports its choice as values `chosen_NAME` of the trace.
    """
    search, result = trials.search, trials.result
    result.tuner_search = search
    # The tuned file is for the method, which has no scaler, learned metric or other kernel.
    overrides = [f"method={tuner}", *_TUNER_OVERRIDES]
    other_words = [word for word in words if not word.lstrip("+").startswith("method")]
    plan = trials.plan_of([*overrides, *other_words], search.rows)
    rows = _train_rows(trials.plan, search)
    rows = min(rows, search.rows or rows)
    result.rungs.append((rows, 1))
    show_line(f"{tuner} chooses the parameters: {search.validation_text}, {rows} training rows")
    candidate = Candidate(0, plan.runs[0].params)
    trials.run_rung(plan, [candidate], 0, rows)
    if candidate.scores:
        candidate.params = _chosen_params(plan, trials.plan.runs[0].params)
        result.varied = list(candidate.params)
        result.ranked = [candidate]
    return result


def _chosen_params(plan: Plan, names: Mapping[str, Any]) -> dict[str, float]:
    """Last value of each curve `chosen_NAME` of the run whose NAME is in `names`."""
    curves = ResultsFolder(plan.settings.results_dir).read_curves(reference=False)
    curves = curves[curves["key"] == plan.runs[0].key]
    last = dict(zip(curves["curve"], curves["value"], strict=True))
    return {name: float(last[f"chosen_{name}"]) for name in names if f"chosen_{name}" in last}


def _without_tuned(overrides: Sequence[str]) -> list[str]:
    """The overrides, and `tuned=none` unless the overrides name a tuned file."""
    return [
        *overrides,
        *([] if any(w.startswith("tuned=") for w in overrides) else [NO_TUNED_FILE]),
    ]


def _experiment(composer: Composer, overrides: Sequence[str]) -> str | None:
    """The command's experiment, or None.

    Raises ConfigError: a key has several values and is neither the method's nor, in an experiment,
    `method` or `dataset`.
    """
    parsed = composer.parse(overrides)
    has_experiment = any(override.key_or_group == "experiment" for override in parsed)
    for text, override in zip(overrides, parsed, strict=True):
        key = override.key_or_group
        may_be_list = key.startswith("method.") or (has_experiment and key in ("method", "dataset"))
        if override.is_sweep_override() and not may_be_list:
            raise ConfigError(f"{text}: kbench tune takes several values of the method's keys only")
    return read_request(composer, overrides, multirun=True).experiments[0]


def _searched_pair(composer: Composer, overrides: Sequence[str]) -> Pair:
    """The method and the data set that a search names."""
    request = read_request(composer, overrides, multirun=True)
    experiment = request.experiments[0]
    found_pairs = list(pairs(request, experiment, recipe_of(composer, experiment)))
    if not found_pairs:
        raise ConfigError("nothing to tune: name a method, as in `kbench tune method=svc`")
    return found_pairs[0]


def _varied_params(
    method: str, candidates: Sequence[Candidate], defaults: Mapping[str, Any]
) -> list[str]:
    """Parameters whose values differ between candidates or from the method's config."""
    varied = []
    for name in candidates[0].params:
        if name not in defaults:
            raise ConfigError(
                f"method {method} has no parameter {name!r}{nearest(name, defaults)}; a tuned file "
                "holds only parameters of the method's config"
            )
        values = {canonical(c.params[name]) for c in candidates}
        if values != {canonical(defaults[name])}:
            varied.append(name)
    return varied


def _metric(task: str, name: str | None) -> MetricSpec | AddedScore:
    """The metric that ranks candidates; raises ConfigError if `name` cannot rank them."""
    if name is None:
        return METRICS[task][0]
    task_metrics = QUANTILE_SCORES if task == "regression" else RANKINGS
    with_direction = [metric for metric in (*METRICS[task], *task_metrics) if metric.direction]
    by_name: dict[str, MetricSpec | AddedScore] = {metric.name: metric for metric in with_direction}
    if name in by_name:
        return by_name[name]
    if name in SCORE_COLUMNS:
        raise ConfigError(
            f"tune.metric is {name!r}, should be one of {', '.join(by_name)} for {task}"
        )
    return added_score(name)


def _train_rows(plan: Plan, search: Search) -> int:
    """Training rows of the split that has the fewest; raises ConfigError if rows are too few."""
    from kbench.data import open_prepared
    from kbench.data.preparation.split import holdout_rows

    data = open_prepared(plan.prepared[plan.runs[0].data_key])
    classes, groups = data.n_classes is not None, data.groups_train
    return min(
        holdout_rows(data.y_train, holdout, classes=classes, groups=groups)[0].size
        for holdout in search.holdouts(plan.runs[0].seed)
    )


def _search_facts(run: Run, tuned_set: str | None) -> dict[str, Any]:
    """Facts with which later runs that use the tuned file are compared.

    Files of an experiment's set lack `source_sha256`, as they stay valid if the source changes.
    """
    facts = {name: getattr(run, name) for name in ("seed", "data_sha256", "variant")}
    source = {} if tuned_set else {"source_sha256": source_sha256(run.estimator)}
    return facts | source | {"kbench_version": __version__}
