"""Orders of growth, fitted: the slope of a straight line through logarithms."""

import math
from collections.abc import Sequence
from statistics import linear_regression

# An exponent is fitted through at least three sizes: two points always lie on a line.
LEAST_SIZES = 3


def exponent(points: Sequence[tuple[float, ...]]) -> float | None:
    """The exponent b of y = a x^b by least squares of logarithms; None below `LEAST_SIZES` sizes.

    Points begin with x and y, both positive.
    """
    if len({point[0] for point in points}) < LEAST_SIZES:
        return None
    x, y = ([math.log(point[axis]) for point in points] for axis in (0, 1))
    return linear_regression(x, y).slope
