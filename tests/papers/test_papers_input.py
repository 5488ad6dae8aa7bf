"""What the papers' report makes of rows that are not as they should be."""

from datetime import timedelta

from paper_rows import cell, rbf, runs
from report_rows import START, folder_of

from kbench.report import make_papers


def libsvm(*rows):
    """The cell of LIBSVM's accuracy on ijcnn1."""
    return cell(runs(*rows), "LIBSVM", "ijcnn1", "accuracy")


def table3(folder):
    return make_papers(folder, tables=["dcsvm_table3"], width=200, reference=False)


def test_seeds_of_two_environments_are_never_in_one_mean():
    rows = rbf("svc", 0.98, 0), rbf("svc", 0.90, 1, environment="ffff0000")
    assert libsvm(*rows).value == 0.98
    assert len(runs(*rows).machines) == 2


def test_seeds_of_a_changed_data_file_are_never_in_one_mean():
    one = libsvm(rbf("svc", 0.90, 0), rbf("svc", 0.98, 1, data_sha256="d2"))
    assert one.value in (0.90, 0.98)
    assert one.notes[0].startswith("2 series of runs match")


def test_of_two_attempts_at_a_seed_the_newer_counts(tmp_path):
    rows = [rbf("svc", 0.90), rbf("svc", 0.98, started_at=START + timedelta(hours=1))]
    for order in (rows, rows[::-1]):
        folder = folder_of(tmp_path / str(order is rows), *order)
        assert "98.69 | 98.00" in table3(folder)


def test_rows_of_no_known_method_or_data_set_change_no_cell(tmp_path):
    before = table3(folder_of(tmp_path, rbf("svc", 0.98)))
    unknown = rbf("of_a_plugin_that_is_gone", 0.999), rbf("svc", 0.5, dataset="mine")
    folder = folder_of(tmp_path, *unknown)
    assert table3(folder) == before


def test_parameters_that_are_missing_are_not_the_papers():
    assert libsvm(rbf("svc", 0.98, params='{"C": 32}')).value is None
    assert libsvm(rbf("svc", 0.98, params=None)).value is None
