"""What the randomised solvers of (K + alpha I) X = B share: gradients, limits, and the end.

A solver computes the residual at the rows of a block in each step. The blocks of the last pass over
the rows, ten at least, estimate the residual of all rows; once the estimate is at most `tol`, it is
computed at all rows in float64, and if that is larger, the solver goes on. Kernel values are
float32 until their rounding is a visible part of the gradients, then float64.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.cg import best_multiple
from kbench.trace import Deadline, Trace

Predictor = Callable[[np.ndarray], Callable[[Any], np.ndarray]]

# Rows at which a solution that did not converge is measured: more rows take more kernel values (n
# each), fewer measure less precisely. 2,000 rows give the residual to about 2 %.
_MEASURED = 2000
# Least number of blocks in an estimate of the residual: in fewer large ones, a row with most of the
# residual may be missing. Set by hand.
_WINDOW = 10
# Rows of a block of the residual at all rows, between which the time limit is looked at.
_ROWS = 4096
# States that the trace gets during a pass over the rows.
_SHOWN = 10
# Rounding of float32 kernel values that a gradient may contain, as a fraction of it. Whenever the
# estimated residual has halved, the gradient of a block is computed in float64, too.
_ROUNDING = 0.1


@dataclass(frozen=True)
class DescentResult:
    """Outcome of a randomised solver.

    Attributes
    ----------
    x : (n, m) float64
    n_iter : int
        Blocks.
    residual : (m,) float64
        ||B - (K + alpha I) x|| / ||B|| in float64, at all rows if the solver converged or there are
        at most 2,000 rows, else at 2,000 of them; before x was shrunk.
    converged : bool
        Whether all residuals are at most `tol`.
    stop_reason : {"tol", "max_iter", "max_time"}
    chosen : dict of str to float
        Parameters that the solver chose itself.
    """

    x: np.ndarray
    n_iter: int
    residual: np.ndarray
    converged: bool
    stop_reason: str
    chosen: dict[str, float]


class Descent:
    """The system (K + alpha I) X = B, and the state of its solution by blocks.

    Parameters
    ----------
    kernel : KernelMatrix
        Its dtype is the precision of the steps.
    B : (n, m) float64
    alpha : float, > 0
    tol : float
        Of the relative residual of every right-hand side.
    max_iter : int
        Largest number of blocks.
    max_time : float or None
        Seconds; no further block begins afterwards.
    trace : Trace
        Ten times in a pass it receives the largest estimated residual, the number of rows visited,
        the number of kernel values and the model.
    predictor : callable or None
        X : (n, m) -> the function that predicts with these coefficients, for the trace.
    rng : RandomState
    """

    def __init__(
        self,
        kernel: KernelMatrix,
        B: np.ndarray,
        alpha: float,
        *,
        tol: float = 1e-4,
        max_iter: int,
        max_time: float | None = None,
        trace: Trace | None = None,
        predictor: Predictor | None = None,
        rng: np.random.RandomState,
    ) -> None:
        trace = Trace() if trace is None else trace
        self.kernel, self.B, self.alpha, self.rng = kernel, B, alpha, rng
        self.n_iter = 0
        self._exact = kernel.astype(np.float64)
        self._tol = self._threshold = tol
        self._max_iter, self._deadline, self._trace = max_iter, Deadline(max_time, trace), trace
        self._predictor = predictor
        self._everything = np.arange(len(kernel))
        self._norm = np.linalg.norm(B, axis=0)
        self._norm[self._norm == 0.0] = 1.0
        # The estimate at which rounding was looked at last; it is 1 at coefficients 0.
        self._accurate = 2.0
        # Rows and sums of squares of the blocks of the last pass.
        self._recent: deque[tuple[int, np.ndarray]] = deque()
        self._n_recent = self._samples = self._n_shown = 0
        self._result: tuple[np.ndarray, str] | None = None

    def gradient(self, block: np.ndarray, z: np.ndarray) -> np.ndarray:
        """(K_{block,:} z + alpha z_block - B_block) : (b, m) at z : (n, m). b n kernel values."""
        gradient = self._gradient(self.kernel, block, z)
        if self.kernel is not self._exact and self.estimate().max() <= 0.5 * self._accurate:
            self._accurate = self.estimate().max()
            exact = self._gradient(self._exact, block, z)
            if np.linalg.norm(exact - gradient) > _ROUNDING * np.linalg.norm(exact):
                self.kernel, gradient = self._exact, exact
        self._recent.append((len(block), np.square(gradient).sum(axis=0)))
        self._n_recent += len(block)
        while len(self._recent) > _WINDOW and self._n_recent - self._recent[0][0] >= len(self.B):
            self._n_recent -= self._recent.popleft()[0]
        self._samples += len(block)
        self.n_iter += 1
        return gradient

    def _gradient(self, kernel: KernelMatrix, block: np.ndarray, z: np.ndarray) -> np.ndarray:
        values = kernel.product(self._everything, z, rows=block)
        values += self.alpha * z[block]
        values -= self.B[block]
        return values

    def goes_on(self, x: np.ndarray) -> bool:
        """Whether another block follows x : (n, m); shows x to the trace."""
        if self.is_pass and self.estimate().max() <= self._threshold:
            residual = self.residual(x)
            if residual is None:
                return False
            if residual.max() <= self._tol:
                self._result = residual, "tol"
                return False
            self._threshold *= 0.5
            self.forget()
        if self.n_iter >= self._max_iter or (self.n_iter and self._deadline.passed):
            return False
        if self._samples * _SHOWN >= (self._n_shown + 1) * len(self.B):
            self._n_shown = self._samples * _SHOWN // len(self.B)
            self._show(x, self.estimate())
        return True

    @property
    def is_pass(self) -> bool:
        """Whether the estimate is of a pass over the rows, and of enough blocks."""
        return len(self._recent) >= _WINDOW and self._n_recent >= len(self.B)

    def forget(self) -> None:
        """Estimate the residual from the blocks that follow alone."""
        self._recent.clear()
        self._n_recent = 0

    def estimate(self) -> np.ndarray:
        """Relative residual estimated from the blocks of the last pass; (m,)."""
        if not self._n_recent:
            return np.full(self.B.shape[1], np.inf)
        squares = np.sum([square for _, square in self._recent], axis=0)
        return np.sqrt(squares * (len(self.B) / self._n_recent)) / self._norm

    def residual(self, x: np.ndarray) -> np.ndarray | None:
        """Relative residual of x : (n, m) at all rows, in float64; (m,). n^2 kernel values.

        None if the time is over before all rows are visited.
        """
        squares = np.zeros(x.shape[1])
        for start in range(0, len(x), _ROWS):
            if start and self._deadline.passed:
                return None
            rows = self._everything[start : start + _ROWS]
            squares += np.square(self._gradient(self._exact, rows, x)).sum(axis=0)
        return np.sqrt(squares) / self._norm

    def result(self, x: np.ndarray, **chosen: float) -> DescentResult:
        """The outcome that ends with x : (n, m).

        Coefficients whose residual is above `tol` are shrunk to the multiple of least error at the
        measured rows (`cg.best_multiple`), so that they are no worse there than coefficients 0.
        """
        if self._result is None:
            size = min(len(x), _MEASURED)
            rows = np.sort(self.rng.choice(len(x), size, replace=False))
            values = self._exact.product(self._everything, x, rows=rows)
            norm = np.linalg.norm(self.B[rows], axis=0)
            error = np.linalg.norm(values + self.alpha * x[rows] - self.B[rows], axis=0)
            residual = error / np.where(norm == 0.0, 1.0, norm)
            reason = "max_iter" if self.n_iter >= self._max_iter else "max_time"
            if size < len(x) and reason == "max_iter" and residual.max() <= self._tol:
                everywhere = self.residual(x)
                residual = residual if everywhere is None else everywhere
                size = len(x) if everywhere is not None else size
            if size == len(x) and residual.max() <= self._tol:
                self._result = residual, "tol"
            else:
                x = x * best_multiple(x[rows], self.B[rows], values, self.alpha)
                self._result = residual, reason
        residual, reason = self._result
        self._show(x, residual)
        return DescentResult(x, self.n_iter, residual, reason == "tol", reason, chosen)

    def _show(self, x: np.ndarray, residual: np.ndarray) -> None:
        shown = {} if self._predictor is None else {"predict": self._predictor(x)}
        self._trace(
            residual=float(residual.max()),
            kernel_entries=self.kernel.n_entries,
            samples=self._samples,
            **shown,
        )
