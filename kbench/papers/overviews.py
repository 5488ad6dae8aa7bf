"""Overviews of all tables and figures: cells measured, figures drawn, causes of differences."""

from collections.abc import Iterable, Sequence

from kbench.papers.cells.coverage import STATES, Coverage, coverage, percentage
from kbench.papers.cells.entry import Filled
from kbench.papers.figures.drawing import Drawing
from kbench.papers.printed.causes import KINDS, UNEXPLAINED, Cause, thresholds
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.sheet import Sheet

_LEGEND = (
    "Cells are those that a paper prints and a run can fill: no ratios, sums, totals, settings, nor"
    " methods of our own; an order of growth counts where its exponent is fitted. Printed sizes of"
    " data sets are counted apart. Ended are runs that had as many seconds as any run of the"
    " table's experiments on the same data, which may be far fewer than they need: LIBSVM's in"
    " DC-SVM's Tables 9 and 10 are such; failed are those that had fewer, or ended by an error."
    " Cells whose runs keep other memory than the paper's have no rows. Percentages are those of"
    " cells with data that are measured or ended at the limit."
)


def cell_sheet(tables: Sequence[Filled]) -> Sheet:
    """A line for each paper, and one for all papers together."""
    own = {name: [one for one in tables if one.table.paper == name] for name in PAPERS}
    lines = {paper(name).title: coverage(filled) for name, filled in own.items() if filled}
    if len(lines) > 1:
        lines["all"] = coverage(tables)
    header = ["paper", "no data", "with data", *STATES[:-1], "%", "sizes"]
    rows = [
        [name, *(f"{n:,}" for n in (one.absent, one.with_data)), *map(str, _columns(one))]
        for name, one in lines.items()
    ]
    alone = [f"{name} {percentage(one.measured, one.with_data)}" for name, one in lines.items()]
    notes = [f"{_LEGEND} Measured alone are {', '.join(alone)}."]
    absent = [
        f"{paper(name).title}: {', '.join(sorted(paper(name).absent))}"
        for name, filled in own.items()
        if filled and coverage(filled).absent
    ]
    if absent:
        notes.append(f"Absent, without a substitute: {'; '.join(absent)}.")
    lacking = dict.fromkeys(  # a table stands there once for each machine
        f"{one.table.id}: {', '.join(one.table.lacking)}" for one in tables if one.table.lacking
    )
    if lacking:
        notes.append(f"Rows of methods that kbench does not have: {'; '.join(lacking)}.")
    return Sheet("Cells measured", 1, header, rows, notes)


def figure_sheet(drawings: Sequence[Drawing]) -> Sheet:
    """A line for each paper's figures, and one for all: panels and lines with data, and drawn."""
    header = ["paper", "figures", "panels", "no data", "with data", "drawn"]
    header += ["lines", "drawn", "ended", "%"]
    names = list(dict.fromkeys(drawing.figure.paper for drawing in drawings))
    groups = {paper(name).title: [d for d in drawings if d.figure.paper == name] for name in names}
    if len(groups) > 1:
        groups["all"] = list(drawings)
    rows, alone = [], []
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
        ended = sum(drawing.ended for drawing in group)
        charts = sum(len(drawing.charts) for drawing in group)
        counts = (len(group), panels, absent, panels - absent, charts, lines, drawn, ended)
        share = percentage(drawn + ended, lines)
        rows.append([name, *(f"{n:,}" for n in counts), share])
        alone.append(f"{name} {percentage(drawn, lines)}")
    note = (
        "Panels of the papers' figures, and lines of those whose data are available. A panel is"
        " drawn if two of its lines have points, or its only one; one of curves if a line has. A"
        " line through several settings or sizes has at least two points. Ended are lines without"
        " points whose runs ended at a limit that no run of the figure's experiments on the same"
        " data exceeds. Percentages are those of lines drawn or ended; drawn alone are"
        f" {', '.join(alone)}."
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


def _columns(count: Coverage) -> tuple[int | str, ...]:
    return count.measured, count.ended, count.failed, count.missing, count.share, count.sizes
