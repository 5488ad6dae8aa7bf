"""Rows for tests of fits of rows in chunks."""

import numpy as np

from kbench.chunked import ChunkedRows
from kbench.methods.base.survey import RealTargets, Survey

N, D = 600, 4


def rows_of(n=N, targets="real", seed=0):
    rng = np.random.RandomState(seed)
    X = (rng.randn(n, D) + 2 * rng.randint(-1, 2, size=(n, 1))).astype(np.float32)
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] / 2
    if targets == "real":
        return X, f + 0.1 * rng.randn(n)
    if targets == "several":
        return X, np.column_stack([f, np.cos(X[:, 3])])
    return X, np.digitize(f, [0.0] if targets == "two" else [-0.5, 0.5])


def chunked(X, y, sizes=(90, 0, 1, 250), **options):
    """Rows in chunks of changing sizes, some of them empty."""

    def read(_):
        start = 0
        while start < len(y):
            for size in sizes:
                part = slice(start, start + size)
                yield X[part], y[part]
                start += size

    return ChunkedRows(read, n_features=X.shape[1], dtype=X.dtype, **options)


def in_the_order_of_the_sample(X, y):
    """The rows as the survey of a fit with random_state=0 hands them on, all in its sample."""
    seed = np.random.RandomState(0).randint(2**31)
    numbered = chunked(np.arange(len(y), dtype=np.float32)[:, None], np.zeros(len(y)))
    order = Survey(numbered, RealTargets(), len(y), seed).sample[:, 0].astype(int)
    assert sorted(order) == list(range(len(y)))
    return X[order], y[order]
