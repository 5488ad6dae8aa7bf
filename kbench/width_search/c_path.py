"""Support vector machines of one kernel matrix for several C, each started from the last.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    C l <= b <= C u,    1'b = 0,    C = C_1 < C_2 < ...

`kbench.solvers.small.steps` takes the steps. Between two values of C the solution b is
multiplied by s = (z'b - epsilon |b|_1) / b'Kb, which minimises the objective over s b; the new
residual e = z - s K b follows from the old one without a kernel value. If no b is at a bound,
a larger C has the same solution.

The tolerance is loose (`constants.TOL`). On covtype, held-out errors at violations of 0.1, 0.03 and
0.01 differ by at most 0.1 points, less than their noise.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.solvers.small.steps import (
    BETA,
    DIAGONAL,
    EXACT_RESIDUAL,
    INTERCEPT,
    LOWER,
    N_REPORTED,
    OUT_OF_STEPS,
    RESIDUAL,
    ROWS,
    STEPS,
    UPPER,
    VIOLATION,
    Z,
    descend,
)
from kbench.trace import Deadline
from kbench.width_search import constants

# Guard: curvatures below this are rounding errors of float32 kernel values of about 1.
_MIN_CURVATURE = 1e-6
_LOG2_E = math.log2(math.e)
_NO_VALUES = np.empty((0, 0), np.float32)


class PathSolution(NamedTuple):
    """Solution of one problem."""

    coef: np.ndarray  # (n,) b
    intercept: float
    solved: bool  # whether the tolerance was reached within the limit on steps


class KernelRows(NamedTuple):
    """Rows of the matrix of a kernel with k(x, x) = 1: stored, or computed when first needed."""

    points: np.ndarray  # see `kbench.solvers.small.rows.by_feature`; (0, n) if all are stored
    factor: float  # gamma log2(e): k(x, z) = 2^(-factor ||x - z||^2)
    rows: np.ndarray  # (n, n) float32, C-contiguous
    slot: np.ndarray  # (n,) index in `rows` of the row of each point, -1 if not yet computed


def stored(K: np.ndarray) -> KernelRows:
    """All rows of a matrix (n, n) float32."""
    n = len(K)
    return KernelRows(np.empty((0, n), np.float32), 1.0, K, np.arange(n))


def on_demand(points: np.ndarray, gamma: float, out: np.ndarray) -> KernelRows:
    """Rows of exp(-gamma ||x - z||^2) for n points by feature, written into out : (n, n)."""
    return KernelRows(points, gamma * _LOG2_E, out, np.full(len(out), -1))


class OutOfTime(Exception):
    """A deadline passed before all problems were solved."""


class PathProblem(NamedTuple):
    """One binary problem or regression whose bounds are the rows' factors of C."""

    kernel: KernelRows
    z: np.ndarray  # (n,)
    lower: np.ndarray  # (n,) l <= 0
    upper: np.ndarray  # (n,) u >= 0


def class_problem(
    kernel: KernelRows, signs: np.ndarray, factor: np.ndarray | float = 1.0
) -> PathProblem:
    """The problem of a classifier with targets -1 and +1, with a factor of C for each row."""
    bound = factor * signs
    return PathProblem(kernel, signs, np.minimum(bound, 0.0), np.maximum(bound, 0.0))


def regression_problem(
    kernel: KernelRows, y: np.ndarray, factor: np.ndarray | float = 1.0
) -> PathProblem:
    """The problem of a regression, with a factor of C for each row."""
    bound = factor * np.ones(len(y))
    return PathProblem(kernel, y, -bound, bound)


