"""The terms of a claim: printed and measured values of cells, and the runs behind them.

Every value is an interval, of one number where it was measured. A stopped run takes at least the
CPU seconds that its fit had taken; a failed one might have reached any value.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kbench.papers.cells.cell_notes import share_of_rows
from kbench.papers.cells.entries import entry
from kbench.papers.cells.entry import ABSENT, SECONDS_IN, Cell, quantity_of
from kbench.papers.cells.runs import PREDICTION, TRAINING, Runs, made_by
from kbench.papers.claims.stated import Claim, Interval, Source, addends, source
from kbench.papers.printed.layout import (
    Choice,
    Columns,
    CurveValue,
    Growth,
    Measure,
    Total,
    paper,
    substituted,
)
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.tables import Machine, began, of_seconds

# What is known of a run that failed: no seconds, accuracy or error is negative.
UNKNOWN: Interval = (0.0, math.inf)
# Seconds of a phase below which they vary as those of predictions do. Set by hand: ADMM on cod-rna
# took 1.28 s with one seed and .57 to .61 with four others (rows of `hss_table4`,
# `cause_hss_seeds`).
_SHORT_S = 1.0
# Columns of scores of which a quotient is taken.
_INEXACT = frozenset({"rmse", "mae", "kernel_error"})


@dataclass(frozen=True, kw_only=True)
class Term:
    """The printed and measured value of one term in the paper's unit, and the runs behind it.

    Without runs it is not `matched`; `absent` says that there are no data to make them with. `own`
    says whether the experiments of its table asked for one of the runs, and `starts` when they
    began. `times` is the column that shows by how much times may be off, empty of all else; `short`
    says that they are those of a short phase, and `inexact` that it is an RMSE or a kernel error.
    `row` is what one test row counts for, of an accuracy or an error, and `share` our rows over the
    paper's, if they are not as many.
    """

    printed: Interval | None
    measured: Interval | None = None
    sign: int
    why: str = ""
    matched: bool = False
    absent: bool = False
    data: str = ""
    unit: str = ""
    keys: tuple[str, ...] = ()
    runs: int = 0
    own: bool = False
    starts: tuple[float, ...] = ()
    times: str = ""
    short: bool = False
    inexact: bool = False
    row: float = 0.0
    share: float | None = None


def terms_of(
    claim: Claim, names: Mapping[str, Any], runs: Runs, machine: Machine | None
) -> list[Term]:
    """The terms of one repetition, on the first data set on which all of them have a value."""
    terms = [
        [[source(claim, substituted(cell, names)) for cell in addends(spelt)] for spelt in term]
        for term in claim.terms
    ]
    (data,) = {cell.data for term in terms for cells in term for cell in cells}
    answers = []
    for choice in paper(claim.paper).data[data]:
        values = [
            [_added([_value(cell, runs, machine, choice) for cell in cells]) for cells in term]
            for term in terms
        ]
        answers.append([_best(term) for term in values])
        if all(term.measured is not None for term in answers[-1]):
            break
    # The one that ended the loop, or else that with values, and then with rows, for most terms.
    return max(
        answers,
        key=lambda terms: (
            sum(term.measured is not None for term in terms),
            sum(term.matched for term in terms),
        ),
    )


def _added(terms: Sequence[Term]) -> Term:
    """Several cells added up, as one term."""
    if len(terms) == 1:
        return terms[0]
    lacking = next((term for term in terms if term.measured is None), None)
    return replace(
        lacking or terms[0],
        printed=_sum_of([term.printed for term in terms]),
        measured=_sum_of([term.measured for term in terms]),
        keys=tuple(dict.fromkeys(key for term in terms for key in term.keys)),
        starts=tuple(start for term in terms for start in term.starts),
        short=any(term.short for term in terms),
    )


def _sum_of(values: Sequence[Interval | None]) -> Interval | None:
    """The sum of intervals; None if one of them is not known."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    lows, highs = zip(*known, strict=True)
    return math.fsum(lows), math.fsum(highs)


