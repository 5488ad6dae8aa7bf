"""Cells of the papers' tables as entries: their printed and measured values, and their texts.

A value is read from runs, fitted to runs of several sizes, or computed from other cells.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kbench.papers.cells.cell_notes import (
    differences,
    failure_notes,
    is_timed,
    share_of_rows,
    status_text,
    timing_notes,
)
from kbench.papers.cells.readings import least_seconds
from kbench.papers.cells.runs import Match, Runs, identity, made_by
from kbench.papers.printed.causes import Cause, cause_of, difference, is_score
from kbench.papers.printed.layout import CellPlace, Measure, TableLayout, experiments_of, paper
from kbench.papers.printed.numbers import Printed
from kbench.papers.printed.settings import departures, stated_settings
from kbench.report.comparisons.quantities import QUANTITIES, Quantity, decimals_for
from kbench.report.comparisons.tables import Row, TimingConditions, mean_sd
from kbench.report.statistics.days import days_of
from kbench.report.statistics.growth import MAX_RESIDUAL, MIN_SIZES, fitted_power

# Texts of cells without a value.
ABSENT = "data not present"
LACKING = "no such method"
# There are no runs; a note below the table has the command that makes them.
NO_ROWS = "no rows"
# The runs are ok but did not record the quantity, such as runs of older versions of kbench.
NOT_MEASURED = "not measured"
# The two sides of a ratio were measured on different data sets.
OTHER_DATA = "other data"
# The fit of an order of growth is off by more than `growth.MAX_RESIDUAL`.
NO_POWER = "no power"

SECONDS_IN = {"min": 60.0, "h": 3600.0, "d": 86400.0}  # Unit of printed times -> seconds


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The values of one cell."""

    printed: Printed | None = None  # The paper's value
    # The runs behind the measured value; of a value computed from other cells, the first cell's.
    match: Match | None = None
    # Mean and standard deviation over seeds, in the row's unit.
    value: float | None = None
    sd: float | None = None
    status: str = ""  # If there is no value: how the runs ended, or what is missing
    # Lower bound of training seconds that have no value because runs were stopped.
    lower_bound: float | None = None
    notes: tuple[str, ...] = ()
    # All runs behind the value or the status; for a computed value, the runs of all its cells.
    rows: tuple[Row, ...] = ()
    # Whether the runs used data other than the paper's, such as a subset of its rows.
    stand_in: bool = False
    share: float | None = None  # Our rows / the paper's rows, if both are known and they differ
    absent: str = ""  # Why a printed cell has no runs: `ABSENT`, `LACKING` or `NO_ROWS`
    is_compared: bool = False  # Whether the value is a score that is compared with a printed number
    cause: Cause | None = None  # Why a compared score differs from the printed one, if it does

    @property
    def measured(self) -> bool:
        return self.value is not None or bool(self.status)

    @property
    def is_printed(self) -> bool:
        """Whether the paper prints a value in this cell: the cell is not empty and not a dash."""
        return self.printed is not None and self.printed.text != "-"


@dataclass(frozen=True)
class Group:
    """The printed and measured columns of one measure: `header` with its unit, an entry per row."""

    header: str
    column: str
    measure: Measure
    entries: list[Entry]

    def texts(self, entry: Entry) -> tuple[str, str]:
        """The printed and the measured value as text."""
        unit = entry.printed.unit if entry.printed else ""
        in_paper = "" if entry.printed is None else entry.printed.text
        if unit in SECONDS_IN:
            in_paper = f"{in_paper} {unit}"
        if entry.value is None:
            return in_paper, entry.absent or entry.status
        if self.measure.over:
            return in_paper, f"n^{entry.value:.2f}"
        if unit in SECONDS_IN:
            scale = SECONDS_IN[unit]
            return in_paper, f"{plain_quantity(self.measure).text(entry.value / scale)} {unit}"
        quantity = quantity_of(self.measure)
        decimals = quantity.decimals_of(entry.value)
        text = quantity.text(entry.value, decimals)
        if self.measure.total:
            return in_paper, f"{text} s"  # printed seconds name their unit, too
        is_count = decimals == 0 and entry.sd == 0.0
        if entry.sd is not None and not is_count:
            text += f" ± {quantity.text(entry.sd, decimals)}"
        return in_paper, text


