"""FALKON: Nystrom kernel ridge by conjugate gradients, preconditioned by the landmarks.

Rudi, Carratino and Rosasco, "FALKON: An Optimal Large Scale Kernel Method" (NIPS 2017),
Algorithm 1. With m landmarks Z among the n rows, f = sum_j b_j k(z_j, .) minimises

    ||K_nm b - y||^2 + alpha b' K_mm b.

With K_mm = T'T and A'A = (n / m) T T' + alpha I, b = T^-1 A^-1 beta solves

    A^-T (T^-T K_nm' K_nm T^-1 + alpha I) A^-1 beta = A^-T T^-T K_nm' y,

whose condition number is bounded when m is large enough. (The paper's lambda is alpha / n.) The
paper estimates K_nm' K_nm in the preconditioner from the m landmarks. Here it is estimated from p
rows P, where p may exceed m:

    A'A = (n / p) T^-T K_pm' K_pm T^-1 + alpha I.

The preconditioner is then accurate for a smaller m. With the landmarks as P it is the paper's.
KRILL (Diaz, Epperly, Frangella, Tropp and Webber, "Robust, Randomized Preconditioning for Kernel
Ridge Regression", arXiv 2304.12465) estimates K_nm' K_nm from all rows, by a sparse random sign
embedding Phi of 2 m rows, each column of which has 8 entries of +-1 / sqrt(8):

    A'A = T^-T (Phi K_nm)' (Phi K_nm) T^-1 + alpha I.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.blas import ssyrk
from sklearn.utils import check_random_state

from kbench.approximation import Machine, kernel_error
from kbench.approximation.clipped import clipped
from kbench.errors import warn
from kbench.intrinsics.products import at_first_shift, matmul
from kbench.kernels import KernelMatrix
from kbench.methods.base.ridge import (
    KernelRidgeEstimator,
    RidgeClassifierMixin,
    RidgeRegressorMixin,
    compared_rows,
    warn_unconverged,
)
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.solvers import solve_cg
from kbench.trace import Deadline, Trace
from kbench.validated import NOT_NEGATIVE, choice, integer, usual

# Rows of a block of float64 kernel values with the landmarks: more rows take more memory (8 bytes
# for each row and landmark), fewer make GEMM slower. Set by hand.
_BATCH_ROWS = 512
# Rows of KRILL's embedding for each landmark, and non-zero entries in each of its columns, from its
# paper. More of either give a better preconditioner at more cost.
_EMBEDDING_ROWS_PER_LANDMARK = 2
_ENTRIES_PER_COLUMN = 8
# The ridge that damps rounding errors is reported in a warning above this multiple of alpha. Kernel
# values of 1 reach it at alpha=1e-10, values of 1e12 at 100. Set by hand.
_MIN_REPORTED_DAMPING = 1e3


@dataclass(eq=False, repr=False)
class FalkonRidge(KernelRidgeEstimator):
    """Kernel ridge in the span of landmarks; base of the regressor and the classifier.

    Parameters
    ----------
    n_components : int, default=1000
        Number of landmarks, which are rows drawn without replacement; at most the number of rows.
        Set by hand.
    alpha : float or "loo", default="loo"
        Weight of ||f||^2 against the sum of squared errors; lambda in the MEKA paper.
        "loo" takes the lowest leave-one-out error on at most 500 rows; `alpha_` is the choice.
    kernel, gamma, degree, coef0
        As in `KernelSVC`; the kernel is positive semidefinite.
    tol : float, default=1e-4
        Relative residual of the preconditioned system at which the iterations end. Set by hand.
    max_iter : int, default=100
        Largest number of iterations of conjugate gradients. Set by hand.
    max_time : float or None, default=None
        As in `KernelSVC`; it is checked between products. The preconditioner gets half of the time
        and leaves out rows for which none is left.
    preconditioner_rows : int or None, default=None
        p, the number of rows, drawn without replacement, from which the preconditioner is made.
        None is 8 `n_components`. 0 uses the landmarks, as the paper does: the preconditioner costs
        less, and more iterations follow.
    preconditioner : {"rows", "krill"} or None, default=None
        "rows" (None): from `preconditioner_rows` rows. "krill": from a random embedding of all
        rows, which needs no parameter, and n m more kernel values unless they are stored.
    memory_mb : float, default=2048.0
        Memory in MiB for kernel values between rows and landmarks. If they need more, they are
        computed again for every product. Set by hand.
    error_rows : int, default=1000
        Number of rows on which `kernel_error_` is measured, outside the timed part of `fit`; 0
        measures nothing. Set by hand.
    fit_intercept : bool, default=False
        As in `KernelRidge`.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    kernel_error_ : float
        As in `ApproximateRidge`, for the matrix K_nm K_mm^-1 K_mn: exact kernel ridge regression
        with that matrix has the same solution.
    dual_coef_ : (m, n_targets) float64
        The coefficients b.
    n_iter_ : int
        Iterations of conjugate gradients.
    converged_ : bool
    kernel_entries_ : int
    n_parameters_ : int
        Number of entries of the landmarks and of b together.
    timings_ : dict of str to float
        Seconds of "landmarks" (choice of landmarks and preconditioner) and "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    O(p m^2 + n m d) time, and O(n m) for each iteration (O(n m d) if the kernel values exceed
    `memory_mb`); O(m^2) memory and that of the stored kernel values. Prediction costs O(m d) a row.
    """

    _parameter_constraints: ClassVar[dict] = {
        **KernelRidgeEstimator._parameter_constraints,
        "preconditioner_rows": [integer(0), None],
        "preconditioner": [choice("rows", "krill"), None],
        "memory_mb": [NOT_NEGATIVE],
        **usual("n_components", "tol", "max_iter", "max_time", "error_rows", "random_state"),
    }

    n_components: int = 1000
    _: KW_ONLY
    alpha: float | str = "loo"
    tol: float = 1e-4
    max_iter: int = 100
    max_time: float | None = None
    preconditioner_rows: int | None = None
    preconditioner: str | None = None
    memory_mb: float = 2048.0
    error_rows: int = 1000
    random_state: Any = None

    def _solve(self, X: Any, Y: np.ndarray, trace: Trace) -> Machine:
        deadline = Deadline(self.max_time, trace)
        n = len(Y)
        rng = check_random_state(self.random_state)
        m = clipped("n_components", self.n_components, n)
        indices = np.sort(rng.choice(n, m, replace=False))
        with trace.phase("landmarks"):
            kernel = KernelMatrix(self._kernel(X), X)
            columns = _Columns(kernel, indices, self.memory_mb)
            T, A = self._preconditioner(kernel, indices, columns, rng, deadline.fraction(2))
        with trace.phase("solve"):

            def to_coef(beta: np.ndarray) -> np.ndarray:
                return solve_triangular(T, solve_triangular(A, beta))

            def preconditioned(gradient: np.ndarray) -> np.ndarray:
                return solve_triangular(A, solve_triangular(T, gradient, trans=1), trans=1)

            def product(beta: np.ndarray) -> np.ndarray:
                scaled = solve_triangular(A, beta)
                gram_product = columns.transposed(columns.times(solve_triangular(T, scaled)))
                inner = solve_triangular(T, gram_product, trans=1) + self.alpha_ * scaled
                return solve_triangular(A, inner, trans=1)

            result = solve_cg(
                product,
                preconditioned(columns.transposed(Y)),
                tol=self.tol,
                max_iter=self.max_iter,
                max_time=deadline.seconds_left(),
                trace=trace,
            )
        warn_unconverged(result, self)
        self.dual_coef_ = to_coef(result.x)
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        self.kernel_entries_ = kernel.n_entries
        self.n_parameters_ = m * X.shape[1] + self.dual_coef_.size
        if self.error_rows:
            with trace.pause():
                rows = compared_rows(X, self.error_rows)
                self.kernel_error_ = kernel_error(kernel, _NystromMatrix(kernel, indices, T), rows)
        dtype = prediction_dtype(kernel.take(indices), self.dual_coef_)
        return KernelExpansion(kernel, indices, self.dual_coef_, dtype)

    def _preconditioner(
        self,
        kernel: KernelMatrix,
        indices: np.ndarray,
        columns: "_Columns",
        rng: np.random.RandomState,
        deadline: Deadline,
    ) -> tuple[np.ndarray, np.ndarray]:
        """T and A of the module's docstring; (m, m) upper triangular, float64.

        Blocks after the deadline are left out of A, which then needs more iterations.
        """
        n, m = len(kernel), len(indices)
        float64_kernel = kernel.astype(np.float64)
        landmarks = float64_kernel.points(indices)
        gram = float64_kernel.block(indices, landmarks)
        # K_nm is float32, so the directions of K_mm below its rounding error carry no information.
        # A ridge of that size on the diagonal damps them.
        damping = float(np.finfo(np.float32).eps * gram.diagonal().max())
        gram[np.diag_indices(m)] += damping
        if damping > _MIN_REPORTED_DAMPING * self.alpha_:
            warn(
                f"rounding errors of float32 kernel values of up to {gram.diagonal().max():.3g} "
                f"act as a ridge of {damping:.3g} beside alpha={self.alpha_:.3g}, so that columns "
                "of small scale are lost: scale the columns, or raise alpha"
            )
        T = cholesky(gram, overwrite_a=True)
        if self.preconditioner == "krill":
            signs = _sign_embedding(_EMBEDDING_ROWS_PER_LANDMARK * m, n, rng)
            embedding = columns.embed(signs, deadline.fraction(2))
            blocks: Any = (embedding[rows] for rows in _batches(len(embedding)))
            n_rows = len(embedding)
        else:
            # More rows cost m^2 each and save iterations: with the m = 500 landmarks alone, and
            # float32 sums, 40,000 rows of covtype did not converge in 100 of them. Set by hand.
            p = 8 * m if self.preconditioner_rows is None else self.preconditioner_rows
            sample = rng.choice(n, min(n, p), replace=False) if p else indices
            blocks = (
                float64_kernel.block(sample[batch], landmarks) for batch in _batches(len(sample))
            )
            n_rows = n
        whitened_gram, n_done = np.zeros((m, m), np.float32, order="F"), 0
        for block in blocks:
            whitened = solve_triangular(T, block.T, trans=1, overwrite_b=True)
            # float32 suffices: a relative error of 6e-8 does not change the number of iterations.
            # ssyrk fills the upper triangle, the only one that `cholesky` reads.
            whitened = whitened.astype(np.float32, order="F")
            whitened_gram = ssyrk(1.0, whitened, 1.0, whitened_gram, overwrite_c=True)
            n_done += len(block)
            if deadline.passed:
                break
        whitened_gram *= n_rows / n_done

        def factorise(shift: float) -> np.ndarray:
            shifted = whitened_gram.astype(np.float64)
            shifted[np.diag_indices(m)] += shift
            return cholesky(shifted, overwrite_a=True)

        # The preconditioner's ridge changes only the number of iterations. If rounding makes the
        # factorisation fail at alpha, the larger of 10 alpha and the rounding error is tried next;
        # the 10 is set by hand.
        alpha, largest = float(self.alpha_), float(whitened_gram.diagonal().max())
        rounding = float(np.finfo(np.float32).eps) * largest
        return T, at_first_shift(factorise, alpha, max(10.0 * alpha, rounding))


class FalkonRegressor(RidgeRegressorMixin, FalkonRidge):
    """FALKON for real targets; parameters and attributes as in `FalkonRidge`."""


@dataclass(eq=False, repr=False)
class FalkonClassifier(RidgeClassifierMixin, FalkonRidge):
    """FALKON for classes; parameters and attributes as in `FalkonRidge`."""


class _Columns:
    """Products with K_nm, which is stored in float32 if it fits into `memory_mb` MiB.

    Products are summed in float64: landmarks that are almost linearly dependent have large
    coefficients of opposite signs, which cancel.
    """

    def __init__(self, kernel: KernelMatrix, indices: np.ndarray, memory_mb: float) -> None:
        self._kernel, self._indices = kernel, indices
        self._all_rows = np.arange(len(kernel))
        self._stored: np.ndarray | None = None
        if 4.0 * len(kernel) * len(indices) <= memory_mb * 2**20:
            self._stored = kernel.block(self._all_rows, kernel.points(indices))

    def times(self, V: np.ndarray) -> np.ndarray:
        """K_nm V; (m, t) -> (n, t) float64."""
        if self._stored is None:
            return self._kernel.product(self._indices, V)
        out = np.empty((len(self._stored), V.shape[1]))
        for rows in _batches(len(out)):
            out[rows] = matmul(self._stored[rows].astype(np.float64), V)
        return out

    def transposed(self, U: np.ndarray) -> np.ndarray:
        """K_nm' U; (n, t) -> (m, t) float64."""
        if self._stored is None:
            return self._kernel.product(self._all_rows, U, rows=self._indices)
        out = np.zeros((self._stored.shape[1], U.shape[1]))
        for rows in _batches(len(U)):
            out += matmul(self._stored[rows].astype(np.float64).T, U[rows])
        return out

    def embed(self, Phi: sp.csc_array, deadline: Deadline) -> np.ndarray:
        """Phi K_nm; (p, n) -> (p, m) float64.

        If the deadline passes, the rows summed so far are scaled to stand for all n. Blocks have p
        rows: adding a block to the p m sums takes no more additions than it has kernel values.
        """
        (p, n), m = Phi.shape, len(self._indices)
        out, n_done = np.zeros((p, m)), 0
        while n_done < n and not (n_done and deadline.passed):
            rows = slice(n_done, n_done + p)
            signs = Phi[:, rows]
            for batch in _batches(m):
                if self._stored is None:
                    landmarks = self._kernel.points(self._indices[batch])
                    values = self._kernel.block(self._all_rows[rows], landmarks)
                else:
                    values = self._stored[rows, batch]
                out[:, batch] += matmul(signs, values.astype(np.float64))
            n_done = min(n, n_done + p)
        return out * np.sqrt(n / n_done)


