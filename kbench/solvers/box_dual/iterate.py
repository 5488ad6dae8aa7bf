"""The state of a dual problem that is being solved, in the variables of the decision function.

    min_b  1/2 b'Kb - z'b + epsilon |b|_1,    l <= b <= u

A classifier has b_i = y_i a_i, z = -y p and epsilon = 0, and one of l_i, u_i is 0; a regression has
the targets z and l = -u. The residual is e = z - Kb. With an intercept, the multiplier of the
constraint 1'b = const, the optimality conditions concern e - intercept. With lift and drop of
`directions`, which are 0 or infinite in a classifier, the KKT slack of a point is

    slack_i = min(e_i + drop_i - intercept, intercept - e_i - lift_i)

If slack_i is negative, -slack_i is the violation of point i. A point with a large positive slack is
at its bound, and stays at it unless e changes by the slack.
"""

import copy
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.kernels.threads import run
from kbench.kernels.work_sharing import Loop, divided, share
from kbench.solvers.best_multiple import Settled, settle
from kbench.trace import Deadline, Trace

# Stands for minus infinity where a point cannot move. It is finite because the flags of `_extremes`
# exclude nan, which differences of infinities would give. Guard.
MINUS_INFINITY = -1e300
# Guard: a descent stops after this many rounds without a new minimum of the violation, because
# rounding can keep points moving back and forth for ever.
PATIENCE = 200
# Nanoseconds for the slack of one point at an arbitrary position, from which the number of threads
# follows (`scripts/ablate_svm.py --threads 2`).
_NS_PER_SLACK = 2.0
# Guards: steps divide by K_ii, or by this fraction of the largest |K_ii| if that is more, or by
# _SMALLEST_DIAGONAL if all are 0.
_MIN_DIAGONAL, _SMALLEST_DIAGONAL = 1e-12, 1e-30
# Guard: sums of coefficients are corrected if they are off by this fraction of the sum of |b|;
# rounding of 100,000 steps leaves less.
_SUM_ERROR = 1e-12
# Values in a cache line of the output, so that no two threads write to the same line.
_CACHE_LINE = 8


@dataclass
class Budget:
    """The limits of one solve, shared by all its subproblems."""

    max_iter: float = math.inf
    max_time: float | None = None
    trace: Trace = field(default_factory=Trace)
    n_iter: int = 0

    def __post_init__(self) -> None:
        self._deadline = Deadline(self.max_time, self.trace)
        self._lock = threading.Lock()

    @property
    def order_is_observed(self) -> bool:
        """Whether the order in which subproblems are solved can be observed."""
        return self.trace.active or self.max_iter < math.inf

    def spend(self, steps: int) -> None:
        """Count steps; threads may do so at the same time."""
        with self._lock:
            self.n_iter += steps

    def reached_limit(self) -> str:
        """Return the name of the limit that has been reached, or ""."""
        if self.n_iter >= self.max_iter:
            return "max_iter"
        return "max_time" if self._deadline.passed else ""


# Called with an iterate, its violation and the number of its active points.
Observer = Callable[["Iterate", float, int], None]


def show(
    iterate: "Iterate",
    violation: float,
    n_active: int,
    *,
    expand: Callable[[np.ndarray], np.ndarray] = lambda beta: beta,
) -> None:
    """Show an iterate to the trace; `expand` turns its beta into the caller's."""
    with iterate.budget.trace.pause():
        beta = expand(iterate.beta)
        state = {
            "alpha": np.abs(beta),
            "objective": iterate.objective,
            "violation": 2.0 * violation if iterate.coupled else violation,
            "n_support": int(np.count_nonzero(beta)),
            "n_active": n_active,
        }
    iterate.budget.trace(**state)


