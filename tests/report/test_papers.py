"""The papers' tables: what is printed adds up, and rows fill the cells that they belong to."""

import csv
import io
import json
import shutil
import subprocess
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paper_rows import rbf, runs
from report_rows import START, failed, make_row, stopped_in

from kbench.config import shipped_root
from kbench.errors import ConfigError
from kbench.report import make_papers
from kbench.report.papers.coverage import coverage
from kbench.report.papers.entries import LACKING, Cell, entry, filled
from kbench.report.papers.layout import PAPERS, load, paper
from kbench.report.papers.printed import printed
from kbench.report.papers.runs import identity, phase_seconds
from kbench.report.papers.sheets import remarks
from kbench.run.results import ResultsFolder

TABLES = [table for name in PAPERS for table in paper(name).tables.values()]
GRIDS = {"ijcnn1": "table7", "webspam": "table8", "covtype": "table9", "census": "table10"}
SECONDS = {"min": 60, "h": 3600, "d": 86400}


def seconds(table, method):
    """The seconds of a column; a run that was stopped counts with its limit."""
    values = printed("dcsvm")
    return [
        float(value.text.removeprefix(">"))
        for place, value in values.items()
        if (place[0], place[2], place[3]) == (table, method, "seconds")
    ]


@pytest.mark.parametrize("method", ["DC-SVM (early)", "DC-SVM", "LIBSVM"])
@pytest.mark.parametrize("data", GRIDS)
def test_tables_7_to_10_of_dcsvm_add_up_to_its_table_5(data, method):
    total = printed("dcsvm")["table5", data, method, "time"]
    parts = seconds(GRIDS[data], method)
    assert len(parts) == 25
    assert sum(parts) / SECONDS[total.unit] == pytest.approx(total.number, rel=0.02)


def test_dcsvm_is_faster_than_libsvm_in_95_of_100_settings_and_slower_in_4():
    pairs = [
        pair
        for table in GRIDS.values()
        for pair in zip(seconds(table, "DC-SVM"), seconds(table, "LIBSVM"), strict=True)
    ]
    assert len(pairs) == 100
    assert sum(ours < libsvm for ours, libsvm in pairs) == 95
    assert sum(ours > libsvm for ours, libsvm in pairs) == 4


def test_two_runs_of_libsvm_hit_the_limit_and_have_no_accuracy():
    values = printed("dcsvm")
    stopped = [place for place, value in values.items() if value.text == ">300000"]
    assert len(stopped) == 2
    for table, row, column, _ in stopped:
        assert values[table, row, column, "accuracy"].text == "-"
        assert values[table, row, column, "accuracy"].number is None


def test_hss_accuracies_are_no_better_than_what_a_count_of_rows_allows():
    """An accuracy is a whole number of test rows, to the digits printed."""
    values = printed("hss")
    for (table, row, _, quantity), value in values.items():
        if quantity == "accuracy" and value.number is not None:
            n = values["table1", row, "", "n_test"].number
            hits = round(value.number / 100 * n)
            assert 100 * hits / n == pytest.approx(value.number, abs=6e-4 + 50 / n), (table, row)


def test_h_is_the_gamma_of_the_selected_runs():
    for name in ("table4", "table5"):
        table = paper("hss").tables[name]
        for row, wanted in table.rows.items():
            h = printed("hss")[name, row, "", "h"].number
            costs = [float(c) for c in printed("hss")[name, row, "", "C"].text.split(",")]
            assert wanted.params["gamma"] == pytest.approx(1 / (2 * h * h))
            assert wanted.at["C"] in costs


def test_meka_is_the_best_of_the_printed_errors_of_each_column():
    for (table, _, column, quantity), value in printed("meka").items():
        if table in ("table7", "table8") and value.number is not None:
            assert printed("meka")[table, "MEKA", column, quantity].number <= value.number


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_value_of_a_table_has_a_place_in_a_layout(name):
    places = {
        (table.printed, row, column, measure)
        for table in paper(name).tables.values()
        for row in table.rows
        for column in table.columns
        for measure in table.measures
    }
    assert set(printed(name)) <= places
    assert {value.status for value in printed(name).values()} <= {"printed", "read off", "unknown"}


