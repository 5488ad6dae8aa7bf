"""Rankings over data sets: profiles, fronts and times against their definitions."""

import math
import re

import pytest
from bundle import details
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import failed, make_row

from kbench.papers.report import make_papers
from kbench.report.charts.profiles import ranking_charts
from kbench.report.charts.rank_chart import rank_chart
from kbench.report.charts.svg import document
from kbench.report.comparisons.tables import comparisons
from kbench.report.statistics.compare import critical_difference
from kbench.report.statistics.rankings import rankings, sheet
from kbench.run.results.folder import ResultsFolder


def row(method, dataset, accuracy, seconds, **changes):
    sizes = {"dataset": dataset, "task": "binary", "n_classes": 2, "origin": "own"}
    return make_row(method, accuracy, fit_wall_s=seconds, **{**sizes, **changes})


def ranked(rows):
    columns = ("converged", "prediction_cost", "variant", "rmse")
    filled = [{**dict.fromkeys([*columns, "fit_cpu_s"]), **one} for one in rows]
    return rankings(comparisons(filled))


def standing(rows, method):
    (one,) = ranked(rows)
    return next(found for found in one.standings if found.method == method)


BASE = [
    row("svc", "a", 0.95, 100.0, prediction_cost=50.0),
    row("fast", "a", 0.945, 1.0, prediction_cost=5.0),
    row("poor", "a", 0.80, 0.5, prediction_cost=5.0),
    row("svc", "b", 0.80, 10.0, prediction_cost=50.0),
    row("fast", "b", 0.90, 20.0, prediction_cost=5.0),
    row("poor", "b", 0.70, 0.5, prediction_cost=1.0),
]


def test_seconds_count_from_one_per_cent_of_the_best_score_on():
    assert standing(BASE, "svc").ratios == (100.0, math.inf)
    assert standing(BASE, "fast").ratios == (1.0, 1.0)
    assert standing(BASE, "poor").ratios == (math.inf, math.inf)
    assert standing(BASE, "poor").solved == 0


def test_of_several_settings_the_fastest_near_the_best_counts_and_the_best_ranks():
    early = row("svc", "a", 0.944, 0.1, params='{"C": 1}')
    one = standing([*BASE, early], "svc")
    assert one.ratios[0] == 1.0
    assert one.gaps[0] == 0.0
    assert standing([*BASE, early], "fast").ratios[0] == pytest.approx(10.0)


def test_ranks_gaps_and_fronts():
    svc, fast, poor = (standing(BASE, name) for name in ("svc", "fast", "poor"))
    assert (svc.rank.mean, fast.rank.mean, poor.rank.mean) == (1.5, 1.5, 3.0)
    assert svc.gaps == pytest.approx((0.0, 0.1 / 0.9))
    assert (svc.best, fast.best, poor.best) == (1, 1, 0)
    assert (svc.to_train, fast.to_train, poor.to_train) == (2, 2, 2)
    assert (svc.to_predict, fast.to_predict, poor.to_predict) == (1, 2, 1)


def test_a_failed_method_ranks_last_and_solves_nothing():
    lost = failed("svc", "timeout", dataset="b", task="binary", origin="own")
    rows = [one for one in BASE if (one["method"], one["dataset"]) != ("svc", "b")]
    one = standing([*rows, lost], "svc")
    assert one.gaps[1] == math.inf
    assert one.rank.mean == 2.0


def test_a_method_whose_package_is_absent_is_not_ranked():
    absent = [
        failed("absent", "unavailable", dataset=name, task="binary", origin="own") for name in "ab"
    ]
    (one,) = ranked([*BASE, *absent])
    assert [standing.method for standing in one.standings] == ["fast", "svc", "poor"]


def test_methods_and_data_sets_without_all_the_runs_are_left_out():
    rare = [row("rare", "a", 0.99, 1.0), row("svc", "c", 0.9, 1.0)]
    (one,) = ranked([*BASE, *rare])
    assert [c.problem.dataset for c in one.comparisons] == ["a", "b"]
    assert [s.method for s in one.standings] == ["fast", "svc", "poor"]
    assert ranked(BASE[:3]) == []


