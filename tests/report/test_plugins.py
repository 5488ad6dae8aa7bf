"""Reports of other packages: found by their entry points, on the pages and on the command line."""

import sys

import pytest
from report_rows import make_row

from kbench import report
from kbench.commands import reporting
from kbench.errors import ConfigError
from kbench.report import plugins
from kbench.run.results.folder import ResultsFolder

MODULE = """
from pathlib import Path

from kbench.report.page.additions import Addition
from kbench.report.page.site import Item, View
from kbench.report.page.tags import row_header
from kbench.report.plugins import Plugin


class Counts:
    def __init__(self, content):
        self.content = content

    def addition(self, store):
        places = store.places(self.content.rows)
        line = Item(row_header("counted"), {}, "counts-1", f"<p data-r='{places}'>rows</p>", "Rows")
        view = View("counts", "Counts of rows", [], [line])
        n = len(self.content.rows)
        return Addition(summary=f"{n} counted", studies=[view], titles={"digits": ["Counted"]})

    def write(self, where):
        (where / "counts.txt").write_text(str(len(self.content.rows)))
        return [where / "counts.txt"]


def make(folder, *, tables, format, out, reference, colour):
    return f"{tables} {format} {reference}\\n"


PLUGIN = Plugin(("terminal",), make, Counts)
NOTHING = 3
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package whose entry point is `counts`; undone after the test."""

    def install(value):
        (tmp_path / "counting.py").write_text(MODULE)
        info = tmp_path / "counting-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\ncounts = {value}\n")
        monkeypatch.syspath_prepend(tmp_path)
        plugins.installed_plugins.cache_clear()

    yield install
    sys.modules.pop("counting", None)
    plugins.installed_plugins.cache_clear()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two rows, and no reference rows, which would take long."""
    monkeypatch.chdir(tmp_path)
    results = ResultsFolder("results")
    for seed in range(2):
        results.write(make_row("svc", 0.9, seed))
    return results


def test_pages_have_the_lists_and_files_of_every_plugin(installed, folder, monkeypatch):
    installed("counting:PLUGIN")
    assert list(plugins.installed_plugins()) == ["counts", "papers"]
    counts = {"counts": plugins.installed_plugins()["counts"]}
    monkeypatch.setattr(report, "installed_plugins", lambda: counts)
    files = report.write_report(folder)
    n_rows = (folder.path / "_report" / "counts.txt").read_text()
    assert folder.path / "_report" / "counts.txt" in files
    text = (folder.path / "_report" / "index.html").read_text()
    assert "Counts of rows" in text
    assert f"{n_rows} counted" in text
    assert "Counted" in text


def test_its_name_is_a_word_of_kbench_report(installed, folder, capsys):
    installed("counting:PLUGIN")
    assert reporting.main(["counts", "table=a,b", "reference=false"]) == 0
    assert capsys.readouterr().out == "['a', 'b'] terminal False\n"
    with pytest.raises(ConfigError, match=r"kbench report counts takes no metric=\.\.\."):
        reporting.main(["counts", "metric=f1"])
    with pytest.raises(ConfigError, match=r"format is .csv.*terminal"):
        reporting.main(["counts", "format=csv"])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("counting:NOTHING", "which is 3; it should be a kbench.report.plugins.Plugin"),
        ("counting:absent", "names 'counting:absent': .*absent"),
        ("not_there:PLUGIN", "names 'not_there:PLUGIN': No module named 'not_there'"),
    ],
)
def test_a_wrong_entry_point_is_named(installed, value, said):
    installed(value)
    with pytest.raises(ConfigError, match=f"entry point 'counts' of group kbench.reports.*{said}"):
        plugins.installed_plugins()


def test_names_of_the_papers_stay_public_in_the_report():
    papers = plugins.installed_plugins()["papers"]
    assert report.make_papers is papers.make
    assert papers.formats == report.PAPER_FORMATS
    assert {name for name in report.__all__ if not hasattr(report, name)} == set()
    with pytest.raises(AttributeError, match="has no attribute 'make_paper'"):
        _ = report.make_paper
