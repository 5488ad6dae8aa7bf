"""The papers' report as text: which tables are asked for, in which format."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.config import nearest
from kbench.errors import ConfigError
from kbench.report import latex, render, terminal
from kbench.report.papers import sheets
from kbench.report.papers.entries import Filled, filled
from kbench.report.papers.layout import PAPERS, Table, paper
from kbench.report.papers.runs import Curve, Identity, Runs
from kbench.report.reading import frame, records, write
from kbench.report.versus import Sheet

if TYPE_CHECKING:
    from kbench.run.results import ResultsFolder

_LOG = logging.getLogger(__name__)

PAPER_FORMATS = ("terminal", "markdown", "csv", "latex")

# Characters that \small sets on a landscape page of A4.
_LATEX_WIDTH = 130


def make_papers(
    folder: "ResultsFolder",
    *,
    tables: Sequence[str] | None = None,
    format: str = "terminal",
    out: Path | None = None,
    reference: bool = True,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """The papers' tables with what the rows say beside what is printed.

    Parameters
    ----------
    folder : ResultsFolder
    tables : sequence of str, optional
        Tables as `hss_table5`, or papers as `hss`; all when not given.
    format : {"terminal", "markdown", "csv", "latex"}
    out : Path, optional
        Also write the text there.
    reference, width, colour
        As `make_report` takes them.

    Raises
    ------
    ConfigError
        For another format, or a table that is none.
    """
    if format not in PAPER_FORMATS:
        raise ConfigError(f"format={format}: the papers' report is {', '.join(PAPER_FORMATS)}")
    wanted = _wanted(tables)
    runs, skipped = read_runs(folder, reference=reference)
    found = [one for table in wanted for one in filled(table, runs)]
    environments = folder.environments()
    if format == "csv":
        text = sheets.comma_separated(found)
    elif format == "markdown":
        text = f"{sheets.LEGEND}\n\n" + render.markdown_sheets(_sheets(found, environments))
    elif format == "latex":
        text = latex.latex_sheets(_sheets(found, environments, _LATEX_WIDTH))
    else:
        columns = width or shutil.get_terminal_size((120, 24)).columns
        paint = terminal.coloured if colour else terminal.plain
        text = terminal.sheets(_sheets(found, environments, columns), width=columns, paint=paint)
        text += "\n" + "\n".join(terminal.wrapped([sheets.LEGEND], columns, "dim", paint)) + "\n"
    for line in skipped:
        _LOG.warning(line)
    if out is not None:
        write(out, text)
    return text


def read_runs(folder: "ResultsFolder", *, reference: bool) -> tuple[Runs, list[str]]:
    """The runs of a folder with their curves, and what reading had to skip."""
    rows, skipped = frame(folder, None, None, reference=reference, trials=False)
    curves: dict[Identity, dict[str, Curve]] = {}
    table = folder.read_curves()
    for _, points in table.groupby(["key", "environment", "threads", "curve"], sort=True):
        first = points.iloc[0]
        run = str(first["key"]), str(first["environment"]), int(first["threads"])
        values = points["x"].tolist(), points["value"].tolist()
        curves.setdefault(run, {})[str(first["curve"])] = values
    return Runs(records(rows), curves), skipped + folder.warnings


def _wanted(names: Sequence[str] | None) -> list[Table]:
    known = {table.id: table for name in PAPERS for table in paper(name).tables.values()}
    found: dict[str, Table] = {}
    for name in names if names is not None else PAPERS:
        if name in PAPERS:
            found |= {table.id: table for table in paper(name).tables.values()}
        elif name in known:
            found[name] = known[name]
        else:
            hint = nearest(name, [*known, *PAPERS])
            raise ConfigError(
                f"no paper's table is called {name!r}{hint}; a paper is one of {', '.join(PAPERS)}"
            )
    return list(found.values())


def _sheets(
    found: Sequence[Filled], environments: Mapping[str, Any], width: int | None = None
) -> list[Sheet]:
    return [sheet for one in found for sheet in sheets.sheets(one, environments, width)]
