"""The remarks below a table, the same in every format."""

from collections.abc import Iterable, Mapping

from kbench.report.comparisons.quantities import SECONDS
from kbench.report.comparisons.tables import Comparison, Line, contended

LEGEND = "mean ± standard deviation over seeds"
REFERENCE = "† with reference rows, which came with kbench"

# Number of failures (pairs of method and status) explained below a table; others are only counted.
_FAILURES = 5
# Number of lines whose repetitions are described below a table; others are only counted.
_REPEATED = 8


def has_reference(comparisons: Iterable[Comparison]) -> bool:
    """Whether any line contains reference rows, so that the dagger needs its explanation."""
    return any("†" in line.label for comparison in comparisons for line in comparison.lines)


def notes(comparison: Comparison, cut: Mapping[str, int], settings: int, rest: str) -> list[str]:
    """The remarks, one line each.

    Parameters
    ----------
    comparison : Comparison
        With all its lines, including those that are not shown.
    cut : mapping of str to int
        Method -> number of its lines, for methods of which only `settings` lines are shown.
    settings : int
    rest : str
        Where the other lines are found, such as `format=csv has all`.
    """
    remarks_below = []
    if cut:
        counts = ", ".join(f"{method} ({count})" for method, count in cut.items())
        remarks_below.append(
            f"Only the {settings} settings of best test {comparison.score.column} are shown of"
            f" {counts}; picked on the test set, they say less than a tuned model's would"
            f" ({rest})."
        )
    if aside := sum(line.set_aside for line in comparison.lines):
        remarks_below.append(
            f"{aside} further runs of these seeds, under other limits, are set aside."
        )
    if repeated := [line for line in comparison.lines if line.attempts > len(line.ok)]:
        texts = [_repetitions(line, comparison) for line in repeated[:_REPEATED]]
        if len(repeated) > _REPEATED:
            texts.append(f"and {len(repeated) - _REPEATED} other lines")
        remarks_below.append(f"Medians of repeated runs: {'; '.join(texts)}.")
    ok = [row for line in comparison.lines for row in line.ok]
    if disturbed := sum(map(contended, ok)):
        remarks_below.append(
            f"Wall seconds of {disturbed} of {len(ok)} runs are left out, because other processes"
            " kept the machine busy; CPU seconds are of all runs."
        )
    if any(line.not_converged for line in comparison.lines):
        counts = ", ".join(
            f"{line.label} ({line.not_converged} of {len(line.ok)})"
            for line in comparison.lines
            if line.not_converged
        )
        remarks_below.append(f"Stopped before convergence: {counts}.")
    last = {
        (line.method, row["status"]): row
        for line in comparison.lines
        for row in line.rows
        if row["status"] != "ok"
    }
    for (method, status), row in list(last.items())[:_FAILURES]:
        why = f": {row['message']}" if row["message"] else ""
        remarks_below.append(f"{method} {status}{why} (kbench debug {row['key'][:10]})")
    if len(last) > _FAILURES:
        remarks_below.append(f"and {len(last) - _FAILURES} other kinds of failure")
    return remarks_below


def _repetitions(line: Line, comparison: Comparison) -> str:
    """`svc: 6 attempts of 2 runs, fit s vary by up to 3 % and predict s by up to 5 %`."""
    spreads = [(one.title, line.spread(one.column, relative=True)) for one in SECONDS]
    texts = [f"{title} by up to {100 * value:.2g} %" for title, value in spreads if value]
    score = comparison.score
    if difference := line.spread(score.column):
        texts.append(f"{score.title} by up to {score.text(difference)}")
    runs = f"{len(line.ok)} run" + ("" if len(line.ok) == 1 else "s")
    varied = f", which differ in {' and '.join(texts)}" if texts else ""
    return f"{line.label} ({line.attempts} attempts of {runs}{varied})"
