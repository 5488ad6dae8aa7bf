"""Exact kernel ridge: (K + alpha I) C = Y by preconditioned conjugate gradients.

Kernel values are float64 and computed as they are needed. The preconditioner is

- a Cholesky factorisation, n^3 / 3, done in place in the precision of the kernel matrix: in
  float32 it gives the solution to `tol` in a few steps, at half of the time and memory of float64;
- or the inverse of a low-rank approximation F F' with alpha on its diagonal, in O(n m) memory:
  Diaz, Epperly, Frangella, Tropp and Webber, "Robust, Randomized Preconditioning for Kernel Ridge
  Regression" (2023), with m landmarks from randomly pivoted Cholesky,

      (F F' + alpha I)^-1 V = (V - F (F'F + alpha I)^-1 F'V) / alpha.

If the Cholesky factorisation would take longer than the time limit, the low-rank one is used.
"""

from collections.abc import Callable

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from kbench.approximation.landmarks.pivots import randomly_pivoted_cholesky
from kbench.errors import warn
from kbench.intrinsics.products import at_first_shift, matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.cg import CGResult, solve_cg
from kbench.trace import Deadline, Trace

# Rows of a block of F: products within a block have the precision of F, sums of blocks float64. As
# in `kbench.approximation.features.factored`; set by hand.
_BLOCK_ROWS = 4096
# Rows of the matrix whose factorisation is timed, about 10 ms. A multiplication takes as little as
# half of the time in a larger matrix, so the estimate can be twice too high. Set by hand.
_TIMED_ROWS = 1024
# Landmarks m if the factorisation takes too long: more landmarks save iterations, but the low-rank
# preconditioner takes n m^2 multiplications. Set by hand.
_FEW_LANDMARKS = 500


def solve_kernel_ridge(
    kernel: KernelMatrix,
    Y: np.ndarray,
    alpha: float,
    *,
    scale: np.ndarray | None = None,
    precondition: Callable[[np.ndarray], np.ndarray] | None = None,
    tol: float = 1e-8,
    max_iter: int = 50,
    max_time: float | None = None,
    trace: Trace | None = None,
) -> CGResult:
    """Coefficients of the exact model.

    Parameters
    ----------
    kernel : KernelMatrix
        Its dtype is the precision of the factorisation; products are float64.
    Y : (n, m) float64
    alpha : float, > 0
    scale : (n,), optional
        S K S with S = diag(scale) takes the place of K, for weighted least squares.
    precondition : callable, optional
        As in `solve_cg`; None is the Cholesky factorisation.
    tol : float
        Bound on ||Y - (K + alpha I) C|| / ||Y|| of each target; the default is set by hand.
    max_iter : int
        As in `solve_cg`; the default is set by hand.
    max_time : float, optional
        Seconds. A factorisation that is expected to take longer is replaced by a low-rank
        preconditioner with 500 landmarks.
    trace : Trace, optional
        As in `solve_cg`.

    Notes
    -----
    An iteration takes n^2 kernel values in float64. The factorisation takes O(n^3 / 3 + n^2 d) time
    and n^2 numbers.
    """
    exact = kernel.astype(np.float64)
    all_points = np.arange(len(kernel))
    trace = Trace() if trace is None else trace
    deadline = Deadline(max_time, trace)
    if precondition is None:
        seconds_left = deadline.seconds_left()
        if seconds_left is not None and _seconds_of_cholesky(kernel, trace) > seconds_left:
            rng = np.random.RandomState(0)
            F = randomly_pivoted_cholesky(kernel, min(len(kernel), _FEW_LANDMARKS), rng)[1]
            precondition = low_rank_inverse(F if scale is None else F * scale[:, None], alpha)
        else:
            precondition = cholesky_inverse(shifted_cholesky(kernel, alpha, scale))
    s = np.ones((1, 1)) if scale is None else scale[:, None]
    return solve_cg(
        lambda V: s * exact.product(all_points, s * V) + alpha * V,
        Y,
        precondition=precondition,
        alpha=alpha,
        tol=tol,
        max_iter=max_iter,
        max_time=deadline.seconds_left(),
        trace=trace,
    )


