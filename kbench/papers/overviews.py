"""Overviews of all tables and figures: cells measured, figures drawn, causes of differences."""

from collections.abc import Iterable, Sequence

from kbench.papers.cells.coverage import coverage
from kbench.papers.cells.entry import Filled
from kbench.papers.printed.causes import KINDS, UNEXPLAINED, Cause, thresholds
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.sheet import Sheet

_LEGEND = (
    "Cells are those that a paper prints and a run can fill: no ratios, sums, totals, settings, nor"
    " methods of our own; an order of growth counts where its exponent is fitted. Stand-ins are"
    " other data than the paper's, or fewer of its rows. Not run are cells whose runs ended without"
    " a value, that have no rows (or only rows of other memory than the paper's), or no data."
)


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
    notes = [_LEGEND, f"All tables: {coverage(tables)}."]
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
    counts: dict[Cause, dict[str, int]] = {}
    seen: set[tuple[str, ...]] = set()
    for cause in tables:
        name = f"{cause.paper.title} {cause.table.number}"
        for place, _, entry in cause.cells():
            if not entry.compared or place in seen:
                continue
            seen.add(place)
            if entry.cause is not None:
                of = counts.setdefault(entry.cause, {})
                of[name] = of.get(name, 0) + 1
    order = sorted(
        counts, key=lambda cause: (list(KINDS).index(cause.kind), -sum(counts[cause].values()))
    )
    rows = [
        [
            KINDS[cause.kind],
            str(sum(counts[cause].values())),
            ", ".join(f"{name} ({n})" for name, n in counts[cause].items()),
            cause.why,
            cause.shown,
        ]
        for cause in order
    ]
    total = sum(sum(cause.values()) for cause in counts.values())
    unexplained = sum(sum(of.values()) for cause, of in counts.items() if cause.kind == UNEXPLAINED)
    note = (
        f"{total} of {len(seen)} measured scores differ from the printed ones by more than"
        f" {thresholds()}; {unexplained} of them are not explained."
    )
    header = ["kind", "cells", "tables", "cause", "what shows it"]
    return Sheet("Differences from the printed scores", 1, header, rows, [note])
