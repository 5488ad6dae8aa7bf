"""Comparisons are fair or not made, and the text says what it shows."""

import csv
import datetime
import io
import json
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_rows import START, failed, make_row

from kbench.errors import ConfigError
from kbench.report import make_report, write_report
from kbench.report.comparisons.cells import grid
from kbench.report.comparisons.quantities import decimals_for
from kbench.report.comparisons.tables import comparisons, measured
from kbench.report.text.terminal import takes_colour
from kbench.run.results.folder import ResultsFolder
from kbench.run.results.rows import schema


def compare(*rows):
    """Comparisons of rows as they come out of a folder, every column present."""
    empty = {**dict.fromkeys(schema().names), "origin": "own"}
    return comparisons([{**empty, **row} for row in rows])


@pytest.fixture
def report(folder):
    """Write rows, return the report."""
    return lambda *rows, **options: make_report(folder(*rows), **{"width": 120, **options})


def line(text, method):
    (found,) = [
        one for one in text.splitlines() if re.match(rf"{method}\W", one) and "debug" not in one
    ]
    return found


def lines_of_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_mean_and_spread_are_over_seeds(report):
    values = [0.9, 0.95, 0.99]
    rows = [
        make_row("svc", value, seed, fit_wall_s=seed + 1.0) for seed, value in enumerate(values)
    ]
    text = report(*rows)
    sd = statistics.stdev(values)
    assert f"{100 * statistics.mean(values):.2f} ± {100 * sd:.2f}" in line(text, "svc")
    assert "2.00 ± 1.00" in line(text, "svc")
    assert "mean ± standard deviation over seeds" in text
    (cell,) = lines_of_csv(report(format="csv"))
    assert float(cell["accuracy_sd"]) == pytest.approx(sd)
    assert (cell["runs"], cell["ok"], cell["predict_wall_s"]) == ("3", "3", "")


def test_one_seed_has_no_spread(report):
    assert "±" not in report(make_row("svc", 0.9))


def test_settings_are_never_averaged(report):
    rows = [
        make_row("svc", accuracy, seed, params=json.dumps({"C": c, "tol": 0.1}))
        for c, accuracy in ((1.0, 0.5), (32.0, 0.75))
        for seed in (0, 1)
    ]
    text = report(*rows)
    assert "50.00 ± 0.00" in line(text, "svc C=1 ")
    assert "75.00 ± 0.00" in line(text, "svc C=32 ")
    assert "tol" not in text


def test_a_random_state_that_is_the_seed_is_no_setting(report):
    rows = [make_row("m", 0.5, s, params=json.dumps({"random_state": s})) for s in range(3)]
    assert line(report(*rows), "m").endswith(" 3")


def test_many_settings_are_counted_and_the_selection_is_stated(report):
    rows = [make_row("svc", c / 100, params=json.dumps({"C": c})) for c in range(1, 41)]
    text = report(*rows, make_row("dummy", 0.1), settings=3)
    assert [c for c in range(1, 41) if f"svc C={c} " in text] == [38, 39, 40]
    flat = " ".join(text.split())
    assert "Only the 3 settings of best test accuracy are shown of svc (40)" in flat
    assert "picked on the test set" in flat
    assert len(lines_of_csv(report(format="csv"))) == 41


@pytest.mark.parametrize(
    "other", [{"environment": "ffffffff"}, {"threads": 2}, {"jobs": 4}], ids=lambda o: next(iter(o))
)
def test_times_of_two_machines_never_share_a_table(report, other):
    rows = [make_row("svc", 0.9), make_row("knn", 0.8, **other)]
    found = compare(*rows)
    methods = [[one.method for one in comparison.lines] for comparison in found]
    assert sorted(methods) == [["knn"], ["svc"]]
    text = report(*rows)
    assert text.count("method ") == 2
    assert text.count("digits: multiclass") == 1


@pytest.mark.parametrize(
    "other",
    [
        {"n_train": 999},
        {"variant": "raw"},
        {"data_sha256": "d2"},
        {"dataset": "usps"},
        {"n_features": 9},
    ],
    ids=lambda o: next(iter(o)),
)
def test_different_problems_are_not_compared(report, other):
    text = report(make_row("svc", 0.9), make_row("knn", 0.8, **other))
    assert text.count("method ") == 2
    assert "*" not in text.split("* best")[0]


def test_failed_cells_show_their_status(report):
    text = report(
        make_row("svc", 0.9),
        failed("svc", "timeout", seed=1, message="more than 2 s"),
        failed("mlp", "memory"),
        failed("mlp", "memory", seed=1),
    )
    assert text.count("method ") == 1  # no sizes known, but only one problem they can belong to
    assert line(text, "svc").endswith("1 of 2 ok")
    assert re.search(r"mlp +memory +0 of 2 ok", text)
    assert re.search(r"svc timeout: more than 2 s \(kbench debug [0-9a-f]{10}\)", text)
    assert "nan" not in text.lower()
    assert "None" not in text


