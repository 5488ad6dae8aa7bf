"""Columns of tables: the names that a config gives them, and the role of each.

The readers of CSV, Parquet and ARFF make `Table`s, each of a piece of a file;
`kbench.data.formats.coding` makes features of them.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbench.config import hydra_value
from kbench.data.formats import (
    FLOAT32_OVERFLOW,
    INFINITE_REMEDY,
    MISSING_REMEDY,
    ColumnLayout,
    dropping,
    listed,
    number,
    printable,
)
from kbench.data.formats.number_text import DASHES, decorated_number, is_missing
from kbench.errors import DataError
from kbench.mistyped import nearest

_DASH_REMEDY = "write 0 where a dash stands for zero, as in accounts"


class Column(NamedTuple):
    """values : (n,), numbers; or, if there are `categories`, int32 indices into them."""

    values: np.ndarray
    categories: tuple[str, ...] | None = None

    @classmethod
    def of_texts(cls, codes: np.ndarray, texts: Sequence[str]) -> "Column":
        """The column whose row i holds `texts[codes[i]]`; equal texts become one category."""
        categories = tuple(dict.fromkeys(texts))
        index_of = {text: k for k, text in enumerate(categories)}
        lookup = np.array([index_of[text] for text in texts], dtype=np.int32)
        return cls(lookup[codes] if lookup.size else codes.astype(np.int32), categories)


@dataclass(frozen=True)
class Table:
    """The columns of a file, or of a piece of it."""

    path: Path
    columns: dict[str, Column]  # In the order of the file, without the dropped ones
    target: str | None  # Name of the target column; None if a table of later rows has no target
    group: str | None  # Name of the column of the groups of rows
    n: int  # Rows
    where: Callable[[int], str]  # Maps a row number from 0 to `file:line` or `file, row k`
    n_without_target: int = 0  # Rows that are not in the table because they lack a target

    @property
    def features(self) -> list[str]:
        """Names of the feature columns."""
        return [name for name in self.columns if name not in (self.target, self.group)]

    def without_features(self) -> "Table":
        """A table that has only the target and the groups."""
        columns = {n: c for n, c in self.columns.items() if n in (self.target, self.group)}
        return replace(self, columns=columns)


@dataclass
class Options:
    """How tables are read; one object for all files of a data set."""

    columns: Mapping[str, Any]  # `source.columns` of a config
    known: ColumnLayout | None = None  # Layout of the tables that a model was trained on
    # `missing` and `missing_target`, see `kbench.data.formats.read`.
    source: Mapping[str, Any] = field(default_factory=dict)
    text_target: bool = True  # Whether the target may be texts
    # Target column of the first file, which all files must have; None until that file is read.
    target: str | None = None
    # What readers assumed or left out, each sentence once.
    notes: list[str] = field(default_factory=list)
    # Columns that hold texts by their content (`categorical: auto`) or by their type in ARFF.
    texts: set[str] = field(default_factory=set)
    # Whether there are several files, of which only one has to have a column that is dropped.
    several: bool = False
    missing_target_texts: set[str] = field(
        default_factory=set
    )  # Texts that stood for a missing target
    # The currency and percent signs beside the numbers of each column, "" for none; for later rows
    # also the signs in the training files.
    marks: dict[str, set[str]] = field(default_factory=dict)
    # The character before the decimals in all files, once a file of text has shown it.
    decimal: str | None = None
    # Entries of `columns.drop` that a file had.
    dropped: set[str | float] = field(default_factory=set)
    # Columns that are left out: by the config, or because they number or name the rows.
    left_out: set[str] = field(default_factory=set)
    # Columns of numbers in which a dash is read as a missing number.
    dashes: set[str] = field(default_factory=set)
    # Columns of texts in a typed file; they have no type in a later file without values in them.
    typed_texts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.known is not None:
            self.decimal = self.known.get("decimal")
        if self.known is not None and "marks" in self.known:
            training_marks = self.known["marks"]
            self.marks = {name: {*training_marks.get(name, [""])} for name in self.known["columns"]}

    @property
    def auto(self) -> bool:
        """Whether columns of texts are found by their content."""
        return self.columns.get("categorical") == "auto"

    def note(self, sentence: str) -> None:
        """Record an assumption, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def note_marks(self, name: str, marks: Iterable[str]) -> None:
        """Add a note if numbers of a column have different currency or percent signs beside them.

        marks : The signs beside the numbers other than 0; "" for none.
        """
        signs = self.marks.setdefault(name, set())
        before = len(signs)
        signs.update(marks)
        if before < len(signs) > 1:
            signs_text = " and ".join(repr(mark) if mark else "nothing" for mark in sorted(signs))
            about = f"the numbers in the column {printable(name)!r} have "
            self.notes[:] = [note for note in self.notes if not note.startswith(about)]
            self.note(f"{about}{signs_text} beside them: they are read as of one unit")

    def note_dashes(self, name: str, texts: Iterable[str]) -> None:
        """Say how a dash among the numbers of a column is read."""
        stripped = {text.strip() for text in texts}
        if dashes := stripped & DASHES:
            self.dashes.add(name)
            reading = f"in the column {printable(name)!r} {min(dashes)!r} is a missing number"
            self.note(f"{reading}; {_DASH_REMEDY}")

    def note_plain(self, arrays: Mapping[str, Column]) -> None:
        """Say which columns have a sign beside some of their numbers and none beside others."""
        for name, column in arrays.items():
            if column.categories is None and "" not in self.marks.get(name, ()):
                self.note_marks(name, [""] * bool(np.nan_to_num(column.values).any()))


