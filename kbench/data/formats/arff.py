"""Reader of ARFF tables (Weka, OpenML): nominal attributes are categories, the others numbers.

https://waikato.github.io/weka-wiki/formats_and_processing/arff_stable/. Rows may be sparse,
`{index value, ...}`: an attribute without an entry is 0 or the first category. Attributes of type
date, string and relational are refused unless they are dropped; but strings may be categories, and
dates and strings the target or the group.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from kbench.data.formats import LINE_END_REMEDY, PartRows, dropping, excerpt, listed, number
from kbench.data.formats.coding import read_tables
from kbench.data.formats.csv_form import not_utf8
from kbench.data.formats.number_text import almost_a_number
from kbench.data.formats.table import Column, Options, Table, checked_table, roles_of
from kbench.data.sources.content import text_pieces
from kbench.errors import DataError, counted

_ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s'"{][^\s{]*))"""
    r"\s*(?P<type>\{.*?\}|[^\s{].*?)\s*(?:%.*)?",
    re.IGNORECASE,
)
_ENTRY = re.compile(
    r"""\s*([0-9]+)\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s,'"][^,]*?)\s*(?:,|\Z)"""
)
"""An index and a value of a sparse row."""
_WEIGHT = re.compile(r",\s*(\{[^{}]*\})$")
"""A row's weight, which Weka writes after the row."""
_NUMERIC = ("numeric", "real", "integer")


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str, folder: Path
) -> dict[str, PartRows]:
    """Rows of each part; see `kbench.data.formats.read`. O(bytes) time, in Python."""
    return read_tables(parts, source, task, folder, _tables)


def _tables(path: Path, options: Options) -> Iterator[Table]:
    """The file in pieces of about `PieceSizes.text` bytes."""
    attributes: dict[str, dict[str, None] | None] = {}
    reader, empty = None, True
    for first, text, _ in text_pieces(path):
        lines = _lines(text, path, first)
        if reader is None:
            reader = _header(lines, path, attributes, options)
        if reader is not None and (table := reader.table(lines)) is not None:
            empty = False
            yield table
    if reader is None:
        raise DataError(f"{path}: no line @data, should be an ARFF table")
    if empty:
        raise DataError(f"{path}: no rows after @data")


def _lines(text: bytes, path: Path, first: int) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without comments and empty lines."""
    for lineno, raw in enumerate(text.split(b"\n"), start=first):
        try:
            line = raw.removeprefix(b"\xef\xbb\xbf" if lineno == 1 else b"").decode().strip()
        except UnicodeDecodeError:
            raise not_utf8(path, lineno) from None
        if line.startswith("@") and "\r" in line:
            raise DataError(
                f"{path}:{lineno}: a carriage return within the line, {LINE_END_REMEDY}"
            )
        if line and not line.startswith("%"):
            yield lineno, line


def _header(
    lines: Iterator[tuple[int, str]],
    path: Path,
    attributes: dict[str, dict[str, None] | None],
    options: Options,
) -> "_Reader | None":
    """Add the declared attributes (name -> categories, or None for numbers) to `attributes`.

    Returns the reader of the rows if @data is among the lines, else None.
    """
    for lineno, line in lines:
        word = line.split(None, 1)[0].lower()
        if word == "@data":
            return _Reader(path, lineno, attributes, options)
        if word == "@relation":
            continue
        match = _ATTRIBUTE.fullmatch(line)
        if match is None:
            raise DataError(
                f"{path}:{lineno}: {excerpt(line)!r}, should be @relation, @attribute NAME "
                "TYPE or @data of an ARFF table"
            )
        name = next(match[k] for k in ("single", "double", "bare") if match[k] is not None)
        name = normalize("NFC", re.sub(r"\\(.)", r"\1", name))
        if name in attributes:
            raise DataError(
                f"{path}:{lineno}: two attributes {name!r}, should have different names"
            )
        attributes[name] = _categories(name, match["type"], f"{path}:{lineno}", options)
    return None


def _categories(name: str, kind: str, where: str, options: Options) -> dict[str, None] | None:
    """The categories of an attribute; None for numbers and for texts of any kind."""
    if kind.startswith("{"):
        return dict.fromkeys(_fields(kind[1:-1], where))
    word = kind.split()[0].partition("[")[0].lower()  # Weka allows a range after a type: real[0,1]
    columns, dropped = options.columns, options.columns.get("drop") or []
    category_names = columns.get("categorical") or []
    if options.known is not None:
        category_names = [text for text, known in options.known["columns"].items() if known]
        dropped = [*dropped, *options.known.get("left_out", ())]
    if name in (columns.get("group"), columns.get("target")) and word in ("date", "string"):
        options.texts.add(name)
        return None
    if word == "string" and (options.auto or name in category_names):
        options.texts.add(name)
        return None
    if word in _NUMERIC or name in dropped:
        return None
    raise DataError(
        f"{where}: attribute {name!r} is of type {excerpt(kind)!r}, should be numeric, real, "
        f"integer or {{categories}}; {dropping(name)} leaves it out"
        + (
            f", columns.target={name} makes it the target, categorical=auto makes features of texts"
            if word == "string"
            else ""
        )
    )


def _field(delimiter: str) -> re.Pattern[str]:
    """A pattern of a field, quoted by ' or " or bare, and the delimiter after it."""
    blanks = "[ \t]*" if delimiter == "," else " *"
    return re.compile(
        rf"""{blanks}(?:'((?:[^'\\]|\\.|'')*)'|"((?:[^"\\]|\\.|"")*)"|"""
        rf"""((?:[^{delimiter}\\'"]|\\.)(?:[^{delimiter}\\]|\\.)*|)){blanks}({delimiter}|\Z)"""
    )


