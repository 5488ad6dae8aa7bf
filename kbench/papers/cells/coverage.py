"""Number of the papers' cells that are measured, and reasons why the others are not.

A cell counts if the paper prints a value there and a run can fill it. Ratios, sums, totals,
settings and the lines of kbench's own methods do not count; an order of growth counts if an
exponent is fitted beside it. The number of cells therefore does not depend on any row.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kbench.papers.cells.entry import ABSENT, NO_POWER, NO_ROWS, OTHER_MEMORY, Entry, Filled
from kbench.papers.printed.layout import Measure, Total

# States of a cell, the best first.
STATES = ("measured", "ended", "failed", NO_ROWS, ABSENT)


@dataclass(frozen=True)
class Coverage:
    """Numbers of cells: measured, ended at the limit, failed, without rows, without data.

    `sizes` are printed sizes of data sets that rows confirm or correct; no cell is counted twice.
    """

    measured: int = 0
    ended: int = 0
    failed: int = 0
    missing: int = 0
    absent: int = 0
    sizes: int = 0

    @property
    def with_data(self) -> int:
        """Cells whose method and data set, or a substitute for it, are available."""
        return self.measured + self.ended + self.failed + self.missing

    @property
    def cells(self) -> int:
        return self.with_data + self.absent

    @property
    def share(self) -> str:
        """Percentage of the cells with data that are measured or ended at the limit, as text."""
        done = self.measured + self.ended
        return percentage(done, self.with_data)

    def __str__(self) -> str:
        if not self.cells:
            return "No cell counts: sums, ratios and sizes do not"
        words = (
            f"{self.measured:,} of {self.with_data:,} cells with data measured"
            f" ({percentage(self.measured, self.with_data)})"
            + (
                f", {self.ended:,} ended at the limit ({self.share} with these)"
                if self.ended
                else ""
            )
        )
        return f"{words}, {self.absent:,} without data" if self.absent else words


def percentage(n: int, of: int) -> str:
    """Rounded down, so that 100 % means all of them."""
    return f"{math.floor(100 * n / of)} %" if of else "–"


def coverage(tables: Iterable[Filled]) -> Coverage:
    """The counts over some tables; each cell counts once, in its best state over all machines."""
    states: dict[tuple[str, ...], int] = {}
    sizes = set()
    for table in tables:
        for place, measure, entry in table.cells():
            if _counts(measure, entry):
                if measure.sizes:
                    if entry.value is not None:
                        sizes.add(place)
                    continue
                state = _state(entry)
                states[place] = min(state, states.get(place, state))
    counts = [0] * len(STATES)
    for state in states.values():
        counts[state] += 1
    counts.append(len(sizes))
    return Coverage(*counts)


def _counts(measure: Measure, entry: Entry) -> bool:
    """Whether a run can fill a cell in which the paper prints a value, not a dash."""
    filled_by_runs = measure.reads and not isinstance(measure, Total)
    return filled_by_runs and entry.prints


def _state(entry: Entry) -> int:
    if entry.value is not None or entry.status == NO_POWER:
        return 0
    if entry.status == OTHER_MEMORY:
        return 3
    if entry.status:
        return 1 if entry.ended else 2
    return 3 if entry.absent in ("", NO_ROWS) else 4
