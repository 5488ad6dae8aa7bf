"""Moves a point between the bounds to an optimum whose coefficients are exactly at their bounds.

A variable is fixed at a bound if the step to the bound would change its gradient by less than its
multiplier. The free variables F solve the equations of their face,

    (Q x + p + A'b)_F = 0,   A x = d,

by proximal steps, whose matrix a small diagonal D keeps regular: if the face has many optima (equal
rows, more free points than the rank of K), the steps end at the optimum nearest to their start,
which is near the analytic centre of all optima. A step ends at the first bound that it meets, and
the variable that meets it is fixed there. At the optimum of a face, the fixed variable whose
multiplier has the wrong sign and is largest becomes free. Most problems take one round.

The constants below are set by hand. They decide how many rounds are made and when the method gives
up; the gap and the violation of the result are measured afresh.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from kbench.intrinsics.products import matmul
from kbench.solvers.interior_point.predictor_corrector import PrimalDualPoint
from kbench.solvers.interior_point.problem import BoxQP

# Proximal steps of a round, unless one no longer halves the residual. The first step solves a face
# whose curvatures are all above D. Guard.
_MAX_PROXIMAL = 8
# D relative to the mean of the diagonal of K. The larger D moves coefficients less along directions
# without curvature; the smaller D is used if the larger one gives no exact result. Set by hand.
_PROXIMAL = (1e-5, 1e-9)
# Relative gap of an exact optimum. Set by hand.
_EXACT_GAP = 1e-11
# Guard: curvatures are at least this multiple of the gradients' scale over the bounds' distance.
_MIN_CURVATURE = 1e-4
# Guard against rounding errors: multipliers of the wrong sign count only above this multiple of the
# gradients' scale, and distances to a bound only above this multiple of the bounds' distance.
_MIN_WRONG = 1e-9
# Guard: largest error of the equalities, relative to sum |x|.
MAX_EQUALITY_ERROR = 1e-9


@dataclass(frozen=True)
class Optimum:
    """Coefficients and how far they are from an optimum, by a gradient that was summed afresh."""

    x: np.ndarray  # (m,): within the bounds
    # (k,): multipliers. For one equality with entries of -1 and 1, the mean over free variables, or
    # the middle of the two extremes if no variable is free.
    b: np.ndarray
    objective: float
    # For one equality with entries of -1 and 1, max -A g {A x can grow} - min -A g {A x can fall},
    # g = Q x + p; otherwise the largest entry of the projected gradient of the Lagrangian.
    violation: float
    # sum_i max {-r_i (x' - x_i): l <= x' <= u}, r = g + A'b: the primal minus the dual objective.
    gap: float
    equality_error: float  # max |A x - d|, relative to sum |x|

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger objective."""
        return self.gap / max(abs(self.objective), abs(self.gap - self.objective), 1e-300)


def finish(problem: BoxQP, point: PrimalDualPoint, max_rounds: int = 15) -> Optimum:
    """Return the optimum of least gap of all rounds, or `point` if no face has an optimum within
    the bounds; max_rounds is set by hand."""
    x, w, b = point.x, point.w, point.b
    # Without curvature, a variable within a small fraction of the bounds' distance is at its bound.
    min_curvature = _MIN_CURVATURE * problem.scale / (problem.upper - problem.lower)
    diagonal = np.maximum(np.tile(problem.K.diagonal, len(problem.signs)), min_curvature)
    at_lower = (diagonal * point.above < point.y) & (point.above <= point.below)
    at_upper = (diagonal * point.below < point.z) & (point.below < point.above)
    best = None
    tolerance = _MIN_WRONG * problem.scale
    for _ in range(max_rounds):
        x = np.where(at_lower, problem.lower, np.where(at_upper, problem.upper, x))
        free = ~(at_lower | at_upper)
        for proximal in _PROXIMAL:
            try:
                target, w, b = _on_face(problem, x, w, b, free, proximal)
            except LinAlgError:
                return assess(problem, point.x, point.b) if best is None else best
            t = _to_first_bound(problem, x, target)
            if t < 1.0:
                break
            x = target
            candidate = assess(problem, x, b)
            if best is None or candidate.gap < best.gap:
                best = candidate
            if candidate.relative_gap <= _EXACT_GAP or not free.any():
                break
        if t < 1.0 and (best is None or best.relative_gap > _EXACT_GAP):
            # w and b belong to `target`; the first step on the next face corrects them.
            x = x + t * (target - x)
            nearness = _MIN_WRONG * (problem.upper - problem.lower)
            at_lower |= free & (target < x) & (x - problem.lower <= nearness)
            at_upper |= free & (target > x) & (problem.upper - x <= nearness)
            continue
        gradient = problem.each_copy(problem.K.values(w)) + problem.p + matmul(b, problem.A)
        wrong_multipliers = np.where(at_lower, -gradient, np.where(at_upper, gradient, 0.0))
        worst = int(wrong_multipliers.argmax())
        if wrong_multipliers[worst] <= tolerance:
            break
        at_lower[worst] = at_upper[worst] = False
    return assess(problem, point.x, point.b) if best is None else best


