"""The decision on a claim: its query is answered from rows, and the answer is a verdict.

A claim has cases: its repetitions, but for those of which the paper prints no number although it
does of others. A case is answered if all its terms have values of one data set and one machine; all
rival methods must have been run. Its figure is an interval (`kbench.papers.claims.terms`), because
a run that was stopped or failed might have reached more.

A claim holds if every case keeps the bound, and does not hold if one misses it. A claim about a
share of its cases counts those that miss it, and those that may. Only rows of the paper's own data
decide, and only if the answer stays the same with times and scores that are off by what equal runs
differ by (`_noise`); a figure of one run alone is not off, because all its seconds are slow or fast
together. Everything else is open, with a reason.

Of several machines that counts whose rows answer most cases, then the one with most runs, then the
one with most values from the experiments of its tables. What the rows of another machine decide
otherwise stands beside the verdict.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kbench.papers.cells.runs import Runs
from kbench.papers.claims.outcomes import (
    FAILS,
    HOLDS,
    NO_DATA,
    NOT_RUN,
    OPEN,
    OTHER_DATA,
    TOO_NOISY,
    UNKNOWN_SETTINGS,
    Outcome,
)
from kbench.papers.claims.stated import Bound, Claim, Interval
from kbench.papers.claims.terms import ERROR, FIT, PREDICTION, Term, terms_of
from kbench.papers.printed.causes import MAX_RELATIVE
from kbench.report.comparisons.tables import Machine

# Test rows of a difference that chance may decide, whatever rows they are: of five rows that one of
# two models alone has right, all are the same model's by chance once in sixteen (sign test).
_CHANCE_ROWS = 5
# Factors by which seconds of equal runs differ: of training within an hour, of training in several
# hours, of predictions, which are shorter. Smaller factors decide more claims, and some of them
# wrongly. Measured: ten runs of `dcsvm_idea`, each made three times within 15 minutes, differed by
# up to 1.25; 24 runs of DC-SVM repeated three hours later on the same idle machine by up to 1.51;
# 46 runs of LDKL and MEKA repeated a day later by up to 1.88.
_WITHIN_AN_HOUR, _LATER, _OF_PREDICTION = 1.25, 2.0, 2.0
_HOUR_S = 3600.0
# The factor by which two values of RMSE or of a kernel error may differ and count as equal.
_OF_ERROR = 1.0 + MAX_RELATIVE


@dataclass(frozen=True)
class Case:
    """One repetition of a query: its terms, and the figures that the rows leave possible.

    `figures` is None without an answer; `wider` are those with times and scores that are off by
    `noise`, in words.
    """

    terms: Sequence[Term]
    printed: Interval | None
    figures: Interval | None
    wider: Interval | None
    noise: str

    @property
    def of_the_paper(self) -> bool:
        """Whether rows of the paper's own data answer it."""
        return self.figures is not None and not any(term.stand_in for term in self.terms)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a claim.

    Attributes
    ----------
    claim : Claim
    outcome : Outcome
    why : str
        More on the reason of an open one.
    figures, printed : Interval, optional
        The figure that decides, or that rows have, and the paper's: the worst of the cases, or
        their share.
    unit : str
        The unit of both: `×` of ratios, `points` of differences in per cent, or that of the values.
    worst : str
        The data set with the worst answer if several cases are answered.
    kept : int
        Number of cases of the paper's own data that keep the bound.
    own, answered, asked : int
        Numbers of cases that rows of the paper's own data answer, that any rows answer, and of all.
    shares : mapping of str to (float or None)
        The data sets that took part -> our rows over the paper's, None where they are not known or
        the same.
    keys : tuple of str
        The runs behind the figure.
    counts : tuple of int
        For each term of the worst answer, how many runs its value is the mean of.
    by_experiment : int
        Number of values that come from the experiments of the claim's tables.
    machine : Machine, optional
        The machine of all these runs.
    elsewhere : str
        What the rows of other machines decide otherwise.
    idea : Verdict, optional
        The same question with the paper's idea alone against the same code.
    """

    claim: Claim
    outcome: Outcome
    why: str = ""
    figures: Interval | None = None
    printed: Interval | None = None
    unit: str = ""
    worst: str = ""
    kept: int = 0
    own: int = 0
    answered: int = 0
    asked: int = 0
    shares: dict[str, float | None] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    by_experiment: int = 0
    machine: Machine | None = None
    elsewhere: str = ""
    idea: "Verdict | None" = None

    @property
    def decided(self) -> bool:
        return self.outcome in (HOLDS, FAILS)

    @property
    def kept_by_rows(self) -> bool | None:
        """Whether the figure of an open claim keeps its bound; None if rows leave that open."""
        bound, figures = self.claim.holds, self.figures
        if bound is None or figures is None or self.decided:
            return None
        if self.claim.case is not None:
            figures = figures[0] / 100.0, figures[1] / 100.0
        return None if _is_open(bound, figures) else bound.takes_all(figures)


def verdict(claim: Claim, runs: Runs, *, as_idea: bool = False) -> Verdict:
    """The verdict by the rows of the machine that answers the claim best.

    The figure of an idea (`as_idea`) is over all cases with rows, whatever its outcome.
    """
    if claim.open:
        return Verdict(claim=claim, outcome=OPEN[claim.open], why=claim.why)
    machines: Sequence[Machine | None] = runs.machines or [None]
    verdicts = [_verdict(claim, runs, machine, as_idea=as_idea) for machine in machines]
    best = max(
        verdicts,
        key=lambda one: (one.answered, len(one.keys), _has_run(one), one.by_experiment),
    )
    others = [one for one in verdicts if one.decided and one.outcome != best.outcome]
    elsewhere = "; ".join(
        f"environment {one.machine.environment}: {one.outcome}" for one in others if one.machine
    )
    idea = None if claim.idea is None else verdict(claim.idea, runs, as_idea=True)
    return replace(best, elsewhere=elsewhere, idea=idea)


def _has_run(verdict: Verdict) -> bool:
    """Whether runs that failed are the reason of a verdict without an answer."""
    return verdict.outcome is NOT_RUN and not verdict.why.startswith("no rows")


def _verdict(claim: Claim, runs: Runs, machine: Machine | None, *, as_idea: bool) -> Verdict:
    """The verdict by the rows of one machine."""
    assert claim.holds is not None
    cases = [_case(claim, terms_of(claim, names, runs, machine)) for names in claim.each]
    if any(case.printed is not None for case in cases):
        cases = [case for case in cases if case.printed is not None]
    answered = [case for case in cases if case.figures is not None]
    own = [case for case in cases if case.of_the_paper]
    bound = claim.case or claim.holds
    outcome = _outcome(claim, cases)
    # A claim is refuted by the paper's own data, and what it says is shown of all data.
    shown = own if outcome is FAILS and not as_idea else answered
    used = [term for case in shown for term in case.terms]
    made = Verdict(
        claim=claim,
        outcome=outcome,
        printed=_summary(claim, [case.printed for case in cases]),
        figures=_summary(claim, [case.figures for case in shown]),
        unit=_unit(claim, cases[0].terms[0].unit),
        kept=sum(bound.takes_all(case.wider) for case in own if case.wider),
        own=len(own),
        answered=len(answered),
        asked=len(cases),
        shares={term.data: term.share for term in used if term.data},
        keys=tuple(dict.fromkeys(key for term in used for key in term.keys)),
        by_experiment=sum(term.by_experiment for term in used),
        machine=machine,
    )
    if shown and claim.case is None:
        worst = _worst(claim.holds, shown)
        name = worst.terms[0].data if len(shown) > 1 else ""
        made = replace(made, worst=name, counts=tuple(term.runs for term in worst.terms))
    return replace(made, why=_why(made, cases))


def _outcome(claim: Claim, cases: Sequence[Case]) -> Outcome:
    assert claim.holds is not None
    answered = [case for case in cases if case.figures is not None]
    if not answered:
        lacking = [term for case in cases for term in case.terms if term.measured is None]
        return NO_DATA if lacking and all(term.absent for term in lacking) else NOT_RUN
    if _unknown(claim, answered):
        return UNKNOWN_SETTINGS
    bound = claim.case or claim.holds
    own = [case for case in cases if case.of_the_paper]
    kept = sum(bound.takes_all(case.wider) for case in own if case.wider)
    missed = sum(bound.takes_none(case.wider) for case in own if case.wider)
    if claim.case is not None:
        share = kept / len(cases), 1.0 - missed / len(cases)
        holds, fails = claim.holds.takes_all(share), claim.holds.takes_none(share)
    else:
        holds, fails = kept == len(cases), missed > 0
    if holds or fails:
        return HOLDS if holds else FAILS
    if len(own) < len(answered):
        return OTHER_DATA
    if len(answered) < len(cases):
        lacking = [term for case in cases if case.figures is None for term in case.terms]
        return NO_DATA if any(term.absent for term in lacking) else NOT_RUN
    return NOT_RUN if any(_is_open(bound, case.figures) for case in own) else TOO_NOISY


def _unknown(claim: Claim, answered: Sequence[Case]) -> str:
    """The settings that the paper does not give."""
    found = dict.fromkeys(term.unknown for case in answered for term in case.terms if term.unknown)
    return claim.unknown or ("" if claim.ours else "; ".join(found))


def _why(verdict: Verdict, cases: Sequence[Case]) -> str:
    """More on the reason of an open verdict; what is missing, first what a run would change."""
    claim = verdict.claim
    if verdict.outcome is UNKNOWN_SETTINGS:
        return _unknown(claim, [case for case in cases if case.figures is not None])
    if verdict.outcome is TOO_NOISY:
        bound = claim.case or claim.holds
        assert bound is not None
        noisy = next(case for case in cases if case.wider and _is_open(bound, case.wider))
        where = f" on {noisy.terms[0].data}" if len(cases) > 1 else ""
        assert noisy.wider is not None
        unit = verdict.unit if claim.case is None else _unit(replace(claim, case=None), "")
        return f"{in_words(noisy.wider, unit)}{where} {noisy.noise}"
    if verdict.outcome not in (NOT_RUN, NO_DATA):
        return ""
    missing = [term for case in cases for term in case.terms if term.measured is None]
    if missing:
        no_data = verdict.outcome is NO_DATA
        return min(missing, key=lambda one: (one.absent != no_data, not one.matched)).why
    if verdict.figures is None:
        return "what it is divided by is zero"
    return f"runs that failed leave it open: {in_words(verdict.figures, verdict.unit)}"


def _case(claim: Claim, terms: Sequence[Term]) -> Case:
    figures = _possible(claim.kind, [term.measured for term in terms])
    printed = _possible(claim.kind, [term.printed for term in terms])
    wider, noise = figures, ""
    if figures is not None and (len(terms) < 2 or len({term.keys for term in terms}) > 1):
        wider, noise = _noise(claim.kind, figures, terms)
    return Case(terms, printed, figures, wider, noise)


def _noise(kind: str, figures: Interval, terms: Sequence[Term]) -> tuple[Interval, str]:
    """What a figure of several runs might be if times or scores were off, and why, in words."""
    low, high = figures
    if kind in ("ratio", "value"):
        of = {term.noise for term in terms}
        seconds = 1.0
        if FIT in of:
            starts = [start for term in terms for start in term.starts]
            seconds = _WITHIN_AN_HOUR if max(starts) - min(starts) <= _HOUR_S else _LATER
        if PREDICTION in of:
            seconds = max(seconds, _OF_PREDICTION)
        factor = max(seconds, _OF_ERROR if ERROR in of else 1.0)
        what = "times" if seconds > 1.0 else "errors"
        return (low / factor, high * factor), f"if {what} are off by {factor:.3g} ×"
    least = 0.0 if kind == "range" else -math.inf
    chance = _CHANCE_ROWS * max(term.row for term in terms)
    return (max(least, low - chance), high + chance), f"if chance decides {_CHANCE_ROWS} test rows"


def _is_open(bound: Bound, figures: Interval | None) -> bool:
    return figures is not None and not bound.takes_all(figures) and not bound.takes_none(figures)


def _worst(bound: Bound, cases: Sequence[Case]) -> Case:
    """The case whose figure is the worst; of bounds that are open, the one that might be."""
    known = [(case.figures, case) for case in cases if case.figures is not None]
    sign = 1.0 if bound.sign == ">=" else -1.0
    return min(known, key=lambda pair: (sign * bound.best(pair[0]), sign * bound.worst(pair[0])))[1]


def _unit(claim: Claim, unit: str) -> str:
    """The unit of the figure if its terms are in `unit`; that of a fraction is per cent."""
    if claim.case is not None:
        return "%"
    if claim.kind == "ratio":
        return "×"
    return "points" if unit == "%" and claim.kind != "value" else unit


def in_words(figures: Interval, unit: str, limit: float = math.nan) -> str:
    """An interval in words, with as many digits as show on which side of `limit` its ends lie."""
    low, high = (_digits(end, limit) for end in figures)
    if figures[0] == figures[1]:
        text = low
    elif math.isinf(figures[1]):
        text = "any value" if figures[0] in (0.0, -math.inf) else f"at least {low}"
    else:
        text = f"at most {high}" if math.isinf(figures[0]) else f"from {low} to {high}"
    return text if text == "any value" else f"{text} {unit}".strip()


def _digits(value: float, limit: float) -> str:
    if abs(value) >= 1000.0:
        return f"{value:,.0f}"
    texts = [f"{value:.{digits}g}" for digits in (3, 4, 5, 6)]
    same_side = [text for text in texts if (float(text) < limit) == (value < limit)]
    return (same_side or texts[-1:])[0]


def _summary(claim: Claim, answers: Sequence[Interval | None]) -> Interval | None:
    """The worst answer, or the per cent of the answers within `case`; None without answers."""
    known = [figures for figures in answers if figures is not None]
    if not known or claim.holds is None:
        return None
    if claim.case is not None:
        within = sum(map(claim.case.takes_all, known))
        outside = sum(map(claim.case.takes_none, known))
        return 100.0 * within / len(known), 100.0 * (len(known) - outside) / len(known)
    lows, highs = zip(*known, strict=True)
    return claim.holds.worst(lows), claim.holds.worst(highs)


def _possible(kind: str, values: Sequence[Interval | None]) -> Interval | None:
    """The least and the largest answer that the intervals of the terms leave possible."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    lows, highs = zip(*known, strict=True)
    if kind == "range":
        return max(0.0, max(lows) - min(highs)), max(highs) - min(lows)
    if kind == "value":
        return known[0]
    if kind == "difference":
        return lows[0] - highs[1], highs[0] - lows[1]
    if not highs[1]:
        return None
    return lows[0] / highs[1], highs[0] / lows[1] if lows[1] else math.inf
