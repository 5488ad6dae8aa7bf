"""What the papers' report makes of rows that are not as they should be."""

from datetime import timedelta

import pyarrow.parquet as pq
from paper_rows import rbf, runs
from report_rows import START, failed

from kbench.papers.cells.entries import entry
from kbench.papers.printed.layout import CellPlace, paper
from kbench.report import make_papers, write_report
from kbench.run.results.folder import ResultsFolder

TABLE3 = paper("dcsvm").tables["table3"]


def cell(found, row="LIBSVM", column="ijcnn1", quantity="accuracy"):
    return entry(CellPlace(TABLE3, row, column, quantity), found, found.machines[0])


def folder_of(tmp_path, *rows):
    folder = ResultsFolder(tmp_path / "results")
    for row in rows:
        folder.write(row)
    return folder


def table3(folder):
    return make_papers(folder, tables=["dcsvm_table3"], width=200, reference=False)


def test_rows_of_an_older_schema_fill_cells_like_any_other(tmp_path):
    folder = folder_of(tmp_path, rbf("svc", 0.98), rbf("dcsvm", 0.97))
    before = table3(folder)
    path = next(folder.path.glob("*.parquet"))
    old = pq.read_table(path).drop_columns(["tuned", "duality_gap", "model", "roc_auc"])
    version = old.schema.get_field_index("schema_version")
    ones = old.column("schema_version").combine_chunks().fill_null(1)
    old = old.set_column(version, old.schema.field(version), [[1] * len(ones)])
    pq.write_table(old, path)
    assert table3(ResultsFolder(folder.path)) == before


def test_rows_of_a_newer_schema_are_read_as_far_as_they_are_known(tmp_path):
    folder = folder_of(tmp_path, rbf("svc", 0.98))
    before = table3(folder)
    (path,) = folder.path.glob("*.parquet")
    new = pq.read_table(path)
    version = new.schema.get_field_index("schema_version")
    new = new.set_column(version, new.schema.field(version), [[99]])
    pq.write_table(new.append_column("unheard_of", [["x"]]), path)
    text = table3(ResultsFolder(folder.path))
    assert [line for line in before.splitlines() if line not in text] == []


def test_seeds_of_two_environments_are_never_in_one_mean():
    found = runs(rbf("svc", 0.98, 0), rbf("svc", 0.90, 1, environment="ffff0000"))
    assert cell(found).value == 0.98
    assert len(found.machines) == 2


def test_seeds_of_a_changed_data_file_are_never_in_one_mean():
    old, new = rbf("svc", 0.90, 0), rbf("svc", 0.98, 1, data_sha256="d2")
    one = cell(runs(old, new))
    assert one.value in (0.90, 0.98)
    assert one.notes[0].startswith("2 series of runs match")


def test_of_two_attempts_at_a_seed_the_newer_counts(tmp_path):
    rows = [rbf("svc", 0.90), rbf("svc", 0.98, started_at=START + timedelta(hours=1))]
    for order in (rows, rows[::-1]):
        folder = folder_of(tmp_path / str(order is rows), *order)
        assert "98.69 | 98.00" in table3(folder)


def test_some_seeds_that_failed_are_counted_beside_the_mean_of_the_others():
    params = rbf("svc", 1)["params"]
    lost = failed("svc", "timeout", 1, dataset="ijcnn1", task="binary", params=params)
    one = cell(runs(rbf("svc", 0.98, 0), lost))
    assert one.value == 0.98
    assert "1 of 2 runs ok" in one.notes


def test_rows_of_no_known_method_or_data_set_change_no_cell_and_break_no_page(tmp_path):
    folder = folder_of(tmp_path, rbf("svc", 0.98))
    before = table3(folder)
    folder.write(rbf("of_a_plugin_that_is_gone", 0.999))
    folder.write(rbf("svc", 0.5, dataset="mine"))
    assert table3(ResultsFolder(folder.path)) == before
    write_report(ResultsFolder(folder.path))


def test_parameters_that_are_missing_are_not_the_papers():
    assert cell(runs(rbf("svc", 0.98, params='{"C": 32}'))).value is None
    assert cell(runs(rbf("svc", 0.98, params=None))).value is None
