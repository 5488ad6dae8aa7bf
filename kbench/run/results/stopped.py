"""Write and read the messages of runs that were stopped at a limit, and read limits of rows.

The guard writes `not done within limits.wall_s=60, stopped in predict after 7.2 CPU seconds of
fit`. The limit of wall seconds covers fit, prediction and scoring, and only the CPU seconds in the
message are about the fit. Reports and scripts read such messages through this module.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from kbench.settings import Limits

# Beginning of the message of a run that was stopped at its limit of wall seconds.
TIMED_OUT = "not done within limits.wall_s="

_NUMBER_PATTERN = r"=([0-9.]+(?:e[+-]?[0-9]+)?)"
_WALL_PATTERN = re.compile(re.escape(TIMED_OUT.rstrip("=")) + _NUMBER_PATTERN)
_FIT_PATTERN = re.compile(r" after (?:at least )?([0-9.]+) CPU seconds of fit")
_STAGE_PATTERN = re.compile(r" stopped in ([a-z]+) after")


def stopped_where(stage: str, fit_cpu_s: float, *, at_least: bool = False) -> str:
    """The end of a stopped run's message; at_least : whether the fit may have taken longer."""
    prefix = "at least " if at_least else ""
    seconds = math.floor(10 * fit_cpu_s) / 10  # rounded down, as `least_fit_s` is a lower bound
    return f", stopped in {stage} after {prefix}{seconds:g} CPU seconds of fit"


def stopped_at(row: Mapping[str, Any]) -> float | None:
    """Wall seconds at which a run was stopped; None if it ended otherwise."""
    match = _WALL_PATTERN.search(row.get("message") or "")
    return float(match[1]) if match else None


def least_fit_s(row: Mapping[str, Any]) -> float | None:
    """Lower bound of `fit_s` of a stopped run; None if its message has no CPU seconds.

    Wall seconds of a fit are at least its CPU seconds divided by the number of threads.
    """
    match = _FIT_PATTERN.search(row.get("message") or "")
    return float(match[1]) / (row.get("threads") or 1) if match else None


def is_trained(row: Mapping[str, Any]) -> bool:
    """Whether a run was stopped after its training, so that `least_fit_s` is the whole fit."""
    match = _STAGE_PATTERN.search(row.get("message") or "")
    return match is not None and match[1] != "fit"


def without_seconds(message: str) -> str:
    """The message without CPU seconds, which is equal for all runs stopped at the same limit."""
    return _FIT_PATTERN.sub("", message)


def limit(row: Mapping[str, Any], name: str) -> float:
    """The limit `limits.<name>` of a run by its command, infinite if there is no limit.

    A command contains limits that differ from the defaults of `Limits`.
    """
    values_in_command = re.findall(rf"\blimits\.{name}=(\S+)", row.get("command") or "")
    if not values_in_command:
        value = getattr(Limits(), name)
        return math.inf if value is None else value
    return math.inf if values_in_command[-1] == "null" else float(values_in_command[-1])


def time_limit(row: Mapping[str, Any]) -> float:
    """The limit of wall seconds of a run by its message, or else by its command."""
    seconds = stopped_at(row)
    return limit(row, "wall_s") if seconds is None else seconds
