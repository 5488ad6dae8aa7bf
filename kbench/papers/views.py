"""The papers on a page: lists of claims, tables, figures and studies, with a detail for each.

In a table's detail grey columns hold what the paper prints; a measured cell opens its runs.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.papers.cells import sheets
from kbench.papers.cells.entries import ABSENT, Entry, Filled, Group
from kbench.papers.cells.sheets import coverage
from kbench.papers.claims.decision import Verdict
from kbench.papers.claims.outcomes import OUTCOMES
from kbench.papers.claims.ratios import picture
from kbench.papers.claims.stated import tables_of
from kbench.papers.claims.verdicts import TALLY, by_paper, counts_of, detail, line, tally, tendency
from kbench.papers.figures.drawing import Drawing
from kbench.papers.figures.figure import figures
from kbench.papers.printed.layout import PAPERS, TableLayout, legend, paper
from kbench.papers.studies import OVER_SETS
from kbench.report.comparisons.cells import describe_machine, title
from kbench.report.page.site import Item, RowStore, View
from kbench.report.page.tags import (
    article,
    cell,
    element,
    escaped,
    figure,
    header,
    link,
    notes,
    paragraph,
    row_header,
    sheet_table,
    spanning,
    table,
)
from kbench.report.sheet import Sheet, pieces

_MEANINGS = "".join(f"<dt>{escaped(kind)}</dt><dd>{escaped(kind.means)}</dd>" for kind in OUTCOMES)

# Number of characters of value columns that fit beside the row names in a window of 1,280 pixels,
# and of a column's padding. Set by hand.
_MAX_CHARS, _PADDING_CHARS = 150, 2


def front(verdicts: Sequence[Verdict], systems: Sequence[Sheet]) -> str:
    """The papers on the first screen: a line for each, and a mark for each claim."""
    from_papers = [verdict for verdict in verdicts if not verdict.claim.ours]
    if not from_papers:
        return ""
    long_headers = ("headline", "printed/measured", "speed-up by code/by idea, median")
    head = [*map(header, ("paper", *TALLY)), *(header(name, kind="word") for name in long_headers)]
    studies = {sheet.name.partition(":")[0]: (i + 1, sheet) for i, sheet in enumerate(systems)}
    body = []
    for name, group in by_paper(from_papers).items():
        first = next((verdict for verdict in group if verdict.printed is not None), group[0])
        parts = line(first)
        headline = link(first.claim.says, claim_id(verdicts.index(first)))
        state = ", ".join(filter(None, (str(first.outcome), tendency(first))))
        measured = parts.measured if first.worst else f"{parts.measured} on {parts.data}"
        idea = (
            f"{parts.idea} on {first.idea.worst}" if first.idea and first.idea.worst else parts.idea
        )
        figures = {"printed": parts.printed, "measured": measured, "idea alone": idea}
        texts = [f"{kind} {figure}" for kind, figure in figures.items() if figure]
        cells = row_header(escaped(name)) + "".join(map(cell, tally(group)))
        cells += element("td", headline + element("div", escaped(state)), class_="long")
        cells += cell(", ".join(texts), "long")
        number, study = studies.get(name, (0, None))
        gains = _median_gains(study)
        cells += element("td", gains and link(gains, f"systems-{number}"), class_="long")
        body.append(f"<tr>{cells}</tr>")
    answer = element("p", escaped(f"Of {len(from_papers)} claims {counts_of(from_papers)}."))
    heading = element("h3", "Did the papers' claims hold?") + answer
    meaning = element("summary", "What the columns mean") + paragraph(legend("outcomes", "papers"))
    heading += element("details", meaning, class_="meanings")
    return heading + table("The papers", [head], body) + picture(verdicts, claim_id)


def _median_gains(study: Sheet | None) -> str:
    """The median gain of each part of a study, and its number of data sets."""
    last = [row for row in study.rows if row[0] == OVER_SETS] if study is not None else []
    if study is None or not last:
        return ""
    gains = zip(study.header, last[0], strict=True)
    return "; ".join(
        f"{name[2:]}: {text}" for name, text in gains if name.startswith("× ") and text
    )


def claims_views(verdicts: Sequence[Verdict]) -> list[View]:
    """Two views, of the papers' claims and of our own questions, with a line for each claim."""
    names = ("verdict", "claim", "printed", "measured", "idea alone", "data, % of the paper's rows")
    meanings = element("summary", "What the verdicts mean") + element("dl", _MEANINGS)
    explanation = element("details", meanings, class_="meanings")
    views = []
    for id, name, ours in (("claims", "Claims", False), ("questions", "Our questions", True)):
        numbered = {n: verdict for n, verdict in enumerate(verdicts) if verdict.claim.ours is ours}
        counts = counts_of(numbered.values())
        text = f"Of the papers' claims {counts}. {legend('claims', 'claims_page')}"
        if ours:
            text = f"These are statements of ours, which no paper makes: {counts}."
        # Papers print no number for our own questions.
        head = [header(name, kind="word") for name in (names[:2] + names[3:] if ours else names)]
        items = [_claim_item(verdict, number) for number, verdict in numbered.items()]
        views.append(View(id, name, head, items, paragraph(text) + explanation))
    return views


