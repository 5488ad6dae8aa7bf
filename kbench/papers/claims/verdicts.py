"""Verdicts in words: a line and a detail for each, sheets for all text formats, records."""

import itertools
import textwrap
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from kbench.papers.claims.decision import Verdict, in_words
from kbench.papers.claims.outcomes import FAILS, HOLDS, OUTCOMES, UNKNOWN_SETTINGS
from kbench.papers.claims.stated import Interval
from kbench.papers.printed.layout import PAPERS, legend, paper
from kbench.report.sheet import Sheet

_WOULD = {True: "confirm", False: "contradict"}
_MEANINGS = " ".join(f"{str(outcome).capitalize()}: {outcome.means}." for outcome in OUTCOMES)

# Lines and columns of a paper's screen; characters of the column of verdicts there and in a
# narrower window (where sentences are not cut); characters between two columns. Set by hand.
_LINES, _SCREEN, _OUTCOME, _NARROW, _GAP = 44, 100, 22, 13, 2

# Titles of what `tally` counts.
TALLY = ("hold", "do not hold", "open: kept", "by idea", "missed", "neither", "own data")


class Words(NamedTuple):
    """The texts of a verdict's line; `measured` is `figure` with the data set that it is of."""

    printed: str
    measured: str
    figure: str
    idea: str
    data: str


def line(verdict: Verdict) -> Words:
    """The printed figure, the measured one, the figure of the idea alone, and the data sets."""
    measured = figure = _words(verdict, verdict.figures)
    if verdict.worst and verdict.figures is not None:
        measured += f" on {_with_share(verdict, verdict.worst)}"
    idea = "" if verdict.idea is None else _words(verdict.idea, verdict.idea.figures)
    return Words(_words(verdict, verdict.printed), measured, figure, idea, data_of(verdict))


def data_of(verdict: Verdict) -> str:
    """The data sets with their shares of the paper's rows, and how many cases they answer."""
    names = [_with_share(verdict, name) for name in verdict.shares]
    n = verdict.own if verdict.outcome is FAILS else verdict.answered
    cases = f"{n} of {verdict.asked}: " if names and verdict.asked > 1 else ""
    return cases + ", ".join(names)


def _with_share(verdict: Verdict, name: str) -> str:
    share = verdict.shares.get(name)
    return name if share is None else f"{name} {100 * share:.2g} %"


def detail(verdict: Verdict) -> list[str]:
    """What a line leaves out, in sentences."""
    claim = verdict.claim
    lines = [f"{paper(claim.paper).title}, {claim.where}."]
    if claim.quote:
        lines.append(f"In the paper: “{claim.quote}”.")
    if claim.quantity:
        lines.append(f"Computed: {claim.quantity}. {claimed_bound(verdict)}")
    if verdict.why:
        lines.append(f"Open ({verdict.outcome.reason}): {verdict.why}.")
    if verdict.answered and verdict.asked > 1:
        own = f"{verdict.own} on the paper's data, {verdict.kept} of these clearly keep the bound"
        lines.append(f"Runs answer {verdict.answered} of {verdict.asked} cases, {own}.")
    if verdict.machine is not None and verdict.answered:
        lines.append(f"The runs are of environment {verdict.machine.environment}.")
    lines += [f"{said[0].upper()}{said[1:]}." for said in verdict.days]
    if verdict.idea is not None:
        figure = line(verdict).idea or verdict.idea.why
        lines.append(f"The idea alone: {verdict.idea.claim.quantity}: {figure}.")
    return lines


def claimed_bound(verdict: Verdict) -> str:
    """A sentence that says for which figures a claim holds."""
    holds = verdict.claim.holds
    if holds is None:
        return ""
    limit, every = f"{holds.limit:g} {verdict.unit}".strip(), ""
    if verdict.claim.case is not None:
        limit = f"{100 * holds.limit:g} % of the cases"
    elif verdict.asked > 1:
        every = " in every case"
    least = "at least" if holds.lower else "at most"
    return f"The claim holds if it is {least} {limit}{every}."


