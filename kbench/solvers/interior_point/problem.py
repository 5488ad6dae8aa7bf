"""The quadratic problem that the interior-point method solves, stated once for all its users.

    min 1/2 x'Qx + p'x,   l <= x <= u,   A x = d,      Q = E'KE,   E x = s_1 x_1 + ... + s_c x_c

x : (c n,) holds c copies of the n points with signs s: one copy for a classifier, whose
coefficients have one sign each, and two for a regression, beta = x_1 - x_2, whose loss has a slope
on both sides of zero. K is a factor V V' (`LowRank`) or a stored matrix (`StoredKernel`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import eigh, svd

from kbench.intrinsics.products import matmul, one_blas_thread
from kbench.kernels.threads import cached_property
from kbench.solvers.interior_point.factor_rows import (
    FactorRows,
    StoredRows,
    gram,
    squares,
    sums,
    values,
)
from kbench.solvers.interior_point.factors import (
    factorised_definite,
    factorised_symmetric,
    largest_indices,
)

# Columns whose correlation matrix has a condition number below this are not whitened: a Cholesky
# factor then has 10 correct digits, and refined solves have all. Set by hand.
_WELL_CONDITIONED = 1e5
# Guard: eigenvalues below this multiple of the largest are rounding errors and are raised to it.
_NOISE = 1e-13
# Points with T k(x, x) below this number divided by n are left out of the Cholesky factor: a larger
# number makes the factor smaller and takes more rounds of refinement. Set by hand.
_NEAR = 1e-4
# Free variables have D near 0, so T = 1 / D would dominate the equations of the weights. Variables
# with T k(x, x) above this number stay unknowns, at most _MORE_FREE more than there are equations:
# more enlarge the system, fewer lose digits that refinement has to restore. Set by hand.
_FREE, _MORE_FREE = 100.0, 8
# A solve is refined until its residual relative to the right-hand side is at most this or no longer
# falls, and at most _MAX_REFINEMENTS times. Set by hand.
_SOLVED = 1e-12
_MAX_REFINEMENTS = 3

# From residuals (r, s, t) to (dx, dw, db) with D dx + E'(values of dw) + A'db = r and A dx = t; for
# a factor with R dw = U'E dx - s, for a stored matrix with dw = E dx - s.
Newton = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Matrix(Protocol):
    """A positive semidefinite matrix K of n points.

    The method stores weights w beside the coefficients beta and computes values K beta from w: sums
    over coefficients lose digits if C is large, and weights are small.
    """

    diagonal: np.ndarray  # (n,)
    work: float  # Multiplications of one factorisation

    def __len__(self) -> int: ...

    def take(self, points: np.ndarray) -> "Matrix":
        """The matrix of some of the points."""

    def product(self, beta: np.ndarray) -> np.ndarray:
        """K beta : (n,)."""

    def offset(self, beta: np.ndarray) -> float:
        """The constant that centring has subtracted from K beta, for coefficients of sum 0."""

    def entry_rounding(self, beta: np.ndarray) -> float:
        """Bound on the error of K beta from rounding of K's entries alone, not of sums."""

    def weights(self, beta: np.ndarray) -> np.ndarray:
        """The weights w of coefficients beta."""

    def values(self, w: np.ndarray) -> np.ndarray:
        """K beta : (n,) of the weights w of beta."""

    def difference(self, w: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Residual of the equation that defines w as the weights of beta, (len(w),)."""

    def newton(self, T: np.ndarray, A: np.ndarray, signs: np.ndarray) -> Newton:
        """Factorise Newton's equations.

        T : (c, n) >= 0, the inverse of the diagonal D, C order; overwritten
        A : (k, c, n)
        signs : (c,)
        """


@dataclass(frozen=True)
class BoxQP:
    """min 1/2 x'Qx + p'x, l <= x <= u, A x = d."""

    K: Matrix  # Matrix of n points
    # (c n,) float64: lower <= upper, both finite; equal bounds fix a variable.
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    # (k, c n): of full rank over the variables that are not fixed; k = 0 for no equality.
    A: np.ndarray
    d: np.ndarray  # (k,)
    signs: np.ndarray  # (c,) of -1 and +1

    @property
    def shape(self) -> tuple[int, int]:
        """c and n."""
        return len(self.signs), len(self.K)

    @cached_property
    def scale(self) -> float:
        """The unit of gradients: max |p|, or if p = 0 max |Q x| at the middle of the bounds."""
        largest = float(np.abs(self.p).max(initial=0.0))
        if largest == 0.0:
            middle = self.gradient(0.5 * (self.lower + self.upper))
            largest = float(np.abs(middle).max(initial=0.0))
        return largest or 1.0

    def coef(self, x: np.ndarray) -> np.ndarray:
        """beta = E x : (n,)."""
        return folded(self.signs, x)

    def each_copy(self, values: np.ndarray) -> np.ndarray:
        """E'values : (c n,)."""
        return copied(self.signs, values)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Q x + p, from the coefficients."""
        return self.each_copy(self.K.product(self.coef(x))) + self.p

    def newton(self, T: np.ndarray) -> Newton:
        """Factorise Newton's equations for D = 1 / T, T : (c n,)."""
        shape = self.shape
        return self.K.newton(T.reshape(shape), self.A.reshape(-1, *shape), self.signs)


def folded(signs: np.ndarray, x: np.ndarray) -> np.ndarray:
    """E x : (n,) of x : (c n,)."""
    if len(signs) == 1:
        return x.ravel() if signs[0] == 1.0 else signs[0] * x.ravel()
    beta: np.ndarray = matmul(signs, x.reshape(len(signs), -1))
    return beta


def copied(signs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """E'values : (c n,) of values : (n,)."""
    if len(signs) == 1:
        return values if signs[0] == 1.0 else signs[0] * values
    return np.multiply.outer(signs, values).ravel()


class LowRank:
    """K = V V' of a factor V : (n, r) float64, or of rows that are read block by block.

    `centred` subtracts the means of its columns, because products lose digits to large means. If
    the coefficients sum to 0, only the multiplier changes.

    Correlated columns are whitened: with U = V Z, K = U R^-1 U' for R = Z'Z, whatever Z is, so that
    Z need not be exact; Z is chosen with a diagonal R. The weights w solve R w = U'beta, and values
    are U w. Newton's equations reduce to r + k equations for the weights and the multipliers,

        [ R + U'TU  U'TA' ] [dw]   [ U'T r - s ]
        [ A T U     A T A'] [db] = [ A T r - t ],      dx = T (r - E'U dw - A'db)

    (Fine and Scheinberg 2001; Ferris and Munson 2002), in n r^2 multiplications. T of free points
    grows without bound and would dominate these sums. The points with the largest T remain unknowns
    beside dw and db, in a symmetric indefinite system with T^-1 on its diagonal.
    """

    @one_blas_thread
    def __init__(self, V: np.ndarray | FactorRows, *, centred: bool = False) -> None:
        rows: FactorRows = StoredRows(np.asarray(V, np.float64)) if isinstance(V, np.ndarray) else V
        n, r = rows.shape
        self._centred, self._mean = centred, np.zeros(r)
        if centred:
            self._mean = sums(rows, np.ones(n)) / n
            rows = rows.columns(self._mean, np.ones(r, bool))
        self.diagonal, column_squares = squares(rows)
        nonzero = column_squares > 0.0
        if not nonzero.all():
            self._mean = self._mean[nonzero]
            rows = rows.columns(np.zeros(r), nonzero)
        self._V = self._U = rows
        n, r = rows.shape
        self.work = float(n) * r * (r + 1)
        self._R = np.ones(r)
        if not r:
            return
        scale = np.sqrt(column_squares[nonzero])
        spectrum, Z = eigh(gram(rows, None) / np.outer(scale, scale))
        if spectrum[0] < spectrum[-1] / _WELL_CONDITIONED:
            Z /= np.sqrt(np.maximum(spectrum, _NOISE * spectrum[-1])) * scale[:, None]
            # Rounding of the first decomposition may leave columns of V Z far from orthogonal.
            if spectrum[0] < spectrum[-1] * _NOISE**0.5:
                spectrum, rotation = eigh(gram(rows.times(Z), None))
                Z = matmul(Z, rotation / np.sqrt(np.maximum(spectrum, _NOISE * spectrum[-1])))
            # Where R is diagonal, no sum rounds its small entries away.
            left_vectors, singular_values, _ = svd(Z, full_matrices=False)
            self._U, self._R = rows.times(left_vectors * singular_values), singular_values**2

    def __len__(self) -> int:
        return self._V.shape[0]

    def take(self, points: np.ndarray) -> "LowRank":
        rows = self._V.take(points)
        if self._centred:
            rows = rows.columns(-self._mean, np.ones(len(self._mean), bool))
        return LowRank(rows, centred=self._centred)

    def offset(self, beta: np.ndarray) -> float:
        return float(matmul(self._mean, sums(self._V, beta)))

    def entry_rounding(self, beta: np.ndarray) -> float:
        return 0.0

    def product(self, beta: np.ndarray) -> np.ndarray:
        return values(self._V, sums(self._V, beta))

    def weights(self, beta: np.ndarray) -> np.ndarray:
        w: np.ndarray = sums(self._U, beta) / self._R
        return w

    def values(self, w: np.ndarray) -> np.ndarray:
        return values(self._U, w)

    def difference(self, w: np.ndarray, beta: np.ndarray) -> np.ndarray:
        residual: np.ndarray = self._R * w - sums(self._U, beta)
        return residual

    def newton(self, T: np.ndarray, A: np.ndarray, signs: np.ndarray) -> Newton:
        U, (k, c, n), r = self._U, A.shape, self._U.shape[1]
        A, T_eliminated = A.reshape(k, c * n), T.reshape(c * n)
        free = largest_indices(T_eliminated * np.tile(self.diagonal, c), _FREE, r + k + _MORE_FREE)
        f, row = len(free), free % n
        weight = T_eliminated[free]
        T_eliminated[free] = 0.0  # T of the variables that are eliminated
        H = np.zeros((f + r + k, f + r + k))
        H[np.arange(f), np.arange(f)] = 1.0 / weight
        H[f : f + r, :f] = (U.rows_at(row) * signs[free // n, None]).T
        H[f + r :, :f] = A[:, free]
        M = H[f:, f:]
        M[:r, :r] = -gram(U, T_eliminated if c == 1 else T_eliminated.reshape(c, n).sum(axis=0))
        M[np.arange(r), np.arange(r)] -= self._R
        for i in range(k):
            weighted = A[i] * T_eliminated
            M[r + i, :r] = -sums(U, folded(signs, weighted))
            M[r:, r + i] = -matmul(A, weighted)
        H[:f, f:], M[:r, r:] = H[f:, :f].T, M[r:, :r].T
        C = H[:f, f:]
        solve = factorised_symmetric(H.copy())

        def direction(
            rhs: np.ndarray, s: np.ndarray, t: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            dx, dw_db = T_eliminated * rhs, np.zeros(r + k)
            first = last = [math.inf] * 3
            for refinement in range(1 + _MAX_REFINEMENTS):
                residual_x = rhs[free] - dx[free] / weight - matmul(C, dw_db)
                residual_w = s - sums(U, folded(signs, dx)) + self._R * dw_db[:r]
                residual_b = t - matmul(A, dx)
                residuals = (residual_x, residual_w, residual_b)
                size = [math.sqrt(residual.dot(residual)) for residual in residuals]
                if refinement == 0:
                    first = size
                elif all(a <= _SOLVED * b for a, b in zip(size, first, strict=True)) or not any(
                    a < 0.5 * b for a, b in zip(size, last, strict=True)
                ):
                    break
                last = size
                correction = solve(np.concatenate(residuals))
                dw_db += correction[f:]
                change = copied(signs, values(U, correction[f : f + r]))
                change += matmul(correction[f + r :], A)
                change *= T_eliminated
                dx -= change
                dx[free] += correction[:f]
            return dx, dw_db[:r], dw_db[r:]

        return direction


class StoredKernel:
    """A stored kernel matrix K : (n, n) float64, whose weights are the coefficients.

    Newton's equations are solved with the Cholesky factor of B = I + S^1/2 K S^1/2, n^3 / 3
    multiplications, where S = E T E' sums T over the copies of a point (`solve_without_equality`).
    B has no eigenvalue below 1, so that a semidefinite K needs no regularisation.
    `centred` subtracts the means of rows and columns, as in `LowRank`.
    """

    def __init__(self, K: np.ndarray, *, centred: bool = False) -> None:
        self.K, self._centred = np.ascontiguousarray(K, np.float64), centred
        self._mean = np.zeros(len(self.K))
        self._largest = float(self.K.max(initial=0.0))
        if centred:
            self._mean = self.K.mean(axis=0)
            self.K = self.K - self._mean
            self.K -= self.K.mean(axis=1)[:, None]
        self.diagonal = np.maximum(self.K.diagonal(), 0.0)
        self.work = len(self.K) ** 3 / 3.0
        self._buffer: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.K)

    def take(self, points: np.ndarray) -> "StoredKernel":
        taken = StoredKernel(self.K[np.ix_(points, points)], centred=self._centred)
        taken._mean += self._mean[points]
        taken._largest = self._largest
        return taken

    def offset(self, beta: np.ndarray) -> float:
        return float(matmul(self._mean, beta))

    def entry_rounding(self, beta: np.ndarray) -> float:
        return float(np.finfo(np.float64).eps * self._largest * np.linalg.norm(beta))

    def product(self, beta: np.ndarray) -> np.ndarray:
        values: np.ndarray = matmul(self.K, beta)
        return values

    values = product

    def weights(self, beta: np.ndarray) -> np.ndarray:
        return beta

    def difference(self, w: np.ndarray, beta: np.ndarray) -> np.ndarray:
        return w - beta

    def newton(self, T: np.ndarray, A: np.ndarray, signs: np.ndarray) -> Newton:
        c, n = T.shape
        root = np.sqrt(T.sum(axis=0))
        # B is nearly the identity at points that are left out; refinement corrects for them.
        kept = np.flatnonzero(root * root * self.diagonal > _NEAR / n)
        has_all = len(kept) == n
        kept_root = root[kept]
        columns = self.K if has_all else self.K[:, kept]
        # One buffer for all factorisations: fresh memory costs as much as the products.
        if self._buffer is None:
            self._buffer = np.empty(n * n)
        B = self._buffer[: len(kept) ** 2].reshape(len(kept), len(kept))
        np.multiply(columns if has_all else columns[kept], kept_root, out=B)
        B *= kept_root[:, None]
        B[np.diag_indices_from(B)] += 1.0
        solve = factorised_definite(B)
        # The copy of each point with the largest T.
        largest = T.argmax(axis=0) if c > 1 else None

        def solve_without_equality(rhs: np.ndarray) -> np.ndarray:
            """Return dx = (D + Q)^-1 r : (c, n) for r = rhs.

            D dx + E'K E dx = r gives dx = T (r - E'u) with u = K g, where g = E dx. Multiplied by
            E, this is g = E T r - S K g. With g = S^1/2 h it becomes B h = S^-1/2 E T r, solved by
            the factor. A large T multiplies the rounding of r - E'u, so the copy with the largest T
            is computed from E dx = g instead: g minus the other copies, times the copy's sign.
            """
            g = kept_root * solve(folded(signs, T * rhs)[kept] / kept_root)
            u = copied(signs, matmul(columns, g)).reshape(c, n)
            dx = T * (rhs - u)
            if largest is None:
                dx[0, kept] = signs[0] * g
                return dx
            copy = largest[kept]
            other_copies = folded(signs, dx)[kept] - signs[copy] * dx[copy, kept]
            dx[copy, kept] = signs[copy] * (g - other_copies)
            return dx

        H = np.array([solve_without_equality(row) for row in A]).reshape(A.shape)
        schur = np.einsum("kcn,jcn->kj", A, H)
        A_flat = A.reshape(len(A), c * n)

        def solve_with_equality(rhs: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            dx = solve_without_equality(rhs)
            if not len(A):
                return dx, t
            db = np.linalg.solve(schur, matmul(A_flat, dx.ravel()) - t)
            return dx - np.tensordot(db, H, 1), db

        def direction(
            rhs: np.ndarray, s: np.ndarray, t: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            # The weights follow the coefficients: w + dw = beta + E dx.
            rhs = rhs.reshape(c, n)
            if s.any():
                rhs = rhs + copied(signs, matmul(self.K, s)).reshape(c, n)
            dx, db = np.zeros(T.shape), np.zeros(len(A))
            residual, residual_t, last = rhs, t, np.inf
            is_movable = T > 0.0
            D = np.divide(1.0, T, out=np.zeros_like(T), where=is_movable)
            first = float(np.abs(rhs).max(initial=0.0))
            for _ in range(1 + _MAX_REFINEMENTS):
                correction, correction_b = solve_with_equality(residual, residual_t)
                after, after_b = dx + correction, db + correction_b
                u = copied(signs, matmul(self.K, folded(signs, after.ravel()))).reshape(c, n)
                residual = rhs - D * after - u - np.tensordot(after_b, A, 1)
                residual *= is_movable
                residual_t = t - matmul(A_flat, after.ravel())
                size = float(np.abs(residual).max(initial=0.0))
                if not size < last:
                    break
                dx, db, last = after, after_b, size
                if size <= _SOLVED * first:
                    break
            return dx.ravel(), folded(signs, dx.ravel()) - s, db

        return direction
