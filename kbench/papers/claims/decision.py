"""The decision on a claim: its query is answered from rows, and the answer is a verdict.

It is answered twice, by the printed numbers and by the measured ones, in the units that the paper
prints. All terms of one repetition are of one data set. All rival methods must have been run; one
without rows leaves the claim unanswered.

Terms are intervals (`kbench.papers.claims.terms`): a rival that failed might have reached any
value, and so might a failed setting where a fraction of the settings is asked. The figure is then
an interval, too. If all of it says the same, the claim is decided; if all of it keeps the looser
bound, it holds weaker; if none of it keeps the sentence's own bound, the claim is not true as it is
stated, and whether it holds weaker or fails is left open; otherwise all is.

Seconds of the same run differ from hour to hour on one machine. A quotient of the seconds of
different runs decides only what it says, too, if it is off by the factor by which seconds of equal
runs differ there, which is smaller within an hour (`Runs.drift`). So it is with seconds of
predictions, with their costs, which are quotients of short times themselves, and with phases of
less than a second; with a quotient of RMSE or kernel errors that is off by `_CHANCE_QUOTIENT`; and
with a difference of accuracies or errors that is off by `_CHANCE_ROWS` test rows.

A claim whose praised side has inputs that the other side has not can be refuted by them, but not
confirmed. So it is with a claim about several data sets or settings, if rows answer fewer than half
of them; on a share of the cases such rows decide nothing.

Of several machines that counts whose rows answer most repetitions, then the one with most runs, as
of several seeds, then one whose rows decide the claim, then the one with most values from the
experiments of its tables, then the one with the worst outcome. What another machine's rows say
instead stands beside the verdict.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kbench.papers.cells.runs import SECONDS_OF_PREDICTION, TRAINING, Drift, Runs, of_one_hour
from kbench.papers.claims.stated import Claim, Interval
from kbench.papers.claims.terms import UNKNOWN, Term, terms_of
from kbench.papers.printed.causes import MAX_RELATIVE
from kbench.report.comparisons.tables import Machine

HOLDS, WEAKER, FAILS = "holds", "holds weaker", "fails"
NOT_AS_STATED = "not as stated"
NOT_RUN = "open: not run"
UNDECIDED, NOT_MEASURABLE, OUTSIDE = "undecided", "not measurable here", "outside the scope"
# Test rows of a difference that chance may decide, whatever rows they are: of five rows that one of
# two machines alone has right, all are the same machine's by chance once in sixteen (sign test).
_CHANCE_ROWS = 5
# The factor by which two values of RMSE or of a kernel error may differ and count as equal: that of
# a measured and a printed one.
_CHANCE_QUOTIENT = 1.0 + MAX_RELATIVE
# The share of the cases of a claim that rows must answer, if it is to hold: `_confirmed` and the
# legend call it half. Set by hand.
_MIN_ANSWERED = 0.5
# Outcomes with a figure, the best first.
_DECIDED = (HOLDS, WEAKER, FAILS)

_NO_DRIFT = Drift(1.0)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a claim.

    Attributes
    ----------
    claim : Claim
    outcome : str
        One of the eight outcomes above.
    why : str
        Why there is no figure, for the five outcomes without one.
    figure, printed : float, optional
        The figure from the rows, and from the numbers that the paper prints.
    bounded : str
        `at least` or `at most` if the figure is only a bound, because runs failed.
    unit : str
        The unit of both: `×` of ratios, `points` of differences in per cent, or that of the values.
    worst : str
        The data set with the worst answer if several data sets answer.
    answered, asked : int
        Numbers of repetitions that the rows answer, and of all.
    data : tuple of str
        The data sets of kbench that took part.
    shares : mapping of str to float
        For those of them with more or fewer rows than the paper's, our rows over the paper's.
    keys : tuple of str
        The runs behind the figure.
    counts : tuple of int
        For each term of the answer that decides, how many runs its value is the mean of.
    own : int
        Number of values that come from the experiments of the claim's tables.
    noise : str
        What the figure might be if times or scores are off, where that weakens the verdict.
    machine : Machine, optional
        The machine of all these runs.
    elsewhere : str
        What the rows of other machines say, where that is another outcome.
    """

    claim: Claim
    outcome: str
    why: str = ""
    figure: float | None = None
    printed: float | None = None
    bounded: str = ""
    unit: str = ""
    worst: str = ""
    answered: int = 0
    asked: int = 0
    data: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    own: int = 0
    noise: str = ""
    machine: Machine | None = None
    elsewhere: str = ""


