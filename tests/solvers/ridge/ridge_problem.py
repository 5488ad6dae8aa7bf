"""The problem that the tests of the solvers of kernel ridge share."""

import numpy as np

from kbench.kernels import KernelMatrix, make_kernel
from kbench.trace import Trace

KERNELS = ["rbf", "laplacian", "matern32", "matern52"]


def problem(kernel="rbf", n=120, m=2, seed=0, gamma=0.3, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    Y = np.sin(X.sum(axis=1))[:, None] + 0.1 * rng.normal(size=(n, m))
    return KernelMatrix(make_kernel(kernel, X, gamma=gamma, degree=3, coef0=0.0), X, dtype), Y


def iterates(solve, matrix, Y, ridge, **options):
    """The coefficients after each step, as the solver shows them, and its result."""
    shown = []
    trace = Trace(lambda _, state: shown.append(state["predict"]))
    given = {"tol": 1e-14, "rng": np.random.RandomState(3), "trace": trace}
    result = solve(matrix, Y, ridge, predictor=lambda x: x.copy(), **given, **options)
    return shown, result
