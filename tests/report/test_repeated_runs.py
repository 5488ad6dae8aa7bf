"""Reports show all attempts of a run in one line: medians, and how far the attempts differ."""

import csv
import datetime
import io
import itertools
import json
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import START, make_row

from kbench.report import make_report, write_report
from kbench.report.comparisons.attempts import combine_attempts
from kbench.report.comparisons.tables import REPEATS
from kbench.run.results.rows import schema

CODE = {"source_sha256": "aa", "origin": "own"}


def attempts(*changes, method="svc", **common):
    """Rows of one run, of which each attempt began a minute after the one before."""
    run = dict.fromkeys(schema().names) | make_row(method, 0.9, **common)
    return [
        {
            **run,
            "attempt": number,
            "started_at": START + datetime.timedelta(minutes=number),
            **change,
        }
        for number, change in enumerate(changes, start=1)
    ]


def timed(*seconds):
    return [{"fit_cpu_s": one, "fit_wall_s": one} for one in seconds]


def test_runs_of_an_older_version_of_the_method_give_way_to_the_newer_one_whatever_their_seeds():
    (old,), (new,) = attempts({"method_version": None}), attempts({"method_version": 2})
    (seed,) = attempts({"method_version": None, "seed": 7})
    (other,) = attempts({"method_version": None, "params": '{"C": 2}'})
    for row, name in zip((old, new, seed, other), "1234", strict=True):
        row["key"] = name * 16
    assert [run["key"] for run in combine_attempts([old, new, seed, other])] == [
        new["key"],
        other["key"],
    ]


@given(st.lists(st.floats(0.001, 100.0), min_size=1, max_size=6))
def test_a_run_has_the_median_of_what_its_attempts_measured(seconds):
    rows = [{**row, **CODE} for row in attempts(*timed(*seconds))]
    for order in itertools.islice(itertools.permutations(rows), 6):
        (run,) = combine_attempts(order)
        assert run["fit_cpu_s"] == statistics.median(seconds)
        assert run["attempt"] == len(seconds)
        assert len(run[REPEATS]) == (len(seconds) if len(seconds) > 1 else 0)


@pytest.mark.parametrize(
    ("statuses", "status", "attempt"),
    [
        (["timeout", "ok", "timeout"], "timeout", 3),
        (["ok", "timeout", "ok"], "ok", 3),
        (["ok", "ok", "timeout"], "ok", 2),
        (["error", "ok"], "ok", 2),
        (["ok", "error"], "error", 2),
        (["ok", "interrupted"], "ok", 1),
        (["timeout", "error"], "error", 2),
        (["interrupted", "unavailable"], "unavailable", 2),
    ],
)
def test_ok_attempts_count_if_they_are_the_majority_and_the_newest_otherwise(
    statuses, status, attempt
):
    (run,) = combine_attempts(attempts(*({"status": one} for one in statuses)))
    assert (run["status"], run["attempt"]) == (status, attempt)


def test_a_newer_source_that_fails_is_not_hidden_by_an_older_one_that_did_not():
    (run,) = combine_attempts(
        attempts({"source_sha256": "aa"}, {"source_sha256": "bb", "status": "timeout"})
    )
    assert run["status"] == "timeout"


@pytest.mark.parametrize("changed", [{"source_sha256": "bb"}, {"origin": "reference"}])
def test_attempts_of_other_code_and_reference_rows_are_not_mixed_in(changed):
    first, *rest = timed(5.0, 1.0, 3.0)
    rows = [{**CODE, **row} for row in attempts({**first, **changed}, *rest)]
    (run,) = combine_attempts(rows)
    assert run["fit_cpu_s"] == 2.0
    assert len(run[REPEATS]) == 2


def test_seconds_are_those_of_attempts_that_nothing_disturbed():
    rows = attempts(
        {"fit_wall_s": 9.0, "fit_cpu_s": 5.0, "other_cpus": 1.5, "phases_cpu": {"a": 5.0}},
        {"fit_wall_s": 2.5, "fit_cpu_s": 2.0, "other_cpus": 0.0, "phases_cpu": {"a": 2.0}},
    )
    (run,) = combine_attempts(rows)
    assert (run["fit_wall_s"], run["fit_cpu_s"], run["other_cpus"]) == (2.5, 2.0, 0.0)
    assert run["phases_cpu"] == {"a": 2.0}


def test_phases_are_medians_and_counts_are_values_that_occurred():
    rows = attempts(
        {"phases": {"solve": 1.0, "cluster": 2.0}, "n_iter": 10},
        {"phases": {"solve": 4.0}, "n_iter": 13},
    )
    (run,) = combine_attempts(rows)
    assert run["phases"] == {"solve": 2.5, "cluster": 2.0}
    assert run["n_iter"] == 10


def test_the_report_shows_the_median_and_the_spread(folder):
    made = folder(*attempts(*timed(1.0, 4.0, 2.0)), *attempts(*timed(3.0), method="knn"))
    text = make_report(made, width=160)
    assert text.count("\nsvc ") == 1
    (svc,) = [line for line in text.splitlines() if line.startswith("svc ")]
    assert "2.00" in svc
    assert svc.split()[-1] == "1", "the number of runs, not of attempts"
    assert "Medians of repeated runs: svc (3 attempts of 1 run, which differ in fit s by" in text
    assert "up to 1.5e+02 %" in text
    by_method = {
        one["method"]: one for one in csv.DictReader(io.StringIO(make_report(made, format="csv")))
    }
    assert by_method["svc"]["attempts"] == "3"
    assert float(by_method["svc"]["fit_s_spread"]) == 3.0
    assert by_method["knn"]["attempts"] == "1"
    assert by_method["knn"]["fit_s_spread"] == ""
    found = json.loads(make_report(made, format="json"))["comparisons"]
    assert {one["method"]: one["fit_cpu_s"] for one in found} == {"svc": 2.0, "knn": 3.0}


def test_pages_and_rankings_take_a_repeated_run_once(folder):
    made = folder(*attempts(*timed(1.0, 4.0, 2.0)), *attempts(*timed(3.0, 5.0), method="knn"))
    paths = write_report(made)
    page = next(path for path in paths if path.name == "index.html").read_text()
    assert "2 runs" in page
    assert (
        "Medians of repeated runs"
        in next(path for path in paths if path.suffix == ".md").read_text()
    )
