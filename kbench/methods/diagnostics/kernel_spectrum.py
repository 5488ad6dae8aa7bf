"""Diagnostic: singular values of a kernel matrix, and its heat map before and after clustering.

Figure 1 of Cipolla and Gondzio, "Training very large scale nonlinear SVMs using Alternating
Direction Method of Multipliers ..." (EURO Journal on Computational Optimization 10, 2022).
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from kbench.clustering import sampled_kmeans
from kbench.methods.base.box_svc import KernelProblems
from kbench.methods.diagnostics.diagnostic import TwoClassDiagnostic, exact_svc
from kbench.trace import Trace
from kbench.validated import integer, usual


@dataclass(eq=False, repr=False)
class KernelSpectrum(TwoClassDiagnostic):
    """Support vector machine with the spectrum and two heat maps of its kernel matrix.

    They show why hierarchical compression needs an ordering: with a small bandwidth the whole
    matrix has many large singular values. If the points are sorted by clusters, its large entries
    are in the diagonal blocks, and the off-diagonal blocks have few large singular values.

    Parameters
    ----------
    n_clusters : int, default=5
        Clusters of k-means by which the points are sorted. Set by hand.
    resolution : int, default=100
        Cells of a heat map in each direction, at most; a cell is a mean of entries. Set by hand.
    C : float, default=1.0
    kernel : str or callable, default="rbf"
        A positive semidefinite kernel of `kbench.kernels.KERNELS`, or "precomputed".
    gamma : float or {"scale", "auto"}, default="scale"
        1 / (2 h^2) for the bandwidth h of the paper.
    degree : int, default=3
    coef0 : float, default=0.0
    tol : float, default=1e-3
    cache_mb : float, default=200.0
        `C` to `cache_mb` are as in `KernelSVC`, which makes the predictions.
    random_state : int, RandomState or None, default=None
        Seed of the first centres.

    Attributes
    ----------
    singular_values_ : (n,) float64
        Descending.
    order_ : (n,) ints
        Rows sorted by cluster, and by row number within a cluster.
    heat_map_, clustered_heat_map_ : (r, r) float64
        In the order of the rows, and in the order of `order_`.
    timings_ : dict of str to float
        Seconds of "prepare", "spectrum", "cluster" and "machine".
    classes_, support_, dual_coef_, n_support_, n_iter_, objective_, violation_, converged_
        As in `KernelSVC`.
    n_features_in_ : int

    Notes
    -----
    O(n^3) time and O(n^2) memory, which suits a few thousand rows. y has two classes.
    `fit` reports each singular_value to the trace, then entry and clustered_entry for each cell of
    the heat maps, row by row.

    References
    ----------
    S. Cipolla, J. Gondzio, "Training very large scale nonlinear SVMs using Alternating Direction
    Method of Multipliers coupled with the Hierarchically Semi-Separable kernel approximations",
    EURO Journal on Computational Optimization 10, 2022.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from kbench.methods import KernelSpectrum
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KernelSpectrum(random_state=0).fit(X, y)
    >>> bool(abs(model.singular_values_.sum() - len(X)) < 1e-6)  # the trace
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        **TwoClassDiagnostic._parameter_constraints,
        "resolution": [integer(1)],
        **usual("n_clusters", "random_state"),
    }

    n_clusters: int = 5
    _: KW_ONLY
    resolution: int = 100
    tol: float = 1e-3

    def _measure(self, problem: KernelProblems, y: Any, trace: Trace) -> None:
        rng = check_random_state(self.random_state)
        with trace.phase("prepare"):
            n = len(problem.Y)
            K = problem.kernel.block(np.arange(n))
        with trace.phase("spectrum"):
            singular_values = np.abs(scipy.linalg.eigvalsh(K))
        with trace.phase("cluster"):
            # Limit on the iterations of k-means, ten times its default. Set by hand.
            _, labels = sampled_kmeans(problem.X, self.n_clusters, rng.permutation(n), max_iter=100)
            order = np.argsort(labels, kind="stable")
        with trace.phase("machine"):
            model = exact_svc(**self._model_parameters()).fit(problem.X, y)
        self._copy_fitted_attributes(model)
        self.singular_values_, self.order_ = np.sort(singular_values)[::-1], order
        self.heat_map_ = _cell_means(K, self.resolution)
        self.clustered_heat_map_ = _cell_means(K[np.ix_(order, order)], self.resolution)
        for value in self.singular_values_:
            trace(singular_value=value)
        cells = zip(self.heat_map_.flat, self.clustered_heat_map_.flat, strict=True)
        for entry, clustered_entry in cells:
            trace(entry=entry, clustered_entry=clustered_entry)


def _cell_means(K: np.ndarray, resolution: int) -> np.ndarray:
    """Means of K : (n, n) over r x r cells of about equal size, r = min(resolution, n)."""
    r = min(resolution, len(K))
    edges = np.arange(r) * len(K) // r
    sizes = np.diff(edges, append=len(K))
    sums = np.add.reduceat(np.add.reduceat(K, edges, axis=0), edges, axis=1)
    return sums / np.outer(sizes, sizes)
