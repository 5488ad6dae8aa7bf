"""Descent on one coordinate at a time with LIBSVM's shrinking, the DC-SVM papers' LIBSVM.

    min_b  1/2 b'Kb - z'b,   lower <= b <= upper,        e = z - Kb
    v_i = max( e_i if b_i < upper_i, -e_i if b_i > lower_i )

    repeat                                                   on the points of A, at first all
      i = argmax v;  stop if v_i <= tol and A is all points
      if v_i <= tol: bring e of the others up to date, A <- all points
      b_i <- clip(b_i + e_i / K_ii);  e_A <- e_A - (change of b_i) K_iA
      every min(n, 1000) steps: drop from A whose b_i is at a bound and v_i < -(largest v)

R.-E. Fan, P.-H. Chen, C.-J. Lin, "Working Set Selection Using Second Order Information for Training
Support Vector Machines" (JMLR 2005), section 4, without the equality constraint. `solve_box_dual`
takes a hundredth of the time; this is here for the points that it sets aside, and when.
"""

import numpy as np
from numba import njit

from kbench.kernels import KernelMatrix
from kbench.solvers.row_cache import RowCache
from kbench.trace import Trace

_MOST_STEPS = 1000
# Stored rows are laid out anew, and so lost, when this share of their columns is no longer needed.
_UNUSED = 0.25


def shrinking_descent(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    *,
    tol: float = 1e-3,
    cache_mb: float = 200.0,
    trace: Trace | None = None,
) -> np.ndarray:
    """Solve the dual of the support vector machine without intercept.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    y : (n,) array of -1 and +1
    C : (n,) array, > 0
    tol : float
        On the violation by e as it is kept, in the precision of the kernel.
    cache_mb : float
        MiB of kernel rows.
    trace : Trace, optional
        Told at each shrinking: alpha, objective, and `candidates` : (n,) bool, who has not been set
        aside at zero; at the end, who supports the solution.

    Returns
    -------
    alpha : (n,)

    Notes
    -----
    A kernel row of the active points for each step, unless it is stored: O(n_active d).
    """
    n = len(y)
    trace = Trace() if trace is None else trace
    lower, upper = np.minimum(0.0, y * C), np.maximum(0.0, y * C)
    diagonal = np.maximum(kernel.diagonal(), 1e-12)
    beta, e, objective = np.zeros(n), y.astype(np.float64), 0.0
    rows = RowCache(kernel, cache_mb, 1)
    rows.lay_out(np.arange(n), n)
    active = np.ones(n, bool)
    most = left = min(n, _MOST_STEPS)

    def tell(kept: np.ndarray) -> None:
        if trace.active:
            trace(alpha=np.abs(beta), objective=objective, candidates=kept | (beta != 0.0))

    while True:
        columns = rows.columns
        i, violation = _worst(beta, e, lower, upper, active)
        if violation <= tol:
            if active.all():
                tell(beta != 0.0)
                return np.abs(beta)
            tell(active)
            # The residual of the columns is up to date.
            others = np.setdiff1d(np.arange(n), columns, assume_unique=True)
            support = np.flatnonzero(beta)
            e[others] = y[others] - kernel.product(support, beta[support], rows=others)
            active[:] = True
            rows.lay_out(np.arange(n), n)
            left = most
            continue
        if left == 0:
            left = most
            _shrink(beta, e, lower, upper, violation, active)
            tell(active)
            if np.count_nonzero(active) < (1.0 - _UNUSED) * len(columns):
                columns = np.flatnonzero(active)
                rows.lay_out(columns, len(columns))
        before = beta[i]
        beta[i] = min(max(before + e[i] / diagonal[i], lower[i]), upper[i])
        change = beta[i] - before
        objective -= change * (e[i] - 0.5 * diagonal[i] * change)
        e[columns] -= rows.product(np.array([i]), np.array([change]))
        left -= 1


@njit(
    ["Tuple((i8, f8))(f8[::1], f8[::1], f8[::1], f8[::1], b1[::1])"],
    cache=True,
)
def _worst(beta, e, lower, upper, active):
    """The active point with the largest violation, and that."""
    worst, most = 0, -np.inf
    for i in range(len(beta)):
        if active[i]:
            v = max(
                e[i] if beta[i] < upper[i] else -np.inf, -e[i] if beta[i] > lower[i] else -np.inf
            )
            if v > most:
                worst, most = i, v
    return worst, most


@njit(["void(f8[::1], f8[::1], f8[::1], f8[::1], f8, b1[::1])"], cache=True)
def _shrink(beta, e, lower, upper, violation, active):
    """Set aside who is held at a bound by more than the largest violation."""
    for i in range(len(beta)):
        at_lower, at_upper = beta[i] == lower[i], beta[i] == upper[i]
        if (at_lower and e[i] < -violation) or (at_upper and e[i] > violation):
            active[i] = False
