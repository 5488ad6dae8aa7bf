"""The papers' claims: each is a query over cells, and its answer a verdict.

A query names cells as `table | row | column | quantity`, or selects runs itself as layouts do, and
asks for a ratio, a difference, a spread (largest less smallest) or a value. It is answered twice,
by the printed numbers and by the measured ones, in the units that the paper prints. `each` repeats
it; the figure is then the worst answer, or with `case`, a bound on one answer, the fraction of
answers within that bound.

All terms of one repetition are of one data set. Where a term lists several cells (rival methods),
the best counts. All of them must have been run: a failed one is left out, but one without rows
leaves the claim unanswered.

A stopped run takes at least the CPU seconds that its fit had taken. Such an answer counts where
this decides it: if even its worst value keeps the bound of the paper, or even its best value does
not keep the looser one.
"""

import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from kbench.report.cells import title
from kbench.report.papers.entries import ABSENT, SECONDS_IN, Cell, Entry, entry, quantity_of
from kbench.report.papers.layout import (
    Choice,
    Columns,
    CurveValue,
    Measure,
    Selector,
    Table,
    load,
    measure,
    paper,
    put,
    repetitions,
    selector,
)
from kbench.report.papers.runs import Identity, Runs
from kbench.report.tables import Machine

HOLDS, WEAKER, FAILS = "holds", "holds weaker", "fails"
NOT_MEASURABLE, OUTSIDE = "not measurable here", "outside the scope"

# Least and largest value that runs leave possible; the same number twice for a measured value.
Interval = tuple[float, float]

_OPERATORS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
_MEASURES = {"of", "per", "factor", "curve"}
_KINDS = ("ratio", "difference", "spread", "value")


@dataclass(frozen=True)
class Bound:
    """A bound such as `>= 2` on a figure."""

    sign: str
    limit: float

    @classmethod
    def of(cls, text: str) -> "Bound":
        sign, limit = text.split()
        if sign not in _OPERATORS:
            raise ValueError(f"a bound begins with >= or <=, not {sign!r}")
        return cls(sign, float(limit))

    def takes(self, figure: float) -> bool:
        return _OPERATORS[self.sign](figure, self.limit)

    def takes_all(self, figures: Interval) -> bool:
        return self.takes(figures[0]) and self.takes(figures[1])

    def takes_none(self, figures: Interval) -> bool:
        return not self.takes(figures[0]) and not self.takes(figures[1])

    def worst(self, figures: Sequence[float]) -> float:
        return min(figures) if self.sign == ">=" else max(figures)


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper.

    Attributes
    ----------
    paper, where, says : str
        The paper, the place in it, and the claim in our words.
    quantity : str
        What the query computes, in words; empty if rows cannot decide the claim.
    quote : str
        The paper's own words, if they are at hand.
    ours : bool
        Whether the paper does not ask this question.
    kind : {"ratio", "difference", "spread", "value", ""}
    terms : tuple
        Terms of the query, each a tuple of cells of which the best counts.
    each : tuple of mappings
        For each repetition: name -> the value that replaces `{name}` in the terms.
    holds, weaker, case : Bound
        `holds` and `weaker` bound the figure. With `case`, the figure is the fraction of answers
        that are within `case`.
    outside : str
        Why rows cannot decide it.
    """

    paper: str
    where: str
    says: str
    kind: str = ""
    terms: tuple[tuple[Any, ...], ...] = ()
    each: tuple[Mapping[str, Any], ...] = ({},)
    holds: Bound | None = None
    weaker: Bound | None = None
    case: Bound | None = None
    outside: str = ""
    quantity: str = ""
    quote: str = ""
    ours: bool = False

    @property
    def wording(self) -> str:
        """Whose words the claim is in: `quoted`, `paraphrased`, or `ours`."""
        return "ours" if self.ours else "quoted" if self.quote else "paraphrased"


@dataclass(frozen=True)
class Verdict:
    """The answer to a claim.

    Attributes
    ----------
    claim : Claim
    outcome : str
        One of the five outcomes above.
    why : str
        Why there is no figure, for the two outcomes without one.
    figure, printed : float, optional
        The figure from the rows, and from the numbers that the paper prints.
    bounded : str
        `at least` or `at most` if the figure is only a bound, because runs ended at a limit.
    unit : str
        The unit of both: `×` of ratios, `points` of differences in per cent, or that of the values.
    worst : str
        The data set with the worst answer if several data sets answer.
    answered, asked : int
        Numbers of repetitions that the rows answer, and of all.
    data : tuple of str
        The data sets of kbench that took part.
    keys : tuple of str
        The runs behind the figure.
    considered : frozenset of identities
    """

    claim: Claim
    outcome: str
    why: str = ""
    figure: float | None = None
    printed: float | None = None
    bounded: str = ""
    unit: str = ""
    worst: str = ""
    answered: int = 0
    asked: int = 0
    data: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    considered: frozenset[Identity] = frozenset()


@dataclass(frozen=True)
class _Term:
    """The printed and measured value of one term in the paper's unit, and the runs behind it.

    Without a measured value, `least` is what it is at least, if the runs tell that.
    """

    printed: float | None
    measured: float | None
    sign: int
    why: str = ""
    matched: bool = False
    data: str = ""
    unit: str = ""
    keys: tuple[str, ...] = ()
    considered: frozenset[Identity] = frozenset()
    least: float | None = None

    @property
    def interval(self) -> Interval | None:
        """The values that the runs leave possible; None if all are."""
        if self.measured is not None:
            return self.measured, self.measured
        return None if self.least is None else (self.least, math.inf)


@dataclass(frozen=True)
class _Cell:
    """The source of a term: a cell of a table, or runs selected by the claim."""

    data: str
    measure: Measure
    wanted: Selector
    table: Table | None = None
    row: str = ""
    column: str = ""
    absent: bool = False


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the file.

    Raises
    ------
    TypeError, ValueError
        A key, kind or bound does not exist.
    """
    return tuple(_claim(**one) for one in load("claims.yaml"))


