"""The task `outlier`, from a data set with labels to the row, the report and later rows."""

import functools
import json

import harness
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.svm import OneClassSVM

from kbench.data import open_prepared
from kbench.prediction import load_model

kbench = functools.partial(harness.run_here, check=0)
METHODS = ("kernel_one_class", "one_class_svm", "isolation_forest")


@pytest.fixture(scope="module")
def cancer(tmp_path_factory):
    """A folder with a run of each detector, trained on normal rows, and the prepared data."""
    here = tmp_path_factory.mktemp("cancer")
    words = [f"method={','.join(METHODS)},svc", "dataset=breast_cancer", "dataset.variant=outlier"]
    out = kbench(here, "-m", *words, "keep_model=true", "metrics=[matthews_corrcoef,mape]")
    assert "dropped: svc: not for outlier" in out.stderr
    (meta,) = (here / "datasets").rglob("meta.json")
    return here, open_prepared(meta.parent)


def test_normal_rows_alone_train_and_scale(cancer):
    _, data = cancer
    assert (data.y_train == 1).all()
    assert data.y_train.dtype == np.int32
    assert set(data.y_test) == {-1, 1}
    np.testing.assert_array_equal(data.X_train.min(axis=0), 0.0)
    np.testing.assert_array_equal(data.X_train.max(axis=0), 1.0)
    assert np.abs(data.X_test).max() > 1.5  # malignant tumours are larger than any benign one
    malignant = int(np.sum(load_breast_cancer().target == 0)) - int(np.sum(data.y_test == -1))
    assert data.notes == (f"{malignant} outliers are left out of the training rows",)


def test_rows_have_the_ranking_scores_of_outliers_alone(cancer):
    here, data = cancer
    rows = harness.rows(here).set_index("method")
    assert set(rows.index) == set(METHODS)
    assert (rows["status"] == "ok").all()
    assert rows[["accuracy", "error", "f1", "rmse", "pinball"]].isna().all(axis=None)
    assert rows["message"].str.contains("no mape: it is not a score of outlier detectors").all()
    scores = dict(rows.loc["kernel_one_class", "scores"])
    assert scores["mape"] is None
    assert 0.0 < scores["matthews_corrcoef"] < 1.0
    outlier = data.y_test == -1
    peer = OneClassSVM(gamma="scale").fit(data.X_train)
    for method in METHODS[:2]:
        found = rows.loc[method]
        scores = -peer.decision_function(data.X_test)
        assert found["roc_auc"] == pytest.approx(roc_auc_score(outlier, scores), abs=2e-3)
        expected = average_precision_score(outlier, scores)
        assert found["average_precision"] == pytest.approx(expected, abs=5e-3)
        assert found["roc_auc"] > 0.9


def test_a_kept_model_writes_decisions_and_is_scored(cancer):
    here, data = cancer
    (row,) = harness.rows(here).query("method == 'kernel_one_class'").itertuples()
    words = ["predict", f"model={row.key}", "out=p.csv", "dataset=breast_cancer"]
    out = kbench(here, *words, "dataset.variant=outlier").stdout
    assert f"{'roc_auc':18} {row.roc_auc:.6g}\n" in out
    frame = pd.read_csv(here / "p.csv")
    assert list(frame.columns) == ["prediction", "decision"]
    # In the file's labels: 1 is benign.
    np.testing.assert_array_equal(frame["prediction"], (frame["decision"] >= 0).astype(int))
    assert len(frame) == data.n_test
    stored = load_model(here / "results" / row.model).estimator
    np.testing.assert_allclose(frame["decision"], stored.decision_function(data.X_test))


@pytest.mark.parametrize("labels", [("bad", "good"), (0, 1)])
def test_rows_of_a_table_are_predicted_by_a_detector_of_another(tmp_path, labels):
    """The new table needs no `dataset.target.outlier`: the model knows the labels."""
    rng = np.random.default_rng(0)
    X, outlier = rng.normal(size=(120, 2)), np.arange(120) % 4 == 0
    X[outlier] += 6.0
    rows = pd.DataFrame(X, columns=["a", "b"]).assign(y=np.where(outlier, *labels))
    rows[:90].to_csv(tmp_path / "train.csv", index=False)
    rows[90:].to_csv(tmp_path / "new.csv", index=False)
    form = ["dataset.task=outlier", f"dataset.target.outlier=[{labels[0]}]"]
    form += ["dataset.target.train=normal", "method.nu=0.1", "keep_model=true"]
    kbench(tmp_path, "method=kernel_one_class", "dataset.path=train.csv", *form)
    (row,) = harness.rows(tmp_path).itertuples()
    assert row.roc_auc == 1.0
    words = ["predict", f"model={row.key}", "out=p.csv", "dataset.path=new.csv"]
    out = kbench(tmp_path, *words).stdout
    assert f"{'average_precision':18} 1\n" in out
    found = pd.read_csv(tmp_path / "p.csv")["prediction"]
    assert (found == rows["y"][90:].to_numpy()).mean() > 0.7


def test_reports_lead_with_the_area_under_the_curve(cancer):
    here, _ = cancer
    assert "ROC AUC ↑" in kbench(here, "report").stdout
    table = json.loads(kbench(here, "report", "format=json", "metric=average_precision").stdout)
    (comparison,) = {(one["dataset"], one["task"]) for one in table["comparisons"]}
    assert comparison == ("breast_cancer", "outlier")


def test_labels_do_not_reach_the_method(tmp_path):
    """Training rows of two labellings are the same rows, and so are models; the scores are not."""
    words = ["method=one_class_svm", "dataset=digits", "dataset.task=outlier", "keep_model=true"]
    kbench(tmp_path, "-m", *words, "dataset.target.outlier=[1],[2]")
    rows = harness.rows(tmp_path)
    models = [load_model(tmp_path / "results" / path).estimator for path in rows["model"]]
    np.testing.assert_array_equal(*[model.dual_coef_ for model in models])
    assert rows["roc_auc"].nunique() == 2
    assert list(rows["n_train"].unique()) == [1347]


def test_a_search_takes_labelled_rows_that_are_held_out(cancer):
    here, _ = cancer
    words = ["tune", "method=one_class_svm", "method.nu=0.1,0.5", "dataset=breast_cancer"]
    form = ["dataset.task=outlier", "dataset.target.outlier=[0]", "tune.cv=2"]
    out = kbench(here, *words, *form).stdout
    assert "validation roc_auc" in out
    said = harness.run_here(here, *words, "dataset.variant=outlier", check=2).stderr
    assert "dataset.target.train is normal" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["method.metric=learned"], "learns from labels, but OneClassSVM gets none"),
        (["dataset.target.outlier=null"], "dataset.target.outlier has no value"),
        (["dataset.target.positive=[1]"], "dataset.target.positive and negative are for binary"),
        (["dataset.target.outlier=[7]"], "dataset.target.outlier has 7, but the labels are 0, 1"),
        (["dataset.target.outlier=[0,1]"], "has every label (0, 1), none is normal"),
        (["dataset.target.train=some"], "should be one of all, normal"),
        (["dataset.task=binary"], "dataset.target.outlier is for dataset.task=outlier"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, words, message):
    form = ["dataset=breast_cancer", "dataset.task=outlier", "dataset.target.outlier=[0]"]
    kept = [one for one in form if one.partition("=")[0] != words[0].partition("=")[0]]
    done = harness.run_here(tmp_path, "method=one_class_svm", *kept, *words, check=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
