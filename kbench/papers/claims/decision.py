"""The decision on a claim: its query is answered from rows, and the answer is a verdict.

A claim has cases: its repetitions, except repetitions without a printed number if others have one.
A case is answered if all its terms have values of one data set and one machine; all rival methods
must have been run. The figure of a case is an interval (`kbench.papers.claims.terms`), because a
run that was stopped or failed might have reached more.

A claim holds if every case keeps the bound, and does not hold if one case misses it. For a claim
about a fraction of its cases, the interval of that fraction decides, from the cases that surely
keep the bound and the cases that may. Only rows of the paper's own data decide, and only if the
answer stays the same after the spread of repeated runs is added to times and scores. The spread is
not added to figures within one run, because all seconds of a run are slow or fast together. All
other claims are open, with a reason.

The machine with the most answered cases counts; ties are decided by the number of runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kbench.papers.cells.runs import Runs
from kbench.papers.claims import outcomes
from kbench.papers.claims.outcomes import Outcome
from kbench.papers.claims.stated import Claim, Interval, combined_interval
from kbench.papers.claims.terms import Term, terms_of
from kbench.report.comparisons.tables import TimingConditions

# A smaller fraction of the paper's rows does not tell whether all rows keep a bound. Set by hand.
_MIN_FRACTION = 0.05


@dataclass(frozen=True)
class Case:
    """One repetition of a query: its terms, and the interval of figures that the rows allow.

    `figures` is None without an answer; `widened` adds the spread of repeated runs to the interval.
    `kept` is whether `widened` keeps the bound, None if the bound lies inside it.
    """

    terms: Sequence[Term]
    printed: Interval | None
    figures: Interval | None
    widened: Interval | None
    kept: bool | None

    @property
    def is_on_paper_data(self) -> bool:
        """Whether rows of the paper's own data answer the case."""
        return self.figures is not None and not any(term.stand_in for term in self.terms)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a claim."""

    claim: Claim
    outcome: Outcome
    why: str = ""  # Details of the reason why the claim is open
    # The measured and the printed figure: the worst of the cases, or the fraction of cases that
    # keep the bound. If a claim does not hold, only cases of the paper's own data count.
    figures: Interval | None = None
    printed: Interval | None = None
    # Unit of both figures: `×` for ratios, `points` for differences in per cent, or that of values.
    unit: str = ""
    worst: str = ""  # The data set with the worst answer if several cases are answered
    # Number of cases of the paper's own data that keep the bound by more than repeated runs differ.
    n_kept: int = 0
    # Numbers of cases answered by rows of the paper's own data, answered by any rows, and of all.
    n_own: int = 0
    n_answered: int = 0
    n_asked: int = 0
    # Data set that took part -> our rows / the paper's rows, None if unknown or equal to 1.
    shares: dict[str, float | None] = field(default_factory=dict)
    keys: tuple[str, ...] = ()  # The runs behind the figure
    machine: TimingConditions | None = None  # The machine of all these runs
    days: tuple[str, ...] = ()  # The days of compared seconds, if there are several
    # Whether the answered cases clearly keep the bound, whatever their data. None if they do not
    # tell, if the settings are not the paper's, or if a data set has few of the paper's rows.
    kept_by_rows: bool | None = None
    # The same question with the paper's idea alone against the same code.
    idea: "Verdict | None" = None


def verdict(claim: Claim, runs: Runs, *, as_idea: bool = False) -> Verdict:
    """The verdict by the rows of the machine that answers the claim best.

    The figure of an idea (`as_idea`) summarises all cases with rows, whatever its outcome.
    """
    if claim.open:
        return Verdict(claim=claim, outcome=outcomes.OPEN[claim.open], why=claim.why)
    machines: Sequence[TimingConditions | None] = runs.machines or [None]
    by_machine = []
    for machine in machines:
        cases = [_case(claim, terms_of(terms, runs, machine), runs) for terms in claim.cases]
        by_machine.append((machine, [case for case in cases if case.printed is not None] or cases))
    machine, cases = max(by_machine, key=lambda pair: _n_answers_and_runs(pair[1]))
    outcome, why = _outcome(claim, cases)
    if outcome is outcomes.NOT_RUN and (sources := _sources([cases for _, cases in by_machine])):
        outcome, why = outcomes.OTHER_MACHINES, sources
    answered = [case for case in cases if case.figures is not None]
    paper_cases = [case for case in cases if case.is_on_paper_data]
    # Only the paper's own data refute a claim; figures of other outcomes summarise all data.
    basis = paper_cases if outcome is outcomes.FAILS and not as_idea else answered
    terms = [term for case in basis for term in case.terms]
    shares = {term.data: term.share for term in terms if term.data}
    is_enough = not claim.differs and all(s is None or s >= _MIN_FRACTION for s in shares.values())
    deciding = answered if is_enough else []
    worst = _worst_case(claim, basis).terms[0].data if len(basis) > 1 and claim.case is None else ""
    return Verdict(
        claim=claim,
        outcome=outcome,
        why=why,
        printed=_summary(claim, [case.printed for case in cases]),
        figures=_summary(claim, [case.figures for case in basis]),
        unit="%" if claim.case else _unit(claim, cases),
        worst=worst,
        n_kept=sum(case.kept is True for case in paper_cases),
        n_own=len(paper_cases),
        n_answered=len(answered),
        n_asked=len(cases),
        shares=shares,
        keys=tuple(dict.fromkeys(key for term in terms for key in term.keys)),
        machine=machine,
        days=runs.days.notes(row for term in terms for row in term.rows),
        kept_by_rows=_kept(claim, deciding, len(cases if claim.case else deciding)),
        idea=None if claim.idea is None else verdict(claim.idea, runs, as_idea=True),
    )


def _sources(cases_by_machine: Sequence[Sequence[Case]]) -> str:
    """Sources of each term's runs, if all terms of a case have runs, but on no machine all have."""
    for cases in zip(*cases_by_machine, strict=True):
        by_term = [
            [term.source for term in same_terms if term.measured is not None]
            for same_terms in zip(*(case.terms for case in cases), strict=True)
        ]
        complete = (all(term.measured is not None for term in case.terms) for case in cases)
        if all(by_term) and not any(complete):
            return "; ".join(", ".join(dict.fromkeys(sources)) for sources in by_term)
    return ""


