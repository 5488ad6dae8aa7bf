"""The papers' report as one self-contained web page: tables, claims, systems, figures.

It takes the style, the script and the embedded rows of the page of comparisons: a measured cell
opens the runs behind it, a header sorts, and nothing is asked of a network.
"""

import base64
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from kbench.report.papers import claims as claim
from kbench.report.papers import sheets
from kbench.report.papers.coverage import coverage
from kbench.report.papers.coverage import sheet as coverage_sheet
from kbench.report.papers.drawing import Drawing
from kbench.report.papers.entries import ABSENT, Entry, Filled, Group
from kbench.report.papers.layout import PAPERS, paper
from kbench.report.papers.runs import Found, identity
from kbench.report.papers.verdicts import sheets as verdict_sheets
from kbench.report.profiles import caption
from kbench.report.rankings import Ranking
from kbench.report.rankings import sheet as ranking_sheet
from kbench.report.sheet import Sheet
from kbench.report.tables import Row
from kbench.report.template import filled_template


def page(
    filled: Sequence[Filled],
    verdicts: Sequence[claim.Verdict],
    systems: Sequence[Sheet],
    budgets: Sequence[Sheet],
    profiles: Sequence[tuple[Ranking, str]],
    drawings: Sequence[Drawing],
    environments: Mapping[str, Any],
    remarks: Sequence[str] = (),
) -> str:
    """The page's text.

    Parameters
    ----------
    filled, verdicts, systems, budgets, profiles, drawings
        What there is to show.
    environments : mapping
        Description by id.
    remarks : sequence of str
        Said at the top, such as files that could not be read.
    """
    body = _Page(environments)
    contents = {"claims": ("Claims", _plain(verdict_sheets(verdicts)))}
    contents["cells"] = ("Cells measured", _plain([coverage_sheet(filled)] if filled else []))
    contents["systems"] = ("Algorithm against implementation", _plain(systems))
    contents["budgets"] = ("Budgets for predictions", _plain(budgets))
    ranked = "".join(_ranking(one, drawing) for one, drawing in profiles)
    contents["rankings"] = ("Rankings over data sets", ranked)
    for name in PAPERS:
        tables = "".join(body.table(one) for one in filled if one.table.paper == name)
        shown = _figures([one for one in drawings if one.figure.paper == name])
        contents[name] = (paper(name).title, tables + shown)
    contents = {name: both for name, both in contents.items() if both[1]}
    sections = [_section(name, heading, text) for name, (heading, text) in contents.items()]
    links = " · ".join(
        f'<a href="#{name}">{escape(heading)}</a>' for name, (heading, _) in contents.items()
    )
    used = sorted({one.machine.environment for one in filled if one.machine is not None})
    overview = f'<p class="about">{links}</p><p class="about">{escape(_LEGEND)}</p>'
    return filled_template(
        heading="Papers and measurements",
        summary=_summary(filled, verdicts),
        overview=overview,
        sections="".join(sections),
        environments=environments,
        used=used,
        rows=body.rows,
        remarks=remarks,
    )


_LEGEND = (
    "Grey columns hold what a paper prints, its seconds on its own machine; beside them stands"
    " what the rows say, mean ± standard deviation over seeds, or how the run ended. A cell opens"
    f" the runs behind it, a header sorts. {sheets.RATIO}"
)

# So many columns fit on landscape A4; tables of more are printed on A3.
_PRINTED = 20

# What fails is as visible as what holds.
_OUTCOMES = {claim.HOLDS: ' class="holds"', claim.FAILS: ' class="status"'}


class _Page:
    """The rows behind the cells, each once, in the order of the page."""

    def __init__(self, environments: Mapping[str, Any]) -> None:
        self.environments = environments
        self.rows: list[Row] = []
        self._places: dict[Any, tuple[int, int]] = {}

    def table(self, filled: Filled) -> str:
        """An article: the table with a column for the paper and one for the rows, and its notes."""
        marks, notes = sheets.footnotes(filled)
        body = []
        for i, row in enumerate(filled.rows):
            cells = [
                self._cells(group, group.entries[i], marks, f"{filled.table.id}-{i}-{j}")
                for j, group in enumerate(filled.groups)
            ]
            body.append(f'<tr><th scope="row">{escape(row)}</th>{"".join(cells)}</tr>')
        name = f"{filled.table.number}: {filled.table.caption}"
        said = [*notes, *sheets.remarks(filled, self.environments)]
        return _article(name, _head(filled.groups), "".join(body), said, filled.table.id)

    def _cells(self, group: Group, one: Entry, marks: Mapping[str, str], place: str) -> str:
        given, measured = group.words(one)
        first = f'<td class="paper">{escape(given)}{_small(sheets.said_of_paper(one), marks)}</td>'
        if not _measured(group):
            return first
        small = _small(one.notes, marks)
        if one.found is None or not measured:
            return f'{first}<td class="absent">{escape(measured)}{small}</td>'
        kind = "" if one.value is not None else ' class="st"'
        start, count = self._place(one.found)
        # The same runs fill several cells; the address of each is its own.
        link = f'<a href="#run-{one.found.line.address}-{place}">{escape(measured)}</a>'
        return f'{first}<td{kind} data-r="{start} {count}">{link}{small}</td>'

    def _place(self, found: Found) -> tuple[int, int]:
        key = tuple(identity(row) for row in found.line.rows)
        if key not in self._places:
            self._places[key] = len(self.rows), len(found.line.rows)
            self.rows += found.line.rows
        return self._places[key]


