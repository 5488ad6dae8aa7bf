"""Cells of a paper's table: the printed value, the measured value, and the notes on them."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kbench.papers.cells.cell_notes import clocks, differences, ended_as, limits, settings
from kbench.papers.cells.growth import LEAST_SIZES, MOST_OFF, exponent, largest_residual_factor
from kbench.papers.cells.runs import (
    Match,
    Runs,
    identity,
    least_seconds,
    made_by,
    most_first,
    numbers_per_row,
)
from kbench.papers.printed.causes import Cause, Place, cause_of, compared, differs, is_score
from kbench.papers.printed.layout import (
    Choice,
    Columns,
    CurveValue,
    Growth,
    Measure,
    Paper,
    Ratio,
    Selector,
    Sum,
    Table,
    Total,
    paper,
)
from kbench.papers.printed.numbers import Printed, printed
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import QUANTITIES, Quantity, decimals_for
from kbench.report.comparisons.tables import Machine, Problem, Row, mean_sd

ABSENT = "data not present"
LACKING = "no such method"
# What a cell without rows says. The command that makes them stands below the table.
NO_ROWS = "no rows"
# Of ok runs that did not record the quantity, such as rows of older versions.
NOT_MEASURED = "not measured"
# Of a ratio whose two sides were measured on different data sets.
OTHER_DATA = "other data"
# Of runs that keep more or fewer numbers than the paper's, by more than `_MOST_OTHER_MEMORY`.
OTHER_MEMORY = "other memory"
# Of an order of growth whose values no power of the sizes comes near to (`growth.MOST_OFF`).
NO_POWER = "no power"

# Largest relative difference of numbers kept at which a run is compared with the paper's: errors
# fall about as fast as memory grows, and values read off a plot are some 10 % off. Set by hand.
_MOST_OTHER_MEMORY = 0.2

# Units of printed times, in seconds.
SECONDS_IN = {"min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One cell.

    Attributes
    ----------
    printed : Printed, optional
        The paper's value.
    match : Match, optional
        The runs behind the measured value, the first ones of a computed value.
    value, sd : float, optional
        Mean and deviation over seeds, in the row's unit.
    n : int
        Number of seeds of that mean; 0 where the value is computed from other cells.
    status : str
        Where there is no value: how the runs ended, or what is missing.
    least : float, optional
        Where training seconds have no value because runs were stopped: what they are at least.
    notes : tuple of str
    rows : tuple of rows
        All runs behind the value or the status: of a computed value those of all its cells.
    ended : bool
        There is no value because runs ended at a limit, one that no run of the table's experiments
        on these data exceeded.
    absent : str
        Why a printed cell has no runs: neither the paper's data set nor a substitute is available,
        kbench has no such method, or nobody has made them.
    compared : bool
        Whether it is a score of which the paper prints a number.
    cause : Cause, optional
        Why such a score differs from the printed one, if it does.
    """

    printed: Printed | None = None
    match: Match | None = None
    value: float | None = None
    sd: float | None = None
    n: int = 0
    status: str = ""
    least: float | None = None
    notes: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    ended: bool = False
    absent: str = ""
    compared: bool = False
    cause: Cause | None = None

    @property
    def measured(self) -> bool:
        return self.value is not None or bool(self.status)

    @property
    def prints(self) -> bool:
        """Whether the paper has a value there, not an empty cell or a dash."""
        return self.printed is not None and self.printed.text != "-"


@dataclass(frozen=True)
class Group:
    """The printed and measured columns of one measure: `header` with its unit, an entry per row."""

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
            return given, entry.absent or entry.status
        if isinstance(self.measure, Growth):
            return given, f"n^{entry.value:.2f}"
        if unit in SECONDS_IN:
            scale = SECONDS_IN[unit]
            return given, f"{_plain(self.measure).text(entry.value / scale)} {unit}"
        quantity = quantity_of(self.measure)
        decimals = quantity.decimals_of(entry.value)
        text = quantity.text(entry.value, decimals)
        if isinstance(self.measure, Total):
            return given, f"{text} s"  # as the printed seconds, which name their unit, too
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

    def cells(self) -> Iterator[tuple[tuple[str, ...], Measure, Entry]]:
        """Place (table, row, column, quantity), measure and entry of every cell."""
        for group in self.groups:
            for row, entry in zip(self.rows, group.entries, strict=True):
                place = self.table.id, row, group.column, group.measure.label
                yield place, group.measure, entry


