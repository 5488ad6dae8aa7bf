"""Find test rows that are copies of training rows, for example drawn from the training file."""

import numpy as np

from kbench.data.sources.rows import Rows, SparseRows
from kbench.row_keys import row_keys

# Number of values above which rows are not compared, to save time: for this number the comparison
# takes about a tenth of the time of reading the values. Set by hand.
_MAX_VALUES = 1 << 24
# Fractions of copies among the test rows above which there is a note: _ABOVE_CHANCE beyond the
# fraction expected by chance, and _OF_MEASUREMENTS for rows with measurements, which are hardly
# ever equal by chance. Smaller fractions give more notes, and more wrong ones. Set by hand.
_ABOVE_CHANCE, _OF_MEASUREMENTS = 0.05, 0.1
# Number of training rows in which a column with more than half as many values as different rows
# shows that it holds measurements; more rows take longer to sort. Set by hand.
_SAMPLE_ROWS = 4096


def copied_rows(train: Rows, test: Rows) -> str | None:
    """A note about test rows that equal a training row in features and target; None if few do.

    Columns with few values make equal rows likely. By the Good-Turing estimate, a new row from the
    same distribution equals a training row with probability 1 - (rows that occur once) / n.
    """
    n_entries = sum(rows.n * rows.d * rows.density for rows in (train, test))
    if n_entries > _MAX_VALUES or train.d != test.d:
        return None
    train_hashes = _hashes(train)
    distinct, counts = np.unique(train_hashes, return_counts=True)
    n_copies = int(np.isin(_hashes(test), distinct).sum())
    expected = 1.0 - np.count_nonzero(counts == 1) / train.n
    min_fraction = float(expected + _ABOVE_CHANCE)
    if n_copies >= _OF_MEASUREMENTS * test.n and n_copies < min_fraction * test.n:
        sorted_values = np.sort(next(iter(train.blocks()))[:_SAMPLE_ROWS], axis=0)
        n_values = 1 + np.count_nonzero(np.diff(sorted_values, axis=0), axis=0).max(initial=0)
        if 2 * n_values > np.unique(train_hashes[: len(sorted_values)]).size:
            min_fraction = 0.0
    if not n_copies or n_copies < min_fraction * test.n:
        return None
    return (
        f"{n_copies} of {test.n} test rows are equal to training rows, target included: scores of "
        "them say little about new rows"
    )


def _hashes(rows: Rows) -> np.ndarray:
    """(n,) uint64: equal for rows with equal features and targets, else different (nearly always).

    The multiplier is 2^64 divided by the golden ratio, Knuth's constant of multiplicative hashing.
    """
    blocks = rows.csr_blocks() if isinstance(rows, SparseRows) else rows.blocks()
    feature_keys = np.concatenate([row_keys(block) for block in blocks])
    return feature_keys + row_keys(rows.y[:, None]) * np.uint64(0x9E3779B97F4A7C15)
