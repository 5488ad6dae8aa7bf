"""Which runs a line of a figure shows, and what is said of them."""

import json
import re
from datetime import timedelta

import pytest
from paper_rows import drawing, on_covtype, points, rbf, runs, with_params
from report_rows import START, make_row

from kbench.papers.cells.runs import identity
from kbench.report.charts.svg import document


def remarks(name, found):
    return drawing(name, found).remarks


def two(method, seconds, **changes):
    """Runs of two tolerances, the coarse one in half of the seconds."""
    fine = on_covtype(method, seconds, **changes)
    return [fine, with_params(on_covtype(method, seconds / 2, **changes), tol=0.1)]


EXACT = two("kernel_svc", 2.0)


def test_a_line_has_one_setting_but_for_what_it_sweeps():
    swept = [with_params(on_covtype("dcsvm_early", float(n)), n_clusters=n) for n in (4, 16, 64)]
    others = [
        with_params(on_covtype("dcsvm_early", n + 0.5), n_clusters=n, n_levels=1) for n in (16, 64)
    ]
    others.append(with_params(on_covtype("dcsvm_early", 9.25), n_clusters=64, tol=0.1))
    lines = points("dcsvm_fig3_accuracy", runs(*EXACT, *others, *swept))
    assert [x for x, _, _ in lines["DC-SVM (early)"]] == [4.0, 16.0, 64.0]


def test_a_line_is_of_a_setting_of_the_figure_s_experiment_which_other_commands_may_have_run():
    elsewhere = {"experiment": "dcsvm_scaling"}
    many = [
        with_params(on_covtype("svc", s, **elsewhere), tol=t, cache_size=200)
        for s, t in ((7.0, 3), (8.0, 1), (9.0, 2))
    ]
    own = with_params(on_covtype("svc", 5.0, experiment="dcsvm_fig3"), cache_size=4000)
    further = with_params(on_covtype("svc", 4.0, **elsewhere), cache_size=4000, tol=1.0)
    lines = points("dcsvm_fig3_accuracy", runs(*EXACT, *two("dcsvm", 3.0), *many, own, further))
    assert [x for x, _, _ in lines["LIBSVM"]] == [4.0, 5.0]
    lines = points("dcsvm_fig3_accuracy", runs(*EXACT, *two("dcsvm", 3.0), *many, further))
    assert lines["LIBSVM"] == []


def test_of_one_run_with_two_limits_a_line_shows_that_of_the_figure_s_experiment():
    own = two("svc", 4.0, experiment="dcsvm_fig3")
    newer = on_covtype("svc", 7.0, experiment="dcsvm_scaling")
    newer["started_at"] += timedelta(hours=1)
    lines = points("dcsvm_fig3_accuracy", runs(*EXACT, *two("dcsvm", 3.0), newer, *own))
    assert [x for x, _, _ in lines["LIBSVM"]] == [2.0, 4.0]


def test_a_line_over_sizes_has_the_setting_with_most_sizes_and_one_point_of_each():
    rows = []
    for n in (5000, 10000, 20000):
        told = {"variant": f"first_train={n}", "n_train": n}
        rows += [
            on_covtype("kernel_svc", 1e-4 * n, **told),
            with_params(on_covtype("svc", 1e-3 * n, **told), cache_size=200),
        ]
    rows.append(with_params(on_covtype("svc", 3.0, **told), cache_size=4000))
    lines = points("dcsvm_scaling", runs(*rows))
    assert [(x, y) for x, y, _ in lines["LIBSVM"]] == [(5e3, 5.0), (1e4, 10.0), (2e4, 20.0)]


def test_a_front_is_of_the_figure_s_experiments():
    def costing(accuracy, cost, **changes):
        params = {"n_landmarks": cost, "pseudo": "none", "landmarks": "weighted"}
        given = {"params": json.dumps(params), "prediction_cost": float(cost), **changes}
        return rbf("dcpred", accuracy, **given)

    own = [costing(a, c, experiment="dcpred_app_fig4") for a, c in ((0.9, 4), (0.95, 8))]
    other = make_row("dcpred", 0.5, dataset="ijcnn1", prediction_cost=1.0,
                     params='{"pseudo": "none", "landmarks": "kmeans"}')  # fmt: skip
    elsewhere = costing(0.99, 2, experiment="dcpred_front")
    lines = points("dcpred_app_fig4", runs(*own, elsewhere, other))
    assert [x for x, _, _ in lines["weighted"]] == [4.0, 8.0]
    assert points("dcpred_app_fig4", runs(elsewhere, other)) == {}


def test_a_panel_of_which_all_curves_were_disturbed_says_so():
    row = make_row("norma", 0.85, dataset="a9a", params='{"max_time": 30}', other_cpus=0.9)
    found = runs(row, curves={identity(row): {"test_error": ([1.0, 2.0], [0.3, 0.2])}})
    said = remarks("dsgd_app_equal_time", found)
    assert "not drawn, other processes disturbed these wall seconds: NORMA" in said
    assert not any(one.startswith("too few rows") and "Adult" in one for one in said)