def _to_first_bound(problem: BoxQP, x: np.ndarray, target: np.ndarray) -> float:
    """Return the largest t <= 1 for which x + t (target - x) is within the bounds."""
    change = target - x
    to_bound = np.where(change > 0.0, problem.upper - x, x - problem.lower)
    is_outside = (target < problem.lower) | (target > problem.upper)
    if not is_outside.any():
        return 1.0
    return min(1.0, float((to_bound[is_outside] / np.abs(change[is_outside])).min()))


def _on_face(
    problem: BoxQP, x: np.ndarray, w: np.ndarray, b: np.ndarray, free: np.ndarray, proximal: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, w and b of the optimum on the face in which only the `free` variables move."""
    if not free.any():
        return x, problem.K.weights(problem.coef(x)), b
    mean_diagonal = float(problem.K.diagonal.mean()) or 1.0
    solve = problem.newton(np.where(free, 1.0 / (proximal * mean_diagonal), 0.0))
    last = np.inf
    for _ in range(_MAX_PROXIMAL):
        gradient = problem.each_copy(problem.K.values(w)) + problem.p + matmul(b, problem.A)
        residual = float(np.abs(gradient[free]).max(initial=0.0))
        if not residual < 0.5 * last:
            break
        last = residual
        difference = problem.K.difference(w, problem.coef(x))
        dx, dw, db = solve(-gradient, difference, problem.d - matmul(problem.A, x))
        x, w, b = x + dx, w + dw, b + db
    return x, w, b


def point_from_coef(problem: BoxQP, coef: np.ndarray) -> PrimalDualPoint:
    """Return the point of these coefficients, with multipliers that are 0 except at a bound."""
    x = coef
    if len(problem.signs) > 1:
        x = np.maximum(np.multiply.outer(problem.signs, coef).ravel(), 0.0)
    above, below = x - problem.lower, problem.upper - x
    y, z = (np.where(slack == 0.0, problem.scale, 0.0) for slack in (above, below))
    b = assess(problem, x, np.zeros(len(problem.A))).b
    return PrimalDualPoint(x, problem.K.weights(problem.coef(x)), b, above, below, y, z)


def without_overlap(problem: BoxQP, x: np.ndarray) -> np.ndarray:
    """Return x with the smaller copy of each point at 0 and the same coefficients."""
    if len(problem.signs) == 1:
        return x
    beta = problem.coef(x)
    return np.maximum(np.multiply.outer(problem.signs, beta).ravel(), 0.0)


def assess(problem: BoxQP, x: np.ndarray, b: np.ndarray) -> Optimum:
    """Measure coefficients x : (m,) within the bounds, from a fresh gradient."""
    A, lower, upper = problem.A, problem.lower, problem.upper
    g = problem.gradient(x)
    can_fall, can_grow = x > lower, x < upper
    if len(A) == 1 and (np.abs(A) == 1.0).all():
        descent_rate, positive = -A[0] * g, A[0] > 0.0
        up, down = np.where(positive, can_grow, can_fall), np.where(positive, can_fall, can_grow)
        free = can_grow & can_fall
        high, low = descent_rate[up].max(initial=-np.inf), descent_rate[down].min(initial=np.inf)
        violation = max(float(high - low), 0.0)
        if free.any():
            b = np.array([descent_rate[free].mean()])
        elif np.isfinite(high) and np.isfinite(low):
            b = np.array([0.5 * (high + low)])
        else:
            b = np.array([high if np.isfinite(high) else low])
        r = g + b[0] * A[0]
    else:
        r = g + matmul(b, A)
        violation = max(float((-r[can_grow]).max(initial=0.0)), float(r[can_fall].max(initial=0.0)))
    equality_error = float(np.abs(problem.d - matmul(A, x)).max(initial=0.0))
    return Optimum(
        x=x,
        b=b,
        objective=0.5 * float(matmul(x, g + problem.p)),
        violation=violation,
        gap=float(np.maximum(-r * (upper - x), r * (x - lower)).sum()),
        equality_error=equality_error / max(float(np.abs(x).sum()), 1e-300)
        if equality_error
        else 0.0,
    )
