"""The claims of the papers, read from `claims.yaml`, whose first lines explain its language.

A claim is a query over cells, which `kbench.papers.claims.decision` answers.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from kbench.papers.claims.outcomes import OPEN
from kbench.papers.printed.layout import (
    CellPlace,
    Selector,
    TableLayout,
    load,
    measure,
    paper,
    repetitions,
    selector,
    substituted,
)

# Smallest and largest value that the runs allow; both are equal for a measured value.
Interval = tuple[float, float]

# The terms of a query: rivals, each as the cells whose values are added.
Terms = Sequence[Sequence[Sequence[CellPlace]]]

_MEASURES = {"of", "per", "factor", "curve"}
_KINDS = ("ratio", "difference", "range", "value")


@dataclass(frozen=True)
class Bound:
    """A lower bound on a figure such as `>= 2`, or an upper bound such as `<= 2`."""

    lower: bool
    limit: float

    @classmethod
    def of(cls, text: str) -> "Bound":
        sign, limit = text.split()
        if sign not in (">=", "<="):
            raise ValueError(f"a bound begins with >= or <=, not {sign!r}")
        return cls(sign == ">=", float(limit))

    def allows(self, figure: float) -> bool:
        return figure >= self.limit if self.lower else figure <= self.limit

    def kept_by(self, figures: Interval) -> bool | None:
        """Whether an interval keeps the bound; None if only a part of the interval does."""
        answers = {self.allows(end) for end in figures}
        return answers.pop() if len(answers) == 1 else None

    def worst(self, figures: Sequence[float]) -> float:
        return min(figures) if self.lower else max(figures)

    def best(self, figures: Sequence[float]) -> float:
        return max(figures) if self.lower else min(figures)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One sentence of a paper, by the keys of `claims.yaml`, and its query."""

    paper: str
    where: str
    says: str
    # The quantity that the query asks for: "ratio", "difference", "range" or "value"; empty if no
    # query can answer the claim.
    kind: str = ""
    # The terms of the query for each repetition. A term is a list of rivals, of which the best one
    # counts; a rival is a list of cells whose values are added.
    cases: Sequence[Terms] = ()
    holds: Bound | None = None
    case: Bound | None = None
    open: str = ""
    why: str = ""
    quantity: str = ""
    quote: str = ""
    ours: bool = False
    unknown: str = ""  # Settings that the paper does not give
    differs: str = ""  # Settings of the runs that are not the paper's
    run: str = ""
    idea: "Claim | None" = None

    @property
    def bound_of_case(self) -> Bound:
        """The bound on one answer: `case` if it is given, otherwise `holds`."""
        bound = self.case or self.holds
        assert bound is not None
        return bound

    @cached_property
    def cells(self) -> list[CellPlace]:
        """All cells whose runs the claim reads."""
        terms = itertools.chain.from_iterable(self.cases)
        return [cell for term in terms for rival in term for cell in rival]


def combined_interval(
    values: Sequence[Interval | None], summarise: Callable[[Sequence[float]], float]
) -> Interval | None:
    """`summarise` of all lower and of all upper ends; None without values or if any is unknown."""
    intervals = [value for value in values if value is not None]
    if not intervals or len(intervals) < len(values):
        return None
    lows, highs = zip(*intervals, strict=True)
    return summarise(lows), summarise(highs)


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order of the file.

    Raises TypeError, ValueError: a key, kind or bound does not exist, or a claim that selects runs
    has no `run`.
    """
    return tuple(_claim(**spec) for spec in load("claims.yaml"))


def _claim(
    *,
    says: str,
    each: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | None = None,
    open: str = "",
    holds: str | None = None,
    case: str | None = None,
    idea: dict[str, Any] | None = None,
    **keys: Any,
) -> Claim:
    if open:
        if open not in OPEN:
            raise ValueError(f"a claim is open for one of {', '.join(OPEN)}: {says}")
        return Claim(says=says, open=open, **keys)
    ((kind, terms),) = ((name, value) for name, value in keys.items() if name in _KINDS)
    del keys[kind]
    if holds is None or not keys.get("quantity"):
        raise ValueError(f"a claim has `holds` and `quantity`: {says}")
    if idea is not None:
        shared: dict[str, Any] = {n: keys[n] for n in ("paper", "where", "run") if n in keys}
        shared |= {"says": says, "holds": holds, "case": case, "each": each}
        keys["idea"] = _claim(**shared | idea)
    cases = [
        [
            [
                [
                    _cell(substituted(element, names), keys)
                    for element in (
                        rival["sum"] if isinstance(rival, dict) and "sum" in rival else [rival]
                    )
                ]
                for rival in _as_list(term)
            ]
            for term in _as_list(terms)
        ]
        for names in repetitions(each or {})
    ]
    claim = Claim(
        says=says,
        kind=kind,
        cases=cases,
        holds=Bound.of(holds),
        case=None if case is None else Bound.of(case),
        **keys,
    )
    if not all(cell.data and cell.table.run for cell in claim.cells):
        raise ValueError(f"a claim that selects runs itself has `run`: {says}")
    return claim


def _as_list(entry: Any) -> list[Any]:
    return entry if isinstance(entry, list) else [entry]


def _cell(element: Any, claim: Mapping[str, Any]) -> CellPlace:
    """The cell of a table for an element of a term in the claims file.

    If the element selects runs itself, it is the only cell of a table without a name.
    """
    layout = paper(claim["paper"])
    if isinstance(element, str):
        name, row, column, label = (part.strip() for part in element.split("|"))
        return CellPlace(layout.tables[name], row, column, label)
    keys = dict(element)
    if "cell" in keys:  # a table's cell, filled by runs of another row or of other settings
        place = _cell(keys.pop("cell"), claim)
        cell_selector = place.table.rows[keys.pop("row", place.row)] & selector(**keys)
        rows = {**place.table.rows, place.row: cell_selector}
        return replace(place, table=replace(place.table, rows=rows))
    cell_measure = measure("", **{key: keys.pop(key) for key in _MEASURES & set(keys)})
    run = claim.get("run", "")
    cell_selector = selector(run=run, **{"kernel": layout.kernel} | keys)
    table = TableLayout(
        paper=layout.name,
        name="",
        run=run,
        rows={"": cell_selector},
        columns={"": Selector()},
        measures={"": cell_measure},
        sizes=layout.sizes,
    )
    return CellPlace(table, "", "", "")


def tables_of(claim: Claim) -> list[TableLayout]:
    """The tables whose cells a claim names, without repetitions."""
    return list({cell.table.id: cell.table for cell in claim.cells if cell.table.name}.values())
