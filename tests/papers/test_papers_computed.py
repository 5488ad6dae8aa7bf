"""Cells that are computed from others: ratios, sums, totals, orders of growth."""

import json

import pytest
from paper_rows import HSS, cell, rbf, runs
from report_rows import failed, make_row

from kbench.papers.cells.entries import filled
from kbench.papers.cells.sheets import cell_records, coverage
from kbench.papers.printed.layout import paper


def test_ratios_are_of_one_problem_on_one_machine():
    early = rbf("dcsvm_early", 0.98, fit_wall_s=2.0)
    slow = rbf("svc", 0.98, fit_wall_s=8.0)
    elsewhere = rbf("svc", 0.98, fit_wall_s=80.0, environment="ffff0000")
    other_rows = rbf("svc", 0.98, fit_wall_s=80.0, data_sha256="d2")
    assert cell(runs(early, slow), "DC-SVM (early)", "ijcnn1", "× LIBSVM").value == 0.25
    for alone in (elsewhere, other_rows):
        found = runs(early, alone)
        one = cell(found, "DC-SVM (early)", "ijcnn1", "× LIBSVM")
        assert one.value is None
        assert one.printed.number == pytest.approx(12 / 115, rel=1e-2)


def test_a_sum_is_of_one_cell_and_a_ratio_may_be_to_another_table():
    table = paper("hss").tables["table5"]
    phases = {"tree": 1.0, "neighbours": 2.0, "compress": 3.0}
    phases |= {"factor": 0.5, "admm": 0.75}  # of three C
    hss = make_row("hss_admm", 0.92, phases_cpu=phases, **HSS)
    svc = make_row("svc", 0.96, fit_wall_s=13.5, **HSS | {"params": '{"C": 1, "gamma": 50}'})
    found = runs(hss, svc)
    assert cell(found, "ijcnn1", "", "compression", table).value == 6.0
    total = cell(found, "ijcnn1", "", "total", table)
    assert total.value == 6.75
    assert total.printed.number == pytest.approx(21.393 + 2.041 + 0.298, rel=1e-3)
    ratio = cell(found, "ijcnn1", "", "× LIBSVM", table)
    assert ratio.value == 0.5
    assert ratio.printed.number == pytest.approx(23.732 / 345.805, rel=1e-2)
    assert cell(runs(hss), "ijcnn1", "", "× LIBSVM", table).value is None
    wall = {**hss, "phases": phases, "phases_cpu": None}
    for label in ("compression", "total", "× LIBSVM"):
        assert cell(runs(wall, svc), "ijcnn1", "", label, table).value is None


def test_a_ratio_says_that_its_sides_are_of_different_data():
    early = rbf("dcsvm_early", 0.9, gamma=32, dataset="covtype")
    libsvm = rbf("svc", 0.9, gamma=32, dataset="covtype_93k")
    ratio = cell(runs(early, libsvm), "DC-SVM (early)", "covtype", "× LIBSVM")
    assert (ratio.value, ratio.status) == (None, "other data")


def test_a_ratio_to_another_table_has_the_notes_on_the_seconds_there():
    table = paper("hss").tables["table3"]
    sizes = {"dataset": "ijcnn1", "variant": "hss", "task": "binary"}
    racqp = {"C": 1, "gamma": 50, "halved": False, "decimals": 3}
    svc = make_row("svc", 0.96, params='{"C": 1, "gamma": 50}', fit_cpu_s=9.0, **sizes)
    disturbed = svc | {"fit_wall_s": 19.0, "other_cpus": 1.5}
    own = make_row("racqp", 0.9, params=json.dumps(racqp), fit_cpu_s=3.0, **sizes)
    for row, said in ((svc, False), (disturbed, True)):
        ratio = cell(runs(own, row), "ijcnn1", "", "× LIBSVM", table)
        assert ratio.value == pytest.approx(1 / 3)
        assert any("other load" in note for note in ratio.notes) == said


STEPS = [2.0**e for e in (-10, -6, 1, 6, 10)]


