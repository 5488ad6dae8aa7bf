"""Newton steps on the face of the bounds that a small dense quadratic problem has reached.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,   l <= b <= u,        e = z - Kb

Coordinate steps find the face (which points are free) quickly, but make little progress on a face
if K is ill-conditioned (a wide kernel) and the bounds are large. So, as in More and Toraldo (1991),

    F = {i : l_i < b_i < u_i, b_i != 0},   (K_FF + ridge I) d = e_F - epsilon sign(b_F)
    b_F <- b_F + t d,   t <= 1 as large as the bounds allow     points that reach a bound leave F
    until t = 1

0 counts as a bound, because the slope of epsilon |b| changes there; in a classifier 0 is a bound.

The ridge keeps the matrix positive definite in spite of rounding; d still lowers the objective for
every t <= 1, because d'(e_F - epsilon sign(b_F)) >= d'K_FF d.

Only problems without an intercept use these steps: ijcnn1_large_C takes more than three times as
long without them (`scripts/ablate_svm.py --free`, `face_newton`).
"""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from kbench.intrinsics.products import matmul

# Guard: faces per call. Each costs a Cholesky factorisation; coordinate steps continue afterwards.
_MAX_FACES = 6


def face_steps(
    K: np.ndarray,
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    epsilon: float = 0.0,
    *,
    ridge: float,
) -> None:
    """Minimise over the free coordinates, in place. O(q^3) time and O(q^2) memory per face.

    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper : (q,) float64
        Feasible point, its residual z - K beta, the bounds on both sides of 0.
    ridge : float, > 0. At least the rounding error of the eigenvalues of K.
    """
    for _ in range(_MAX_FACES):
        free = np.flatnonzero((beta > lower) & (beta < upper) & (beta != 0.0))
        if not len(free):
            return
        block = K[np.ix_(free, free)].astype(np.float64)
        block.flat[:: len(free) + 1] += ridge
        before, g = beta[free], e[free] - epsilon * np.sign(beta[free])
        low, high = (
            np.where(before > 0.0, 0.0, lower[free]),
            np.where(before < 0.0, 0.0, upper[free]),
        )
        try:
            step = cho_solve(cho_factor(block, overwrite_a=True), g)
        except LinAlgError:
            return
        distance = np.where(step > 0.0, high - before, before - low)
        longest = np.full(len(free), np.inf)
        np.divide(distance, np.abs(step), out=longest, where=step != 0.0)
        t = min(1.0, float(longest.min()))
        after = np.clip(before + t * step, low, high)
        # Set the bound itself and not a rounded sum: solvers test for equality with bounds.
        at_bound = longest <= t
        after[at_bound] = np.where(step > 0.0, high, low)[at_bound]
        beta[free] = after
        e -= matmul(K[:, free], after - before)
        if t == 1.0:
            return
