"""Reports: tables, comparisons, charts and pages made of rows.

`make_report` returns one text, `write_report` writes every format beside the rows. `comparisons`
groups the runs that may be compared and formats their numbers, `statistics` has ranks and paired
differences, `text` has a module for each text format, `charts` draws SVG, `page` writes HTML.
Other packages add reports of their own as `plugins`, such as `kbench.papers`.
"""

import io
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.errors import ConfigError, counted
from kbench.report.charts.metric_chart import draw_metric
from kbench.report.charts.plots import figure
from kbench.report.charts.reliability import reliability_curves
from kbench.report.charts.search_chart import searches
from kbench.report.comparisons.quantities import COSTS, Quantity, quantity
from kbench.report.comparisons.reading import (
    REFERENCE_HINT,
    added_scores,
    deliver,
    read_content,
    read_frame,
    read_rows,
    records,
    require_count,
    require_measured,
    require_names,
    run_records,
    select_rows,
    user_frame,
    write,
)
from kbench.report.comparisons.tables import Comparison, Row, comparisons
from kbench.report.mlflow_export import export_rows
from kbench.report.page.pages import page
from kbench.report.plugins import installed_plugins
from kbench.report.sheet import Sheet
from kbench.report.statistics import versus
from kbench.report.statistics.standings import standings
from kbench.report.text import latex, markdown, terminal, tidy
from kbench.streams import terminal_width

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from kbench.run.results.folder import ResultsFolder

_LOG = logging.getLogger(__name__)

__all__ = [
    "COMPARE_FORMATS",
    "FORMATS",
    "PAPER_FORMATS",
    "SETTINGS",
    "draw_metric",
    "export_runs",
    "make_comparison",
    "make_papers",
    "make_ranking",
    "make_report",
    "plot",
    "read_rows",
    "write_report",
]

FORMATS = ("terminal", "markdown", "csv", "json", "latex", "html")

PLOT_FORMATS = (".png", ".svg", ".pdf")

COMPARE_FORMATS = ("terminal", "markdown", "csv", "json", "latex")

# Lines of one method that a table shows; further settings are only counted. Set by hand.
SETTINGS = 5

# A report of more tables than this only lists data sets that have no rows but reference rows, whose
# tables take 5,000 lines of the terminal. Set by hand.
_MAX_FULL_TABLES = 20

_FIRST_COMMAND = "kbench -m experiment=demo"

# Formats that `write_report` writes beside the page -> file.
_FILES = {"markdown": "index.md", "latex": "tables.tex", "csv": "comparisons.csv"}


