"""Orders of growth, fitted: the slope of a straight line through logarithms."""

import math
from collections.abc import Sequence
from statistics import linear_regression

# An exponent is fitted through at least three sizes: two points always lie on a line.
MIN_SIZES = 3

# If a value is off the fitted power by more than this factor, the values follow no power: seconds
# of small runs are off by up to 1.3, bytes of a model of changing form by more. Set by hand.
MAX_RESIDUAL = 1.5


def fitted_power(points: Sequence[tuple[float, ...]]) -> tuple[float, float] | None:
    """The exponent b of y = a x^b, and the largest factor by which a value is off this power.

    The fit is by least squares of logarithms; points begin with x and y, both positive. None for
    fewer than `MIN_SIZES` sizes.
    """
    if len({point[0] for point in points}) < MIN_SIZES:
        return None
    x, y = ([math.log(point[i]) for point in points] for i in (0, 1))
    slope, start = linear_regression(x, y)
    off = max(abs(v - start - slope * u) for u, v in zip(x, y, strict=True))
    return slope, math.exp(off)
