"""The papers on a page: lists of claims, tables, figures and studies, with a detail for each.

In a table's detail grey columns hold what the paper prints; a measured cell opens its runs.
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.papers.cells import sheets
from kbench.papers.cells.coverage import Coverage, coverage
from kbench.papers.cells.entry import ABSENT, Entry, Filled, Group
from kbench.papers.claims.decision import (
    FAILS,
    HOLDS,
    NOT_AS_STATED,
    NOT_MEASURABLE,
    NOT_RUN,
    OUTSIDE,
    UNDECIDED,
    WEAKER,
    Verdict,
)
from kbench.papers.claims.stated import methods_of, tables_of
from kbench.papers.claims.verdicts import claimed, refutation, sentence
from kbench.papers.figures.drawing import Drawing, method_styles
from kbench.papers.printed.layout import Table, paper
from kbench.report.charts.profiles import caption, in_profiles, ranking_charts
from kbench.report.comparisons.cells import title
from kbench.report.page.site import Item, RowStore, View
from kbench.report.page.tags import (
    article,
    cell,
    element,
    figure,
    header,
    notes,
    plain,
    row_header,
    spanning,
    table,
    words,
)
from kbench.report.sheet import Sheet
from kbench.report.statistics.rankings import Ranking
from kbench.report.statistics.rankings import sheet as ranking_sheet

_CLAIMS = (
    "A verdict compares a figure of the rows with a bound that the paper's own numbers keep, and"
    " with a looser one. A claim about several data sets is decided by the worst of those with"
    " rows, and does not hold if rows answer fewer than half of its cases. In brackets stands the"
    " share of the paper's rows that a data set has, if it has others. Claims are paraphrases;"
    " words in quotation marks are the paper's. Queries and bounds stand in"
    " kbench/papers/printed/claims.yaml."
)

_TABLES = (
    "Grey columns hold what a paper prints, its seconds on its own machine; beside them stands"
    " what the rows say, mean ± standard deviation over seeds, without ± of one run, or how the"
    f" runs ended. {sheets.CLOCKS} A measured cell opens the runs behind it, a header sorts. "
)

# Number of value columns that fit beside the row names in a window of 1,280 pixels.
_LEAVES = 12

# Classes of verdicts: what fails is as visible as what holds.
_OUTCOMES = {HOLDS: "holds", WEAKER: "weaker", FAILS: "fails"}


def claims_view(verdicts: Sequence[Verdict]) -> View:
    """Every claim with its verdict in a sentence; it links to the tables that it is about."""
    head = [header("verdict", kind="word"), header("what the paper says", kind="word")]
    head += [header("what the rows say", kind="word"), header("where", kind="word")]
    items = []
    for number, verdict in enumerate(verdicts):
        says = verdict.claim
        where = words(f"{paper(says.paper).title}, {says.where}")
        tables = tables_of(says)
        links = ", ".join(element("a", words(of.number), href=f"#{of.id}") for of in tables)
        kind = f"badge {_OUTCOMES.get(verdict.outcome, '')}"
        badge = element("span", words(verdict.outcome), class_=kind)
        cells = (
            row_header(badge, "word")
            + element("td", words(claimed(says)), class_="long", id=claim_id(number))
            + cell(f"{sentence(verdict)} {refutation(verdict)}", "long")
            + element("td", where + element("div", links, class_="links"), class_="long")
        )
        facets = {
            "paper": [paper(says.paper).title],
            "set": sorted({name.partition(" (")[0] for name in verdict.data}),
            "method": sorted(methods_of(says)),
            "verdict": [verdict.outcome],
        }
        items.append(Item(cells, facets))
    return View("claims", "Claims", head, items, element("p", words(_CLAIMS), class_="about"))


def claim_id(number: int) -> str:
    """The address of a claim, by its place in the file."""
    return f"claim-{number + 1}"


def tables_view(
    filled: Sequence[Filled],
    verdicts: Sequence[Verdict],
    environments: Mapping[str, Any],
    store: RowStore,
) -> View:
    """Every table with its number of measured cells, and its detail."""
    head = [header("table"), header("caption", kind="word"), header("cells"), header("measured")]
    head += [header("ended otherwise"), header("no data")]
    outcomes: dict[str, list[str]] = {}
    for verdict in verdicts:
        for of in tables_of(verdict.claim):
            outcomes.setdefault(of.id, []).append(verdict.outcome)
    items = []
    for _, group in itertools.groupby(filled, key=lambda form: form.table.id):
        members = list(group)
        of = members[0].table
        detail = "".join(_table(form, environments, store) for form in members)
        name = f"{paper(of.paper).title} {of.number}"
        count = coverage(members)
        cells = (
            row_header(element("a", words(name), href=f"#{of.id}"))
            + cell(of.caption, "long")
            + "".join(map(cell, _counts(count)))
        )
        matches = [e.match for form in members for g in form.groups for e in g.entries if e.match]
        facets = {
            "paper": [paper(of.paper).title],
            "set": sorted({match.problem.dataset for match in matches}),
            "method": sorted({match.line.method for match in matches}),
            "verdict": outcomes.get(of.id, []),
        }
        items.append(Item(cells, facets, of.id, detail, f"{name}: {of.caption}"))
    about = element("p", words(_TABLES + sheets.RATIO), class_="about")
    return View("tables", "Tables", head, items, about)


def figures_view(drawings: Sequence[Drawing]) -> View:
    """Every figure with its charts."""
    head = [header("figure"), header("caption", kind="word"), header("panels with rows")]
    items = []
    for drawing in drawings:
        of = drawing.figure
        cells = row_header(element("a", words(of.title), href=f"#{of.name}"))
        cells += cell(of.caption, "long") + cell(f"{len(drawing.charts)} of {len(of.panels)}")
        wanted = [line[0] for panel in of.panels for line in panel.lines.values()]
        methods = {name for selector in wanted for name in selector.methods}
        facets = {"paper": [paper(of.paper).title], "method": sorted(methods)}
        detail = article(figure(drawing.charts, drawing.legend, of.caption, drawing.remarks))
        items.append(Item(cells, facets, of.name, detail, f"{of.title}: {of.caption}"))
    return View("figures", "Figures", head, items)


def studies_view(
    counts: Sequence[Sheet],
    systems: Sequence[Sheet],
    budgets: Sequence[Sheet],
    rankings: Sequence[Ranking],
) -> View:
    """Rankings, algorithm against implementation, budgets, and counts of cells and figures."""
    items = []
    for i, ranking in enumerate(rankings):
        charts, legend = ranking_charts(ranking, method_styles(in_profiles(ranking)))
        detail = plain(ranking_sheet(ranking)) + figure(charts, legend, caption(ranking))
        methods = [one.method for one in ranking.standings]
        sets = [title(one.problem) for one in ranking.comparisons]
        facets = {"method": methods, "set": [name.partition(" (")[0] for name in sets]}
        name = ranking_sheet(ranking).name
        items.append(_study(f"ranking-{i + 1}", name, f"over {', '.join(sets)}", detail, facets))
    for kind, studies in (("system", systems), ("budget", budgets), ("count", counts)):
        for i, one in enumerate(studies):
            text = f"{len(one.rows)} lines"
            items.append(_study(f"{kind}-{i + 1}", one.name, text, plain(one), {}))
    head = [header("study"), header("what it has", kind="word")]
    return View("studies", "Studies", head, items)


def summary(filled: Sequence[Filled], verdicts: Sequence[Verdict]) -> str:
    """Number of measured cells, and of claims by outcome."""
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    order = (HOLDS, WEAKER, NOT_AS_STATED, FAILS, UNDECIDED, NOT_RUN, NOT_MEASURABLE, OUTSIDE)
    counts = ", ".join(f"{name} {outcomes[name]}" for name in order)
    return f"{coverage(filled)} · {len(verdicts)} claims ({counts})"


def papers_of(tables: Sequence[Table]) -> dict[str, list[str]]:
    """Data set -> the papers whose tables it stands in."""
    papers: dict[str, list[str]] = {}
    for name in dict.fromkeys(of.paper for of in tables):
        choices = {choice.dataset for several in paper(name).data.values() for choice in several}
        for dataset in choices:
            papers.setdefault(dataset, []).append(paper(name).title)
    return papers


def _study(id: str, name: str, text: str, detail: str, facets: Mapping[str, Sequence[str]]) -> Item:
    cells = row_header(element("a", words(name), href=f"#{id}")) + cell(text, "long")
    return Item(cells, facets, id, detail, name)


def _counts(count: Coverage) -> tuple[int | str, ...]:
    return count.cells, count.measured, count.ended + count.failed or "", count.absent or ""


def _table(filled: Filled, environments: Mapping[str, Any], store: RowStore) -> str:
    """The table with columns of the paper and of the rows, in pieces that fit, and its notes."""
    marks, below = sheets.footnotes(filled)
    pieces = []
    for numbers in _pieces(filled.groups):
        groups = [filled.groups[j] for j in numbers]
        body = []
        for i, row in enumerate(filled.rows):
            cells = [
                _cells(group, group.entries[i], marks, store, f"{i}-{j}")
                for j, group in zip(numbers, groups, strict=True)
            ]
            body.append(f"<tr>{row_header(words(row))}{''.join(cells)}</tr>")
        spans, head = _head(groups)
        columns = ", ".join(dict.fromkeys(group.column for group in groups if group.column))
        label = f"{sheets.heading(filled)}: {columns}" if columns else sheets.heading(filled)
        pieces.append(table(label, head, body, spans=spans))
    lines = [*below, *sheets.remarks(filled, environments)]
    return article(element("div", "".join(pieces), class_="pieces") + notes(lines))


def _pieces(groups: Sequence[Group]) -> list[list[int]]:
    """Numbers of the groups of each piece: whole columns of the paper where they fit."""
    pieces: list[list[int]] = []
    width = 0
    for _, of in itertools.groupby(range(len(groups)), key=lambda j: groups[j].column):
        members = list(of)
        leaves = sum(2 if _measured(groups[j]) else 1 for j in members)
        if not pieces or width + leaves > _LEAVES:
            pieces.append([])
            width = 0
        for j in members:
            wide = 2 if _measured(groups[j]) else 1
            if width + wide > _LEAVES:
                pieces.append([])
                width = 0
            pieces[-1].append(j)
            width += wide
    return pieces


def _cells(
    group: Group, entry: Entry, marks: Mapping[str, str], store: RowStore, place: str
) -> str:
    """The printed and the measured value, the latter with a link to its runs."""
    in_paper, measured = group.words(entry)
    first = element(
        "td", words(in_paper) + _marks(sheets.said_of_paper(entry), marks), class_="paper"
    )
    if not _measured(group):
        return first
    small = _marks(entry.notes, marks)
    if entry.match is None or not measured:
        return first + element("td", words(measured) + small, class_="absent")
    # The same runs fill several cells; the address of each is its own.
    link = element("a", words(measured), href=f"#run-{entry.match.line.address}-{place}")
    kind = "" if entry.value is not None else "st"
    places = store.places(entry.rows)
    return first + element("td", link + small, class_=kind, data_r=places)


def _measured(group: Group) -> bool:
    return any(entry.measured for entry in group.entries)


def _marks(notes: Sequence[str], marks: Mapping[str, str]) -> str:
    """The marks of a cell's notes."""
    return element("small", " ".join(f"[{marks[note]}]" for note in notes)) if notes else ""


def _head(groups: Sequence[Group]) -> tuple[str, list[list[str]]]:
    """Columns, below them measures, below them the paper's and the measured values."""
    corner = '<th scope="col"><span class="hidden">row</span></th>'
    spans, columns, measures, leaves = ["<colgroup></colgroup>"], [corner], [corner], [corner]
    for column, members_of_column in itertools.groupby(groups, key=lambda group: group.column):
        members, width = list(members_of_column), 0
        for group in members:
            sides = ("paper", "kbench") if _measured(group) else ("paper",)
            measures.append(spanning(group.header.removeprefix(column).strip(), len(sides)))
            leaves += [header(side, name=f"{group.header}, {side}") for side in sides]
            width += len(sides)
        absent = any(entry.absent == ABSENT for group in members for entry in group.entries)
        gone = absent and not any(map(_measured, members))
        columns.append(spanning(f"{column} ({ABSENT})" if gone else column, width))
        spans.append(f'<colgroup span="{width}"></colgroup>')
    named = any(group.column for group in groups)
    return "".join(spans), [columns, measures, leaves] if named else [measures, leaves]