class Iterate:
    """A feasible point b with its residual, for a problem of n points.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    z, lower, upper : (n,) float64
    coupled : Whether the sum of b is fixed, with `intercept` as its multiplier; otherwise
        `intercept` is a constant.
    beta : (n,) float64, optional. Starting point within the bounds; default 0.
    residual : (n,) float64, optional
        z - K beta, nan where it is not known. Default: z where beta = 0, else nan everywhere.
    residual_error : Bound on the error of the given residual
    observer : callable. Receives the reports of the solver while a trace listens.

    Attributes
    ----------
    beta, residual : (n,) float64
        The residual is valid only at points where the solver has brought it up to date.
    objective : float
        f(beta). After a start with an unknown residual, the change of f since the start until the
        residual is known.
    residual_error : Largest error observed in a residual from float32 kernel values, or the bound
        passed by the caller; 0 if all residuals are from float64 values.
    rounding : float
        Estimated error of residuals from float64 kernel values that were updated step by step.
    fixed_sum : float. The sum of b at the start, which stays the same where `coupled`.
    earlier_beta : (n,) float64 or None
        An earlier solution of the problem or of a subproblem. If a limit ends the solve, `settle`
        may return it instead of `beta`.
    scale : float. Mean |z|, the unit of the solver's thresholds: 1 for classification.
    """

    def __init__(
        self,
        kernel: KernelMatrix,
        z: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        *,
        epsilon: float = 0.0,
        coupled: bool,
        budget: Budget,
        beta: np.ndarray | None = None,
        residual: np.ndarray | None = None,
        residual_error: float = 0.0,
        intercept: float = 0.0,
        observer: Observer = show,
    ) -> None:
        self.kernel, self.z, self.lower, self.upper = kernel, z, lower, upper
        self.epsilon = epsilon
        self.coupled, self.budget, self.intercept = coupled, budget, intercept
        self.observer = observer
        self.beta = np.zeros(len(z)) if beta is None else beta
        if residual is None:
            residual = np.full(len(z), np.nan) if self.beta.any() else z.copy()
        self.residual, self.residual_error = residual, residual_error
        diagonal = kernel.diagonal()
        # Steps divide by the diagonal, so it has to be positive; all kernel values may be small.
        largest = float(np.abs(diagonal).max(initial=0.0))
        self.diagonal = np.maximum(diagonal, max(_MIN_DIAGONAL * largest, _SMALLEST_DIAGONAL))
        self.scale = float(np.abs(z).mean()) or 1.0
        self.rounding = 0.0
        self.fixed_sum = float(self.beta.sum())
        self.earlier_beta: np.ndarray | None = None
        at_start = self._objective(np.flatnonzero(self.beta))
        self.objective = 0.0 if math.isnan(at_start) else at_start

    def with_kernel(self, kernel: KernelMatrix) -> "Iterate":
        """Return the same problem and point with another implementation of its kernel matrix."""
        copied = copy.copy(self)
        copied.kernel = kernel
        return copied

    def __len__(self) -> int:
        return len(self.z)

    def slack(self, points: np.ndarray | None = None) -> np.ndarray:
        """Return the KKT slack of these points (default: all), negative where they violate."""
        indices = np.arange(len(self)) if points is None else points
        out = np.empty(len(indices))
        state = self.beta, self.residual, self.lower, self.upper, self.intercept, self.epsilon
        cost = _NS_PER_SLACK * len(out)
        run(_SLACK, *state, indices, out, n=len(out), nanoseconds=cost, multiple=_CACHE_LINE)
        return out

    def free(self) -> np.ndarray:
        """`free_points` of this iterate."""
        return free_points(self.beta, self.lower, self.upper)

    def update_intercept(self) -> float:
        """Set the intercept that fits the residual of all points; return the largest violation."""
        self.intercept, violation = self.extremes()
        return violation

    def extremes(self) -> tuple[float, float]:
        """Return the intercept that fits the residual and the largest violation; the violation is
        inf if a residual has overflowed.
        """
        if not np.isfinite(self.residual).all():
            return self.intercept, math.inf
        return extremes(
            self.beta,
            self.residual,
            self.lower,
            self.upper,
            self.intercept,
            self.epsilon,
            coupled=self.coupled,
        )[2:]

    def rounding_error(self) -> float:
        """Estimate the error of a residual summed in float64; roundings add up as a random walk."""
        changes = float(np.sqrt(matmul(self.beta**2, self.diagonal)))
        return float(np.finfo(np.float64).eps) * math.sqrt(self.diagonal.max()) * changes

    def restore_sum(self) -> None:
        """Correct the sum of the coefficients for the rounding errors of the steps."""
        surplus = float(self.beta.sum()) - self.fixed_sum
        if self.coupled and abs(surplus) > _SUM_ERROR * float(np.abs(self.beta).sum()):
            self.lower_sum(surplus)

    def lower_sum(self, surplus: float) -> None:
        """Lower the sum of the coefficients by `surplus`, each in proportion to its distance from
        the bound that it approaches. Only free points move, unless their distances add up to at
        most the surplus.
        """
        before = self.beta.copy()
        end = self.lower if surplus > 0.0 else self.upper
        distance = np.abs(before - end) * self.free()
        if distance.sum() <= abs(surplus):
            distance = np.abs(before - end)
        self.beta = before - surplus * distance / max(float(distance.sum()), 1e-300)
        np.clip(self.beta, self.lower, self.upper, out=self.beta)
        self.update_residual(np.arange(len(self)), before)

    def settle(self) -> None:
        """Move to the multiple of `beta` or `earlier_beta` with the least primal objective.

        The residual is up to date at all points before and after. See
        `kbench.solvers.best_multiple`.
        """
        best, point = self._settled(self.beta, self.residual), (self.beta, self.residual)
        if self.earlier_beta is not None and not np.array_equal(self.earlier_beta, self.beta):
            support = np.flatnonzero(self.earlier_beta)
            exact = self.kernel.astype(np.float64)
            e = self.z - exact.product(support, self.earlier_beta[support])
            other = self._settled(self.earlier_beta, e)
            if other.primal < best.primal:
                best, point = other, (self.earlier_beta, e)
        self.beta = best.multiple * point[0]
        self.residual = self.z - best.multiple * (self.z - point[1])
        self.intercept = best.intercept

    def _settled(self, beta: np.ndarray, residual: np.ndarray) -> Settled:
        return settle(
            beta,
            residual,
            self.z,
            self.lower,
            self.upper,
            epsilon=self.epsilon,
            coupled=self.coupled,
            intercept=self.intercept,
        )

    def lower_objective(
        self, before: np.ndarray, after: np.ndarray, e_before: np.ndarray, e_after: np.ndarray
    ) -> None:
        """Update `objective` after some coefficients changed; the arguments are their values."""
        # f falls by change'(e before + e after) / 2, and epsilon |b|_1 grows.
        self.objective -= 0.5 * float(matmul(after - before, e_before + e_after))
        self.objective += self.epsilon * float(np.abs(after).sum() - np.abs(before).sum())

    def true_objective(self) -> float:
        """Return f(b), given that the residual is up to date wherever b is not zero."""
        return self._objective(slice(None))

    def _objective(self, points: Any) -> float:
        # Kb = z - e
        beta = self.beta[points]
        smooth = -0.5 * float(np.sum(beta * (self.z + self.residual)[points]))
        return smooth + self.epsilon * float(np.abs(beta).sum())

    def report(self, violation: float, n_active: int) -> None:
        """Report progress to the observer, if the trace is active."""
        if self.budget.trace.active:
            self.observer(self, violation, n_active)

    def compute_missing_residuals(self) -> None:
        """Compute the residual where it is nan; precision and cost are as in `update_residual`."""
        unknown = np.flatnonzero(np.isnan(self.residual))
        self.residual[unknown] = self.z[unknown]
        self.update_residual(unknown, np.zeros(len(self)))

    def update_residual(self, points: np.ndarray, beta_before: np.ndarray) -> None:
        """Update the residual of `points` from that of beta_before : (n,) to that of `beta`.

        Kernel values have the precision of the matrix. O(len(points) m d) for m coefficients moved.
        """
        moved = np.flatnonzero(self.beta != beta_before)
        if len(moved) and len(points):
            change = (self.beta - beta_before)[moved]
            self.residual[points] -= self.kernel.product(moved, change, rows=points)