def counted(verdicts: Collection[Verdict]) -> str:
    """How many claims have each outcome, and of how many open ones runs keep or miss the bound."""
    counts = Counter(verdict.outcome.word for verdict in verdicts)
    reasons = Counter(verdict.outcome.reason for verdict in verdicts if verdict.outcome.reason)
    why = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
    text = f"{counts[HOLDS.word]} hold, {counts[FAILS.word]} do not hold"
    text += f", {sum(reasons.values())} are open" + (f" ({why})" if why else "")
    open_ones = [verdict for verdict in verdicts if verdict.outcome.reason]
    n = Counter(verdict.kept_by_rows for verdict in open_ones)
    guessed = Counter(v.kept_by_rows for v in open_ones if v.outcome is UNKNOWN_SETTINGS)
    text += f"; our runs support {n[True]} of the open ones and speak against {n[False]}"
    return f"{text}, {guessed[True]} and {guessed[False]} of them with settings that we guessed"


def tally(verdicts: Sequence[Verdict]) -> list[str]:
    """The counts named in `TALLY`, as texts."""
    outcomes = [sum(verdict.outcome is kind for verdict in verdicts) for kind in (HOLDS, FAILS)]
    answers = [(v.kept_by_rows, _kept_by_idea(v)) for v in verdicts if v.outcome.reason]
    rows = Counter(kept for kept, _ in answers)
    ideas = Counter(idea for kept, idea in answers if kept)
    own = sum(0 < verdict.own == verdict.asked for verdict in verdicts)
    known = ideas[True] + ideas[False]
    by_idea = f"{ideas[True]} of {known}" if known else "-"
    counts = [*outcomes, rows[True], by_idea, rows[False], rows[None]]
    return [*map(str, counts), f"{own} of {len(verdicts)}"]


def at_hand(verdict: Verdict) -> str:
    """Whether runs keep the bound of an open claim, as text, although they do not decide it."""
    kept, idea = verdict.kept_by_rows, _kept_by_idea(verdict)
    if kept is None or not verdict.outcome.reason:
        return ""
    guess = " at settings that we guessed" if verdict.outcome is UNKNOWN_SETTINGS else ""
    said = f"our runs would {_WOULD[kept]} it{guess}"
    return said if idea in (None, kept) else f"{said}, the idea alone would {_WOULD[idea]} it"


def _kept_by_idea(verdict: Verdict) -> bool | None:
    """Whether the idea alone keeps the bound of the claim; None if it has no answer."""
    return None if verdict.idea is None else verdict.idea.kept_by_rows


