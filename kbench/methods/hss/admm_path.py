"""Dual of the support vector machine on a compressed kernel matrix: ADMM, optionally polished.

Cipolla and Gondzio (EURO J. Comput. Optim. 10, 2022), Algorithm 3, for several values of C and
several one-vs-rest problems at once; see `kbench.solvers.admm.svm_admm` for the iteration.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from kbench.intrinsics.products import matmul
from kbench.methods.base.box_svc import Start, solve_problems
from kbench.methods.hss.hss import CompressedKernel
from kbench.solvers import ADMMResult, balance, intercepts, solve_admm
from kbench.trace import Deadline, Trace

# MiB of kernel rows that the exact solver may keep, as by default in `KernelSVC`: more memory saves
# kernel values. Set by hand.
_CACHE_MB = 1000.0
# The exact solver starts from zero if more than this fraction of the rows have a coefficient: the
# gradient at such a start takes more kernel values than the start saves. Set by hand.
_MAX_START_FRACTION = 0.5
# ADMM counts as diverging if its squared step length grows by more than 1 %; less may be rounding.
# Beta is then multiplied by `_BETA_FACTOR`, at most `_MAX_BETA_RAISES` times, that is by at most
# 1,024 in all: a smaller factor finds a smaller beta but runs ADMM more often. Set by hand.
_MAX_GROWTH = 1.01
_BETA_FACTOR = 4.0
_MAX_BETA_RAISES = 5


@dataclass(frozen=True)
class DualSolutionPath:
    """Solutions of m problems for each of p values of C."""

    coef: np.ndarray  # (n, p, m): y_i z_i
    intercept: np.ndarray  # (p, m)
    # (p, m): 1/2 z'YKYz - e'z after polishing; without polishing, K~ takes the place of K.
    objective: np.ndarray
    admm: ADMMResult  # p m columns: the m problems of the first C, of the second C, ...
    kernel_entries: int  # Kernel values that polishing computed
    violation: float  # Largest KKT violation after polishing; nan without polishing
    converged: bool  # Whether polishing converged; without polishing, whether ADMM did
    stop_reason: str  # Stop reason of polishing, if it was done, or of ADMM

    @property
    def diverges(self) -> bool:
        """Whether the steps of ADMM grew: the compressed matrix is too indefinite for beta."""
        return self.admm.growth > _MAX_GROWTH


def solve_dual(
    compressed: CompressedKernel,
    Y: np.ndarray,
    C: np.ndarray,
    beta: float,
    dtype: str,
    *,
    max_iter: int,
    tol: float | None,
    polish_tol: float | None,
    may_raise_beta: bool,
    deadline: Deadline,
    trace: Trace,
) -> DualSolutionPath:
    """Solve m problems for p values of C together.

    compressed : CompressedKernel of n points
    Y : (n, m) of -1 and +1
    C : (n, p). Upper bounds.
    beta, dtype : Shift and precision of the factors
    max_iter, tol : Parameters of `solve_admm`
    polish_tol : Tolerance of the exact solver that continues from the iterate; None skips it
    may_raise_beta : Restart the iteration with a larger beta if its steps grow
    trace : Records the phases "factor", "admm", "polish"

    Raises numpy.linalg.LinAlgError: K~ + beta I is not positive definite (a LinAlgError is a
    ValueError).
    """
    (n, m), p = Y.shape, C.shape[1]
    labels, upper_bounds = np.tile(Y, p), np.repeat(C, m, axis=1)
    attempts = count()

    def factorise(shift: float) -> Callable[[np.ndarray], np.ndarray]:
        # Only the user's beta needs the message; `solve_admm` handles failures of a later beta.
        return compressed.factorise(shift, dtype, explain=next(attempts) == 0).solve

    for _ in range(_MAX_BETA_RAISES + 1):
        admm = solve_admm(
            factorise,
            labels,
            upper_bounds,
            beta,
            max_iter=max_iter,
            tol=tol,
            max_time=deadline.seconds_left(),
            trace=trace,
        )
        if not (may_raise_beta and admm.growth > _MAX_GROWTH) or deadline.passed:
            break
        beta *= _BETA_FACTOR
    if polish_tol is not None:
        with trace.phase("polish"):
            return _polish(compressed, Y, C, admm, polish_tol, deadline, trace)
    with trace.phase("admm"):
        coef = labels * admm.z
        products = np.asarray(matmul(compressed.matrix, coef), np.float64)
        intercept = intercepts(lambda _: products, labels, admm.z, upper_bounds)
        objective = 0.5 * np.sum(coef * products, axis=0) - admm.z.sum(axis=0)
    return DualSolutionPath(
        coef=coef.reshape(n, p, m),
        intercept=intercept.reshape(p, m),
        objective=objective.reshape(p, m),
        admm=admm,
        kernel_entries=0,
        violation=np.nan,
        converged=admm.converged,
        stop_reason=admm.stop_reason,
    )


def _polish(
    compressed: CompressedKernel,
    Y: np.ndarray,
    C: np.ndarray,
    admm: ADMMResult,
    tol: float,
    deadline: Deadline,
    trace: Trace,
) -> DualSolutionPath:
    """Solve the exact dual from ADMM's iterate, which has most points at their right bounds."""
    (n, m), p = Y.shape, C.shape[1]
    permutation = compressed.matrix.tree_.permutation
    coef = np.zeros((n, p, m))
    results = []
    for j in range(p):
        start = balance(Y, admm.z[:, j * m : (j + 1) * m], C[:, [j]])
        start[:, np.count_nonzero(start, axis=0) > _MAX_START_FRACTION * n] = 0.0
        column_results = solve_problems(
            compressed.matrix.ordered_kernel_,
            Y[permutation],
            C[permutation, j],
            Start(start[permutation]),
            trace=trace,
            intercept=True,
            tol=tol,
            cache_mb=_CACHE_MB,
            max_time=deadline.seconds_left(),
        )
        coef[permutation, j] = np.column_stack([result.alpha for result in column_results])
        coef[:, j] *= Y
        results += column_results
    return DualSolutionPath(
        coef=coef,
        intercept=np.array([result.intercept for result in results]).reshape(p, m),
        objective=np.array([result.objective for result in results]).reshape(p, m),
        admm=admm,
        stop_reason=next((r.stop_reason for r in results if not r.converged), "tol"),
        kernel_entries=sum(result.kernel_entries for result in results),
        violation=max(result.violation for result in results),
        converged=all(result.converged for result in results),
    )
