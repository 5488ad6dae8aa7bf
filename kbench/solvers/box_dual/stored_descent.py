"""Descent on a set S with many free points and a stored kernel matrix.

If the free points do not fit into one working set, working sets undo each other's steps: 5,000 rows
of noise with C = 100 and 2,470 free points take 940,000 steps in working sets, and 210,000 steps
with all rows in one set. So, with K_SS in memory,

    repeat
      _STEPS_PER_FREE_POINT steps of pairs for each free point
      if few points became free or met a bound, and the steps since the last minimum have cost as
        much as one: the minimum over all free points
    until the violation on S <= target

The minimum over the free points (`face_pivoting`) replaces the last two thirds of the steps. While
the set of free points still changes, the next steps undo most of the minimum. The violation does
not show when the set has settled: a few points keep it large until shortly before the end.
"""

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.kernels import KernelMatrix
from kbench.solvers.box_dual.face_pivoting import descend_to_minimum
from kbench.solvers.box_dual.iterate import PATIENCE, Iterate, extremes, free_points
from kbench.solvers.box_dual.options import SolverOptions
from kbench.solvers.box_dual.pair_descent import pair_steps
from kbench.solvers.box_dual.row_cache import product_of_rows

# Steps for each free point in a round, and the largest fraction of the free points that changes in
# a round when they have settled. With 0.02 or 0.1 instead of 0.05, 5,000 to 8,000 rows of everyday
# data at C = 100 take as long within a tenth (`scripts/bench_everyday.py`).
_STEPS_PER_FREE_POINT, _SETTLED = 4, 0.05
# Limit on the points of a minimum: 6,000 points take 275 MiB and 1.5 s. Set by hand.
_MAX_FREE = 6000
# A minimum over m free points is due when _WORK_OF_STEP times the steps since the last minimum
# times |S| is at least m^3 / 3, the multiplications of its Cholesky factorisation: the steps have
# then taken half as long as the factorisation will. A step reads two rows of K and six arrays from
# memory, about 1.2 ns for each point; a factorisation makes about 16 multiplications in a
# nanosecond. If the minimum was not found, because too many points were outside their bounds, the
# next attempt waits for the work of _AFTER_FAILURE further factorisations. With both rules, bike at
# C = 256 takes 20 s instead of 26; 5,000 to 8,000 rows of everyday data take as long as without
# them (`scripts/bench_everyday.py`).
_WORK_OF_STEP = 36
_AFTER_FAILURE = 2.0


class StoredDescent:
    """Descent of pairs on the points S of an iterate with an intercept.

    Parameters
    ----------
    kernel : KernelMatrix of the iterate's points
    S : (m,) indices
    K : (m, m). K_SS in the precision of the steps.
    """

    def __init__(
        self,
        iterate: Iterate,
        kernel: KernelMatrix,
        S: np.ndarray,
        K: np.ndarray,
        options: SolverOptions,
    ) -> None:
        self.iterate, self.kernel, self.S, self.K = iterate, kernel, S, K
        self.options = options

    def solve(self, target: float) -> float:
        """Lower the violation on S to `target`; return the violation at the end.

        As `BlockDescent.solve`; a round costs O(m^2) and a bounded number of steps.
        """
        it, S, budget = self.iterate, self.S, self.iterate.budget
        beta, e, lower, upper = it.beta[S], it.residual[S], it.lower[S], it.upper[S]
        diagonal = it.diagonal[S]
        eps, squared_changes = np.finfo(self.K.dtype).eps * diagonal.max(initial=0.0), 0.0
        take_steps = self.options.inner_steps or pair_steps
        lowest, n_stalled, has_settled, work = np.inf, 0, False, 0.0
        while True:
            it.intercept, violation = extremes(
                beta, e, lower, upper, it.intercept, it.epsilon, coupled=True
            )[2:]
            rounding = eps * np.sqrt(squared_changes)
            if violation <= max(target, rounding) or budget.reached_limit():
                break
            free = free_points(beta, lower, upper)
            n_free = int(np.count_nonzero(free))
            is_due = has_settled and work >= n_free**3 / 3 and self.options.face_newton
            if is_due and n_free <= _MAX_FREE:
                has_settled = False
                step = descend_to_minimum(
                    self.kernel, S, beta, e, lower, upper, it.epsilon, self._product
                )
                work = -_AFTER_FAILURE * n_free**3 / 3 if step is None else 0.0
                if step is not None:
                    it.objective -= step.decrease
                    squared_changes += float(matmul(step.change, step.change))
                    continue
            lowest, n_stalled = min(lowest, violation), 0 if violation < lowest else n_stalled + 1
            if n_stalled > PATIENCE:
                break
            before, v = beta.copy(), e - it.intercept
            # More points may become free: at least the steps for an eighth of S. Set by hand.
            max_steps = _STEPS_PER_FREE_POINT * max(n_free, len(S) // 8 + 1)
            steps = take_steps(
                self.K,
                beta,
                v,
                lower,
                upper,
                diagonal,
                2.0 * target,
                int(min(max_steps, budget.max_iter - budget.n_iter)),
                it.epsilon,
            )
            if steps == 0:
                break
            budget.spend(steps)
            work += _WORK_OF_STEP * steps * len(S)
            v += it.intercept
            it.lower_objective(before, beta, e, v)
            e = v
            changed = np.count_nonzero(free_points(beta, lower, upper) != free)
            has_settled = bool(changed <= _SETTLED * n_free)
            if budget.trace.active:
                it.beta[S] = beta
                it.report(violation, len(S))
        it.beta[S], it.residual[S] = beta, e
        it.rounding += eps * np.sqrt(squared_changes)
        return violation

    def _product(self, moved: np.ndarray, change: np.ndarray) -> np.ndarray:
        """K_SS change, (m,) float64."""
        return product_of_rows(self.K, moved, change)
