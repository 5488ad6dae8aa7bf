"""Comparisons as one self-contained web page: tables, plots, and every row behind them.

Tables and plots are in the page itself, so that it reads and prints without scripts. The rows are
embedded once, as columns (`rows_json`); the script of the page builds the details of a cell from
them on demand, sorts and filters. A content security policy forbids any request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from html import escape
from typing import Any

from kbench.report.cells import Cell, Grid, describe_machine, describe_problem, grid, title
from kbench.report.notes import LEGEND, REFERENCE, has_reference, notes
from kbench.report.plot import COSTS, plot, points
from kbench.report.quantities import Quantity
from kbench.report.style import Style, styles
from kbench.report.tables import Comparison, Line, Problem, Row
from kbench.report.template import filled_template

# A blank as wide as a digit, and one as wide as a point: they align what stands above each other.
_FIGURE, _POINT = "\u2007", "\u2008"


def page(
    comparisons: Sequence[Comparison],
    environments: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Quantity],
    *,
    settings: int,
    remarks: Sequence[str] = (),
) -> str:
    """The page's text.

    Parameters
    ----------
    comparisons : sequence of Comparison
    environments : mapping
        Description by id, as `ResultsFolder.environments` has them.
    columns : sequence of Quantity
        Beside the score.
    settings : int
        Lines of a method that show at first.
    remarks : sequence of str
        Said at the top, such as files that could not be read.

    Notes
    -----
    10,000 rows in 2,500 lines make about 4 MB in 4 seconds.
    """
    methods = sorted({line.method for one in comparisons for line in one.lines})
    datasets = _datasets(comparisons)
    body = _Page(columns, settings, environments, methods, datasets)
    sections = [body.section(group) for group in _by_problem(comparisons)]
    used = sorted({one.machine.environment for one in comparisons})
    overview = (
        '<section id="overview"><h2>Overview</h2><div class="scroll" tabindex="0" role="region"'
        f' aria-label="Overview">{_overview(comparisons, body.datasets)}</div>'
        f'<p class="about">{escape(_legend(comparisons))}. A cell opens the runs behind it; a'
        " header sorts. Times of different environments or thread counts stand in different"
        " tables. Predictions are multiples of the product of many rows with one vector; a call"
        " of predict checks its rows besides, a linear machine's too.</p>"
        "</section>"
    )
    return filled_template(
        heading="kbench report",
        menus=_menu("Data sets", "datasets", _choices([escape(name) for name in datasets]))
        + _menu("Methods", "methods", _choices(body.keys(methods))),
        summary=_summary(comparisons, body.rows),
        overview=overview,
        sections="".join(sections),
        environments=environments,
        used=used,
        rows=body.rows,
        remarks=remarks,
    )


def _menu(name: str, id: str, choices: str) -> str:
    return (
        f'<details class="menu"><summary>{name}</summary><div id="{id}"><p>'
        '<button type="button" data-all="1">All</button>'
        f'<button type="button" data-all="">None</button></p>{choices}</div></details>\n'
    )


class _Page:
    """The sections of a page, and the rows behind their lines in the order of the page."""

    def __init__(
        self,
        columns: Sequence[Quantity],
        settings: int,
        environments: Mapping[str, Mapping[str, Any]],
        methods: Sequence[str],
        datasets: Sequence[str],
    ) -> None:
        self.columns = columns
        self.settings = settings
        self.environments = environments
        self.marks = styles(methods)
        self.methods = {name: i for i, name in enumerate(methods)}
        self.datasets = {name: i for i, name in enumerate(datasets)}
        self.rows: list[Row] = []

    def keys(self, methods: Iterable[str]) -> list[str]:
        """Methods behind their marks."""
        return [f"{_key(self.marks[method])}{escape(method)}" for method in methods]

    def section(self, group: Sequence[Comparison]) -> str:
        """A problem: its heading, and a table and plots for each machine."""
        problem = group[0].problem
        heading = escape(title(problem))
        return (
            f'<section data-d="{self.datasets[problem.dataset]}" id="{_anchor(problem)}">'
            f'<h2>{heading}</h2><p class="about">{escape(describe_problem(problem))}</p>'
            + "".join(self._comparison(one) for one in group)
            + "</section>"
        )

    def _comparison(self, comparison: Comparison) -> str:
        _, cut = comparison.shortened(self.settings)
        below = notes(comparison, cut, self.settings, "the button shows all")
        said = "".join(f"<li>{escape(note)}</li>" for note in below)
        drawings = [plot(comparison, c, self.marks, self.methods, self.settings) for c in COSTS]
        figures = "".join(f"<figure>{drawing}</figure>" for drawing in drawings if drawing)
        drawn = sorted({point.line.method for c in COSTS for point in points(comparison, c)})
        legend = "".join(
            f'<li data-m="{self.methods[method]}">{key}</li>'
            for method, key in zip(drawn, self.keys(drawn), strict=True)
        )
        more = ""
        if cut:
            more = (
                f'<button class="all" type="button">Show all {len(comparison.lines)} lines</button>'
            )
        machine = escape(describe_machine(comparison.machine, self.environments))
        return (
            f'<article><p class="machine">{machine}</p>{self._table(comparison)}{more}'
            f'<div class="below">{figures}<div>'
            + (f'<ul class="legend">{legend}</ul>' if legend else "")
            + (f'<ul class="notes">{said}</ul>' if said else "")
            + "</div></div></article>"
        )

    def _table(self, comparison: Comparison) -> str:
        table = grid(comparison, self.columns)
        columns = [_aligned(table, j) for j in range(len(table.quantities))]
        head = [_header("method", "")]
        head += [_header(q.title, q.direction) for q in table.quantities]
        head.append(_header("runs", ""))
        seen: dict[str, int] = {}
        body = []
        for i, line in enumerate(comparison.lines):
            seen[line.method] = seen.get(line.method, 0) + 1
            kinds = ["more"] if seen[line.method] > self.settings else []
            if not line.ok:
                kinds.append("failed")
            body.append(self._line(line, " ".join(kinds), [c[i] for c in columns], table.runs[i]))
        name = escape(title(comparison.problem))
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{name}: results">'
            f"<table><thead><tr>{''.join(head)}</tr></thead>"
            f"<tbody>{''.join(body)}</tbody></table></div>"
        )

    def _line(self, line: Line, kind: str, cells: Sequence[str], runs: str) -> str:
        first = len(self.rows)
        self.rows += line.rows
        setting = line.label.removeprefix(line.method)
        name = f"{escape(line.method)}<i>{escape(setting)}</i>" if setting else escape(line.method)
        kinds = f' class="{kind}"' if kind else ""
        return (
            f'<tr{kinds} data-m="{self.methods[line.method]}"'
            f' data-r="{first} {len(line.rows)}">'
            f'<th scope="row"><a href="#run-{line.address}">'
            f"{_key(self.marks[line.method])}{name}</a></th>{''.join(cells)}<td>{runs}</td></tr>"
        )


def _aligned(table: Grid, j: int) -> list[str]:
    """The cells of one column, padded so that points stand above each other."""
    cells = [row[j] for row in table.cells]
    decimals = max((_decimals(cell) for cell in cells), default=0)
    widest = max((_whole(cell.sd) for cell in cells), default=0)
    found = []
    for cell in cells:
        if cell.status:
            found.append(f'<td class="st">{escape(cell.status)}</td>')
            continue
        if not cell.mean:
            found.append("<td></td>")
            continue
        missing = decimals - _decimals(cell)
        pad = _FIGURE * missing + (_POINT if missing and not _decimals(cell) else "")
        sd = ""
        if cell.sd:
            sd = f"<small>{_FIGURE * (widest - _whole(cell.sd))}±{cell.sd}{pad}</small>"
        elif widest:
            sd = f"<small>{_FIGURE * (widest + 1 + decimals)}{_POINT}</small>"
        found.append(f"<td{' class=best' if cell.best else ''}>{cell.mean}{pad}{sd}</td>")
    return found


def _whole(number: str) -> int:
    return len(number.partition(".")[0])


def _decimals(cell: Cell) -> int:
    return len(cell.mean.partition(".")[2])


def _header(text: str, direction: str) -> str:
    better = {"max": "↑", "min": "↓"}.get(direction, "")
    arrow = f" <span>{better}</span>" if better else ""
    return (
        f'<th scope="col"{f" data-better={direction}" if direction else ""}>'
        f'<button type="button">{escape(text)}{arrow}</button></th>'
    )


def _key(style: Style) -> str:
    return f'<svg class="k c{style.colour}"><use href="#k{style.marker}"/></svg>'


def _by_problem(comparisons: Iterable[Comparison]) -> list[list[Comparison]]:
    groups: dict[Problem, list[Comparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.problem, []).append(comparison)
    return list(groups.values())


def _anchor(problem: Problem) -> str:
    """A fragment that stays the same while rows come and go."""
    parts = astuple(replace(problem, data_sha256=(problem.data_sha256 or "")[:6]))
    name = "-".join(str(part) for part in parts if part)
    return "data-" + "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def _datasets(comparisons: Iterable[Comparison]) -> list[str]:
    return sorted({comparison.problem.dataset for comparison in comparisons})


def _choices(labels: Sequence[str]) -> str:
    return "".join(
        f'<label><input type="checkbox" checked value="{i}">{label}</label>'
        for i, label in enumerate(labels)
    )


def _summary(comparisons: Sequence[Comparison], rows: Sequence[Row]) -> str:
    failed = sum(row["status"] != "ok" for row in rows)
    counts = [
        (len(_datasets(comparisons)), "data set"),
        (len({line.method for one in comparisons for line in one.lines}), "method"),
        (len(rows), "run"),
        (len({one.machine.environment for one in comparisons}), "environment"),
    ]
    words = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in counts]
    words[2] += f" ({failed:,} failed)" if failed else ""
    return " · ".join(words)


def _legend(comparisons: Sequence[Comparison]) -> str:
    words = f"{LEGEND}; the best of a column is marked (↑ more, ↓ less is better)"
    return f"{words}; {REFERENCE}" if has_reference(comparisons) else words


def _overview(comparisons: Sequence[Comparison], datasets: Mapping[str, int]) -> str:
    """One line for each problem on each machine: its size, and the best by the leading score."""
    body = []
    for one in comparisons:
        problem = one.problem
        best = one.lines[0] if one.lines and one.lines[0].ok else None
        measured = best.mean_sd(one.score.column) if best else None
        failed = sum(len(line.rows) - len(line.ok) for line in one.lines)
        cells: list[tuple[str, Callable[[str], str]]] = [
            (best.label if best else "", _words),
            (one.score.text(measured[0]) if measured else "", _number),
            (one.score.title, _word),
            (problem.task or "", _word),
            (_count(problem.n_train), _number),
            (_count(problem.n_features), _number),
            (str(sum(len(line.rows) for line in one.lines)), _number),
            (str(failed) if failed else "", _number),
        ]
        body.append(
            f'<tr data-d="{datasets[problem.dataset]}"><th scope="row">'
            f'<a href="#{_anchor(problem)}">{escape(title(problem))}</a></th>'
            + "".join(form(text) for text, form in cells)
            + "</tr>"
        )
    names = ("data set", "best", "score", "", "task", "train rows", "features", "runs", "failed")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _word(text: str) -> str:
    return f'<td class="word">{escape(text)}</td>'


def _words(text: str) -> str:
    return f'<td class="long">{escape(text)}</td>'


def _number(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
