"""Comparisons as aligned text, in colour if the terminal shows colours.

Colours only repeat what the text says (a star for the best, a status for a failure), so that plain
text is complete.
"""

import itertools
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO

from kbench.report.comparisons.cells import (
    Cell,
    Grid,
    describe_machine,
    describe_problem,
    grid,
    title,
)
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.tables import Comparison, LearningTask
from kbench.report.safe import printable
from kbench.report.sheet import Sheet, narrowed
from kbench.report.statistics.days import Days
from kbench.report.text.notes import legend, notes

# Characters on a line if the terminal's width is unknown, such as in a pipe. Set by hand.
WIDTH = 120

_GAP = "  "
# Minimum number of characters of a column of words in a table that is too wide; smaller columns
# would break most words. Set by hand.
_MIN_TEXT_WIDTH = 12

# Names are shortened to 1 / _NAME_DIVISOR of a line before a column is dropped. Set by hand.
_NAME_DIVISOR = 3

# Select Graphic Rendition parameters of ECMA-48.
_COLOURS = {"title": "1", "best": "1;32", "failed": "31", "dim": "2"}

Paint = Callable[[str, str], str]


def plain(text: str, role: str) -> str:
    """`text` without colour."""
    return text


def coloured(text: str, role: str) -> str:
    """`text` with the escape codes of a role: title, best, failed or dim."""
    return f"\x1b[{_COLOURS[role]}m{text}\x1b[0m" if text else text


def takes_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether `stream` is a terminal with colours that the user has not refused (no-color.org)."""
    refused = bool(environ.get("NO_COLOR")) or environ.get("TERM", "dumb") == "dumb"
    return stream.isatty() and not refused


def terminal(
    comparisons: Sequence[Comparison],
    environments: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Quantity],
    *,
    width: int,
    settings: int,
    paint: Paint = plain,
) -> str:
    """Aligned tables of at most `width` characters if that is possible.

    If a table is too wide, it loses the deviations of costs. If it is still too wide, swept
    parameters move to a line below their method, then names are shortened, and at last columns
    except the score are dropped, first those with most empty cells. The last line names what was
    dropped.
    """
    blocks = []
    previous: LearningTask | None = None
    dropped: dict[str, None] = {}
    days = Days.of(comparisons)
    for comparison in comparisons:
        shortened, cut_methods = comparison.shortened(settings)
        table, settings_below, missing = _fitting_table(shortened, columns, width)
        dropped |= dict.fromkeys(missing)
        lines = []
        if comparison.problem != previous:
            heading = f"{title(comparison.problem)}: {describe_problem(comparison.problem)}"
            lines += wrapped([heading], width, "title", paint)
        previous = comparison.problem
        lines += wrapped([describe_machine(comparison.machine, environments)], width, "dim", paint)
        below_line = ["", "", *settings_below]
        for text, setting in zip(_aligned(table, paint), below_line, strict=True):
            lines.append(text)
            lines += [f"  {line}" for line in wrapped([setting], width - 2, "dim", paint) if line]
        remarks = notes(comparison, cut_methods, settings, "format=csv has all", days)
        lines += wrapped(remarks, width, "dim", paint)
        blocks.append("\n".join(lines))
    columns_left = [column for column in columns if column.title not in dropped]
    marks = legend(comparisons, columns_left, "* best of its column")
    if dropped:
        marks += f"; left out of tables that are too wide: {', '.join(dropped)}"
    blocks.append("\n".join(wrapped([marks], width, "dim", paint)))
    return "\n\n".join(blocks) + "\n"


def sheets(tables: Iterable[Sheet], *, width: int, paint: Paint = plain) -> str:
    """Aligned plain tables, each below its name, in pieces if its columns have groups.

    If a table is too wide, columns of words that are equal on all lines move into the table's name,
    and empty columns are dropped. If it is still too wide, the longest words are wrapped, and at
    last lines are cut off.
    """
    blocks = []
    compact = (_without_constant_columns(table, width) for table in tables)
    for sheet in (piece for table in compact for piece in narrowed(table, width)):
        table = [list(map(printable, row)) for row in (sheet.header, *sheet.rows)]
        widths = _widths(table, sheet.n_text_columns, width)
        rule = "-" * min(width, sum(widths) + len(_GAP) * (len(widths) - 1))
        lines = wrapped([sheet.name], width, "title", paint)
        for i, row in enumerate(table):
            wrapped_cells = [
                _wrapped_cell(text, w) if j < sheet.n_text_columns else [text]
                for j, (text, w) in enumerate(zip(row, widths, strict=True))
            ]
            for texts in itertools.zip_longest(*wrapped_cells, fillvalue=""):
                cells = [
                    f"{text:<{w}}" if j < sheet.n_text_columns else f"{text:>{w}}"
                    for j, (text, w) in enumerate(zip(texts, widths, strict=True))
                ]
                text = _GAP.join(cells).rstrip()
                lines.append(text[: width - 1] + "…" if len(text) > width else text)
            lines += [paint(rule, "dim")] if i == 0 else []
        blocks.append("\n".join([*lines, *wrapped(sheet.notes, width, "dim", paint)]))
    return "\n\n".join(blocks) + "\n"


def _without_constant_columns(sheet: Sheet, width: int) -> Sheet:
    """The sheet; if too wide, without empty columns, and with constant words in its name."""
    columns = list(zip(sheet.header, *sheet.rows, strict=True))
    total_width = sum(max(map(len, column)) + len(_GAP) for column in columns) - len(_GAP)
    if total_width <= width or not sheet.rows or sheet.groups:
        return sheet
    same = [j for j in range(1, sheet.n_text_columns) if len({*columns[j][1:]}) == 1]
    keep = [j for j in range(len(columns)) if j == 0 or (j not in same and any(columns[j][1:]))]
    header, *rows = (list(row) for row in zip(*(columns[j] for j in keep), strict=True))
    name = "; ".join([sheet.name, *(f"{columns[j][0]} {columns[j][1]}" for j in same)])
    n_text_columns = sum(j < sheet.n_text_columns for j in keep)
    return replace(sheet, name=name, n_text_columns=n_text_columns, header=header, rows=rows)


def _widths(table: Sequence[Sequence[str]], n_text_columns: int, width: int) -> list[int]:
    """The width of each column in characters; in wide tables the widest columns of words shrink."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    while sum(widths) + len(_GAP) * (len(widths) - 1) > width:
        widest = max(range(n_text_columns), key=widths.__getitem__, default=None)
        if widest is None or widths[widest] <= _MIN_TEXT_WIDTH:
            break
        widths[widest] -= 1
    return widths


