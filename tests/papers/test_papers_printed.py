"""The papers' printed numbers add up, and every one of them has a place in a layout."""

import functools
import re

import pytest

from kbench.config import shipped_root
from kbench.papers.figures.figure import figures
from kbench.papers.printed.layout import PAPERS, paper
from kbench.papers.printed.numbers import printed

TABLES = [table for name in PAPERS for table in paper(name).tables.values()]
GRIDS = {"ijcnn1": "table7", "webspam": "table8", "covtype": "table9", "census": "table10"}
SECONDS = {"min": 60, "h": 3600, "d": 86400}


def seconds(table, method):
    """The seconds of a column; a run that was stopped counts with its limit."""
    values = printed("dcsvm")
    return [
        float(value.text.removeprefix(">"))
        for place, value in values.items()
        if (place[0], place[2], place[3]) == (table, method, "seconds")
    ]


@pytest.mark.parametrize("method", ["DC-SVM (early)", "DC-SVM", "LIBSVM"])
@pytest.mark.parametrize("data", GRIDS)
def test_tables_7_to_10_of_dcsvm_add_up_to_its_table_5(data, method):
    total = printed("dcsvm")["table5", data, method, "time"]
    parts = seconds(GRIDS[data], method)
    assert len(parts) == 25
    assert sum(parts) / SECONDS[total.unit] == pytest.approx(total.number, rel=0.02)


def test_dcsvm_is_faster_than_libsvm_in_95_of_100_settings_and_slower_in_4():
    pairs = [
        pair
        for table in GRIDS.values()
        for pair in zip(seconds(table, "DC-SVM"), seconds(table, "LIBSVM"), strict=True)
    ]
    assert len(pairs) == 100
    assert sum(ours < libsvm for ours, libsvm in pairs) == 95
    assert sum(ours > libsvm for ours, libsvm in pairs) == 4


def test_two_runs_of_libsvm_hit_the_limit_and_have_no_accuracy():
    values = printed("dcsvm")
    stopped = [place for place, value in values.items() if value.text == ">300000"]
    assert len(stopped) == 2
    for table, row, column, _ in stopped:
        assert values[table, row, column, "accuracy"].text == "-"
        assert values[table, row, column, "accuracy"].number is None


def test_hss_accuracies_are_no_better_than_what_a_count_of_rows_allows():
    """An accuracy is a whole number of test rows, to the digits printed."""
    values = printed("hss")
    for (table, row, _, quantity), value in values.items():
        if quantity == "accuracy" and value.number is not None:
            n = values["table1", row, "", "n_test"].number
            hits = round(value.number / 100 * n)
            assert 100 * hits / n == pytest.approx(value.number, abs=6e-4 + 50 / n), (table, row)


def test_h_is_the_gamma_of_the_selected_runs():
    for name in ("table4", "table5"):
        table = paper("hss").tables[name]
        for row, wanted in table.rows.items():
            h = printed("hss")[name, row, "", "h"].number
            costs = [float(c) for c in printed("hss")[name, row, "", "C"].text.split(",")]
            assert wanted.params["gamma"] == pytest.approx(1 / (2 * h * h))
            assert wanted.at["C"] in costs


def test_meka_is_the_best_of_the_printed_errors_of_each_column():
    for (table, _, column, quantity), value in printed("meka").items():
        if table in ("table7", "table8") and value.number is not None:
            assert printed("meka")[table, "MEKA", column, quantity].number <= value.number


@pytest.mark.parametrize("name", PAPERS)
def test_every_printed_value_of_a_table_has_a_place_in_a_layout(name):
    places = {
        (table.printed, row, column, measure)
        for table in paper(name).tables.values()
        for row in table.rows
        for column in table.columns
        for measure in table.measures
    }
    assert set(printed(name)) <= places
    assert {value.status for value in printed(name).values()} <= {"printed", "read off", "unknown"}


def configured(group, name):
    path = shipped_root() / group / f"{name}.yaml"
    return load_yaml(path) if path.exists() else None


@functools.cache
def load_yaml(path):
    import yaml

    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("name", PAPERS)
def test_data_sets_and_variants_are_those_of_the_configs(name):
    for choices in paper(name).data.values():
        for choice in choices:
            config = configured("dataset", choice.dataset)
            assert config is not None, choice
            for word in (choice.variant or "").split(","):  # a variant, or a key that is changed
                assert not word or "=" in word or word in config["variants"], choice


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_selectors_ask_for_parameters_that_the_methods_have(table):
    for wanted in (r & c for r in table.rows.values() for c in table.columns.values()):
        assert wanted.data is None or wanted.data in paper(table.paper).data
        for method in wanted.methods:
            config = configured("method", method)
            assert config is None or set(wanted.params) <= set(config), (method, wanted.params)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.id)
def test_a_table_says_how_to_make_its_rows_or_why_there_are_none(table):
    assert bool(table.why) != bool(table.run)
    assert all(note.endswith(".") for note in table.notes)  # a comma in YAML's brackets ends one
    for word in table.run.split():
        group, _, names = word.partition("=")
        for name in names.split(","):
            assert configured(group, name) is not None, word


def test_a_figure_says_what_the_paper_prints_or_what_was_read_off():
    """Every source is named: the text, a table, or the plot."""
    said = [one.printed for one in figures() if one.printed]
    assert len(said) >= 15
    for words in said:
        assert re.match(r"read off|(in )?the text |by Tables? |all points are those of ", words)
