"""Support vector classifiers for several C, each started from the one before."""

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

from kbench.kernels import KernelMatrix
from kbench.kernels.functions import Precomputed
from kbench.methods._box_svc import solve_problems
from kbench.methods.kernel_svc import KernelSVC
from kbench.prediction import KernelExpansion, prediction_dtype
from kbench.trace import Trace


def svc_path(
    X: Any,
    y: Any,
    C_values: Iterable[float],
    *,
    sample_weight: Any = None,
    **parameters: Any,
) -> list[KernelSVC]:
    """Fit a `KernelSVC` for each value of C.

    The dual variables of one value, times the ratio of the two, are feasible for the next and keep
    those at their bound there.

    Parameters
    ----------
    X : (n, d) array or CSR; with kernel="precomputed" (n, n)
    y : (n,) labels
    C_values : iterable of float
        In the order in which to solve; an ascending one needs the fewest steps.
    sample_weight : (n,), optional
    **parameters
        Of `KernelSVC`, the same for all.

    Returns
    -------
    list of KernelSVC
        Fitted, in the order of C_values.

    Raises
    ------
    ValueError
        What `KernelSVC` refuses.

    Notes
    -----
    The kernel matrix is computed once where it fits into `cache_mb`, 8 n^2 bytes; otherwise each
    value pays the rows of its start, those of the support vectors, and what changes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.methods import svc_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> [model.C for model in svc_path(X, y, [0.1, 1.0, 10.0])]
    [0.1, 1.0, 10.0]
    """
    models: list[KernelSVC] = []
    unit = KernelSVC(C=1.0, **parameters)
    unit._validate_params()
    problem = unit._problem(X, y, sample_weight)
    n = len(problem.Y)
    kernel = problem.kernel
    if 8 * n * n <= unit.cache_mb * 2**20:
        gram = kernel.astype(np.float64).block(np.arange(n))
        kernel = KernelMatrix(Precomputed(), gram, np.float64)
    alpha: np.ndarray | None = None
    n_entries = 0
    for C in C_values:
        model = copy.copy(unit).set_params(C=C)
        model._validate_params()
        trace = Trace()
        with trace.phase("solve"):
            results = solve_problems(
                kernel,
                problem.Y,
                C * problem.C,
                None if alpha is None else alpha * (C / models[-1].C),
                max_time=model.max_time,
                intercept=model.fit_intercept,
                split=model.split,
                **model._solver_options(),
            )
            alpha = np.column_stack([result.alpha for result in results])
        with trace.phase("prepare"):
            model._finish(problem, alpha, results, [result.intercept for result in results])
            coef = model.dual_coef_.T
            dtype = prediction_dtype(problem.kernel, coef)
            model._machine = KernelExpansion(problem.kernel, model.support_, coef, dtype)
        model.kernel_entries_ = problem.kernel.n_entries - n_entries
        n_entries = problem.kernel.n_entries
        model.model_bytes_ = model._machine.nbytes
        model.timings_ = dict(trace.timings)
        models.append(model)
    return models
