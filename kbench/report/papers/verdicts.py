"""Verdicts as sheets, for every format that is text, and as CSV."""

import csv
import io
import itertools
import textwrap
from collections.abc import Sequence

from kbench.report.papers.claims import Verdict
from kbench.report.papers.layout import paper
from kbench.report.quantities import decimals_for
from kbench.report.versus import Sheet

LEGEND = (
    "Figures are ratios, differences in points or values, the worst over the repetitions of which"
    " the rows answer so many; `paper` is the same query over the printed numbers. Verdicts are"
    " computed, thresholds are in kbench/report/papers/claims.yaml."
)


def sheets(verdicts: Sequence[Verdict], width: int | None = None) -> list[Sheet]:
    """A sheet for each paper; sentences are broken into lines of at most `width` characters."""
    found: dict[str, Sheet] = {}
    for one in verdicts:
        claim = one.claim
        name = f"{paper(claim.paper).title}: claims"
        header = ["verdict", "claim", "rows say", "paper", "where"]
        sheet = found.setdefault(name, Sheet(name, len(header), header, []))
        said = _said(one)
        lines = textwrap.wrap(claim.says, width) if width else [claim.says]
        where = textwrap.wrap(claim.where, 26) if width else [claim.where]
        given = textwrap.wrap(said, 34) if width else [said]
        columns = [[one.outcome], lines, given, [_number(one.printed)], where]
        rows = itertools.zip_longest(*columns, fillvalue="")
        sheet.rows.extend([list(row) for row in rows])
    listed = list(found.values())
    if listed:
        listed[-1].notes.append(LEGEND)
    return listed


def comma_separated(verdicts: Sequence[Verdict]) -> str:
    """One line for each claim, nothing rounded."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["paper", "where", "claim", "verdict", "figure", "printed", "answered", "asked"]
    writer.writerow([*names, "why", "data", "keys"])
    for one in verdicts:
        claim = one.claim
        line = [claim.paper, claim.where, claim.says, one.outcome, one.figure, one.printed]
        line += [one.answered, one.asked, one.why, "; ".join(one.data), " ".join(one.keys)]
        writer.writerow(line)
    return text.getvalue()


def _said(one: Verdict) -> str:
    """The figure, of how many repetitions, and on which data; or why there is none."""
    if one.figure is None:
        return one.why
    times = f", {one.answered} of {one.asked}" if one.asked > 1 else ""
    return f"{_number(one.figure)}{times} ({', '.join(one.data)})"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.{decimals_for(value, 3)}f}"
