"""Test rows that are training rows, too: a test file that was drawn from the training file."""

import numpy as np

from kbench.data.sources.rows import Rows, SparseRows
from kbench.row_keys import row_keys

# Values beyond which rows are not compared: of 2^24 it takes about a tenth of the time of reading
# them. Set by hand.
_MAX_VALUES = 1 << 24
# Share of copies among the test rows, from which on it is said: beyond what the training rows let
# expect, and of rows of measurements, which are hardly ever equal. Set by hand.
_MORE, _OF_MEASUREMENTS = 0.05, 0.1
_FIRST = 4096  # training rows that show whether there are measurements; set by hand


def copied_rows(train: Rows, test: Rows) -> str | None:
    """A sentence about test rows that equal a training row in features and target, if many do.

    Columns of few values make many equal rows. Where rows are drawn alike, a further one is among
    the training rows with a probability of about 1 - (rows that occur once) / n (Good and Turing).
    """
    n = sum(rows.n * rows.d * rows.density for rows in (train, test))
    if n > _MAX_VALUES or train.d != test.d:
        return None
    of_train = _hashes(train)
    known, counts = np.unique(of_train, return_counts=True)
    n_copies = int(np.isin(_hashes(test), known).sum())
    expected = 1.0 - np.count_nonzero(counts == 1) / train.n
    min_share = float(expected + _MORE)
    if n_copies >= _OF_MEASUREMENTS * test.n and n_copies < min_share * test.n:
        first = np.sort(next(iter(train.blocks()))[:_FIRST], axis=0)
        n_values = 1 + np.count_nonzero(np.diff(first, axis=0), axis=0).max(initial=0)
        if 2 * n_values > np.unique(of_train[: len(first)]).size:
            min_share = 0.0
    if not n_copies or n_copies < min_share * test.n:
        return None
    return (
        f"{n_copies} of {test.n} test rows are equal to training rows, target included: scores of "
        "them say little of new rows"
    )


def _hashes(rows: Rows) -> np.ndarray:
    """(n,) uint64, equal for equal rows with equal targets, different for nearly all others."""
    blocks = rows.csr_blocks() if isinstance(rows, SparseRows) else rows.blocks()
    of_features = np.concatenate([row_keys(block) for block in blocks])
    return of_features + row_keys(rows.y[:, None]) * np.uint64(0x9E3779B97F4A7C15)