def filled(table: Table, runs: Runs) -> list[Filled]:
    """The table once for each machine that has runs for its printed cells, most cells first.

    Sizes of data, lines of ours that the paper does not print, and runs of other experiments alone
    are no reason for a second table. Without runs for printed cells it is that of the machine with
    the most other cells, and without any runs one without measurements.
    """
    tables = [_filled(table, runs, machine) for machine in runs.machines]
    if of_paper := most_first(tables, _n_of_paper):
        return [one for one in of_paper if _of_its_experiments(one)] or of_paper
    most = max(tables, key=lambda one: len(_entries(one, sizes=True)), default=None)
    if most is not None and _entries(most, sizes=True):
        return [most]
    return [_filled(table, runs, None)]


def _of_its_experiments(one: Filled) -> bool:
    """Whether the table's experiments made a run that fills a printed cell on this machine."""
    return any(
        entry.match is not None and made_by(one.table.experiments, entry.match.line)
        for entry in _entries(one)
        if entry.printed is not None
    )


def _n_of_paper(one: Filled) -> int:
    """Number of printed cells that have runs."""
    return sum(entry.printed is not None for entry in _entries(one))


def _entries(one: Filled, *, sizes: bool = False) -> list[Entry]:
    """The measured entries of a table; those that are sizes of data only if they are asked for."""
    return [
        entry
        for group in one.groups
        for entry in group.entries
        if entry.measured and (sizes or not group.measure.sizes)
    ]


def quantity_of(measure: Measure) -> Quantity:
    """How the measured values of a measure are printed."""
    if isinstance(measure, CurveValue):
        return QUANTITIES.get(measure.curve) or _plain(measure)
    if isinstance(measure, Columns) and len(measure.of) == 1 and measure.per is None:
        return QUANTITIES.get(measure.of[0]) or _plain(measure)
    return _plain(measure)


@dataclass(frozen=True)
class Cell:
    """Position of a cell: table, row and column, machine, and with `only` a single data set."""

    table: Table
    runs: Runs
    machine: Machine | None
    row: str
    column: str
    only: Choice | None = None

    @property
    def wanted(self) -> Selector:
        """Which runs fill it."""
        return self.table.wanted(self.row, self.column)

    def printed(self, measure: Measure) -> Printed | None:
        """The value that the paper prints there."""
        place = (self.table.printed, self.row, self.column, measure.label)
        return printed(self.table.paper).get(place)


def entry(cell: Cell, measure: Measure) -> Entry:
    """The printed and the measured value of one cell."""
    if isinstance(measure, Ratio):
        return _ratio(cell, measure)
    if isinstance(measure, Sum):
        return _sum([entry(cell, cell.table.measures[label]) for label in measure.parts])
    filled = Entry(printed=cell.printed(measure))
    if cell.machine is not None:
        if isinstance(measure, Total):
            filled = _total(cell, cell.machine, measure)
        elif isinstance(measure, Growth) and cell.wanted.data is not None:
            filled = _growth(cell, cell.machine, measure)
        elif isinstance(measure, (Columns, CurveValue)) and cell.wanted.data is not None:
            filled = _measured(cell, cell.machine, measure)
    if not measure.reads or filled.measured:
        return filled
    of = paper(cell.table.paper)
    if of.data_of(cell.wanted) in of.absent:
        return replace(filled, absent=ABSENT)
    if cell.row in cell.table.lacking:
        return replace(filled, absent=LACKING)
    nobody_ran = cell.machine is not None and not measure.sizes and filled.prints
    return replace(filled, absent=NO_ROWS) if nobody_ran else filled