def _claim_item(verdict: Verdict, number: int) -> Item:
    texts, outcome = line(verdict), verdict.outcome
    claim, name = verdict.claim, paper(verdict.claim.paper).title
    links = ", ".join(link(layout.number, _detail_id(layout)) for layout in tables_of(claim))
    badge = element("span", escaped(outcome), class_=f"badge {outcome.badge}".strip())
    badge += element("div", escaped(tendency(verdict)), class_="links")
    content = element("p", escaped(" ".join(detail(verdict)))) + element("p", links, class_="links")
    details = element("details", element("summary", escaped(f"{name}: {claim.says}")) + content)
    cells = row_header(badge, "word")
    cells += element("td", details, class_="long claim", id=claim_id(number))
    cells += "" if claim.ours else cell(texts.printed, "word")
    cells += cell(texts.measured, "long")
    cells += cell(texts.idea, "word") + cell(texts.data, "long")
    facets = {
        "paper": [name],
        "set": sorted({share.partition(" (")[0] for share in verdict.shares}),
        "method": sorted({method for cell in claim.cells for method in cell.wanted.methods}),
        "verdict": [outcome.word, str(outcome)],
    }
    return Item(cells, facets)


def claim_id(number: int) -> str:
    """The HTML id of a claim, from its place in the file."""
    return f"claim-{number + 1}"


def tables_view(
    filled: Sequence[Filled],
    verdicts: Sequence[Verdict],
    environments: Mapping[str, Any],
    store: RowStore,
) -> View:
    """A list of tables with their numbers of measured cells, and a detail for each."""
    head = [header("table"), header("caption", kind="word"), header("cells")]
    head += [header("on the paper's data"), header("on stand-ins"), header("no value")]
    outcomes: dict[str, list[str]] = {}
    for verdict in verdicts:
        for layout in tables_of(verdict.claim):
            outcomes.setdefault(layout.id, []).extend([verdict.outcome.word, str(verdict.outcome)])
    items = []
    for _, group in itertools.groupby(filled, key=lambda form: form.table.id):
        members = list(group)
        layout = members[0].table
        detail = "".join(_table(form, environments, store) for form in members)
        count = coverage(members)
        counts = count.cells, count.own or "", count.stand_in or "", count.not_run or ""
        cells = row_header(link(layout.title, _detail_id(layout))) + cell(layout.caption, "long")
        cells += "".join(map(cell, counts))
        matches = [e.match for form in members for g in form.groups for e in g.entries if e.match]
        facets = {
            "paper": [paper(layout.paper).title],
            "set": sorted({match.line.problem.dataset for match in matches}),
            "method": sorted({match.line.method for match in matches}),
            "verdict": outcomes.get(layout.id, []),
        }
        items.append(
            Item(cells, facets, _detail_id(layout), detail, f"{layout.title}: {layout.caption}")
        )
    return View("tables", "Tables", head, items, paragraph(legend("table", "clocks", "ratio")))


def _detail_id(layout: TableLayout) -> str:
    """The HTML id of a table's detail, which differs from that of a figure of the same name."""
    return (
        f"{layout.id}_table" if any(layout.id == figure.name for figure in figures()) else layout.id
    )


def figures_view(drawings: Sequence[Drawing]) -> View:
    """Every figure with its charts."""
    head = [header("figure"), header("caption", kind="word"), header("panels with rows")]
    items = []
    for drawing in drawings:
        shown = drawing.figure
        cells = row_header(link(shown.title, shown.name))
        cells += cell(shown.caption, "long") + cell(f"{len(drawing.charts)} of {len(shown.panels)}")
        wanted = [line[0] for panel in shown.panels for line in panel.lines.values()]
        methods = {name for selector in wanted for name in selector.methods}
        facets = {"paper": [paper(shown.paper).title], "method": sorted(methods)}
        caption = f"In the paper: {shown.printed or 'no value'}."
        detail = article(figure(drawing.charts, drawing.legend, caption, drawing.remarks))
        items.append(Item(cells, facets, shown.name, detail, f"{shown.title}: {shown.caption}"))
    return View("figures", "Figures", head, items)


def studies_view(studies: Mapping[str, Sequence[Sheet]]) -> View:
    """Algorithm against implementation, budgets, and counts of cells."""
    items = []
    for kind, group in studies.items():
        for i, sheet in enumerate(group):
            id = f"{kind}-{i + 1}"
            cells = row_header(link(sheet.name, id)) + cell(legend(f"study_{kind}"), "long")
            items.append(Item(cells, {}, id, sheet_table(sheet, titled=False), sheet.name))
    head = [header("study"), header("what it answers", kind="word")]
    return View("studies", "Studies", head, items)


