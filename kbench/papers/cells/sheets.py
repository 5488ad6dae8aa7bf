"""Filled tables as plain sheets, for every format that is text, and as one record for each cell."""

import string
from collections.abc import Iterable, Mapping
from typing import Any

from kbench.papers.cells.coverage import coverage
from kbench.papers.cells.entry import ABSENT, Entry, Filled, Group
from kbench.papers.printed.causes import UNEXPLAINED, thresholds
from kbench.report.comparisons.cells import describe_machine
from kbench.report.sheet import Sheet


def sheet(filled: Filled, environments: Mapping[str, Any]) -> Sheet:
    """The table with its notes."""
    marks, notes = footnotes(filled)
    texts = [
        [group.header, *(_text(group.words(entry), entry, marks) for entry in group.entries)]
        for group in filled.groups
    ]
    header, *rows = map(list, zip(["", *filled.rows], *texts, strict=True))
    notes += remarks(filled, environments)
    return Sheet(heading(filled), 1, header, rows, notes, [one.column for one in filled.groups])


def heading(filled: Filled) -> str:
    return f"{filled.paper.title} {filled.table.number}: {filled.table.caption}"


def remarks(filled: Filled, environments: Mapping[str, Any]) -> list[str]:
    """Remarks below a table: its own notes, the machines, the command that makes missing rows."""
    table = filled.table
    lines = list(table.notes)
    if table.why:
        return [*lines, f"Not measured: {table.why}."]
    count = coverage([filled])
    if filled.machine is not None:
        machine = describe_machine(filled.machine, environments)
        lines.append(f"{count}, on {machine}; the paper: {filled.paper.machine}.")
    entries = [entry for group in filled.groups for entry in group.entries]
    foreign = sum(
        entry.printed is not None
        and entry.match is not None
        and not measure.sizes
        and not filled.of_own_experiments(entry)
        for _, measure, entry in filled.cells()
    )
    if foreign:
        lines.append(f"{foreign} cells are of rows that the table's own experiment did not make.")
    if differing := [entry.cause for entry in entries if entry.cause is not None]:
        scores = sum(entry.compared for entry in entries)
        unexplained = sum(cause.kind == UNEXPLAINED for cause in differing)
        lines.append(
            f"{len(differing)} of {scores} measured scores differ from the printed ones by more"
            f" than {thresholds()}, which their notes are about; {unexplained} of them are not"
            " explained."
        )
    if count.missing:
        which = "no rows" if filled.machine is None else f"no rows for {count.missing:,} of them"
        lines.append(f'{which}: run "kbench -m {table.run}"')
    elif filled.machine is None and count.absent:
        lines.append(f'{ABSENT}; with it, run "kbench -m {table.run}"')
    return lines


def footnotes(filled: Filled) -> tuple[dict[str, str], list[str]]:
    """Note -> its mark, and the notes behind their marks."""
    notes = dict.fromkeys(
        note for group in filled.groups for entry in group.entries for note in said(entry)
    )
    marks = {note: _letter(i) for i, note in enumerate(notes)}
    return marks, [f"[{mark}] {note}" for note, mark in marks.items()]


def said(entry: Entry) -> list[str]:
    """All notes of a cell, on both its values."""
    return [*said_of_paper(entry), *entry.notes]


def said_of_paper(entry: Entry) -> list[str]:
    """The notes on the printed value."""
    in_paper = entry.printed
    notes = []
    if in_paper is not None and in_paper.note and in_paper.note != "computed":
        notes.append(f"paper: {in_paper.note}")
    if in_paper is not None and in_paper.status == "read off":
        notes.append("paper: read off a plot")
    return notes


def cell_records(tables: Iterable[Filled]) -> list[dict[str, Any]]:
    """One record for each cell, its printed and measured value in the row's unit, not rounded."""
    return [
        _record(filled, group, row, cell)
        for filled in tables
        for group in filled.groups
        for row, cell in zip(filled.rows, group.entries, strict=True)
    ]


def _record(filled: Filled, group: Group, row: str, cell: Entry) -> dict[str, Any]:
    in_paper, match = cell.printed, cell.match
    problem, line, machine = (match.problem, match.line, match.machine) if match else [None] * 3
    return {
        "table": filled.table.id,
        "row": row,
        "column": group.column,
        "quantity": group.measure.label,
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
        "environment": machine and machine.environment,
        "threads": machine and machine.threads,
        "keys": match and " ".join(row["key"] for row in cell.rows),
        "notes": "; ".join(said(cell)),
        "cause": "" if cell.cause is None else cell.cause.why,
    }


def _text(words: tuple[str, str], entry: Entry, marks: Mapping[str, str]) -> str:
    in_paper, measured = words
    if not in_paper and not measured:
        return ""
    both = f"{in_paper or '–'} | {measured or '–'}" if measured or entry.match else in_paper
    noted = " ".join(f"[{marks[note]}]" for note in said(entry))
    return f"{both} {noted}".rstrip()


def _letter(i: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    letters = string.ascii_lowercase
    return letters[i] if i < 26 else _letter(i // 26 - 1) + letters[i % 26]
