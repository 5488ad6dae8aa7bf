"""Projections of functions onto the span of p centres Z, given their values at Z.

The function to project is a sum: the first term has the values h at the centres, the second term,
which is in the span, has the coefficients c. A projection returns theta with
K_ZZ theta = h + K_ZZ c.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.eigenpro import lower_eigenvalues, random_batches
from kbench.solvers.ridge.limited_steps import DIVERGED

# Largest number of centres of a step of EigenPro 2, as in `EigenProRidge`. Set by hand.
_MAX_BATCH = 1024
# Eigenvectors are computed from _SAMPLE centres, and from _LARGER_SAMPLE if there are more than
# _MANY_CENTRES, as in the code of the paper on EigenPro 3.
_MANY_CENTRES, _SAMPLE, _LARGER_SAMPLE = 100_000, 2_000, 10_000


class ExactProjection:
    """Projects with a Cholesky factor: O(p^3) time once, O(p^2) a projection, 8 p^2 bytes."""

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


class InexactProjection:
    """Projects by passes of EigenPro 2 over the centres, from theta = 0.

    A pass takes p (p + s) kernel values for s sampled centres; memory is O(p + s^2). A start from
    theta = c would save K_ZZ c, but the fixed point of the steps would not be the minimiser: the
    projection's error must apply to the whole gradient.
    """

    def __init__(
        self, kernel: KernelMatrix, centres: np.ndarray, n_passes: int, rng: np.random.RandomState
    ) -> None:
        self._kernel, self._centres, self._rng = kernel, centres, rng
        p = len(centres)
        s = _SAMPLE if p <= _MANY_CENTRES else _LARGER_SAMPLE
        self._batch = p // -(-p // _MAX_BATCH)
        self._n_steps = n_passes * (p // self._batch)
        self._sample = np.sort(rng.choice(p, min(s, p), replace=False))
        self._k_P = lower_eigenvalues(kernel, centres[self._sample], batch_size=self._batch)
        self._step = 1.0 / (self._k_P.beta + (self._batch - 1) * self._k_P.l_q)

    def __call__(self, h: np.ndarray, c: np.ndarray, kernel: KernelMatrix) -> np.ndarray:
        if c.any():
            h = h + kernel.product(self._centres, c, rows=self._centres)
        return self._solve(h)

    def _solve(self, h: np.ndarray) -> np.ndarray:
        theta, max_norm = np.zeros(h.shape), DIVERGED * np.linalg.norm(h)
        batches = random_batches(len(h), self._batch, self._rng)
        for _ in range(self._n_steps):
            block = next(batches)
            rows = self._centres[block]
            g = self._kernel.product(self._centres, theta, rows=rows) - h[block]
            if not np.linalg.norm(g) <= max_norm:
                self._step *= 0.5
                return self._solve(h)
            gradient_at_sample = self._kernel.product(rows, g, rows=self._centres[self._sample])
            theta[block] -= self._step * g
            theta[self._sample] += self._step * self._k_P.correction(gradient_at_sample)
        return theta
