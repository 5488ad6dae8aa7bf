"""Rows of runs for reports to show."""

import datetime
import hashlib
import json

from kbench.run.results.folder import ResultsFolder

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def make_row(method, accuracy, seed=0, **changes):
    row = {
        "status": "ok",
        "method": method,
        "dataset": "digits",
        "task": "multiclass",
        "seed": seed,
        "params": "{}",
        "data_sha256": "d1",
        "n_train": 1000,
        "n_test": 500,
        "n_features": 64,
        "n_classes": 10,
        "accuracy": accuracy,
        "fit_wall_s": 1.0,
        "threads": 1,
        "jobs": 1,
        "environment": "0a1b2c3d",
        "started_at": START,
        **changes,
    }
    text = json.dumps(row, sort_keys=True, default=str)
    return {"key": hashlib.sha256(text.encode()).hexdigest(), **row}


def stopped_in(stage, fit_cpu_s, limit=None):
    """The message of a run that was stopped at its limit of wall seconds."""
    limit = fit_cpu_s if limit is None else limit
    place = f"stopped in {stage} after {fit_cpu_s:g} CPU seconds of fit"
    return f"not done within limits.wall_s={limit:g}, {place}"


def failed(method, status, seed=0, **changes):
    """A run that did not get so far as to load the data."""
    empty = dict.fromkeys(["n_train", "n_test", "n_features", "n_classes", "fit_wall_s"])
    return make_row(method, None, seed, status=status, **{**empty, **changes})


def folder_of(path, *rows):
    """The results folder at `path`, after these rows were written into it."""
    folder = ResultsFolder(path)
    for row in rows:
        folder.write(row)
    return folder
