"""Scores of the reference rows that differ from the printed ones have a cause."""

import json
import re
from pathlib import Path

import pytest
from paper_rows import rbf, runs

from kbench.papers.cells.entries import NO_ROWS, entry
from kbench.papers.cells.sheets import cause_sheet, remarks
from kbench.papers.printed.causes import KINDS, UNEXPLAINED, Cause, cause_of, causes
from kbench.papers.printed.layout import CellPlace, paper


@pytest.fixture(scope="module")
def different(reference_report):
    """(place, cause) of every cell that differs, on the machine of the first table that has it."""
    first = {}
    for one in reference_report.filled:
        for group in one.groups:
            for row, of in zip(one.rows, group.entries, strict=True):
                if of.is_compared:
                    place = one.table.id, row, group.column, group.measure.label
                    first.setdefault(place, of.cause)
    return [(place, cause) for place, cause in first.items() if cause is not None]


def test_every_score_that_differs_has_a_cause(different):
    assert different
    assert [place for place, cause in different if cause not in causes()] == []


def test_every_cause_is_that_of_a_cell(different, reference_report):
    """A cause that new rows have removed is to be removed; one of cells without rows waits."""
    used = {cause for _, cause in different}
    waiting = {
        (one.table.id, row, group.column)
        for one in reference_report.filled
        for group in one.groups
        for row, of in zip(one.rows, group.entries, strict=True)
        if of.absent == NO_ROWS
    }

    def waits(cause):
        return any(
            table in cause.tables
            and re.fullmatch(cause.rows, row)
            and re.fullmatch(cause.columns, column)
            for table, row, column in waiting
        )

    assert [one.why for one in causes() if one not in used and not waits(one)] == []


def test_the_sheet_counts_every_cell_once(reference_report, different):
    shown = cause_sheet([*reference_report.filled, *reference_report.filled])
    assert sum(int(row[-1]) for row in shown.rows) == len(different)
    assert {row[0] for row in shown.rows} <= set(KINDS.values())


def test_a_difference_without_a_cause_says_so():
    names = "no such row", "ijcnn1", "", "ijcnn1", ""
    found = cause_of("dcsvm_table3", names, larger=True)
    assert found not in causes()
    assert found.kind == UNEXPLAINED


def test_a_cause_of_a_variant_explains_no_other_rows():
    of = {"tables": ("dcsvm_table10",), "data": "census", "variant": "half"}
    cause = Cause(kind="data", why="", shown="", **of)
    for variant, explained in (("half", True), ("dcsvm_half", False), ("", False)):
        names = "", "", "", "census", variant
        assert cause.explains("dcsvm_table10", names, larger=True) == explained


def test_what_is_not_explained_is_counted(reference_report, different):
    unexplained = sum(cause.kind == UNEXPLAINED for _, cause in different)
    assert unexplained
    (note,) = cause_sheet(reference_report.filled).notes
    assert f"; {unexplained} of these are not explained." in note
    for one in reference_report.filled:
        said = [re.search(r"(\d+) of these are not", line) for line in remarks(one, {})]
        kinds = [of.cause.kind for group in one.groups for of in group.entries if of.cause]
        counts = [int(found[1]) for found in said if found]
        assert counts == ([kinds.count(UNEXPLAINED)] if kinds else [])


@pytest.fixture(scope="module")
def measured(reference):
    """The experiments that have reference rows."""
    return {name for row in reference.rows for name in (row["experiment"] or "").split(",")}


@pytest.mark.parametrize("one", causes(), ids=lambda one: one.why[:40])
def test_a_cause_is_a_sentence_and_says_what_shows_it(one, measured):
    """Rows that come with kbench, or a test; one that rests on a command to be run is `open`."""
    assert one.why.endswith(".")
    assert one.shown
    for name in re.findall(r"tests/\S+\.py", one.shown):
        assert (Path(__file__).parents[2] / name).is_file()
    if one.kind != UNEXPLAINED:
        assert "`kbench" not in one.shown
        assert set(re.findall(r"experiment=(\w+)", one.shown)) <= measured


@pytest.mark.parametrize(
    ("error", "column", "dataset", "differs"),
    [
        (0.0014, "MNIST8M 8 vs. 6", {"dataset": "mnist", "variant": "eight_vs_six"}, True),
        (0.0025, "MNIST8M 8 vs. 6", {"dataset": "mnist", "variant": "eight_vs_six"}, False),
        (0.0089, "MNIST8M", {"dataset": "mnist"}, True),
        (0.1495, "Adult", {"dataset": "a9a"}, False),
    ],
)
def test_half_a_point_is_not_little_where_the_error_is_less(error, column, dataset, differs):
    table = paper("dsgd").tables["stated"]
    loss = "log" if column == "MNIST8M" else "hinge"
    params = json.dumps({"kernel": "rbf", "preconditioned": False, "loss": loss})
    found = runs(rbf("doubly_sgd", 1.0 - error, error=error, params=params, **dataset))
    one = entry(CellPlace(table, "DoublySGD", column, "error"), found, found.machines[0])
    assert one.is_compared
    assert (one.cause is not None) == differs
