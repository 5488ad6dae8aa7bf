"""A cell of a paper's table: where it stands, its printed and its measured value, and its text."""

from collections.abc import Iterator
from dataclasses import dataclass

from kbench.papers.cells.runs import Match, Runs, made_by
from kbench.papers.printed.causes import Cause
from kbench.papers.printed.layout import Choice, Measure, Paper, Selector, Table
from kbench.papers.printed.numbers import Printed, printed
from kbench.report.comparisons.quantities import QUANTITIES, Quantity
from kbench.report.comparisons.tables import Machine, Row

# Texts of cells without a value.
ABSENT = "data not present"
LACKING = "no such method"
# Nobody has made the runs; the command that makes them stands below the table.
NO_ROWS = "no rows"
# The runs are ok and did not record the quantity, such as those of older versions.
NOT_MEASURED = "not measured"
# The two sides of a ratio were measured on different data sets.
OTHER_DATA = "other data"
# No power of the sizes comes near to the values of an order of growth (`growth.MAX_RESIDUAL`).
NO_POWER = "no power"

# Units of printed times, in seconds.
SECONDS_IN = {"min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The values of one cell.

    Attributes
    ----------
    printed : Printed, optional
        The paper's value.
    match : Match, optional
        The runs behind the measured value; the first ones if it is computed from other cells.
    value, sd : float, optional
        Mean and standard deviation over seeds, in the row's unit.
    status : str
        If there is no value: how the runs ended, or what is missing.
    least : float, optional
        Lower bound of training seconds that have no value because runs were stopped.
    notes : tuple of str
    rows : tuple of rows
        All runs behind the value or the status; of a computed value those of all its cells.
    stand_in : bool
        Whether the runs are of other data than the paper's, such as a part of its rows.
    share : float, optional
        Our rows over the paper's, where both numbers are known and differ.
    absent : str
        Why a printed cell has no runs: the data are not available, kbench lacks the method, or
        nobody has made the runs.
    compared : bool
        Whether it is a score of which the paper prints a number.
    cause : Cause, optional
        Why such a score differs from the printed one, if it does.
    """

    printed: Printed | None = None
    match: Match | None = None
    value: float | None = None
    sd: float | None = None
    status: str = ""
    least: float | None = None
    notes: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    stand_in: bool = False
    share: float | None = None
    absent: str = ""
    compared: bool = False
    cause: Cause | None = None

    @property
    def measured(self) -> bool:
        return self.value is not None or bool(self.status)

    @property
    def prints(self) -> bool:
        """Whether the paper has a value there, neither an empty cell nor a dash."""
        return self.printed is not None and self.printed.text != "-"


@dataclass(frozen=True)
class Group:
    """The printed and measured columns of one measure: `header` with its unit, an entry per row."""

    header: str
    column: str
    measure: Measure
    entries: list[Entry]

    def words(self, entry: Entry) -> tuple[str, str]:
        """The printed and the measured value as text."""
        unit = entry.printed.unit if entry.printed else ""
        in_paper = "" if entry.printed is None else entry.printed.text
        if unit in SECONDS_IN:
            in_paper = f"{in_paper} {unit}"
        if entry.value is None:
            return in_paper, entry.absent or entry.status
        if self.measure.over:
            return in_paper, f"n^{entry.value:.2f}"
        if unit in SECONDS_IN:
            scale = SECONDS_IN[unit]
            return in_paper, f"{plain_quantity(self.measure).text(entry.value / scale)} {unit}"
        quantity = quantity_of(self.measure)
        decimals = quantity.decimals_of(entry.value)
        text = quantity.text(entry.value, decimals)
        if self.measure.total:
            return in_paper, f"{text} s"  # like printed seconds, which name their unit, too
        is_count = decimals == 0 and entry.sd == 0.0
        if entry.sd is not None and not is_count:
            text += f" ± {quantity.text(entry.sd, decimals)}"
        return in_paper, text


@dataclass(frozen=True)
class Filled:
    """A table on one machine, or without measurements if `machine` is None."""

    table: Table
    paper: Paper
    machine: Machine | None
    rows: list[str]
    groups: list[Group]

    def cells(self) -> Iterator[tuple[tuple[str, ...], Measure, Entry]]:
        """Place (table, row, column, quantity), measure and entry of every cell."""
        for group in self.groups:
            for row, entry in zip(self.rows, group.entries, strict=True):
                place = self.table.id, row, group.column, group.measure.label
                yield place, group.measure, entry

    def of_own_experiments(self, entry: Entry) -> bool:
        """Whether the table's own experiments made a run behind an entry."""
        return entry.match is not None and made_by(self.table.experiments, entry.match.line)


@dataclass(frozen=True)
class Cell:
    """Position of a cell: table, row and column, machine, and with `only` a single data set."""

    table: Table
    runs: Runs
    machine: Machine | None
    row: str
    column: str
    only: Choice | None = None

    @property
    def wanted(self) -> Selector:
        """Which runs fill it."""
        return self.table.wanted(self.row, self.column)

    def printed(self, measure: Measure) -> Printed | None:
        """The value that the paper prints there."""
        place = (self.table.printed, self.row, self.column, measure.label)
        return printed(self.table.paper).get(place)


def quantity_of(measure: Measure) -> Quantity:
    """How the measured values of a measure are printed."""
    of = measure.curve
    if len(measure.of) == 1 and measure.per is None:
        of = measure.of[0]
    return QUANTITIES.get(of) or plain_quantity(measure)


def plain_quantity(measure: Measure) -> Quantity:
    """A quantity of three digits, or of whole numbers if the measure counts something."""
    columns = measure.of if measure.per is None else ()
    counts = measure.whole or any(name.startswith("n_") for name in columns)
    return Quantity(measure.label, measure.label, digits=3, decimals=0 if counts else None)