def _measured(group: Group) -> bool:
    return any(entry.measured for entry in group.entries)


def _small(notes: Sequence[str], marks: Mapping[str, str]) -> str:
    """The marks of a cell's notes."""
    return f"<small>{' '.join(f'[{marks[note]}]' for note in notes)}</small>" if notes else ""


def _head(groups: Sequence[Group]) -> str:
    """Columns, below them measures, below them the paper's and the measured values."""
    corner = '<th scope="col"></th>'
    spans, columns, measures, leaves = ["<colgroup></colgroup>"], [corner], [corner], [corner]
    for column, of in itertools.groupby(groups, key=lambda one: one.column):
        members, width = list(of), 0
        for group in members:
            sides = ("paper", "kbench") if _measured(group) else ("paper",)
            label = group.header.removeprefix(column).strip()
            measures.append(_over(label, len(sides)))
            leaves += [_header(side, name=f"{group.header}, {side}") for side in sides]
            width += len(sides)
        absent = any(entry.absent for group in members for entry in group.entries)
        gone = absent and not any(map(_measured, members))
        columns.append(_over(f"{column} ({ABSENT})" if gone else column, width))
        spans.append(f'<colgroup span="{width}"></colgroup>')
    named = any(group.column for group in groups)
    rows = [columns, measures, leaves] if named else [measures, leaves]
    return "".join([*spans, "<thead>", *(f"<tr>{''.join(row)}</tr>" for row in rows), "</thead>"])


def _over(text: str, width: int) -> str:
    return f'<th scope="colgroup" colspan="{width}">{escape(text)}</th>'


def _section(name: str, heading: str, content: str) -> str:
    return f'<section id="{name}"><h2>{escape(heading)}</h2>{content}</section>'


def _plain(found: Sequence[Sheet]) -> str:
    """Plain sheets as sortable tables."""
    parts = []
    for sheet in found:
        kinds = ["word" if j < sheet.words else "" for j in range(len(sheet.header))]
        head = f"<thead><tr>{''.join(map(_header, sheet.header, kinds))}</tr></thead>"
        body = []
        for first, *rest in sheet.rows:
            cells = [
                f'<td class="{"long" if kind else ""}">{escape(text)}</td>'
                for text, kind in zip(rest, kinds[1:], strict=True)
            ]
            kind = _OUTCOMES.get(first, "")
            body.append(f'<tr><th scope="row"{kind}>{escape(first)}</th>{"".join(cells)}</tr>')
        parts.append(_article(sheet.name, head, "".join(body), sheet.notes))
    return "".join(parts)


def _article(name: str, head: str, body: str, notes: Sequence[str], id: str = "") -> str:
    label = escape(name)
    own = f' id="{id}"' if id else ""
    if head.count("<button") > _PRINTED:
        own += ' class="wide"'
    return (
        f"<article{own}><h3>{label}</h3>"
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table>'
        f"{head}<tbody>{body}</tbody></table></div>{_notes(notes)}</article>"
    )


def _figures(drawings: Sequence[Drawing]) -> str:
    parts = []
    for one in drawings:
        words = f"{one.figure.title}: {one.figure.caption}"
        if one.svg is None:
            shown = f'<div class="frame">{escape("; ".join(one.remarks))}</div>'
        else:
            shown = _image(one.svg, words)
        below = _notes(one.remarks) if one.svg else ""
        parts.append(f'<article id="{one.figure.name}">{_captioned(shown, words)}{below}</article>')
    return "".join(parts)


def _ranking(ranking: Ranking, drawing: str) -> str:
    """The table, and the profiles below it."""
    words = caption(ranking)
    figure = _captioned(_image(drawing, words), words)
    return f"{_plain([ranking_sheet(ranking)])}<article>{figure}</article>"


def _image(svg: str, words: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    source = f"data:image/svg+xml;base64,{data}"
    return f'<img class="drawing" alt="{escape(words)}" src="{source}">'


def _captioned(shown: str, words: str) -> str:
    return f'<figure>{shown}<figcaption class="about">{escape(words)}</figcaption></figure>'


def _summary(filled: Sequence[Filled], verdicts: Sequence[claim.Verdict]) -> str:
    outcomes = Counter(one.outcome for one in verdicts)
    order = (claim.HOLDS, claim.WEAKER, claim.FAILS, claim.NOT_MEASURABLE, claim.OUTSIDE)
    words = ", ".join(f"{name} {outcomes[name]}" for name in order)
    return f"{coverage(filled)} · {len(verdicts)} claims ({words})"


def _header(text: str, kind: str = "", name: str = "") -> str:
    own = f' class="{kind}"' if kind else ""
    own += f' aria-label="{escape(name)}"' if name else ""
    return f'<th scope="col"{own}><button type="button">{escape(text)}</button></th>'


def _notes(said: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(one)}</li>" for one in said)
    return f'<ul class="notes">{items}</ul>' if items else ""
