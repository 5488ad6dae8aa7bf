"""Verdicts follow from rows, and the papers' own numbers bear their claims out."""

import csv
import io
import math
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper_rows import cell, rbf, runs, with_params
from report_rows import START, failed, folder_of, make_row

from kbench.papers.claims import decision, ratios, terms
from kbench.papers.claims.decision import in_words, verdict
from kbench.papers.claims.outcomes import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OTHER_DATA,
    OTHER_MACHINES,
    OUTCOMES,
    TOO_NOISY,
)
from kbench.papers.claims.stated import Bound, _claim, claims
from kbench.papers.claims.verdicts import by_paper, detail, line, verdict_records
from kbench.papers.claims.verdicts import sheets as verdict_sheets
from kbench.papers.printed.causes import MAX_OF_ERROR, MAX_POINTS, MAX_RELATIVE
from kbench.papers.printed.layout import legend
from kbench.papers.report import read_report
from kbench.report import make_papers
from kbench.report.comparisons import tables
from kbench.report.comparisons.reading import read_content
from kbench.report.statistics.growth import MAX_RESIDUAL

APART = "svc in environment ffff0000; dcsvm_early in environment 0a1b2c3d"
SPEED = claims()[0]  # early at least 100 times faster than LIBSVM on covtype
DOCS = Path(__file__).parents[2] / "docs"


def on_covtype(method, seconds, dataset="covtype", **changes):
    """A run on as many rows of covtype as the paper has."""
    sizes = {"n_train": 464_810, "n_test": 116_202}
    return rbf(method, 0.9, gamma=32, dataset=dataset, fit_wall_s=seconds, **{**sizes, **changes})


def on_a_part(method, seconds, **changes):
    return on_covtype(method, seconds, "covtype_93k", n_train=74_370, **changes)


def test_every_paper_has_claims_and_no_claim_occurs_twice():
    said = [one.says for one in claims()]
    assert len(said) == len(set(said)) >= 40
    assert {one.paper for one in claims()} == {"dcsvm", "meka", "dcpred", "dsgd", "hss"}


def test_a_reason_is_one_entry_of_the_table_that_page_terminal_css_and_docs_read():
    css = (Path(__file__).parents[2] / "kbench/report/page/page.css").read_text()
    docs = (DOCS / "papers.md").read_text()
    assert [one.word for one in OUTCOMES[:2]] == ["holds", "does not hold"]
    assert {one.word for one in OUTCOMES[2:]} == {"open"}
    assert len({one.reason for one in OUTCOMES[2:]}) == 7
    for one in OUTCOMES:
        assert not one.badge or f".badge.{one.badge} " in css
        assert f"| {one} | {one.means} |" in docs


def test_seconds_of_two_days_are_off_by_what_equal_settings_differ():
    """Twenty settings took a third of the time a day later, more than the factor of one day."""
    later = {"started_at": START + timedelta(days=1)}
    both = [
        with_params(on_covtype("ltpu", 3.0 / n, **at), C=1000 + setting)
        for setting in range(20)
        for n, at in ((1, {}), (3, later))
    ]
    early = on_covtype("dcsvm_early", 1.0)
    one_day = verdict(SPEED, runs(*both, on_covtype("svc", 250.0), early))
    two_days = verdict(SPEED, runs(*both, on_covtype("svc", 250.0, **later), early))
    assert (one_day.outcome, one_day.days, two_days.outcome) == (HOLDS, (), TOO_NOISY)
    said = "on 2026-01-02 fits took 0.33 x (median of 20 equal settings, 10-90 %: 0.33 to 0.33)"
    assert two_days.days == (f"seconds of different days: most are of 2026-01-01; {said} as long",)
    found = runs(
        *both, *(on_covtype("svc", 250.0, seed=i, **at) for i, at in ((0, {}), (1, later)))
    )
    notes = cell(found, "LIBSVM", "covtype", "seconds").notes
    assert any("on 2026-01-02 fits took 0.33 x" in note for note in notes)