def configured(group, name):
    path = shipped_root() / group / f"{name}.yaml"
    return load_yaml(path) if path.exists() else None


def load_yaml(path):
    import yaml

    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("name", PAPERS)
def test_data_sets_and_variants_are_those_of_the_configs(name):
    for choices in paper(name).data.values():
        for choice in choices:
            config = configured("dataset", choice.dataset)
            assert config is not None, choice
            for word in (choice.variant or "").split(","):  # a variant, or a key that is changed
                assert not word or "=" in word or word in config["variants"], choice


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_selectors_ask_for_parameters_that_the_methods_have(table):
    for wanted in (r & c for r in table.rows.values() for c in table.columns.values()):
        assert wanted.data is None or wanted.data in paper(table.paper).data
        for method in wanted.methods:
            config = configured("method", method)
            assert config is None or set(wanted.params) <= set(config), (method, wanted.params)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_a_table_says_how_to_make_its_rows_or_why_there_are_none(table):
    assert bool(table.why) != bool(table.run)
    for word in table.run.split():
        group, _, names = word.partition("=")
        for name in names.split(","):
            assert configured(group, name) is not None, word


# rows


TABLE3 = paper("dcsvm").tables["table3"]


def cell(found, row, column, measure, table=TABLE3):
    return entry(Cell(table, found, found.machines[0], row, column), table.measures[measure])


def test_a_cell_is_the_mean_over_seeds_of_the_runs_with_the_papers_settings():
    found = runs(
        rbf("svc", 0.98, 0),
        rbf("svc", 0.99, 1),
        rbf("svc", 0.5, gamma=4),
        rbf("dcsvm", 0.5),
    )
    one = cell(found, "LIBSVM", "ijcnn1", "accuracy")
    assert one.value == pytest.approx(0.985)
    assert one.sd == pytest.approx(0.005 * 2**0.5)
    assert one.printed.text == "98.69"
    assert one.notes == ("svc: an intercept, which the paper's LIBSVM does not have",)


def test_a_stand_in_for_the_papers_data_set_says_so():
    found = runs(rbf("svc", 0.91, gamma=32, dataset="covtype_93k", n_train=74370, n_features=54))
    one = cell(found, "LIBSVM", "covtype", "accuracy")
    assert one.value == 0.91
    assert one.notes[0] == "covtype_93k has 74,370 training rows; the paper's covtype 464,810"


def test_the_papers_own_data_set_comes_before_its_stand_in():
    whole = rbf("svc", 0.96, gamma=32, dataset="covtype", n_train=464810, n_features=54)
    part = rbf("svc", 0.91, gamma=32, dataset="covtype_93k", n_train=74370, n_features=54)
    assert cell(runs(whole, part), "LIBSVM", "covtype", "accuracy").value == 0.96
    lost = failed("svc", "timeout", dataset="covtype", params=whole["params"])
    assert cell(runs(lost, part), "LIBSVM", "covtype", "accuracy").value == 0.91


def test_a_failed_run_shows_its_status():
    lost = failed("svc", "memory", dataset="ijcnn1", params=rbf("svc", 1)["params"])
    one = cell(runs(lost), "LIBSVM", "ijcnn1", "seconds")
    assert (one.value, one.status) == (None, "memory")


def test_a_failed_run_names_its_limit():
    said = {"params": rbf("svc", 1)["params"], "message": "not done within limits.wall_s=120"}
    one = cell(
        runs(failed("svc", "timeout", dataset="ijcnn1", **said)), "LIBSVM", "ijcnn1", "seconds"
    )
    assert one.notes == ("svc on ijcnn1: not done within limits.wall_s=120",)


