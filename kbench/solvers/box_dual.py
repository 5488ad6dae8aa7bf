"""Dual of the support vector machine without intercept: a quadratic problem over a box.

    min_a  f(a) = 1/2 a'Qa - e'a,   0 <= a_i <= C_i,   Q_ij = y_i y_j k(x_i, x_j)

Working sets of Joachims (1999) and ThunderSVM's "new half" rule (Wen et al. 2018) around greedy
coordinate descent, with LIBSVM's shrinking (Chang and Lin 2011) and iterative refinement:

    G = grad f(a)                                            float64, all points
    repeat
      A = all points; after the first round those that might still move
      repeat                                                 rows of K in the matrix's dtype
        W = newest half of the last W + the worst violators in A, q together
        descend on W;  G_A += y_A * K[A, changed] (y * change)
        now and then drop from A what sits at a bound and pushes outwards
      until the violation on A <= 0.8 tol, or rounding may have reached it
      G += Q[:, moved] (a - a at the last exact G)           float64, all points
    until the violation on all points <= tol

The last update makes gradient, objective and violation true to float64 whatever the precision of
the rows, and costs as many entries as support vectors have moved, times n.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.solvers.coordinate_descent import descend
from kbench.solvers.row_cache import RowCache
from kbench.trace import Trace

_WORKING_SET = 512
# Half of a working set stays for the next: without it, hundreds of free coordinates that are nearly
# optimal undo one another's moves.
_KEPT = _WORKING_SET // 2
_INNER_RELATIVE = 0.03
_STEPS_PER_POINT = 20
_SHRINK_EVERY = 8


@dataclass(frozen=True)
class BoxDualResult:
    """Solution of the dual and how it was reached.

    Attributes
    ----------
    alpha : (n,) float64
    gradient : (n,) float64
        Qa - e, from float64 kernel values.
    objective : float
        f(alpha), to be minimised.
    violation : float
        Largest projected gradient: -G_i where a_i can grow, G_i where it can fall.
    n_iter : int
        Single-coordinate steps.
    kernel_entries : int
        Kernel values computed.
    converged : bool
        Whether violation <= tol.
    stop_reason : {"tol", "max_iter", "max_time", "precision"}
        "precision": the violation cannot be lowered in float64.
    """

    alpha: np.ndarray
    gradient: np.ndarray
    objective: float
    violation: float
    n_iter: int
    kernel_entries: int
    converged: bool
    stop_reason: str


def solve_box_dual(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: float | np.ndarray,
    *,
    tol: float = 1e-3,
    alpha0: np.ndarray | None = None,
    cache_mb: float = 200.0,
    max_iter: int = -1,
    max_time: float | None = None,
    shrinking: bool = True,
    trace: Trace | None = None,
) -> BoxDualResult:
    """Solve the dual to a violation of at most `tol`.

    Parameters
    ----------
    kernel : KernelMatrix of n points
        Its dtype is the precision of the stored rows.
    y : (n,) array of -1 and +1
    C : float or (n,) array, >= 0
        Upper bounds.
    tol : float
        On the largest projected gradient, in units of the margin (LIBSVM's meaning).
    alpha0 : (n,), optional
        Where to start; clipped into the box. Costs one kernel row for each entry that is not zero.
    cache_mb : float
        MiB for kernel rows. 16 rows are kept in any case.
    max_iter : int
        Limit on coordinate steps; -1 is none.
    max_time : float, optional
        Limit in seconds, looked at between working sets and not during the final evaluation.
    shrinking : bool
        Whether points that sit at a bound are set aside; never changes what the result satisfies.
    trace : Trace, optional
        Told alpha, objective, violation, n_support, n_active after each working set.

    Returns
    -------
    BoxDualResult
        Also after a limit: alpha is then feasible and the report is true for it.

    Notes
    -----
    O(n d) for each kernel row touched and O(n) per coordinate that a working set has changed.
    Memory: `cache_mb`, O(n d) for the prepared points in both precisions, O(n).
    """
    steps = math.inf if max_iter < 0 else max_iter
    seconds = math.inf if max_time is None else max_time
    solver = _Solver(kernel, y, C, tol, alpha0, cache_mb, steps, seconds, trace or Trace())
    return solver.run(shrinking)


def violations(alpha: np.ndarray, gradient: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Projected gradient of each point, as a number >= 0; (n,)."""
    up = np.where(alpha < C, -gradient, 0.0)
    down = np.where(alpha > 0.0, gradient, 0.0)
    return np.maximum(np.maximum(up, down), 0.0)


class _Solver:
    """The iterate, what it has cost, and the kernel rows at hand.

    `alpha` (n,) is the iterate; `gradient` (n,) and `objective` are exact at `exact_alpha` (n,).
    """

    def __init__(
        self,
        kernel: KernelMatrix,
        y: np.ndarray,
        C: float | np.ndarray,
        tol: float,
        alpha0: np.ndarray | None,
        cache_mb: float,
        max_iter: float,
        max_time: float,
        trace: Trace,
    ) -> None:
        n = len(kernel)
        self.y = np.asarray(y, np.float64)
        self.C = np.broadcast_to(np.asarray(C, np.float64), (n,))
        self.tol = tol
        self.cache_mb = cache_mb
        self.max_iter = max_iter
        self.trace = trace
        self.deadline = time.perf_counter() - trace.paused_wall_s + max_time
        self.n_iter = 0

        self.kernel = kernel
        self.entries_before = kernel.n_entries
        self.exact_kernel: KernelMatrix | None = None
        self.diagonal = np.maximum(kernel.diagonal(), 1e-12)
        self.cache: RowCache | None = None
        self.columns = np.empty(0, np.intp)

        self.alpha = np.zeros(n) if alpha0 is None else np.clip(alpha0, 0.0, self.C)
        self.exact_alpha = np.zeros(n)
        self.gradient = np.full(n, -1.0)
        self.objective = 0.0

    def run(self, shrinking: bool) -> BoxDualResult:
        self.refresh()
        rows_kernel = self.kernel
        active = np.arange(len(self.alpha))
        violation, stop_reason = self.violation(), ""
        while violation > self.tol and not stop_reason:
            stop_reason = self.minimise(active, rows_kernel, shrinking)
            self.refresh()
            before, violation = violation, self.violation()
            if violation > 0.5 * before and not stop_reason:
                # Rounding of the rows, or points set aside too early: rule them out in turn.
                if rows_kernel.dtype != np.float64:
                    rows_kernel, self.cache = self.exact(), None
                elif shrinking:
                    shrinking = False
                else:
                    stop_reason = "precision"
            resting = _resting(self.alpha, self.gradient, self.C, 10.0 * violation)
            active = np.flatnonzero(~resting) if shrinking else np.arange(len(self.alpha))
        return BoxDualResult(
            alpha=self.alpha,
            gradient=self.gradient,
            objective=self.objective,
            violation=violation,
            n_iter=self.n_iter,
            kernel_entries=self.kernel.n_entries - self.entries_before,
            converged=violation <= self.tol,
            stop_reason=stop_reason if violation > self.tol else "tol",
        )

    def exact(self) -> KernelMatrix:
        if self.exact_kernel is None:
            self.exact_kernel = self.kernel.astype(np.float64)
        return self.exact_kernel

    def violation(self) -> float:
        return float(violations(self.alpha, self.gradient, self.C).max())

    def refresh(self) -> None:
        """Bring gradient and objective to `alpha`, in float64."""
        moved = np.flatnonzero(self.alpha != self.exact_alpha)
        if len(moved):
            change = (self.alpha - self.exact_alpha)[moved] * self.y[moved]
            self.gradient += self.y * self.exact().product(moved, change)
            self.exact_alpha = self.alpha.copy()
        self.objective = 0.5 * float(self.alpha @ (self.gradient - 1.0))

    def minimise(self, active: np.ndarray, kernel: KernelMatrix, shrinking: bool) -> str:
        """Lower the violation on `active` (indices) to 0.8 tol; "", or which limit was met."""
        alpha, g, C = self.alpha[active], self.gradient[active], self.C[active]
        y, diagonal = self.y[active], self.diagonal[active]
        target = 0.8 * self.tol
        objective = self.objective
        kept = np.empty(0, np.intp)
        rounds = 0
        # Each product of a row and a change is rounded: g is off by about eps |changes|_2.
        rounding, squared_changes = (
            4.0 * np.finfo(kernel.dtype).eps * diagonal.max(initial=0.0),
            0.0,
        )
        while True:
            violation = violations(alpha, g, C)
            worst = float(violation.max(initial=0.0))
            if self.trace.active and rounds:
                self.alpha[active] = alpha
                self.report(objective, worst, len(active))
            if worst <= max(target, rounding * math.sqrt(squared_changes)) or self.limit():
                break
            rounds += 1
            if shrinking and rounds % _SHRINK_EVERY == 0:
                keep = ~_resting(alpha, g, C, worst)
                if keep.mean() < 0.8:
                    self.alpha[active] = alpha
                    active, alpha, g, C = active[keep], alpha[keep], g[keep], C[keep]
                    y, diagonal, violation = y[keep], diagonal[keep], violation[keep]
                    kept = (np.cumsum(keep) - 1)[kept[keep[kept]]]

            W = _working_set(violation, kept)
            kept = W[-_KEPT:]
            whole = len(W) == len(active)
            Q = kernel.block(active[W], kernel.points(active[W]))
            Q *= y[W, None]
            Q *= y[W]
            np.fill_diagonal(Q, diagonal[W])
            before, alpha_W, g_W = alpha[W], alpha[W], g[W]
            steps, decrease = descend(
                Q,
                alpha_W,
                g_W,
                C[W],
                diagonal[W],
                target if whole else max(_INNER_RELATIVE * worst, 0.5 * self.tol),
                int(min(_STEPS_PER_POINT * len(W), self.max_iter - self.n_iter)),
            )
            if steps == 0:
                break
            self.n_iter += steps
            objective -= decrease
            alpha[W] = alpha_W
            if whole:
                g[W] = g_W
                continue
            moved = alpha_W != before
            change = (alpha_W - before)[moved]
            products = np.zeros(len(active))
            self.rows(kernel, active).add_products(active[W[moved]], change * y[W[moved]], products)
            g += y * products
            squared_changes += float(change @ change)
        self.alpha[active] = alpha
        return self.limit() if worst > target else ""

    def limit(self) -> str:
        if self.n_iter >= self.max_iter:
            return "max_iter"
        if time.perf_counter() - self.trace.paused_wall_s >= self.deadline:
            return "max_time"
        return ""

    def rows(self, kernel: KernelMatrix, columns: np.ndarray) -> RowCache:
        """The row cache, restricted to `columns`; emptied only when these are not a subset."""
        if self.cache is None or len(columns) > len(self.columns):
            kept = None
        elif len(columns) == len(self.columns) and np.array_equal(columns, self.columns):
            return self.cache
        else:
            kept = np.isin(self.columns, columns, assume_unique=True)
        if self.cache is not None and kept is not None and kept.sum() == len(columns):
            self.cache.keep_columns(columns, kept)
        else:
            self.cache = None
            self.cache = RowCache(kernel, columns, self.cache_mb)
        self.columns = columns
        return self.cache

    def report(self, objective: float, violation: float, n_active: int) -> None:
        self.trace(
            alpha=self.alpha,
            objective=objective,
            violation=violation,
            n_support=int(np.count_nonzero(self.alpha)),
            n_active=n_active,
        )


def _resting(alpha: np.ndarray, g: np.ndarray, C: np.ndarray, slack: float) -> np.ndarray:
    """Points at a bound that their gradient holds there by more than `slack`; (n,) bool."""
    return ((alpha <= 0.0) & (g > slack)) | ((alpha >= C) & (-g > slack))


def _working_set(violation: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """`kept`, then the worst of the others, worst last; all points when they are few."""
    if len(violation) <= _WORKING_SET:
        return np.arange(len(violation))
    others = violation.copy()
    others[kept] = -1.0
    size = _WORKING_SET - len(kept)
    return np.concatenate([kept, np.argpartition(others, -size)[-size:]])
