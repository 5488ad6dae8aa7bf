"""Row interpolative decomposition from a Gram matrix.

    S ~ P [I; E] S[pivots],     S : (m, columns)

The pivots and E of a column-pivoted QR factorisation of S' equal those of a pivoted Cholesky
factorisation of G = S S', which costs O(m^2 rank) instead of O(m rank columns). Step 4 of the
compression of Chavez et al. (IPDPS 2020), section III, uses it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack


@dataclass(frozen=True)
class Interpolation:
    """Rows as linear combinations of a subset of the rows."""

    order: np.ndarray  # (m,) ints: the skeleton rows by decreasing pivot, then the other rows
    coef: np.ndarray  # (m - rank, rank): E, coefficients of the other rows in the skeleton rows

    @property
    def rank(self) -> int:
        return self.coef.shape[1]

    @property
    def kept(self) -> np.ndarray:
        return self.order[: self.rank]

    @property
    def others(self) -> np.ndarray:
        return self.order[self.rank :]


def interpolate(
    gram: np.ndarray,
    *,
    rel_tol: float = 0.0,
    abs_tol: float = 0.0,
    trace_tol: float = 0.0,
    max_rank: int | None = None,
) -> Interpolation:
    """Interpolative decomposition of S from gram = S S' : (m, m), which is overwritten.

    gram : (m, m) float32 or float64, C-contiguous
    rel_tol, abs_tol : Pivots R_cc are accepted while |R_cc| > rel_tol |R_11| and |R_cc| > abs_tol.
        With rel_tol >= 1 no pivot is accepted, not even the first.
    trace_tol : Stop accepting pivots once ||S - S~||_F <= trace_tol ||S||_F

    Pivots below sqrt(4 eps) |R_11|, the rounding error of the Gram matrix, are never accepted; in
    float32 choose rel_tol above 0.01.
    """
    m = len(gram)
    diagonal = gram.diagonal().astype(np.float64)
    trace, largest_diagonal = float(diagonal.sum()), float(diagonal.max(initial=0.0))
    # Guard: the smallest squared pivot, relative to the first one, which is not rounding.
    rounding = 4.0 * float(np.finfo(gram.dtype).eps)
    pivot_limit = max(max(rel_tol**2, rounding) * largest_diagonal, abs_tol**2)
    if largest_diagonal <= pivot_limit:
        return Interpolation(np.arange(m), np.zeros((m, 0), gram.dtype))
    is_single = gram.dtype == np.float32
    # If all remaining pivots are below this limit, the residual meets trace_tol.
    pivot_limit = max(pivot_limit, trace_tol**2 * trace / m)
    factorise = lapack.spstrf if is_single else lapack.dpstrf
    factor, pivots, rank, _ = factorise(gram.T, tol=pivot_limit, overwrite_a=1)
    if trace_tol > 0.0:
        explained = np.cumsum(
            [np.square(factor[i, i:], dtype=np.float64).sum() for i in range(rank)]
        )
        sufficient = np.flatnonzero(trace - explained <= trace_tol**2 * trace)
        rank = min(rank, int(sufficient[0]) + 1) if len(sufficient) else rank
    rank = rank if max_rank is None else min(rank, max_rank)
    solve = blas.strsm if is_single else blas.dtrsm
    coef = solve(1.0, factor[:rank, :rank], factor[:rank, rank:])
    return Interpolation(pivots - 1, np.ascontiguousarray(coef.T))