def test_the_seconds_of_a_stopped_fit_are_at_least_its_cpu_seconds_and_no_limit_of_wall_seconds():
    said = {"dataset": "ijcnn1", "params": rbf("svc", 1)["params"]}

    def stopped(message, **changes):
        lost = failed("svc", "timeout", message=message, **{**said, **changes})
        return cell(runs(lost), "LIBSVM", "ijcnn1", "seconds")

    one = stopped(stopped_in("predict", 7.2, limit=60))
    assert (one.value, one.least) == (None, 7.2)
    assert one.notes == ("svc on ijcnn1: not done within limits.wall_s=60, stopped in predict",)
    assert stopped(stopped_in("fit", 59.9, limit=60)).least == 59.9
    # Seconds of two threads are wall seconds, of which there are at least half as many.
    assert stopped(stopped_in("fit", 100, limit=60), threads=2).least == 50.0
    assert stopped("not done within limits.wall_s=60").least is None


def test_the_machine_with_most_cells_comes_first():
    here = rbf("svc", 0.98)
    there = [rbf(method, 0.98, environment="ffff0000") for method in ("svc", "dcsvm")]
    tables = filled(TABLE3, runs(here, *there))
    assert [one.machine.environment for one in tables] == ["ffff0000", here["environment"]]


def test_every_cell_is_measured_ended_without_rows_or_without_data():
    lost = failed("dcsvm", "timeout", dataset="ijcnn1", params=rbf("dcsvm", 1)["params"])
    lost["message"] = "not done within limits.wall_s=120"
    tables = filled(TABLE3, runs(rbf("svc", 0.98), lost))
    count = coverage(tables)
    # Two quantities of ten printed methods on four data sets, cifar not present.
    assert (count.cells, count.absent, count.with_data) == (80, 20, 60)
    assert (count.measured, count.ended, count.failed, count.missing) == (2, 2, 0, 56)
    assert cell(runs(lost), "LIBSVM", "cifar", "accuracy").absent
    exact = rbf("kernel_svc", 0.99)  # which no paper prints
    assert coverage(filled(TABLE3, runs(rbf("svc", 0.98), lost, exact))) == count
    assert not cell(runs(lost), "LIBSVM", "cifar", "× LIBSVM").absent
    own = rbf("svc", 0.9, C=8, gamma=2.0**-22, dataset="cifar10", variant="animals")
    assert cell(runs(own), "LIBSVM", "cifar", "accuracy").value == 0.9


def test_a_run_that_other_limits_ended_has_not_ended_at_the_longest_limit_of_its_table():
    params = rbf("dcsvm", 1)["params"]

    def ended(status, message, memory_mb=8192):
        command = f"kbench method=dcsvm limits.wall_s=900 limits.memory_mb={memory_mb}"
        lost = failed("dcsvm", status, dataset="ijcnn1", params=params, message=message)
        of_other = "kbench method=svc limits.wall_s=900 limits.memory_mb=8192"
        other = rbf("svc", 0.98, experiment="dcsvm_table3", command=of_other)
        one = coverage(filled(TABLE3, runs({**lost, "command": command}, other)))
        return one.ended, one.failed

    assert ended("timeout", "not done within limits.wall_s=900") == (2, 0)
    assert ended("timeout", "used more than limits.cpu_s=60") == (0, 2)
    assert ended("timeout", "not set up within limits.setup_s=60") == (0, 2)
    assert ended("memory", "held more than limits.memory_mb=8192") == (2, 0)
    assert ended("memory", "held more than limits.memory_mb=1500", 1500) == (0, 2)


