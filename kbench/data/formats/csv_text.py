"""Reader of tables in text: comma, semicolon, tab or white space between the fields of a line.

pyarrow parses. If it refuses a piece of the file, the piece is read again line by line, so that the
error names the line, the field and what would be right. White space around texts is removed. If a
file does not name its columns, they are called `1`, `2`, ...
"""

import csv
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kbench.data.formats import DELIMITERS, FLOAT32_OVERFLOW, Part, number, printable
from kbench.data.formats.arrow import columns
from kbench.data.formats.table import Table, chosen, read_tables, target_of
from kbench.data.sources.content import text_pieces
from kbench.errors import DataError

_BLOCK_BYTES = 4 << 20  # least block that pyarrow parses at a time
_MAX_COLUMNS = 1_000_000
"""Columns from which on a first line is taken for damage: each costs about 1 KiB of memory."""
_BOM = b"\xef\xbb\xbf"


class _Form(NamedTuple):
    """Layout of a file.

    Attributes
    ----------
    delimiter : str
    names : list of str
    skip : int
        Lines before the first row.
    target : str or None
    texts : frozenset of str
        Names of the categorical columns.
    dropped : frozenset of str
    text_target : bool
        Whether the target is read as text.
    """

    delimiter: str
    names: list[str]
    skip: int
    target: str | None
    texts: frozenset[str]
    dropped: frozenset[str]
    text_target: bool


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str, folder: Path
) -> dict[str, Part]:
    """Rows of each part; see `kbench.data.formats.read`.

    Notes
    -----
    O(bytes) time. Memory as of `read_tables`: a piece, or with categories 4 bytes per field and the
    result.
    """
    return read_tables(parts, source, folder, partial(tables, text_target=task != "regression"))


def tables(path: Path, options: Mapping[str, Any], *, text_target: bool) -> Iterator[Table]:
    """Read a file piece by piece, plain or compressed; O(`PieceSizes.text`) memory.

    Parameters
    ----------
    path : Path
    options : mapping
        `source.columns` of a config.
    text_target : bool
        Whether the target is read as text.
    """
    form, n = None, 0
    for line, text, _ in text_pieces(path):
        if line == 1:
            text = text.removeprefix(_BOM)
        _require_line_ends(text, path, line)
        if not text.strip():
            continue
        if form is None:
            form = _form(text, options, path, text_target=text_target, line=line)
        skip = max(0, form.skip - line + 1)
        if skip and next(_lines(text, line, after=form.skip), None) is None:
            continue  # this piece holds only the header
        table = _table(text, form, path, line=line, skip=skip)
        n += table.n
        yield table
    if not n:
        raise DataError(f"{path}: no rows")


def _table(text: bytes, form: _Form, path: Path, *, line: int, skip: int) -> Table:
    """The rows of whole lines, the first of which is number `line` of the file."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    content = _squeezed(text) if form.delimiter == " " else text
    kind = pa.dictionary(pa.int32(), pa.string())
    types = {name: kind if name in form.texts else pa.float32() for name in form.names}
    if form.target is not None:
        types[form.target] = kind if form.text_target else pa.float64()
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=max(_BLOCK_BYTES, len(content)),  # a row has to lie within a block
                skip_rows=skip,
                column_names=form.names,
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=form.delimiter),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=[name for name in form.names if name not in form.dropped],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowException as error:
        reason = printable(str(error))
        raise _diagnosed(content, form, path, line) or DataError(f"{path}: {reason}") from None
    where = partial(_where, path, line, line + skip - 1)
    arrays = columns(table, form.target, path, where)
    numbers = (c.values for c in arrays.values() if c.categories is None)
    if not all(np.isfinite(values).all() for values in numbers):
        raise _diagnosed(content, form, path, line) or DataError(f"{path}: a number is missing")
    return Table(path, arrays, form.target, table.num_rows, where)


def _form(
    content: bytes, options: Mapping[str, Any], path: Path, *, text_target: bool, line: int
) -> _Form:
    """The layout, from the config and from the first line that is not empty."""
    place, raw = next(_lines(content, line))
    try:
        first = raw.decode()
    except UnicodeDecodeError:
        raise _not_utf8(path, place) from None
    named = options.get("delimiter")
    delimiter = DELIMITERS[named] if named else _guess(first)
    if first.count(delimiter) >= _MAX_COLUMNS:
        raise DataError(
            f"{path}:{place}: {first.count(delimiter) + 1} fields between delimiters "
            f"{delimiter!r}, should be {_MAX_COLUMNS} at most"
        )
    fields = _fields(first, delimiter)
    names = list(options.get("names") or [])
    header = options.get("header")
    if header is None:
        header = not names and not any(number(field) is not None for field in fields)
    shown = f"{len(fields)} field{'s' * (len(fields) > 1)} between delimiters {delimiter!r}"
    if len(fields) < 2:
        raise DataError(
            f"{path}:{place}: {shown}, should be two at least; set dataset.source.columns."
            f"delimiter to one of {', '.join(DELIMITERS)}"
        )
    if names and len(names) != len(fields):
        raise DataError(f"{path}:{place}: {shown}, dataset.source.columns.names has {len(names)}")
    if not names:
        names = fields if header else [str(k) for k in range(1, len(fields) + 1)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{path}:{place}: two columns {twice!r}; name them by dataset.source.columns.names, "
            "or set dataset.source.columns.header=false if this line is a row"
        )
    target = target_of(names, options, path)
    dropped = frozenset(chosen(names, options, "drop", path)) - {target}
    texts = frozenset(chosen(names, options, "categorical", path)) - dropped - {target}
    skip = place if header else place - 1
    return _Form(delimiter, names, skip, target, texts, dropped, text_target)


def _guess(line: str) -> str:
    """The most frequent delimiter of a line; white space only if it has no other."""
    most = max((",", ";", "\t"), key=line.count)
    return most if most in line else " "


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return line.split()
    try:
        fields = next(csv.reader([line], delimiter=delimiter))
    except csv.Error:  # a field of more than 131,072 characters
        fields = line.split(delimiter)
    return [field.strip() for field in fields]


def _lines(content: bytes, number: int, *, after: int = 0) -> Iterator[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers in the file, from number `after` + 1."""
    for k, line in enumerate(content.split(b"\n"), start=number):
        if k > after and line.strip():
            yield k, line.removesuffix(b"\r")


