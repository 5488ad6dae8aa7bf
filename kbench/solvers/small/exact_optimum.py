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
from kbench.solvers.small.face import (
    N_PART,
    N_SAVED,
    N_SCRATCH,
    NANOSECONDS_OF_PRODUCT,
    NANOSECONDS_OF_VALUE,
    NOT_DEFINITE,
    OPTIMAL,
    ROUNDING,
    B,
    E,
)
from kbench.solvers.small.problems import N_PLACES, addresses
from kbench.solvers.small.rows import KernelValues
from kbench.solvers.small.steps import (
    BETA,
    DROP,
    EXACT_BETA,
    EXACT_RESIDUAL,
    INTERCEPT,
    LIFT,
    LOWER,
    RESIDUAL,
    ROWS,
    STEPS,
    UPPER,
    VIOLATION,
    Z,
)

# Nanoseconds of an attempt beside its kernel values and factorisations: in the compiled loop, and
# with values that are computed from Python (`scripts/bench_small.py --any-C`).
_COMPILED, _FROM_PYTHON = 5_000.0, 50_000.0
# Nanoseconds that an attempt after the steps have reached their tolerance may always take, in the
# compiled loop and with values from Python. If all problems were solved exactly, pendigits would
# take 20 ms instead of 13 (by the counted cost; `scripts/bench_small.py`).
_ALLOWED, _ALLOWED_FROM_PYTHON = 120_000.0, 350_000.0
# An attempt before the steps have reached their tolerance, and a later one in a fit of at most
# `_FEW` problems, may take this fraction of the time of the steps; other attempts may take the
# fraction `face.PART` (`scripts/bench_small.py`).
_PART_OF_FEW, _FEW = 1.0, 3
# Nanoseconds that an attempt may take in addition before the steps have reached their tolerance,
# and afterwards if the duality gap is large (`scripts/bench_small.py --any-C`).
_ALLOWED_MORE = 350_000.0

# mypy takes compiled functions for ones without arguments.
account: Any = steps.account
adopt: Any = face.adopt
near_margin: Any = face.near_margin
to_optimum: Any = face.to_optimum


