"""Dual of the support vector machine on a compressed kernel matrix: ADMM, polished on request."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np

from kbench.methods._box_svc import Start, solve_problems
from kbench.methods._hss import CompressedKernel
from kbench.solvers import ADMMResult, balance, intercepts, solve_admm
from kbench.trace import Trace

# MiB of kernel rows that the exact solver may keep.
_CACHE_MB = 1000.0
# From a start with more coefficients than this share of the rows, the exact solver computes more
# kernel values than from zero.
_DENSE = 0.5
# Steps that grow by more than rounding raise beta to so many times itself, so often at most.
_GROWTH = 1.01
_RAISE = 4.0
_RAISES = 5


@dataclass(frozen=True)
class DualSolution:
    """Solutions of the m problems for each of p bounds.

    Attributes
    ----------
    coef : (n, p, m)
        y_i z_i.
    intercept, objective : (p, m)
        The objective is 1/2 z'YKYz - e'z, with K~ where not polished.
    admm : ADMMResult
        Its columns are p times m.
    kernel_entries : int
        Kernel values that polishing computed.
    violation : float
        Largest violation after polishing; nan without.
    converged : bool
        Of what was run last.
    """

    coef: np.ndarray
    intercept: np.ndarray
    objective: np.ndarray
    admm: ADMMResult
    kernel_entries: int
    violation: float
    converged: bool

    @property
    def grows(self) -> bool:
        """Whether the compressed matrix is too indefinite for beta."""
        return self.admm.growth > _GROWTH


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
    may_raise: bool,
    trace: Trace,
) -> DualSolution:
    """Solve all problems for all bounds together.

    Parameters
    ----------
    compressed : CompressedKernel of n points
    Y : (n, m) of -1 and +1
    C : (n, p)
    beta, dtype
        Shift and precision of the factors.
    max_iter, tol
        As in `solve_admm`.
    polish_tol : float or None
        Violation to which the exact solver goes on with the kernel itself; None: not at all.
    may_raise : bool
        Whether the iteration begins anew with a greater beta where its steps grow.
    trace : Trace
        Charged with "factor", "admm", "polish".

    Raises
    ------
    numpy.linalg.LinAlgError
        A ValueError: K~ + beta I is not positive definite.
    """
    (n, m), p = Y.shape, C.shape[1]
    columns, bounds = np.tile(Y, p), np.repeat(C, m, axis=1)
    attempts = count()

    def factorise(shift: float) -> Callable[[np.ndarray], np.ndarray]:
        # A later shift that is too small is no error.
        return compressed.factorise(shift, dtype, explain=next(attempts) == 0).solve

    for _ in range(_RAISES + 1):
        admm = solve_admm(factorise, columns, bounds, beta, max_iter=max_iter, tol=tol, trace=trace)
        if not (may_raise and admm.growth > _GROWTH):
            break
        beta *= _RAISE
    if polish_tol is not None:
        with trace.phase("polish"):
            return _polish(compressed, Y, C, admm, polish_tol, trace)
    with trace.phase("admm"):
        coef = columns * admm.z
        products = np.asarray(compressed.matrix @ coef, np.float64)
        intercept = intercepts(lambda _: products, columns, admm.z, bounds, admm.multiplier)
        objective = 0.5 * np.sum(coef * products, axis=0) - admm.z.sum(axis=0)
    return DualSolution(
        coef=coef.reshape(n, p, m),
        intercept=intercept.reshape(p, m),
        objective=objective.reshape(p, m),
        admm=admm,
        kernel_entries=0,
        violation=np.nan,
        converged=admm.converged,
    )


def _polish(
    compressed: CompressedKernel,
    Y: np.ndarray,
    C: np.ndarray,
    admm: ADMMResult,
    tol: float,
    trace: Trace,
) -> DualSolution:
    """Go on exactly: bounded variables are known by now, and free ones not far off."""
    (n, m), p = Y.shape, C.shape[1]
    permutation = compressed.matrix.tree_.permutation
    coef = np.zeros((n, p, m))
    results = []
    for j in range(p):
        start = balance(Y, admm.z[:, j * m : (j + 1) * m], C[:, [j]])
        start[:, np.count_nonzero(start, axis=0) > _DENSE * n] = 0.0
        solved = solve_problems(
            compressed.matrix.kernel_,
            Y[permutation],
            C[permutation, j],
            Start(start[permutation]),
            trace=trace,
            intercept=True,
            tol=tol,
            cache_mb=_CACHE_MB,
        )
        coef[permutation, j] = np.column_stack([result.alpha for result in solved])
        coef[:, j] *= Y
        results += solved
    return DualSolution(
        coef=coef,
        intercept=np.array([result.intercept for result in results]).reshape(p, m),
        objective=np.array([result.objective for result in results]).reshape(p, m),
        admm=admm,
        kernel_entries=sum(result.kernel_entries for result in results),
        violation=max(result.violation for result in results),
        converged=all(result.converged for result in results),
    )
