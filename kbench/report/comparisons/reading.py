"""Reading the rows of a results folder for a report, and writing the files of a report."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.errors import ConfigError
from kbench.mistyped import nearest
from kbench.report.comparisons.attempts import combine_attempts
from kbench.report.safe import printable
from kbench.run.results.metrics import METRICS
from kbench.run.results.rows import IDENTITY, schema
from kbench.settings import SCORE

if TYPE_CHECKING:
    import pandas as pd

    from kbench.run.results.folder import ResultsFolder


_LOG = logging.getLogger(__name__)

# Largest number of names that a message lists in addition to a similar name. Set by hand.
_MAX_LISTED = 12

# Hint of reports that leave out the rows that came with kbench.
REFERENCE_HINT = "reference=true adds the rows that came with kbench"


def read_frame(
    folder: "ResultsFolder",
    methods: Sequence[str] | None,
    datasets: Sequence[str] | None,
    tags: Sequence[str] | None,
    *,
    reference: bool,
    trials: bool,
) -> "tuple[pd.DataFrame, list[str]]":
    """The selected rows of all attempts in a fixed order, and a message for each skipped file.

    Trials of tunings are left out unless `trials` is true. Raises ConfigError: `folder` is no
    ResultsFolder, or no row has one of the names.
    """
    require_folder(folder)
    rows = folder.read(reference=reference)
    skipped = [printable(line) for line in folder.warnings]
    if not trials:
        rows = rows[~rows["variant"].fillna("").str.startswith("tune")]
    more = "" if reference or not folder.has_reference else f"; {REFERENCE_HINT}"
    return select_rows(rows, methods, datasets, tags, more).sort_values(list(IDENTITY)), skipped


def select_rows(
    rows: "pd.DataFrame",
    methods: Sequence[str] | None,
    datasets: Sequence[str] | None,
    tags: Sequence[str] | None,
    more: str = "",
) -> "pd.DataFrame":
    """The rows with these names; raises ConfigError, which `more` ends, if no row has a name."""
    for column, names in (("method", methods), ("dataset", datasets), ("tag", tags)):
        rows = _select(rows, column, names, "" if column == "tag" else more)
    return rows


# Columns that a caller's frame must have; other columns that it lacks are filled with nulls.
_REQUIRED = (*IDENTITY, "status", "method", "dataset", "seed", "task", "params")


def user_frame(rows: Any) -> "pd.DataFrame":
    """The data frame of a caller; columns of the rows that it lacks are null.

    Raises ConfigError: `rows` is not a data frame, or lacks a column that every run has.
    """
    import pandas as pd

    if not isinstance(rows, pd.DataFrame):
        raise ConfigError(
            f"rows is a {type(rows).__name__}, should be a data frame of kbench.read_rows or a "
            "ResultsFolder"
        )
    if missing := [name for name in _REQUIRED if name not in rows]:
        raise ConfigError(
            f"rows has no column {missing[0]!r}; kbench.read_rows makes frames with all of them"
        )
    null_columns = [name for name in schema().names if name not in rows]
    return rows.assign(origin=rows.get("origin", "own"), **dict.fromkeys(null_columns))


def require_measured(rows: "pd.DataFrame", option: str, column: str | None) -> None:
    """Raise a ConfigError if `column`, the value of `option`, is null in all rows that are ok."""
    ok_rows = rows[rows["status"] == "ok"]
    if column not in ok_rows or ok_rows.empty or ok_rows[column].notna().any():
        return
    tasks = " or ".join(sorted(ok_rows["task"].dropna().unique()))
    measured = [m.name for task in METRICS for m in METRICS[task] if ok_rows[m.name].notna().any()]
    raise ConfigError(
        f"{option}={column}: no row has this column; rows of the task {tasks} have "
        f"{', '.join(dict.fromkeys(measured))}"
    )


def added_scores(rows: "pd.DataFrame") -> list[str]:
    """Names of the scores that commands have added to some of the rows."""
    names = {name for scores in rows["scores"].dropna() for name in scores}
    return sorted(name for name in names if SCORE.fullmatch(name))


@dataclass(frozen=True)
class Content:
    """The content of a results folder that reports read."""

    # A row for each run, combined from its attempts (`combine_attempts`), without trials of
    # tunings.
    rows: list[dict[str, Any]]
    curves: "pd.DataFrame"  # As `ResultsFolder.read_curves` returns them
    environments: Mapping[str, Any]  # Description by identifier
    skipped: list[str]  # A message for each file that could not be read


def read_content(folder: "ResultsFolder", *, reference: bool = True) -> Content:
    """The rows and curves of a folder, with the reference rows or without them."""
    rows, skipped = read_frame(folder, None, None, None, reference=reference, trials=False)
    curves = folder.read_curves(reference=reference)
    skipped += map(printable, folder.warnings)
    return Content(run_records(rows), curves, folder.environments(), skipped)


def read_rows(results_dir: str | Path = "results", *, reference: bool = False) -> "pd.DataFrame":
    """The rows of a results folder as a data frame: one for each run, also for failed runs.

    Parameters
    ----------
    results_dir : the folder.
    reference : whether to add the rows that come with kbench, which have "reference" in the column
        `origin`; a row of the user's own replaces a reference row of the same run.

    Returns
    -------
    DataFrame
        The frame has every column of docs/results.md; columns that rows of an older kbench lack are
        null. A run with several attempts has the medians that reports show, and its newest
        `attempt`. Rows are sorted by method, data set and seed.

    Raises
    ------
    ConfigError
        There is no such folder.

    Warns
    -----
    UserWarning
        For each file that was skipped, with the reason.

    Examples
    --------
    >>> import kbench
    >>> rows = kbench.read_rows("results")  # doctest: +SKIP
    >>> rows.groupby("method")["accuracy"].mean()  # doctest: +SKIP
    """
    import warnings

    from kbench.run.results.folder import ResultsFolder

    folder = ResultsFolder(results_dir)
    if not folder.path.is_dir():
        raise ConfigError(f"there is no folder {results_dir}")
    rows = folder.read(reference=reference)
    for line in folder.warnings:
        warnings.warn(printable(line), stacklevel=2)
    runs = combine_attempts(records(rows))
    runs_frame = type(rows)(runs, columns=rows.columns).astype(rows.dtypes.to_dict())
    return runs_frame.sort_values(["method", "dataset", "seed"], ignore_index=True)


def require_folder(folder: Any) -> None:
    """Raise a ConfigError unless `folder` is a ResultsFolder; a path is the usual mistake."""
    if not hasattr(folder, "read_curves"):
        raise ConfigError(
            f"folder is {folder!r}, should be a kbench.run.results.folder.ResultsFolder"
        )


def require_names(name: str, names: Any) -> None:
    """Raise a ConfigError for one text in place of a list of names."""
    if isinstance(names, str):
        raise ConfigError(f"{name} is {names!r}, should be a list of names: [{names!r}]")


def require_count(name: str, value: Any) -> None:
    """Raise a ConfigError unless the value is None or a whole number of at least 1."""
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if value is not None and not is_count:
        raise ConfigError(f"{name} is {value!r}, should be a whole number from 1")


def _select(
    frame: "pd.DataFrame", column: str, names: Sequence[str] | None, more: str
) -> "pd.DataFrame":
    if not names:
        return frame
    require_names(f"{column}s", names)
    present = set(frame[column].dropna())
    for name in names:
        if name not in present:
            hint = nearest(name, present)
            if not hint or len(present) <= _MAX_LISTED:
                hint += f"; rows have: {', '.join(sorted(present)) or 'none'}"
            raise ConfigError(f"no row has {column} {name!r}{hint}{more}")
    return frame[frame[column].isin(names)]


def records(frame: "pd.DataFrame") -> list[dict[Any, Any]]:
    """Rows as dictionaries, with None in place of every missing value."""
    objects = frame.astype(object)
    return objects.where(objects.notna(), None).to_dict("records")


def run_records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """One dictionary for each run, combined from its attempts (`combine_attempts`)."""
    return combine_attempts(records(frame))


def package_text(package: str, name: str) -> str:
    """The text of a file that comes with a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def deliver(text: str, out: Path | None, messages: Iterable[str]) -> str:
    """The text of a report, also written to `out` if given; messages are logged as warnings."""
    for message in messages:
        _LOG.warning(message)
    if out is not None:
        write(out, text)
    return text


def write(path: str | Path, content: str | bytes) -> None:
    """Write a file atomically, text as UTF-8."""
    from kbench.files import output_file

    with output_file(Path(path)) as file:
        file.write(content.encode() if isinstance(content, str) else content)
