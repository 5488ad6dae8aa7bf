"""Cells run the settings that the papers state, or say what differs and why."""

import json

import pytest
from paper_rows import rbf, runs

from kbench.papers.cells.entries import entry
from kbench.papers.printed.layout import CellPlace, paper
from kbench.papers.printed.settings import departures, stated_settings


@pytest.fixture(scope="module")
def cells(reference_report):
    """(table, column, entry) of every printed cell whose value is read from runs of a method."""
    return [
        (one.table, group.column, found)
        for one in reference_report.filled
        for group in one.groups
        for row, found in zip(one.rows, group.entries, strict=True)
        if found.printed
        and found.match
        and found.value is not None
        and (group.measure.of or group.measure.curve)
        and not group.measure.over
        and (one.table.rows[row] & one.table.columns[group.column]).methods
    ]


def test_every_method_in_a_paper_s_cell_has_its_stated_settings_recorded(cells):
    lacking = {
        (table.paper, one.match.line.method)
        for table, column, one in cells
        if stated_settings(table, column, one.match.line.method) is None
    }
    assert lacking == set()


def test_every_departure_of_a_reference_row_is_noted_with_its_reason(cells):
    """The note is made of the row's parameters; a reason is given for each of them."""
    noted = 0
    for table, column, one in cells:
        line = one.match.line
        differing = departures(stated_settings(table, column, line.method), line)
        said = f"{line.method}: {'; '.join(differing)}"
        if differing:
            assert said in one.notes, (table.id, column)
            noted += 1
        assert "no reason is given" not in said, (table.id, column, said)
    assert noted > 50


def test_no_note_of_any_table_lacks_its_reason(reference_report):
    """Sizes of data sets included, whose cells belong to no method."""
    notes = {
        note
        for one in reference_report.filled
        for group in one.groups
        for found in group.entries
        for note in found.notes
    }
    assert notes
    assert [note for note in notes if "no reason is given" in note] == []


def notes_of(place, row):
    """Notes of the cell at (table, row, column, quantity) that this run alone fills."""
    found = runs(row)
    return " | ".join(entry(CellPlace(*place), found, found.machines[0]).notes)


def test_a_row_of_dcpred_without_tuned_parameters_says_so():
    place = paper("dcpred").tables["table1"], "kmeans Nystrom", "a9a", "accuracy"
    for tuned, said in ((None, True), ("dcpred", False)):
        row = rbf("llsvm", 0.8, dataset="a9a", tuned=tuned, params='{"n_components": 50}')
        assert ("not from trials" in notes_of(place, row)) == said


def test_a_parameter_that_the_paper_does_not_state_is_told():
    told = {"n_landmarks": 16, "pseudo": "monomials", "landmarks": "weighted", "n_leaves": 1}
    row = rbf("dcpred", 0.8, dataset="a9a", tuned="dcpred", params=json.dumps(told))
    place = paper("dcpred").tables["table1"], "DC-Pred++", "a9a", "accuracy"
    assert "n_leaves 1 (the paper states none)" in notes_of(place, row)


@pytest.mark.parametrize(
    ("name", "row", "rows", "said"),
    [
        ("meka", "ijcnn1", (49_990, 91_701), "the paper counts training rows alone, 49,990 here"),
        ("dsgd", "Adult", (32_561, 16_281), "the paper counts training rows alone, 32,561 here"),
        ("dsgd", "Forest", (74_370, 18_592), "has 92,962 rows; the paper's Forest 500,000"),
        ("dsgd", "Forest", (400_000, 100_000), ""),
    ],
)
def test_a_size_that_is_not_the_printed_one_has_a_note(name, row, rows, said):
    table = paper(name).tables["table6" if name == "meka" else "datasets"]
    (choice, *_) = paper(name).data[row]
    features = {"ijcnn1": 22, "Adult": 123, "Forest": 54}[row]
    sizes = {"n_train": rows[0], "n_test": rows[1], "n_features": features}
    made = rbf("svc", 0.9, dataset=choice.dataset, variant=choice.variant, **sizes)
    notes = notes_of((table, row, "", "n"), made)
    assert said in notes if said else not notes


def test_a_note_follows_the_row():
    place = paper("dcsvm").tables["table3"], "DC-SVM (early)", "ijcnn1", "accuracy"
    loose = rbf("dcsvm_early", 0.98)
    strict = {**loose, "params": loose["params"].replace('"tol": 0.1', '"tol": 0.001')}
    for row, differs in ((loose, True), (strict, False)):
        assert ("tol 0.1 (paper: 0.001)" in notes_of(place, row)) == differs


def test_a_setting_that_is_recalled_is_told_from_one_that_the_paper_states():
    """The kernel and the random features of the molecules, one a parameter, one a column."""
    params = '{"kernel": "laplacian", "n_epochs": 32, "preconditioned": true}'
    told = {"dataset": "qm7_xyz", "mae": 4.4, "n_parameters": 196_608, "params": params}
    table = paper("dsgd").tables["stated_mae"]
    place = table, "DoublySGD, preconditioned", "QuantumMachine", "MAE"
    notes = notes_of(place, rbf("doubly_sgd_regressor", None, **told))
    (note,) = (one for one in notes.split(" | ") if "laplacian" in one)
    assert "n_epochs 32 (paper: 1)" in note
    assert "kernel laplacian (appendix, unverified: rbf)" in note
    assert "n_parameters 196608 (appendix, unverified: 1048576)" in note


@pytest.mark.parametrize(
    ("method", "row", "noted"),
    [
        ("r_pegasos", "r-Pegasos", "batch_size 64 (appendix, unverified: 1024)"),
        ("k_sdca", "k-SDCA", "one batch size for all methods"),
    ],
)
def test_batch_sizes_are_noted_where_the_paper_prints_no_number(method, row, noted):
    params = '{"batch_size": 64, "n_components": 256, "n_epochs": 1}'
    made = rbf(method, 0.8, dataset="covtype_93k", error=0.2, params=params)
    assert noted in notes_of((paper("dsgd").tables["stated"], row, "Forest", "error"), made)


@pytest.mark.parametrize(
    ("name", "params", "noted"),
    [("table8", '"gamma": 4, "alpha": 0.25', True), ("table7", '"gamma": 10', False)],
    ids=["table8", "table7"],
)
def test_the_solver_of_kernel_ridge_is_noted_where_it_matters(name, params, noted):
    table = paper("meka").tables[name]
    params += ', "features": "fourier", "form": "phase", "numbers_per_row": 256'
    told = {"dataset": "covtype_93k", "variant": "meka", "rmse": 0.8, "kernel_error": 0.9}
    made = rbf("rks", None, **told, params=f'{{{params}, "solver": "direct"}}')
    place = table, "RKS", "covtype", next(iter(table.measures))
    assert ("solver direct (paper: cg)" in notes_of(place, made)) == noted


def test_a_size_that_a_printed_cost_implies_is_noted():
    table = paper("dcpred").tables["table1"]
    for column, size, noted in (("Letter", 100, True), ("Usps", 200, False)):
        (choice, *_) = paper("dcpred").data[column]
        where = {"dataset": choice.dataset, "variant": choice.variant, "tuned": "file"}
        made = rbf("llsvm", 0.8, **where, params=json.dumps({"n_components": size}))
        notes = notes_of((table, "kmeans Nystrom", column, "accuracy"), made)
        assert ("n_components 100 (by the printed cost: 140)" in notes) == noted