def of_papers(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Title of a paper -> its own claims; the last entry has our own questions."""
    grouped = {
        paper(name).title: [v for v in verdicts if v.claim.paper == name and not v.claim.ours]
        for name in PAPERS
    }
    grouped["Our own questions"] = [v for v in verdicts if v.claim.ours]
    return {name: several for name, several in grouped.items() if several}


def sheets(
    verdicts: Sequence[Verdict], width: int | None = None, *, details: bool = True
) -> list[Sheet]:
    """A sheet for each paper and one for our own questions, at most `width` characters wide.

    Without `details` a claim has one line, or two where a paper still fits on a screen.
    """
    made = []
    for name, several in of_papers(verdicts).items():
        header = ["verdict", "claim", "printed", "measured", "idea alone"]
        if width is None:
            header, n_words = [*header, "data"], len(header) + 1
            rows = []
            for verdict in several:
                words = line(verdict)
                says = f"{verdict.claim.says} {' '.join(detail(verdict))}"
                figures = words.printed, words.measured, words.idea, words.data
                rows.append([str(verdict.outcome), says, *figures])
        else:
            rows, n_words = _wrapped(several, width, details=details), 2
        note = f"{counted(several)}; {tally(several)[-1]} on the paper's own data."
        made.append(Sheet(f"{name}: claims", n_words, header, rows, [note]))
    if made and details:
        made[-1].notes.append(f"{legend('claims')} {_MEANINGS}")
    return made


def summary(verdicts: Sequence[Verdict]) -> Sheet:
    """A line for each paper."""
    rows = [[name, *tally(several)] for name, several in of_papers(verdicts).items()]
    return Sheet("Did the papers' claims hold?", 1, ["", *TALLY], rows, [legend("outcomes")])


def _wrapped(verdicts: Sequence[Verdict], width: int, *, details: bool) -> list[list[str]]:
    """The lines of claims, with their details below them; figures are shortened."""
    cells = [line(verdict) for verdict in verdicts]
    figures = [[_shortened(f) for f in (cell.printed, cell.figure, cell.idea)] for cell in cells]
    names = ("printed", "measured", "idea alone")
    taken = [max(map(len, column)) for column in zip(*figures, names, strict=True)]
    side = _OUTCOME if width >= _SCREEN else _NARROW
    width_left = max(width - side - sum(taken) - 4 * _GAP, 20)
    most = None if details or width < _SCREEN else 2 if 2 * len(verdicts) <= _LINES else 1
    rows = []
    for verdict, cell, shown in zip(verdicts, cells, figures, strict=True):
        lines = textwrap.wrap(verdict.claim.says, width_left, max_lines=most, placeholder=" …")
        if details:
            measured = f"Measured: {cell.measured}; {cell.data}." if cell.measured else ""
            lines += textwrap.wrap(" ".join([*detail(verdict), measured]), width_left)
        hand = "" if most else at_hand(verdict)
        outcome = textwrap.wrap(f"{verdict.outcome}, {hand}".rstrip(", "), side)
        below = itertools.zip_longest(outcome[1:], lines[1:], fillvalue="")
        rows += [[outcome[0], lines[0], *shown], *([*both, "", "", ""] for both in below)]
    return rows


def _shortened(figure: str) -> str:
    """A figure, shortened to the width of its column."""
    shorter = {"at least ": "≥ ", "at most ": "≤ ", "from ": "", "× linear": "×", " points": " pt"}
    for words, sign in (shorter | {"kcal/mol": ""}).items():
        figure = figure.replace(words, sign)
    return figure.strip()


def verdict_records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One record for each claim, nothing rounded."""
    return [_record(verdict) for verdict in verdicts]


def _record(verdict: Verdict) -> dict[str, Any]:
    claim, machine, shares = verdict.claim, verdict.machine, verdict.shares
    figure, bounded = _end(verdict)
    return {
        "paper": claim.paper,
        "where": claim.where,
        "claim": claim.says,
        "verdict": verdict.outcome.word,
        "reason": verdict.outcome.reason,
        # The finite end of a printed figure, which a limit such as `>300000` opens on one side.
        "printed": verdict.printed and claim.holds and claim.holds.worst(verdict.printed),
        "figure": figure,
        "unit": verdict.unit,
        "bounded": bounded,
        "idea": verdict.idea and _end(verdict.idea)[0],
        "worst": verdict.worst if verdict.figures else "",
        "kept": verdict.kept,
        "own": verdict.own,
        "answered": verdict.answered,
        "asked": verdict.asked,
        "why": verdict.why,
        "wording": "ours" if claim.ours else "quoted" if claim.quote else "paraphrased",
        "quote": claim.quote,
        "quantity": claim.quantity,
        "bound": claimed_bound(verdict),
        "data": "; ".join(shares),
        "shares": "; ".join(f"{name}={part}" for name, part in shares.items() if part is not None),
        "environment": machine and machine.environment,
        "threads": machine and machine.threads,
        "keys": " ".join(verdict.keys),
    }


def _end(verdict: Verdict) -> tuple[float | None, str]:
    """The end of the figure that decides, and "at least" or "at most" if it is a bound."""
    figures, bound = verdict.figures, verdict.claim.holds
    if figures is None or bound is None:
        return None, ""
    end = bound.best(figures) if verdict.outcome is FAILS else bound.worst(figures)
    return end, "" if figures[0] == figures[1] else "at least" if end == figures[0] else "at most"


def _words(verdict: Verdict, figures: Interval | None) -> str:
    """A figure with its unit and as many digits as show on which side of the bound it lies."""
    holds = verdict.claim.holds
    if figures is None or holds is None:
        return ""
    limit = holds.limit * (100.0 if verdict.claim.case is not None else 1.0)
    return in_words(figures, verdict.unit, limit)
