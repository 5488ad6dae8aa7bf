"""Moves a point between the bounds to an optimum whose coefficients are exactly at their bounds.

A variable is put at a bound if the step there would change its gradient by less than its
multiplier, as in an active-set method. The free ones solve the equations of their face,

    (Q x + p + A'b)_F = 0,   A x = d,

by proximal steps, whose factorisation a small diagonal D keeps regular: if the face has many optima
(equal rows, more free points than the rank of K), they end at the optimum nearest to their start,
which is near the analytic centre of all optima. A step ends at the first bound that it meets, where
that variable stays; at the optimum of a face, the bound variable with the multiplier of the most
wrong sign becomes free. Mostly there is one round.

The constants below are set by hand. They decide how many rounds are made and when the method gives
up; the gap and the violation of what is returned are measured afresh.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError

from kbench.intrinsics.products import matmul
from kbench.solvers.interior_point.predictor_corrector import PrimalDualPoint
from kbench.solvers.interior_point.problem import BoxQP

# Proximal steps of a round. The first solves a face whose curvatures are all above D. Guard.
_MAX_PROXIMAL = 8
# D relative to the mean of the diagonal of K. With the larger one, coefficients move less along
# directions without curvature; the smaller one follows if the result is not exact. Set by hand.
_PROXIMAL = (1e-5, 1e-9)
# Relative gap of an exact optimum. Set by hand.
_EXACT = 1e-11
# Smaller curvatures are raised to this multiple of the gradients' scale over the bounds' distance.
# Guard.
_FLAT = 1e-4
# Multipliers of the wrong sign count from this multiple of the gradients' scale on, distances to a
# bound from this multiple of the bounds' distance on; smaller ones are rounding errors. Guard.
_WRONG = 1e-9
# Largest error of the equalities, relative to sum |x|. Guard.
MAX_OFF = 1e-9


@dataclass(frozen=True)
class Optimum:
    """Coefficients and how far they are from an optimum, by a gradient that was summed afresh."""

    x: np.ndarray  # (m,): within the bounds
    # (k,): multipliers. For one equality with entries of -1 and 1, the mean over free variables, or
    # without any the middle of the two extremes.
    b: np.ndarray
    objective: float
    # For such an equality max -A g {A x can grow} - min -A g {A x can fall}, g = Q x + p; otherwise
    # the largest entry of the projected gradient of the Lagrangian.
    violation: float
    # sum_i max {-r_i (x' - x_i): l <= x' <= u}, r = g + A'b: the primal minus the dual objective.
    gap: float
    off: float  # max |A x - d|, relative to sum |x|

    @property
    def relative_gap(self) -> float:
        """The gap relative to the larger objective."""
        return self.gap / max(abs(self.objective), abs(self.gap - self.objective), 1e-300)


def finish(problem: BoxQP, point: PrimalDualPoint, max_rounds: int = 15) -> Optimum:
    """Return the optimum of least gap over all rounds; `point` if no face has an optimum within the
    bounds."""
    x, w, b = point.x, point.w, point.b
    # Without curvature, a bound counts as near within a small part of the bounds' distance.
    flat = _FLAT * problem.scale / (problem.upper - problem.lower)
    diagonal = np.maximum(np.tile(problem.K.diagonal, len(problem.signs)), flat)
    at_lower = (diagonal * point.above < point.y) & (point.above <= point.below)
    at_upper = (diagonal * point.below < point.z) & (point.below < point.above)
    best = None
    wrong = _WRONG * problem.scale
    for _ in range(max_rounds):
        x = np.where(at_lower, problem.lower, np.where(at_upper, problem.upper, x))
        free = ~(at_lower | at_upper)
        for proximal in _PROXIMAL:
            try:
                end, w, b = _on_face(problem, x, w, b, free, proximal)
            except LinAlgError:
                return assess(problem, point.x, point.b) if best is None else best
            t = _to_first_bound(problem, x, end)
            if t < 1.0:
                break
            x = end
            candidate = assess(problem, x, b)
            if best is None or candidate.gap < best.gap:
                best = candidate
            if candidate.relative_gap <= _EXACT or not free.any():
                break
        if t < 1.0 and (best is None or best.relative_gap > _EXACT):
            # w and b belong to `end`; the next face's first step corrects them.
            x = x + t * (end - x)
            nearness = _WRONG * (problem.upper - problem.lower)
            at_lower |= free & (end < x) & (x - problem.lower <= nearness)
            at_upper |= free & (end > x) & (problem.upper - x <= nearness)
            continue
        slope = problem.each_copy(problem.K.values(w)) + problem.p + matmul(b, problem.A)
        misses = np.where(at_lower, -slope, np.where(at_upper, slope, 0.0))
        worst = int(misses.argmax())
        if misses[worst] <= wrong:
            break
        at_lower[worst] = at_upper[worst] = False
    return assess(problem, point.x, point.b) if best is None else best


def _to_first_bound(problem: BoxQP, x: np.ndarray, end: np.ndarray) -> float:
    """The largest t <= 1 for which x + t (end - x) is within the bounds."""
    change = end - x
    to_bound = np.where(change > 0.0, problem.upper - x, x - problem.lower)
    beyond = (end < problem.lower) | (end > problem.upper)
    if not beyond.any():
        return 1.0
    return min(1.0, float((to_bound[beyond] / np.abs(change[beyond])).min()))


def _on_face(
    problem: BoxQP, x: np.ndarray, w: np.ndarray, b: np.ndarray, free: np.ndarray, proximal: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, w and b of the optimum on the face where all but `free` variables stay."""
    if not free.any():
        return x, problem.K.weights(problem.coef(x)), b
    typical = float(problem.K.diagonal.mean()) or 1.0
    solve = problem.newton(np.where(free, 1.0 / (proximal * typical), 0.0))
    last = np.inf
    for _ in range(_MAX_PROXIMAL):
        slope = problem.each_copy(problem.K.values(w)) + problem.p + matmul(b, problem.A)
        off = float(np.abs(slope[free]).max(initial=0.0))
        if not off < 0.5 * last:
            break
        last = off
        difference = problem.K.difference(w, problem.coef(x))
        dx, dw, db = solve(-slope, difference, problem.d - matmul(problem.A, x))
        x, w, b = x + dx, w + dw, b + db
    return x, w, b


