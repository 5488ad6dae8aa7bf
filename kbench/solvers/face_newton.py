"""Newton steps on the face of the box that a small dense quadratic problem has come to.

    min_b  1/2 b'Kb - z'b,   l <= b <= u,        e = z - Kb

Coordinates find the face quickly, and creep on it where K is ill-conditioned: a wide kernel and a
large bound. So, as in Moré and Toraldo (1991),

    F = {i : l_i < b_i < u_i},   (K_FF + ridge I) d = e_F
    b_F <- b_F + t d,   t <= 1 as long as the box allows        who meets a bound leaves F
    until t = 1

The ridge keeps the matrix positive definite in spite of rounding; with it d still lowers the
objective for every t <= 1, because d'e_F >= d'K_FF d.
"""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

# Each face costs a factorisation.
_MOST_FACES = 6


def face_steps(
    K: np.ndarray,
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    ridge: float,
) -> None:
    """Minimise over the free coordinates, in place.

    Parameters
    ----------
    K : (q, q) float32 or float64, symmetric
    beta, e, lower, upper : (q,) float64
        Feasible point, its residual z - K beta, the box.
    ridge : float, > 0
        Above the error of the eigenvalues of K. O(q^3) time, O(q^2) memory.
    """
    for _ in range(_MOST_FACES):
        free = np.flatnonzero((beta > lower) & (beta < upper))
        if not len(free):
            return
        block = K[np.ix_(free, free)].astype(np.float64)
        block.flat[:: len(free) + 1] += ridge
        try:
            step = cho_solve(cho_factor(block, overwrite_a=True), e[free])
        except LinAlgError:
            return
        room = np.where(step > 0.0, upper[free] - beta[free], beta[free] - lower[free])
        share = np.divide(room, np.abs(step), out=np.full(len(free), np.inf), where=step != 0.0)
        t = min(1.0, float(share.min()))
        before = beta[free]
        moved = np.clip(before + t * step, lower[free], upper[free])
        # The bound itself, not a rounded sum: a point is at a bound by equality.
        met = share <= t
        moved[met] = np.where(step > 0.0, upper[free], lower[free])[met]
        beta[free] = moved
        e -= K[:, free] @ (moved - before)
        if t == 1.0:
            return
