"""The language of the claims file: each claim of a paper is a query over cells.

A query names cells as `table | row | column | quantity`, or selects runs by the keys that layouts
use. It asks for a ratio, a difference, a range (largest minus smallest) or a value, which is the
answer. `each` lists values of placeholders, and the query is answered for each of them. The figure
of the claim is then the worst answer; if `case` bounds a single answer, it is the fraction of the
answers within that bound. If a term lists several cells (rival methods), the best one counts. The
values of cells under `sum` are added. `idea` is a second query, which compares two methods of
kbench that differ in the paper's idea. `kbench.papers.claims.decision` answers the queries.
"""

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from kbench.papers.claims.outcomes import OPEN
from kbench.papers.printed.layout import (
    Measure,
    Selector,
    Table,
    load,
    measure,
    paper,
    repetitions,
    selector,
    substituted,
)

# Smallest and largest value that the runs allow; for a measured value, the same number twice.
Interval = tuple[float, float]

_OPERATORS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
_MEASURES = {"of", "per", "factor", "curve"}
_KINDS = ("ratio", "difference", "range", "value")


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

    def best(self, figures: Sequence[float]) -> float:
        return max(figures) if self.sign == ">=" else min(figures)


@dataclass(frozen=True, kw_only=True)
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
    unknown : str
        Settings that the paper does not state, or in which the runs differ from the paper.
    ours : bool
        Whether the claim is a question of ours that the paper does not ask.
    run : str
        `kbench -m <run>` makes the rows that the query selects itself.
    kind : {"ratio", "difference", "range", "value", ""}
    terms : tuple
        Terms of the query. A term is a tuple of cells, of which the best counts.
    each : tuple of mappings
        For each repetition of the query: name -> the value that replaces `{name}` in the terms.
    holds, case : Bound
        `holds` bounds the figure. With `case`, the figure is the fraction of answers that are
        within `case`.
    open, why : str
        Why a claim without a query is open (a key of `outcomes.OPEN`), and an explanation.
    idea : Claim, optional
        The same question about two methods of kbench that differ in the paper's idea.
    """

    paper: str
    where: str
    says: str
    kind: str = ""
    terms: tuple[tuple[Any, ...], ...] = ()
    each: tuple[Mapping[str, Any], ...] = ({},)
    holds: Bound | None = None
    case: Bound | None = None
    open: str = ""
    why: str = ""
    quantity: str = ""
    quote: str = ""
    ours: bool = False
    unknown: str = ""
    run: str = ""
    idea: "Claim | None" = None

    @property
    def of_cases(self) -> Bound:
        """The bound on one answer: `case`, or `holds` where the figure is an answer."""
        bound = self.case or self.holds
        assert bound is not None
        return bound

    @cached_property
    def sources(self) -> "list[list[list[list[Source]]]]":
        """Cells by repetition, term, rival, and addend of the rival's sum."""
        return [
            [
                [
                    [source(self, substituted(one, names)) for one in addends(spelt)]
                    for spelt in term
                ]
                for term in self.terms
            ]
            for names in self.each
        ]

    @cached_property
    def cells(self) -> "list[Source]":
        """All cells whose runs the claim reads."""
        terms = itertools.chain.from_iterable(self.sources)
        return [cell for term in terms for rival in term for cell in rival]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The cell of a table from which a term takes its value; `data` is the paper's name of the set.

    If a claim selects runs itself, it is the only cell of a table without a name.
    """

    data: str
    table: Table
    row: str = ""
    column: str = ""
    label: str = ""

    @property
    def wanted(self) -> Selector:
        """The selector of the runs that fill the cell."""
        return self.table.wanted(self.row, self.column)

    @property
    def measure(self) -> Measure:
        return self.table.measures[self.label]

    @property
    def absent(self) -> bool:
        """Whether kbench does not have the cell's data set."""
        return self.data in paper(self.table.paper).absent


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the file.

    Raises
    ------
    TypeError, ValueError
        A key, kind or bound does not exist, or a claim that selects runs has no `run`.
    """
    return tuple(_claim(**one) for one in load("claims.yaml"))


def _claim(
    *,
    says: str,
    each: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | None = None,
    open: str = "",
    holds: str | None = None,
    case: str | None = None,
    idea: dict[str, Any] | None = None,
    **given: Any,
) -> Claim:
    if open:
        if open not in OPEN:
            raise ValueError(f"a claim is open for one of {', '.join(OPEN)}: {says}")
        return Claim(says=says, open=open, **given)
    ((kind, terms),) = ((name, value) for name, value in given.items() if name in _KINDS)
    del given[kind]
    if holds is None or not given.get("quantity"):
        raise ValueError(f"a claim has `holds` and `quantity`: {says}")
    if idea is not None:
        shared: dict[str, Any] = {n: given[n] for n in ("paper", "where", "run") if n in given}
        shared |= {"says": says, "holds": holds, "case": case, "each": each}
        given["idea"] = _claim(**shared | idea)
    listed = terms if isinstance(terms, list) else [terms]
    claim = Claim(
        says=says,
        kind=kind,
        terms=tuple(tuple(one) if isinstance(one, list) else (one,) for one in listed),
        each=repetitions(each or {}),
        holds=Bound.of(holds),
        case=None if case is None else Bound.of(case),
        **given,
    )
    if not all(cell.table.run for cell in claim.cells):
        raise ValueError(f"a claim that selects runs itself has `run`: {says}")
    return claim


def source(claim: Claim, spelt: Any) -> Source:
    """The cell of a table, or of selected runs, for an element of a term in the claims file."""
    of = paper(claim.paper)
    if isinstance(spelt, str):
        name, row, column, label = (part.strip() for part in spelt.split("|"))
        table = of.tables[name]
        data = of.data_of(table.wanted(row, column)) or ""
        return Source(data=data, table=table, row=row, column=column, label=label)
    keys = dict(spelt)
    asked = measure("", **{key: keys.pop(key) for key in _MEASURES & set(keys)})
    wanted = Selector(kernel=of.kernel) & selector(**keys)
    table = Table(
        paper=claim.paper,
        name="",
        caption="",
        run=claim.run,
        rows={"": wanted},
        columns={"": Selector()},
        measures={"": asked},
        printed="",
        sizes=of.sizes,
    )
    return Source(data=wanted.data or "", table=table)


def addends(spelt: Any) -> Sequence[Any]:
    """The cells whose values are added for an element of a term: those of `sum`, or itself."""
    summed = isinstance(spelt, Mapping) and "sum" in spelt
    return spelt["sum"] if summed else [spelt]


def tables_of(claim: Claim) -> list[Table]:
    """The tables whose cells a claim names, without repetitions."""
    return list({cell.table.id: cell.table for cell in claim.cells if cell.table.name}.values())


def methods_of(claim: Claim) -> set[str]:
    """The methods whose runs a claim reads."""
    return {method for cell in claim.cells for method in cell.wanted.methods}