class Subproblem:
    """Some points of a problem as a problem of their own, the coefficients of the others fixed.

    Parameters
    ----------
    parent : Its kernel values between `points` and other points are neglected
    points : (m,) indices

    Attributes
    ----------
    iterate : Iterate of m points
        Starts from the parent's coefficients, with the parent's intercept as a constant; its
        reports are reports of the parent. O(m d) to make.
    """

    def __init__(self, parent: Iterate, points: np.ndarray) -> None:
        self.parent, self.points = parent, points
        self.iterate = Iterate(
            parent.kernel.take(points),
            parent.z[points],
            parent.lower[points],
            parent.upper[points],
            epsilon=parent.epsilon,
            coupled=False,
            budget=parent.budget,
            beta=parent.beta[points],
            residual=parent.residual[points],
            residual_error=parent.residual_error,
            intercept=parent.intercept,
            observer=self._report,
        )
        self._objective_in_parent = self.iterate.objective

    def write_back(self) -> None:
        """Copy the subproblem's point, residual and change of the objective to the parent."""
        parent, child = self.parent, self.iterate
        parent.beta[self.points], parent.residual[self.points] = child.beta, child.residual
        parent.residual_error = max(parent.residual_error, child.residual_error)
        parent.objective += child.objective - self._objective_in_parent
        self._objective_in_parent = child.objective

    def _report(self, iterate: Iterate, violation: float, n_active: int) -> None:
        self.write_back()
        self.parent.report(violation, n_active)


