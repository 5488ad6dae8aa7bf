"""Stochastic dual descent: kernel ridge by random coordinates, momentum and averaging.

Lin, Padhy, Antoran, Tripp, Terenin, Szepesvari, Hernandez-Lobato and Janz, "Stochastic Gradient
Descent for Gaussian Processes Done Right" (ICLR 2024, arXiv 2310.20581), Algorithm 1. The dual
objective is ||a||^2_{K + lambda I} / 2 - a'y:

    v = a = abar = 0
    repeat T times:
        I = b coordinates, drawn uniformly
        g = (n / b) sum_{i in I} e_i ((k_i + lambda e_i)'(a + rho v) - y_i)
        v = rho v - beta g
        a = a + v
        abar = r a + (1 - r) abar

with momentum rho = 0.9 and r = 100 / T. Here the coordinates are distinct, as in blocks of the
other solvers. The paper tries step sizes beta n = 1, 5, 10, 50, ... and takes the largest for which
the descent does not diverge. If the user gives no beta, it is the smaller of

    (1 + rho) / ((n / m) lambda_1(K_JJ) + lambda),
    (1 - rho) b / (n max_i (k_ii + lambda)).

The first is the bound for Nesterov's momentum, with an upper estimate of lambda_1(K + lambda I)
from m = 512 random rows J (or all n). The second is for a coordinate that is drawn every n / b
steps: momentum moves it by 1 / (1 - rho) times its step in total, which must not pass its minimum.
If the residual grows with this beta or the user's, beta is halved, and the descent begins anew.
"""

from typing import Any

import numpy as np
import scipy.linalg

from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.descent import Descent
from kbench.solvers.ridge.limited_steps import DIVERGED, DescentResult

# Rows from which lambda_1 is estimated: more rows give a better estimate and take longer. Set by
# hand.
_EIGENVALUE_ROWS = 512


def solve_stochastic_dual(
    kernel: KernelMatrix,
    Y: np.ndarray,
    alpha: float,
    *,
    batch_size: int,
    step_size: float | None = None,
    momentum: float = 0.9,
    averaging: float | None = None,
    max_iter: int = 2000,
    rng: np.random.RandomState,
    **limits: Any,
) -> DescentResult:
    """Coefficients of kernel ridge regression, (K + alpha I) X = Y.

    Y : (n, m) float64
    alpha : > 0; lambda of the paper
    batch_size : b, at most n
    step_size : beta n, which does not depend on n. None chooses it.
    momentum : rho; the default is the paper's
    averaging : r; None is min(1, 100 / max_iter).
    max_iter, rng, and tol, deadline, trace, predictor
        As in `Descent`; max_iter is T, set by hand, and the residual belongs to abar.

    A step takes b n kernel values and O(n m); memory is O(n m).
    """
    n, b = len(kernel), batch_size
    r = min(1.0, 100.0 / max_iter) if averaging is None else averaging
    beta = (_step_size(kernel, alpha, b, momentum, rng) if step_size is None else step_size) / n
    descent = Descent(kernel, Y, alpha, max_iter=max_iter, rng=rng, **limits)
    a, v, average = np.zeros(Y.shape), np.zeros(Y.shape), np.zeros(Y.shape)
    while descent.goes_on(average):
        block = np.sort(rng.choice(n, b, replace=False))
        g = descent.gradient(block, a + momentum * v) * (n / b)
        if not descent.estimate().max() <= DIVERGED:
            beta *= 0.5
            a, v, average = np.zeros(Y.shape), np.zeros(Y.shape), np.zeros(Y.shape)
            descent.discard_estimate()
            continue
        v *= momentum
        v[block] -= beta * g
        a += v
        average += r * (a - average)
    return descent.result(average, step_size=beta * n)


def _step_size(
    kernel: KernelMatrix, alpha: float, b: int, rho: float, rng: np.random.RandomState
) -> float:
    """Return the automatic beta n."""
    n = len(kernel)
    rows = np.sort(rng.choice(n, min(n, _EIGENVALUE_ROWS), replace=False))
    gram = kernel.square(rows).astype(np.float64)
    last = len(rows) - 1
    largest = scipy.linalg.eigvalsh(gram, subset_by_index=[last, last])[0] / len(rows) + alpha / n
    nesterov_bound = (1.0 + rho) / (n * largest)
    coordinate_bound = (1.0 - rho) * b / (n * (float(kernel.diagonal().max(initial=0.0)) + alpha))
    return float(n * min(nesterov_bound, coordinate_bound))
