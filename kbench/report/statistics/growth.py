"""Fitted orders of growth: the slope of a straight line through logarithms."""

import math
from collections.abc import Sequence
from statistics import linear_regression

# Minimum number of sizes for a fitted exponent, because two points always lie on a line.
MIN_SIZES = 3

# Largest factor between a value and the fitted power if values count as following a power. Seconds
# of small runs are off by up to 1.3, bytes of a model that changes its form by more. Set by hand.
MAX_RESIDUAL = 1.5


def fitted_power(points: Sequence[tuple[float, ...]]) -> tuple[float, float] | None:
    """The exponent b of y = a x^b, and the largest factor between a value and this power.

    The fit minimises the squares of differences of logarithms; points begin with x and y, both
    positive. None for fewer than `MIN_SIZES` sizes.
    """
    if len({point[0] for point in points}) < MIN_SIZES:
        return None
    x, y = ([math.log(point[i]) for point in points] for i in (0, 1))
    slope, intercept = linear_regression(x, y)
    residual = max(abs(v - intercept - slope * u) for u, v in zip(x, y, strict=True))
    return slope, math.exp(residual)