def verdict(claim: Claim, runs: Runs) -> Verdict:
    """The verdict by the rows of the machine that answers the claim best."""
    if claim.outside:
        return Verdict(claim=claim, outcome=OUTSIDE, why=claim.outside)
    machines: Sequence[Machine | None] = runs.machines or [None]
    verdicts = [_verdict(claim, runs, machine) for machine in machines]
    best = max(
        verdicts,
        key=lambda candidate: (
            candidate.answered,
            len(candidate.keys),
            candidate.figure is not None,
            candidate.outcome in (UNDECIDED, NOT_AS_STATED),
            candidate.own,
            _DECIDED.index(candidate.outcome) if candidate.outcome in _DECIDED else -1,
        ),
    )
    others = [
        candidate
        for candidate in verdicts
        if candidate.answered and candidate.outcome != best.outcome
    ]
    return replace(best, elsewhere="; ".join(map(_elsewhere, others)))


def _elsewhere(verdict: Verdict) -> str:
    """What the rows of a machine say that does not count."""
    assert verdict.machine is not None
    figure = verdict.why if verdict.figure is None else _figure_in_words(verdict)
    return (
        f"environment {verdict.machine.environment}{_cases(verdict)}: {verdict.outcome}, {figure}"
    )


def _cases(verdict: Verdict) -> str:
    """How many of how many repetitions rows answer, where there are several."""
    return f" in {verdict.answered} of {verdict.asked} cases" if verdict.asked > 1 else ""


def _figure_in_words(verdict: Verdict) -> str:
    """The figure, as a bound if it is one, with its unit."""
    assert verdict.figure is not None
    text = _range(verdict.claim, (verdict.figure, verdict.figure), verdict.unit)
    return f"{verdict.bounded} {text}".strip()


def _verdict(claim: Claim, runs: Runs, machine: Machine | None) -> Verdict:
    """The verdict by the rows of one machine."""
    answers = [terms_of(claim, names, runs, machine) for names in claim.each]
    possible = [_possible(claim.kind, [_known(claim, term) for term in terms]) for terms in answers]
    in_paper = [_possible(claim.kind, [term.printed for term in terms]) for terms in answers]
    drifts = [_drift(terms, runs, machine) for terms in answers]
    pairs = zip(possible, answers, drifts, strict=True)
    shifted = [_off(claim, interval, terms, drift.factor) for interval, terms, drift in pairs]
    figures = _summary(claim, possible)
    answered = [terms for terms, value in zip(answers, possible, strict=True) if value is not None]
    used = [term for terms in answered for term in terms]
    verdict = Verdict(
        claim=claim,
        outcome=UNDECIDED,
        printed=_decided(claim, _summary(claim, in_paper))[1],
        unit=_unit(claim, answers[0][0].unit),
        answered=len(answered),
        asked=len(answers),
        data=tuple(dict.fromkeys(term.data for term in used if term.data)),
        shares={term.data: term.share for term in used if term.share is not None},
        keys=tuple(dict.fromkeys(key for term in used for key in term.keys)),
        own=sum(term.own for term in used),
        machine=machine,
    )
    if figures is None:
        return _unanswered(verdict, [term for terms in answers for term in terms])
    outcome, figure, bounded = _decided(claim, figures)
    if figure is None:
        left = _range(claim, figures, verdict.unit)
        why = f"runs that failed leave it open: {left}{_cases(verdict)}"
        return _confirmed(_open(verdict, why, figures))
    verdict = replace(verdict, outcome=outcome, figure=figure, bounded=bounded)
    if claim.case is None:
        at_end = [value is not None and figure in value for value in possible]
        terms = next(terms for terms, is_worst in zip(answers, at_end, strict=True) if is_worst)
        worst = terms[0].data if len(answered) > 1 else ""
        verdict = replace(verdict, worst=worst, counts=tuple(term.runs for term in terms))
    place = _deciding(claim, shifted, drifts)
    data = answers[place][0].data if claim.case is None else ""
    wider = _summary(claim, shifted) or figures
    verdict = _within_noise(verdict, figures, wider, drifts[place], data)
    return _confirmed(verdict)


