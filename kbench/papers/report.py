"""The papers' report as text: selection of tables and formats."""

import logging
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.config import nearest
from kbench.errors import ConfigError
from kbench.papers.cells import sheets
from kbench.papers.cells.entries import Filled, filled
from kbench.papers.cells.overviews import cause_sheet, cell_sheet, figure_sheet
from kbench.papers.cells.runs import Curve, Identity, Runs
from kbench.papers.claims.decision import verdict
from kbench.papers.claims.stated import claims
from kbench.papers.claims.verdicts import VERDICT_COLUMNS, verdict_records
from kbench.papers.claims.verdicts import sheets as verdict_sheets
from kbench.papers.figures.drawing import Drawing, drawings
from kbench.papers.printed.layout import PAPERS, paper
from kbench.papers.studies.budgets import budgets
from kbench.papers.studies.budgets import sheet as budget_sheet
from kbench.papers.studies.systems import sheet, systems
from kbench.report.charts.profiles import ranking_charts
from kbench.report.charts.svg import document
from kbench.report.comparisons.reading import (
    frame,
    require_count,
    require_names,
    run_records,
    write,
)
from kbench.report.comparisons.tables import comparisons
from kbench.report.statistics.rankings import rankings
from kbench.report.statistics.rankings import sheet as ranking_sheet
from kbench.report.text import latex, markdown, terminal
from kbench.report.text.sheet import Sheet
from kbench.report.text.tidy import csv_lines, csv_text, json_text, sheet_record

if TYPE_CHECKING:
    from kbench.run.results.folder import ResultsFolder

_LOG = logging.getLogger(__name__)

PAPER_FORMATS = ("terminal", "markdown", "csv", "json", "latex", "html")

# Characters per line of \small type on a landscape page of A4.
_LATEX_WIDTH = 130

_OTHERS = ("cells", "causes", "claims", "systems", "budgets", "rankings")


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
    """The papers' tables with the measured values beside the printed ones.

    Parameters
    ----------
    folder : ResultsFolder
    tables : sequence of str, optional
        Tables as `hss_table5`, papers as `hss`, `cells`, `causes`, `claims`,
        `systems`, `budgets`, `rankings`; all when not given.
    format : {"terminal", "markdown", "csv", "json", "latex", "html"}
    out : Path, optional
        Also write the text there.
    reference, width, colour
        As in `make_report`.

    Raises
    ------
    ConfigError
        The format or a table does not exist.
    """
    if format not in PAPER_FORMATS:
        raise ConfigError(f"format={format}: the papers' report is {', '.join(PAPER_FORMATS)}")
    require_names("tables", tables)
    require_count("width", width)
    report = read_report(folder, tables, reference=reference)
    columns = width or shutil.get_terminal_size((120, 24)).columns
    paint = terminal.coloured if colour else terminal.plain
    text = report.text(format, columns, paint)
    for line in report.skipped if format != "html" else ():
        _LOG.warning(line)
    if out is not None:
        write(out, text)
    return text


def write_papers(report: "Report", where: Path) -> list[Path]:
    """Write the report in every format that is text, and each figure by itself, to `where`."""
    names = {"markdown": "papers.md", "latex": "papers.tex", "csv": "papers.csv"}
    texts = {where / name: report.text(format) for format, name in names.items()}
    texts[where / "claims.csv"] = csv_text(VERDICT_COLUMNS, verdict_records(report.verdicts))
    for one in report.drawings:
        path = where / "figures" / f"{one.figure.name}.svg"
        if one.charts:
            texts[path] = document(one.charts, one.legend, one.remarks)
        else:
            path.unlink(missing_ok=True)
    for ranking in report.rankings:
        machine = f"{ranking.machine.environment}_{ranking.machine.threads}"
        name = re.sub(r"\W", "_", f"rankings_{ranking.task}_{machine}")
        texts[where / "figures" / f"{name}.svg"] = document(*ranking_charts(ranking))
    for path, text in texts.items():
        write(path, text)
    return list(texts)


def read_report(
    folder: "ResultsFolder", tables: Sequence[str] | None = None, *, reference: bool = True
) -> "Report":
    """The selected tables of the papers' report, from the rows of a folder; None selects all."""
    runs, skipped = read_runs(folder, reference=reference)
    return Report(tables, runs, folder.environments(), skipped)


def read_runs(folder: "ResultsFolder", *, reference: bool) -> tuple[Runs, list[str]]:
    """The runs of a folder with their curves, and a message for each file that was skipped."""
    rows, skipped = frame(folder, None, None, reference=reference, trials=False)
    curves: dict[Identity, dict[str, Curve]] = {}
    table = folder.read_curves(reference=reference)
    columns = ["key", "environment", "threads", "curve", "x_name"]
    for _, points in table.groupby(columns, sort=True):
        key, environment, threads, name, over = points[columns].iloc[0]
        curve = name if over == "seconds" else f"{name} over {over}"
        values = points["x"].tolist(), points["value"].tolist()
        curves.setdefault((key, environment, int(threads)), {})[curve] = values
    return Runs(run_records(rows), curves), skipped + folder.warnings


