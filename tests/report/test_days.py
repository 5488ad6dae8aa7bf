"""Seconds of different days in one table."""

import datetime

import pytest
from report_rows import START, make_row

from kbench.report import COMPARE_FORMATS, make_comparison, make_ranking, make_report, plot
from kbench.report.statistics.days import Days


def run(method, seconds, days=0, seed=0, **changes):
    began = START + datetime.timedelta(days=days)
    return make_row(
        method, 0.9, seed, fit_wall_s=seconds, fit_cpu_s=seconds, started_at=began, **changes
    )


FIRST, SECOND = (f"{START + datetime.timedelta(days=days):%Y-%m-%d}" for days in (0, 1))
# Two settings ran on both days, in half of the seconds on the second; `knn` on the second alone.
ROWS = [
    *(run("svc", 4.0, dataset=name) for name in ("a", "b")),
    *(run("svc", 2.0, days=1, seed=1, dataset=name) for name in ("a", "b")),
    run("mlp", 9.0, dataset="a"),
    run("knn", 1.0, days=1, dataset="b"),
]
SAID = (
    f"Seconds of different days: most are of {FIRST}; on {SECOND} fits took 0.50 x (median of 2"
    " equal settings, 10-90 %: 0.50 to 0.50) as long."
)


@pytest.mark.parametrize("format", ["terminal", "markdown", "latex", "html"])
def test_a_table_of_several_days_says_so(folder, format):
    text = make_report(folder(*ROWS), format=format, out=None)
    if format == "html":  # what is not packed: the environment's days
        assert f"{SECOND} (3 runs, 0.50 x" in text
        return
    if format == "latex":
        assert "Seconds of different days" in text
        return
    whole = " ".join(text.split())
    assert f"{SAID} Means and ± of seconds mix days: svc." in whole


@pytest.mark.parametrize("format", [name for name in COMPARE_FORMATS if name != "csv"])
def test_a_comparison_of_seconds_says_so_and_one_of_scores_does_not(folder, format):
    rows = [*ROWS, run("knn", 1.0, days=1, seed=1, dataset="a")]
    shown = {
        metric: make_comparison(folder(*rows), methods=["svc", "knn"], metric=metric, format=format)
        for metric in ("fit_s", "accuracy")
    }
    assert "Seconds of different days" in shown["fit_s"]
    assert "different days" not in shown["accuracy"]


def test_so_do_rankings_and_plots(folder):
    rows = [{**row, "experiment": "tables", "task": "binary"} for row in ROWS]
    made = folder(*rows)
    assert SAID in " ".join(make_ranking(made, reference=False).split())
    (legend,) = plot(made, x="fit_wall_s").legends
    assert SAID in " ".join(legend.get_title().get_text().split())


WHOLE = {"variant": None, "source_sha256": None}


def test_only_equal_settings_are_compared():
    changes = ({"source_sha256": "s"}, {"params": '{"C": 2}'}, {"n_train": 10}, {"jobs": 2})
    for change in changes:
        days = Days([run("svc", 4.0, **WHOLE), run("svc", 1.0, days=1, **{**WHOLE, **change})])
        assert days.factor(("0a1b2c3d", 1), SECOND, FIRST) is None
    rows = [run("svc", 4.0, **WHOLE), run("knn", 1.0, days=1, **WHOLE)]
    assert Days(rows).remark(rows).endswith(f"on {SECOND} no setting ran on both days.")
    assert Days(rows).remark(rows[:1]) == ""
