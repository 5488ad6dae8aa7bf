"""Cells whose values are read from runs: means over seeds, and fitted orders of growth."""

from dataclasses import replace

from kbench.papers.cells.cell_notes import (
    clocks,
    differences,
    ended_as,
    limits,
    settings,
    stand_in,
)
from kbench.papers.cells.entry import (
    NO_POWER,
    NOT_MEASURED,
    OTHER_MEMORY,
    Cell,
    Entry,
    quantity_of,
)
from kbench.papers.cells.growth import MAX_RESIDUAL, MIN_SIZES, exponent, largest_residual_factor
from kbench.papers.cells.readings import least_seconds
from kbench.papers.cells.runs import Match, numbers_per_row
from kbench.papers.printed.causes import Place, cause_of, compared, differs, is_score
from kbench.papers.printed.layout import Columns, CurveValue, Growth, paper
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.tables import Machine, mean_sd

# Largest relative difference between the numbers kept for each row by a run and by the paper's at
# which the two are compared. Errors fall about as fast as memory grows, and values read off a plot
# are some 10 % off. Set by hand.
MAX_MEMORY_DIFFERENCE = 0.2


def read_entry(cell: Cell, machine: Machine, measure: Columns | CurveValue) -> Entry:
    """The entry of a cell whose value is read from the runs that its selector finds."""
    wanted = cell.wanted
    assert wanted.data is not None
    in_paper = cell.printed(measure)
    choices = paper(cell.table.paper).data[wanted.data] if cell.only is None else (cell.only,)
    match = cell.runs.find(machine, wanted, choices, cell.table.experiments)
    if match is None:
        return Entry(printed=in_paper)
    line, problem = match.line, match.problem
    other = stand_in(cell.table, wanted.data, match)
    entry = Entry(printed=in_paper, match=match, rows=tuple(line.rows), stand_in=other)
    if note := _other_memory(wanted.memory.get(wanted.data), match):
        return replace(entry, status=OTHER_MEMORY, notes=(note,))
    columns, curve = (measure.of, "") if isinstance(measure, Columns) else ((), measure.curve)
    values = cell.runs.values(match, measure, wanted.at)
    mean = mean_sd(values)
    departures = settings(cell.table, cell.column, line)
    if not line.ok or any(map(line.cut_short, columns)):
        if mean is not None:
            notes = [*differences(cell.table, wanted, match), *limits(line, problem)]
            notes += filter(None, [departures])
            return replace(entry, value=mean[0], sd=mean[1], n=len(values), notes=tuple(notes))
        least = least_seconds(line) if measure.trains else None
        return replace(
            entry,
            status=ended_as(line),
            least=least,
            notes=limits(line, problem, least),
        )
    notes_on_time = clocks(line, problem, columns, curve)
    if mean is None:
        # Cells that the paper does not print stay empty: not every method has every quantity.
        if in_paper is None:
            return replace(entry, match=None, notes=notes_on_time)
        return replace(entry, status=NOT_MEASURED, notes=notes_on_time)
    value, sd = mean
    notes = [*differences(cell.table, wanted, match), *notes_on_time]
    notes += _better_untuned(cell, measure, match, value)
    quantity = quantity_of(measure)
    # Sizes of data sets are read from rows of any method, whose settings do not matter.
    if wanted.methods and (in_paper is not None or is_score(quantity)):
        notes += filter(None, [departures])
    is_compared = compared(in_paper, quantity)
    cause = None
    if in_paper is not None and is_compared and differs(in_paper, value, quantity):
        place = Place(
            table=cell.table.id,
            row=cell.row,
            column=cell.column,
            quantity=measure.label,
            dataset=problem.dataset,
            variant=problem.variant,
        )
        cause = cause_of(place, larger=value * quantity.factor > float(in_paper.text))
        notes.append(cause.note)
    return replace(
        entry,
        value=value,
        sd=sd,
        n=len(values),
        notes=tuple(notes),
        compared=is_compared,
        cause=cause,
    )


def growth_entry(cell: Cell, machine: Machine, measure: Growth) -> Entry:
    """The exponent of a measure over a column, fitted to the means of the data sets."""
    wanted, runs = cell.wanted, cell.runs
    assert wanted.data is not None
    choices = paper(cell.table.paper).data[wanted.data]
    matches = [
        match
        for choice in choices
        if (match := runs.find(machine, wanted, (choice,), cell.table.experiments))
    ]
    in_paper = cell.printed(measure)
    if not matches:
        return Entry(printed=in_paper)
    rows = tuple(row for match in matches for row in match.line.rows)
    entry = Entry(printed=in_paper, match=matches[-1], rows=rows, stand_in=True)
    abscissa = Columns(label=measure.over, of=(measure.over,))
    fitted = [
        (match, size[0], mean[0])
        for match in matches
        if match.line.ok
        and (size := runs.value(match, abscissa, {}))
        and (mean := runs.value(match, measure, wanted.at))
        and mean[0] > 0.0
    ]
    points = [(size, value) for _, size, value in fitted]
    failed = tuple(
        note
        for match in matches
        if match.line.failures
        for note in limits(match.line, match.problem)
    )
    if len(points) < MIN_SIZES:
        status = f"{len(points)} of {len(choices)} sizes"
        return replace(entry, status=status, notes=failed)
    smallest, largest = (end(size for size, _ in points) for end in (min, max))
    note = f"over {len(points)} sizes, {smallest:,.0f} to {largest:,.0f} rows"
    if largest_residual_factor(points) > MAX_RESIDUAL:
        values = "; ".join(f"{y:,.0f}" if y >= 100 else f"{y:.3g}" for _, y in points)
        note = f"{note}: {', '.join(measure.of)} {values}, which no power of the rows comes near to"
        return replace(entry, status=NO_POWER, notes=(note, *failed))
    on_time = [note for m, *_ in fitted for note in clocks(m.line, m.problem, measure.of)]
    return replace(entry, value=exponent(points), notes=(note, *on_time, *failed))


def _other_memory(memory: float | None, match: Match) -> str:
    """A note if the runs keep other numbers for each row than the paper's `memory`; else empty."""
    kept = None if memory is None else numbers_per_row(match.line, match.problem)
    if memory is None or kept is None or abs(kept / memory - 1.0) <= MAX_MEMORY_DIFFERENCE:
        return ""
    return (
        f"{match.line.method} on {title(match.problem)}: the run nearest to the paper's"
        f" {memory:g} numbers a row keeps {kept:.3g}"
    )


def _better_untuned(
    cell: Cell, measure: Columns | CurveValue, match: Match, value: float
) -> list[str]:
    """A note if tuned parameters lose to untuned ones of the same method and sizes.

    They lose by more than half a point of accuracy, the difference at which a cell needs a cause.
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
