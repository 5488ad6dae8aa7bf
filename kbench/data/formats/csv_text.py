"""Reader of tables in text: comma, semicolon, tab, bar or white space between the fields.

pyarrow parses. If pyarrow refuses a piece of the file, the records of the piece are examined one by
one: numbers as people write them (`1,5`) change the form. Any other field makes its column one of
texts with `categorical: auto`, and is otherwise an error with its line. White space around texts is
removed. The columns of a file without a header are called `1`, `2`, ...
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import numpy as np

from kbench.data.formats import LINE_END_REMEDY, PartRows, excerpt, number, printable
from kbench.data.formats.arrow import columns
from kbench.data.formats.coding import read_tables
from kbench.data.formats.csv_form import (
    Form,
    comment_mark,
    form_of,
    not_a_row,
    not_utf8,
    note_decorated,
    repeated_header,
    without_preamble,
)
from kbench.data.formats.csv_records import delimiter_of, fields_of, quoted_pattern, records
from kbench.data.formats.number_text import (
    NULL_TEXTS,
    TOTALS,
    TRUTHS,
    almost_a_number,
    decimal_of,
    decorated_number,
    is_missing,
    unit_sign,
)
from kbench.data.formats.table import Column, Options, Table, checked_table
from kbench.data.sources.content import MAX_LINE_BYTES, text_pieces
from kbench.errors import DataError, counted

# Least block size of pyarrow in bytes, above the size of most pieces (`PieceSizes.text`), each of
# which is one block. Set by hand.
_BLOCK_BYTES = 4 << 20
# Bytes whose lines decide on the form of a file. More show rare forms, fewer are read faster. Set
# by hand.
_HEAD_BYTES = 1 << 16
_AFTER_FIELD = [b"", *(bytes([c]) for c in b",;\t|\r\n")]  # bytes that may follow a quoted field
_BOM = b"\xef\xbb\xbf"
_BLANK_LINE = re.compile(rb"\n[ \t\f\v]+\r?(?:\n|\Z)")


def read(
    parts: Mapping[str, list[Path]], source: Mapping[str, Any], task: str, folder: Path
) -> dict[str, PartRows]:
    """Rows of each part; see `kbench.data.formats.read`.

    O(bytes) time. Memory: a piece, or with categories 4 bytes per field and the result.
    """
    return read_tables(parts, source, task, folder, tables)


def tables(path: Path, options: Options) -> Iterator[Table]:
    """Read a file piece by piece, plain or compressed; O(`PieceSizes.text`) memory.

    With `categorical: auto` the file is read twice, first for its columns of texts.
    """
    head, separator = without_preamble(_head(path), options)
    if not head.strip():
        raise DataError(f"{path}: no rows")
    name = options.columns.get("delimiter")
    delimiter = delimiter_of(head, name) if name or not separator else separator.decode("latin-1")
    first = normalize("NFC", head.lstrip().split(b"\n", 1)[0].decode(errors="replace"))
    if options.known is not None and [*options.known["columns"]] == fields_of(first, ","):
        delimiter = ","  # a name with blanks must not look like several fields
    pattern = quoted_pattern(delimiter)
    _require_plain_quotes(head, path, 1, pattern)
    if options.auto and options.known is None:
        form = form_of(head, delimiter, options, path)
        for line, text in _pieces(path, pattern):
            _read_piece(text, line, form, path, options)
    form, last = form_of(head, delimiter, options, path), None
    n, sums = 0, dict.fromkeys(form.names, 0.0)
    for line, text in _pieces(path, pattern):
        table = _read_piece(text, line, form, path, options)
        if table is not None:
            last = table if table.n or last is None else last
            n += table.n
            with np.errstate(over="ignore", invalid="ignore"):  # refused later
                for name in table.features:
                    column = table.columns[name]
                    if not column.categories:
                        total = float(column.values.sum())  # `nansum` copies the values
                        sums[name] += total if total == total else float(np.nansum(column.values))
            yield table
    if last is not None:
        _note_totals(last, options)
        _note_sums(last, n, sums, options)
    else:
        first = excerpt(head.strip().split(b"\n")[0].decode(errors="replace"))
        raise DataError(f"{path}: no rows, only the line {first!r}")


def _note_totals(last: Table, options: Options) -> None:
    """Note a last line that looks like a line of sums; last : the rows of a file's last piece."""
    for name in last.features if last.n else ():
        values, texts = last.columns[name]
        text = texts[values[-1]] if texts else ""
        if TOTALS.fullmatch(text) and np.count_nonzero(values == values[-1]) == 1:
            options.note(
                f"the last line has {text!r} in the column {printable(name)!r}, as a line of sums "
                "would; `sed '$d' FILE` leaves it out"
            )


