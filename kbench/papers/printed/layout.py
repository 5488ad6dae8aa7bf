"""Layouts of the papers' tables, read from `<paper>.yaml`.

A table has rows, columns and measures. Rows and columns select runs by method, data set and
parameters; a cell reads the runs that both select, on the first available data set of those that
stand for the paper's.
"""

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any, Literal

import yaml

from kbench.papers.printed.numbers import Printed, printed
from kbench.report.comparisons.reading import package_text

PAPERS = ("dcsvm", "meka", "dcpred", "dsgd", "hss")


@dataclass(frozen=True, eq=False)
class Choice:
    """A data set of kbench that stands for a paper's, and parameters that replace the paper's.

    `share` is our number of rows divided by the paper's, given if no table of sizes has it. A
    choice `differs` if its data set is not the first of its list, which is the paper's.
    """

    dataset: str
    variant: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    share: float | None = None
    differs: bool = False


@dataclass(frozen=True, eq=False)
class Selector:
    """Which runs fill a cell."""

    methods: tuple[str, ...] = ()  # Any of these methods; empty for all
    data: str | None = None  # The paper's name of the data set
    # Parameter -> value, or a list of accepted values.
    params: Mapping[str, Any] = field(default_factory=dict)
    # Name of a curve -> its value at the place where the measured curve is read.
    at: Mapping[str, float] = field(default_factory=dict)
    table: str | None = None  # The table over which a total is taken
    # The paper's name of a data set -> parameters of the runs on it, as in `params`.
    by_data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # The kernel, for methods with a choice of kernels; empty for any. `params` takes precedence.
    kernel: str = ""
    # The experiments whose rows are preferred to rows of other commands.
    experiments: frozenset[str] = frozenset()

    @property
    def all_params(self) -> dict[str, Any]:
        """The parameters of the runs on its data set."""
        return {**self.params, **self.by_data.get(self.data or "", {})}

    def __and__(self, other: "Selector") -> "Selector":
        """Both selectors as one; if both set a name, the value of `other` is used."""
        attributes: dict[str, Any] = {}
        for name in (attribute.name for attribute in fields(self)):
            a, b = getattr(self, name), getattr(other, name)
            attributes[name] = {**a, **b} if isinstance(a, Mapping) else b or a
        return Selector(**attributes)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A quantity of a table's cells as layouts spell it. With only a label, it is not measured."""

    label: str  # The printed quantity
    # Columns of the row that are added up, divided by the column `per` and multiplied by `factor`.
    # A name `phases.x` reads the seconds of a phase.
    of: tuple[str, ...] = ()
    per: str | None = None
    factor: float = 1.0
    # If given, the measure is the exponent with which the columns `of` grow with this column: the
    # slope of a line through the logarithms, over all data sets that stand for the paper's.
    over: str = ""
    curve: str = ""  # A curve, read at the places that the cell's selector names (`Selector.at`)
    # The value of a curve is its value at the last place, the sum over all places, or its final
    # value ("end"). `whole` values have no decimals.
    pick: Literal["last place", "sum", "end"] = "last place"
    whole: bool = False
    sum: tuple[str, ...] = ()  # Other measures of the same cell that are added up
    # Another measure of the cell, divided by its value in the row `to` on the same problem and
    # machine, or by a measure of another table in the same row (`to` is `table: measure`).
    ratio: str = ""
    to: str = ""
    # A measure that is added up over all rows of the table that the cell's selector names.
    total: str = ""

    @property
    def is_readable(self) -> bool:
        """Whether runs can fill the measure, from their rows or as a total of such cells."""
        return bool(self.of or self.curve or self.total)

    @property
    def is_size(self) -> bool:
        """Whether the measure is a size of the data, which does not depend on a method."""
        sizes = {"n_train", "n_test", "n_features", "n_classes"}
        return bool(self.of) and sizes.issuperset(self.of)

    @property
    def is_training_seconds(self) -> bool:
        """Whether the measure is training seconds, which a stopped run bounds from below."""
        return (self.of, self.per) == (("fit_s",), None)


