"""Verdicts in words: a line and a detail of each, sheets for every format that is text, records."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.papers.claims.decision import Verdict, in_words
from kbench.papers.claims.outcomes import FAILS, HOLDS, OUTCOMES
from kbench.papers.claims.stated import Bound, Claim
from kbench.papers.printed.layout import PAPERS, paper
from kbench.report.sheet import Sheet

LEGEND = (
    "Printed and measured are the same query over the paper's numbers and over the rows: ratios,"
    " differences in points, values, or per cent of the settings; of several cases the worst. The"
    " idea alone is the paper's method against the same code without its idea. The per cent behind"
    " a data set is its share of the paper's rows, where that is another."
)
_MEANINGS = " ".join(f"{str(one).capitalize()}: {one.means}." for one in OUTCOMES)

VERDICT_COLUMNS = ["paper", "where", "claim", "verdict", "reason", "printed", "figure", "unit"]
VERDICT_COLUMNS += ["bounded", "idea", "worst", "kept", "own", "answered", "asked", "why"]
VERDICT_COLUMNS += ["wording", "quote", "quantity", "bound", "data", "shares", "runs"]
VERDICT_COLUMNS += ["environment", "threads", "elsewhere", "keys"]

# Characters of the longest verdict and between two columns in the terminal; lines of a screen.
_OUTCOME, _GAP, _SCREEN = 22, 2, 44


@dataclass(frozen=True)
class Words:
    """The cells of a verdict's line; `measured` is the figure and where it is the worst."""

    verdict: str
    claim: str
    printed: str
    measured: str
    figure: str
    idea: str
    data: str


def line(verdict: Verdict) -> Words:
    """A verdict as one line: printed and measured figure, the idea alone, data and share."""
    measured = figure = _figure(verdict)
    if verdict.worst and verdict.figures is not None:
        measured += f" on {verdict.worst}"
    idea = "" if verdict.idea is None else _figure(verdict.idea)
    printed = "" if verdict.printed is None else _words(verdict, verdict.printed)
    outcome, says = str(verdict.outcome), verdict.claim.says
    return Words(outcome, says, printed, measured, figure, idea, data_of(verdict))


def data_of(verdict: Verdict) -> str:
    """The data sets with their shares of the paper's rows, and how many cases they answer."""
    names = [
        name if share is None else f"{name} {100 * share:.2g} %"
        for name, share in verdict.shares.items()
    ]
    cases = f"{verdict.answered} of {verdict.asked}: " if names and verdict.asked > 1 else ""
    return cases + ", ".join(names)


def detail(verdict: Verdict) -> list[str]:
    """What a line leaves out, in sentences."""
    claim = verdict.claim
    said = [f"{paper(claim.paper).title}, {claim.where}."]
    if claim.quote:
        said.append(f"In the paper: “{claim.quote}”.")
    if claim.quantity:
        said.append(f"The figure: {claim.quantity}. {claimed_bound(verdict)}")
    if verdict.why:
        said.append(f"{verdict.outcome}: {verdict.why}.".capitalize())
    if verdict.answered and verdict.asked > 1:
        cases = f"Rows of the paper's own data answer {verdict.own} of {verdict.asked} cases"
        kept = f", of which {verdict.kept} keep the bound" if verdict.own else ""
        said.append(f"{cases}{kept}; rows of any data answer {verdict.answered}.")
    if verdict.machine is not None and verdict.answered:
        said.append(f"The rows are of environment {verdict.machine.environment}.")
    if verdict.elsewhere:
        said.append(f"Other machines: {verdict.elsewhere}.")
    if verdict.idea is not None:
        figure = _figure(verdict.idea) or verdict.idea.why
        said.append(f"The idea alone: {verdict.idea.claim.quantity}: {figure}.")
    return said


