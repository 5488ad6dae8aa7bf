"""Columns of tables: what a config calls them, and what they are for.

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
        place = {text: k for k, text in enumerate(categories)}
        lookup = np.array([place[text] for text in texts], dtype=np.int32)
        return cls(lookup[codes] if lookup.size else codes.astype(np.int32), categories)


@dataclass(frozen=True)
class Table:
    """The columns of one file."""

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
        """The table with its target and groups alone."""
        kept = {n: c for n, c in self.columns.items() if n in (self.target, self.group)}
        return replace(self, columns=kept)


@dataclass
class Options:
    """How tables are read; one object for all files of a data set."""

    columns: Mapping[str, Any]  # `source.columns` of a config
    known: ColumnLayout | None = None  # Layout of the tables that a model was trained on
    # `missing` and `missing_target`, see `kbench.data.formats.read`.
    source: Mapping[str, Any] = field(default_factory=dict)
    text_target: bool = True  # Whether the target may be texts
    # The target of the first file, and so of all files, where the config names none.
    target: str | None = None
    # What readers assumed or left out, each sentence once.
    notes: list[str] = field(default_factory=list)
    # Columns of texts that were found by their content (`categorical: auto`).
    texts: set[str] = field(default_factory=set)
    # Whether there are several files; only one of them needs to have a column that is dropped.
    several: bool = False
    absent: set[str] = field(default_factory=set)  # Texts that have stood for a missing target
    # The currency and percent signs beside the numbers of each column, "" for none; for later rows
    # also the signs in the training files.
    marks: dict[str, set[str]] = field(default_factory=dict)
    # The character before the decimals that a file of text shows, and so of all files.
    decimal: str | None = None
    # What `columns.drop` names and a file has had.
    dropped: set[str | float] = field(default_factory=set)
    # Columns that number or name the rows and are left out.
    index: set[str] = field(default_factory=set)
    # Columns of numbers in which a dash is read as a missing one.
    dashes: set[str] = field(default_factory=set)
    # Columns that a file types as texts: a later file without a value there gives them no type.
    typed_texts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.known is not None:
            self.decimal = self.known.get("decimal")
        if self.known is not None and "marks" in self.known:
            known = self.known["marks"]
            self.marks = {name: {*known.get(name, [""])} for name in self.known["columns"]}

    @property
    def auto(self) -> bool:
        """Whether columns of texts are found by their content."""
        return self.columns.get("categorical") == "auto"

    def note(self, sentence: str) -> None:
        """Record what was assumed, unless it has been recorded."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def note_marks(self, name: str, marks: Iterable[str]) -> None:
        """Say that the numbers of a column have different signs beside them, if they have.

        marks : "" for none; of all numbers but zeros, which need none.
        """
        known = self.marks.setdefault(name, set())
        before = len(known)
        known.update(marks)
        if before < len(known) > 1:
            shown = " and ".join(repr(mark) if mark else "nothing" for mark in sorted(known))
            about = f"the numbers in the column {printable(name)!r} have "
            self.notes[:] = [note for note in self.notes if not note.startswith(about)]
            self.note(f"{about}{shown} beside them: they are read as of one unit")

    def note_dashes(self, name: str, texts: Iterable[str]) -> None:
        """Say how a dash among the numbers of a column is read."""
        stripped = {text.strip() for text in texts}
        if dashes := stripped & DASHES:
            self.dashes.add(name)
            shown = f"in the column {printable(name)!r} {min(dashes)!r} is a missing number"
            self.note(f"{shown}; {_DASH_REMEDY}")

    def note_plain(self, arrays: Mapping[str, Column]) -> None:
        """Say which columns have numbers without the sign that other numbers of theirs have."""
        for name, column in arrays.items():
            if column.categories is None and "" not in self.marks.get(name, ()):
                self.note_marks(name, [""] * bool(np.nan_to_num(column.values).any()))


class Roles(NamedTuple):
    """What the columns of a file are for; `texts` : those whose texts are categories."""

    target: str | None
    group: str | None
    texts: frozenset[str]
    dropped: frozenset[str]


