"""The reduced set method: a kernel expansion approximated by few points, which are not data points.

Schoelkopf, Knirsch, Smola and Burges, "Fast Approximation of Support Vector Kernel Expansions, and
an Interpretation of Clustering as Approximation in Feature Spaces" (DAGM 1998), implemented as in
the Statistical Pattern Recognition Toolbox. With w = sum_i a_i phi(x_i), for the Gaussian kernel:

    residual r <- w
    repeat:
        z <- argmax <r, phi(z)>^2                    (the pre-image of r)
        b <- the best coefficients of phi(z_1), ..., phi(z_j) for w, K_zz b = K_zx a
        r <- w - sum_j b_j phi(z_j)

At the fixed point of z = sum_i c_i k(x_i, z) x_i / sum_i c_i k(x_i, z), with the coefficients c of
r, the gradient of <r, phi(z)> vanishes.
"""

from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.functions.rbf import RBF
from kbench.kernels.origin import origin_of

# Guard: added to the diagonal of K_zz (of ones), which almost equal points may make singular.
_RIDGE = 1e-8
# The fixed-point iteration stops after 200 steps, or if the squared length of a step, in the unit
# of X, is below 1e-12: more steps take time and move the point little. Both are set by hand.
_MAX_STEPS, _MIN_SQUARED_STEP = 200, 1e-12
# Guard: an iteration stops if its denominator is only rounding, below this multiple of the sum of
# the absolute values of its terms.
_VANISHING_SUM = 1e-10
# Guard: stop when the squared residual is below this multiple of ||w||^2, the rounding of float64.
_NEGLIGIBLE_RESIDUAL = 1e-12


class ReducedSet(NamedTuple):
    """An expansion on few points."""

    points: np.ndarray  # (r, d)
    coef: np.ndarray  # (r,)
    residuals: np.ndarray  # (r + 1,): ||w||^2, then ||w - w_j||^2 with the first j points


def reduced_set(
    X: np.ndarray,
    coef: np.ndarray,
    gamma: float,
    n_points: int,
    rng: np.random.RandomState,
    *,
    preimage: str,
    n_restarts: int,
) -> ReducedSet:
    """Approximate sum_i coef_i k(x_i, .) by `n_points` points.

    X : (s, d) float64
    coef : (s,)
    n_points : Largest number of points; the method stops early if the residual is negligible
    preimage : {"gradient", "fixed_point"}
        How a pre-image is computed: by L-BFGS along the gradient, or by the fixed-point iteration.
    n_restarts : Number of starting points of each pre-image, drawn from the points of the residual
        in proportion to the absolute values of its coefficients; the best result is kept.

    O(r t (s + r) d) time for r points and t evaluations of <r, phi(z)> for each; s^2 kernel values
    once for ||w||^2. An expansion whose coefficients are all 0, or whose values are only rounding
    errors, becomes one point with coefficient 0.
    """
    if not coef.any():
        return ReducedSet(X[:1], np.zeros(1), np.zeros(2))
    # Coefficients are divided by a power of two, so that squares of small ones do not vanish.
    scale = 2.0 ** np.frexp(np.abs(coef).max())[1]
    coef = coef / scale
    # Centring does not change distances and reduces their rounding errors.
    origin = origin_of(X, X.mean(axis=0))
    X = X - origin
    kernel = KernelMatrix(RBF(gamma), X, np.float64)
    squared_norm = float(matmul(coef, kernel.product(np.arange(len(X)), coef)))
    residuals, points = [squared_norm], np.empty((0, X.shape[1]))
    beta = np.empty(0)
    gram, products = np.empty((0, 0)), np.empty(0)
    while len(points) < n_points and residuals[-1] > _NEGLIGIBLE_RESIDUAL * squared_norm:
        P, c = np.vstack([X, points]), np.concatenate([coef, -beta])
        starts = P[rng.choice(len(P), n_restarts, p=np.abs(c) / np.abs(c).sum())]
        z = _preimage(P, c, gamma, starts, preimage)
        new_column = np.exp(-gamma * ((points - z) ** 2).sum(axis=1))
        gram = np.block([[gram, new_column[:, None]], [new_column, np.ones(1)]])
        products = np.append(products, _expansion_values(X, coef, gamma, z[None])[0])
        points = np.vstack([points, z])
        factor = scipy.linalg.cho_factor(gram + _RIDGE * np.eye(len(gram)))
        beta = scipy.linalg.cho_solve(factor, products)
        residuals.append(
            squared_norm + matmul(matmul(beta, gram), beta) - matmul(2.0 * beta, products)
        )
    if not len(points):
        return ReducedSet(
            X[:1] + origin, np.zeros(1), scale**2 * np.array([squared_norm, squared_norm])
        )
    return ReducedSet(points + origin, scale * beta, scale**2 * np.array(residuals))


