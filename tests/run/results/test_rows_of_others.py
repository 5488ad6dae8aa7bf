"""Two folders of two machines: merged, reported, published and brought back, every row is there."""

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from result_rows import CURVE, make_row, sorted_rows, write_environment

from kbench.cli import main
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.rows import SCHEMA_VERSION

# Schema version -> columns that it brought; an older file lacks them.
ADDED = {
    2: ("tuned", "tuned_sha256", "roc_auc", "average_precision", "duality_gap", "model"),
    3: ("density",),
    4: ("preempted", "other_cpus", "phases_cpu"),
    5: ("attempt", "method_version", "experiment"),
    6: ("prediction_cost_loop",),
    7: ("tag",),
    8: ("scores",),
    9: ("pinball", "coverage"),
    10: ("kernel_numbers",),
}
HERE, THERE = "0a1b2c3d", "ffffffff"
MACHINES = {HERE: "A processor", THERE: "B processor"}
HOSTILE = "<script>alert(1)</script>\x1b[2J=1+1"


def rows(path, environment, accuracy):
    """A results folder of a machine, with a row of each of two methods."""
    folder = ResultsFolder(path)
    for number, method in enumerate(("svc", "knn")):
        measured = {"fit_wall_s": 1.0, "fit_cpu_s": 1.0, "n_train": 100, "n_test": 10}
        folder.write(
            make_row(number, method=method, environment=environment, accuracy=accuracy, **measured),
            [CURVE],
        )
    write_environment(path, environment, MACHINES[environment])
    return folder


def as_version(path, version, **changes):
    """Write a file of one row as a kbench of an older schema version did, with other values."""
    table = pq.read_table(path)
    later = [name for number, names in ADDED.items() if number > version for name in names]
    old = {"schema_version": version, **changes}
    for name, value in old.items():
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, [pa.array([value], field.type)])
    pq.write_table(table.drop_columns(later), path)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_rows_of_two_machines_are_merged_reported_published_and_brought_back(
    tmp_path, monkeypatch, capsys, version
):
    monkeypatch.chdir(tmp_path)
    rows(tmp_path / "own", HERE, 0.5)
    other = rows(tmp_path / "other", THERE, 0.75)
    for file in other.path.glob("*.parquet"):
        as_version(file, version)
    # Of the same form, as a stranger may have made them: texts that a reader must not believe, and
    # a key that is no name.
    hostile = other.write(make_row(7, environment=THERE, message=HOSTILE, status="error"))
    as_version(hostile, version, method=HOSTILE, command=HOSTILE, accuracy=None)
    outside = other.write(make_row(8, environment=THERE))
    as_version(outside, version, key="../../escaped")
    (other.path / "damaged.parquet").write_bytes(b"PAR1 no")

    assert main(["merge", "other/", "results_dir=own"]) == 0
    said = capsys.readouterr().out
    assert "other: 3 rows brought (environments: 3 of ffffffff)" in said
    assert "damaged.parquet: skipped, not a readable Parquet file" in said
    assert "left a row whose key is '../../escaped'" in said
    merged = sorted_rows(tmp_path / "own")
    assert len(merged) == 5
    assert list(merged["accuracy"].dropna()) == [0.5, 0.5, 0.75, 0.75]
    assert not list(tmp_path.parent.rglob("*escaped*"))

    assert main(["report", "results_dir=own"]) == 0
    report = capsys.readouterr().out
    assert report.replace("\n", "").isprintable()
    for processor in MACHINES.values():
        assert sum(processor in line for line in report.splitlines()) >= 1

    assert main(["publish", "out=site", "results_dir=own"]) == 0
    assert main(["import", "site", "results_dir=back"]) == 0
    said = capsys.readouterr().out
    assert "5 rows" in said
    assert HOSTILE not in said
    for page in (tmp_path / "site").rglob("*.html"):
        assert "<script>alert" not in page.read_text()
    pd.testing.assert_frame_equal(sorted_rows(tmp_path / "back"), merged)
    folders = (ResultsFolder(tmp_path / name) for name in ("back", "own"))
    curves = [folder.read_curves(reference=False) for folder in folders]
    pd.testing.assert_frame_equal(*curves)
    assert len(curves[0]) == 8


@pytest.mark.parametrize(("method", "column"), [("falkon", 1), ("meka", 0)])
def test_numbers_of_the_kernel_matrix_have_a_column_of_their_own(tmp_path, method, column):
    """Until version 9 methods counted those of the matrix or of the model in one column."""
    folder = ResultsFolder(tmp_path)
    as_version(folder.write(make_row(0, method=method, n_parameters=7)), 9)
    row = folder.read(reference=False).iloc[0]
    counts = [row["kernel_numbers"], row["n_parameters"]]
    assert counts[column] == 7
    assert pd.isna(counts[1 - column])


def test_the_older_forms_of_this_test_are_all_there_are():
    """A new schema version names the columns that it brings in `ADDED`."""
    assert list(ADDED) == list(range(2, SCHEMA_VERSION + 1))