def verdict(claim: Claim, runs: Runs) -> Verdict:
    """The verdict on the machine whose rows answer most of the repetitions."""
    if claim.outside:
        return Verdict(claim, OUTSIDE, claim.outside)
    verdicts = [_verdict(claim, runs, machine) for machine in runs.machines]
    return max(verdicts, key=lambda one: one.answered, default=_verdict(claim, runs, None))


def _claim(
    *,
    paper: str,
    where: str,
    says: str,
    each: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | None = None,
    outside: str = "",
    holds: str | None = None,
    weaker: str | None = None,
    case: str | None = None,
    quantity: str = "",
    quote: str = "",
    ours: bool = False,
    **query: Any,
) -> Claim:
    if outside:
        return Claim(paper, where, says, outside=outside, quote=quote)
    ((kind, terms),) = query.items()
    if kind not in _KINDS or holds is None or weaker is None or not quantity:
        kinds = ", ".join(_KINDS)
        raise ValueError(f"a claim has one of {kinds}, `holds`, `weaker` and `quantity`: {says}")
    listed = terms if isinstance(terms, list) else [terms]
    return Claim(
        paper,
        where,
        says,
        kind,
        tuple(tuple(one) if isinstance(one, list) else (one,) for one in listed),
        repetitions(each or {}),
        Bound.of(holds),
        Bound.of(weaker),
        None if case is None else Bound.of(case),
        quantity=quantity,
        quote=quote,
        ours=ours,
    )