def _n_answers_and_runs(cases: Sequence[Case]) -> tuple[int, int]:
    """Numbers of answered cases and of runs that match a term."""
    keys = {key for case in cases for term in case.terms for key in term.keys}
    return sum(case.figures is not None for case in cases), len(keys)


def _outcome(claim: Claim, cases: Sequence[Case]) -> tuple[Outcome, str]:
    """The outcome, and details of the reason if the outcome is open."""
    answered = [case for case in cases if case.figures is not None]
    missing = [term for case in cases for term in case.terms if term.measured is None]
    if not answered:
        return _outcome_without_runs(
            bool(missing) and all(term.absent for term in missing), missing
        )
    settings = dict.fromkeys(t.unknown for case in answered for t in case.terms if t.unknown)
    if unknown := claim.unknown or ("" if claim.ours else "; ".join(settings)):
        return outcomes.UNKNOWN_SETTINGS, unknown
    if claim.differs:
        return outcomes.OTHER_SETTINGS, claim.differs
    assert claim.holds is not None
    paper_cases = [case for case in cases if case.is_on_paper_data]
    kept = _kept(claim, paper_cases, len(cases))
    if kept is not None:
        return (outcomes.HOLDS if kept else outcomes.FAILS), ""
    if len(paper_cases) < len(answered):
        data = dict.fromkeys(term.data for case in answered for term in case.terms if term.stand_in)
        return outcomes.OTHER_DATA, f"{', '.join(data)} in place of the paper's data"
    if missing:
        return _outcome_without_runs(any(term.absent for term in missing), missing)
    for case in paper_cases:
        if case.figures and claim.bound_of_case.kept_by(case.figures) is None:
            text = in_words(case.figures, _unit(claim, cases))
            figure = f": {text}" * (text != _UNKNOWN)
            return outcomes.NOT_RUN, f"runs that were stopped or failed leave it open{figure}"
    noisy = next(case for case in paper_cases if case.kept is None)
    place = f" on {noisy.terms[0].data}" if len(cases) > 1 else ""
    text = in_words(noisy.widened or (0.0, 0.0), _unit(claim, cases))
    return outcomes.TOO_NOISY, f"{text}{place}, with the spread of equal runs"


def _kept(claim: Claim, cases: Sequence[Case], n_asked: int) -> bool | None:
    """Whether `cases`, of `n_asked` in all, clearly keep the claim's bound; None if open."""
    n_kept, n_missed = (sum(case.kept is outcome for case in cases) for outcome in (True, False))
    if claim.case is not None and claim.holds is not None:
        return claim.holds.kept_by((n_kept / n_asked, 1.0 - n_missed / n_asked))
    return False if n_missed else n_kept == n_asked > 0 or None


