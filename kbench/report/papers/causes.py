"""Causes of the differences between printed and measured scores, read from `causes.yaml`.

A score differs if an accuracy or an error in per cent is more than half a point from the printed
one, or a kernel error, an RMSE, an MAE or a rank more than 5 %. Each such cell takes the first
cause of the file that is about its place; tests demand one for every cell of the reference rows.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from kbench.report.papers.layout import PAPERS, load, paper
from kbench.report.quantities import Quantity
from kbench.report.sheet import Sheet

if TYPE_CHECKING:
    from kbench.report.papers.entries import Filled
    from kbench.report.papers.printed import Printed

# Half a point covers rounding and the spread of seeds; 5 % that of kernel errors over seeds.
MOST_POINTS, MOST_RELATIVE = 0.5, 0.05

KINDS = {
    "data": "other data",
    "settings": "settings that the paper does not state, or that differ",
    "printed": "the printed value",
    "method": "another form of the method",
    "open": "not explained",
}

_RELATIVE = ("kernel error", "RMSE", "MAE", "rank")
_NO_CAUSE = "no cause is known"


@dataclass(frozen=True)
class Cause:
    """A cause of a group of differences.

    Attributes
    ----------
    kind : str
        A key of `KINDS`.
    why : str
        The cause in one or two sentences.
    shown : str
        What shows it: rows, printed numbers, a command.
    tables : tuple of str
        The tables that it is about, such as `dcsvm_table3`.
    rows, columns, data : str
        Regular expressions that the row, the column and kbench's data set must match in full.
    sign : int
        1 or -1 if only larger or only smaller measured values are explained.
    """

    kind: str
    why: str
    shown: str
    tables: tuple[str, ...]
    rows: str = ".*"
    columns: str = ".*"
    data: str = ".*"
    sign: int = 0

    def explains(self, table: str, row: str, column: str, data: str, larger: bool) -> bool:
        """Whether a difference at this place, to larger values or not, is of this cause."""
        return (
            table in self.tables
            and self.sign in (0, 1 if larger else -1)
            and all(map(re.fullmatch, (self.rows, self.columns, self.data), (row, column, data)))
        )

    @property
    def note(self) -> str:
        return f"differs: {self.why}"


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in the order of the file.

    Raises
    ------
    ValueError
        A cause has no kind that is known, or names a table that does not exist.
    """
    known = {table.id for name in PAPERS for table in paper(name).tables.values()}
    found = tuple(Cause(**one | {"tables": tuple(one["tables"])}) for one in load("causes.yaml"))
    for one in found:
        if one.kind not in KINDS or not set(one.tables) <= known:
            raise ValueError(f"causes.yaml: the kind or a table of this cause: {one.why}")
    return found


def compared(given: "Printed | None", label: str, quantity: Quantity) -> bool:
    """Whether a cell is a score of which the paper prints a number."""
    of_scores = quantity.title.endswith("%") or label in _RELATIVE
    return given is not None and given.number is not None and of_scores


def differs(given: "Printed", value: float, quantity: Quantity) -> bool:
    """Whether a measured score, in the row's unit, is far from the printed one."""
    number = given.number or 0.0
    own = value * quantity.factor
    if quantity.title.endswith("%"):
        return abs(own - number) > MOST_POINTS
    return abs(own - number) > MOST_RELATIVE * abs(number)


def cause_of(table: str, row: str, column: str, data: str, *, larger: bool) -> Cause:
    """The first cause of a difference; one that says so if none is known."""
    places = (one for one in causes() if one.explains(table, row, column, data, larger))
    return next(places, Cause("open", _NO_CAUSE, "", (table,)))


def sheet(tables: Iterable["Filled"]) -> Sheet:
    """A line for each cause with the number of cells and the tables that it is about."""
    counts: dict[Cause, dict[str, int]] = {}
    compared = 0
    for one in tables:
        name = f"{one.paper.title} {one.table.number}"
        for group in one.groups:
            for entry in group.entries:
                compared += entry.compared
                if entry.cause is not None:
                    of = counts.setdefault(entry.cause, {})
                    of[name] = of.get(name, 0) + 1
    order = sorted(
        counts, key=lambda one: (list(KINDS).index(one.kind), -sum(counts[one].values()))
    )
    rows = [
        [
            KINDS[one.kind],
            str(sum(counts[one].values())),
            ", ".join(f"{name} ({n})" for name, n in counts[one].items()),
            one.why,
            one.shown,
        ]
        for one in order
    ]
    total = sum(sum(one.values()) for one in counts.values())
    note = (
        f"{total} of {compared} measured scores differ from the printed ones by more than"
        f" {MOST_POINTS:g} points of accuracy or error, or {100 * MOST_RELATIVE:g} % of a kernel"
        " error, RMSE, MAE or rank."
    )
    header = ["kind", "cells", "tables", "cause", "what shows it"]
    return Sheet("Differences from the printed scores", 1, header, rows, [note])
