"""Tables of named columns, numbers or categories, become features and a target.

A column of numbers is one feature. A column of categories becomes one-hot features, one for each
category of the training file (of the only file, if there is one), sorted as text. A category that
only the test file has is an error; with `source.columns.unknown: ignore` its features are all 0.
Features are in the order of the file's columns.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbench.config import nearest
from kbench.data.formats import Layout, Part, features_file, listed, number, printable
from kbench.data.preparation.array_file import ArrayWriter, mapped
from kbench.errors import DataError


class Column(NamedTuple):
    """values : (n,), numbers; or, if there are `categories`, int32 indices into them."""

    values: np.ndarray
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Table:
    """The columns of one file.

    Attributes
    ----------
    path : Path
    columns : dict of str to Column
        In the order of the file, without the dropped ones.
    target : str or None
        Name of the target column; None if a table of later rows has no target.
    n : int
        Rows.
    where : callable
        Maps a row number from 0 to `file:line` or `file, row k`.
    """

    path: Path
    columns: dict[str, Column]
    target: str | None
    n: int
    where: Callable[[int], str]

    def only_target(self) -> "Table":
        """The table without its features."""
        kept = {name: column for name, column in self.columns.items() if name == self.target}
        return replace(self, columns=kept)


def choose(names: list[str], wanted: str | int, key: str, path: Path) -> str:
    """The column that a config names, by name or by position: 1 is the first, -1 the last."""
    if isinstance(wanted, int):
        if 1 <= abs(wanted) <= len(names):
            return names[wanted - 1 if wanted > 0 else wanted]
        raise DataError(
            f"{path}:1: dataset.source.columns.{key} is column {wanted}, there are {len(names)}"
        )
    if wanted not in names:
        hint = nearest(wanted, map(printable, names)) or f"; there are {listed(names)}"
        raise DataError(
            f"{path}:1: no column {wanted!r}, which dataset.source.columns.{key} names{hint}"
        )
    return wanted


def chosen(names: list[str], options: Mapping[str, Any], key: str, path: Path) -> list[str]:
    """The columns that a list in the config names."""
    return [choose(names, wanted, key, path) for wanted in options.get(key) or []]


def target_of(names: list[str], options: Mapping[str, Any], path: Path) -> str | None:
    """The target column; by default the last one.

    For a table of later rows the column `options.known_target`, or None if it is absent.
    """
    if "known_target" in options:
        known: str = options["known_target"]
        return known if known in names else None
    wanted = options.get("target")
    return choose(names, -1 if wanted is None else wanted, "target", path)


def read_tables(
    parts: Mapping[str, list[Path]],
    source: Mapping[str, Any],
    folder: Path,
    tables: Callable[[Path, Mapping[str, Any]], Iterable[Table]],
) -> dict[str, Part]:
    """The rows of each part, whose files `tables(path, options)` reads piece by piece.

    options : `source.columns`, with the name of the target where the layout is known.

    Notes
    -----
    If all features are numbers they are written to `folder` and mapped, so that memory is needed
    for a piece and for about 24 bytes per row. Tables with categories are kept in memory until the
    last row has been read, because only then all categories are known.
    """
    options = dict(source.get("columns") or {})
    known = source.get("known") or {}
    coding = Coding(options, known.get("layout"), known.get("labels"))
    if coding.known is not None:
        options["known_target"] = coding.known["target"]
    folder.mkdir(exist_ok=True)
    tables_by_part: dict[str, list[Table]] = {}
    maps: dict[str, np.ndarray] = {}
    for part, paths in parts.items():
        group = tables_by_part[part] = []
        with ExitStack() as stack:
            out = None
            for table in (table for path in paths for table in tables(path, options)):
                coding.learn(table, training=len(tables_by_part) == 1)
                if coding.has_categories:
                    group.append(table)
                    continue
                X = coding.numbers(table)
                if out is None:
                    file = features_file(folder, part)
                    out = stack.enter_context(ArrayWriter(file, (None, X.shape[1]), np.float32))
                out.write(X)
                group.append(table.only_target())
        if out is not None:
            maps[part] = mapped(features_file(folder, part))
    return {part: coding.part(group, maps.get(part)) for part, group in tables_by_part.items()}


def require_finite(arrays: Mapping[str, Column], where: Callable[[int], str]) -> None:
    """Refuse a number that is missing or too large for float32."""
    for name, column in arrays.items():
        odd = np.flatnonzero(~np.isfinite(column.values))
        if odd.size:
            raise DataError(
                f"{where(int(odd[0]))}: column {name!r} is missing or not finite, should be a "
                "number"
            )


class Coding:
    """Features and targets of tables that are read one by one and have the same columns.

    Parameters
    ----------
    options : mapping
        `source.columns` of a config.
    known : Layout, optional
        Layout of the tables that a model was trained on; later tables are read in the same way.
    labels : tuple of str, optional
        Texts of the targets in the training tables.

    Attributes
    ----------
    labels : tuple of str or None
        Targets that are texts, sorted; None if all targets so far are numbers.
    layout : Layout
        Columns and the categories seen so far.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        known: Layout | None = None,
        labels: tuple[str, ...] | None = None,
    ) -> None:
        self.known = known
        self._known_labels = labels
        self._unknown_is_error = (options.get("unknown") or "error") == "error"
        self._first: Table | None = None
        self._seen: dict[str, set[str]] = {}
        self._texts: set[str] | None = set()

    def learn(self, table: Table, *, training: bool) -> None:
        """Record the categories of a training table, and the labels of any table.

        If the layout is known, only compare the table with it.

        Raises
        ------
        DataError
            A column is missing, or numbers in one table and categories in another.
        """
        used = [name for name in table.columns if name != table.target]
        if not used:
            raise DataError(f"{table.path}:1: no column is left beside the target {table.target!r}")
        if self.known is not None:
            _require_layout(table, self.known)
            return
        if self._first is None:
            self._first = table
            self._seen = {name: set() for name in used if table.columns[name].categories}
        _same_columns(table, self._first)
        for name in self._seen if training else ():
            column = table.columns[name]
            assert column.categories is not None
            counts = np.bincount(column.values, minlength=len(column.categories))
            self._seen[name].update(column.categories[k] for k in np.flatnonzero(counts))
        assert table.target is not None
        texts = table.columns[table.target].categories
        if texts is None:
            self._texts = None
        elif self._texts is not None:
            self._texts.update(set(texts) - {""})

    @property
    def only_numbers(self) -> bool:
        """Whether no column of the recorded tables holds texts."""
        return not self._seen and self._texts is None

    @property
    def has_categories(self) -> bool:
        """Whether a feature of the recorded tables, or of the known layout, holds texts."""
        return any(self.known["columns"].values()) if self.known is not None else bool(self._seen)

    @property
    def labels(self) -> tuple[str, ...] | None:
        if self.known is not None:
            return self._known_labels
        if self._texts is None or all(number(text) is not None for text in self._texts):
            return None
        return tuple(sorted(self._texts))

    @property
    def layout(self) -> Layout:
        if self.known is not None:
            return self.known
        assert self._first is not None
        target = self._first.target
        assert target is not None
        used = [name for name in self._first.columns if name != target]
        columns = {name: sorted(self._seen.get(name, ())) for name in used}
        return Layout(columns=columns, target=target)

    def numbers(self, table: Table) -> np.ndarray:
        """Features of a recorded table without categories, float32, shape (n, d)."""
        X: np.ndarray = _features(table, self.layout["columns"], self._unknown_is_error)
        return X

    def part(self, tables: list[Table], X: Any = None) -> Part:
        """The concatenated rows of recorded tables; X : (n, d), their features if computed before.

        Raises
        ------
        DataError
            A row has a category that the training rows lack, or no target.
        """
        layout, labels = self.layout, self.labels
        if X is None:
            unknown = self._unknown_is_error
            X = _stack([_features(t, layout["columns"], unknown) for t in tables])
        y = [_target(t, labels, may_lack=self.known is not None) for t in tables]
        return Part(X, np.concatenate(y), labels, _where(tables), layout)