def _weighted_values(P: np.ndarray, c: np.ndarray, gamma: float, Z: np.ndarray) -> np.ndarray:
    """c_i k(p_i, z) : (R, s) for the rows p_i of P : (s, d) and z of Z : (R, d)."""
    squares = (P**2).sum(axis=1) + (Z**2).sum(axis=1)[:, None] - matmul(2.0 * Z, P.T)
    return c * np.exp(-gamma * np.maximum(squares, 0.0))


def _expansion_values(P: np.ndarray, c: np.ndarray, gamma: float, Z: np.ndarray) -> np.ndarray:
    """<r, phi(z)> = sum_i c_i k(p_i, z) for the rows z of Z : (R, d); (R,)."""
    return _weighted_values(P, c, gamma, Z).sum(axis=1)


def _preimage(
    P: np.ndarray, c: np.ndarray, gamma: float, starts: np.ndarray, method: str
) -> np.ndarray:
    """The best of the points z reached from starts : (R, d), by <r, phi(z)>^2; (d,)."""
    if method == "fixed_point":
        points = _fixed_points(P, c, gamma, starts)
    else:
        points = np.array([_ascend(P, c, gamma, start) for start in starts])
    # An iteration may end below its start, so the starts are candidates too.
    candidates = np.vstack([points, starts])
    return candidates[np.argmax(_expansion_values(P, c, gamma, candidates) ** 2)]


def _fixed_points(P: np.ndarray, c: np.ndarray, gamma: float, starts: np.ndarray) -> np.ndarray:
    """Last points (R, d) of the fixed-point iterations from the starts : (R, d)."""
    Z = starts.copy()
    moving = np.arange(len(Z))
    for _ in range(_MAX_STEPS):
        weights = _weighted_values(P, c, gamma, Z[moving])
        divisors = weights.sum(axis=1)
        is_nonzero = np.abs(divisors) > _VANISHING_SUM * np.abs(weights).sum(axis=1)
        moving, weights, divisors = moving[is_nonzero], weights[is_nonzero], divisors[is_nonzero]
        new_points = matmul(weights, P) / divisors[:, None]
        is_moving = ((new_points - Z[moving]) ** 2).sum(axis=1) >= _MIN_SQUARED_STEP
        Z[moving] = new_points
        moving = moving[is_moving]
        if not len(moving):
            break
    return Z


def _ascend(P: np.ndarray, c: np.ndarray, gamma: float, start: np.ndarray) -> np.ndarray:
    """A local maximum (d,) of <r, phi(z)>^2, by L-BFGS from start : (d,)."""

    def negative_square(z: np.ndarray) -> tuple[float, np.ndarray]:
        weights = _weighted_values(P, c, gamma, z[None])[0]
        value = weights.sum()
        gradient = 2.0 * gamma * (matmul(weights, P) - value * z)
        return -(value**2), -2.0 * value * gradient

    return minimize(negative_square, start, jac=True, method="L-BFGS-B").x