@pytest.mark.parametrize(
    ("seconds", "outcome"), [(400.0, HOLDS), (360.0, TOO_NOISY), (110.0, TOO_NOISY), (10.0, FAILS)]
)
def test_a_verdict_changes_with_the_rows(seconds, outcome):
    """100 are asked; of the 180 and the 55 that are measured times off by 1.88 leave it open."""
    found = verdict(SPEED, runs(on_covtype("svc", seconds), on_covtype("dcsvm_early", 2.0)))
    assert found.outcome is outcome
    assert found.figures == (seconds / 2.0, seconds / 2.0)
    assert found.shares == {"covtype": None}
    assert len(found.keys) == 2
    assert ("with the spread of equal runs" in found.why) == (outcome is TOO_NOISY)


def test_a_claim_without_runs_is_open():
    early = on_covtype("dcsvm_early", 2.0)
    found = verdict(SPEED, runs(early))
    assert found.outcome is NOT_RUN
    assert "experiment=dcsvm_table3" in found.why


def test_terms_are_of_one_data_set_and_one_machine():
    early = on_covtype("dcsvm_early", 2.0)
    part = on_a_part("svc", 300.0)
    assert verdict(SPEED, runs(early, part)).outcome is NOT_RUN
    elsewhere = on_covtype("svc", 300.0, environment="ffff0000")
    found = verdict(SPEED, runs(early, elsewhere))
    assert (found.outcome, found.why) == (OTHER_MACHINES, APART)
    both = [part, on_a_part("dcsvm_early", 1.0)]
    found = verdict(SPEED, runs(early, *both))
    assert (found.outcome, found.figures) == (OTHER_DATA, (300.0, 300.0))
    assert found.kept_by_rows is True
    lost = failed("svc", "memory", dataset="covtype", params=part["params"])
    assert verdict(SPEED, runs(early, lost, *both)).figures == (300.0, 300.0)


RIVALS = _claim(
    paper="dcsvm",
    where="here",
    says="The early model is more accurate than both.",
    quantity="q",
    difference=[
        "table3 | DC-SVM (early) | ijcnn1 | accuracy",
        ["table3 | LIBSVM | ijcnn1 | accuracy", "table3 | DC-SVM | ijcnn1 | accuracy"],
    ],
    holds=">= 0",
)


@pytest.mark.parametrize(("rows", "outcome"), [(6, FAILS), (4, TOO_NOISY), (-6, HOLDS)])
def test_a_difference_of_five_test_rows_is_left_to_chance(rows, outcome):
    """0.1 points are asked for, ten of 10,000 rows; the early model lacks `rows` of them."""
    claim = replace(RIVALS, holds=Bound.of(">= 0.1"))
    early = rbf("dcsvm_early", 0.9010 - rows / 10_000, n_test=10_000)
    rivals = [rbf(name, 0.9, n_test=10_000) for name in ("svc", "dcsvm")]
    found = verdict(claim, runs(early, *rivals))
    assert found.outcome is outcome


def test_the_best_rival_counts_and_all_rivals_must_have_run():
    early, svc, dcsvm = rbf("dcsvm_early", 0.9), rbf("svc", 0.8), rbf("dcsvm", 0.905)
    found = verdict(RIVALS, runs(early, svc, dcsvm))
    assert found.outcome is FAILS
    assert found.figures == pytest.approx((-0.5, -0.5))
    assert verdict(RIVALS, runs(early, svc)).outcome is NOT_RUN
    lost = failed("dcsvm", "memory", dataset="ijcnn1", params=dcsvm["params"])
    assert verdict(RIVALS, runs(early, svc, lost)).outcome is NOT_RUN
    better = rbf("svc", 0.95)
    found = verdict(RIVALS, runs(early, better, lost))
    assert found.outcome is FAILS
    assert line(found).measured == "at most -5 points"


