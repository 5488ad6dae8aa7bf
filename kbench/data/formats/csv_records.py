"""Records and fields of CSV text, and the delimiter between them."""

import csv
import io
import re
from collections.abc import Iterator

from kbench.data.formats import DELIMITERS, number
from kbench.data.formats.number_text import is_missing

_GUESSED = 20
"""Lines in which the delimiter has to occur equally often. Set by hand."""


def quoted_pattern(delimiter: str) -> re.Pattern[bytes]:
    """Matches a field in quotes, with its line breaks and the blanks before it.

    Group 1 is empty if the quote is not closed. A quote within a field that does not begin with one
    is an ordinary character.
    """
    if delimiter == " ":
        before, blanks = rb"[ \t\n]", b""
    else:
        before, blanks = rb"[\n" + re.escape(delimiter.encode()) + rb"]", rb" *"
    return re.compile(rb"(?:(?<=" + before + rb")|\A)" + blanks + rb'"[^"]*(?:""[^"]*)*("|\Z)')


def records(
    content: bytes, number_: int, pattern: re.Pattern[bytes]
) -> Iterator[tuple[int, bytes]]:
    """Records that are not empty, with the numbers of the lines that they begin on."""
    masked = content
    if b'"' in content:
        masked = pattern.sub(lambda match: match[0].replace(b"\n", b"\0"), content)
    at, line = 0, number_
    for part in masked.split(b"\n"):
        record = content[at : at + len(part)]
        if record.strip():
            yield line, record.removesuffix(b"\r")
        at += len(part) + 1
        line += 1 + record.count(b"\n")


def fields_of(record: str, delimiter: str, *, stripped: bool = True) -> list[str]:
    """The fields of a record, without quotes and, if `stripped`, the white space about them."""
    if delimiter == " ":
        if '"' not in record:
            return record.split()
        record = re.sub(r"[ \t]+", " ", record.strip())
    blanks = stripped or f'{delimiter} "' in record  # before a quote they are not of the field
    try:
        text = io.StringIO(record, newline="")
        fields = next(csv.reader(text, delimiter=delimiter, skipinitialspace=blanks))
    except (csv.Error, StopIteration):  # a field of more than 131,072 characters
        fields = record.split(delimiter)
    return [text.strip() for text in fields] if stripped else fields


def delimiter_of(content: bytes, named: str | None) -> str:
    """The delimiter that a config names, or the one that divides the first lines evenly.

    A tab, semicolon or bar that is equally frequent in all lines wins over a comma, which may
    separate decimals; white space is taken only if there is no other, or if all lines begin with
    equally many numbers, several of them before the first tab.
    """
    if named:
        return DELIMITERS[named]
    text = re.sub(rb'"[^"]*"', b"", content[: 1 << 16])
    lines = [line for line in text.split(b"\n")[: 10 * _GUESSED] if line.strip()]
    if len(content) > 1 << 16:
        lines = lines[:-1] or lines
    counts = {d: [line.count(d.encode()) for line in lines[:_GUESSED]] for d in "\t;|,"}
    even = [d for d, n in counts.items() if n and n[0] and len(set(n)) == 1]
    if even and not (even[0] == "\t" and _numbers_before_a_tab(lines)):
        return even[0]
    if even:
        return " "
    first = {d: n[0] if n else 0 for d, n in counts.items()}
    most = max((",", ";", "\t", "|"), key=lambda d: first[d])
    return most if first[most] else " "


def _numbers_before_a_tab(lines: list[bytes]) -> bool:
    """Whether tabs stand among fields that blanks divide, as in a table of aligned columns."""
    before = [line.partition(b"\t")[0].decode(errors="replace").split() for line in lines]
    same = (
        len({len(fields) for fields in before}) == 1 and len({len(x.split()) for x in lines}) == 1
    )
    texts = {text for row in before for text in row}
    numbers = all(number(text) is not None or is_missing(text, numeric=True) for text in texts)
    return same and len(before[0]) > 1 and numbers
