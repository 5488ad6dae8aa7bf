"""The two directions in which a coefficient of the dual can move, and the slopes in both.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u,    l <= 0 <= u,    e = z - Kb

A coordinate that goes up changes the objective at the rate -(e_k + lift_k), a coordinate that goes
down at the rate e_k + drop_k, where

    lift_k = -epsilon if b_k >= 0, epsilon if b_k < 0, -inf if b_k = u_k,
    drop_k =  epsilon if b_k <= 0, -epsilon if b_k > 0, inf if b_k = l_k.

A step ends at b_k = 0 at the latest, because the slope of epsilon |b| changes there. In a
classifier, epsilon = 0 and 0 is a bound of every coefficient.
"""

from typing import Any

import numpy as np
from numba import njit

from kbench.solvers.best_multiple import least_loss_intercept

# Guard: a coefficient is at its end if its distance from the end is at most this fraction of the
# coefficient; sums over up to a million points are rounded by less.
_AT_END = 1e-10


@njit(inline="always")
def distances_to_ends(x, lower, upper):
    """Distances that a coefficient x can go up and down until it meets a bound or 0."""
    return (0.0 if x < 0.0 else upper) - x, x - (0.0 if x > 0.0 else lower)


@njit(inline="always")
def lift_and_drop(x, up, down, epsilon):
    """lift and drop of a coefficient x that can go `up` and `down` by these distances."""
    lift = -np.inf if up <= 0.0 else (-epsilon if x >= 0.0 else epsilon)
    drop = np.inf if down <= 0.0 else (epsilon if x <= 0.0 else -epsilon)
    return lift, drop


@njit(cache=True, nogil=True)
def are_at_ends(beta, lower, upper):
    """Whether all coefficients are at their ends up to rounding, at least one of them inexactly."""
    inexact = False
    for i in range(beta.shape[0]):
        x, near = beta[i], _AT_END * abs(beta[i])
        if x != 0.0 and lower[i] < x < upper[i]:
            inexact = True
            if lower[i] + near < x < upper[i] - near:
                return False
    return inexact


_at_ends: Any = are_at_ends  # mypy does not know the arguments of a compiled function


def intercept_at_ends(
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    epsilon: float,
    intercept: float,
) -> float:
    """Return the middle of all optimal intercepts if all coefficients are at their ends, at least
    one of them only up to rounding; otherwise `intercept`, which free points or that middle have
    already determined. O(n log n).

    If the bounds of two classes have equal sums (weights "balanced", and a small C), rounding
    leaves one point 1e-15 of its bound away from the bound. As a free point it alone would put the
    intercept at an end of the interval, and every row into one class.
    """
    if not _at_ends(beta, lower, upper):
        return intercept
    return least_loss_intercept(e, lower, upper, epsilon, total=float(beta.sum()))
