"""Comparisons as Markdown and as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.report.cells import Grid, describe_machine, describe_problem, grid, title
from kbench.report.notes import LEGEND, REFERENCE, has_reference, notes
from kbench.report.quantities import COSTS, FURTHER, SCORES, Quantity
from kbench.report.tables import Comparison, Problem
from kbench.report.versus import Sheet

Environments = Mapping[str, Mapping[str, Any]]


def markdown(
    comparisons: Sequence[Comparison],
    environments: Environments,
    columns: Sequence[Quantity],
    *,
    settings: int,
) -> str:
    """One section for each problem, one table for each machine; the best of a column is bold."""
    blocks = ["# Results", f"{LEGEND}; **best of its column** (↑ more, ↓ less is better)."]
    if has_reference(comparisons):
        blocks.append(f"{REFERENCE}.")
    previous: Problem | None = None
    for comparison in comparisons:
        if comparison.problem != previous:
            blocks.append(f"## {escaped(title(comparison.problem))}")
            blocks.append(describe_problem(comparison.problem) + ".")
        previous = comparison.problem
        shown, cut = comparison.shortened(settings)
        blocks.append(escaped(describe_machine(comparison.machine, environments)) + ":")
        blocks.append(_markdown_table(grid(shown, columns)))
        below = notes(comparison, cut, settings, "format=csv has all")
        blocks += [f"- {escaped(note)}" for note in below]
    return "\n\n".join(blocks) + "\n"


def markdown_sheets(found: Iterable[Sheet]) -> str:
    """Plain tables, each below its name."""
    blocks = []
    for sheet in found:
        rule = ["---" if j < sheet.words else "---:" for j in range(len(sheet.header))]
        rows = [list(map(escaped, row)) for row in (sheet.header, *sheet.rows)]
        rows.insert(1, rule)
        blocks += [f"## {sheet.name}", "\n".join(f"| {' | '.join(row)} |" for row in rows)]
        blocks += [f"- {escaped(note)}" for note in sheet.notes]
    return "\n\n".join(blocks) + "\n"


def comma_separated(comparisons: Iterable[Comparison]) -> str:
    """Every line with means and deviations in the rows' own units, nothing rounded or left out."""
    measured = [quantity.column for quantity in (*SCORES, *FURTHER, *COSTS)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    problem = ["dataset", "variant", "task", "n_train", "n_test", "n_features", "n_classes"]
    problem.append("data_sha256")
    machine = ["environment", "threads", "jobs"]
    counts = ["reference", "runs", "ok", "failures", "not_converged", "set_aside"]
    pairs = [name + part for name in measured for part in ("", "_sd")]
    writer.writerow([*problem, *machine, "method", "params", *counts, *pairs])
    for comparison in comparisons:
        where = [getattr(comparison.problem, name) for name in problem]
        where += [getattr(comparison.machine, name) for name in machine]
        for line in comparison.lines:
            failures = " ".join(f"{name}:{n}" for name, n in sorted(line.failures.items()))
            writer.writerow(
                [
                    *where,
                    line.method,
                    json.dumps(line.params, sort_keys=True),
                    sum(row["origin"] == "reference" for row in line.rows),
                    len(line.rows),
                    len(line.ok),
                    failures,
                    line.not_converged,
                    line.set_aside,
                    *(value for name in measured for value in line.mean_sd(name) or (None, None)),
                ]
            )
    return text.getvalue()


def _markdown_table(table: Grid) -> str:
    header = ["method", *(quantity.header for quantity in table.quantities), "runs"]
    rows = [header, ["---", *("---:" for _ in table.quantities), "---"]]
    for name, cells, runs in zip(table.names, table.cells, table.runs, strict=True):
        values = []
        for cell in cells:
            mean = cell.status or (f"**{cell.mean}**" if cell.best else cell.mean)
            values.append(f"{mean} ± {cell.sd}" if cell.sd else mean)
        rows.append([escaped(name), *values, runs])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def escaped(text: str) -> str:
    """`text` with every character that Markdown would act on taken literally."""
    for character in "\\|*_<>`":
        text = text.replace(character, f"\\{character}")
    return text
