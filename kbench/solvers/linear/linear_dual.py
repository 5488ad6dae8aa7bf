"""Linear support vector machines without intercept, by dual coordinate descent.

Algorithm 3, LIBLINEAR's, of Hsieh, Chang, Lin, Keerthi and Sundararajan, "A Dual Coordinate Descent
Method for Large-scale Linear SVM" (ICML 2008). With w = sum_i a_i y_i x_i,

    min_a  f(a) = 1/2 ||w||^2 + 1/2 sum_i D_i a_i^2 - e'a,   0 <= a_i <= U_i

    hinge:          D_i = 0,            U_i = C_i
    squared hinge:  D_i = 1 / (2 C_i),  U_i = infinity

    repeat a pass over the active points in random order
      G = y_i <w, x_i> - 1 + D_i a_i
      drop i if a_i is at a bound and G, which points beyond it, exceeds the last pass's extreme
      a_i <- clip(a_i - G / (||x_i||^2 + D_i), 0, U_i),   w += change of a_i * y_i x_i
    until max PG - min PG <= tol on the active points, then on all of them

PG is the projected gradient. If dense rows are long and close to a low-dimensional space, blocks of
rows take their steps together (`block_sweep`). Rows are never copied or converted: dense or CSR,
float32 or float64. w, a and all sums are float64, so that rounding does not separate w from its
definition. Several problems on the same rows (one-vs-rest) share each read of a row. Rows that are
computed on request (`RowBlocks`) are swept block by block, several times each (Yu, Hsieh, Chang and
Lin, "Large Linear Classification When Data Cannot Fit In Memory", KDD 2010).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.intrinsics.products import matmul
from kbench.solvers.best_multiple import MULTIPLES
from kbench.solvers.linear.block_sweep import BLOCK_ROWS, descend_together, effective_rank
from kbench.trace import Deadline, Trace

# Sweeps over a block of `RowBlocks` before the next one is computed. Computing a block costs about
# d times as much as one sweep, so several sweeps are nearly free; too many sweeps solve the block
# instead of the problem. Set by hand.
_SWEEPS_OF_A_BLOCK = 8
# Rows per batch of decision values and norms: memory of a float64 copy against the overhead of a
# call. Set by hand.
_BATCH_ROWS = 256


class RowBlocks(Protocol):
    """Rows that are computed on request, in blocks of float32; `shape` is (n, d)."""

    shape: tuple[int, int]

    def slices(self) -> list[slice]:
        """Consecutive blocks of rows, each small enough to be held; together all n rows."""

    def block(self, rows: slice) -> np.ndarray:
        """The rows of one of `slices`; valid until the next call."""


@dataclass(frozen=True)
class LinearDualResult:
    """Solutions of m problems on the same rows, and how they were reached.

    Attributes
    ----------
    alpha : (n, m) float64
    coef : (d, m) float64
        w of each problem.
    objective : (m,) float64
        f(alpha), to be minimised.
    gap : (m,) float64
        Primal objective 1/2 ||w||^2 + sum_i C_i loss_i minus the dual's, -f(alpha); >= 0, and a
        bound on the distance of either to the optimum.
    violation : float
        Largest max PG - min PG: of the last pass, over all points, or, if a limit was met, of all
        points at the solution returned.
    n_iter : int
        Passes over the active points.
    n_visits : int
        Gradients computed.
    converged : bool
        Whether `violation` <= tol was reached on all points, before a limit.
    stop_reason : {"tol", "max_iter", "max_time"}
    """

    alpha: np.ndarray
    coef: np.ndarray
    objective: np.ndarray
    gap: np.ndarray
    violation: float
    n_iter: int
    n_visits: int
    converged: bool
    stop_reason: str


def solve_linear_dual(
    X: Any,
    Y: np.ndarray,
    C: np.ndarray,
    rng: np.random.RandomState,
    *,
    loss: str = "hinge",
    tol: float = 0.1,
    max_iter: int = 1000,
    max_time: float | None = None,
    trace: Trace | None = None,
) -> LinearDualResult:
    """Train m linear models on the same rows.

    Parameters
    ----------
    X : (n, d) C-contiguous array or CSR, float32 or float64; or RowBlocks
        Never copied.
    Y : (n, m) of -1 and +1
    C : (n,), >= 0
        Weights of the points' losses.
    rng : RandomState
        Draws the order of each pass.
    loss : {"hinge", "squared_hinge"}
    tol : float
        Bound on max PG - min PG, as in LIBLINEAR, whose default is 0.1.
    max_iter : int
        Largest number of passes over all points. A pass counts as the fraction of points that it
        visits, at least 1/100. The default is that of scikit-learn's `LinearSVC`.
    max_time : float, optional
        Seconds; no further pass begins afterwards.
    trace : Trace, optional
        Receives objective (summed over problems), violation, n_active and coef : (d, m) after
        each pass.

    Returns
    -------
    LinearDualResult

    Notes
    -----
    A pass takes O(m n d) (O(m nnz) for CSR) for the points that are still active. Memory: 10 bytes
    for each point and problem, 18 while the objective is computed, and O(n + m d).
    """
    blocks = X if hasattr(X, "slices") else _SingleBlock(X)
    trace = Trace() if trace is None else trace
    solver = _Solver(blocks, Y, C, loss, tol, max_iter)
    return solver.run(rng, trace, Deadline(max_time, trace))


class _SingleBlock:
    """`RowBlocks` of rows in memory: a single block."""

    def __init__(self, X: Any) -> None:
        self.shape = X.shape
        self._X = sp.csr_array(X) if sp.issparse(X) else np.require(X, requirements=["C", "A"])

    def slices(self) -> list[slice]:
        return [slice(0, self.shape[0])]

    def block(self, rows: slice) -> Any:
        return self._X


class _Solver:
    """The iterates `alpha` : (m, n) and `coef` : (m, d); `aside` : (m, n) marks dropped points."""

    def __init__(
        self, blocks: Any, Y: np.ndarray, C: np.ndarray, loss: str, tol: float, max_iter: int
    ) -> None:
        n, m = Y.shape
        self.blocks, self.tol, self.max_iter = blocks, tol, max_iter
        self.is_squared = loss == "squared_hinge"
        self.Y = np.ascontiguousarray(Y.T, np.int8)
        self.C = np.ascontiguousarray(C, np.float64)
        # A point with C = 0 has a = 0 for both losses, and is never visited.
        is_idle = self.C == 0
        self.bound = np.where(is_idle, 0.0, np.inf) if self.is_squared else self.C
        self.ridge = 0.5 / np.where(is_idle, 1.0, self.C) if self.is_squared else np.zeros(n)
        self.alpha = np.zeros((m, n))
        self.coef = np.zeros((m, blocks.shape[1]))
        self.curvature = np.full(n, np.nan)
        self.uses_block_steps: bool | None = None
        self.is_idle = is_idle
        self.aside = np.repeat(is_idle[None], m, axis=0)
        # Largest and smallest projected gradient of the last pass, beyond which points are dropped.
        # Infinite values drop nothing.
        self.highest = np.full(m, np.inf)
        self.lowest = np.full(m, -np.inf)

    def run(self, rng: np.random.RandomState, trace: Trace, deadline: Deadline) -> LinearDualResult:
        m = len(self.alpha)
        spread = np.full(m, np.inf)
        is_solved = np.zeros(m, bool)
        n_iter = n_visits = 0
        n_passes = 0.0
        slices = self.blocks.slices()
        sweeps = _SWEEPS_OF_A_BLOCK if len(slices) > 1 else 1
        while n_passes < self.max_iter and not is_solved.all() and not (n_iter and deadline.passed):
            all_active = (self.aside == self.is_idle).all(axis=1)
            high, low = np.full(m, -np.inf), np.full(m, np.inf)
            visits = sum(
                self.sweep_block(slices[index], sweeps, high, low, rng)
                for index in rng.permutation(len(slices))
            )
            n_iter += 1
            n_visits += visits
            # The set-up of a pass over very few points costs more than its visits. Set by hand.
            n_passes += max(visits / (sweeps * self.alpha.size), 0.01)
            # Gradients of rows that move together may all have one sign; the spread includes 0.
            spread = np.where(is_solved, spread, np.maximum(high, 0.0) - np.minimum(low, 0.0))
            within_tol = ~is_solved & (spread <= self.tol)
            is_solved |= within_tol & all_active
            self.aside[is_solved] = True
            self.aside[within_tol & ~all_active] = self.is_idle
            self.highest = np.where(within_tol | (high <= 0.0), np.inf, high)
            self.lowest = np.where(within_tol | (low >= 0.0), -np.inf, low)
            if trace.active:
                n_active = int(self.aside.size - self.aside.sum())
                trace(
                    objective=float(self.objective().sum()),
                    violation=float(spread.max()),
                    n_active=n_active,
                    coef=self.coef.T,
                )
        converged, violation = bool(is_solved.all()), float(spread.max())
        if not converged:
            self._settle()
            violation = self.violation()
        limit = "max_iter" if n_passes >= self.max_iter else "max_time"
        objective = self.objective()
        return LinearDualResult(
            alpha=self.alpha.T,
            coef=self.coef.T,
            objective=objective,
            gap=self.primal(np.ones(1))[0] + objective,
            violation=violation,
            n_iter=n_iter,
            n_visits=n_visits,
            converged=converged,
            stop_reason="tol" if converged else limit,
        )

    def _settle(self) -> None:
        """Multiply w and alpha by the factor with the lowest primal objective.

        After a limit, w may be far worse than w = 0; see `kbench.solvers.best_multiple`.
        """
        best = MULTIPLES[self.primal(MULTIPLES).argmin(axis=0)]
        self.coef *= best[:, None]
        self.alpha *= best[:, None]

    def sweep_block(
        self,
        rows: slice,
        sweeps: int,
        high: np.ndarray,
        low: np.ndarray,
        rng: np.random.RandomState,
    ) -> int:
        """Sweep over the block's active points; returns the number of visits.

        The projected gradients of the first sweep update `high` and `low` : (m,).
        """
        active = np.flatnonzero(~self.aside[:, rows].all(axis=0))
        if not len(active):
            return 0
        X = self.blocks.block(rows)
        if np.isnan(self.curvature[rows.start]):
            self.curvature[rows] = _squared_norms(X) + self.ridge[rows]
        if self.uses_block_steps is None:
            self.uses_block_steps = _is_stiff(X, self.C[rows] * self.curvature[rows])
        descend = _descend_together if self.uses_block_steps else _descend
        n_visits = 0
        for sweep in range(sweeps):
            extremes = (high, low) if sweep == 0 else (high.copy(), low.copy())
            n_visits += descend(
                *_csr_arrays(X),
                rng.permutation(active),
                rows.start,
                self.Y,
                self.bound,
                self.ridge,
                self.curvature,
                self.alpha,
                self.coef,
                self.aside,
                self.highest,
                self.lowest,
                *extremes,
            )
        return n_visits

    def objective(self) -> np.ndarray:
        """f(alpha) of each problem; (m,)."""
        squares = np.einsum("cj,cj->c", self.coef, self.coef)
        return 0.5 * (squares + matmul(self.alpha**2, self.ridge)) - self.alpha.sum(axis=1)

    def violation(self) -> float:
        """max PG - min PG of all points, the largest of the problems; a pass over the rows."""
        high, low = np.zeros((2, len(self.alpha)))
        for block in self.blocks.slices():
            for rows, decision in _decisions(self.blocks.block(block), self.coef.T):
                points = slice(block.start + rows.start, block.start + rows.stop)
                alpha = self.alpha[:, points]
                gradient = self.Y[:, points] * decision.T - 1.0 + self.ridge[points] * alpha
                can_fall, can_grow = alpha > 0.0, alpha < self.bound[points]
                high = np.maximum(high, (gradient * can_fall).max(axis=1))
                low = np.minimum(low, (gradient * can_grow).min(axis=1))
        return float((high - low).max())

    def primal(self, multiples: np.ndarray) -> np.ndarray:
        """1/2 ||t w||^2 + sum_i C_i loss(y_i <t w, x_i>) for t of multiples : (p,); (p, m)."""
        squares = 0.5 * np.einsum("cj,cj->c", self.coef, self.coef)
        value = np.multiply.outer(multiples**2, squares)
        for block in self.blocks.slices():
            for rows, decision in _decisions(self.blocks.block(block), self.coef.T):
                points = slice(block.start + rows.start, block.start + rows.stop)
                margin = self.Y[:, points] * decision.T
                for objectives, t in zip(value, multiples, strict=True):
                    slack = np.maximum(1.0 - t * margin, 0.0)
                    objectives += matmul(slack**2 if self.is_squared else slack, self.C[points])
        return value


def _csr_arrays(X: Any) -> tuple[Any, Any, Any]:
    """Values, indices and indptr for `_descend`; indices and indptr are empty for dense rows.

    The views are read-only, so that arrays and memory maps share one compiled function.
    """
    arrays = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X, _NO_INDICES, _NO_INDICES)
    values, indices, starts = (array.view() for array in arrays)
    for view in (values, indices, starts):
        view.flags.writeable = False
    return values, indices, starts


def _decisions(X: Any, coef: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """(rows, X[rows] @ coef) for batches of rows, in float64."""
    for start in range(0, X.shape[0], _BATCH_ROWS):
        rows = slice(start, min(start + _BATCH_ROWS, X.shape[0]))
        yield rows, matmul(X[rows], coef)


def _squared_norms(X: Any) -> np.ndarray:
    """||x||^2 of each row, summed in float64; (n,)."""
    if not sp.issparse(X):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    norms = np.empty(X.shape[0])
    for start in range(0, len(norms), _BATCH_ROWS):
        rows = X[start : start + _BATCH_ROWS].astype(np.float64)
        norms[start : start + _BATCH_ROWS] = rows.multiply(rows).sum(axis=1)
    return norms


def _is_stiff(X: Any, largest_moves: np.ndarray) -> bool:
    """Whether single steps stall: dense rows have a low effective rank, and C |x|^2 is large.

    largest_moves : (b,). C |x|^2 of each row.
    """
    if sp.issparse(X):
        return False
    rank = effective_rank(X)
    # Both thresholds are set by hand.
    return rank < BLOCK_ROWS and float(np.median(largest_moves)) > BLOCK_ROWS * rank


def _descend_together(X: np.ndarray, indices: Any, indptr: Any, *state: Any) -> int:
    return descend_together(X, *state)


_NO_INDICES = np.empty(0, np.int32)
# Sums may be reordered into vectors; infinities stay, because bounds are infinite.
_FASTMATH = {"contract", "nsz", "arcp", "reassoc", "nnan"}


@njit(fastmath=_FASTMATH)
def _dot(values, indices, indptr, i, w):
    total = 0.0
    if values.ndim == 2:
        x = values[i]
        for j in range(x.shape[0]):
            total += x[j] * w[j]
    else:
        for k in range(indptr[i], indptr[i + 1]):
            total += values[k] * w[indices[k]]
    return total


@njit(fastmath=_FASTMATH)
def _add_scaled(values, indices, indptr, i, scale, w):
    if values.ndim == 2:
        x = values[i]
        for j in range(x.shape[0]):
            w[j] += scale * x[j]
    else:
        for k in range(indptr[i], indptr[i + 1]):
            w[indices[k]] += scale * values[k]


@njit(cache=True, fastmath=_FASTMATH)
def _descend(
    values,
    indices,
    indptr,
    order,
    first,
    Y,
    bound,
    ridge,
    curvature,
    alpha,
    coef,
    aside,
    highest,
    lowest,
    high,
    low,
):
    """Visit the rows `order` of a block whose row 0 is point `first`; returns the number of visits.

    All problems that have not dropped a point take their steps on it while its row is in cache.
    """
    visits = 0
    for row in order:
        i = first + row
        for c in range(alpha.shape[0]):
            if aside[c, i]:
                continue
            visits += 1
            a, y, w = alpha[c, i], Y[c, i], coef[c]
            gradient = y * _dot(values, indices, indptr, row, w) - 1.0 + ridge[i] * a
            projected = gradient
            if a <= 0.0:
                if gradient > highest[c]:
                    aside[c, i] = True
                    continue
                projected = min(gradient, 0.0)
            elif a >= bound[i]:
                if gradient < lowest[c]:
                    aside[c, i] = True
                    continue
                projected = max(gradient, 0.0)
            high[c] = max(high[c], projected)
            low[c] = min(low[c], projected)
            if projected != 0.0:
                # A row of zeros has curvature 0, so its a goes to the bound.
                step = gradient / max(curvature[i], 1e-12)
                new_a = min(max(a - step, 0.0), bound[i])
                alpha[c, i] = new_a
                _add_scaled(values, indices, indptr, row, y * (new_a - a), w)
    return visits