_FIELDS = {delimiter: _field(delimiter) for delimiter in ",\t"}


def _fields(line: str, where: str, delimiter: str = ",") -> list[str]:
    """The fields of a line, quoted by ' or " or bare."""
    if "'" not in line and '"' not in line:
        return [field.strip() for field in line.split(delimiter)]
    fields, at, last = [], 0, delimiter
    while last:
        match = _FIELDS[delimiter].match(line, at)
        if match is None:
            raise DataError(
                f"{where}: {excerpt(line[at:])!r}, should be fields between commas, each in "
                "quotes of one kind or without any"
            )
        single, double, bare, last = match.groups()
        quote, text = ("'", single) if single is not None else ('"', double)
        unquoted = bare if text is None else text.replace(2 * quote, quote)
        fields.append(re.sub(r"\\(.)", r"\1", unquoted).strip())
        at = match.end()
    return fields


class _Reader:
    """Reads the rows of a file; line `lineno` is @data."""

    def __init__(
        self,
        path: Path,
        lineno: int,
        attributes: Mapping[str, dict[str, None] | None],
        options: Options,
    ) -> None:
        names = list(attributes)
        if len(names) < 2 and options.known is None:  # later rows need no target
            raise DataError(f"{path}:{lineno}: {len(names)} attributes, should be two at least")
        self._path, self._attributes, self._options = path, attributes, options
        self._roles = roles_of(names, options, path)
        self._kept = [(k, n) for k, n in enumerate(names) if n not in self._roles.dropped]
        target = {self._roles.target} & options.texts
        self._as_text = self._roles.texts | target | {self._roles.group}

    def table(self, lines: Iterator[tuple[int, str]]) -> Table | None:
        """The rows of the lines; None if there are none."""
        line_numbers: list[int] = []
        columns: dict[str, list[Any]] = {name: [] for _, name in self._kept}
        for lineno, line in lines:
            where = f"{self._path}:{lineno}"
            sparse = line.startswith("{")
            weight = _WEIGHT.search(line)
            if weight is not None and (sparse or line.count(",") >= len(self._attributes)):
                raise DataError(
                    f"{where}: a weight {excerpt(weight[1])} after the row; kbench reads no "
                    "weights, so the lines should end before it"
                )
            fields = self._dense(line, where) if sparse else _fields(line, where)
            if len(fields) != len(self._attributes) and "\t" in line:
                fields = _fields(line, where, "\t")  # Weka and SciPy accept tabs, too
            if len(fields) != len(self._attributes):
                n_fields = counted(len(fields), "field")
                raise DataError(f"{where}: {n_fields}, should be {len(self._attributes)}")
            line_numbers.append(lineno)
            for k, name in self._kept:
                columns[name].append(self._value(name, fields[k], where))
        if not line_numbers:
            return None
        where_row = partial(_where, self._path, np.array(line_numbers))
        arrays = {name: self._column(name, values) for name, values in columns.items()}
        self._options.note_plain(arrays)
        return checked_table(
            self._path, arrays, self._roles, len(line_numbers), where_row, self._options
        )

    def _dense(self, line: str, where: str) -> list[str]:
        """The fields of a sparse row."""
        width = len(self._attributes)
        values: dict[int, str] = {}
        at, end, last_index = 1, len(line) - 1, -1
        while line[at:end].strip() or not line.endswith("}"):
            entry = _ENTRY.match(line, at, end)
            if entry is None or not last_index < int(entry[1]) < width or not line.endswith("}"):
                raise DataError(
                    f"{where}: {excerpt(line[at - 1 :])!r}, should be {{index value, ...}} "
                    f"with indices that rise from 0 to {width - 1}"
                )
            at, last_index = entry.end(), int(entry[1])
            values[last_index] = _fields(entry[2], where)[0]
        fields = []
        for k, (name, categories) in enumerate(self._attributes.items()):
            if k not in values and name in self._as_text & self._options.texts:
                raise DataError(f"{where}: attribute {name!r} of texts is not in the sparse row")
            fields.append(values.get(k, "0" if categories is None else next(iter(categories))))
        return fields

    def _value(self, name: str, field: str, where: str) -> float | str:
        categories = self._attributes[name]
        if categories is not None:
            if field in categories or field == "?":
                return "" if field == "?" and field not in categories else field
            raise DataError(
                f"{where}: attribute {name!r} is {excerpt(field)!r}, should be one of "
                f"{listed(sorted(categories))}"
            )
        if name in self._as_text:
            return "" if field == "?" else field
        value = float("nan") if field == "?" else number(field)
        if value is None:
            cause = almost_a_number(field, name)
            raise DataError(
                f"{where}: attribute {name!r} is {excerpt(field)!r}, should be a number"
                + (f"; {cause}" if cause else "")
            )
        return value

    def _column(self, name: str, values: list[Any]) -> Column:
        if self._attributes[name] is not None or name in self._as_text:
            index = {text: k for k, text in enumerate(sorted(set(values)))}
            return Column(np.array([index[text] for text in values], dtype=np.int32), tuple(index))
        return Column(np.array(values, dtype=np.float64))


def _where(path: Path, line_numbers: np.ndarray, row: int) -> str:
    return f"{path}:{line_numbers[row]}"