def _note_sums(last: Table, n: int, sums: dict[str, float], options: Options) -> None:
    """Note a last row that holds the sums of the other rows; without a text it looks like a row.

    n, sums : The rows of the file, and the sum of each column of numbers. At least four rows and
    two sums other than 0 are needed, and rounding to 1e-6 of a sum is allowed; all set by hand.
    """
    numbers = [name for name in last.features if last.columns[name].categories is None]
    if n < 4 or not last.n or len(numbers) < 2:
        return
    row = np.array([last.columns[name].values[-1] for name in numbers])
    with np.errstate(over="ignore", invalid="ignore"):
        others = np.array([sums[name] for name in numbers]) - row
    equal = np.isclose(row, others, rtol=1e-6, atol=0.0)
    if equal.all() and np.count_nonzero(row) >= 2:
        options.note(
            "the numbers of the last line are the sums of the lines above: if it is not a row, "
            "`sed '$d' FILE` leaves it out"
        )


def _head(path: Path) -> bytes:
    """The first lines of a file, of at least `_HEAD_BYTES` if the file is so long."""
    head = b""
    for _, text, _ in text_pieces(path):
        head += text
        if len(head) >= _HEAD_BYTES and head.strip():
            break
    return head.removeprefix(_BOM)


def _pieces(path: Path, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, bytes]]:
    """The text in pieces of whole records, each with the number of its first line."""
    unfinished, begin = b"", 1
    for line, piece, last in text_pieces(path):
        text = unfinished + (piece.removeprefix(_BOM) if line == 1 else piece)
        begin = begin if unfinished else line
        end = len(text)
        if b'"' in text and not last:
            opened = next((m.start() for m in pattern.finditer(text) if not m[1]), None)
            if opened is not None:
                end = text.rfind(b"\n", 0, opened) + 1
        if len(text) - end > MAX_LINE_BYTES:
            raise DataError(
                f"{path}:{begin + text.count(10, 0, end)}: a quote that begins here does not end "
                f"within {MAX_LINE_BYTES >> 20} MiB, should be closed"
            )
        unfinished = text[end:]
        _require_line_ends(text[:end], path, begin, pattern)
        _require_plain_quotes(text[:end], path, begin, pattern)
        if end:
            yield begin, text[:end]
        begin += text.count(b"\n", 0, end)


def _where(path: Path, pattern: re.Pattern[bytes], begin: int, row: int) -> str:
    """`file:line` of a row, counted from 0 on line `begin`; reads the file again."""
    for line, text in _pieces(path, pattern):
        if line + text.count(b"\n") < begin:
            continue
        for record_line, _ in records(text, line, pattern):
            if record_line >= begin:
                if row == 0:
                    return f"{path}:{record_line}"
                row -= 1
    raise IndexError(row)


def _read_piece(text: bytes, line: int, form: Form, path: Path, options: Options) -> Table | None:
    """The rows of whole records from line `line` on; None if there are none."""
    if line < form.begin:
        skipped = text.split(b"\n", form.begin - line)
        text = skipped[-1] if len(skipped) > form.begin - line else b""
        line = form.begin
    if not text.strip():
        return None
    content = _collapse_spaces(text) if form.delimiter == " " else text
    pattern = quoted_pattern(form.delimiter)
    if b' "' in content:  # pyarrow ignores a quote after a blank
        content = pattern.sub(lambda match: match[0].lstrip(b" "), content)
    if _BLANK_LINE.search(b"\n" + content):
        content = _without_blanks(content, pattern)
    while True:
        table = _parse(content, form)
        if table is None:
            _adapt(content, line, form, path, options)
            continue
        if not table.num_rows:
            return None
        where = partial(_where, path, pattern, line)
        arrays = columns(table, path)
        _require_empty([arrays.pop(name) for name in form.empty], where)
        decorated = sorted(form.decorated & set(arrays))
        converted = {name: _convert(arrays[name], form, name) for name in decorated}
        if None in converted.values():
            _adapt(content, line, form, path, options)
            continue
        for name in decorated:
            texts = arrays[name].categories or ()
            signs = (unit_sign(text, form.decimal) for text in texts if form.value(name, text))
            options.note_marks(name, signs)
            if name in form.whole and (pointed := [text for text in texts if "." in text]):
                form.whole.discard(name)
                note_decorated(form, name, pointed[0], options)
            if not form.is_text(name):
                options.note_dashes(name, texts)
        options.note_plain(arrays)
        arrays |= {name: column for name, column in converted.items() if column is not None}
        return checked_table(path, arrays, form.roles, table.num_rows, where, options)


