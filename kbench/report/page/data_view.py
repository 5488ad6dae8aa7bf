"""The data sets of a page: a list of problems, and for each the tables and charts of its methods.

The detail of a problem has, for each machine, a table with every setting of every method, charts of
the score against fit time and against prediction cost, reliability curves, and the settings that
self-tuning estimators tried. A click on a line or a mark opens its runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from kbench.errors import counted
from kbench.report.charts.reliability import Groups, RunKey, reliability_chart
from kbench.report.charts.search_chart import Searched, search_charts
from kbench.report.charts.style import styles
from kbench.report.charts.tradeoff import tradeoff
from kbench.report.comparisons.cells import (
    Grid,
    describe_concurrency,
    describe_machine,
    describe_problem,
    grid,
    title,
    title_with_splits,
)
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.tables import Comparison, LearningTask, Line
from kbench.report.page.site import Item, RowStore, View
from kbench.report.page.tags import (
    article,
    cell,
    element,
    escaped,
    figure,
    header,
    link,
    marker,
    paragraph,
    row_header,
    table,
)
from kbench.report.page.tags import notes as notes_list
from kbench.report.statistics.days import Days
from kbench.report.statistics.fronts import COST_AXES, points
from kbench.report.text.notes import COST, notes
from kbench.report.text.notes import legend as marks_of

# Unicode's figure space, as wide as a digit, and its punctuation space, as wide as a point: padding
# with them aligns the decimal points of a column.
_FIGURE_SPACE, _PUNCTUATION_SPACE = "\u2007", "\u2008"

_COLUMNS = ["data set", "best method", "score", "measure", "task", "train rows", "features"]
_COLUMNS += ["methods", "runs", "failed", "environment"]
# Columns of text, whose cells are aligned on the left.
_TEXT_COLUMNS = ("best method", "measure", "task", "environment")

_CHARTS_CAPTION = (
    "A mark is a method with one setting, and its bar is the ± of the table; the dashed line joins"
    " the settings that no other setting beats in both score and cost (Pareto front)."
)


def data_view(
    comparisons: Sequence[Comparison],
    environments: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Quantity],
    store: RowStore,
    *,
    settings: int,
    papers: Mapping[str, Sequence[str]],
    legend: str,
    reliability: Mapping[RunKey, Groups],
    searched: Mapping[RunKey, Searched],
) -> View:
    """The list of problems with their details.

    environments : Description by id, as `ResultsFolder.environments` returns them
    columns : Quantities of the tables in addition to the score
    store : Holds the rows behind the lines
    settings : Number of lines of a method that a table shows without "Show all"
    papers : Data set -> titles of the papers that use it
    legend : HTML that explains the variants, above the list
    reliability : RunKey -> groups of test rows, as `reliability_curves` returns them
    searched : RunKey -> search of a self-tuning estimator, as `searches` returns them
    """
    methods = sorted({line.method for comparison in comparisons for line in comparison.lines})
    days = Days.of(comparisons)
    details = _Details(columns, settings, environments, methods, store, reliability, searched, days)
    items = []
    for group in _by_problem(comparisons):
        problem = group[0].problem
        detail = details.of_problem(group)
        for i, comparison in enumerate(group):
            facets = {
                "set": [problem.dataset],
                "method": sorted({line.method for line in comparison.lines}),
                "paper": list(papers.get(problem.dataset, ())),
            }
            content = detail if i == 0 else ""
            items.append(Item(_cells(comparison), facets, anchor(problem), content, title(problem)))
    marks = marks_of(comparisons, (), "the best of a column is marked")
    text = (
        f"{marks[:1].upper()}{marks[1:]}. Times of different environments or thread counts stand in"
        " different tables."
    )
    return View("data", "Data sets", _header_cells(), items, paragraph(text) + legend)


def _header_cells() -> list[str]:
    return [header(text, kind="word" if text in _TEXT_COLUMNS else "") for text in _COLUMNS]


def own_results(comparisons: Sequence[Comparison]) -> str:
    """HTML table for the overview of data sets with the user's own rows; empty without any."""
    if not comparisons:
        return ""
    lines = [element("tr", _cells(comparison)) for comparison in comparisons]
    results = table("My results", [_header_cells()], lines)
    return element("h3", "My results") + results