def at_bounds(problem: BoxQP, coef: np.ndarray) -> PrimalDualPoint:
    """A point of these coefficients whose multipliers mark those at their bounds."""
    x = coef
    if len(problem.signs) > 1:
        x = np.maximum(np.multiply.outer(problem.signs, coef).ravel(), 0.0)
    above, below = x - problem.lower, problem.upper - x
    y, z = (np.where(gap == 0.0, problem.scale, 0.0) for gap in (above, below))
    b = assess(problem, x, np.zeros(len(problem.A))).b
    return PrimalDualPoint(x, problem.K.weights(problem.coef(x)), b, above, below, y, z)


def canonical(problem: BoxQP, x: np.ndarray) -> np.ndarray:
    """x with the smaller copy of each point set to 0, which changes no coefficient."""
    if len(problem.signs) == 1:
        return x
    beta = problem.coef(x)
    return np.maximum(np.multiply.outer(problem.signs, beta).ravel(), 0.0)


def assess(problem: BoxQP, x: np.ndarray, b: np.ndarray) -> Optimum:
    """Measure coefficients x : (m,) within the bounds, from a fresh gradient."""
    A, lower, upper = problem.A, problem.lower, problem.upper
    g = problem.gradient(x)
    falls, grows = x > lower, x < upper
    if len(A) == 1 and (np.abs(A) == 1.0).all():
        rate, positive = -A[0] * g, A[0] > 0.0
        up, down = np.where(positive, grows, falls), np.where(positive, falls, grows)
        free = grows & falls
        high, low = rate[up].max(initial=-np.inf), rate[down].min(initial=np.inf)
        violation = max(float(high - low), 0.0)
        if free.any():
            b = np.array([rate[free].mean()])
        elif np.isfinite(high) and np.isfinite(low):
            b = np.array([0.5 * (high + low)])
        else:
            b = np.array([high if np.isfinite(high) else low])
        r = g + b[0] * A[0]
    else:
        r = g + matmul(b, A)
        violation = max(float((-r[grows]).max(initial=0.0)), float(r[falls].max(initial=0.0)))
    off = float(np.abs(problem.d - matmul(A, x)).max(initial=0.0))
    return Optimum(
        x=x,
        b=b,
        objective=0.5 * float(matmul(x, g + problem.p)),
        violation=violation,
        gap=float(np.maximum(-r * (upper - x), r * (x - lower)).sum()),
        off=off / max(float(np.abs(x).sum()), 1e-300) if off else 0.0,
    )
