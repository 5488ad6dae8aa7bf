"""Diagnostic: loss in the objective of the clusters' solutions, and its bound.

Theorem 1 and Figure 1 of Hsieh, Si and Dhillon, "A Divide-and-Conquer Solver for Kernel Support
Vector Machines" (ICML 2014).
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from kbench.methods.base.box_svc import KernelProblems
from kbench.methods.diagnostics.diagnostic import TwoClassDiagnostic, exact_svc, true_objective
from kbench.methods.divide.dc_svc import DCSVC
from kbench.methods.divide.division import PARTITIONS
from kbench.prediction import group_rows
from kbench.trace import Trace
from kbench.validated import choice, integer

# Rows per block of the kernel matrix while its absolute values are summed: more rows take fewer
# calls, and 8 bytes of memory for each row and point. Set by hand.
_BATCH_ROWS = 1024


@dataclass(eq=False, repr=False)
class DivisionBound(TwoClassDiagnostic):
    """The exact model, and the loss in the objective of dividing its problem into clusters.

    For each number of clusters k, with the clusters' solutions abar, the exact solution a* and the
    kernel between clusters D = sum over pairs (i, j) of different clusters of |k(x_i, x_j)|,

        0 <= f(abar) - f(a*) <= 1/2 C^2 D        (Theorem 1; Figure 1 of the DC-SVM paper)

    Parameters
    ----------
    n_clusters : int or sequence of int, default=(8, 16, 32, 64, 128)
    partition : {"kmeans", "kernel_kmeans", "ghitta", "random"}, default="kernel_kmeans"
    n_samples : int, default=1000
        `partition` and `n_samples` have the same meaning as in `DCSVC`.
    C : float, default=1.0
    kernel : str or callable, default="rbf"
        A positive semidefinite kernel of `kbench.kernels.KERNELS`, or "precomputed".
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-5
    cache_mb : float, default=200.0
        `C` to `cache_mb` are as in `KernelSVC`, which makes the predictions; `tol` is set by hand.
    random_state : int, RandomState or None, default=None
        Seed of samples and initial centres; the same for each k.

    Attributes
    ----------
    bounds_, losses_ : (number of n_clusters,) float64
        1/2 C^2 D and f(abar) - f(a*).
    timings_ : dict of str to float
        Seconds of "prepare", "exact" and "divide".
    classes_, support_, dual_coef_, n_support_, n_iter_, objective_, violation_, converged_
        As in `KernelSVC`.
    n_features_in_ : int

    Notes
    -----
    O(n^2 d) time for the kernel matrix, of which a block of rows is in memory, and the cost of the
    exact model. y has two classes. `fit` reports n_clusters, bound and loss to the trace for each
    number of clusters.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.methods import DivisionBound
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DivisionBound((2, 4), random_state=0).fit(X, y)
    >>> bool((model.losses_ <= model.bounds_).all())
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TwoClassDiagnostic._parameter_constraints,
        "n_clusters": [integer(1), "array-like"],
        "partition": [choice(*PARTITIONS)],
        "n_samples": DCSVC._parameter_constraints["n_samples"],
        "random_state": ["random_state"],
    }

    n_clusters: int | Sequence[int] = (8, 16, 32, 64, 128)
    _: KW_ONLY
    partition: str = "kernel_kmeans"
    n_samples: int = 1000
    tol: float = 1e-5

    def _measure(self, problem: KernelProblems, y: Any, trace: Trace) -> None:
        parameters = self._model_parameters()
        with trace.phase("exact"):
            exact_model = exact_svc(**parameters).fit(problem.X, y)
        self._copy_fitted_attributes(exact_model)
        sum_of_all = _absolute_sum(problem, np.arange(len(problem.Y)))
        bounds, losses = [], []
        for k in np.atleast_1d(self.n_clusters).tolist():
            dc_svc = DCSVC(
                k,
                combine="naive",
                partition=self.partition,
                n_samples=self.n_samples,
                n_levels=1,
                random_state=self.random_state,
                **parameters,
            )
            with trace.phase("divide"):
                dc_svc.fit(problem.X, y)
            sum_within_clusters = sum(
                _absolute_sum(problem, rows) for _, rows in group_rows(dc_svc.labels_)
            )
            bounds.append(0.5 * self.C**2 * (sum_of_all - sum_within_clusters))
            alpha = np.zeros(len(problem.Y))
            alpha[dc_svc.support_] = np.abs(dc_svc.dual_coef_[0])
            losses.append(true_objective(problem, alpha) - exact_model.objective_)
            trace(n_clusters=k, bound=bounds[-1], loss=losses[-1])
        self.bounds_, self.losses_ = np.array(bounds), np.array(losses)


def _absolute_sum(problem: KernelProblems, rows: np.ndarray) -> float:
    """Sum of |k| over all pairs of the rows."""
    submatrix = problem.kernel.take(rows)
    total = 0.0
    for start in range(0, len(rows), _BATCH_ROWS):
        block = submatrix.block(np.arange(start, min(start + _BATCH_ROWS, len(rows))))
        total += float(np.abs(block).sum(dtype=np.float64))
    return total