def test_failures_of_unknown_size_stand_alone(report):
    rows = [make_row("svc", 0.9), make_row("svc", 0.8, n_train=50), failed("mlp", "error")]
    text = report(*rows)
    assert text.count("method ") == 3
    assert "sizes unknown" in text


def test_a_seed_counts_once(report):
    old = failed("svc", "timeout", command="limits.wall_s=2")
    new = make_row("svc", 0.9, started_at=START - datetime.timedelta(days=1))
    text = report(old, new)
    assert line(text, "svc").endswith(" 1")
    assert "Set aside: 1 further run of these seeds" in text


def test_best_is_marked_by_its_direction_and_ties_read_alike(report):
    text = report(
        make_row("svc", 0.90001, fit_wall_s=2.0),
        make_row("knn", 0.90002, fit_wall_s=1.0),
        make_row("mlp", 0.8, fit_wall_s=3.0),
    )
    assert text.count("*90.00") == 2
    assert "*1.00" in line(text, "knn")
    assert "*" not in line(text, "mlp")
    assert "**90.00**" in report(format="markdown")


def test_regression_is_ranked_by_smallest_error(report):
    rows = [
        make_row(name, None, task="regression", rmse=value, n_classes=None)
        for name, value in (("svr", 3.25), ("ridge", 2.5))
    ]
    text = report(*rows)
    assert "RMSE ↓" in text
    assert text.index("ridge") < text.index("svr")
    assert "*2.500" in line(text, "ridge")


def test_runs_that_did_not_converge_are_reported(report):
    text = report(make_row("svc", 0.9, converged=True), make_row("mlp", 0.8, converged=False))
    assert "Stopped before convergence: mlp (1 of 1)." in text


def test_reference_rows_are_marked(tmp_path, report):
    ResultsFolder(tmp_path / "results" / "_reference").write(make_row("dcsvm", 0.9))
    assert "dcsvm" not in report(make_row("svc", 0.8))
    text = report(reference=True)
    assert line(text, "dcsvm†")
    assert "†" not in line(text, "svc")
    assert "reference rows" in text


def test_data_sets_with_reference_rows_alone_are_listed(tmp_path, report):
    given = ResultsFolder(tmp_path / "results" / "_reference")
    for k in range(21):
        given.write(make_row("dcsvm", 0.9, dataset=f"set_{k}", data_sha256=f"r{k}"))
    text = report(make_row("svc", 0.8), reference=True)
    assert line(text, "svc")
    assert "tables of one of these 21 data sets with only reference rows" in text
    assert line(text, "set_7").split() == ["set_7", "1", "method"]
    assert "dcsvm†" in report(reference=True, datasets=["set_7"])
    text = report(reference=True, methods=["dcsvm"])
    assert text.count("dcsvm†") == 21