def test_a_run_that_had_less_time_than_others_of_its_table_has_not_ended_at_the_limit():
    params = rbf("dcsvm", 1)["params"]

    def count(status, limit, of_the_other, experiment="dcsvm_table3"):
        said = f"not done within limits.wall_s={limit}" if status == "timeout" else "no memory"
        lost = failed("dcsvm", status, dataset="ijcnn1", params=params, message=said)
        command = f"kbench method=svc dataset=ijcnn1 limits.wall_s={of_the_other}"
        other = rbf("svc", 0.98, experiment=experiment, command=command)
        one = coverage(filled(TABLE3, runs(lost, other)))
        return one.ended, one.failed

    assert count("timeout", 900, 900) == (2, 0)
    assert count("timeout", 10, 900) == (0, 2)
    assert count("timeout", 10, 900, "another") == (0, 2)
    assert count("memory", 10, 900) == (2, 0)
    assert count("error", 900, 900) == (0, 2)


def test_a_row_of_a_method_that_kbench_lacks_is_no_cell_with_data():
    table = paper("dsgd").tables["stated_mae"]
    (one,) = [e for g in filled(table, runs())[0].groups for e in g.entries if e.absent == LACKING]
    assert one.printed


def test_data_that_are_absent_are_absent_whatever_this_disk_holds(folder, monkeypatch, tmp_path):
    before = make_papers(folder, tables=["cells"], width=120)
    monkeypatch.setenv("KBENCH_DATA", str(tmp_path))
    assert make_papers(folder, tables=["cells"], width=120) == before
    assert "webspam" in before


def test_without_rows_a_table_of_absent_data_says_so(folder):
    text = make_papers(folder, tables=["dcsvm_table8"], width=160)
    assert "26324 | data not present" in text
    assert "data not present; with it, run" in text
    (line,) = [
        one
        for one in csv.DictReader(
            io.StringIO(make_papers(folder, tables=["dcsvm_table5"], format="csv"))
        )
        if (one["row"], one["column"]) == ("webspam", "DC-SVM")
    ]
    assert line["status"] == "data not present"


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
    sizes = {"dataset": "ijcnn1", "variant": "hss", "task": "binary", "n_train": 49990}
    params = json.dumps({"C": [0.1, 1, 10], "gamma": 50, "preset": "paper_table5"})
    phases = {
        "tree": 1.0,
        "neighbours": 2.0,
        "compress": 3.0,
        "factor": 0.5,
        "admm": 0.75,
    }  # of three C
    hss = make_row("hss_admm", 0.92, params=params, phases_cpu=phases, **sizes)
    svc = make_row("svc", 0.96, params='{"C": 1, "gamma": 50}', fit_wall_s=13.5, **sizes)
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
    (note,) = cell(runs(wall, svc), "ijcnn1", "", "total", table).notes
    assert "before CPU seconds of phases" in note


def test_rows_without_the_quantity_are_not_missing():
    """The command of the table would make no new run."""
    table = paper("hss").tables["table5"]
    params = json.dumps({"C": [0.1, 1, 10], "gamma": 50, "preset": "paper_table5"})
    hss = {"dataset": "ijcnn1", "variant": "hss", "task": "binary", "params": params}
    found = runs(make_row("hss_admm", 0.92, phases={"admm": 1.0}, phases_cpu=None, **hss))
    one = cell(found, "ijcnn1", "", "ADMM", table)
    assert (one.value, one.status) == (None, "not measured")
    (whole,) = filled(table, found)
    counts = coverage([whole])
    missing = sum(
        entry.printed is not None and group.measure.reads and not entry.measured
        for group in whole.groups
        for row, entry in zip(whole.rows, group.entries, strict=True)
        if row == "ijcnn1"
    )
    assert missing == 0
    assert counts.failed >= 1


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
        assert any("other processes disturbed" in note for note in ratio.notes) == said


def test_phases_of_several_threads_are_wall_seconds_that_nothing_disturbed():
    row = {"threads": 2, "phases": {"a": 3.0}, "phases_cpu": {"a": 5.0}, "other_cpus": 0.0}
    assert phase_seconds(row, "a") == 3.0
    assert phase_seconds({**row, "other_cpus": 1.0}, "a") is None
    assert phase_seconds({**row, "threads": 1, "other_cpus": 1.0}, "a") == 5.0


