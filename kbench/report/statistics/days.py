"""Machine speed by day: how seconds of equal settings differ between the days of their runs.

An environment names a machine with its software, and the same machine may be faster on another day
(other guests of its host, another clock rate). Rows have `started_at`, so that a table which
compares seconds can say of which days they are, and what equal settings took on each.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Factor:
    """Fit seconds of one day over those of another: median and deciles over equal settings."""

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
        The selection. Settings are equal if method, its version and source, parameters, data,
        environment, threads and runs at a time are; the seeds of a setting count as their median.
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

    def factor(self, machine: _Machine, day: str, other: str) -> Factor | None:
        """Seconds of `day` over those of `other`; None without a setting that has runs on both."""
        known = self._seconds.get(machine, ())
        ratios = [days[day] / days[other] for days in known if day in days and other in days]
        if not ratios:
            return None
        deciles = statistics.quantiles(ratios, n=10, method="inclusive") if len(ratios) > 1 else []
        low, high = (deciles[0], deciles[-1]) if deciles else (ratios[0], ratios[0])
        return Factor(statistics.median(ratios), low, high, len(ratios))

    def remark(self, rows: Iterable[Row]) -> str:
        """A line on the days of seconds that are compared; "" if all are of one day.

        The factors are to the day with the most of these rows, on each machine.
        """
        texts = []
        of_machine: defaultdict[_Machine, Counter[str]] = defaultdict(Counter)
        for row in _attempts(rows):
            if row["status"] == "ok" and (day := _day(row)) is not None:
                of_machine[_machine(row)][day] += 1
        for machine, days in sorted(of_machine.items()):
            if len(days) < 2:
                continue
            base = max(sorted(days), key=days.__getitem__)
            said = []
            for day in sorted({*days} - {base}):
                factor = self.factor(machine, day, base)
                took = f"fits took {factor} as long" if factor else "no setting ran on both"
                said.append(f"on {day} {took}")
            where = f" in environment {machine[0]}" if len(of_machine) > 1 else ""
            texts.append(f"most are of {base}{where}; {', '.join(said)}")
        return f"Seconds of different days: {'; '.join(texts)}." if texts else ""

    def summary(self, environment: str) -> str:
        """The days of an environment with their runs, and their factors to the one with most."""
        texts = []
        for machine, days in sorted(self.counts.items()):
            if machine[0] != environment:
                continue
            base = max(sorted(days), key=days.__getitem__)
            for day, count in sorted(days.items()):
                factor = None if day == base else self.factor(machine, day, base)
                took = f", {factor} as long as on {base}" if factor else ""
                threads = "" if machine[1] == 1 else f" of {machine[1]} threads"
                texts.append(f"{day} ({count:,} runs{threads}{took})")
        return "; ".join(texts)


def days_of(rows: Iterable[Row]) -> list[str]:
    """The days on which runs and their attempts began, in order."""
    return sorted({day for row in _attempts(rows) if (day := _day(row)) is not None})


def _attempts(rows: Iterable[Row]) -> Iterable[Row]:
    for row in rows:
        yield from row.get(REPEATS) or [row]


def _day(row: Row) -> str | None:
    started = row.get("started_at")
    return None if started is None else f"{started:%Y-%m-%d}"


def _machine(row: Row) -> _Machine:
    return row["environment"], row["threads"]


def _setting(row: Row) -> tuple[Any, ...]:
    known = (row[name] for name in ("method", "dataset", "variant", "data_sha256", "n_train"))
    same = (method_version(row), row.get("source_sha256"), row["jobs"])
    return (*known, *same, sorted_parameters(row))
