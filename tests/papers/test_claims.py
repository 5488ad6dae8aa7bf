"""Every claim holds or does not hold with the rows: rows made up for it show both."""

import json
import math
import re
from dataclasses import replace

import pytest
from paper_rows import runs
from report_rows import failed, make_row, stopped_in

from kbench.papers.cells.entries import quantity_of
from kbench.papers.claims import terms
from kbench.papers.claims.decision import verdict
from kbench.papers.claims.outcomes import (
    FAILS,
    HOLDS,
    NO_DATA,
    NOT_RUN,
    OTHER_DATA,
    OTHER_SETTINGS,
    UNKNOWN_SETTINGS,
)
from kbench.papers.claims.stated import _claim, claims
from kbench.papers.claims.verdicts import claimed_bound, detail, line, verdict_records
from kbench.papers.printed.layout import CellPlace, Selector, paper

DECIDED = [one for one in claims() if not one.open]
HUNDRED = "early model trains more than a hundred"


@pytest.fixture
def exact_clocks(monkeypatch):
    """Times and scores that are never off."""
    for name in ("NOISE_OF_SECONDS", "NOISE_OF_ERRORS"):
        monkeypatch.setattr(terms, name, 1.0)
    monkeypatch.setattr(terms, "CHANCE_ROWS", 0)


@pytest.mark.parametrize("outcome", [HOLDS, FAILS], ids=str)
@pytest.mark.parametrize("claim", DECIDED, ids=lambda one: one.says[:60])
def test_rows_exist_on_which_a_claim_has_each_outcome(claim, outcome, exact_clocks):
    """All cases answer alike; of a share, as many as the outcome asks for."""
    made = MadeRows(claim.paper)
    figure = _figure(claim, outcome)
    for case in claim.cases:
        answer = figure
        if claim.case is not None:
            answer = claim.case.limit + (1.0 if figure else -1.0) * _sign(claim.case)
            answer = answer if claim.kind != "ratio" else 2.0 ** (answer - claim.case.limit)
        # Repetitions may share a cell: the first term of one is the second of another.
        base = made.values.get(_place(case[0][0][0]))
        for term, value in zip(case, _terms(claim.kind, answer, base), strict=True):
            for cells in term:
                made.add(cells, value)
    found = verdict(claim, made.runs())
    part = sum(case[0][0][0].choices[0].share is not None for case in claim.cases)
    expected = OTHER_DATA if part and outcome is HOLDS else outcome
    if claim.unknown or claim.differs:
        expected = UNKNOWN_SETTINGS if claim.unknown else OTHER_SETTINGS
    own = found.n_asked - part
    assert (found.outcome, found.n_answered, found.n_own) == (expected, found.n_asked, own)
    assert found.figures == pytest.approx(
        (100 * figure, 100 * figure) if claim.case else (figure, figure), abs=1e-6
    )
    if claim.unknown:
        assert found.kept_by_rows is (outcome is HOLDS)


# Words of sentences about figures that the paper does not print.
UNPRINTED = ("The idea alone", "than our exact solver, another", "made positive semidefinite")
UNPRINTED += ("Made positive semidefinite", "With our preconditioner", "polynomial kernel")
UNPRINTED += ("number of clusters from 5", "Laplacian kernel, too")
UNPRINTED += ("clusters approximate the kernel better", "10,000 times as fast", "CIFAR10")
UNPRINTED += ("Theorem 1", "random partition into as many", "settings of Table 8")
UNPRINTED += ("least of all models", "features beat those", "far better than models")
UNPRINTED += ("Ten iterations", "whatever gamma is", "nearly zero", "all four keep as many")
UNPRINTED += ("Products of landmarks", "of the triangle inequality", "at every prediction cost")
UNPRINTED += ("Landmarks weighted", "less memory", "leading ten directions", "On k-means landmarks")
UNPRINTED += ("threshold that drops", "Ranks chosen by eigenvalues")
UNPRINTED += ("accuracy is above that of LDKL",)


# Sentences that compare without a number, whose bound is a tie, and others with a bound of words.
COMPARES = r"faster|more accurate|less accurate|beat|worse|smallest|nearer|cheapest|better|Most of"


