"""Tables of named columns, numbers or categories, become features and a target.

A column of numbers is one feature. A column of categories becomes one-hot features, one for each
category of the training file, sorted as text. A category that only the test file has is an error;
with `source.columns.unknown: ignore` all features of its column are 0 in such a row.
Features are in the order of the file's columns.

With `source.columns.categorical: auto` columns of texts are found by their content, categories of
fewer than RARE_ROWS rows share one feature, and an unknown category has only zeros. scikit-learn's
OneHotEncoder(min_frequency=RARE_ROWS, handle_unknown="ignore") gives the same features, except that
here columns whose texts are all rare are left out.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kbench.data.formats import (
    ColumnLayout,
    PartRows,
    excerpt,
    features_file,
    finite_number,
    listed,
    number,
    printable,
    require_present,
)
from kbench.data.formats.gap_markers import GapMarkers
from kbench.data.formats.number_text import (
    DOUBTFUL,
    PADDED,
    TRUTHS,
    first_confusable_pair,
    is_missing,
    labels_of,
    one_spelling,
    text_target_error,
)
from kbench.data.formats.table import (
    Column,
    Options,
    Table,
    is_number,
    place_of_row,
    reads_as_number,
    require_dropped,
    require_layout,
    require_same_columns,
    stack_pieces,
    unknown_target_texts,
)
from kbench.data.sources.array_file import ArrayWriter
from kbench.errors import DataError, counted
from kbench.files import mapped

RARE_ROWS = 5
"""Categories of fewer training rows than this share one feature (`categorical: auto`). A larger
number joins categories that differ; a smaller one makes features of a few rows. Set by hand."""

# Texts per number in a column up to which a note takes the texts for slips in a column of numbers.
# Grades such as K, 1, ..., 12 have more texts and are categories. Set by hand.
_MAX_TEXT_RATIO = 0.05


def read_tables(
    parts: Mapping[str, list[Path]],
    source: Mapping[str, Any],
    task: str,
    folder: Path,
    tables: Callable[[Path, Options], Iterable[Table]],
) -> dict[str, PartRows]:
    """The rows of each part, whose files `tables(path, options)` reads piece by piece.

    parts, source, task, folder : As in `kbench.data.formats.read`.

    If all features are numbers, they are written to `folder` and mapped, so that memory holds one
    piece and about 24 bytes per row for targets and groups. Tables with categories stay in memory
    until the last row has been read, because any row may add a category.
    """
    model = source.get("known") or {}
    options = Options(
        source.get("columns") or {}, model.get("layout"), source, text_target=task != "regression"
    )
    paths = [path for files in parts.values() for path in files]
    options.several = len(paths) > 1 or bool(source.get("some_files"))
    coding = Coding(options, model.get("labels"))
    folder.mkdir(exist_ok=True)
    tables_by_part: dict[str, list[Table]] = {}
    maps: dict[str, np.ndarray] = {}
    n_without_target: dict[str, int] = {}
    for part, files in parts.items():
        piece_list = tables_by_part[part] = []
        with ExitStack() as stack:
            writer = None
            pieces = (table for path in files for table in tables(path, options))
            for table in map(coding.with_empty_missing, pieces):
                coding.learn(table, training=len(tables_by_part) == 1)
                if coding.has_categories:
                    piece_list.append(table)
                    continue
                X = coding.numbers(table)
                if writer is None:
                    file = features_file(folder, part)
                    writer = stack.enter_context(ArrayWriter(file, (None, X.shape[1]), np.float64))
                writer.write(X)
                piece_list.append(table.without_features())
        n_without_target[part] = sum(table.n_without_target for table in piece_list)
        if not any(table.n for table in piece_list):
            raise DataError(
                f"{files[0]}: no row is left, each lacks a target; "
                "dataset.source.columns.target=NAME chooses another column as the target"
            )
        if writer is not None:
            maps[part] = mapped(features_file(folder, part))
    if not source.get("some_files") and not model:
        require_dropped(options, paths[0])
    result = {p: coding.part(group, maps.get(p)) for p, group in tables_by_part.items()}
    notes = (*options.notes, *coding.notes)
    return {
        part: replace(rows, notes=notes, n_without_target=n_without_target[part])
        for part, rows in result.items()
    }


class Coding:
    """Features and targets of tables that are read one by one and have the same columns.

    Parameters
    ----------
    labels : tuple of str, optional. Texts of the targets in the training tables.

    Attributes
    ----------
    labels : tuple of str or None
        Targets that are texts, sorted; None if all targets so far are numbers.
    layout : ColumnLayout. Columns and the categories seen so far.
    """

    def __init__(self, options: Options, labels: tuple[str, ...] | None = None) -> None:
        self.known = options.known
        self._options = options
        self._known_labels = labels
        unknown = options.columns.get("unknown") or "error"
        self._unknown_is_error = unknown == "error" and not options.auto
        self._first: Table | None = None
        self._seen: dict[str, Counter[str]] = {}
        self._target_texts: set[str] | None = set()
        self._groups: dict[str, int] = {}
        self._gap_markers = GapMarkers()
        self._unknown: Counter[str] = Counter()  # column -> number of rows with unknown categories

    def with_empty_missing(self, table: Table) -> Table:
        """The table in which every spelling of a missing text is "", if texts are found by content.

        Categories that a config names stay as the files have them.
        """
        columns = dict(table.columns)
        for name in table.features if self._options.auto else ():
            texts = columns[name].categories
            if texts and any(text and is_missing(text) for text in texts):
                texts_or_empty = ["" if is_missing(text) else text for text in texts]
                columns[name] = Column.of_texts(columns[name].values, texts_or_empty)
        return replace(table, columns=columns)

    def learn(self, table: Table, *, training: bool) -> None:
        """Record the categories of a training table, and the labels of any table.

        If the layout is known, only compare the table with it.

        Raises DataError: a column is missing, or numbers in one table and categories in another.
        """
        features = table.features
        if not features:
            raise DataError(f"{table.path}:1: no column is left beside the target {table.target!r}")
        if self.known is not None:
            require_layout(table, self.known)
            return
        if self._first is None:
            self._first = table
            texts = [name for name in features if table.columns[name].categories is not None]
            self._seen = {name: Counter() for name in texts}
        require_same_columns(table, self._first)
        for name in [*features, str(table.target)] if table.n else ():
            values, labels = table.columns[name]
            if labels is not None and name == table.target:  # numbers that may be classes
                values = np.array([*map(finite_number, labels)])[values]
            if labels is None or name == table.target:
                self._gap_markers.learn(name, values)
        for name in self._seen if training else ():
            column = table.columns[name]
            assert column.categories is not None
            counts = np.bincount(column.values, minlength=len(column.categories))
            present = np.flatnonzero(counts)
            self._seen[name].update({column.categories[k]: int(counts[k]) for k in present})
        assert table.target is not None
        target = table.columns[table.target]
        if target.categories is None:
            self._target_texts = None
        elif self._target_texts is not None:
            # A dictionary may hold labels that no row has, for example after a table is filtered.
            self._target_texts.update(target.categories[k] for k in np.unique(target.values))

    @property
    def only_numbers(self) -> bool:
        """Whether no column of the recorded tables holds texts."""
        return not self._seen and self._target_texts is None

    @property
    def has_categories(self) -> bool:
        """Whether a feature of the recorded tables, or of the known layout, holds texts."""
        return any(self.known["columns"].values()) if self.known is not None else bool(self._seen)

    @property
    def labels(self) -> tuple[str, ...] | None:
        if self.known is not None:
            return self._known_labels
        texts = labels_of(self._target_texts or ())
        if self._target_texts is None or all(number(text) is not None for text in texts):
            return None
        return tuple(sorted(one_spelling(texts)))

    @property
    def layout(self) -> ColumnLayout:
        if self.known is not None:
            return self.known
        assert self._first is not None
        target = self._first.target
        assert target is not None
        min_rows = RARE_ROWS if self._options.auto else 0
        columns: dict[str, list[str]] = {}
        rare: dict[str, list[str]] = {}
        for name in self._first.features:
            counts = self._seen.get(name)
            columns[name] = sorted(text for text, n in (counts or {}).items() if n >= min_rows)
            if counts is not None and len(columns[name]) < len(counts):
                rare[name] = sorted(text for text, n in counts.items() if n < min_rows)
            if rare.get(name) and not columns[name]:  # no category is frequent
                del rare[name], columns[name]
        signs_of = {name: self._options.marks.get(name, set()) for name in columns}
        marks = {name: sorted(signs) for name, signs in signs_of.items() if signs - {""}}
        layout = ColumnLayout(
            columns=columns,
            target=target,
            rare=rare,
            group=self._first.group,
            marks=marks,
            left_out=sorted({*self._options.left_out, *self._first.features} - {*columns}),
        )
        if self._options.decimal is not None:
            layout["decimal"] = self._options.decimal
        return layout

    @property
    def notes(self) -> list[str]:
        """Sentences about columns of texts, unknown categories, missing texts and targets."""
        notes = [
            f"{counted(n, 'row')} {'have' if n > 1 else 'has'} a text in the column "
            f"{printable(name)!r} that no training row has: all its features are 0"
            for name, n in self._unknown.items()
        ]
        if self.known is not None or self._first is None:
            return notes
        layout = self.layout
        notes += self._gap_markers.notes()
        notes += self._texts_notes(layout)
        notes += [
            f"the target {printable(label)!r} is a class of its own; if it stands for a missing "
            "target, leave such rows out of the file"
            for label in self.labels or ()
            if label.lower() in DOUBTFUL
        ]
        for name, counts in self._seen.items():
            about = f"the column {printable(name)!r}"
            texts = sorted(text for text in counts if not is_number(text))
            n = sum(n for text, n in counts.items() if number(text) is not None)
            if n and not texts and name in self._options.texts:
                notes.append(
                    f"{about} holds numbers alone, but for rows without a target, such as a line "
                    "of units: without these rows it is a column of numbers"
                )
            if 0 < sum(counts[text] for text in texts) <= _MAX_TEXT_RATIO * n:
                notes.append(
                    f"{about} holds {counted(n, 'number')}, but also {listed(map(repr, texts))}: "
                    "with empty fields there it is a column of numbers"
                )
            if self._options.auto and name not in layout["columns"]:
                notes.append(
                    f"{about} is left out, as each of its {len(counts)} texts is in fewer than "
                    f"{RARE_ROWS} rows"
                )
            elif self._options.auto:
                n_rare = len(layout["rare"].get(name, ()))
                n_features = len(layout["columns"][name])
                notes.append(
                    f"{about} holds texts: one feature for each of {n_features}"
                    + (f", and one for the {n_rare} rare ones" if n_rare else "")
                )
            if counts[""] and name in layout["columns"]:
                notes.append(f"{about} lacks {counts['']} texts, which are a category of their own")
        return notes

    def _texts_notes(self, layout: ColumnLayout) -> Iterator[str]:
        """Sentences about coded texts, spellings that differ and targets such as `007`."""
        configured = map(
            str, () if self._options.auto else self._options.columns.get("categorical") or ()
        )
        texts = {name: self._seen[name] for name in layout["columns"] if name in self._seen}
        coded = {n: counts for n, counts in texts.items() if n not in {*configured}}
        if coded and not self._options.auto:
            counts_text = (
                f"{name} ({len(counts)}{' numbers as texts' * all(map(reads_as_number, counts))})"
                for name, counts in coded.items()
            )
            yield f"columns of texts become one feature a category: {listed(counts_text)}"
        targets, labels = self._target_texts or set(), self.labels or ()
        padded = None if labels else min(filter(PADDED.fullmatch, targets), default=None)
        if padded is not None:
            same = sorted(t for t in targets if t != padded and number(t) == number(padded))
            also = f", as {same[0]!r} is" if same else ""
            yield f"the target {padded!r} is read as the number {number(padded):g}{also}"
        if len(merged := one_spelling(labels_of(targets))) < len(labels_of(targets)):
            yield f"different spellings of the targets {listed(sorted(merged))} are one class each"
        if labels and (gaps := sorted(filter(str.isalpha, self._options.missing_target_texts))):
            yield (
                f"the target {listed(map(repr, gaps))} stands for a missing one; a class, such as "
                "Namibia, should have another name"
            )
        n_numbers = sum(number(label) is not None for label in labels)
        # Other sentences name doubtful labels and a repeated header. Texts are taken for slips if
        # they are at most half as many as the numbers (set by hand).
        explained = {*DOUBTFUL, layout["target"].lower()}
        words = [t for t in labels if number(t) is None and t.lower() not in explained]
        if 0 < 2 * len(words) <= n_numbers:
            yield (
                f"the classes {listed(map(repr, words))} are texts beside {n_numbers} numbers; "
                "where the target is missing, leave the field empty"
            )
        if layout["target"] in labels:
            name = printable(layout["target"])
            yield f"the class {name!r} has the name of its column: a repeated header is not a row"
        columns: list[tuple[str, str, Iterable[str]]] = [(layout["target"], "classes", labels)]
        columns += [(name, "categories", counts) for name, counts in texts.items()]
        columns += [(str(layout.get("group")), "groups", self._groups)]
        for name, kind, spelt in columns:
            if pair := first_confusable_pair(spelt):
                yield (
                    f"in the column {printable(name)!r} "
                    f"{' and '.join(repr(excerpt(text)) for text in pair)} are two {kind}, "
                    "though they differ in spelling alone"
                )

    def numbers(self, table: Table) -> np.ndarray:
        """(n, d) float64: features of a recorded table without categories."""
        X: np.ndarray = _features(table, self.layout, self._unknown_is_error, self._unknown)
        return X

    def part(self, tables: list[Table], X: Any = None) -> PartRows:
        """The rows of all `tables`, which were recorded; X : (n, d), their features if computed.

        Raises DataError: a row has a category that the training rows lack, or no target; or the
        target is a text, and the task is regression.
        """
        layout, labels = self.layout, self.labels
        if X is None:
            unknown = self._unknown_is_error
            if not layout["columns"]:
                raise DataError(
                    f"{tables[0].path}: no feature is left, each text of its columns is in fewer "
                    f"than {RARE_ROWS} rows"
                )
            X = stack_pieces([_features(t, layout, unknown, self._unknown) for t in tables])
        y = np.concatenate([_target(t, labels) for t in tables])
        where, target = place_of_row(tables), str(tables[0].target)
        if self.known is not None:
            labels = (*(labels or ()), *unknown_target_texts(tables, y))
        else:
            if labels is not None and not self._options.text_target:
                texts = [k for k, text in enumerate(labels) if number(text) is None]
                row = int(np.argmax(np.isin(y, texts)))
                raise DataError(f"{where(row)}: {text_target_error(labels[int(y[row])], target)}")
            require_present(y, where, self._options.source, target)
        return PartRows(X, y, labels, where, layout, self._group_numbers(tables))

    def _group_numbers(self, tables: list[Table]) -> np.ndarray | None:
        """(n,) number of each row's group, equal for equal names; None without a group column."""
        if tables[0].group is None or self.known is not None:
            return None
        columns = [table.columns[str(table.group)] for table in tables]
        names = [[text.strip() for text in column.categories or ()] for column in columns]
        distinct = {text for texts in names for text in texts if not is_missing(text)}
        # Groups are numbered in the order of their values, as by scikit-learn's splitters.
        values = {text: number(text) for text in distinct}
        all_numbers = None not in values.values()
        for text in sorted(distinct, key=(lambda t: (values[t], t)) if all_numbers else None):
            self._groups.setdefault(text, len(self._groups))
        numbers = [
            np.array([self._groups.get(text, -1) for text in texts], dtype=np.int64)[column.values]
            for texts, column in zip(names, columns, strict=True)
        ]
        groups = np.concatenate(numbers)
        n_missing = int(np.count_nonzero(groups < 0))
        if n_missing:
            self._options.note(
                f"each of {counted(n_missing, 'row')} without a group is a group of its own"
            )
        return np.where(groups < 0, -1 - np.arange(groups.size), groups)


