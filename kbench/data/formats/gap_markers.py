"""Notes about numbers that may stand for missing values, such as -999 among temperatures.

Such values are read as numbers. A note appears only if the value consists of nines, occurs at least
twice, and all other values of the column are far smaller, because users ignore notes that are often
wrong. Years, prices and counts up to 9999 get no note.
"""

from dataclasses import dataclass, field

import numpy as np

from kbench.data.formats import printable

# More markers give more notes, and more wrong ones. Set by hand.
_MARKERS = frozenset((-99.0, -999.0, -9999.0, -99999.0, 999.0, 9999.0, 99999.0))
_FARTHEST = {-1.0: 0.1, 1.0: 0.01}
"""Sign of the marker -> largest absolute value of the other values, as a fraction of the marker. A
larger fraction gives more notes, and more wrong ones; positive nines are more often real values,
such as prices. Set by hand."""


@dataclass
class GapMarkers:
    """Counts of markers in the columns of a table, and ranges of the other values."""

    columns: dict[str, "_MarkerCounts"] = field(default_factory=dict)  # By name of the column

    def learn(self, name: str, values: np.ndarray) -> None:
        """Record a piece of a column; values : (n,). Two passes over the piece."""
        column = self.columns.setdefault(name, _MarkerCounts())
        low, high = np.fmin.reduce(values), np.fmax.reduce(values)
        while low in _MARKERS or high in _MARKERS:
            marker = float(low if low in _MARKERS else high)
            others = values[values != marker]
            column.counts[marker] = column.counts.get(marker, 0) + values.size - others.size
            values = others[~np.isnan(others)]
            if not values.size:
                return
            low, high = values.min(), values.max()
        column.low, column.high = np.fmin(column.low, low), np.fmax(column.high, high)

    def notes(self) -> list[str]:
        """A note for each marker of each column."""
        return [
            f"in the column {printable(name)!r} {count} values are {marker:g} and the others lie "
            f"from {column.low:.6g} to {column.high:.6g}: all are read as numbers; if {marker:g} "
            "stands for a gap, leave such fields empty and set dataset.missing"
            for name, column in self.columns.items()
            for marker, count in column.counts.items()
            if count > 1 and column.is_far(marker)
        ]


@dataclass
class _MarkerCounts:
    counts: dict[float, int] = field(default_factory=dict)  # Marker -> number of occurrences
    low: float = np.nan  # Least of the other values; NaN if there are none
    high: float = np.nan  # Largest of the other values; NaN if there are none

    def is_far(self, marker: float) -> bool:
        """Whether the other values are not all equal, and all far smaller than the marker."""
        farthest = _FARTHEST[float(np.sign(marker))] * abs(marker)
        return self.low < self.high and max(-self.low, self.high) <= farthest