def papers_of_sets() -> dict[str, list[str]]:
    """Data set of kbench -> titles of the papers whose data the set or a part of it replaces."""
    papers: dict[str, list[str]] = {}
    for printed in map(paper, PAPERS):
        for dataset in {choice.dataset for choices in printed.data.values() for choice in choices}:
            papers.setdefault(dataset, []).append(printed.title)
    return papers


def _table(filled: Filled, environments: Mapping[str, Any], store: RowStore) -> str:
    """The table's printed and measured columns, in pieces that fit the page, and its notes."""
    marks, footnotes = sheets.footnotes(filled)
    tables = []
    widths = [_group_width(group, marks) for group in filled.groups]
    for numbers in pieces(widths, [group.column for group in filled.groups], _MAX_CHARS):
        groups = [filled.groups[j] for j in numbers]
        body = []
        for i, row in enumerate(filled.rows):
            cells = [
                _cells(group, group.entries[i], marks, store, f"{i}-{j}")
                for j, group in zip(numbers, groups, strict=True)
            ]
            body.append(f"<tr>{row_header(escaped(row))}{''.join(cells)}</tr>")
        spans, head = _header_rows(groups)
        columns = ", ".join(dict.fromkeys(group.column for group in groups if group.column))
        label = f"{sheets.heading(filled)}: {columns}" if columns else sheets.heading(filled)
        tables.append(table(label, head, body, spans=spans))
    lines = [*footnotes, *sheets.remarks(filled, environments)]
    machine = describe_machine(filled.machine, environments) if filled.machine else ""
    heading = element("p", escaped(machine), class_="machine")
    return article(heading + element("div", "".join(tables), class_="pieces") + notes(lines))


def _group_width(group: Group, marks: Mapping[str, str]) -> int:
    """The width of a group's columns in characters, with the marks of their notes."""
    printed, measured = len("paper"), 0
    for entry in group.entries:
        in_paper, value = group.texts(entry)
        of_paper = sheets.printed_notes(entry)
        printed = max(printed, len(in_paper) + sum(3 + len(marks[note]) for note in of_paper))
        shown = len(value) if entry.value is not None else min(len(value), len("not present"))
        measured = max(measured, shown + sum(2 + len(marks[note]) for note in entry.notes))
    title = len(group.header.removeprefix(group.column).strip())
    if _is_measured(group):
        printed += max(measured, len("kbench")) + _PADDING_CHARS
    return max(printed, title) + _PADDING_CHARS


def _cells(
    group: Group, entry: Entry, marks: Mapping[str, str], store: RowStore, cell_id: str
) -> str:
    """The printed value, and the measured value with a link to its runs."""
    in_paper, measured = group.texts(entry)
    first = element(
        "td", escaped(in_paper) + _marks_html(sheets.printed_notes(entry), marks), class_="paper"
    )
    if not _is_measured(group):
        return first
    mark_html = _marks_html(entry.notes, marks)
    if entry.match is None or not measured:
        return first + element("td", escaped(measured) + mark_html, class_="absent")
    # The same runs fill several cells, so the link contains the cell's place.
    anchor = link(measured, f"run-{entry.match.line.identifier}-{cell_id}")
    kind = "" if entry.value is not None else "st"
    return first + element("td", anchor + mark_html, class_=kind, data_r=store.places(entry.rows))


def _is_measured(group: Group) -> bool:
    return any(entry.measured for entry in group.entries)


def _marks_html(notes: Sequence[str], marks: Mapping[str, str]) -> str:
    return element("small", " ".join(f"[{marks[note]}]" for note in notes)) if notes else ""


def _header_rows(groups: Sequence[Group]) -> tuple[str, list[list[str]]]:
    """Header rows: columns, below them measures, and below these "paper" and "kbench"."""
    corner = '<th scope="col"><span class="hidden">row</span></th>'
    spans, columns, measures, leaves = ["<colgroup></colgroup>"], [corner], [corner], [corner]
    for column, members_of_column in itertools.groupby(groups, key=lambda group: group.column):
        members, width = list(members_of_column), 0
        for group in members:
            sides = ("paper", "kbench") if _is_measured(group) else ("paper",)
            measures.append(spanning(group.header.removeprefix(column).strip(), len(sides)))
            leaves += [header(side, name=f"{group.header}, {side}") for side in sides]
            width += len(sides)
        entries = [entry for group in members for entry in group.entries]
        sets = {title(cell.match.line.problem) for cell in entries if cell.match and cell.stand_in}
        remark = f"measured on {', '.join(sorted(sets))}" if sets else ""
        if any(entry.absent == ABSENT for entry in entries) and not any(map(_is_measured, members)):
            remark = ABSENT
        columns.append(spanning(", ".join(filter(None, (column, remark))), width))
        spans.append(f'<colgroup span="{width}"></colgroup>')
    named = any(group.column for group in groups)
    return "".join(spans), [columns, measures, leaves] if named else [measures, leaves]
