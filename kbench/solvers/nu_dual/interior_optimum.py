"""The optimum of a dual with the parameter nu, by the interior-point method on a stored matrix."""

from typing import Any

import numpy as np

from kbench.solvers.box_dual.iterate import Budget
from kbench.solvers.interior_point.duals import solve_interior, solve_sides
from kbench.solvers.interior_point.factors import is_semidefinite
from kbench.solvers.interior_point.problem import StoredKernel

# Guard: rounding error of sums of coefficients, as a fraction of the 1-norm.
SUM_ERROR = 1e-9


def optimum(
    K: np.ndarray,
    z: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    norm: float,
    *,
    tol: float,
    budget: Budget,
) -> np.ndarray | None:
    """Coefficients (n,) of `nu_descent`'s problem within the bounds and with the right sums, mostly
    an optimum; None if K : (n, n) is not semidefinite, or the sums are wrong.

    A regression is first solved without a tube; that is its optimum if |b|_1 is within `norm`.
    """
    if not is_semidefinite(K):
        return None
    matrix = StoredKernel(K, centred=True)
    options: dict[str, Any] = {"tol": tol, "stopped": lambda: bool(budget.reached_limit())}
    has_fixed_norm = not ((lower < 0.0) & (upper > 0.0)).any()
    result = None
    if not has_fixed_norm:
        result = solve_interior(matrix, z, lower, upper, coupled=True, **options)
        budget.spend(result.n_iter)
    if result is None or np.abs(result.coef).sum() > norm:
        result = solve_sides(matrix, z, lower, upper, 0.5 * norm, **options)
        budget.spend(result.n_iter)
    b = result.coef
    sums = np.array([b[b > 0.0].sum(), -b[b < 0.0].sum()])
    sum_error = np.abs(sums - (0.5 * norm if has_fixed_norm else sums.mean())).max()
    return b if max(sum_error, sums.sum() - norm) <= SUM_ERROR * norm else None
