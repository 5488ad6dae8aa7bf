"""The minimum over the free points of a regression, found with one Cholesky factorisation.

    min_d  1/2 d'Kd - g'd,   low <= b + d <= high,   1'd = 0,        g = e - epsilon sign(b)

over the points with 0 < |b| < C, low and high being 0 and the bound on the side of b. Pairs of
coordinates find quickly which points are free, but make little progress on them where K is
ill-conditioned: a wide kernel and a large bound. Block principal pivoting (Portugal, Judice and
Vicente, "A comparison of block pivoting and interior-point algorithms for linear least squares
problems with nonnegative variables", Math. Comp. 63, 1994):

    R = {}                                            points that are fixed at an end
    repeat
      d = the minimum with 1'd = 0 and b + d at its end in R, nu its multipliers
      stop if b + d is within its ends everywhere and no point of R gains by leaving its end
      R <- R without the points that gain, with all points outside their ends

With K = LL' and the constraints C'd = h, d = L^-T (L^-1 g - Y nu) and Y'Y nu = Y'L^-1 g - h where
Y = L^-1 C, so that a change of R costs one triangular solve for each new point, not a
factorisation. On kin40k (10,000 rows, C = 10, 2,000 free points) three to six rounds suffice, and
the fit takes 0.6 times as long as with pairs alone (`scripts/bench_small.py --regression`).
"""

import functools

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs
from threadpoolctl import ThreadpoolController

from kbench.intrinsics.products import matmul

# Added to the diagonal, for each point: float64 kernel values leave K with negative eigenvalues of
# this size in the worst case.
_RIDGE = 1e-9
# Limit on the rounds, and on the fraction of the points that may be fixed: beyond it, the face is
# not nearly the solution's, and pairs change it at less cost.
_MOST_ROUNDS = 15
_MOST_FIXED = 0.5
# A point of R gains by leaving its end if its multiplier has the wrong sign by more than this.
_ROUNDING = 1e-12


def face_minimum(
    K: np.ndarray, beta: np.ndarray, rate: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Return the minimum with the sum of `beta` kept, (m,); None if it was not found.

    O(m^3) for the factorisation and O(m^2) for each point that meets an end; O(m^2) memory.

    Parameters
    ----------
    K : (m, m) float64, symmetric
        Overwritten.
    beta : (m,)
        A point between its ends.
    rate : (m,)
        g; a constant added to it changes nothing.
    low, high : (m,)
        The ends.
    """
    # LAPACK rounds differently with another number of threads, and the model must not.
    with _blas().limit(limits=1, user_api="blas"):
        return _pivot(K, beta, rate, low, high)


@functools.cache
def _blas() -> ThreadpoolController:
    """The loaded libraries; looking for them takes milliseconds."""
    return ThreadpoolController()


def _pivot(
    K: np.ndarray, beta: np.ndarray, rate: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    m = len(beta)
    K.flat[:: m + 1] += _RIDGE * m
    L, failed = dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if failed:
        return None
    Y = _solve(L, np.column_stack([np.ones(m), rate]))
    Y, g = Y[:, :1], Y[:, 1]
    fixed, side = np.empty(0, np.intp), np.empty(0)  # R, and 1 at high, -1 at low
    for _ in range(_MOST_ROUNDS):
        ends = np.where(side > 0.0, high[fixed], low[fixed])
        distance = np.concatenate([[0.0], ends - beta[fixed]])
        try:
            multipliers = np.linalg.solve(matmul(Y.T, Y), matmul(Y.T, g) - distance)
        except np.linalg.LinAlgError:
            return None
        new = beta + _solve(L, g - matmul(Y, multipliers), transposed=True)
        new[fixed] = ends
        above, below = new > high, new < low
        outside, stays = np.flatnonzero(above | below), multipliers[1:] * side >= -_ROUNDING
        if not len(outside) and stays.all():
            # The sum has rounding errors; the point with the longest way to its ends takes them.
            middle = int(np.minimum(new - low, high - new).argmax())
            new[middle] -= float(np.sum(new - beta))
            return new if low[middle] <= new[middle] <= high[middle] else None
        if len(fixed) + len(outside) > _MOST_FIXED * m:
            return None
        unit = np.zeros((m, len(outside)), order="F")
        unit[outside, np.arange(len(outside))] = 1.0
        kept = np.concatenate([[True], stays])
        Y = np.column_stack([Y[:, kept], _solve(L, unit)])
        fixed = np.concatenate([fixed[stays], outside])
        side = np.concatenate([side[stays], np.where(above[outside], 1.0, -1.0)])
    return None


def _solve(L: np.ndarray, right: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """L^-1 right, or L^-T right."""
    solution: np.ndarray = dtrtrs(L, right, lower=1, trans=int(transposed))[0]
    return solution
