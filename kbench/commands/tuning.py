"""kbench tune method=M dataset=D grid=G [tune.KEY=VALUE] ...: choose parameters for later runs.
kbench tune method=M dataset=D: for kernel machines, without a grid, in seconds
kbench tune experiment=E ...: for each method and data set of an experiment, with one budget.

Without a grid or values, a method that chooses kernel width and penalty itself (tuned_svc, or for
regression tuned_svr or tuned_ridge, without scaling of columns) runs once on the training rows that
are not held out, and its choice is written. Otherwise every setting of the grid (or of
method.C=1,10,100) is scored on held-out training rows. Test rows are never read. The best setting
is written to configs/tuned/M-D.yaml in the working directory, and `kbench method=M dataset=D` then
uses this setting. If two means are equal, the setting that is earlier in the grid wins. Trials are
rows in results/_tune; the same command continues a search that was stopped.

If parameters are intervals, as in 'method.C=interval(1e-3,1e3)' 'method.gamma=interval(1e-4,10)'
tune.runs=40, Optuna's TPE proposes settings one after the other; without Optuna (kbench[optuna])
settings are random. An interval of positive numbers that spans more than two decades has a log
scale; other parameters may have lists (method.kernel=rbf,poly).

An experiment that can be tuned has a budget (`plan.tune`, keys as below) and a name (`plan.tuned`).
Its files are configs/tuned/M-D-NAME.yaml, which all experiments with the same name use.

  tune.cv=5             folds of cross-validation, stratified, drawn by seed
  tune.validation=0.2   one split instead of folds: the fraction of training rows for validation
  tune.halving=true     successive halving: all settings on few rows, then the best on more
  tune.factor=3         halving: rows times 3, settings divided by 3 from rung to rung
  tune.min_rows=200     halving: fewest training rows of a rung
  tune.rows=N           budget: at most N training rows in a trial
  tune.runs=N           budget: at most N trials; settings are then tried in random order
  tune.seconds=S        budget: no trial starts later than S seconds after its search
  tune.metric=NAME      instead of accuracy, of RMSE (regression) or of ROC AUC (outliers); also any
                        name that `metrics=[...]` takes

All other keys are a run's: seed=, limits.wall_s=, parallel.jobs=, dataset.variant=, ...
"""

import functools
import math
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.commands.arguments import parse_boolean, parse_integer, parse_overrides, parse_words
from kbench.config import composer, hydra_value
from kbench.errors import ConfigError
from kbench.run.search.halving import Search

if TYPE_CHECKING:
    from kbench.run.search.result import SearchResult

_KEYS = ("cv", "validation", "halving", "factor", "min_rows", "rows", "runs", "seconds", "metric")
KEYS = tuple(f"tune.{key}" for key in _KEYS)
TAKES_RUN = True
# Keys that need a search among several settings.
_SEARCH_KEYS = ("cv", "halving", "factor", "min_rows")
_MAX_PRINTED = 5  # largest number of settings, and of failed trials, that are printed; set by hand


def main(argv: Sequence[str]) -> int:
    """Tune, print the best settings and write the files; exit codes are as for runs."""
    from kbench.run.search.parameter_search import searches, tune

    words, _, shows_config = parse_overrides(argv)
    if shows_config:
        raise ConfigError("kbench tune has no --cfg; `kbench method=... --cfg job` shows a config")
    tune_words = [word for word in words if word.startswith("tune.")]
    overrides = [word for word in words if not word.startswith("tune.")]
    if any(word.lstrip("+").startswith("on_error=") for word in overrides):
        raise ConfigError(
            "kbench tune takes no on_error=...: a trial that fails is a setting that loses"
        )
    command = shlex.join(["kbench", "tune", *argv])
    _parse_search(tune_words)  # raises before the planning if a word is wrong
    with composer() as hydra:
        requested = searches(hydra, overrides)
        typed_keys = {word.partition("=")[0].removeprefix("tune.") for word in tune_words}
        # Either of these two keys replaces the other in the experiment's budget.
        if typed_keys & {"cv", "validation"}:
            typed_keys |= {"cv", "validation"}
        budget = {key: value for key, value in requested.budget.items() if key not in typed_keys}
        search = _parse_search(
            [*(f"tune.{k}={hydra_value(v)}" for k, v in budget.items()), *tune_words]
        )
        for message in requested.absent.values():
            print(f"left out: {message}", file=sys.stderr)
        code = 1 if requested.absent else 0
        for pair_overrides in requested.pair_overrides:
            log = functools.partial(print, file=sys.stderr)
            result = tune(
                hydra, pair_overrides, search, requested.sandbox, log, requested.tuned_set
            )
            code = max(code, _report(result, search, command))
            if result.stopped_by is not None:
                break
    return code


