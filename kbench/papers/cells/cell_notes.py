"""Notes on a cell: limits of ended runs, and differences from the paper's data and settings."""

from typing import NamedTuple

from kbench.papers.cells.readings import is_wall_seconds
from kbench.papers.cells.runs import Match
from kbench.papers.printed.layout import CellPlace, Measure
from kbench.papers.printed.numbers import printed
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.tables import LearningTask, Line, contended
from kbench.run.results.stopped import without_seconds

# Prefixes of columns that hold seconds, or multiples of seconds measured in the same process.
_TIMED = ("fit_", "predict_", "prediction_cost", "phases.")


def status_text(line: Line) -> str:
    """The number of ok runs of a line with failed runs; without ok runs, the runs' statuses."""
    if line.ok:
        return f"{len(line.ok)} of {len(line.rows)} ok"
    return ", ".join(sorted(line.failures))


def failure_notes(line: Line, lower_bound: float | None = None) -> tuple[str, ...]:
    """The first lines of the messages of failed runs, such as the limit at which they ended.

    lower_bound : Lower bound of the mean seconds of all runs; added as a note if some runs are ok
    """
    messages = dict.fromkeys(
        without_seconds(str(row.get("message") or "").partition("\n")[0])
        for row in line.rows
        if row["status"] != "ok"
    )
    notes = [message for message in messages if message]
    if line.ok and lower_bound is not None:
        notes.append(f"the mean of all {len(line.rows)} runs is at least {lower_bound:.3g} s")
    return tuple(f"{_method_on_data(line)}: {message}" for message in notes)


def timing_notes(line: Line, measure: Measure) -> tuple[str, ...]:
    """Notes on the seconds that a measure reads: their clock, and runs that were disturbed."""
    prefix = _method_on_data(line)
    disturbed = sum(map(contended, line.ok))
    disturbance = f"other processes disturbed {disturbed} of {len(line.ok)} runs"
    if is_wall_seconds(measure.curve):
        left_out = [f"{prefix}: {disturbance}, which are left out"] if disturbed else []
        return f"{prefix}: wall seconds", *left_out
    if not (is_timed(measure) and disturbed):
        return ()
    return (f"{prefix}: {disturbed} of {len(line.ok)} timings may be too long (other load)",)


def is_timed(measure: Measure) -> bool:
    """Whether a measure reads seconds, or multiples of seconds."""
    return any(name.startswith(_TIMED) for name in measure.of)


def _method_on_data(line: Line) -> str:
    return f"{line.method} on {title(line.problem)}"


class Size(NamedTuple):
    """A size of our data beside the printed size, which is rounded to a multiple of `step`."""

    name: str
    ours: int | None
    printed: float
    step: float
    noun: str

    @property
    def differs(self) -> bool:
        return self.ours is not None and abs(self.ours - self.printed) >= max(self.step, 1.0)


def _sizes(cell: CellPlace, problem: LearningTask) -> list[Size]:
    """The sizes that the paper prints for a data set; "rows" may mean only training rows."""
    table = cell.table
    n, test = problem.n_train, problem.n_test
    total = None if n is None or test is None else n + test
    sizes_of_data = {"n_train": (n, "training rows"), "n": (total, "rows")}
    sizes_of_data["n_features"] = problem.n_features, "features"
    sizes = []
    for name, (ours, noun) in sizes_of_data.items():
        value = printed(table.paper).get((table.sizes, cell.data, "", name))
        if value is not None and value.size is not None:
            size = Size(name, ours, *value.size, noun)
            training = size._replace(ours=n, noun="training rows")
            sizes.append(training if size.differs and not training.differs else size)
    return sizes


def differences(cell: CellPlace, match: Match) -> list[str]:
    """Differences of our data and runs from the paper's."""
    wanted, line, problem = cell.wanted, match.line, match.line.problem
    sizes = _sizes(cell, problem)
    notes = []
    for size in sizes:
        if (size.name, size.noun) == ("n", "training rows") and not wanted.methods:
            note = f"the paper counts training rows alone, {size.ours:,} here"
            notes.append(f"{title(problem)}: {note}")
    if differing := [size for size in sizes if size.differs]:
        ours = ", ".join(f"{size.ours:,} {size.noun}" for size in differing)
        printed_sizes = ", ".join(f"{size.printed:,.0f}" for size in differing)
        settings = ", ".join(
            f"{name}={value:g} (paper: {wanted.all_params[name]:.3g})"
            for name, value in match.choice.params.items()
            if name in wanted.all_params
        )
        with_ = f", with {settings}" if settings else ""
        notes.append(f"{title(problem)} has {ours}{with_}; the paper's {cell.data} {printed_sizes}")
    if not sizes and problem.n_train is not None:
        notes.append(f"{title(problem)}, {problem.n_train:,} training rows")
    if line.failures:
        notes.append(f"{len(line.ok)} of {len(line.rows)} runs ok")
    if not wanted.methods:
        return notes
    if cell.table.tuned and not all(row.get("tuned") for row in line.ok):
        untuned = "the parameters come from the data set's file, not from trials"
        notes.append(f"{_method_on_data(line)}: {untuned}")
    if line.not_converged:
        notes.append("stopped before convergence")
    if match.others:
        notes.append(
            f"{match.others + 1} series of runs match; this series has the newest version of the"
            " method, then the most seeds, then the newest run"
        )
    return notes


def share_of_rows(cell: CellPlace, match: Match) -> float | None:
    """Our training rows divided by the paper's, or all our rows divided by all of the paper's.

    None if the paper prints neither number, or the same number.
    """
    if match.choice.share is not None:
        return match.choice.share
    sizes = _sizes(cell, match.line.problem)
    rows = next((size for size in sizes if size.name != "n_features"), None)
    return rows.ours / rows.printed if rows and rows.ours is not None and rows.differs else None
