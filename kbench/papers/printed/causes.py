"""Causes of the differences between printed and measured scores, read from `causes.yaml`.

A score differs if its distance from the printed score is more than half a point for an accuracy or
an error in per cent, a quarter of an error below 2 %, or 5 % of a kernel error, an RMSE, an MAE or
a rank. The cause of such a cell is the first cause in the file whose table, patterns (row, column,
quantity, data set, variant) and sign fit the cell and its difference; tests demand a cause for
every cell of the reference rows. A cause of the kind `open` says what is known about a difference
that is not explained.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from kbench.papers.printed.layout import all_tables, load
from kbench.report.comparisons.quantities import SCORES, Quantity

# Half a point covers rounding and the spread of seeds, but is more than most small errors, so below
# 2 % the limit is a quarter of the error; 5 % covers the spread of kernel errors. Set by hand.
MAX_POINTS, MAX_OF_ERROR, MAX_RELATIVE = 0.5, 0.25, 0.05

UNEXPLAINED = "open"
# Kind of a cause -> its title, in the order of the sheet.
KINDS: Mapping[str, str] = load("legend.yaml")["causes"]

# Columns and curves that hold scores.
_SCORE_COLUMNS = {"kernel_error", "rank", "precision", "recall"} | {s.column for s in SCORES}
# A cell of a table and its data: row, column, quantity, data set, and variant or "".
CellKey = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Cause:
    """A cause of a group of differences, with the keys of `causes.yaml`.

    `sign` is 1 or -1 if the cause explains only larger or only smaller measured values, else 0.
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

    def explains(self, table: str, key: CellKey, *, larger: bool) -> bool:
        """Whether the cause explains a measured value that is `larger`, or else smaller."""
        patterns = self.rows, self.columns, self.quantities, self.data, self.variant
        return (
            table in self.tables
            and self.sign in (0, 1 if larger else -1)
            and all(map(re.fullmatch, patterns, key))
        )


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in the order of the file.

    Raises ValueError: the kind of a cause, or a table that it names, does not exist.
    """
    table_ids = {table.id for table in all_tables()}
    result = tuple(
        Cause(**cause | {"tables": tuple(cause["tables"])}) for cause in load("causes.yaml")
    )
    for cause in result:
        if cause.kind not in KINDS or not set(cause.tables) <= table_ids:
            raise ValueError(f"causes.yaml: unknown kind or table of this cause: {cause.why}")
    return result


def is_score(quantity: Quantity) -> bool:
    """Whether a quantity of a table is a score, unlike sizes, seconds and memory."""
    return quantity.title.endswith("%") or quantity.column in _SCORE_COLUMNS


def difference(printed: float, value: float, quantity: Quantity) -> float:
    """Measured minus printed score, in the printed unit; 0 if both are close enough.

    `value` is the measured score in the unit of the rows.
    """
    allowed = MAX_RELATIVE * abs(printed)
    if quantity.title.endswith("%"):
        allowed = MAX_POINTS
    if quantity.column == "error":
        allowed = min(MAX_POINTS, MAX_OF_ERROR * printed)
    excess = value * quantity.factor - printed
    return excess if abs(excess) > allowed else 0.0


def differing_sentence(cell_causes: Collection[Cause | None], where: str = "") -> str:
    """A sentence with the number of differing scores, the thresholds, and unexplained scores.

    cell_causes : The cause of each measured score, None if the score does not differ.
    """
    different = [cause for cause in cell_causes if cause is not None]
    unexplained = sum(cause.kind == UNEXPLAINED for cause in different)
    return (
        f"{len(different)} of {len(cell_causes)} measured scores differ from the printed ones"
        f" by more than {MAX_POINTS:g} points of accuracy or error, {100 * MAX_OF_ERROR:g} %"
        f" of an error below {MAX_POINTS / MAX_OF_ERROR:g} %, or {100 * MAX_RELATIVE:g} % of any"
        f" other score{where}; {unexplained} of these are not explained."
    )


def cause_of(table: str, key: CellKey, *, larger: bool) -> Cause:
    """The first cause of a difference; if none is known, a cause that says so."""
    matching = (cause for cause in causes() if cause.explains(table, key, larger=larger))
    return next(matching, Cause(UNEXPLAINED, "no cause is known", "", (table,)))
