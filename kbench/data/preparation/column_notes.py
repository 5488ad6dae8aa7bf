"""Columns of a user's table that are hardly features: numbers of the rows, copies of the target.

They are read as features all the same, because only the user knows what they are, and said.
"""

import numpy as np

from kbench.data.formats import ColumnLayout, dropping, printable
from kbench.data.sources.rows import Rows

# Rows below which a column is easily one of these by chance, and features beyond which sums over
# all of them would take longer than reading the table. Set by hand.
_FEW_ROWS, _MAX_FEATURES = 10, 10_000
# Classes whose ranges are kept, each of two numbers a feature and a pass over its rows; of more
# classes nothing is said of copies. Set by hand.
_MAX_CLASSES = 50

# Share of the target's variance that a line through a column leaves, below which the column is
# taken for the target in another unit: values rounded to three digits leave about 1e-6. Set by
# hand.
_LEFT = 1e-6


def column_notes(layout: ColumnLayout, rows: Rows, task: str) -> list[str]:
    """A sentence for each such column; O(n d) time, two passes at most.

    rows : all rows of the training file, with features as of `layout`; targets may be missing.
    """
    if rows.n < _FEW_ROWS or rows.d > _MAX_FEATURES:
        return []
    features = _features_of(layout)
    y = rows.y
    low, high = np.full(rows.d, np.inf), np.full(rows.d, -np.inf)
    whole = np.ones(rows.d, dtype=bool)
    seen = _Numbers(rows.d) if task == "regression" else _Classes(rows.d, y)
    begin = 0
    for block in rows.blocks():
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        if whole.any():
            whole[whole] = (block[:, whole] % 1 == 0).all(axis=0)
        seen.learn(block, y[begin : begin + len(block)])
        begin += len(block)
    numbering = whole & np.isin(low, (0, 1)) & (high - low == rows.n - 1)
    numbering[numbering] = _distinct(rows, np.flatnonzero(numbering), low)
    notes = []
    for name, places in features.items():
        leave_out = f"{dropping(name)} leaves it out"
        shown = f"the column {printable(name)!r}"
        if numbering[places].any():
            notes.append(f"{shown} numbers the rows and is taken as a feature; {leave_out}")
        elif (fault := seen.leak(places)) is not None:
            notes.append(f"{shown} {fault}: if it is not known before the target, {leave_out}")
    return notes


def _features_of(layout: ColumnLayout) -> dict[str, np.ndarray]:
    """The places of the features of each column."""
    rare = layout.get("rare", {})
    widths = [max(1, len(cs) + (name in rare)) for name, cs in layout["columns"].items()]
    ends = np.cumsum(widths)
    return {
        name: np.arange(end - width, end)
        for name, width, end in zip(layout["columns"], widths, ends, strict=True)
    }


def _distinct(rows: Rows, places: np.ndarray, low: np.ndarray) -> np.ndarray:
    """(len(places),) whether the values of each feature, which number rows, are all different."""
    there = np.zeros((places.size, rows.n), dtype=bool)
    for block in rows.blocks() if places.size else ():
        for k, place in enumerate(places):
            there[k, (block[:, place] - low[place]).astype(np.intp)] = True
    return np.logical_and.reduce(there, axis=1)


class _Classes:
    """Least and largest value of each feature in each class."""

    def __init__(self, d: int, y: np.ndarray) -> None:
        classes = np.unique(y[np.isfinite(y)])
        self._classes = classes if classes.size <= _MAX_CLASSES else classes[:0]
        self._low = np.full((self._classes.size, d), np.inf)
        self._high = -self._low

    def learn(self, block: np.ndarray, y: np.ndarray) -> None:
        for k, label in enumerate(self._classes):
            mine = block[y == label]
            if len(mine):
                self._low[k] = np.minimum(self._low[k], mine.min(axis=0))
                self._high[k] = np.maximum(self._high[k], mine.max(axis=0))

    def leak(self, places: np.ndarray) -> str | None:
        """What a column says of the class, if each class has one value of it."""
        low, high = self._low[:, places], self._high[:, places]
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
        there = np.isfinite(y)
        if not there.any():
            return
        x, z = block[there].astype(np.float64), y[there]
        if self._first is None:
            self._first = x[0], float(z[0])  # near the mean, so that little is lost in rounding
        x, z = x - self._first[0], z - self._first[1]
        sums = [x.sum(axis=0), (x * x).sum(axis=0), z @ x, z.sum(), z @ z]
        self._sums += np.array(np.broadcast_arrays(*sums))
        self._n += z.size

    def leak(self, places: np.ndarray) -> str | None:
        """What a column says of the target, if a line maps one to the other up to rounding."""
        if places.size > 1 or not self._n:
            return None
        x, xx, xz, z, zz = self._sums[:, places[0]] / self._n
        of_x, of_z, both = xx - x * x, zz - z * z, xz - x * z
        if not of_x * of_z > 0.0 or 1.0 - both * both / (of_x * of_z) > _LEFT:
            return None
        return "is the target in another unit, up to rounding"
