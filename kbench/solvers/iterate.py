"""The state of a dual problem that is being solved, in the variables of the decision function.

With beta_i = y_i a_i and z = -y p the dual is  min 1/2 b'Kb - z'b  over the box l <= b <= u, where
one of l_i, u_i is 0. Its negative gradient e = z - Kb is the residual; with an intercept, the
multiplier of 1'b = const, optimality concerns e - intercept:

    resistance_i = min(  e_i - intercept  if b_i > l_i,  -(e_i - intercept)  if b_i < u_i  )

says how firmly a point is held where it is; -resistance_i, where positive, is its violation.
"""

import copy
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit, types

from kbench.kernels import KernelMatrix
from kbench.kernels.handing_over import SHARED, shared
from kbench.kernels.threads import in_parts
from kbench.trace import Trace

_FAR = 1e300
# To look at a point somewhere, and how many are looked at together: a cache line of the output.
_NANOSECONDS = 2.0
_TOGETHER = 8


@dataclass
class Budget:
    """Limits of a solve, shared by all its parts."""

    max_iter: float = math.inf
    max_time: float = math.inf
    trace: Trace = field(default_factory=Trace)
    n_iter: int = 0

    def __post_init__(self) -> None:
        self._deadline = time.perf_counter() - self.trace.paused_wall_s + self.max_time
        self._lock = threading.Lock()

    @property
    def in_order(self) -> bool:
        """Whether it matters which part is solved before which."""
        return self.trace.active or self.max_iter < math.inf

    def spend(self, steps: int) -> None:
        """Count steps; parts may do so at the same time."""
        with self._lock:
            self.n_iter += steps

    def exhausted(self) -> str:
        """The limit that was met, or ""."""
        if self.n_iter >= self.max_iter:
            return "max_iter"
        if time.perf_counter() - self.trace.paused_wall_s >= self._deadline:
            return "max_time"
        return ""


