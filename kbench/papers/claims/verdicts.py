"""Verdicts as texts: a line and a detail for each, sheets for all text formats, and records."""

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

_VERBS = {True: "confirm", False: "contradict"}
_MEANINGS = " ".join(f"{str(outcome).capitalize()}: {outcome.means}." for outcome in OUTCOMES)

# Lines and characters of a screen; characters of the column of verdicts on a screen and in a window
# narrower than that, between two columns, and of the narrowest sentences. Set by hand.
_LINES, _SCREEN, _VERDICT, _NARROW_VERDICT, _GAP, _MIN_TEXT = 44, 100, 22, 13, 2, 20

# Titles of the counts of `tally`.
TALLY = ("hold", "do not hold", "open: kept", "by idea", "missed", "neither", "own data")


class LineTexts(NamedTuple):
    """The texts of a verdict's line; `measured` is `figure` with its data set."""

    printed: str
    measured: str
    figure: str
    idea: str
    data: str


def line(verdict: Verdict) -> LineTexts:
    """The printed figure, the measured figure, that of the idea alone, and the data sets."""
    measured = figure = _figure(verdict, verdict.figures)
    if verdict.worst and verdict.figures is not None:
        measured += f" on {_with_share(verdict, verdict.worst)}"
    idea = "" if verdict.idea is None else _figure(verdict.idea, verdict.idea.figures)
    return LineTexts(_figure(verdict, verdict.printed), measured, figure, idea, data_of(verdict))


def data_of(verdict: Verdict) -> str:
    """The data sets with their shares of the paper's rows, and their number of answered cases."""
    names = [_with_share(verdict, name) for name in verdict.shares]
    n = verdict.n_own if verdict.outcome is FAILS else verdict.n_answered
    cases = f"{n} of {verdict.n_asked}: " if names and verdict.n_asked > 1 else ""
    return cases + ", ".join(names)


def _with_share(verdict: Verdict, name: str) -> str:
    share = verdict.shares.get(name)
    return name if share is None else f"{name} {100 * share:.2g} %"


def detail(verdict: Verdict) -> list[str]:
    """The sentences on a verdict that its line leaves out."""
    claim = verdict.claim
    lines = [f"{paper(claim.paper).title}, {claim.where}."]
    if claim.quote:
        lines.append(f"In the paper: “{claim.quote}”.")
    if claim.quantity:
        lines.append(f"Computed: {claim.quantity}. {claimed_bound(verdict)}")
    if verdict.why:
        lines.append(f"Open ({verdict.outcome.reason}): {verdict.why}.")
    if verdict.n_answered and verdict.n_asked > 1:
        basis = (
            f"{verdict.n_own} on the paper's data, {verdict.n_kept} of these clearly keep the bound"
        )
        lines.append(f"Runs answer {verdict.n_answered} of {verdict.n_asked} cases, {basis}.")
    if verdict.machine is not None and verdict.n_answered:
        lines.append(f"The runs are of environment {verdict.machine.environment}.")
    lines += [f"{remark[0].upper()}{remark[1:]}." for remark in verdict.days]
    if verdict.idea is not None:
        figure = line(verdict).idea or verdict.idea.why
        lines.append(f"The idea alone: {verdict.idea.claim.quantity}: {figure}.")
    return lines


def claimed_bound(verdict: Verdict) -> str:
    """A sentence that states the figures for which a claim holds."""
    holds = verdict.claim.holds
    if holds is None:
        return ""
    limit, scope = f"{holds.limit:g} {verdict.unit}".strip(), ""
    if verdict.claim.case is not None:
        limit = f"{100 * holds.limit:g} % of the cases"
    elif verdict.n_asked > 1:
        scope = " in every case"
    comparison = "at least" if holds.lower else "at most"
    return f"The claim holds if it is {comparison} {limit}{scope}."


