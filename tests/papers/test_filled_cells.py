"""Which rows fill a cell of a paper's table, and what the cell says of them."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from paper_rows import HSS, TABLE3, cell, rbf, runs
from report_rows import failed, make_row

from kbench.papers.cells.entries import entry, filled
from kbench.papers.cells.readings import column
from kbench.papers.cells.runs import identity
from kbench.papers.cells.sheets import coverage, remarks
from kbench.papers.printed.layout import CellPlace, paper


def test_a_cell_is_the_mean_over_seeds_of_the_runs_with_the_papers_settings():
    others = rbf("svc", 0.5, gamma=4), rbf("dcsvm", 0.5)
    found = runs(rbf("svc", 0.98, 0), rbf("svc", 0.99, 1), *others)
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


def test_the_machine_with_most_cells_comes_first():
    here = rbf("svc", 0.98)
    there = [rbf(method, 0.98, environment="ffff0000") for method in ("svc", "dcsvm")]
    tables = filled(TABLE3, runs(here, *there))
    assert [one.machine.environment for one in tables] == ["ffff0000", here["environment"]]
    assert set(TABLE3.rows) > set(tables[0].rows) > {"LIBSVM"} == set(tables[1].rows)
    assert {group.column for group in tables[0].groups} > {"ijcnn1"}
    assert {group.column for group in tables[1].groups} == {"ijcnn1"}
    assert [coverage([one]).own for one in tables] == [4, 2]
    assert coverage(tables).own == 4


def test_rows_without_the_quantity_are_not_missing():
    """The command of the table would make no new run."""
    table = paper("hss").tables["table5"]
    found = runs(make_row("hss_admm", 0.92, phases={"admm": 1.0}, phases_cpu=None, **HSS))
    one = cell(found, "ijcnn1", "", "ADMM", table)
    assert (one.value, one.status) == (None, "not measured")
    (whole,) = filled(table, found)
    counts = coverage([whole])
    missing = sum(
        entry.printed is not None and group.measure.is_readable and not entry.measured
        for group in whole.groups
        for row, entry in zip(whole.rows, group.entries, strict=True)
        if row == "ijcnn1"
    )
    assert missing == 0
    assert counts.ended >= 1


def test_phases_of_several_threads_are_wall_seconds_that_nothing_disturbed():
    row = {"threads": 2, "phases": {"a": 3.0}, "phases_cpu": {"a": 5.0}, "other_cpus": 0.0}
    assert column(row, "phases.a") == 3.0
    assert column({**row, "other_cpus": 1.0}, "phases.a") is None
    assert column({**row, "threads": 1, "other_cpus": 1.0}, "phases.a") == 5.0


def test_rows_of_studies_fill_no_cell():
    for experiment in ("tables", "tuned,defaults", "cause_rows", "tables,cause_rows"):
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
        if all(group.measure.is_size or not group.measure.is_readable for group in one.groups)
    ]
    assert sizes
    assert len({one.table.id for one in sizes}) == len(sizes)
    counted = coverage(sizes)
    assert (counted.own, counted.stand_in, counted.sizes > 0) == (0, 0, True)


def test_an_accuracy_over_C_is_read_where_C_is_the_paper_s():
    table = paper("hss").tables["table5"]
    row = make_row("hss_admm", 0.93, **HSS)
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
    assert whole.groups[0].texts(whole.groups[0].entries[0]) == ("16", "26")


def test_other_matching_lines_are_counted():
    a, b = rbf("svc", 0.9), rbf("svc", 0.8, params='{"C": 32, "gamma": 2, "k": 1, "tol": 0.001}')
    one = cell(runs(a, b), "LIBSVM", "ijcnn1", "accuracy")
    assert one.notes[0] == (
        "2 series of runs match; this series has the newest version of the method, then the most"
        " seeds, then the newest run"
    )


def test_the_newest_version_of_a_method_fills_a_cell_before_more_seeds_of_an_older_one():
    old = [rbf("svc", 0.9, seed) for seed in (0, 1, 2)]
    params = '{"C": 32, "gamma": 2, "k": 1, "tol": 0.001}'
    new = rbf("svc", 0.8, params=params, method_version=2)
    assert cell(runs(*old, new), "LIBSVM", "ijcnn1", "accuracy").value == 0.8
    lost = {**new, "status": "timeout", "accuracy": None}
    assert cell(runs(*old, lost), "LIBSVM", "ijcnn1", "accuracy").value == pytest.approx(0.9)


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
            CellPlace(table, row, column, name), found, machine
        )
        for table in DEPENDENT
        for machine in found.machines
        for row in table.rows
        for column in table.columns
        for name in table.measures
    }


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.sampled_from(range(len(pool))), min_size=2), st.data())
def test_without_a_row_only_the_cells_that_depend_on_it_change(chosen, data):
    rows = [pool[i] for i in sorted(chosen)]
    gone = data.draw(st.sampled_from(rows))
    before = all_cells(runs(*rows))
    after = all_cells(runs(*(row for row in rows if row is not gone)))
    for place, one in before.items():
        if identity(gone) in map(identity, one.rows):
            assert after.get(place) != one
        elif place in after:
            left = after[place]
            assert (left.value, left.status, left.rows) == (one.value, one.status, one.rows)


def kept(method, *numbers):
    """Runs on ijcnn1 that keep these numbers a row; the error of each is a thousandth of them."""
    return [
        make_row(
            method,
            0.9,
            dataset="ijcnn1",
            variant="meka",
            n_train=49990,
            n_test=91701,
            n_features=22,
            params=json.dumps({"gamma": 1, "numbers_per_row": 100}),
            kernel_numbers=49990 * number,
            kernel_error=1e-5 * number,
        )
        for number in numbers
    ]


def test_a_size_of_all_rows_is_compared_with_all_rows():
    params = {"truncation": "landmarks", "numbers_per_row": 128, "gamma": 2}
    sizes = {"n_train": 8794, "n_test": 2198, "n_features": 16}
    told = {"dataset": "pendigits", "variant": "meka", "kernel_error": 0.1325, **sizes}
    found = runs(make_row("nystrom", 0.9, params=json.dumps(params), **told))
    one = cell(found, "Nys", "pendigit", "kernel error", paper("meka").tables["table7"])
    assert not any("the paper's pendigit" in note for note in one.notes)
    total = cell(found, "pendigit", "", "n", paper("meka").tables["table6"])
    assert (total.value, total.notes) == (10992, ())


def test_a_rounded_size_that_all_rows_have_is_not_said_to_be_that_of_the_training_rows():
    table = paper("dsgd").tables["datasets"]  # the paper has 6K
    told = {"dataset": "qm7_xyz", "task": "regression", "mae": 4.4, "n_features": 276}
    alone = "qm7_xyz: the paper counts training rows alone, 5,681 here"
    for n_test, notes in ((1420, (alone,)), (1136, ())):
        sizes = {"n_train": 5681, "n_test": n_test}
        found = runs(make_row("doubly_sgd_regressor", None, **told, **sizes))
        assert cell(found, "QuantumMachine", "", "n", table).notes == notes


def test_a_printed_cell_without_runs_says_so():
    found = runs(rbf("svc", 0.98))
    one = cell(found, "DC-SVM", "ijcnn1", "accuracy")
    assert (one.value, one.status, one.absent) == (None, "", "no rows")
    assert cell(found, "LIBSVM", "cifar", "accuracy").absent == "data not present"
    sizes = paper("dcsvm").tables["table2"]
    assert not any(
        one.absent == "no rows" for group in filled(sizes, found)[0].groups for one in group.entries
    )
    (whole,) = filled(TABLE3, found)
    (group,) = [
        one for one in whole.groups if (one.column, one.measure.label) == ("ijcnn1", "accuracy")
    ]
    words = group.texts(group.entries[whole.rows.index("DC-SVM")])
    assert words[1] == "no rows"


@pytest.mark.parametrize(
    ("method", "row", "changes"),
    [
        ("svc", "LIBSVM", {"kernel": "poly"}),
        ("dcsvm", "DC-SVM", {"kernel": "laplacian"}),
        ("kernel_svc", "kbench, exact from zero", {"kernel": "poly"}),
        ("kernel_svc", "kbench, exact from zero", {"fit_intercept": True}),
    ],
)
def test_a_run_of_another_kernel_or_with_an_intercept_fills_no_cell(method, row, changes):
    """Table 3 is of the RBF kernel; `the same engine` solves the same problem as DC-SVM."""
    made = rbf(method, 0.98)
    other = {**made, "params": json.dumps({**json.loads(made["params"]), **changes})}
    assert cell(runs(made), row, "ijcnn1", "accuracy").value == 0.98
    assert cell(runs(other), row, "ijcnn1", "accuracy").match is None


def test_a_number_of_numbers_a_row_is_not_rounded_to_a_whole_one():
    table = paper("meka").tables["fig7"]
    (whole,) = filled(table, runs(*kept("meka", 99.6)))
    said = {
        group.texts(one)[1]
        for group in whole.groups
        for one in group.entries
        if group.measure.label == "numbers a row" and one.value is not None
    }
    assert said == {"99.6"}


def test_parameters_that_other_data_need_stand_beside_the_paper_s():
    table = paper("dcsvm").tables["table4"]
    where = {"dataset": "mnist", "variant": "round_digits", "n_train": 60_000, "n_features": 784}
    row = rbf("svc", 0.99, C=8, gamma=2.0**-6, **where)
    (note, *_) = cell(runs(row), "LIBSVM", "mnist8m", "accuracy", table).notes
    assert "with C=8 (paper: 1), gamma=0.015625 (paper: 4.77e-07)" in note
