"""Landmarks by randomly pivoted Cholesky.

Chen, Epperly, Tropp and Webber, "Randomly Pivoted Cholesky" (Comm. Pure Appl. Math. 78, 2025), in
blocks after Epperly, Tropp and Webber, "Embrace Rejection: Kernel Matrix Approximation by
Accelerated Randomly Pivoted Cholesky" (SIAM J. Matrix Anal. Appl. 46, 2025). A pivot is drawn with
probability proportional to the diagonal of the residual K - F F'. Pivots are proposed in blocks and
thinned by rejection, so that they have the distribution of pivots drawn one after the other.
"""

import numpy as np
import scipy.linalg

from kbench.intrinsics.products import at_first_shift, matmul
from kbench.kernels import KernelMatrix

# Pivots proposed at a time. Larger blocks make matrix products faster, but a larger fraction of the
# proposals is rejected. Set by hand.
_N_PROPOSALS = 64
# Guard: stop when the trace of the residual is below this multiple of the trace of K, the rounding
# of float32.
_NEGLIGIBLE_TRACE = 1e-7
# Guard: shift of the pivots' residual block, relative to its largest diagonal entry, so that its
# Cholesky factorisation exists in spite of rounding; ten times this shift if the first fails.
_JITTER = 1e-6


def randomly_pivoted_landmarks(
    kernel: KernelMatrix, size: int, rng: np.random.RandomState
) -> np.ndarray:
    """Row numbers of `size` landmarks, in the order of choice; fewer if the rank of K is lower.

    O(n size (d + size)) time, n size numbers.
    """
    return randomly_pivoted_cholesky(kernel, size, rng)[0]


def randomly_pivoted_cholesky(
    kernel: KernelMatrix, size: int, rng: np.random.RandomState, block_size: int = _N_PROPOSALS
) -> tuple[np.ndarray, np.ndarray]:
    """The landmarks, and F : (n, r) float32 with F F' = K_nS K_SS^-1 K_Sn, which is near K.

    block_size : pivots proposed at a time
    """
    n = len(kernel)
    diagonal = kernel.diagonal()
    min_trace = _NEGLIGIBLE_TRACE * diagonal.sum()
    factor = np.empty((n, size), np.float32)
    landmarks: list[int] = []
    while len(landmarks) < size and diagonal.sum() > min_trace:
        proposals = rng.choice(n, block_size, p=diagonal / diagonal.sum())
        pivots = _accept(kernel, factor[:, : len(landmarks)], proposals, diagonal, rng)
        pivots = pivots[: size - len(landmarks)]
        residual_columns = kernel.block(pivots).T - matmul(
            factor[:, : len(landmarks)], factor[pivots, : len(landmarks)].T
        )
        pivot_factor = _shifted_cholesky(residual_columns[pivots].astype(np.float64))
        new_columns = slice(len(landmarks), len(landmarks) + len(pivots))
        factor[:, new_columns] = scipy.linalg.solve_triangular(
            pivot_factor, residual_columns.T, lower=True
        ).T
        diagonal = np.maximum(diagonal - np.square(factor[:, new_columns]).sum(axis=1), 0.0)
        diagonal[pivots] = 0.0
        landmarks.extend(pivots.tolist())
    return np.array(landmarks), factor[:, : len(landmarks)]


def _shifted_cholesky(block: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor of a block shifted by `_JITTER`, or by ten times it if that fails.

    1e-30 guards a block of zeros.
    """
    jitter, identity = _JITTER * max(float(block.diagonal().max()), 1e-30), np.eye(len(block))
    return at_first_shift(
        lambda shift: scipy.linalg.cholesky(block + shift * identity, lower=True),
        jitter,
        10.0 * jitter,
    )


def _accept(
    kernel: KernelMatrix,
    factor: np.ndarray,
    proposals: np.ndarray,
    diagonal: np.ndarray,
    rng: np.random.RandomState,
) -> np.ndarray:
    """The accepted proposals; the probability is the current residual over that at the proposal.

    diagonal : (n,) of the residual K - F F' when the rows were proposed
    """
    residual_block = kernel.block(proposals, kernel.points(proposals)).astype(np.float64)
    residual_block -= matmul(factor[proposals], factor[proposals].T)
    accepted: list[int] = []
    for i, row in enumerate(proposals):
        if rng.uniform() * diagonal[row] < residual_block[i, i] and row not in proposals[accepted]:
            accepted.append(i)
            column = residual_block[:, i] / np.sqrt(residual_block[i, i])
            residual_block -= np.outer(column, column)
    return proposals[accepted]