def test_rows_of_studies_fill_no_cell():
    for experiment in ("tables", "tuned,defaults"):
        assert runs(rbf("svc", 0.98, experiment=experiment)).machines == []
    mixed = rbf("svc", 0.98, experiment="tables,dcsvm_table3")
    assert cell(runs(mixed), "LIBSVM", "ijcnn1", "accuracy").value == 0.98


def test_a_table_says_how_many_cells_its_own_experiment_did_not_make():
    rows = [rbf("svc", 0.98), rbf("dcsvm_early", 0.97, experiment="dcsvm_table3")]
    (one,) = filled(TABLE3, runs(*rows))
    machine = {one.machine.environment: {}}
    said = [line for line in remarks(one, machine) if "own experiment did not make" in line]
    assert len(said) == 1
    (none,) = filled(TABLE3, runs(rows[1]))
    assert not any("did not make" in line for line in remarks(none, machine))


def test_sizes_of_data_make_no_table_of_a_machine_and_no_measured_cells():
    mine, other = rbf("svc", 0.98), rbf("svc", 0.97, environment="ffff0000")
    sizes = [
        one
        for table in paper("dcsvm").tables.values()
        for one in filled(table, runs(mine, other))
        if all(group.measure.sizes or not group.measure.reads for group in one.groups)
    ]
    assert sizes
    assert len({one.table.id for one in sizes}) == len(sizes)
    counted = coverage(sizes)
    assert (counted.measured, counted.sizes > 0) == (0, True)


def test_each_machine_has_a_table_of_its_own():
    mine, other = rbf("svc", 0.98), rbf("svc", 0.97, environment="ffff0000")
    tables = filled(TABLE3, runs(mine, other))
    assert [one.machine.environment for one in tables] == ["0a1b2c3d", "ffff0000"]
    assert {coverage([one]).measured for one in tables} == {2}
    assert coverage(tables).measured == 2


def test_a_total_is_of_all_settings_or_says_how_many():
    table = paper("dcsvm").tables["table5"]
    steps = [2.0**e for e in (-10, -6, 1, 6, 10)]
    rows = [rbf("svc", 0.9, C=C, gamma=g, fit_wall_s=3.0) for C in steps for g in steps]
    assert cell(runs(*rows), "ijcnn1", "LIBSVM", "time", table).value == pytest.approx(75.0)
    assert cell(runs(*rows[1:]), "ijcnn1", "LIBSVM", "time", table).status == "24 of 25"


def test_a_total_is_of_one_data_set():
    table = paper("dcsvm").tables["table5"]
    steps = [2.0**e for e in (-10, -6, 1, 6, 10)]

    def grid(dataset, seconds):
        return [
            rbf("svc", 0.9, C=C, gamma=g, dataset=dataset, fit_wall_s=seconds)
            for C in steps
            for g in steps
        ]

    whole, part = grid("covtype", 100.0), grid("covtype_93k", 3.0)
    one = cell(runs(*whole[:3], *part), "covtype", "LIBSVM", "time", table)
    assert one.value == pytest.approx(75.0)
    assert cell(runs(*whole, *part), "covtype", "LIBSVM", "time", table).value == 2500.0
    one = cell(runs(*whole[:3], *part[:20]), "covtype", "LIBSVM", "time", table)
    assert (one.status, one.least) == ("20 of 25", 60.0)


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

    params = json.dumps({"C": [0.1, 1, 10], "gamma": 50, "preset": "paper_table5"})
    slow = failed("hss_admm", "timeout", variant="hss", params=params, **lost)
    total = cell(runs(slow), "ijcnn1", "", "total", paper("hss").tables["table5"])
    assert (total.value, total.status) == (None, "timeout")
    assert total.notes == (f"hss_admm on ijcnn1 (hss): {LIMIT}",)


