"""EigenPro 3: kernel ridge in the span of centres by preconditioned, projected stochastic steps.

Abedsoltan, Belkin and Pandit, "Toward Large Kernel Models" (ICML 2023). f = sum_j a_j k(z_j, .) of
p centres Z minimises ||f(X) - y||^2 over n rows. A gradient of m rows is in the span of these rows.
EigenPro 2's preconditioner is applied (`kbench.solvers.ridge.eigenpro` has l_i, e_i, k_P and the
step), and the result is projected back onto the span of Z:

    D = diag((1 - l_q / l_i) / (s l_i)), i < q,    C = K_ZS E D E'
    repeat:
        B = the next m rows of a random order
        g = K_BZ a - y_B
        h = K_ZB g - C K_SB g
        theta = K_ZZ^-1 h: exactly, or approximately by passes of EigenPro 2 over the centres
        a = a - (eta / m) theta

EigenPro 4 (Abedsoltan, Ma, Pandit and Belkin, "Fast training of large kernel models with delayed
projections", arXiv 2411.16658) projects only after every T steps. Between projections f also has
the rows of these batches as centres, with coefficients w = -(eta / m) g, and the h of T steps are
projected together.

Differences from the papers:

- The paper draws S from all rows. Then the projection and the preconditioner do not commute, and
  the fixed point, proj P grad = 0, is not the minimiser, proj grad = 0: on 400 rows with 60 centres
  the residual of the normal equations stays at 1e-3 to 1e-1. Here S is drawn from the centres, so
  that the fixed point is the minimiser for any errors of l_i and e_i, and K_SB is a part of K_ZB.
- The paper has no ridge. With lambda > 0, (m / n) lambda f, which needs no projection, is added to
  the gradient of a batch, and the eigenvalues of K / n + lambda / n are lowered.
- f does not interpolate, so gradients of batches do not vanish at the minimiser, and steps of
  constant size end at a distance from the minimiser. Once a pass no longer halves the residual, the
  steps use variance reduction (SAGA, Defazio, Bach and Lacoste-Julien 2014), with the residual r of
  each row at its last visit, r = 0 before the first:

        H = K_Zn r,    K_ZB g is replaced by (m / n) H + K_ZB (g - r_B)

  H contains all rows, so that each of these steps is projected. H + lambda K_ZZ a also estimates
  the residual of the normal equations, (K_Zn K_nZ + lambda K_ZZ) a = K_Zn y, which ends the steps.
- If the squared errors grow, eta is halved and the descent begins anew. If the residual grows
  under variance reduction, the descent continues with half of eta.
"""

from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.eigenpro import lower_eigenvalues, random_batches
from kbench.solvers.ridge.limited_steps import DescentResult
from kbench.solvers.ridge.normal_equations import NormalEquations
from kbench.solvers.ridge.projections import ExactProjection, InexactProjection