def experiments_of(command: str) -> frozenset[str]:
    """The experiments that a command such as `-m experiment=a,b dataset=c` names."""
    keys = dict(word.partition("=")[::2] for word in command.split())
    return frozenset(keys.get("experiment", "").split(",")) - {""}


@dataclass(frozen=True, kw_only=True)
class TableLayout:
    """The layout of one printed table.

    `printed` and `sizes` name tables of printed values. `kbench -m <run>` makes the rows; `why`
    is the reason if there are none; `lacking` are rows of methods that kbench does not have;
    `tuned` says that every method has the same number of trials to find its parameters.
    """

    paper: str
    name: str
    rows: Mapping[str, Selector]
    columns: Mapping[str, Selector]
    measures: Mapping[str, Measure]
    sizes: str
    caption: str = ""
    label: str = ""
    printed: str = ""
    run: str = ""
    notes: Sequence[str] = ()
    why: str = ""
    lacking: Sequence[str] = ()
    tuned: bool = False

    @property
    def id(self) -> str:
        return f"{self.paper}_{self.name}"

    @cached_property
    def wanted(self) -> Mapping[tuple[str, str], Selector]:
        """(row, column) -> which runs fill the cells there."""
        cells = itertools.product(self.rows, self.columns)
        return {(row, column): self.rows[row] & self.columns[column] for row, column in cells}

    @property
    def number(self) -> str:
        """`Table 3`, `ICML Table 6`, `Figure 2`, `Complexity`, or the table's own `label`."""
        if self.label:
            return self.label
        spaced = self.name.replace("table", "Table ").replace("fig", "Figure ")
        words = spaced.replace("_", " ").split()
        first = words[0].upper() if words[0] == "icml" else words[0].capitalize()
        return " ".join([first, *words[1:]])

    @property
    def title(self) -> str:
        """`DC-SVM Table 3`."""
        return f"{paper(self.paper).title} {self.number}"


@dataclass(frozen=True)
class CellPlace:
    """The place of a value: table, row, column and measure, and with `only` a single data set."""

    table: TableLayout
    row: str
    column: str
    label: str
    only: Choice | None = None

    @property
    def wanted(self) -> Selector:
        """The selector of the runs that fill the cell."""
        return self.table.wanted[self.row, self.column]

    @property
    def measure(self) -> Measure:
        return self.table.measures[self.label]

    @property
    def data(self) -> str:
        """The paper's name of the data set, which a total takes from the summed table; or empty."""
        layout, name = paper(self.table.paper), self.wanted.table
        summed = layout.tables[name].rows.values() if name else ()
        return self.wanted.data or next((cell.data or "" for cell in summed), "")

    @property
    def absent(self) -> bool:
        """Whether kbench has neither the cell's data set nor another one that stands for it."""
        return self.data in paper(self.table.paper).absent

    @property
    def choices(self) -> Sequence[Choice]:
        """The data sets that stand for the paper's, of which the first available counts."""
        if self.only is not None:
            return (self.only,)
        return paper(self.table.paper).data[self.data] if self.data else ()

    @property
    def printed(self) -> Printed | None:
        """The value that the paper prints in this cell."""
        key = (self.table.printed, self.row, self.column, self.label)
        return printed(self.table.paper).get(key)


@dataclass(frozen=True)
class Paper:
    """One paper: its short title, the machine of its times, its data sets and tables.

    `sizes` is the table that prints the sizes of the data sets. `absent` are the data sets that
    were not available for the reference rows, and for which no other data set stands. `kernel` is
    the kernel of the runs unless a selector names another.
    """

    name: str
    title: str
    machine: str
    kernel: str
    sizes: str
    data: Mapping[str, tuple[Choice, ...]]
    tables: Mapping[str, TableLayout]
    absent: frozenset[str]


