"""Equal points merged into one point whose bound is the sum of their bounds.

Equal points with the same linear term have equal residuals, so only the sum of their coefficients
matters: the problem with one variable for each distinct point, bounded by the sums of the bounds,
has the same solutions. Afterwards the sum is distributed by filling one bound after the other,
which leaves at most one free copy and keeps the optimality conditions of every copy.

Without merging, a9a takes 1.4 times as long: 25,000 of its 32,561 rows are distinct
(`scripts/ablate_svm.py`, `duplicates`).
"""

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

from kbench.intrinsics.products import matmul
from kbench.solvers.box_dual.iterate import Iterate, show

# Rows are merged if at least this fraction of them equal an earlier row: merging copies all rows
# once, and saves less the fewer rows are equal (`scripts/ablate_svm.py`, `duplicates`).
_MIN_FRACTION = 0.02
# Guard against rounding: the coefficient of a copy becomes its bound or 0 if the difference is at
# most this fraction of the sum of the coefficients of all copies of the point.
_ROUNDING = 1e-14


class Duplicates:
    """The points that are copies of each other.

    Attributes
    ----------
    first : (m,) one point of each kind
    kind : (n,) the kind of each point, a position in `first`
    """

    def __init__(self, first: np.ndarray, kind: np.ndarray) -> None:
        self.first, self.kind = first, kind
        self._order = np.argsort(kind, kind="stable")

    @staticmethod
    def of(X: Any, *labels: np.ndarray) -> "Duplicates | None":
        """Find the duplicates among rows X : (n, d); None if there are few.

        Copies also agree in each of `labels` : (n,). O(n d) for a random projection of the rows,
        O(n log n) for sorting it; only rows with equal projections are compared.
        """
        n = X.shape[0]
        weights = np.random.RandomState(0).standard_normal(X.shape[1] + len(labels))
        direction, label_weights = np.split(weights, [X.shape[1]])
        key = _projected(X, direction.astype(X.dtype)).astype(np.float64)
        for weight, values in zip(label_weights, labels, strict=True):
            key += weight * values
        order = np.argsort(key)
        a, b = order[:-1], order[1:]
        may_be_equal = np.logical_and.reduce([column[a] == column[b] for column in (key, *labels)])
        if not may_be_equal.any() or may_be_equal.mean() < _MIN_FRACTION:
            return None
        are_equal = may_be_equal.copy()
        are_equal[may_be_equal] = _equal_rows(X[a[may_be_equal]], X[b[may_be_equal]])
        kind = np.empty(n, np.intp)
        kind[order] = np.concatenate([[0], np.cumsum(~are_equal)])
        first = np.empty(kind.max() + 1, np.intp)
        first[kind[order[::-1]]] = order[::-1]
        return Duplicates(first, kind)

    def merged(self, iterate: Iterate) -> Iterate:
        """Return the problem of the distinct points."""

        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(self.kind, values, len(self.first))

        lower, upper = total(iterate.lower), total(iterate.upper)
        residual, has_residual = np.full(len(self.first), np.nan), ~np.isnan(iterate.residual)
        residual[self.kind[has_residual]] = iterate.residual[has_residual]
        distribute = functools.partial(self.distribute, lower=iterate.lower, upper=iterate.upper)
        return Iterate(
            iterate.kernel.take(self.first),
            iterate.z[self.first],
            lower,
            upper,
            epsilon=iterate.epsilon,
            coupled=iterate.coupled,
            budget=iterate.budget,
            beta=np.clip(total(iterate.beta), lower, upper),
            residual=residual,
            residual_error=iterate.residual_error,
            observer=functools.partial(show, expand=distribute),
        )

    def distribute(self, beta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return coefficients of the n points within their bounds that sum by kind to beta : (m,).

        O(n); copies are filled in the order of their indices, with the sign of their sum.
        """
        alpha, is_negative = np.empty(len(self.kind)), beta[self.kind] < 0.0
        _fill(np.abs(beta), np.where(is_negative, -lower, upper), self.kind, self._order, alpha)
        return np.where(is_negative, -alpha, alpha)


@njit(cache=True)
def _fill(amount, bound, kind, order, alpha):
    """Distribute amount : (m,) of each kind over its copies in the order `order` : (n,)."""
    remaining = amount.copy()
    for i in order:
        k = kind[i]
        rounding = _ROUNDING * amount[k]
        # Solvers test by equality whether a point is at a bound, so no rounded value is near it.
        if remaining[k] <= rounding:
            alpha[i] = 0.0
        elif abs(remaining[k] - bound[i]) <= rounding or remaining[k] > bound[i]:
            alpha[i] = bound[i]
        else:
            alpha[i] = remaining[k]
        remaining[k] -= alpha[i]


def _projected(X: Any, direction: np.ndarray) -> np.ndarray:
    if sp.issparse(X):
        return np.asarray(matmul(X, direction))
    # einsum does not wake the threads of BLAS, which keep a core busy for milliseconds.
    return np.einsum("ij,j->i", X, direction)


def _equal_rows(A: object, B: object) -> np.ndarray:
    if sp.issparse(A):
        return np.diff(sp.csr_array(A != B).indptr) == 0
    return np.all(np.asarray(A) == np.asarray(B), axis=1)
