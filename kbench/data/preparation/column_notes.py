"""Notes about columns of a user's table that number the rows or copy the target.

Such columns remain features, because only the user knows their meaning.
"""

import numpy as np

from kbench.data.formats import ColumnLayout, dropping, printable
from kbench.data.sources.rows import Rows

# Number of rows below which there are no notes, as small tables have such columns by chance, and
# number of features above which there are none, as the sums would take long. Set by hand.
_MIN_ROWS, _MAX_FEATURES = 10, 10_000
# Number of classes above which copies of the target are not searched for. Each class costs memory,
# two numbers per feature, and time, a pass over the rows of each block. Set by hand.
_MAX_CLASSES = 50

# Fraction of the target's variance that a linear function of a column may leave if the column is
# the target in another unit: values rounded to three digits leave about 1e-6. Set by hand.
_MAX_UNEXPLAINED = 1e-6


def column_notes(layout: ColumnLayout, rows: Rows, task: str) -> list[str]:
    """A note for each column that numbers the rows or copies the target; O(n d) time.

    rows : All rows of the training file, with the features of `layout`; targets may be missing.
    """
    if rows.n < _MIN_ROWS or rows.d > _MAX_FEATURES:
        return []
    features = _features_of(layout)
    y = rows.y
    low, high = np.full(rows.d, np.inf), np.full(rows.d, -np.inf)
    is_integer = np.ones(rows.d, dtype=bool)
    statistics = _Numbers(rows.d) if task == "regression" else _Classes(rows.d, y)
    begin = 0
    for block in rows.blocks():
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        if is_integer.any():
            is_integer[is_integer] = (block[:, is_integer] % 1 == 0).all(axis=0)
        statistics.learn(block, y[begin : begin + len(block)])
        begin += len(block)
    numbering = is_integer & np.isin(low, (0, 1)) & (high - low == rows.n - 1)
    numbering[numbering] = _distinct(rows, np.flatnonzero(numbering), low)
    notes = []
    for name, indices in features.items():
        leave_out = f"{dropping(name)} leaves it out"
        about = f"the column {printable(name)!r}"
        if numbering[indices].any():
            notes.append(f"{about} numbers the rows and is taken as a feature; {leave_out}")
        elif (sentence := statistics.leak_sentence(indices)) is not None:
            notes.append(f"{about} {sentence}: if it is not known before the target, {leave_out}")
    return notes


def _features_of(layout: ColumnLayout) -> dict[str, np.ndarray]:
    """Name of a column -> indices of its features."""
    rare = layout.get("rare", {})
    widths = [max(1, len(cs) + (name in rare)) for name, cs in layout["columns"].items()]
    ends = np.cumsum(widths)
    return {
        name: np.arange(end - width, end)
        for name, width, end in zip(layout["columns"], widths, ends, strict=True)
    }


def _distinct(rows: Rows, columns: np.ndarray, low: np.ndarray) -> np.ndarray:
    """(len(columns),) bool: whether all values, integers from `low` to `low` + n - 1, differ."""
    occurs = np.zeros((columns.size, rows.n), dtype=bool)
    for block in rows.blocks() if columns.size else ():
        for k, column in enumerate(columns):
            occurs[k, (block[:, column] - low[column]).astype(np.intp)] = True
    return np.logical_and.reduce(occurs, axis=1)


class _Classes:
    """Least and largest value of each feature in each class."""

    def __init__(self, d: int, y: np.ndarray) -> None:
        classes = np.unique(y[np.isfinite(y)])
        self._classes = classes if classes.size <= _MAX_CLASSES else classes[:0]
        self._low = np.full((self._classes.size, d), np.inf)
        self._high = -self._low

    def learn(self, block: np.ndarray, y: np.ndarray) -> None:
        for k, label in enumerate(self._classes):
            members = block[y == label]
            if len(members):
                self._low[k] = np.minimum(self._low[k], members.min(axis=0))
                self._high[k] = np.maximum(self._high[k], members.max(axis=0))

    def leak_sentence(self, indices: np.ndarray) -> str | None:
        """What a note says of a column with one value for each class, different for all classes."""
        low, high = self._low[:, indices], self._high[:, indices]
        if len(low) < 2 or (low != high).any() or len(np.unique(low, axis=0)) < len(low):
            return None
        return "has one value for each class, so it is the target in other words"


class _Numbers:
    """Sums from which the correlations of features and targets follow."""

    def __init__(self, d: int) -> None:
        self._sums = np.zeros((5, d))
        self._first: tuple[np.ndarray, float] | None = None
        self._n = 0

    def learn(self, block: np.ndarray, y: np.ndarray) -> None:
        has_target = np.isfinite(y)
        if not has_target.any():
            return
        x, z = block[has_target].astype(np.float64), y[has_target]
        if self._first is None:
            self._first = x[0], float(z[0])  # subtracted below, so that sums lose few digits
        x, z = x - self._first[0], z - self._first[1]
        sums = [x.sum(axis=0), (x * x).sum(axis=0), z @ x, z.sum(), z @ z]
        self._sums += np.array(np.broadcast_arrays(*sums))
        self._n += z.size

    def leak_sentence(self, indices: np.ndarray) -> str | None:
        """What a note says of a column of which the target is a linear function up to rounding."""
        if indices.size > 1 or not self._n:
            return None
        x, xx, xz, z, zz = self._sums[:, indices[0]] / self._n
        var_x, var_z, covariance = xx - x * x, zz - z * z, xz - x * z
        if (
            not var_x * var_z > 0.0
            or 1.0 - covariance * covariance / (var_x * var_z) > _MAX_UNEXPLAINED
        ):
            return None
        return "is the target in another unit, up to rounding"