@dataclass(frozen=True)
class Filled:
    """A table on one machine, or without measurements if `machine` is None."""

    table: TableLayout
    machine: TimingConditions | None
    rows: list[str]
    groups: list[Group]

    def cells(self) -> Iterator[tuple[tuple[str, str, str, str], Measure, Entry]]:
        """Place (table, row, column, quantity), measure and entry of every cell."""
        for group in self.groups:
            for row, entry in zip(self.rows, group.entries, strict=True):
                place = self.table.id, row, group.column, group.measure.label
                yield place, group.measure, entry

    def of_own_experiments(self, entry: Entry) -> bool:
        """Whether the table's own experiments made a run behind an entry."""
        experiments = experiments_of(self.table.run)
        return entry.match is not None and made_by(experiments, entry.match.line)


def quantity_of(measure: Measure) -> Quantity:
    """The quantity that says how values of a measure are printed."""
    column = measure.curve
    if len(measure.of) == 1 and measure.per is None:
        column = measure.of[0]
    return QUANTITIES.get(column) or plain_quantity(measure)


def plain_quantity(measure: Measure) -> Quantity:
    """A quantity of three digits, or of whole numbers if the measure counts something."""
    columns = measure.of if measure.per is None else ()
    counts = measure.whole or any(name.startswith("n_") for name in columns)
    return Quantity(measure.label, measure.label, digits=3, decimals=0 if counts else None)


def filled(table: TableLayout, runs: Runs) -> list[Filled]:
    """The table once for each machine that has runs for its printed cells, most cells first.

    Tables after the first have only rows and columns with measured cells. Machines without runs of
    the table's own experiments are left out if another machine has such runs. If no machine has
    runs for printed cells, the machine with the most other cells fills the only table; without any
    runs the table has no measurements. Sizes of data do not count among printed cells.
    """
    forms = [_on_machine(table, runs, machine) for machine in runs.machines]
    printed = [(form, of_printed) for form in forms if (of_printed := _printed_cells(form))]
    if printed:
        printed.sort(key=lambda pair: -len(pair[1]))
        from_own = [form for form, entries in printed if any(map(form.of_own_experiments, entries))]
        first, *others = from_own or [form for form, _ in printed]
        return [first, *(_only_shown(form, lambda entry: entry.measured) for form in others)]
    n_measured = [sum(entry.measured for *_, entry in form.cells()) for form in forms]
    if not any(n_measured):
        return [_on_machine(table, runs, None)]
    return [forms[n_measured.index(max(n_measured))]]


def _on_machine(table: TableLayout, runs: Runs, machine: TimingConditions | None) -> Filled:
    """The table on one machine, without rows and columns that are neither printed nor measured."""
    groups = []
    for column in table.columns:
        for measure in table.measures.values():
            cells = [CellPlace(table, row, column, measure.label) for row in table.rows]
            entries = [entry(cell, runs, machine) for cell in cells]
            groups.append(Group(_header(column, measure, entries), column, measure, entries))
    form = Filled(table, machine, list(table.rows), groups)
    return _only_shown(form, lambda entry: entry.printed is not None or entry.measured)


def _only_shown(form: Filled, shows: Callable[[Entry], bool]) -> Filled:
    """The table without rows and columns that have no cell to show."""
    groups = [group for group in form.groups if any(map(shows, group.entries))]
    indices = [i for i in range(len(form.rows)) if any(shows(group.entries[i]) for group in groups)]
    groups = [replace(group, entries=[group.entries[i] for i in indices]) for group in groups]
    return replace(form, rows=[form.rows[i] for i in indices], groups=groups)


def _printed_cells(form: Filled) -> list[Entry]:
    """The measured entries of printed cells, without sizes of data."""
    return [
        entry
        for _, measure, entry in form.cells()
        if entry.measured and entry.printed is not None and not measure.is_size
    ]


def _header(column: str, measure: Measure, entries: Sequence[Entry]) -> str:
    units = {entry.printed.unit for entry in entries if entry.printed} - {"", "order", *SECONDS_IN}
    names_unit = measure.label == "seconds"
    unit = f", {units.pop()}" if len(units) == 1 and not names_unit else ""
    return f"{column} {measure.label}".strip() + unit


def entry(cell: CellPlace, runs: Runs, machine: TimingConditions | None) -> Entry:
    """The printed and the measured value of one cell; without a machine only the printed one."""
    measure = cell.measure
    if measure.ratio:
        return _ratio_entry(cell, runs, machine)
    if measure.sum:
        addends = [replace(cell, label=label) for label in measure.sum]
        return _sum_entry([entry(addend, runs, machine) for addend in addends])
    result = Entry(printed=cell.printed)
    if machine is not None and measure.is_readable:
        if measure.total:
            result = _total_entry(cell, runs, machine)
        elif cell.wanted.data is not None:
            result = (_growth_entry if measure.over else _read_entry)(cell, runs, machine)
    if not measure.is_readable or result.measured:
        return result
    if cell.absent:
        return replace(result, absent=ABSENT)
    if cell.row in cell.table.lacking:
        return replace(result, absent=LACKING)
    lacks_runs = machine is not None and not measure.is_size and result.is_printed
    return replace(result, absent=NO_ROWS) if lacks_runs else result


