"""A plain table of words and numbers, which every text format prints."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sheet:
    """A table below its name: the first `n_text_columns` columns hold text, the others numbers.

    `groups` has a name for each column except the first. A format of limited width then cuts the
    table into pieces, and neighbouring columns with equal group names stay together if they fit.
    """

    name: str
    n_text_columns: int
    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    groups: Sequence[str] = ()


def narrowed(sheet: Sheet, width: int) -> list[Sheet]:
    """The sheet in pieces of at most `width` characters, each with the sheet's first column.

    The notes stand below the last piece. A sheet without rows or groups stays whole.
    """
    if not sheet.rows or not sheet.groups:
        return [sheet]
    columns = list(zip(sheet.header, *sheet.rows, strict=True))
    # Two characters separate columns (`kbench.report.text.terminal`).
    first, *widths = [2 + max(map(len, column)) for column in columns]
    lists = pieces(widths, sheet.groups, width - first)
    result = []
    for number, indices in enumerate(lists, start=1):
        name = f"{sheet.name} ({number} of {len(lists)})" if len(lists) > 1 else sheet.name
        piece = [columns[0], *(columns[j + 1] for j in indices)]
        header, *rows = map(list, zip(*piece, strict=True))
        result.append(Sheet(name, 1, header, rows, sheet.notes if number == len(lists) else []))
    return result


def pieces(widths: Sequence[int], groups: Sequence[str], width: int) -> list[list[int]]:
    """Indices of the columns of each piece; a piece is at most `width` wide, if all columns are."""
    result: list[list[int]] = [[]]
    for _, group in itertools.groupby(range(len(widths)), key=groups.__getitem__):
        members = list(group)
        if result[-1] and sum(widths[j] for j in result[-1] + members) > width:
            result.append([])
        for j in members:
            if result[-1] and sum(widths[i] for i in [*result[-1], j]) > width:
                result.append([])
            result[-1].append(j)
    return result
