"""Limits in rows: the message of a run that was stopped at one, and the command that set it.

The guard writes `not done within limits.wall_s=60, stopped in predict after 7.2 CPU seconds of
fit`; reports and scripts read limits and messages here and nowhere else. A limit of wall seconds
covers fit, prediction and scoring, so that it says nothing of the fit alone: the CPU seconds do.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from kbench.settings import Limits

# Begins the message of a run that was stopped at its limit of wall seconds.
TIMED_OUT = "not done within limits.wall_s="

_NUMBER = r"=([0-9.]+(?:e[+-]?[0-9]+)?)"
_WALL = re.compile(re.escape(TIMED_OUT.rstrip("=")) + _NUMBER)
_FIT = re.compile(r" after (?:at least )?([0-9.]+) CPU seconds of fit")
_STAGE = re.compile(r" stopped in ([a-z]+) after")


def where(stage: str, fit_cpu_s: float, *, at_least: bool = False) -> str:
    """The end of a stopped run's message; `at_least` if the fit has told its seconds before."""
    least = "at least " if at_least else ""
    seconds = math.floor(10 * fit_cpu_s) / 10
    return f", stopped in {stage} after {least}{seconds:g} CPU seconds of fit"


def stopped_at(row: Mapping[str, Any]) -> float | None:
    """Wall seconds at which a run was stopped; None if it ended otherwise."""
    match = _WALL.search(row.get("message") or "")
    return float(match[1]) if match else None


def least_fit_s(row: Mapping[str, Any]) -> float | None:
    """Least possible `fit_s` of a stopped run; None if its message does not tell.

    Wall seconds of a fit are at least its CPU seconds divided by the number of threads.
    """
    match = _FIT.search(row.get("message") or "")
    return float(match[1]) / (row.get("threads") or 1) if match else None


def trained(row: Mapping[str, Any]) -> bool:
    """Whether a run was stopped when its training had ended, so that `least_fit_s` is all of it."""
    match = _STAGE.search(row.get("message") or "")
    return match is not None and match[1] != "fit"


def without_seconds(message: str) -> str:
    """The message without the CPU seconds, in which two runs stopped at one limit differ."""
    return _FIT.sub("", message)


def limit(row: Mapping[str, Any], name: str) -> float:
    """The limit `limits.<name>` of a run by its command, infinite if it has none.

    A command names what differs from the defaults of `Limits`.
    """
    typed = re.findall(rf"\blimits\.{name}=(\S+)", row.get("command") or "")
    if not typed:
        value = getattr(Limits(), name)
        return math.inf if value is None else value
    return math.inf if typed[-1] == "null" else float(typed[-1])


def time_limit(row: Mapping[str, Any]) -> float:
    """Wall seconds that a run could take: where it was stopped, or else what its command says."""
    seconds = stopped_at(row)
    return limit(row, "wall_s") if seconds is None else seconds
