"""The papers on a page: lists of claims, tables, figures and studies, with a detail for each.

In a table's detail grey columns hold what the paper prints; a measured cell opens its runs.
"""

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.papers.cells import sheets
from kbench.papers.cells.coverage import Coverage, coverage
from kbench.papers.cells.entry import ABSENT, Entry, Filled, Group
from kbench.papers.claims.decision import Verdict
from kbench.papers.claims.outcomes import FAILS, HOLDS, OUTCOMES
from kbench.papers.claims.ratios import picture
from kbench.papers.claims.stated import methods_of, tables_of
from kbench.papers.claims.verdicts import at_hand, counted, detail, line, of_papers, on_own_data
from kbench.papers.figures.drawing import Drawing, method_styles
from kbench.papers.figures.figure import figures
from kbench.papers.printed.layout import Table, legend, paper
from kbench.report.charts.profiles import caption, in_profiles, ranking_charts
from kbench.report.comparisons.cells import title
from kbench.report.comparisons.quantities import decimals_for
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
from kbench.report.sheet import Sheet, pieces
from kbench.report.statistics.rankings import Ranking
from kbench.report.statistics.rankings import sheet as ranking_sheet

_MEANINGS = "".join(f"<dt>{words(one)}</dt><dd>{words(one.means)}</dd>" for one in OUTCOMES)

# Characters of the value columns that fit beside the row names in a window of 1,280 pixels, and
# those of a column's padding.
_CHARACTERS, _PADDING = 150, 2


def front(verdicts: Sequence[Verdict], systems: Sequence[Sheet]) -> str:
    """The papers on the first screen: a line for each, and a mark for each claim."""
    theirs = [verdict for verdict in verdicts if not verdict.claim.ours]
    if not theirs:
        return ""
    names = ["paper", "hold", "do not", "open", "on own data"]
    names += ["headline", "printed", "measured", "idea alone", "code against idea"]
    long = ("headline", "measured", "code against idea")
    head = [header(name, kind="word" if name in long else "") for name in names]
    places = {id(verdict): number for number, verdict in enumerate(verdicts)}
    studies = {sheet.name.partition(":")[0]: sheet for sheet in systems}
    body = []
    for name, several in of_papers(theirs).items():
        first = next((one for one in several if one.printed is not None), several[0])
        says = line(first)
        held, failed = (sum(one.outcome is side for one in several) for side in (HOLDS, FAILS))
        kept, missed = (sum(one.kept_by_rows is side for one in several) for side in (True, False))
        still_open = f"{len(several) - held - failed} ({kept}, {missed})"
        link = element("a", words(says.claim), href=f"#{claim_id(places[id(first)])}")
        cells = row_header(words(name))
        cells += "".join(map(cell, (held, failed, still_open, on_own_data(several))))
        cells += element("td", link, class_="long") + cell(says.printed)
        cells += cell(says.measured, "long") + cell(says.idea)
        body.append(f"<tr>{cells}{cell(_parts(studies.get(name)), 'long')}</tr>")
    title = element("h3", "Did the papers' claims hold?")
    about = element("p", words(legend("papers")), class_="about")
    return title + about + table("The papers", [head], body) + picture(verdicts, claim_id)


def _parts(study: Sheet | None) -> str:
    """The median factor of each part of a gain over the data sets of a study."""
    if study is None:
        return ""
    parts = [j for j, name in enumerate(study.header) if name.startswith("× ")]
    of_part = {}
    for j in parts:
        values = [float(row[j]) for row in study.rows if row[j] and not row[0].startswith("…")]
        if values:
            of_part[study.header[j].removeprefix("× ")] = statistics.median(values)
    return ", ".join(
        f"{name} {value:,.{decimals_for(value, 2)}f} ×" for name, value in of_part.items()
    )