def _codes(
    table: Table, layout: ColumnLayout, unknown_is_error: bool, unknown: Counter[str]
) -> dict[str, np.ndarray]:
    """For each categorical column the (n,) index of each row's category, -1 for an unknown one.

    unknown : The numbers of rows with an unknown category, by column; increased here.
    """
    codes_by_column = {}
    for name, categories in layout["columns"].items():
        column = table.columns[name]
        if not categories:
            continue
        assert column.categories is not None
        rare = dict.fromkeys(layout.get("rare", {}).get(name, ()), len(categories))
        index_of = rare | {category: k for k, category in enumerate(categories)}
        lookup = np.array([index_of.get(c, -1) for c in column.categories], dtype=np.int32)
        codes = lookup[column.values]
        if unknown_is_error and codes.size and codes.min() < 0:
            row = int(np.argmin(codes))
            category = column.categories[column.values[row]]
            raise DataError(
                f"{table.where(row)}: column {name!r} is {category!r}, which no training row has; "
                "dataset.source.columns.unknown=ignore sets its features to 0 in such rows"
            )
        n_unknown = int(np.count_nonzero(codes < 0))
        if n_unknown:
            unknown[name] += n_unknown
        codes_by_column[name] = codes
    return codes_by_column


def _features(
    table: Table, layout: ColumnLayout, unknown_is_error: bool, unknown: Counter[str]
) -> Any:
    """(n, d) float64: features of a table, dense, or CSR if a column has categories."""
    columns = layout["columns"]
    if not any(columns.values()):
        stacked = np.column_stack([table.columns[name].values for name in columns])
        return stacked.astype(np.float64, copy=False)
    from scipy.sparse import csc_matrix

    codes_by_column = _codes(table, layout, unknown_is_error, unknown)
    rows, values, counts = [], [], [np.zeros(1, dtype=np.int64)]
    for name, categories in columns.items():
        if name in codes_by_column:
            width = len(categories) + (name in layout.get("rare", {}))
            codes = codes_by_column[name]
            order = np.argsort(codes, kind="stable").astype(np.int32)
            rows.append(order[np.count_nonzero(codes < 0) :])
            values.append(np.ones(rows[-1].size))
            counts.append(np.bincount(codes[rows[-1]], minlength=width))
        else:
            column = table.columns[name].values
            rows.append(np.flatnonzero(column).astype(np.int32))
            values.append(column[rows[-1]].astype(np.float64, copy=False))
            counts.append(np.array([rows[-1].size]))
    starts = np.cumsum(np.concatenate(counts))
    entries = (np.concatenate(values), np.concatenate(rows), starts)
    return csc_matrix(entries, shape=(table.n, starts.size - 1)).tocsr()


def _target(table: Table, labels: tuple[str, ...] | None) -> np.ndarray:
    """(n,) numbers, or indices into `labels`; NaN where the target is missing or not in `labels`.

    In later rows True equals 1, because formats of tables differ in how they store truth values.
    """
    if table.target is None:
        return np.full(table.n, np.nan)
    column = table.columns[table.target]
    has_truth_labels = labels is not None and {text.lower() for text in labels} <= TRUTHS.keys()
    if column.categories is None:
        if labels is None:
            return column.values.astype(np.float64, copy=False)
        numbers, codes = np.unique(column.values, return_inverse=True)
        column = Column.of_texts(codes, [f"{v:.17g}" for v in numbers])
    assert column.categories is not None
    numbers_of = [TRUTHS.get(text.lower(), number(text)) for text in column.categories]
    values: list[float | None] = numbers_of
    if has_truth_labels and labels is not None:
        index_of = {TRUTHS[text.lower()]: float(k) for k, text in enumerate(labels)}
        values = [None if value is None else index_of.get(value) for value in numbers_of]
    elif labels is not None:
        values = [*map({text: float(k) for k, text in enumerate(labels)}.get, column.categories)]
    targets = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    y: np.ndarray = targets[column.values]
    return y
