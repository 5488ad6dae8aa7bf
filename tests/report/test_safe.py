"""Nothing that a row says is run: hostile rows through every writer of every report."""

import csv
import io
import json
import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import failed, make_row

from kbench.report import make_comparison, make_papers, make_report
from kbench.report.safe import csv_cell, markdown, printable
from kbench.run.results.folder import ResultsFolder

FORMULA = '=HYPERLINK("https://example.org","x")'
LINK = "[click](javascript:alert(1))"
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe"
TAG = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
HOSTILE = (FORMULA, "+1+1", "-2+3", "@SUM(A1)", LINK, ESCAPE, TAG, "\t=1+1", "a\n# heading")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows whose every text column is hostile, and one harmless method on the same data."""
    found = ResultsFolder(tmp_path_factory.mktemp("hostile") / "results")
    for i, text in enumerate(HOSTILE):
        names = {"dataset": text, "variant": text, "data_sha256": text}
        for method, accuracy in ((text, 0.5), ("svc", 0.9)):
            for seed in range(2):
                params = json.dumps({text: text, "C": i}, sort_keys=True)
                found.write(make_row(method, accuracy, seed, command=text, params=params, **names))
        found.write(failed(f"{text}2", "error", message=text, log=text, **names))
    found.merge()  # every test reads all rows three times
    return found


def texts(folder, format):
    """Every report of one format."""
    yield make_report(folder, format=format)
    if format != "html":
        yield make_comparison(folder, methods=["svc", *HOSTILE], format=format)
    yield make_papers(folder, format=format, tables=["systems", "dcsvm_table3"])


def test_no_cell_of_csv_is_a_formula(folder):
    for text in texts(folder, "csv"):
        for line in csv.reader(io.StringIO(text)):
            for cell in line:
                start = cell.lstrip()
                harmless = start in ("", "-") or start[0] not in "=+-@"
                assert harmless or float(start) is not None, cell


@pytest.mark.parametrize("value", [-1.5, "-1.5", "+2", "-1e-05", "-", "", None, 3, "x=1", ".5"])
def test_numbers_and_dashes_stay_as_they_are_in_csv(value):
    assert csv_cell(value) == value


@given(st.text(alphabet=string.printable, min_size=1))
def test_a_csv_cell_begins_a_formula_only_if_it_is_a_number(text):
    cell = csv_cell(text).lstrip()
    if cell[:1] in ("=", "+", "-", "@") and cell:
        assert cell == "-" or len(cell) == 1 or float(cell) is not None


def test_the_terminal_gets_no_control_character(folder):
    for text in texts(folder, "terminal"):
        assert text.replace("\n", "").isprintable()


def test_colours_are_the_only_escape_codes(folder):
    text = make_report(folder, colour=True)
    codes = set(re.findall("\x1b[^m]*m", text))
    assert codes <= {"\x1b[1m", "\x1b[1;32m", "\x1b[31m", "\x1b[2m", "\x1b[0m"}
    assert re.sub("\x1b[^m]*m", "", text).replace("\n", "").isprintable()


def test_markdown_has_no_link_tag_or_heading_of_a_row(folder):
    for text in texts(folder, "markdown"):
        assert text.replace("\n", "").isprintable()
        assert not re.search(r"(?<!\\)\[click", text)
        assert not re.search(r"(?<!\\)<(img|script|/script)", text)
        assert not re.search(r"^# heading", text, re.M)


@given(st.text())
def test_markdown_escapes_every_character_that_it_would_act_on(text):
    escaped = markdown(text)
    assert not re.search(r"[|*_<>`\[\]!&#~$]", re.sub(r"\\.", "", escaped))
    assert "\n" not in escaped


def test_latex_has_no_command_of_a_row(folder):
    for text in texts(folder, "latex"):
        assert text.replace("\n", "").isprintable()
        assert "javascript:alert(1)" not in text or "\\href" not in text


def test_json_is_json_and_ascii(folder):
    for text in texts(folder, "json"):
        json.loads(text, parse_constant=pytest.fail)
        assert text.replace("\n", "").isprintable()


def test_html_has_no_element_or_handler_of_a_row(folder):
    for text in texts(folder, "html"):
        assert "<img src=x" not in text
        assert "alert(2)</script>" not in text
        assert 'href="javascript' not in text


@given(st.text())
def test_printable_text_stays_and_all_else_becomes_visible(text):
    assert printable(text).isprintable()
    if text.isprintable():
        assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x1b[31m", "\\x1b[31m"), ("a\nb\tc", "a b c"), ("\u202egnp", "\\u202egnp"), ("±†×", "±†×")],
)
def test_control_characters_are_shown_as_their_codes(text, shown):
    assert printable(text) == shown
