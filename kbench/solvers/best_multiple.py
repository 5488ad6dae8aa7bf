"""The model of a dual solver that a limit has stopped: no worse than the best constant.

    P(b, c) = 1/2 b'Kb + sum_i max {x (e_i - c) - epsilon |x| : l_i <= x <= u_i} + s c,   e = z - Kb

is the primal objective of coefficients b with intercept c, where s is the sum that b must have.
Every step of the solvers lowers the dual objective, but may raise P: a solver that is stopped long
before it converges can leave a decision function that is far worse than a constant, and the usual
intercept, the middle between the two extreme residuals, depends on only two rows. A stopped solver
therefore returns the multiple t b of its coefficients with the smallest P, t = 1, 1/2, 1/4, ..., 0,
and the intercept that minimises P for t b. P is convex in t, and t = 0 gives the best constant.
Multiplication by a power of two causes no rounding error.
"""

from typing import NamedTuple

import numpy as np

from kbench.intrinsics.products import matmul

# Multiples t of the coefficients: below 2^-20, decision values are less than 1e-6 of the original
# values, so the last t is 0. Set by hand.
MULTIPLES = np.concatenate([2.0 ** -np.arange(21.0), [0.0]])


class Settled(NamedTuple):
    """The multiple of a stopped solver's coefficients with the smallest primal objective P."""

    multiple: float  # t
    intercept: float  # c
    primal: float  # P(t b, c)


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
    """Return the multiple of `beta` and the intercept with the smallest primal objective.

    beta, e : (n,) float64. Coefficients within the bounds and their residual z - K beta.
    z, lower, upper : (n,) float64. Linear term and bounds of the problem; lower <= 0 <= upper.
    coupled : Whether the intercept is free; otherwise it is `intercept`

    O(n log n) time for each multiple that is tried: three if t = 1 is best, at most 22.
    """
    total = float(beta.sum()) if coupled else 0.0
    norm = float(np.abs(beta).sum())
    # The sum of t b is t s, so other multiples are feasible only if s = 0. Guard: up to 1e-6 |b|_1.
    is_scalable = not coupled or abs(total) <= 1e-6 * norm
    products = z - e
    quadratic = float(matmul(beta, products))

    def settle_multiple(t: float) -> Settled:
        residual = z - t * products
        c, s = intercept, t * total
        if coupled:
            c = least_loss_intercept(residual, lower, upper, epsilon, total=s)
        return Settled(
            t, c, 0.5 * t * t * quadratic + _loss(residual - c, lower, upper, epsilon) + s * c
        )

    best = settle_multiple(1.0)
    if not is_scalable or not norm:
        return best
    for t in MULTIPLES[1:-1]:
        candidate = settle_multiple(float(t))
        if candidate.primal >= best.primal:
            break
        best = candidate
    trivial = settle_multiple(0.0)
    return best if best.primal <= trivial.primal else trivial


def least_loss_intercept(
    e: np.ndarray, lower: np.ndarray, upper: np.ndarray, epsilon: float = 0.0, *, total: float = 0.0
) -> float:
    """Return the intercept c that minimises `_loss`(e - c) + total c; e, lower, upper : (n,).

    The objective is convex and piecewise linear in c: its slope grows by u_i at e_i - epsilon, and
    by -l_i at e_i + epsilon. At the result the slope changes its sign; if the slope is 0 on an
    interval, the result is the middle of the interval.
    """
    kinks = np.concatenate([e - epsilon, e + epsilon])
    weight = np.concatenate([upper, -lower])
    order = np.argsort(kinks, kind="stable")
    order = order[weight[order] > 0.0]
    if not len(order):
        return 0.0
    kinks, weight = kinks[order], weight[order]
    slope = np.cumsum(weight) - float(upper.sum()) + total
    # Guard: a slope of at most the rounding error of the sums of weights counts as 0.
    rounding = 1e-12 * float(weight.sum())
    first = min(int(np.searchsorted(slope, -rounding)), len(kinks) - 1)
    if abs(slope[first]) <= rounding and first + 1 < len(kinks):
        return 0.5 * float(kinks[first] + kinks[first + 1])
    return float(kinks[first])


def _loss(e: np.ndarray, lower: np.ndarray, upper: np.ndarray, epsilon: float) -> float:
    """sum_i max {x e_i - epsilon |x| : l_i <= x <= u_i}"""
    above, below = np.maximum(e - epsilon, 0.0), np.maximum(-e - epsilon, 0.0)
    return float(matmul(upper, above) - matmul(lower, below))
