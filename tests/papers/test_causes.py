"""Scores of the reference rows that differ from the printed ones have a cause."""

import pytest

from kbench.report.papers.causes import KINDS, cause_of, causes
from kbench.report.papers.causes import sheet as cause_sheet


@pytest.fixture(scope="module")
def different(reference_report):
    """(place, cause) of every cell that differs."""
    return [
        ((one.table.id, row, group.column, group.measure.label), entry.cause)
        for one in reference_report.filled
        for group in one.groups
        for row, entry in zip(one.rows, group.entries, strict=True)
        if entry.cause is not None
    ]


def test_every_score_that_differs_has_a_cause(different):
    assert different
    assert [place for place, cause in different if cause not in causes()] == []


def test_every_cause_is_that_of_a_cell(different):
    """A cause that new rows have removed is to be removed."""
    used = {cause for _, cause in different}
    assert [one.why for one in causes() if one not in used] == []


def test_the_sheet_counts_every_cell_once(reference_report, different):
    shown = cause_sheet(reference_report.filled)
    assert sum(int(row[1]) for row in shown.rows) == len(different)
    assert {row[0] for row in shown.rows} <= set(KINDS.values())


def test_a_difference_without_a_cause_says_so():
    found = cause_of("dcsvm_table3", "no such row", "ijcnn1", "ijcnn1", larger=True)
    assert found not in causes()
    assert found.kind == "open"


@pytest.mark.parametrize("one", causes(), ids=lambda one: one.why[:40])
def test_a_cause_is_a_sentence_and_says_what_shows_it(one):
    assert one.why.endswith(".")
    assert one.shown
