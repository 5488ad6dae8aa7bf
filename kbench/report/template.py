"""A web page without its contents: style, marks, script, environments and embedded rows."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from kbench import __version__
from kbench.report.embedded import rows_json
from kbench.report.style import COLOURS, MARKERS
from kbench.report.tables import Row


def filled_template(
    *,
    heading: str,
    summary: str,
    overview: str,
    sections: str,
    environments: Mapping[str, Mapping[str, Any]],
    used: Sequence[str],
    rows: Sequence[Row],
    remarks: Sequence[str],
    menus: str = "",
) -> str:
    """A whole page with the style, the marks, the script and the rows that it embeds.

    `heading`, `summary` and `remarks` are words; `overview`, `sections` and `menus` are HTML;
    `used` are the ids of the environments to describe, `rows` what `data-r` counts.
    """
    template = files("kbench.report").joinpath("page")
    parts = {
        "title": escape(heading),
        "style": template.joinpath("page.css").read_text() + _colour_rules(),
        "markers": _symbols(),
        "menus": menus,
        "summary": escape(summary),
        "remarks": "".join(f'<p class="remark">{escape(remark)}</p>' for remark in remarks),
        "overview": overview,
        "sections": sections,
        "environments": "".join(_environment(name, environments) for name in used),
        "version": escape(__version__),
        "rows": rows_json(rows),
        "script": template.joinpath("page.js").read_text(),
    }
    text = template.joinpath("page.html").read_text()
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], text)


def _symbols() -> str:
    paths = "".join(
        f'<path id="s{i}" d="{outline}"/>'
        f'<symbol id="k{i}" viewBox="-7 -7 14 14"><use href="#s{i}"/></symbol>'
        for i, outline in enumerate(MARKERS)
    )
    return f'<svg class="defs" aria-hidden="true"><defs>{paths}</defs></svg>'


def _colour_rules() -> str:
    return "".join(
        f".c{i}{{--k:light-dark({light},{dark})}}\n" for i, (light, dark) in enumerate(COLOURS)
    )


def _environment(name: str, environments: Mapping[str, Mapping[str, Any]]) -> str:
    facts = {**environments.get(name, {})}
    packages = facts.pop("packages", None) or {}
    facts |= {"packages": ", ".join(f"{package} {v}" for package, v in sorted(packages.items()))}
    listed = "".join(
        f"<dt>{escape(str(key)).replace('_', ' ')}</dt><dd>{escape(str(value))}</dd>"
        for key, value in facts.items()
        if value
    )
    listed = listed or "<dt>no description</dt><dd>its file is not in the results folder</dd>"
    return f'<div class="card"><h3>{escape(name)}</h3><dl>{listed}</dl></div>'