def _require_line_ends(content: bytes, path: Path, number: int) -> None:
    """Refuse a single carriage return, which some programs take for the end of a line."""
    if content.count(b"\r") == content.count(b"\r\n"):
        return
    place = re.search(rb"\r(?!\n)", content)
    assert place is not None
    raise DataError(
        f"{path}:{content.count(10, 0, place.start()) + number}: a carriage return within the line,"
        " lines should end in LF or CR LF"
    )


def _squeezed(content: bytes) -> bytes:
    """Replace each run of white space within a line by one space; remove it at the ends."""
    content = re.sub(rb"[ \t]+", b" ", content)
    content = content.replace(b"\n ", b"\n").replace(b" \r\n", b"\n").replace(b" \n", b"\n")
    return content.removeprefix(b" ").removesuffix(b" ")


def _where(path: Path, line: int, after: int, row: int) -> str:
    """`file:line` of a row of the piece that begins at line `line`; reads the file again."""
    piece = next(text for number, text, _ in text_pieces(path) if number == line)
    numbers = (number for number, _ in _lines(piece, line, after=after))
    return f"{path}:{next(n for k, n in enumerate(numbers) if k == row)}"


def _diagnosed(content: bytes, form: _Form, path: Path, line: int) -> DataError | None:
    """The first line that cannot be read, and why."""
    for place, raw in _lines(content, line, after=form.skip):
        try:
            fields = _fields(raw.decode(), form.delimiter)
        except UnicodeDecodeError:
            return _not_utf8(path, place)
        if len(fields) != len(form.names):
            s = "s" * (len(fields) != 1)
            return DataError(
                f"{path}:{place}: {len(fields)} field{s} between delimiters {form.delimiter!r}, "
                f"should be {len(form.names)}"
            )
        for name, field in zip(form.names, fields, strict=True):
            reason = _wrong(name, field, form)
            if reason is not None:
                return DataError(f"{path}:{place}: {reason}")
    return None


def _not_utf8(path: Path, place: int) -> DataError:
    return DataError(f"{path}:{place}: not UTF-8 text; convert the file")


def _wrong(name: str, field: str, form: _Form) -> str | None:
    """What is wrong with a field, or None."""
    if name in form.dropped or name in form.texts or (name == form.target and form.text_target):
        return None
    what = f"target {name!r}" if name == form.target else f"column {name!r}"
    value = number(field)
    if value is None:
        shown = repr(printable(field, 60)) if field else "empty"
        more = "" if name == form.target else ", or named in dataset.source.columns.categorical"
        return f"{what} is {shown}, should be a number{more}"
    limit = float("inf") if name == form.target else FLOAT32_OVERFLOW
    return (
        None
        if abs(value) < limit
        else f"{what} is {printable(field, 60)}, should be a finite number"
    )
