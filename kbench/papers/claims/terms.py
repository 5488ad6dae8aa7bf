"""The terms of a claim: printed and measured values of cells, and the runs behind them.

Every value is an interval, whose ends are equal if the value was measured. A stopped run would take
at least the CPU seconds that its fit had taken; a failed run might have reached any value.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kbench.papers.cells.entries import SECONDS_IN, entry, quantity_of
from kbench.papers.cells.runs import Runs
from kbench.papers.claims.stated import Interval, Terms, combined_interval
from kbench.papers.printed.causes import MAX_RELATIVE
from kbench.papers.printed.layout import CellPlace, Choice, paper
from kbench.papers.printed.settings import stated_settings, unnamed
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.tables import LearningTask, Row, TimingConditions, is_seconds
from kbench.report.statistics.compare import CHANCE_ROWS

# The interval of a failed run, which might have had any seconds, accuracy or error above 0.
UNKNOWN: Interval = (0.0, math.inf)
# The largest factor by which seconds of equal runs differed: 46 runs of LDKL and MEKA were repeated
# a day later on the same idle machine. A smaller factor decides more claims, some of them wrongly.
NOISE_OF_SECONDS = 1.88
# Largest factor by which two values of RMSE or of a kernel error may differ if they count as equal.
NOISE_OF_ERRORS = 1.0 + MAX_RELATIVE

_TIMES = ("prediction_cost", "prediction_cost_loop")
_ERRORS = ("rmse", "mae", "kernel_error")


@dataclass(frozen=True, kw_only=True)
class Term:
    """The printed and measured value of one term in the paper's unit, and the runs behind it."""

    printed: Interval | None
    measured: Interval | None = None
    sign: int  # 1 if more is better, else -1
    unit: str = ""
    why: str = ""  # Why there is no value; the name of the data set if it is absent
    absent: bool = False  # Whether the data set for the runs is absent
    data: str = ""  # The data set of the runs
    source: str = ""  # Method and environment of the runs
    keys: tuple[str, ...] = ()  # The keys of the runs; empty if there are none
    share: float | None = None  # Our rows / the paper's rows, if both are known and differ
    stand_in: bool = False  # Whether the runs used other data than the paper
    unknown: str = ""  # Settings of the runs that the paper does not state
    # Spread of equal runs: the factor by which seconds and errors may differ, and the difference of
    # accuracies, which is the larger of `CHANCE_ROWS` / test rows and the deviation over seeds.
    spread_factor: float = 1.0
    spread: float = 0.0
    rows: tuple[Row, ...] = ()  # The runs behind seconds, for remarks on their days


def terms_of(terms: Terms, runs: Runs, machine: TimingConditions | None) -> list[Term]:
    """The terms of one repetition, on the first data set on which all terms have a value."""
    answers = []
    for choice in terms[0][0][0].choices:
        values = [
            [_summed([_term(cell, runs, machine, choice) for cell in cells]) for cells in term]
            for term in terms
        ]
        answers.append([_best(term) for term in values])
        if all(term.measured is not None for term in answers[-1]):
            break
    # A complete answer is the last; otherwise the answer with most values, then most runs, counts.
    return max(
        answers,
        key=lambda terms: (
            sum(term.measured is not None for term in terms),
            sum(bool(term.keys) for term in terms),
        ),
    )


def _summed(terms: Sequence[Term]) -> Term:
    """The sum of several cells as one term."""
    template = next((term for term in terms if term.measured is None), terms[0])
    return replace(
        template,
        printed=combined_interval([term.printed for term in terms], math.fsum),
        measured=combined_interval([term.measured for term in terms], math.fsum),
        keys=tuple(dict.fromkeys(key for term in terms for key in term.keys)),
        rows=tuple(row for term in terms for row in term.rows),
    )


def _best(terms: Sequence[Term]) -> Term:
    """The best printed and the best measured value of several cells as one term."""
    best: Callable[[Sequence[float]], float] = max if terms[0].sign > 0 else min
    printed = combined_interval([term.printed for term in terms if term.printed is not None], best)
    without_runs = next((term for term in terms if not term.keys), None)
    by_value = {term.measured[0]: term for term in reversed(terms) if term.measured is not None}
    if without_runs is not None or not by_value:
        return replace(without_runs or terms[0], printed=printed)
    measured = combined_interval([term.measured or UNKNOWN for term in terms], best)
    return replace(by_value[best(list(by_value))], printed=printed, measured=measured)


def _term(cell: CellPlace, runs: Runs, machine: TimingConditions | None, choice: Choice) -> Term:
    """The term of one cell, on one of the data sets that stand for the paper's."""
    result = entry(replace(cell, only=choice), runs, machine)
    quantity = quantity_of(cell.measure)
    term = Term(printed=None, sign=quantity.sign, unit="%" if quantity.title.endswith("%") else "")
    if result.printed is not None:
        seconds = SECONDS_IN.get(result.printed.unit)
        unit = "s" if seconds else result.printed.unit
        term = replace(term, printed=_scaled(result.printed.interval, seconds or 1.0), unit=unit)
    if result.match is None:
        no_rows = f'no rows: "kbench -m {cell.table.run}"'
        why = (cell.data or "") if cell.absent else no_rows
        return replace(term, why=why, absent=cell.absent)
    line = result.match.line
    data_set = title(line.problem)
    measured = None if result.lower_bound is None else (result.lower_bound, math.inf)
    if result.value is not None:
        measured = result.value, result.value
    no_value = f"{line.method} on {data_set}: {result.status or 'no value'}"
    stated = stated_settings(cell.table, cell.column, line.method)
    names = ", ".join(name for name in unnamed(stated, line) if name not in cell.wanted.all_params)
    spread_factor, spread = _spreads(cell, line.problem)
    return replace(
        term,
        rows=result.rows if spread_factor == NOISE_OF_SECONDS else (),
        measured=_scaled(measured, quantity.factor),
        why=no_value if result.value is None else "",
        data=data_set,
        source=f"{line.method} in environment {line.rows[0]['environment']}",
        keys=tuple(row["key"] for row in result.rows),
        share=result.share,
        stand_in=result.stand_in,
        unknown=f"the paper does not state {names} of {line.method}" if names else "",
        spread_factor=spread_factor,
        spread=max(spread, result.sd or 0.0) * quantity.factor if spread else 0.0,
    )


def _spreads(cell: CellPlace, problem: LearningTask) -> tuple[float, float]:
    """The factor and the difference by which equal runs may differ in a measure."""
    measure = cell.measure
    if measure.total:
        table = paper(cell.table.paper).tables[cell.wanted.table or ""]
        measure = table.measures[measure.total]
    columns = measure.of or (measure.curve,)
    if {"accuracy", "error"}.issuperset(columns):
        return 1.0, CHANCE_ROWS / problem.n_test if problem.n_test else 0.0
    if columns[0] in _ERRORS:
        return NOISE_OF_ERRORS, 0.0
    timed = columns[0] in _TIMES or all(map(is_seconds, measure.of))
    return (NOISE_OF_SECONDS if measure.of and timed else 1.0), 0.0


def _scaled(values: Interval | None, factor: float) -> Interval | None:
    return None if values is None else (values[0] * factor, values[1] * factor)
