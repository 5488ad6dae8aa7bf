"""Means and paired differences over several random splits of a data set."""

import csv
import io
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import failed, make_row
from scipy import stats

from kbench.report import make_comparison, make_report
from kbench.report.comparisons.splits import corrected_error, split_of
from kbench.report.comparisons.tables import comparisons
from kbench.report.statistics.compare import corrected_t
from kbench.report.statistics.fronts import points
from kbench.run.results.rows import schema

# Columns that a row of a folder has and that are read here.
NULLS = dict.fromkeys(schema().names)

DIFFERENCES = st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=2, max_size=12)


def run(method, accuracy, split, seed=0, **changes):
    """A row of a split; None is the data set's own."""
    return make_row(method, accuracy, seed, variant=split, **changes)


def over_seeds(method, values, **changes):
    splits = [None, *(f"split.seed={k}" for k in range(1, len(values)))]
    return [
        run(method, value, split, **changes) for value, split in zip(values, splits, strict=True)
    ]


@pytest.mark.parametrize(
    ("variant", "rest", "split"),
    [
        (None, None, ""),
        ("raw", "raw", ""),
        ("split.seed=3", None, "split.seed=3"),
        ("raw,split.seed=3,scale=none", "raw,scale=none", "split.seed=3"),
        ("split.seed=3,split.folds=2,split.fold=1", "split.folds=2", "split.seed=3,split.fold=1"),
        ("split.test_fraction=0.5", "split.test_fraction=0.5", ""),
    ],
)
def test_a_variant_names_the_split_of_a_row(variant, rest, split):
    assert split_of(variant) == (rest, split)


@given(DIFFERENCES, st.floats(0.01, 1.0))
def test_the_corrected_t_is_that_of_nadeau_and_bengio(differences, ratio):
    test = corrected_t(differences, ratio)
    n, s2, mean = len(differences), np.var(differences, ddof=1), np.mean(differences)
    assert test.interval.mean == pytest.approx(mean, abs=1e-12)
    assert test.standard_error == pytest.approx(np.sqrt((1 / n + ratio) * s2), abs=1e-9)
    if s2 < 1e-9:
        return
    assert test.p == pytest.approx(2 * stats.t.sf(abs(mean) / test.standard_error, n - 1))
    low, high = stats.t.interval(0.95, n - 1, loc=mean, scale=test.standard_error)
    assert (test.interval.low, test.interval.high) == pytest.approx((low, high))


