"""What is wrong with the methods of a plan, found in a worker before a run begins."""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from kbench.data import open_prepared
from kbench.errors import ConfigError, UnavailableError, with_type
from kbench.run.execution.guard import RunOutcome, Send
from kbench.run.execution.sandbox import Sandbox
from kbench.run.execution.worker import WARMUP_ROWS, rehearse
from kbench.run.planning import registry
from kbench.run.planning.bounds import Sizes, may_refuse, refused
from kbench.run.planning.command import canonical
from kbench.run.planning.plan import Idle, Plan
from kbench.run.planning.task import Run, Task
from kbench.run.results.added_scores import check as check_metrics
from kbench.settings import Limits

# Seconds of wall time for the fits of a plan to a few rows; more are told by the runs. Set by hand.
_REHEARSED_S = 10.0


def check_methods(sandbox: Sandbox, plan: Plan) -> Idle:
    """Build every estimator of the plan once, in a worker, before any data are loaded.

    A worker that is killed while it does so is started once more. If that does not help, the runs
    go on and each reports in its row what is wrong.

    Returns what `Plan.without_repeats` takes.

    Raises ConfigError: names the first parameter that a class does not take or whose value it
    refuses, or the first score that cannot be added.
    Raises ModelError: models of scikit-learn are to be kept, and the package that stores them is
    not installed.
    """
    if plan.settings.keep_model and any(p.startswith("sklearn.") for p, *_ in plan.estimators):
        from kbench.prediction.skops_bytes import require_skops

        require_skops()
    asked = {canonical(one): one for one in plan.estimators}
    outcome = _in_worker(sandbox, plan, _check, (list(asked.values()), plan.settings.metrics))
    if outcome.status == "error":
        raise ConfigError(outcome.message.splitlines()[0])
    idle = _found(outcome, "idle")
    return {(target, kernel): frozenset(names) for target, kernel, names in idle}


def _in_worker(
    sandbox: Sandbox,
    plan: Plan,
    function: Callable[[Any, Send], None],
    asked: Any,
    wall_s: float | None = None,
) -> RunOutcome:
    """The outcome of a function of `asked`, which has `wall_s` seconds in a worker."""
    return sandbox.call(
        function, asked, Limits(wall_s=wall_s, setup_s=plan.settings.limits.setup_s)
    )


def _found(outcome: RunOutcome, name: str) -> list[Any]:
    """What a worker has sent under this name; empty if it was killed before."""
    return list((outcome.result.get("row") or {}).get(name, []))


def refused_runs(sandbox: Sandbox, plan: Plan, runs: list[Run]) -> list[str]:
    """A line for each run whose parameters its rows would refuse, as neighbours beyond the rows.

    Estimators are built in a worker. Data that are not prepared, in `plan.prepared`, are known by
    the facts of their config; of what cannot be found out nothing is said.
    """
    asked = [
        (run.label, run.estimator, run.params, run.dataset_config,
         plan.prepared.get(canonical(run.dataset_config)))
        for run in runs
        if may_refuse(run.params)
    ]  # fmt: skip
    if not asked:
        return []
    return _found(_in_worker(sandbox, plan, _check_bounds, asked), "refused")


def _check_bounds(asked: list[tuple[str, str, Any, Any, Any]], send: Send) -> None:
    sizes: dict[str, Sizes | None] = {}
    lines: dict[str, str | None] = {}
    found = []
    for label, target, params, config, prepared in asked:
        data = canonical([config, str(prepared)])
        if data not in sizes:
            sizes[data] = Sizes.of(config, prepared)
        known, same = sizes[data], canonical([target, params, data])
        if known is not None and same not in lines:  # not of every seed
            with contextlib.suppress(Exception):  # the run itself says it
                lines[same] = refused(registry.build(target, params, 0), known)
        if line := lines.get(same):
            found.append(f"{label}: {line}")
    send({"event": "result", "status": "ok", "row": {"refused": found}})


def rehearsed(sandbox: Sandbox, plan: Plan, runs: list[Run]) -> list[str]:
    """A line for each run whose estimator refuses its parameters when it is fitted to a few rows.

    scikit-learn compares some parameters with each other in the fit alone, as `bootstrap` and
    `oob_score`. Only its estimators are fitted, to data in `plan.prepared`, for a few seconds.
    """
    tasks = {
        canonical([run.estimator, run.params, run.dataset_config]): plan.task(run)
        for run in runs
        if run.estimator.startswith("sklearn.") and canonical(run.dataset_config) in plan.prepared
    }
    if not tasks:
        return []
    outcome = _in_worker(sandbox, plan, _rehearse, list(tasks.values()), _REHEARSED_S)
    return _found(outcome, "refused")


def _rehearse(tasks: list[Task], send: Send) -> None:
    send({"event": "start"})
    began, found = time.monotonic(), []
    for task in tasks:
        if time.monotonic() - began > _REHEARSED_S / 2:
            break
        data = open_prepared(task.prepared, task.holdout)
        whole = data.n_train <= WARMUP_ROWS
        # Of what depends on the number of rows, such as too few of them, the words differ.
        sizes = [data.n_train] if whole else [WARMUP_ROWS // 2, WARMUP_ROWS]
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
            found.append(f"{task.run.label}: {texts.pop()}")
    send({"event": "result", "status": "ok", "row": {"refused": found}})


def _check(asked: tuple[list[tuple[str, Mapping[str, Any], str]], list[str]], send: Send) -> None:
    estimators, metrics = asked
    wrong = registry.check(estimators) or check_metrics(metrics)
    if wrong is not None:
        return send({"event": "result", "status": "error", "message": wrong})
    kernels = {(target, params.get("kernel")) for target, params, _ in estimators}
    idle = [
        (target, kernel, sorted(registry.idle_parameters(target, kernel)))
        for target, kernel in sorted(kernels, key=str)
        if isinstance(kernel, str)
    ]
    return send({"event": "result", "status": "ok", "row": {"idle": idle}})
