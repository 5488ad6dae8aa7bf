"""The dual of `nu_descent`, a feasible point to start at, and the solution."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kbench.solvers.box_dual.duplicates import Duplicates


class NuProblem(NamedTuple):
    """The dual over the points of a kernel matrix; `norm` is t of `nu_descent`."""

    kernel: Any
    z: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    norm: float

    @property
    def has_fixed_norm(self) -> bool:
        """Whether no coefficient can change its sign, so that |b|_1 is a signed sum of them."""
        return not ((self.lower < 0.0) & (self.upper > 0.0)).any()

    def has_shared_points(self) -> bool:
        """Whether equal points of both classes are known to have bounds of t / 2 in each of them.

        They solve the problem with Kb = 0 then, and the margin is 0. A strictly positive definite
        kernel has no other problems without a margin. O(n d).
        """
        is_known = self.kernel.X is not None and self.kernel.kernel.is_definite
        copies = Duplicates.of(self.kernel.X) if is_known else None
        if copies is None:
            return False
        upper_sums, lower_sums = (
            np.bincount(copies.kind, bound) for bound in (self.upper, -self.lower)
        )
        return bool(np.minimum(upper_sums, lower_sums).sum() >= 0.5 * self.norm)

    def take(self, rows: np.ndarray) -> "NuProblem":
        """Return the problem of some points; t is divided in proportion to the sums of bounds."""
        lower, upper = self.lower[rows], self.upper[rows]
        fraction = (upper - lower).sum() / (self.upper - self.lower).sum()
        norm = min(self.norm * fraction, 2.0 * upper.sum(), -2.0 * lower.sum())
        return NuProblem(self.kernel.take(rows), self.z[rows], lower, upper, float(norm))


@dataclass(frozen=True)
class NuDualResult:
    """Solution of the dual and how it was reached."""

    coef: np.ndarray  # (n,) float64: b
    # c and epsilon, means over free points where there are any.
    intercept: float
    epsilon: float
    objective: float  # 1/2 b'Kb - z'b
    # The largest violation of the four kinds of steps of `side_steps`, from float64 kernel values:
    # LIBSVM's criterion.
    violation: float
    duality_gap: float  # Primal minus dual objective, at least 0
    n_iter: int  # Steps of two coordinates
    # {"tol", "max_iter", "max_time", "precision", "margin"}. "margin": the margin of a classifier,
    # -epsilon, is not above half of the violation, and it is 0 because the classes share points, or
    # that is so even after as many steps again, or at a tolerance of tol / 100.
    stop_reason: str


class Start(NamedTuple):
    """A feasible point, and the number of steps that have led to it."""

    beta: np.ndarray  # (n,) float64
    n_iter: int


def has_margin(result: NuDualResult) -> bool:
    """Whether the margin of a classifier is above half of the violation."""
    return -result.epsilon > 0.5 * result.violation
