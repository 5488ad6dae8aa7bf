"""Functions that make text from rows harmless to terminals, spreadsheets and viewers.

Rows are data that people exchange, so every name, message and status in them may be hostile. Each
writer passes such text through the function for its format: `printable` for terminals, `markdown`,
`csv_cell` for spreadsheets (OWASP, "CSV Injection"). LaTeX is escaped in
`kbench.report.text.latex`, HTML by `html.escape`.
"""

import re
from typing import Any

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

_MARKDOWN = re.compile(r"([\\|*_<>`\[\]!&#~$])")


def printable(text: str, keep: str = "") -> str:
    """`text` with every control or format character written as its code, such as `\\x1b`.

    Escape sequences and characters that reorder or hide text are among these characters. White
    space of any kind becomes a space; characters in `keep` stay unchanged.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _visible(c) for c in text)


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def csv_cell(value: Any) -> Any:
    """`value` in a form that spreadsheets do not read as a formula.

    Text that begins with `= + - @`, perhaps after white space, gets an apostrophe in front, by
    which spreadsheets recognise text. Numbers, also as text, and a lone dash, with which papers
    mark an empty cell, stay unchanged.
    """
    if not isinstance(value, str):
        return value
    text = printable(value, keep="\n")
    start = text.lstrip()
    if start[:1] in ("=", "+", "-", "@") and len(start) > 1 and not _NUMBER.fullmatch(start):
        return f"'{text}"
    return text


def markdown(text: str) -> str:
    """`text` on one line, with a backslash before every character that Markdown interprets."""
    return _MARKDOWN.sub(r"\\\1", printable(text))
