"""The remarks below a table, the same in every format."""

from collections.abc import Iterable, Mapping

from kbench.report.tables import Comparison

LEGEND = "mean ± standard deviation over seeds"
REFERENCE = "† with reference rows, which came with kbench"

# Number of failures (pairs of method and status) explained below a table; others are only counted.
_FAILURES = 5


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
