"""LaTeX that compiles whatever names and messages hold."""

import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import failed, make_row
from typeset import PDFLATEX, typeset

from kbench.report import make_comparison, make_report
from kbench.report.text.latex import escaped

NASTY = (
    "".join(sorted(set(string.printable) - set(string.whitespace))) + " ±×↑↓†²…éßØ中\u202e\x07`?"
)


@pytest.fixture
def document(folder):
    return lambda *rows: make_report(folder(*rows), format="latex")


def test_tables_have_the_structure_of_booktabs(document):
    rows = [make_row("svc", value, s, fit_wall_s=10.0) for s, value in enumerate([0.9, 0.8])]
    rows += [make_row("a_b", 0.5, fit_wall_s=0.125), failed("mlp", "timeout")]
    text = document(*rows)
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 1
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 1
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text)[1])
    cells = [line.count("&") for line in text.splitlines() if line.endswith(r"\\")]
    assert cells == [columns - 1] * 4
    assert r"a\_b & 50.00 & \textbf{0.125}" in text
    assert r"svc & \textbf{85.00} $\pm$ 7.07 & 10.0\phantom{00} $\pm$ 0.0" in text
    assert r"\textit{timeout}" in text


def compiles(folder, text):
    source = typeset(folder, text)
    assert source.with_suffix(".pdf").stat().st_size > 1000
    assert "Missing character" not in source.with_suffix(".log").read_text(errors="replace")


@given(st.text())
def test_escaped_text_is_one_line_of_plain_letters(text):
    found = escaped(text)
    assert "\n" not in found
    assert all(character.isprintable() for character in found)
    bare = re.sub(r"\\[a-zA-Z]+|\\[\\{}$&#%_^~]|\{\}|\$\^2\$", "", found)
    assert not set("&#%_^~\\") & set(bare)
    assert re.sub(r"\\[{}]", "", found).count("{") == re.sub(r"\\[{}]", "", found).count("}")


@pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not installed")
def test_it_compiles(tmp_path, document, folder):
    rows = [
        make_row(NASTY, 0.9, dataset=NASTY, params=json.dumps({NASTY: NASTY})),
        make_row("[x]", 0.9, dataset=NASTY, params="{}"),
        make_row("*", 0.9, dataset=NASTY, objective=-1.5, params="{}"),
        failed("mlp", "error", dataset=NASTY, message=NASTY),
        *(make_row("svc", 0.5, dataset=f"set {number}") for number in range(25)),
    ]
    compiles(tmp_path, document(*rows))
    for dataset in ("a", "b"):
        found = folder(
            make_row(NASTY.replace(",", ""), 0.5, dataset=dataset, rmse=0.5),
            make_row("[x]", 0.25, dataset=dataset, rmse=1.5),
        )
    methods = ["[x]", NASTY.replace(",", "")]
    for metric in (None, "rmse"):
        text = make_comparison(found, methods=methods, metric=metric, format="latex")
        assert text.count("\\begin{tabular}") == 3
        compiles(tmp_path, text)


def test_no_rows_make_a_document_too(document):
    assert document().endswith("\\end{document}\n")
