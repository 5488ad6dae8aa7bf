"""The extremes of the residual on both sides of 0, which decide whether a point is optimal."""

import math
from typing import NamedTuple

import numpy as np


class Ends(NamedTuple):
    """The four maxima of `side_steps`, and the points that they are over."""

    points: tuple[np.ndarray, ...]  # which can go up, down above 0, and up, down below 0
    values: tuple[float, ...]  # max e, min e, max e, min e; infinite where there is no such point

    @property
    def middles(self) -> tuple[float, float]:
        """The middle of max e and min e above 0, and that below 0."""
        high_above, low_above, high_below, low_below = self.values
        return middle(low_above, high_above), middle(low_below, high_below)


def middle(low: float, high: float) -> float:
    """Of two extremes, or the one that is finite; 0 if none is."""
    ends = [value for value in (low, high) if math.isfinite(value)]
    return sum(ends) / len(ends) if ends else 0.0
