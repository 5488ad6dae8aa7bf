"""Orders of growth, fitted: the slope of a straight line through logarithms."""

import math
from collections.abc import Sequence
from statistics import linear_regression

# An exponent is fitted through at least three sizes: two points always lie on a line.
MIN_SIZES = 3

# If a value is more than this factor off the fitted power, the values follow no power: seconds of
# small runs are up to 1.3 times off, bytes of a model of changing form further. Set by hand.
MAX_RESIDUAL = 1.5


def exponent(points: Sequence[tuple[float, ...]]) -> float | None:
    """The exponent b of y = a x^b by least squares of logarithms; None below `MIN_SIZES` sizes.

    Points begin with x and y, both positive.
    """
    if len({point[0] for point in points}) < MIN_SIZES:
        return None
    return linear_regression(*_logarithms(points)).slope


def largest_residual_factor(points: Sequence[tuple[float, ...]]) -> float:
    """The factor by which a value is at most off the power of `exponent`."""
    x, y = _logarithms(points)
    slope, start = linear_regression(x, y)
    return math.exp(max(abs(v - start - slope * u) for u, v in zip(x, y, strict=True)))


def _logarithms(points: Sequence[tuple[float, ...]]) -> tuple[list[float], list[float]]:
    return [math.log(point[0]) for point in points], [math.log(point[1]) for point in points]