def _report(result: "SearchResult", search: Search, command: str) -> int:
    """Print the best settings of a search, write its file, and return the exit code."""
    from kbench.run.planning.tuned_files import usage_text, write_tuned

    for reason in result.dropped:
        print(f"dropped: {reason}", file=sys.stderr)
    if result.stopped_by is not None:
        print(f"stopped: {_counts(result)}; the same command continues from there")
        return result.exit_code
    if not result.ranked:
        budget = f"the budget of {search.budget} is reached and " if result.budget_spent else ""
        print(f"nothing is written: {budget}no setting finished every fold; {_counts(result)}")
        for run, status, message in result.failed[:_MAX_PRINTED]:
            print(f"{run.label}: {status}: {message} [kbench debug {run.key[:8]}]", file=sys.stderr)
        return 1
    for line in _table(result):
        print(line)
    pair = result.method, result.dataset
    path = write_tuned(*pair, result.params, result.summary(search), command, result.tuned_set)
    if result.budget_spent:
        print(f"the budget of {search.budget} is reached: this is the best so far")
    print(f"{_counts(result)}; wrote {path}, {usage_text(*pair, result.tuned_set)}")
    return result.exit_code


def _counts(result: "SearchResult") -> str:
    """The number of trials of each status, such as 'trials: 124 ok, 1 timeout'."""
    counts = ", ".join(f"{n} {status}" for status, n in sorted(result.counts.items()))
    return f"trials: {counts or 'none'}"


def _table(result: "SearchResult") -> list[str]:
    """Lines of the best settings, with score, training rows and parameters."""
    header = [f"validation {result.metric.name}", "rows", *result.varied]
    lines = [header]
    for candidate in result.ranked[:_MAX_PRINTED]:
        spread = "" if candidate.sd is None else f" ± {candidate.sd:.4f}"
        values = [_value_text(candidate.params[name]) for name in result.varied]
        lines.append([f"{candidate.mean:.4f}{spread}", str(candidate.rows), *values])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


def _value_text(value: Any) -> str:
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _parse_search(words: Sequence[str]) -> Search:
    """The search that the words tune.KEY=VALUE describe; ConfigError if one of them is wrong."""
    _, values = parse_words(words, KEYS)
    options = {key.removeprefix("tune."): value for key, value in values.items()}
    if "cv" in options and "validation" in options:
        raise ConfigError("tune.cv and tune.validation are both given; use one of them")
    fields: dict[str, Any] = {}
    for key, name, minimum in (
        ("cv", "folds", 2),
        ("factor", "factor", 2),
        ("min_rows", "min_rows", 1),
        ("rows", "rows", 1),
        ("runs", "runs", 1),
    ):
        if key in options:
            fields[name] = parse_integer(f"tune.{key}", options[key], minimum)
    if "validation" in options:
        fields["validation"] = _parse_number("tune.validation", options["validation"], below=1.0)
    if "seconds" in options:
        fields["seconds"] = _parse_number("tune.seconds", options["seconds"])
    if "halving" in options:
        fields["halving"] = parse_boolean("tune.halving", options["halving"])
    search_words = tuple(f"tune.{key}={options[key]}" for key in _SEARCH_KEYS if key in options)
    return Search(**fields, metric=options.get("metric"), search_words=search_words)


def _parse_number(key: str, text: str, *, below: float = math.inf) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < below:
        limit = "" if math.isinf(below) else f" and below {below:g}"
        raise ConfigError(f"{key} is {text!r}, should be a number above 0{limit}")
    return value
