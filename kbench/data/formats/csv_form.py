"""Form of a CSV file, found in its first records: delimiter, header, and how its numbers look.

Every decision that the file does not force is recorded in `Options.notes`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from unicodedata import normalize

from kbench.data.formats import DELIMITERS, excerpt, listed, number, printable
from kbench.data.formats.csv_header import has_header, has_known_header, like_a_number
from kbench.data.formats.csv_records import delimiter_of, fields_of, quoted_pattern, records
from kbench.data.formats.number_text import (
    PADDED,
    TRUTHS,
    decimal_of,
    has_decimals,
    is_missing,
    plain_or_decorated,
)
from kbench.data.formats.table import UNNAMED, Options, Roles, matching, roles_of
from kbench.errors import DataError, counted

_SAMPLE = 200
"""Records that decide about the header and the form of numbers. More records show rare decimals,
fewer are parsed faster in Python; later fields may still change the form. Set by hand."""

_MAX_COLUMNS = 1_000_000
"""Columns above which a first line is refused as damage: each costs about 1 KiB of memory.
Guard."""

_GROUPED = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{3}")
"""A number whose point may separate thousands, as German spreadsheets write it."""

_SMALL = re.compile(r"-?[0-9]{1,3}")
"""A whole number below 1000."""

_COMMENT = re.compile(r"\s*(#|%|//|!)")

_SEPARATOR_LINE = re.compile(rb'"?sep=(.)"?\s*', re.IGNORECASE)
"""A first line that tells Excel the delimiter."""


@dataclass
class Form:
    """Layout of a file."""

    delimiter: str
    names: list[str]
    begin: int  # Number of the line of the first row
    roles: Roles
    decimal: str  # {".", ","}: character before the decimals in decorated numbers
    text_target: bool  # Whether the target is read as text
    # Columns that are parsed as texts and converted by `value`: fields may not be plain numbers.
    decorated: set[str] = field(default_factory=set)
    # Decorated columns that hold only true and false, in any case.
    truths: set[str] = field(default_factory=set)
    empty: tuple[str, ...] = ()  # The last columns, which have neither names nor values
    # Whether the config, a decorated number or another file of the data set determines `decimal`;
    # if not, all numbers are plain.
    decimal_shown: bool = False
    # Columns among the decorated ones whose first records are plain whole numbers.
    whole: set[str] = field(default_factory=set)
    # Whether a plain number among the first records has decimals after a point.
    pointed: bool = False

    @property
    def has_commas(self) -> bool:
        """Whether a comma precedes the decimals, so that a point separates thousands."""
        return self.decimal_shown and self.decimal == ","

    def tell_decimal(self, options: Options) -> None:
        """Record the decimal separator for all files, if no file has shown one before."""
        if self.decimal_shown and options.decimal is None:
            options.decimal = self.decimal

    def value(self, name: str, text: str) -> float | None:
        """The number that a field of a decorated column holds; None for other texts."""
        if name in self.truths:
            return TRUTHS.get(text.strip().lower())
        return plain_or_decorated(text, self.decimal)

    def is_text(self, name: str) -> bool:
        """Whether a field of the column may be any text."""
        if name == self.roles.target:
            return self.text_target
        text_columns = {self.roles.group, *self.roles.texts, *self.roles.dropped, *self.empty}
        return name in text_columns


def without_preamble(head: bytes, options: Options) -> tuple[bytes, bytes | None]:
    """A file's first lines, in which the lines before the table become empty.

    Such lines are Excel's `sep=;` and lines that begin with `#`. If the last `#` line is the
    header, as numpy.savetxt writes it, only its mark is removed.

    Returns
    -------
    bytes
        As many lines as before.
    bytes or None
        The delimiter that a line `sep=` names.
    """
    lines = head.split(b"\n")
    first = next((k for k, line in enumerate(lines) if line.strip()), 0)
    separator = _SEPARATOR_LINE.fullmatch(lines[first])
    if separator:
        lines[first] = b""
        return b"\n".join(lines), separator[1]
    end = first
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(b"#")):
        end += 1
    marked = [k for k in range(first, end) if lines[k].startswith(b"#")]
    if not marked or end == len(lines):
        return head, None
    last = lines[marked[-1]].lstrip(b"# ")
    delimiter = delimiter_of(lines[end], options.columns.get("delimiter"))
    counts = [
        len(fields_of(line.decode(errors="replace"), delimiter)) for line in (last, lines[end])
    ]
    for k in marked:
        lines[k] = b""
    if counts[0] == counts[1] > 1:
        lines[marked[-1]] = last
        marked.pop()
    if marked:
        options.note(f"{counted(len(marked), 'line')} before the table, beginning with #, left out")
    return b"\n".join(lines), None


def form_of(content: bytes, delimiter: str, options: Options, path: Path) -> Form:
    """The form of a file that begins with `content`, which is not blank.

    content : What `without_preamble` returns.
    """
    lines = records(content, 1, quoted_pattern(delimiter))
    (lineno, raw), *later_records = islice(lines, _SAMPLE + 1)
    try:
        first = normalize("NFC", raw.decode())  # joins separate accents with their letters
    except UnicodeDecodeError:
        raise not_utf8(path, lineno) from None
    if first.count(delimiter) >= _MAX_COLUMNS:
        raise DataError(
            f"{path}:{lineno}: {first.count(delimiter) + 1} fields between delimiters "
            f"{delimiter!r}, should be {_MAX_COLUMNS} at most"
        )
    fields = fields_of(first, delimiter)
    _require_no_title(first, later_records, f"{path}:{lineno}")
    sample = [fields_of(raw.decode(errors="replace"), delimiter) for _, raw in later_records]
    own_names = has_known_header(fields, options)
    names = [] if own_names else [str(name) for name in options.columns.get("names") or []]
    about = f"{counted(len(fields), 'field')} between delimiters {delimiter!r}"
    one_feature = options.known is not None and len(options.known["columns"]) == 1
    if len(fields) < 2 and not one_feature and not (sample and len(sample[0]) == 2):
        wanted = "should be two at least"
        if options.known is not None:
            wanted = f"the training file had the columns {listed(options.known['columns'])}"
        raise DataError(
            f"{path}:{lineno}: {about}, {wanted}; if fields have another delimiter, set "
            f"dataset.source.columns.delimiter to one of {', '.join(DELIMITERS)}"
        )
    if names and len(names) != len(fields):
        remedy = "; dataset.source.columns.names=[NAME, ...] names those of these rows"
        raise DataError(
            f"{path}:{lineno}: {about}, dataset.source.columns.names has {len(names)}"
            + remedy * (options.known is not None)
        )
    has_names = any(number(text) is None for text in fields)
    row_names = [row[0] if row else "" for row in sample]
    wider = bool(sample) and all(len(row) == len(fields) + 1 for row in sample)
    if wider and not any(row[-1] for row in sample):
        fields = [*fields, ""]  # the rows end in a delimiter, the header does not
    elif has_names and wider and len(set(row_names)) == len(row_names):
        fields = ["", *fields]  # R's write.table gives the column of row names no header field
    sample = [row for row in sample if len(row) == len(fields)]
    header = has_header(fields, sample, options)
    n_filled = len(fields) if names else _n_filled(fields, sample)
    if not names and header:
        # As in pandas, columns without a name are called `Unnamed: k`, here only at the beginning,
        # except the first column, and at the end of the table.
        n_unnamed = next((k for k, text in enumerate(fields) if text), 0)
        names = [
            text or (f"Unnamed: {k}" if 0 < k < n_unnamed or k >= n_filled else "")
            for k, text in enumerate(fields)
        ]
    elif not names:
        names = [str(k) for k in range(1, len(fields) + 1)]
    if not _first_column_is_text(names, options):
        _require_no_comment([(lineno, raw), *later_records][int(header) :], delimiter, path)
    if header and fields in sample:
        repeated_lines = (
            line
            for line, raw in later_records
            if fields_of(raw.decode(errors="replace"), delimiter) == fields
        )
        raise repeated_header(path, next(repeated_lines))
    if header:
        _require_one_header(fields, sample, path, later_records[0][0] if later_records else lineno)
    _require_different(names, path, lineno, later_records)
    index = [""] if header and names[0] == "" else []
    columns = dict(zip(names, zip(*sample, strict=True), strict=True)) if sample else {}
    begin = later_records[0][0] if header and later_records else lineno + header
    decimals = options.columns.get("decimal")
    form = Form(
        delimiter,
        names,
        begin,
        Roles(None, None, frozenset(), frozenset()),
        "," if decimals == "comma" else ".",
        options.text_target,
        decimal_shown=decimals is not None,
    )
    if sample and not header:  # the first record is a row
        firsts = zip(columns.items(), fields, strict=True)
        columns = {name: (first, *later_fields) for (name, later_fields), first in firsts}
    _find_numbers(form, columns, options)
    form.roles = roles_of(names[:n_filled], options, path, index)
    form.empty = tuple(names[n_filled:])
    if form.empty:
        plural = len(form.empty) > 1
        options.note(
            f"the last {f'{len(form.empty)} columns have' if plural else 'column has'} neither "
            f"{'names nor values and are' if plural else 'a name nor values and is'} left out"
        )
    _find_truths(form, columns, options)
    _find_whole(form, columns)
    _find_codes(form, columns, options)
    return form


def _n_filled(header: list[str], sample: Sequence[list[str]]) -> int:
    """The number of columns up to the last one with a value or with a name other than pandas'
    `Unnamed: 4`."""
    names = ["" if UNNAMED.fullmatch(text) else text for text in header]
    columns = zip(names, *sample, strict=True)
    used_columns = [k for k, column in enumerate(columns, start=1) if any(column)]
    return max(used_columns, default=len(header))


def _find_numbers(form: Form, columns: dict[str, tuple[str, ...]], options: Options) -> None:
    """Record the columns of decorated numbers, their decimal separator and the columns of texts."""
    values = {n: [f for f in c if not is_missing(f, numeric=True)] for n, c in columns.items()}
    decorated_texts = {
        name: [f for f in texts if number(f) is None]
        for name, texts in values.items()
        if all(map(like_a_number, texts))
    }
    if not form.decimal_shown:
        plain = (f for name in decorated_texts for f in values[name] if number(f) is not None)
        form.pointed = any(map(has_decimals, plain))
        # The separator of another file of the data set also holds here, unless this file has `0.5`.
        default = None if form.pointed else options.decimal
        form.decimal_shown = any(decorated_texts.values()) or default is not None
        examples = (f for texts in decorated_texts.values() for f in texts)
        if form.decimal_shown:
            form.decimal = decimal_of(
                examples, form.delimiter, pointed=form.pointed, default=default
            )
    form.tell_decimal(options)
    for name, texts in values.items():
        if name in options.texts:
            continue  # an earlier pass over the file met a text
        pointed = form.has_commas and any("." in f for f in texts)
        numbers = [plain_or_decorated(f, form.decimal) for f in texts]
        if name in decorated_texts and (decorated_texts[name] or pointed) and None not in numbers:
            example = (
                next(iter(decorated_texts[name]))
                if decorated_texts[name]
                else next(f for f in texts if "." in f)
            )
            note_decorated(form, name, example, options)
        elif (text := _thousands(texts, form.delimiter)) is not None:
            options.note(
                f"in the column {printable(name)!r} {printable(text)!r} is read as "
                f"{float(text):.12g}; dataset.source.columns.decimal=comma reads thousands"
            )
        elif options.auto and any(number(f) is None for f in texts) and not _truths(texts):
            options.texts.add(name)


def _find_whole(form: Form, columns: dict[str, tuple[str, ...]]) -> None:
    """Record columns of plain whole numbers: a point in later rows would separate thousands."""
    for name, texts in columns.items() if form.has_commas else ():
        values = (text for text in texts if not is_missing(text, numeric=True))
        if all(number(f) is not None and "." not in f for f in values) and not form.is_text(name):
            form.decorated.add(name)
            form.whole.add(name)


def _thousands(texts: Sequence[str], delimiter: str) -> str | None:
    """The first text with a point, if all points of the column may separate thousands; else None.

    Spreadsheets write such columns with semicolons or tabs between them.
    """
    pointed = [text for text in texts if "." in text]
    if not pointed or delimiter not in ";\t" or not all(map(_GROUPED.fullmatch, pointed)):
        return None
    consistent = all("." in text or _SMALL.fullmatch(text) for text in texts)
    return pointed[0] if consistent else None


def _truths(texts: Sequence[str]) -> bool:
    """Whether all fields of a column that are not missing are true or false."""
    values = [text for text in texts if not is_missing(text, numeric=True)]
    return bool(values) and all(text.lower() in TRUTHS for text in values)


def _find_truths(form: Form, columns: dict[str, tuple[str, ...]], options: Options) -> None:
    """Record and note which features hold truth values, which are read as numbers."""
    for name, texts in columns.items():
        if name != form.roles.target and not form.is_text(name) and _truths(texts):
            form.decorated.add(name)
            form.truths.add(name)
            options.note(
                f"in the column {printable(name)!r} true is read as 1 and false as 0; "
                "dataset.source.columns.categorical=[NAME] makes features of its texts"
            )


def _find_codes(form: Form, columns: dict[str, tuple[str, ...]], options: Options) -> None:
    """Note which features hold whole numbers with leading zeros, such as postal codes."""
    codes: dict[str, str] = {}
    for name, texts in columns.items():
        code = next(filter(PADDED.fullmatch, texts), None)
        if code is not None and name != form.roles.target and not form.is_text(name):
            codes[name] = code
    if codes:
        text = next(iter(codes.values()))
        options.note(
            f"zeros before numbers are lost ({text!r} is read as {number(text):g}) in the column"
            f"{'s' * (len(codes) > 1)} {listed(map(repr, codes))}; dataset.source.columns."
            "categorical=[NAME] makes features of its texts"
        )


def note_decorated(form: Form, name: str, example: str, options: Options) -> None:
    """Record that a column holds decorated numbers, and note an example."""
    form.decorated.add(name)
    value = plain_or_decorated(example, form.decimal)
    if value is None:
        return
    options.note(
        f"in the column {printable(name)!r} {printable(example)!r} is read as {value:.12g}; "
        f"dataset.source.columns.decimal={'point' if form.decimal == ',' else 'comma'} reads it "
        "otherwise"
    )


def comment_mark(record: str) -> str | None:
    """The characters that make a line look like a comment; None if it begins with others."""
    match = _COMMENT.match(record)
    word = re.match(r"\s*[^\s,;|]+", record) if match else None  # `#DIV/0!` is a failed formula
    return None if match is None or (word and is_missing(word[0].strip())) else match[1]


def repeated_header(path: Path, lineno: int) -> DataError:
    return DataError(
        f"{path}:{lineno}: the header again, as where files were joined, should be once: "
        "`awk 'NR == 1 || $0 != header {print} NR == 1 {header = $0}' FILE`"
    )


def not_a_row(record: str, where: str) -> DataError:
    """The error for a line among the rows that looks like a comment."""
    mark = comment_mark(record)
    return DataError(
        f"{where}: {excerpt(record)!r} begins with {mark}; a comment should stand before the "
        f"table (`grep -v '^{mark}' FILE` leaves it out), and such a column is not numeric "
        "(dataset.source.columns.categorical or drop)"
    )


def _first_column_is_text(names: list[str], options: Options) -> bool:
    """Whether the first column may hold any text, by the config or the training file."""
    if options.known is not None and options.known["columns"].get(names[0]):
        return True
    columns = options.columns
    lists = [columns.get(key) for key in ("categorical", "drop")]
    named = [columns.get("group"), *(c for e in lists if isinstance(e, list) for c in e)]
    return any(c == 1 or matching(names, c) == names[0] for c in named if c is not None)


def _require_no_title(first: str, later: list[tuple[int, bytes]], where: str) -> None:
    """Refuse title lines: a first line without the delimiter that divides the lines of the table.

    The table is the last lines with equally many delimiters, at least three (set by hand).
    """
    unquoted = [
        re.sub(rb'"[^"]*"', b"", raw) for raw in (first.encode(), *(raw for _, raw in later))
    ]
    counts_by_delimiter = {d: [raw.count(d.encode()) for raw in unquoted] for d in "\t;|,"}
    if len(later) < 3 or any(
        counts[0] and len(set(counts)) == 1 for counts in counts_by_delimiter.values()
    ):
        return
    words = len(first.encode().split())
    if all(len(raw.split()) in (words, words + 1) for _, raw in later):
        return  # white space is the delimiter
    for delimiter, counts in counts_by_delimiter.items():
        n_titles = next(k for k in range(len(counts)) if len({*counts[k:]}) == 1)
        if counts[-1] and not counts[0] and len(counts) - n_titles > 2:
            raise DataError(
                f"{where}: {excerpt(first)!r} is not a row of the table, whose lines have "
                f"{counts[-1] + 1} fields between {delimiter!r}; "
                f"`tail -n +{later[n_titles - 1][0]} FILE` leaves "
                f"{counted(n_titles, 'line')} out"
            )


def _require_no_comment(lines: list[tuple[int, bytes]], delimiter: str, path: Path) -> None:
    """Refuse a line that looks like a comment where all others begin with a number."""
    texts = [(lineno, raw.decode(errors="replace")) for lineno, raw in lines]
    marked = [(lineno, record) for lineno, record in texts if comment_mark(record)]
    if not marked:
        return
    fields = (fields_of(record, delimiter) for _, record in texts if not comment_mark(record))
    first = [row[0] for row in fields if row and not is_missing(row[0], numeric=True)]
    if first and all(map(like_a_number, first)):
        lineno, record = marked[0]
        raise not_a_row(record, f"{path}:{lineno}")


def _require_one_header(
    names: list[str], sample: Sequence[list[str]], path: Path, lineno: int
) -> None:
    """Refuse a second line of names or units, which stands above columns of numbers.

    Such a line has no number, and a name or unit above two columns of numbers at least, or above
    one in a table of two columns. Below the header there must be three lines at least, two of them
    rows that tell which columns have numbers. Both limits are set by hand.

    sample : Fields of the lines below the header, of which the first may be such a second line.
    lineno : Line number of that line.
    """
    if len(sample) < 3 or any(number(text) is not None for text in sample[0]):
        return
    columns = [
        [f for f in c if not is_missing(f, numeric=True)] for c in zip(*sample[1:], strict=True)
    ]
    above = [
        text for text, c in zip(sample[0], columns, strict=True) if c and all(map(like_a_number, c))
    ]
    units = [
        text for text in above if not is_missing(text, numeric=True) and not like_a_number(text)
    ]
    if len(units) < max(1, min(2, len(names) - 1)):
        return
    raise DataError(
        f"{path}:{lineno}: a second line of names or units ({listed(units)}), should be one line; "
        "`frame.columns = frame.columns.map('_'.join)` makes one of pandas' levels, and "
        f"`sed {lineno}d FILE` leaves this line out"
    )


def _require_different(
    names: list[str], path: Path, lineno: int, later_records: list[tuple[int, bytes]]
) -> None:
    """Refuse equal or empty names; later_records : the records after the header, with lines."""
    if names.count("") > 1:
        lines = (line for line, raw in later_records if raw.strip(b" \t;,|"))
        raise DataError(
            f"{path}:{lineno}: {names.count('')} of {len(names)} columns have no name, should be "
            f"named in the first line; `tail -n +{next(lines, lineno + 1)} FILE` leaves a title "
            "out, dataset.source.columns.names names all columns"
        )
    if len(set(names)) < len(names):
        double = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"{path}:{lineno}: two columns {double!r}, names should differ; pandas.read_csv(FILE)"
            f".to_csv(FILE, index=False) calls the second {f'{double}.1'!r}, "
            "dataset.source.columns.names renames all, and "
            "dataset.source.columns.header=false makes a row of this line"
        )


def not_utf8(path: Path, lineno: int) -> DataError:
    return DataError(
        f"{path}:{lineno}: not UTF-8 text; `iconv -f CP1252 -t UTF-8` converts what older Windows "
        "programs write"
    )
