"""Cells of a paper's table: the printed value, the measured one, and what must be said of them."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kbench.report.papers.cell_notes import differences, limits
from kbench.report.papers.growth import exponent
from kbench.report.papers.layout import Choice, Measure, Paper, Selector, Table, paper
from kbench.report.papers.printed import Printed, printed
from kbench.report.papers.runs import Found, Identity, Runs
from kbench.report.quantities import QUANTITIES, Quantity, decimals_for
from kbench.report.tables import Machine, Problem

ABSENT = "data not present"

# Seconds in the units of printed times.
SECONDS_IN = {"min": 60.0, "h": 3600.0, "d": 86400.0}

# Through fewer points a line tells nothing of how straight it is.
LEAST_SIZES = 3


@dataclass(frozen=True)
class Entry:
    """One cell.

    Attributes
    ----------
    printed : Printed, optional
        What the paper has there.
    found : Found, optional
        The runs behind the measured value.
    value, sd : float, optional
        Mean and deviation over seeds, in the row's unit.
    status : str
        In place of a value: how the runs ended, or what is missing.
    notes : tuple of str
    considered : frozenset of identities
        Every row that the cell depends on.
    absent : bool
        Without rows, since neither the paper's data nor any that stand for them are at hand.
    """

    printed: Printed | None
    found: Found | None = None
    value: float | None = None
    sd: float | None = None
    status: str = ""
    notes: tuple[str, ...] = ()
    considered: frozenset[Identity] = frozenset()
    absent: bool = False

    @property
    def measured(self) -> bool:
        return self.value is not None or bool(self.status)


@dataclass(frozen=True)
class Group:
    """The columns of one measure: `header` with its unit, an entry for each row."""

    header: str
    column: str
    measure: Measure
    entries: list[Entry]

    def words(self, entry: Entry) -> tuple[str, str]:
        """The printed and the measured value as text."""
        unit = entry.printed.unit if entry.printed else ""
        given = "" if entry.printed is None else entry.printed.text
        if unit in SECONDS_IN:
            given = f"{given} {unit}"
        if entry.value is None:
            return given, ABSENT if entry.absent else entry.status
        if self.measure.over:
            return given, f"n^{entry.value:.2f}"
        if unit in SECONDS_IN:
            scale = SECONDS_IN[unit]
            return given, f"{_plain(self.measure).text(entry.value / scale)} {unit}"
        quantity = quantity_of(self.measure)
        decimals = quantity.decimals_of(entry.value)
        text = quantity.text(entry.value, decimals)
        counted = decimals == 0 and entry.sd == 0.0
        if entry.sd is not None and not counted:
            text += f" ± {quantity.text(entry.sd, decimals)}"
        return given, text


@dataclass(frozen=True)
class Filled:
    """A table on one machine, or without measurements where `machine` is None."""

    table: Table
    paper: Paper
    machine: Machine | None
    rows: list[str]
    groups: list[Group]


def filled(table: Table, runs: Runs) -> list[Filled]:
    """The table once for each machine that has runs for it, once without where none has."""
    tables = [_filled(table, runs, machine) for machine in runs.machines]
    return [
        one for one in tables if any(e.measured for group in one.groups for e in group.entries)
    ] or [_filled(table, runs, None)]


def quantity_of(measure: Measure) -> Quantity:
    """How the measured values of a measure are printed."""
    names = (measure.curve,) if measure.curve else measure.of
    if len(names) == 1 and names[0] in QUANTITIES and measure.per is None:
        return QUANTITIES[names[0]]
    return _plain(measure)


def entry(
    table: Table,
    runs: Runs,
    machine: Machine | None,
    row: str,
    column: str,
    measure: Measure,
    only: Choice | None = None,
) -> Entry:
    """One cell of a table on a machine, of one data set alone where `only` says so."""
    if measure.ratio is not None and measure.to is not None:
        return _ratio(table, runs, machine, row, column, measure.ratio, measure.to)
    if measure.sum:
        parts = [table.measures[label] for label in measure.sum]
        return _sum([entry(table, runs, machine, row, column, one, only) for one in parts])
    wanted = table.rows[row] & table.columns[column]
    given = printed(table.paper).get((table.printed, row, column, measure.label))
    one = Entry(given)
    if machine is not None and measure.total is not None:
        one = _total(given, table, runs, machine, wanted, column, measure.total, only)
    elif machine is not None and measure.over is not None and wanted.data is not None:
        one = _growth(given, table, runs, machine, wanted, measure, measure.over)
    elif machine is not None and measure.reads and wanted.data is not None:
        one = _measured(given, table, runs, machine, wanted, measure, only)
    of = paper(table.paper)
    absent = of.data_of(wanted) in of.absent and measure.reads and not one.measured
    return replace(one, absent=True) if absent else one


def _filled(table: Table, runs: Runs, machine: Machine | None) -> Filled:
    groups = []
    for column in table.columns:
        for measure in table.measures.values():
            entries = [entry(table, runs, machine, row, column, measure) for row in table.rows]
            if any(one.printed or one.measured for one in entries):
                groups.append(Group(_header(column, measure, entries), column, measure, entries))
    shown = [
        any(group.entries[i].printed or group.entries[i].measured for group in groups)
        for i in range(len(table.rows))
    ]
    rows = [row for row, keep in zip(table.rows, shown, strict=True) if keep]
    groups = [
        Group(
            group.header,
            group.column,
            group.measure,
            [one for one, keep in zip(group.entries, shown, strict=True) if keep],
        )
        for group in groups
    ]
    return Filled(table, paper(table.paper), machine, rows, groups)


def _measured(
    given: Printed | None,
    table: Table,
    runs: Runs,
    machine: Machine,
    wanted: Selector,
    measure: Measure,
    only: Choice | None,
) -> Entry:
    """A cell of runs of its own."""
    assert wanted.data is not None
    choices = paper(table.paper).data[wanted.data] if only is None else (only,)
    found = runs.find(machine, wanted, choices)
    if found is None:
        return Entry(given)
    if not found.line.ok:
        status = ", ".join(sorted(found.line.failures))
        said = limits(found.line, found.problem)
        return Entry(given, found, None, None, status, said, found.considered)
    value = runs.value(found, measure, wanted.at)
    if value is None:
        return Entry(given, found, considered=found.considered)
    notes = tuple(differences(table, wanted, found))
    return Entry(given, found, value[0], value[1], "", notes, found.considered)


def _header(column: str, measure: Measure, entries: Sequence[Entry]) -> str:
    units = {one.printed.unit for one in entries if one.printed} - {"", "order", *SECONDS_IN}
    named = measure.label == "seconds"
    unit = f", {units.pop()}" if len(units) == 1 and not named else ""
    return f"{column} {measure.label}".strip() + unit


def _ratio(
    table: Table,
    runs: Runs,
    machine: Machine | None,
    row: str,
    column: str,
    label: str,
    to: str,
) -> Entry:
    """One value over another, of the paper and of one problem on one machine."""
    if row == to:
        return Entry(None)
    measure = table.measures[label]
    own = entry(table, runs, machine, row, column, measure)
    name, _, other = (part.strip() for part in to.partition(":"))
    if other:
        of = paper(table.paper).tables[name]
        base = entry(of, runs, machine, row, column, of.measures[other])
    else:
        base = entry(table, runs, machine, to, column, measure)
    given = None
    if own.printed and base.printed:
        a, b = own.printed.number, base.printed.number
        if a is not None and b:
            given = Printed(_plain(measure).text(a / b), status="printed", note="computed")
    considered = own.considered | base.considered
    if own.value is None or own.found is None or base.found is None:
        return Entry(given, considered=considered)
    if not _same(own.found.problem, base.found.problem):
        return Entry(given, considered=considered)
    if not base.value:
        status = f"{base.found.line.method}: {base.status}" if base.status else ""
        notes = base.notes if base.status else ()
        return Entry(given, own.found, status=status, notes=notes, considered=considered)
    return Entry(given, own.found, own.value / base.value, considered=considered)


def _sum(parts: Sequence[Entry]) -> Entry:
    """The sum of cells of the same runs, where all of them have a value."""
    considered = frozenset().union(*(part.considered for part in parts))
    numbers = [part.printed.number for part in parts if part.printed]
    given = None
    if len(numbers) == len(parts) and None not in numbers:
        total = math.fsum(number for number in numbers if number is not None)
        given = Printed(f"{total:.{decimals_for(total, 4)}f}", "s", note="computed")
    found = parts[0].found
    values = [part.value for part in parts if part.value is not None]
    if found is None or len(values) < len(parts):
        ended = next((part for part in parts if part.status), Entry(given))
        return Entry(given, found, None, None, ended.status, ended.notes, considered)
    return Entry(given, found, math.fsum(values), notes=parts[0].notes, considered=considered)


def _same(one: Problem, other: Problem) -> bool:
    """A run that failed before the data were loaded knows no sizes."""
    names = (one.dataset, one.variant) == (other.dataset, other.variant)
    hashes = {one.data_sha256, other.data_sha256} - {None}
    return names and len(hashes) <= 1


def _total(
    given: Printed | None,
    table: Table,
    runs: Runs,
    machine: Machine,
    wanted: Selector,
    column: str,
    label: str,
    only: Choice | None,
) -> Entry:
    """The sum over all rows of another table; how many there are where some are missing."""
    assert wanted.table is not None
    of = paper(table.paper).tables[wanted.table]
    parts = [entry(of, runs, machine, row, column, of.measures[label], only) for row in of.rows]
    considered = frozenset().union(*(part.considered for part in parts))
    values = [part.value for part in parts if part.value is not None]
    found = next((part.found for part in parts if part.found), None)
    if found is None:
        return Entry(given, considered=considered)
    if len(values) < len(parts):
        status = f"{len(values)} of {len(parts)}"
        ended = _counted([part for part in parts if part.status])
        return Entry(given, found, None, None, status, ended, considered)
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Entry(given, found, math.fsum(values), None, "", notes, considered)


def _counted(failed: Sequence[Entry]) -> tuple[str, ...]:
    """The limits that cells met, each with the number of them."""
    counts = Counter(note for one in failed for note in one.notes)
    return tuple(f"{note}, {n} of the settings" for note, n in counts.items())


def _growth(
    given: Printed | None,
    table: Table,
    runs: Runs,
    machine: Machine,
    wanted: Selector,
    measure: Measure,
    over: str,
) -> Entry:
    """The exponent of a measure over a column, of the data sets' means."""
    assert wanted.data is not None
    choices = paper(table.paper).data[wanted.data]
    met = [found for one in choices if (found := runs.find(machine, wanted, (one,)))]
    if not met:
        return Entry(given)
    considered = frozenset().union(*(found.considered for found in met))
    read = [(runs.value(one, Measure(over, (over,)), {}), one) for one in met if one.line.ok]
    points = [
        (size[0], value[0])
        for size, found in read
        if size and (value := runs.value(found, measure, wanted.at)) and value[0] > 0.0
    ]
    failed = [
        note for found in met if not found.line.ok for note in limits(found.line, found.problem)
    ]
    if len(points) < LEAST_SIZES:
        status = f"{len(points)} of {len(choices)} sizes"
        return Entry(given, met[-1], status=status, notes=tuple(failed), considered=considered)
    slope = exponent(points)
    least, most = (end(size for size, _ in points) for end in (min, max))
    note = f"over {len(points)} sizes, {least:,.0f} to {most:,.0f} rows"
    return Entry(given, met[-1], slope, None, "", (note, *failed), considered)


def _plain(measure: Measure) -> Quantity:
    count = measure.whole or any(name.startswith("n_") for name in measure.of)
    return Quantity(measure.label, measure.label, digits=3, decimals=0 if count else None)
