"""EigenPro 2: stochastic gradients in a kernel whose leading eigenvalues are lowered.

Ma and Belkin, "Kernel Machines That Adapt to GPUs for Effective Large Batch Training" (MLSys 2019).
Of s sampled rows S, K_SS / s has eigenvalues l_1 >= l_2 >= ... and eigenvectors e_i. Lowering the
first q - 1 eigenvalues to l_q makes the kernel k_P with

    lambda_1(k_P) = l_q,    beta(k_P) = max_x k(x, x) - sum_{i < q} (l_i - l_q) psi_i(x)^2,
    psi_i(x) = e_i' k(S, x) / (s^1/2 l_i)

whose critical batch size, above which a larger batch does not save steps, is beta / lambda_1. For a
batch size m, q is the largest number for which the critical batch size is at most m, and the step
size is the optimal one for m:

    eta / m = 1 / (beta(k_P) + (m - 1) l_q)
    repeat:
        B = the next m rows of a random order
        g = K_B a - y_B
        a_B = a_B - (eta / m) g
        a_S = a_S + (eta / m) sum_{i < q} (1 - l_q / l_i) / (s l_i) e_i e_i' K_SB g

The paper has no ridge. With lambda > 0, g = K_B a + lambda a_B - y_B, lambda is added to beta, and
the eigenvalues of K + lambda I are lowered: 1 - (l_q + lambda / n) / (l_i + lambda / n) takes the
place of 1 - l_q / l_i. Eigenvalues of a sample and of all rows differ: if the residual grows, eta
is halved, and the descent begins anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.ridge.descent import Descent
from kbench.solvers.ridge.limited_steps import DIVERGED, DescentResult

# Largest q: more eigenvectors cost more in each step, and small ones are noise. Set by hand.
_MAX_DIRECTIONS = 401
# Guard: smaller multiples of the largest eigenvalue are rounding errors of float32 kernel values.
_MIN_EIGENVALUE = 1e-6


def solve_eigenpro(
    kernel: KernelMatrix,
    Y: np.ndarray,
    alpha: float,
    *,
    batch_size: int,
    subsample_size: int,
    n_directions: int | None = None,
    max_iter: int = 2000,
    rng: np.random.RandomState,
    **limits: Any,
) -> DescentResult:
    """Coefficients of kernel regression, (K + alpha I) X = Y.

    Y : (n, t) float64, t outputs
    alpha : >= 0; 0 in the paper
    batch_size : m, at most n; the number of rows of a step
    subsample_size : s, at most n
    n_directions : q; the first q - 1 eigenvalues are lowered, 1 lowers none. None: the paper's q.
    max_iter, rng, and tol, deadline, trace, predictor : As in `Descent`; the default of `max_iter`
        is set by hand.

    The set-up takes O(s^3) time, a step m (n + s) kernel values and O(s q t) time; memory is
    O(n t + s^2).
    """
    n = len(kernel)
    sample = np.sort(rng.choice(n, subsample_size, replace=False))
    k_P = lower_eigenvalues(
        kernel,
        sample,
        batch_size=batch_size,
        n_directions=n_directions,
        ridge=alpha / n,
        row_ridge=alpha,
    )
    step = 1.0 / (k_P.beta + alpha + (batch_size - 1) * k_P.l_q)
    descent = Descent(kernel, Y, alpha, max_iter=max_iter, rng=rng, **limits)
    a = np.zeros(Y.shape)
    batches = random_batches(n, batch_size, rng)
    while descent.goes_on(a):
        block = next(batches)
        g = descent.gradient(block, a)
        if not descent.estimate().max() <= DIVERGED:
            step *= 0.5
            a = np.zeros(Y.shape)
            descent.discard_estimate()
            continue
        gradient_at_sample = descent.kernel.product(block, g, rows=sample)
        a = a.copy()  # the trace may hold the old array
        a[block] -= step * g
        a[sample] += step * k_P.correction(gradient_at_sample)
    return descent.result(
        a, step_size=step * batch_size, directions=k_P.q, subsample_size=subsample_size
    )


@dataclass(frozen=True)
class LoweredEigenvalues:
    """The kernel k_P of the module's docstring, from s rows."""

    vectors: np.ndarray  # (s, q - 1) float64: eigenvectors e_i
    weights: np.ndarray  # (q - 1,) float64: (1 - l_q / l_i) / (s l_i)
    l_q: float
    beta: float  # beta(k_P)

    @property
    def q(self) -> int:
        return len(self.weights) + 1

    def correction(self, gradient_at_sample: np.ndarray) -> np.ndarray:
        """Coefficients of the sampled rows that precondition a gradient; (s, t).

        gradient_at_sample : (s, t), values of the gradient, which is a function of rows
        """
        components = matmul(self.vectors.T, gradient_at_sample)
        return matmul(self.vectors, self.weights[:, None] * components)


def lower_eigenvalues(
    kernel: KernelMatrix,
    sample: np.ndarray,
    *,
    batch_size: int,
    n_directions: int | None = None,
    max_directions: int = _MAX_DIRECTIONS,
    ridge: float = 0.0,
    row_ridge: float = 0.0,
) -> LoweredEigenvalues:
    """Return k_P, estimated from the rows `sample` : (s,), in O(s^3) time and s^2 kernel values.

    n_directions : q; the first q - 1 eigenvalues are lowered. None: the largest q, up to
        `max_directions`, whose critical batch size is at most `batch_size`.
    ridge, row_ridge : lambda / n, added to all eigenvalues; lambda, added to beta(k_P).
    """
    s, tiny, q = len(sample), np.finfo(np.float64).tiny, n_directions
    gram = kernel.block(sample, kernel.points(sample)).astype(np.float64)
    n_top = min(s, max_directions if q is None else q)
    eigenvalues, vectors = scipy.linalg.eigh(gram, subset_by_index=[s - n_top, s - 1])
    eigenvalues, vectors = eigenvalues[::-1] / s, vectors[:, ::-1]
    n_resolved = max(1, int((eigenvalues > _MIN_EIGENVALUE * eigenvalues[0]).sum()))
    eigenvalues, vectors = np.maximum(eigenvalues[:n_resolved], tiny), vectors[:, :n_resolved]
    # l_i psi_i(x)^2 at the rows of the sample.
    squares = s * np.square(vectors) * eigenvalues
    diagonal = gram.diagonal()
    shifted = eigenvalues + ridge
    # For each q, the reduction of k(x, x): the sum over i < q of (1 - l_q / l_i) l_i psi_i^2.
    reductions = np.cumsum(squares, axis=1) - np.cumsum(squares / shifted, axis=1) * shifted
    betas = np.maximum((diagonal[:, None] - reductions).max(axis=0), tiny)
    if q is None:
        q = max(1, int(((betas + row_ridge) / shifted <= batch_size).sum()))
    q = min(q, n_resolved)
    weights = (1.0 - shifted[q - 1] / shifted[: q - 1]) / (s * eigenvalues[: q - 1])
    return LoweredEigenvalues(
        vectors[:, : q - 1], weights, float(eigenvalues[q - 1]), float(betas[q - 1])
    )


def random_batches(n: int, m: int, rng: np.random.RandomState) -> Iterator[np.ndarray]:
    """Yield batches of m rows, in endless passes in random orders; drop the last n mod m rows."""
    while True:
        order = rng.permutation(n)
        for start in range(0, n - m + 1, m):
            yield np.sort(order[start : start + m])