def grown(n, method="svd", rank=160, other_cpus=0.0):
    return make_row(
        method,
        0.9,
        dataset="covtype_like",
        variant=f"n={n},n_test=500",
        n_train=n,
        params=json.dumps({"rank": rank, "gamma": 4}),
        n_parameters=7 * n,
        fit_cpu_s=3e-9 * n**2.5,
        other_cpus=other_cpus,
    )


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
    assert time.words(time.entries[whole.rows.index("SVD")]) == ("O(n^3 + n^2 d)", "n^2.50")
    assert coverage([whole]).measured == 2

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
    told = f"{size}: other processes disturbed 1 of 1 runs, whose seconds may be too many"
    over = "over 3 sizes, 1,000 to 4,000 rows"
    assert cell(found, "SVD", "", "time", table).notes == (over, told)
    assert cell(found, "SVD", "", "storage", table).notes == (over,)


def test_an_accuracy_over_C_is_read_where_C_is_the_paper_s():
    table = paper("hss").tables["table5"]
    sizes = {"dataset": "ijcnn1", "variant": "hss", "task": "binary", "n_train": 49990}
    params = json.dumps({"C": [0.1, 1, 10], "gamma": 50, "preset": "paper_table5"})
    row = make_row("hss_admm", 0.93, params=params, **sizes)
    curves = {
        identity(row): {
            "C": ([0.5, 0.6, 0.7], [0.1, 1.0, 10.0]),
            "validation_accuracy": ([0.5, 0.6, 0.7], [0.1, 0.2, 0.3]),
            "accuracy over C": ([0.1, 1.0, 10.0], [0.91, 0.92, 0.93]),
            "hss_mb": ([0.4, 0.8], [100.0, 168.0]),
        }
    }
    found = runs(row, curves=curves)
    assert cell(found, "ijcnn1", "", "accuracy", table).value == 0.92
    assert cell(found, "ijcnn1", "", "validated", table).value == 0.93
    assert cell(found, "ijcnn1", "", "memory", table).value == 168.0


def test_levels_are_read_off_the_curves():
    table = paper("dcsvm").tables["table6"]
    row = rbf("dcsvm", 0.9, gamma=32, dataset="covtype_93k", level_tol=0.001)
    curves = {
        identity(row): {
            "n_clusters": ([1.0, 2.0, 5.0], [256.0, 64.0, 1.0]),
            "cluster_s": ([1.0, 2.0], [0.25, 0.5]),
        }
    }
    found = runs(row, curves=curves)
    assert cell(found, "4", "", "clustering", table).value == 0.25
    assert cell(found, "3", "", "clustering", table).value == 0.5
    assert cell(found, "0", "", "clustering", table).value is None


def test_a_rank_is_read_where_row_and_column_are_the_cell_s():
    table = paper("meka").tables["table3"]
    params = '{"n_clusters": 5, "gamma": 1, "rank_tol": 1e-06, "partition": "kmeans"}'
    variant = "first_train=4000"
    row = make_row("block_spectra", 0.9, dataset="ijcnn1", variant=variant, params=params)
    told = [(0, 0, 26), (0, 1, 8), (1, 0, 9), (1, 1, 12)]
    curves = {
        name: (list(range(4)), [float(one[i]) for one in told])
        for i, name in enumerate(("row", "column", "rank"))
    }
    curves["angle"] = [7.0], [1.0]  # told elsewhere
    found = runs(row, curves={identity(row): curves})
    assert cell(found, "k-means 1", "2", "rank", table).value == 8
    assert cell(found, "k-means 2", "1", "rank", table).value == 9
    assert cell(found, "k-means 3", "3", "rank", table).value is None
    (whole,) = filled(table, found)
    assert whole.groups[0].words(whole.groups[0].entries[0]) == ("16", "26")


