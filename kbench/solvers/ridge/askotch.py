"""Skotch and ASkotch: kernel ridge by randomised block steps, preconditioned within the block.

Rathore, Frangella, Yang, Derezinski and Udell, "Have ASkotch: A Neat Solution for Large-scale
Kernel Ridge Regression" (arXiv 2407.10070). With K_lambda = K + lambda I, W of the paper is X here:

    beta = 1 - (mu / nu)^1/2,  gamma = 1 / (mu nu)^1/2,  alpha = 1 / (1 + gamma nu)
    w = v = z = 0
    repeat:
        B = b rows, drawn uniformly without replacement
        K^ = Nystrom approximation of K_BB of rank r
        rho = lambda + lambda_r(K^)                         (or lambda: `damped` false)
        L = lambda_1((K^ + rho I)^-1/2 (K_BB + lambda I) (K^ + rho I)^-1/2), by 10 power steps
        d = (K^ + rho I)^-1 (K_lambda z - y)_B / L
        w = z - I_B d
        v = beta v + (1 - beta) z - gamma I_B d
        z = alpha v + (1 - alpha) w                         (Skotch: z = w)

The paper's automatic parameters are mu = lambda, nu = n / b. Its theory needs mu nu <= 1, so mu is
at most b / n here. If a block has a large part of the rows, nu = n / b can be too small, and the
iterates diverge: then nu is doubled, and the descent continues from the best z.

Nystrom (Frangella, Tropp and Udell 2023, Algorithm 2.1), with an orthonormal basis Q of the range
of Gaussian test vectors and s = eps tr(K_BB):

    Y = K_BB Q + s Q,   C'C = Q'Y,   F = Y C^-1,   K^ = F F'

The paper subtracts s from the eigenvalues of F F', because rounding adds about s; here s is
subtracted only from the smallest eigenvalue, in rho. By Woodbury's identity,

    (F F' + rho I)^-1 x = (x - F (F'F + rho I)^-1 F'x) / rho
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import at_first_shift, matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.descent import Descent
from kbench.solvers.ridge.limited_steps import DescentResult

# Steps of the power iteration for L, as in the paper.
_POWER_STEPS = 10
# The iterates diverge if the estimated residual is above this; coefficients 0 have 1. It is above
# `limited_steps.DIVERGED`, because momentum lets the residual rise and fall. Set by hand.
_DIVERGED = 10.0


def solve_askotch(
    kernel: KernelMatrix,
    Y: np.ndarray,
    alpha: float,
    *,
    block_size: int,
    rank: int,
    accelerated: bool = True,
    damped: bool = True,
    mu: float | None = None,
    nu: float | None = None,
    max_iter: int = 10_000,
    rng: np.random.RandomState,
    **limits: Any,
) -> DescentResult:
    """Coefficients of kernel ridge regression, (K + alpha I) X = Y.

    Y : (n, m) float64
    alpha : > 0; lambda of the paper
    block_size : int, at most n
    rank : r; clipped to `block_size`
    accelerated : False is Skotch.
    damped : Whether rho contains the smallest eigenvalue of K^.
    mu, nu : None chooses the automatic parameters. Other mu must be at most nu and 1 / nu.
    max_iter, rng, and tol, deadline, trace, predictor : As in `Descent`; max_iter is set by hand.

    A step takes b (n + b) kernel values and O(b^2 (r + m) + n m); memory is O(n m + b^2).
    """
    n, b = len(kernel), block_size
    nu = n / b if nu is None else nu
    mu = min(alpha, 1.0 / nu) if mu is None else mu
    if mu * nu > 1.0 + 1e-12 or mu > nu:  # guard: 1e-12 is for rounding of the product
        raise ValueError(f"mu={mu:g} is above 1 / nu or nu, nu={nu:g}; lower mu")
    descent = Descent(kernel, Y, alpha, max_iter=max_iter, rng=rng, **limits)
    w = np.zeros(Y.shape)
    v, z, best, lowest = w.copy(), w.copy(), w, 1.0
    while descent.goes_on(w):
        block = np.sort(rng.choice(n, b, replace=False))
        gram = descent.kernel.block(block, descent.kernel.points(block)).astype(np.float64)
        precondition = block_inverse(gram, alpha, rank, descent.kernel.dtype, rng, damped=damped)
        L = _largest_eigenvalue(gram, alpha, precondition, rng)
        step = precondition(descent.gradient(block, z)) / L
        if not accelerated:
            z[block] -= step
            w = z
            continue
        estimate = float(descent.estimate().max())
        if not estimate <= _DIVERGED:
            nu *= 2.0
            mu = min(mu, 1.0 / nu)
            w, v, z = best, best.copy(), best.copy()
            descent.discard_estimate()
            continue
        if descent.covers_pass and estimate < lowest:
            best, lowest = z, estimate
        beta, gamma = 1.0 - np.sqrt(mu / nu), 1.0 / np.sqrt(mu * nu)
        weight_of_v = 1.0 / (1.0 + gamma * nu)  # alpha of the paper
        w = z.copy()
        w[block] -= step
        v *= beta
        v += (1.0 - beta) * z
        v[block] -= gamma * step
        z = weight_of_v * v + (1.0 - weight_of_v) * w
    return descent.result(w, mu=mu, nu=nu)


def block_inverse(
    gram: np.ndarray,
    alpha: float,
    rank: int,
    dtype: np.dtype,
    rng: np.random.RandomState,
    *,
    damped: bool,
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function V -> (K^ + rho I)^-1 V for a block K_BB = gram : (b, b) float64.

    dtype : precision of the kernel values, whose rounding the shift s covers
    """
    b = len(gram)
    Q = np.linalg.qr(rng.normal(size=(b, min(rank, b))))[0]
    image = matmul(gram, Q)
    eps = float(np.finfo(dtype).eps)
    first_shift = eps * max(float(np.trace(gram)), eps)

    def factorise(shift: float) -> tuple[np.ndarray, np.ndarray, float]:
        Y = image + shift * Q
        inner = matmul(Q.T, Y)
        return scipy.linalg.cholesky(0.5 * (inner + inner.T), check_finite=False), Y, shift

    C, Y, shift = at_first_shift(factorise, first_shift, 10.0 * first_shift)
    F = scipy.linalg.solve_triangular(C, Y.T, trans=1, check_finite=False).T
    FtF = matmul(F.T, F)
    rho = alpha
    if damped:
        smallest = scipy.linalg.eigvalsh(FtF, subset_by_index=[0, 0], check_finite=False)
        rho += max(float(smallest[0]) - shift, 0.0)
    FtF[np.diag_indices_from(FtF)] += rho
    factor = scipy.linalg.cho_factor(FtF, overwrite_a=True, check_finite=False)

    def apply(V: np.ndarray) -> np.ndarray:
        inner = scipy.linalg.cho_solve(factor, matmul(F.T, V), check_finite=False)
        return (V - matmul(F, inner)) / rho

    return apply


def _largest_eigenvalue(
    gram: np.ndarray,
    alpha: float,
    precondition: Callable[[np.ndarray], np.ndarray],
    rng: np.random.RandomState,
) -> float:
    """Estimate lambda_1 of P^-1 H, H = gram + alpha I, which is lambda_1 of P^-1/2 H P^-1/2.

    P^-1 H is symmetric in the inner product of H, in which the last Rayleigh quotient is computed.
    """
    vector = rng.normal(size=(len(gram), 1))
    quotient = 1.0
    for _ in range(_POWER_STEPS):
        image = matmul(gram, vector) + alpha * vector
        preconditioned = precondition(image)
        quotient = float((image * preconditioned).sum() / (image * vector).sum())
        vector = preconditioned / np.linalg.norm(preconditioned)
    return quotient