@pytest.mark.parametrize("claim", DECIDED, ids=lambda one: one.says[:60])
def test_the_bound_is_the_number_that_the_paper_prints(claim):
    """To a quarter of a ratio, half a point, an eighth of a fraction, and five of 100 settings."""
    found = verdict(claim, runs())
    assert found.outcome in (NO_DATA, NOT_RUN)
    assert (found.outcome is NO_DATA) == found.why.endswith(" not present")
    if any(words in claim.says for words in UNPRINTED):
        assert found.printed is None
        return
    printed = found.printed[0] / (100.0 if claim.case else 1.0)
    assert claim.holds.allows(printed)
    if claim.holds.limit in (0.0, 0.5, 1.0, 3.51) and re.search(COMPARES, claim.says):
        return
    if claim.kind == "ratio" and claim.case is None:
        assert 0.8 < printed / claim.holds.limit < 1.25
    else:
        points = 0.5 if found.unit in ("points", "%") else 0.0
        slack = 0.05 if claim.case else max(points, 0.12 * abs(printed))
        assert abs(printed - claim.holds.limit) <= slack


def test_a_printed_limit_is_the_least_that_a_run_took():
    """The two LIBSVM runs of Table 9 that took more than 300,000 s count for the paper."""
    assert verdict(_claim_on("96 of 100"), runs()).printed == (96.0, 96.0)


def test_a_claim_says_what_it_computes_and_what_refutes_it():
    found = verdict(_claim_on(HUNDRED), runs())
    (record,) = verdict_records([found])
    assert record["quantity"].startswith("LIBSVM's training seconds at a tolerance of .001 over")
    assert record["bound"] == "The claim holds if it is at least 100 ×."
    assert any(record["quantity"] in said for said in detail(found))


def test_a_claim_that_selects_runs_itself_says_how_they_are_made():
    found = verdict(_claim_on("loss of the divided problem"), runs())
    assert found.why == 'no rows: "kbench -m experiment=dcsvm_fig1"'
    spelt = {"paper": "hss", "where": "", "says": "it does", "quantity": "a", "holds": ">= 1"}
    query = {"value": {"data": "a8a", "method": "svc", "of": "accuracy"}}
    assert _claim(**spelt, **query, run="experiment=hss_table2").run
    with pytest.raises(ValueError, match="selects runs itself has `run`: it does"):
        _claim(**spelt, **query)


def test_a_claim_without_a_query_has_its_reason_and_no_bound():
    for claim in claims():
        if claim.open:
            found = verdict(claim, runs())
            assert (found.outcome.reason, claimed_bound(found)) == (claim.open, "")
            assert found.why


@pytest.mark.parametrize(
    ("limit", "outcome", "figures"),
    [(2000, HOLDS, (200.0, math.inf)), (500, NOT_RUN, (50.0, math.inf))],
)
def test_a_run_that_ended_at_its_limit_counts_as_the_least_it_takes(limit, outcome, figures):
    """At least 100 times LIBSVM's seconds; a limit that leaves the answer open decides nothing."""
    claim = _claim_on(HUNDRED)
    found = verdict(claim, _stopped("svc", limit, "dcsvm_early", 10.0))
    assert (found.outcome, found.figures) == (outcome, pytest.approx(figures))
    assert line(found).measured == f"at least {figures[0]:g} ×"


@pytest.mark.parametrize(
    ("message", "figures"),
    [
        (stopped_in("predict", 1400, limit=1500), (140.0, 140.0)),
        (stopped_in("score", 700, limit=1500), (70.0, 70.0)),
        (stopped_in("fit", 700, limit=1500), (70.0, math.inf)),
        # Of a row that does not tell its stage.
        ("not done within limits.wall_s=1500", None),
    ],
)
def test_a_limit_over_fit_and_prediction_is_no_bound_of_the_seconds_of_the_fit(message, figures):
    claim = _claim_on(HUNDRED)
    found = verdict(claim, _stopped("svc", 1500, "dcsvm_early", 10.0, message))
    assert found.figures == (figures and pytest.approx(figures))


def test_a_method_that_ended_at_its_limit_is_refuted_by_a_faster_rival():
    claim = _claim_on(HUNDRED)
    found = verdict(claim, _stopped("dcsvm_early", 100, "svc", 50.0))
    assert found.outcome is FAILS
    assert line(found).measured == "from 0 to 0.5 ×"
    (record,) = verdict_records([found])
    assert (record["bounded"], record["figure"]) == ("at most", pytest.approx(0.5))