def test_a_claim_on_every_data_set_is_refuted_by_one_of_the_paper_s_own_alone():
    (claim,) = (
        one for one in claims() if one.says.startswith("Exact DC-SVM is faster than LIBSVM")
    )
    own = [rbf("svc", 0.9, fit_wall_s=40.0), rbf("dcsvm", 0.9, fit_wall_s=2.0)]
    part = [on_a_part("svc", 2.0), on_a_part("dcsvm", 40.0)]
    found = verdict(claim, runs(*own, *part))
    assert (found.outcome, found.kept_by_rows) == (OTHER_DATA, False)
    assert (found.n_own, found.n_kept, found.n_answered, found.n_asked) == (1, 1, 2, 7)
    assert line(found).measured == "0.05 × on covtype_93k 16 %"
    assert line(found).data == "2 of 7: ijcnn1, covtype_93k 16 %"
    assert "Open (other data): covtype_93k in place of the paper's data." in detail(found)
    slow = [rbf("svc", 0.9, fit_wall_s=1.0), own[1]]
    found = verdict(claim, runs(*slow, *part))
    assert (found.outcome, found.figures, line(found).data) == (FAILS, (0.5, 0.5), "1 of 7: ijcnn1")


def test_the_machine_with_most_answers_decides():
    (every,) = (
        one for one in claims() if one.says.startswith("Exact DC-SVM is faster than LIBSVM")
    )
    here = [rbf(m, 0.9, fit_wall_s=s) for m, s in (("svc", 0.5), ("dcsvm", 1.0))]
    there = [
        one
        for m, s in (("svc", 4.0), ("dcsvm", 2.0))
        for one in (
            rbf(m, 0.9, fit_wall_s=s, environment="ffff0000"),
            on_covtype(m, s, environment="ffff0000"),
        )
    ]
    assert verdict(every, runs(*here)).outcome is FAILS
    found = verdict(every, runs(*here, *there))
    assert (found.figures, found.n_answered) == ((2.0, 2.0), 2)
    assert found.machine.environment == "ffff0000"
    assert "The runs are of environment ffff0000." in detail(found)
    (record,) = verdict_records([found])
    assert (record["environment"], record["threads"]) == ("ffff0000", 1)


def test_of_machines_without_answers_one_with_failed_runs_is_told():
    """Other machines, whose names come first or last, have rows that the claim does not ask for."""
    lost = failed("svc", "timeout", dataset="covtype", params=on_covtype("svc", 1.0)["params"])
    for name in ("00000000", "ffff0000"):
        elsewhere = rbf("lasvm", 0.9, environment=name)
        found = verdict(SPEED, runs(elsewhere, on_covtype("dcsvm_early", 2.0), lost))
        assert (found.outcome, found.why) == (NOT_RUN, "svc on covtype: timeout")
        assert found.machine.environment == "0a1b2c3d"


def test_a_quotient_by_zero_decides_nothing():
    found = verdict(SPEED, runs(on_covtype("svc", 1.0), on_covtype("dcsvm_early", 0.0)))
    assert (found.outcome, found.why) == (NOT_RUN, "the divisor is zero")


@pytest.mark.parametrize(
    ("value", "said"), [(99.99, "99.99 ×"), (150.0, "150 ×"), (2e4, "20,000 ×")]
)
def test_a_figure_is_printed_on_its_own_side_of_the_bound(value, said):
    """99.99 is not printed as the 100 that are asked for."""
    assert in_words((value, value), "×", 100.0) == said


@given(st.floats(0.1, 1e6), st.floats(0.1, 1e6))
def test_a_verdict_depends_on_the_rows_that_it_names(a, b):
    svc, early = on_covtype("svc", a), on_covtype("dcsvm_early", b)
    found = verdict(SPEED, runs(svc, early, rbf("lasvm", 0.5)))
    assert found.keys == (svc["key"], early["key"])
    expected = HOLDS if a / b / 1.88 >= 100 else FAILS if a / b * 1.88 < 100 else TOO_NOISY
    assert found.outcome is expected


def test_bounds_are_at_least_or_at_most():
    assert Bound.of(">= 2").allows(2.0)
    assert not Bound.of("<= 2").allows(2.1)
    assert Bound.of("<= 2").worst([1.0, 3.0]) == 3.0
    with pytest.raises(ValueError, match=">= or <="):
        Bound.of("> 2")


