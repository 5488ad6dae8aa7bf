"""How many of the papers' cells are measured, and on which data.

A cell counts if the paper prints a value there and a run can fill it. Ratios, sums, totals,
settings and the lines of kbench's own methods do not count; an order of growth counts if an
exponent is fitted beside it. The number of cells therefore does not depend on any row.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kbench.papers.cells.entry import NO_POWER, NO_ROWS, OTHER_MEMORY, Entry, Filled
from kbench.papers.printed.layout import Measure

# States of a cell, the best first: measured on the paper's data, measured on others, runs that
# ended without a value, no rows, no data.
STATES = ("own", "stand_in", "ended", "missing", "absent")


@dataclass(frozen=True)
class Coverage:
    """Numbers of cells by their states; the sizes of data sets that rows tell count apart."""

    own: int = 0
    stand_in: int = 0
    ended: int = 0
    missing: int = 0
    absent: int = 0
    sizes: int = 0

    @property
    def cells(self) -> int:
        return self.own + self.stand_in + self.not_run

    @property
    def not_run(self) -> int:
        """Cells without a value: runs that ended without one, no rows, or no data."""
        return self.ended + self.missing + self.absent

    def __str__(self) -> str:
        if not self.cells:
            return "No cell counts: sums, ratios and sizes do not"
        why = {"ended without a value": self.ended, "no rows": self.missing, "no data": self.absent}
        said = ", ".join(f"{n:,} {name}" for name, n in why.items() if n)
        return (
            f"{self.cells:,} cells: {self.own:,} measured on the paper's data at its size,"
            f" {self.stand_in:,} on stand-ins, {self.not_run:,} not run"
            + (f" ({said})" if said else "")
        )


def coverage(tables: Iterable[Filled]) -> Coverage:
    """The counts over some tables; each cell counts once, in its best state over all machines."""
    states: dict[tuple[str, ...], int] = {}
    sizes = set()
    for table in tables:
        for place, measure, entry in table.cells():
            if not _counts(measure, entry):
                continue
            if not measure.sizes:
                states[place] = min(_state(entry), states.get(place, len(STATES)))
            elif entry.value is not None:
                sizes.add(place)
    counts = Counter(STATES[state] for state in states.values())
    return Coverage(**counts, sizes=len(sizes))


def _counts(measure: Measure, entry: Entry) -> bool:
    """Whether a run can fill a cell in which the paper prints a value, not a dash."""
    return measure.reads and not measure.total and entry.prints


def _state(entry: Entry) -> int:
    if entry.value is not None or entry.status == NO_POWER:
        return STATES.index("stand_in" if entry.stand_in else "own")
    if entry.status and entry.status != OTHER_MEMORY:
        return STATES.index("ended")
    without_data = entry.absent not in ("", NO_ROWS)
    return STATES.index("absent" if without_data else "missing")
