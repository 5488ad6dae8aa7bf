"""The web page of a results folder: the data sets, and what plug-ins add."""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from kbench.config import options, read_yaml
from kbench.report.charts.reliability import Groups, RunKey
from kbench.report.charts.search_chart import Searched
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.reading import package_text
from kbench.report.comparisons.tables import Comparison
from kbench.report.page.additions import Contribution
from kbench.report.page.data_view import data_view, own_results
from kbench.report.page.data_view import summary as data_summary
from kbench.report.page.site import RowStore, Site, View, site
from kbench.report.page.tags import element, escaped, notes, paragraph, sheet_table
from kbench.report.sheet import Sheet
from kbench.report.statistics.days import Days

# The first sentence of the page, which says what it shows.
_ABOUT = (
    "kbench runs experiments with large-scale kernel machines and their rivals, and this page shows"
    " the runs of a results folder: each is one method with one setting and seed on one data set."
)

# Explanations of the overview's rankings: how to use them for other data, and the numbers.
_RANKING_ADVICE = (
    "The tables rank methods with defaults or with a search on training rows. They do not say which"
    " method is best outside a heading's range of rows and classes. If your number of rows lies"
    " between two columns of rows, try the first methods of both columns on your own file."
)
_NUMBER_MEANINGS = (
    (
        "% behind: how far a method's score is from the best on a data set, median over data sets."
        " A column of rows is about data sets of that size alone, and is empty for a method that"
        " did not run on all of them."
    ),
    (
        "fit s and predict s are CPU seconds of one thread for 10,000 rows; kernel methods grow"
        " faster than this."
    ),
    (
        "metric: for which data feature weights are learned, too: small data (small, the"
        " default), data of any size (auto), or none (null)."
    ),
    (
        "In a terminal “kbench report ranking task=multiclass n=20000 d=30 classes=12” ranks on"
        " data like yours."
    ),
    (
        "Your own file: “kbench -m method=FIRST,SECOND dataset.path=FILE"
        " dataset.source.columns.target=COLUMN”."
    ),
)

# Number of methods that the overview shows for each task until a button shows all. Set by hand.
_SHOWN_METHODS = 4


def page(
    comparisons: Sequence[Comparison],
    environments: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Quantity],
    *,
    settings: int,
    contributions: Sequence[Contribution] = (),
    remarks: Sequence[str] = (),
    reliability: Mapping[RunKey, Groups] | None = None,
    searched: Mapping[RunKey, Searched] | None = None,
    standings: Sequence[Sheet] = (),
) -> Site:
    """Build the page of a results folder.

    comparisons : The data sets; may be empty
    environments : Description by id
    columns : Quantities beside the score of a data set
    settings : Number of lines of a method that a data set's table shows at first
    contributions : The reports of plug-ins; their views precede the data sets, and their studies
        come last
    remarks : Lines at the top of the page, such as files that could not be read
    reliability : As `reliability_curves` returns it
    searched : As `searches` returns it
    standings : Rankings of the methods, one for each task, for the top of the overview
    """
    store = RowStore()
    additions = [contribution.addition(store) for contribution in contributions]
    views: list[View] = [view for addition in additions for view in addition.views]
    summaries = [addition.summary for addition in additions if addition.summary]
    if comparisons or not additions:
        summaries.insert(0, data_summary(comparisons))
    if comparisons:
        titles: dict[str, list[str]] = {}
        for addition in additions:
            for dataset, names in addition.titles.items():
                titles.setdefault(dataset, []).extend(names)
        views.append(
            data_view(
                comparisons,
                environments,
                columns,
                store,
                settings=settings,
                papers=titles,
                legend=_variants(comparisons),
                reliability=reliability or {},
                searched=searched or {},
            )
        )
    views += [view for addition in additions for view in addition.studies]
    user_rows = own_results([comparison for comparison in comparisons if _has_own(comparison)])
    environment_ids = {comparison.machine.environment for comparison in comparisons}
    return site(
        heading="kbench report",
        summary=_ABOUT,
        front=paragraph(" · ".join(summaries))
        + _linked_parts([_rankings(standings), *(a.front for a in additions), user_rows]),
        views=views,
        rows=store.rows,
        environments=environments,
        days=Days(store.rows),
        environment_ids=sorted(
            environment_ids.union(*(addition.environments for addition in additions))
        ),
        remarks=remarks,
    )


def _linked_parts(fronts: Sequence[str]) -> str:
    """The parts of the overview below links to the first heading of each part."""
    parts, links = [], []
    for i, front in enumerate(filter(None, fronts)):
        if heading := re.search("<h3>(.*?)</h3>", front):
            id = f"overview-{i + 1}"
            links.append(element("a", heading[1], href=f"#{id}"))
            front = front.replace(heading[0], element("h3", heading[1], id=id), 1)
        parts.append(front)
    links_line = element("p", " · ".join(links), class_="about") if len(links) > 1 else ""
    return links_line + "".join(parts)


def _has_own(comparison: Comparison) -> bool:
    """Whether a row of a comparison did not come with kbench."""
    return any(row["origin"] == "own" for line in comparison.lines for row in line.rows)


def _rankings(standings: Sequence[Sheet]) -> str:
    """For each task the methods to try first, the ranking, and a fold with its notes."""
    if not standings:
        return ""
    meanings = element("summary", "What the numbers mean") + notes(_NUMBER_MEANINGS)
    html = paragraph(_RANKING_ADVICE) + element("details", meanings, class_="meanings")
    for sheet in standings:
        advice = list(
            itertools.takewhile(lambda note: not note.startswith("Data sets"), sheet.notes)
        )
        remarks = sheet.notes[len(advice) :]
        advice_html = element("p", "<br>".join(map(escaped, advice)))
        folded = element("summary", "Data sets, and how they rank") + notes(remarks)
        html += element("h3", escaped(sheet.name)) + advice_html
        html += sheet_table(
            replace(_with_descriptions(sheet), notes=[]), titled=False, shown=_SHOWN_METHODS
        )
        html += element("details", folded, class_="meanings")
    return element("h3", "Which model for my data?") + html


def _with_descriptions(sheet: Sheet) -> Sheet:
    """A ranking with a second column that describes each method."""
    files = options("method")
    texts = []
    for name, *_ in sheet.rows:
        file = files.get(name.partition(" ")[0])
        texts.append(str((read_yaml(file).get("meta") or {}).get("about", "")) if file else "")
    rows = [[row[0], text, *row[1:]] for row, text in zip(sheet.rows, texts, strict=True)]
    header = [sheet.header[0], "what it is", *sheet.header[1:]]
    return replace(sheet, n_text_columns=2, header=header, rows=rows)


def _variants(comparisons: Sequence[Comparison]) -> str:
    """The meaning of the variants on the page, as an expandable list of terms."""
    meanings = yaml.safe_load(package_text("kbench.report.page", "variants.yaml"))
    variants = sorted(
        {comparison.problem.variant for comparison in comparisons if comparison.problem.variant}
    )
    option_names = {option.partition("=")[0] for name in variants for option in name.split(",")}
    items = "".join(
        f"<dt>{escaped(name)}</dt><dd>{escaped(meanings[name])}</dd>"
        for name in sorted(option_names)
        if name in meanings
    )
    summary = "<summary>What the variants in parentheses mean</summary>"
    return f"<details>{summary}<dl>{items}</dl></details>" if items else ""