def test_a_sum_counts_the_limits_of_its_parts():
    """Twelve settings of ijcnn1 that end at 150 s bound the sum of all 25."""
    made = MadeRows("dcsvm")
    for row in paper("dcsvm").tables["table7"].rows:
        for column in ("LIBSVM", "DC-SVM (early)"):
            made.put(f"table7 | {row} | {column} | seconds", 1.0)
    early = [row for row in made.rows.values() if row["method"] == "dcsvm_early"]
    libsvm = [row for row in made.rows.values() if row["method"] == "svc"]
    message = stopped_in("fit", 150)
    stopped = [
        failed("svc", "timeout", dataset="ijcnn1", params=row["params"], message=message)
        for row in libsvm[:12]
    ]
    found = verdict(_claim_on("twentieth of LIBSVM"), runs(*early, *stopped, *libsvm[12:24]))
    assert (found.outcome, found.n_own, found.n_kept) == (NO_DATA, 1, 1)
    assert found.figures == pytest.approx(((12 * 150 + 12) / 25, math.inf))


@pytest.mark.parametrize(
    ("slower", "stopped", "outcome"),
    [(0, 2, HOLDS), (0, 6, NOT_RUN), (0, 30, NOT_RUN), (60, 6, FAILS)],
)
def test_settings_that_a_limit_leaves_open_are_not_left_out_of_a_share(slower, stopped, outcome):
    """DC-SVM is slower in some of 100; in others LIBSVM was stopped before DC-SVM ended."""
    claim = _claim_on("96 of 100")
    made = MadeRows("dcsvm")
    for number, (((libsvm,),), ((dcsvm,),)) in enumerate(claim.cases):
        made.put(libsvm, 1.0 if number < slower else 20.0)
        made.put(dcsvm, 10.0)
    rows = list(made.rows.values())
    libsvm = [row for row in rows if row["method"] == "svc"]
    lost = [
        failed(
            "svc",
            "timeout",
            message=stopped_in("fit", 5.0),
            **{name: row[name] for name in ("dataset", "variant", "params")},
        )
        for row in libsvm[-stopped:]
    ]
    found = verdict(claim, runs(*(row for row in rows if row not in libsvm[-stopped:]), *lost))
    assert (found.outcome, found.n_answered) == (outcome, 100)


@pytest.mark.parametrize(
    ("cases", "slower", "outcome"), [(7, 0, HOLDS), (6, 0, NOT_RUN), (3, 1, FAILS)]
)
def test_a_claim_on_every_data_set_holds_only_if_all_of_them_have_rows(cases, slower, outcome):
    """One of its seven data sets is enough to refute it."""
    claim = _claim_on("Exact DC-SVM is faster than LIBSVM")
    found = verdict(claim, _in_cases(claim, cases, slower))
    assert (found.outcome, found.n_answered, found.n_asked) == (outcome, cases, 7)


@pytest.mark.parametrize(
    ("cases", "slower", "outcome"),
    [(99, 0, HOLDS), (95, 0, NO_DATA), (50, 4, NO_DATA), (50, 5, FAILS)],
)
def test_cases_without_rows_may_keep_the_bound_of_a_share_or_miss_it(cases, slower, outcome):
    """96 of 100 hold; the missing ones of webspam have no data, and one more is not run."""
    claim = _claim_on("in 96 of 100 settings")
    found = verdict(claim, _in_cases(claim, cases, slower))
    assert found.outcome in ((outcome, NOT_RUN) if outcome is NO_DATA else (outcome,))


@pytest.mark.parametrize(("rows_of_paper", "outcome"), [(464_810, HOLDS), (46_481, OTHER_DATA)])
def test_rows_of_a_part_of_the_paper_s_data_leave_a_claim_open(rows_of_paper, outcome):
    claim = _claim_on(HUNDRED)
    made = MadeRows("dcsvm")
    made.put("table3 | DC-SVM (early) | covtype | seconds", 1.0)
    made.put("table3 | LIBSVM | covtype | seconds", 300.0)
    found = verdict(claim, runs(*({**r, "n_train": rows_of_paper} for r in made.rows.values())))
    assert (found.outcome, found.kept_by_rows) == (outcome, True)
    assert line(found).data == ("covtype" if outcome is HOLDS else "covtype 10 %")