def anchor(problem: LearningTask) -> str:
    """HTML anchor of a problem's detail; it does not change when rows are added or removed."""
    # Six hexadecimal digits of the checksum tell contents of one data set apart. Set by hand.
    checksum = (problem.data_sha256 or "")[:6]
    parts = astuple(replace(problem, data_sha256=checksum, n_splits=0, has_namesake=False))
    name = "-".join(str(part) for part in (*parts, "splits" * (problem.n_splits > 1)) if part)
    return "data-" + "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def summary(comparisons: Sequence[Comparison]) -> str:
    """Numbers of data sets, methods, runs and environments, in words.

    A run that is set aside has other limits than the run that counts; the table of its data set has
    a note. The number of runs is that of the rows of `kbench.read_rows` without trials of tunings.
    """
    lines = [line for comparison in comparisons for line in comparison.lines]
    rows = [row for line in lines for row in line.rows]
    set_aside = sum(line.set_aside for line in lines)
    failed = sum(row["status"] != "ok" for row in rows)
    sets = counted(len({comparison.problem.dataset for comparison in comparisons}), "data set")
    texts = [f"{sets} in {counted(len(comparisons), 'table')}"]
    texts.append(counted(len({line.method for line in lines}), "method"))
    texts.append(counted(len(rows) + set_aside, "run"))
    texts[-1] += f", {failed:,} failed" if failed else ""
    texts[-1] += f", {set_aside:,} set aside for other runs of the same seeds" if set_aside else ""
    machines = {comparison.machine.environment for comparison in comparisons}
    return " · ".join([*texts, counted(len(machines), "environment")])


class _Details:
    """Builder of the details, with the settings that all details use."""

    def __init__(
        self,
        columns: Sequence[Quantity],
        settings: int,
        environments: Mapping[str, Mapping[str, Any]],
        methods: Sequence[str],
        store: RowStore,
        reliability: Mapping[RunKey, Groups],
        searched: Mapping[RunKey, Searched],
        days: Days,
    ) -> None:
        self.columns = columns
        self.settings = settings
        self.environments = environments
        self.styles = styles(methods)
        self.store = store
        self.reliability = reliability
        self.searched = searched
        self.days = days

    def of_problem(self, group: Sequence[Comparison]) -> str:
        """A description of the problem, and an article for each machine."""
        tables = "".join(self._comparison(comparison) for comparison in group)
        return paragraph(describe_problem(group[0].problem)) + tables

    def _comparison(self, comparison: Comparison) -> str:
        _, cut_methods = comparison.shortened(self.settings)
        machine = describe_machine(comparison.machine, self.environments)
        candidates = [tradeoff(comparison, cost, self.styles, self.settings) for cost in COST_AXES]
        drawn = sorted(
            {point.line.method for cost in COST_AXES for point in points(comparison, cost)}
        )
        legend = [(method, self.styles[method]) for method in drawn]
        candidates.append(reliability_chart(comparison, self.reliability, self.styles))
        candidates += search_charts(comparison, self.searched)
        charts = [chart for chart in candidates if chart is not None]
        button = ""
        if cut_methods:
            text = f"Show all {len(comparison.lines)} lines"
            button = element("button", text, class_="all", type="button")
        remarks = notes(comparison, cut_methods, self.settings, "the button shows all", self.days)
        return article(
            element("p", escaped(machine), class_="machine")
            + (figure(charts, legend, f"{_CHARTS_CAPTION} {COST}.") if charts else "")
            + self._table(comparison)
            + button
            + notes_list([*self._mark_explanations(comparison), *remarks])
        )

    def _mark_explanations(self, comparison: Comparison) -> list[str]:
        """Sentences that explain the marks in the table's headers and lines."""
        return [f"{marks_of([comparison], self.columns, 'the best of a column is marked')}."]

    def _table(self, comparison: Comparison) -> str:
        content = grid(comparison, self.columns)
        columns = [_aligned_cells(content, j) for j in range(len(content.quantities))]
        head = [header("method")]
        head += [
            header(q.title, direction=q.direction, beside=_sd_padding(content, j))
            for j, q in enumerate(content.quantities)
        ]
        head.append(header("runs"))
        counts: dict[str, int] = {}
        body = []
        for i, line in enumerate(comparison.lines):
            counts[line.method] = counts.get(line.method, 0) + 1
            kinds = ["more"] if counts[line.method] > self.settings else []
            kinds += [] if line.ok else ["failed"]
            cells = [column[i] for column in columns] + [cell(content.runs[i])]
            body.append(self._table_row(line, " ".join(kinds), "".join(cells)))
        label = f"{title(comparison.problem)}: results on {comparison.machine.environment}"
        return table(label, [head], body)

    def _table_row(self, line: Line, kind: str, cells: str) -> str:
        setting = line.label.removeprefix(line.method)
        name = escaped(line.method) + (element("i", escaped(setting)) if setting else "")
        link = element("a", marker(self.styles[line.method]) + name, href=f"#run-{line.identifier}")
        row_indices = self.store.places(line.rows)
        content = row_header(link) + cells
        return element("tr", content, class_=kind, data_m=line.method, data_r=row_indices)


