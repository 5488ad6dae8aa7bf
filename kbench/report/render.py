"""Comparisons as text: for a terminal, as Markdown, as CSV."""

import csv
import io
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.report.cells import Grid, describe_machine, describe_problem, grid, title
from kbench.report.tables import Comparison, Problem
from kbench.run.metrics import METRICS

Environments = Mapping[str, Mapping[str, Any]]

_GAP = "  "
_FAILURES = 5  # kinds of failure that are explained below a table
_LEGEND = "mean ± standard deviation over seeds"
_REFERENCE = "† with reference rows, which came with kbench"


def terminal(
    comparisons: Sequence[Comparison], environments: Environments, *, width: int, settings: int
) -> str:
    """Aligned tables of at most `width` characters where that can be.

    Columns are dropped from the least important on, and a line says which.
    """
    blocks = []
    previous: Problem | None = None
    dropped: dict[str, None] = {}
    for comparison in comparisons:
        shown, cut = comparison.shortened(settings)
        table, missing = _fitted(grid(shown), width)
        dropped |= dict.fromkeys(missing)
        above = [describe_machine(comparison.machine, environments)]
        if comparison.problem != previous:
            above.insert(0, f"{title(comparison.problem)}: {describe_problem(comparison.problem)}")
        previous = comparison.problem
        below = _notes(comparison, cut, settings)
        lines = [*_wrapped(above, width), *table, *_wrapped(below, width)]
        blocks.append("\n".join(lines))
    legend = f"{_LEGEND}; * best of its column (↑ more, ↓ less is better)"
    if any("†" in line.label for c in comparisons for line in c.lines):
        legend += f"; {_REFERENCE}"
    if dropped:
        legend += f"; not shown everywhere for want of width: {', '.join(dropped)}"
    return "\n\n".join([*blocks, *_wrapped([legend], width)]) + "\n"


def markdown(
    comparisons: Sequence[Comparison], environments: Environments, *, settings: int
) -> str:
    """One section for each problem, one table for each machine; the best of a column is bold."""
    blocks = ["# Results", f"{_LEGEND}; **best of its column** (↑ more, ↓ less is better)."]
    if any("†" in line.label for c in comparisons for line in c.lines):
        blocks.append(f"{_REFERENCE}.")
    previous: Problem | None = None
    for comparison in comparisons:
        if comparison.problem != previous:
            blocks.append(f"## {_escaped(title(comparison.problem))}")
            blocks.append(describe_problem(comparison.problem) + ".")
        previous = comparison.problem
        shown, cut = comparison.shortened(settings)
        blocks.append(_escaped(describe_machine(comparison.machine, environments)) + ":")
        blocks.append(_markdown_table(grid(shown)))
        blocks += [f"- {_escaped(note)}" for note in _notes(comparison, cut, settings)]
    return "\n\n".join(blocks) + "\n"


def comma_separated(comparisons: Iterable[Comparison]) -> str:
    """Every line with means and deviations in the rows' own units, nothing rounded or left out."""
    scores = list(dict.fromkeys(spec.name for specs in METRICS.values() for spec in specs))
    costs = ["kernel_error", "objective", "n_support", "n_iter", "fit_wall_s", "fit_cpu_s"]
    costs += ["predict_wall_s", "predict_cpu_s", "prediction_cost", "model_bytes", "peak_bytes"]
    measured = scores + costs
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


def _notes(comparison: Comparison, cut: Mapping[str, int], settings: int) -> list[str]:
    """What a reader of the table must know besides, one line each."""
    notes = []
    if cut:
        counts = ", ".join(f"{method} ({count})" for method, count in cut.items())
        metric = comparison.problem.metric.name
        notes.append(
            f"Only the {settings} settings of best test {metric} are shown of {counts}; picked on"
            " the test set, they say less than a tuned model's would (format=csv has all)."
        )
    if aside := sum(line.set_aside for line in comparison.lines):
        notes.append(f"{aside} further runs of these seeds, under other limits, are set aside.")
    if any(line.not_converged for line in comparison.lines):
        counts = ", ".join(
            f"{line.label} ({line.not_converged} of {len(line.ok)})"
            for line in comparison.lines
            if line.not_converged
        )
        notes.append(f"Stopped before convergence: {counts}.")
    last = {
        (line.method, row["status"]): row
        for line in comparison.lines
        for row in line.rows
        if row["status"] != "ok"
    }
    for (method, status), row in list(last.items())[:_FAILURES]:
        why = f": {row['message']}" if row["message"] else ""
        notes.append(f"{method} {status}{why} (kbench debug {row['key'][:10]})")
    if len(last) > _FAILURES:
        notes.append(f"and {len(last) - _FAILURES} other kinds of failure")
    return notes


def _wrapped(paragraphs: Iterable[str], width: int) -> list[str]:
    return [textwrap.fill(paragraph, width) for paragraph in paragraphs]


def _fitted(table: Grid, width: int) -> tuple[list[str], list[str]]:
    """Aligned lines, and the names of what had to go to make them fit."""
    dropped: list[str] = []
    while max(map(len, lines := _aligned(table))) > width and len(table.quantities) > 1:
        if not dropped:
            dropped.append("deviations of costs")
            table = table.without_spreads()
        else:
            dropped.append(table.quantities[-1].title)
            table = table.without(len(table.quantities) - 1)
    return [line[: width - 1] + "…" if len(line) > width else line for line in lines], dropped


def _aligned(table: Grid) -> list[str]:
    """Header and lines; means are flush right, deviations line up behind them."""
    columns = [["method", *table.names]]
    for j, quantity in enumerate(table.quantities):
        cells = [row[j] for row in table.cells]
        means = [("*" if cell.best else "") + cell.mean for cell in cells]
        widest = max(map(len, means))
        spreads = [f" ± {cell.sd}" if cell.sd else "" for cell in cells]
        deepest = max(map(len, spreads))
        body = [
            cell.status or f"{mean:>{widest}}{sd:<{deepest}}"
            for cell, mean, sd in zip(cells, means, spreads, strict=True)
        ]
        columns.append([quantity.header, *body])
    columns.append(["runs", *table.runs])
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for first, *middle, last in zip(*columns, strict=True):
        values = [f"{text:>{w}}" for text, w in zip(middle, widths[1:-1], strict=True)]
        lines.append(_GAP.join([f"{first:<{widths[0]}}", *values, last]).rstrip())
    rule = "-" * max(map(len, lines))
    return [lines[0], rule, *lines[1:]]


def _markdown_table(table: Grid) -> str:
    header = ["method", *(quantity.header for quantity in table.quantities), "runs"]
    rows = [header, ["---", *("---:" for _ in table.quantities), "---"]]
    for name, cells, runs in zip(table.names, table.cells, table.runs, strict=True):
        values = []
        for cell in cells:
            mean = cell.status or (f"**{cell.mean}**" if cell.best else cell.mean)
            values.append(f"{mean} ± {cell.sd}" if cell.sd else mean)
        rows.append([_escaped(name), *values, runs])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escaped(text: str) -> str:
    for character in "\\|*_<>`":
        text = text.replace(character, f"\\{character}")
    return text
