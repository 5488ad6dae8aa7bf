"""ADMM for the dual of the support vector machine with intercept.

Cipolla and Gondzio, "Training very large scale nonlinear SVMs using Alternating Direction Method of
Multipliers coupled with the Hierarchically Semi-Separable kernel approximations" (EURO J. Comput.
Optim. 10, 2022), Algorithm 3:

    min_x  1/2 x'YKYx - e'x + ind{y'x = 0}(x) + ind[0, C](z),   x = z
    once:  s = (K + beta I)^-1 e
    repeat q = e + mu + beta z             (the paper prints x for z)
           u = (K + beta I)^-1 Y q,   b = e'u / e's,   x = Y (u - b s)
           z = clip(x - mu / beta, 0, C)
           mu = mu - beta (x - z)

b is the multiplier of y'x = 0, which at the optimum is the intercept. An iteration solves one
system with K + beta I, for all columns (values of C, classes) together. From x = 0, each iteration
moves x by about 1/beta: the paper's ten iterations are early stopping, and often end before any
variable reaches its bound C.

The squared length of the steps, beta ||dz||^2 + ||dmu||^2 / beta, never grows if K is positive
semidefinite (He and Yuan, "On non-ergodic convergence rate of Douglas-Rachford alternating
direction method of multipliers", Numer. Math. 130, 2015). Along an eigenvector with the eigenvalue
-l the iterates grow by the factor beta / (beta - l): the iteration may diverge although K + beta I
is positive definite.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kbench.solvers.best_multiple import least_loss_intercept
from kbench.trace import Deadline, Trace

# Boyd, Parikh, Chu, Peleato and Eckstein, "Distributed Optimization and Statistical Learning via
# the Alternating Direction Method of Multipliers" (2011), section 3.4: beta changes only if the
# residuals differ by more than the factor 10; over-relaxation by 1.5 to 1.8 improves convergence.
_MAX_RATIO = 10.0
_RELAXATION = 1.6
# Least number of iterations between changes of beta; each costs a factorisation. Set by hand.
_MIN_ITERATIONS = 40
# A variable is free if its distances from 0 and C exceed this number times min(C, 1); the authors
# use 1e-5 as the distance.
_AT_BOUND = 1e-5

Solve = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ADMMResult:
    """Iterates of m problems and how they were reached.

    Attributes
    ----------
    z : (n, m) float64
        Satisfies the bounds.
    x : (n, m) float64
        Satisfies y'x = 0.
    multiplier : (m,)
        Multiplier of y'x = 0 in the last iteration.
    beta : float
        The last value.
    primal, dual : float
        Maximum over all entries of |x - z| and of beta |z - previous z|.
    growth : float
        Squared length of the last step over the first step's, the maximum over all problems.
        If it exceeds 1 by more than rounding, K is too indefinite for beta. nan with `tol`, when
        beta follows the residuals.
    n_iter : int
    converged : bool
        Whether both residuals are <= tol; for a fixed number of iterations, whether all were done.
    stop_reason : {"tol", "max_iter", "max_time"}
    """

    z: np.ndarray
    x: np.ndarray
    multiplier: np.ndarray
    beta: float
    primal: float
    dual: float
    growth: float
    n_iter: int
    converged: bool
    stop_reason: str


def solve_admm(
    factorise: Callable[[float], Solve],
    Y: np.ndarray,
    C: np.ndarray,
    beta: float,
    *,
    max_iter: int = 10,
    tol: float | None = None,
    max_time: float | None = None,
    trace: Trace | None = None,
) -> ADMMResult:
    """Run the iteration for all problems together.

    Parameters
    ----------
    factorise : callable
        beta -> (B : (n, m) -> (K + beta I)^-1 B). It raises LinAlgError if K + beta I is not
        positive definite; then the previous beta is kept.
    Y : (n, m) of -1 and +1
    C : (n, m), >= 0
        Upper bounds.
    beta : float
    max_iter : int
    tol : float, optional
        None: exactly `max_iter` plain iterations, as in the paper. Otherwise the iterations are
        over-relaxed, beta follows the residuals, and iterations stop when both residuals are at
        most `tol` (in units of the variables and of the margin).
    max_time : float, optional
        Seconds; no further iteration begins afterwards.
    trace : Trace, optional
        Receives n_iter, the residuals and beta after each iteration, and the phases "factor" and
        "admm".

    Returns
    -------
    ADMMResult
    """
    trace = Trace() if trace is None else trace
    deadline = Deadline(max_time, trace)
    with trace.phase("factor"):
        solve = factorise(beta)
    with trace.phase("admm"):
        n = len(Y)
        s = _solve_ones(solve, n)
        z, mu = np.zeros(Y.shape), np.zeros(Y.shape)
        relaxation = 1.0 if tol is None else _RELAXATION
        n_iter, last_change, adapts_beta, converged = 0, 0, tol is not None, False
        first_length = growth = np.full(Y.shape[1], np.nan)
        while n_iter < max_iter and not converged and not (n_iter and deadline.passed):
            n_iter += 1
            u = solve(Y * (1.0 + mu + beta * z))
            multiplier = u.sum(axis=0) / s.sum()
            x = Y * (u - s * multiplier)
            relaxed = x if tol is None else relaxation * x + (1.0 - relaxation) * z
            previous_z = z
            z = np.clip(relaxed - mu / beta, 0.0, C)
            mu_step = beta * (relaxed - z)
            mu = mu - mu_step
            if tol is None:
                length = beta * _squared_norms(z - previous_z) + _squared_norms(mu_step) / beta
                if n_iter == 1:
                    first_length = length
                growth = length / first_length
            primal = float(np.abs(x - z).max())
            dual = beta * float(np.abs(z - previous_z).max())
            trace(n_iter=n_iter, primal_residual=primal, dual_residual=dual, beta=beta)
            converged = tol is not None and max(primal, dual) <= tol
            beta_factor = 1.0
            if adapts_beta and not converged and n_iter - last_change >= _MIN_ITERATIONS:
                beta_factor = _beta_factor(primal, dual)
            if beta_factor != 1.0:
                last_change = n_iter
                try:
                    with trace.phase("factor"):
                        solve = factorise(beta * beta_factor)
                except np.linalg.LinAlgError:
                    # An approximate K is indefinite, with an eigenvalue below -(new beta). beta is
                    # not changed again.
                    adapts_beta = False
                else:
                    beta *= beta_factor
                    s = _solve_ones(solve, n)
    is_complete = converged if tol is not None else n_iter == max_iter
    reason = "tol" if converged else "max_iter" if n_iter == max_iter else "max_time"
    return ADMMResult(
        z=z,
        x=x,
        multiplier=multiplier,
        beta=beta,
        primal=primal,
        dual=dual,
        growth=float(growth.max()),
        n_iter=n_iter,
        converged=is_complete,
        stop_reason=reason,
    )


def _squared_norms(V: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", V, V)


def _solve_ones(solve: Solve, n: int) -> np.ndarray:
    return solve(np.ones((n, 1)))


def _beta_factor(primal: float, dual: float) -> float:
    """Factor for beta that makes the residuals more equal; 1 if their ratio is at most 10.

    The factor is the square root of primal / dual, limited to [1/10, 10]; set by hand. Guard: both
    residuals count as at least 1e-300.
    """
    if min(primal, dual) > 0.0 and max(primal / dual, dual / primal) <= _MAX_RATIO:
        return 1.0
    ratio = math.sqrt(max(primal, 1e-300) / max(dual, 1e-300))
    return min(max(ratio, 1.0 / _MAX_RATIO), _MAX_RATIO)


def balance(Y: np.ndarray, z: np.ndarray, C: np.ndarray) -> np.ndarray:
    """Return z of each problem, reduced for the class with the larger sum until y'z = 0.

    Only free variables are reduced if that suffices, so that the others stay at their bounds.

    Parameters
    ----------
    Y, z, C : (n, m)

    Returns
    -------
    (n, m)
    """
    surplus = (Y * z).sum(axis=0)
    in_heavy_class = (Y * surplus > 0.0) & (z > 0.0)
    free = in_heavy_class & (z < C)
    free_suffice = np.where(free, z, 0.0).sum(axis=0) >= np.abs(surplus)
    is_reduced = np.where(free_suffice, free, in_heavy_class)
    reducible_sum = np.where(is_reduced, z, 0.0).sum(axis=0)
    factor = 1.0 - np.abs(surplus) / np.where(reducible_sum > 0.0, reducible_sum, 1.0)
    return np.where(is_reduced, z * factor, z)


def intercepts(
    product: Callable[[np.ndarray], np.ndarray], Y: np.ndarray, z: np.ndarray, C: np.ndarray
) -> np.ndarray:
    """Return the intercept of each problem: the mean of y_j - f(x_j) over free variables, or the
    intercept of least loss if no variable is free.

    Parameters
    ----------
    product : callable
        V : (n, m) -> K V, without beta.
    Y, z, C : (n, m)

    Returns
    -------
    (m,)
    """
    tolerance = _AT_BOUND * np.minimum(C, 1.0)
    free = (z > tolerance) & (z < C - tolerance)
    counts, residual = free.sum(axis=0), Y - product(Y * z)
    intercept = np.where(free, residual, 0.0).sum(axis=0) / np.maximum(counts, 1)
    for j in np.flatnonzero(counts == 0):
        bounds = Y[:, j] * C[:, j]
        lower, upper = np.minimum(bounds, 0.0), np.maximum(bounds, 0.0)
        intercept[j] = least_loss_intercept(residual[:, j], lower, upper)
    return intercept