def _read_entry(cell: CellPlace, runs: Runs, machine: TimingConditions) -> Entry:
    """The entry of a cell whose value is the mean over the runs that its selector finds."""
    wanted, measure, in_paper = cell.wanted, cell.measure, cell.printed
    match = runs.find(machine, wanted, cell.choices)
    if match is None:
        return Entry(printed=in_paper)
    line, share = match.line, share_of_rows(cell, match)
    entry = Entry(
        printed=in_paper,
        match=match,
        rows=tuple(line.rows),
        stand_in=match.choice.differs or share is not None,
        share=share,
    )
    mean = mean_sd(runs.values(line, measure, wanted.at))
    ended = not line.ok or any(map(line.is_cut_short, measure.of))
    if mean is None and ended:
        bound = least_seconds(line) if measure.is_training_seconds else None
        return replace(
            entry, status=status_text(line), lower_bound=bound, notes=failure_notes(line, bound)
        )
    time_notes = failure_notes(line) if ended else timing_notes(line, measure)
    if is_timed(measure):
        time_notes += runs.days.notes(line.rows)
    if mean is None:
        # A cell that the paper does not print stays empty: the method may lack the quantity.
        expected = None if in_paper is None else match
        status = NOT_MEASURED if expected else ""
        return replace(entry, match=expected, status=status, notes=time_notes)
    notes = (*differences(cell, match), *time_notes)
    quantity = quantity_of(measure)
    # A selector without methods reads sizes of the data set, which no setting changes.
    deviations = departures(stated_settings(cell.table, cell.column, line.method), line)
    if deviations and wanted.methods and (in_paper is not None or is_score(quantity)):
        notes += (f"{line.method}: {'; '.join(deviations)}",)
    value, sd = mean
    entry = replace(entry, value=value, sd=sd, notes=notes)
    if in_paper is None or in_paper.number is None or not is_score(quantity):
        return entry
    cause = None
    if excess := difference(in_paper.number, value, quantity):
        problem = line.problem
        key = cell.row, cell.column, measure.label, problem.dataset, problem.variant or ""
        cause = cause_of(cell.table.id, key, larger=excess > 0.0)
        notes += (f"differs: {cause.why}",)
    return replace(entry, is_compared=True, cause=cause, notes=notes)


def _growth_entry(cell: CellPlace, runs: Runs, machine: TimingConditions) -> Entry:
    """The exponent with which a measure grows with a column, fitted to means on the data sets."""
    measure = cell.measure
    found_runs = (runs.find(machine, cell.wanted, (choice,)) for choice in cell.choices)
    matches = [match for match in found_runs if match is not None]
    if not matches:
        return Entry(printed=cell.printed)
    rows = tuple(row for match in matches for row in match.line.rows)
    entry = Entry(printed=cell.printed, match=matches[-1], rows=rows, stand_in=True)
    abscissa = Measure(label=measure.over, of=(measure.over,))
    points: list[tuple[float, float]] = []
    time_notes: list[str] = []
    failed: list[str] = []
    for line in (match.line for match in matches):
        size, mean = (mean_sd(runs.values(line, axis, {})) for axis in (abscissa, measure))
        if size and mean and mean[0] > 0.0:
            points.append((size[0], mean[0]))
            time_notes += timing_notes(line, measure)
        if line.failures:
            failed += failure_notes(line)
    if len(points) < MIN_SIZES:
        status = f"{len(points)} of {len(cell.choices)} sizes"
        return replace(entry, status=status, notes=tuple(failed))
    sizes = [size for size, _ in points]
    note = f"over {len(points)} sizes, {min(sizes):,.0f} to {max(sizes):,.0f} rows"
    power = fitted_power(points)
    if power is None or power[1] > MAX_RESIDUAL:
        values = "; ".join(f"{y:,.0f}" if y >= 100 else f"{y:.3g}" for _, y in points)
        note = f"{note}: {', '.join(measure.of)} {values}, which no power of the rows comes near to"
        return replace(entry, status=NO_POWER, notes=(note, *failed))
    return replace(entry, value=power[0], notes=(note, *time_notes, *failed))


