"""Scores that `metrics=[...]` adds: the values of scikit-learn, reasons for what is missing, and
the way from the command to row, report and tuned file."""

import csv
import inspect
import io
import json
from dataclasses import replace

import harness
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import (
    brier_score_loss,
    get_scorer,
    get_scorer_names,
    log_loss,
    mean_pinball_loss,
    top_k_accuracy_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import all_estimators

from kbench import methods
from kbench.errors import ConfigError
from kbench.methods import KernelQuantileRegressor
from kbench.run.planning.command import canonical
from kbench.run.results.added_scores import (
    NAMED_SCORES,
    QUANTILE_SCORES,
    SCORE_COLUMNS,
    Predictions,
    added_score,
    check,
    measured_scores,
    quantile_columns,
)
from kbench.run.results.metrics import METRICS

CLUSTERS = {name for name in get_scorer_names() if "cluster" in str(get_scorer(name)._score_func)}
SCORERS = sorted({*get_scorer_names()} - {*SCORE_COLUMNS} - CLUSTERS)


def predicted(model, load):
    """(Predictions, the fitted estimator, X, y) of every other row of a data set."""
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    if load is load_breast_cancer:
        y = 2 * y - 1
    model.fit(X[::2], y[::2])
    task = {load_breast_cancer: "binary", load_digits: "multiclass"}.get(load, "regression")
    return Predictions(task, model, X[1::2], y[1::2], model.predict(X[1::2])), X[1::2], y[1::2]


@pytest.fixture(scope="module")
def fits():
    logistic = LogisticRegression(max_iter=200)
    return [
        predicted(logistic, load_breast_cancer),
        predicted(LogisticRegression(max_iter=200), load_digits),
        predicted(SVC(), load_breast_cancer),
        predicted(Ridge(), load_diabetes),
    ]


@pytest.mark.filterwarnings("ignore")  # scikit-learn's, of scores that are undefined here
@pytest.mark.parametrize("name", SCORERS)
def test_a_scorer_has_the_value_that_it_has_of_the_estimator(fits, name):
    for p, X, y in fits:
        values, reasons = measured_scores([name], p)
        try:
            expected = float(get_scorer(name)(p.estimator, X, y))
        except (ValueError, AttributeError):
            expected = None
        if expected is None or not np.isfinite(expected):
            assert values == {name: None}
            assert reasons[0].startswith(f"no {name}: ")
        else:
            assert values == {name: pytest.approx(expected, rel=1e-9)}
            assert not reasons


def test_named_scores_are_scikit_learn_s(fits):
    for p, X, y in fits[:2]:
        P = p.estimator.predict_proba(X)
        values, reasons = measured_scores(["log_loss", "brier_score", "calibration_error"], p)
        assert values["log_loss"] == pytest.approx(log_loss(y, P))
        if p.task == "binary":
            assert values["brier_score"] == pytest.approx(brier_score_loss(y, P[:, 1]))
        else:
            squares = np.sum((P - np.eye(10)[y]) ** 2, axis=1)
            assert values["brier_score"] == pytest.approx(squares.mean())
        assert values["calibration_error"] == pytest.approx(
            naive_calibration_error(y, P, p.classes)
        )
        assert not reasons
    p, X, y = fits[1]
    scores = p.estimator.decision_function(X)
    for k in (2, 5):
        found, _ = measured_scores([f"top_{k}_accuracy"], p)
        assert found == {f"top_{k}_accuracy": top_k_accuracy_score(y, scores, k=k)}
    p, X, y = fits[3]
    found, _ = measured_scores(["pinball_loss_0.9"], p)
    assert found == {"pinball_loss_0.9": mean_pinball_loss(y, p.labels, alpha=0.9)}


def naive_calibration_error(y, P, classes):
    total = 0.0
    confidence = P.max(axis=1)
    for k in range(15):
        rows = (confidence * 15 >= k) & ((confidence * 15 < k + 1) | (k == 14))
        if rows.any():
            right = (classes[P.argmax(axis=1)] == y)[rows].mean()
            total += rows.mean() * abs(right - confidence[rows].mean())
    return total


def test_a_regressor_of_a_quantile_is_scored_at_its_quantile():
    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.8, max_iter=20)
    p, _, y = predicted(model, load_diabetes)
    found = quantile_columns(p)
    assert found == {
        "pinball": mean_pinball_loss(y, p.labels, alpha=0.8),
        "coverage": np.mean(y <= p.labels),
    }
    values, reasons = measured_scores(["pinball", "coverage_error"], p)
    assert values == {"coverage_error": abs(found["coverage"] - 0.8)}
    assert not reasons


