"""Filled tables as sheets and records, numbers of measured cells, and causes of differences.

A cell counts if the paper prints a value in it and a run can fill it. Ratios, sums, totals,
settings and the lines of kbench's own methods do not count; an order of growth counts if kbench
fits an exponent for it. The number of cells therefore does not depend on any row.
"""

import itertools
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.papers.cells.entries import ABSENT, NO_POWER, NO_ROWS, Entry, Filled
from kbench.papers.printed.causes import KINDS, Cause, differing_sentence
from kbench.papers.printed.layout import PAPERS, Measure, legend, paper
from kbench.report.comparisons.cells import describe_machine
from kbench.report.comparisons.tables import TimingConditions
from kbench.report.sheet import Sheet

# States of a cell, the best first: measured on the paper's data, measured on other data, runs that
# ended without a value, no rows, no data. The last state is for sizes of data.
STATES = ("own", "stand_in", "ended", "missing", "absent", "sizes")


@dataclass(frozen=True)
class Coverage:
    """Numbers of cells by their states; sizes of data sets are counted apart."""

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
            return "No cells to count: sums, ratios and sizes are not counted"
        why = {"tried": self.ended, "no rows": self.missing, "no data": self.absent}
        counts = ", ".join(f"{n:,} {name}" for name, n in why.items() if n)
        return (
            f"{self.cells:,} cells: {self.own:,} measured on the paper's data at its size,"
            f" {self.stand_in:,} on stand-ins, {self.not_run:,} without a value"
            + (f" ({counts})" if counts else "")
        )


def coverage(tables: Iterable[Filled]) -> Coverage:
    """The counts over `tables`; each cell counts once, in its best state over all machines."""
    states: dict[tuple[str, ...], int] = {}
    for table in tables:
        for place, measure, entry in table.cells():
            lacks_size = measure.is_size and entry.value is None
            if measure.is_readable and not measure.total and entry.is_printed and not lacks_size:
                states[place] = min(_state(measure, entry), states.get(place, len(STATES)))
    return Coverage(**Counter(STATES[state] for state in states.values()))


def _state(measure: Measure, entry: Entry) -> int:
    if measure.is_size:
        return STATES.index("sizes")
    if entry.value is not None or entry.status == NO_POWER:
        return STATES.index("stand_in" if entry.stand_in else "own")
    if entry.status:
        return STATES.index("ended")
    without_data = entry.absent not in ("", NO_ROWS)
    return STATES.index("absent" if without_data else "missing")


def sheet(filled: Filled, environments: Mapping[str, Any]) -> Sheet:
    """The table with its notes."""
    marks, notes = footnotes(filled)
    texts = [
        [group.header, *(_text(group.texts(entry), entry, marks) for entry in group.entries)]
        for group in filled.groups
    ]
    header, *rows = map(list, zip(["", *filled.rows], *texts, strict=True))
    notes += remarks(filled, environments)
    return Sheet(heading(filled), 1, header, rows, notes, [group.column for group in filled.groups])


def heading(filled: Filled) -> str:
    return f"{filled.table.title}: {filled.table.caption}"


def remarks(filled: Filled, environments: Mapping[str, Any]) -> list[str]:
    """Remarks below a table: its notes, the machines, and the command that makes missing rows."""
    table = filled.table
    lines = list(table.notes)
    if table.why:
        return [*lines, f"Not measured: {table.why}."]
    count = coverage([filled])
    if filled.machine is not None:
        machine = describe_machine(filled.machine, environments)
        lines.append(f"{count}. Measured on {machine}; in the paper {paper(table.paper).machine}.")
    n_foreign = sum(
        entry.printed is not None
        and entry.match is not None
        and not measure.is_size
        and not filled.of_own_experiments(entry)
        for _, measure, entry in filled.cells()
    )
    if n_foreign:
        lines.append(f"{n_foreign} cells have rows that the table's own experiment did not make.")
    compared = [entry.cause for *_, entry in filled.cells() if entry.is_compared]
    if any(compared):
        lines.append(differing_sentence(compared, "; their notes say why"))
    if count.missing:
        subject = "no rows" if filled.machine is None else f"no rows for {count.missing:,} of them"
        lines.append(f'{subject}: run "kbench -m {table.run}"')
    elif filled.machine is None and count.absent:
        lines.append(f'{ABSENT}; with it, run "kbench -m {table.run}"')
    return lines


def footnotes(filled: Filled) -> tuple[dict[str, str], list[str]]:
    """A mapping from notes to marks, and the texts of the notes with their marks."""
    notes = dict.fromkeys(note for *_, entry in filled.cells() for note in notes_of(entry))
    marks = {note: _letter(i) for i, note in enumerate(notes)}
    return marks, [f"[{mark}] {note}" for note, mark in marks.items()]


def notes_of(entry: Entry) -> list[str]:
    """All notes on a cell's printed and measured values."""
    return [*printed_notes(entry), *entry.notes]


