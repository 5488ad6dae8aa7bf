"""Tables out of rows.

`make_report` returns one text, `write_report` keeps a report beside the rows. Which runs are
compared is decided in `tables`, how numbers read in `cells`, the layout in `render`.
"""

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.errors import ConfigError
from kbench.report import render
from kbench.report.tables import comparisons

if TYPE_CHECKING:
    import pandas as pd

    from kbench.run.results import ResultsFolder

_LOG = logging.getLogger(__name__)

__all__ = ["FORMATS", "SETTINGS", "make_report", "write_report"]

FORMATS = ("terminal", "markdown", "csv")

# Lines that one method may take in a table; more settings of it are only counted.
SETTINGS = 5

_FIRST = "kbench -m method=svc,knn,dummy dataset=digits"


def make_report(
    folder: "ResultsFolder",
    *,
    format: str = "terminal",
    out: Path | None = None,
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    settings: int = SETTINGS,
    reference: bool = True,
    width: int | None = None,
) -> str:
    """The comparison of all rows of a results folder.

    Parameters
    ----------
    folder : ResultsFolder
    format : {"terminal", "markdown", "csv"}
    out : Path, optional
        Also write the text there.
    methods, datasets : sequence of str, optional
        Only these.
    settings : int
        Parameter settings of one method that a table shows, the best by the leading score; it says
        how many there are. CSV holds all.
    reference : bool
        Whether the reference rows take part.
    width : int, optional
        Characters on a line of the terminal; asked of it when not given.

    Raises
    ------
    ConfigError
        When no row has one of `methods` or `datasets`, or for another format.
    """
    if format not in FORMATS:
        raise ConfigError(f"format={format}: a report is one of {', '.join(FORMATS)}")
    frame = folder.read(reference=reference)
    skipped = list(folder.warnings)
    frame = _only(_only(frame, "method", methods), "dataset", datasets)
    found = comparisons(_records(frame))
    if format == "csv":
        text = render.comma_separated(found)
    elif not found:
        text = f"No results in {folder.path}/ yet. To begin: {_FIRST}\n"
    elif format == "markdown":
        text = render.markdown(found, folder.environments(), settings=settings)
    else:
        columns = width or shutil.get_terminal_size((120, 24)).columns
        text = render.terminal(found, folder.environments(), width=columns, settings=settings)
    if format == "csv":  # a note would be no CSV
        for line in skipped:
            _LOG.warning(line)
    elif skipped:
        text += "\n" + "\n".join(skipped) + "\n"
    if out is not None:
        _write(out, text)
    return text


def write_report(folder: "ResultsFolder") -> list[Path]:
    """Write `_report/index.md` and `_report/comparisons.csv` in the results folder; their paths."""
    page, table = folder.path / "_report" / "index.md", folder.path / "_report" / "comparisons.csv"
    make_report(folder, format="markdown", out=page)
    make_report(folder, format="csv", out=table)
    return [page, table]


def _only(frame: "pd.DataFrame", column: str, names: Sequence[str] | None) -> "pd.DataFrame":
    if not names:
        return frame
    for name in names:
        if name not in set(frame[column]):
            known = ", ".join(sorted(set(frame[column]))) or "none"
            raise ConfigError(f"no row has {column} {name!r}; rows have: {known}")
    return frame[frame[column].isin(names)]


def _records(frame: "pd.DataFrame") -> list[dict[Any, Any]]:
    plain = frame.drop(columns=["log", "command", "phases"]).astype(object)
    return plain.where(plain.notna(), None).to_dict("records")


def _write(path: Path, text: str) -> None:
    from kbench.files import atomic_file

    with atomic_file(path) as file:
        file.write(text.encode())
