"""Causes of the differences between printed and measured scores, read from `causes.yaml`.

A score differs if an accuracy or an error in per cent is more than half a point from the printed
one, an error below 2 % more than a quarter of it, or a kernel error, an RMSE, an MAE or a rank more
than 5 %. The cause of such a cell is the first one in the file that matches its place and its rows;
tests demand a cause for every cell of the reference rows. A cause of the kind `open` says what is
known about a difference that is not explained.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from kbench.papers.printed.layout import all_tables, load
from kbench.report.comparisons.quantities import SCORES, Quantity

# Half a point covers rounding and the spread of seeds; an error below 2 % would then never differ,
# so a quarter of it is the limit. 5 % covers the spread of kernel errors over seeds. Set by hand.
MAX_POINTS, MAX_OF_ERROR, MAX_RELATIVE = 0.5, 0.25, 0.05

UNEXPLAINED = "open"
# Kind of a cause -> its words, in the order of the sheet.
KINDS: Mapping[str, str] = load("legend.yaml")["causes"]

# Columns and curves that are scores and are compared by their relative difference.
_RELATIVE = {score.column for score in SCORES} | {"kernel_error", "rank", "precision", "recall"}
# A cell of a table and its data: row, column, quantity, data set, and variant or "".
Names = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Cause:
    """A cause of a group of differences, by the keys of `causes.yaml`.

    `sign` is 1 or -1 if only larger or only smaller measured values are explained, else 0.
    """

    kind: str
    why: str
    shown: str
    tables: tuple[str, ...]
    rows: str = ".*"
    columns: str = ".*"
    quantities: str = ".*"
    data: str = ".*"
    variant: str = ".*"
    sign: int = 0

    def explains(self, table: str, names: Names, *, larger: bool) -> bool:
        """Whether this is the cause if the measured value of a cell is `larger`, or smaller."""
        patterns = self.rows, self.columns, self.quantities, self.data, self.variant
        return (
            table in self.tables
            and self.sign in (0, 1 if larger else -1)
            and all(map(re.fullmatch, patterns, names))
        )


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in the order of the file.

    Raises ValueError: a cause has no kind that is known, or names a table that does not exist.
    """
    known = {table.id for table in all_tables()}
    listed = tuple(
        Cause(**cause | {"tables": tuple(cause["tables"])}) for cause in load("causes.yaml")
    )
    for cause in listed:
        if cause.kind not in KINDS or not set(cause.tables) <= known:
            raise ValueError(f"causes.yaml: the kind or a table of this cause: {cause.why}")
    return listed


def is_score(quantity: Quantity) -> bool:
    """Whether a quantity of a table is a score, unlike sizes, seconds and memory."""
    return quantity.title.endswith("%") or quantity.column in _RELATIVE


def difference(printed: float, value: float, quantity: Quantity) -> float:
    """A measured score, in the row's unit, less the printed one; 0 if they are close enough."""
    allowed = MAX_RELATIVE * abs(printed)
    if quantity.title.endswith("%"):
        allowed = MAX_POINTS
    if quantity.column == "error":
        allowed = min(MAX_POINTS, MAX_OF_ERROR * printed)
    excess = value * quantity.factor - printed
    return excess if abs(excess) > allowed else 0.0


def differing(compared: Collection[Cause | None], where: str = "") -> str:
    """A sentence: how many scores differ, from which threshold on, and how many have no cause."""
    causes = [cause for cause in compared if cause is not None]
    unexplained = sum(cause.kind == UNEXPLAINED for cause in causes)
    return (
        f"{len(causes)} of {len(compared)} measured scores differ from the printed ones by more"
        f" than {MAX_POINTS:g} points of accuracy or error, {100 * MAX_OF_ERROR:g} % of an error"
        f" below {MAX_POINTS / MAX_OF_ERROR:g} %, or {100 * MAX_RELATIVE:g} % of any other score"
        f"{where}; {unexplained} of them are not explained."
    )


def cause_of(table: str, names: Names, *, larger: bool) -> Cause:
    """The first cause of a difference; if none is known, a cause that says so."""
    known = (cause for cause in causes() if cause.explains(table, names, larger=larger))
    return next(known, Cause(UNEXPLAINED, "no cause is known", "", (table,)))
