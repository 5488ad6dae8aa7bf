"""Divide CSV text into records and fields, and find the delimiter."""

import csv
import io
import re
from collections.abc import Iterator

from kbench.data.formats import DELIMITERS, number
from kbench.data.formats.number_text import is_missing

_DELIMITER_LINES = 20
"""Lines in which the delimiter has to occur equally often: more lines exclude other characters.
Columns that spaces align are looked for in ten times as many lines, of the first 64 KiB. These
numbers are set by hand."""


def quoted_pattern(delimiter: str) -> re.Pattern[bytes]:
    """A pattern of a field in quotes, with its line breaks and the blanks before it.

    Group 1 is empty if the quote is not closed. In a field that does not begin with a quote, quotes
    are ordinary characters.
    """
    if delimiter == " ":
        before, blanks = rb"[ \t\n]", b""
    else:
        before, blanks = rb"[\n" + re.escape(delimiter.encode()) + rb"]", rb" *"
    return re.compile(rb"(?:(?<=" + before + rb")|\A)" + blanks + rb'"[^"]*(?:""[^"]*)*("|\Z)')


def records(
    content: bytes, first_line: int, pattern: re.Pattern[bytes]
) -> Iterator[tuple[int, bytes]]:
    """Line number and bytes of each record that is not empty; `content` begins at `first_line`."""
    masked = content
    if b'"' in content:
        masked = pattern.sub(lambda match: match[0].replace(b"\n", b"\0"), content)
    at, line = 0, first_line
    for part in masked.split(b"\n"):
        record = content[at : at + len(part)]
        if record.strip():
            yield line, record.removesuffix(b"\r")
        at += len(part) + 1
        line += 1 + record.count(b"\n")


def fields_of(record: str, delimiter: str, *, stripped: bool = True) -> list[str]:
    """The fields of a record without quotes and, if `stripped`, without white space at the ends."""
    if delimiter == " ":
        if '"' not in record:
            # Other white space, such as a line of U+001F, is text, as it is for pyarrow.
            fields = re.findall(r"[^ \t]+", record)
            return [text.strip() for text in fields] if stripped else fields
        record = re.sub(r"[ \t]+", " ", record.strip(" \t"))
    # Blanks before a quote do not belong to the field.
    skips_blanks = stripped or f'{delimiter} "' in record
    try:
        text = io.StringIO(record, newline="")
        fields = next(csv.reader(text, delimiter=delimiter, skipinitialspace=skips_blanks))
    except (csv.Error, StopIteration):  # csv refuses fields of more than 131,072 characters
        fields = record.split(delimiter)
    return [text.strip() for text in fields] if stripped else fields


def delimiter_of(content: bytes, delimiter_name: str | None) -> str:
    """The delimiter that a config names, else the one that is equally frequent in the first lines.

    A tab, semicolon or bar is preferred to a comma, which may separate decimals. White space is the
    delimiter if no other one occurs, or if several numbers precede the first tab of every line.
    """
    if delimiter_name:
        return DELIMITERS[delimiter_name]
    text = re.sub(rb'"[^"]*"', b"", content[: 1 << 16])
    lines = [line for line in text.split(b"\n")[: 10 * _DELIMITER_LINES] if line.strip()]
    if len(content) > 1 << 16:
        lines = lines[:-1] or lines
    counts = {d: [line.count(d.encode()) for line in lines[:_DELIMITER_LINES]] for d in "\t;|,"}
    candidates = [d for d, n in counts.items() if n and n[0] and len(set(n)) == 1]
    if candidates and not (candidates[0] == "\t" and _numbers_before_a_tab(lines)):
        return candidates[0]
    if candidates:
        return " "
    in_first_line = {d: n[0] if n else 0 for d, n in counts.items()}
    most_frequent = max((",", ";", "\t", "|"), key=lambda d: in_first_line[d])
    return most_frequent if in_first_line[most_frequent] else " "


def _numbers_before_a_tab(lines: list[bytes]) -> bool:
    """Whether several numbers precede the first tab in each line, as in aligned columns."""
    before = [line.partition(b"\t")[0].decode(errors="replace").split() for line in lines]
    regular = (
        len({len(fields) for fields in before}) == 1 and len({len(x.split()) for x in lines}) == 1
    )
    texts = {text for row in before for text in row}
    numbers = all(number(text) is not None or is_missing(text, numeric=True) for text in texts)
    return regular and len(before[0]) > 1 and numbers
