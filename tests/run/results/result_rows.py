"""Rows for tests to write."""

import datetime
import hashlib

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


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
