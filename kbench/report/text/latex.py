"""Comparisons as a LaTeX document of booktabs tables, each of which can be copied into a paper.

All text is escaped. A character that OT1 fonts lack becomes its base letter or its code point, so
that pdflatex never stops.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.report.comparisons.cells import (
    Cell,
    Grid,
    describe_machine,
    describe_problem,
    grid,
    title,
)
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.tables import Comparison
from kbench.report.sheet import Sheet, narrowed
from kbench.report.statistics.days import Days
from kbench.report.text.notes import legend, notes

_PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[utf8]{inputenc}
\usepackage[a4paper,landscape,margin=15mm]{geometry}
\usepackage{booktabs}
\begin{document}
"""

# Number of characters of \small type on a line of this page. Set by hand.
WIDTH = 130

# LaTeX would read a bracket or a star after a line break as an argument, so braces enclose both.
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\^{}",
    "~": r"\~{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "[": r"{[}",
    "]": r"{]}",
    "*": r"{*}",
    "-": r"{-}",
    '"': r"''",
    "`": r"{`}",
    "'": r"{'}",
    "±": r"$\pm$",
    "−": r"$-$",
    "×": r"$\times$",
    "÷": r"$\div$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "†": r"$\dagger$",
    "²": r"$^2$",
    "…": r"\dots{}",
}

# Letters that OT1 fonts have or compose of a letter and an accent.
_LETTERS = frozenset("ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜÝßàáâãäåæçèéêëìíîïñòóôõöøùúûüýÿ")


def latex(
    comparisons: Sequence[Comparison],
    environments: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Quantity],
    *,
    settings: int,
) -> str:
    """One table for each comparison on a page of its own; the best of a column is bold."""
    marks = legend(comparisons, columns, "bold: best of its column")
    blocks = [_PREAMBLE + r"\noindent " + escaped(marks) + ".\n"]
    days = Days.of(comparisons)
    for comparison in comparisons:
        shortened, cut_methods = comparison.shortened(settings)
        caption = f"{title(comparison.problem)}: {describe_problem(comparison.problem)}."
        caption += f" {describe_machine(comparison.machine, environments)}."
        remarks = notes(comparison, cut_methods, settings, "format=csv has all", days)
        blocks.append(_table(caption, _tabular(grid(shortened, columns)), remarks))
    return "\n".join([*blocks, "\\end{document}\n"])


def latex_sheets(tables: Iterable[Sheet]) -> str:
    """Plain tables, each on a page of its own below its name."""
    blocks = [_PREAMBLE]
    for sheet in (piece for table in tables for piece in narrowed(table, WIDTH)):
        alignment = "l" * sheet.n_text_columns + "r" * (len(sheet.header) - sheet.n_text_columns)
        lines = [f"\\begin{{tabular}}{{{alignment}}}", r"\toprule"]
        lines += [" & ".join(map(escaped, sheet.header)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(escaped, row)) + r" \\" for row in sheet.rows]
        lines += [r"\bottomrule", r"\end{tabular}"]
        blocks.append(_table(sheet.name, "\n".join(lines), sheet.notes))
    return "\n".join([*blocks, "\\end{document}\n"])


def escaped(text: str) -> str:
    """LaTeX that prints `text` on one line."""
    return "".join(map(_escaped, " ".join(text.split())))


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if " " <= character <= "~" or character in _LETTERS:
        return character
    base = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    if base.isalnum():
        return base
    return rf"\texttt{{U+{ord(character):04X}}}"


def _table(caption: str, tabular: str, remarks: Iterable[str]) -> str:
    return (
        "\\begin{table}[htbp]\n\\centering\\small\n"
        f"\\caption{{{escaped(caption)}}}\n{tabular}"
        + "".join(f"\n\\par\\smallskip {escaped(note)}" for note in remarks)
        + "\n\\end{table}\n\\clearpage\n"
    )


def _tabular(table: Grid) -> str:
    """The table; invisible digits give all values of a column the same number of decimals."""
    head = ["method", *(quantity.header for quantity in table.quantities), "runs"]
    lines = [f"\\begin{{tabular}}{{l{'r' * len(table.quantities)}l}}", r"\toprule"]
    lines += [" & ".join(map(escaped, head)) + r" \\", r"\midrule"]
    decimals = [
        max((row[j].decimals for row in table.cells), default=0) for j in range(len(head) - 2)
    ]
    for name, cells, runs in zip(table.names, table.cells, table.runs, strict=True):
        values = [_cell(cell, n_decimals) for cell, n_decimals in zip(cells, decimals, strict=True)]
        lines.append(" & ".join([escaped(name), *values, escaped(runs)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _cell(cell: Cell, n_decimals: int) -> str:
    if cell.status:
        return rf"\textit{{{escaped(cell.status)}}}"
    if not cell.mean:
        return ""
    sign, digits = ("$-$", cell.mean[1:]) if cell.mean.startswith("-") else ("", cell.mean)
    text = sign + (rf"\textbf{{{digits}}}" if cell.best else digits)
    missing = n_decimals - cell.decimals
    if missing:
        text += rf"\phantom{{{'' if cell.decimals else '.'}{'0' * missing}}}"
    return f"{text} $\\pm$ {cell.deviation}" if cell.deviation else text
