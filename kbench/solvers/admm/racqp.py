"""Randomly assembled cyclic multi-block ADMM for the dual of the support vector machine.

Mihic, Zhu and Ye, "Managing Randomization in the Multi-Block Alternating Direction Method of
Multipliers for Quadratic Optimization" (Math. Program. Comput. 13, 2021), RACQP:

    min  1/2 x'Hx - e'x,   y'x = 0,   x = w,   0 <= w <= C,      H = Y K Y
    repeat
      split 1 .. n into blocks
      for each block B, with all other variables fixed:
        (H_BB + beta y_B y_B' + beta I) x_B
            = e_B - (H x - H_BB x_B)_B + y_B (eta - beta (y'x - y_B'x_B)) + zeta_B + beta w_B
        w_B = clip(x_B - zeta_B / beta, 0, C_B)
      eta = eta - beta y'x;   zeta = zeta - beta (x - w)

RAC draws the blocks anew in each iteration, RP visits fixed random blocks in random order, and
cyclic ADMM visits blocks of consecutive points in fixed order. With three or more blocks, cyclic
ADMM need not converge (Chen, He, Ye and Yuan, Math. Program. 155, 2016), and on kernel matrices it
often does not. The multiplier of y'x = 0 is minus the intercept.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.trace import Deadline, Trace


@dataclass(frozen=True)
class RACQPResult:
    """The iterate and how it was reached.

    Attributes
    ----------
    w : (n,) float64
        Satisfies the bounds.
    x : (n,) float64
        Satisfies y'x = 0 up to the primal residual.
    multiplier : float
        The intercept of the model, which is minus the multiplier of y'x = 0.
    primal : float
        Primal residual, not objective: max(|y'x|, largest |x - w|).
    n_iter : int
    converged : bool
        Whether `primal` <= tol min(1, largest C) after an iteration over all blocks.
    stop_reason : {"tol", "max_iter", "max_time"}
    """

    w: np.ndarray
    x: np.ndarray
    multiplier: float
    primal: float
    n_iter: int
    converged: bool
    stop_reason: str


def solve_racqp(
    kernel: KernelMatrix,
    y: np.ndarray,
    C: np.ndarray,
    rng: np.random.RandomState,
    *,
    mode: str = "rac",
    n_blocks: int = 10,
    beta: float = 1.0,
    max_iter: int = 5,
    tol: float = 0.1,
    factor: float = 1.0,
    max_time: float | None = None,
    trace: Trace | None = None,
) -> RACQPResult:
    """Run the iteration until the primal residual is at most `tol` times min(1, largest bound).

    Parameters
    ----------
    kernel : KernelMatrix of n points
    y : (n,) of -1 and +1
    C : (n,), >= 0
        Upper bounds.
    rng : RandomState
    mode : {"rac", "rp", "cyclic"}
    n_blocks : int
        p; blocks have ceil(n / p) variables, or one less. With fewer blocks, more variables are
        solved for at once, and memory is larger. The default is set by hand.
    beta : float
        Penalty: a larger one enforces the constraints sooner, but lowers the objective more slowly.
        The default, a tenth of that of `n_blocks`, is set by hand.
    max_iter, tol
        Number of iterations and tolerance; both are those of the authors' driver.
    factor : float
        Multiplies H: the authors' driver minimises x'Hx - e'x, which is factor=2.
    max_time : float, optional
        Seconds; no further block begins afterwards.
    trace : Trace, optional
        Receives n_iter and the residual after each iteration.

    Returns
    -------
    RACQPResult

    Notes
    -----
    An iteration takes n^2 kernel values and p Cholesky factorisations of n / p variables. The rows
    of a block are computed at each visit; memory is n^2 / p kernel values.
    """
    trace = Trace() if trace is None else trace
    deadline = Deadline(max_time, trace)
    n = len(y)
    p = min(n_blocks, n)
    x, w, zeta = np.zeros(n), np.zeros(n), np.zeros(n)
    eta = 0.0
    sum_yx = 0.0
    products = np.zeros(n)  # K (y * x)
    blocks = np.array_split(np.arange(n) if mode == "cyclic" else rng.permutation(n), p)
    n_iter, converged, primal = 0, False, np.inf
    stopped = False
    while n_iter < max_iter and not converged and not stopped:
        n_iter += 1
        if mode == "rac":
            blocks = np.array_split(rng.permutation(n), p)
        order = rng.permutation(p) if mode == "rp" else np.arange(p)
        for n_visited, block in enumerate(blocks[i] for i in order):
            stopped = (n_iter > 1 or n_visited > 0) and deadline.passed
            if stopped:
                break
            rows = kernel.block(block)
            signs, before = y[block], x[block]
            scale = factor * np.outer(signs, signs)
            H = np.multiply(rows[:, block], scale, dtype=np.float64)
            rhs = 1.0 - factor * signs * products[block] + matmul(H, before)
            rhs += (
                signs * (eta - beta * (sum_yx - matmul(signs, before)))
                + zeta[block]
                + beta * w[block]
            )
            H += beta * np.outer(signs, signs)
            H[np.diag_indices_from(H)] += beta
            x[block] = scipy.linalg.solve(H, rhs, assume_a="pos", overwrite_a=True)
            change = signs * (x[block] - before)
            products += matmul(change.astype(rows.dtype), rows)
            sum_yx += float(change.sum())
            w[block] = np.clip(x[block] - zeta[block] / beta, 0.0, C[block])
        sum_yx = float(matmul(y, x))
        eta -= beta * sum_yx
        zeta -= beta * (x - w)
        primal = max(abs(sum_yx), float(np.abs(x - w).max()))
        converged = primal <= tol * min(1.0, float(C.max())) and not stopped
        trace(n_iter=n_iter, primal_residual=primal)
    reason = "tol" if converged else "max_time" if stopped else "max_iter"
    return RACQPResult(w, x, -eta, primal, n_iter, converged, reason)