@cache
def paper(name: str) -> Paper:
    """The layout of a paper.

    Raises TypeError, ValueError: a key does not exist in layouts, or `absent` names data that the
    layout does not have.
    """
    content = load(f"{name}.yaml")
    data = {
        label: tuple(_choice(differs=c["dataset"] != choices[0]["dataset"], **c) for c in choices)
        for label, choices in content["data"].items()
    }
    tables = {table: _table(name, table, content, data) for table in content["tables"]}
    absent = frozenset(content["absent"])
    if unknown := sorted(absent - set(data)):
        raise ValueError(f"{name}.yaml: absent names {unknown[0]}, which is not in data")
    return Paper(name, **content | {"data": data, "tables": tables, "absent": absent})


def _choice(*, params: Mapping[str, Any] | None = None, **keys: Any) -> Choice:
    return Choice(params=_parsed_powers(params or {}), **keys)


def all_tables() -> list[TableLayout]:
    """The tables of all papers, in the order of `PAPERS`."""
    return [table for name in PAPERS for table in paper(name).tables.values()]


@cache
def load(file: str) -> Any:
    """The content of a YAML file of this package; all callers share it, so none may change it."""
    text = package_text("kbench.papers.printed", file)
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def legend(*names: str) -> str:
    """Explanations of tables and pictures, by their names in `legend.yaml`."""
    return " ".join(load("legend.yaml")[name] for name in names)


def selector(*, method: str | Sequence[str] = (), run: str = "", **keys: Any) -> Selector:
    """A selector as layouts spell it: one method or several, numbers also as `2^-9`.

    Rows that `kbench -m <run>` makes are preferred.
    """
    methods = (method,) if isinstance(method, str) else tuple(method)
    return Selector(methods, experiments=experiments_of(run), **_parsed_powers(keys))


def measure(label: str, *, of: str | Sequence[str] = (), **keys: Any) -> Measure:
    """A measure as layouts spell it: one column or several."""
    columns = (of,) if isinstance(of, str) else tuple(of)
    return Measure(label=label, of=columns, **keys)


def repetitions(
    each: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
) -> tuple[Mapping[str, Any], ...]:
    """The repetitions: all combinations of a mapping's values, or the items of a list."""
    if isinstance(each, Mapping):
        values = itertools.product(*each.values())
        return tuple(dict(zip(each, value, strict=True)) for value in values)
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


def _table(paper: str, name: str, raw: Mapping[str, Any], data: Mapping[str, Any]) -> TableLayout:
    """A table of a paper whose file has the content `raw`."""
    layout = {"sizes": raw["sizes"], "printed": name, "columns": {"": {}}} | raw["tables"][name]
    common = {"kernel": raw["kernel"], **layout.pop("where", {})}
    common_runs = selector(run=layout.get("run", ""), **common)
    row_names = {row for table, row, *_ in printed(paper) if table == name}
    rows = _selectors(layout.pop("rows"), data, row_names).items()
    columns = layout.pop("columns").items()
    quantities = layout.pop("quantities").items()
    return TableLayout(
        paper=paper,
        name=name,
        rows={label: common_runs & spec for label, spec in rows},
        columns={label: selector(**spec) for label, spec in columns},
        measures={label: measure(label, **spec) for label, spec in quantities},
        **layout,
    )


def _selectors(rows: Any, data: Iterable[str], row_names: Container[str]) -> dict[str, Selector]:
    if rows == "data":
        return {label: Selector(data=label) for label in data if label in row_names}
    if set(rows) == {"grid"}:
        return {
            " ".join(f"{name}={value}" for name, value in params.items()): selector(params=params)
            for params in repetitions(rows["grid"])
        }
    return {label: selector(**spec) for label, spec in rows.items()}


def _parsed_powers(value: Any) -> Any:
    """`2^-9` as a number, also inside lists and mappings; other values are unchanged."""
    if isinstance(value, Mapping):
        return {name: _parsed_powers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_parsed_powers(item) for item in value]
    if isinstance(value, str) and "^" in value:
        base, _, exponent = value.partition("^")
        return float(base) ** float(exponent)
    return value