def solve_eigenpro3(
    kernel: KernelMatrix,
    Y: np.ndarray,
    alpha: float,
    *,
    centres: np.ndarray,
    batch_size: int | None = None,
    subsample_size: int,
    n_directions: int,
    projection_passes: int = 0,
    projection_period: int = 1,
    variance_reduction: bool = True,
    max_iter: int,
    rng: np.random.RandomState,
    **limits: Any,
) -> DescentResult:
    """Coefficients of the centres that minimise ||f(X) - y||^2 + alpha ||f||^2.

    Y : (n, t) float64
    alpha : >= 0; 0 in the paper
    centres : (p,) indices. Rows that are the centres.
    batch_size : m, at most n. None is the critical batch size of the lowered kernel, but at most n.
    subsample_size : s, at most p
    n_directions : Largest q. It is smaller if `batch_size`, or n, is below the critical batch size.
    projection_passes : Passes of EigenPro 2 over the centres in each projection; 0 projects exactly
    projection_period : T, steps between projections: 1 is EigenPro 3, more are EigenPro 4.
    variance_reduction : False: all steps are the paper's.
    max_iter : Largest number of passes over the rows.
    rng, and tol, deadline, trace, predictor
        As in `Steps`. `tol` bounds ||K_Zn (y - K_nZ a) - alpha K_ZZ a|| / ||K_Zn y||, which is
        computed in float64 at all rows if the solver converged, and otherwise estimated.

    The set-up takes O(s^3 + p s q), and O(p^3) for the exact projection. A step of m rows takes m p
    kernel values and O(p q), and m^2 kernel values for each earlier step since the last projection.
    An exact projection takes O(p^2), a pass of another p (p + s') kernel values with s' centres for
    its eigenvectors. Memory is O(n t + p q), and O(p^2) for the exact projection.
    """
    n = len(kernel)
    sampled = np.sort(rng.choice(len(centres), subsample_size, replace=False))
    k_P = lower_eigenvalues(
        kernel,
        centres[sampled],
        batch_size=n if batch_size is None else batch_size,
        max_directions=n_directions,
        ridge=alpha / n,
    )
    if batch_size is None:
        critical_size = max(1, int(k_P.beta / (k_P.l_q + alpha / n)))
        batch_size = n // -(-n // critical_size)  # a pass leaves out few rows
    step = 1.0 / (k_P.beta + (batch_size - 1) * k_P.l_q + batch_size / n * alpha)
    KE = np.zeros((len(centres), k_P.q - 1))  # K_ZS E, which only the ridge needs
    if alpha and k_P.q > 1:
        KE = kernel.astype(np.float64).product(centres[sampled], k_P.vectors, rows=centres)
    project = (
        InexactProjection(kernel, centres, projection_passes, rng)
        if projection_passes
        else ExactProjection(kernel, centres)
    )
    equations = NormalEquations(
        kernel, Y, alpha, centres, max_iter=max_iter * max(1, n // batch_size), rng=rng, **limits
    )
    a = np.zeros((len(centres), Y.shape[1]))
    unprojected = _Unprojected(a)
    batches = random_batches(n, batch_size, rng)
    while equations.goes_on(a):
        reduces_variance = variance_reduction and equations.stagnates
        if reduces_variance and equations.rises:
            step *= 0.5
        block, f = next(batches), a - unprojected.c
        h = equations.gradient(
            block, f, reduces_variance=reduces_variance, further_centres=unprojected.further_centres
        )
        if equations.diverges:
            step *= 0.5
            a = np.zeros(a.shape)
            unprojected = _Unprojected(a)
            equations.restart()
            continue
        # The ridge's and the preconditioner's functions are in the span of Z, with coefficients c.
        ridge = batch_size / n * alpha
        c = ridge * f
        h -= ridge * unprojected.h
        components = matmul(k_P.vectors.T, h[sampled]) + matmul(KE.T, c)
        c[sampled] -= matmul(k_P.vectors, k_P.weights[:, None] * components)
        unprojected.add(block, step, h, c, equations.residuals(block), 1.0 - step * ridge)
        if reduces_variance or unprojected.n_steps >= projection_period:
            a = a - project(unprojected.h, unprojected.c, equations.kernel)
            unprojected = _Unprojected(a)
    if unprojected.n_steps:
        a = a - project(unprojected.h, unprojected.c, equations.kernel)
    return equations.result(
        a,
        max(1, n // batch_size),
        step_size=step * batch_size,
        batch_size=batch_size,
        directions=k_P.q,
    )


class _Unprojected:
    """The change of f by the steps since the last projection, with the opposite sign: a sum of a
    function that has to be projected and one in the span of the centres.

    Attributes
    ----------
    h : (p, t) float64. Values of the first function at the centres.
    c : (p, t) float64. Coefficients of the second function.
    further_centres : (rows, w). The rows of the batches, and their coefficients in f.
    n_steps : int
    """

    def __init__(self, a: np.ndarray) -> None:
        self.h, self.c = np.zeros(a.shape), np.zeros(a.shape)
        self.further_centres = np.empty(0, np.intp), np.empty((0, a.shape[1]))
        self.n_steps = 0

    def add(
        self,
        block: np.ndarray,
        step: float,
        h: np.ndarray,
        c: np.ndarray,
        g: np.ndarray,
        decay: float,
    ) -> None:
        """Add a step with the gradient's h and c and the residuals g; the ridge multiplies w by
        `decay`."""
        self.h, self.c = self.h + step * h, self.c + step * c
        rows, w = self.further_centres
        self.further_centres = np.append(rows, block), np.vstack([decay * w, -step * g])
        self.n_steps += 1
