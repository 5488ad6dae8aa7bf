"""EigenPro 3: kernel ridge in the span of centres by preconditioned, projected stochastic steps.

Abedsoltan, Belkin and Pandit, "Toward Large Kernel Models" (ICML 2023). f = sum_j a_j k(z_j, .) of
p centres Z minimises ||f(X) - y||^2 over n rows. A gradient of m rows lies in the span of these
rows; the leading eigenvalues are lowered in it as in EigenPro 2 (`kbench.solvers.ridge.eigenpro`
has l_i, e_i and the step), and it is projected back onto the span of Z:

    D = diag((1 - l_q / l_i) / (s l_i)), i < q,    C = K_ZS E D E'
    repeat:
        B = the next m rows of a random order
        g = K_BZ a - y_B
        h = K_ZB g - C K_SB g
        theta = K_ZZ^-1 h: exactly, or approximately by passes of EigenPro 2 over the centres
        a = a - (eta / m) theta

What is different here, and why:

- The paper draws S from all rows. Then the projection and the preconditioner do not commute, and
  the fixed point, proj P grad = 0, is not the minimiser, proj grad = 0: on 400 rows with 60 centres
  the residual of the normal equations stays at 1e-3 to 1e-1. S is drawn from the centres here: the
  fixed point is the minimiser whatever the errors of l_i and e_i, and K_SB is a part of K_ZB.
- The paper has no ridge. With lambda > 0, (m / n) lambda f is added to the gradient of a batch,
  whose projection is itself, and the eigenvalues of K / n + lambda / n are lowered.
- f does not interpolate, so that gradients of batches do not vanish at the minimiser, and steps of
  constant size end at a distance from it. Once a pass no longer halves the residual, variance
  reduction goes on (SAGA, Defazio, Bach and Lacoste-Julien 2014), with the residuals r of the last
  visit of each row, r = 0 before:

        H = K_Zn r,    K_ZB g is replaced by (m / n) H + K_ZB (g - r_B)

  H + lambda K_ZZ a is also the estimate of the residual of the normal equations,
  (K_Zn K_nZ + lambda K_ZZ) a = K_Zn y, with which the steps end.
- Where the squared errors grow, eta is halved, and the descent begins anew.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.eigenpro import lower_eigenvalues, passes
from kbench.solvers.ridge.normal_equations import NormalEquations
from kbench.solvers.ridge.steps import DIVERGED, DescentResult

# Largest number of centres of a step of EigenPro 2 in the projection, as in `EigenProRidge`.
_BATCH = 1024
# Centres of which the eigenvectors of the projection are computed: up to the first number of them
# the second, above it the third, as in the paper's code.
_MANY_CENTRES, _SAMPLE, _LARGER_SAMPLE = 100_000, 2_000, 10_000


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
    variance_reduction: bool = True,
    max_iter: int,
    rng: np.random.RandomState,
    **limits: Any,
) -> DescentResult:
    """Coefficients of the centres that minimise ||f(X) - y||^2 + alpha ||f||^2.

    Parameters
    ----------
    kernel : KernelMatrix
    Y : (n, t) float64
    alpha : float, >= 0
        0 in the paper.
    centres : (p,) indices
        Rows that are the centres.
    batch_size : int, optional
        m, at most n. None is the critical batch size of the lowered kernel, but at most n.
    subsample_size : int, at most p
        s
    n_directions : int
        Largest q. It is smaller where `batch_size`, or n, is not as large as the critical batch
        size.
    projection_passes : int
        Passes of EigenPro 2 over the centres in each projection; 0 is the exact one.
    variance_reduction : bool
        False: all steps are the paper's.
    max_iter : int
        Largest number of passes over the rows.
    rng, and tol, max_time, trace, predictor
        As in `Steps`. `tol` is of the normal equations, ||K_Zn (y - K_nZ a) - alpha K_ZZ a|| /
        ||K_Zn y||, in float64 at all rows if the solver converged, else as estimated.

    Notes
    -----
    O(s^3 + p s q), and O(p^3) for the exact projection, to begin with. A step of m rows takes m p
    kernel values and O(p q + p^2), or p (p + s') kernel values for each pass of the projection, s'
    of its eigenvectors. Memory is O(n t + p q), and O(p^2) for the exact projection.
    """
    n = len(kernel)
    local = np.sort(rng.choice(len(centres), subsample_size, replace=False))
    lowered = lower_eigenvalues(
        kernel,
        centres[local],
        batch_size=n if batch_size is None else batch_size,
        max_directions=n_directions,
        ridge=alpha / n,
    )
    if batch_size is None:
        critical = max(1, int(lowered.beta / (lowered.bottom + alpha / n)))
        batch_size = n // -(-n // critical)  # so that few rows are left out of a pass
    step = 1.0 / (lowered.beta + (batch_size - 1) * lowered.bottom + batch_size / n * alpha)
    KE = np.zeros((len(centres), lowered.q - 1))  # K_ZS E, which the ridge alone needs
    if alpha and lowered.q > 1:
        KE = kernel.astype(np.float64).product(centres[local], lowered.vectors, rows=centres)
    project = (
        _InexactProjection(kernel, centres, projection_passes, rng)
        if projection_passes
        else _ExactProjection(kernel, centres)
    )
    state = NormalEquations(
        kernel, Y, alpha, centres, max_iter=max_iter * max(1, n // batch_size), rng=rng, **limits
    )
    a = np.zeros((len(centres), Y.shape[1]))
    batches = passes(n, batch_size, rng)
    while state.goes_on(a):
        h = state.gradient(next(batches), a, reduced=variance_reduction and state.stagnates)
        if state.diverges:
            step *= 0.5
            a = np.zeros(a.shape)
            state.restart()
            continue
        # The ridge's and the preconditioner's functions are in the span of Z, with coefficients c.
        c = (batch_size / n * alpha) * a
        seen = matmul(lowered.vectors.T, h[local]) + matmul(KE.T, c)
        c[local] -= matmul(lowered.vectors, lowered.weights[:, None] * seen)
        a = a - step * project(h, c, state.kernel)
    return state.result(
        a,
        max(1, n // batch_size),
        step_size=step * batch_size,
        batch_size=batch_size,
        directions=lowered.q,
    )


class _ExactProjection:
    """theta = K_ZZ^-1 (h + K_ZZ c) by a Cholesky decomposition."""

    def __init__(self, kernel: KernelMatrix, centres: np.ndarray) -> None:
        exact = kernel.astype(np.float64)
        gram = exact.block(centres, exact.points(centres))
        # Directions below the rounding errors of float32 kernel values carry no information. A
        # ridge on the diagonal damps them; the fixed point of the steps does not depend on it.
        largest = gram.diagonal().max()
        self._damping = max(np.finfo(np.float32).eps * largest, np.finfo(np.float64).tiny)
        gram[np.diag_indices(len(gram))] += self._damping
        self._factor = cho_factor(gram, overwrite_a=True)

    def __call__(self, h: np.ndarray, c: np.ndarray, kernel: KernelMatrix) -> np.ndarray:
        return cho_solve(self._factor, h - self._damping * c) + c


class _InexactProjection:
    """theta of K_ZZ theta = h + K_ZZ c by EigenPro 2, from theta = 0.

    From theta = c it would need no K_ZZ c, but the fixed point of the steps would not be the
    minimiser: what is left out of the projection must be so of the whole gradient.
    """

    def __init__(
        self, kernel: KernelMatrix, centres: np.ndarray, n_passes: int, rng: np.random.RandomState
    ) -> None:
        self._kernel, self._centres, self._rng = kernel, centres, rng
        p = len(centres)
        s = _SAMPLE if p <= _MANY_CENTRES else _LARGER_SAMPLE
        self._batch = p // -(-p // _BATCH)
        self._n_steps = n_passes * (p // self._batch)
        self._local = np.sort(rng.choice(p, min(s, p), replace=False))
        self._lowered = lower_eigenvalues(kernel, centres[self._local], batch_size=self._batch)
        self._step = 1.0 / (self._lowered.beta + (self._batch - 1) * self._lowered.bottom)

    def __call__(self, h: np.ndarray, c: np.ndarray, kernel: KernelMatrix) -> np.ndarray:
        if c.any():
            h = h + kernel.product(self._centres, c, rows=self._centres)
        return self._solve(h)

    def _solve(self, h: np.ndarray) -> np.ndarray:
        theta, norm = np.zeros(h.shape), DIVERGED * np.linalg.norm(h)
        batches = passes(len(h), self._batch, self._rng)
        for _ in range(self._n_steps):
            block = next(batches)
            rows = self._centres[block]
            g = self._kernel.product(self._centres, theta, rows=rows) - h[block]
            if not np.linalg.norm(g) <= norm:
                self._step *= 0.5
                return self._solve(h)
            seen = self._kernel.product(rows, g, rows=self._centres[self._local])
            theta[block] -= self._step * g
            theta[self._local] += self._step * self._lowered.correction(seen)
        return theta
