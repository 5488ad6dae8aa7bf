"""Overviews of all tables and figures: cells measured, figures drawn, causes of differences."""

from collections.abc import Iterable, Sequence

from kbench.papers.cells.coverage import coverage
from kbench.papers.cells.entry import Filled
from kbench.papers.figures.drawing import Drawing
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


def figure_sheet(drawings: Sequence[Drawing]) -> Sheet:
    """A line for each paper's figures, and one for all: panels and lines with data, and drawn."""
    header = ["paper", "figures", "panels", "no data", "with data", "drawn"]
    header += ["lines", "drawn"]
    names = list(dict.fromkeys(drawing.figure.paper for drawing in drawings))
    groups = {paper(name).title: [d for d in drawings if d.figure.paper == name] for name in names}
    if len(groups) > 1:
        groups["all"] = list(drawings)
    rows = []
    for name, group in groups.items():
        panels = sum(len(drawing.figure.panels) for drawing in group)
        absent = sum(
            panel.data in paper(drawing.figure.paper).absent
            for drawing in group
            for panel in drawing.figure.panels
        )
        lines, drawn = (
            sum(drawing.wanted for drawing in group),
            sum(drawing.drawn for drawing in group),
        )
        charts = sum(len(drawing.charts) for drawing in group)
        counts = (len(group), panels, absent, panels - absent, charts, lines, drawn)
        rows.append([name, *(f"{n:,}" for n in counts)])
    note = (
        "Panels of the papers' figures, and lines of those whose data are available. A panel is"
        " drawn if two of its lines have points, or its only one; one of curves if a line has. A"
        " line through several settings or sizes has at least two points."
    )
    return Sheet("Figures drawn", 1, header, rows, [note])


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