def _same_columns(table: Table, first: Table) -> None:
    for name in first.columns:
        if name not in table.columns:
            raise DataError(f"{table.path}:1: no column {name!r}, {first.path} has it")
        ours, theirs = table.columns[name].categories, first.columns[name].categories
        if (ours is None) != (theirs is None):
            raise DataError(
                f"{table.path}: column {name!r} holds {'numbers' if ours is None else 'texts'}, "
                f"in {first.path} it does not; name it in dataset.source.columns.categorical"
            )
    for name in table.columns:
        if name not in first.columns:
            raise DataError(f"{table.path}:1: a column {name!r}, {first.path} has none")


def _require_layout(table: Table, layout: Layout) -> None:
    """Refuse a table without the columns that a model was trained on, in any order."""
    for name, categories in layout["columns"].items():
        if name not in table.columns:
            raise DataError(f"{table.path}:1: no column {name!r}, the training file had it")
        if bool(categories) != bool(table.columns[name].categories):
            had, has = ("texts", "numbers") if categories else ("numbers", "texts")
            raise DataError(
                f"{table.path}: column {name!r} holds {has}, in the training file it held {had}"
            )
    for name in table.columns:
        if name not in layout["columns"] and name != table.target:
            raise DataError(f"{table.path}:1: a column {name!r}, the training file had none")


