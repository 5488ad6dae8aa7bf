"""Cells run the settings that the papers state, or say what differs and why."""

import pytest
from paper_rows import rbf, runs

from kbench.report.papers.cell_notes import settings
from kbench.report.papers.entries import Cell, entry
from kbench.report.papers.layout import Columns, CurveValue, Growth, paper
from kbench.report.papers.settings import all_stated, departures, stated


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
        and isinstance(group.measure, (Columns, CurveValue))
        and not isinstance(group.measure, Growth)
        and (one.table.rows[row] & one.table.columns[group.column]).methods
    ]


def test_every_method_in_a_paper_s_cell_has_its_stated_settings_recorded(cells):
    lacking = {
        (table.paper, one.match.line.method)
        for table, column, one in cells
        if stated(table.paper, one.match.line.method, column) is None
    }
    assert lacking == set()


def test_every_departure_of_a_reference_row_is_noted_with_its_reason(cells):
    """The note is made of the row's parameters; a reason is given for each of them."""
    noted = 0
    for table, column, one in cells:
        of = stated(table.paper, one.match.line.method, column)
        differing = departures(of, one.match.line.params)
        said = settings(table.paper, column, one.match.line)
        assert bool(differing) == bool(said)
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


def test_a_row_of_dcpred_without_tuned_parameters_says_so():
    table = paper("dcpred").tables["table1"]
    for tuned, said in ((None, True), ("dcpred", False)):
        row = rbf("llsvm", 0.8, dataset="a9a", tuned=tuned)
        row["params"] = '{"n_components": 200}'
        found = runs(row)
        cell = Cell(table, found, found.machines[0], "kmeans Nystrom", "a9a")
        notes = entry(cell, table.measures["accuracy"]).notes
        assert any("not tuned" in note for note in notes) == said


def test_a_note_follows_the_row():
    table = paper("dcsvm").tables["table3"]
    loose = rbf("dcsvm_early", 0.98)
    strict = {**loose, "params": loose["params"].replace('"tol": 0.001', '"tol": 0.1')}
    for row, differs in ((loose, False), (strict, True)):
        found = runs(row)
        cell = Cell(table, found, found.machines[0], "DC-SVM (early)", "ijcnn1")
        notes = entry(cell, table.measures["accuracy"]).notes
        assert any("tol 0.1 (paper: 0.001)" in note for note in notes) == differs


def test_reasons_are_given_for_parameters_that_are_stated():
    for one in all_stated():
        assert set(one.why) <= set(one.stated)