def quantile_regressors():
    """Every regressor of scikit-learn and of kbench that may predict a quantile, at 0.8 of it."""
    ours = [(name, getattr(methods, name)) for name in methods.__all__]
    for _, cls in [*all_estimators("regressor"), *ours]:
        params = inspect.signature(cls).parameters if inspect.isclass(cls) else {}
        kinds = [name for name in ("loss", "strategy") if name in params]
        losses = getattr(cls, "_parameter_constraints", {}).get(kinds[0], []) if kinds else []
        chosen = any("quantile" in getattr(loss, "options", ()) for loss in losses)
        if "quantile" in params or chosen:
            yield (
                cls,
                {"quantile" if "quantile" in params else "alpha": 0.8}
                | ({kinds[0]: "quantile"} if chosen else {}),
            )


@pytest.mark.parametrize(("cls", "params"), list(quantile_regressors()))
def test_the_quantile_is_what_an_estimator_says(cls, params):
    y = np.arange(10.0)
    p = Predictions("regression", cls(**params), None, y, np.full(10, 6.5))
    expected = {"pinball": pytest.approx(mean_pinball_loss(y, p.labels, alpha=0.8))}
    assert quantile_columns(p) == expected | {"coverage": 0.7}
    inside = replace(p, estimator=make_pipeline(StandardScaler(), cls(**params)))
    assert quantile_columns(inside) == quantile_columns(p)
    if len(params) == 2:  # the loss chooses whether the quantile counts
        unused = {name: value for name, value in params.items() if value == 0.8}
        assert quantile_columns(replace(p, estimator=cls(**unused))) == {}


def test_there_are_quantile_regressors_of_each_convention():
    found = {cls.__name__ for cls, _ in quantile_regressors()}
    assert found >= {
        "KernelQuantileRegressor",
        "QuantileRegressor",
        "HistGradientBoostingRegressor",
        "GradientBoostingRegressor",
        "DummyRegressor",
    }


@pytest.mark.parametrize("model", [Ridge(alpha=0.5), KernelQuantileRegressor(quantile=[0.1, 0.9])])
def test_a_regressor_without_a_single_quantile_has_no_such_columns(model):
    p = Predictions("regression", model, None, np.zeros(3), np.zeros(3))
    assert quantile_columns(p) == {}
    assert measured_scores(["coverage_error"], p)[1][0].endswith(
        "predicts no single quantile; "
        "pinball_loss_0.9 scores any method as a prediction of the 0.9-quantile"
    )


def test_the_way_of_a_quantile_from_the_command_to_the_report(here):
    words = ["method=kernel_quantile,ridge", "dataset=diabetes", "method.quantile=0.9"]
    kbench(here, "-m", *words, "keep_model=true")
    rows = pd.read_parquet(here / "results").set_index("method")
    assert rows.loc["ridge", ["pinball", "coverage"]].isna().all()
    found = rows.loc["kernel_quantile"]
    assert 0.8 < found["coverage"] <= 1.0
    assert found["pinball"] < rows.loc["kernel_quantile", "mae"] / 2
    out, _ = kbench(here, "report", "metric=pinball", "columns=coverage,rmse")
    head = next(line for line in out.splitlines() if "pinball loss ↓" in line)
    assert "coverage %" in head
    assert "coverage % ↓" not in head
    out, _ = kbench(here, "predict", f"model={found['key'][:8]}", "out=p.csv", "dataset=diabetes")
    assert f"{'pinball':18} {found['pinball']:.6g}\n" in out
    words = ["tune", "method=kernel_quantile", "dataset=diabetes", "method.C=0.1,100", "tune.cv=2"]
    out, _ = kbench(here, *words, "method.quantile=0.9", "tune.metric=pinball")
    shown = [line.split() for line in out.splitlines()[1:3]]
    assert float(shown[0][0]) < float(shown[1][0])
    _, err = kbench(here, *words, "method.quantile=0.1,0.9", "tune.metric=pinball", check=2)
    assert "method.quantile has several values, should have one" in err
    _, err = kbench(here, *words, "tune.metric=coverage", check=2)
    assert "should be one of rmse, mae, r2, pinball for regression" in err


def test_what_cannot_be_had_is_none_and_has_one_reason(fits):
    values, reasons = measured_scores(["log_loss", "mape", "brier_score", "accuracy"], fits[2][0])
    assert values == dict.fromkeys(["log_loss", "mape", "brier_score"])
    assert reasons == [
        "no log_loss, brier_score: SVC has no probabilities; method.calibration=sigmoid adds them",
        "no mape: it is not a score of classifiers",
    ]