def claimed_bound(verdict: Verdict) -> str:
    """With which figures a claim holds."""
    holds = verdict.claim.holds
    if holds is None:
        return ""
    every = " in every case" if verdict.asked > 1 and verdict.claim.case is None else ""
    return f"The claim holds if it is {_limit(verdict, holds)}{every}."


def counted(verdicts: Iterable[Verdict]) -> str:
    """How many claims have each outcome, such as `3 hold, 2 do not hold, 9 are open`."""
    verdicts = list(verdicts)
    counts = Counter(verdict.outcome.word for verdict in verdicts)
    reasons = Counter(verdict.outcome.reason for verdict in verdicts if verdict.outcome.reason)
    why = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
    text = f"{counts[HOLDS.word]} hold, {counts[FAILS.word]} do not hold"
    return f"{text}, {sum(reasons.values())} are open" + (f" ({why})" if why else "")


def at_hand(verdict: Verdict) -> str:
    """What rows say of an open claim, whatever keeps them from deciding it."""
    return {True: "rows keep it", False: "rows miss it", None: ""}[verdict.kept_by_rows]


def of_papers(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Title of a paper -> its own claims; the last entry has our own questions."""
    grouped = {
        paper(name).title: [v for v in verdicts if v.claim.paper == name and not v.claim.ours]
        for name in PAPERS
    }
    grouped["Our own questions"] = [v for v in verdicts if v.claim.ours]
    return {name: several for name, several in grouped.items() if several}


def sheets(verdicts: Sequence[Verdict], width: int | None = None) -> list[Sheet]:
    """A sheet for each paper and one for our own questions, with all that is said of a claim."""
    made = []
    for name, several in of_papers(verdicts).items():
        header = ["verdict", "claim", "printed", "measured", "idea alone", "data"]
        rows = []
        for verdict in several:
            words = line(verdict)
            says = f"{words.claim} {' '.join(detail(verdict))}"
            cells = [words.verdict, says, words.printed, words.measured, words.idea, words.data]
            rows += [cells] if width is None else _broken(cells, width)
        if width is not None:
            header = ["verdict", "claim", "printed", "measured", "idea", "data"]
        made.append(Sheet(f"{name}: claims", len(header), header, rows, [f"{counted(several)}."]))
    if made:
        made[-1].notes.append(f"{LEGEND} {_MEANINGS}")
    return made


def overview(verdicts: Sequence[Verdict], width: int) -> list[Sheet]:
    """One line a claim, two where they fit: a paper is a screen of `_SCREEN` lines."""
    made = []
    for name, several in of_papers(verdicts).items():
        header = ["verdict", "claim", "printed", "measured", "idea alone"]
        cells = [line(verdict) for verdict in several]
        figures = [[_short(f) for f in (one.printed, one.figure, one.idea)] for one in cells]
        taken = [max(map(len, column)) for column in zip(*figures, header[2:], strict=True)]
        room = max(width - _OUTCOME - sum(taken) - 4 * _GAP, 20)
        most = 2 if 2 * len(several) <= _SCREEN else 1
        rows = []
        for one, said in zip(cells, figures, strict=True):
            first, *rest = textwrap.wrap(one.claim, room, max_lines=most, placeholder=" …")
            rows += [[one.verdict, first, *said], *(["", text, "", "", ""] for text in rest)]
        own = sum(0 < verdict.own == verdict.asked for verdict in several)
        note = f"{counted(several)}; {own} of {len(several)} on the paper's own data."
        made.append(Sheet(f"{name}: claims", 2, header, rows, [note]))
    return made


def _short(figure: str) -> str:
    """A figure in the width of its column: a range is the sign ~ and its beginning."""
    for words, sign in (("at least ", "≥ "), ("at most ", "≤ "), ("from ", "~ ")):
        if figure.startswith(words):
            figure = sign + figure.removeprefix(words)
    figure = figure.replace("x linear", "×").replace(" points", " pt").replace("kcal/mol", "")
    return figure.partition(" to ")[0].strip()


def _broken(cells: Sequence[str], width: int) -> list[list[str]]:
    """A line of cells as lines of at most `width` characters."""
    beside = [_OUTCOME, 9, 18, 9, 18]
    claim = width - sum(beside) - _GAP * len(beside)
    widths = [beside[0], claim, *beside[1:]]
    if claim < 26:  # the figures stand below the claim on a narrow terminal
        names = ("printed", "measured", "idea alone", "data")
        said = [f"{name}: {cell}" for name, cell in zip(names, cells[2:], strict=True) if cell]
        cells = [cells[0], f"{cells[1]} {'; '.join(said)}", "", "", "", ""]
        widths = [_OUTCOME, width - _OUTCOME - 6 * _GAP - 32, 7, 8, 4, 4]
    wrapped = [textwrap.wrap(cell, room) for cell, room in zip(cells, widths, strict=True)]
    height = max(map(len, wrapped))
    return [[part[i] if i < len(part) else "" for part in wrapped] for i in range(height)]


def verdict_records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One record for each claim, nothing rounded."""
    return [dict(zip(VERDICT_COLUMNS, _record(verdict), strict=True)) for verdict in verdicts]


def _record(verdict: Verdict) -> list[Any]:
    claim, figures, machine = verdict.claim, verdict.figures, verdict.machine
    figure, bounded = _end(verdict)
    idea = verdict.idea and _end(verdict.idea)[0]
    shares: Mapping[str, float | None] = verdict.shares
    known = "; ".join(f"{name}={share}" for name, share in shares.items() if share is not None)
    wording = "ours" if claim.ours else "quoted" if claim.quote else "paraphrased"
    return [
        claim.paper,
        claim.where,
        claim.says,
        verdict.outcome.word,
        verdict.outcome.reason,
        verdict.printed and _nearer(claim, verdict.printed),
        figure,
        verdict.unit,
        bounded,
        idea,
        verdict.worst if figures else "",
        verdict.kept,
        verdict.own,
        verdict.answered,
        verdict.asked,
        verdict.why,
        wording,
        claim.quote,
        claim.quantity,
        claimed_bound(verdict),
        "; ".join(shares),
        known,
        " ".join(map(str, verdict.counts)),
        machine and machine.environment,
        machine and machine.threads,
        verdict.elsewhere,
        " ".join(verdict.keys),
    ]


def _end(verdict: Verdict) -> tuple[float | None, str]:
    """The end of the figure that decides, and which bound it is of what runs would reach."""
    if verdict.figures is None:
        return None, ""
    assert verdict.claim.holds is not None
    low, high = verdict.figures
    bound = verdict.claim.holds
    end = bound.best((low, high)) if verdict.outcome is FAILS else bound.worst((low, high))
    if low == high:
        return end, ""
    return end, "at least" if end == low else "at most"


def _nearer(claim: Claim, printed: tuple[float, float]) -> float:
    """The finite end of a printed figure, which a limit such as `>300000` opens on one side."""
    assert claim.holds is not None
    return claim.holds.worst(printed)


def _figure(verdict: Verdict) -> str:
    return "" if verdict.figures is None else _words(verdict, verdict.figures)


def _words(verdict: Verdict, figures: tuple[float, float]) -> str:
    """A figure with its unit and as many digits as show on which side of the bound it lies."""
    holds = verdict.claim.holds
    limit = 0.0
    if holds is not None:
        limit = holds.limit * (100.0 if verdict.claim.case is not None else 1.0)
    return in_words(figures, verdict.unit, limit)


def _limit(verdict: Verdict, bound: Bound) -> str:
    of_cases = verdict.claim.case is not None
    number = f"{100 * bound.limit:g} % of the cases" if of_cases else f"{bound.limit:g}"
    unit = "" if of_cases else verdict.unit
    return f"{'at least' if bound.sign == '>=' else 'at most'} {number} {unit}".strip()