def along_c(
    problem: PathProblem,
    Cs: Sequence[float],
    *,
    tol: float,
    max_steps: int,
    climb_steps: int | None = None,
    epsilon: float = 0.0,
    narrower_tubes: Sequence[float] = (),
    deadline: Deadline | None = None,
) -> Iterator[PathSolution]:
    """Solve a problem for increasing values of C, then for narrower tubes at the last of them.

    Cs : increasing values of C
    tol : Violation of the dual's optimality at which to stop, see `kbench.solvers.small.dual`
    max_steps : Limit on steps for each C
    climb_steps : Limit on steps for each value on the way to the first C; default `max_steps`
    epsilon : Half the width of the tube for all values of C
    narrower_tubes : decreasing values of epsilon
        The last C is solved with each of these, too, started from the previous solution.

    Raises OutOfTime: the deadline has passed before a value of C was solved.

    O(n) a step, about n steps a model; O(n n_sv) at the end of each model.
    """
    (points, factor, rows, slot), z, unit_lower, unit_upper = problem
    n, unit = len(z), np.maximum(unit_upper, -unit_lower)
    climb_steps = max_steps if climb_steps is None else climb_steps
    # `values` and `state` have the rows that `kbench.solvers.small.steps` numbers.
    values = np.zeros((8, n))
    # At b = 0 the residual is z; sums over kernel rows start from there.
    values[Z] = values[RESIDUAL] = values[EXACT_RESIDUAL] = z
    beta, e = values[BETA], values[RESIDUAL]
    state = np.empty((6, n), np.float32)
    state[DIAGONAL] = 1.0
    report = np.zeros(N_REPORTED)
    report[ROWS], report[INTERCEPT] = np.count_nonzero(slot >= 0), 0.5 * (z.max() + z.min())
    is_known = np.ones(n, np.uint8)
    one_class = (points, None, _NO_VALUES, is_known)
    no_second_class = (np.empty((len(points), 0), np.float32), None, _NO_VALUES, is_known[:0])
    sums = np.empty(points.shape[1], np.float32)
    kernel = (*one_class, *no_second_class, _NO_VALUES, factor, sums, rows, slot)

    problems = [(C, epsilon, wanted) for C, wanted in _with_climb(Cs)]
    problems += [(Cs[-1], tube, True) for tube in narrower_tubes]
    last_c, last_tube, solved = 0.0, epsilon, True
    for C, tube, wanted in problems:
        if deadline is not None and deadline.passed:
            raise OutOfTime
        any_at_bound = bool(
            np.any((beta != 0.0) & ((beta <= values[LOWER]) | (beta >= values[UPPER])))
        )
        if last_c == 0.0 or tube < last_tube or any_at_bound or not solved:
            if last_c > 0.0:
                largest = (np.abs(beta) / unit).max(initial=0.0)
                curvature, slope = matmul(beta, z - e), matmul(z, beta) - tube * np.abs(beta).sum()
                if curvature > 0.0 and largest > 0.0:
                    scale = min(max(slope / curvature, 1.0), C / largest)
                    e[:] = z - scale * (z - e)
                    beta *= scale
            values[LOWER], values[UPPER] = C * unit_lower, C * unit_upper
            np.clip(beta, values[LOWER], values[UPPER], out=beta)
            climbing = max(tol, constants.CLIMB_TOL), climb_steps
            limit, steps = (tol, max_steps) if wanted else climbing
            arguments = (*kernel, values, state, tube, _MIN_CURVATURE, 0.0, 0.0)
            status = _descend(arguments, limit, steps, report, deadline)
            if status == OUT_OF_STEPS:
                # A call without steps reports the residual, the violation and the intercept.
                descend(*arguments, np.inf, 0, False, report)
            solved = bool(report[VIOLATION] <= limit)
        else:
            values[LOWER], values[UPPER] = C * unit_lower, C * unit_upper
        last_c, last_tube = C, tube
        if wanted:
            yield PathSolution(beta.copy(), float(report[INTERCEPT]), solved)


def _descend(
    arguments: tuple[Any, ...],
    tol: float,
    max_steps: int,
    report: np.ndarray,
    deadline: Deadline | None,
) -> int:
    """Run `descend`; with a deadline, in slices of n steps, after each of which `descend` may end.

    Raises OutOfTime: the deadline passed before the problem was solved.
    """
    if deadline is None or deadline.seconds_left() is None:
        return int(descend(*arguments, tol, max_steps, True, report))
    n, first_step = arguments[-5].shape[1], report[STEPS]
    while True:
        step = report[STEPS]
        steps_left = max_steps - int(step - first_step)
        status = int(descend(*arguments, tol, min(n, steps_left), step == first_step, report))
        if status != OUT_OF_STEPS or min(n, steps_left) == steps_left or report[STEPS] == step:
            return status
        if deadline.passed:
            raise OutOfTime


def in_time(solutions: Iterator[PathSolution]) -> list[PathSolution]:
    """The solutions found before the deadline; raises OutOfTime if there are none."""
    solved: list[PathSolution] = []
    try:
        while (solution := next(solutions, None)) is not None:
            solved.append(solution)
    except OutOfTime:
        if not solved:
            raise
    return solved


def _with_climb(Cs: Sequence[float]) -> Iterator[tuple[float, bool]]:
    """Pairs (C, wanted): smaller values on the way to the first C, not wanted, then all `Cs`."""
    smaller = []
    C = Cs[0] / constants.CLIMB_FACTOR
    while C >= constants.FIRST_C:
        smaller.append(C)
        C /= constants.CLIMB_FACTOR
    yield from ((C, False) for C in reversed(smaller))
    yield from ((C, True) for C in Cs)
