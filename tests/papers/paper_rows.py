"""Runs as the papers' report takes them, and the cells that they fill."""

import json

from report_rows import make_row

from kbench.papers.cells.entries import entry
from kbench.papers.cells.runs import Runs
from kbench.papers.figures.drawing import drawings
from kbench.papers.figures.figure import figures
from kbench.papers.figures.panels import drawn_panels
from kbench.papers.printed.layout import CellPlace, experiments_of, paper
from kbench.run.results.folder import schema

TABLE3 = paper("dcsvm").tables["table3"]
FIGURES = {one.name: one for one in figures()}


HSS = {  # what a row of HSS Table 5 has
    "dataset": "ijcnn1",
    "variant": "hss",
    "task": "binary",
    "n_train": 49990,
    "params": json.dumps({"C": [0.1, 1, 10], "gamma": 50, "preset": "paper_table5"}),
}


def runs(*rows, curves=None):
    empty = {**dict.fromkeys(schema().names), "origin": "own"}
    return Runs([{**empty, **row} for row in rows], curves)


def rbf(method, accuracy, seed=0, C=32, gamma=2, dataset="ijcnn1", level_tol=0.1, **changes):
    sizes = {"n_train": 49990, "n_test": 91701, "n_features": 22, "task": "binary"}
    params = {"C": C, "gamma": gamma, "kernel": "rbf", "tol": 0.001}
    if method == "kernel_svc":
        params |= {"fit_intercept": False, "multi_class": "ovo", "cache_size": 200}
    if method == "dcsvm_early":
        params |= {"combine": "early", "n_levels": 2, "n_clusters": 64, "tol": 0.1}
    if method == "dcsvm":
        params["level_tol"] = level_tol
    given = {**sizes, "params": json.dumps(params, sort_keys=True), **changes}
    return make_row(method, accuracy, seed, dataset=dataset, **given)


def cell(found, row, column, measure, table=TABLE3):
    return entry(CellPlace(table, row, column, measure), found, found.machines[0])


def asked_by(figure, found):
    """The same runs; those that no experiment asks for are of the figure's."""
    experiment = ",".join(sorted(experiments_of(figure.run)))
    rows = [{**row, "experiment": row["experiment"] or experiment} for row in found.rows]
    return Runs(rows, found._curves)


def with_params(row, **params):
    return {**row, "params": json.dumps(json.loads(row["params"]) | params, sort_keys=True)}


def on_covtype(method, seconds, accuracy=0.9, **changes):
    where = {"dataset": "covtype_93k", "gamma": 32, "key": f"{method} {seconds} {changes}"}
    return rbf(method, accuracy, fit_wall_s=seconds, **where, **changes)


def points(name, found):
    """Line -> points of the first panel that has any."""
    panels = drawn_panels(FIGURES[name], asked_by(FIGURES[name], found), found.machines[0])
    return panels[0].points if panels else {}


def drawing(name, found, environments=None):
    asked = asked_by(FIGURES[name], found)
    (one,) = (each for each in drawings(asked, environments or {}) if each.figure.name == name)
    return one