def _best(terms: Sequence[Term]) -> Term:
    """The best printed and the best measured value of several cells, as one term."""
    if len(terms) == 1:
        return terms[0]
    sign = terms[0].sign
    printed = _best_of([term.printed for term in terms if term.printed is not None], sign)
    absent = next((term for term in terms if not term.matched), None)
    known = [term for term in terms if term.measured is not None]
    if absent is not None or not known:
        return replace(absent or terms[0], printed=printed)
    measured = _best_of([term.measured or UNKNOWN for term in terms], sign)
    best = max(known, key=lambda term: sign * term.measured[0] if term.measured else -math.inf)
    return replace(best, printed=printed, measured=measured)


def _best_of(values: Sequence[Interval], sign: int) -> Interval | None:
    """The interval of the best of several values."""
    if not values:
        return None
    best = max if sign > 0 else min
    lows, highs = zip(*values, strict=True)
    return best(lows), best(highs)


def _value(cell: Source, runs: Runs, machine: Machine | None, choice: Choice) -> Term:
    """The term of one cell, on one of the data sets that stand for the paper's."""
    table = cell.table
    entry_of_cell = entry(Cell(table, runs, machine, cell.row, cell.column, choice), cell.measure)
    quantity = quantity_of(cell.measure)
    in_paper, unit = None, "%" if quantity.title.endswith("%") else ""
    if entry_of_cell.printed is not None:
        unit = "s" if entry_of_cell.printed.unit in SECONDS_IN else entry_of_cell.printed.unit
        in_paper = _scaled(
            entry_of_cell.printed.interval, SECONDS_IN.get(entry_of_cell.printed.unit, 1.0)
        )
    match = entry_of_cell.match
    if match is None:
        missing = f'no rows: "kbench -m {table.run}"'
        why = f"{ABSENT}: {cell.data}" if cell.absent else missing
        return Term(printed=in_paper, sign=quantity.sign, why=why, absent=cell.absent, unit=unit)
    where = title(match.problem)
    why, measured = "", None if entry_of_cell.least is None else (entry_of_cell.least, math.inf)
    if entry_of_cell.value is not None:
        measured = entry_of_cell.value, entry_of_cell.value
    else:
        why = f"{match.line.method} on {where}: {entry_of_cell.status or 'no value'}"
    return Term(
        printed=in_paper,
        measured=_scaled(measured, quantity.factor),
        sign=quantity.sign,
        why=why,
        matched=True,
        data=where,
        unit=unit,
        keys=tuple(row["key"] for row in entry_of_cell.rows),
        runs=entry_of_cell.n or sum(row["status"] == "ok" for row in entry_of_cell.rows),
        own=made_by(table.experiments, match.line),
        starts=tuple(map(began, entry_of_cell.rows)),
        times=_times(cell.measure, cell),
        short=_short(cell.measure, entry_of_cell.value),
        inexact=isinstance(cell.measure, Columns) and _INEXACT.issuperset(cell.measure.of),
        row=_row(cell.measure, match.problem.n_test) * quantity.factor,
        share=share_of_rows(table, cell.data, match.problem),
    )


def _row(measure: Measure, n_test: int | None) -> float:
    """What one test row counts for, of accuracies and errors."""
    columns = measure.of if isinstance(measure, Columns) else ()
    if isinstance(measure, CurveValue):
        columns = (measure.curve,)
    return 1.0 / n_test if n_test and columns and {"accuracy", "error"}.issuperset(columns) else 0.0


def _short(measure: Measure, seconds: float | None) -> bool:
    """Whether a measure is of phases that take less than `_SHORT_S`."""
    phases = isinstance(measure, Columns) and all(
        column.startswith("phases.") for column in measure.of
    )
    return phases and seconds is not None and seconds < _SHORT_S


def _times(measure: Measure, cell: Source) -> str:
    """The column of times that shows by how much a measure may be off; empty of all else.

    Seconds of phases are off as those of the whole training.
    """
    if isinstance(measure, Total):
        assert cell.wanted.table is not None
        other = paper(cell.table.paper).tables[cell.wanted.table]
        return _times(other.measures[measure.part], cell)
    if not isinstance(measure, Columns) or isinstance(measure, Growth):
        return ""
    if PREDICTION.issuperset(measure.of):
        return measure.of[0]
    return TRAINING if all(map(of_seconds, measure.of)) else ""


def _scaled(values: Interval | None, factor: float) -> Interval | None:
    return None if values is None else (values[0] * factor, values[1] * factor)
