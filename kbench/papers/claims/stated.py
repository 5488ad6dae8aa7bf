"""The language of the claims file: each claim of a paper is a query over cells.

A query names cells as `table | row | column | quantity`, or selects runs itself as layouts do, and
asks for a ratio, a difference, a range (largest less smallest) or a value. `each` repeats it; the
figure is then the worst answer, or with `case`, a bound on one answer, the fraction of answers
within that bound. Where a term lists several cells (rival methods), the best counts. The cells of
`sum` are added. `idea` is a query of the same form, with the paper's idea alone against the same
code. `decision` answers queries.
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

# Least and largest value that runs leave possible; the same number twice for a measured value.
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
        Settings that the paper does not give, or that those of the runs differ from.
    ours : bool
        Whether the paper does not ask this question.
    run : str
        `kbench -m <run>` makes the rows that the query selects itself.
    kind : {"ratio", "difference", "range", "value", ""}
    terms : tuple
        Terms of the query, each a tuple of cells of which the best counts.
    each : tuple of mappings
        For each repetition: name -> the value that replaces `{name}` in the terms.
    holds, case : Bound
        `holds` bounds the figure. With `case`, the figure is the fraction of answers that are
        within `case`.
    open, why : str
        The reason for which a claim without a query is open, and more on it.
    idea : Claim, optional
        The same question with the paper's idea alone against the same code.
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
        """The bound on the figure of a case."""
        bound = self.case or self.holds
        assert bound is not None
        return bound

    @cached_property
    def sources(self) -> "list[list[list[list[Source]]]]":
        """For each repetition its terms, of each term the rivals, of each rival what is added."""
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
        """All cells whose runs it reads."""
        terms = itertools.chain.from_iterable(self.sources)
        return [cell for term in terms for rival in term for cell in rival]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source of a term: a cell of a table, by the paper's name of its data set.

    Runs that a claim selects itself fill the only cell of a table without a name.
    """

    data: str
    table: Table
    row: str = ""
    column: str = ""
    label: str = ""

    @property
    def wanted(self) -> Selector:
        """Which runs fill it."""
        return self.table.wanted(self.row, self.column)

    @property
    def measure(self) -> Measure:
        return self.table.measures[self.label]

    @property
    def absent(self) -> bool:
        """Whether there are no data for it."""
        return self.data in paper(self.table.paper).absent


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the file.

    Raises
    ------
    TypeError, ValueError
        A key, kind or bound does not exist, or nothing says how rows are made that a claim selects.
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
    """The cell of a table, or the selected runs, that the claims file spells so."""
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
    """The cells that are added in one element of a term: those of `sum`, or the cell itself."""
    summed = isinstance(spelt, Mapping) and "sum" in spelt
    return spelt["sum"] if summed else [spelt]


def tables_of(claim: Claim) -> list[Table]:
    """The tables whose cells a claim names, without repetitions."""
    return list({cell.table.id: cell.table for cell in claim.cells if cell.table.name}.values())


def methods_of(claim: Claim) -> set[str]:
    """The methods whose runs a claim reads."""
    return {method for cell in claim.cells for method in cell.wanted.methods}
