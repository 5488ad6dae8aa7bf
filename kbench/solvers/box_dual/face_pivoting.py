"""The minimum over the free points, found with one Cholesky factorisation.

    min_d  1/2 d'Kd - g'd,   low <= b + d <= high,   1'd = 0,        g = e - epsilon sign(b)

over the points with 0 < |b| < C. The ends low and high are 0 and the bound with the sign of b.
Steps of two coordinates find quickly which points are free, but make little progress on free points
if K is ill-conditioned (a wide kernel) and bounds are large. Block principal pivoting (Portugal,
Judice and Vicente, "A comparison of block pivoting and interior-point algorithms for linear least
squares problems with nonnegative variables", Math. Comp. 63, 1994):

    R = {}                                            points that are fixed at an end
    repeat
      d = the minimum with 1'd = 0 and b + d at its end in R, nu its multipliers
      stop if b + d is within its ends everywhere and no point of R gains by leaving its end
      R <- R without the points that gain, with the points that meet their ends early

With K = LL' and the constraints C'd = h, d = L^-T (L^-1 g - Y nu) and Y'Y nu = Y'L^-1 g - h where
Y = L^-1 C, so that a change of R costs one triangular solve for each new point instead of a
factorisation. On kin40k (10,000 rows, C = 10, 2,000 free points) three to six rounds suffice, and
a fit takes 0.6 times as long as without this minimum (`scripts/bench_small.py --regression`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from kbench.intrinsics.products import matmul, one_blas_thread
from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual.iterate import free_points

# Guard: m times this number is added to the diagonal of K of m points, which rounding of float64
# kernel values may leave with small negative eigenvalues.
_RIDGE = 1e-9
# Limits on the rounds, and on the fraction of the points that may be fixed: beyond them, the free
# points are far from the solution's, and steps of two coordinates cost less. Set by hand.
_MAX_ROUNDS = 25
_MAX_FIXED = 0.5
# Points that d moves beyond their ends are fixed. If more than _FEW_FRACTION of them meet their
# ends in the first _EARLY_FRACTION of the move, only these are fixed: up to two thirds of all would
# leave R again, each at the cost of a triangular solve. 5,000 rows of noise with C = 100 and 2,833
# free points take 0.33 s instead of 0.93 s (`scripts/bench_everyday.py`).
_EARLY_FRACTION, _FEW_FRACTION = 0.2, 0.1
# Guard: a point of R gains by leaving its end only if its multiplier has the wrong sign and is
# above this number.
_ROUNDING = 1e-12


def face_minimum(
    K: np.ndarray, beta: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """Return the minimum with the sum of `beta`, (m,); None if it was not found.

    O(m^3) for the factorisation and O(m^2) for each point that meets an end; O(m^2) memory.

    K : (m, m) float64, symmetric. Overwritten.
    beta : (m,). A point between its ends.
    g : (m,). e - epsilon sign(b); a constant added to g changes nothing.
    low, high : (m,). The ends.
    """
    with one_blas_thread:
        return _pivot(K, beta, g, low, high)


@dataclass(frozen=True)
class FaceStep:
    """The changes of a move to the minimum over the free points."""

    change: np.ndarray  # (f,): of the free coefficients
    decrease: float  # Of the objective


def descend_to_minimum(
    kernel: KernelMatrix,
    points: np.ndarray,
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    epsilon: float,
    product: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> FaceStep | None:
    """Move the free coefficients of these points to their minimum if the objective falls.

    points : (m,) indices
    beta, e, lower, upper : (m,) of these points; beta and e are changed in place
    product : (positions among the points, changes of their beta) -> K change, (m,)
    """
    free = np.flatnonzero(free_points(beta, lower, upper))
    if len(free) < 2:
        return None
    before, e_before = beta[free], e[free]
    low = np.where(before > 0.0, 0.0, lower[free])
    high = np.where(before < 0.0, 0.0, upper[free])
    exact = kernel.astype(np.float64)
    K = exact.block(points[free], exact.points(points[free]))
    after = face_minimum(K, before, e_before - epsilon * np.sign(before), low, high)
    if after is None:
        return None
    change = after - before
    change_of_e = product(free, change)
    penalty_growth = epsilon * float(np.abs(after).sum() - np.abs(before).sum())
    decrease = 0.5 * float(matmul(change, 2.0 * e_before - change_of_e[free])) - penalty_growth
    if decrease <= 0.0:
        return None
    beta[free] = after
    e -= change_of_e
    return FaceStep(change, decrease)


def _pivot(
    K: np.ndarray, beta: np.ndarray, g: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray | None:
    """`face_minimum`: each round exchanges points of the set R of the module's docstring."""
    m = len(beta)
    K.flat[:: m + 1] += _RIDGE * m
    L, info = dpotrf(K.T, lower=1, overwrite_a=1, clean=0)
    if info:
        return None
    solved = _solve(L, np.column_stack([np.ones(m), g]))
    Y = _Columns(solved[:, 1])
    Y.append(solved[:, :1])
    active = np.zeros(1, np.intp)  # columns of Y of the constraints: the sum, and points of R
    fixed, side = np.empty(0, np.intp), np.empty(0)  # R, and 1 at high, -1 at low
    for _ in range(_MAX_ROUNDS):
        ends = np.where(side > 0.0, high[fixed], low[fixed])
        distance = np.concatenate([[0.0], ends - beta[fixed]])
        try:
            multipliers = np.linalg.solve(Y.gram(active), Y.products_with_v[active] - distance)
        except np.linalg.LinAlgError:
            return None
        new_beta = beta + _solve(L, Y.residual(active, multipliers), transposed=True)
        new_beta[fixed] = ends
        above, below = new_beta > high, new_beta < low
        outside, remains_fixed = np.flatnonzero(above | below), multipliers[1:] * side >= -_ROUNDING
        if not len(outside) and remains_fixed.all():
            # The point that is farthest from its ends corrects the rounding error of the sum.
            innermost = int(np.minimum(new_beta - low, high - new_beta).argmax())
            new_beta[innermost] -= float(np.sum(new_beta - beta))
            return new_beta if low[innermost] <= new_beta[innermost] <= high[innermost] else None
        distance_to_end = np.where(above, high - beta, beta - low)[outside]
        meets_early = outside[distance_to_end <= _EARLY_FRACTION * np.abs(new_beta - beta)[outside]]
        if len(meets_early) > _FEW_FRACTION * len(outside):
            outside = meets_early
        if len(fixed) + len(outside) > _MAX_FIXED * m:
            return None
        unit_columns = np.zeros((m, len(outside)), order="F")
        unit_columns[outside, np.arange(len(outside))] = 1.0
        columns = Y.append(_solve(L, unit_columns))
        active = np.concatenate([active[np.concatenate([[True], remains_fixed])], columns])
        fixed = np.concatenate([fixed[remains_fixed], outside])
        side = np.concatenate([side[remains_fixed], np.where(above[outside], 1.0, -1.0)])
    return None