def counts_of(verdicts: Collection[Verdict]) -> str:
    """The numbers of claims by outcome, and of open claims whose bound our runs keep or miss."""
    counts = Counter(verdict.outcome.word for verdict in verdicts)
    reasons = Counter(verdict.outcome.reason for verdict in verdicts if verdict.outcome.reason)
    why = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
    text = f"{counts[HOLDS.word]} hold, {counts[FAILS.word]} do not hold"
    text += f", {sum(reasons.values())} are open" + (f" ({why})" if why else "")
    open_claims = [verdict for verdict in verdicts if verdict.outcome.reason]
    n = Counter(verdict.kept_by_rows for verdict in open_claims)
    guessed = Counter(v.kept_by_rows for v in open_claims if v.outcome is UNKNOWN_SETTINGS)
    text += f"; our runs support {n[True]} of the open ones and speak against {n[False]}"
    return f"{text}, {guessed[True]} and {guessed[False]} of these with settings that we guessed"


def tally(verdicts: Sequence[Verdict]) -> list[str]:
    """The counts named in `TALLY`, as texts."""
    outcomes = [sum(verdict.outcome is kind for verdict in verdicts) for kind in (HOLDS, FAILS)]
    answers = [(v.kept_by_rows, _kept_by_idea(v)) for v in verdicts if v.outcome.reason]
    rows = Counter(kept for kept, _ in answers)
    ideas = Counter(idea for kept, idea in answers if kept)
    n_own = sum(0 < verdict.n_own == verdict.n_asked for verdict in verdicts)
    n_known = ideas[True] + ideas[False]
    by_idea = f"{ideas[True]} of {n_known}" if n_known else "-"
    counts = [*outcomes, rows[True], by_idea, rows[False], rows[None]]
    return [*map(str, counts), f"{n_own} of {len(verdicts)}"]


def tendency(verdict: Verdict) -> str:
    """Whether our runs would confirm an open claim, as text; empty if they do not tell."""
    kept, idea = verdict.kept_by_rows, _kept_by_idea(verdict)
    if kept is None or not verdict.outcome.reason:
        return ""
    guess = " at settings that we guessed" if verdict.outcome is UNKNOWN_SETTINGS else ""
    text = f"our runs would {_VERBS[kept]} it{guess}"
    return text if idea in (None, kept) else f"{text}, the idea alone would {_VERBS[idea]} it"


def _kept_by_idea(verdict: Verdict) -> bool | None:
    """Whether the idea alone keeps the bound of the claim; None if the idea has no answer."""
    return None if verdict.idea is None else verdict.idea.kept_by_rows


