"""Preconditioned conjugate gradients for several right-hand sides at once.

Hestenes and Stiefel (1952), in the form of Golub and Van Loan, "Matrix Computations", 11.5. The
right-hand sides share the products with the matrix and have separate step lengths.

    r = b - A x,  z = M^-1 r,  p = z
    repeat:  a = r'z / p'Ap,  x += a p,  r -= a Ap,  z = M^-1 r,
             beta = r'z / (r'z before),  p = z + beta p

M is the preconditioner. If p'Ap <= 0, A is not positive definite, and the right-hand side keeps its
last x.

If A = K + alpha I and b holds targets, x are the coefficients of kernel ridge regression, which
minimise ||b - K x||^2 + alpha x'Kx. This objective may rise in a step: an early x can be far worse
than x = 0. A solve that ends before `tol` therefore returns the multiple of x with the smallest
objective, which is at most that of x = 0. This takes no product, because K x = b - r - alpha x.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kbench.trace import Deadline, Trace


@dataclass(frozen=True)
class CGResult:
    """Outcome of `solve_cg`.

    Attributes
    ----------
    x : (n, m) float64
    n_iter : int
        Products with the matrix.
    residual : (m,) float64
        ||b - A x|| / ||b|| by the recurrence for r, before x was scaled by `best_multiple`.
    converged : bool
        Whether all residuals are at most `tol`.
    indefinite : bool
        Whether p'Ap <= 0 occurred.
    stop_reason : {"tol", "max_iter", "max_time", "indefinite"}
    """

    x: np.ndarray
    n_iter: int
    residual: np.ndarray
    converged: bool
    indefinite: bool
    stop_reason: str


def solve_cg(
    product: Callable[[np.ndarray], np.ndarray],
    B: np.ndarray,
    *,
    precondition: Callable[[np.ndarray], np.ndarray] = lambda residual: residual,
    alpha: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 500,
    max_time: float | None = None,
    trace: Trace | None = None,
) -> CGResult:
    """Solve A X = B for symmetric positive definite A.

    Parameters
    ----------
    product : callable
        V : (n, m) -> A V.
    B : (n, m) float64
    precondition : callable
        R : (n, m) -> M^-1 R, with M symmetric positive definite and close to A.
    alpha : float, optional
        The ridge, if A = K + alpha I and X are the coefficients of kernel ridge regression.
    tol : float
        Bound on ||b - A x|| / ||b|| of every right-hand side.
    max_iter : int
        Bound on the products with A. The defaults of both bounds are set by hand.
    max_time : float, optional
        Seconds; no further product begins afterwards.
    trace : Trace, optional
        Receives the largest residual after each product.

    Notes
    -----
    An iteration costs a product, a preconditioning and O(n m); memory is 5 n m numbers.
    """
    deadline = Deadline(max_time, Trace() if trace is None else trace)
    X = np.zeros(B.shape)
    R = B.copy()
    scale = np.linalg.norm(B, axis=0)
    scale[scale == 0.0] = 1.0
    residual = np.linalg.norm(R, axis=0) / scale
    Z = precondition(R)
    P = Z.copy()
    r_z = np.einsum("ij,ij->j", R, Z)
    active = residual > tol
    indefinite = False
    n_iter = 0
    while active.any() and n_iter < max_iter and not (n_iter and deadline.passed):
        AP = product(P)
        n_iter += 1
        curvature = np.einsum("ij,ij->j", P, AP)
        is_indefinite = active & (curvature <= 0.0)
        indefinite |= bool(is_indefinite.any())
        active &= ~is_indefinite
        step = np.where(active, r_z / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        X += step * P
        R -= step * AP
        residual = np.linalg.norm(R, axis=0) / scale
        if trace is not None:
            trace(residual=float(residual.max()))
        active &= residual > tol
        if not active.any():
            break
        Z = precondition(R)
        before, r_z = r_z, np.einsum("ij,ij->j", R, Z)
        P = Z + np.where(active & (before > 0.0), r_z / np.where(before > 0, before, 1.0), 0.0) * P
    converged = bool(np.all(residual <= tol))
    if converged or not active.any():
        reason = "tol" if converged else "indefinite"
    else:
        reason = "max_iter" if n_iter >= max_iter else "max_time"
    if alpha is not None and not converged:
        KX = B - R - alpha * X
        X *= best_multiple(B, KX, alpha * np.einsum("ij,ij->j", X, KX))
    return CGResult(X, n_iter, residual, converged, indefinite, reason)


def best_multiple(B: np.ndarray, fitted: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Return t : (m,) that minimises ||b - t f||^2 + t^2 p.

    B, fitted : (n, m), targets b and the values f of the fitted functions; penalty p : (m,), alpha
    times the squared norms of the functions in the kernel's space, such as alpha x'Kx.
    """
    numerator = np.einsum("ij,ij->j", B, fitted)
    denominator = np.einsum("ij,ij->j", fitted, fitted) + penalty
    return np.divide(
        numerator, denominator, out=np.zeros(len(denominator)), where=denominator > 0.0
    )