def _filled(table: Table, runs: Runs, machine: Machine | None) -> Filled:
    groups = []
    for column in table.columns:
        for measure in table.measures.values():
            cells = [Cell(table, runs, machine, row, column) for row in table.rows]
            entries = [entry(one, measure) for one in cells]
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


def _measured(cell: Cell, machine: Machine, measure: Columns | CurveValue) -> Entry:
    """A cell whose value is read from the runs that its selector finds."""
    wanted = cell.wanted
    assert wanted.data is not None
    given = cell.printed(measure)
    choices = paper(cell.table.paper).data[wanted.data] if cell.only is None else (cell.only,)
    match = cell.runs.find(machine, wanted, choices, cell.table.experiments)
    if match is None:
        return Entry(printed=given)
    known = Entry(printed=given, match=match, rows=tuple(match.line.rows))
    memory = wanted.memory.get(wanted.data)
    kept = None if memory is None else numbers_per_row(match.line, match.problem)
    if memory is not None and kept is not None and abs(kept / memory - 1.0) > _MOST_OTHER_MEMORY:
        note = (
            f"{match.line.method} on {title(match.problem)}: the run nearest to the paper's"
            f" {memory:g} numbers a row keeps {kept:.3g}"
        )
        return replace(known, status=OTHER_MEMORY, notes=(note,))
    columns, curve = (measure.of, "") if isinstance(measure, Columns) else ((), measure.curve)
    values = cell.runs.values(match, measure, wanted.at)
    value = mean_sd(values)
    if not match.line.ok or any(map(match.line.cut_short, columns)):
        if value is not None:
            told = (
                *differences(cell.table, wanted, match),
                *limits(match.line, match.problem),
                *filter(None, [settings(cell.table, cell.column, match.line)]),
            )
            return replace(known, value=value[0], sd=value[1], n=len(values), notes=told)
        least = least_seconds(match.line) if measure.trains else None
        status, ended = ended_as(match.line), _at_limit(cell, match)
        told = limits(match.line, match.problem, least)
        return replace(known, status=status, least=least, notes=told, ended=ended)
    timed = clocks(match.line, match.problem, columns, curve)
    if value is None:
        # Cells that the paper does not print stay empty: not every method has every quantity.
        if given is None:
            return replace(known, match=None, notes=timed)
        return replace(known, status=NOT_MEASURED, notes=timed)
    notes = [*differences(cell.table, wanted, match), *timed]
    notes += _better_untuned(cell, measure, match, value[0])
    quantity = quantity_of(measure)
    # Sizes of data sets are those of any method's rows, so its settings are not theirs.
    if wanted.methods and (given is not None or is_score(quantity)):
        notes += filter(None, [settings(cell.table, cell.column, match.line)])
    scored = compared(given, quantity)
    cause = None
    if given is not None and scored and differs(given, value[0], quantity):
        larger = value[0] * quantity.factor > float(given.text)
        cause = cause_of(_place(cell, measure, match), larger=larger)
        notes.append(cause.note)
    return replace(
        known,
        value=value[0],
        sd=value[1],
        n=len(values),
        notes=tuple(notes),
        compared=scored,
        cause=cause,
    )


def _place(cell: Cell, measure: Measure, match: Match) -> Place:
    """The cell and the data of its rows, for the causes of differences."""
    return Place(
        table=cell.table.id,
        row=cell.row,
        column=cell.column,
        quantity=measure.label,
        dataset=match.problem.dataset,
        variant=match.problem.variant,
    )


def _better_untuned(cell: Cell, measure: Measure, match: Match, value: float) -> list[str]:
    """A note where tuned parameters lose to others that rows have of the same method and sizes.

    By more than half a point of accuracy, the difference at which a cell must have a cause.
    """
    if measure.label != "accuracy" or not all(row.get("tuned") for row in match.line.ok):
        return []
    best = max(
        (
            row["accuracy"]
            for row in cell.runs.matching(match.machine, cell.wanted, match.choice)
            if row["status"] == "ok" and not row.get("tuned") and row["accuracy"] is not None
        ),
        default=0.0,
    )
    if best <= value + 0.005:
        return []
    where = f"{match.line.method} on {title(match.problem)}"
    return [f"{where}: other parameters have {100 * best:.2f} %, which held-out rows do not choose"]