def _ratio_entry(cell: CellPlace, runs: Runs, machine: TimingConditions | None) -> Entry:
    """The ratios of two printed values, and of two values measured on one problem and machine."""
    measure = cell.measure
    if cell.row == measure.to:
        return Entry()
    numerator = replace(cell, label=measure.ratio)
    denominator = replace(numerator, row=measure.to)
    table, colon, label = (part.strip() for part in measure.to.partition(":"))
    if colon:
        denominator = replace(cell, table=paper(cell.table.paper).tables[table], label=label)
    above, below = (entry(side, runs, machine) for side in (numerator, denominator))
    in_paper = None
    if above.printed and below.printed:
        a, b = above.printed.number, below.printed.number
        if a is not None and b:
            in_paper = Printed(plain_quantity(numerator.measure).text(a / b), note="computed")
    result = Entry(printed=in_paper, rows=_rows_of([above, below]))
    if above.match is None or below.match is None:
        return result
    result = replace(result, match=above.match)
    first, second = above.match.line.problem, below.match.line.problem
    hashes = {first.data_sha256, second.data_sha256} - {None}  # None if loading failed
    if (first.dataset, first.variant) != (second.dataset, second.variant) or len(hashes) > 1:
        return replace(result, status=OTHER_DATA)
    if above.value is None:
        bound = above.lower_bound
        bound = bound / below.value if bound is not None and below.value else None
        return replace(result, status=above.status, lower_bound=bound)
    if not below.value:
        status = f"{below.match.line.method}: {below.status}" if below.status else ""
        return replace(result, status=status, notes=below.notes if status else ())
    # This table shows the notes of a denominator from another table only here.
    notes = below.notes if colon else ()
    if is_timed(numerator.measure) and days_of(above.rows) != days_of(below.rows):
        notes += runs.days.notes(result.rows)
    return replace(result, value=above.value / below.value, notes=notes)


def _sum_entry(addends: Sequence[Entry]) -> Entry:
    """The sum of cells of the same runs, if all cells have a value."""
    numbers = [addend.printed.number for addend in addends if addend.printed]
    printed = [number for number in numbers if number is not None]
    in_paper = None
    if len(printed) == len(addends):
        total = math.fsum(printed)
        in_paper = Printed(f"{total:.{decimals_for(total, 4)}f}", "s", note="computed")
    result = replace(addends[0], printed=in_paper, sd=None, absent="", rows=_rows_of(addends))
    values = [addend.value for addend in addends if addend.value is not None]
    if result.match is None or len(values) < len(addends):
        without_value = [addend for addend in addends if addend.value is None]
        ended = next((addend for addend in without_value if addend.status or addend.notes), Entry())
        return replace(result, value=None, status=ended.status, notes=ended.notes)
    return replace(result, value=math.fsum(values))


def _total_entry(cell: CellPlace, runs: Runs, machine: TimingConditions) -> Entry:
    """The sum over all rows of another table, or the number of known values if some are missing.

    All addends belong to one data set: the one with the most values.
    """
    table = paper(cell.table.paper).tables[cell.wanted.table or ""]
    summand = replace(cell, table=table, label=cell.measure.total)
    by_choice = [
        [entry(replace(summand, row=row, only=choice), runs, machine) for row in table.rows]
        for choice in cell.choices or (None,)
    ]
    addends = max(
        by_choice,
        key=lambda entries: (
            sum(entry.value is not None for entry in entries),
            sum(entry.match is not None for entry in entries),
        ),
    )
    first = next((addend for addend in addends if addend.match), Entry())
    result = Entry(
        printed=cell.printed,
        match=first.match,
        rows=_rows_of(addends),
        stand_in=first.stand_in,
        share=first.share,
    )
    values = [addend.value for addend in addends if addend.value is not None]
    if result.match is None:
        return result
    if len(values) < len(addends):
        lower_bound = None
        if summand.measure.is_training_seconds:
            # Seconds are at least 0, so a setting without rows leaves the lower bound valid.
            lower_bound = math.fsum([*values, *(addend.lower_bound or 0.0 for addend in addends)])
        ended = Counter(note for addend in addends if addend.status for note in addend.notes)
        notes = tuple(f"{note}, {n} of the settings" for note, n in ended.items())
        status = f"{len(values)} of {len(addends)}"
        return replace(result, status=status, lower_bound=lower_bound, notes=notes)
    notes = tuple(dict.fromkeys(note for addend in addends for note in addend.notes))
    return replace(result, value=math.fsum(values), notes=notes)


def _rows_of(entries: Iterable[Entry]) -> tuple[Row, ...]:
    """The runs behind several cells, without duplicates."""
    rows = {identity(row): row for entry in entries for row in entry.rows}
    return tuple(rows.values())
