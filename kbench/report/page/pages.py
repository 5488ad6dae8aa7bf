"""The web page of a results folder: data sets, the papers' tables, claims and figures, studies."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from kbench.papers import views
from kbench.papers.claims.ratios import picture
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.charts.reliability import Groups, Run
from kbench.report.charts.search_chart import Searched
from kbench.report.comparisons.quantities import Quantity
from kbench.report.comparisons.reading import package_text
from kbench.report.comparisons.tables import Comparison
from kbench.report.page.data_view import data_view
from kbench.report.page.data_view import summary as data_summary
from kbench.report.page.site import RowStore, Site, View, site
from kbench.report.page.tags import words

if TYPE_CHECKING:
    from kbench.papers.report import Report


def page(
    comparisons: Sequence[Comparison],
    report: "Report | None",
    environments: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Quantity],
    *,
    settings: int,
    remarks: Sequence[str] = (),
    reliability: Mapping[Run, Groups] | None = None,
    searched: Mapping[Run, Searched] | None = None,
) -> Site:
    """The page.

    Parameters
    ----------
    comparisons : sequence of Comparison
        The data sets; may be empty.
    report : Report, optional
        The papers' part of the page.
    environments : mapping
        Description by id.
    columns : sequence of Quantity
        Beside the score of a data set.
    settings : int
        Lines of a method that a data set's table shows at first.
    remarks : sequence of str
        Lines at the top of the page, such as files that could not be read.
    reliability : mapping, optional
        As `reliability_curves` returns it.
    searched : mapping, optional
        As `searches` returns it.
    """
    store = RowStore()
    shown: list[View] = []
    summaries = []
    first = ""
    if report is not None:
        verdicts = report.verdicts
        shown.append(views.claims_view(verdicts))
        shown.append(views.tables_view(report.filled, verdicts, environments, store))
        shown.append(views.figures_view(report.drawings))
        first = picture(report.filled, verdicts, views.claim_id)
        if report.filled or verdicts:
            summaries.append(views.summary(report.filled, verdicts))
    if comparisons or report is None:
        summaries.insert(0, data_summary(comparisons))
    if comparisons:
        tables = [table for name in PAPERS for table in paper(name).tables.values()]
        papers = views.papers_of(tables) if report is not None else {}
        shown.append(
            data_view(
                comparisons,
                environments,
                columns,
                store,
                settings=settings,
                papers=papers,
                legend=_variants(comparisons),
                reliability=reliability,
                searched=searched,
            )
        )
    if report is not None:
        systems, budgets = report.system_sheets(), report.budget_sheets()
        counts = report.counts()
        shown.append(views.studies_view(counts, systems, budgets, report.rankings))
    used = sorted({one.machine.environment for one in comparisons})
    if report is not None:
        known = {one.machine.environment for one in report.filled if one.machine is not None}
        known |= {name for one in report.drawings for name in one.environments}
        used = sorted({*used, *known})
    return site(
        heading="kbench report",
        summary=" · ".join(summaries),
        picture=first,
        views=shown,
        rows=store.rows,
        environments=environments,
        used=used,
        remarks=remarks,
    )


def _variants(comparisons: Sequence[Comparison]) -> str:
    """The meaning of the variants on the page, as an expandable list of terms."""
    meanings = yaml.safe_load(package_text("kbench.report.page", "variants.yaml"))
    shown = sorted({one.problem.variant for one in comparisons if one.problem.variant})
    parts = {part.partition("=")[0] for name in shown for part in name.split(",")}
    listed = "".join(
        f"<dt>{words(name)}</dt><dd>{words(meanings[name])}</dd>"
        for name in sorted(parts)
        if name in meanings
    )
    summary = "<summary>What the variants in parentheses mean</summary>"
    return f"<details>{summary}<dl>{listed}</dl></details>" if listed else ""
