"""Kernel ridge in the span of p centres Z, for solvers that visit batches of rows.

    (K_Zn K_nZ + alpha K_ZZ) a = K_Zn Y

The residual r of each row at its last visit is stored; r = 0 before the first visit. A visit of a
batch B with the residuals g = K_BZ a - Y_B changes the sum H = K_Zn r by K_ZB (g - r_B). So
||H + alpha K_ZZ a|| / ||K_Zn Y|| estimates the relative residual without further kernel values
between rows and centres, and (b / n) H + K_ZB (g - r_B) is the gradient of a batch of b rows with
reduced variance (SAGA, Defazio, Bach and Lacoste-Julien 2014).
"""

from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.cg import best_multiple
from kbench.solvers.ridge.limited_steps import (
    DIVERGED,
    MEASURED_ROWS,
    RESIDUAL_ROWS,
    ROUNDING,
    DescentResult,
    Steps,
)

# Largest number of kernel values between a block of rows and all centres: memory (12 bytes each)
# against the speed of products. Set by hand.
_VALUES = 2**21
# Variance reduction begins after a pass that leaves more than this fraction of the residual of the
# pass before. Set by hand.
_STAGNATION_RATIO = 0.5
# Steps of reduced variance are too long if a pass leaves a residual above this multiple of the
# lowest since variance reduction began. A smaller multiple would react to noise. Set by hand.
_RISE_RATIO = 4.0
# Largest number of rows from which the rounding of float32 kernel values in the residual is
# estimated; an estimate is made whenever the residual has halved. Set by hand.
_MAX_CHECKED_ROWS = 500


