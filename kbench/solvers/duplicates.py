"""Points that are there several times, as one point with the sum of their bounds.

Equal points with the same linear term have equal residuals, so only the sum of their coefficients
matters: the problem with one variable for each distinct point, bounded by the sums of the bounds,
has the same solutions. The sum is shared out by filling one bound after the other, which leaves at
most one free copy and keeps the conditions of optimality of every copy.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from kbench.solvers.iterate import Iterate

# Fewer copies than this share of the points do not pay for finding them.
_LEAST_SHARE = 0.02


class Duplicates:
    """Which points are copies.

    Attributes
    ----------
    first : (m,) one point of each kind
    kind : (n,) the kind of each point, a position in `first`
    """

    def __init__(self, first: np.ndarray, kind: np.ndarray) -> None:
        self.first, self.kind = first, kind
        self._order = np.argsort(kind)

    @staticmethod
    def of(X: Any, *alike: np.ndarray) -> "Duplicates | None":
        """The duplicates among rows X : (n, d); None if they are few.

        Copies also agree in each of `alike` : (n,). O(n d) to project the rows at random,
        O(n log n) to sort; equal projections are compared.
        """
        n = X.shape[0]
        weights = np.random.RandomState(0).standard_normal(X.shape[1] + len(alike))
        direction, further = np.split(weights, [X.shape[1]])
        key = _projected(X, direction.astype(X.dtype)).astype(np.float64)
        for weight, values in zip(further, alike, strict=True):
            key += weight * values
        order = np.argsort(key)
        a, b = order[:-1], order[1:]
        near = np.logical_and.reduce([of[a] == of[b] for of in (key, *alike)])
        if not near.any() or near.mean() < _LEAST_SHARE:
            return None
        same = near.copy()
        same[near] = _equal_rows(X[a[near]], X[b[near]])
        kind = np.empty(n, np.intp)
        kind[order] = np.concatenate([[0], np.cumsum(~same)])
        first = np.empty(kind.max() + 1, np.intp)
        first[kind[order[::-1]]] = order[::-1]
        return Duplicates(first, kind)

    def merged(self, iterate: Iterate) -> Iterate:
        """The problem of the distinct points."""

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(self.kind, values, len(self.first))

        lower, upper = total(iterate.lower), total(iterate.upper)
        residual, known = np.full(len(self.first), np.nan), ~np.isnan(iterate.residual)
        residual[self.kind[known]] = iterate.residual[known]
        return Iterate(
            iterate.kernel.take(self.first),
            iterate.z[self.first],
            lower,
            upper,
            coupled=iterate.coupled,
            budget=iterate.budget,
            beta=np.clip(total(iterate.beta), lower, upper),
            residual=residual,
            residual_error=iterate.residual_error,
            expand=lambda beta: self.share_out(beta, iterate.lower, iterate.upper),
        )

    def share_out(self, beta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Coefficients of the n points in their box whose sums by kind are beta : (m,); (n,)."""
        room = np.maximum(upper, -lower)[self._order]
        kind = self.kind[self._order]
        filled = np.cumsum(room) - room
        starts = np.searchsorted(kind, np.arange(len(self.first)))
        filled -= filled[starts][kind]
        share = np.clip(np.abs(beta)[kind] - filled, 0.0, room)
        # Sums of bounds are rounded; a point is at a bound by equality.
        share = np.where(share >= room * (1.0 - 1e-12), room, share)
        share[share <= 1e-12 * room] = 0.0
        alpha = np.empty(len(self.kind))
        alpha[self._order] = share
        return np.where(upper > 0.0, alpha, -alpha)


def _projected(X: Any, direction: np.ndarray) -> np.ndarray:
    if sp.issparse(X):
        return np.asarray(X @ direction)
    # Not by BLAS, whose threads, once awake, keep a core from others for milliseconds.
    return np.einsum("ij,j->i", X, direction)


def _equal_rows(A: object, B: object) -> np.ndarray:
    if sp.issparse(A):
        return np.diff(sp.csr_array(A != B).indptr) == 0
    return np.all(np.asarray(A) == np.asarray(B), axis=1)
