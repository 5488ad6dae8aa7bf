"""Layouts of the papers' tables, read from `<paper>.yaml`.

A table has rows, columns and measures. Rows and columns select runs by method, data set and
parameters; a cell reads the runs that both select, on the first available data set of those that
stand for the paper's.
"""

import itertools
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import yaml

from kbench.papers.printed.numbers import printed
from kbench.report.comparisons.reading import package_text

PAPERS = ("dcsvm", "meka", "dcpred", "dsgd", "hss")


@dataclass(frozen=True)
class Choice:
    """A data set of kbench that stands for a paper's, and parameters that replace the paper's.

    `share` is our rows over the paper's, where they are fewer and no table of sizes tells it.
    """

    dataset: str
    variant: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    share: float | None = None


@dataclass(frozen=True)
class Selector:
    """Which runs fill a cell.

    Attributes
    ----------
    methods : tuple of str
        Any of these; empty for all.
    data : str, optional
        The paper's name of the data set.
    params : mapping
        Parameter -> value, or a list of accepted values.
    at : mapping
        Curve -> its value at the place where another curve is read.
    table : str, optional
        The table over which a total is taken.
    memory : mapping
        The paper's name of a data set -> numbers kept for each training row. Of several lines the
        one nearest to it fills the cell, if it is near enough to be compared.
    by_data : mapping
        The paper's name of a data set -> parameters of the runs on it, as in `params`.
    kernel : str
        The kernel of the runs of methods that have a choice of kernels; any if it is empty, or if
        `params` names one.
    """

    methods: tuple[str, ...] = ()
    data: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    at: Mapping[str, float] = field(default_factory=dict)
    table: str | None = None
    memory: Mapping[str, float] = field(default_factory=dict)
    by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    kernel: str = ""

    @property
    def all_params(self) -> dict[str, Any]:
        """The parameters of the runs on its data set."""
        return {**self.params, **self.by_data.get(self.data or "", {})}

    def __and__(self, other: "Selector") -> "Selector":
        return Selector(
            other.methods or self.methods,
            self.data if other.data is None else other.data,
            {**self.params, **other.params},
            {**self.at, **other.at},
            self.table if other.table is None else other.table,
            {**self.memory, **other.memory},
            {**self.by_data, **other.by_data},
            other.kernel or self.kernel,
        )


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A quantity of a table's cells; by itself one that is only printed and never measured.

    Attributes
    ----------
    label : str
        The printed quantity.
    """

    label: str

    @property
    def reads(self) -> bool:
        """Whether runs can fill it: read from their rows, or a total of cells that are."""
        return False

    @property
    def sizes(self) -> bool:
        """Whether it is a size of the data, which takes no method to measure."""
        return False

    @property
    def trains(self) -> bool:
        """Whether it is the seconds of training, of which a limit of time is a lower bound."""
        return False


@dataclass(frozen=True, kw_only=True)
class Columns(Measure):
    """Columns of the row added up, divided by the column `per` and multiplied by `factor`.

    A name `phases.x` reads the seconds of a phase.
    """

    of: tuple[str, ...]
    per: str | None = None
    factor: float = 1.0

    @property
    def reads(self) -> bool:
        return True

    @property
    def sizes(self) -> bool:
        return {"n_train", "n_test", "n_features", "n_classes"}.issuperset(self.of)

    @property
    def trains(self) -> bool:
        return (self.of, self.per) == (("fit_s",), None)


@dataclass(frozen=True, kw_only=True)
class Growth(Columns):
    """The exponent with which the columns grow with another one, `over`.

    It is the slope of a straight line through the logarithms, over all data sets that stand for the
    paper's.
    """

    over: str


@dataclass(frozen=True, kw_only=True)
class CurveValue(Measure):
    """The value of a curve at the places that the cell's selector names (`Selector.at`).

    `pick` says which of several values counts: that of the last place, the sum over all places, or
    the end of the curve whatever the places are. `whole` values are printed without decimals.
    """

    curve: str
    pick: Literal["last place", "sum", "end"] = "last place"
    whole: bool = False

    @property
    def reads(self) -> bool:
        return True


@dataclass(frozen=True, kw_only=True)
class Sum(Measure):
    """The sum of other measures of the same cell, named by their labels."""

    parts: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Ratio(Measure):
    """Another measure of the cell, `numerator`, over a value on the same problem and machine.

    The denominator is the same measure in the row `row`, or in the same row the measure
    `denominator` of the table `table`.
    """

    numerator: str
    row: str = ""
    table: str = ""
    denominator: str = ""


@dataclass(frozen=True, kw_only=True)
class Total(Measure):
    """The sum of the measure `part` over all rows of the table that the cell's selector names."""

    part: str

    @property
    def reads(self) -> bool:
        return True


