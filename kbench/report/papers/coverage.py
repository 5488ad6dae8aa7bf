"""Number of the papers' cells that are measured, and reasons why the others are not.

A cell counts if the paper prints a value there and a run can fill it. Ratios, sums, totals,
settings and the lines of kbench's own methods do not count; an order of growth counts if an
exponent is fitted beside it. The number of cells therefore does not depend on any row.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from kbench.report.papers.drawing import Drawing
from kbench.report.papers.entries import (
    ABSENT,
    NO_POWER,
    NO_ROWS,
    OTHER_MEMORY,
    Entry,
    Filled,
)
from kbench.report.papers.layout import PAPERS, Measure, Total, paper
from kbench.report.sheet import Sheet

# States of a cell, the best first.
STATES = ("measured", "ended", "failed", NO_ROWS, ABSENT)

_LEGEND = (
    "Cells are those that a paper prints and a run can fill: no ratios, sums, totals, settings, nor"
    " methods of our own; an order of growth counts where its exponent is fitted. Printed sizes of"
    " data sets are counted apart. Ended are"
    " runs that had as many seconds as any run of the table's experiments on the same data; failed"
    " are those that had fewer, or ended by an error. Cells whose runs keep"
    " other memory than the paper's have no rows. The last column is the percentage of"
    " cells with data that are measured or ended at the limit."
)


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

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def with_data(self) -> int:
        """Cells whose method and data set, or a substitute for it, are available."""
        return self.measured + self.ended + self.failed + self.missing

    @property
    def cells(self) -> int:
        return self.with_data + self.absent

    @property
    def percentage(self) -> str:
        """Percentage of the cells with data that are measured or ended at the limit, as text."""
        done = self.measured + self.ended
        return _percentage(done, self.with_data)

    def __str__(self) -> str:
        words = (
            f"{self.measured:,} of {self.with_data:,} cells with data measured"
            + (f", {self.ended:,} ended at the limit" if self.ended else "")
            + f" ({self.percentage})"
        )
        return f"{words}, {self.absent:,} without data" if self.absent else words


def _percentage(n: int, of: int) -> str:
    """Rounded down, so that 100 % means all of them."""
    return f"{math.floor(100 * n / of)} %" if of else "–"


def coverage(tables: Iterable[Filled]) -> Coverage:
    """The counts over some tables; each cell counts once, in its best state over all machines."""
    states: dict[tuple[str, ...], int] = {}
    sizes = set()
    for one in tables:
        for place, measure, entry in one.cells():
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


def sheet(tables: Sequence[Filled]) -> Sheet:
    """A line for each paper, and one for all papers together."""
    own = {name: [one for one in tables if one.table.paper == name] for name in PAPERS}
    lines = {paper(name).title: coverage(filled) for name, filled in own.items() if filled}
    if len(lines) > 1:
        lines["all"] = coverage(tables)
    header = ["paper", "no data", "with data", *STATES[:-1], "%", "sizes"]
    rows = [
        [name, *(f"{n:,}" for n in (one.absent, one.with_data)), *map(str, _open(one))]
        for name, one in lines.items()
    ]
    notes = [_LEGEND]
    absent = [
        f"{paper(name).title}: {', '.join(sorted(paper(name).absent))}"
        for name, filled in own.items()
        if filled and coverage(filled).absent
    ]
    if absent:
        notes.append(f"Absent, without a substitute: {'; '.join(absent)}.")
    lacking = [
        f"{one.table.id}: {', '.join(one.table.lacking)}" for one in tables if one.table.lacking
    ]
    if lacking:
        notes.append(f"Rows of methods that kbench does not have: {'; '.join(lacking)}.")
    return Sheet("Cells measured", 1, header, rows, notes)


def figure_sheet(drawings: Sequence[Drawing]) -> Sheet:
    """A line for each paper's figures, and one for all: panels and lines with data, and drawn."""
    header = ["paper", "figures", "panels", "no data", "with data", "drawn"]
    header += ["lines", "drawn", "ended", "%"]
    names = list(dict.fromkeys(one.figure.paper for one in drawings))
    groups = {paper(name).title: [d for d in drawings if d.figure.paper == name] for name in names}
    if len(groups) > 1:
        groups["all"] = list(drawings)
    rows = []
    for name, group in groups.items():
        panels = sum(len(one.figure.panels) for one in group)
        absent = sum(
            panel.data in paper(one.figure.paper).absent
            for one in group
            for panel in one.figure.panels
        )
        lines, drawn = sum(one.wanted for one in group), sum(one.drawn for one in group)
        ended = sum(one.ended for one in group)
        charts = sum(len(one.charts) for one in group)
        counts = (len(group), panels, absent, panels - absent, charts, lines, drawn, ended)
        share = _percentage(drawn + ended, lines)
        rows.append([name, *(f"{n:,}" for n in counts), share])
    note = (
        "Panels of the papers' figures, and lines of those whose data are available. A panel is"
        " drawn if two of its lines have points, or its only one; one of curves if a line has. A"
        " line through several settings or sizes has at least two points. Ended are lines without"
        " points whose runs ended at a limit that no run of the figure's experiments on the same"
        " data exceeds. The last column is the percentage of lines that are drawn or ended."
    )
    return Sheet("Figures drawn", 1, header, rows, [note])


def _open(one: Coverage) -> tuple[int | str, ...]:
    return one.measured, one.ended, one.failed, one.missing, one.percentage, one.sizes


def _state(entry: Entry) -> int:
    if entry.value is not None or entry.status == NO_POWER:
        return 0
    if entry.status == OTHER_MEMORY:
        return 3
    if entry.status:
        return 1 if entry.ended else 2
    return 3 if entry.absent in ("", NO_ROWS) else 4
