"""Reliability curves: what the worker stores of probabilities, and what a page draws of it."""

import json

import numpy as np
import pytest
from bundle import details
from report_rows import make_row
from sklearn.calibration import calibration_curve

from kbench.report import make_report
from kbench.run.results.folder import Curve, ResultsFolder
from kbench.run.results.metrics import reliability


def test_groups_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=2000)
    y = np.array([rng.choice(3, p=row) for row in P])
    right, rows = reliability(y, P, np.arange(3))
    fractions, means = calibration_curve(P.argmax(1) == y, P.max(1), n_bins=15)
    np.testing.assert_allclose(right["x"], means)
    np.testing.assert_allclose(right["value"], fractions)
    assert right["x"] == rows["x"]
    assert sum(rows["value"]) == pytest.approx(1.0)
    # The labels were drawn with these probabilities.
    distance = np.abs(np.subtract(right["x"], right["value"])) @ rows["value"]
    assert distance < 0.04


def test_the_mean_over_the_groups_is_the_accuracy():
    P = np.array([[1.0, 0.0], [0.9, 0.1], [0.2, 0.8], [0.45, 0.55]])
    right, rows = reliability(np.array(["a", "b", "b", "b"]), P, np.array(["a", "b"]))
    assert np.dot(right["value"], rows["value"]) == pytest.approx(0.75)


@pytest.mark.parametrize("P", [np.full((4, 2), np.nan), np.ones((4, 3)), np.ones(4)])
def test_what_is_no_probability_has_no_curve(P):
    assert reliability(np.zeros(4), P, np.array([0, 1])) == []


def test_a_page_draws_the_curve_of_each_method_that_has_one(tmp_path):
    folder = ResultsFolder(tmp_path / "results")
    points = {"x_name": "confidence", "x": [0.55, 0.95]}
    curves = [
        Curve(curve="accuracy", value=[0.5, 1.0], **points),
        Curve(curve="rows", value=[0.25, 0.75], **points),
    ]
    folder.write(make_row("svc", 0.875), curves)
    better = make_row("knn", 0.9, params=json.dumps({"k": 1}))
    folder.write(better, curves)
    folder.write(make_row("knn", 0.8, params=json.dumps({"k": 9})), curves)
    folder.write(make_row("lasvm", 0.7))
    text = details(make_report(folder, format="html"))
    (chart,) = [part for part in text.split("<svg") if "against the probability" in part]
    assert chart.count('class="mark') == 4
    assert chart.count("expected calibration error 0.0500") == 4
    assert "knn k=1: 1.000 right of 75.0 % of the rows" in chart
    assert "k=9" not in chart


def test_a_page_without_probabilities_has_no_such_chart(folder):
    assert "right predictions" not in details(
        make_report(folder(make_row("svc", 0.9)), format="html")
    )