def _at_limit(cell: Cell, match: Match) -> bool:
    return cell.runs.at_limit(match.line, match.problem, match.machine, cell.table.experiments)


def _header(column: str, measure: Measure, entries: Sequence[Entry]) -> str:
    units = {one.printed.unit for one in entries if one.printed} - {"", "order", *SECONDS_IN}
    named = measure.label == "seconds"
    unit = f", {units.pop()}" if len(units) == 1 and not named else ""
    return f"{column} {measure.label}".strip() + unit


def _ratio(cell: Cell, measure: Ratio) -> Entry:
    """One value over another, of the paper and of one problem on one machine."""
    if cell.row == measure.row:
        return Entry()
    own = entry(cell, cell.table.measures[measure.numerator])
    if measure.table:
        of = paper(cell.table.paper).tables[measure.table]
        base = entry(replace(cell, table=of), of.measures[measure.denominator])
    else:
        base = entry(replace(cell, row=measure.row), cell.table.measures[measure.numerator])
    given = None
    if own.printed and base.printed:
        a, b = own.printed.number, base.printed.number
        if a is not None and b:
            text = _plain(cell.table.measures[measure.numerator]).text(a / b)
            given = Printed(text, status="printed", note="computed")
    known = Entry(printed=given, rows=_rows_of([own, base]))
    if own.match is None or base.match is None:
        return known
    if not _same(own.match.problem, base.match.problem):
        return replace(known, match=own.match, status=OTHER_DATA)
    if own.value is None:
        least = own.least / base.value if own.least is not None and base.value else None
        return replace(known, match=own.match, status=own.status, least=least)
    if not base.value:
        status = f"{base.match.line.method}: {base.status}" if base.status else ""
        notes = base.notes if base.status else ()
        return replace(known, match=own.match, status=status, notes=notes)
    # What there is to know of seconds of another table stands nowhere else in this one.
    notes = base.notes if measure.table else ()
    return replace(known, match=own.match, value=own.value / base.value, notes=notes)


def _sum(parts: Sequence[Entry]) -> Entry:
    """The sum of cells of the same runs, where all of them have a value."""
    numbers = [part.printed.number for part in parts if part.printed]
    given = None
    if len(numbers) == len(parts) and None not in numbers:
        total = math.fsum(number for number in numbers if number is not None)
        given = Printed(f"{total:.{decimals_for(total, 4)}f}", "s", note="computed")
    known = Entry(
        printed=given,
        match=parts[0].match,
        rows=_rows_of(parts),
    )
    values = [part.value for part in parts if part.value is not None]
    if known.match is None or len(values) < len(parts):
        lacking = [part for part in parts if part.value is None]
        ended = next((part for part in lacking if part.status or part.notes), Entry())
        return replace(known, status=ended.status, notes=ended.notes)
    return replace(known, value=math.fsum(values), notes=parts[0].notes)


def _rows_of(parts: Iterable[Entry]) -> tuple[Row, ...]:
    """The runs behind any of several cells, each once."""
    rows = {identity(row): row for part in parts for row in part.rows}
    return tuple(rows.values())


def _same(one: Problem, other: Problem) -> bool:
    """Whether two problems are the same; a run that failed before loading the data has no sizes."""
    names = (one.dataset, one.variant) == (other.dataset, other.variant)
    hashes = {one.data_sha256, other.data_sha256} - {None}
    return names and len(hashes) <= 1


