"""Iterative refinement: float64 residuals near the margin, and steps until the violation is small.

float32 kernel values leave e with an error that grows with the coefficients and the number of
updates. A solve that stops by this e may end with several times the tolerated violation. So

    band = points whose KKT slack is below w: free points, violators, points near their margin
    repeat
      e_band = z - K[band, support] b                        float64 kernel values
      if the largest correction was more than w / 8: at least double w, and repeat
      stop if the violation is at most tol
      descend on the band from the true e                    float32 values, finally float64

At the end, if errors of e would be visible in the objective, e of all support vectors is computed
in float64. The objective has the term b'e / 2, so its error is estimated by the mean correction on
the band times |b|_1 / 2. A point outside the band has a slack of at least eight times the largest
error observed on the band, so the violation on the band is that of all points, if no other error is
eight times as large. Errors of a point grow with the root of its K_ii, and so does the width of the
band. If all n residuals cost little, all are computed in float64.

If the tolerance is below the rounding errors of float64 sums (C K_ii above 1e12), the reason of the
stop is "precision".

Without refinement the true violation exceeds tol on ijcnn1_large_C and cod-rna
(`scripts/ablate_svm.py`, `refinement`).
"""

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual.block_descent import BlockDescent
from kbench.solvers.box_dual.iterate import Iterate
from kbench.solvers.box_dual.row_cache import RowCache

# First width w of the band in units of the mean |z|, and least ratio of w to the largest
# correction: a band that is too narrow grows. With 0.05 instead of 0.01, regression at C = 1
# computes two to three times as many float64 values for the band (docs/solver.md, "Constants").
_FIRST_WIDTH = 0.01
_SAFETY = 8.0
# All residuals are computed in float64, which takes about five times as long as in float32
# (`scripts/bench_kernels.py`), if their float32 kernel values would take at most this many
# nanoseconds. With four times as much, 4,000 rows of ijcnn1 take a tenth longer; with a limit on
# the number of values instead, fits to 3,200 rows of 768 features take twice as long
# (`scripts/bench_everyday.py`, embeddings).
_CHEAP_NS = 4e5
# Nanoseconds of a float32 value whose cost is unknown: those of 22 features. Set by hand.
_UNKNOWN_NS = 0.4
# Residuals of a float64 solve are summed afresh, n x |support| products, if their updates have
# errors above this fraction of the tolerance. Set by hand.
_VISIBLE_ROUNDING = 0.01
# Guard: least width of a point's band relative to the width of the point with the largest K_ii.
_MIN_RELATIVE_WIDTH = 1e-3
# Solves on the band aim at this fraction of the tolerance, as `strategy._TARGET`. Set by hand.
_BAND_TARGET = 0.8
# Relative error of the objective that float32 residuals may leave, below what comparisons of
# solvers print. Set by hand.
_OBJECTIVE_ERROR = 1e-5
# Guard: each round halves the violation or changes the precision, unless the band grows.
_MAX_ROUNDS = 30