def matching(names: Sequence[str], wanted: str | float) -> str | None:
    """The column of this name, which a config may hold as a number or truth value: `2020`, `yes`.

    Blanks around a name do not count, and an accent may be a separate character, as macOS writes
    it. None if no column has the name, or several have it.
    """
    if str(wanted) in names:
        return str(wanted)
    if isinstance(wanted, str):
        matches = [name for name in names if _plain(name) == _plain(wanted)]
    elif isinstance(wanted, bool):
        spelt = ("true", "yes", "on") if wanted else ("false", "no", "off")
        matches = [name for name in names if name.lower() in spelt]
    else:
        matches = [name for name in names if number(name) == wanted]
    return matches[0] if len(matches) == 1 else None


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip()


def choose(names: list[str], wanted: str | float, key: str, path: Path) -> str:
    """The column that a config names, by name or else by position: 1 is the first, -1 the last."""
    name = matching(names, wanted)
    if name is not None:
        return name
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        if 1 <= abs(wanted) <= len(names):
            return names[wanted - 1 if wanted > 0 else wanted]
        raise DataError(
            f"{path}:1: dataset.source.columns.{key} is column {wanted}, there are {len(names)}"
            f" and none of that name"
        )
    shown = str(wanted)
    hint = nearest(shown, map(printable, names)) or f"; there are {listed(names)}"
    raise DataError(
        f"{path}:1: no column '{printable(shown)}', which dataset.source.columns.{key} names{hint}"
    )


_INDEX_NAME = re.compile(r"Unnamed: 0(\.\d+)*|\.\.\.1")
UNNAMED = re.compile(r"(Unnamed: \d+(\.\d+)*)?")


def _index_names(names: Sequence[str]) -> set[str]:
    """Columns that pandas or R wrote for the index, by their names: the first ones without one.

    pandas reads such a column as `Unnamed: 0` and writes it under this name, R's readr as `...1`.
    """
    named = next((k for k, name in enumerate(names) if not UNNAMED.fullmatch(name)), 0)
    return {*names[:named], *(name for name in names if _INDEX_NAME.fullmatch(name))}


def roles_of(names: list[str], options: Options, path: Path, index: Iterable[str] = ()) -> Roles:
    """The role of each column, by the config; of later rows, by the columns of the training file.

    index : Columns that number or name the rows, beside those whose names say so. They are left out
        unless the config names them.
    """
    columns, known = options.columns, options.known
    index = {*index, *_index_names(names)}
    named = columns.get("categorical") or []
    texts = [] if options.auto else [choose(names, w, "categorical", path) for w in named]
    dropped = _dropped(names, options, path)
    if known is not None:
        lacking = next((name for name in known["columns"] if name not in names), None)
        if lacking is not None:
            hint = nearest(lacking, map(printable, names)) or f"; there are {listed(names)}"
            if names == [str(k + 1) for k in range(len(names))]:
                hint = (
                    "; the file has no header, dataset.source.columns.names=[NAME, ...] names its "
                    "columns in order"
                )
            raise DataError(f"{path}:1: no column {lacking!r}, the training file had it{hint}")
        if needed := sorted(dropped & set(known["columns"])):
            raise DataError(
                f"{path}:1: dataset.source.columns.drop names {needed[0]!r}, a feature of the model"
            )
        target = known["target"] if known["target"] in names else None
        group = known.get("group") if known.get("group") in names else None
        features = set(known["columns"])
        index -= features
        trained = {*known.get("left_out", ())} & {*names}
        for name in sorted(trained - index - dropped):
            options.note(f"the column {printable(name)!r} is left out, as it was in training")
        left_out = index | trained
        expected = {*features, target, group, *left_out, *dropped}
        more = next((name for name in names if name not in expected), None)
        if more is not None:
            raise DataError(
                f"{path}:1: a column {more!r}, the training file had none; {dropping(more)} leaves "
                "it out"
            )
        categorical = {name for name, categories in known["columns"].items() if categories}
    else:
        wanted = columns.get("group")
        group = None if wanted is None else choose(names, wanted, "group", path)
        wanted = columns.get("target")
        target = None if wanted is None else choose(names, wanted, "target", path)
        index -= {target, group, *texts}
        options.index |= index
        left_out = index
        categorical = options.texts
        if target is None and options.target is None:
            left = [n for n in names if n not in dropped | left_out and n != group]
            options.target = left[-1] if left else names[-1]
        if target is None:
            target = options.target
            if target not in names:
                hint = nearest(str(target), map(printable, names)) or (
                    f"; there are {listed(names)}. Rows without targets are for `kbench predict`"
                )
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
        raise DataError(f"{path}:1: column {target!r} is the target and the group, should be one")
    dropped = (dropped | left_out) - {target, group}
    both = frozenset(texts) | (categorical if options.auto or known is not None else frozenset())
    return Roles(target, group, frozenset(both) - dropped - {target, group}, frozenset(dropped))