@pytest.mark.parametrize(("n_leaves", "outcome"), [(None, FAILS), (4, UNKNOWN_SETTINGS)])
def test_settings_that_the_paper_does_not_state_leave_a_claim_open(n_leaves, outcome):
    claim = replace(_claim_on("predictions cost at most some 20 times"), differs="")
    made = MadeRows("dcpred")
    for ((cell, *_), *_), *_ in claim.cases:
        made.put(cell, 90.0)
    rows = list(made.rows.values())
    if n_leaves is not None:
        rows = [
            {**r, "params": json.dumps(json.loads(r["params"]) | {"n_leaves": 4})} for r in rows
        ]
    found = verdict(claim, runs(*rows))
    assert found.outcome is outcome
    assert ("does not state n_leaves" in found.why) == (outcome is UNKNOWN_SETTINGS)


@pytest.mark.parametrize(
    ("words", "place", "share"),
    [
        (HUNDRED, {"dataset": "covtype_93k", "n_train": 46481}, 0.1),
        # Runs that a claim selects itself.
        ("with a tolerance of .1 for both the early model in two levels", {"n_train": 24995}, 0.5),
        # A paper that prints the number of all rows.
        ("On Forest doubly SGD's test error", {"n_train": 48000, "n_test": 2000}, 0.1),
        ("On Forest doubly SGD's test error", {"n_train": 581012, "n_test": 500}, None),
    ],
)
def test_a_verdict_says_what_share_of_the_paper_s_rows_a_data_set_has(words, place, share):
    claim = _claim_on(words)
    made = MadeRows(claim.paper)
    for term in claim.cases[0]:
        made.put(term[0][0], 1.0)
    found = verdict(claim, runs(*({**row, **place} for row in made.rows.values())))
    ((name, told),) = found.shares.items()
    assert told == (None if share is None else pytest.approx(share, rel=1e-3))
    (record,) = verdict_records([found])
    assert record["shares"].partition("=")[0] == ("" if share is None else name)


@pytest.mark.parametrize(
    ("words", "most"), [("Products of landmarks", 1.06), ("at every prediction cost", 1.0)]
)
def test_sizes_at_equal_cost_have_as_many_multiplications(reference, words, most):
    """The praised term of these claims, the second, has at most `most` times those of the first."""
    claim = _claim_on(words)
    compared = 0
    for case in claim.cases:
        for machine in reference.machines:
            rivals, own = (
                [
                    match.line.ok[0]["prediction_flops"]
                    for (one,) in term
                    for choice in paper(claim.paper).data[one.data]
                    if (match := reference.find(machine, one.wanted, [choice])) and match.line.ok
                ]
                for term in case
            )
            if rivals and own and None not in (*rivals, *own):
                assert max(own) <= most * min(rivals)
                compared += 1
    assert compared >= 8


def test_a_stopped_run_that_a_claim_selects_itself_is_a_bound_too():
    claim = _claim_on("factorisation and ADMM take fewer seconds")
    made = MadeRows("hss")
    (exact, *_), (hss, *_) = claim.cases[0]
    made.add(exact, 1.0)
    made.add(hss, 10.0)
    first, *others = made.rows.values()
    place = {name: first[name] for name in ("dataset", "variant", "params")}
    lost = failed("kernel_svc", "timeout", message=stopped_in("fit", 100.0), **place)
    found = verdict(claim, runs(lost, *others))
    assert (found.outcome, found.n_kept) == (NOT_RUN, 1)
    assert found.figures == pytest.approx((10.0, math.inf))


def _claim_on(words):
    (claim,) = (one for one in claims() if words in one.says)
    return claim


def _in_cases(claim, cases, slower):
    """Rows of its first cases, ten times as fast as the other side but in the first `slower`."""
    made = MadeRows(claim.paper)
    for number, case in enumerate(claim.cases[:cases]):
        other, own = (term[0][0] for term in case)
        made.put(other, 1.0 if number < slower else 100.0)
        made.put(own, 10.0)
    return made.runs()


def _stopped(slow, limit, method, seconds, message=None):
    """Rows of covtype: one method was stopped in its fit, the other took some seconds."""
    made = MadeRows("dcsvm")
    made.put("table3 | DC-SVM (early) | covtype | seconds", seconds)
    made.put("table3 | LIBSVM | covtype | seconds", seconds)
    done = next(row for row in made.rows.values() if row["method"] == method)
    place = next(row for row in made.rows.values() if row["method"] == slow)
    ended = {name: place[name] for name in ("dataset", "variant", "params")}
    return runs(done, failed(slow, "timeout", message=message or stopped_in("fit", limit), **ended))


