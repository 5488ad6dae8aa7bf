"""Coordinate descent with LIBSVM's shrinking: the solver that the DC-SVM papers call LIBSVM.

    min_b  1/2 b'Kb - z'b,   lower <= b <= upper,        e = z - Kb
    v_i = max( e_i if b_i < upper_i, -e_i if b_i > lower_i )

    repeat                                                   on the points of A, at first all
      i = argmax v;  stop if v_i <= tol and A is all points
      if v_i <= tol: bring e of the others up to date, A <- all points
      b_i <- clip(b_i + e_i / K_ii);  e_A <- e_A - (change of b_i) K_iA
      every min(n, 1000) steps: remove points from A with b_i at a bound and v_i < -(largest v)

R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working Set Selection Using Second Order Information for Training
Support Vector Machines" (JMLR 2005), section 4, without the equality constraint. `solve_box_dual`
is much faster; this solver exists for the figures of DC-SVM that show which points are shrunk, and
when. b is `beta` in the code.
"""

import numpy as np
from numba import njit

from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual.row_cache import RowCache
from kbench.trace import Trace

# LIBSVM's number of steps between two shrinkings.
STEPS_BETWEEN = 1000
# The row cache is reset when this fraction of its columns is no longer active: shorter rows are
# cheaper, but a reset drops the stored rows. It changes only the time. Set by hand.
_MAX_INACTIVE = 0.25


def shrinking_descent(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    *,
    tol: float = 1e-3,
    cache_mb: float = 200.0,
    shrink_every: int = STEPS_BETWEEN,
    trace: Trace | None = None,
) -> np.ndarray:
    """Solve the dual of the support vector machine without intercept.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    y : (n,) array of -1 and +1
    C : (n,) array, > 0
    tol : Violation at which to stop, by e in the precision of the kernel; LIBSVM's default
    cache_mb : Memory for kernel rows, MiB; scikit-learn's default
    shrink_every : Steps between two shrinkings, at most n; 0 never shrinks
    trace : Receives alpha, objective and `candidates` : (n,) bool at each shrinking and at the end.
        Candidates are the active points and the support vectors; at the end, the support vectors

    Returns
    -------
    alpha : (n,)

    Notes
    -----
    Each step costs a kernel row of the active points, O(n_active d), unless it is stored.
    """
    n = len(y)
    trace = Trace() if trace is None else trace
    lower, upper = np.minimum(0.0, y * C), np.maximum(0.0, y * C)
    diagonal = np.maximum(kernel.diagonal(), 1e-12)  # guard: steps divide by it
    beta, e, objective = np.zeros(n), y.astype(np.float64), 0.0
    rows = RowCache(kernel, cache_mb, 1)
    rows.lay_out(np.arange(n), n)
    active = np.ones(n, bool)
    interval = steps_left = min(n, shrink_every) or -1  # -1 never becomes 0

    def report(mask: np.ndarray) -> None:
        if trace.active:
            trace(alpha=np.abs(beta), objective=objective, candidates=mask | (beta != 0.0))

    while True:
        columns = rows.columns
        i, violation = _most_violating(beta, e, lower, upper, active)
        if violation <= tol:
            if active.all():
                report(beta != 0.0)
                return np.abs(beta)
            report(active)
            # The residual of the columns of the cache is up to date.
            outdated = np.setdiff1d(np.arange(n), columns, assume_unique=True)
            support = np.flatnonzero(beta)
            e[outdated] = y[outdated] - kernel.product(support, beta[support], rows=outdated)
            active[:] = True
            rows.lay_out(np.arange(n), n)
            steps_left = interval
            continue
        if steps_left == 0:
            steps_left = interval
            _shrink(beta, e, lower, upper, violation, active)
            report(active)
            if np.count_nonzero(active) < (1.0 - _MAX_INACTIVE) * len(columns):
                columns = np.flatnonzero(active)
                rows.lay_out(columns, len(columns))
        before = beta[i]
        beta[i] = min(max(before + e[i] / diagonal[i], lower[i]), upper[i])
        change = beta[i] - before
        objective -= change * (e[i] - 0.5 * diagonal[i] * change)
        e[columns] -= rows.product(np.array([i]), np.array([change]))
        steps_left -= 1


@njit(cache=True)
def _most_violating(beta, e, lower, upper, active):
    """Return the active point with the largest violation, and its violation."""
    worst, violation = 0, -np.inf
    for i in range(len(beta)):
        if active[i]:
            v = max(
                e[i] if beta[i] < upper[i] else -np.inf, -e[i] if beta[i] > lower[i] else -np.inf
            )
            if v > violation:
                worst, violation = i, v
    return worst, violation


@njit(cache=True)
def _shrink(beta, e, lower, upper, violation, active):
    """Deactivate points at a bound whose KKT slack exceeds the largest violation."""
    for i in range(len(beta)):
        at_lower, at_upper = beta[i] == lower[i], beta[i] == upper[i]
        if (at_lower and e[i] < -violation) or (at_upper and e[i] > violation):
            active[i] = False