class Report:
    """The selected tables and other sheets of the report."""

    def __init__(
        self,
        names: Sequence[str] | None,
        runs: Runs,
        environments: Mapping[str, Any],
        skipped: Sequence[str],
    ) -> None:
        self.runs = runs
        self.environments = environments
        self.skipped = skipped
        tables = [table for name in PAPERS for table in paper(name).tables.values()]
        known = {table.id: [table] for table in tables}
        known |= {name: [table for table in tables if table.paper == name] for name in PAPERS}
        asked = list(names) if names is not None else [*PAPERS, *_OTHERS]
        for name in asked:
            if name not in known and name not in _OTHERS:
                hint = nearest(name, [*known, *_OTHERS])
                words = ", ".join([*PAPERS, *_OTHERS])
                raise ConfigError(f"no paper's table is called {name!r}{hint}; or one of {words}")
        chosen = {table.id: table for name in asked for table in known.get(name, ())}
        self.filled = [one for table in chosen.values() for one in filled(table, runs)]
        self.counted: list[Filled] = []
        if "cells" in asked or "causes" in asked:
            self.counted = self.filled or [one for table in tables for one in filled(table, runs)]
        self.overviews = [name for name in ("cells", "causes") if name in asked]
        self.verdicts = [verdict(one, runs) for one in claims()] if "claims" in asked else []
        self.systems = list(systems()) if "systems" in asked else []
        self.budgets = list(budgets()) if "budgets" in asked else []
        self.rankings = rankings(comparisons(runs.rows)) if "rankings" in asked else []

    def sheets(self, width: int | None = None) -> list[Sheet]:
        """Everything that is selected, as plain tables of at most `width` characters."""
        tables = [
            sheet for one in self.filled for sheet in sheets.sheets(one, self.environments, width)
        ]
        if tables:
            tables[-1].notes.append(sheets.LEGEND)
        return tables + self.counts() + verdict_sheets(self.verdicts, width) + self.studies(width)

    def counts(self) -> list[Sheet]:
        """Numbers of measured cells and drawn figures, causes of differences, if selected."""
        made = []
        if "cells" in self.overviews:
            made += [cell_sheet(self.counted), figure_sheet(self.counted_drawings)]
        if "causes" in self.overviews:
            made.append(cause_sheet(self.counted))
        return made

    def studies(self, width: int | None = None) -> list[Sheet]:
        """Systems, budgets and rankings."""
        narrow = []
        for whole in self.system_sheets() + self.budget_sheets():
            narrow += sheets.narrowed(whole, width, _before_comma(whole))
        for ranking in self.rankings:
            whole = ranking_sheet(ranking)
            narrow += sheets.narrowed(whole, width, whole.header[1:])
        return narrow

    def system_sheets(self) -> list[Sheet]:
        return [sheet(one, self.runs, self.environments) for one in self.systems]

    def budget_sheets(self) -> list[Sheet]:
        return [budget_sheet(one, self.runs, self.environments) for one in self.budgets]

    def text(self, format: str, width: int = 120, paint: terminal.Paint = terminal.plain) -> str:
        if format == "csv":
            return self.csv()
        if format == "json":
            return self.json()
        if format == "html":
            return self.html()
        if format == "markdown":
            return markdown.markdown_sheets(self.sheets())
        if format == "latex":
            return latex.latex_sheets(self.sheets(_LATEX_WIDTH))
        return terminal.sheets(self.sheets(width), width=width, paint=paint)

    @cached_property
    def drawings(self) -> list[Drawing]:
        return drawings(self.runs, self.environments, {one.table.paper for one in self.filled})

    @cached_property
    def counted_drawings(self) -> list[Drawing]:
        """The drawings of the papers whose cells are counted."""
        if self.filled:
            return self.drawings
        return drawings(self.runs, self.environments, {one.table.paper for one in self.counted})

    def html(self) -> str:
        from kbench.report.page.pages import page

        found = page([], self, self.environments, [], settings=0, remarks=self.skipped)
        return found.one_file()

    def csv(self) -> str:
        """The cells of the tables; without any, the verdicts; without those, all other sheets."""
        if self.filled:
            return csv_text(sheets.CELL_COLUMNS, sheets.cell_records(self.filled))
        if self.verdicts:
            return csv_text(VERDICT_COLUMNS, verdict_records(self.verdicts))
        return csv_lines([line for one in self.sheets() for line in (one.header, *one.rows)])

    def json(self) -> str:
        """An object with the cells of the tables, the verdicts, and all other sheets."""
        return json_text(
            {
                "cells": sheets.cell_records(self.filled),
                "claims": verdict_records(self.verdicts),
                "sheets": [sheet_record(one) for one in self.counts() + self.studies()],
            }
        )


def _before_comma(sheet: Sheet) -> list[str]:
    """The text before the comma in headers such as `a step, fit s`, which groups the columns."""
    return [name.partition(",")[0] for name in sheet.header[1:]]
