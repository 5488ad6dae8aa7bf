"""Elements of the web pages: tables, charts, legends and notes.

These functions escape text; docstrings say which arguments are HTML already. `charts` escapes the
text of its SVG.
"""

from collections.abc import Iterable, Sequence
from html import escape

from kbench.report.charts.style import Style
from kbench.report.charts.svg import Chart, inline
from kbench.report.safe import printable
from kbench.report.sheet import Sheet

# Largest number of characters of a unit, which never stands alone on a line of a header. Set by
# hand.
_MAX_UNIT = 2

# Number of columns that fit on a landscape page of A4; wider tables are printed on A3. Set by hand.
_MAX_A4_COLUMNS = 20


def escaped(text: object) -> str:
    """Text as HTML."""
    return escape(printable(str(text), keep="\n\t\u2007\u2008"))


def element(tag: str, content: str = "", **attributes: object) -> str:
    """An element around the HTML `content`; attributes that are None or "" are left out.

    A trailing underscore of a name is dropped, others become hyphens: `class_`, `data_r`.
    """
    attribute_text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
        if value is not None and value != ""
    )
    return f"<{tag}{attribute_text}>{content}</{tag}>"


def cell(text: object, kind: str = "") -> str:
    """A cell of text; numbers stand on the right, the kinds `word` and `long` on the left."""
    return element("td", escaped(text), class_=kind)


def link(text: object, id: str) -> str:
    """A link to the element `id` of the page."""
    return element("a", escaped(text), href=f"#{id}")


def paragraph(text: object) -> str:
    """A paragraph of small print, such as an explanation above a table."""
    return element("p", escaped(text), class_="about")


def row_header(content: str, kind: str = "") -> str:
    """The first cell of a line; `content` is HTML."""
    return element("th", content, scope="row", class_=kind)


def header(
    text: str, *, direction: str = "", kind: str = "", name: str = "", beside: str = ""
) -> str:
    """A column's header with a button that sorts; `direction` says which values are better.

    A unit and the arrow stay with the word before them. Screen readers read `name` in place of the
    text. `beside` is HTML that is as wide as the deviations on the right of the column's values.
    """
    arrow = {"max": "\u00a0<span>↑</span>", "min": "\u00a0<span>↓</span>"}.get(direction, "")
    *first, last = text.split(" ")
    ends_in_unit = bool(first) and len(last) <= _MAX_UNIT
    label = (
        escaped(f"{' '.join(first)}\u00a0{last}" if ends_in_unit else text)
        or '<span class="hidden">row</span>'
    )  # without text, screen readers still need a name for the button
    button = element("button", label + arrow, type="button")
    return element(
        "th", button + beside, scope="col", data_better=direction, class_=kind, aria_label=name
    )


def spanning(text: str, columns: int) -> str:
    """A header over `columns` columns."""
    return element("th", f"<span>{escaped(text)}</span>", scope="colgroup", colspan=columns)


def table(
    label: str, head: Iterable[Sequence[str]], body: Iterable[str], *, spans: str = ""
) -> str:
    """A table that scrolls by itself, below headers that stay.

    label : Description of the table for screen readers
    head : iterable of sequences of str. Lines of header elements.
    body : HTML of the lines
    spans : HTML of column groups
    """
    lines = "".join(f"<tr>{''.join(line)}</tr>" for line in head)
    inner = f"{spans}<thead>{lines}</thead><tbody>{''.join(body)}</tbody>"
    content = element("table", inner)
    # The role is group, because names of regions must differ, and names of tables may be equal.
    return element("div", content, class_="scroll", tabindex=0, role="group", aria_label=label)


def article(content: str, *, title: str = "", wide: bool = False) -> str:
    """A piece of a page: the HTML `content` below a title."""
    heading = element("h3", escaped(title)) if title else ""
    return element("article", heading + content, class_="wide" if wide else "")


def is_wide(columns: int) -> bool:
    """Whether a table with this number of columns is printed on A3."""
    return columns > _MAX_A4_COLUMNS


def sheet_table(
    sheet: Sheet, kinds: Sequence[str] = (), *, titled: bool = True, shown: int | None = None
) -> str:
    """A sheet as an article; `kinds` are classes of the first cells of its lines.

    A button shows the lines after the first `shown`.
    """
    aligned = ["word" if j < sheet.n_text_columns else "" for j in range(len(sheet.header))]
    head = [header(text, kind=kind) for text, kind in zip(sheet.header, aligned, strict=True)]
    body = []
    for i, (first, *others) in enumerate(sheet.rows):
        kind = kinds[i] if kinds else ""
        pairs = zip(others, aligned[1:], strict=True)
        cells = [cell(text, "long" if align else "") for text, align in pairs]
        hidden_class = "more" if shown is not None and i >= shown else ""
        body.append(
            element("tr", row_header(escaped(first), kind) + "".join(cells), class_=hidden_class)
        )
    content = element("div", table(f"Table: {sheet.name}", [head], body), class_="plain")
    if shown is not None and len(sheet.rows) > shown:
        text = f"Show all {len(sheet.rows)} lines"
        content += element("button", text, class_="all", type="button")
    title = sheet.name if titled else ""
    return article(content + notes(sheet.notes), title=title, wide=is_wide(len(head)))


def notes(lines: Sequence[str]) -> str:
    """Remarks below a table."""
    items = "".join(element("li", escaped(line)) for line in lines)
    return element("ul", items, class_="notes") if items else ""


def marker(style: Style) -> str:
    """The marker of a method, in the size of a letter."""
    use = f'<use href="#k{style.marker}"/>'
    return f'<svg class="k c{style.colour}" aria-hidden="true">{use}</svg>'


def legend(entries: Sequence[tuple[str, Style]]) -> str:
    """Markers with their labels."""
    items = "".join(f"<li>{marker(style)}{escaped(label)}</li>" for label, style in entries)
    return element("ul", items, class_="legend") if items else ""


def figure(
    charts: Sequence[Chart],
    entries: Sequence[tuple[str, Style]] = (),
    caption: str = "",
    remarks: Sequence[str] = (),
) -> str:
    """Charts beside each other with legend and caption; without charts, the remarks say why.

    The legend stands above more than six charts (set by hand), so that it is seen with the first.
    """
    if charts:
        svg = "".join(map(inline, charts))
        body = element("div", svg, class_="charts")
    else:
        body = element("div", escaped("; ".join(remarks)), class_="frame")
    caption_html = element("figcaption", escaped(caption), class_="about") if caption else ""
    keys = legend(entries)
    html = element("figure", (keys + body if len(charts) > 6 else body + keys) + caption_html)
    return html + (notes(remarks) if charts else "")