def test_the_runs_behind_a_computed_cell_are_those_of_all_its_parts():
    """A total of 25 settings, and both sides of a ratio."""
    grid = [rbf("svc", 0.9, C=C, gamma=g, key=f"{C} {g}") for C in STEPS for g in STEPS]
    sheets = filled(paper("dcsvm").tables["table5"], runs(*grid))
    (total,) = (one for one in cell_records(sheets) if one["measured"] is not None)
    assert (total["runs"], total["ok"]) == (25, 25)
    assert total["keys"] == " ".join(row["key"] for row in grid)
    both = [rbf("dcsvm_early", 0.98, key="early"), rbf("svc", 0.98, key="late")]
    ratio = cell(runs(*both), "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert [row["key"] for row in ratio.rows] == ["early", "late"]


def test_a_total_is_of_one_data_set():
    table = paper("dcsvm").tables["table5"]

    def grid(dataset, seconds):
        told = {"dataset": dataset, "fit_wall_s": seconds}
        return [rbf("svc", 0.9, C=C, gamma=g, **told) for C in STEPS for g in STEPS]

    whole, part = grid("covtype", 100.0), grid("covtype_93k", 3.0)
    one = cell(runs(*whole[:3], *part), "covtype", "LIBSVM", "time", table)
    assert one.value == pytest.approx(75.0)
    assert cell(runs(*whole, *part), "covtype", "LIBSVM", "time", table).value == 2500.0
    one = cell(runs(*whole[:3], *part[:20]), "covtype", "LIBSVM", "time", table)
    assert (one.status, one.lower_bound) == ("20 of 25", 60.0)


LIMIT = "not done within limits.wall_s=120"


def test_a_computed_cell_has_the_status_and_limit_of_its_sources():
    lost = {"dataset": "ijcnn1", "message": LIMIT}
    slow = failed("svc", "timeout", params=rbf("svc", 1)["params"], **lost)
    ratio = cell(runs(rbf("dcsvm_early", 0.98), slow), "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (ratio.value, ratio.status) == (None, "svc: timeout")
    assert ratio.notes == (f"svc on ijcnn1: {LIMIT}",)

    grid = paper("dcsvm").tables["table5"]
    slow = failed("svc", "timeout", params=rbf("svc", 1, C=2.0**-10, gamma=2.0)["params"], **lost)
    done = rbf("svc", 0.9, C=2.0, gamma=2.0)
    for rows, status in (((done, slow), "1 of 25"), ((slow,), "0 of 25")):
        total = cell(runs(*rows), "ijcnn1", "LIBSVM", "time", grid)
        assert (total.value, total.status) == (None, status)
        assert total.notes == (f"svc on ijcnn1: {LIMIT}, 1 of the settings",)

    slow = failed("hss_admm", "timeout", **HSS | lost | {"n_train": None})
    total = cell(runs(slow), "ijcnn1", "", "total", paper("hss").tables["table5"])
    assert (total.value, total.status) == (None, "timeout")
    assert total.notes == (f"hss_admm on ijcnn1 (hss): {LIMIT}",)


def grown(n, method="svd", rank=160, other_cpus=0.0):
    data = {"dataset": "covtype_like", "variant": f"n={n},n_test=500", "n_train": n}
    seconds = {"fit_cpu_s": 3e-9 * n**2.5, "other_cpus": other_cpus}
    params = json.dumps({"rank": rank, "gamma": 4})
    return make_row(method, 0.9, params=params, kernel_numbers=7 * n, **data, **seconds)


def test_the_exponent_of_a_power_of_the_rows_is_found_from_three_sizes_on():
    table = paper("meka").tables["table4"]
    rows = [grown(n) for n in (1000, 2000, 4000, 16000)] + [grown(8000, rank=80)]
    found = runs(*rows)
    for measure, exponent in (("storage", 1.0), ("time", 2.5)):
        one = cell(found, "SVD", "", measure, table)
        assert one.value == pytest.approx(exponent, abs=1e-9)
        assert one.notes == ("over 3 sizes, 1,000 to 4,000 rows",)
    (whole,) = filled(table, found)
    time = next(group for group in whole.groups if group.measure.label == "time")
    assert time.texts(time.entries[whole.rows.index("SVD")]) == ("O(n^3 + n^2 d)", "n^2.50")
    assert coverage([whole]).stand_in == 2  # of orders of growth, which are of no data

    slow = {"variant": "n=4000,n_test=500", "params": rows[0]["params"], "message": LIMIT}
    lost = failed("svd", "timeout", dataset="covtype_like", **slow)
    one = cell(runs(*rows[:2], lost), "SVD", "", "time", table)
    assert (one.value, one.status) == (None, "2 of 4 sizes")
    assert one.notes == (f"svd on covtype_like (n=4000,n_test=500): {LIMIT}",)
    assert cell(runs(rbf("svc", 0.9)), "SVD", "", "time", table).status == ""


def test_an_exponent_of_seconds_says_which_runs_other_processes_disturbed():
    table = paper("meka").tables["table4"]
    found = runs(grown(1000), grown(2000, other_cpus=0.9), grown(4000))
    size = "svd on covtype_like (n=2000,n_test=500)"
    told = f"{size}: 1 of 1 timings may be too long (other load)"
    over = "over 3 sizes, 1,000 to 4,000 rows"
    assert cell(found, "SVD", "", "time", table).notes == (over, told)
    assert cell(found, "SVD", "", "storage", table).notes == (over,)


def test_values_that_no_power_of_the_rows_comes_near_to_have_no_exponent():
    """Such as the bytes of a model whose form changes between two sizes."""
    table = paper("meka").tables["table4"]
    kept = {1000: 29000, 2000: 57600, 4000: 115000, 8000: 65500}
    found = runs(*({**grown(n), "kernel_numbers": number} for n, number in kept.items()))
    one = cell(found, "SVD", "", "storage", table)
    assert (one.value, one.status) == (None, "no power")
    (note,) = one.notes
    assert "kernel_numbers 29,000; 57,600; 115,000; 65,500" in note
    assert cell(found, "SVD", "", "time", table).value == pytest.approx(2.5, abs=1e-9)