class NormalEquations(Steps):
    """The system of the module's docstring, and the state of its solution by batches of rows.

    Parameters
    ----------
    kernel : Of all n rows
    Y : (n, t) float64
    alpha : float, >= 0
    centres : (p,) indices
    limits : As in `Steps`; a step is a batch

    Attributes
    ----------
    stagnates : bool. Whether a pass has left more than half of the previous pass's residual.
    rises : bool
        Whether the last pass left a residual above 4 times the lowest since variance reduction
        began.

    Notes
    -----
    Memory is O(n t + p t), and 12 bytes for each of at most 2 million kernel values.
    """

    def __init__(
        self, kernel: KernelMatrix, Y: np.ndarray, alpha: float, centres: np.ndarray, **limits: Any
    ) -> None:
        super().__init__(kernel, **limits)
        self.Y, self.alpha, self.centres = Y, alpha, centres
        self.restart()

    def restart(self) -> None:
        """Begin anew, with coefficients 0."""
        p, t = len(self.centres), self.Y.shape[1]
        self._r: np.ndarray = np.zeros(self.Y.shape)
        self._visited = np.zeros(len(self.Y), bool)
        # H, and K_Zn Y of the rows visited.
        self._H: np.ndarray = np.zeros((p, t))
        self._rhs: np.ndarray = np.zeros((p, t))
        # Sums of squares of r and of Y at the rows visited.
        self._squares_of_r: np.ndarray = np.zeros(t)
        self._squares_of_Y: np.ndarray = np.zeros(t)
        self._rows_since_pass = 0
        self._estimate: np.ndarray = np.ones(t)  # for coefficients 0
        self._lowest = np.inf  # lowest estimate since variance reduction began
        self.stagnates = self.rises = False

    def gradient(
        self,
        rows: np.ndarray,
        a: np.ndarray,
        *,
        reduces_variance: bool,
        further_centres: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        """K_ZB g at a : (p, t), or with variance reduction (b / n) H + K_ZB (g - r_B); (p, t).

        further_centres : indices and coefficients of the centres of f besides Z

        Takes b p kernel values, and b for each further centre.
        """
        before = self._r[rows]
        new_Y = ~self._visited[rows, None] * self.Y[rows]
        y = self.Y[rows]
        if len(further_centres[0]):
            y = y - self.kernel.product(*further_centres, rows=rows)
        h, old_h, rhs = self._gradient_sums(self.kernel, rows, a, y, before, new_Y)
        change = h - old_h
        if reduces_variance:
            h = change + (len(rows) / len(self.Y)) * self._H
        self._H += change
        self._rhs += rhs
        self._squares_of_r += (np.square(self._r[rows]) - np.square(before)).sum(axis=0)
        self._squares_of_Y += np.square(new_Y).sum(axis=0)
        self._visited[rows] = True
        self.rises = False
        self._rows_since_pass += len(rows)
        self._n_visited += len(rows)
        self.n_iter += 1
        return h

    def _gradient_sums(
        self,
        kernel: KernelMatrix,
        rows: np.ndarray,
        a: np.ndarray,
        y: np.ndarray,
        *arrays: np.ndarray,
    ) -> list[np.ndarray]:
        """Return K_ZB g for g = K_BZ a - y at the rows B, and K_ZB times each of `arrays`.

        y, arrays : (b, t) each; nothing is computed for arrays that are zero. g is stored as r_B.
        """
        points, (p, t) = kernel.points(self.centres), a.shape
        nonzero = [array for array in arrays if array.any()]
        sums, size = np.zeros((p, t * (1 + len(nonzero)))), max(1, _VALUES // p)
        for start in range(0, len(rows), size):
            chunk = slice(start, start + size)
            values = kernel.block(rows[chunk], points).astype(np.float64, copy=False)
            g = matmul(values, a) - y[chunk]
            sums += matmul(values.T, np.hstack([g, *(array[chunk] for array in nonzero)]))
            self._r[rows[chunk]] = g
        products = iter(np.split(sums, 1 + len(nonzero), axis=1))
        zero = np.zeros((p, t))
        return [next(products), *(next(products) if array.any() else zero for array in arrays)]

    def residuals(self, rows: np.ndarray) -> np.ndarray:
        """Residuals r of the last visits of rows : (b,); (b, t)."""
        return self._r[rows]

    @property
    def diverges(self) -> bool:
        """Whether errors at the rows visited are above `DIVERGED` times those of coefficients 0."""
        bound = DIVERGED**2 * np.where(self._squares_of_Y == 0.0, 1.0, self._squares_of_Y)
        return not np.all(self._squares_of_r <= bound)

    def estimate_after_pass(self, x: np.ndarray) -> np.ndarray | None:
        if self._rows_since_pass < len(self.Y):
            return None
        self._rows_since_pass, before = 0, self._estimate
        self._estimate = self._relative_residual(x)
        if self.stagnates:
            self.rises = bool(self._estimate.max() > _RISE_RATIO * self._lowest)
            self._lowest = min(self._estimate.max(), np.inf if self.rises else self._lowest)
        self.stagnates |= bool(self._estimate.max() > _STAGNATION_RATIO * before.max())
        if self._rounding_check_is_due() and self._rounding(x) > ROUNDING * self._estimate.max():
            self.kernel = self._exact
            self.residual(x)  # H of float64 kernel values
        return self._estimate

    def _rounding(self, x: np.ndarray) -> float:
        """Estimate, from some rows, the largest relative residual that rounding of f causes."""
        size = min(_MAX_CHECKED_ROWS, max(1, _VALUES // len(self.centres)))
        rows = np.arange(0, len(self.Y), max(1, len(self.Y) // size))
        exact = self._exact.block(rows, self._exact.points(self.centres))
        rounded = self.kernel.block(rows, self.kernel.points(self.centres))
        error = matmul(exact.T, matmul(rounded.astype(np.float64) - exact, x))
        return float((np.linalg.norm(error, axis=0) * len(self.Y) / len(rows) / self._norm).max())

    def estimate(self) -> np.ndarray:
        return self._estimate

    def residual(self, x: np.ndarray) -> np.ndarray | None:
        """Relative residual of x : (p, t) at all rows, in float64; (t,). n p kernel values.

        Stores the residuals and H of x. Returns None if the deadline passes before all rows are
        visited.
        """
        H: np.ndarray = np.zeros(x.shape)
        rhs: np.ndarray = np.zeros(x.shape)
        for start in range(0, len(self.Y), RESIDUAL_ROWS):
            if start and self._deadline.passed:
                return None
            rows = np.arange(start, min(start + RESIDUAL_ROWS, len(self.Y)))
            products = self._gradient_sums(self._exact, rows, x, self.Y[rows], self.Y[rows])
            H += products[0]
            rhs += products[1]
        self._H, self._rhs = H, rhs
        self._visited[:] = True
        self._squares_of_r = np.square(self._r).sum(axis=0)
        self._squares_of_Y = np.square(self.Y).sum(axis=0)
        self._estimate = self._relative_residual(x)
        return self._estimate

    def _relative_residual(self, x: np.ndarray) -> np.ndarray:
        """||H + alpha K_ZZ x|| / ||K_Zn Y||, sums over the rows visited; (t,)."""
        residual = self._H
        if self.alpha:
            KZZ_x = self._exact.product(self.centres, x, rows=self.centres)
            residual = residual + self.alpha * KZZ_x
        return np.linalg.norm(residual, axis=0) / self._norm

    @property
    def _norm(self) -> np.ndarray:
        norm = np.linalg.norm(self._rhs, axis=0)
        return np.where(norm == 0.0, 1.0, norm)

    def discard_estimate(self) -> None:
        """Continue with float64 kernel values, from which `residual` has computed H."""
        self.kernel = self._exact

    def result(self, a: np.ndarray, steps_per_pass: int, **chosen: float) -> DescentResult:
        """Return the result of coefficients a : (p, t); a pass takes `steps_per_pass` batches.

        If the residual is above `tol`, a is replaced by its multiple of least error at 2,000 rows,
        whose error at these rows is at most that of coefficients 0.
        """
        if self._result is None:
            residual = self._relative_residual(a)
            rows = np.sort(
                self.rng.choice(len(self.Y), min(len(self.Y), MEASURED_ROWS), replace=False)
            )
            fitted = self._exact.product(self.centres, a, rows=rows)
            squares = a * self._exact.product(self.centres, a, rows=self.centres)
            penalty = self.alpha * len(rows) / len(self.Y) * squares.sum(axis=0)
            a = a * best_multiple(self.Y[rows], fitted, penalty)
            self._result = residual, self._limit
        residual, reason = self._result
        self._show(a, residual)
        n_passes = -(-self.n_iter // steps_per_pass)
        return DescentResult(a, n_passes, residual, reason == "tol", reason, chosen)