def _outcome_without_runs(no_data: bool, missing: Sequence[Term]) -> tuple[Outcome, str]:
    """The outcome and a reason, if possible from a term whose runs ended without a value."""
    if no_data:
        names = dict.fromkeys(term.why for term in missing if term.absent)
        return outcomes.NO_DATA, f"{', '.join(names)} not present"
    if not missing:
        return outcomes.NOT_RUN, "the divisor is zero"
    return outcomes.NOT_RUN, min(missing, key=lambda term: (term.absent, not term.keys)).why


def _case(claim: Claim, terms: Sequence[Term], runs: Runs) -> Case:
    figures = _figure_interval(claim.kind, [term.measured for term in terms])
    printed = _figure_interval(claim.kind, [term.printed for term in terms])
    widened = figures
    if figures is not None and (len(terms) < 2 or len({term.keys for term in terms}) > 1):
        low, high = figures
        if claim.kind in ("ratio", "value"):
            day_factor = runs.days.spread(row for term in terms for row in term.rows)
            factor = max(day_factor, *(term.spread_factor for term in terms))
            widened = low / factor, high * factor
        else:
            minimum = 0.0 if claim.kind == "range" else -math.inf
            spread = max(term.spread for term in terms)
            widened = max(minimum, low - spread), high + spread
    return Case(terms, printed, figures, widened, widened and claim.bound_of_case.kept_by(widened))


def _worst_case(claim: Claim, cases: Sequence[Case]) -> Case:
    """The case with the worst figure; intervals are compared by their better ends."""
    bound = claim.bound_of_case
    pairs = [(case.figures, case) for case in cases if case.figures is not None]
    sign = 1.0 if bound.lower else -1.0
    return min(pairs, key=lambda pair: (sign * bound.best(pair[0]), sign * bound.worst(pair[0])))[1]


def _unit(claim: Claim, cases: Sequence[Case]) -> str:
    """The unit of a case's figure."""
    if claim.kind == "ratio":
        return "×"
    unit = cases[0].terms[0].unit
    return "points" if unit == "%" and claim.kind != "value" else unit


_UNKNOWN = "unknown"  # the figure of runs that failed


def in_words(figures: Interval, unit: str, limit: float = math.nan) -> str:
    """An interval in words, with enough digits to show on which side of `limit` its ends lie."""
    low, high = (_digits(end, limit) for end in figures)
    if figures[0] == figures[1]:
        text = low
    elif math.isinf(figures[1]):
        text = _UNKNOWN if figures[0] in (0.0, -math.inf) else f"at least {low}"
    else:
        text = f"at most {high}" if math.isinf(figures[0]) else f"from {low} to {high}"
    return text if text == _UNKNOWN else f"{text} {unit}".strip()


def _digits(value: float, limit: float) -> str:
    if abs(value) >= 1000.0:  # set by hand, as are the numbers of digits
        return f"{value:,.0f}"
    texts = [f"{value:.{digits}g}" for digits in (3, 4, 5, 6)]
    same_side = [text for text in texts if (float(text) < limit) == (value < limit)]
    return (same_side or texts[-1:])[0]


def _summary(claim: Claim, answers: Sequence[Interval | None]) -> Interval | None:
    """The worst answer, or the per cent of answers that keep `case`; None without answers."""
    intervals = [figures for figures in answers if figures is not None]
    if not intervals or claim.holds is None:
        return None
    if claim.case is not None:
        keeps = [claim.case.kept_by(figures) for figures in intervals]
        n, within, outside = len(intervals), keeps.count(True), keeps.count(False)
        return 100.0 * within / n, 100.0 * (n - outside) / n
    return combined_interval(intervals, claim.holds.worst)


def _figure_interval(kind: str, values: Sequence[Interval | None]) -> Interval | None:
    """The smallest and the largest answer that the intervals of the terms allow."""
    intervals = [value for value in values if value is not None]
    if len(intervals) < len(values):
        return None
    lows, highs = zip(*intervals, strict=True)
    if kind == "range":
        return max(0.0, max(lows) - min(highs)), max(highs) - min(lows)
    if kind == "value":
        return intervals[0]
    if kind == "difference":
        return lows[0] - highs[1], highs[0] - lows[1]
    if not highs[1]:
        return None
    return lows[0] / highs[1], highs[0] / lows[1] if lows[1] else math.inf