def test_the_idea_alone_stands_beside_the_claim_and_is_no_claim():
    rows = [on_covtype("svc", 400.0), on_covtype("dcsvm_early", 2.0)]
    rows.append(on_covtype("kernel_svc", 5.0))
    rows.append(with_params(on_covtype("dcsvm_early", 2.5), tol=0.001))
    found = verdict(SPEED, runs(*rows))
    words = line(found)
    assert (found.outcome, words.measured, words.idea) == (HOLDS, "200 ×", "2 ×")
    assert words.printed == "124 ×"
    assert any(said.startswith("The idea alone: training seconds of our") for said in detail(found))
    assert not any("The idea alone" in one.says and not one.ours for one in claims())


def test_the_papers_claims_and_our_own_questions_are_counted_apart():
    grouped = by_paper([verdict(one, runs()) for one in claims()])
    assert list(grouped)[-1] == "Our own questions"
    assert all(one.claim.ours for one in grouped.pop("Our own questions"))
    assert not any(one.claim.ours for several in grouped.values() for one in several)


def claim_on(first, second, of):
    """A claim that the quotient of two methods is at least 1.1."""
    terms = [{"data": "ijcnn1", "method": name} for name in (first, second)]
    ratio = [{**term, "of": column} for term, column in zip(terms, of, strict=True)]
    words = {"paper": "dcsvm", "where": "", "says": "", "quantity": "q", "run": "experiment=x"}
    return _claim(**words, ratio=ratio, holds=">= 1.1")


def test_a_quotient_within_one_run_is_not_off():
    """All seconds of a run are slow or fast together; those of two runs are not."""
    of = ["phases.solve", "phases.conquer"]
    row = rbf("dcsvm", 0.9, phases_cpu={"solve": 0.12, "conquer": 0.1})
    assert verdict(claim_on("dcsvm", "dcsvm", of), runs(row)).outcome is HOLDS
    other = rbf("kernel_svc", 0.9, phases_cpu={"solve": 0.12})
    assert verdict(claim_on("kernel_svc", "dcsvm", of), runs(row, other)).outcome is TOO_NOISY


@pytest.mark.parametrize(
    ("quantity", "bound", "quotient", "outcome"),
    [
        *(("prediction_cost", 4, *one) for one in ((5.0, TOO_NOISY), (10.0, HOLDS), (0.5, FAILS))),
        *(("rmse", 1.1, *one) for one in ((1.2, HOLDS), (1.13, TOO_NOISY), (1.06, TOO_NOISY))),
        ("rmse", 1.1, 0.9, FAILS),
    ],
)
def test_costs_may_be_off_by_two_and_errors_as_equal_scores_differ(
    quantity, bound, quotient, outcome
):
    claim = claim_on("ldkl", "meka", [quantity] * 2)
    claim = replace(claim, holds=Bound.of(f">= {bound}"))
    of = {"dataset": "ijcnn1", "n_train": 49990, "params": '{"kernel": "rbf"}'}
    rows = [
        make_row(name, None, **of, **{quantity: value})
        for name, value in (("ldkl", quotient), ("meka", 1.0))
    ]
    assert verdict(claim, runs(*rows)).outcome is outcome