def _dropped(names: list[str], options: Options, path: Path) -> set[str]:
    """The columns that the config leaves out, of those that this file has."""
    dropped = set()
    for wanted in options.columns.get("drop") or []:
        whole = not options.several and options.known is None  # later rows may lack such a column
        if whole or isinstance(wanted, int) or matching(names, wanted) is not None:
            dropped.add(choose(names, wanted, "drop", path))
            options.dropped.add(wanted)
    return dropped


def require_dropped(options: Options, path: Path) -> None:
    """Refuse a name in `columns.drop` that none of several files has had; path : the first file."""
    for wanted in options.columns.get("drop") or []:
        if wanted not in options.dropped:
            raise DataError(
                f"{path}:1: no column {str(wanted)!r} here nor in the other files, which "
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

    Nothing is learned of those rows or required from them: a spreadsheet's blank rows are such.

    path, arrays, roles : The file, its columns without the dropped ones, and what they are for
    n, where : As of `Table`

    Raises DataError: a number is missing that may not be, or is infinite or too large for float32.
    """
    left_out, target = 0, arrays.get(str(roles.target))
    leaves_out_rows = options.source.get("missing_target") != "error"
    if target is not None and options.known is None and leaves_out_rows:
        missing = _missing(target)
        with_target = np.flatnonzero(~missing)
        if with_target.size < n:
            texts = target.categories or ()
            options.absent |= {texts[k] for k in np.unique(target.values[missing]) if texts}
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
    # One entry more than categories, because a column without rows has no category.
    gaps = np.array([*map(is_missing, column.categories), False])
    missing: np.ndarray = gaps[column.values]
    return missing


def _kept_row(where: Callable[[int], str], kept: np.ndarray, row: int) -> str:
    return where(int(kept[row]))


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
        odd = ~(np.abs(values) < FLOAT32_OVERFLOW)
        if allowed:
            odd &= ~np.isnan(values)
        row = int(np.argmax(odd)) if odd.any() else len(values)
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


def shown_number(text: str) -> bool:
    """Whether a text is a number, also as people write it, such as `1,5` and `$ 1.50`."""
    return is_number(text) or any(decorated_number(text, mark) is not None for mark in ".,")


def require_same_columns(table: Table, first: Table) -> None:
    """Refuse a table of other columns, or of other types, than the first one of its data set."""
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
        ours, theirs = table.columns[name].categories, first.columns[name].categories
        if (ours is None) != (theirs is None):
            remedy = (
                f"; dataset.source.columns.categorical={hydra_value([name])} reads texts in both"
            )
            raise DataError(
                f"{table.path}: column {name!r} holds {'numbers' if ours is None else 'texts'}, "
                f"in {first.path} it does not{remedy * (name != first.target)}"
            )
    for name in table.columns:
        if name not in first.columns:
            raise DataError(
                f"{table.path}:1: a column {name!r}, {first.path} has none; "
                f"{dropping(name)} leaves it out"
            )


def require_layout(table: Table, layout: ColumnLayout) -> None:
    """Refuse a table without the columns that a model was trained on, in any order."""
    for name, categories in layout["columns"].items():
        if bool(categories) != bool(table.columns[name].categories):
            had, has = ("texts", "numbers") if categories else ("numbers", "texts")
            raise DataError(
                f"{table.path}: column {name!r} holds {has}, in the training file it held {had}"
            )


def place_of_row(tables: list[Table]) -> Callable[[int], str]:
    """File and line of a row of several tables, by its number in all of them."""
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


def strange_texts(tables: list[Table], y: np.ndarray) -> list[str]:
    """The texts of the targets that are unknown, NaN in y : (n,), though they are not missing."""
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
