"""Check the methods of a plan in a worker before the runs begin."""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kbench.data import open_prepared
from kbench.errors import ConfigError, UnavailableError, with_type
from kbench.run.execution.guard import RunOutcome, Send
from kbench.run.execution.sandbox import Sandbox
from kbench.run.execution.worker import WARMUP_ROWS, rehearse
from kbench.run.planning import registry
from kbench.run.planning.bounds import Sizes, may_refuse, refusal
from kbench.run.planning.command import canonical
from kbench.run.planning.plan import IdleParams, Plan
from kbench.run.planning.task import Run, Task
from kbench.run.results.added_scores import check as check_metrics
from kbench.settings import Limits

# Seconds of wall time for fitting a plan's estimators to a few rows. Runs report the errors of
# estimators that this time does not cover. Set by hand.
_REHEARSED_S = 10.0


def check_methods(sandbox: Sandbox, plan: Plan) -> IdleParams:
    """Build every estimator of the plan once, in a worker, before any data are loaded.

    A worker that is killed is started once more. If it is killed again, the runs go on, and their
    rows have the errors.

    Returns the parameters without effect, as `Plan.drop_repeats` takes them.

    Raises ConfigError: a class refuses a parameter or its value, or a score cannot be added.
    Raises ModelError: models of scikit-learn should be stored, but skops is not installed.
    """
    if plan.settings.keep_model and any(
        target.startswith("sklearn.") for target, *_ in plan.estimators
    ):
        from kbench.prediction.skops_bytes import require_skops

        require_skops()
    estimators = {canonical(estimator): estimator for estimator in plan.estimators}
    outcome = _in_worker(sandbox, plan, _check, (list(estimators.values()), plan.settings.metrics))
    if outcome.status == "error":
        raise ConfigError(outcome.message.splitlines()[0])
    idle = _results(outcome, "idle")
    return {(target, kernel): frozenset(names) for target, kernel, names in idle}


def _in_worker(
    sandbox: Sandbox,
    plan: Plan,
    function: Callable[[Any, Send], None],
    argument: Any,
    wall_s: float | None = None,
) -> RunOutcome:
    """The outcome of `function(argument, send)` in a worker, limited to `wall_s` seconds."""
    return sandbox.call(
        function, argument, Limits(wall_s=wall_s, setup_s=plan.settings.limits.setup_s)
    )


def _results(outcome: RunOutcome, name: str) -> list[Any]:
    """The list `name` in a worker's result; empty if the worker was killed."""
    return list((outcome.result.get("row") or {}).get(name, []))


def refused_runs(sandbox: Sandbox, plan: Plan, runs: list[Run]) -> list[str]:
    """A line for each run whose parameters do not fit the number of rows, such as n_neighbors.

    Estimators are built in a worker. The sizes of data that are not in `plan.prepared` are the
    facts of their config. A run whose sizes are not known gets no line.
    """
    requests = [(run, plan.prepared.get(run.data_key)) for run in runs if may_refuse(run.params)]
    if not requests:
        return []
    return _results(_in_worker(sandbox, plan, _check_bounds, requests), "refused")


def _check_bounds(requests: list[tuple[Run, Path | None]], send: Send) -> None:
    sizes: dict[str, Sizes | None] = {}
    lines: dict[tuple[str, ...], str | None] = {}
    messages = []
    for run, prepared in requests:
        if run.data_key not in sizes:
            sizes[run.data_key] = Sizes.of(run.dataset_config, prepared)
        size, key = sizes[run.data_key], (run.estimator, run.params_key, run.data_key)
        if size is not None and key not in lines:  # once for all seeds
            with contextlib.suppress(Exception):  # the run itself reports the error
                lines[key] = refusal(registry.build(run.estimator, run.params, 0), size)
        if line := lines.get(key):
            messages.append(f"{run.label}: {line}")
    send({"event": "result", "status": "ok", "row": {"refused": messages}})


def rehearsed(sandbox: Sandbox, plan: Plan, runs: list[Run]) -> list[str]:
    """A line for each run whose estimator refuses its parameters when it is fitted to a few rows.

    scikit-learn compares some parameters, such as `bootstrap` and `oob_score`, only in `fit`. Only
    its estimators are fitted, to data in `plan.prepared`, for at most `_REHEARSED_S` seconds.
    """
    tasks = {
        (run.estimator, run.params_key, run.data_key): plan.task(run)
        for run in runs
        if run.estimator.startswith("sklearn.") and run.data_key in plan.prepared
    }
    if not tasks:
        return []
    outcome = _in_worker(sandbox, plan, _rehearse, list(tasks.values()), _REHEARSED_S)
    return _results(outcome, "refused")


def _rehearse(tasks: list[Task], send: Send) -> None:
    send({"event": "start"})
    began, messages = time.monotonic(), []
    for task in tasks:
        # The second half of the time is left to the last fit, because a worker that is killed at
        # its limit returns no lines.
        if time.monotonic() - began > _REHEARSED_S / 2:
            break
        data = open_prepared(task.prepared, task.holdout)
        has_few_rows = data.n_train <= WARMUP_ROWS
        # An error is reported only if its text is the same for two numbers of rows, because other
        # errors may not occur on all rows.
        sizes = [data.n_train] if has_few_rows else [WARMUP_ROWS // 2, WARMUP_ROWS]
        texts = set()
        for n in sizes:
            text = None
            try:
                rehearse(task, data, n)
            except UnavailableError:
                pass
            except Exception as error:
                text = with_type(error)
            texts.add(text)
        if None not in texts and len(texts) == 1:
            messages.append(f"{task.run.label}: {texts.pop()}")
    send({"event": "result", "status": "ok", "row": {"refused": messages}})


def _check(request: tuple[list[tuple[str, Mapping[str, Any], str]], list[str]], send: Send) -> None:
    estimators, metrics = request
    problem = registry.check(estimators) or check_metrics(metrics)
    if problem is not None:
        return send({"event": "result", "status": "error", "message": problem})
    kernels = {(target, params.get("kernel")) for target, params, _ in estimators}
    idle = [
        (target, kernel, sorted(registry.idle_parameters(target, kernel)))
        for target, kernel in sorted(kernels, key=str)
        if isinstance(kernel, str)
    ]
    return send({"event": "result", "status": "ok", "row": {"idle": idle}})