def test_the_machine_whose_rows_the_table_s_experiment_made_decides_before_one_with_more_rows():
    (forest,) = (one for one in claims() if "On Forest doubly SGD's test error" in one.says)
    params = '{"n_epochs": 1, "preconditioned": false, "loss": "hinge"}'
    own = rbf("doubly_sgd", 0.86, dataset="covtype_93k", error=0.14, experiment="dsgd_fig1_3")
    elsewhere = [
        {**own, "key": f"{i}" * 32, "error": 0.12, "experiment": "other", "environment": "ffff0000"}
        for i in range(3)
    ]
    for i, row in enumerate((own, *elsewhere)):
        row["params"] = params if i < 2 else params.replace("1", f"{i}")
    found = verdict(forest, runs(own, *elsewhere))
    assert found.figures == pytest.approx((14.0, 14.0))
    assert found.machine.environment == own["environment"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = on_a_part("svc", 300.0), on_a_part("dcsvm_early", 2.0)
    return folder_of(tmp_path_factory.mktemp("results"), *rows)


def test_claims_and_systems_in_every_format(folder):
    report = read_report(read_content(folder), ["claims"])
    text = report.text("terminal", 140)
    assert "open: other data" in text
    assert "150 ×" in text
    assert all(len(line) <= 140 for line in text.splitlines())
    assert "| 124 × | 150 × |" in report.text("markdown")
    lines = list(csv.DictReader(io.StringIO(report.text("csv"))))
    assert len(lines) == len(claims())
    first = lines[0]
    assert (first["verdict"], first["reason"], first["figure"]) == ("open", "other data", "150.0")
    assert first["shares"].startswith("covtype_93k=0.16")
    sections = re.findall(r'<section id="(\w+)"', report.text("html"))
    assert sections == ["overview", "claims", "questions", "environments", "detail"]
    systems_csv = make_papers(folder, tables=["systems"], format="csv")
    assert "covtype_93k [1],C=32 gamma=32" in systems_csv
    narrow = make_papers(folder, tables=["systems", "cells"], width=80)
    assert [line for line in narrow.splitlines() if line.endswith("…")] == []


def test_a_paper_fits_on_a_screen(folder):
    """50 lines of 100 characters, whatever the rows say."""
    report = read_report(read_content(folder))
    text = report.text("terminal", 100)
    papers = text.split("\n\n")
    assert len(papers) == 7  # our own questions, and a line for each of them all
    assert max(len(one.splitlines()) for one in papers) <= 50
    assert max(map(len, text.splitlines())) <= 100
    (first,) = (row for row in text.splitlines() if "trains more" in row)
    assert first.split()[:3] == ["open:", "other", "data"]
    assert first.split()[-4:] == ["124", "×", "150", "×"]
    narrow = report.text("terminal", 80).splitlines()
    assert max(map(len, narrow)) <= 80
    assert not [one for one in narrow if "…" in one]


def test_sheets_name_everything_that_is_said_of_a_claim():
    found = verdict(SPEED, runs(on_a_part("svc", 300.0), on_a_part("dcsvm_early", 2.0)))
    (sheet,) = verdict_sheets([found])
    assert sheet.rows[0][0] == "open: other data"
    assert "The claim holds if it is at least 100 ×." in sheet.rows[0][1]
    assert sheet.rows[0][2:] == ["124 ×", "150 ×", "", "covtype_93k 16 %"]


def test_the_numbers_of_the_docs_are_those_of_the_code():
    """Every decimal and percentage of docs/papers.md is a constant, or the form of a cell."""
    text = (DOCS / "papers.md").read_text().replace("\n  ", " ").replace("\n", " ")
    assert terms.CHANCE_ROWS == 5
    assert "of accuracies or errors by five test rows" in text
    percent = f"{100 * MAX_RELATIVE:g} %"
    stated = [
        f"a factor of {terms.NOISE_OF_SECONDS:g}",
        f"more than {tables._MAX_OTHER_CPUS:g}".replace("0.", ".") + " of a processor",
        f"more than {MAX_RESIDUAL:g} times off",
        f"of RMSE or of kernel errors by {percent}",
        f"a point of accuracy or {percent} of an RMSE",
        f"an error below {MAX_POINTS / MAX_OF_ERROR:g} %, or {percent} of a kernel error",
        "`O(cnk) | n^1.00`",
    ]
    assert stated[0] in legend("claims_page")
    for words in stated:
        assert words in text
        text = text.replace(words, "")
    assert re.findall(r"\d*\.\d+ |\d+ %", text) == []


def test_a_figure_that_rows_bound_on_one_side_alone_has_no_mark():
    """Where a rival failed, a difference is at most a number, and a ratio at least one."""
    stated = {one.kind: one for one in claims() if not one.ours and one.case is None}
    found = [
        decision.Verdict(
            claim=stated["difference"], outcome=NOT_RUN, figures=(low, 1.0), printed=(0.5, 0.5)
        )
        for low in (0.2, -math.inf)
    ]
    drawn = ratios.picture(found, lambda number: f"claim-{number}")
    assert 'href="#claim-0"' in drawn
    assert "claim-1" not in drawn
    assert ratios.picture(found[1:], str) == ""
