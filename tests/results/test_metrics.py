"""The scores are scikit-learn's."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from kbench.run.metrics import METRICS, score

FINITE = st.floats(-1e6, 1e6)


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(*[st.sampled_from([-1, 1])] * 2), min_size=1, max_size=30))
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_binary(pairs):
    true, predicted = np.array(pairs).T
    assert score("binary", true, predicted) == pytest.approx(
        {
            "accuracy": sk.accuracy_score(true, predicted),
            "error": sk.zero_one_loss(true, predicted),
            "balanced_accuracy": sk.balanced_accuracy_score(true, predicted),
            "f1": sk.f1_score(true, predicted, zero_division=0.0),
        }
    )


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(*[st.integers(0, 5)] * 2), min_size=1, max_size=40))
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_multiclass(pairs):
    true, predicted = np.array(pairs).T
    assert score("multiclass", true, predicted) == pytest.approx(
        {
            "accuracy": sk.accuracy_score(true, predicted),
            "error": sk.zero_one_loss(true, predicted),
            "balanced_accuracy": sk.balanced_accuracy_score(true, predicted),
            "f1": sk.f1_score(true, predicted, average="macro", zero_division=0.0),
        }
    )


@settings(deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(-1000, 1000), FINITE), min_size=2, max_size=30))
def test_regression(pairs):
    true, predicted = np.array(pairs).T
    assert score("regression", true, predicted) == pytest.approx(
        {
            "rmse": sk.root_mean_squared_error(true, predicted),
            "mae": sk.mean_absolute_error(true, predicted),
            "r2": sk.r2_score(true, predicted),
        },
        rel=1e-9,
    )


def test_float32_predictions_are_averaged_in_float64():
    rng = np.random.default_rng(0)
    true = rng.normal(size=10**6)
    predicted = (true + 1e-3).astype(np.float32)
    exact = math.sqrt(math.fsum((predicted.astype(float) - true) ** 2) / len(true))
    assert score("regression", true, predicted)["rmse"] == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_prediction_that_is_no_number_has_no_score(bad):
    with pytest.raises(ValueError, match="1 of 2 predictions"):
        score("regression", np.zeros(2), np.array([0.0, bad]))
    with pytest.raises(ValueError, match="1 of 2 predictions"):
        score("binary", np.ones(2, int), np.array([1.0, bad]))


def test_predictions_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(2, 1\)"):
        score("binary", np.ones(2), np.ones((2, 1)))


def test_constant_target():
    true = np.full(10, 0.1)
    assert score("regression", true, true)["r2"] == 1.0
    assert score("regression", true, true + 1.0)["r2"] == 0.0


def test_directions():
    lower = {"error", "rmse", "mae"}
    for specs in METRICS.values():
        assert {spec.name for spec in specs if spec.direction == "min"} <= lower
        assert not {spec.name for spec in specs if spec.direction == "max"} & lower