def test_without_overlap_it_is_the_paired_t_test():
    a, b = np.random.default_rng(0).random((2, 10))
    ours, theirs = corrected_t(list(a - b), 0.0), stats.ttest_rel(a, b)
    assert (ours.t, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert corrected_t([0.1], 0.5) is None
    equal = corrected_t([0.25, 0.25], 0.5)
    assert equal.interval.low is None
    assert np.isnan(equal.p)


def test_splits_are_averaged_with_the_standard_error_and_their_number_in_the_head(folder):
    values = [0.9, 0.8, 0.7]
    made = folder(*over_seeds("svc", values))
    text = make_report(made, width=200)
    error = 100 * corrected_error(values, 0.5)
    assert text.count("train and") == 1, "one table"
    assert "mean over 3 splits" in text
    assert f"80.00 ± {error:.2f}" in text
    assert "corrected for rows that the splits have in common" in text
    (line,) = json.loads(make_report(made, format="json"))["comparisons"]
    assert (line["n_splits"], line["runs"], line["variant"]) == (3, 3, None)


def test_seeds_of_a_split_count_once(folder):
    rows = [
        run("svc", x, f"split.seed={k}", seed)
        for k, seed, x in [(1, 0, 0.9), (1, 1, 0.7), (2, 0, 0.6)]
    ]
    (comparison,) = comparisons([{**NULLS, **row, "origin": "own"} for row in rows], splits=True)
    (line,) = comparison.lines
    assert (line.n_splits, len(line.ok)) == (2, 3)
    assert line.mean_sd("accuracy")[0] == pytest.approx(0.7)
    assert line.standard_error("accuracy") == pytest.approx(corrected_error([0.8, 0.6], 0.5))
    (point,) = points(comparison)
    assert (point.score, point.sd) == (line.mean_sd("accuracy")[0], line.standard_error("accuracy"))


def test_a_method_on_its_own_split_alone_is_compared_there(folder):
    rows = [*over_seeds("svc", [0.9, 0.8]), run("knn", 0.85, None)]
    tables = json.loads(make_report(folder(*rows), format="json"))["comparisons"]
    found = {(one["method"], one["n_splits"]): one["accuracy"] for one in tables}
    assert found == {
        ("svc", 2): pytest.approx(0.85),
        ("svc", 1): 0.9,
        ("knn", 1): 0.85,
    }


def test_pages_have_rows_of_one_split_and_of_several(folder):
    alone = [run("knn", 0.5, None, dataset="usps")]
    for made in (
        folder(*alone, *over_seeds("svc", [0.8, 0.7])),
        folder(*over_seeds("svc", [1, 0])),
    ):
        assert "over splits: mean" in make_report(made, format="html").lower()


def test_a_line_with_fewer_splits_is_named(folder):
    rows = [*over_seeds("svc", [0.9, 0.8, 0.7]), *over_seeds("knn", [0.5, 0.6])]
    rows.append(failed("knn", "timeout", variant="split.seed=2"))
    text = make_report(folder(*rows), width=200)
    assert "Means over fewer than the 3 splits: knn (2)" in text
    alone = make_report(folder(failed("mlp", "timeout", data_sha256="d2")), width=200)
    assert alone.count("Means over fewer") == 1


def test_folds_of_different_sizes_are_one_table(folder):
    rows = [
        run("svc", 0.9, "split.folds=2,split.fold=1", n_train=501, n_test=500),
        run("svc", 0.8, "split.folds=2,split.fold=2", n_train=500, n_test=501),
    ]
    (line,) = json.loads(make_report(folder(*rows), format="json"))["comparisons"]
    assert (line["variant"], line["n_splits"], line["n_train"]) == ("split.folds=2", 2, 501)


def test_rows_that_came_with_kbench_keep_the_splits_of_the_papers():
    rows = [{**NULLS, **row, "origin": "reference"} for row in over_seeds("svc", [0.9, 0.8])]
    assert [one.problem.n_splits for one in comparisons(rows, splits=True)] == [1, 1]
    own = [{**row, "origin": "own"} for row in rows]
    assert [one.problem.n_splits for one in comparisons(own, splits=True)] == [2]
    assert [one.problem.n_splits for one in comparisons(own)] == [1, 1], "the papers' cells"


def test_a_data_set_counts_once_in_comparisons_over_data_sets(folder):
    """Its own split is one of the several, also of a method with further settings there."""
    rows = [*over_seeds("svc", [0.9, 0.8]), *over_seeds("knn", [0.8, 0.7])]
    rows += [run(name, 0.95, None, params='{"C": 5}') for name in ("svc", "knn", "mlp")]
    text = make_comparison(folder(*rows), methods=["svc", "knn"], width=200)
    assert "Mean ranks over 1 data set that" in text
    (row,) = re.findall(r"svc − knn .*\d/\d/\d", text)
    assert row.split()[6] == "1"
    with_one_split = make_comparison(folder(*rows), methods=["svc", "mlp"], format="csv")
    assert len(list(csv.DictReader(io.StringIO(with_one_split)))) == 1


def test_methods_are_paired_over_the_splits_that_both_have(folder):
    a, b = [0.9, 0.85, 0.7], [0.8, 0.7, 0.75]
    rows = [*over_seeds("svc", a), *over_seeds("knn", b), run("svc", 0.1, "split.seed=9")]
    made = folder(*rows)
    (pair,) = csv.DictReader(
        io.StringIO(make_comparison(made, methods=["svc", "knn"], format="csv"))
    )
    test = corrected_t([x - y for x, y in zip(a, b, strict=True)], 0.5)
    assert pair["splits"] == "3"
    assert float(pair["estimate"]) == pytest.approx(test.interval.mean)
    assert float(pair["standard_error"]) == pytest.approx(test.standard_error)
    assert float(pair["p"]) == pytest.approx(test.p)
    assert float(pair["low"]) == pytest.approx(test.interval.low)
    text = make_comparison(made, methods=["svc", "knn"], width=200)
    assert "paired over 3 splits" in text
    assert f"{100 * test.standard_error:.2f}" in text
