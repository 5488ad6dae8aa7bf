"""Rows for tests to write, and what tests read of a folder."""

import datetime
import hashlib
import json

from kbench.run.results.folder import Curve, ResultsFolder

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
CURVE = Curve(curve="objective", x_name="seconds", x=[0.0, 1.0], value=[3.0, 2.0])


def make_row(number=0, **changes):
    """The row of run `number`, started `number` seconds after an epoch."""
    return {
        "key": hashlib.sha256(str(number).encode()).hexdigest(),
        "status": "ok",
        "method": "svc",
        "dataset": "digits",
        "seed": number,
        "task": "multiclass",
        "params": '{"C": 1.0, "gamma": "scale"}',
        "accuracy": 0.5,
        "phases": {"solve": 0.25},
        "threads": 1,
        "environment": "0a1b2c3d",
        "source_sha256": "aa",
        "started_at": EPOCH + datetime.timedelta(seconds=number),
        **changes,
    }


def write_environment(folder, name, cpu):
    """The description of an environment whose id is given."""
    path = folder / "_environments" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"cpu": cpu}))


def sorted_rows(path):
    """The rows of a folder in an order that does not depend on its files."""
    frame = ResultsFolder(path).read(reference=False)
    return frame.sort_values(["environment", "key", "attempt"], ignore_index=True)
