"""Verdicts as sheets, for every format that is text, and as records."""

import itertools
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kbench.papers.claims.decision import (
    FAILS,
    HOLDS,
    NOT_AS_STATED,
    OUTSIDE,
    UNDECIDED,
    WEAKER,
    Verdict,
)
from kbench.papers.claims.stated import Bound, Claim
from kbench.papers.printed.layout import paper
from kbench.report.comparisons.quantities import decimals_for
from kbench.report.sheet import Sheet

LEGEND = (
    "Figures are ratios, differences in points, values, or fractions of the settings. For a"
    " claim about several data sets the worst figure counts, with the number of data sets that"
    " have rows; it does not hold if rows answer fewer than half of its cases. All rows of a"
    " claim are of one machine, the one that answers most of it; if others say something else,"
    " that stands beside it. `paper` is the same query over the printed numbers. Verdicts are"
    " computed, bounds are in kbench/papers/printed/claims.yaml: a claim holds at the paper's own"
    " number, and holds weaker where what it says is true but for the number, by a bound that"
    " follows from it; `not as stated` is one of which rows show that it does not hold, but not"
    " whether it holds weaker or fails. A verdict on times stays true if they are off by as much"
    " as those of equal runs were on that machine, by a quarter at least, of predictions by a"
    " factor of two; one on differences of accuracies or errors if five test rows are left to"
    " chance. In brackets after a data set stands its share of the paper's rows, if it has others"
    " and the paper prints how many it has. Claims are paraphrases; words in quotation marks are"
    " the paper's."
)

# Columns of `verdict_records`.
VERDICT_COLUMNS = ["paper", "where", "claim", "verdict", "figure", "printed", "unit", "answered"]
VERDICT_COLUMNS += [
    "asked",
    "bounded",
    "worst",
    "why",
    "wording",
    "quote",
    "quantity",
    "refuted",
    "data",
    "shares",
    "runs",
    "environment",
    "threads",
    "elsewhere",
    "keys",
]

# Characters that the five columns beside the claim take; the last two are merged into the others if
# fewer than _MIN_CLAIM characters remain for the claim.
_BESIDE = 94
_MIN_CLAIM = 26

# A figure is printed with at most as many decimals, if fewer would put it beyond a bound.
_MAX_DECIMALS = 6


def sheets(verdicts: Sequence[Verdict], width: int | None = None) -> list[Sheet]:
    """A sheet for each paper; texts are broken so that lines have at most `width` characters."""
    by_paper: dict[str, Sheet] = {}
    wide = width is None or width >= _BESIDE + _MIN_CLAIM
    header = (
        ["verdict", "claim", "rows say", "paper", "where"]
        if wide
        else ["verdict", "claim", "rows say"]
    )
    for verdict in verdicts:
        name = _heading(verdict)
        sheet = by_paper.setdefault(name, Sheet(name, len(header), header, []))
        says = f"{claimed(verdict.claim)} {refutation(verdict)}"
        texts = [says, _said(verdict), _figure(verdict, verdict.printed), verdict.claim.where]
        if width is None:
            rows = [[verdict.outcome, *texts]]
        else:
            columns = _wide(texts, width) if wide else _narrow(texts, width)
            rows = list(map(list, itertools.zip_longest([verdict.outcome], *columns, fillvalue="")))
        sheet.rows.extend(rows)
    for name, sheet in by_paper.items():
        sheet.notes.extend(
            _machines([verdict for verdict in verdicts if _heading(verdict) == name])
        )
    listed = list(by_paper.values())
    if listed:
        listed[-1].notes.append(LEGEND)
    return listed


def _heading(verdict: Verdict) -> str:
    return f"{paper(verdict.claim.paper).title}: claims"


def _machines(verdicts: Sequence[Verdict]) -> list[str]:
    """How many claims the rows of each machine decide, as one note if there are any."""
    counts = Counter(
        f"environment {verdict.machine.environment}, {verdict.machine.threads} thread"
        + ("s" if verdict.machine.threads > 1 else "")
        for verdict in verdicts
        if verdict.machine is not None and verdict.figure is not None
    )
    decided = "; ".join(f"{name}: {n}" for name, n in counts.items())
    return [f"Claims that the rows of a machine decide: {decided}."] if counts else []


def _wide(texts: Sequence[str], width: int) -> list[list[str]]:
    says, rows_say, printed, where = texts
    return [
        textwrap.wrap(says, width - _BESIDE),
        textwrap.wrap(rows_say, 32),
        [printed],
        textwrap.wrap(where, 20),
    ]


def _narrow(texts: Sequence[str], width: int) -> list[list[str]]:
    says, rows_say, printed, where = texts
    both = f"{rows_say}; paper: {printed}" if printed else rows_say
    half = (width - 23) // 2
    return [textwrap.wrap(f"{says} ({where})", half), textwrap.wrap(both, half)]