def _seconds_of_cholesky(kernel: KernelMatrix, trace: Trace) -> float:
    """Estimate the seconds of n^3 / 3 multiplications from 1,024 rows; 0 if n is at most that."""
    m, start = _TIMED_ROWS, trace.running_s()
    if len(kernel) <= m:
        return 0.0
    scipy.linalg.cholesky(np.eye(m, dtype=kernel.dtype), check_finite=False)
    return (trace.running_s() - start) * (len(kernel) / m) ** 3


def cholesky_inverse(factor: tuple[np.ndarray, bool]) -> Callable[[np.ndarray], np.ndarray]:
    """Return V -> (L L')^-1 V for a factor of `shifted_cholesky`, in whose precision the function
    computes; it returns float64."""

    def apply(V: np.ndarray) -> np.ndarray:
        rhs = V.astype(factor[0].dtype)
        return scipy.linalg.cho_solve(factor, rhs, check_finite=False).astype(np.float64)

    return apply


def low_rank_inverse(F: np.ndarray, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return V -> (F F' + alpha I)^-1 V for F : (n, r), float32 or float64; it returns float64.

    Making the function takes O(n r^2 + r^3 / 3), a call O(n r) for each column of V, with products
    in the precision of F.
    """
    blocks = [slice(start, start + _BLOCK_ROWS) for start in range(0, len(F), _BLOCK_ROWS)]
    shifted_gram = alpha * np.eye(F.shape[1])
    for rows in blocks:
        shifted_gram += matmul(F[rows].T, F[rows])
    factor = scipy.linalg.cho_factor(shifted_gram, overwrite_a=True, check_finite=False)

    def apply(V: np.ndarray) -> np.ndarray:
        inner = np.zeros((F.shape[1], V.shape[1]))
        for rows in blocks:
            inner += matmul(F[rows].T, V[rows].astype(F.dtype))
        inner = scipy.linalg.cho_solve(factor, inner, check_finite=False).astype(F.dtype)
        out = np.empty(V.shape)
        for rows in blocks:
            out[rows] = (V[rows] - matmul(F[rows], inner)) / alpha
        return out

    return apply


def shifted_cholesky(
    kernel: KernelMatrix,
    alpha: float,
    scale: np.ndarray | None = None,
    *,
    values: np.ndarray | None = None,
) -> tuple[np.ndarray, bool]:
    """Cholesky factor of K + alpha I; the diagonal is raised if rounding makes it indefinite.

    With scale : (n,), the factor is that of S K S + alpha I, S = diag(scale). values : (n, n) is K
    if the caller has it; it is copied.
    """
    eps = float(np.finfo(kernel.dtype).eps)
    largest = 1.0 if scale is None else float(scale.max(initial=0.0)) ** 2
    rounding = eps * largest * float(kernel.diagonal().sum())

    def factorise(shift: float) -> tuple[np.ndarray, bool]:
        gram = kernel.block(np.arange(len(kernel))) if values is None else values.copy()
        if scale is not None:
            s = scale.astype(gram.dtype)
            gram *= s[:, None]
            gram *= s
        gram[np.diag_indices_from(gram)] += alpha + shift
        # LAPACK overwrites column-major arrays, so the transpose saves a copy.
        return scipy.linalg.cho_factor(gram.T, overwrite_a=True, check_finite=False)

    return at_first_shift(factorise, 0.0, rounding)


def least_squares(gram: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Solve gram C = Y for a symmetric matrix; if it is singular, warn and solve least squares."""
    gram = np.asarray_chkfinite(gram)
    eps, norm = np.finfo(np.float64).eps, lapack.dlange("1", gram)
    factor, info = lapack.dpotrf(gram)
    if not info and lapack.dpocon(factor, norm)[0] >= eps:
        return lapack.dpotrs(factor, Y)[0]
    # Workspace for blocks of 64 columns; SciPy's default, n numbers, is for one. Set by hand.
    factor, pivots, info = lapack.dsytrf(gram, lwork=64 * len(gram))
    if not info and lapack.dsycon(factor, pivots, norm)[0] >= eps:
        return lapack.dsytrs(factor, pivots, Y)[0]
    warn(
        "the kernel matrix plus alpha is singular; the solution is that of least squares",
        scipy.linalg.LinAlgWarning,
    )
    # With rounding, zero singular values are up to about n eps of the largest singular value.
    return scipy.linalg.lstsq(gram, Y, cond=len(gram) * eps)[0]