class _Columns:
    """Y with the products Y'Y and Y'v (`along`), v = L^-1 g, computed once for each column."""

    def __init__(self, v: np.ndarray) -> None:
        self._v, self._n = v, 0
        self._Y = np.empty((len(v), 0), order="F")
        self._gram, self.products_with_v = np.empty((0, 0)), np.empty(0)

    def append(self, new_columns: np.ndarray) -> np.ndarray:
        """Append columns, (m, k); return their numbers."""
        n, self._n = self._n, self._n + new_columns.shape[1]
        if self._n > self._Y.shape[1]:
            capacity = max(self._n, 2 * self._Y.shape[1])
            Y, gram = np.empty((len(self._v), capacity), order="F"), np.empty((capacity, capacity))
            Y[:, :n], gram[:n, :n] = self._Y[:, :n], self._gram[:n, :n]
            self._Y, self._gram = Y, gram
        self._Y[:, n : self._n] = new_columns
        products = matmul(self._Y[:, : self._n].T, new_columns)
        self._gram[: self._n, n : self._n], self._gram[n : self._n, : self._n] = (
            products,
            products.T,
        )
        self.products_with_v = np.concatenate(
            [self.products_with_v, matmul(new_columns.T, self._v)]
        )
        return np.arange(n, self._n)

    def gram(self, active: np.ndarray) -> np.ndarray:
        """Y'Y of the active columns."""
        return self._gram[np.ix_(active, active)]

    def residual(self, active: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        """v - Y multipliers, with the active columns of Y; (m,)."""
        all_multipliers = np.zeros(self._n)
        all_multipliers[active] = multipliers
        return self._v - matmul(self._Y[:, : self._n], all_multipliers)


def _solve(L: np.ndarray, rhs: np.ndarray, *, transposed: bool = False) -> np.ndarray:
    """Return L^-1 rhs, or L^-T rhs if `transposed`."""
    solution: np.ndarray = dtrtrs(L, rhs, lower=1, trans=int(transposed))[0]
    return solution
