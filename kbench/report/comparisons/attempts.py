"""The attempts of a run as one row with their medians.

`rerun=all` repeats runs, and each attempt has its own row. Reports show one row for each run.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.report.comparisons.tables import REPEATS, SCORES, contended, method_version, start_time
from kbench.run.results.rows import RUN, WITHOUT_OUTCOME, schema

# Numbers that identify an attempt; these numbers, and texts, come from the newest attempt.
_IDENTIFYING_COLUMNS = {"attempt", "seed", "threads", "jobs", "schema_version"}
# Rows that agree in these columns but have different keys differ in version, seed or limits.
_SETTING_COLUMNS = (
    *("method", "dataset", "variant", "data_sha256", "params"),
    *("environment", "threads", "jobs"),
)
_MAP_COLUMNS = ("phases", "phases_cpu", SCORES)
# Numbers that other processes disturb. Contended attempts are left out unless all are contended.
_DISTURBED_COLUMNS = {
    *("fit_wall_s", "predict_wall_s", "fit_cpu_s", "predict_cpu_s"),
    *("other_cpus", "preempted"),
}


def combine_attempts(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row for each run, in the order of the first attempts.

    Only attempts with the same source of the method and the same origin (own or reference) as the
    newest attempt with an outcome are considered. If most of these are ok, the ok attempts count;
    otherwise only the newest attempt counts. If several count, a measured number is the median of
    the attempts that have the number (for seconds, of undisturbed attempts), and everything else is
    taken from the newest attempt. `repeats` lists these attempts; it is empty if only one counts.
    If a setting was run with a newer version of the method, even with other seeds, the runs of
    older versions are left out. O(n log n) time.
    """
    runs: defaultdict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in _of_newest_version(list(rows)):
        runs[tuple(row[name] for name in RUN)].append(row)
    return [_with_medians(_counted_attempts(attempts)) for attempts in runs.values()]


def _of_newest_version(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of the newest version of the method in each setting."""
    settings = [tuple(row.get(name) for name in _SETTING_COLUMNS) for row in rows]
    versions = [method_version(row) for row in rows]
    newest: dict[tuple[Any, ...], int] = {}
    for setting, version in zip(settings, versions, strict=True):
        newest[setting] = max(version, newest.get(setting, 1))
    triples = zip(rows, settings, versions, strict=True)
    return [row for row, setting, version in triples if version == newest[setting]]


def _counted_attempts(attempts: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The attempts that count, the newest last."""
    oldest_first = sorted(attempts, key=start_time)
    ended = [row for row in oldest_first if row["status"] not in WITHOUT_OUTCOME] or oldest_first
    newest = [row for row in ended if _source_and_origin(row) == _source_and_origin(ended[-1])]
    ok = [row for row in newest if row["status"] == "ok"]
    return ok if 2 * len(ok) > len(newest) else newest[-1:]


def _source_and_origin(row: Mapping[str, Any]) -> tuple[Any, Any]:
    return row.get("source_sha256"), row.get("origin")


def _with_medians(attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The newest of the attempts that count, which is the last, with the medians of all."""
    row = dict(attempts[-1])
    row[REPEATS] = [*attempts] if len(attempts) > 1 else []
    if len(attempts) == 1:
        return row
    undisturbed = [attempt for attempt in attempts if not contended(attempt)] or attempts
    for field in schema():
        name = field.name
        if name in _MAP_COLUMNS:
            chosen_attempts = attempts if name == SCORES else undisturbed
            row[name] = _medians([attempt.get(name) or {} for attempt in chosen_attempts]) or None
        elif str(field.type) in ("double", "int64") and name not in _IDENTIFYING_COLUMNS:
            chosen_attempts = undisturbed if name in _DISTURBED_COLUMNS else attempts
            numbers = [
                attempt[name] for attempt in chosen_attempts if attempt.get(name) is not None
            ]
            median = statistics.median if str(field.type) == "double" else statistics.median_low
            row[name] = median(numbers) if numbers else None
    return row


def _medians(maps: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """The median of each name over the attempts that have a value; None if no attempt has."""
    numbers: dict[str, list[float]] = {name: [] for values in maps for name in values}
    for values in maps:
        for name, value in values.items():
            numbers[name] += [] if value is None else [value]
    return {name: statistics.median(values) if values else None for name, values in numbers.items()}