def free_points(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return which points are neither at a bound nor at 0; (n,) bools."""
    free: np.ndarray = (beta > lower) & (beta < upper) & (beta != 0.0)
    return free


def extremes(
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    intercept: float,
    epsilon: float,
    *,
    coupled: bool,
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return the residuals of points that can move, the intercept and the largest violation. O(m).

    Returns
    -------
    e_up, e_down : (m,)
        e + lift and -(e + drop), with lift and drop of `directions`; -1e300 instead of -inf.
    intercept : float
        The middle of max e_up and min -e_down where `coupled` (the one that exists if no point can
        move up, or none down; the violation is then 0), else as given.
    violation : float
        Largest of e_up - intercept and e_down + intercept, at least 0; half of LIBSVM's criterion
        max e_up + max e_down where `coupled`.
    """
    e_up, e_down = np.empty_like(e), np.empty_like(e)
    up, down = _extremes(beta, e, lower, upper, epsilon, e_up, e_down)
    if coupled:
        if up == MINUS_INFINITY or down == MINUS_INFINITY:
            # No pair can move, so the one extreme that exists is a valid multiplier.
            multiplier = up if down == MINUS_INFINITY else -down
            return e_up, e_down, (intercept if multiplier == MINUS_INFINITY else multiplier), 0.0
        intercept = 0.5 * (up - down)
    return e_up, e_down, intercept, max(up - intercept, down + intercept, 0.0)


@njit(cache=True, fastmath={"nnan", "nsz"})
def _extremes(beta, e, lower, upper, epsilon, e_up, e_down):
    up, down = MINUS_INFINITY, MINUS_INFINITY
    for i in range(beta.shape[0]):
        lift = -epsilon if beta[i] >= 0.0 else epsilon
        drop = epsilon if beta[i] <= 0.0 else -epsilon
        u = e[i] + lift if beta[i] < upper[i] else MINUS_INFINITY
        d = -(e[i] + drop) if beta[i] > lower[i] else MINUS_INFINITY
        e_up[i], e_down[i] = u, d
        up, down = max(up, u), max(down, d)
    return up, down


@njit(cache=True, nogil=True)
def _slack(beta, residual, lower, upper, intercept, epsilon, points, out, start, stop):
    """out[k] = slack of points[k], start <= k < stop."""
    for k in range(start, stop):
        i = points[k]
        e = residual[i] - intercept
        lift = -epsilon if beta[i] >= 0.0 else epsilon
        drop = epsilon if beta[i] <= 0.0 else -epsilon
        down = e + drop if beta[i] > lower[i] else np.inf
        out[k] = min(down, -(e + lift) if beta[i] < upper[i] else np.inf)


_expose_slack = divided(_slack)


@njit(cache=True, nogil=True)
def _shared_slack(arguments, n, block, mailboxes):
    share(_expose_slack(arguments), n, block, mailboxes)


_SLACK = Loop(_slack, _shared_slack)