def _cells(comparison: Comparison) -> str:
    """Cells of a line in the list: the problem's size, and the best method by the main score."""
    problem = comparison.problem
    best = comparison.lines[0] if comparison.lines and comparison.lines[0].ok else None
    measured = best.mean_sd(comparison.score.column) if best else None
    failed = sum(len(line.rows) - len(line.ok) for line in comparison.lines)
    threads, _, jobs = describe_concurrency(comparison.machine).partition(", ")
    place = escaped(f"{comparison.machine.environment}, {threads}")
    return (
        row_header(link(title_with_splits(problem), anchor(problem)))
        + cell(best.label if best else "", "long")
        + cell(comparison.score.text(measured[0]) if measured else "")
        + cell(comparison.score.title, "word")
        + cell(problem.task or "", "word")
        + cell(_with_commas(problem.n_train))
        + cell(_with_commas(problem.n_features))
        + cell(len({line.method for line in comparison.lines}))
        + cell(sum(len(line.rows) for line in comparison.lines))
        + cell(failed or "")
        + element("td", place + element("div", escaped(jobs)) * bool(jobs), class_="word")
    )


def _sd_padding(content: Grid, j: int) -> str:
    """Padding as wide as a column's deviations, so that the header stands above the means."""
    widest = max((len(row[j].deviation) for row in content.cells), default=0)
    return element("small", _FIGURE_SPACE * widest, aria_hidden="true") if widest else ""


def _aligned_cells(content: Grid, j: int) -> list[str]:
    """The cells of a column, padded so that decimal points are aligned."""
    column = [row[j] for row in content.cells]
    decimals = max((entry.decimals for entry in column), default=0)
    widest = max((_integer_width(entry.deviation) for entry in column), default=0)
    cells = []
    for entry in column:
        if entry.status:
            cells.append(cell(entry.status, "st"))
            continue
        if not entry.mean:
            cells.append("<td></td>")
            continue
        n_missing = decimals - entry.decimals
        pad = _FIGURE_SPACE * n_missing + (
            _PUNCTUATION_SPACE if n_missing and not entry.decimals else ""
        )
        sd = ""
        if entry.deviation:
            lead = _FIGURE_SPACE * (widest - _integer_width(entry.deviation))
            sd = f"<small>{lead}±{entry.deviation}{pad}</small>"
        elif widest:
            sd = f"<small>{_FIGURE_SPACE * (widest + 1 + decimals)}{_PUNCTUATION_SPACE}</small>"
        cells.append(element("td", entry.mean + pad + sd, class_="best" if entry.best else ""))
    return cells


def _integer_width(number: str) -> int:
    return len(number.partition(".")[0])


def _by_problem(comparisons: Iterable[Comparison]) -> list[list[Comparison]]:
    groups: dict[LearningTask, list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.problem, []).append(comparison)
    return list(groups.values())


def _with_commas(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
