"""Runs that are stopped: LIBSVM in its fit and in its prediction, and a fit with evaluations."""

import re

import pytest
from harness import furnish, kbench, rows

from kbench.run.results.stopped import least_fit_s, stopped_at

# Every training row is a support vector, of which a prediction evaluates all.
SLOW_PREDICTION = ["dataset=covtype_like", "dataset.n=3000", "dataset.n_test=100000"]


@pytest.mark.parametrize(
    ("words", "stage", "least", "most"),
    [
        (["method=svc", "dataset=covtype_like", "method.gamma=1000"], "fit", 0.1, 2.2),
        (["method=svc", "method.gamma=1000", *SLOW_PREDICTION], "predict", 0.1, 1.9),
        # Half of its seconds are evaluations, which are not of the fit.
        (["method=is_evaluated", "dataset=digits"], "fit", 0.1, 1.2),
    ],
)
def test_a_stopped_run_tells_its_stage_and_the_cpu_seconds_of_its_fit(
    tmp_path, words, stage, least, most
):
    kbench(furnish(tmp_path), *words, "limits.wall_s=2", check=1)
    row = rows(tmp_path).iloc[0]
    assert row["status"] == "timeout"
    assert re.search(rf"limits\.wall_s=2, stopped in {stage} after", row["message"])
    assert stopped_at(row) == 2.0
    assert least <= least_fit_s(row) <= most
