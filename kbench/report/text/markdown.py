"""Comparisons and plain tables as Markdown, which shows text from rows literally."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.report.comparisons.cells import Grid, describe_machine, describe_problem, grid, title
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.tables import Comparison, LearningTask
from kbench.report.safe import markdown as escaped
from kbench.report.sheet import Sheet
from kbench.report.statistics.days import Days
from kbench.report.text.notes import legend, notes

Environments = Mapping[str, Mapping[str, Any]]


def markdown(
    comparisons: Sequence[Comparison],
    environments: Environments,
    columns: Sequence[Quantity],
    *,
    settings: int,
) -> str:
    """One section for each problem, one table for each machine; the best of a column is bold."""
    blocks = ["# Results", f"{legend(comparisons, columns, '**best of its column**')}."]
    previous: LearningTask | None = None
    days = Days.of(comparisons)
    for comparison in comparisons:
        if comparison.problem != previous:
            blocks.append(f"## {escaped(title(comparison.problem))}")
            blocks.append(escaped(describe_problem(comparison.problem)) + ".")
        previous = comparison.problem
        shortened, cut_methods = comparison.shortened(settings)
        blocks.append(escaped(describe_machine(comparison.machine, environments)) + ":")
        blocks.append(_markdown_table(grid(shortened, columns)))
        remarks = notes(comparison, cut_methods, settings, "format=csv has all", days)
        blocks += [f"- {escaped(note)}" for note in remarks]
    return "\n\n".join(blocks) + "\n"


def markdown_sheets(tables: Iterable[Sheet]) -> str:
    """Plain tables, each below its name."""
    blocks = []
    for sheet in tables:
        rule = ["---" if j < sheet.n_text_columns else "---:" for j in range(len(sheet.header))]
        rows = [list(map(escaped, row)) for row in (sheet.header, *sheet.rows)]
        rows.insert(1, rule)
        blocks += [f"## {escaped(sheet.name)}", "\n".join(f"| {' | '.join(row)} |" for row in rows)]
        blocks += [f"- {escaped(note)}" for note in sheet.notes]
    return "\n\n".join(blocks) + "\n"


def _markdown_table(table: Grid) -> str:
    header = ["method", *(quantity.header for quantity in table.quantities), "runs"]
    rows = [header, ["---", *("---:" for _ in table.quantities), "---"]]
    for name, cells, runs in zip(table.names, table.cells, table.runs, strict=True):
        values = []
        for cell in cells:
            mean = escaped(cell.status) or (f"**{cell.mean}**" if cell.best else cell.mean)
            values.append(f"{mean} ± {cell.deviation}" if cell.deviation else mean)
        rows.append([escaped(name), *values, runs])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
