"""Kernel ridge regression on BKA, the block kernel approximation: one machine for each cluster."""

from typing import Any, ClassVar

import numpy as np

from kbench.approximation import BKA, KernelApproximation
from kbench.methods._ridge import (
    ApproximateRidge,
    KernelParameter,
    RidgeClassifierMixin,
    RidgeRegressorMixin,
)
from kbench.trace import Trace

_OWN = (
    "n_clusters",
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "partition",
    "n_samples",
    "kmeans_iter",
    "memory_mb",
)


class BKARidge(ApproximateRidge):
    """Kernel ridge on `kbench.approximation.BKA`; base of the regressor and the classifier.

    Parameters
    ----------
    n_clusters : int, default=10
    alpha : float, default=1.0
        Added to the diagonal of the kernel matrix: lambda of the papers.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    partition, n_samples, kmeans_iter, memory_mb
        As in `kbench.approximation.BKA`.
    solver, tol, max_iter, error_rows, random_state
        As in `MEKARidge`; "direct" factorises each block.

    Attributes
    ----------
    kernel_error_, n_parameters_, n_iter_, converged_
        As in `ApproximateRidge`.
    kernel_entries_ : int
    timings_ : dict of str to float
        Seconds of "cluster", "blocks", "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    About n^2 d / c + n^3 / (3 c^2) time, n^2 / c numbers. Prediction costs O(n d / c) a row.

    References
    ----------
    S. Si, C.-J. Hsieh, I. S. Dhillon, "Memory Efficient Kernel Approximation", JMLR 18, 2017.
    """

    _parameter_constraints: ClassVar[dict] = {
        **ApproximateRidge._parameter_constraints,
        **{name: BKA._parameter_constraints[name] for name in _OWN},
    }

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        alpha: float = 1.0,
        kernel: KernelParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        partition: str = "kmeans",
        n_samples: int | None = None,
        kmeans_iter: int = 10,
        memory_mb: float = 4096.0,
        solver: str = "direct",
        tol: float = 1e-6,
        max_iter: int = 500,
        error_rows: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.partition = partition
        self.n_samples = n_samples
        self.kmeans_iter = kmeans_iter
        self.memory_mb = memory_mb
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.error_rows = error_rows
        self.random_state = random_state

    def _approximate(self, X: Any, rng: np.random.RandomState, trace: Trace) -> KernelApproximation:
        approximation = BKA(random_state=rng, **{name: getattr(self, name) for name in _OWN})
        approximation.fit(X, trace=trace)
        self.kernel_entries_ = approximation.kernel_entries_
        return approximation.matrix_


class BKARegressor(RidgeRegressorMixin, BKARidge):
    """Kernel ridge regression by clusters; parameters and attributes as in `BKARidge`."""


class BKAClassifier(RidgeClassifierMixin, BKARidge):
    """Kernel ridge classification by clusters; parameters and attributes as in `BKARidge`."""