def test_settings_that_failed_are_counted_and_no_line_is_drawn_across_them():
    rows = [rbf(m, 0.9, C=2.0, gamma=2.0**p) for m in ("svc", "dcsvm") for p in (-10, -6, 1)]
    rows[1] |= {"status": "timeout"}
    one = drawing("dcsvm_fig5_8", runs(*rows))
    assert "not drawn, 1 of 3 settings, timeout: LIBSVM" in one.remarks
    lines = re.findall(r'class="line [^>]* d="(.*?)"', one.charts[0].body)
    assert sorted(path.count("M") for path in lines) == [1, 2]


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_curve_of_one_of_several_seeds_says_so(seeds):
    rows = [make_row("norma", 0.85, seed, dataset="a9a") for seed in range(seeds)]
    told = {"samples": ([1.0, 2.0], [10.0, 20.0]), "test_error": ([1.0, 2.0], [0.3, 0.2])}
    said = remarks("dsgd_fig1", runs(*rows, curves={identity(row): told for row in rows}))
    assert ("a curve shows the first seed, of up to 3" in said) == (seeds == 3)


def test_a_line_is_of_one_version_of_the_method():
    def early(n, version):
        row = on_covtype("dcsvm_early", float(n) + version, method_version=version)
        return with_params(row, n_clusters=n)

    old = [early(n, 1) for n in (4, 16, 64)]
    lines = points("dcsvm_fig3_accuracy", runs(*EXACT, *old, early(16, 2), early(64, 2)))
    assert [x for x, _, _ in lines["DC-SVM (early)"]] == [18.0, 66.0]


def test_seconds_and_memory_of_a_figure_name_their_machine():
    found = runs(*EXACT, *two("svc", 8.0))
    where = {"0a1b2c3d": {"cpu": "Xeon", "cores": 2}}
    one = drawing("dcsvm_fig3_accuracy", found, where)
    said = "measured on Xeon, 2 cores; 1 thread; environment 0a1b2c3d"
    assert one.remarks[0] == said
    assert said in document(one.charts * 3, one.legend, one.remarks)
    assert one.environments == ("0a1b2c3d",)  # which the page describes
    swept = [rbf(m, 0.9, C=2.0, gamma=g) for m in ("svc", "dcsvm") for g in (2.0, 64.0)]
    one = drawing("dcsvm_fig5_8", runs(*swept), where)
    assert one.charts
    assert one.environments == ()
    assert not any("measured on" in line for line in one.remarks)


@pytest.mark.parametrize(("others", "said"), [(0, None), (1, "one run"), (2, "2 runs")])
def test_a_figure_of_seconds_says_how_many_runs_other_processes_disturbed(others, said):
    rows = [row for name in ("kernel_svc", "svc", "dcsvm") for row in two(name, 1.0)]
    for i, row in enumerate(rows):
        row |= {"fit_cpu_s": row["fit_wall_s"], "other_cpus": 0.9 if i < others else 0.0}
    line = f"the timings of {said} may be too long (other load)"
    assert (line in remarks("dcsvm_fig3_accuracy", runs(*rows))) == bool(others)
    swept = [rbf(m, 0.9, C=2.0, gamma=g, other_cpus=0.9) for m in ("svc", "dcsvm") for g in (2, 64)]
    assert not any("other load" in one for one in remarks("dcsvm_fig5_8", runs(*swept)))


def test_a_panel_is_of_the_machine_with_most_of_its_lines_and_joins_no_two():
    here = [*EXACT, *two("svc", 8.0)]
    there = []
    for method, seconds in (("kernel_svc", 3.0), ("svc", 9.0), ("dcsvm", 5.0)):
        there += two(method, seconds, environment="ffff0000")
    swept = with_params(on_covtype("svc", 6.0), tol=1.0)
    one = drawing("dcsvm_fig3_accuracy", runs(*here, swept, *there))
    text = document(one.charts)
    assert text.count('class="line') == 3
    assert "LIBSVM: 9, 90" in text
    assert "LIBSVM: 8, 90" not in text
    assert "LIBSVM: 6, 90" not in text
    assert one.remarks[0] == "measured on 1 thread; environment ffff0000"


def test_a_point_is_the_mean_of_all_its_runs_as_in_tables():
    rows = [*EXACT, *two("svc", 8.0)]
    next_day = {"started_at": START + timedelta(days=1)}
    rows += [row for seed in (1, 2) for row in two("svc", 4.0, seed=seed, **next_day)]
    assert "LIBSVM: 5.33" in document(drawing("dcsvm_fig3_accuracy", runs(*rows)).charts)


def test_of_two_machines_with_as_many_lines_a_panel_is_of_that_with_more_runs():
    one_seed = [row for method in ("svc", "kernel_svc") for row in two(method, 8.0)]
    seeds = []
    for seed in (0, 1, 2):
        for method in ("svc", "kernel_svc"):
            seeds += two(method, 9.0, environment="ffff0000", seed=seed)
    for rows in ([*one_seed, *seeds], [*seeds, *one_seed]):
        assert drawing("dcsvm_fig3_accuracy", runs(*rows)).environments == ("ffff0000",)


