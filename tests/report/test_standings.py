"""The ranking that answers which model for which data."""

import csv
import io
import json
import re

import pytest
from report_rows import failed, make_row

from kbench.errors import ConfigError
from kbench.report import make_ranking
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.stopped import TIMED_OUT

SETS = {"a": (100, 4), "b": (200, 5), "c": (5000, 40)}


@pytest.fixture
def folder(tmp_path):
    """Three data sets; `near` is best on two, `far` on one, `new` is of another experiment."""
    folder = ResultsFolder(tmp_path / "results")
    for name, (n, d) in SETS.items():
        shape = {"dataset": name, "data_sha256": name, "n_train": n, "n_features": d}
        here = {**shape, "experiment": "demo,tables", "fit_cpu_s": n / 1000, "n_test": 500}
        best = "near" if name != "b" else "far"
        for method in ("near", "far"):
            folder.write(make_row(method, 0.8 if method == best else 0.6, **here))
        folder.write(make_row("new", 0.9, **shape, experiment="demo"))
        own = {"dataset": name, "data_sha256": name, "experiment": "tuned"}
        folder.write(failed("never", "timeout", **own))  # it never loaded the data
    return folder


def lines(text):
    return {one["method"]: one for one in csv.DictReader(io.StringIO(text))}


def test_methods_are_ranked_by_their_distance_to_the_best_of_their_experiments(folder):
    found = lines(make_ranking(folder, format="csv"))
    assert list(found) == ["near", "far", "never"]
    assert found["near"]["% behind"] == "0.00"
    assert found["far"]["% behind"] == "25.00"
    assert found["never"]["% behind"] == "fails"
    assert [found[name]["failed"] for name in found] == ["", "", "3"]
    assert found["near"]["mean rank"] == "1.3 ± 0.3"
    assert found["near"]["fit s"] == "10"


def test_only_data_like_the_user_s_count(folder):
    text = make_ranking(folder, n=150, d=4)
    assert "2 data sets" in text
    assert "Data sets (rows x features): a (100 x 4), b (200 x 5)." in text
    assert "No answer" not in text
    with pytest.raises(ConfigError, match="fewer than two data sets of task=regression have"):
        make_ranking(folder, task="regression")


@pytest.mark.parametrize(
    ("asked", "given", "shown", "sets"),
    [
        ({"n": 150, "d": 1000}, "n=150, d=1,000", "10 of d and 10 of n; these are for n=150", 2),
        ({"n": 10**6, "d": 4}, "n=1,000,000, d=4", "10 of d and 10 of n; these are for d=4", 3),
        ({"n": 10**6}, "n=1,000,000", "10 of n; these are all there are", 3),
        ({"classes": 200}, "classes=200", "3 of classes; these are all there are", 3),
    ],
)
def test_without_data_like_the_user_s_those_that_are_less_alike_count(
    folder, asked, given, shown, sets
):
    text = make_ranking(folder, **asked, width=300)
    assert f"No answer for {given}: no two data sets are within a factor of {shown}" in text
    assert f"{sets} data sets" in text


def test_classes_are_those_of_a_task(folder):
    assert "No answer" not in make_ranking(folder, classes=4)  # the data sets have ten
    for wrong in ({"classes": 1}, {"classes": 2, "task": "multiclass"}):
        with pytest.raises(ConfigError, match="task=binary has 2 classes"):
            make_ranking(folder, **wrong)


def test_what_to_try_is_of_methods_that_ran_on_so_many_rows(folder):
    """`fast` did not run on one of the larger data sets; `never` was stopped everywhere."""
    for i, n in enumerate((20_000, 50_000)):
        shape = {"dataset": f"l{i}", "data_sha256": f"l{i}", "n_train": n, "n_test": 10_000}
        here = {**shape, "experiment": "tables"}
        for method, score, seconds in (("near", 0.9, 4.0), ("far", 0.8, 3.0), ("fast", 0.85, 1.0)):
            if (method, i) != ("fast", 1):
                folder.write(make_row(method, score, **here, predict_cpu_s=seconds))
    small = {"dataset": "a", "data_sha256": "a", "n_train": 100, "n_features": 4, "n_test": 500}
    for name in ("a", "b"):
        shape = {**small, "dataset": name, "data_sha256": name, "n_train": SETS[name][0]}
        shape["n_features"] = SETS[name][1]
        folder.write(make_row("fast", 0.7, **shape, experiment="tables", predict_cpu_s=0.01))
    text = make_ranking(folder, width=1000)
    first = "with 100-5,000 rows near, then far; with 20,000-50,000 rows near, then far."
    assert f"To try first: {first}" in text
    assert re.search(r"To predict faster: fast \(.* % behind, .* s per 10,000 rows\)\.", text)
    assert "Failed: never on a (timeout); never on b (timeout); never on c (timeout)." in text


def test_of_several_limits_the_longest_is_said(folder):
    for name in SETS:
        shape = {"dataset": name, "data_sha256": name, "experiment": "demo,tables"}
        for seed, limit in enumerate(("3600", "900")):
            row = failed("slow", "timeout", message=f"{TIMED_OUT}{limit}", seed=seed, **shape)
            folder.write(row)
    assert "slow on a (stopped at its limit of 3600 s)" in make_ranking(folder, width=300)


def test_a_narrow_window_has_every_number(folder):
    """A long name goes on below, where it had pushed the last columns out."""
    for name, (n, d) in SETS.items():
        shape = {"dataset": name, "data_sha256": name, "n_train": n, "n_features": d}
        folder.write(make_row("far_and_further_than_any", 0.5, experiment="tables", **shape))
    text = make_ranking(folder, width=60)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 60
    assert re.search(r"fit s\n-+\n", text)  # nothing has seconds of predictions
    names = re.findall(r"^(far_and|further|than_any|any)", text, re.MULTILINE)
    assert len(names) > 1


def test_a_learned_metric_is_a_competitor_of_its_own(folder):
    """A row of `tuned_svc` without the parameter is not one of its default, metric=small."""
    for name, (n, d) in SETS.items():
        shape = {"dataset": name, "data_sha256": name, "n_train": n, "n_features": d}
        for method, given in (("near", {"metric": "auto"}), ("tuned_svc", {})):
            params = json.dumps(given)
            folder.write(make_row(method, 0.81, params=params, experiment="tables", **shape))
    found = lines(make_ranking(folder, format="csv"))
    assert {"near", "near metric=auto", "tuned_svc metric=null"} < {*found}


@pytest.mark.parametrize("format", ["terminal", "markdown", "latex", "json"])
def test_every_format_has_every_method(folder, format):
    text = make_ranking(folder, format=format, width=120)
    assert all(name in text for name in ("near", "far", "never"))
