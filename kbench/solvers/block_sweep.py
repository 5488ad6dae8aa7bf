"""A pass of dual coordinate descent that moves blocks of rows together, for rows much alike.

The steps of `linear_dual` move one a_i at a time. Where a few directions carry most of the length
of all rows (radial basis functions wider than the data share their mean), the constraints that
these directions impose let a single coordinate move only by a tiny part of its way, and thousands
of passes are too few. So here

    for each block B of rows, in random order
      G_B = gradients of its active points at w
      minimise f over a_B by greedy coordinate steps on the small matrix X_B X_B'
      w += X_B' (change of y a)_B

as in Bertsekas' block coordinate descent: no less a decrease than that of the single steps, for
|B| / 2 more products a row, of rows that are in cache, which all problems share.
"""

import numpy as np
from numba import njit, types

from kbench.solvers.coordinate_descent import compiled_steps

SIZE = 64
_SAMPLE = 256
# Steps inside a block end at this share of its largest gradient: w has moved on by then.
_INNER_RELATIVE = 0.1
_STEPS_PER_POINT = 20


def effective_rank(X: np.ndarray) -> float:
    """(sum s)^2 / sum s^2 of the eigenvalues s of X'X, from inner products of sampled rows.

    X : (n, d). The number of directions over which the rows spread; O(256^2 d).
    """
    rows = X[np.linspace(0, len(X) - 1, min(_SAMPLE, len(X))).astype(np.intp)].astype(np.float64)
    gram = rows @ rows.T
    squares = np.diag(gram).copy()
    np.fill_diagonal(gram, 0.0)
    n_pairs = len(rows) * (len(rows) - 1)
    return float(squares.mean() ** 2 * n_pairs / max(float((gram**2).sum()), 1e-300))


_FASTMATH = {"contract", "nsz", "arcp", "reassoc", "nnan"}


@njit(fastmath=_FASTMATH)
def _dot(x, w):
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * w[j]
    return total


@njit(fastmath=_FASTMATH)
def _inner(x, z):
    """In the rows' own precision: it only guides the steps, gradients come from `_dot`."""
    total = x.dtype.type(0)
    for j in range(x.shape[0]):
        total += x[j] * z[j]
    return total


@njit(fastmath=_FASTMATH)
def _add(x, scale, w):
    for j in range(x.shape[0]):
        w[j] += scale * x[j]


@njit
def _gram(X, rows, out):
    for p in range(len(rows)):
        for q in range(p + 1):
            out[p, q] = out[q, p] = _inner(X[rows[p]], X[rows[q]])


def _signatures():
    """float32 and float64 rows, which may be read-only (memory maps)."""

    def array(dtype, ndim, readonly=False):
        return types.Array(dtype, ndim, "C", readonly=readonly)

    f8, i8 = types.float64, types.int64
    for real in (types.float32, f8):
        yield i8(
            array(real, 2, True),
            array(i8, 1),
            i8,
            array(types.int8, 2),
            *[array(f8, 1, True)] * 3,
            *[array(f8, 2)] * 2,
            array(types.boolean, 2),
            *[array(f8, 1)] * 4,
        )


# Compiled when imported (or read from numba's cache), so that no fit pays for it.
@njit(list(_signatures()), cache=True)
def descend_together(
    X, order, first, Y, bound, ridge, curvature, alpha, coef, aside, highest, lowest, high, low
):
    """Visit the rows `order` of X, whose row 0 is point `first`, block by block; visits.

    Parameters
    ----------
    X : (b, d)
    order : (b',)
    Y, alpha, aside : (m, n); coef : (m, d)
    bound, ridge, curvature : (n,)
    highest, lowest : (m,)
        Gradients beyond which a point at its bound is set aside.
    high, low : (m,)
        Take in the projected gradients.
    """
    visits = 0
    gram = np.empty((SIZE, SIZE))
    member = np.empty(SIZE, np.int64)
    beta, e = np.empty(SIZE), np.empty(SIZE)
    lower, upper, diagonal = np.empty(SIZE), np.empty(SIZE), np.empty(SIZE)
    gain = np.empty(SIZE)
    gain_bits = gain.view(np.int64)
    for start in range(0, len(order), SIZE):
        rows = order[start : start + SIZE]
        _gram(X, rows, gram)
        for c in range(alpha.shape[0]):
            k, worst, w = 0, 0.0, coef[c]
            for p in range(len(rows)):
                i = first + rows[p]
                if aside[c, i]:
                    continue
                visits += 1
                a, y = alpha[c, i], Y[c, i]
                gradient = y * _dot(X[rows[p]], w) - 1.0 + ridge[i] * a
                projected = gradient
                if a <= 0.0:
                    if gradient > highest[c]:
                        aside[c, i] = True
                        continue
                    projected = min(gradient, 0.0)
                elif a >= bound[i]:
                    if gradient < lowest[c]:
                        aside[c, i] = True
                        continue
                    projected = max(gradient, 0.0)
                high[c] = max(high[c], projected)
                low[c] = min(low[c], projected)
                worst = max(worst, abs(projected))
                member[k], beta[k], e[k] = p, y * a, -y * gradient
                lower[k] = -bound[i] if y < 0 else 0.0
                upper[k] = bound[i] if y > 0 else 0.0
                diagonal[k] = max(curvature[i], 1e-12)
                k += 1
            if worst == 0.0:
                continue
            K = np.empty((k, k))
            for s in range(k):
                for t in range(k):
                    K[s, t] = gram[member[s], member[t]]
                K[s, s] = diagonal[s]
            compiled_steps(
                K,
                beta[:k],
                e[:k],
                gain[:k],
                gain_bits[:k],
                lower[:k],
                upper[:k],
                diagonal[:k],
                _INNER_RELATIVE * worst,
                _STEPS_PER_POINT * k,
            )
            for s in range(k):
                row = rows[member[s]]
                i, y = first + row, Y[c, first + row]
                change = beta[s] - y * alpha[c, i]
                if change != 0.0:
                    alpha[c, i] = y * beta[s]
                    _add(X[row], change, w)
    return visits
