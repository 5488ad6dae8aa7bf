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
from kbench.papers.cells.runs import Runs, made_by
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
from kbench.papers.printed.settings import stated, unnamed
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.tables import Line, Machine, began, of_seconds

# What is known of a run that failed: no seconds, accuracy or error is negative.
UNKNOWN: Interval = (0.0, math.inf)
# What makes a term differ between equal runs: seconds of training or of predictions, or an error of
# which a quotient is taken.
FIT, PREDICTION, ERROR = "fit", "prediction", "error"
_NOISE = {
    "predict_s": PREDICTION,
    "prediction_cost": PREDICTION,
    "prediction_cost_loop": PREDICTION,
    "rmse": ERROR,
    "mae": ERROR,
    "kernel_error": ERROR,
}


@dataclass(frozen=True, kw_only=True)
class Term:
    """The printed and measured value of one term in the paper's unit, and the runs behind it.

    Without runs it is not `matched`; `absent` says that there are no data to make them with, and
    `stand_in` that the runs are of other data than the paper's, whose rows are `share` times the
    paper's where both numbers are known. `by_experiment` says whether the experiments of its table
    asked for one of the runs, and `starts` when they began. `noise` is what makes it differ between
    equal runs, and `row` what one test row counts for, of an accuracy or an error. `unknown` are
    settings of the runs that the paper does not state.
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
    by_experiment: bool = False
    starts: tuple[float, ...] = ()
    noise: str = ""
    row: float = 0.0
    share: float | None = None
    stand_in: bool = False
    unknown: str = ""


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
    share = share_of_rows(table, cell.data, match)
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
        by_experiment=made_by(table.experiments, match.line),
        starts=tuple(map(began, entry_of_cell.rows)),
        noise=_noise(cell.measure, cell),
        row=_row(cell.measure, match.problem.n_test) * quantity.factor,
        share=share,
        stand_in=entry_of_cell.stand_in or share is not None,
        unknown=_unknown(cell, match.line),
    )


def _unknown(cell: Source, line: Line) -> str:
    """The settings of the runs that neither the paper nor the query states."""
    of = stated(cell.table, cell.column, line.method)
    asked = cell.wanted.all_params
    names = ", ".join(name for name in (unnamed(of, line) if of else ()) if name not in asked)
    return f"the paper does not state {names} of {line.method}" if names else ""


def _row(measure: Measure, n_test: int | None) -> float:
    """What one test row counts for, of accuracies and errors."""
    columns = measure.of if isinstance(measure, Columns) else ()
    if isinstance(measure, CurveValue):
        columns = (measure.curve,)
    return 1.0 / n_test if n_test and columns and {"accuracy", "error"}.issuperset(columns) else 0.0


def _noise(measure: Measure, cell: Source) -> str:
    """What makes a measure differ between equal runs; empty of counts."""
    if isinstance(measure, Total):
        assert cell.wanted.table is not None
        other = paper(cell.table.paper).tables[cell.wanted.table]
        return _noise(other.measures[measure.part], cell)
    if not isinstance(measure, Columns) or isinstance(measure, Growth):
        return ""
    return _NOISE.get(measure.of[0], FIT if all(map(of_seconds, measure.of)) else "")


def _scaled(values: Interval | None, factor: float) -> Interval | None:
    return None if values is None else (values[0] * factor, values[1] * factor)
