"""A web page with an overview, search and filters, and a detail for each of its items.

The overview is HTML that is readable without scripts. The bundle holds the details (tables, charts)
and the rows behind the details as one zlib-compressed JSON object in base64: `{"details": {id:
HTML}, "rows": columns}`, with the columns of `kbench.report.page.embedded`. The script of the page
unpacks the bundle when the first detail is opened. The bundle is part of the page, or a script
beside the page, so that the overview of thousands of rows opens at once. A content security policy
forbids all other scripts, whatever a row holds.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from kbench import __version__
from kbench.report.charts.style import COLOURS, MARKERS
from kbench.report.comparisons.tables import Row
from kbench.report.page.embedded import packed_rows
from kbench.report.page.tags import element, escaped, table
from kbench.report.statistics.days import Days

# The filters of the overview: attribute of an item -> title of its menu.
FACETS = {"paper": "Paper", "set": "Data set", "method": "Method", "verdict": "Verdict"}


class RowStore:
    """The rows behind a page's cells, without duplicates."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._index_of_row: dict[tuple[Any, ...], int] = {}

    def places(self, rows: Sequence[Row]) -> str:
        """The indices of `rows` in the store, for the attribute `data-r` of their cell."""
        indices = []
        for row in rows:
            identity = (row["key"], row["environment"], row["threads"], row["started_at"])
            if identity not in self._index_of_row:
                self._index_of_row[identity] = len(self.rows)
                self.rows.append(row)
            indices.append(self._index_of_row[identity])
        return ",".join(map(str, indices))


@dataclass(frozen=True)
class Item:
    """A line of a list, and the detail that it opens."""

    cells: str  # HTML of the line's cells, of which the first is a row header
    # Facet -> the values by which filters find the item; facets outside `FACETS` are ignored.
    facets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # HTML id, HTML and title of the detail; empty if there is none.
    id: str = ""
    detail: str = ""
    title: str = ""

    @property
    def line(self) -> str:
        """The line's HTML; filters read its attributes, whose values are separated by bars."""
        values = {
            f"data_{name}": f"|{'|'.join(dict.fromkeys(self.facets.get(name, ())))}|"
            for name in FACETS
            if self.facets.get(name)
        }
        return element("tr", self.cells, **values)


@dataclass(frozen=True)
class View:
    """A list of items below a heading: `head` are its header elements, `above` is HTML."""

    id: str
    title: str
    head: Sequence[str]
    items: Sequence[Item]
    above: str = ""


