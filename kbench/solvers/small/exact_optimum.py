"""The exact optimum of a small problem, from coefficients that steps of two have brought near it.

`face.to_optimum` finds it on the points near the margin, from float64 kernel values of these alone:
bound points whose slack is larger than any possible change stay where they are. It is tried if it
costs little beside the steps so far, or if a large C leaves a large duality gap: when the steps
reach their tolerance, and before whenever their number has doubled, because ill-conditioned
problems have the right points at their bounds long before such steps reach the tolerance.
"""

import math
from typing import Any

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.solvers.interior_point.counted_work import nanoseconds_of_steps, steps_within
from kbench.solvers.small import face, steps
from kbench.solvers.small.rows import Rows
from kbench.solvers.small.steps import (
    BETA,
    DROP,
    ERROR,
    EXACT_BETA,
    EXACT_RESIDUAL,
    GAP,
    INTERCEPT,
    LIFT,
    LOWER,
    OBJECTIVE,
    RESIDUAL,
    UPPER,
    VIOLATION,
    Z,
)

# Nanoseconds of an attempt beside its kernel values and factorisations, of one such value, and of
# one multiplication of a factorisation (`scripts/bench_small.py --any-C`).
_NANOSECONDS = 50_000.0
_NANOSECONDS_OF_VALUE = 6.0
_NANOSECONDS_OF_PRODUCT = 0.3
# An attempt after the steps have reached their tolerance, and one before that, may take this
# fraction of their time. If all problems are solved exactly, pendigits takes 39 ms instead of 21,
# digits 7.7 instead of 4.6. The fits of few problems may take the larger fraction after a gap above
# `_SMALL_GAP`, a part of the objective.
_PART, _PART_BEFORE, _SMALL_GAP = 0.25, 1.0, 1e-6
# The attempts for all problems of a fit may together take this many nanoseconds in any case: iris
# and wine take .02 ms longer, breast_cancer .04 ms, and have the objective of the optimum.
_ALLOWED_TOGETHER = 200_000.0
# With a large C the tolerance says little about the objective. If the duality gap is above the
# first number, a part of the objective, an attempt may take longer by the second one, nanoseconds.
_LARGE_GAP, _ALLOWED_MORE = 0.03, 350_000.0
# Points take part if their slack is below this multiple of the tolerance and of the rounding of
# their residuals. Set by hand.
_NEAR = 2.0
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)

_NO_CHANGES = np.empty(0)

# mypy takes compiled functions for ones without arguments.
account: Any = steps.account
adopt: Any = face.adopt
near_margin: Any = face.near_margin
to_optimum: Any = face.to_optimum