def verdict_records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One record for each claim, nothing rounded."""
    return [
        {
            "paper": verdict.claim.paper,
            "where": verdict.claim.where,
            "claim": verdict.claim.says,
            "verdict": verdict.outcome,
            "figure": verdict.figure,
            "printed": verdict.printed,
            "unit": verdict.unit,
            "answered": verdict.answered,
            "asked": verdict.asked,
            "bounded": verdict.bounded,
            "worst": verdict.worst,
            "why": verdict.why,
            "wording": verdict.claim.wording,
            "quote": verdict.claim.quote,
            "quantity": verdict.claim.quantity,
            "refuted": refutation(verdict),
            "data": "; ".join(verdict.data),
            "shares": "; ".join(f"{name}={share}" for name, share in verdict.shares.items()),
            "runs": " ".join(map(str, verdict.counts)),
            "environment": verdict.machine and verdict.machine.environment,
            "threads": verdict.machine and verdict.machine.threads,
            "elsewhere": verdict.elsewhere,
            "keys": " ".join(verdict.keys),
        }
        for verdict in verdicts
    ]


def claimed(claim: Claim) -> str:
    """The claim, with the paper's words if it has them, or marked as our own question."""
    if claim.quote:
        return f"{claim.says} In the paper: “{claim.quote}”."
    return f"{claim.says} (Our question, not the paper's.)" if claim.ours else claim.says


def refutation(verdict: Verdict) -> str:
    """What the figure is, and with which figures a claim holds, holds weaker or is refuted."""
    holds, weaker = verdict.claim.holds, verdict.claim.weaker
    if holds is None or weaker is None:
        return "No run can refute it."
    every = (
        " on every data set or setting" if verdict.asked > 1 and verdict.claim.case is None else ""
    )
    limit, looser = _limit(verdict, holds), _limit(verdict, weaker)
    return (
        f"The figure: {verdict.claim.quantity}. The claim holds if it is {limit}{every}, holds"
        f" weaker if {looser}, and is refuted otherwise."
    )


def sentence(verdict: Verdict) -> str:
    """A verdict in one or two plain sentences, with its bound and the paper's own figure."""
    if verdict.figure is None or verdict.claim.holds is None or verdict.claim.weaker is None:
        beginnings = {
            OUTSIDE: "No run can tell",
            UNDECIDED: "Not decided",
            NOT_AS_STATED: "Not true as stated, but open whether in a weaker form",
        }
        text = f"{beginnings.get(verdict.outcome, 'Not measured')}: {verdict.why}."
        return f"{text} Other machines: {verdict.elsewhere}." if verdict.elsewhere else text
    where = f" on {_place(verdict, verdict.worst)}" if verdict.worst else ""
    figure, bound, looser = (
        _amount(verdict, verdict.figure),
        _limit(verdict, verdict.claim.holds),
        _limit(verdict, verdict.claim.weaker),
    )
    text = {
        HOLDS: f"It holds: {figure}{where}, where {bound} is asked.",
        WEAKER: f"It holds in a weaker form: {figure}{where}; {bound} is asked, {looser} is met.",
        FAILS: f"It fails: {figure}{where}, where {bound} is asked, or {looser} in a weaker form.",
    }[verdict.outcome]
    if verdict.noise:
        text += f" It is {verdict.noise}."
    if verdict.asked > 1:
        text += f" Rows answer {verdict.answered} of {verdict.asked} cases."
    if verdict.printed is not None:
        text += f" The paper prints {_amount(verdict, verdict.printed)}."
    if verdict.machine is not None:
        text += f" The rows are of environment {verdict.machine.environment}."
    if verdict.elsewhere:
        text += f" Other machines: {verdict.elsewhere}."
    return text


def _limit(verdict: Verdict, bound: Bound) -> str:
    fraction = verdict.claim.case is not None
    number = (
        f"{100 * bound.limit:g} % of the cases" if fraction else f"{bound.limit:g} {verdict.unit}"
    )
    return f"{'at least' if bound.sign == '>=' else 'at most'} {number.strip()}"


def _amount(verdict: Verdict, value: float) -> str:
    """A figure with its unit; a fraction is the percentage of cases in which the claim is true."""
    text = _figure(verdict, value)
    if value == verdict.figure and verdict.bounded:
        text = f"{verdict.bounded} {text}"
    return f"{text} of the cases" if verdict.claim.case is not None else text


def _said(verdict: Verdict) -> str:
    """The figure, its data set and all data sets that answer; or why there is no figure."""
    elsewhere = f"; {verdict.elsewhere}" if verdict.elsewhere else ""
    if verdict.figure is None:
        return verdict.why + elsewhere
    texts = [f"{verdict.bounded} {_figure(verdict, verdict.figure)}".strip()]
    if verdict.worst:
        texts[0] += f" on {_place(verdict, verdict.worst)}"
    if verdict.asked > 1:
        texts.append(f"{verdict.answered} of {verdict.asked}")
    names = [_place(verdict, name) for name in verdict.data if name != verdict.worst]
    said = ", ".join(texts) + (f" ({', '.join(names)})" if names else "")
    return (f"{said}; {verdict.noise}" if verdict.noise else said) + elsewhere


def _place(verdict: Verdict, data: str) -> str:
    """A data set, with its share of the paper's rows if it has more or fewer."""
    share = f"{100 * verdict.shares.get(data, 1.0):.3g}"
    return data if share == "100" else f"{data} [{share} %]"


def _figure(verdict: Verdict, value: float | None) -> str:
    """The value with its unit; a fraction in per cent."""
    if value is None:
        return ""
    factor, decimals, unit = 1.0, decimals_for(value, 3), verdict.unit
    if verdict.claim.case is not None:
        factor, decimals, unit = 100.0, 0, "%"
    bounds = [bound for bound in (verdict.claim.holds, verdict.claim.weaker) if bound is not None]

    def crossed() -> bool:
        printed = round(factor * value, decimals) / factor
        return any(bound.takes(printed) != bound.takes(value) for bound in bounds)

    while decimals < _MAX_DECIMALS and crossed():
        decimals += 1
    return f"{factor * value:.{decimals}f} {unit}".rstrip()
