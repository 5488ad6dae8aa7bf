"""Gradients, residuals and results of the randomised solvers of (K + alpha I) X = B.

A solver computes the residual at the rows of a block in each step. The blocks of the last pass over
the rows, at least ten, estimate the residual of all rows. Once the estimate is at most `tol`
(`limited_steps.Steps.goes_on` decides), the residual is computed at all rows in float64; if it is
above `tol`, the solver continues. Kernel values are float32 until their rounding is more than a
tenth of a gradient, then float64.
"""

from collections import deque
from typing import Any

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.cg import best_multiple
from kbench.solvers.ridge.limited_steps import (
    MEASURED_ROWS,
    RESIDUAL_ROWS,
    ROUNDING,
    DescentResult,
    Steps,
)

# Least number of blocks in an estimate of the residual: a row with most of the residual may be
# missing from fewer blocks, even if these are large. Set by hand.
_MIN_BLOCKS = 10


class Descent(Steps):
    """The system (K + alpha I) X = B, and the state of its solution by blocks.

    Parameters
    ----------
    B : (n, m) float64
    alpha : float, >= 0
    limits : As in `Steps`; a step is a block
    """

    def __init__(self, kernel: KernelMatrix, B: np.ndarray, alpha: float, **limits: Any) -> None:
        super().__init__(kernel, **limits)
        self.B, self.alpha = B, alpha
        self._all_rows = np.arange(len(kernel))
        self._norm = np.linalg.norm(B, axis=0)
        self._norm[self._norm == 0.0] = 1.0
        # Rows and sums of squares of the blocks of the last pass.
        self._blocks: deque[tuple[int, np.ndarray]] = deque()
        self._n_rows = 0

    def gradient(self, block: np.ndarray, z: np.ndarray) -> np.ndarray:
        """(K_{block,:} z + alpha z_block - B_block) : (b, m) at z : (n, m). b n kernel values."""
        gradient = self._gradient(self.kernel, block, z)
        if self._rounding_check_is_due():
            exact = self._gradient(self._exact, block, z)
            if np.linalg.norm(exact - gradient) > ROUNDING * np.linalg.norm(exact):
                self.kernel, gradient = self._exact, exact
        self._blocks.append((len(block), np.square(gradient).sum(axis=0)))
        self._n_rows += len(block)
        while len(self._blocks) > _MIN_BLOCKS and self._n_rows - self._blocks[0][0] >= len(self.B):
            self._n_rows -= self._blocks.popleft()[0]
        self._n_visited += len(block)
        self.n_iter += 1
        return gradient

    def _gradient(self, kernel: KernelMatrix, block: np.ndarray, z: np.ndarray) -> np.ndarray:
        gradient = kernel.product(self._all_rows, z, rows=block)
        gradient += self.alpha * z[block]
        gradient -= self.B[block]
        return gradient

    def estimate_after_pass(self, x: np.ndarray) -> np.ndarray | None:
        """Return the estimate if its blocks cover a pass, else None."""
        return self.estimate() if self.covers_pass else None

    @property
    def covers_pass(self) -> bool:
        """Whether the estimate covers a pass over the rows, and at least `_MIN_BLOCKS` blocks."""
        return len(self._blocks) >= _MIN_BLOCKS and self._n_rows >= len(self.B)

    def discard_estimate(self) -> None:
        """Estimate the residual from the following blocks alone."""
        self._blocks.clear()
        self._n_rows = 0

    def estimate(self) -> np.ndarray:
        """Relative residual estimated from the blocks of the last pass; (m,)."""
        if not self._n_rows:
            return np.full(self.B.shape[1], np.inf)
        squares = np.sum([square for _, square in self._blocks], axis=0)
        return np.sqrt(squares * (len(self.B) / self._n_rows)) / self._norm

    def residual(self, x: np.ndarray) -> np.ndarray | None:
        """Relative residual of x : (n, m) at all rows, in float64; (m,). n^2 kernel values.

        Returns None if the deadline passes before all rows are visited.
        """
        squares = np.zeros(x.shape[1])
        for start in range(0, len(x), RESIDUAL_ROWS):
            if start and self._deadline.passed:
                return None
            rows = self._all_rows[start : start + RESIDUAL_ROWS]
            squares += np.square(self._gradient(self._exact, rows, x)).sum(axis=0)
        return np.sqrt(squares) / self._norm

    def result(self, x: np.ndarray, **chosen: float) -> DescentResult:
        """Return the result of coefficients x : (n, m).

        The residual is ||B - (K + alpha I) x|| / ||B|| in float64, at all rows if the solver
        converged, and otherwise at 2,000 random rows, or at all if `max_iter` ended the steps and
        the residual at the random rows is at most `tol`. If the solver did not converge, x is
        replaced by its multiple of least error at the random rows (`cg.best_multiple`), whose error
        at these rows is at most that of coefficients 0.
        """
        if self._result is None:
            size = min(len(x), MEASURED_ROWS)
            rows = np.sort(self.rng.choice(len(x), size, replace=False))
            products = self._exact.product(self._all_rows, x, rows=rows)
            norm = np.linalg.norm(self.B[rows], axis=0)
            error = np.linalg.norm(products + self.alpha * x[rows] - self.B[rows], axis=0)
            residual = error / np.where(norm == 0.0, 1.0, norm)
            reason = self._limit
            if size < len(x) and reason == "max_iter" and residual.max() <= self._tol:
                full_residual = self.residual(x)
                residual = residual if full_residual is None else full_residual
                size = len(x) if full_residual is not None else size
            if size == len(x) and residual.max() <= self._tol:
                self._result = residual, "tol"
            else:
                penalty = self.alpha * np.einsum("ij,ij->j", x[rows], products)
                x = x * best_multiple(self.B[rows], products, penalty)
                self._result = residual, reason
        residual, reason = self._result
        self._show(x, residual)
        return DescentResult(x, self.n_iter, residual, reason == "tol", reason, chosen)
