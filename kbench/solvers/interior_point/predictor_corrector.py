"""Mehrotra's primal-dual predictor-corrector method for `BoxQP`.

With slacks s = x - l and v = u - x and their multipliers y, z >= 0, the optimum satisfies

    Q x + p + A'b - y + z = 0,   A x = d,   s y = 0,   v z = 0.

Each iteration factorises Newton's equations of this system with s y = v z = mu once,
D = y / s + z / v, and solves them twice: for mu = 0 (predictor), then for the mu that the
predictor's step suggests and the products of its changes (corrector). 15 to 40 iterations, whatever
the bounds and the condition are.

Reference: S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J.
Optim. 1992; M. Ferris, T. Munson, "Interior-point methods for massive support vector machines",
2002.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from kbench.intrinsics.products import matmul
from kbench.solvers.interior_point.problem import BoxQP

# Iterations that may pass without a smaller gap or residual: float64 allows no more.
_MAX_IDLE = 8
_MAX_ITERATIONS = 100
# Residuals at which to end: of the gradient in parts of its scale, of the equalities in parts of
# sum |x|.
_RESIDUAL = 1e-9
_SUM = 1e-12
# Objectives below this part of the first products count as zero.
_NOTHING = 1e-20
# Fraction of the way to the nearest bound that a step goes.
_TO_BOUND = 0.995


@dataclass
class Interior:
    """A point of the method.

    Attributes
    ----------
    x : (m,)
        Between the bounds, not at them.
    w : weights of the coefficients, see `Matrix`
    b : (k,)
        Multipliers of the equalities.
    above, below : (m,)
        x - l and u - x, which keep their digits where x is near a bound.
    y, z : (m,)
        Their multipliers.
    n_iter : int
    gap : float
        above'y + below'z, in parts of the objective.
    """

    x: np.ndarray
    w: np.ndarray
    b: np.ndarray
    above: np.ndarray
    below: np.ndarray
    y: np.ndarray
    z: np.ndarray
    n_iter: int = 0
    gap: float = np.inf


def minimise(
    problem: BoxQP,
    gap: float,
    stop: Callable[[int], bool] = lambda n_iter: False,
    point: Interior | None = None,
) -> Interior:
    """Return a point whose gap is at most `gap`, or the best one that float64 allows.

    Parameters
    ----------
    problem : BoxQP
        lower < upper everywhere.
    gap : float
        Complementarity at which to end, in parts of the objective.
    stop : callable
        Asked before each iteration, with its number.
    point : Interior, optional
        Where to begin.
    """
    point = _start(problem) if point is None else point
    best, n_idle, best_merit, least = point, 0, np.inf, np.full(3, np.inf)
    first = None
    while True:
        residual = problem.each_copy(problem.K.values(point.w))
        quadratic = float(matmul(point.x, residual))
        linear = float(matmul(problem.p, point.x))
        # In place, as below: of many points, vectors are what takes memory.
        residual += problem.p
        residual += matmul(point.b, problem.A)
        residual -= point.y
        residual += point.z
        infeasible = problem.d - matmul(problem.A, point.x)
        products = float(matmul(point.above, point.y) + matmul(point.below, point.z))
        size = max(abs(0.5 * quadratic + linear), 1e-3 * (abs(quadratic) + abs(linear)))
        first = products if first is None else first
        # Where the optimum is zero, its objective is no measure.
        point.gap = products / max(size, _NOTHING * first, 1e-300)
        off = float(np.abs(residual).max()) / problem.scale
        off_sum = float(np.abs(infeasible).max(initial=0.0))
        off_sum /= max(float(np.abs(point.x).sum()), 1e-300)
        merit = max(point.gap, 1e-3 * off, off_sum)
        if not np.isfinite(merit):
            return best
        # Where the gap is small enough, only the residuals can be worth further iterations.
        above = products if point.gap > gap else 0.0
        sizes = np.array([above, max(off, _RESIDUAL), max(off_sum, _SUM)])
        n_idle = 0 if (sizes < 0.9 * least).any() else n_idle + 1
        least = np.minimum(least, sizes)
        if merit < best_merit:
            best, best_merit = point, merit
        if (
            (point.gap <= gap and off <= _RESIDUAL and off_sum <= _SUM)
            or n_idle > (_MAX_IDLE if point.gap > gap else 1)
            or point.n_iter >= _MAX_ITERATIONS
            or stop(point.n_iter)
        ):
            return best
        try:
            point = _step(problem, point, residual, infeasible, products)
        except LinAlgError:
            return best


def _start(problem: BoxQP) -> Interior:
    """The middle of the box and no weights: multipliers of the size of p then suffice, while those
    of the gradient of a large C would be as large as C."""
    half = 0.5 * (problem.upper - problem.lower)
    x = problem.lower + half if problem.lower.any() else half
    size = np.full(len(x), problem.scale)
    w = np.zeros_like(problem.K.weights(problem.coef(x)))
    return Interior(x, w, np.zeros(len(problem.A)), half, half, size, size)


def _step(
    problem: BoxQP,
    point: Interior,
    residual: np.ndarray,
    infeasible: np.ndarray,
    products: float,
) -> Interior:
    above, below, y, z = point.above, point.below, point.y, point.z
    weight = y / above
    weight += z / below
    solve = problem.newton(np.reciprocal(weight, out=weight))
    difference = problem.K.difference(point.w, problem.coef(point.x))

    def direction(cy: np.ndarray, cz: np.ndarray) -> tuple[np.ndarray, ...]:
        """Changes of x, w, b, y, z for the wanted changes cy and cz of the products, which are
        overwritten."""
        right = cy / above
        right -= cz / below
        right -= residual
        dx, dw, db = solve(right, difference, infeasible)
        cy -= y * dx
        cy /= above
        cz += z * dx
        cz /= below
        return dx, dw, db, cy, cz

    dx, dw, db, dy, dz = direction(-above * y, -below * z)
    t = min(_longest(above, dx), _longest(below, -dx), _longest(y, dy), _longest(z, dz))
    change = float(matmul(above, dy) + matmul(dx, y) + matmul(below, dz) - matmul(dx, z))
    dy *= dx
    dz *= dx
    after = products + t * change + t * t * float(dy.sum() - dz.sum())
    m = 2 * len(dx)
    mu = products / m * (max(after, 0.0) / products) ** 3
    # The wanted changes mu - above y - dx dy and mu - below z + dx dz.
    dy += above * y
    np.subtract(mu, dy, out=dy)
    dz -= below * z
    dz += mu
    del dx
    dx, dw, db, dy, dz = direction(dy, dz)
    t = min(_longest(above, dx), _longest(below, -dx), _longest(y, dy), _longest(z, dz))
    t = min(1.0, _TO_BOUND * t)
    for change_of, values in ((dy, y), (dz, z)):
        change_of *= t
        change_of += values
    dx *= t
    new_below = below - dx
    # Where x is the distance from its bound, it is one array.
    x = None if point.x is above else point.x + dx
    dx += above
    return Interior(
        dx if x is None else x,
        point.w + t * dw,
        point.b + t * db,
        dx,
        new_below,
        dy,
        dz,
        point.n_iter + 1,
    )


def _longest(values: np.ndarray, change: np.ndarray) -> float:
    """The longest step, at most 1, after which values + step * change are not negative."""
    least = float((change / values).min())
    return 1.0 if least > -1.0 else -1.0 / least
