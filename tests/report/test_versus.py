"""Methods against each other: what is paired, what is left out, and what is said."""

import csv
import io
import json
import math
import re

import pytest
from report_rows import failed, make_row

from kbench.errors import ConfigError
from kbench.report import make_comparison, make_report
from kbench.run.results.folder import ResultsFolder


@pytest.fixture
def compare(folder):
    def write(*rows, methods=("svc", "knn"), **options):
        return make_comparison(folder(*rows), methods=methods, **{"width": 200, **options})

    return write


def pairs(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_only_seeds_that_both_finished_are_paired(compare):
    rows = [make_row("svc", value, seed) for seed, value in enumerate([0.5, 0.75, 1.0])]
    rows += [make_row("knn", 0.25, 0), make_row("knn", 0.25, 7), failed("knn", "timeout", 1)]
    (pair,) = pairs(compare(*rows, format="csv"))
    assert (pair["pairs"], pair["mean_a"], pair["mean_b"]) == ("1", "0.5", "0.25")
    assert (pair["estimate"], pair["low"], pair["outcome"]) == ("0.25", "", "win")


def test_scores_of_few_test_rows_are_no_win(compare):
    rows = [make_row(m, value, n_test=1, n_train=4) for m, value in (("svc", 1.0), ("knn", 0.0))]
    text = compare(*rows)
    assert "digits, n=4: scores are of 1 test row alone, no method wins by them" in text
    assert "An interval of" not in text
    assert "win" not in re.sub("win/tie/loss|no method wins", "", text)
    (pair,) = pairs(compare(metric="fit_wall_s", format="csv"))
    assert pair["outcome"] == "tie"


def test_seconds_are_compared_by_ratios_and_on_one_machine(compare):
    rows = [make_row("svc", 0.5, seed, fit_wall_s=8.0 * 2.0**seed) for seed in range(3)]
    rows += [make_row("knn", 0.5, seed, fit_wall_s=2.0**seed) for seed in range(3)]
    rows += [make_row("svc", 0.5, 9, environment="ffffffff"), make_row("svc", 0.5, 10, threads=2)]
    (pair,) = pairs(compare(*rows, metric="fit_wall_s", format="csv"))
    assert (pair["kind"], pair["pairs"], pair["outcome"]) == ("ratio", "3", "loss")
    assert float(pair["estimate"]) == pytest.approx(8.0)
    assert pair["low"] == pair["high"] == ""  # the ratio varies by rounding alone


def test_scores_meet_across_machines_and_seconds_do_not(compare):
    rows = [make_row("svc", 0.75), make_row("knn", 0.5, environment="ffffffff")]
    (pair,) = pairs(compare(*rows, format="csv"))
    assert pair["pairs"] == "1"
    with pytest.raises(ConfigError, match="no data set has runs of two of svc, knn and fit_wall_s"):
        compare(metric="fit_wall_s")


def test_different_data_are_never_paired(compare):
    with pytest.raises(ConfigError, match="no data set has runs of two of"):
        compare(make_row("svc", 0.9), make_row("knn", 0.8, data_sha256="d2"))


def test_means_over_data_sets_and_wins(compare):
    rows = [
        make_row(method, value, dataset=dataset)
        for dataset, values in (("a", (0.9, 0.8)), ("b", (0.5, 0.7)), ("c", (0.50001, 0.5)))
        for method, value in zip(("svc", "knn"), values, strict=True)
    ]
    text = compare(*rows)
    assert re.search(r"svc − knn +accuracy % ↑ +3 +-3\.33 +\[-20\.00, \+10\.00\] +1/1/1", text)
    assert "Mean ranks over 3 data sets" in text
    assert "Nemenyi" in text
    assert "Friedman" not in text  # of two methods it is only a sign test


def test_a_failure_ranks_last_and_is_counted(compare):
    rows = [make_row("svc", 0.1), failed("knn", "memory", n_train=1000, n_test=500, n_features=64)]
    rows[1] |= {"n_classes": 10}
    text = compare(*rows)
    assert re.search(r"^svc +1\.00 +1 +0$", text, re.M)
    assert re.search(r"^knn +2\.00 +0 +1$", text, re.M)
    assert re.search(r"svc − knn +accuracy % ↑ +0 +memory", text)


def test_ranks_are_over_data_sets_that_all_methods_have(compare):
    rows = [make_row(method, 0.5, dataset="a") for method in ("svc", "knn", "mlp")]
    rows += [make_row(method, 0.5, dataset="b") for method in ("svc", "knn")]
    text = compare(*rows, methods=["svc", "knn", "mlp"])
    assert "Mean ranks over 1 data set " in text
    assert re.search(r"svc − knn +accuracy % ↑ +2 ", text)
    assert re.search(r"svc − mlp +accuracy % ↑ +1 ", text)


def test_the_best_of_several_settings_takes_part_and_the_report_says_so(compare):
    rows = [make_row("svc", c / 10, params=json.dumps({"C": c}), fit_wall_s=c) for c in (1, 2, 3)]
    rows.append(make_row("knn", 0.1, fit_wall_s=6.0))
    assert "svc (3); this favours" in " ".join(compare(*rows).split())
    (pair,) = pairs(compare(metric="fit_wall_s", format="csv"))
    assert float(pair["estimate"]) == pytest.approx(0.5)  # C=3, though C=1 is faster
    assert pair["a"] == "svc C=3"


def test_tasks_with_different_scores_are_not_averaged(compare):
    rows = [make_row(method, 0.5) for method in ("svc", "knn")]
    rows += [
        make_row(method, None, dataset="cadata", task="regression", rmse=value)
        for method, value in (("svc", 1.0), ("knn", math.e))
    ]
    text = compare(*rows)
    assert re.search(r"svc − knn +accuracy % ↑ +1 ", text)
    assert re.search(r"svc ÷ knn +RMSE ↓ +1 +0\.368 ", text)


def test_output_is_the_same_from_the_same_rows(tmp_path, compare):
    rows = [make_row(m, 0.1 * s + 0.01 * len(m), s) for m in ("svc", "logit") for s in range(4)]
    methods = ["svc", "logit"]
    compare(*rows, methods=methods)
    for format in ("terminal", "markdown", "csv", "latex"):
        before = compare(format=format, methods=methods)
        ResultsFolder(tmp_path / "results").merge()
        assert compare(format=format, methods=methods) == before
    text = compare(methods=methods, width=60)
    assert "seeds; pair svc − logit; metric accuracy % ↑" in " ".join(text.split())
    lines = text.splitlines()
    assert "…" not in text
    assert max(map(len, lines)) <= 60
    assert "\x1b" not in "".join(lines)
    assert "\x1b[1m" in compare(methods=methods, colour=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["svc"]}, "two methods or more: method=a,b"),
        ({"methods": None}, "two methods or more"),
        ({"methods": ["svc", "kn"]}, "no row has method 'kn'"),
        ({"format": "html"}, "a comparison is one of terminal, markdown, csv, json, latex"),
        ({"metric": "speed"}, "metric names 'speed'"),
    ],
)
def test_errors_are_one_line(compare, options, message):
    rows = [make_row("svc", 0.5), make_row("knn", 0.5)]
    with pytest.raises(ConfigError, match=message):
        compare(*rows, **options)


