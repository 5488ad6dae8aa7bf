"""Tables filled with entries: cells read from runs, and cells computed from other cells."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from kbench.papers.cells.entry import (
    ABSENT,
    LACKING,
    NO_ROWS,
    OTHER_DATA,
    SECONDS_IN,
    Cell,
    Entry,
    Filled,
    Group,
    plain_quantity,
)
from kbench.papers.cells.measured import growth_entry, read_entry
from kbench.papers.cells.runs import Runs, identity, most_first
from kbench.papers.printed.layout import Measure, Table, paper
from kbench.papers.printed.numbers import Printed
from kbench.report.comparisons.quantities import decimals_for
from kbench.report.comparisons.tables import Machine, Problem, Row


def filled(table: Table, runs: Runs) -> list[Filled]:
    """The table once for each machine that has runs for its printed cells, most cells first.

    Sizes of data, our own lines that the paper does not print, and runs of other experiments alone
    give no second table. Without runs for printed cells the table is that of the machine with the
    most other cells, and without any runs it has no measurements.
    """
    forms = [_on_machine(table, runs, machine) for machine in runs.machines]
    shown = most_first(forms, lambda form: len(_of_printed_cells(form)))
    own = [form for form in shown if any(map(form.of_own_experiments, _of_printed_cells(form)))]
    others = most_first(forms, lambda form: sum(entry.measured for *_, entry in form.cells()))
    return own or shown or others[:1] or [_on_machine(table, runs, None)]


def entry(cell: Cell, measure: Measure) -> Entry:
    """The printed and the measured value of one cell."""
    if measure.ratio:
        return _ratio(cell, measure)
    if measure.sum:
        return _sum([entry(cell, cell.table.measures[label]) for label in measure.sum])
    made = Entry(printed=cell.printed(measure))
    if cell.machine is not None and measure.reads:
        if measure.total:
            made = _total(cell, measure)
        elif cell.wanted.data is not None:
            made = (growth_entry if measure.over else read_entry)(cell, cell.machine, measure)
    if not measure.reads or made.measured:
        return made
    layout = paper(cell.table.paper)
    if layout.data_of(cell.wanted) in layout.absent:
        return replace(made, absent=ABSENT)
    if cell.row in cell.table.lacking:
        return replace(made, absent=LACKING)
    nobody_ran = cell.machine is not None and not measure.sizes and made.prints
    return replace(made, absent=NO_ROWS) if nobody_ran else made


def _on_machine(table: Table, runs: Runs, machine: Machine | None) -> Filled:
    """The table on one machine, without rows and columns that are neither printed nor measured."""
    groups = []
    for column in table.columns:
        for measure in table.measures.values():
            cells = [Cell(table, runs, machine, row, column) for row in table.rows]
            entries = [entry(cell, measure) for cell in cells]
            if any(map(_shows, entries)):
                groups.append(Group(_header(column, measure, entries), column, measure, entries))
    kept = [i for i in range(len(table.rows)) if any(_shows(group.entries[i]) for group in groups)]
    labels = list(table.rows)
    groups = [replace(group, entries=[group.entries[i] for i in kept]) for group in groups]
    return Filled(table, paper(table.paper), machine, [labels[i] for i in kept], groups)


def _shows(entry: Entry) -> bool:
    return entry.printed is not None or entry.measured


def _of_printed_cells(form: Filled) -> list[Entry]:
    """The measured entries of printed cells but for sizes of data."""
    return [
        entry
        for _, measure, entry in form.cells()
        if entry.measured and entry.printed is not None and not measure.sizes
    ]


def _header(column: str, measure: Measure, entries: Sequence[Entry]) -> str:
    units = {entry.printed.unit for entry in entries if entry.printed} - {"", "order", *SECONDS_IN}
    named = measure.label == "seconds"
    unit = f", {units.pop()}" if len(units) == 1 and not named else ""
    return f"{column} {measure.label}".strip() + unit


def _ratio(cell: Cell, measure: Measure) -> Entry:
    """One value over another, both of the paper or both of one problem on one machine."""
    if cell.row == measure.to:
        return Entry()
    own_measure = cell.table.measures[measure.ratio]
    above = entry(cell, own_measure)
    other_table, colon, denominator = (part.strip() for part in measure.to.partition(":"))
    if colon:
        table = paper(cell.table.paper).tables[other_table]
        below = entry(replace(cell, table=table), table.measures[denominator])
    else:
        below = entry(replace(cell, row=measure.to), own_measure)
    in_paper = None
    if above.printed and below.printed:
        a, b = above.printed.number, below.printed.number
        if a is not None and b:
            in_paper = Printed(plain_quantity(own_measure).text(a / b), note="computed")
    made = Entry(printed=in_paper, rows=_rows_of([above, below]))
    if above.match is None or below.match is None:
        return made
    made = replace(made, match=above.match)
    if not _same(above.match.problem, below.match.problem):
        return replace(made, status=OTHER_DATA)
    if above.value is None:
        least = above.least / below.value if above.least is not None and below.value else None
        return replace(made, status=above.status, least=least)
    if not below.value:
        status = f"{below.match.line.method}: {below.status}" if below.status else ""
        return replace(made, status=status, notes=below.notes if status else ())
    # The notes of a denominator from another table stand nowhere else in this one.
    return replace(made, value=above.value / below.value, notes=below.notes if colon else ())


def _sum(addends: Sequence[Entry]) -> Entry:
    """The sum of cells of the same runs, if all of them have a value."""
    numbers = [one.printed.number for one in addends if one.printed]
    known = [number for number in numbers if number is not None]
    in_paper = None
    if len(known) == len(addends):
        total = math.fsum(known)
        in_paper = Printed(f"{total:.{decimals_for(total, 4)}f}", "s", note="computed")
    made = replace(addends[0], printed=in_paper, sd=None, absent="", rows=_rows_of(addends))
    values = [addend.value for addend in addends if addend.value is not None]
    if made.match is None or len(values) < len(addends):
        without_value = [addend for addend in addends if addend.value is None]
        ended = next((addend for addend in without_value if addend.status or addend.notes), Entry())
        return replace(made, value=None, status=ended.status, notes=ended.notes)
    return replace(made, value=math.fsum(values))


def _total(cell: Cell, measure: Measure) -> Entry:
    """The sum over all rows of another table, or how many have a value if some are missing.

    All addends are of one data set, the one with the most values.
    """
    layout = paper(cell.table.paper)
    table = layout.tables[cell.wanted.table or ""]
    summed = table.measures[measure.total]
    data = layout.data_of(cell.wanted)
    choices = [cell.only] if cell.only or data is None else layout.data[data] or [None]
    by_choice = [
        [entry(replace(cell, table=table, row=row, only=choice), summed) for row in table.rows]
        for choice in choices
    ]
    addends = max(
        by_choice,
        key=lambda entries: (
            sum(entry.value is not None for entry in entries),
            sum(entry.match is not None for entry in entries),
        ),
    )
    first = next((addend for addend in addends if addend.match), Entry())
    made = Entry(
        printed=cell.printed(measure),
        match=first.match,
        rows=_rows_of(addends),
        stand_in=first.stand_in,
        share=first.share,
    )
    values = [addend.value for addend in addends if addend.value is not None]
    if made.match is None:
        return made
    if len(values) < len(addends):
        least = None
        if summed.trains:
            # No seconds are negative, so a setting without rows adds nothing to the lower bound.
            least = math.fsum([*values, *(addend.least or 0.0 for addend in addends)])
        limits = Counter(note for one in addends if one.status for note in one.notes)
        notes = tuple(f"{note}, {n} of the settings" for note, n in limits.items())
        status = f"{len(values)} of {len(addends)}"
        return replace(made, status=status, least=least, notes=notes)
    notes = tuple(dict.fromkeys(note for addend in addends for note in addend.notes))
    return replace(made, value=math.fsum(values), notes=notes)


def _rows_of(entries: Iterable[Entry]) -> tuple[Row, ...]:
    """The runs behind any of several cells, each once."""
    rows = {identity(row): row for entry in entries for row in entry.rows}
    return tuple(rows.values())


def _same(problem: Problem, other: Problem) -> bool:
    """Whether two problems are the same; a run that failed before loading the data has no hash."""
    names = (problem.dataset, problem.variant) == (other.dataset, other.variant)
    hashes = {problem.data_sha256, other.data_sha256} - {None}
    return names and len(hashes) <= 1
