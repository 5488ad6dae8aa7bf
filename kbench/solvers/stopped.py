"""The model of a dual solver that a limit has stopped: never worse than the trivial model.

    P(b, c) = 1/2 b'Kb + sum_i max {x (e_i - c) - epsilon |x| : l_i <= x <= u_i} + s c,   e = z - Kb

is the primal objective of coefficients b with the intercept c, s the given sum of b. The solvers
minimise the dual objective, while P need not fall from step to step: long before the end, the
decision function can be far worse than a constant, and the middle of the two most extreme
residuals, the intercept of the solution, is then that of one or two rows. So a stopped solver
returns the intercept that minimises P for its coefficients, and of its coefficients the multiple t
b, t = 1, 1/2, 1/4, ..., 0, of least P: P is convex in t, and t = 0 is the best constant. Powers of
two round nothing.
"""

from typing import NamedTuple

import numpy as np

from kbench.intrinsics.products import matmul

# The multiples of the coefficients that are tried. Below the smallest they are as good as 0.
MULTIPLES = np.concatenate([2.0 ** -np.arange(21.0), [0.0]])


class Settled(NamedTuple):
    """What a stopped solver returns."""

    multiple: float  # of the coefficients
    intercept: float
    primal: float  # P there


def settle(
    beta: np.ndarray,
    e: np.ndarray,
    z: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    epsilon: float,
    coupled: bool,
    intercept: float = 0.0,
) -> Settled:
    """Return the multiple of `beta` and the intercept of least primal objective.

    Parameters
    ----------
    beta, e : (n,) float64
        Coefficients within the bounds and their residual z - K beta.
    z, lower, upper : (n,) float64
        As in the problem; lower <= 0 <= upper.
    epsilon : float
    coupled : bool
        Whether the intercept is free; otherwise it is `intercept`.
    intercept : float

    Notes
    -----
    O(n log n) for each multiple that is tried, of which there are two where the whole of `beta` is
    best.
    """
    total = float(beta.sum()) if coupled else 0.0
    size = float(np.abs(beta).sum())
    # Multiples of coefficients with a given sum have another one.
    scalable = not coupled or abs(total) <= 1e-6 * size
    products = z - e
    quadratic = float(matmul(beta, products))

    def at(t: float) -> Settled:
        rest = z - t * products
        c, s = intercept, t * total
        if coupled:
            c = least_loss_intercept(rest, lower, upper, epsilon, total=s)
        return Settled(
            t, c, 0.5 * t * t * quadratic + _loss(rest - c, lower, upper, epsilon) + s * c
        )

    best = at(1.0)
    if not scalable or not size:
        return best
    for t in MULTIPLES[1:-1]:
        half = at(float(t))
        if half.primal >= best.primal:
            break
        best = half
    trivial = at(0.0)
    return best if best.primal <= trivial.primal else trivial


def least_loss_intercept(
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    epsilon: float = 0.0,
    *,
    total: float = 0.0,
) -> float:
    """Return the intercept c that minimises the loss of e - c plus total c; (n,) arrays.

    The slope of the loss grows at e_i - epsilon by u_i and at e_i + epsilon by -l_i: c is where it
    meets 0, the middle of the interval if it stays there. Half the width of that interval is the
    most that c can differ from the middle of the extremes at a solution without free points.
    """
    place = np.concatenate([e - epsilon, e + epsilon])
    weight = np.concatenate([upper, -lower])
    order = np.argsort(place, kind="stable")
    order = order[weight[order] > 0.0]
    if not len(order):
        return 0.0
    place, weight = place[order], weight[order]
    slope = np.cumsum(weight) - float(upper.sum()) + total
    # Sums of weights are rounded.
    rounding = 1e-12 * float(weight.sum())
    first = min(int(np.searchsorted(slope, -rounding)), len(place) - 1)
    if abs(slope[first]) <= rounding and first + 1 < len(place):
        return 0.5 * float(place[first] + place[first + 1])
    return float(place[first])


def _loss(e: np.ndarray, lower: np.ndarray, upper: np.ndarray, epsilon: float) -> float:
    above, below = np.maximum(e - epsilon, 0.0), np.maximum(-e - epsilon, 0.0)
    return float(matmul(upper, above) - matmul(lower, below))