def experiments_of(command: str) -> frozenset[str]:
    """The experiments that a command such as `-m experiment=a,b dataset=c` names."""
    words = dict(word.partition("=")[::2] for word in command.split())
    return frozenset(words.get("experiment", "").split(",")) - {""}


@dataclass(frozen=True)
class Table:
    """The layout of one printed table.

    `printed` and `sizes` name tables of printed values. `kbench -m <run>` makes the rows; `why`
    says why there are none; `lacking` are rows of methods that kbench does not have; `tuned` says
    that every method has the same number of trials to find its parameters.
    """

    paper: str
    name: str
    caption: str
    run: str
    rows: Mapping[str, Selector]
    columns: Mapping[str, Selector]
    measures: Mapping[str, Measure]
    printed: str
    sizes: str
    notes: tuple[str, ...] = ()
    why: str = ""
    lacking: Sequence[str] = ()
    tuned: bool = False

    @property
    def id(self) -> str:
        return f"{self.paper}_{self.name}"

    def wanted(self, row: str, column: str) -> Selector:
        """Which runs fill a cell."""
        return self.rows[row] & self.columns[column]

    @property
    def experiments(self) -> frozenset[str]:
        """The experiments whose rows its cells show before those of other commands."""
        return experiments_of(self.run)

    @property
    def number(self) -> str:
        """`Table 3`, `ICML Table 6`, `Figure 2`, `Complexity`."""
        spaced = self.name.replace("table", "Table ").replace("fig", "Figure ")
        words = spaced.replace("_", " ").split()
        first = words[0].upper() if words[0] == "icml" else words[0].capitalize()
        return " ".join([first, *words[1:]])


@dataclass(frozen=True)
class Paper:
    """One paper: its short title, the machine of its times, its data sets and tables.

    `sizes` is the table that prints the sizes of the data sets. `absent` are the data sets that
    were not available for the reference rows, and for which no other data set stands. `kernel` is
    the kernel of its runs where no selector names another one.
    """

    name: str
    title: str
    machine: str
    sizes: str
    data: Mapping[str, tuple[Choice, ...]]
    tables: Mapping[str, Table]
    absent: frozenset[str]
    kernel: str

    def data_of(self, wanted: Selector) -> str | None:
        """The data set of a cell; for a total that of the table it sums over."""
        of = self.tables[wanted.table].rows.values() if wanted.table else ()
        return wanted.data or next((one.data for one in of), None)


@cache
def paper(name: str) -> Paper:
    """The layout of a paper.

    Raises
    ------
    TypeError, ValueError
        A key does not exist in layouts, or `absent` names data that the layout does not have.
    """
    read = load(f"{name}.yaml")
    data = {
        label: tuple(Choice(**one | {"params": _numbers(one.get("params", {}))}) for one in choices)
        for label, choices in read["data"].items()
    }
    tables = {
        table: _table(name, table, {"sizes": read["sizes"], **layout}, data, read["kernel"])
        for table, layout in read["tables"].items()
    }
    absent = frozenset(read["absent"])
    if unknown := sorted(absent - set(data)):
        raise ValueError(f"{name}.yaml: absent names {unknown[0]}, which is not in data")
    return Paper(
        name=name,
        title=read["paper"],
        machine=read["machine"],
        sizes=read["sizes"],
        data=data,
        tables=tables,
        absent=absent,
        kernel=read["kernel"],
    )


def all_tables() -> list[Table]:
    """The tables of all papers, in the order of `PAPERS`."""
    return [table for name in PAPERS for table in paper(name).tables.values()]