def printed_notes(entry: Entry) -> list[str]:
    """The notes on the printed value."""
    in_paper = entry.printed
    notes = []
    if in_paper is not None and in_paper.note and in_paper.note != "computed":
        notes.append(f"paper: {in_paper.note}")
    if in_paper is not None and in_paper.status == "read off":
        notes.append("paper: read off a plot")
    return notes


def cell_records(tables: Iterable[Filled]) -> list[dict[str, Any]]:
    """One record for each cell, with printed and measured value in the row's unit, not rounded."""
    return [_record(form.machine, *key, cell) for form in tables for key, _, cell in form.cells()]


def _record(
    machine: TimingConditions | None, table: str, row: str, column: str, quantity: str, cell: Entry
) -> dict[str, Any]:
    in_paper, match = cell.printed, cell.match
    line = match and match.line
    problem, conditions = line and line.problem, match and machine
    return {
        "table": table,
        "row": row,
        "column": column,
        "quantity": quantity,
        "printed": in_paper and in_paper.text,
        "unit": in_paper and in_paper.unit,
        "printed_status": in_paper and in_paper.status,
        "measured": cell.value,
        "sd": cell.sd,
        "status": cell.absent or cell.status,
        "runs": match and len(cell.rows),
        "ok": match and sum(row["status"] == "ok" for row in cell.rows),
        "dataset": problem and problem.dataset,
        "variant": problem and problem.variant,
        "n_train": problem and problem.n_train,
        "method": line and line.method,
        "params": line and line.params,
        "environment": conditions and conditions.environment,
        "threads": conditions and conditions.threads,
        "keys": match and " ".join(row["key"] for row in cell.rows),
        "notes": "; ".join(notes_of(cell)),
        "cause": "" if cell.cause is None else cell.cause.why,
    }


def _text(texts: tuple[str, str], entry: Entry, marks: Mapping[str, str]) -> str:
    in_paper, measured = texts
    if not in_paper and not measured:
        return ""
    values = f"{in_paper or '–'} | {measured or '–'}" if measured or entry.match else in_paper
    mark_text = " ".join(f"[{marks[note]}]" for note in notes_of(entry))
    return f"{values} {mark_text}".rstrip()


def _letter(i: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    letters = string.ascii_lowercase
    return letters[i] if i < 26 else _letter(i // 26 - 1) + letters[i % 26]


def cell_sheet(tables: Sequence[Filled]) -> Sheet:
    """Numbers of cells: a line for each table, for each paper, and for all papers together."""
    header = ["table", "cells", "paper's data", "stand-ins", "no value", "sizes"]
    rows = []
    for name in PAPERS:
        group = [table for table in tables if table.table.paper == name]
        by_title = itertools.groupby(group, key=lambda table: table.table.title)
        rows += [_count_row(title, list(forms)) for title, forms in by_title]
        rows += [_count_row(f"{paper(name).title}, all", group)] * bool(group)
    rows.append(_count_row("all", tables))
    notes = [legend("counts"), f"All tables: {coverage(tables)}."]
    absent = [
        f"{paper(name).title}: {', '.join(sorted(paper(name).absent))}"
        for name in dict.fromkeys(table.table.paper for table in tables)
        if paper(name).absent
    ]
    if absent:
        notes.append(f"Absent data sets without a substitute: {'; '.join(absent)}.")
    lacking = dict.fromkeys(  # `tables` has a table once for each machine
        f"{table.id}: {', '.join(table.lacking)}"
        for table in (form.table for form in tables)
        if table.lacking
    )
    if lacking:
        notes.append(f"Rows of methods that kbench does not have: {'; '.join(lacking)}.")
    return Sheet("Cells measured", 1, header, [row for row in rows if row[1] != "0"], notes)


def _count_row(name: str, tables: Sequence[Filled]) -> list[str]:
    count = coverage(tables)
    counts = count.cells, count.own, count.stand_in, count.not_run, count.sizes
    return [name, *(f"{n:,}" for n in counts)]


def cause_sheet(tables: Iterable[Filled]) -> Sheet:
    """A line for each cause with its tables and its number of cells.

    A cell counts once, on the machine of the first table that has it.
    """
    compared: dict[tuple[str, ...], tuple[str, Cause | None]] = {}
    for form in tables:
        for place, _, entry in form.cells():
            if entry.is_compared:
                compared.setdefault(place, (form.table.title, entry.cause))
    causes = Counter(cause for _, cause in compared.values() if cause is not None)
    counts = Counter(compared.values())
    kinds = list(KINDS)
    rows = []
    for cause in sorted(causes, key=lambda cause: (kinds.index(cause.kind), -causes[cause])):
        texts = [f"{name} ({n})" for (name, other), n in counts.items() if other == cause]
        n_cells = str(causes[cause])
        rows.append([KINDS[cause.kind], ", ".join(texts), cause.why, cause.shown, n_cells])
    note = differing_sentence([cause for _, cause in compared.values()])
    header = ["kind", "tables", "cause", "what shows it", "cells"]
    return Sheet("Differences from the printed scores", 4, header, rows, [note])
