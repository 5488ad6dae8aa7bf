"""A kernel machine on a few basis functions, grown greedily and trained by Newton's method: SpSVM.

Keerthi, Chapelle and DeCoste, "Building Support Vector Machines with Reduced Classifier Complexity"
(JMLR 7, 2006), without intercept. For basis points J and outputs o = K_:J b, the paper's objective
times C = 1 / lambda is

    min_b  f = 1/2 b' K_JJ b + 1/2 sum_i C_i max(0, 1 - y_i o_i)^2

    until |J| = d_max
      candidates: kappa random points outside J                              (the paper's method 2)
        over I = {i : y_i o_i < 1}, gradient g_j = k_jJ b - sum_I C_i k_ij (y_i - o_i)
        and curvature h_j = k_jj + sum_I C_i k_ij^2 of f along k(., x_j)
      J <- J + the candidate of largest g_j^2 / h_j, its weight -g_j / h_j
      when |J| has grown by a factor of 2^(1/4), and at the end: Newton steps in b
        P = K_JJ + K_JI C_I K_IJ,   step -P^-1 grad f,   until I no longer changes

Steps are halved until f decreases. Each Newton step computes P by matrix products, |I| |J|^2
operations near the peak speed of the processor, and factorises P with |J|^3 / 3 operations, which
are negligible. Rank-one updates of a factor, one for each point that enters or leaves I, would run
at a fraction of the peak speed.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import at_first_shift, matmul
from kbench.kernels import KernelMatrix
from kbench.trace import Deadline, Trace

# Columns of the basis rows that are converted to float64 at a time, 6 MiB for 200 rows: with more
# columns products are faster and take more memory. Set by hand.
_BATCH_COLUMNS = 4096
# Guards: Newton's method takes fewer than five steps as a rule, and 2^-30 of a step is below the
# rounding of f.
_MAX_NEWTON_STEPS = 50
_MAX_HALVINGS = 30
# The paper's factor of growth of |J| between two trainings.
_GROWTH = 2.0**0.25
# Guard: ridge of P, relative to its mean diagonal; multiplied by 10 while the factorisation fails.
_RIDGE = 1e-10
# Guard: a change of f below this fraction (64 eps) of the sum of its absolute terms is rounding.
_ROUNDING = 2.0**-46


@dataclass(frozen=True)
class SparsePrimalResult:
    """Solution on the chosen basis.

    Attributes
    ----------
    basis : (s,) ints
        Points of the basis, in the order of their choice.
    coef : (s,) float64
        b
    objective : float
        f
    gradient_norm : float
        Largest entry of |grad f|.
    n_iter : int
        Newton steps.
    converged : bool
        Whether every training ended with I unchanged, or with a step below the rounding of f, and
        all points were added in time.
    in_time : bool
        Whether the fit ended before `max_time`.
    """

    basis: np.ndarray
    coef: np.ndarray
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool
    in_time: bool


def solve_sparse_primal(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    n_basis: int,
    rng: np.random.RandomState,
    *,
    n_candidates: int = 59,
    max_time: float | None = None,
    trace: Trace | None = None,
) -> SparsePrimalResult:
    """Choose basis functions and train their weights.

    Parameters
    ----------
    kernel : KernelMatrix of n points
        Its dtype is the precision of the stored kernel values.
    y : (n,) of -1 and +1
    C : (n,), >= 0
        Weights of the points' squared losses.
    n_basis : int
        d_max; n if there are fewer points.
    rng : RandomState
        Draws the candidates.
    n_candidates : int
        kappa; of 59 points, one is among the best 5 % with probability 0.95.
    max_time : float, optional
        Seconds; no further point is added and no further Newton step begins afterwards.
    trace : Trace, optional
        Receives objective and n_support after each addition, and the phases "select" and "newton".

    Returns
    -------
    SparsePrimalResult

    Notes
    -----
    O(n d_max^2) time for the training, O(kappa |I|) kernel values for each addition; n d_max kernel
    values of memory, and O(n).
    """
    trace = Trace() if trace is None else trace
    solver = _Solver(kernel, y, C, min(n_basis, len(y)), Deadline(max_time, trace))
    return solver.run(rng, n_candidates, trace)


class _Solver:
    """K_J: (the first `size` of `rows`), the weights b, the outputs o = K_:J b, and f."""

    def __init__(
        self, kernel: KernelMatrix, y: np.ndarray, C: np.ndarray, n_basis: int, deadline: Deadline
    ) -> None:
        n = len(y)
        self.kernel, self.y, self.C, self.deadline = kernel, y, C, deadline
        self.rows = np.empty((n_basis, n), kernel.dtype)
        self.gram = np.empty((n_basis, n_basis))
        self.basis = np.empty(n_basis, np.intp)
        self.coef = np.zeros(n_basis)
        self.size = 0
        self.outputs = np.zeros(n)
        self.diagonal = kernel.diagonal()
        self.objective = self.loss(self.outputs)
        self.n_iter = 0
        self.converged = self.in_time = True

    def run(
        self, rng: np.random.RandomState, n_candidates: int, trace: Trace
    ) -> SparsePrimalResult:
        n_basis = len(self.basis)
        trained_size = 0
        while self.size < n_basis:
            if self.size and self.deadline.passed:
                self.in_time = False
                break
            with trace.phase("select"):
                if not self.add_point(rng, n_candidates):
                    break
            if self.size >= _GROWTH * trained_size:
                with trace.phase("newton"):
                    self.train()
                trained_size = self.size
            trace(objective=self.objective, n_support=self.size)
        if trained_size < self.size:
            with trace.phase("newton"):
                self.train()
        gradient = self.gradient(self.violators())
        return SparsePrimalResult(
            basis=self.basis[: self.size],
            coef=self.coef[: self.size],
            objective=self.objective,
            gradient_norm=float(np.abs(gradient).max(initial=0.0)),
            n_iter=self.n_iter,
            converged=self.converged and self.in_time,
            in_time=self.in_time,
        )

    def loss(self, outputs: np.ndarray) -> float:
        slack = np.maximum(1.0 - self.y * outputs, 0.0)
        return 0.5 * float(matmul(self.C, slack**2))

    def violators(self) -> np.ndarray:
        """Indices of I among the points with C_i > 0."""
        return np.flatnonzero((self.y * self.outputs < 1.0) & (self.C > 0.0))

    def add_point(self, rng: np.random.RandomState, n_candidates: int) -> bool:
        """Add the best of the random candidates to the basis; False if none decreases f."""
        size, kernel = self.size, self.kernel
        outside = np.ones(len(self.y), bool)
        outside[self.basis[:size]] = False
        pool = np.flatnonzero(outside)
        candidates = rng.choice(pool, min(n_candidates, len(pool)), replace=False)
        I = self.violators()  # noqa: E741
        values = kernel.block(candidates, kernel.points(I)).astype(np.float64)
        residual = self.C[I] * (self.y[I] - self.outputs[I])
        # k_jJ b is the output at the candidate.
        gradient = self.outputs[candidates] - matmul(values, residual)
        curvature = self.diagonal[candidates] + matmul(values**2, self.C[I])
        curvature = np.maximum(curvature, np.finfo(np.float64).tiny)
        best = int(np.argmax(gradient**2 / curvature))
        if gradient[best] == 0.0:
            return False
        point = candidates[best]
        self.rows[size] = kernel.block(candidates[best : best + 1])[0]
        self.basis[size] = point
        self.size = size + 1
        gram_row = self.rows[: self.size, point].astype(np.float64)
        gram_row[-1] = self.diagonal[point]
        self.gram[size, : self.size] = self.gram[: self.size, size] = gram_row
        direction = np.zeros(self.size)
        direction[-1] = -gradient[best] / curvature[best]
        self.step(direction)
        return True

    def train(self) -> None:
        """Newton's method in the weights of the basis."""
        size = self.size
        before: np.ndarray | None = None
        for _ in range(_MAX_NEWTON_STEPS):
            I = self.violators()  # noqa: E741
            if before is not None and np.array_equal(I, before):
                return
            if self.n_iter and self.deadline.passed:
                self.in_time = False
                return
            hessian = self.gram[:size, :size] + self.weighted_gram(I)
            self.n_iter += 1
            fraction = self.step(-scipy.linalg.cho_solve(_cholesky(hessian), self.gradient(I)))
            if fraction == 0.0:
                return
            # While I stays the same, f is quadratic, and a full step minimises it.
            before = I if fraction == 1.0 else None
        self.converged = False

    def gradient(self, I: np.ndarray) -> np.ndarray:  # noqa: E741
        """grad f with violators I; (size,)."""
        size = self.size
        residual = self.C[I] * (self.y[I] - self.outputs[I])
        gradient = matmul(self.gram[:size, :size], self.coef[:size])
        for start in range(0, len(I), _BATCH_COLUMNS):
            batch = slice(start, start + _BATCH_COLUMNS)
            gradient -= matmul(self.rows[:size, I[batch]].astype(np.float64), residual[batch])
        return gradient

    def weighted_gram(self, I: np.ndarray) -> np.ndarray:  # noqa: E741
        """K_JI C_I K_IJ : (size, size) float64."""
        total = np.zeros((self.size, self.size))
        for start in range(0, len(I), _BATCH_COLUMNS):
            batch = I[start : start + _BATCH_COLUMNS]
            weighted_rows = self.rows[: self.size, batch].astype(np.float64)
            weighted_rows *= np.sqrt(self.C[batch])
            total += matmul(weighted_rows, weighted_rows.T)
        return total

    def step(self, direction: np.ndarray) -> float:
        """Move b by the first of direction, direction / 2, ... that decreases f; return the
        fraction of direction, or 0."""
        size = self.size
        change = np.empty(len(self.y))
        for start in range(0, len(change), _BATCH_COLUMNS):
            batch = slice(start, start + _BATCH_COLUMNS)
            change[batch] = matmul(direction, self.rows[:size, batch].astype(np.float64))
        gram_direction = matmul(self.gram[:size, :size], direction)
        slope, curvature = (
            matmul(gram_direction, self.coef[:size]),
            matmul(gram_direction, direction),
        )
        before = np.maximum(1.0 - self.y * self.outputs, 0.0)
        fraction = 1.0
        for _ in range(_MAX_HALVINGS):
            outputs = self.outputs + fraction * change
            after = np.maximum(1.0 - self.y * outputs, 0.0)
            # With a small C, f changes by less than its rounding, so the terms' changes are summed.
            slack_change = np.where(
                (before > 0.0) & (after > 0.0), -fraction * self.y * change, after - before
            )
            norm_change = fraction * (slope + 0.5 * fraction * curvature)
            loss_changes = 0.5 * slack_change * (after + before)
            # A decrease within the rounding of its sum does not count: otherwise steps could
            # alternate between two points for ever.
            rounding = _ROUNDING * (abs(norm_change) + float(matmul(self.C, np.abs(loss_changes))))
            if norm_change + float(matmul(self.C, loss_changes)) < -rounding:
                self.coef[:size] += fraction * direction
                coef, self.outputs = self.coef[:size], outputs
                quadratic = matmul(matmul(coef, self.gram[:size, :size]), coef)
                self.objective = 0.5 * float(quadratic) + self.loss(outputs)
                return fraction
            fraction *= 0.5
        return 0.0


def _cholesky(matrix: np.ndarray) -> tuple[np.ndarray, bool]:
    """Cholesky factor of a matrix that is positive definite up to rounding, plus a small ridge.

    Nearly equal basis points cause eigenvalues below the rounding of float32 kernel values.
    """
    ridge = _RIDGE * matrix.trace() / len(matrix)

    def factorise(ridge: float) -> tuple[np.ndarray, bool]:
        matrix[np.diag_indices_from(matrix)] += ridge
        return scipy.linalg.cho_factor(matrix, lower=True)

    return at_first_shift(factorise, ridge, 10.0 * ridge)