def load(file: str) -> Any:
    """The content of a YAML file of this package."""
    text = package_text("kbench.papers.printed", file)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def selector(
    *,
    method: str | list[str] | None = None,
    data: str | None = None,
    params: Mapping[str, Any] | None = None,
    at: Mapping[str, float] | None = None,
    table: str | None = None,
    memory: Mapping[str, float] | None = None,
    by_data: Mapping[str, Mapping[str, Any]] | None = None,
    kernel: str = "",
) -> Selector:
    """A selector as layouts spell it: one method or several, numbers also as `2^-9`."""
    methods = (method,) if isinstance(method, str) else tuple(method or ())
    of_data = {name: _numbers(one) for name, one in (by_data or {}).items()}
    return Selector(
        methods, data, _numbers(params or {}), at or {}, table, memory or {}, of_data, kernel
    )


def measure(
    label: str,
    *,
    of: str | list[str] | None = None,
    per: str | None = None,
    factor: float = 1.0,
    over: str | None = None,
    curve: str | None = None,
    added: bool = False,
    last: bool = False,
    sum: Sequence[str] = (),
    ratio: str | None = None,
    to: str = "",
    total: str | None = None,
    whole: bool = False,
) -> Measure:
    """A measure as layouts spell it; its keys determine its kind."""
    if ratio is not None:
        table, colon, denominator = (part.strip() for part in to.partition(":"))
        row = "" if colon else table
        where = table if colon else ""
        return Ratio(label=label, numerator=ratio, row=row, table=where, denominator=denominator)
    if sum:
        return Sum(label=label, parts=tuple(sum))
    if total is not None:
        return Total(label=label, part=total)
    if curve is not None:
        pick: Literal["last place", "sum", "end"] = "sum" if added else "last place"
        return CurveValue(label=label, whole=whole, curve=curve, pick="end" if last else pick)
    if of is None:
        return Measure(label=label)
    columns = (of,) if isinstance(of, str) else tuple(of)
    if over is not None:
        return Growth(label=label, of=columns, per=per, factor=factor, over=over)
    return Columns(label=label, of=columns, per=per, factor=factor)


def repetitions(
    each: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any], ...]:
    """All combinations of a mapping's values; a list has each repetition already."""
    if isinstance(each, Mapping):
        values = itertools.product(*each.values())
        return tuple(dict(zip(each, one, strict=True)) for one in values)
    return tuple(each)


def substituted(cell: Any, names: Mapping[str, Any]) -> Any:
    """`cell` with the values of `names` in place of `{name}`; a whole `{name}` keeps its type."""
    if isinstance(cell, Mapping):
        return {key: substituted(value, names) for key, value in cell.items()}
    if not isinstance(cell, str):
        return cell
    if cell.startswith("{") and cell[1:-1] in names:
        return names[cell[1:-1]]
    return cell.format(**names) if "{" in cell else cell


def _table(
    paper: str,
    name: str,
    layout: Mapping[str, Any],
    data: Mapping[str, tuple[Choice, ...]],
    kernel: str,
) -> Table:
    layout = dict(layout)
    where = Selector(kernel=kernel) & selector(**layout.pop("where", {}))
    rows = _rows(layout.pop("rows"), data, {row for of, row, *_ in printed(paper) if of == name})
    columns = layout.pop("columns", {"": {}})
    return Table(
        paper=paper,
        name=name,
        caption=layout.pop("caption"),
        run=layout.pop("run", ""),
        rows={label: where & one for label, one in rows.items()},
        columns={label: selector(**one) for label, one in columns.items()},
        measures={label: measure(label, **one) for label, one in layout.pop("quantities").items()},
        printed=layout.pop("printed", name),
        notes=tuple(layout.pop("notes", ())),
        **layout,
    )


def _rows(
    given: Any, data: Mapping[str, tuple[Choice, ...]], known: Container[str]
) -> dict[str, Selector]:
    if given == "data":
        return {label: Selector(data=label) for label in data if label in known}
    if set(given) == {"grid"}:
        axes = given["grid"]
        points = itertools.product(*axes.values())
        settings = [dict(zip(axes, point, strict=True)) for point in points]
        return {
            " ".join(f"{name}={value}" for name, value in one.items()): Selector(
                params=_numbers(one)
            )
            for one in settings
        }
    return {label: selector(**one) for label, one in given.items()}


def _numbers(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) for name, value in params.items()}


def _number(value: Any) -> Any:
    """`2^-9` as a number, in lists too; anything else as it is."""
    if isinstance(value, list):
        return [_number(one) for one in value]
    if isinstance(value, str) and "^" in value:
        base, _, exponent = value.partition("^")
        return float(base) ** float(exponent)
    return value
