"""The web page of a results folder: the data sets, and what plug-ins add."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from kbench.report.charts.reliability import Groups, Run
from kbench.report.charts.search_chart import Searched
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.reading import package_text
from kbench.report.comparisons.tables import Comparison
from kbench.report.page.additions import Contribution
from kbench.report.page.data_view import data_view, own_results
from kbench.report.page.data_view import summary as data_summary
from kbench.report.page.site import RowStore, Site, View, site
from kbench.report.page.tags import about, element, plain, words
from kbench.report.sheet import Sheet

# What a reader has before him, and what the words of the page stand for.
_ABOUT = (
    "kbench runs experiments with large-scale kernel machines and their rivals, and this page shows"
    " the runs of a results folder. A run is one method with one setting and seed on one data set;"
    " the number of an environment stands for a machine with its software (Environments)."
)

# How a reader takes the rankings of the overview for data of his own.
_RANKED = (
    "The first lines are the best choices for a task, of methods with defaults or with a search on"
    " training rows. % behind is the median relative difference to the best score of a data set;"
    " fit s and predict s are seconds for 10,000 rows. For a table of your own of, say, 20,000 rows"
    " and 30 columns, kbench report ranking task=regression n=20000 d=30 ranks the methods on data"
    " of such sizes alone. kbench list methods says what the names stand for."
)

# Number of methods that the overview shows for each task; the others are folded. Set by hand.
_FIRST = 6


def page(
    comparisons: Sequence[Comparison],
    environments: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Quantity],
    *,
    settings: int,
    contributions: Sequence[Contribution] = (),
    remarks: Sequence[str] = (),
    reliability: Mapping[Run, Groups] | None = None,
    searched: Mapping[Run, Searched] | None = None,
    standings: Sequence[Sheet] = (),
) -> Site:
    """Build the page of a results folder.

    Parameters
    ----------
    comparisons : The data sets; may be empty
    environments : Description by id
    columns : Shown beside the score of a data set
    settings : Lines of a method that a data set's table shows at first
    contributions : The reports of plug-ins; their views precede the data sets, their studies follow
        them.
    remarks : Lines at the top of the page, such as files that could not be read
    reliability : As `reliability_curves` returns it
    searched : As `searches` returns it
    standings : Rankings of the methods, one for each task; they come first
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
                reliability=reliability,
                searched=searched,
            )
        )
    views += [view for addition in additions for view in addition.studies]
    own = own_results([comparison for comparison in comparisons if _has_own(comparison)])
    used = {comparison.machine.environment for comparison in comparisons}
    return site(
        heading="kbench report",
        summary=" · ".join(summaries),
        front=about(_ABOUT) + _rankings(standings) + "".join(one.front for one in additions) + own,
        views=views,
        rows=store.rows,
        environments=environments,
        used=sorted(used.union(*(addition.environments for addition in additions))),
        remarks=remarks,
    )


def _has_own(comparison: Comparison) -> bool:
    """Whether a row of a comparison did not come with kbench."""
    return any(row["origin"] == "own" for line in comparison.lines for row in line.rows)


def _rankings(standings: Sequence[Sheet]) -> str:
    """The best methods of each task, and the others in a fold below."""
    shown = ""
    for sheet in standings:
        first = plain(replace(sheet, rows=sheet.rows[:_FIRST], notes=[]))
        summary = element("summary", words(f"All {len(sheet.rows)} methods, and how they rank"))
        rest = plain(replace(sheet, rows=sheet.rows[_FIRST:]), titled=False)
        shown += element("div", first + element("details", summary + rest), class_="piece")
    heading = element("h3", "Which model for my data?") + about(_RANKED)
    return heading + element("div", shown, class_="pieces") if shown else ""


def _variants(comparisons: Sequence[Comparison]) -> str:
    """The meaning of the variants on the page, as an expandable list of terms."""
    meanings = yaml.safe_load(package_text("kbench.report.page", "variants.yaml"))
    shown = sorted(
        {comparison.problem.variant for comparison in comparisons if comparison.problem.variant}
    )
    parts = {part.partition("=")[0] for name in shown for part in name.split(",")}
    listed = "".join(
        f"<dt>{words(name)}</dt><dd>{words(meanings[name])}</dd>"
        for name in sorted(parts)
        if name in meanings
    )
    summary = "<summary>What the variants in parentheses mean</summary>"
    return f"<details>{summary}<dl>{listed}</dl></details>" if listed else ""