@dataclass(frozen=True)
class Site:
    """A page, and the bundle of its details and rows."""

    parts: Mapping[str, str]  # Placeholder of the template -> its text, without the bundle
    bundle: str  # Base64

    def one_file(self) -> str:
        """The page with its bundle."""
        return self._filled(self.bundle)

    def two_files(self, name: str) -> tuple[str, str]:
        """The page, and the script `name` beside the page that holds the bundle.

        Both hold a digest of 64 bits, by which the page recognises a bundle of other rows.
        """
        digest = hashlib.sha256(self.bundle.encode()).hexdigest()[:16]
        text = self._filled("", data_src=name, data_digest=digest)
        return text, f'kbenchBundle("{digest}", "{self.bundle}");\n'

    def _filled(self, content: str, **attributes: str) -> str:
        bundle = element("script", content, type="text/plain", id="bundle", **attributes)
        # A page of two files may load scripts that its own script requests; other pages may not.
        trusted = " 'strict-dynamic'" if attributes else ""
        parts = {**self.parts, "bundle": bundle, "trusted": trusted}
        template = files("kbench.report").joinpath("page", "page.html").read_text()
        return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def site(
    *,
    heading: str,
    summary: str,
    front: str,
    views: Sequence[View],
    rows: Sequence[Row],
    environments: Mapping[str, Mapping[str, Any]],
    days: Days,
    environment_ids: Sequence[str],
    remarks: Sequence[str] = (),
) -> Site:
    """A page.

    heading, summary : Texts
    front : HTML of the overview
    rows : sequence of mapping. The rows to which `data-r` of the details refers by index.
    environments, days : Descriptions by id, and the days of runs
    environment_ids : Environments that the page describes
    remarks : Lines at the top of the page, such as files that could not be read
    """
    filled_views = [view for view in views if view.items]
    machines = "".join(_environment(name, environments, days) for name in environment_ids)
    links = [("overview", "Overview"), *((view.id, view.title) for view in filled_views)]
    links.append(("environments", "Environments"))
    items = [item for view in filled_views for item in view.items]
    details = {
        item.id: {"title": item.title, "view": view.id, "html": item.detail}
        for view in filled_views
        for item in view.items
        if item.detail
    }
    bundle = {"details": details, "rows": packed_rows(rows)}
    template = files("kbench.report").joinpath("page")
    script = template.joinpath("page.js").read_text()
    colours = (f".c{i}{{--k:light-dark({a},{b})}}\n" for i, (a, b) in enumerate(COLOURS))
    parts = {
        "title": escaped(heading),
        "style": template.joinpath("page.css").read_text() + "".join(colours),
        "hash": base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode(),
        "markers": _marker_symbols(),
        "links": "".join(f'<a href="#{id}">{escaped(name)}</a>' for id, name in links),
        "filters": "".join(_menu(name, items) for name in FACETS),
        "summary": escaped(summary),
        "remarks": "".join(element("p", escaped(remark), class_="remark") for remark in remarks),
        "front": front,
        "views": "".join(map(_view, filled_views)),
        "environments": machines,
        "version": escaped(__version__),
        "script": script,
    }
    return Site(parts, _compressed(bundle))


def _compressed(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _view(view: View) -> str:
    content = table(view.title, [view.head], [item.line for item in view.items])
    no_match = '<p class="none" hidden>Nothing here matches the search and the filters.</p>'
    heading = f"<h2>{escaped(view.title)}</h2>"
    return element("section", heading + view.above + content + no_match, id=view.id)


def _menu(name: str, items: Sequence[Item]) -> str:
    """A drop-down list of the values that any item has."""
    values = sorted({value for item in items for value in item.facets.get(name, ())})
    if len(values) < 2:
        return ""
    options = "".join(element("option", escaped(value)) for value in ("", *values))
    options = options.replace("<option></option>", '<option value="">any</option>', 1)
    menu = element("select", options, id=f"filter-{name}", data_facet=name)
    return element("label", f"<span>{FACETS[name]}</span>{menu}")


def _marker_symbols() -> str:
    paths = "".join(
        f'<symbol id="k{i}" viewBox="-7 -7 14 14"><path d="{outline}"/></symbol>'
        for i, outline in enumerate(MARKERS)
    )
    return f'<svg class="defs" aria-hidden="true"><defs>{paths}</defs></svg>'


def _environment(name: str, environments: Mapping[str, Mapping[str, Any]], days: Days) -> str:
    facts = {**environments.get(name, {})}
    titles = {"blas": "BLAS", "cpu": "CPU", "logical_cpus": "logical CPUs", "os": "OS"}
    titles |= {"python": "Python", "ram_gib": "RAM, GiB", "simd": "SIMD", "kernel": "OS kernel"}
    facts = {titles.get(key, key): fact for key, fact in facts.items()}
    facts |= {"days of its runs": days.summary(name)}
    packages = facts.pop("packages", None) or {}
    facts |= {"packages": ", ".join(f"{package} {v}" for package, v in sorted(packages.items()))}
    items = "".join(
        f"<dt>{escaped(key).replace('_', ' ')}</dt><dd>{escaped(value)}</dd>"
        for key, value in facts.items()
        if value
    )
    items = items or "<dt>no description</dt><dd>its file is not in the results folder</dd>"
    return f'<div class="card"><h3>{escaped(name)}</h3><dl>{items}</dl></div>'
