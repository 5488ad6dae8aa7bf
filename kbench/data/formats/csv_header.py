"""Decide whether the first line of a CSV file is its header, if the config does not set it."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kbench.data.formats import number, printable
from kbench.data.formats.number_text import decorated_number, is_missing
from kbench.data.formats.table import Options, matching


def has_header(fields: list[str], sample: Sequence[list[str]], options: Options) -> bool:
    """Whether the first record names the columns."""
    if has_known_header(fields, options):
        return True
    header = options.columns.get("header")
    if header is not None:
        return bool(header)
    if options.columns.get("names"):
        return False
    why = _why_header(fields, sample, options)
    if why:
        options.note(
            f"the first line is taken as the header, {why}; dataset.source.columns.header=false "
            "makes it a row"
        )
    if why is None:
        options.note(
            "the file has no header, its first line is a row; dataset.source.columns.header=true "
            "makes it the header"
        )
    return why is not None


def has_known_header(fields: list[str], options: Options) -> bool:
    """Whether the first record of later rows names the columns of the training file."""
    known = options.known
    if known is None or not set(known["columns"]) <= set(fields):
        return False
    names = {*known["columns"], known["target"], *known.get("left_out", ())}
    names |= {known.get("group") or known["target"]}
    # A file without a header has the columns 1, 2, ..., which may be values of the first row, too.
    return not names <= {str(k) for k in range(1, len(names) + 1)}


def _why_header(fields: list[str], sample: Sequence[list[str]], options: Options) -> str | None:
    """The reason why the first record is a header: "" if it is obvious, None if it is a row."""
    numbers = [text for text in fields if number(text) is not None]
    for wanted in _columns_in_config(options):
        name = matching(fields, wanted)
        is_index = isinstance(wanted, int) and 0 < abs(wanted) <= len(fields)
        if name is not None and not is_index:
            return f"as it has the column {printable(name)!r}" if numbers else ""
    names = fields[1:] if fields[0] == "" else fields
    if len(names) > 1 and [number(text) for text in names] == list(range(len(names))):
        return f"as it counts from 0 to {len(names) - 1}"
    columns = list(zip(*sample, strict=True)) if sample else [()] * len(fields)
    first = columns[0] if columns else ()
    counts_rows = len(set(first)) == len(first) > 1 and all(map(str.isdigit, first))
    if counts_rows and fields[0] == "" and len(set(fields)) == len(fields) > 2:
        return "as its first field is empty above numbers of the rows"
    values = [[f for f in column if not is_missing(f, numeric=True)] for column in columns]
    names_above_numbers = [
        text
        for text, column in zip(fields, values, strict=True)
        if column
        and number(text) is None
        and not is_missing(text, numeric=True)
        and all(like_a_number(f) for f in column)
        and not like_a_number(text)
    ]
    if not numbers:
        if names_above_numbers or not sample:
            return ""
        n_same = sum(text in column for text, column in zip(fields, columns, strict=True))
        # If all columns hold texts, a name hardly ever occurs among the values of its column. The
        # fraction of one half is set by hand.
        if 2 * n_same > len(fields) and not any(like_a_number(f) for c in values for f in c):
            return None
        return "as no field of it is a number"
    if len(set(fields)) < len(fields):
        return None
    if names_above_numbers:
        return f"as {printable(names_above_numbers[0])!r} is not a number and all below it are"
    if _names_are_positions(fields, sample):
        return f"as its numbers go from {numbers[0]} to {numbers[-1]} in order, unlike those below"
    n_decimal = sum(all(re.search(r"\d\.\d|\de", f) for f in column) for column in values if column)
    # The numbers of rows and of columns with decimals are set by hand.
    integers = all(text.isascii() and text.isdigit() for text in fields)
    if integers and len(sample) > 2 and n_decimal >= max(2, len(fields) - 1):
        return "as it has whole numbers above decimals"
    return None


def _names_are_positions(fields: list[str], sample: Sequence[list[str]]) -> bool:
    """Whether the names in a record are positions of a spectrum or of a series.

    Five or more numbers in equal steps are positions, if no row of the sample has equal steps.
    Three or more numbers that rise or fall are positions, if fewer than half of the rows do so and
    there are other names, none of which is among the texts of its column, and each of these texts
    occurs twice or more. The limits, and the relative tolerance 1e-6 of equal steps, are set by
    hand.
    """
    if len(sample) < 3:
        return False
    number_fields = [k for k, text in enumerate(fields) if number(text) is not None]
    texts = [
        (text, [row[k] for row in sample])
        for k, text in enumerate(fields)
        if k not in number_fields
    ]
    values = np.array(
        [[number(row[k]) for k in number_fields] for row in [fields, *sample]], dtype=float
    )
    steps = np.diff(values, axis=1)
    if len(number_fields) >= 5 and steps[0, 0]:
        has_equal_steps: np.ndarray = np.abs(steps / steps[0, 0] - 1.0).max(axis=1) < 1e-6
        return bool(has_equal_steps[0] and not has_equal_steps[1:].any())
    is_new_text = [
        text not in below and min(Counter(below).values()) > 1 for text, below in texts if text
    ]
    is_monotonic: np.ndarray = np.abs(np.sign(steps).sum(axis=1)) == steps.shape[1]
    return (
        len(number_fields) >= 3
        and any(is_new_text)
        and all(is_new_text)
        and is_monotonic[0] > 2 * is_monotonic[1:].mean()
    )


def _columns_in_config(options: Options) -> Iterator[Any]:
    """The columns that the config names, as texts, numbers or truth values."""
    for key in ("target", "group"):
        if options.columns.get(key) is not None:
            yield options.columns[key]
    for key in ("categorical", "drop"):
        if isinstance(options.columns.get(key), list):
            yield from options.columns[key]


def like_a_number(text: str) -> bool:
    """Whether a text is a number, plain or decorated, `nan` included; an empty text is not."""
    return number(text) is not None or any(decorated_number(text, d) is not None for d in ".,")
