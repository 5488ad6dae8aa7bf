"""The attempts of a run as one row: their medians.

A run is repeated with `rerun=all`, and each attempt has a row of its own. Reports show a run once.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.report.comparisons.tables import REPEATS, SCORES, contended, method_version, start_time
from kbench.run.results.rows import RUN, WITHOUT_OUTCOME, schema

# Numbers that identify an attempt; they, and texts, are taken from the newest one.
_NOT_MEASURED = {"attempt", "seed", "threads", "jobs", "schema_version"}
# Rows that agree here but have different keys differ in version, seed or limits. Reports take means
# over the seeds.
_SETTING = (
    *("method", "dataset", "variant", "data_sha256", "params"),
    *("environment", "threads", "jobs"),
)
_MAPS = ("phases", "phases_cpu", SCORES)
# Numbers that other processes disturb: contended attempts are left out unless all are contended.
_DISTURBED = {
    *("fit_wall_s", "predict_wall_s", "fit_cpu_s", "predict_cpu_s"),
    *("other_cpus", "preempted"),
}


def combined(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each run, in the order of the first attempts.

    Only attempts with the source of the method and the origin (own or reference) of the newest one
    that has an outcome are considered. If most of these are ok, the ok ones count; otherwise only
    the newest counts. If several count, a measured number is the median of the attempts that have
    it (seconds: of those that other processes did not disturb), and everything else is taken from
    the newest attempt. `repeats` lists these attempts; it is empty if only one counts. If a setting
    was run with a newer version of the method, even with other seeds, the runs of older versions
    are left out. O(n log n).
    """
    runs: defaultdict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in _current(list(rows)):
        runs[tuple(row[name] for name in RUN)].append(row)
    return [_median(_counting(attempts)) for attempts in runs.values()]


def _current(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of the newest version of the method in each setting."""
    settings = [tuple(row.get(name) for name in _SETTING) for row in rows]
    versions = [method_version(row) for row in rows]
    newest: dict[tuple[Any, ...], int] = {}
    for setting, version in zip(settings, versions, strict=True):
        newest[setting] = max(version, newest.get(setting, 1))
    everything = zip(rows, settings, versions, strict=True)
    return [row for row, setting, version in everything if version == newest[setting]]


def _counting(attempts: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The attempts that count, the newest last."""
    by_age = sorted(attempts, key=start_time)
    ended = [row for row in by_age if row["status"] not in WITHOUT_OUTCOME] or by_age
    newest = [row for row in ended if _source_and_origin(row) == _source_and_origin(ended[-1])]
    ok = [row for row in newest if row["status"] == "ok"]
    return ok if 2 * len(ok) > len(newest) else newest[-1:]


def _source_and_origin(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row.get("source_sha256"), row.get("origin")


def _median(attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    row = dict(attempts[-1])
    row[REPEATS] = [*attempts] if len(attempts) > 1 else []
    if len(attempts) == 1:
        return row
    quiet = [attempt for attempt in attempts if not contended(attempt)] or attempts
    for field in schema():
        name = field.name
        if name in _MAPS:
            counting = attempts if name == SCORES else quiet
            row[name] = _medians([attempt.get(name) or {} for attempt in counting]) or None
        elif str(field.type) in ("double", "int64") and name not in _NOT_MEASURED:
            counting = quiet if name in _DISTURBED else attempts
            known = [attempt[name] for attempt in counting if attempt.get(name) is not None]
            middle = statistics.median if str(field.type) == "double" else statistics.median_low
            row[name] = middle(known) if known else None
    return row


def _medians(maps: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """The median of each name over the attempts that have a value; None where none has."""
    known: dict[str, list[float]] = {name: [] for values in maps for name in values}
    for values in maps:
        for name, value in values.items():
            known[name] += [] if value is None else [value]
    return {name: statistics.median(values) if values else None for name, values in known.items()}
