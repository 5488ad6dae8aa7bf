"""The search of a self-tuning estimator: what a run stores of it, and what a page draws."""

import re

import numpy as np
import pytest
from bundle import details
from report_rows import make_row
from sklearn.datasets import make_moons

from kbench.methods import TunedKernelRidge, TunedKernelSVC
from kbench.report import make_report
from kbench.report.charts.search_chart import searches
from kbench.run.results.folder import Curve, ResultsFolder
from kbench.trace import Trace


def curves_of(machine, X, y):
    """The curves that the worker makes of what a fit reports."""
    found = {}

    def look(seconds, state):
        for name, value in state.items():
            if isinstance(value, (int, float)):
                found.setdefault(name, []).append(float(value))

    machine.fit(X, y, trace=Trace(look))
    return [
        Curve(curve=name, x_name="seconds", x=[0.0] * len(values), value=values)
        for name, values in found.items()
    ]


@pytest.mark.parametrize("cls", [TunedKernelSVC, TunedKernelRidge])
def test_the_points_of_a_page_are_those_of_the_search(tmp_path, cls):
    X, y = make_moons(80, noise=0.3, random_state=0)
    machine = cls(random_state=0)
    folder = ResultsFolder(tmp_path / "results")
    folder.write(make_row("tuned", 0.9), curves_of(machine, X, y))
    folder.write(make_row("svc", 0.8))
    (search,) = searches(folder.read_curves(reference=False)).values()
    results = machine.search_results_
    penalty = "C" if cls is TunedKernelSVC else "alpha"
    assert search.penalty == penalty
    assert search.chosen == (machine.gamma_, getattr(machine, f"{penalty}_"))
    tried = set(zip(results["gamma"], results[penalty], strict=True))
    assert {point[:2] for point in search.points} == tried
    assert {point.error for point in search.points} <= set(results["error"])

    text = details(make_report(folder, format="html"))
    (chart,) = [part for part in text.split("<svg") if "held-out error of tuned" in part]
    assert chart.count("<title>") == len(tried)
    # The lowest error has the darkest mark.
    marks = re.findall(r'fill-opacity="([\d.]+)"><title>[^<]*error (\S+) with', chart)
    opacities, errors = np.array(marks, float).T
    assert errors[opacities.argmax()] == pytest.approx(errors.min())


def test_rows_that_lack_the_points_have_no_chart(tmp_path):
    folder = ResultsFolder(tmp_path / "results")
    seconds = {"x_name": "seconds", "x": [0.1]}
    old = [
        Curve(curve=name, value=[0.5], **seconds)
        for name in ("gamma", "C", "validation_error", "chosen_gamma", "chosen_C")
    ]
    folder.write(make_row("tuned_svc", 0.9), old)
    assert "of the search" not in details(make_report(folder, format="html"))