def _verdict(claim: Claim, runs: Runs, machine: Machine | None) -> Verdict:
    assert claim.holds is not None
    assert claim.weaker is not None
    answers = [_answer(claim, names, runs, machine) for names in claim.each]
    given = [_figure(claim.kind, [term.printed for term in one]) for one in answers]
    possible = [_possible(claim.kind, [term.interval for term in one]) for one in answers]
    own = [None if one is None else _decided(claim, one) for one in possible]
    figure, paper_figure = _summary(claim, own), _summary(claim, given)
    answered = sum(value is not None for value in own)
    used = [
        term for one, value in zip(answers, own, strict=True) if value is not None for term in one
    ]
    considered = frozenset().union(*(term.considered for one in answers for term in one))
    why = ""
    if figure is None:
        outcome = NOT_MEASURABLE
        missing = [t for one in answers for t in one if t.measured is None]
        why = next((term.why for term in missing if term.matched), missing[0].why)
    elif claim.holds.takes(figure):
        outcome = HOLDS
    else:
        outcome = WEAKER if claim.weaker.takes(figure) else FAILS
    bounds = [
        one
        for one, value in zip(possible, own, strict=True)
        if one is not None and value is not None and value == figure
    ]
    named = [
        term.data
        for one, value in zip(answers, own, strict=True)
        if value is not None and value == figure
        for term in one
    ]
    return Verdict(
        claim,
        outcome,
        why,
        figure,
        paper_figure,
        _bounded(bounds[0]) if bounds and claim.case is None else "",
        _unit(claim, answers[0][0].unit),
        named[0] if named and answered > 1 and claim.case is None else "",
        answered,
        len(answers),
        tuple(dict.fromkeys(term.data for term in used if term.data)),
        tuple(dict.fromkeys(key for term in used for key in term.keys)),
        considered,
    )


def _unit(claim: Claim, unit: str) -> str:
    """The unit of the figure if its terms are in `unit`; none for a fraction of the answers."""
    if claim.case is not None:
        return ""
    if claim.kind == "ratio":
        return "×"
    return "points" if unit == "%" and claim.kind != "value" else unit


def _answer(
    claim: Claim, names: Mapping[str, Any], runs: Runs, machine: Machine | None
) -> list[_Term]:
    """The terms of one repetition, on the first data set on which all of them have a value."""
    cells = [[_cell(claim, put(cell, names)) for cell in term] for term in claim.terms]
    (data,) = {cell.data for term in cells for cell in term}
    tried = []
    for choice in paper(claim.paper).data[data]:
        tried.append([_best([_value(cell, runs, machine, choice) for cell in t]) for t in cells])
        if all(term.interval is not None for term in tried[-1]):
            break
    # No data set has a value for every term: take the one with most terms found.
    most = max(tried, key=lambda terms: sum(term.matched for term in terms))
    rows = [frozenset().union(*(terms[i].considered for terms in tried)) for i in range(len(most))]
    return [replace(term, considered=all_) for term, all_ in zip(most, rows, strict=True)]


