"""The remarks below a table, which are the same in every format."""

from collections.abc import Iterable, Mapping

from kbench.errors import counted
from kbench.report.comparisons.quantities import SECONDS, Quantity
from kbench.report.comparisons.tables import Comparison, Line, contended, unequal_parameters
from kbench.report.statistics.days import Days, days_of

# Largest numbers of failures (pairs of method and status), of warnings, and of named lines in the
# remarks, which only count the others; digits of a key that find its run. Set by hand.
_MAX_FAILURES = 5
_MAX_WARNINGS = 5
_MAX_NAMES = 8
_KEY_DIGITS = 10


# Explanation of the unit of prediction costs.
COST = "× Xw: seconds of the predictions over seconds of the product of the rows with one vector"


def legend(comparisons: Iterable[Comparison], columns: Iterable[Quantity], best: str) -> str:
    """An explanation of marks and `columns` of the tables; `best` explains the best's mark."""
    comparisons = list(comparisons)
    lines = [line for comparison in comparisons for line in comparison.lines]
    parts = [f"{best} (↑ more, ↓ less is better)"]
    if any(comparison.problem.n_splits > 1 for comparison in comparisons):
        parts.insert(
            0,
            "over splits: mean ± standard error, corrected for rows that the splits have in common"
            " (Nadeau and Bengio 2003)",
        )
    if any(len(line.ok) > 1 and line.n_splits < 2 for line in lines):
        parts.insert(0, "mean ± standard deviation over seeds, on one split of the data")
    measured = {c.title for c in columns if any(line.mean_sd(c.column) for line in lines)}
    parts += [COST] if any("× Xw" in title for title in measured) else []
    if {"fit s", "predict s"} & measured and any("CPU s" in title for title in measured):
        parts.append("seconds that are not CPU s are wall-clock")
    if any("†" in line.name for line in lines):
        parts.append("† with reference rows, which came with kbench")
    return "; ".join(parts)


def notes(
    comparison: Comparison,
    cut_methods: Mapping[str, int],
    settings: int,
    hidden_lines_hint: str,
    days: Days,
) -> list[str]:
    """The remarks, one line each.

    comparison : Comparison with all lines, including those that are not shown
    cut_methods : mapping of str to int
        Method -> number of its lines, for methods that show only `settings` lines.
    hidden_lines_hint : Where to find lines that are not shown, such as `format=csv has all`
    days : The days of all rows that are reported
    """
    remarks = unequal_parameters(comparison.lines)
    n_splits = comparison.problem.n_splits
    incomplete = [line for line in comparison.lines if line.n_splits < n_splits]
    if incomplete and n_splits > 1:
        counts = ", ".join(f"{line.label} ({line.n_splits})" for line in incomplete[:_MAX_NAMES])
        more = (
            f" and {len(incomplete) - _MAX_NAMES} other lines"
            if len(incomplete) > _MAX_NAMES
            else ""
        )
        remarks.append(
            f"Means over fewer than the {n_splits} splits: {counts}{more};"
            " `kbench report compare` takes the splits that both methods of a pair have."
        )
    if cut_methods:
        counts = ", ".join(f"{method} ({count})" for method, count in cut_methods.items())
        remarks.append(
            f"Only the {settings} settings of best test {comparison.score.column} are shown of"
            f" {counts}; picked on the test set, they say less than a tuned model's would"
            f" ({hidden_lines_hint})."
        )
    if aside := sum(line.set_aside for line in comparison.lines):
        remarks.append(
            f"Set aside: {counted(aside, 'further run')} of these seeds, under other limits."
        )
    if repeated := [line for line in comparison.lines if line.attempts > len(line.ok)]:
        texts = [_repetitions(line, comparison) for line in repeated[:_MAX_NAMES]]
        if len(repeated) > _MAX_NAMES:
            texts.append(f"and {len(repeated) - _MAX_NAMES} other lines")
        remarks.append(f"Medians of repeated runs: {'; '.join(texts)}.")
    ok = [row for line in comparison.lines for row in line.ok]
    if disturbed := sum(map(contended, ok)):
        remarks.append(
            f"Wall seconds of {disturbed} of {len(ok)} runs are left out, because other processes"
            " kept the machine busy; CPU seconds are of all runs."
        )
    if remark := days.remark(ok):
        mixed = [line.label for line in comparison.lines if len(days_of(line.ok)) > 1]
        if mixed:
            more = f" and {len(mixed) - _MAX_NAMES} other lines" if len(mixed) > _MAX_NAMES else ""
            remark += f" Means and ± of seconds mix days: {', '.join(mixed[:_MAX_NAMES])}{more}."
        remarks.append(remark)
    if any(line.not_converged for line in comparison.lines):
        counts = ", ".join(
            f"{line.label} ({line.not_converged} of {len(line.ok)})"
            for line in comparison.lines
            if line.not_converged
        )
        remarks.append(f"Stopped before convergence: {counts}.")
    methods_of: dict[str, list[str]] = {}  # warning -> method of each run
    for line in comparison.lines:
        for row in line.ok:
            if row["message"]:
                methods_of.setdefault(row["message"], []).append(line.method)
    for text, methods in list(methods_of.items())[:_MAX_WARNINGS]:
        runs = counted(len(methods), "run")
        remarks.append(f"{', '.join(dict.fromkeys(methods))}, {runs}: {text}")
    if len(methods_of) > _MAX_WARNINGS:
        remarks.append(f"and {len(methods_of) - _MAX_WARNINGS} other warnings of runs")
    last_failures = {
        (line.method, row["status"]): row
        for line in comparison.lines
        for row in line.rows
        if row["status"] != "ok"
    }
    for (method, status), row in list(last_failures.items())[:_MAX_FAILURES]:
        why = f": {row['message']}" if row["message"] else ""
        remarks.append(f"{method} {status}{why} (kbench debug {row['key'][:_KEY_DIGITS]})")
    if len(last_failures) > _MAX_FAILURES:
        remarks.append(f"and {len(last_failures) - _MAX_FAILURES} other kinds of failure")
    return remarks


def _repetitions(line: Line, comparison: Comparison) -> str:
    """`svc (6 attempts of 2 runs, which differ in fit s by up to 3 % and RMSE by up to 0.1)`."""
    spreads = [
        (quantity.title, line.spread(quantity.column, relative=True)) for quantity in SECONDS
    ]
    texts = [f"{title} by up to {100 * value:.2g} %" for title, value in spreads if value]
    score = comparison.score
    if difference := line.spread(score.column):
        texts.append(f"{score.title} by up to {score.text(difference)}")
    runs = counted(len(line.ok), "run")
    varied = f", which differ in {' and '.join(texts)}" if texts else ""
    return f"{line.label} ({line.attempts} attempts of {runs}{varied})"
