"""Factorisations of the interior-point method, by LAPACK, in place."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.lapack import dpotrf, dpotrs, dsytrf, dsytrs

from kbench.intrinsics.products import matmul

# Rows of V that are weighted and multiplied at once: 4,096 rows of 30 columns are 1 MiB and stay
# in the L2 cache (`scripts/bench_small.py --low-rank`, 500,000 x 20).
_BLOCK_ROWS = 4096
# Guard: eigenvalues above minus this number times n times the largest |K_ii| count as zeros.
_EIGENVALUE_ROUNDING = 1e-14
# Guard: the first diagonal shift of a matrix that rounding has left indefinite, as a multiple of q
# times its diagonal. Each of at most _MAX_SHIFTS shifts is 100 times as large as the one before.
_FIRST_SHIFT = 1e-15
_MAX_SHIFTS = 7
# Rounds of scaling rows and columns by the roots of their largest entries: each takes O(q^2) time
# and brings the largest entry of every row closer to 1. Set by hand.
_EQUILIBRATION_ROUNDS = 3


def is_semidefinite(K: np.ndarray) -> bool:
    """Whether K : (n, n) is symmetric and positive semidefinite up to rounding."""
    largest = float(np.abs(K.diagonal()).max(initial=0.0))
    if largest == 0.0:
        return not K.any()
    # Guard: smaller differences from the transpose are rounding errors.
    if not np.allclose(K, K.T, rtol=0.0, atol=1e-12 * largest):
        return False
    shifted = K + len(K) * _EIGENVALUE_ROUNDING * largest * np.eye(len(K))
    try:
        cholesky(shifted, lower=True, overwrite_a=True)
    except (LinAlgError, ValueError):
        return False
    return True


def largest_indices(values: np.ndarray, lower: float, max_count: int) -> np.ndarray:
    """Indices of the largest values above `lower`, at most `max_count`, in ascending order."""
    indices = np.flatnonzero(values > lower)
    if len(indices) > max_count:
        indices = np.sort(indices[np.argpartition(-values[indices], max_count)[:max_count]])
    return indices


def weighted_gram(U: np.ndarray, T: np.ndarray | None) -> np.ndarray:
    """Return U' diag(T) U : (r, r) of U : (n, r) and T : (n,) >= 0, or U'U if T is None."""
    # Copying the rows with a weight pays if they are fewer than half. Set by hand.
    if T is not None and 2 * np.count_nonzero(T) < len(T):
        nonzero = np.flatnonzero(T)
        U, T = U[nonzero], T[nonzero]
    n, r = U.shape
    M = np.zeros((r, r))
    for start in range(0, n, _BLOCK_ROWS):
        block = U[start : start + _BLOCK_ROWS]
        if T is not None:
            block = block * np.sqrt(T[start : start + _BLOCK_ROWS, None])
        M += matmul(block.T, block)
    return M


def factorised_definite(B: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that solves systems with B : (q, q), which has no eigenvalue below 1.

    B is in C order and overwritten. Raises LinAlgError: B has entries that are not finite, or
    rounding has left B far from definite.
    """
    if not len(B):
        return lambda rhs: rhs
    if not np.isfinite(B.diagonal()).all():
        raise LinAlgError("the diagonal is not finite")
    # The transpose, which equals B, is in LAPACK's order. The factor is written into one triangle:
    # after a failure, the other triangle still has all entries except the diagonal.
    diagonal = B.diagonal().copy()
    factor, info = dpotrf(B.T, lower=1, overwrite_a=1, clean=0)
    for attempt in range(_MAX_SHIFTS):
        if not info:
            break
        lower = np.tril_indices(len(B), -1)
        B.T[lower] = B[lower]
        np.fill_diagonal(B, diagonal * (1.0 + len(B) * _FIRST_SHIFT * 100.0**attempt))
        factor, info = dpotrf(B.T, lower=1, overwrite_a=1, clean=0)
    if info:
        raise LinAlgError("the matrix is not positive definite")

    def solve(rhs: np.ndarray) -> np.ndarray:
        solution: np.ndarray = dpotrs(factor, rhs, lower=1)[0]
        return solution

    return solve


def factorised_symmetric(H: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function that solves systems with H : (q, q), symmetric; overwrites H.

    Raises LinAlgError: H has entries that are not finite.
    """
    if not len(H):
        return lambda rhs: rhs
    if not np.isfinite(H).all():
        raise LinAlgError("the matrix is not finite")
    scaling = np.ones(len(H))
    for _ in range(_EQUILIBRATION_ROUNDS):
        roots = np.sqrt(np.abs(H).max(axis=0))
        roots[roots == 0.0] = 1.0
        H /= roots
        H /= roots[:, None]
        scaling /= roots
    factor, pivots, info = dsytrf(H, lower=1, overwrite_a=1)
    if info > 0:
        raise LinAlgError("the matrix is singular")

    def solve(rhs: np.ndarray) -> np.ndarray:
        solution, _ = dsytrs(factor, pivots, scaling * rhs, lower=1)
        result: np.ndarray = scaling * solution
        return result

    return solve
