"""Fixtures of the tests of reports."""

import pytest

from kbench.run.results.folder import ResultsFolder


@pytest.fixture
def folder(tmp_path):
    """A function that writes rows into one results folder and returns it."""

    def write(*rows):
        made = ResultsFolder(tmp_path / "results")
        for row in rows:
            made.write(row)
        return made

    return write
