"""Iterative refinement: the residual in float64 where it decides, and steps until it is small.

Kernel entries in float32 leave e with an error that grows with the coefficients and with the number
of updates; a solve that has ended by its own e may miss the tolerance several times over. So

    band = points that are free, or held by less than w, or in violation
    repeat
      e_band = z - K[band, support] b                        float64 entries
      if the largest correction was more than w / 8: double w, or more, and repeat
      stop if the violation is at most tol
      descend on the band from the true e                    float32 entries, then float64

At last, if such errors could be seen in the objective, all support vectors get their exact e. A
point outside the band has been held by eight times the largest error that was seen on the band,
so the violation is that of all points. Where all n residuals cost little they are all made exact.
"""

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.solvers.block_descent import BlockDescent
from kbench.solvers.iterate import Iterate
from kbench.solvers.row_cache import RowCache

_BAND = 0.05
_SAFETY = 8.0
# As many float64 entries are computed in the time that nobody notices.
_CHEAP_ENTRIES = 1 << 22
# Relative error of the objective that is left to float32.
_OBJECTIVE_ERROR = 1e-5
_MAX_ROUNDS = 30


def refine(iterate: Iterate, descent: BlockDescent, tol: float) -> tuple[float, str]:
    """Lower the true violation to `tol`.

    Returns
    -------
    violation : float
        With residuals from float64 entries, exact on the band.
    stop_reason : str
        "" where tol was reached, or a limit, or "precision".
    """
    it = iterate
    n = len(it)
    exact = it.kernel.astype(np.float64)
    true_beta = np.zeros(n)  # what the residual of the points in `true` belongs to
    true = np.zeros(n, bool)
    if exact is it.kernel and not it.residual_error and not it.budget.exhausted():
        true[:], true_beta[:] = True, it.beta
    width = _BAND * it.scale
    previous, exact_rows = np.inf, False
    for _ in range(_MAX_ROUNDS):
        limit = it.budget.exhausted()
        everything = limit or n * np.count_nonzero(it.beta) <= _CHEAP_ENTRIES
        band = np.ones(n, bool) if everything else it.resistance() < width
        drift = max(it.residual_error, _correct(it, exact, true, true_beta, band))
        it.residual_error = 0.0 if true.all() else drift
        if not everything and _SAFETY * drift > width:
            width = 2.0 * _SAFETY * drift
            continue
        violation = it.settle()
        if violation <= tol or limit:
            blurred = drift * float(np.abs(it.beta).sum())
            if blurred > _OBJECTIVE_ERROR * abs(it.true_objective()):
                _correct(it, exact, true, true_beta, it.beta != 0.0)
            return violation, limit if violation > tol else ""
        if violation > 0.5 * previous:
            if exact_rows:
                return violation, "precision"
            exact_rows = True
            descent = BlockDescent(it, exact, RowCache(exact, 0.0, 1))
        previous = violation
        points = np.flatnonzero(true & (it.resistance() < width))
        if not np.array_equal(points, descent.active):
            descent.activate(points)
        before, shown = it.beta.copy(), it.residual[true]
        descent.solve(0.8 * tol)
        # The residual that is kept for `true` is that of `true_beta`; the others follow in float32.
        it.residual[true] = shown
        it.update(np.flatnonzero(~true), before)
    return it.settle(), "precision"


def _correct(
    it: Iterate,
    exact: KernelMatrix,
    true: np.ndarray,
    true_beta: np.ndarray,
    band: np.ndarray,
) -> float:
    """Make the residual exact on `band`; the largest error that a new point of it had."""
    old = np.flatnonzero(true)
    moved = np.flatnonzero(it.beta != true_beta)
    if len(old) and len(moved):
        change = (it.beta - true_beta)[moved]
        it.residual[old] -= exact.product(moved, change, rows=old)
    true_beta[:] = it.beta
    new = np.flatnonzero(band & ~true)
    if not len(new):
        return 0.0
    support = np.flatnonzero(it.beta)
    value = it.z[new]
    if len(support):
        value = value - exact.product(support, it.beta[support], rows=new)
    drift = float(np.abs(value - it.residual[new]).max())
    it.residual[new] = value
    true[new] = True
    return drift
