"""Mehrotra's primal-dual predictor-corrector method for `BoxQP`.

With slacks s = x - l and v = u - x and their multipliers y, z >= 0, the optimum satisfies

    Q x + p + A'b - y + z = 0,   A x = d,   s y = 0,   v z = 0.

Each iteration linearises this system with s y = v z = mu in place of 0. The matrix of Newton's
equations, Q with the diagonal y / s + z / v, is factorised once, and two systems are solved. The
predictor has mu = 0; its longest step shows how far s'y + v'z can fall, from which mu follows. The
corrector has this mu, and subtracts the second-order terms dx dy and -dx dz of the predictor. The
method takes 15 to 50 iterations for any bounds and condition number (docs/solver.md, "Kernels of
low rank").

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

# Stop after more than this many consecutive iterations in which neither the gap nor a residual fell
# by a tenth, or after two if the gap is reached: float64 then allows no further decrease. Set by
# hand.
_MAX_IDLE = 8
# Guard against endless loops: problems take up to 50 iterations.
_MAX_ITERATIONS = 100
# Stop at these residuals: of the gradient relative to `problem.scale`, of the equalities relative
# to sum |x|. Smaller ones cost iterations that the exact finish (`active_set`) saves. Set by hand.
_GRADIENT = 1e-9
_EQUALITY = 1e-12
# Guard: an objective below this multiple of the first complementarity counts as zero in the gap.
_ZERO_OBJECTIVE = 1e-20
# Fraction of the step to the nearest bound that is taken: longer steps converge in fewer
# iterations, but leave points so close to a bound that the next steps are short. Set by hand.
_STEP_FRACTION = 0.995


@dataclass
class PrimalDualPoint:
    """Primal and dual variables after an iteration."""

    x: np.ndarray  # (m,): between the bounds, not at them
    w: np.ndarray  # weights of the coefficients, see `Matrix`
    b: np.ndarray  # (k,): multipliers of the equalities
    # (m,): the slacks x - l and u - x, stored because differences would lose digits near a bound.
    above: np.ndarray
    below: np.ndarray
    # (m,): multipliers of the slacks.
    y: np.ndarray
    z: np.ndarray
    n_iter: int = 0
    gap: float = np.inf  # The complementarity above'y + below'z, relative to the objective


def minimise(
    problem: BoxQP,
    gap: float,
    stop: Callable[[int], bool] = lambda n_iter: False,
    point: PrimalDualPoint | None = None,
) -> PrimalDualPoint:
    """Return the best iterate: that of the least merit, the largest of its gap and its residuals.

    The method ends when the gap is at most `gap` and the residuals are small, when float64 allows
    no further decrease, after `_MAX_ITERATIONS`, or when `stop` says so.

    problem : lower < upper everywhere
    gap : Relative gap at which to stop
    stop : Called with the number of iterations before each of them; True stops the method
    point : First iterate
    """
    point = _first_point(problem) if point is None else point
    best, n_idle, best_merit, lowest = point, 0, np.inf, np.full(3, np.inf)
    first = None
    while True:
        residual = problem.each_copy(problem.K.values(point.w))
        quadratic = float(matmul(point.x, residual))
        linear = float(matmul(problem.p, point.x))
        # Sums are in place, also in `_step`: with many points, vectors take most of the memory.
        residual += problem.p
        residual += matmul(point.b, problem.A)
        residual -= point.y
        residual += point.z
        infeasible = problem.d - matmul(problem.A, point.x)
        complementarity = float(matmul(point.above, point.y) + matmul(point.below, point.z))
        # Guard: if the two terms of the objective cancel, a thousandth of their sizes is the unit.
        scale = max(abs(0.5 * quadratic + linear), 1e-3 * (abs(quadratic) + abs(linear)))
        first = complementarity if first is None else first
        # If the objective at the optimum is zero, the gap is relative to `_ZERO_OBJECTIVE` times
        # the first complementarity.
        point.gap = complementarity / max(scale, _ZERO_OBJECTIVE * first, 1e-300)
        gradient_error = float(np.abs(residual).max()) / problem.scale
        equality_error = float(np.abs(infeasible).max(initial=0.0))
        equality_error /= max(float(np.abs(point.x).sum()), 1e-300)
        # A residual of the gradient weighs a thousandth of an equal relative gap. Set by hand.
        merit = max(point.gap, 1e-3 * gradient_error, equality_error)
        if not np.isfinite(merit):
            return best
        # A decrease below a quantity's limit, or by less than 10 %, is no progress. Set by hand.
        remaining = complementarity if point.gap > gap else 0.0
        sizes = np.array(
            [remaining, max(gradient_error, _GRADIENT), max(equality_error, _EQUALITY)]
        )
        n_idle = 0 if (sizes < 0.9 * lowest).any() else n_idle + 1
        lowest = np.minimum(lowest, sizes)
        if merit < best_merit:
            best, best_merit = point, merit
        if (
            (point.gap <= gap and gradient_error <= _GRADIENT and equality_error <= _EQUALITY)
            or n_idle > (_MAX_IDLE if point.gap > gap else 1)
            or point.n_iter >= _MAX_ITERATIONS
            or stop(point.n_iter)
        ):
            return best
        try:
            point = _step(problem, point, residual, infeasible, complementarity)
        except LinAlgError:
            return best


def _first_point(problem: BoxQP) -> PrimalDualPoint:
    """Return the middle x of the bounds, with weights w of zero instead of the weights of x.

    The gradient of the first system is then p, and multipliers of the size of p suffice. With the
    weights of x, multipliers would grow with C.
    """
    half = 0.5 * (problem.upper - problem.lower)
    x = problem.lower + half if problem.lower.any() else half
    size = np.full(len(x), problem.scale)
    w = np.zeros_like(problem.K.weights(problem.coef(x)))
    return PrimalDualPoint(x, w, np.zeros(len(problem.A)), half, half, size, size)


def _step(
    problem: BoxQP,
    point: PrimalDualPoint,
    residual: np.ndarray,
    infeasible: np.ndarray,
    complementarity: float,
) -> PrimalDualPoint:
    """Return the point after one iteration from the residuals of `minimise`.

    infeasible : d - A x; complementarity : s'y + v'z
    """
    above, below, y, z = point.above, point.below, point.y, point.z
    weight = y / above
    weight += z / below
    solve = problem.newton(np.reciprocal(weight, out=weight))
    difference = problem.K.difference(point.w, problem.coef(point.x))

    def direction(cy: np.ndarray, cz: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return changes of x, w, b, y, z with which s y and v z change by cy and cz to first
        order. Overwrites cy and cz by the changes of y and z."""
        rhs = cy / above
        rhs -= cz / below
        rhs -= residual
        dx, dw, db = solve(rhs, difference, infeasible)
        cy -= y * dx
        cy /= above
        cz += z * dx
        cz /= below
        return dx, dw, db, cy, cz

    dx, dw, db, dy, dz = direction(-above * y, -below * z)
    t = min(_longest(above, dx), _longest(below, -dx), _longest(y, dy), _longest(z, dz))
    slope = float(matmul(above, dy) + matmul(dx, y) + matmul(below, dz) - matmul(dx, z))
    dy *= dx
    dz *= dx
    predicted = complementarity + t * slope + t * t * float(dy.sum() - dz.sum())
    m = 2 * len(dx)
    # Mehrotra's choice; `predicted` is the complementarity after the predictor's longest step.
    mu = complementarity / m * (max(predicted, 0.0) / complementarity) ** 3
    # The corrector's changes of s y and v z: mu - above y - dx dy and mu - below z + dx dz.
    dy += above * y
    np.subtract(mu, dy, out=dy)
    dz -= below * z
    dz += mu
    del dx
    dx, dw, db, dy, dz = direction(dy, dz)
    t = min(_longest(above, dx), _longest(below, -dx), _longest(y, dy), _longest(z, dz))
    t = min(1.0, _STEP_FRACTION * t)
    for multipliers, old in ((dy, y), (dz, z)):
        multipliers *= t
        multipliers += old
    dx *= t
    new_below = below - dx
    # If all lower bounds are 0, x and its slack are the same array.
    x = None if point.x is above else point.x + dx
    dx += above
    return PrimalDualPoint(
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
    """Return the longest step, at most 1, for which values + step * change are not negative."""
    steepest = float((change / values).min())
    return 1.0 if steepest > -1.0 else -1.0 / steepest
