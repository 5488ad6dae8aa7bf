"""The papers' report on the reference rows, which takes seconds to fill."""

from pathlib import Path

import pytest

from kbench.papers.printed.layout import PAPERS
from kbench.papers.report import Report, read_runs
from kbench.run.results.folder import ResultsFolder

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="session")
def reference():
    """The reference rows and what else lies in the results folder."""
    return read_runs(ResultsFolder(RESULTS), reference=True)[0]


@pytest.fixture(scope="session")
def reference_report(reference):
    """All tables of the papers, filled."""
    return Report(PAPERS, reference, {}, [])
