"""Kernel ridge regression on the Nystrom approximation and its relatives."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from kbench.approximation import KernelApproximation, LowRankKernel, SpectralNystrom
from kbench.methods._ridge import (
    ApproximateRidge,
    KernelParameter,
    RidgeClassifierMixin,
    RidgeRegressorMixin,
)
from kbench.trace import Trace


class NystromRidge(ApproximateRidge):
    """Kernel ridge on `kbench.approximation.SpectralNystrom`; base of regressor and classifier.

    Parameters
    ----------
    rank : int, default=128
        Columns of the approximation; fewer where eigenvalues vanish.
    alpha : float, default=1.0
        Added to the diagonal of the kernel matrix: lambda of the papers.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    landmarks : {"uniform", "kmeans", "rpcholesky"}, default="uniform"
    n_landmarks : int, float, "all" or None, default=None
        A float is a multiple of `rank`; None is 2.0, as in the comparison of the MEKA paper. "all"
        rows make the truncated eigendecomposition, the best there is.
    truncation : {"landmarks", "rows"}, default="landmarks"
        Rank k from the landmarks alone, as in the papers, or the best one for the rows.
    eigensolver : {"exact", "randomized", "lanczos"}, default="exact"
    n_experts : int, default=1
        More than one: ensemble Nystrom, the columns and landmarks shared by the experts.
    n_samples, kmeans_iter, memory_mb
        As in `kbench.approximation.SpectralNystrom`.
    solver, tol, max_iter, error_rows, random_state
        As in `MEKARidge`.

    Attributes
    ----------
    kernel_error_, n_parameters_, n_iter_, converged_
        As in `ApproximateRidge`.
    kernel_entries_ : int
        Kernel values computed in `fit`.
    timings_ : dict of str to float
        Seconds of "landmarks", "features", "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    O(n m (d + k) + m^3 + n k^2) time with m landmarks, n k numbers. Prediction costs O(m d) a row.

    References
    ----------
    C. Williams, M. Seeger, "Using the Nystrom Method to Speed Up Kernel Machines", NIPS 2000.
    M. Li, J. Kwok, B.-L. Lu, "Making Large-Scale Nystrom Approximation Possible", ICML 2010.
    S. Kumar, M. Mohri, A. Talwalkar, "Ensemble Nystrom Method", NIPS 2009.
    F. Pourkamali-Anaraki, S. Becker, "Improved Fixed-Rank Nystrom Approximation via QR
    Decomposition", Neurocomputing 363, 2019: truncation="rows".
    """

    _parameter_constraints: ClassVar[dict] = {
        **ApproximateRidge._parameter_constraints,
        **{
            name: SpectralNystrom._parameter_constraints[name]
            for name in (
                "rank",
                "landmarks",
                "truncation",
                "eigensolver",
                "n_experts",
                "n_samples",
                "kmeans_iter",
                "memory_mb",
            )
        },
        "n_landmarks": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 1, None, closed="left"),
            StrOptions({"all"}),
            None,
        ],
    }

    def __init__(
        self,
        rank: int = 128,
        *,
        alpha: float = 1.0,
        kernel: KernelParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        landmarks: str = "uniform",
        n_landmarks: float | str | None = None,
        truncation: str = "landmarks",
        eigensolver: str = "exact",
        n_experts: int = 1,
        n_samples: int = 20000,
        kmeans_iter: int = 5,
        memory_mb: float = 4096.0,
        solver: str = "direct",
        tol: float = 1e-6,
        max_iter: int = 500,
        error_rows: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.truncation = truncation
        self.eigensolver = eigensolver
        self.n_experts = n_experts
        self.n_samples = n_samples
        self.kmeans_iter = kmeans_iter
        self.memory_mb = memory_mb
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.error_rows = error_rows
        self.random_state = random_state

    def _approximate(self, X: Any, rng: np.random.RandomState, trace: Trace) -> KernelApproximation:
        wanted = 2.0 if self.n_landmarks is None else self.n_landmarks
        n = X.shape[0]
        if isinstance(wanted, str):
            size = n
        else:
            size = wanted if isinstance(wanted, Integral) else round(wanted * self.rank)
        with trace.phase("landmarks"):
            feature_map = SpectralNystrom(
                size,
                rank=self.rank,
                kernel=self.kernel,
                gamma=self.gamma,
                degree=self.degree,
                coef0=self.coef0,
                landmarks=self.landmarks,
                truncation=self.truncation,
                eigensolver=self.eigensolver,
                n_experts=self.n_experts,
                n_samples=self.n_samples,
                kmeans_iter=self.kmeans_iter,
                memory_mb=self.memory_mb,
                random_state=rng.randint(2**31),
            ).fit(X)
        self.kernel_entries_ = feature_map.kernel_entries_ + n * feature_map.n_landmarks_
        with trace.phase("features"):
            return LowRankKernel(feature_map, X)


class NystromRegressor(RidgeRegressorMixin, NystromRidge):
    """Kernel ridge regression on Nystrom features; parameters and attributes as in `NystromRidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import NystromRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = NystromRegressor(20, alpha=0.1, gamma=5.0, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.3
    True
    """


class NystromClassifier(RidgeClassifierMixin, NystromRidge):
    """Kernel ridge classification on Nystrom features; parameters as in `NystromRidge`."""