def test_losses_of_two_quantiles_are_said_not_to_compare(report):
    rows = [
        make_row("q", 0.1, params=f'{{"quantile": {quantile}}}', task="regression", pinball=0.1)
        for quantile in (0.1, 0.9)
    ]
    assert "at different quantiles (0.1, 0.9): their" in report(*rows, metric="pinball")


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_lines_fit_the_terminal_and_dropped_columns_are_named(report, width):
    costs = ["predict_wall_s", "prediction_cost", "fit_cpu_s"]
    rows = []
    for seed in (1, 2):
        told = {**dict.fromkeys(costs, 1.5 * seed), "peak_bytes": 10**8, "model_bytes": 1}
        rows += [make_row(f"method_{i}", 0.9, seed, **told) for i in range(4)]
    text = report(*rows, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("\n\n") == 1  # only between the table and the legend
    assert ("model MB" in text.splitlines()[2]) != ("too wide:" in " ".join(text.split()))


@pytest.mark.parametrize("width", [30, 40, 60, 90])
def test_a_table_without_room_keeps_every_score(report, width):
    rows = [
        make_row("kernel_svc", 0.111 * k, params=json.dumps({"C": 10.0**k, "gamma": 0.12345 * k}))
        for k in range(1, 5)
    ]
    rows.append(make_row("a_method_of_a_very_long_name", 0.5, params=json.dumps({"C": 1e9})))
    text = report(*rows, width=width)
    assert max(map(len, text.splitlines())) <= width
    body = text[text.index("---\n") :]
    for k in range(1, 5):
        at = body.index(f"{11.1 * k:.2f}")
        assert f"gamma={0.12345 * k:g}" in body[max(at - 60, 0) : at + 120]
    assert "50.00" in body


def test_the_table_says_what_differs_between_problems_and_what_runs_warned_of(report):
    rows = [
        make_row("svc", 0.9, params='{"C": 1.0, "cache_size": 200}'),
        make_row("kernel_svc", 0.8, params='{"C": 10.0, "cache_size": 100}', message="C is large"),
    ]
    text = report(*rows)
    assert "Compared at different C: 1 (svc); 10 (kernel_svc)." in text
    assert "cache_size" not in text
    assert "kernel_svc, 1 run: C is large" in text
    assert "different" not in report(methods=["svc"])


def test_ratios_of_disturbed_wall_seconds_are_left_out_with_them(report):
    costs = {"prediction_cost": 2029.0, "predict_wall_s": 1.0}
    rows = [make_row("svc", 0.9, other_cpus=1.5, **costs)]
    assert "2029" not in report(*rows)
    assert "2029" in report(make_row("knn", 0.9, other_cpus=0.0, **costs))


def test_filters(report):
    rows = [make_row("svc", 0.9), make_row("knn", 0.8), make_row("svc", 0.7, dataset="usps")]
    text = report(*rows, methods=["svc"], datasets=["digits"])
    assert "knn" not in text
    assert "usps" not in text
    with pytest.raises(ConfigError, match=r"'scv' \(nearest: svc\); rows have: knn, svc"):
        report(methods=["scv"])
    with pytest.raises(ConfigError, match="format=pdf"):
        report(format="pdf")


def test_what_no_run_has_measured_is_refused(report):
    rows = [make_row("svc", 0.9)]
    for options, said in (
        ({"metric": "rmse"}, r"metric=rmse: no row has this column; .* accuracy$"),
        ({"metric": "log_loss"}, r"no row has this score; metrics=\[log_loss\]"),
        ({"metric": "coverage"}, r"neither more nor less .*; metrics=\[coverage_error\]"),
        ({"columns": ["fit_s", "kernel_error"]}, "columns=kernel_error: no row has this column"),
        ({"columns": ["started_at"]}, "it is not a measured value"),
    ):
        with pytest.raises(ConfigError, match=said):
            report(*rows, **options)


def test_an_empty_folder_says_what_to_run(folder, report):
    for format in ("terminal", "markdown"):
        assert "kbench -m experiment=" in report(format=format)
    assert lines_of_csv(report(format="csv")) == []
    assert not folder().path.exists()


def test_damaged_files_are_named(tmp_path, report, caplog):
    report(make_row("svc", 0.9))
    (tmp_path / "results" / "bad.parquet").write_text("x")
    assert "bad.parquet: skipped" in report()
    assert "bad.parquet" not in report(format="csv")
    assert "bad.parquet: skipped" in caplog.text


def test_files_are_the_same_from_the_same_rows(tmp_path, report):
    same = [make_row("knn", 0.7, seed) for seed in range(3)]  # started at the same moment
    report(make_row("svc", 0.9), make_row("a_b", 0.8), failed("mlp", "error"), *same)
    folder = ResultsFolder(tmp_path / "results")
    paths = write_report(folder)
    names = ["index.html", "index.details.js", "index.md", "tables.tex", "comparisons.csv"]
    names += ["papers.md", "papers.tex", "papers.csv", "claims.csv"]
    assert [path.name for path in paths] == names
    before = [path.read_bytes() for path in paths]
    folder.merge()
    assert write_report(folder) == paths
    assert [path.read_bytes() for path in paths] == before
    page = (tmp_path / "results" / "_report" / "index.md").read_text()
    assert "| a\\_b | 80.00 |" in page
    rows = [one for one in page.splitlines() if one.startswith("|")]
    assert len({one.count("|") for one in rows}) == 1


def test_trials_of_a_tuning_take_part_when_asked_for(report):
    text = report(make_row("svc", 0.9), make_row("svc", 0.8, variant="tune-cv5"))
    assert "tune" not in text
    assert "digits (tune-cv5)" in report(trials=True)


def test_another_metric_leads_where_it_was_measured(report):
    rows = [
        make_row("svc", 0.9, f1=0.25, roc_auc=0.75),
        make_row("knn", 0.8, f1=0.5),
        make_row("ridge", None, dataset="cadata", task="regression", rmse=2.5),
    ]
    text = report(*rows, metric="f1", columns=["roc_auc", "accuracy"])
    table = text[text.index("digits:") :]
    assert table.index("knn") < table.index("svc")
    assert "*0.5000" in line(table, "knn")
    assert " ".join(table.splitlines()[2].split()) == "method F1 ↑ ROC AUC ↑ accuracy % ↑ runs"
    assert "RMSE ↓" in text
    with pytest.raises(ConfigError, match=r"metric names 'auc'.*roc_auc"):
        report(metric="auc")
    with pytest.raises(ConfigError, match=r"columns names 'acuracy' .nearest: accuracy"):
        report(columns=["acuracy"])


@pytest.mark.parametrize("width", [30, 60, 160])
def test_colours_do_not_change_the_text(report, width):
    rows = [
        make_row(f"method_{i}", 0.8 + i / 100, seed, peak_bytes=10**8, params=json.dumps({"C": i}))
        for i in range(3)
        for seed in (1, 2)
    ]
    rows += [failed("mlp", "timeout", message="more than 2 s"), make_row("knn", 0.1)]
    plain = report(*rows, width=width)
    painted = report(width=width, colour=True)
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
    assert painted.count("\x1b[0m") == painted.count("\x1b[") / 2
    if width > 30:
        assert "\x1b[31mtimeout\x1b[0m" in painted
        assert re.search(r"\x1b\[1;32m\*82\.00 ± 0\.00", painted)


@pytest.mark.parametrize(
    ("tty", "environ", "expected"),
    [
        (True, {"TERM": "xterm-256color"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_where_there_are_colours(tty, environ, expected):
    stream = io.StringIO()
    stream.isatty = lambda: tty
    assert takes_colour(stream, environ) is expected


def test_environment_is_described(tmp_path, report):
    folder = ResultsFolder(tmp_path / "results")
    name = folder.store_environment({"cpu": "Abacus 3", "cores": 2, "ram_gib": 8, "os": "Debian"})
    text = report(make_row("svc", 0.9, environment=name))
    assert f"Abacus 3, 2 cores, 8 GiB, Debian; 1 thread; environment {name}" in text


@given(value=st.floats(1e-6, 1e12), digits=st.integers(1, 5))
def test_rounding_keeps_significant_digits(value, digits):
    text = f"{value:.{decimals_for(value, digits)}f}"
    assert float(text) == pytest.approx(value, rel=0.501 * 10.0 ** (1 - digits), abs=5.1e-7)
    if "." in text:  # at most one more than asked, where rounding carries (0.0999 to 0.100)
        assert len(text.replace(".", "").lstrip("0")) <= digits + 1


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=6))
def test_grid_is_rectangular_and_best_is_never_beaten(values):
    rows = [make_row(f"m{i}", value) for i, value in enumerate(values)]
    (comparison,) = compare(*rows)
    table = grid(comparison)
    assert {len(row) for row in table.cells} == {len(table.quantities)}
    marked = [float(row[0].mean) for row in table.cells if row[0].best]
    measured = [100 * value for value in values if value is not None]
    assert bool(marked) == (len(measured) > 1)
    assert all(mean == pytest.approx(max(measured), abs=0.00501) for mean in marked)


@pytest.mark.parametrize(
    ("threads", "cpu", "seconds"), [(1, 2.0, 2.0), (2, 2.0, 5.0), (1, None, 5.0)]
)
def test_compared_seconds_are_cpu_seconds_of_one_thread(threads, cpu, seconds):
    row = make_row("svc", 0.9, fit_wall_s=5.0, fit_cpu_s=cpu, threads=threads)
    assert measured(row, "fit_s") == seconds


def test_an_empty_cell_of_wall_seconds_has_its_reason_below_the_table(report):
    quiet, beside = ({"other_cpus": cpus, "fit_cpu_s": 0.5} for cpus in (0.0, 0.9))
    assert "left out" not in report(make_row("svc", 0.9, **quiet))
    with_disturbed = report(make_row("knn", 0.9, **beside))
    assert "Wall seconds of 1 of 2 runs are left out" in with_disturbed


@pytest.mark.parametrize(
    ("disturbed", "columns"),
    [
        (True, {"other_cpus": 0.9}),
        (False, {"other_cpus": 0.05}),
        (False, {"other_cpus": 0.05, "fit_cpu_s": 1.0}),  # it waited, but for no processor
        (True, {"fit_cpu_s": 3.0}),  # a row of an earlier version
        (False, {"fit_cpu_s": 4.9}),
        (False, {"fit_cpu_s": 3.0, "threads": 2}),
    ],
)
def test_wall_seconds_beside_other_work_are_neither_shown_nor_compared(disturbed, columns):
    row = make_row("svc", 0.9, **{"fit_wall_s": 5.0, "fit_cpu_s": None, **columns})
    seen = measured(row, "fit_wall_s")
    assert seen == (None if disturbed else 5.0)
    if row["threads"] == 1 and row["fit_cpu_s"] is not None:
        assert measured(row, "fit_s") == row["fit_cpu_s"]