def refine(iterate: Iterate, descent: BlockDescent, tol: float) -> tuple[float, str]:
    """Lower the violation by float64 residuals to `tol`.

    Each round costs |band| x |support| float64 kernel values.

    Returns
    -------
    violation : float
        From float64 residuals on the band; their rounding error if that is above `tol`.
    stop_reason : str
        "" if tol was reached, otherwise the name of the limit, or "precision": float64 steps no
        longer halve the violation, or the rounding error is above `tol`.
    """
    it = iterate
    n = len(it)
    exact = it.kernel.astype(np.float64)
    it.restore_sum()
    is_exact = np.zeros(n, bool)  # points whose residual is from float64 values
    exact_beta = np.zeros(n)  # coefficients to which these residuals belong
    if (
        exact is it.kernel
        and not it.residual_error
        and it.rounding <= _VISIBLE_ROUNDING * tol
        and not it.budget.reached_limit()
    ):
        is_exact[:], exact_beta[:] = True, it.beta
    relative_width = np.maximum(np.sqrt(it.diagonal / it.diagonal.max()), _MIN_RELATIVE_WIDTH)
    value_ns = it.kernel.nanoseconds
    value_ns = value_ns if np.isfinite(value_ns) else _UNKNOWN_NS
    initial, width, mean_error = (
        _FIRST_WIDTH * it.scale,
        _FIRST_WIDTH * it.scale,
        it.residual_error,
    )
    last_violation, uses_exact_rows = np.inf, False
    for _ in range(_MAX_ROUNDS):
        limit = it.budget.reached_limit()
        all_exact = limit or n * np.count_nonzero(it.beta) * value_ns <= _CHEAP_NS
        band = np.ones(n, bool) if all_exact else _in_band(it, initial, width * relative_width)
        largest, mean = _correct_residuals(it, exact, is_exact, exact_beta, band, relative_width)
        drift, mean_error = max(it.residual_error, largest), max(mean_error, mean)
        it.residual_error = 0.0 if is_exact.all() else drift
        if not all_exact and _SAFETY * drift > width:
            width = 2.0 * _SAFETY * drift
            continue
        violation = it.update_intercept()
        if violation <= tol or limit:
            objective_error = 0.5 * mean_error * float(np.abs(it.beta).sum())
            if objective_error > _OBJECTIVE_ERROR * abs(it.true_objective()):
                _correct_residuals(it, exact, is_exact, exact_beta, it.beta != 0.0, relative_width)
                violation = it.update_intercept()
        if violation <= tol:
            rounding = it.rounding_error()
            return (rounding, "precision") if rounding > tol else (violation, "")
        if limit:
            return violation, limit
        if not descent.options.refinement:
            return violation, "precision"
        if violation > 0.5 * last_violation:
            if uses_exact_rows:
                return violation, "precision"
            uses_exact_rows = True
            descent = BlockDescent(it, exact, RowCache(exact, 0.0, 1), descent.options)
        last_violation = violation
        points = np.flatnonzero(is_exact & _in_band(it, initial, width * relative_width))
        if not np.array_equal(points, descent.active):
            descent.activate(points)
        before, exact_residual = it.beta.copy(), it.residual[is_exact]
        descent.solve(_BAND_TARGET * tol)
        # Points of `is_exact` keep the residual of `exact_beta`, which `_correct_residuals` updates
        # in float64. The residuals of other points are updated in float32.
        it.residual[is_exact] = exact_residual
        it.update_residual(np.flatnonzero(~is_exact), before)
    return it.update_intercept(), "precision"


def _correct_residuals(
    it: Iterate,
    exact: KernelMatrix,
    is_exact: np.ndarray,
    exact_beta: np.ndarray,
    band: np.ndarray,
    relative_width: np.ndarray,
) -> tuple[float, float]:
    """Compute the float64 residual on `band`; return the largest |correction| / `relative_width`
    and the mean |correction| of points that had no float64 residual.

    Residuals of `is_exact` points are updated from `exact_beta` to the current coefficients.
    """
    exact_points = np.flatnonzero(is_exact)
    moved = np.flatnonzero(it.beta != exact_beta)
    if len(exact_points) and len(moved):
        change = (it.beta - exact_beta)[moved]
        it.residual[exact_points] -= exact.product(moved, change, rows=exact_points)
    exact_beta[:] = it.beta
    new_points = np.flatnonzero(band & ~is_exact)
    if not len(new_points):
        return 0.0, 0.0
    support = np.flatnonzero(it.beta)
    new_residual = it.z[new_points]
    if len(support):
        new_residual = new_residual - exact.product(support, it.beta[support], rows=new_points)
    correction = np.abs(new_residual - it.residual[new_points])
    it.residual[new_points] = new_residual
    is_exact[new_points] = True
    return float((correction / relative_width[new_points]).max()), float(correction.mean())


def _in_band(it: Iterate, initial: float, width: np.ndarray) -> np.ndarray:
    """Return which points have a slack below `initial` or below their `width` : (n,); bools."""
    is_below: np.ndarray = it.slack() < np.maximum(initial, width)
    return is_below
