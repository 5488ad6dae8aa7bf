"""Kernel ridge regression on MEKA, the memory efficient kernel approximation."""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from kbench.approximation import MEKA, KernelApproximation
from kbench.methods._ridge import (
    ApproximateRidge,
    KernelParameter,
    RidgeClassifierMixin,
    RidgeRegressorMixin,
)
from kbench.trace import Trace

_OWN = (
    "rank",
    "n_clusters",
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "landmarks",
    "n_landmarks",
    "basis_sampling",
    "link",
    "rho",
    "pinv_cut",
    "eps",
    "zero_fraction",
    "rank_strategy",
    "psd",
    "n_samples",
    "kmeans_iter",
    "n_jobs",
)

# What the papers and the authors' program do; eps is that of the ICML paper's experiments.
_PAPER = {
    "landmarks": "uniform",
    "n_landmarks": None,
    "basis_sampling": "diagonal",
    "link": "sampled",
    "pinv_cut": 1e-6,
}
PRESETS: dict[str | None, dict[str, Any]] = {
    None: {},
    "paper": {**_PAPER, "rho": 2.0, "eps": 0.1, "zero_fraction": 0.0},
    "released": {
        **_PAPER,
        "rho": 2.0,
        "eps": 0.0,
        "zero_fraction": 0.1,
        "rank_strategy": "total",
        "n_samples": 10000,
        "kmeans_iter": 10,
    },
}


class MEKARidge(ApproximateRidge):
    """Kernel ridge on `kbench.approximation.MEKA`; base of the regressor and the classifier.

    Parameters
    ----------
    rank : int, default=128
    n_clusters : int, default=10
    alpha : float, default=1.0
        Added to the diagonal of the kernel matrix: lambda of the papers.
    kernel : {"rbf", "laplacian", "poly", "linear"} or callable, default="rbf"
    gamma : float or {"scale", "auto"}, default="scale"
    degree : int, default=3
    coef0 : float, default=0.0
        From `kernel` on as in `KernelSVC`.
    preset : {"paper", "released"} or None, default=None
        Overrides the parameters below: with "paper" points as landmarks, sampled links with a cut
        of 1e-6 and eps = 0.1; with "released" what the authors' program does, where `rank` is that
        of the whole matrix and a tenth of the links is zero.
    landmarks, n_landmarks, basis_sampling, link, rho, pinv_cut, eps, zero_fraction
    rank_strategy, psd, n_samples, kmeans_iter
        As in `kbench.approximation.MEKA`.
    solver : {"direct", "cg", "pcg"}, default="direct"
        Woodbury's identity and a Cholesky factorisation of order c k, exact; conjugate gradients,
        which the papers use; or these preconditioned by leading eigenvectors of the matrix. Where
        sampled links make the matrix indefinite, all set its negative eigenvalues to zero, with a
        RuntimeWarning.
    tol : float, default=1e-6
        Of "cg" and "pcg": relative residual.
    max_iter : int, default=500
        Of "cg" and "pcg".
    error_rows : int, default=1000
        Rows on which `kernel_error_` is measured, outside the clock; 0 leaves it out.
    n_jobs : int or None, default=None
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    kernel_error_, n_parameters_, n_iter_, converged_
        As in `ApproximateRidge`.
    kernel_entries_ : int
        Kernel values computed in `fit`.
    timings_ : dict of str to float
        Seconds of "cluster", "bases", "links" (T_C, T_W, T_L of the papers) and "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    "direct" costs O(n k^2 + (c k)^3 / 3) beside the approximation, "cg" O(n k + (c k)^2) an
    iteration, "pcg" twice that and O(n k^2) before. Prediction costs O(c d + m d) a row:
    only the landmarks of its own cluster.

    References
    ----------
    S. Si, C.-J. Hsieh, I. S. Dhillon, "Memory Efficient Kernel Approximation", JMLR 18, 2017.
    """

    _parameter_constraints: ClassVar[dict] = {
        **ApproximateRidge._parameter_constraints,
        **{name: MEKA._parameter_constraints[name] for name in _OWN},
        "preset": [StrOptions({"paper", "released"}), None],
    }

    def __init__(
        self,
        rank: int = 128,
        *,
        n_clusters: int = 10,
        alpha: float = 1.0,
        kernel: KernelParameter = "rbf",
        gamma: float | str = "scale",
        degree: int = 3,
        coef0: float = 0.0,
        preset: str | None = None,
        landmarks: str = "kmeans",
        n_landmarks: int | None = None,
        basis_sampling: str = "diagonal",
        link: str = "galerkin",
        rho: float = 2.0,
        pinv_cut: float = 0.03,
        eps: float = 0.0,
        zero_fraction: float = 0.0,
        rank_strategy: str = "same",
        psd: bool = False,
        n_samples: int = 20000,
        kmeans_iter: int = 10,
        solver: str = "direct",
        tol: float = 1e-6,
        max_iter: int = 500,
        error_rows: int = 1000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.preset = preset
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.basis_sampling = basis_sampling
        self.link = link
        self.rho = rho
        self.pinv_cut = pinv_cut
        self.eps = eps
        self.zero_fraction = zero_fraction
        self.rank_strategy = rank_strategy
        self.psd = psd
        self.n_samples = n_samples
        self.kmeans_iter = kmeans_iter
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.error_rows = error_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _approximate(self, X: Any, rng: np.random.RandomState, trace: Trace) -> KernelApproximation:
        options = {name: getattr(self, name) for name in _OWN} | PRESETS[self.preset]
        approximation = MEKA(random_state=rng, **options).fit(X, trace=trace)
        self.kernel_entries_ = approximation.kernel_entries_
        return approximation.matrix_


class MEKARegressor(RidgeRegressorMixin, MEKARidge):
    """Kernel ridge regression on MEKA; parameters and attributes as in `MEKARidge`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from kbench.methods import MEKARegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = MEKARegressor(20, n_clusters=3, alpha=0.1, gamma=5.0, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.3
    True
    """


class MEKAClassifier(RidgeClassifierMixin, MEKARidge):
    """Kernel ridge classification on MEKA; parameters and attributes as in `MEKARidge`."""
