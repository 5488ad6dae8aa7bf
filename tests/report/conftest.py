"""Fixtures of the tests of reports."""

import pytest
from report_rows import folder_of


@pytest.fixture
def folder(tmp_path):
    """A function that writes rows into one results folder and returns it."""
    return lambda *rows: folder_of(tmp_path / "results", *rows)
