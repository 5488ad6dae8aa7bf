"""Choice of the interior-point method for duals: at once by rank, or after many steps.

The kernel's explicit map is used at once if its factorisations take fewer multiplications than the
kernel values of a dual solver (`solve_by_rank`). The
large-problem solver has no bound on its steps. If it gets a small problem, because there is no
intercept or most columns have two values, it stops after the number of steps that cost as much as
the interior-point method, which then solves the problem (`with_step_limit`). The small-problem
solver has such a limit of its own.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from kbench.kernels import Kernel
from kbench.kernels.value_range import KernelRangeError
from kbench.methods.exact.expansions import small_rows
from kbench.solvers.interior_point.counted_work import MAX_STORED, is_low_rank, steps_before
from kbench.solvers.interior_point.duals import InteriorResult, solve_interior
from kbench.solvers.interior_point.problem import LowRank, Matrix
from kbench.solvers.small import interior_work
from kbench.trace import Deadline, Trace


class Dual(NamedTuple):
    """A dual over chosen rows, as `solve_interior` takes it."""

    rows: np.ndarray  # (q,) row numbers in X, to which the q entries of z and bounds belong
    z: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    epsilon: float = 0.0


class InteriorPoint:
    """The interior-point method for duals of rows X : (n, d), dense or CSR, or kernel values.

    Parameters
    ----------
    X : as `KernelMatrix` takes it
    coupled : Whether there is an intercept
    cache_mb : MiB that an explicit map or a stored matrix may take
    max_iter : Limit on iterations; -1 means no limit
    coef_sum : The sum of the coefficients of a coupled problem
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        *,
        coupled: bool,
        tol: float,
        cache_mb: float,
        max_iter: int,
        deadline: Deadline,
        trace: Trace,
        coef_sum: float = 0.0,
    ) -> None:
        self._kernel, self._X, self._coupled, self._cache_mb = kernel, X, coupled, cache_mb
        self._tol, self._max_iter = tol, max_iter
        # Centring changes K b, unless the coefficients sum to 0.
        self._coef_sum, self._centred = coef_sum, coupled and coef_sum == 0.0
        self._deadline, self._trace = deadline, trace
        self._full_map: LowRank | None = None

    def uses_map(self, n: int) -> bool:
        """Whether a dual over n of the rows is solved on the kernel's explicit map at once."""
        if not self._kernel.of_rows or self._X.ndim < 2:  # texts, for example
            return False
        d = self._X.shape[1]
        rank = self._kernel.rank(d)
        # 16 bytes: float64 entries of the map and of a whitened copy (`LowRank`). A map as wide
        # as dense rows takes no more memory than the rows.
        fits_into_memory = 16.0 * n * rank <= self._cache_mb * 2**20 or (
            rank <= d and not sp.issparse(self._X)
        )
        return fits_into_memory and is_low_rank(n, rank, d)

    def solve_by_rank(self, dual: Dual) -> InteriorResult | None:
        """Solve on the explicit map; None if the method fails."""
        n = self._X.shape[0]
        if len(dual.rows) < n:
            return self._solve(self._map(dual.rows), dual)
        if self._full_map is None:
            self._full_map = self._map(dual.rows)
        return self._solve(self._full_map, dual)

    def _map(self, rows: np.ndarray) -> LowRank:
        X = self._X if len(rows) == self._X.shape[0] else self._X[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            return LowRank(self._kernel.explicit_map(X), centred=self._centred)

    def with_step_limit(
        self, dual: Dual, max_iter: int, solve: Callable[[int], Any]
    ) -> InteriorResult | Any:
        """The result of `solve(max_iter)`, or of this method if `solve` takes many steps.

        dual : steps are limited only if it has n <= `MAX_STORED` points, and this method's three
            n x n float64 matrices fit into `cache_mb`
        solve : solves the problem; its argument limits the steps, -1 for no limit
        """
        n = len(dual.rows)
        if n > MAX_STORED or 24.0 * n * n > self._cache_mb * 2**20:
            return solve(max_iter)
        work = interior_work(self._kernel, self._X, n)
        steps = 2**62 if math.isinf(work) else steps_before(n, work)  # 2^62 is no limit
        if 0 <= max_iter <= steps or math.isinf(work):
            return solve(max_iter)
        result_within_limit = solve(steps)
        if result_within_limit.stop_reason not in ("max_iter", "precision"):
            return result_within_limit
        try:
            kernel_rows = small_rows(self._kernel, self._X, dual.rows)
            matrix = kernel_rows.whole(np.arange(n), centred=self._centred)
        except KernelRangeError:
            return solve(max_iter)
        result = None if matrix is None else self._solve(matrix, dual)
        return solve(max_iter) if result is None else result

    def _solve(self, matrix: Matrix, dual: Dual) -> InteriorResult | None:
        if not np.isfinite(matrix.diagonal).all():
            return None
        result = solve_interior(
            matrix,
            dual.z,
            dual.lower,
            dual.upper,
            epsilon=dual.epsilon,
            coupled=self._coupled,
            total=self._coef_sum,
            tol=self._tol,
            max_iter=self._max_iter,
            stopped=lambda: self._deadline.passed,
        )
        if self._trace.active:
            self._trace(
                alpha=np.abs(result.coef),
                objective=result.objective,
                violation=result.violation,
                n_support=int(np.count_nonzero(result.coef)),
                solver="interior_point",
                n_iter=result.n_iter,
            )
        return result if result.stop_reason in ("tol", "rounding") else None