def _parse(content: bytes, form: Form) -> Any:
    """The text as a pyarrow table; None if the text does not have the form."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    text_type = pa.dictionary(pa.int32(), pa.string())
    types = {
        name: text_type if form.is_text(name) or name in form.decorated else pa.float64()
        for name in form.names
    }
    try:
        return arrow_csv.read_csv(
            pa.BufferReader(content),
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=max(_BLOCK_BYTES, len(content)),  # a row has to lie within a block
                column_names=form.names,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=form.delimiter, newlines_in_values=b'"' in content
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types,
                include_columns=[name for name in form.names if name not in form.roles.dropped],
                null_values=NULL_TEXTS,
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException:
        return None


def _require_empty(empty: list[Column], where: Callable[[int], str]) -> None:
    """Refuse a value in a column of `Form.empty`."""
    for column in empty:
        has_text = [text != "" for text in column.categories or ()]
        if any(has_text):
            row = int(np.argmax(np.array(has_text)[column.values]))
            text = (column.categories or ())[column.values[row]]
            raise DataError(
                f"{where(row)}: {excerpt(text)!r} stands in a column without a name, should "
                "be empty, or the column should have a name"
            )


def _convert(column: Column, form: Form, name: str) -> Column | None:
    """Decorated numbers as numbers, or as texts of plain numbers if they are a text target.

    None if a text is not a number and the column is not a text target.
    """
    assert column.categories is not None
    if name == form.roles.target and form.text_target:
        values = [form.value(name, text) for text in column.categories]
        pairs = zip(column.categories, values, strict=True)
        texts = [text if value is None else repr(value) for text, value in pairs]
        return Column.of_texts(column.values, texts)
    numbers = [
        np.nan if is_missing(text, numeric=True) else form.value(name, text)
        for text in column.categories
    ]
    if None in numbers:
        return None
    return Column(np.array(numbers, dtype=np.float64)[column.values])


def _adapt(content: bytes, line: int, form: Form, path: Path, options: Options) -> None:
    """Change the form so that it fits a text that pyarrow refused.

    Raises DataError: no form fits a record; the message names the first one.
    """
    before = (len(form.decorated), form.roles.texts)
    for lineno, raw in records(content, line, quoted_pattern(form.delimiter)):
        try:
            record = raw.decode()
        except UnicodeDecodeError:
            raise not_utf8(path, lineno) from None
        fields = fields_of(record, form.delimiter)
        if len(fields) != len(form.names):
            if comment_mark(record):
                raise not_a_row(record, f"{path}:{lineno}")
            _require_closed_quotes(content, line, form, path)
            breaks = record.count("\n")
            footer = f"; `sed {lineno}d FILE` leaves the line out if it is not a row"
            raise DataError(
                f"{path}:{lineno}: {counted(len(fields), 'field')} between delimiters "
                f"{form.delimiter!r}, "
                f"should be {len(form.names)}, in {excerpt(record)!r}"
                + f"; quotes join {breaks + 1} lines" * (breaks > 0)
                + footer * (len(fields) == 1 and breaks == 0)
            )
        if fields == form.names and any(number(text) is None for text in fields):
            raise repeated_header(path, lineno)
        unstripped_fields = fields_of(record, form.delimiter, stripped=False)
        for name, text, unstripped in zip(form.names, fields, unstripped_fields, strict=True):
            is_gap_in_blanks = text != unstripped and is_missing(text, numeric=True)
            if not form.is_text(name) and (is_gap_in_blanks or text != unstripped.strip(" \t")):
                # pyarrow strips neither blanks around a missing value nor Unicode's blanks.
                form.decorated.add(name)
            _adapt_column(form, name, text, f"{path}:{lineno}", options, record)
    if before == (len(form.decorated), form.roles.texts):
        _require_closed_quotes(content, line, form, path)
        raise DataError(f"{path}:{line}: pyarrow cannot read the rows from this line on as CSV")


def _require_closed_quotes(content: bytes, line: int, form: Form, path: Path) -> None:
    quotes = quoted_pattern(form.delimiter).finditer(content)
    quote = next((match for match in quotes if not match[1]), None)
    if quote is not None:
        lineno = line + content.count(b"\n", 0, quote.start())
        raise DataError(f"{path}:{lineno}: a quote that begins here does not end, should be closed")


def _adapt_column(
    form: Form, name: str, text: str, where: str, options: Options, record: str
) -> None:
    """Change the form so that it fits a field of a record, or refuse the field."""
    if form.is_text(name):
        return
    if is_missing(text, numeric=True):
        if text not in NULL_TEXTS:
            form.decorated.add(name)
        return
    if name in form.decorated:
        if form.value(name, text) is not None:
            return
    elif number(text) is not None:
        return
    else:
        if not form.decimal_shown:
            default = None if form.pointed else options.decimal
            form.decimal = decimal_of([text], form.delimiter, pointed=form.pointed, default=default)
            form.decimal_shown = decorated_number(text, form.decimal) is not None
            form.tell_decimal(options)
        if decorated_number(text, form.decimal) is not None:
            note_decorated(form, name, text, options)
            return
    if name == form.names[0] and comment_mark(record):
        raise not_a_row(record, where)
    target = name == form.roles.target
    if options.auto and options.known is None and not target:
        options.texts.add(name)
        about = f"in the column {printable(name)!r} "
        options.notes[:] = [note for note in options.notes if not note.startswith(about)]
        form.roles = form.roles._replace(texts=form.roles.texts | {name})
        form.decorated.discard(name)
        form.truths.discard(name)
        return
    field = repr(excerpt(text))
    # A feature of true and false alone is numeric, so this column also holds other values.
    mixed = text.lower() in TRUTHS and not target
    cause = None if mixed else almost_a_number(text, name)
    if target:
        cause = f"; {cause}" if cause else ""
        raise DataError(f"{where}: target {name!r} is {field}, should be a number{cause}")
    remedy = (
        "dataset.source.columns.categorical=auto makes features of the texts of a column, "
        "dataset.source.columns.drop leaves it out"
    )
    if form.delimiter in " \t" and re.fullmatch(r"\d+:[-+.\d]\S*", text):
        remedy = "dataset.source.format=libsvm reads index:value"
    elif options.known is not None:
        remedy = "the column held numbers in the training file"
    elif name in form.truths:
        remedy = f"the fields before are truth values; {remedy}"
    elif name in form.decorated:
        remedy = (
            f"the column has decimal {'commas' if form.decimal == ',' else 'points'}, "
            f"dataset.source.columns.decimal={'point' if form.decimal == ',' else 'comma'} reads "
            f"it otherwise; {remedy}"
        )
    elif options.columns.get("target") is None:
        remedy += (
            f"; the target is taken to be {printable(str(form.roles.target))!r}, "
            "dataset.source.columns.target=NAME chooses another"
        )
    if cause:
        remedy = f"{cause}; {remedy}"
    raise DataError(f"{where}: column {name!r} is {field}, should be a number; {remedy}")


def _require_plain_quotes(
    content: bytes, path: Path, line: int, pattern: re.Pattern[bytes]
) -> None:
    r"""Refuse a quote within a field that is written `\"`, as by MySQL and Spark."""
    for field in pattern.finditer(content) if b'\\"' in content else ():
        if field[0].endswith(b'\\"') and content[field.end() : field.end() + 1] not in _AFTER_FIELD:
            raise DataError(
                f"{path}:{line + content.count(10, 0, field.end())}: a quote within a field is "
                'written \\", should be ""; in pandas, `pandas.read_csv(FILE, escapechar=\'\\\\\')'
                ".to_csv(NEW, index=False)` makes it so"
            )


def _require_line_ends(content: bytes, path: Path, line: int, pattern: re.Pattern[bytes]) -> None:
    """Refuse a carriage return without a newline, which some programs take for a line's end."""
    if content.count(b"\r") == content.count(b"\r\n"):
        return
    unquoted = content
    if b'"' in content:
        unquoted = pattern.sub(lambda match: match[0].replace(b"\r", b"\0"), content)
    place = re.search(rb"\r(?!\n)", unquoted)
    if place is not None:
        ends = "ends each line" if b"\n" not in content else "within the line"
        raise DataError(
            f"{path}:{content.count(10, 0, place.start()) + line}: a carriage return {ends}, "
            f"{LINE_END_REMEDY}, and a field that holds it should be in quotes"
        )


def _without_blanks(content: bytes, pattern: re.Pattern[bytes]) -> bytes:
    """The text, in which lines of blanks become empty lines, which pyarrow skips."""
    result, line = bytearray(), 0
    for lineno, record in records(content, 0, pattern):
        result += b"\n" * (lineno - line) + record
        line = lineno + record.count(b"\n")
    return bytes(result)


def _collapse_spaces(content: bytes) -> bytes:
    """Replace each run of white space within a line by one space; remove it at the ends."""
    content = re.sub(rb"[ \t]+", b" ", content)
    content = content.replace(b"\n ", b"\n").replace(b" \r\n", b"\n").replace(b" \n", b"\n")
    return content.removeprefix(b" ").removesuffix(b" ")