class Iterate:
    """b with its residual, over n points.

    Parameters
    ----------
    kernel : KernelMatrix of n points
    z, lower, upper : (n,) float64
    coupled : bool
        Whether the sum of b is fixed and `intercept` its multiplier; else `intercept` is a number
        that does not move.
    beta : (n,) float64, optional
        Where to start, inside the box; default 0.
    residual : (n,) float64, optional
        The residual there, nan where it is not known; default nan everywhere, or z of beta = 0.
    residual_error : float
        Bound on the error of what is given.
    budget : Budget
    expand : callable, optional
        What the trace is to be shown for `beta`, if not that.

    Attributes
    ----------
    beta, residual : (n,) float64
        The residual is true only where the solver has brought it up to date.
    objective : float
        f(beta); where it starts at a point whose residual is not known, of the parts done so far.
    residual_error : float
        Largest error that was seen, or given, in a residual from float32 values; 0 where all are
        from float64 values.
    scale : float
        Size of the linear term, in whose units the solver's distances are: 1 for classification.
    """

    def __init__(
        self,
        kernel: KernelMatrix,
        z: np.ndarray,
        lower: np.ndarray,
        upper: np.ndarray,
        *,
        coupled: bool,
        budget: Budget,
        beta: np.ndarray | None = None,
        residual: np.ndarray | None = None,
        residual_error: float = 0.0,
        intercept: float = 0.0,
        expand: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.kernel, self.z, self.lower, self.upper = kernel, z, lower, upper
        self.coupled, self.budget, self.intercept = coupled, budget, intercept
        self.expand = expand
        self.beta = np.zeros(len(z)) if beta is None else beta
        if residual is None:
            residual = np.full(len(z), np.nan) if self.beta.any() else z.copy()
        self.residual, self.residual_error = residual, residual_error
        self.diagonal = np.maximum(kernel.diagonal(), 1e-12)
        self.scale = float(np.abs(z).mean()) or 1.0
        at_start = self._objective(np.flatnonzero(self.beta))
        self.objective = 0.0 if math.isnan(at_start) else at_start
        # A part tells its iterate through the one that it belongs to.
        self._whole: tuple[Iterate, np.ndarray] | None = None
        self._told = 0.0
        self._silent = False

    def part(self, points: np.ndarray, coupled: bool = False) -> "Iterate":
        """The problem of some of the points alone; O(len(points) d).

        The intercept stays as it is, unless `coupled`: then the part has its own, and what it
        finds is not shown to the trace.
        """
        part = Iterate(
            self.kernel.take(points),
            self.z[points],
            self.lower[points],
            self.upper[points],
            coupled=coupled,
            budget=self.budget,
            beta=self.beta[points],
            residual=self.residual[points],
            residual_error=self.residual_error,
            intercept=self.intercept,
        )
        part._whole, part._silent, part._told = (self, points), coupled, part.objective
        return part

    def on(self, kernel: KernelMatrix) -> "Iterate":
        """The same problem and point, with another way to its kernel values."""
        twin = copy.copy(self)
        twin.kernel = kernel
        return twin

    def adopt(self, part: "Iterate") -> None:
        """Take over what a part has become."""
        assert part._whole is not None
        points = part._whole[1]
        self.beta[points], self.residual[points] = part.beta, part.residual
        self.residual_error = max(self.residual_error, part.residual_error)
        self.objective += part.objective - part._told
        part._told = part.objective

    def __len__(self) -> int:
        return len(self.z)

    def resistance(self, points: np.ndarray | None = None) -> np.ndarray:
        """How firmly these points (default: all) are held; negative where they are in violation."""
        indices = np.arange(len(self)) if points is None else points
        out = np.empty(len(indices))
        state = self.beta, self.residual, self.lower, self.upper, self.intercept
        cost = _NANOSECONDS * len(out)
        in_parts(
            _resistance, *state, indices, out, n=len(out), nanoseconds=cost, multiple=_TOGETHER
        )
        return out

    def settle(self) -> float:
        """Bring the intercept to the residual of all points; their largest violation."""
        self.intercept, violation = extremes(
            self.beta, self.residual, self.lower, self.upper, self.intercept, self.coupled
        )[2:]
        return violation

    def true_objective(self) -> float:
        """f(b), where the residual is up to date at all points that are not zero."""
        return self._objective(slice(None))

    def _objective(self, points: Any) -> float:
        # Kb = z - e
        return -0.5 * float(np.sum(self.beta[points] * (self.z + self.residual)[points]))

    def report(self, violation: float, n_active: int) -> None:
        """Tell the trace where the solve is."""
        if self._silent or not self.budget.trace.active:
            return
        if self._whole is not None:
            whole, _ = self._whole
            whole.adopt(self)
            whole.report(violation, n_active)
            return
        with self.budget.trace.pause():
            beta = self.beta if self.expand is None else self.expand(self.beta)
            state = {
                "alpha": np.abs(beta),
                "objective": self.objective,
                "violation": 2.0 * violation if self.coupled else violation,
                "n_support": int(np.count_nonzero(beta)),
                "n_active": n_active,
            }
        self.budget.trace(**state)

    def complete(self) -> None:
        """Compute the residual where it is not known, in float32 entries."""
        unknown = np.flatnonzero(np.isnan(self.residual))
        self.residual[unknown] = self.z[unknown]
        self.update(unknown, np.zeros(len(self)))

    def update(self, points: np.ndarray, beta_before: np.ndarray) -> None:
        """Bring the residual of `points` from `beta_before` (n,) to `beta`, in float32 entries."""
        moved = np.flatnonzero(self.beta != beta_before)
        if len(moved) and len(points):
            change = (self.beta - beta_before)[moved]
            self.residual[points] -= self.kernel.product(moved, change, rows=points)


def extremes(
    beta: np.ndarray,
    e: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    intercept: float,
    coupled: bool,
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Who can move where, and by how much optimality is missed.

    Returns
    -------
    e_up, e_down : (m,)
        e where b can grow, -1e300 elsewhere; -e where b can fall, -1e300 elsewhere.
    intercept : float
        The middle of max e_up and min -e_down where `coupled`, else as given.
    violation : float
        Largest of e_up - intercept and e_down + intercept; half of LIBSVM's gap where `coupled`.
    """
    e_up, e_down = np.empty_like(e), np.empty_like(e)
    up, down = _extremes(beta, e, lower, upper, e_up, e_down)
    if coupled:
        if up == -_FAR or down == -_FAR:
            # Nothing can move: any number beyond the points that are there is a multiplier.
            only = up if down == -_FAR else -down
            return e_up, e_down, (intercept if only == -_FAR else only), 0.0
        intercept = 0.5 * (up - down)
    return e_up, e_down, intercept, max(up - intercept, down + intercept, 0.0)


@njit(
    ["UniTuple(f8, 2)(f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1])"],
    cache=True,
    fastmath={"nnan", "nsz"},
)
def _extremes(beta, e, lower, upper, e_up, e_down):
    up, down = -_FAR, -_FAR
    for i in range(beta.shape[0]):
        u = e[i] if beta[i] < upper[i] else -_FAR
        d = -e[i] if beta[i] > lower[i] else -_FAR
        e_up[i], e_down[i] = u, d
        up, down = max(up, u), max(down, d)
    return up, down


@njit
def _some_resistances(beta, residual, lower, upper, intercept, points, out, start, stop):
    for k in range(start, stop):
        i = points[k]
        e = residual[i] - intercept
        down = e if beta[i] > lower[i] else np.inf
        out[k] = min(down, -e if beta[i] < upper[i] else np.inf)


_share_resistances = shared(_some_resistances)
_vector = types.float64[::1]


@njit(
    [types.void(*[_vector] * 4, types.float64, types.int64[::1], _vector, *SHARED)],
    cache=True,
    nogil=True,
)
def _resistance(beta, residual, lower, upper, intercept, points, out, n, part, boxes):
    arguments = (beta, residual, lower, upper, intercept, points, out)
    _share_resistances(arguments, n, part, boxes)
