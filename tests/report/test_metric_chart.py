"""Charts of a learned metric: what is drawn is what the metric says."""

import re

import numpy as np
import pytest

from kbench.metric import LearnedMetric
from kbench.report import draw_metric


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * [1.0, 10.0, 0.1, 1.0, 1.0]
    return X, np.sin(X[:, 0] + X[:, 1] / 10.0) + 0.2 * X[:, 2]


def test_the_diagonal_is_drawn_with_the_most_important_feature_on_top(problem):
    metric = LearnedMetric("diagonal", n_rounds=1, random_state=0).fit(*problem)
    text = draw_metric(metric, list("abcde"))
    names = re.findall(r"<title>(\w): ([\d.]+) %</title>", text)
    assert {names[-1][0], names[-2][0]} == {"a", "b"}
    assert sum(float(percent) for _, percent in names) == pytest.approx(100.0, abs=0.5)
    assert text == draw_metric(metric, list("abcde"))
    with pytest.raises(ValueError, match="2 names for 5 features"):
        draw_metric(metric, ["a", "b"])


def test_a_full_metric_has_directions_whose_cells_add_up(problem):
    metric = LearnedMetric("full", n_rounds=1, random_state=0).fit(*problem)
    text = draw_metric(metric)
    cells = [int(cell) for cell in re.findall(r'class="x head"[^>]*>(\d+)</text>', text)]
    assert sum(cells) == pytest.approx(100.0 * len(cells) / 5, abs=2.0 * len(cells) / 5)