def make_report(
    folder: "ResultsFolder",
    *,
    format: str = "terminal",
    out: Path | None = None,
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    metric: str | None = None,
    columns: Sequence[str] | None = None,
    settings: int = SETTINGS,
    reference: bool = False,
    trials: bool = False,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """The comparison of all rows of a results folder.

    Parameters
    ----------
    folder : ResultsFolder
    format : {"terminal", "markdown", "csv", "json", "latex", "html"}
    out : Path, optional
        File to which the text is written as well.
    methods, datasets, tags : sequence of str, optional
        Only rows with one of these are reported. Attempts of a run without any of `tags` are left
        out.
    metric : str, optional
        Column of the rows that ranks the lines, wherever a run has measured it; elsewhere the first
        score of the task ranks them.
    columns : sequence of str, optional
        Columns to show beside the ranking score instead of the costs. CSV has all columns.
    settings : int
        Number of parameter settings of a method that a table shows: the best by the leading score.
        The table states the number of all settings, which CSV, JSON and HTML have.
    reference : bool
        Whether the rows that came with kbench take part.
    trials : bool
        Whether the trials of a tuning take part.
    width : int, optional
        Characters on a line of the terminal; by default the terminal's width.
    colour : bool
        Whether the terminal's text has colours.

    Raises
    ------
    ConfigError
        No row has one of `methods`, `datasets` or `tags`, or the format or a column does not exist.
    """
    if format not in FORMATS:
        raise ConfigError(f"format={format}: a report is one of {', '.join(FORMATS)}")
    require_names("columns", columns)
    require_count("settings", settings)
    require_count("width", width)
    rows, skipped = read_frame(folder, methods, datasets, tags, reference=reference, trials=trials)
    added = added_scores(rows)
    score = None if metric is None else quantity(metric, "metric", added)
    shown_columns = COSTS if columns is None else [quantity(name, added=added) for name in columns]
    for option, columns_of in (("metric", [metric]), ("columns", columns or [])):
        for column in columns_of:
            require_measured(rows, option, column)
    tables = comparisons(run_records(rows), score, splits=True)
    environments = folder.environments()
    if format in _FILES and (tables or format != "markdown"):
        text = _file_text(format, tables, environments, shown_columns, settings)
    elif format == "json":
        text = tidy.json_text(
            {
                "comparisons": tidy.comparison_records(tables),
                "environments": environments,
                "remarks": skipped,
            }
        )
    elif not tables and format in ("terminal", "markdown"):
        text = f"No results in {folder.path}/ yet. To begin: {_FIRST_COMMAND}\n"
        if folder.has_reference and not reference:
            text += f"{REFERENCE_HINT}.\n"
    elif format == "html":
        curves = folder.read_curves(reference=reference)
        text = page(
            tables,
            environments,
            shown_columns,
            settings=settings,
            remarks=skipped,
            reliability=reliability_curves(curves),
            searched=searches(curves),
        ).one_file()
    else:
        show_all = bool(methods or datasets or tags) or len(tables) <= _MAX_FULL_TABLES
        tables, listing = (tables, "") if show_all else _split_off_reference(tables)
        text = listing
        if tables:
            tables_text = terminal.terminal(
                tables,
                environments,
                shown_columns,
                width=width or terminal_width(terminal.WIDTH),
                settings=settings,
                paint=terminal.coloured if colour else terminal.plain,
            )
            text = f"{tables_text}\n{listing}" if listing else tables_text
    if skipped and format in ("terminal", "markdown"):
        text += "\n" + "\n".join(skipped) + "\n"
    # CSV and LaTeX have no place for a note.
    return deliver(text, out, skipped if format in ("csv", "latex") else ())


def _split_off_reference(tables: Sequence[Comparison]) -> tuple[list[Comparison], str]:
    """The tables of data sets with the user's own rows, and a list of the other data sets."""
    own_datasets = {
        table.problem.dataset
        for table in tables
        for line in table.lines
        if any(row["origin"] == "own" for row in line.rows)
    }
    methods: dict[str, set[str]] = {}
    for table in tables:
        if table.problem.dataset not in own_datasets:
            names = methods.setdefault(table.problem.dataset, set())
            names |= {line.method for line in table.lines}
    width = max(map(len, methods), default=0)
    lines = [f"{name:{width}}  {counted(len(names), 'method')}" for name, names in methods.items()]
    if lines:
        lines.insert(
            0,
            "`kbench report ranking` advises which method to use for which data; dataset=NAME "
            f"shows the tables of one of these {counted(len(methods), 'data set')} with only "
            "reference rows; format=csv has all:",
        )
    own_tables = [table for table in tables if table.problem.dataset in own_datasets]
    return own_tables, "".join(f"{line}\n" for line in lines)


def _file_text(
    format: str,
    tables: Sequence[Comparison],
    environments: Mapping[str, Any],
    columns: Sequence[Quantity],
    settings: int,
) -> str:
    """Comparisons in one of the formats that `write_report` writes beside the page."""
    if format == "csv":
        return tidy.csv_text(tidy.comparison_columns(tables), tidy.comparison_records(tables))
    write_as = {"markdown": markdown.markdown, "latex": latex.latex}[format]
    return write_as(tables, environments, columns, settings=settings)


def make_comparison(
    folder: "ResultsFolder",
    *,
    methods: Sequence[str] | None,
    format: str = "terminal",
    out: Path | None = None,
    datasets: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    metric: str | None = None,
    reference: bool = False,
    trials: bool = False,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """Comparison of methods: mean ranks, and differences of every pair over seeds and splits.

    Parameters are as in `make_report`. CSV holds the pairs on each data set, without ranks.

    Raises
    ------
    ConfigError
        There are fewer than two methods, or no two methods have a common data set; or as in
        `make_report`.
    """
    if format not in COMPARE_FORMATS:
        raise ConfigError(f"format={format}: a comparison is one of {', '.join(COMPARE_FORMATS)}")
    require_names("methods", methods)
    require_count("width", width)
    if len(set(methods or [])) < 2:
        raise ConfigError("a comparison needs two methods or more: method=a,b")
    names = list(dict.fromkeys(methods or []))
    rows, skipped = read_frame(folder, names, datasets, tags, reference=reference, trials=trials)
    score = None if metric is None else quantity(metric, "metric", added_scores(rows))
    require_measured(rows, "metric", metric)
    comparison = versus.versus(run_records(rows), names, score)
    if not comparison.pairs():
        condition = "" if score is None else f" and {score.column} measured"
        raise ConfigError(f"no data set has runs of two of {', '.join(names)}{condition}")
    if format == "csv":
        text = tidy.csv_text(versus.PAIR_COLUMNS, versus.pair_records(comparison.pairs()))
    elif format == "json":
        sheets = [tidy.sheet_record(sheet) for sheet in versus.sheets(comparison)]
        text = tidy.json_text({"pairs": versus.pair_records(comparison.pairs()), "sheets": sheets})
    else:
        text = _sheets_text(versus.sheets(comparison), format, width, colour)
    return deliver(text, out, skipped)


def make_ranking(
    folder: "ResultsFolder",
    *,
    task: str | None = None,
    n: int | None = None,
    d: int | None = None,
    classes: int | None = None,
    format: str = "terminal",
    out: Path | None = None,
    reference: bool = True,
    width: int | None = None,
    colour: bool = False,
) -> str:
    """A ranking of methods for data of a task with `n` training rows, `d` features and `classes`.

    Further parameters are as in `make_report`; `standings` says how methods are ranked.

    Raises
    ------
    ConfigError
        As in `make_report`, or fewer than two data sets of this kind have rows.
    """
    if format not in COMPARE_FORMATS:
        raise ConfigError(f"format={format}: a ranking is one of {', '.join(COMPARE_FORMATS)}")
    for name, value in (("n", n), ("d", d), ("classes", classes), ("width", width)):
        require_count(name, value)
    rows, skipped = read_frame(folder, None, None, None, reference=reference, trials=False)
    tables = standings(run_records(rows), task, n, d, classes)
    text = _sheets_text(tables, format, width, colour)
    return deliver(text, out, skipped)


def _sheets_text(sheets: list[Sheet], format: str, width: int | None, colour: bool) -> str:
    if format == "csv":
        header = ["table", *sheets[0].header]
        records = [
            dict(zip(header, [sheet.name, *row], strict=True))
            for sheet in sheets
            for row in sheet.rows
        ]
        return tidy.csv_text(header, records)
    if format == "json":
        return tidy.json_text({"sheets": [tidy.sheet_record(sheet) for sheet in sheets]})
    if format == "markdown":
        return markdown.markdown_sheets(sheets)
    if format == "latex":
        return latex.latex_sheets(sheets)
    return terminal.sheets(
        sheets,
        width=width or terminal_width(terminal.WIDTH),
        paint=terminal.coloured if colour else terminal.plain,
    )


def plot(
    rows: "pd.DataFrame | ResultsFolder",
    x: str = "fit_cpu_s",
    y: str | None = None,
    *,
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    reference: bool = False,
    out: str | Path | None = None,
) -> "Figure":
    """A figure of matplotlib with a panel for each data set.

    Parameters
    ----------
    rows : DataFrame of `kbench.read_rows`, or ResultsFolder
        Curves are drawn only from a folder.
    x : str
        A measured column (`fit_cpu_s`, `prediction_cost`, `n_support`, ...) shows methods and
        settings as marks, with the Pareto front. A parameter (`C`) shows scores over its values.
        The abscissa of a curve (`seconds`, `samples`) shows curves.
    y : str, optional
        A measured column or a curve (`objective`, `test_error`); by default the task's first score.
    methods, datasets, tags : as in `make_report`.
    reference : as in `make_report`; ignored for a data frame.
    out : path, optional
        File to which the figure is saved as well: .png, .svg or .pdf.

    Raises
    ------
    ConfigError
        Nothing can be drawn, or `out` has another suffix.
    """
    from kbench.run.results.folder import ResultsFolder

    curves = None
    for name, axis in (("x", x), ("y", y)):
        if not isinstance(axis, str) and not (name == "y" and axis is None):
            raise ConfigError(f"{name} is {axis!r}, should be the name of a column or parameter")
    if isinstance(rows, ResultsFolder):
        runs, skipped = read_frame(rows, methods, datasets, tags, reference=reference, trials=False)
        for line in skipped:
            _LOG.warning(line)
        curves = rows.read_curves(reference=reference)
        if runs.empty:
            raise ConfigError(f"no results in {rows.path}/ yet; to begin: {_FIRST_COMMAND}")
    else:
        runs = select_rows(user_frame(rows), methods, datasets, tags)
        if runs.empty:
            raise ConfigError("rows is a data frame without rows")
    if y is not None and y in runs:
        require_measured(runs, "y", y)
    if out is not None and Path(out).suffix.lower() not in PLOT_FORMATS:
        raise ConfigError(f"out={out}: a plot is a file {', '.join(PLOT_FORMATS)}")
    fig = figure(run_records(runs), x, y, curves)
    if out is not None:
        image = io.BytesIO()
        fig.savefig(
            image, format=Path(out).suffix[1:].lower(), dpi=150
        )  # dots per inch, set by hand
        write(out, image.getvalue())
    return fig


def export_runs(
    folder: "ResultsFolder",
    store: str,
    *,
    methods: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
    reference: bool = False,
    trials: bool = False,
) -> tuple[int, int]:
    """Write the rows as runs of MLflow's experiment `kbench`; options are as in `make_report`.

    Parameters
    ----------
    store : str
        MLflow's tracking URI, such as ``sqlite:///mlflow.db``.

    Returns
    -------
    int, int
        Numbers of runs written, and of rows that the store had already.

    Raises
    ------
    UnavailableError
        mlflow is not installed.
    ConfigError
        The store refuses the first request, or no row has one of `methods`, `datasets` or `tags`.
    """
    rows, skipped = read_frame(folder, methods, datasets, tags, reference=reference, trials=trials)
    for line in skipped:
        _LOG.warning(line)
    return export_rows(records(rows), store)


def write_report(folder: "ResultsFolder", *, reference: bool = True) -> list[Path]:
    """Write the report as a page, Markdown, LaTeX and CSV to `_report` in the results folder.

    Returns the paths of all written files. `reference` is as in `make_report`.

    `index.html` has everything: data sets, and what the plug-ins add, such as the papers' claims,
    tables and figures; its details and rows are in `index.details.js`.
    """
    content = read_content(folder, reference=reference)
    target = folder.path / "_report"
    tables = comparisons(content.rows, splits=True)
    for format, name in _FILES.items():
        write(target / name, _file_text(format, tables, content.environments, COSTS, SETTINGS))
    for line in content.skipped:
        _LOG.warning(line)
    contributions = [plugin.read(content) for plugin in installed_plugins().values()]
    text, details = page(
        tables,
        content.environments,
        COSTS,
        settings=SETTINGS,
        contributions=contributions,
        remarks=content.skipped,
        reliability=reliability_curves(content.curves),
        searched=searches(content.curves),
        standings=_standings(content.rows),
    ).two_files("index.details.js")
    write(target / "index.details.js", details)
    write(target / "index.html", text)
    paths = [target / name for name in ("index.html", "index.details.js", *_FILES.values())]
    return paths + [path for contribution in contributions for path in contribution.write(target)]


def _standings(rows: Sequence[Row]) -> list[Sheet]:
    """The rankings for a page; an empty list if too few data sets have rows that are ranked."""
    try:
        return standings(rows)
    except ConfigError:
        return []


def __getattr__(name: str) -> Any:
    """`make_papers` and `PAPER_FORMATS`, which are public here and belong to a plug-in."""
    if name not in ("make_papers", "PAPER_FORMATS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    papers = installed_plugins().get("papers")
    if papers is None:
        raise AttributeError(
            f"{name} needs the entry point `papers` of the group kbench.reports, which this "
            "installation of kbench lacks: install kbench again"
        )
    return papers.make if name == "make_papers" else papers.formats