def test_other_matching_lines_are_counted():
    a, b = rbf("svc", 0.9), rbf("svc", 0.8, params='{"C": 32, "gamma": 2, "k": 1, "tol": 0.001}')
    one = cell(runs(a, b), "LIBSVM", "ijcnn1", "accuracy")
    assert one.notes[0] == (
        "2 series of runs match; this is the one with the newest version of the method, then the"
        " most seeds, then the newest run"
    )


def test_the_newest_version_of_a_method_fills_a_cell_before_more_seeds_of_an_older_one():
    old = [rbf("svc", 0.9, seed) for seed in (0, 1, 2)]
    params = '{"C": 32, "gamma": 2, "k": 1, "tol": 0.001}'
    new = rbf("svc", 0.8, params=params, method_version=2)
    assert cell(runs(*old, new), "LIBSVM", "ijcnn1", "accuracy").value == 0.8
    lost = {**new, "status": "timeout", "accuracy": None}
    assert cell(runs(*old, lost), "LIBSVM", "ijcnn1", "accuracy").value == pytest.approx(0.9)


def test_of_several_stopped_runs_of_a_seed_the_one_with_the_longest_limit_counts():
    said = {"dataset": "ijcnn1", "params": rbf("svc", 1)["params"]}
    long = failed("svc", "timeout", message=stopped_in("fit", 900), **said)
    short = failed("svc", "timeout", message=stopped_in("fit", 120), **said)
    short["started_at"] = START + timedelta(hours=1)
    for rows in ((long, short), (short, long)):
        one = cell(runs(*rows), "LIBSVM", "ijcnn1", "seconds")
        assert (one.status, one.least, one.ended) == ("timeout", 900.0, True)


def test_seconds_of_which_some_runs_were_stopped_are_a_lower_bound_and_no_mean():
    said = {"dataset": "ijcnn1", "task": "binary", "params": rbf("svc", 1)["params"]}
    message = stopped_in("fit", 120)
    stopped = [failed("svc", "timeout", seed, message=message, **said) for seed in (1, 2)]
    found = runs(rbf("svc", 0.9, fit_wall_s=112.5), *stopped, rbf("dcsvm_early", 0.9))
    one = cell(found, "LIBSVM", "ijcnn1", "seconds")
    assert (one.value, one.least, one.status) == (None, 117.5, "1 of 3 ok")
    assert one.notes == (
        "svc on ijcnn1: not done within limits.wall_s=120, stopped in fit",
        "svc on ijcnn1: the mean of all 3 runs is at least 118 s",
    )
    assert one.ended
    accuracy = cell(found, "LIBSVM", "ijcnn1", "accuracy")
    assert (accuracy.value, accuracy.notes[0]) == (0.9, "1 of 3 runs ok")
    ratio = cell(found, "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (ratio.value, ratio.status) == (None, "svc: 1 of 3 ok")
    assert ratio.notes == one.notes
    unknown = {**stopped[1], "message": "not done within limits.wall_s=120"}
    assert cell(runs(found.rows[0], unknown), "LIBSVM", "ijcnn1", "seconds").least is None


def test_a_ratio_of_a_stopped_run_is_a_lower_bound():
    early = {"dataset": "ijcnn1", "params": rbf("dcsvm_early", 1)["params"]}
    slow = failed("dcsvm_early", "timeout", message=stopped_in("fit", 60), **early)
    one = cell(runs(slow, rbf("svc", 0.9, fit_wall_s=4.0)), "DC-SVM (early)", "ijcnn1", "× LIBSVM")
    assert (one.value, one.status, one.least) == (None, "timeout", 15.0)


pool = [
    rbf(method, 0.9 + 0.01 * seed, seed, fit_wall_s=1.0 + seed, environment=environment)
    for method in ("svc", "dcsvm", "dcsvm_early", "lasvm")
    for seed in (0, 1)
    for environment in ("0a1b2c3d", "ffff0000")
]
pool += [rbf("svc", 0.9, gamma=32, dataset=name) for name in ("covtype", "covtype_93k")]
pool += [rbf(m, 0.9, C=2.0, gamma=2.0**6) for m in ("svc", "dcsvm")]
pool += [failed("dcsvm", "timeout", dataset="ijcnn1", params=rbf("dcsvm", 1, C=2)["params"])]
DEPENDENT = [paper("dcsvm").tables[name] for name in ("table2", "table3", "table5", "table7")]


def all_cells(found):
    return {
        (table.id, machine, row, column, name): entry(
            Cell(table, found, machine, row, column), measure
        )
        for table in DEPENDENT
        for machine in found.machines
        for row in table.rows
        for column in table.columns
        for name, measure in table.measures.items()
    }


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.sampled_from(range(len(pool))), min_size=2), st.data())
def test_without_a_row_only_the_cells_that_depend_on_it_change(chosen, data):
    rows = [pool[i] for i in sorted(chosen)]
    gone = data.draw(st.sampled_from(rows))
    before = all_cells(runs(*rows))
    after = all_cells(runs(*(row for row in rows if row is not gone)))
    for place, one in before.items():
        if identity(gone) not in one.considered:
            assert place not in after or after[place] == one
        elif one.match is not None and any(
            row["key"] == gone["key"] for row in one.match.line.rows
        ):
            assert after.get(place) != one