def _unanswered(verdict: Verdict, terms: Sequence[Term]) -> Verdict:
    """The verdict without an answer: what is missing, first what a run would change."""
    missing = [term for term in terms if term.measured is None]
    if not missing:
        return replace(verdict, why="what it is divided by is zero")
    lacking = min(missing, key=lambda term: (not term.matched, term.absent))
    if lacking.matched:
        return replace(verdict, why=lacking.why)
    return replace(verdict, outcome=NOT_MEASURABLE if lacking.absent else NOT_RUN, why=lacking.why)


def _within_noise(
    verdict: Verdict, figures: Interval, wider: Interval, drift: Drift, data: str
) -> Verdict:
    """The verdict if what it says must stay true with times or shares that are off.

    `drift` is that of the worst answer then, which is of `data`.
    """
    claim = verdict.claim
    assert claim.weaker is not None
    if _decided(claim, wider)[0] == verdict.outcome:
        return verdict
    unit = verdict.unit
    if drift.factor > 1.0:
        seen = f"of {drift.seen_of} were" if drift.seen_of else "may be"
        there = f" on {data}" if verdict.worst not in ("", data) else ""
        why = f"times{there} are off by {drift.factor:.3g} ×, as those of equal runs {seen}"
    elif claim.kind == "ratio":
        why = f"errors are off by {_CHANCE_QUOTIENT:.3g} ×"
    else:
        why = f"chance decides {_CHANCE_ROWS} test rows"
    text = f"{_range(claim, wider, unit)} if {why}"
    if verdict.outcome != FAILS and claim.weaker.takes_all(wider):
        return replace(verdict, outcome=WEAKER, noise=text)
    where = f" on {verdict.worst}, {verdict.answered} of {verdict.asked}" if verdict.worst else ""
    return _open(verdict, f"{_range(claim, figures, unit)}{where}, {text}", wider)


def _confirmed(verdict: Verdict) -> Verdict:
    """The verdict; a claim with unequal inputs or few answers is not confirmed."""
    claim = verdict.claim
    if verdict.outcome not in (*_DECIDED, NOT_AS_STATED):
        return verdict
    why = ""
    few = verdict.answered < _MIN_ANSWERED * verdict.asked
    refuted = verdict.outcome in (FAILS, NOT_AS_STATED)
    if few and (not refuted or claim.case is not None):
        why = f"rows answer {verdict.answered} of {verdict.asked} cases, fewer than half"
    elif claim.unequal and not refuted:
        why = f"the inputs are not equal, {claim.unequal}"
    if not why:
        return verdict
    if verdict.figure is None:
        return _open(verdict, f"{why}; {verdict.why}")
    where = f" on {verdict.worst}" if verdict.worst else ""
    return _open(verdict, f"{why}; the figure would be {_figure_in_words(verdict)}{where}")


def _open(verdict: Verdict, why: str, figures: Interval | None = None) -> Verdict:
    """The verdict without its figure, which `why` tells; `figures` are what it might be."""
    assert verdict.claim.holds is not None
    refuted = figures is not None and verdict.claim.holds.takes_none(figures)
    outcome = NOT_AS_STATED if refuted else UNDECIDED
    return replace(
        verdict, outcome=outcome, why=why, figure=None, bounded="", worst="", counts=(), noise=""
    )


