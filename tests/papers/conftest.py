"""The papers' report on the reference rows, which takes seconds to fill."""

from pathlib import Path

import pytest

from kbench.papers.printed.layout import PAPERS
from kbench.papers.report import PapersReport, runs_of
from kbench.report.comparisons.reading import read_content
from kbench.run.results.folder import ResultsFolder

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="session")
def reference():
    """The reference rows and what else lies in the results folder."""
    return runs_of(read_content(ResultsFolder(RESULTS)))


@pytest.fixture(scope="session")
def reference_report(reference):
    """All tables of the papers, filled."""
    return PapersReport(PAPERS, reference, {}, [])
