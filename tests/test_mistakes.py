"""Mistakes in Python: a word about the argument, in one line, before any work."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import kbench.methods
from kbench.data import Folders, check_config, chunked_files, chunked_generator, chunks, prepare
from kbench.errors import ConfigError
from kbench.metric import LearnedMetric
from kbench.report import draw_metric, make_comparison, make_papers, make_report, write_report
from kbench.run.results.folder import ResultsFolder

X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize("name", kbench.methods.__all__)
def test_a_machine_without_fit_says_so(name):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        getattr(kbench.methods, name)().predict(X)


def test_support_vectors_exist_after_fit_only():
    assert not hasattr(kbench.methods.LaSVC(), "support_vectors_")
    assert kbench.methods.LaSVC().fit(X, Y).support_vectors_.shape[1] == 4


ROWS = {"n_features": 2}
TABLE = {"format": "csv"}
NO_FOLDER = "folder is 'results', should be a kbench.run.results.folder"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda _: chunks("rows", n_features="2"), "n_features is '2', should be a whole number"),
        (lambda _: chunks("rows", **ROWS, task="bin"), "task is 'bin', should be one of binary"),
        (lambda _: chunks("rows", **ROWS, task=None), "task is None, should be a task"),
        (lambda _: chunks("t", **TABLE, columns="y"), "columns is 'y', should be a mapping"),
        (lambda _: chunks("t", **TABLE, columns={"targt": "y"}), "no key 'targt' .nearest: target"),
        (lambda _: chunks("t", **TABLE, columns={"drop": "y"}), "columns.drop is 'y', should be a"),
        (lambda _: chunked_files("rows", n_features=-1), "n_features is -1, should be"),
        (lambda _: chunked_generator("covtyp", 9, d=9), "called 'covtyp' .nearest: covtype_like"),
        (lambda _: chunked_generator("covtype_like", 9, d="9"), "d is '9', should be a whole"),
        (lambda _: check_config("digits"), "config is 'digits', should be a mapping"),
        (lambda _: prepare("digits", Folders(Path("data"))), "config is 'digits', should be a map"),
        (lambda _: prepare({}, "data"), "folders is 'data', should be Folders"),
        (lambda _: make_report("results"), NO_FOLDER),
        (lambda _: make_papers("results"), NO_FOLDER),
        (lambda _: write_report("results"), NO_FOLDER),
        (lambda rows: make_report(rows, methods="svc"), r"methods is 'svc', .*: \['svc'\]"),
        (lambda rows: make_report(rows, datasets="iris"), "datasets is 'iris', should be a list"),
        (lambda rows: make_report(rows, columns="rmse"), "columns is 'rmse', should be a list"),
        (lambda rows: make_report(rows, settings="5"), "settings is '5', should be a whole"),
        (lambda rows: make_report(rows, settings=-1), "settings is -1, should be a whole number"),
        (lambda rows: make_report(rows, width="80"), "width is '80', should be a whole number"),
        (lambda rows: make_comparison(rows, methods="svc"), "methods is 'svc', should be a list"),
        (lambda rows: make_papers(rows, tables="dcsvm"), "tables is 'dcsvm', should be a list"),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(call, said, tmp_path):
    with pytest.raises(ConfigError, match=said) as caught:
        call(ResultsFolder(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["metric", np.eye(3), LearnedMetric()])
def test_a_chart_is_of_a_fitted_metric(wrong):
    with pytest.raises(ValueError, match="should be a fitted LearnedMetric"):
        draw_metric(wrong)


def test_memory_is_a_number():
    with pytest.raises(ValueError, match="memory_mb is '1', should be a positive number"):
        chunked_files("rows", n_features=2, memory_mb="1")


def test_a_report_may_be_written_to_a_path_that_is_a_text(tmp_path):
    place = tmp_path / "report.md"
    text = make_report(ResultsFolder(tmp_path), format="markdown", out=str(place), reference=False)
    assert place.read_text() == text
