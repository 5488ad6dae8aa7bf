"""The extremes of the residual on both sides of 0, which decide whether a point is optimal."""

import math
from typing import NamedTuple

import numpy as np


class Extremes(NamedTuple):
    """The four extremes of `side_steps`, and the points that they are taken over."""

    points: tuple[np.ndarray, ...]  # masks: can go up, down above 0; can go up, down below 0
    values: tuple[float, ...]  # max e, min e, max e, min e; infinite without such points

    @property
    def middles(self) -> tuple[float, float]:
        """The midpoints of max e and min e above 0 and below 0."""
        high_above, low_above, high_below, low_below = self.values
        return middle(low_above, high_above), middle(low_below, high_below)


def middle(low: float, high: float) -> float:
    """Return the midpoint of two extremes; the finite one if only one is; 0 if none is finite."""
    finite = [value for value in (low, high) if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else 0.0
