"""By how much seconds of equal settings differ from day to day on one machine, from the rows.

An environment names hardware and software, not how fast the machine was on a day.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations
from typing import Any

from kbench.papers.cells.runs import Runs
from kbench.report.comparisons.tables import Row, measured

# Shorter fits say more of their start than of the machine; fewer settings say nothing of a day.
_MIN_SECONDS, _MIN_SETTINGS = 0.05, 5


def days_of(rows: Iterable[Row]) -> list[str]:
    """The days in UTC on which the ok rows began, such as 2026-11-23, where they tell."""
    return sorted({str(r["started_at"])[:10] for r in rows if r["status"] == "ok"} - {"None"})


def factor(runs: Runs, rows: Sequence[Row]) -> float:
    """The factor within which 19 of 20 settings agree on the days of rows; 1 if nothing is known.

    All rows are of one machine.
    """
    factors = [1.0]
    for quotients in _known(runs, rows).values():
        ordered = sorted(max(value, 1.0 / value) for value in quotients)
        factors.append(ordered[int(0.95 * len(ordered))])
    return max(factors)


def notes(runs: Runs, rows: Sequence[Row]) -> tuple[str, ...]:
    """A sentence that names the days of the rows, and what is known of them; none of one day."""
    days = days_of(rows)
    known = "; ".join(
        f"equal settings took {statistics.median(quotients):.2f} of the time on {late} of what"
        f" they took on {early}"
        for (early, late), quotients in _known(runs, rows).items()
    )
    named = f"seconds of {len(days)} days, {', '.join(days)}" + (f": {known}" if known else "")
    return (named,) if len(days) > 1 else ()


def _known(runs: Runs, rows: Sequence[Row]) -> dict[tuple[str, str], list[float]]:
    known = _quotients(runs)[machine_of(rows[0])] if rows else {}
    pairs = combinations(days_of(rows), 2)
    return {pair: known[pair] for pair in pairs if len(known[pair]) >= _MIN_SETTINGS}


@cache
def _quotients(runs: Runs) -> Any:
    """Machine -> two days -> seconds of settings on the later one over those on the earlier one."""
    seconds: Any = defaultdict(lambda: defaultdict(list))
    names = "method", "method_version", "params", "dataset", "variant", "jobs"
    for row in runs.rows:
        if (measured(row, "fit_s") or 0.0) >= _MIN_SECONDS and (one := days_of([row])):
            setting = machine_of(row), *(row[name] for name in names)
            seconds[setting][one[0]].append(measured(row, "fit_s"))
    quotients: Any = defaultdict(lambda: defaultdict(list))
    for (machine, *_), of_days in seconds.items():
        for early, late in combinations(sorted(of_days), 2):
            middle = statistics.median(of_days[late]) / statistics.median(of_days[early])
            quotients[machine][early, late].append(middle)
    return quotients


def machine_of(row: Row) -> tuple[str, int]:
    """The environment and the number of threads of a run."""
    return row["environment"], row["threads"]
