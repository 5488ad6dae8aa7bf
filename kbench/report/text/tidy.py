"""Records as CSV and as JSON: one object for each line of a table, without rounding."""

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.report.comparisons.quantities import COSTS, FURTHER, SECONDS
from kbench.report.comparisons.quantities import SCORES as SCORES_OF_TASKS
from kbench.report.comparisons.tables import SCORES, Comparison
from kbench.report.safe import csv_cell
from kbench.report.sheet import Sheet

Record = Mapping[str, Any]

_PROBLEM_COLUMNS = ["dataset", "variant", "task", "n_train", "n_test", "n_features", "n_classes"]
_PROBLEM_COLUMNS += ["data_sha256"]
_MACHINE_COLUMNS = ["environment", "threads", "jobs"]
_COUNT_COLUMNS = ("reference", "runs", "ok", "failures", "not_converged", "set_aside", "attempts")
_MEASURED_COLUMNS = tuple(quantity.column for quantity in (*SCORES_OF_TASKS, *FURTHER, *COSTS))

# Columns of `comparison_records`.
COMPARISON_COLUMNS = [*_PROBLEM_COLUMNS, *_MACHINE_COLUMNS, "method", "params", *_COUNT_COLUMNS]
COMPARISON_COLUMNS += [name + suffix for name in _MEASURED_COLUMNS for suffix in ("", "_sd")]
COMPARISON_COLUMNS += [f"{quantity.column}_spread" for quantity in SECONDS]


def comparison_columns(comparisons: Iterable[Comparison]) -> list[str]:
    """Columns of the records of these comparisons in a CSV, in order.

    `COMPARISON_COLUMNS` come first, then `n_splits` if runs on several splits are averaged, and at
    last mean and deviation (`_sd`) of the scores that commands have added to some of the rows.
    """
    comparisons = list(comparisons)
    over_splits = any(comparison.problem.n_splits > 1 for comparison in comparisons)
    added_columns = [name + suffix for name in _added_scores(comparisons) for suffix in ("", "_sd")]
    return [*COMPARISON_COLUMNS, *(["n_splits"] * over_splits), *added_columns]


def _added_scores(comparisons: Iterable[Comparison]) -> list[str]:
    """Names of scores that commands have added to rows."""
    rows = (row for comparison in comparisons for line in comparison.lines for row in line.rows)
    names = {name for row in rows for name in row.get(SCORES) or ()}
    return sorted(names - set(COMPARISON_COLUMNS))


def comparison_records(comparisons: Iterable[Comparison]) -> list[dict[str, Any]]:
    """One record for each line of each comparison, with means and deviations in rows' units.

    `fit_s_spread` and `predict_s_spread` are the largest differences between attempts of one run.
    """
    records = []
    comparisons = list(comparisons)
    measured = (*_MEASURED_COLUMNS, *_added_scores(comparisons))
    for comparison in comparisons:
        problem = {name: getattr(comparison.problem, name) for name in _PROBLEM_COLUMNS}
        problem |= {name: getattr(comparison.machine, name) for name in _MACHINE_COLUMNS}
        for line in comparison.lines:
            record = {
                **problem,
                "method": line.method,
                "params": line.params,
                "reference": sum(row["origin"] == "reference" for row in line.rows),
                "runs": len(line.rows),
                "ok": len(line.ok),
                "failures": " ".join(f"{name}:{n}" for name, n in sorted(line.failures.items())),
                "not_converged": line.not_converged,
                "set_aside": line.set_aside,
                "attempts": line.attempts,
                "n_splits": comparison.problem.n_splits,
            }
            for name in measured:
                record[name], record[f"{name}_sd"] = line.mean_sd(name) or (None, None)
            record |= {
                f"{quantity.column}_spread": line.spread(quantity.column) for quantity in SECONDS
            }
            records.append(record)
    return records


def csv_text(header: Sequence[str], records: Sequence[Record]) -> str:
    """Records as CSV with the columns `header`; objects and lists are written as JSON."""
    return csv_lines([header, *([record[name] for name in header] for record in records)])


def csv_lines(lines: Sequence[Sequence[Any]]) -> str:
    """Lines of cells as CSV whose cells spreadsheets do not read as formulas."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for line in lines:
        cells = [json.dumps(v, sort_keys=True) if isinstance(v, (dict, list)) else v for v in line]
        writer.writerow(map(csv_cell, cells))
    return text.getvalue()


def json_text(value: Any) -> str:
    """`value` as JSON; NaN and infinities, which JSON lacks, become text."""
    return json.dumps(_finite(value), ensure_ascii=True, indent=1) + "\n"


def sheet_record(sheet: Sheet) -> dict[str, Any]:
    """A plain table as an object with cells as printed."""
    return {"name": sheet.name, "header": sheet.header, "rows": sheet.rows, "notes": sheet.notes}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