def _total(cell: Cell, machine: Machine, measure: Total) -> Entry:
    """The sum over all rows of another table, or how many have a value where some are missing.

    All parts are of one data set, the one with the most values.
    """
    wanted = cell.wanted
    assert wanted.table is not None
    layout = paper(cell.table.paper)
    of = layout.tables[wanted.table]
    own = of.measures[measure.part]
    data = layout.data_of(wanted)
    choices: Sequence[Choice | None] = (cell.only,)
    if cell.only is None and data is not None:
        choices = layout.data[data] or choices
    tried = [
        [entry(replace(cell, table=of, row=row, only=one), own) for row in of.rows]
        for one in choices
    ]
    parts = max(
        tried,
        key=lambda one: (
            sum(part.value is not None for part in one),
            sum(part.match is not None for part in one),
        ),
    )
    known = Entry(
        printed=cell.printed(measure),
        match=next((part.match for part in parts if part.match), None),
        rows=_rows_of(parts),
    )
    values = [part.value for part in parts if part.value is not None]
    if known.match is None:
        return known
    if len(values) < len(parts):
        ended = _counted([part for part in parts if part.status])
        status = f"{len(values)} of {len(parts)}"
        least = None
        if own.trains:
            # No seconds are negative, so a setting without rows adds nothing to the least sum.
            least = math.fsum([*values, *(part.least or 0.0 for part in parts)])
        all_ended = all(part.ended or part.value is not None for part in parts)
        return replace(known, status=status, least=least, notes=ended, ended=all_ended)
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return replace(known, value=math.fsum(values), notes=notes)


def _counted(failed: Sequence[Entry]) -> tuple[str, ...]:
    """The limits at which cells ended, each with the number of such cells."""
    counts = Counter(note for one in failed for note in one.notes)
    return tuple(f"{note}, {n} of the settings" for note, n in counts.items())


def _growth(cell: Cell, machine: Machine, measure: Growth) -> Entry:
    """The exponent of a measure over a column, fitted to the means of the data sets."""
    wanted = cell.wanted
    assert wanted.data is not None
    runs = cell.runs
    choices = paper(cell.table.paper).data[wanted.data]
    of = cell.table.experiments
    met = [match for one in choices if (match := runs.find(machine, wanted, (one,), of))]
    given = cell.printed(measure)
    if not met:
        return Entry(printed=given)
    rows = tuple(row for match in met for row in match.line.rows)
    known = Entry(printed=given, match=met[-1], rows=rows)
    over = Columns(label=measure.over, of=(measure.over,))
    read = [(runs.value(one, over, {}), one) for one in met if one.line.ok]
    fitted = [
        (match, size[0], value[0])
        for size, match in read
        if size and (value := runs.value(match, measure, wanted.at)) and value[0] > 0.0
    ]
    points = [(size, value) for _, size, value in fitted]
    failed = tuple(
        note for match in met if match.line.failures for note in limits(match.line, match.problem)
    )
    if len(points) < LEAST_SIZES:
        status = f"{len(points)} of {len(choices)} sizes"
        ended = len(met) == len(choices) and all(one.line.ok or _at_limit(cell, one) for one in met)
        return replace(known, status=status, notes=failed, ended=ended)
    least, most = (end(size for size, _ in points) for end in (min, max))
    timed = [said for one, *_ in fitted for said in clocks(one.line, one.problem, measure.of)]
    note = f"over {len(points)} sizes, {least:,.0f} to {most:,.0f} rows"
    if largest_residual_factor(points) > MOST_OFF:
        values = "; ".join(f"{y:,.0f}" if y >= 100 else f"{y:.3g}" for _, y in points)
        note = f"{note}: {', '.join(measure.of)} {values}, which no power of the rows comes near to"
        return replace(known, status=NO_POWER, notes=(note, *failed))
    return replace(known, value=exponent(points), notes=(note, *timed, *failed))


def _plain(measure: Measure) -> Quantity:
    whole = isinstance(measure, CurveValue) and measure.whole
    if isinstance(measure, Columns) and measure.per is None:
        whole = any(name.startswith("n_") for name in measure.of)
    return Quantity(measure.label, measure.label, digits=3, decimals=0 if whole else None)
