"""Values read from rows: columns, seconds of phases, and training seconds of stopped runs."""

import math
from collections.abc import Mapping

from kbench.report.comparisons.tables import Line, Row, contended, mean_sd, measured
from kbench.run.results.stopped import is_trained, least_fit_s

# Name of a curve whose values equal its abscissa, for axes of seconds.
SECONDS = "seconds"


def training_seconds(line: Line) -> list[float]:
    """The training seconds of all ok runs and of runs that were stopped while predicting.

    The list is empty, which means unknown, if a run was stopped while training, or was stopped with
    several threads, because its message then has only CPU seconds. Runs that failed otherwise, and
    runs without seconds, such as disturbed wall seconds, are left out.
    """
    stopped = [row for row in line.rows if row["status"] == "timeout"]
    if not all(row["threads"] == 1 and is_trained(row) for row in stopped):
        return []
    seconds = [measured(row, "fit_s") for row in line.ok] + [least_fit_s(row) for row in stopped]
    return [value for value in seconds if value is not None]


def mean_of(line: Line, name: str) -> tuple[float, float | None] | None:
    """Mean and deviation of a `column` over the ok seeds; "fit_s" uses `training_seconds`."""
    if name == "fit_s":
        return mean_sd(training_seconds(line))
    if line.is_cut_short(name):
        return None
    return mean_sd([value for row in line.ok if (value := column(row, name)) is not None])


def least_seconds(line: Line) -> float | None:
    """A lower bound of the mean training seconds of a line whose runs were stopped while training.

    A stopped run counts with the seconds that its fit had taken. None if the mean itself is known,
    if no run was stopped, or if the seconds of a run are not known.
    """
    mean_is_known = bool(training_seconds(line))
    if "timeout" not in line.failures or mean_is_known:
        return None
    seconds = [
        measured(row, "fit_s") if row["status"] == "ok" else least_fit_s(row) for row in line.rows
    ]
    numbers = [value for value in seconds if value is not None]
    return math.fsum(numbers) / len(numbers) if len(numbers) == len(seconds) else None


def column(row: Row, name: str) -> float | None:
    """A measured column of a row, or with `phases.x` the seconds of a phase; None if missing."""
    phase = name.partition(".")[2]
    if not phase:
        return measured(row, name)
    seconds = (phases_of(row) or {}).get(phase)
    return None if seconds is None else float(seconds)


def phases_of(row: Row) -> Mapping[str, float] | None:
    """Seconds by phase: CPU seconds of runs on one thread, wall seconds of other undisturbed runs.

    Empty for a method without phases; None if a run lacks these seconds.
    """
    phases: Mapping[str, float] = row["phases"] or {}
    if row["threads"] == 1:
        return row.get("phases_cpu") or (None if phases else {})
    return None if phases and contended(row) else phases


def is_wall_seconds(curve: str) -> bool:
    """Whether the values of a curve are wall seconds, which other processes disturb."""
    return curve == SECONDS or curve.endswith("_s")
