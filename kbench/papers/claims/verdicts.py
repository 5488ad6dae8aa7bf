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
    for one in verdicts:
        name = _heading(one)
        sheet = by_paper.setdefault(name, Sheet(name, len(header), header, []))
        says = f"{claimed(one.claim)} {refutation(one)}"
        texts = [says, _said(one), _figure(one, one.printed), one.claim.where]
        if width is None:
            rows = [[one.outcome, *texts]]
        else:
            columns = _wide(texts, width) if wide else _narrow(texts, width)
            rows = list(map(list, itertools.zip_longest([one.outcome], *columns, fillvalue="")))
        sheet.rows.extend(rows)
    for name, sheet in by_paper.items():
        sheet.notes.extend(_machines([one for one in verdicts if _heading(one) == name]))
    listed = list(by_paper.values())
    if listed:
        listed[-1].notes.append(LEGEND)
    return listed


def _heading(one: Verdict) -> str:
    return f"{paper(one.claim.paper).title}: claims"


def _machines(verdicts: Sequence[Verdict]) -> list[str]:
    """How many claims the rows of each machine decide, as one note if there are any."""
    counts = Counter(
        f"environment {one.machine.environment}, {one.machine.threads} thread"
        + ("s" if one.machine.threads > 1 else "")
        for one in verdicts
        if one.machine is not None and one.figure is not None
    )
    decided = "; ".join(f"{name}: {n}" for name, n in counts.items())
    return [f"Claims that the rows of a machine decide: {decided}."] if counts else []


def _wide(texts: Sequence[str], width: int) -> list[list[str]]:
    says, said, printed, where = texts
    return [
        textwrap.wrap(says, width - _BESIDE),
        textwrap.wrap(said, 32),
        [printed],
        textwrap.wrap(where, 20),
    ]


def _narrow(texts: Sequence[str], width: int) -> list[list[str]]:
    says, said, printed, where = texts
    given = f"{said}; paper: {printed}" if printed else said
    half = (width - 23) // 2
    return [textwrap.wrap(f"{says} ({where})", half), textwrap.wrap(given, half)]