def _sign(bound):
    return 1.0 if bound.lower else -1.0


def _figure(claim, outcome):
    """A figure within the bound, or beyond it; of a share all cases, or none."""
    if claim.case is not None:
        return 1.0 if outcome is HOLDS else 0.0
    limit, inside = claim.holds.limit, outcome is HOLDS
    if claim.kind == "difference":
        return limit + (1.0 if inside else -1.0) * _sign(claim.holds)
    factor = 1.5 if inside == claim.holds.lower else 0.5
    return limit * factor


def _terms(kind, answer, base=None):
    """Values of the terms with this answer, in the paper's units; the first one may be given."""
    if kind == "value":
        return (answer,)
    if kind == "ratio":
        return (7.0 * answer, 7.0) if base is None else (base, base / answer)
    return (50.0 + answer, 50.0) if base is None else (base, base - answer)


def _place(cell):
    """What tells a cell from others, also where claims select the runs themselves."""
    return cell.table.name, cell.row, cell.column, cell.label, str(cell.wanted), cell.measure


class MadeRows:
    """Rows with the values that are put into cells; cells of the same runs share a row."""

    def __init__(self, of):
        self.paper = paper(of)
        self.rows, self.curves, self.times = {}, {}, {}
        self.values = {}

    def add(self, cells, value):
        """Set cells with this sum; those that have a value keep it."""
        rest = [cell for cell in cells if _place(cell) not in self.values]
        known = [self.values[_place(cell)] for cell in cells if _place(cell) in self.values]
        for cell in rest:
            self.put(cell, (value - math.fsum(known)) / len(rest))

    def put(self, cell, value):
        """Set a cell, also as claims spell it, to a value in the paper's unit."""
        if isinstance(cell, str):
            name, *place = (part.strip() for part in cell.split("|"))
            cell = CellPlace(self.paper.tables[name], *place)
        self.values[_place(cell)] = value
        self._set(cell, value)

    def _set(self, cell, value):
        asked, wanted = cell.measure, cell.wanted
        if asked.sum:
            for label in asked.sum:
                self._set(replace(cell, label=label), value / len(asked.sum))
        elif asked.total:
            over = self.paper.tables[wanted.table]
            for name in over.rows:
                one = replace(cell, table=over, row=name, label=asked.total)
                self._set(one, value / len(over.rows))
        elif asked.curve:
            self._curve(wanted, asked, value / quantity_of(asked).factor)
        else:
            self._columns(self._row(wanted), asked, value / quantity_of(asked).factor)

    def _row(self, wanted: Selector):
        choice = self.paper.data[wanted.data][0]
        params = {
            name: one[0] if isinstance(one, list) else one
            for name, one in {**wanted.all_params, **choice.params}.items()
        }
        place = (wanted.methods[0], choice.dataset, choice.variant, json.dumps(params))
        if place not in self.rows:
            row = make_row(*place[:1], None, dataset=place[1], variant=place[2], params=place[3])
            self.rows[place] = row | {"fit_wall_s": None, "n_train": None}
        return self.rows[place]

    def _columns(self, row, asked, value):
        value /= asked.factor * len(asked.of)
        if asked.per is not None:
            row[asked.per] = 500
            value *= row[asked.per]
        for name in asked.of:
            phase = name.partition(".")[2]
            if phase:
                row["phases_cpu"] = {**(row.get("phases_cpu") or {}), phase: value}
            else:
                row[name.replace("_s", "_cpu_s") if name in ("fit_s", "predict_s") else name] = (
                    value
                )

    def _curve(self, wanted, asked, value):
        """A point at a time of its own for each place."""
        row = self._row(wanted)
        curves = self.curves.setdefault((row["key"], row["environment"], row["threads"]), {})
        at = {} if asked.pick == "end" else wanted.at
        time = float(self.times.setdefault(tuple(sorted(at.items())), len(self.times)))
        for name, level in {**at, asked.curve: value}.items():
            curves.setdefault(name, {})[time] = level

    def runs(self):
        curves = {
            run: {name: (list(points), list(points.values())) for name, points in one.items()}
            for run, one in self.curves.items()
        }
        return runs(*self.rows.values(), curves=curves)
