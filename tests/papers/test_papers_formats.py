"""The papers' report in each of its formats."""

import csv
import io

import pytest
from paper_rows import rbf
from report_rows import failed, folder_of
from typeset import PDFLATEX, typeset

from kbench.errors import ConfigError
from kbench.papers.printed.layout import PAPERS
from kbench.papers.printed.numbers import printed
from kbench.report import make_papers


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rows = rbf("svc", 0.98), rbf("dcsvm_early", 0.97), failed("dcsvm", "timeout")
    return folder_of(tmp_path_factory.mktemp("results"), *rows)


def test_data_that_are_absent_are_absent_whatever_this_disk_holds(folder, monkeypatch, tmp_path):
    before = make_papers(folder, tables=["cells"], width=120)
    monkeypatch.setenv("KBENCH_DATA", str(tmp_path))
    assert make_papers(folder, tables=["cells"], width=120) == before
    assert "webspam" in before


def test_without_rows_a_table_of_absent_data_says_so(folder):
    text = make_papers(folder, tables=["dcsvm_table8"], width=160)
    assert "26324 | data not present" in text
    assert "data not present; with it, run" in text
    (line,) = [
        one
        for one in csv.DictReader(
            io.StringIO(make_papers(folder, tables=["dcsvm_table5"], format="csv"))
        )
        if (one["row"], one["column"]) == ("webspam", "DC-SVM")
    ]
    assert line["status"] == "data not present"


def test_a_table_without_rows_prints_the_papers_column_and_the_command(folder):
    text = make_papers(folder, tables=["hss_table5"], width=160)
    assert "95.551" not in text
    assert "96.123" in text
    assert 'no rows: run "kbench -m experiment=hss_table5"' in text


def test_csv_has_every_printed_value_and_nothing_rounded(folder):
    lines = list(csv.DictReader(io.StringIO(make_papers(folder, format="csv"))))
    given = sum(bool(line["printed"]) and line["printed_status"] != "" for line in lines)
    assert given >= sum(len(printed(name)) for name in PAPERS)
    (one,) = [
        line
        for line in lines
        if (line["table"], line["row"], line["column"], line["quantity"])
        == ("dcsvm_table3", "LIBSVM", "ijcnn1", "accuracy")
    ]
    assert (one["printed"], one["unit"], one["measured"], one["ok"]) == ("98.69", "%", "0.98", "1")


def test_error_for_an_unknown_table_suggests_the_nearest_name(folder):
    with pytest.raises(ConfigError, match="nearest: hss_table5"):
        make_papers(folder, tables=["hss_tabel5"])
    with pytest.raises(ConfigError, match="terminal, markdown, csv, json, latex"):
        make_papers(folder, format="pdf")


def test_latex_compiles(folder, tmp_path):
    if PDFLATEX is None:
        pytest.skip("pdflatex is not installed (Debian: apt-get install texlive-latex-base)")
    typeset(tmp_path, make_papers(folder, format="latex"))