def verdict_records(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """One record for each claim, nothing rounded."""
    return [
        {
            "paper": one.claim.paper,
            "where": one.claim.where,
            "claim": one.claim.says,
            "verdict": one.outcome,
            "figure": one.figure,
            "printed": one.printed,
            "unit": one.unit,
            "answered": one.answered,
            "asked": one.asked,
            "bounded": one.bounded,
            "worst": one.worst,
            "why": one.why,
            "wording": one.claim.wording,
            "quote": one.claim.quote,
            "quantity": one.claim.quantity,
            "refuted": refutation(one),
            "data": "; ".join(one.data),
            "shares": "; ".join(f"{name}={share}" for name, share in one.shares.items()),
            "runs": " ".join(map(str, one.counts)),
            "environment": one.machine and one.machine.environment,
            "threads": one.machine and one.machine.threads,
            "elsewhere": one.elsewhere,
            "keys": " ".join(one.keys),
        }
        for one in verdicts
    ]


def claimed(claim: Claim) -> str:
    """The claim, with the paper's words if it has them, or marked as our own question."""
    if claim.quote:
        return f"{claim.says} In the paper: “{claim.quote}”."
    return f"{claim.says} (Our question, not the paper's.)" if claim.ours else claim.says


def refutation(one: Verdict) -> str:
    """What the figure is, and with which figures a claim holds, holds weaker or is refuted."""
    holds, weaker = one.claim.holds, one.claim.weaker
    if holds is None or weaker is None:
        return "No run can refute it."
    every = " on every data set or setting" if one.asked > 1 and one.claim.case is None else ""
    limit, looser = _limit(one, holds), _limit(one, weaker)
    return (
        f"The figure: {one.claim.quantity}. The claim holds if it is {limit}{every}, holds weaker"
        f" if {looser}, and is refuted otherwise."
    )


def sentence(one: Verdict) -> str:
    """A verdict in one or two plain sentences, with its bound and the paper's own figure."""
    if one.figure is None or one.claim.holds is None or one.claim.weaker is None:
        begin = {
            OUTSIDE: "No run can tell",
            UNDECIDED: "Not decided",
            NOT_AS_STATED: "Not true as stated, but open whether in a weaker form",
        }
        said = f"{begin.get(one.outcome, 'Not measured')}: {one.why}."
        return f"{said} Other machines: {one.elsewhere}." if one.elsewhere else said
    where = f" on {_place(one, one.worst)}" if one.worst else ""
    figure, asked, least = (
        _amount(one, one.figure),
        _limit(one, one.claim.holds),
        _limit(one, one.claim.weaker),
    )
    said = {
        HOLDS: f"It holds: {figure}{where}, where {asked} is asked.",
        WEAKER: f"It holds in a weaker form: {figure}{where}; {asked} is asked, {least} is met.",
        FAILS: f"It fails: {figure}{where}, where {asked} is asked, or {least} in a weaker form.",
    }[one.outcome]
    if one.noise:
        said += f" It is {one.noise}."
    if one.asked > 1:
        said += f" Rows answer {one.answered} of {one.asked} cases."
    if one.printed is not None:
        said += f" The paper prints {_amount(one, one.printed)}."
    if one.machine is not None:
        said += f" The rows are of environment {one.machine.environment}."
    if one.elsewhere:
        said += f" Other machines: {one.elsewhere}."
    return said


def _limit(one: Verdict, bound: Bound) -> str:
    fraction = one.claim.case is not None
    number = f"{100 * bound.limit:g} % of the cases" if fraction else f"{bound.limit:g} {one.unit}"
    return f"{'at least' if bound.sign == '>=' else 'at most'} {number.strip()}"


def _amount(one: Verdict, value: float) -> str:
    """A figure with its unit; a fraction is the percentage of cases in which the claim is true."""
    text = _figure(one, value)
    if value == one.figure and one.bounded:
        text = f"{one.bounded} {text}"
    return f"{text} of the cases" if one.claim.case is not None else text


def _said(one: Verdict) -> str:
    """The figure, its data set and all data sets that answer; or why there is no figure."""
    elsewhere = f"; {one.elsewhere}" if one.elsewhere else ""
    if one.figure is None:
        return one.why + elsewhere
    parts = [f"{one.bounded} {_figure(one, one.figure)}".strip()]
    if one.worst:
        parts[0] += f" on {_place(one, one.worst)}"
    if one.asked > 1:
        parts.append(f"{one.answered} of {one.asked}")
    names = [_place(one, name) for name in one.data if name != one.worst]
    said = ", ".join(parts) + (f" ({', '.join(names)})" if names else "")
    return (f"{said}; {one.noise}" if one.noise else said) + elsewhere


def _place(one: Verdict, data: str) -> str:
    """A data set, with its share of the paper's rows if it has more or fewer."""
    share = f"{100 * one.shares.get(data, 1.0):.3g}"
    return data if share == "100" else f"{data} [{share} %]"


def _figure(one: Verdict, value: float | None) -> str:
    """The value with its unit; a fraction in per cent."""
    if value is None:
        return ""
    factor, decimals, unit = 1.0, decimals_for(value, 3), one.unit
    if one.claim.case is not None:
        factor, decimals, unit = 100.0, 0, "%"
    bounds = [bound for bound in (one.claim.holds, one.claim.weaker) if bound is not None]

    def crossed() -> bool:
        printed = round(factor * value, decimals) / factor
        return any(bound.takes(printed) != bound.takes(value) for bound in bounds)

    while decimals < _MAX_DECIMALS and crossed():
        decimals += 1
    return f"{factor * value:.{decimals}f} {unit}".rstrip()
