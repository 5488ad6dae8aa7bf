"""Recommendations rest on the nearest problems, and say which."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_rows import failed, make_row

from kbench.cli import main
from kbench.errors import ConfigError
from kbench.report import make_recommendation
from kbench.report.comparisons.tables import comparisons
from kbench.report.recommend import FARTHEST, NEAREST, Wanted, recommend, sheets
from kbench.run.results.folder import ResultsFolder, schema

WANTED = Wanted("binary", 1000, 10)


def compared(*rows):
    empty = {**dict.fromkeys(schema().names), "origin": "own"}
    return comparisons([{**empty, **row} for row in rows])


def on(dataset, method, accuracy, n=1000, d=10, **changes):
    sizes = {"n_train": n, "n_features": d, "task": "binary", "n_classes": 2}
    given = {"prediction_cost": 10.0, **sizes, **changes}
    return make_row(method, accuracy, dataset=dataset, data_sha256=dataset, **given)


def pair(dataset, n, d, good="svc"):
    return [on(dataset, m, 0.9 if m == good else 0.8, n, d) for m in ("svc", "knn")]


def test_the_nearest_by_orders_of_magnitude_take_part():
    sizes = {"a": (1000, 10), "b": (2000, 10), "c": (1000, 40), "far": (10**6, 10)}
    rows = [row for name, (n, d) in sizes.items() for row in pair(name, n, d)]
    found = recommend(compared(*rows), WANTED)
    assert [one.problem.dataset for _, one in found.nearest] == ["a", "b", "c"]
    assert [distance for distance, _ in found.nearest] == pytest.approx(
        [0.0, math.log10(2), math.log10(4)]
    )


def test_density_tells_apart_what_has_the_same_size():
    dense = [{**row, "density": 1.0} for row in pair("dense", 1000, 10)]
    sparse = [{**row, "density": 0.01} for row in pair("sparse", 1000, 10)]
    old = pair("old", 1000, 10)  # whose rows do not say
    compared_ = compared(*dense, *sparse, *old)
    found = recommend(compared_, Wanted("binary", 1000, 10, density=0.01))
    distances = {one.problem.dataset: distance for distance, one in found.nearest}
    assert distances == pytest.approx({"dense": 2.0, "sparse": 0.0, "old": 0.0})
    assert "density 0.0100" in sheets(found)[0].name
    # The data set's own rows tell its density.
    found = recommend(compared_, Wanted("binary", 1000, 10, "sparse"))
    assert {one.problem.dataset: d for d, one in found.nearest}["dense"] == 2.0
    assert all(d == 0.0 for d, _ in recommend(compared_, WANTED).nearest)


def test_the_data_set_itself_is_nearest_and_other_tasks_are_no_evidence():
    rows = pair("mine", 10**6, 500) + pair("like", 1000, 10)
    rows += [dict(row, task="regression") for row in pair("other", 1000, 10)]
    found = recommend(compared(*rows), Wanted("binary", 1000, 10, "mine"))
    assert {one.problem.dataset for _, one in found.nearest} == {"mine", "like"}
    assert found.nearest[-1][0] == found.nearest[0][0] == 0.0


def test_a_method_better_on_every_problem_comes_first_with_its_best_setting():
    rows = pair("a", 1000, 10) + pair("b", 900, 10)
    rows.append(on("a", "svc", 0.1, params='{"C": 9}'))
    found = recommend(compared(*rows), WANTED)
    assert [one.method for one in found.evidence] == ["svc", "knn"]
    assert found.evidence[0].ratio == 1.0
    assert found.evidence[0].low < 0.9 < found.evidence[0].high
    assert "2 of 2 comparisons" in found.reason
    assert found.command == "kbench method=svc dataset=NAME"


def test_methods_are_compared_in_pairs_where_both_have_rows():
    """mlp beats svc and svc beats knn, on different problems: mlp is the best of all."""
    rows = [*pair("a", 1000, 10), *pair("b", 900, 10)]
    for name in ("c", "d", "e"):
        rows += [on(name, "svc", 0.6), on(name, "mlp", 0.9)]
    rows.append(failed("mlp", "memory", dataset="b", task="binary", data_sha256="b"))
    found = recommend(compared(*rows), WANTED)
    assert [one.method for one in found.evidence] == ["mlp", "svc", "knn"]


def test_rows_of_the_data_set_itself_decide():
    rows = pair("mine", 1000, 10, good="knn")
    for name in ("a", "b", "c"):
        rows += [*pair(name, 1000, 10), on(name, "mlp", 0.99)]
    found = recommend(compared(*rows), Wanted("binary", 1000, 10, "mine"))
    assert [one.method for one in found.evidence] == ["knn", "svc", "mlp"]
    assert [one.measured for one in found.evidence] == [True, True, False]
    assert (found.evidence[0].low, found.evidence[0].high) == (0.9, 0.9)
    assert "best score of 2 methods with rows on mine" in found.reason


def test_problems_of_another_number_of_classes_are_an_order_of_magnitude_away():
    rows = [dict(row, task="multiclass") for row in pair("many", 1000, 10)]
    rows += [*pair("two", 1000, 10), on("two", "only_two", 0.99)]
    found = recommend(compared(*rows), Wanted("multiclass", 1000, 10))
    assert [distance for distance, _ in found.nearest] == [0.0, 1.0]
    assert {one.method for one in found.evidence} == {"svc", "knn"}


def test_far_problems_are_no_evidence():
    assert not recommend(compared(*pair("far", 10**7, 10)), WANTED).evidence


def test_the_cheapest_of_those_that_are_as_good_is_named():
    rows = [
        on("a", "svc", 0.900, fit_wall_s=10.0, prediction_cost=100.0),
        on("a", "early", 0.899, fit_wall_s=1.0, prediction_cost=50.0),
        on("a", "small", 0.895, fit_wall_s=5.0, prediction_cost=2.0),
        on("a", "dummy", 0.500, fit_wall_s=0.1, prediction_cost=1.0),
    ]
    found = recommend(compared(*rows), WANTED)
    assert list(found.choices.values()) == ["svc", "early", "small"]


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6, unique=True))
def test_no_farther_problem_takes_the_place_of_a_nearer_one(sizes):
    rows = [row for n in sizes for row in pair(f"n{n}", n, 10)]
    found = recommend(compared(*rows), WANTED)
    near = [distance for distance, _ in found.nearest]
    every = [abs(math.log10(n / 1000)) for n in sizes]
    near_enough = sorted(distance for distance in every if distance <= FARTHEST)
    assert near == pytest.approx(near_enough[:NEAREST])


def test_every_format_and_a_folder_without_rows(tmp_path):
    folder = ResultsFolder(tmp_path / "results")
    with pytest.raises(ConfigError, match="nothing is known: no binary data set"):
        make_recommendation(folder, WANTED)
    for row in pair("a", 1000, 10):
        folder.write(row)
    assert "Best score: svc" in make_recommendation(folder, WANTED, width=100)
    assert "| svc | 1 |" in make_recommendation(folder, WANTED, format="markdown")
    assert r"\begin{tabular}" in make_recommendation(folder, WANTED, format="latex")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["dataset=ijcn1"], "nearest: ijcnn1"),
        (["dataset=ijcnn1", "n=3"], "dataset=NAME, or task=..., n=... and d=..."),
        (["task=binary", "n=10"], "dataset=NAME, or task=..., n=... and d=..."),
        (["task=binry", "n=10", "d=2"], "nearest: binary"),
        (["task=binary", "n=many", "d=2"], "n is 'many', should be a whole number"),
        (["task=binary", "n=9", "d=2", "density=2"], "density is '2', should be a number above 0"),
        (["dataset=ijcnn1", "density=0.5"], "dataset=NAME, or task=..., n=... and d=..."),
        (["dataset=imagenet"], "does not say how large it is"),
        (["ijcnn1"], "takes key=value, not 'ijcnn1'"),
    ],
)
def test_an_error_is_one_line(words, said, capsys):
    assert main(["recommend", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_data_set_is_known_by_the_facts_of_its_config(tmp_path, capsys):
    folder = ResultsFolder(tmp_path / "results")
    for row in pair("like", 40_000, 22):
        folder.write(row)
    where = [f"results_dir={folder.path}", "reference=false"]
    assert main(["recommend", "dataset=ijcnn1", *where]) == 0
    assert "binary, 49,990 training rows of 22 features" in capsys.readouterr().out
    assert main(["recommend", "dataset=letter", "variant=dcpred", *where]) == 0
    assert "training rows of 16 features" in capsys.readouterr().out
    assert main(["recommend", "dataset=covtype", *where]) == 0
    assert "464,810 training rows of 54" in capsys.readouterr().out