def test_tasks_and_machines_are_ranked_apart():
    other = [{**one, "environment": "ffff0000"} for one in BASE]
    assert len(ranked([*BASE, *other])) == 2


def test_data_on_which_none_of_the_shared_methods_has_a_score():
    lost = [failed(m, "timeout", dataset="b", task="binary", origin="own") for m in ("svc", "fast")]
    rows = [*BASE[:3], *lost, row("poor", "b", 0.7, 1.0), row("poor", "c", 0.7, 1.0)]
    (one,) = ranked(rows)
    assert {s.method: s.solved for s in one.standings} == {"svc": 1, "fast": 1, "poor": 1}


times = st.floats(1e-3, 1e3)
scores = st.floats(0.5, 1.0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(scores, times), min_size=6, max_size=6))
def test_every_data_set_has_a_fastest_method_a_best_one_and_fronts(values):
    places = [(m, d) for d in ("a", "b") for m in ("x", "y", "z")]
    rows = [row(m, d, *v) for (m, d), v in zip(places, values, strict=True)]
    (one,) = ranked(rows)
    for i in range(2):
        assert min(s.ratios[i] for s in one.standings) == 1.0
        assert min(s.gaps[i] for s in one.standings) == 0.0
    assert sum(s.rank.mean for s in one.standings) == pytest.approx(6.0)
    assert sum(s.to_train for s in one.standings) >= 2
    assert sum(s.best for s in one.standings) >= 2


def test_the_sheet_and_the_profiles_are_the_same_twice():
    (one,) = ranked(BASE)
    assert sheet(one).rows[0][0] == "fast"
    text = document(*ranking_charts(one))
    assert text == document(*ranking_charts(one))
    assert "fraction of data sets" in text


def test_the_report_of_papers_holds_them(tmp_path):
    folder = ResultsFolder(tmp_path / "results")
    for one in BASE:
        folder.write({name: value for name, value in one.items() if name != "origin"})
    text = make_papers(folder, tables=["rankings"], width=150, reference=False)
    assert "Rankings: binary, 2 data sets" in text
    page = make_papers(folder, tables=["hss_table2", "rankings"], format="html", reference=False)
    assert "Performance profiles, binary" in details(page)


def test_bars_of_mean_ranks_are_as_long_as_the_critical_difference():
    (one,) = ranked(BASE)
    chart = rank_chart(one)
    assert f"critical difference {critical_difference(3, 2):.2f}" in chart.label
    bars = re.findall(r'class="line c0" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', chart.body)
    middles = [(float(left) + float(right)) / 2 for left, _, right, _ in bars]
    assert len(bars) == len(one.standings) == 3
    # The best mean rank stands on top, which is the last line drawn, and farthest to the left.
    assert middles == sorted(middles, reverse=True)
    lengths = [float(right) - float(left) for left, _, right, _ in bars]
    assert max(lengths) - min(lengths) <= 0.2


def test_a_data_set_counts_once_in_the_form_with_the_most_methods():
    small = [{**one, "variant": "first_train=500", "n_train": 500} for one in BASE]
    (one,) = ranked([*BASE, *small[:2], row("svc", "c", 0.9, 1.0), row("fast", "c", 0.8, 1.0)])
    forms = [(c.problem.dataset, c.problem.variant) for c in one.comparisons]
    assert forms == [("a", None), ("b", None), ("c", None)]
    wider = [*small, row("more", "a", 0.5, 1.0, variant="first_train=500", n_train=500)]
    (one,) = ranked([*BASE, *wider])
    assert [c.problem.n_train for c in one.comparisons] == [500, 1000]


def test_intervals_need_six_data_sets():
    def of(n):
        rows = [row(m, f"d{i}", 0.9 - i / 100, 1.0) for i in range(n) for m in ("svc", "knn")]
        rows += [row("mlp", f"d{i}", 0.5 + i / 10, 1.0) for i in range(n)]
        (one,) = ranked(rows)
        return sheet(one)

    assert {line[2] for line in of(5).rows} == {""}
    assert "No intervals: fewer than 6 data sets show no difference at 5 %." in of(5).notes
    assert "" not in {line[2] for line in of(6).rows}
    assert not any(note.startswith("No intervals") for note in of(6).notes)