@pytest.mark.parametrize("name", sorted(SCORE_COLUMNS))
def test_a_column_of_another_task_is_said(fits, name):
    for p, *_ in (fits[1], fits[3]):
        own = {spec.name for spec in METRICS[p.task]}
        own |= {score.name for score in QUANTILE_SCORES} if p.task == "regression" else set()
        kind = "regressors" if p.task == "regression" else "classifiers"
        said = [] if name in own else [f"no {name}: it is not a score of {kind}"]
        assert measured_scores([name], p) == ({}, said)


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        *((name, score.direction) for name, score in NAMED_SCORES.items()),
        ("neg_log_loss", "max"),
        ("matthews_corrcoef", "max"),
        ("top_3_accuracy", "max"),
        ("pinball_loss_0.1", "min"),
        ("mine:late_error", "min"),
        ("mine:hinge_loss", "min"),
        ("mine.scores:gain", "max"),
    ],
)
def test_the_name_tells_which_values_are_better(name, direction):
    assert added_score(name).direction == direction


def test_names_of_no_form_or_module_are_one_line():
    with pytest.raises(ConfigError, match="metrics names 'a b'"):
        added_score("a b")
    assert "(nearest: log_loss" in check(["log_los"])
    assert "No module named 'no_such'" in check(["accuracy", "no_such:score"])
    assert "has no attribute 'nothing'" in check(["sklearn.metrics:nothing"])
    assert "which is not a function" in check(["sys:path"])
    assert check(["log_loss", "sklearn.metrics:accuracy_score", "top_2_accuracy"]) is None


@pytest.fixture
def here(tmp_path):
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "mine.py").write_text(
        "def miss_error(y, p):\n    return (y != p).mean()\n"
        "def broken(y, p):\n    raise RuntimeError('broke')\n"
    )
    (tmp_path / "stranger.py").write_text("def score(y, p):\n    return 1.0\n")
    return tmp_path


def kbench(here, *words, check=0):
    modules = {"PYTHONPATH": str(here / "modules")}
    done = harness.kbench(here, *words, check=check, env=modules)
    return done.stdout, done.stderr


def test_the_way_from_the_command_to_the_report(here):
    words = ["-m", "method=svc,knn", "dataset=digits"]
    kbench(here, *words)
    before = pd.read_parquet(here / "results").set_index("method")
    asked = [*words, "metrics=[log_loss,mine:miss_error,mine:broken]"]
    kbench(here, *asked)
    rows = pd.read_parquet(here / "results").query("attempt == 2").set_index("method")
    assert rows["key"].to_dict() == before["key"].to_dict()
    scores = {method: dict(pairs) for method, pairs in rows["scores"].items()}
    assert scores["svc"] == {
        "log_loss": None,
        "mine:miss_error": pytest.approx(rows.loc["svc", "error"]),
        "mine:broken": None,
    }
    assert scores["knn"]["log_loss"] > 0
    assert "no mine:broken: RuntimeError: broke" in rows.loc["knn", "message"]
    assert "nothing to do; 2 done before" in kbench(here, *asked)[0]
    out, _ = kbench(here, "report", "metric=log_loss", "columns=mine:miss_error")
    assert "log_loss ↓" in out
    assert "mine:miss_error ↓" in out
    text, _ = kbench(here, "report", "metric=mine:miss_error", "format=csv")
    found = {line["method"]: line for line in csv.DictReader(io.StringIO(text))}
    assert next(iter(found)) == max(rows.index, key=lambda method: rows.loc[method, "accuracy"])
    assert float(found["knn"]["log_loss"]) == pytest.approx(scores["knn"]["log_loss"])
    assert found["svc"]["log_loss"] == ""


def test_no_code_of_the_working_directory_is_imported(here):
    _, err = kbench(here, "method=knn", "dataset=digits", "metrics=[stranger:score]", check=2)
    assert "No module named 'stranger'" in err
    assert not (here / "results").exists()


def test_a_search_ranks_by_an_added_score(here):
    words = ["method=svc", "dataset=iris", "method.C=0.01,10", "tune.cv=2"]
    out, _ = kbench(here, "tune", *words, "tune.metric=mine:miss_error")
    shown = [line.split() for line in out.splitlines()[1:3]]
    assert [line[-1] for line in shown] == ["10", "0.01"]
    assert float(shown[0][0]) < float(shown[1][0])
    rows = pd.read_parquet(here / "results" / "_tune")
    C10 = rows[[canonical(json.loads(p)["C"]) == "10" for p in rows["params"]]]
    assert float(shown[0][0]) == pytest.approx(C10["error"].mean(), abs=1e-4)
    out, err = kbench(here, "tune", *words, "tune.metric=log_loss", check=1)
    assert "no setting finished every fold" in out
    assert "no score: no log_loss: SVC has no probabilities" in err