class Roles(NamedTuple):
    """Roles of the columns of a file.

    texts : Columns whose texts are categories
    dropped : Columns that are left out: by the config, as an index of the rows, or as in training
    """

    target: str | None
    group: str | None
    texts: frozenset[str]
    dropped: frozenset[str]


def matching(names: Sequence[str], column: str | float) -> str | None:
    """The column of this name, which a config may hold as a number or truth value: `2020`, `yes`.

    Blanks around a name do not count, and an accent may be a separate character, as in macOS.
    None if no column has the name, or several have it.
    """
    if str(column) in names:
        return str(column)
    if isinstance(column, str):
        matches = [name for name in names if _normalize(name) == _normalize(column)]
    elif isinstance(column, bool):
        spelt = ("true", "yes", "on") if column else ("false", "no", "off")
        matches = [name for name in names if name.lower() in spelt]
    else:
        matches = [name for name in names if number(name) == column]
    return matches[0] if len(matches) == 1 else None


def _normalize(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip()


def choose(names: list[str], column: str | float, key: str, path: Path) -> str:
    """The column of this name, or else at this position: 1 is the first, -1 the last.

    key : The key of `source.columns` that names the column, for errors

    Raises DataError: there is no such column.
    """
    name = matching(names, column)
    if name is not None:
        return name
    if isinstance(column, int) and not isinstance(column, bool):
        if 1 <= abs(column) <= len(names):
            return names[column - 1 if column > 0 else column]
        raise DataError(
            f"{path}:1: dataset.source.columns.{key} is column {column}, there are {len(names)}"
            f" and none of that name"
        )
    text = str(column)
    hint = nearest(text, map(printable, names)) or f"; there are {listed(names)}"
    raise DataError(
        f"{path}:1: no column '{printable(text)}', which dataset.source.columns.{key} names{hint}"
    )


_INDEX_NAME = re.compile(r"Unnamed: 0(\.\d+)*|\.\.\.1")
# Matches the name of a column that the file did not name: empty, or as pandas writes it.
UNNAMED = re.compile(r"(Unnamed: \d+(\.\d+)*)?")


def _index_names(names: Sequence[str]) -> set[str]:
    """The columns that pandas or R wrote for the index: the leading ones without a name.

    pandas reads such a column as `Unnamed: 0` and writes it under this name, R's readr as `...1`.
    """
    n_unnamed = next((k for k, name in enumerate(names) if not UNNAMED.fullmatch(name)), 0)
    return {*names[:n_unnamed], *(name for name in names if _INDEX_NAME.fullmatch(name))}


def roles_of(names: list[str], options: Options, path: Path, index: Iterable[str] = ()) -> Roles:
    """The role of each column by the config; for later rows, by the columns of the training file.

    index : Columns that number or name the rows although their names do not say so. Index columns
        are left out unless the config names them.
    """
    columns, known = options.columns, options.known
    has_header = names != [str(k + 1) for k in range(len(names))]
    index = {*index, *_index_names(names)}
    configured = columns.get("categorical") or []
    by_content = options.auto or known is not None  # or by the training file
    texts = [] if by_content else [choose(names, c, "categorical", path) for c in configured]
    dropped = _dropped_columns(names, options, path)
    if known is not None:
        missing_name = next((name for name in known["columns"] if name not in names), None)
        if missing_name is not None:
            hint = nearest(missing_name, map(printable, names)) or f"; there are {listed(names)}"
            if not has_header:
                hint = (
                    "; the file has no header, dataset.source.columns.names=[NAME, ...] names its "
                    "columns in order"
                )
            raise DataError(f"{path}:1: no column {missing_name!r}, the training file had it{hint}")
        if needed := sorted(dropped & set(known["columns"])):
            raise DataError(
                f"{path}:1: dataset.source.columns.drop names {needed[0]!r}, a feature of the model"
            )
        target = known["target"] if known["target"] in names else None
        group = known.get("group") if known.get("group") in names else None
        features = set(known["columns"])
        index -= features
        left_out_in_training = {*known.get("left_out", ())} & {*names}
        for name in sorted(left_out_in_training - index - dropped):
            options.note(f"the column {printable(name)!r} is left out, as it was in training")
        left_out = index | left_out_in_training
        expected = {*features, target, group, *left_out, *dropped}
        unexpected = next((name for name in names if name not in expected), None)
        if unexpected is not None:
            raise DataError(
                f"{path}:1: a column {unexpected!r}, the training file had none; "
                f"{dropping(unexpected)} leaves it out"
            )
        categorical = {name for name, categories in known["columns"].items() if categories}
    else:
        wanted = columns.get("group")
        group = None if wanted is None else choose(names, wanted, "group", path)
        wanted = columns.get("target")
        target = None if wanted is None else choose(names, wanted, "target", path)
        if target in texts:
            raise DataError(
                f"{path}:1: dataset.source.columns.categorical names the target {target!r}; its "
                "texts are classes anyway, and a letter tells codes such as 01 and 1 apart"
            )
        index -= {target, group, *texts}
        left_out = index
        categorical = options.texts
        if target is None and options.target is None:
            features_and_target = [n for n in names if n not in dropped | left_out and n != group]
            options.target = features_and_target[-1] if features_and_target else names[-1]
        if target is None:
            target = options.target
            if target not in names:
                hint = nearest(str(target), map(printable, names)) or (
                    f"; there are {listed(names)}. Rows without targets are for `kbench predict`"
                )
                if not has_header:
                    hint = "; the file has no header, its first line should name the columns"
                raise DataError(
                    f"{path}:1: no column {target!r}, which is the target as the last column of "
                    f"the first file{hint}"
                )
    for name in sorted(index - dropped):
        note = "the first column has no name: it is an index of the rows and is left out"
        if name:
            note = f"the column {printable(name)!r} is an index of the rows and is left out"
        options.note(note)
    if target is not None and target == group:
        raise DataError(
            f"{path}:1: column {target!r} is the target and the group, should be one of them"
        )
    dropped = (dropped | left_out) - {target, group}
    options.left_out |= dropped
    if by_content:
        texts = [*texts, *categorical]
    return Roles(target, group, frozenset(texts) - dropped - {target, group}, frozenset(dropped))


def _dropped_columns(names: list[str], options: Options, path: Path) -> set[str]:
    """The columns of this file that the config leaves out."""
    dropped = set()
    for column in options.columns.get("drop") or []:
        # A file among several, and later rows, may lack a column that is dropped.
        must_exist = not options.several and options.known is None
        if must_exist or isinstance(column, int) or matching(names, column) is not None:
            dropped.add(choose(names, column, "drop", path))
            options.dropped.add(column)
    return dropped


def require_dropped(options: Options, path: Path) -> None:
    """Refuse a name in `columns.drop` that no file had; path : the first file."""
    for column in options.columns.get("drop") or []:
        if column not in options.dropped:
            raise DataError(
                f"{path}:1: no column {str(column)!r} here nor in the other files, which "
                "dataset.source.columns.drop names"
            )


def checked_table(
    path: Path,
    arrays: dict[str, Column],
    roles: Roles,
    n: int,
    where: Callable[[int], str],
    options: Options,
) -> Table:
    """The table of these columns, without the rows that lack a target if such rows are left out.

    Rows that are left out, such as a spreadsheet's blank rows, may hold anything.

    path, arrays, roles : The file, its columns without the dropped ones, and their roles
    n, where : As in `Table`

    Raises DataError: a number is missing that may not be, or is infinite or too large for float32.
    """
    left_out, target = 0, arrays.get(str(roles.target))
    leaves_out_rows = options.source.get("missing_target") != "error"
    if target is not None and options.known is None and leaves_out_rows:
        missing = _missing(target)
        with_target = np.flatnonzero(~missing)
        if with_target.size < n:
            texts = target.categories or ()
            options.missing_target_texts |= {
                texts[k] for k in np.unique(target.values[missing]) if texts
            }
            arrays = {
                name: column._replace(values=column.values[with_target])
                for name, column in arrays.items()
            }
            where = partial(_kept_row, where, with_target)
        n, left_out = with_target.size, n - with_target.size
    _require_numbers(arrays, roles.target, options, where)
    return Table(path, arrays, roles.target, roles.group, n, where, left_out)


def _missing(column: Column) -> np.ndarray:
    """(n,) bool: which values are missing."""
    if column.categories is None:
        return np.isnan(column.values)
    # The last entry makes the array boolean even if a column without rows has no categories.
    gaps = np.array([*map(is_missing, column.categories), False])
    missing: np.ndarray = gaps[column.values]
    return missing


def _kept_row(where: Callable[[int], str], rows_in_table: np.ndarray, row: int) -> str:
    return where(int(rows_in_table[row]))


def _require_numbers(
    arrays: Mapping[str, Column], target: str | None, options: Options, where: Callable[[int], str]
) -> None:
    """Refuse a number that is too large for float32, and a missing one unless it may be missing."""
    allowed = options.source.get("missing", "error") != "error"
    first: tuple[int, str, float] | None = None
    for name, column in arrays.items():
        values = column.values
        if column.categories is not None or name == target:
            continue
        wrong = ~(np.abs(values) < FLOAT32_OVERFLOW)
        if allowed:
            wrong &= ~np.isnan(values)
        row = int(np.argmax(wrong)) if wrong.any() else len(values)
        if row < (len(values) if first is None else first[0]):
            first = row, name, float(values[row])
    if first is None:
        return
    row, name, value = first
    if np.isnan(value):
        reason = f"is missing, should be a number; {MISSING_REMEDY}"
        reason += f"; {_DASH_REMEDY}" * (name in options.dashes)
    else:
        reason = f"is {value:g}, should be a finite number below 3.4e38; {INFINITE_REMEDY}"
    raise DataError(f"{where(row)}: column {name!r} {reason}")


def is_number(text: str) -> bool:
    """Whether a text of a column is a number, or stands for a missing one."""
    return number(text) is not None or is_missing(text, numeric=True)


def reads_as_number(text: str) -> bool:
    """Whether a text is a number, plain or as people write it: `1,5`, `$ 1.50`."""
    return is_number(text) or any(decorated_number(text, mark) is not None for mark in ".,")


def require_same_columns(table: Table, first: Table) -> None:
    """Refuse a table whose columns differ from the first table's in name or type."""
    for name in first.columns:
        if name not in table.columns:
            remedy = f"{dropping(name)} leaves it out"
            if name == first.target:
                remedy = "rows without targets are for `kbench predict`"
            others = [printable(other) for other in table.columns if other not in first.columns]
            raise DataError(
                f"{table.path}:1: no column {name!r}{nearest(name, others)}, {first.path} has it; "
                f"{remedy}"
            )
        texts, first_texts = table.columns[name].categories, first.columns[name].categories
        if (texts is None) != (first_texts is None):
            remedy = (
                f"; dataset.source.columns.categorical={hydra_value([name])} reads texts in both"
            )
            raise DataError(
                f"{table.path}: column {name!r} holds {'numbers' if texts is None else 'texts'}, "
                f"in {first.path} it does not{remedy * (name != first.target)}"
            )
    for name in table.columns:
        if name not in first.columns:
            raise DataError(
                f"{table.path}:1: a column {name!r}, {first.path} has none; "
                f"{dropping(name)} leaves it out"
            )


def require_layout(table: Table, layout: ColumnLayout) -> None:
    """Refuse a table in which a column has another type than in the training file."""
    for name, categories in layout["columns"].items():
        if bool(categories) != bool(table.columns[name].categories):
            had, has = ("texts", "numbers") if categories else ("numbers", "texts")
            raise DataError(
                f"{table.path}: column {name!r} holds {has}, in the training file it held {had}"
            )


def place_of_row(tables: list[Table]) -> Callable[[int], str]:
    """A function from a row's number in the concatenated tables to its file and line."""
    return partial(_locate, [(t.n, t.where) for t in tables])


def _locate(pieces: list[tuple[int, Callable[[int], str]]], row: int) -> str:
    for n, where in pieces:
        if row < n:
            return where(row)
        row -= n
    raise IndexError(row)


def stack_pieces(pieces: list[Any]) -> Any:
    """The rows of all pieces, arrays or CSR."""
    if len(pieces) == 1:
        return pieces[0]
    if isinstance(pieces[0], np.ndarray):
        return np.vstack(pieces)
    from scipy.sparse import vstack

    return vstack(pieces, format="csr")


def unknown_target_texts(tables: list[Table], y: np.ndarray) -> list[str]:
    """The target texts, other than missing ones, of the rows where y : (n,) is NaN (unknown)."""
    texts: set[str] = set()
    start = 0
    for table in tables:
        column = table.columns[table.target] if table.target is not None else None
        unknown = np.isnan(y[start : start + table.n])
        start += table.n
        if column is not None and column.categories is not None:
            texts |= {column.categories[k] for k in np.unique(column.values[unknown])}
        elif column is not None:
            texts |= {f"{v:.17g}" for v in np.unique(column.values[unknown])}
    return sorted(text for text in texts if not is_missing(text))