def test_wall_seconds_of_disturbed_runs_are_not_compared(compare):
    rows = [make_row("svc", 0.5, seed, fit_wall_s=8.0, other_cpus=0.9 * seed) for seed in (0, 1)]
    rows += [make_row("knn", 0.5, seed, fit_wall_s=2.0, other_cpus=0.0) for seed in (0, 1)]
    (pair,) = pairs(compare(*rows, metric="fit_wall_s", format="csv"))
    assert (pair["pairs"], pair["outcome"]) == ("1", "loss")


def test_the_outcome_of_a_ratio_is_that_of_its_estimate(compare):
    rows = [make_row("svc", 0.5, seed, fit_wall_s=s) for seed, s in enumerate((1.0, 100.0))]
    rows += [make_row("knn", 0.5, seed, fit_wall_s=s) for seed, s in enumerate((10.0, 20.0))]
    (pair,) = pairs(compare(*rows, metric="fit_s", format="csv"))
    assert float(pair["estimate"]) == pytest.approx(math.sqrt(0.5))
    assert float(pair["mean_a"]) == pytest.approx(10.0)
    assert pair["outcome"] == "win"


def test_two_data_sets_of_one_name_are_told_apart(compare, folder):
    rows = [
        make_row(method, value, data_sha256=sha256, variant=variant)
        for sha256, variants in (("1" * 64, [None, "split.seed=1"]), ("2" * 64, [None]))
        for variant in variants
        for method, value in (("svc", 0.9), ("knn", 0.8))
    ]
    text = compare(*rows)
    assert "Mean ranks over 2 data sets" in text
    report = make_report(folder(*rows))
    for digit in "12":
        assert f"{rows[0]['dataset']} (data {digit * 8})" in report
