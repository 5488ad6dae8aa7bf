"""What a reader of a table must know besides, in words that every format takes over."""

from collections.abc import Iterable, Mapping

from kbench.report.tables import Comparison

LEGEND = "mean ± standard deviation over seeds"
REFERENCE = "† with reference rows, which came with kbench"

_FAILURES = 5  # kinds of failure that are explained below a table


def has_reference(comparisons: Iterable[Comparison]) -> bool:
    """Whether reference rows take part anywhere, so that the dagger needs its explanation."""
    return any("†" in line.label for comparison in comparisons for line in comparison.lines)


def notes(comparison: Comparison, cut: Mapping[str, int], settings: int, rest: str) -> list[str]:
    """One line each.

    Parameters
    ----------
    comparison : Comparison
        All lines, also those that are not shown.
    cut : mapping of str to int
        Methods of which only `settings` lines are shown, and how many there are.
    settings : int
    rest : str
        Where the reader finds the other lines.
    """
    found = []
    if cut:
        counts = ", ".join(f"{method} ({count})" for method, count in cut.items())
        found.append(
            f"Only the {settings} settings of best test {comparison.score.column} are shown of"
            f" {counts}; picked on the test set, they say less than a tuned model's would"
            f" ({rest})."
        )
    if aside := sum(line.set_aside for line in comparison.lines):
        found.append(f"{aside} further runs of these seeds, under other limits, are set aside.")
    if any(line.not_converged for line in comparison.lines):
        counts = ", ".join(
            f"{line.label} ({line.not_converged} of {len(line.ok)})"
            for line in comparison.lines
            if line.not_converged
        )
        found.append(f"Stopped before convergence: {counts}.")
    last = {
        (line.method, row["status"]): row
        for line in comparison.lines
        for row in line.rows
        if row["status"] != "ok"
    }
    for (method, status), row in list(last.items())[:_FAILURES]:
        why = f": {row['message']}" if row["message"] else ""
        found.append(f"{method} {status}{why} (kbench debug {row['key'][:10]})")
    if len(last) > _FAILURES:
        found.append(f"and {len(last) - _FAILURES} other kinds of failure")
    return found
