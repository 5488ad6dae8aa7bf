"""The two directions in which a coefficient b_k of the dual can move, where epsilon |b| is added.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u,    l <= 0 <= u,    e = z - Kb

A coordinate that goes up changes the objective at the rate -(e_k + lift_k), one that goes down at
the rate e_k + drop_k, where

    lift_k = -epsilon if b_k >= 0, epsilon if b_k < 0, -inf if b_k = u_k,
    drop_k =  epsilon if b_k <= 0, -epsilon if b_k > 0, inf if b_k = l_k.

A step ends at b_k = 0 at the latest, because the slope of epsilon |b| changes there. In a
classifier 0 is a bound of every coefficient and epsilon = 0, so this never matters.
"""

import numpy as np
from numba import njit


@njit(inline="always")
def distances(x, lower, upper):
    """How far a coefficient x can go up and down until it meets a bound or 0."""
    return (0.0 if x < 0.0 else upper) - x, x - (0.0 if x > 0.0 else lower)


@njit(inline="always")
def lift_and_drop(x, up, down, epsilon):
    """lift and drop of a coefficient x that can go `up` and `down` by these distances."""
    lift = -np.inf if up <= 0.0 else (-epsilon if x >= 0.0 else epsilon)
    drop = np.inf if down <= 0.0 else (epsilon if x <= 0.0 else -epsilon)
    return lift, drop