def claims_views(verdicts: Sequence[Verdict]) -> list[View]:
    """The papers' claims, and our own questions: a line each, with details that unfold."""
    head = [header(name, kind="word") for name in ("verdict", "claim", "printed", "measured")]
    head += [header(name, kind="word") for name in ("idea alone", "data, % of the paper's rows")]
    items: dict[bool, list[Item]] = {False: [], True: []}
    for number, verdict in enumerate(verdicts):
        says, name = line(verdict), paper(verdict.claim.paper).title
        tables = tables_of(verdict.claim)
        links = ", ".join(element("a", words(of.number), href=f"#{_address(of)}") for of in tables)
        badge = element(
            "span", words(says.verdict), class_=f"badge {verdict.outcome.badge}".strip()
        )
        badge += element("div", words(at_hand(verdict)), class_="links")
        more = element("p", words(" ".join(detail(verdict)))) + element("p", links, class_="links")
        summary = element("summary", words(f"{name}: {says.claim}"))
        claim = element(
            "td", element("details", summary + more), class_="long claim", id=claim_id(number)
        )
        cells = row_header(badge, "word") + claim + cell(says.printed, "word")
        cells += cell(says.measured, "long") + cell(says.idea, "word") + cell(says.data, "long")
        facets = {
            "paper": [name],
            "set": sorted({one.partition(" (")[0] for one in verdict.shares}),
            "method": sorted(methods_of(verdict.claim)),
            "verdict": [verdict.outcome.word, says.verdict],
        }
        items[verdict.claim.ours].append(Item(cells, facets))
    theirs, own = ([v for v in verdicts if v.claim.ours is side] for side in (False, True))
    counts = f"Of the papers' claims {counted(theirs)}. {legend('claims', 'claims_page')}"
    ours = f"Questions that the papers do not ask: {counted(own)}."
    meanings = element("summary", "What the verdicts mean") + element("dl", _MEANINGS)
    about = [element("p", words(text), class_="about") for text in (counts, ours)]
    about = [text + element("details", meanings, class_="meanings") for text in about]
    return [
        View("claims", "Claims", head, items[False], about[0]),
        View("questions", "Our questions", head, items[True], about[1]),
    ]


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
    head = [header("table"), header("caption", kind="word"), header("cells")]
    head += [header("on the paper's data"), header("on stand-ins"), header("not run")]
    outcomes: dict[str, list[str]] = {}
    for verdict in verdicts:
        for of in tables_of(verdict.claim):
            outcomes.setdefault(of.id, []).extend([verdict.outcome.word, str(verdict.outcome)])
    items = []
    for _, group in itertools.groupby(filled, key=lambda form: form.table.id):
        members = list(group)
        of = members[0].table
        detail = "".join(_table(form, environments, store) for form in members)
        name = f"{paper(of.paper).title} {of.number}"
        count = coverage(members)
        cells = (
            row_header(element("a", words(name), href=f"#{_address(of)}"))
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
        items.append(Item(cells, facets, _address(of), detail, f"{name}: {of.caption}"))
    about = element("p", words(legend("table", "clocks", "ratio")), class_="about")
    return View("tables", "Tables", head, items, about)


def _address(of: Table) -> str:
    """The address of a table's detail; one that is printed for a figure has not the figure's."""
    return f"{of.id}_table" if any(of.id == one.name for one in figures()) else of.id


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
        caption = f"{of.caption}. In the paper: {of.printed or 'no value'}."
        detail = article(figure(drawing.charts, drawing.legend, caption, drawing.remarks))
        items.append(Item(cells, facets, of.name, detail, f"{of.title}: {of.caption}"))
    return View("figures", "Figures", head, items)


def studies_view(studies: Mapping[str, Sequence[Sheet]], rankings: Sequence[Ranking]) -> View:
    """Rankings, then algorithm against implementation, budgets, and counts of cells."""
    items = []
    for i, ranking in enumerate(rankings):
        charts, marks = ranking_charts(ranking, method_styles(in_profiles(ranking)))
        sheet = ranking_sheet(ranking)
        detail = plain(sheet) + figure(charts, marks, caption(ranking))
        methods = [one.method for one in ranking.standings]
        sets = [title(one.problem) for one in ranking.comparisons]
        facets = {"method": methods, "set": [name.partition(" (")[0] for name in sets]}
        text = f"over {', '.join(sets)}"
        items.append(_study(f"ranking-{i + 1}", sheet.name, text, detail, facets))
    for kind, several in studies.items():
        for i, one in enumerate(several):
            text = f"{len(one.rows)} lines"
            items.append(_study(f"{kind}-{i + 1}", one.name, text, plain(one), {}))
    head = [header("study"), header("what it has", kind="word")]
    return View("studies", "Studies", head, items)


def summary(filled: Sequence[Filled], verdicts: Sequence[Verdict]) -> str:
    """Number of measured cells, and of the papers' claims by outcome."""
    claims = [one for one in verdicts if not one.claim.ours]
    texts = [str(coverage(filled))] if filled else []
    if claims:
        texts.append(f"{len(claims)} claims of the papers: {counted(claims)}")
    return " · ".join(texts)


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
    return count.cells, count.own or "", count.stand_in or "", count.not_run or ""


def _table(filled: Filled, environments: Mapping[str, Any], store: RowStore) -> str:
    """The table with columns of the paper and of the rows, in pieces that fit, and its notes."""
    marks, below = sheets.footnotes(filled)
    made = []
    widths = [_characters(group, marks) for group in filled.groups]
    for numbers in pieces(widths, [group.column for group in filled.groups], _CHARACTERS):
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
        made.append(table(label, head, body, spans=spans))
    lines = [*below, *sheets.remarks(filled, environments)]
    return article(element("div", "".join(made), class_="pieces") + notes(lines))


def _characters(group: Group, marks: Mapping[str, str]) -> int:
    """The width of the columns of a group, with the marks of their notes, in characters."""
    printed, measured = len("paper"), 0
    for entry in group.entries:
        in_paper, value = group.words(entry)
        of_paper = sheets.said_of_paper(entry)
        printed = max(printed, len(in_paper) + sum(3 + len(marks[note]) for note in of_paper))
        shown = len(value) if entry.value is not None else min(len(value), len("not present"))
        measured = max(measured, shown + sum(2 + len(marks[note]) for note in entry.notes))
    title = len(group.header.removeprefix(group.column).strip())
    if not _measured(group):
        return max(printed, title) + _PADDING
    return max(printed + max(measured, len("kbench")) + _PADDING, title) + _PADDING


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
