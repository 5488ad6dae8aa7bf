"""How many of the papers' cells are measured, on which data, and why scores differ.

A cell counts if the paper prints a value there and a run can fill it. Ratios, sums, totals,
settings and the lines of kbench's own methods do not count; an order of growth counts if an
exponent is fitted beside it. The number of cells therefore does not depend on any row.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbench.papers.cells.entry import NO_POWER, NO_ROWS, Entry, Filled
from kbench.papers.printed.causes import KINDS, UNEXPLAINED, Cause, thresholds
from kbench.papers.printed.layout import PAPERS, Measure, legend, paper
from kbench.report.sheet import Sheet

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
    if entry.status:
        return STATES.index("ended")
    without_data = entry.absent not in ("", NO_ROWS)
    return STATES.index("absent" if without_data else "missing")


def cell_sheet(tables: Sequence[Filled]) -> Sheet:
    """Three numbers a table, a line for each paper, and one for all papers together."""
    header = ["table", "cells", "paper's data", "stand-ins", "not run", "sizes"]
    rows = []
    for name in PAPERS:
        own = [one for one in tables if one.table.paper == name]
        numbers = dict.fromkeys(one.table.number for one in own)
        for number in numbers:
            of_table = [one for one in own if one.table.number == number]
            rows.append(_line(f"{paper(name).title} {number}", of_table))
        if own:
            rows.append(_line(f"{paper(name).title}, all", own))
    rows.append(_line("all", tables))
    notes = [legend("counts"), f"All tables: {coverage(tables)}."]
    absent = [
        f"{paper(name).title}: {', '.join(sorted(paper(name).absent))}"
        for name in dict.fromkeys(one.table.paper for one in tables)
        if paper(name).absent
    ]
    if absent:
        notes.append(f"Absent, without a substitute: {'; '.join(absent)}.")
    lacking = dict.fromkeys(  # a table stands there once for each machine
        f"{one.table.id}: {', '.join(one.table.lacking)}" for one in tables if one.table.lacking
    )
    if lacking:
        notes.append(f"Rows of methods that kbench does not have: {'; '.join(lacking)}.")
    return Sheet("Cells measured", 1, header, [row for row in rows if row[1] != "0"], notes)


def _line(name: str, tables: Sequence[Filled]) -> list[str]:
    one = coverage(tables)
    counts = one.cells, one.own, one.stand_in, one.not_run, one.sizes
    return [name, *(f"{n:,}" for n in counts)]


def cause_sheet(tables: Iterable[Filled]) -> Sheet:
    """A line for each cause with the number of cells and the tables that it is about.

    A cell counts once, on the machine of the first table that has it.
    """
    compared: dict[tuple[str, ...], tuple[str, Cause | None]] = {}
    for form in tables:
        name = f"{form.paper.title} {form.table.number}"
        for place, _, entry in form.cells():
            if entry.compared:
                compared.setdefault(place, (name, entry.cause))
    causes = Counter(cause for _, cause in compared.values() if cause is not None)
    of_tables = Counter(compared.values())
    kinds = list(KINDS)
    rows = []
    for cause in sorted(causes, key=lambda one: (kinds.index(one.kind), -causes[one])):
        where = [f"{name} ({n})" for (name, one), n in of_tables.items() if one == cause]
        n_cells = str(causes[cause])
        rows.append([KINDS[cause.kind], n_cells, ", ".join(where), cause.why, cause.shown])
    unexplained = sum(n for cause, n in causes.items() if cause.kind == UNEXPLAINED)
    note = (
        f"{causes.total()} of {len(compared)} measured scores differ from the printed ones by more"
        f" than {thresholds()}; {unexplained} of them are not explained."
    )
    header = ["kind", "cells", "tables", "cause", "what shows it"]
    return Sheet("Differences from the printed scores", 1, header, rows, [note])
