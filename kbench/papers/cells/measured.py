"""Cells whose values are read from runs: means over seeds, and fitted orders of growth."""

from dataclasses import replace

from kbench.papers.cells.cell_notes import (
    clocks,
    differences,
    ended_as,
    limits,
    settings,
    share_of_rows,
)
from kbench.papers.cells.entry import NO_POWER, NOT_MEASURED, Cell, Entry, quantity_of
from kbench.papers.cells.growth import MAX_RESIDUAL, MIN_SIZES, exponent, largest_residual_factor
from kbench.papers.cells.readings import least_seconds
from kbench.papers.printed.causes import cause_of, compared, differs, is_score
from kbench.papers.printed.layout import Measure, paper
from kbench.report.comparisons.tables import Machine, mean_sd


def read_entry(cell: Cell, machine: Machine, measure: Measure) -> Entry:
    """The entry of a cell whose value is read from the runs that its selector finds."""
    wanted = cell.wanted
    assert wanted.data is not None
    in_paper = cell.printed(measure)
    choices = paper(cell.table.paper).data[wanted.data] if cell.only is None else (cell.only,)
    match = cell.runs.find(machine, wanted, choices, cell.table.experiments)
    if match is None:
        return Entry(printed=in_paper)
    line, problem = match.line, match.problem
    share = share_of_rows(cell.table, wanted.data, match)
    entry = Entry(
        printed=in_paper,
        match=match,
        rows=tuple(line.rows),
        stand_in=bool(match.choice.params) or share is not None,
        share=share,
    )
    mean = mean_sd(cell.runs.values(match, measure, wanted.at))
    ended = not line.ok or any(map(line.cut_short, measure.of))
    if mean is None and ended:
        least = least_seconds(line) if measure.trains else None
        notes = limits(line, problem, least)
        return replace(entry, status=ended_as(line), least=least, notes=notes)
    time_notes = limits(line, problem) if ended else clocks(line, problem, measure)
    if mean is None:
        # A cell that the paper does not print stays empty: the method may not have the quantity.
        expected = None if in_paper is None else match
        status = NOT_MEASURED if expected else ""
        return replace(entry, match=expected, status=status, notes=time_notes)
    notes = (*differences(cell.table, wanted, match), *time_notes)
    quantity = quantity_of(measure)
    # A selector without methods reads sizes of the data set, which no setting changes.
    if wanted.methods and (in_paper is not None or is_score(quantity)):
        notes += tuple(filter(None, [settings(cell.table, cell.column, line)]))
    value, sd = mean
    entry = replace(entry, value=value, sd=sd, notes=notes)
    if in_paper is None or not compared(in_paper, quantity):
        return entry
    if not differs(in_paper, value, quantity):
        return replace(entry, compared=True)
    names = cell.row, cell.column, measure.label, problem.dataset, problem.variant or ""
    larger = value * quantity.factor > float(in_paper.text)
    cause = cause_of(cell.table.id, names, larger=larger)
    return replace(entry, compared=True, cause=cause, notes=(*notes, cause.note))


def growth_entry(cell: Cell, machine: Machine, measure: Measure) -> Entry:
    """The exponent of a measure over a column, fitted to the means of the data sets."""
    wanted, runs = cell.wanted, cell.runs
    assert wanted.data is not None
    choices = paper(cell.table.paper).data[wanted.data]
    sought = (runs.find(machine, wanted, (choice,), cell.table.experiments) for choice in choices)
    matches = [match for match in sought if match is not None]
    if not matches:
        return Entry(printed=cell.printed(measure))
    rows = tuple(row for match in matches for row in match.line.rows)
    entry = Entry(printed=cell.printed(measure), match=matches[-1], rows=rows, stand_in=True)
    abscissa = Measure(label=measure.over, of=(measure.over,))
    points: list[tuple[float, float]] = []
    time_notes: list[str] = []
    failed: list[str] = []
    for match in matches:
        size, mean = (mean_sd(runs.values(match, one, {})) for one in (abscissa, measure))
        if size and mean and mean[0] > 0.0:
            points.append((size[0], mean[0]))
            time_notes += clocks(match.line, match.problem, measure)
        if match.line.failures:
            failed += limits(match.line, match.problem)
    if len(points) < MIN_SIZES:
        status = f"{len(points)} of {len(choices)} sizes"
        return replace(entry, status=status, notes=tuple(failed))
    sizes = [size for size, _ in points]
    note = f"over {len(points)} sizes, {min(sizes):,.0f} to {max(sizes):,.0f} rows"
    if largest_residual_factor(points) > MAX_RESIDUAL:
        values = "; ".join(f"{y:,.0f}" if y >= 100 else f"{y:.3g}" for _, y in points)
        note = f"{note}: {', '.join(measure.of)} {values}, which no power of the rows comes near to"
        return replace(entry, status=NO_POWER, notes=(note, *failed))
    return replace(entry, value=exponent(points), notes=(note, *time_notes, *failed))