def _summary(claim: Claim, figures: Sequence[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    if not known or claim.holds is None:
        return None
    if claim.case is not None:
        return sum(map(claim.case.takes, known)) / len(known)
    return claim.holds.worst(known)


def _figure(kind: str, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    if kind == "spread":
        return max(known) - min(known)
    if kind == "value":
        return known[0]
    if kind == "difference":
        return known[0] - known[1]
    return known[0] / known[1] if known[1] else None


def _possible(kind: str, values: Sequence[Interval | None]) -> Interval | None:
    """The least and the largest answer that the intervals of the terms leave possible."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    corners = [_figure(kind, corner) for corner in itertools.product(*known)]
    figures = [0.0 if one is not None and math.isnan(one) else one for one in corners]
    sure = [one for one in figures if one is not None]
    return (min(sure), max(sure)) if len(sure) == len(figures) else None


def _decided(claim: Claim, possible: Interval) -> float | None:
    """The answer, or the end of its interval that decides the claim; None if neither does."""
    low, high = possible
    if low == high:
        return low
    assert claim.holds is not None
    assert claim.weaker is not None
    holds, weaker = claim.case or claim.holds, claim.case or claim.weaker
    least = holds.sign == ">="
    if holds.takes_all(possible):
        return low if least else high
    if weaker.takes_none(possible):
        return high if least else low
    return None


def _bounded(possible: Interval) -> str:
    low, high = possible
    if low == high:
        return ""
    return "at least" if math.isinf(high) else "at most"


def _best(terms: Sequence[_Term]) -> _Term:
    """The best printed and the best measured value of several cells, as one term."""
    if len(terms) == 1:
        return terms[0]
    considered = frozenset().union(*(term.considered for term in terms))
    given = [term.printed for term in terms if term.printed is not None]
    sign = terms[0].sign
    printed = max(given, key=lambda value: sign * value, default=None)
    absent = next((term for term in terms if not term.matched), None)
    best = absent or max(
        terms,
        key=lambda term: -math.inf if term.measured is None else sign * term.measured,
    )
    # A rival that was stopped before the best one had ended might have been faster than it.
    stopped = [term.least for term in terms if term.least is not None]
    if sign < 0 and stopped and best.measured is not None and min(stopped) < best.measured:
        best = replace(best, measured=None, least=min(stopped))
    return replace(best, printed=printed, considered=considered)


def _cell(claim: Claim, spelt: Any) -> _Cell:
    if isinstance(spelt, str):
        name, row, column, label = (part.strip() for part in spelt.split("|"))
        of = paper(claim.paper)
        table = of.tables[name]
        wanted = table.rows[row] & table.columns[column]
        data = of.data_of(wanted)
        absent = data in of.absent
        return _Cell(data or "", table.measures[label], wanted, table, row, column, absent)
    own = dict(spelt)
    asked = measure("", **{key: own.pop(key) for key in _MEASURES & set(own)})
    wanted = selector(**own)
    return _Cell(wanted.data or "", asked, wanted)


def _value(cell: _Cell, runs: Runs, machine: Machine | None, choice: Choice) -> _Term:
    table = cell.table
    if table is None:
        one = Entry()
        match = None if machine is None else runs.find(machine, cell.wanted, [choice])
        if match is not None:
            assert isinstance(cell.measure, (Columns, CurveValue))
            value, sd = runs.value(match, cell.measure, cell.wanted.at) or (None, None)
            status = ", ".join(sorted(match.line.failures)) if value is None else ""
            one = Entry(match=match, value=value, sd=sd, status=status, considered=match.considered)
        missing = f"no rows of {' or '.join(cell.wanted.methods)} on {cell.data}"
    else:
        one = entry(Cell(table, runs, machine, cell.row, cell.column, choice), cell.measure)
        missing = f'no rows: "kbench -m {table.run}"'
    quantity = quantity_of(cell.measure)
    given, unit = None, "%" if quantity.title.endswith("%") else ""
    if one.printed is not None:
        unit = "s" if one.printed.unit in SECONDS_IN else one.printed.unit
        if one.printed.number is not None:
            given = one.printed.number * SECONDS_IN.get(one.printed.unit, 1.0)
    match = one.match
    if match is None:
        why = f"{ABSENT}: {cell.data}" if cell.absent else missing
        return _Term(given, None, quantity.sign, why, unit=unit, considered=one.considered)
    where = title(match.problem)
    return _Term(
        given,
        None if one.value is None else one.value * quantity.factor,
        quantity.sign,
        ""
        if one.value is not None
        else f"{match.line.method} on {where}: {one.status or 'no value'}",
        True,
        where,
        unit,
        tuple(row["key"] for row in match.line.rows),
        one.considered,
        None if one.least is None else one.least * quantity.factor,
    )


def tables_of(claim: Claim) -> list[Table]:
    """The tables whose cells a claim names, without repetitions."""
    cells = [put(cell, names) for names in claim.each for term in claim.terms for cell in term]
    names = dict.fromkeys(cell.partition("|")[0].strip() for cell in cells if isinstance(cell, str))
    return [paper(claim.paper).tables[name] for name in names]


def methods_of(claim: Claim) -> set[str]:
    """The methods whose runs a claim reads."""
    return {method for cell in _cells(claim) for method in cell.wanted.methods}


def selectors_of(claim: Claim) -> list[Selector]:
    """What a claim selects itself, without a table."""
    return [cell.wanted for cell in _cells(claim) if cell.table is None]


def _cells(claim: Claim) -> list[_Cell]:
    return [
        _cell(claim, put(cell, names))
        for names in claim.each
        for term in claim.terms
        for cell in term
    ]
