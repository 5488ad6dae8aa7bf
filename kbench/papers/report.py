"""The papers' report: its tables and sheets, every format, and its part of the pages."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.errors import ConfigError
from kbench.mistyped import nearest
from kbench.papers import views
from kbench.papers.cells import sheets
from kbench.papers.cells.entries import Filled, filled
from kbench.papers.cells.runs import Curve, Identity, Runs
from kbench.papers.cells.sheets import cause_sheet, cell_sheet, coverage
from kbench.papers.claims.decision import verdict
from kbench.papers.claims.stated import claims
from kbench.papers.claims.verdicts import sheets as verdict_sheets
from kbench.papers.claims.verdicts import summary, verdict_records
from kbench.papers.figures.drawing import Drawing, drawings
from kbench.papers.printed.layout import PAPERS, all_tables, legend
from kbench.papers.studies import budget_sheet, budgets, system_sheet, systems
from kbench.report.charts.svg import document
from kbench.report.comparisons.reading import (
    Content,
    deliver,
    read_content,
    require_count,
    require_names,
    write,
)
from kbench.report.page.additions import Addition
from kbench.report.page.pages import page
from kbench.report.page.site import RowStore
from kbench.report.plugins import Plugin
from kbench.report.sheet import Sheet
from kbench.report.text import latex, markdown, terminal
from kbench.report.text.tidy import csv_lines, csv_text, json_text, sheet_record
from kbench.streams import terminal_width

if TYPE_CHECKING:
    from kbench.run.results.folder import ResultsFolder

PAPER_FORMATS = ("terminal", "markdown", "csv", "json", "latex", "html")

# Names of sheets that can be selected beside the papers and their tables.
_SHEETS = ("cells", "causes", "claims", "systems", "budgets")


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
    """The papers' tables with the measured values beside the printed values.

    Parameters
    ----------
    folder : ResultsFolder
    tables : sequence of str, optional
        Names of papers (`hss`), of tables (`hss_table5`), or sheets: `cells`, `causes`, `claims`,
        `systems`, `budgets`. None is all, of which the terminal shows a screen for each paper.
    format : {"terminal", "markdown", "csv", "json", "latex", "html"}
    out : Path, optional
        File to which the text is written as well.
    reference, width, colour
        As in `make_report`.

    Raises
    ------
    ConfigError
        The format or a table does not exist.
    """
    if format not in PAPER_FORMATS:
        raise ConfigError(f"format={format}: should be one of {', '.join(PAPER_FORMATS)}")
    require_names("tables", tables)
    require_count("width", width)
    report = read_report(read_content(folder, reference=reference), tables)
    paint = terminal.coloured if colour else terminal.plain
    text = report.text(format, width or terminal_width(terminal.WIDTH), paint)
    return deliver(text, out, report.skipped if format != "html" else ())


def read_report(content: Content, tables: Sequence[str] | None = None) -> "PapersReport":
    """The papers' report on a folder's content with the selected tables; None selects all."""
    return PapersReport(tables, runs_of(content), content.environments, content.skipped)


def runs_of(content: Content) -> Runs:
    """The runs of a folder with their curves."""
    curves: dict[Identity, dict[str, Curve]] = {}
    columns = ["key", "environment", "threads", "curve", "x_name"]
    x, y = content.curves["x"].to_numpy(), content.curves["value"].to_numpy()
    groups: dict[Any, Any] = content.curves.groupby(columns).indices
    for (key, environment, threads, name, abscissa), indices in groups.items():
        curve = name if abscissa == "seconds" else f"{name} over {abscissa}"
        values = x[indices].tolist(), y[indices].tolist()
        curves.setdefault((key, environment, int(threads)), {})[curve] = values
    return Runs(content.rows, curves)


class PapersReport:
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
        tables = all_tables()
        by_name = {table.id: [table] for table in tables}
        by_name |= {name: [table for table in tables if table.paper == name] for name in PAPERS}
        selected = list(names) if names is not None else [*PAPERS, *_SHEETS]
        self.selects_all = names is None
        for name in selected:
            if name not in by_name and name not in _SHEETS:
                hint = nearest(name, [*by_name, *_SHEETS])
                words = ", ".join([*PAPERS, *_SHEETS])
                hint = hint or f", should be one of {words}, or a table such as hss_table5"
                raise ConfigError(f"no paper's table is called {name!r}{hint}")
        layouts = {table.id: table for name in selected for table in by_name.get(name, ())}
        self.filled = [table for layout in layouts.values() for table in filled(layout, runs)]
        self.verdicts = [verdict(claim, runs) for claim in claims()] if "claims" in selected else []
        studies: dict[str, Callable[[], list[Sheet]]] = {
            "systems": lambda: [system_sheet(system, runs, environments) for system in systems()],
            "budgets": lambda: [budget_sheet(budget, runs, environments) for budget in budgets()],
            "cells": lambda: [cell_sheet(self._counted)],
            "causes": lambda: [cause_sheet(self._counted)],
        }
        self.studies = {name: make() for name, make in studies.items() if name in selected}

    @cached_property
    def _counted(self) -> list[Filled]:
        """The tables whose cells are counted: the selected tables, or all if none is selected."""
        return self.filled or [t for layout in all_tables() for t in filled(layout, self.runs)]

    def sheets(self, width: int | None = None) -> list[Sheet]:
        """All selected tables, claims and studies; claims are wrapped to `width` characters."""
        tables = [sheets.sheet(table, self.environments) for table in self.filled]
        if tables:
            tables[-1].notes.append(legend("cells", "clocks", "ratio"))
        return [*tables, *verdict_sheets(self.verdicts, width), *self.study_sheets()]

    def overview(self, width: int) -> list[Sheet]:
        """A screen for each paper with a line for each claim, and last a screen for all papers."""
        result = [*verdict_sheets(self.verdicts, width, details=False), summary(self.verdicts)]
        result[-1].notes.append(
            f"{coverage(self.filled)}. More: table=claims, table=dcsvm (or"
            f" {', '.join(PAPERS[1:])}), table=dcsvm_table3, table={', '.join(_SHEETS)}."
        )
        return result

    def study_sheets(self) -> list[Sheet]:
        """The selected sheets of systems, budgets, counted cells and causes."""
        return list(chain(*self.studies.values()))

    def text(
        self, format: str, width: int = terminal.WIDTH, paint: terminal.Paint = terminal.plain
    ) -> str:
        """The report in one of `PAPER_FORMATS`."""
        if format in ("csv", "json", "html"):
            return {"csv": self.csv, "json": self.json, "html": self.html}[format]()
        if format == "markdown":
            return markdown.markdown_sheets(self.sheets())
        if format == "latex":
            return latex.latex_sheets(self.sheets(latex.WIDTH))
        selected = self.overview(width) if self.selects_all else self.sheets(width)
        return terminal.sheets(selected, width=width, paint=paint)

    @cached_property
    def drawings(self) -> list[Drawing]:
        """The figures of the papers whose tables are selected."""
        papers = {table.table.paper for table in self.filled}
        return drawings(self.runs, self.environments, papers)

    def addition(self, store: RowStore) -> Addition:
        """The report's parts of a page; rows behind the cells of tables are added to `store`."""
        environments = {name for drawing in self.drawings for name in drawing.environments}
        environments |= {t.machine.environment for t in self.filled if t.machine is not None}
        return Addition(
            summary=f"the papers' tables have {coverage(self.filled)}" if self.filled else "",
            front=views.front(self.verdicts, self.studies.get("systems", ())),
            views=[
                *views.claims_views(self.verdicts),
                views.tables_view(self.filled, self.verdicts, self.environments, store),
                views.figures_view(self.drawings),
            ],
            studies=[views.studies_view(self.studies)],
            titles=views.papers_of_sets(),
            environments=frozenset(environments),
        )

    def html(self) -> str:
        """One page in a single file."""
        return page(
            [], self.environments, [], settings=0, contributions=[self], remarks=self.skipped
        ).one_file()

    def csv(self) -> str:
        """The cells of the tables; without tables the verdicts; without both all other sheets."""
        if self.filled:
            return _csv(sheets.cell_records(self.filled))
        if self.verdicts:
            return _csv(verdict_records(self.verdicts))
        return csv_lines([line for sheet in self.sheets() for line in (sheet.header, *sheet.rows)])

    def json(self) -> str:
        """An object with the cells of the tables, the verdicts, and all other sheets."""
        return json_text(
            {
                "cells": sheets.cell_records(self.filled),
                "claims": verdict_records(self.verdicts),
                "sheets": [sheet_record(sheet) for sheet in self.study_sheets()],
            }
        )

    def write(self, folder: Path) -> list[Path]:
        """Write Markdown, LaTeX, CSV, and an SVG file for each figure with charts, to `folder`."""
        names = {"markdown": "papers.md", "latex": "papers.tex", "csv": "papers.csv"}
        texts = {folder / name: self.text(format) for format, name in names.items()}
        texts[folder / "claims.csv"] = _csv(verdict_records(self.verdicts))
        for drawing in self.drawings:
            file = folder / "figures" / f"{drawing.figure.name}.svg"
            if drawing.charts:
                texts[file] = document(drawing.charts, drawing.legend, drawing.remarks)
            else:
                file.unlink(missing_ok=True)
        for file, text in texts.items():
            write(file, text)
        return list(texts)


def _csv(records: Sequence[Mapping[str, Any]]) -> str:
    return csv_text(list(records[0]), records) if records else ""


PLUGIN = Plugin(PAPER_FORMATS, make_papers, read_report)