def _batches(n: int) -> list[slice]:
    return [slice(start, start + _BATCH_ROWS) for start in range(0, n, _BATCH_ROWS)]


def _sign_embedding(p: int, n: int, rng: np.random.RandomState) -> sp.csc_array:
    """Phi : (p, n); each column has one entry with a random sign in each of 8 groups of rows."""
    n_entries = min(_ENTRIES_PER_COLUMN, p)
    edges = np.linspace(0, p, n_entries + 1).astype(np.intp)
    rows = (edges[:-1] + rng.uniform(size=(n, n_entries)) * np.diff(edges)).astype(np.intp).ravel()
    signs = rng.choice([-1.0, 1.0], n * n_entries) / np.sqrt(n_entries)
    return sp.csc_array((signs, rows, n_entries * np.arange(n + 1)), shape=(p, n))


class _NystromMatrix:
    """K_nm K_mm^-1 K_mn with K_mm = T'T, which `kernel_error` compares with K."""

    def __init__(self, kernel: KernelMatrix, indices: np.ndarray, T: np.ndarray) -> None:
        # float64: almost dependent landmarks have large coefficients of opposite signs.
        self._kernel, self._indices, self._T = kernel.astype(np.float64), indices, T
        self.shape = (len(kernel), len(kernel))

    def rows(self, indices: np.ndarray) -> np.ndarray:
        values = self._kernel.block(indices, self._kernel.points(self._indices))
        weights = cho_solve((self._T, False), values.T)
        return self._kernel.product(self._indices, weights).T
