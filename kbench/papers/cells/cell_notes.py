"""Notes on a cell: limits at which runs ended, differences from the paper's data and settings."""

from collections.abc import Mapping

from kbench.papers.cells.readings import of_wall_seconds
from kbench.papers.cells.runs import Match
from kbench.papers.printed.causes import SCORE_COLUMNS
from kbench.papers.printed.layout import Measure, Selector, Table
from kbench.papers.printed.numbers import printed
from kbench.papers.printed.settings import departures, stated
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.tables import Line, Problem, contended
from kbench.run.results.stopped import without_seconds

# Beginnings of columns that are seconds, or multiples of seconds measured in the same process.
_TIMED = ("fit_", "predict_", "prediction_cost", "phases.")


def ended_as(line: Line) -> str:
    """How the runs of a line ended, some of which failed."""
    if line.ok:
        return f"{len(line.ok)} of {len(line.rows)} ok"
    return ", ".join(sorted(line.failures))


def limits(line: Line, problem: Problem, least: float | None = None) -> tuple[str, ...]:
    """The first lines of the messages of failed runs, such as the limit at which they ended.

    least : what the mean seconds of all runs, of which some are ok, are at least.
    """
    messages = dict.fromkeys(
        without_seconds(str(row.get("message") or "").partition("\n")[0])
        for row in line.rows
        if row["status"] != "ok"
    )
    notes = [message for message in messages if message]
    if line.ok and least is not None:
        notes.append(f"the mean of all {len(line.rows)} runs is at least {least:.3g} s")
    return tuple(f"{line.method} on {title(problem)}: {message}" for message in notes)


def clocks(line: Line, problem: Problem, measure: Measure) -> tuple[str, ...]:
    """What is to know of the seconds that a measure reads."""
    where = f"{line.method} on {title(problem)}"
    disturbed = sum(map(contended, line.ok))
    which = f"other processes disturbed {disturbed} of {len(line.ok)} runs"
    if of_wall_seconds(measure.curve):
        left_out = [f"{where}: {which}, which are left out"] if disturbed else []
        return f"{where}: wall seconds", *left_out
    timed = any(name.startswith(_TIMED) for name in measure.of)
    return (f"{where}: {which}, whose seconds may be too many",) if timed and disturbed else ()


def differences(table: Table, wanted: Selector, match: Match) -> list[str]:
    """Differences of the data and the runs from the paper's."""
    notes = []
    assert wanted.data is not None
    sizes = _sizes(table, wanted.data)
    problem = match.problem
    n, features, total = problem.n_train, problem.n_features, _total(problem)
    names = {"n_train": "training rows", "n_features": "features"}
    # A table of kernel errors is of the training rows alone, however many the paper has.
    columns = {name for measure in table.measures.values() for name in measure.of}
    scores = columns & SCORE_COLUMNS
    on_training = scores == {"kernel_error"}
    alone = "n" in sizes and _rounds_to(n, sizes["n"]) and not _rounds_to(total, sizes["n"])
    trained = on_training or alone
    names["n"] = "training rows" if trained else "rows"
    ours = {"n_train": n, "n": n if trained else total, "n_features": features}
    different = {
        name: (size, printed_size)
        for name, (printed_size, step) in sizes.items()
        if (size := ours[name]) is not None and not _rounds_to(size, (printed_size, step))
    }
    if alone and not wanted.methods:
        notes.append(f"{title(problem)}: the paper counts training rows alone, {n:,} here")
    if different:
        sizes_here = ", ".join(f"{size:,} {names[name]}" for name, (size, _) in different.items())
        printed_ = ", ".join(f"{size:,.0f}" for _, size in different.values())
        settings = ", ".join(
            f"{name}={value:g} (paper: {wanted.all_params[name]:.3g})"
            for name, value in match.choice.params.items()
            if name in wanted.all_params
        )
        with_ = f", with {settings}" if settings else ""
        notes.append(
            f"{title(problem)} has {sizes_here}{with_}; the paper's {wanted.data} {printed_}"
        )
    if not sizes and problem.n_train is not None:
        notes.append(f"{title(problem)}, {problem.n_train:,} training rows")
    line = match.line
    if table.tuned and wanted.methods and not all(row.get("tuned") for row in line.ok):
        where = f"{line.method} on {title(problem)}"
        notes.append(f"{where}: parameters of the data set's file, without trials of its own")
    if line.failures:
        notes.append(f"{len(line.ok)} of {len(line.rows)} runs ok")
    if line.not_converged and wanted.methods:
        notes.append("stopped before convergence")
    if wanted.methods and match.others:
        notes.append(
            f"{match.others + 1} series of runs match; this is the one with the newest version of"
            " the method, then the most seeds, then the newest run"
        )
    return notes


def share_of_rows(table: Table, data: str, match: Match) -> float | None:
    """Our training rows over the paper's, or all rows if it prints their number alone.

    None if it prints neither, or as many rows as ours.
    """
    problem = match.problem
    if match.choice.share is not None:
        return match.choice.share
    sizes = _sizes(table, data)
    counted = {"n_train": problem.n_train, "n": _total(problem)}
    name = next((name for name in counted if name in sizes), None)
    if name is None:
        return None
    ours, of = counted[name], sizes[name]
    as_many = _rounds_to(ours, of) or _rounds_to(problem.n_train, of)
    return None if ours is None or as_many else ours / of[0]


def settings(table: Table, column: str, line: Line) -> str:
    """Settings of the runs that differ from those that the paper states; empty if none does."""
    of = stated(table, column, line.method)
    texts = departures(of, line) if of is not None else []
    return f"{line.method}: {'; '.join(texts)}" if texts else ""


def _total(problem: Problem) -> int | None:
    """The number of training and test rows."""
    n, test = problem.n_train, problem.n_test
    return None if n is None or test is None else n + test


def _rounds_to(ours: int | None, size: tuple[float, float]) -> bool:
    """Whether a number is the printed one, (number, what it is rounded to)."""
    number, step = size
    return ours is not None and abs(ours - number) < max(step, 1.0)


def _sizes(table: Table, data: str) -> Mapping[str, tuple[float, float]]:
    """Sizes of a data set as the paper prints them, and what they are rounded to."""
    values = printed(table.paper)
    sizes = {}
    for name in ("n_train", "n", "n_features"):
        value = values.get((table.sizes, data, "", name))
        if value is not None and value.size is not None:
            sizes[name] = value.size
    return sizes
