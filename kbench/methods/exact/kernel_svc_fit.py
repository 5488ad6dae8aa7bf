"""A fit of `KernelSVC`: its data, the solutions of its problems, and the start of the next fit."""

from typing import Any, NamedTuple

import numpy as np

from kbench.kernels import Kernel, KernelMatrix
from kbench.kernels.threads import cached_property
from kbench.methods.base.box_svc import KernelProblems, Start
from kbench.methods.exact.expansions import interior_note, small_rows
from kbench.methods.exact.interior import Dual
from kbench.solvers import BoxDualResult
from kbench.solvers.small import GaussianRows, MatrixRows

# The large-problem solver starts at the last fit's gradient only if its error is below this: such
# errors belong to points far from their margin, and do not matter at any tolerance. Larger ones
# take longer to correct in float64 than the solver takes from zero in float32. Set by hand.
_USABLE_ERROR = 1e-4


class LastFit(NamedTuple):
    """The solution of a fit, from which the next fit with `warm_start` can start."""

    kernel: Kernel
    rows_key: str  # hash of X
    labels: np.ndarray
    C: np.ndarray
    coef: np.ndarray  # as Solution.coef
    results: list[BoxDualResult] | None  # of all problems, if the large-problem solver solved them

    @classmethod
    def of(cls, data: "TrainingSet", solution: "Solution") -> "LastFit":
        """Keep what the next fit needs of this one."""
        return cls(data.kernel, data.rows_key, data.labels, data.C, solution.coef, solution.results)

    def scaled(self, C: np.ndarray) -> np.ndarray:
        """Coefficients times the ratio of the bounds C : (n,) to those of this fit, within C."""
        return np.clip(self.coef * float(C.max() / self.C.max()), -C, C)

    def start(
        self,
        problem: KernelProblems,
        pairs: list[tuple[int, int]] | None,
        rows_key: str,
        tol: float,
    ) -> Start:
        """The start of the large-problem solver: the coefficients of this fit, scaled to C.

        Scaling keeps y'a = 0 and leaves points at their upper bound there. If kernel and rows are
        the same as well, the gradient Qa - e is known, because Qa scales with a. `pairs` are the
        classes of each problem, if the problems are those of pairs.
        """
        coef = self.scaled(problem.C)
        if pairs is None:
            alpha = np.abs(coef.T)
        else:
            alpha = np.zeros(problem.Y.shape)
            for p, (a, b) in enumerate(pairs):
                is_a, is_b = problem.labels == a, problem.labels == b
                alpha[is_a, p], alpha[is_b, p] = coef[b - 1, is_a], -coef[a, is_b]
        is_same = problem.kernel.kernel == self.kernel and rows_key == self.rows_key
        if self.results is None or not is_same:
            return Start(alpha)
        ratio = float(problem.C.max() / self.C.max())
        error = ratio * max(result.gradient_error for result in self.results)
        if error > max(tol, _USABLE_ERROR):
            return Start(alpha)
        gradient = np.column_stack([result.gradient for result in self.results])
        return Start(alpha, ratio * (gradient + 1.0) - 1.0, error)


class TrainingSet:
    """A checked training set with its kernel, in the forms that the solvers need."""

    def __init__(self, X: Any, labels: np.ndarray, C: np.ndarray, kernel: Kernel) -> None:
        self.X, self.labels, self.C, self.kernel = X, labels, C, kernel
        self.order = np.argsort(labels, kind="stable")
        self.rows_key = ""  # hash of X with `warm_start`, otherwise not needed

    def dual(self, y: np.ndarray) -> Dual:
        """The binary problem of signs y : (n,), 0 for rows that are not in it."""
        rows = np.flatnonzero(y)
        z, C = y[rows], self.C[rows]
        return Dual(rows, z, np.minimum(0.0, z * C), np.maximum(0.0, z * C))

    def matrix(self, dtype: Any) -> KernelMatrix:
        """The kernel matrix of the rows, in their own order."""
        return KernelMatrix(self.kernel, self.X, dtype)

    @cached_property
    def sorted_rows(self) -> GaussianRows | MatrixRows:
        """Kernel values for the small-problem solver, rows sorted by class."""
        return small_rows(self.kernel, self.X, self.order)


class Solution:
    """Solutions of m binary problems, collected from all solvers.

    Parameters
    ----------
    coef : (m, n), or (n_classes - 1, n) for pairs
        y_i a_i, in the order of the rows; see `SmallDualResult`.
    """

    def __init__(self, m: int, coef: np.ndarray) -> None:
        self.coef = coef
        self.intercept, self.objective, self.violation, self.duality_gap = np.zeros((4, m))
        self.n_iter = np.zeros(m, np.int64)
        self.reasons = ["tol"] * m
        # Iterations of each problem that the interior-point method solved.
        self.interior_iter: list[int] = []
        self.small_entries = 0  # kernel values that the small-problem solver computed
        # Set if the large-problem solver solved all problems.
        self.results: list[BoxDualResult] | None = None

    def set_coef(self, p: int, coef: np.ndarray, pair: tuple[int, int] | None, labels: Any) -> None:
        """Set the coefficients (n,) of problem p; pair is None if all classes are in it."""
        if pair is None:
            self.coef[p] = coef
            return
        a, b = pair
        is_a, is_b = labels == a, labels == b
        self.coef[b - 1, is_a], self.coef[a, is_b] = coef[is_a], coef[is_b]

    def record(self, problems: Any, result: Any) -> None:
        """Copy the numbers of one or several problems from the result of any solver."""
        problems = np.asarray(problems)  # a list would be converted at every use
        for name in ("intercept", "objective", "violation", "duality_gap"):
            getattr(self, name)[problems] = getattr(result, name)
        self.n_iter[problems] += result.n_iter

    @property
    def notes(self) -> tuple[str, ...]:
        """The entry of `notes_` on problems that the interior-point method solved, if any."""
        if not self.interior_iter:
            return ()
        return (interior_note(len(self.interior_iter), len(self.reasons), sum(self.interior_iter)),)
