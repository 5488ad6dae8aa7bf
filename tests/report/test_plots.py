"""Figures of rows by matplotlib."""

import json

import pytest
from report_rows import make_row

import kbench
from kbench.commands import reporting
from kbench.errors import ConfigError
from kbench.report import plot
from kbench.run.results.folder import Curve, ResultsFolder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two methods, one with three values of C at two seeds, and a curve."""
    monkeypatch.chdir(tmp_path)
    folder = ResultsFolder("results")
    for C, accuracy in ((0.1, 0.7), (1.0, 0.9), (100.0, 0.8)):
        for seed in (0, 1):
            params = json.dumps({"C": C, "gamma": 0.5})
            row = make_row("svc", accuracy + 0.02 * seed, seed, params=params, fit_cpu_s=C)
            folder.write(row)
    curve = Curve(curve="violation", x_name="seconds", x=[0.1, 0.2], value=[3.0, 1.0])
    folder.write(make_row("knn", 0.6, fit_cpu_s=0.01), [curve])
    return folder


def panel(figure):
    (axes,) = (one for one in figure.axes if one.axison)
    return axes


def points(axes, label):
    (line,) = (one for one in axes.get_lines() if one.get_label() == label)
    return line.get_xdata().tolist(), line.get_ydata().tolist()


def test_marks_are_the_means_of_settings_and_dashes_the_pareto_front(folder):
    axes = panel(plot(folder))
    marks = [bars.lines[0].get_xydata()[0].tolist() for bars in axes.containers]
    assert sorted(marks) == [[0.01, 60.0], [0.1, 71.0], [1.0, 91.0], [100.0, 81.0]]
    front = next(line for line in axes.get_lines() if line.get_linestyle() == "--")
    assert front.get_xdata().tolist() == [0.01, 0.1, 1.0]
    assert axes.get_xscale() == "log"
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("fit CPU s", "accuracy %")


def test_a_swept_parameter_is_a_line_with_its_deviations(folder):
    axes = panel(plot(folder, x="C"))
    (bars,) = axes.containers
    assert bars.lines[0].get_xydata().tolist() == [[0.1, 71.0], [1.0, 91.0], [100.0, 81.0]]
    assert bars.has_yerr


def test_splits_are_one_panel_as_in_the_tables(folder, caplog):
    for seed, accuracy in ((1, 0.8), (2, 0.7)):
        for run in (0, 1):
            variant = f"split.seed={seed}"
            params = json.dumps({"C": 1.0, "gamma": 0.5})
            folder.write(make_row("svc", accuracy, run, variant=variant, params=params))
    figure = plot(folder, x="C")
    several = next(axes for axes in figure.axes if axes.get_title() == "digits, 3 splits")
    ((_, mean),) = several.containers[0].lines[0].get_xydata().tolist()
    assert mean == pytest.approx((91.0 + 80.0 + 70.0) / 3)
    said = figure.legends[0].get_title().get_text()
    assert said.startswith("means of settings that differ in C; ")
    assert said.endswith("± standard deviation over seeds; ± standard error over splits")
    assert "not drawn, without numbers on both axes: knn" in caplog.text


@pytest.mark.parametrize(("classes", "curve"), [(2, "violation"), (3, "test_error"), (3, "loss")])
def test_a_curve_is_a_line_unless_it_is_of_several_binary_problems(folder, classes, curve):
    made = Curve(curve=curve, x_name="seconds", x=[0.1, 0.2], value=[3.0, 1.0])
    data = {"dataset": "three", "data_sha256": "three", "n_classes": classes}
    folder.write(make_row("knn", 0.6, **data), [made])
    figure = plot(folder, x="seconds", y=curve, datasets=["three"])
    axes = panel(figure)
    assert points(axes, "knn, seed 0") == ([0.1, 0.2], [3.0, 1.0])
    assert axes.get_ylabel() == curve
    (line,) = (one for one in axes.get_lines() if one.get_label() == "knn, seed 0")
    assert (line.get_linestyle() == "None") is (curve == "loss")
    assert ("dots: " in figure.legends[0].get_title().get_text()) is (curve == "loss")


def test_a_curve_over_another_has_marks_for_methods_without_it(folder):
    x, seen, errors = [1.0, 2.0, 4.0], [10.0, 20.0, 40.0], [0.3, 0.2, 0.1]
    curves = [
        Curve(curve="kernel_entries", x_name="seconds", x=x, value=seen),
        Curve(curve="test_error", x_name="seconds", x=[1.0, 3.0], value=errors[:2]),
    ]
    folder.write(make_row("sdd", 0.9, kernel_entries=40), curves)
    axes = panel(plot(folder, x="kernel_entries", y="test_error"))
    assert points(axes, "sdd, seed 0") == ([10.0, 30.0], errors[:2])
    for seed in (0, 1):
        folder.write(make_row("krr", 0.8, seed, error=0.2 + 0.1 * seed, fit_wall_s=3.0))
    (bars,) = panel(plot(folder, x="seconds", y="test_error")).containers
    assert bars.lines[0].get_xydata().tolist() == [[3.0, pytest.approx(0.25)]]


def test_rows_as_a_frame_are_drawn_as_the_folder_is(folder):
    axes = panel(plot(kbench.read_rows("results"), x="C", y="accuracy"))
    (bars,) = axes.containers
    assert len(bars.lines[0].get_xydata()) == 3


def test_a_frame_is_chosen_from_as_a_folder_is(folder):
    rows = kbench.read_rows("results")
    assert len(panel(plot(rows, methods=["knn"])).containers) == 1
    assert len(panel(plot(rows.drop(columns=["log", "preset", "roc_auc"]))).containers) == 4


@pytest.mark.parametrize(
    ("rows", "options", "said"),
    [
        (lambda rows: "results", {}, "rows is a str, should be a data frame of kbench.read_rows"),
        (lambda rows: rows[["method"]], {}, "rows has no column 'key'; kbench.read_rows makes"),
        (lambda rows: rows.iloc[:0], {}, "rows is a data frame without rows"),
        (lambda rows: rows, {"methods": ["svm"]}, r"no row has method 'svm' .*knn, svc"),
        (lambda rows: rows, {"methods": "svc"}, "methods is 'svc', should be a list"),
        (lambda rows: rows, {"x": None}, "x is None, should be the name"),
        (lambda rows: rows, {"y": 1}, "y is 1, should be the name"),
        (lambda rows: rows, {"y": "rmse"}, "y=rmse: no row has this column"),
    ],
)
def test_rows_that_cannot_be_drawn_are_named(folder, rows, options, said):
    with pytest.raises(ConfigError, match=said):
        plot(rows(kbench.read_rows("results")), **options)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_command_writes_a_file(folder, suffix, capsys):
    assert reporting.main(["plot", "x=C", f"out=chart.{suffix}"]) == 0
    assert capsys.readouterr().out == f"chart.{suffix}\n"
    head = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    with open(f"chart.{suffix}", "rb") as file:
        assert file.read(5).startswith(head[suffix])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x=c"], r"x=c \(nearest: C\): x should be a parameter"),
        (["x=method.C"], r"\(nearest: C\)"),
        (["y=violatoin"], "nearest: violation"),
        (["y=rmse"], "y=rmse: no row has this column; rows of the task"),
        (["x=seconds", "y=accuracy"], "x=seconds belongs to curves: write y=violation"),
        (["x=C", "y=violation"], "y=violation is a curve: write x=seconds"),
        (["results_dir=."], "no results in ./ yet"),
        (["out=a.jpg"], "a plot is a file .png, .svg, .pdf"),
        (["format=svg"], "out=plot.svg chooses it"),
    ],
)
def test_what_cannot_be_drawn_is_said(folder, words, said):
    with pytest.raises(ConfigError, match=said):
        reporting.main(["plot", *words])
