"""Machine speed by day: how seconds of equal settings differ between the days of their runs.

An environment names a machine with its software, and the same machine may be faster on another day
(other guests of its host, another clock rate). Because rows have `started_at`, a table that
compares seconds can name their days, and state what equal settings took on each day.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from kbench.report.comparisons.tables import (
    REPEATS,
    Comparison,
    Row,
    measured,
    method_version,
    sorted_parameters,
)

# Environment and threads.
_Machine = tuple[str, int]
# Least seconds of a fit: shorter fits measure their start more than the machine's speed. Least
# number of equal settings that show a spread. Both are set by hand.
_MIN_SECONDS, _MIN_SETTINGS = 0.05, 5


@dataclass(frozen=True)
class DayFactor:
    """Fit seconds of one day divided by another's: median and deciles over equal settings."""

    median: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        spread = f", 10-90 %: {self.low:.2f} to {self.high:.2f}" if self.n > 1 else ""
        settings = "setting" if self.n == 1 else "settings"
        return f"{self.median:.2f} x (median of {self.n:,} equal {settings}{spread})"


class Days:
    """The days of rows, and the factors between them.

    rows : iterable of mapping
        The selected rows. Settings are equal if method, its version and source, parameters, data,
        environment, threads and number of simultaneous runs are equal; the seeds of a setting count
        as their median.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        by_setting: defaultdict[_Machine, defaultdict[Any, defaultdict[str, list[float]]]]
        by_setting = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        self.counts: defaultdict[_Machine, Counter[str]] = defaultdict(Counter)
        for row in _attempts(rows):
            day, seconds = _day(row), measured(row, "fit_s")
            if day is None or row["status"] != "ok" or not seconds:
                continue
            self.counts[_machine(row)][day] += 1
            if seconds >= _MIN_SECONDS:
                by_setting[_machine(row)][_setting(row)][day].append(seconds)
        self._seconds = {
            machine: [
                {day: statistics.median(values) for day, values in days.items()}
                for days in settings.values()
                if len(days) > 1
            ]
            for machine, settings in by_setting.items()
        }

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> "Days":
        """The days of the runs of all lines of comparisons."""
        return cls(row for table in comparisons for line in table.lines for row in line.rows)

    def factor(self, machine: _Machine, day: str, other: str) -> DayFactor | None:
        """Seconds of `day` divided by those of `other`; None if no setting has runs on both."""
        ratios = self._ratios(machine, day, other)
        if not ratios:
            return None
        deciles = statistics.quantiles(ratios, n=10, method="inclusive") if len(ratios) > 1 else []
        low, high = (deciles[0], deciles[-1]) if deciles else (ratios[0], ratios[0])
        return DayFactor(statistics.median(ratios), low, high, len(ratios))

    def remark(self, rows: Iterable[Row]) -> str:
        """A line on the days of compared seconds; empty if all are from one day.

        Factors are relative to the day with the most of these rows on each machine.
        """
        texts = []
        by_machine = _days_of_machines(rows)
        for machine, days in sorted(by_machine.items()):
            if len(days) < 2:
                continue
            base = max(sorted(days), key=days.__getitem__)
            clauses = []
            for day in sorted({*days} - {base}):
                factor = self.factor(machine, day, base)
                clause = f"fits took {factor} as long" if factor else "no setting ran on both days"
                clauses.append(f"on {day} {clause}")
            scope = f" in environment {machine[0]}" if len(by_machine) > 1 else ""
            texts.append(f"most are of {base}{scope}; {', '.join(clauses)}")
        return f"Seconds of different days: {'; '.join(texts)}." if texts else ""

    def notes(self, rows: Iterable[Row]) -> tuple[str, ...]:
        """The remark as a note below a table; empty if all rows are from one day."""
        remark = self.remark(rows).rstrip(".")
        return (remark[0].lower() + remark[1:],) if remark else ()

    def spread(self, rows: Iterable[Row]) -> float:
        """The factor within which 19 of 20 equal settings agree between days; 1 if unknown."""
        factors = [1.0]
        for machine, days in _days_of_machines(rows).items():
            for early, late in combinations(sorted(days), 2):
                ratios = self._ratios(machine, late, early)
                ordered = sorted(max(ratio, 1.0 / ratio) for ratio in ratios)
                if len(ordered) >= _MIN_SETTINGS:
                    factors.append(ordered[int(0.95 * len(ordered))])
        return max(factors)

    def _ratios(self, machine: _Machine, day: str, other: str) -> list[float]:
        settings = self._seconds.get(machine, ())
        return [days[day] / days[other] for days in settings if day in days and other in days]

    def summary(self, environment: str) -> str:
        """The days of an environment with their runs, and factors to the day with most runs."""
        texts = []
        for machine, days in sorted(self.counts.items()):
            if machine[0] != environment:
                continue
            base = max(sorted(days), key=days.__getitem__)
            for day, count in sorted(days.items()):
                factor = None if day == base else self.factor(machine, day, base)
                factor_text = f", {factor} as long as on {base}" if factor else ""
                threads = "" if machine[1] == 1 else f" of {machine[1]} threads"
                texts.append(f"{day} ({count:,} runs{threads}{factor_text})")
        return "; ".join(texts)


def days_of(rows: Iterable[Row]) -> list[str]:
    """The days on which runs and their attempts began, in order."""
    return sorted({day for row in _attempts(rows) if (day := _day(row)) is not None})


def _days_of_machines(rows: Iterable[Row]) -> dict[_Machine, Counter[str]]:
    """Machine -> day -> number of ok runs."""
    counts: defaultdict[_Machine, Counter[str]] = defaultdict(Counter)
    for row in _attempts(rows):
        if row["status"] == "ok" and (day := _day(row)) is not None:
            counts[_machine(row)][day] += 1
    return counts


def _attempts(rows: Iterable[Row]) -> Iterable[Row]:
    for row in rows:
        yield from row.get(REPEATS) or [row]


def _day(row: Row) -> str | None:
    started = row.get("started_at")
    return None if started is None else f"{started:%Y-%m-%d}"


def _machine(row: Row) -> _Machine:
    return row["environment"], row["threads"]


def _setting(row: Row) -> tuple[Any, ...]:
    values = (row[name] for name in ("method", "dataset", "variant", "data_sha256", "n_train"))
    versions = (method_version(row), row.get("source_sha256"), row["jobs"])
    return (*values, *versions, sorted_parameters(row))