def _wrapped_cell(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` characters, which end at a blank or an underscore."""
    if len(text) <= width:
        return [text]
    return [line.replace("_ ", "_") for line in textwrap.wrap(text.replace("_", "_ "), width)]


def wrapped(paragraphs: Iterable[str], width: int, role: str, paint: Paint) -> list[str]:
    """Painted lines of at most `width` characters."""
    return [
        paint(line, role)
        for text in paragraphs
        for line in textwrap.wrap(printable(text), width) or [""]
    ]


def _fitting_table(
    comparison: Comparison, columns: Sequence[Quantity], width: int
) -> tuple[Grid, list[str], list[str]]:
    """The table that fits, the settings below its lines, and the names of dropped columns."""
    table = grid(comparison, columns)
    settings_below = [""] * len(table.names)
    dropped: list[str] = []
    while (excess := max(map(len, _aligned(table, plain))) - width) > 0:
        if not dropped:
            dropped.append("deviations of costs")
            table = table.without_deviations()
        elif not any(settings_below) and any(line.setting for line in comparison.lines):
            settings_below = [line.setting for line in comparison.lines]
            table = replace(table, names=[line.name for line in comparison.lines])
        elif (shorter := _cut_names(table.names, excess, width // _NAME_DIVISOR)) != table.names:
            table = replace(table, names=shorter)
        elif len(table.quantities) > 1:
            # Drop the last of the columns with the most empty cells, such as disturbed seconds.
            empty = [
                sum(not cell.mean for cell in column) for column in zip(*table.cells, strict=True)
            ]
            emptiest = max(range(1, len(empty)), key=lambda j: (empty[j], j))
            dropped.append(table.quantities[emptiest].title)
            table = table.without(emptiest)
        else:
            return replace(table, names=_cut_names(table.names, excess, 1)), settings_below, dropped
    return table, settings_below, dropped


def _cut_names(names: list[str], excess: int, min_width: int) -> list[str]:
    """The names; the longest are shortened by `excess` characters, but not below `min_width`.

    If two names became equal, all stay as they are, unless `min_width` is 1.
    """
    width = max(max(map(len, names)) - excess, min_width)
    shorter = [name if len(name) <= width else name[: width - 1] + "…" for name in names]
    return shorter if min_width == 1 or len({*shorter}) == len({*names}) else names


def _aligned(table: Grid, paint: Paint) -> list[str]:
    """Header and lines; means are aligned right, and deviations follow in a column."""
    columns = [["method", *map(printable, table.names)]]
    for j, quantity in enumerate(table.quantities):
        cells = [row[j] for row in table.cells]
        means = [("*" if cell.best else "") + cell.mean for cell in cells]
        mean_width = max(map(len, means))
        deviations = [f" ± {cell.deviation}" if cell.deviation else "" for cell in cells]
        sd_width = max(map(len, deviations))
        body = [
            printable(cell.status) or f"{mean:>{mean_width}}{sd:<{sd_width}}"
            for cell, mean, sd in zip(cells, means, deviations, strict=True)
        ]
        columns.append([quantity.header, *body])
    columns.append(["runs", *table.runs])
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for i, (first, *middle, last) in enumerate(zip(*columns, strict=True)):
        cells = [Cell() for _ in middle] if i == 0 else table.cells[i - 1]
        name = f"{first:<{widths[0]}}"
        values = [
            _painted(f"{text:>{w}}", cell, paint)
            for text, w, cell in zip(middle, widths[1:-1], cells, strict=True)
        ]
        if i > 0 and cells[0].status:
            name = paint(name, "dim")
        lines.append(_GAP.join([name, *values, last]))
    rule = "-" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    return [lines[0], paint(rule, "dim"), *lines[1:]]


def _painted(text: str, cell: Cell, paint: Paint) -> str:
    role = "failed" if cell.status else "best" if cell.best else None
    if role is None:
        return text
    blank = len(text) - len(text.lstrip())
    return text[:blank] + paint(text[blank:], role)