def by_paper(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Title of a paper -> its own claims; the last entry has our own questions."""
    groups = {
        paper(name).title: [v for v in verdicts if v.claim.paper == name and not v.claim.ours]
        for name in PAPERS
    }
    groups["Our own questions"] = [v for v in verdicts if v.claim.ours]
    return {name: group for name, group in groups.items() if group}


def sheets(
    verdicts: Sequence[Verdict], width: int | None = None, *, details: bool = True
) -> list[Sheet]:
    """A sheet for each paper and one for our own questions, at most `width` characters wide.

    Without `details` a claim has one line, or two if the paper's claims then fit on a screen.
    """
    result = []
    for name, group in by_paper(verdicts).items():
        header = ["verdict", "claim", "printed", "measured", "idea alone"]
        if width is None:
            header, n_words = [*header, "data"], len(header) + 1
            rows = []
            for verdict in group:
                texts = line(verdict)
                text = f"{verdict.claim.says} {' '.join(detail(verdict))}"
                figures = texts.printed, texts.measured, texts.idea, texts.data
                rows.append([str(verdict.outcome), text, *figures])
        else:
            rows, n_words = _wrapped_rows(group, width, details=details), 2
        note = f"{counts_of(group)}; {tally(group)[-1]} on the paper's own data."
        result.append(Sheet(f"{name}: claims", n_words, header, rows, [note]))
    if result and details:
        result[-1].notes.append(f"{legend('claims')} {_MEANINGS}")
    return result


def summary(verdicts: Sequence[Verdict]) -> Sheet:
    """A sheet with a line for each paper."""
    rows = [[name, *tally(group)] for name, group in by_paper(verdicts).items()]
    return Sheet("Did the papers' claims hold?", 1, ["", *TALLY], rows, [legend("outcomes")])


def _wrapped_rows(verdicts: Sequence[Verdict], width: int, *, details: bool) -> list[list[str]]:
    """The lines of claims with shortened figures, and the claims' details below them."""
    cells = [line(verdict) for verdict in verdicts]
    figures = [[_shortened(f) for f in (cell.printed, cell.figure, cell.idea)] for cell in cells]
    names = ("printed", "measured", "idea alone")
    widths = [max(map(len, column)) for column in zip(*figures, names, strict=True)]
    outcome_width = _VERDICT if width >= _SCREEN else _NARROW_VERDICT
    width_left = max(width - outcome_width - sum(widths) - 4 * _GAP, _MIN_TEXT)
    max_lines = None if details or width < _SCREEN else 2 if 2 * len(verdicts) <= _LINES else 1
    rows = []
    for verdict, cell, texts in zip(verdicts, cells, figures, strict=True):
        lines = textwrap.wrap(verdict.claim.says, width_left, max_lines=max_lines, placeholder=" …")
        if details:
            measured = f"Measured: {cell.measured}; {cell.data}." if cell.measured else ""
            lines += textwrap.wrap(" ".join([*detail(verdict), measured]), width_left)
        suggested = "" if max_lines else tendency(verdict)
        outcome = textwrap.wrap(f"{verdict.outcome}, {suggested}".rstrip(", "), outcome_width)
        further = itertools.zip_longest(outcome[1:], lines[1:], fillvalue="")
        rows += [[outcome[0], lines[0], *texts], *([*pair, "", "", ""] for pair in further)]
    return rows


def _shortened(figure: str) -> str:
    """A figure, shortened to the width of its column."""
    signs = {"at least ": "≥ ", "at most ": "≤ ", "from ": "", "× linear": "×", " points": " pt"}
    for phrase, sign in (signs | {"kcal/mol": ""}).items():
        figure = figure.replace(phrase, sign)
    return figure.strip()


def verdict_records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One record for each claim, without rounding."""
    return [_record(verdict) for verdict in verdicts]


def _record(verdict: Verdict) -> dict[str, Any]:
    claim, machine, shares = verdict.claim, verdict.machine, verdict.shares
    figure, bounded = _deciding_end(verdict)
    return {
        "paper": claim.paper,
        "where": claim.where,
        "claim": claim.says,
        "verdict": verdict.outcome.word,
        "reason": verdict.outcome.reason,
        # A limit such as `>300000` is an interval, of which the record has the finite end.
        "printed": verdict.printed and claim.holds and claim.holds.worst(verdict.printed),
        "figure": figure,
        "unit": verdict.unit,
        "bounded": bounded,
        "idea": verdict.idea and _deciding_end(verdict.idea)[0],
        "worst": verdict.worst if verdict.figures else "",
        "kept": verdict.n_kept,
        "own": verdict.n_own,
        "answered": verdict.n_answered,
        "asked": verdict.n_asked,
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


def _deciding_end(verdict: Verdict) -> tuple[float | None, str]:
    """The deciding end of the figure, and "at least" or "at most" if the end is a bound."""
    figures, bound = verdict.figures, verdict.claim.holds
    if figures is None or bound is None:
        return None, ""
    end = bound.best(figures) if verdict.outcome is FAILS else bound.worst(figures)
    return end, "" if figures[0] == figures[1] else "at least" if end == figures[0] else "at most"


def _figure(verdict: Verdict, figures: Interval | None) -> str:
    """A figure with its unit, and enough digits to show on which side of the bound it lies."""
    holds = verdict.claim.holds
    if figures is None or holds is None:
        return ""
    limit = holds.limit * (100.0 if verdict.claim.case is not None else 1.0)
    return in_words(figures, verdict.unit, limit)