def _decided(claim: Claim, figures: Interval | None) -> tuple[str, float | None, str]:
    """The outcome, the end of the interval that decides it, and whether it is only a bound."""
    assert claim.holds is not None
    assert claim.weaker is not None
    if figures is None:
        return UNDECIDED, None, ""
    if claim.holds.takes_all(figures):
        outcome, figure = HOLDS, claim.holds.worst(figures)
    elif claim.weaker.takes_none(figures):
        outcome, figure = FAILS, claim.holds.best(figures)
    elif claim.weaker.takes_all(figures):
        outcome, figure = WEAKER, claim.holds.worst(figures)
    else:
        return UNDECIDED, None, ""
    low, high = figures
    if low == high:
        return outcome, figure, ""
    return outcome, figure, "at least" if figure == low else "at most"


def _known(claim: Claim, term: Term) -> Interval | None:
    """The values that the runs of a term leave possible; None if it counts as not run.

    Of a fraction no failed run is left out: settings in which a method fails are those where it is
    slow.
    """
    if term.measured is None and term.matched and claim.case is not None:
        return UNKNOWN
    return term.measured


def _drift(terms: Sequence[Term], runs: Runs, machine: Machine | None) -> Drift:
    """By how much the times of one repetition may be off."""
    columns = {term.times for term in terms} - {""}
    if machine is None or not columns:
        return _NO_DRIFT
    apart = not of_one_hour([start for term in terms for start in term.starts])
    if any(term.short for term in terms):
        columns.add(SECONDS_OF_PREDICTION)
    return max(runs.drift(machine, name, apart=apart) for name in columns)


def _deciding(claim: Claim, off: Sequence[Interval | None], drifts: Sequence[Drift]) -> int:
    """Which repetition is the worst if times are off; of a fraction that whose are off most."""
    assert claim.holds is not None
    known = {place: figures for place, figures in enumerate(off) if figures is not None}
    if claim.case is not None:
        return max(known, key=lambda place: drifts[place])
    if claim.holds.sign == ">=":
        return min(known, key=lambda place: known[place][0])
    return max(known, key=lambda place: known[place][1])


def _off(
    claim: Claim, figures: Interval | None, terms: Sequence[Term], factor: float
) -> Interval | None:
    """What a ratio or value of times might be if they were off, and a difference of scores.

    Phases of one run that take a second or more are slow or fast together, and its scores are of
    the same test rows.
    """
    if figures is None:
        return None
    low, high = figures
    of_one_run = len(terms) > 1 and len({term.keys for term in terms}) == 1
    if claim.kind in ("ratio", "value"):
        if of_one_run and all(term.times == TRAINING and not term.short for term in terms):
            return figures
        if any(term.inexact for term in terms):
            factor = max(factor, _CHANCE_QUOTIENT)
        return low / factor, high * factor
    if of_one_run:
        return figures
    least = 0.0 if claim.kind == "range" else -math.inf
    chance = _CHANCE_ROWS * max(term.row for term in terms)
    return max(least, low - chance), high + chance


def _range(claim: Claim, figures: Interval, unit: str) -> str:
    """An interval in words; that of a fraction in per cent."""
    factor, unit = (1.0, unit) if claim.case is None else (100.0, "%")
    if figures[0] == figures[1]:
        return f"{factor * figures[0]:.3g} {unit}".strip()
    low, high = (f"{factor * end:.3g}" for end in figures)
    if math.isinf(figures[1]):
        words = "any value" if figures[0] in (0.0, -math.inf) else f"at least {low} {unit}"
    else:
        words = f"at most {high}" if math.isinf(figures[0]) else f"from {low} to {high}"
        words = f"{words} {unit}"
    return words.strip()


def _unit(claim: Claim, unit: str) -> str:
    """The unit of the figure if its terms are in `unit`; none for a fraction of the answers."""
    if claim.case is not None:
        return ""
    if claim.kind == "ratio":
        return "×"
    return "points" if unit == "%" and claim.kind != "value" else unit


def _summary(claim: Claim, answers: Sequence[Interval | None]) -> Interval | None:
    """The worst answer, or the fraction of the answers within `case`; None without answers."""
    known = [figures for figures in answers if figures is not None]
    if not known or claim.holds is None:
        return None
    if claim.case is not None:
        within = sum(map(claim.case.takes_all, known))
        outside = sum(map(claim.case.takes_none, known))
        return within / len(known), (len(known) - outside) / len(known)
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
