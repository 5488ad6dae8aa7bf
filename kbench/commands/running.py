"""kbench key=value ...: do the runs of a command and print a summary."""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbench.commands.arguments import parse_overrides
from kbench.config import composer
from kbench.errors import ConfigError, counted

if TYPE_CHECKING:
    from pathlib import Path

    from kbench.run.execution.runner import Summary
    from kbench.run.planning.task import Run

# Largest number of messages of failed runs in the summary, and of runs named for each message: a
# sweep may have thousands. Set by hand.
_MAX_MESSAGES = 20
_MAX_NAMES = 3


def main(argv: Sequence[str]) -> int:
    """Plan, run, summarise; exit code 0, 1 if a run failed or lacks its data, or 128 + signal."""
    overrides, multirun, shows_config = parse_overrides(argv)
    if shows_config:
        return _show_config(overrides)

    from kbench.run.execution.preload import worker_sandbox

    # The fork server's imports take longest, so the server starts before the runner's imports.
    sandbox = worker_sandbox(overrides)

    from kbench.run.execution.preparing import obtain_in
    from kbench.run.execution.rehearsal import check_methods, refused_runs
    from kbench.run.execution.runner import Runner, finished_here, todo_and_done
    from kbench.run.planning.plan import make_plan

    with composer() as hydra:
        plan = make_plan(hydra, overrides, multirun=multirun)
        if plan.tune_experiments:
            raise ConfigError(
                f"the runs of experiment {plan.tune_experiments[0]} are candidates, scored on "
                f"held-out training rows by `kbench tune experiment={plan.tune_experiments[0]}`"
            )
        finished = finished_here(plan)
        remaining, _ = todo_and_done(plan, finished)
        if remaining or plan.absent:
            idle = check_methods(sandbox, plan)
            plan = make_plan(hydra, overrides, multirun=multirun, obtain=obtain_in(sandbox))
            plan.drop_repeats(idle)
            remaining, _ = todo_and_done(plan, finished)
            lines = refused_runs(sandbox, plan, remaining)
            if lines and len(lines) == len(remaining):  # otherwise the accepted runs are done
                raise ConfigError(f"{lines[0]}{more_runs_text(lines)}")
    if not plan.runs:
        if plan.absent:
            raise ConfigError("; ".join(plan.absent.values()))
        is_task_dropped = any(": not for " in reason for reason in plan.dropped)
        hint = "; `kbench list methods` shows the tasks of each" if is_task_dropped else ""
        raise ConfigError("nothing to run: " + "; ".join(plan.dropped) + hint)
    for line in [*plan.hidden_lines, *(f"tuned: {line}" for line in plan.tuned_lines)]:
        print(line, file=sys.stderr)
    for reason in plan.dropped:
        print(f"dropped: {reason}", file=sys.stderr)
    runner = Runner(plan, sandbox)
    summary = runner.execute(finished)
    _summarise(summary, len(plan.runs), runner.folder.path)
    return summary.exit_code


def more_runs_text(lines: Sequence[str]) -> str:
    """A text with the number of lines after the first, which are not shown."""
    return f" (and {counted(len(lines) - 1, 'more run')})" if len(lines) > 1 else ""


def _show_config(overrides: Sequence[str]) -> int:
    from omegaconf import OmegaConf

    with composer() as hydra:
        for text, override in zip(overrides, hydra.parse(overrides), strict=True):
            if override.is_sweep_override():
                raise ConfigError(f"{text}: --cfg job shows one configuration, name one value")
        print(OmegaConf.to_yaml(OmegaConf.create(hydra.compose(overrides))), end="")
    return 0


def _summarise(summary: "Summary", n_runs: int, folder: "Path") -> None:
    for message in summary.absent.values():
        print(f"left out: {message}", file=sys.stderr)
    is_reported = n_runs == 1 and summary.written  # the line of progress has its message
    for line in [] if is_reported else _failures(summary):
        print(line, file=sys.stderr)
    if summary.other_tag:
        print(
            f"{summary.other_tag} of the rows that existed before have another tag or none, which "
            "they keep; rerun=all adds attempts with the tag of this command",
            file=sys.stderr,
        )
    written = ", ".join(f"{n} {status}" for status, n in sorted(summary.written.items()))
    n_before = summary.before.total()
    phrases = [written or "nothing to do"]
    if n_before:
        phrases.append(f"{n_before} done before")
    if summary.not_begun:
        phrases.append(f"on_error=stop: {summary.not_begun} not begun; the same command runs them")
    print(f"{'; '.join(phrases)}; rows in {folder}, `kbench report` compares them")


def _failures(summary: "Summary") -> list[str]:
    """Failed runs by status and message, the most frequent first.

    Only the first of several messages that differ only in numbers, such as seconds, is shown.
    """
    groups: dict[tuple[str, str], list[tuple[Run, str]]] = {}
    for run, status, message in summary.failed:
        groups.setdefault((status, re.sub(r"\d+(\.\d+)?", "#", message)), []).append((run, message))
    by_size = sorted(groups.items(), key=lambda group: -len(group[1]))
    lines = []
    for (status, _), members in by_size[:_MAX_MESSAGES]:
        run, message = members[0]
        count = "" if len(members) == 1 else f"{len(members)} runs, "
        names = ", ".join(run.label for run, _ in members[:_MAX_NAMES])
        others = f" and {len(members) - _MAX_NAMES} more" if len(members) > _MAX_NAMES else ""
        remark = " (numbers differ)" if len({text for _, text in members}) > 1 else ""
        lines.append(
            f"{count}{status}: {message or 'no message'}{remark} [kbench debug {run.key[:8]}]: "
            f"{names}{others}"
        )
    if n_left := sum(len(members) for _, members in by_size[_MAX_MESSAGES:]):
        lines.append(f"and {n_left} more failed runs with other messages")
    return lines
