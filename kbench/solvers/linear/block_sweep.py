"""A pass of dual coordinate descent over blocks of rows, for strongly correlated rows.

The steps of `linear_dual` move one a_i at a time. If a few directions have most of the norm of all
rows (features of radial basis functions wider than the data), the optimal w determines the sums of
a_i along these directions, a single step moves a_i by a tiny fraction of its distance to the
optimum, and thousands of passes do not suffice. This module moves the a_i of a block together:

    for each block B of rows, in random order
      G_B = gradients of its active points at w
      minimise f over a_B by greedy coordinate steps on the small matrix X_B X_B'
      w += X_B' (change of y a)_B

This is block coordinate descent (Bertsekas, Nonlinear Programming, section 2.7). It takes |B| / 2
more inner products per row than single steps; the rows are in cache, and all classes share the
products.
"""

import numpy as np
from numba import njit

from kbench.intrinsics.products import matmul
from kbench.solvers.box_dual.coordinate_descent import compiled_steps

# Rows of a block: more take more inner products per row and decrease the objective more in a pass
# (`scripts/bench_linear.py`).
BLOCK_ROWS = 64
# Rows of the sample for `effective_rank`: 256^2 inner products. Set by hand.
_SAMPLE_ROWS = 256
# Steps inside a block stop at this fraction of the block's largest gradient, or after this number
# of steps per point: the next blocks change w again. Set by hand.
_INNER_RELATIVE = 0.1
_STEPS_PER_POINT = 20


def effective_rank(X: np.ndarray) -> float:
    """Estimate (sum s)^2 / sum s^2 of the eigenvalues s of X'X from inner products of sampled rows.

    X : (n, d). This is the number of directions over which the rows spread evenly; O(256^2 d) time.
    """
    rows = X[np.linspace(0, len(X) - 1, min(_SAMPLE_ROWS, len(X))).astype(np.intp)].astype(
        np.float64
    )
    gram = matmul(rows, rows.T)
    squares = np.diag(gram).copy()
    np.fill_diagonal(gram, 0.0)
    n_pairs = len(rows) * (len(rows) - 1)
    return float(squares.mean() ** 2 * n_pairs / max(float((gram**2).sum()), 1e-300))


_FASTMATH = {"contract", "nsz", "arcp", "reassoc", "nnan"}  # as in `linear_dual`


@njit(fastmath=_FASTMATH)
def _dot(x, w):
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * w[j]
    return total


@njit(fastmath=_FASTMATH)
def _inner(x, z):
    """<x, z> in the precision of the rows, for steps inside a block; gradients use `_dot`."""
    total = x.dtype.type(0)
    for j in range(x.shape[0]):
        total += x[j] * z[j]
    return total


@njit(fastmath=_FASTMATH)
def _add_scaled(x, scale, w):
    for j in range(x.shape[0]):
        w[j] += scale * x[j]


@njit
def _gram(X, rows, out):
    for p in range(len(rows)):
        for q in range(p + 1):
            out[p, q] = out[q, p] = _inner(X[rows[p]], X[rows[q]])


@njit(cache=True)
def descend_together(
    X, order, first, Y, bound, ridge, curvature, alpha, coef, aside, highest, lowest, high, low
):
    """Visit the rows `order` of X, whose row 0 is point `first`, block by block.

    Parameters
    ----------
    X : (b, d)
    order : (b',)
    Y, alpha, aside : (m, n); coef : (m, d)
    bound, ridge, curvature : (n,). U_i, D_i and ||x_i||^2 + D_i of `linear_dual`.
    highest, lowest : (m,). Gradients beyond which a point at its bound is skipped from now on.
    high, low : (m,). Largest and smallest projected gradient so far; updated.

    Returns
    -------
    visits : int
        Points whose gradient was computed, over all m problems.
    """
    visits = 0
    gram = np.empty((BLOCK_ROWS, BLOCK_ROWS))
    member = np.empty(BLOCK_ROWS, np.int64)
    beta, e = np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS)
    lower, upper, diagonal = np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS), np.empty(BLOCK_ROWS)
    gain = np.empty(BLOCK_ROWS)
    gain_bits = gain.view(np.int64)
    for start in range(0, len(order), BLOCK_ROWS):
        rows = order[start : start + BLOCK_ROWS]
        _gram(X, rows, gram)
        for c in range(alpha.shape[0]):
            k, largest_gradient, w = 0, 0.0, coef[c]
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
                largest_gradient = max(largest_gradient, abs(projected))
                member[k], beta[k], e[k] = p, y * a, -y * gradient
                lower[k] = -bound[i] if y < 0 else 0.0
                upper[k] = bound[i] if y > 0 else 0.0
                diagonal[k] = max(curvature[i], 1e-12)  # guard: 0 for a row of zeros
                k += 1
            if largest_gradient == 0.0:
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
                0.0,
                _INNER_RELATIVE * largest_gradient,
                _STEPS_PER_POINT * k,
            )
            for s in range(k):
                row = rows[member[s]]
                i, y = first + row, Y[c, first + row]
                change = beta[s] - y * alpha[c, i]
                if change != 0.0:
                    alpha[c, i] = y * beta[s]
                    _add_scaled(X[row], change, w)
    return visits
