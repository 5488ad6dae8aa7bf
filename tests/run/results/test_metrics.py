"""The scores are scikit-learn's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from kbench.run.results.metrics import (
    METRICS,
    RANKINGS,
    class_scores,
    rank_outliers,
    ranking_scores,
    score,
)

FINITE = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("task", "labels", "average"),
    [("binary", [-1, 1], "binary"), ("multiclass", list(range(6)), "macro")],
)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_classes(data, task, labels, average):
    pairs = st.lists(st.tuples(*[st.sampled_from(labels)] * 2), min_size=1, max_size=40)
    true, predicted = np.array(data.draw(pairs)).T
    assert score(task, true, predicted) == pytest.approx(
        {
            "accuracy": sk.accuracy_score(true, predicted),
            "error": sk.zero_one_loss(true, predicted),
            "balanced_accuracy": sk.balanced_accuracy_score(true, predicted),
            "f1": sk.f1_score(true, predicted, average=average, zero_division=0.0),
        }
    )


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


# Few values, so that most of them are ties.
TIED = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1e9])


@given(rows=st.lists(st.tuples(st.sampled_from([-1, 1]), st.one_of(TIED, FINITE)), min_size=2))
def test_rankings_of_two_classes(rows):
    true, scores = np.array([y for y, _ in rows]), np.array([s for _, s in rows])
    found = ranking_scores(true, scores, np.array([-1, 1]))
    if len(set(true)) == 1:
        assert found == {"roc_auc": None, "average_precision": None}
        return
    assert found == pytest.approx(
        {
            "roc_auc": sk.roc_auc_score(true, scores),
            "average_precision": sk.average_precision_score(true, scores),
        }
    )
    probabilities = np.column_stack([1.0 - scores, scores])
    assert ranking_scores(true, probabilities, np.array([-1, 1])) == pytest.approx(found)


@given(data=st.data(), n=st.integers(6, 40))
def test_rankings_of_several_classes_are_macro_one_vs_rest(data, n):
    classes = np.array([2, 5, 9])
    extra = data.draw(st.lists(st.sampled_from(classes.tolist()), min_size=n - 3, max_size=n - 3))
    true = np.array([*classes.tolist(), *extra])
    weights = data.draw(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=n, max_size=n))
    scores = np.array(weights, float) / np.sum(weights, axis=1, keepdims=True)
    one_hot = true[:, None] == classes
    assert ranking_scores(true, scores, classes) == pytest.approx(
        {
            "roc_auc": sk.roc_auc_score(true, scores, multi_class="ovr", average="macro"),
            "average_precision": sk.average_precision_score(one_hot, scores, average="macro"),
        }
    )


def test_rankings_leave_out_a_class_that_does_not_occur():
    true = np.array([0, 0, 1, 1])
    scores = np.array([[0.6, 0.1, 0.3], [0.2, 0.7, 0.1], [0.3, 0.4, 0.3], [0.1, 0.8, 0.1]])
    expected = np.mean([sk.roc_auc_score(true == k, scores[:, k]) for k in (0, 1)])
    assert ranking_scores(true, scores, np.arange(3))["roc_auc"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("true", "scores", "classes"),
    [
        ([1, 1], [0.1, 0.2], [-1, 1]),
        ([-1, 1], [0.1, np.nan], [-1, 1]),
        ([-1, 1], None, [-1, 1]),
        ([0, 1, 3], np.eye(3), [0, 1, 2]),
        ([0, 1, 2], np.eye(3)[:, :2], [0, 1, 2]),
    ],
)
def test_rankings_that_are_undefined_are_null(true, scores, classes):
    scores = None if scores is None else np.array(scores)
    found = ranking_scores(np.array(true), scores, np.array(classes))
    assert found == dict.fromkeys((spec.name for spec in RANKINGS), None)


class Detector:
    """Its decision values are the first column of the rows."""

    def decision_function(self, X):
        return X[:, 0]


def test_outliers_are_the_positive_rows_and_score_low():
    true, values = np.array([-1, 1, -1, 1, 1]), np.array([0.5, 0.25, -1.0, 0.5, 2.0])
    found = rank_outliers(Detector(), values[:, None], true)
    assert found == pytest.approx(
        {
            "roc_auc": sk.roc_auc_score(true == -1, -values),
            "average_precision": sk.average_precision_score(true == -1, -values),
        }
    )
    assert set(found) == {spec.name for spec in METRICS["outlier"]}
    assert score("outlier", true, true) == {}


def test_outliers_without_finite_decision_values_have_no_score():
    true = np.array([-1, 1])
    with pytest.raises(ValueError, match="1 of 2 decision values are NaN or infinite"):
        rank_outliers(Detector(), np.array([[np.nan], [0.0]]), true)
    with pytest.raises(ValueError, match="object has no decision_function"):
        rank_outliers(object(), np.zeros((2, 1)), true)


def test_scores_are_decision_values_or_else_probabilities_of_classes():
    from sklearn.naive_bayes import GaussianNB
    from sklearn.svm import SVC

    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 3
    model = SVC().fit(X, y)
    np.testing.assert_array_equal(class_scores(model, X), model.decision_function(X))
    bayes = GaussianNB().fit(X, y)
    np.testing.assert_array_equal(class_scores(bayes, X), bayes.predict_proba(X))
    # Three pairs of three classes have the shape of three classes.
    assert class_scores(SVC(decision_function_shape="ovo").fit(X, y), X) is None