def _places(
    table: Table, categories: Mapping[str, list[str]], unknown_is_error: bool
) -> dict[str, np.ndarray]:
    """For each categorical column the index of each row's category, -1 if it is unknown."""
    places = {}
    for name, known in categories.items():
        column = table.columns[name]
        assert column.categories is not None
        place = {category: k for k, category in enumerate(known)}
        lookup = np.array([place.get(c, -1) for c in column.categories], dtype=np.int32)
        codes = lookup[column.values]
        if unknown_is_error and codes.size and codes.min() < 0:
            row = int(np.argmin(codes))
            category = column.categories[column.values[row]]
            raise DataError(
                f"{table.where(row)}: column {name!r} is {category!r}, which no training row has; "
                "dataset.source.columns.unknown=ignore makes it none of their categories"
            )
        places[name] = codes
    return places


def _features(table: Table, layout: Mapping[str, list[str]], unknown_is_error: bool) -> Any:
    """Features of a table: dense float32, or CSR if there are categories."""
    categories = {name: texts for name, texts in layout.items() if texts}
    if not categories:
        return np.column_stack([table.columns[name].values for name in layout]).astype(
            np.float32, copy=False
        )
    from scipy.sparse import csc_matrix

    places = _places(table, categories, unknown_is_error)
    rows, values, counts = [], [], [np.zeros(1, dtype=np.int64)]
    for name in layout:
        if name in places:
            place = places[name]
            order = np.argsort(place, kind="stable").astype(np.int32)
            rows.append(order[np.count_nonzero(place < 0) :])
            values.append(np.ones(rows[-1].size, dtype=np.float32))
            counts.append(np.bincount(place[rows[-1]], minlength=len(categories[name])))
        else:
            column = table.columns[name].values
            rows.append(np.flatnonzero(column).astype(np.int32))
            values.append(column[rows[-1]].astype(np.float32, copy=False))
            counts.append(np.array([rows[-1].size]))
    starts = np.cumsum(np.concatenate(counts))
    entries = (np.concatenate(values), np.concatenate(rows), starts)
    return csc_matrix(entries, shape=(table.n, starts.size - 1)).tocsr()


def _target(table: Table, labels: tuple[str, ...] | None, *, may_lack: bool) -> np.ndarray:
    name = table.target
    if name is None:
        return np.zeros(table.n)
    column = table.columns[name]
    categories: tuple[str, ...] = column.categories or ()
    if "" in categories and not may_lack:
        empty = np.flatnonzero(column.values == categories.index(""))
        if empty.size:
            where = table.where(int(empty[0]))
            raise DataError(f"{where}: target {name!r} is empty, should be a label")
    if column.categories is None:
        y = column.values.astype(np.float64, copy=False)
    elif labels is None:
        y = np.array([float(text or "nan") for text in categories])[column.values]
    else:
        place = {text: float(k) for k, text in enumerate(labels)}
        y = np.array([place.get(text, np.nan) for text in categories])[column.values]
    odd = np.flatnonzero(~np.isfinite(y))
    if odd.size and not may_lack:
        raise DataError(
            f"{table.where(int(odd[0]))}: target {name!r} is {y[odd[0]]}, should be a finite number"
        )
    return y


def _stack(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    if isinstance(pieces[0], np.ndarray):
        return np.vstack(pieces)
    from scipy.sparse import vstack

    return vstack(pieces, format="csr")


def _where(tables: list[Table]) -> Callable[[int], str]:
    return partial(_locate, [(t.n, t.where) for t in tables])


def _locate(pieces: list[tuple[int, Callable[[int], str]]], row: int) -> str:
    for n, where in pieces:
        if row < n:
            return where(row)
        row -= n
    raise IndexError(row)