# formats


@pytest.fixture
def folder(tmp_path):
    found = ResultsFolder(tmp_path / "results")
    for row in (rbf("svc", 0.98), rbf("dcsvm_early", 0.97), failed("dcsvm", "timeout")):
        found.write(row)
    return found


def test_a_table_without_rows_prints_the_papers_column_and_the_command(folder):
    text = make_papers(folder, tables=["hss_table5"], width=160)
    assert "95.551" not in text
    assert "96.123" in text
    assert 'no rows: run "kbench -m experiment=hss_table5"' in text


@pytest.mark.parametrize("format", ["terminal", "markdown", "csv", "latex"])
def test_two_reports_of_the_same_rows_are_the_same(folder, format):
    first = make_papers(folder, format=format, width=120)
    paths = sorted(folder.path.glob("*.parquet"))
    for path in paths:  # another order of the files
        path.rename(path.with_name(f"x{path.name}"))
    assert make_papers(ResultsFolder(folder.path), format=format, width=120) == first


def test_the_terminal_keeps_to_its_width(folder):
    for line in make_papers(folder, width=100).splitlines():
        assert len(line) <= 100


def test_csv_has_every_printed_value_and_nothing_rounded(folder):
    lines = list(csv.DictReader(io.StringIO(make_papers(folder, format="csv"))))
    given = sum(bool(line["printed"]) and line["printed_status"] != "" for line in lines)
    assert given >= sum(len(printed(name)) for name in PAPERS)
    (one,) = [
        line
        for line in lines
        if (line["table"], line["row"], line["column"], line["quantity"])
        == ("dcsvm_table3", "LIBSVM", "ijcnn1", "accuracy")
    ]
    assert (one["printed"], one["unit"], one["measured"], one["ok"]) == ("98.69", "%", "0.98", "1")


def test_error_for_an_unknown_table_suggests_the_nearest_name(folder):
    with pytest.raises(ConfigError, match="nearest: hss_table5"):
        make_papers(folder, tables=["hss_tabel5"])
    with pytest.raises(ConfigError, match="terminal, markdown, csv, json, latex"):
        make_papers(folder, format="pdf")


def test_latex_compiles(folder, tmp_path):
    pdflatex = shutil.which("pdflatex")
    if pdflatex is None:
        pytest.skip("pdflatex is not installed (Debian: apt-get install texlive-latex-base)")
    (tmp_path / "papers.tex").write_text(make_papers(folder, format="latex"))
    done = subprocess.run(
        [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "papers.tex"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-2000:]


def test_layouts_are_found_by_the_package():
    assert load("hss.yaml")["paper"] == "HSS-ADMM"
