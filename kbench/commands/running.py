"""kbench key=value ...: do the runs of a command and print a summary."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbench.commands.arguments import flags
from kbench.config import composer
from kbench.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from kbench.run.execution.runner import Summary

# Number of failed runs that the summary names, because a sweep may have thousands.
_SHOWN = 20


def main(argv: Sequence[str]) -> int:
    """Plan, run, summarise; exit code 0, 1 if a run failed, or 128 + signal."""
    overrides, multirun, show = flags(argv)
    if show:
        return _show_config(overrides)

    from kbench.run.execution.preload import worker_sandbox

    # The fork server's imports take longest, so it is started before the runner's own.
    sandbox = worker_sandbox(overrides)

    from kbench.run.execution.runner import Runner, check_methods, finished_here, obtain_in, split
    from kbench.run.planning.plan import make_plan

    with composer() as hydra:
        plan = make_plan(hydra, overrides, multirun=multirun)
        if plan.searches:
            raise ConfigError(
                f"the runs of experiment {plan.searches[0]} are candidates, scored on held-out "
                f"training rows by `kbench tune experiment={plan.searches[0]}`"
            )
        finished = finished_here(plan)
        todo, _ = split(plan, finished)
        if todo or plan.absent:
            idle = check_methods(sandbox, plan)
            plan = make_plan(hydra, overrides, multirun=multirun, obtain=obtain_in(sandbox))
            plan.without_repeats(idle)
    if not plan.runs:
        if plan.absent:
            raise ConfigError("; ".join(plan.absent.values()))
        raise ConfigError("nothing to run: " + "; ".join(plan.dropped))
    for line in plan.tuned:
        print(f"tuned: {line}", file=sys.stderr)
    for reason in plan.dropped:
        print(f"dropped: {reason}", file=sys.stderr)
    runner = Runner(plan, sandbox)
    summary = runner.execute(finished)
    _summarise(summary, len(plan.runs), runner.folder.path)
    return summary.exit_code


def _show_config(overrides: Sequence[str]) -> int:
    from omegaconf import OmegaConf

    with composer() as hydra:
        hydra.parse(overrides)
        print(OmegaConf.to_yaml(OmegaConf.create(hydra.compose(overrides))), end="")
    return 0


def _summarise(summary: "Summary", n_runs: int, folder: "Path") -> None:
    from kbench.run.execution.progress import describe

    for message in summary.absent.values():
        print(f"left out: {message}", file=sys.stderr)
    reported = n_runs == 1 and summary.written  # by the progress, just above
    for run, status, message in [] if reported else summary.failed[:_SHOWN]:
        row = {"status": status, "message": message, "key": run.key}
        print(f"{run.label}: {describe(row)}", file=sys.stderr)
    if len(summary.failed) > _SHOWN:
        print(f"and {len(summary.failed) - _SHOWN} more that failed", file=sys.stderr)
    written = ", ".join(f"{n} {status}" for status, n in sorted(summary.written.items()))
    before = summary.before.total()
    parts = [written or "nothing to do"]
    if before:
        parts.append(f"{before} done before")
    print(f"{'; '.join(parts)}; rows in {folder}, `kbench report` compares them")