def test_panels_of_a_figure_may_be_of_several_machines_which_are_told():
    elsewhere = {"dataset": "kddcup99", "variant": "dcsvm_ten_percent", "environment": "ffff0000"}
    rows = [*EXACT, *two("svc", 8.0)]
    for method in ("kernel_svc", "svc"):
        fine = rbf(method, 0.9, C=256, gamma=0.5, fit_wall_s=4.0, **elsewhere)
        rows += [fine, with_params({**fine, "key": f"coarse {method}", "fit_wall_s": 2.0}, tol=0.1)]
    one = drawing("dcsvm_fig3_accuracy", runs(*rows))
    assert document(one.charts).count('class="line') == 4
    assert one.environments == ("0a1b2c3d", "ffff0000")
    assert one.remarks[:2] == (
        "covtype: measured on 1 thread; environment 0a1b2c3d",
        "kddcup99: measured on 1 thread; environment ffff0000",
    )


def rows_of_meka(method, values, experiment, variant=None, name="gamma", **params):
    """Rows of ijcnn1 whose kernel errors grow with the swept parameter."""
    told = {"dataset": "ijcnn1", "variant": variant, "experiment": experiment}
    rows = []
    for value in values:
        given = {"gamma": 1, "numbers_per_row": None, **params, name: value}
        measured = {"kernel_error": 0.001 * value, "kernel_numbers": 100 * value}
        told |= {"params": json.dumps(given), "fit_wall_s": value, **measured}
        rows.append(make_row(method, 0.9, **told))
    return rows


def test_a_figure_is_of_the_data_on_which_its_experiments_have_rows():
    kept = {"numbers_per_row": 128}
    own, others = [], []
    for method in ("nystrom", "randomized_nystrom", "meka"):
        own += rows_of_meka(method, (2, 4), "meka_fig9", **kept)
        others += rows_of_meka(method, (1, 2, 10), "meka_fig7", "meka", **kept)
    others += rows_of_meka("kmeans_nystrom", (1, 2, 10), "meka_fig7", "meka", **kept)
    lines = points("meka_fig9", runs(*own, *others))
    assert [x for x, _, _ in lines["MEKA"]] == [2, 4]
    assert lines["KNys"] == []
    assert points("meka_fig9", runs(*others)) == {}


def test_lines_that_are_not_drawn_are_named_and_a_single_point_is_a_mark():
    rows = []
    for method, ranks in (("nystrom", (50, 100)), ("meka", (50, 100)), ("meka_galerkin", (50,))):
        rows += rows_of_meka(method, ranks, "meka_fig13", "meka", name="rank")
    lost = rows_of_meka("meka_psd", (50, 100), "meka_fig13", "meka", name="rank")
    for failed in ([], [one | {"status": "timeout"} for one in lost]):
        one = drawing("meka_fig13", runs(*rows, *failed))
        assert document(one.charts).count('class="line') == 3
        why = "timeout" if failed else "no rows"
        assert f"not drawn, {why}: MEKA-PSD" in one.remarks


def test_a_method_that_a_figure_does_not_sweep_is_a_line_of_one_point():
    told = {"dataset": "a9a", "error": 0.15}
    sizes = ({"fit_wall_s": n / 64, "params": f'{{"n_components": {n}}}'} for n in (64, 256))
    rows = [make_row("r_pegasos", 0.85, **told, **size) for size in sizes]
    single = [make_row(name, 0.85, **told) for name in ("norma", "k_sdca")]
    found = drawing("dsgd_fig1_seconds", runs(*rows, *single))
    assert document(found.charts).count('class="line') == 3


def test_lines_that_some_panels_lack_are_named_with_these_panels():
    rows = []
    for gamma in (2, 1):
        for method in ("nystrom", "meka", *(("kmeans_nystrom",) if gamma == 1 else ())):
            data = "pendigits" if gamma == 2 else "ijcnn1"
            for row in rows_of_meka(method, (50, 100), "meka_fig7", "meka", name="rank"):
                moved = with_params(row, gamma=gamma)
                rows.append({**moved, "dataset": data, "key": f"{row['key']} {data}"})
    said = remarks("meka_fig7", runs(*rows))
    lacking = "RNys; KNys; MEKA, Galerkin links"
    assert f"pendigit, gamma = 2: not drawn, no rows: {lacking}" in said
    assert "ijcnn1, gamma = 1: not drawn, no rows: RNys; MEKA, Galerkin links" in said


@pytest.mark.parametrize(
    ("seeds", "said"), [(1, "every point is one run"), (3, "means of up to 3 runs")]
)
def test_a_figure_says_of_how_many_runs_its_points_are(seeds, said):
    rows = []
    for method in ("nystrom", "meka"):
        for row in rows_of_meka(method, (50, 100), "meka_fig13", "meka", name="rank"):
            rows += [{**row, "seed": n, "key": f"{row['key']} {n}"} for n in range(seeds)]
    assert said in remarks("meka_fig13", runs(*rows))