class ExactOptimum:
    """Finds optima of the m problems of a fit, of at most n points.

    Parameters
    ----------
    memory_mb : MiB that the float64 values and the factor of all points may take
    centred : Whether the coefficients sum to 0

    Attributes
    ----------
    errors, scratch, limits, functions : arguments of `solve_problems`
    """

    def __init__(
        self, source: KernelValues, n: int, m: int, tol: float, memory_mb: float, *, centred: bool
    ) -> None:
        self._source, self._tol, self._centred = source, tol, centred
        self._memory_mb = memory_mb
        largest = float(np.abs(source.diagonal).max(initial=0.0))
        self.errors = np.array([*source.entry_errors, largest])
        n_numbers = int(min(2 * n * n, memory_mb * 2**17)) if len(source.exact_points) else 0
        self.scratch = np.empty(N_PLACES * n, np.int64), np.empty(n_numbers)
        # In a one-class problem (not centred) an attempt may take `face.PART` of the steps' time
        # only: free points of an optimum lie on the boundary, where rounding decides on which side
        # a row is.
        compiled = bool(len(source.exact_points))
        always_allowed = _ALLOWED if compiled else _ALLOWED_FROM_PYTHON
        fraction = _PART_OF_FEW if centred and m <= _FEW else face.PART
        allowed = always_allowed if centred else 0.0
        overhead = _COMPILED if compiled else _FROM_PYTHON
        self.limits = np.array([overhead, allowed, fraction, _ALLOWED_MORE])
        self.functions = addresses(has_halves=source.halves is not None)

    def steps_before(self, n: np.ndarray) -> np.ndarray:
        """Steps among n : (m,) points after which an exact optimum is tried for the first time."""
        if math.isinf(self._source.work(int(n.max()))):
            return np.full(len(n), 2**62)
        squares = 1.0 * n * n
        steps = steps_within(n, _ALLOWED_MORE + 0.5 * NANOSECONDS_OF_VALUE * squares)
        # The values and the factor are n^2 float64 numbers each.
        steps[16.0 * squares > self._memory_mb * 2**20] = 2.0**62
        return steps.astype(np.int64)

    def after_solution(
        self,
        epsilon: float,
        points: np.ndarray,
        arrays: tuple[np.ndarray, ...],
        report: np.ndarray,
        *,
        proven: bool,
    ) -> bool:
        """Turn a solution by the stored rows into an optimum if that is cheap; otherwise change
        nothing. Returns whether it is an optimum, by float64 values if the stored rows cannot tell.

        points : (n,) indices of the problem's points in the source
        arrays : `rows`, `slot`, `problem` and `state` of `steps.descend`
        proven : whether the error of the stored rows is small enough; if not, the residuals of all
            points with a coefficient are computed in float64 for the report
        """
        n, source = len(points), self._source
        if math.isinf(source.work(n)):
            return False
        rows, slot, problem, state = arrays
        near, part = np.empty(n, np.int64), np.empty((N_PART, n))
        m, n_far, allowed = near_margin(problem, state, self._tol, self.limits, near, part, report)
        if not m:
            return False
        # Twice what is allowed, as in `solve_problems`.
        status, shift = self._optimum(epsilon, points[near[: m + n_far]], m, part, 2.0 * allowed)
        if status != OPTIMAL:
            return False
        near = near[:m]
        new = near[(slot[near] < 0) & (part[B, :m] != problem[BETA, near])]
        if len(new):
            slot[new] = int(report[ROWS]) + np.arange(len(new))
            report[ROWS] += len(new)
            rows[slot[new]] = source.exact(points[new], points)
        saved = np.empty((N_SAVED, n))
        if not adopt(m, near, part, epsilon, shift, self.errors, self._tol, *arrays, saved, report):
            return False
        if not proven:
            self._report_exactly(epsilon, points, near, shift, problem, state, report)
        return True

    def _report_exactly(
        self,
        epsilon: float,
        points: np.ndarray,
        near: np.ndarray,
        shift: float,
        problem: np.ndarray,
        state: np.ndarray,
        report: np.ndarray,
    ) -> None:
        """Account for the residuals of points outside `near` from exact values."""
        beta = problem[BETA]
        support = np.flatnonzero(beta)
        is_far = beta != 0.0
        is_far[near] = False
        far = np.flatnonzero(is_far)
        values = matmul(self._source.exact(points[far], points[support]), beta[support])
        problem[RESIDUAL, far] = problem[Z, far] - values + shift
        account(problem, state, epsilon, report)
        report[INTERCEPT] -= shift

    def before_solution(
        self, epsilon: float, points: np.ndarray, arrays: tuple[np.ndarray, ...], report: np.ndarray
    ) -> bool:
        """Move from the coefficients of the steps towards the optimum; return whether it is found.

        Otherwise steps can go on from the new coefficients, to which RESIDUAL, EXACT_RESIDUAL and
        EXACT_BETA then belong.
        """
        n, (*_, problem, state) = len(points), arrays
        part = np.empty((N_PART, n))
        part[:E] = problem[[BETA, Z, LOWER, UPPER]]
        allowed = _ALLOWED_MORE + _PART_OF_FEW * nanoseconds_of_steps(n, float(report[STEPS]))
        status, shift = self._optimum(epsilon, points, n, part, allowed)
        if status == NOT_DEFINITE:
            return False
        beta = part[B]
        problem[BETA] = problem[EXACT_BETA] = beta
        problem[RESIDUAL] = part[E]
        grows = np.where(beta >= 0.0, -epsilon, epsilon)
        falls = np.where(beta <= 0.0, epsilon, -epsilon)
        state[LIFT] = np.where(beta < problem[UPPER], grows, -np.inf)
        state[DROP] = np.where(beta > problem[LOWER], falls, np.inf)
        account(problem, state, epsilon, report)
        problem[RESIDUAL] -= shift
        problem[EXACT_RESIDUAL] = problem[RESIDUAL]
        report[INTERCEPT] -= shift
        return bool(status == OPTIMAL and report[VIOLATION] <= self._tol)

    def _optimum(
        self, epsilon: float, points: np.ndarray, m: int, part: np.ndarray, nanoseconds: float
    ) -> tuple[int, float]:
        """Return the status of `face.to_optimum` on `part`, and the difference of its residuals
        from the problem's.

        points : (m + q,) indices in the source: of the m points, then of the others
        """
        offset = None
        if self._centred:
            K, offset = self._source.centred(points, m)
        else:
            K = self._source.exact(points[:m], points)
        L, scratch = np.empty((m, m)), np.empty((N_SCRATCH, m))
        budget = nanoseconds / NANOSECONDS_OF_PRODUCT
        free = np.empty(m, np.int64)
        status = to_optimum(K, part, epsilon, ROUNDING, budget, L, scratch, free)
        return status, 0.0 if offset is None else float(matmul(offset, part[B, : len(points)]))