class ExactOptimum:
    """Finds optima of the m problems of a fit, of at most n points; holds scratch memory for them.

    Parameters
    ----------
    memory_mb : MiB that the float64 values and the factor of all points may take
    centred : Whether the coefficients sum to 0
    """

    def __init__(
        self, source: Rows, n: int, m: int, tol: float, memory_mb: float, *, centred: bool
    ) -> None:
        self._source, self._tol, self._centred = source, tol, centred
        # A one-class problem gets no exact optimum: its free points would lie on its boundary,
        # where rounding decides on which side a row is.
        self._memory_mb, self._allowed = memory_mb, _ALLOWED_TOGETHER / m if centred else 0.0
        self._near, self._part = np.empty(n, np.int64), np.empty((face.N_PART, n))
        self._largest = float(np.abs(source.diagonal).max(initial=0.0))

    def steps_before(self, n: int) -> int:
        """Steps among n points after which an exact optimum is tried for the first time."""
        if math.isinf(self._source.work(n)) or 16.0 * n * n > self._memory_mb * 2**20:
            return 2**62
        return steps_within(n, _ALLOWED_MORE + _NANOSECONDS_OF_VALUE * n * n / 2.0)

    def after_solution(
        self,
        epsilon: float,
        points: np.ndarray,
        stored: tuple[np.ndarray, ...],
        report: np.ndarray,
        n_steps: int,
        *,
        proven: bool,
    ) -> bool:
        """Turn a solution by the stored rows into an optimum if that is cheap; otherwise change
        nothing. Returns whether it is an optimum, by float64 values if the stored rows cannot tell.

        points : (n,) indices of the problem's points in the source
        stored : `rows`, `slot`, `problem` and `state` of `steps.descend`
        proven : whether the error of the stored rows is small enough; if not, the residuals of all
            points with a coefficient are computed in float64 for the report
        """
        n, source = len(points), self._source
        # A start that is a solution stays as it is.
        if n_steps == 0 or math.isinf(source.work(n)):
            return False
        *_, problem, state = stored
        near, part = self._near[:n], self._part
        margin = _NEAR * (self._tol + report[ERROR])
        m, n_far, n_free = near_margin(problem, state, report[INTERCEPT], margin, near, part)
        values = _NANOSECONDS_OF_VALUE * m * (m + n_far)
        products = _NANOSECONDS_OF_PRODUCT * (n_free**3 / 6.0 + 2.0 * n_free * m)
        gap, objective = report[GAP], abs(report[OBJECTIVE])
        inexact = self._allowed > _NANOSECONDS and gap > _SMALL_GAP * objective
        fraction = _PART_BEFORE if inexact else _PART
        allowed = max(self._allowed, fraction * nanoseconds_of_steps(n, n_steps))
        if gap > _LARGE_GAP * objective:
            allowed += _ALLOWED_MORE
        if m < 2 or _NANOSECONDS + values + products > allowed:
            return False
        status, shift = self._optimum(epsilon, points[near[: m + n_far]], m, 2.0 * allowed)
        if status != face.OPTIMAL:
            return False
        before = problem.copy(), state.copy(), report.copy()
        errors = (*source.entry_errors, self._largest)
        status = adopt(m, near, part, epsilon, shift, _NO_CHANGES, errors, *stored, report)
        if status == face.NOT_STORED:
            change = problem[BETA][near[:m]] - part[face.B, :m]
            moved = np.flatnonzero(change)
            changes = matmul(source.exact(points, points[near[moved]]), change[moved])
            status = adopt(m, near, part, epsilon, shift, changes, errors, *stored, report)
        worse = report[VIOLATION] > self._tol or not report[GAP] <= before[2][GAP]
        if status == face.HIDDEN or worse:
            problem[:], state[:], report[:] = before
            return False
        if not proven:
            self._report_exactly(epsilon, points, m, shift, problem, state, report)
        return True

    def _report_exactly(
        self,
        epsilon: float,
        points: np.ndarray,
        m: int,
        shift: float,
        problem: np.ndarray,
        state: np.ndarray,
        report: np.ndarray,
    ) -> None:
        """Account for the residuals of points outside the first m of `_near` from exact values."""
        beta = problem[BETA]
        support = np.flatnonzero(beta)
        is_far = beta != 0.0
        is_far[self._near[:m]] = False
        far = np.flatnonzero(is_far)
        values = matmul(self._source.exact(points[far], points[support]), beta[support])
        problem[RESIDUAL, far] = problem[Z, far] - values + shift
        account(problem, state, epsilon, report)
        report[INTERCEPT] -= shift

    def before_solution(
        self,
        epsilon: float,
        points: np.ndarray,
        stored: tuple[np.ndarray, ...],
        report: np.ndarray,
        n_steps: int,
    ) -> bool:
        """Move from the coefficients of the steps towards the optimum; return whether it is found.

        Otherwise steps can go on from the new coefficients, to which RESIDUAL, EXACT_RESIDUAL and
        EXACT_BETA then belong.
        """
        n, part = len(points), self._part[:, : len(points)]
        *_, problem, state = stored
        for row, source in zip(range(face.E), (BETA, Z, LOWER, UPPER), strict=True):
            part[row] = problem[source]
        allowed = _ALLOWED_MORE + _PART_BEFORE * nanoseconds_of_steps(n, n_steps)
        status, shift = self._optimum(epsilon, points, n, allowed)
        if status == face.NOT_DEFINITE:
            return False
        beta = part[face.B]
        problem[BETA] = problem[EXACT_BETA] = beta
        problem[RESIDUAL] = part[face.E]
        grows = np.where(beta >= 0.0, -epsilon, epsilon)
        falls = np.where(beta <= 0.0, epsilon, -epsilon)
        state[LIFT] = np.where(beta < problem[UPPER], grows, -np.inf)
        state[DROP] = np.where(beta > problem[LOWER], falls, np.inf)
        account(problem, state, epsilon, report)
        problem[RESIDUAL] -= shift
        problem[EXACT_RESIDUAL] = problem[RESIDUAL]
        report[INTERCEPT] -= shift
        return bool(status == face.OPTIMAL and report[VIOLATION] <= self._tol)

    def _optimum(
        self, epsilon: float, points: np.ndarray, m: int, nanoseconds: float
    ) -> tuple[int, float]:
        """Status of `face.to_optimum` on `_part`, and the difference of its residuals from the
        problem's.

        points : (m + q,) indices in the source: of the m points, then of the others
        """
        offset = None
        if self._centred:
            K, offset = self._source.centred(points, m)
        else:
            K = self._source.exact(points[:m], points)
        part = self._part
        L, scratch = np.empty((m, m)), np.empty((face.N_SCRATCH, m))
        budget = nanoseconds / _NANOSECONDS_OF_PRODUCT
        free = np.empty(m, np.int64)
        status = to_optimum(K, part, epsilon, _ROUNDING, budget, L, scratch, free)
        return status, 0.0 if offset is None else float(matmul(offset, part[face.B, : len(points)]))
