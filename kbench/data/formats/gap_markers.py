"""Numbers that may stand for gaps: -999 among temperatures.

Such values are read as the numbers that they are, and said. The rule is narrow, because a note that
is wrong for ordinary columns teaches people to read none: the value consists of nines, occurs twice
at least, and all other values of the column are far smaller. A year, a price or a count that goes
up to 9999 is not named.
"""

from dataclasses import dataclass, field

import numpy as np

from kbench.data.formats import printable

_MARKERS = frozenset((-99.0, -999.0, -9999.0, -99999.0, 999.0, 9999.0, 99999.0))

_FARTHEST = {-1.0: 0.1, 1.0: 0.01}
"""Largest absolute value of the rest of a column, in units of the marker, by the marker's sign. A
positive number of nines is more often a value (a price, a maximum) than a negative one. Set by
hand: they decide which columns a message names, not what is read."""


@dataclass
class GapMarkers:
    """What the columns of a table hold beside numbers that look like gaps."""

    columns: dict[str, "_Column"] = field(default_factory=dict)  # By the name of the column

    def learn(self, name: str, values: np.ndarray) -> None:
        """Record a piece of a column; values : (n,). Two passes over the piece."""
        column = self.columns.setdefault(name, _Column())
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
        """A sentence for each marker of each column."""
        return [
            f"in the column {printable(name)!r} {count} values are {marker:g} and the others lie "
            f"from {column.low:.6g} to {column.high:.6g}: all are read as numbers; if {marker:g} "
            "stands for a gap, leave such fields empty and set dataset.missing"
            for name, column in self.columns.items()
            for marker, count in column.counts.items()
            if count > 1 and column.is_far(marker)
        ]


@dataclass
class _Column:
    """counts : of each marker; low, high : of the other values, NaN if there are none."""

    counts: dict[float, int] = field(default_factory=dict)
    low: float = np.nan
    high: float = np.nan

    def is_far(self, marker: float) -> bool:
        """Whether the other values are more than one, and all far smaller than the marker."""
        farthest = _FARTHEST[float(np.sign(marker))] * abs(marker)
        return self.low < self.high and max(-self.low, self.high) <= farthest
