"""Curves of test errors: where they are evaluated, what they hold, that the folder has them."""

import numpy as np
import pandas as pd
import pytest
from harness import rows, run_here

from kbench.run.execution import learning
from kbench.run.execution.learning import LearningCurves


def test_evaluations_are_a_factor_apart_and_end_with_the_machine():
    y = np.ones(4)
    curves = LearningCurves("binary", np.zeros((4, 1)), y)
    asked = []

    def predict(X):
        asked.append(len(X))
        return np.array([1, 1, -1, -1]) if len(asked) < 5 else y

    for samples in range(10, 1001, 10):
        curves.observe(samples / 1000, {"samples": samples, "predict": predict, "loss": 1.0})
    curves.observe(2.0, {"loss": 1.0})
    curves.close(3.0, np.array([1, 1, 1, -1]))
    seconds, samples = curves.curves()
    assert (seconds["curve"], seconds["x_name"]) == ("test_error", "seconds")
    assert (samples["curve"], samples["x_name"]) == ("test_error", "samples")
    assert seconds["value"] == samples["value"]
    assert seconds["value"] == [0.5] * 4 + [0.0] * (len(asked) - 4) + [0.25]
    assert seconds["x"][-1] == 3.0
    assert samples["x"][-1] == 1000
    ratios = np.diff(np.log2(samples["x"][:-1]))
    assert np.all(ratios >= 0.5)
    assert len(asked) <= 1 + 2 * np.log2(100)


def test_regression_has_both_errors_and_a_method_that_shows_nothing_has_none():
    curves = LearningCurves("regression", np.zeros((2, 1)), np.array([0.0, 4.0]))
    curves.observe(0.1, {"samples": 1, "predict": lambda X: np.array([0.0, 0.0])})
    assert {curve["curve"]: curve["value"] for curve in curves.curves()} == {
        "test_rmse": [pytest.approx(8**0.5)],
        "test_mae": [2.0],
    }
    silent = LearningCurves("binary", np.zeros((2, 1)), np.ones(2))
    silent.observe(0.1, {"objective": 1.0})
    silent.close(1.0, np.ones(2))
    assert silent.curves() == []


def test_curves_of_many_test_rows_take_some_of_them_at_equal_distances(monkeypatch):
    monkeypatch.setattr(learning, "_CURVE_ROWS", 4)
    X, y = np.arange(10.0)[:, None], np.where(np.arange(10) < 5, -1, 1)
    curves = LearningCurves("binary", X, y)
    seen = []

    def predict(X):
        seen.extend(X[:, 0])
        return np.ones(len(X))

    curves.observe(0.1, {"samples": 1, "predict": predict})
    curves.close(1.0, np.where(np.arange(10) == 2, 1, y))
    assert seen == [0.0, 2.0, 5.0, 7.0]
    assert curves.curves()[0]["value"] == [0.5, 0.25]


def test_a_run_keeps_its_curves_and_ends_at_the_error_of_its_row(tmp_path):
    run_here(tmp_path, "method=r_pegasos", "method.n_epochs=1", "dataset=digits", check=0)
    row = rows(tmp_path).iloc[0]
    curves = pd.read_parquet(tmp_path / "results" / "_curves")
    error = curves[curves["curve"] == "test_error"]
    assert set(error["x_name"]) == {"seconds", "samples"}
    last = error[error["x_name"] == "seconds"].iloc[-1]
    assert last["value"] == row["error"]
    assert last["x"] == row["fit_wall_s"]
    assert error[error["x_name"] == "samples"]["x"].max() == row["n_train"]
    assert len(error) / 2 > 5
