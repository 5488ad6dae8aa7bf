"""Kernel ridge regression on random Fourier features, dense or structured."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kbench.approximation import (
    Fastfood,
    FeatureMap,
    KernelApproximation,
    LowRankKernel,
    RandomFourierFeatures,
)
from kbench.methods._ridge import ApproximateRidge, RidgeClassifierMixin, RidgeRegressorMixin
from kbench.trace import Trace


class RandomFeatureRidge(ApproximateRidge):
    """Kernel ridge on `RandomFourierFeatures` or `Fastfood`; base of regressor and classifier.

    Parameters
    ----------
    rank : int, default=128
        Half the number of features: the frequencies of form="cos_sin", half of those of "phase".
    alpha : float, default=1.0
        Added to the diagonal of the kernel matrix: lambda of the papers.
    features : {"fourier", "orthogonal", "quasi", "fastfood"}, default="fourier"
        Independent Gaussian or Cauchy frequencies, orthogonal or quasi-Monte Carlo ones, or
        Fastfood's.
    kernel : {"rbf", "laplacian"}, default="rbf"
        "laplacian" for independent and quasi-Monte Carlo frequencies only.
    gamma : float or {"scale", "auto"}, default="scale"
    form : {"cos_sin", "phase"}, default="cos_sin"
        A cosine and a sine for each frequency, or one cosine with a random phase.
    solver, tol, max_iter, error_rows, random_state
        As in `MEKARidge`.

    Attributes
    ----------
    kernel_error_, n_parameters_, n_iter_, converged_
        As in `ApproximateRidge`.
    timings_ : dict of str to float
        Seconds of "features", "solve".
    model_bytes_, n_features_in_ : int

    Notes
    -----
    With D features, O(n (D d + D^2)) time, O(n (D log d + D^2)) for Fastfood; n D numbers.

    References
    ----------
    A. Rahimi, B. Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
    Q. Le, T. Sarlos, A. Smola, "Fastfood", ICML 2013.
    """

    _parameter_constraints: ClassVar[dict] = {
        **{
            key: value
            for key, value in ApproximateRidge._parameter_constraints.items()
            if key not in ("degree", "coef0")
        },
        "rank": [Interval(Integral, 1, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0, None, closed="neither")],
        "features": [StrOptions({"fourier", "orthogonal", "quasi", "fastfood"})],
        "kernel": [StrOptions({"rbf", "laplacian"})],
        "form": [StrOptions({"cos_sin", "phase"})],
    }

    # Of the kernels that have them: neither of these.
    degree: ClassVar[int] = 3
    coef0: ClassVar[float] = 0.0

    def __init__(
        self,
        rank: int = 128,
        *,
        alpha: float = 1.0,
        features: str = "fourier",
        kernel: str = "rbf",
        gamma: float | str = "scale",
        form: str = "cos_sin",
        solver: str = "direct",
        tol: float = 1e-6,
        max_iter: int = 500,
        error_rows: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.features = features
        self.kernel = kernel
        self.gamma = gamma
        self.form = form
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.error_rows = error_rows
        self.random_state = random_state

    def _approximate(self, X: Any, rng: np.random.RandomState, trace: Trace) -> KernelApproximation:
        if self.features in ("orthogonal", "fastfood") and self.kernel != "rbf":
            raise ValueError(
                f"features={self.features!r} has the kernel 'rbf' only, found {self.kernel!r}; use "
                "features='fourier'"
            )
        options: dict[str, Any] = {
            "n_components": 2 * self.rank,
            "gamma": self.gamma,
            "form": self.form,
            "random_state": rng.randint(2**31),
        }
        feature_map: FeatureMap
        if self.features == "fastfood":
            feature_map = Fastfood(**options)
        else:
            sampling = "independent" if self.features == "fourier" else self.features
            feature_map = RandomFourierFeatures(kernel=self.kernel, sampling=sampling, **options)
        with trace.phase("features"):
            return LowRankKernel(feature_map.fit(X), X)


class RandomFeatureRegressor(RidgeRegressorMixin, RandomFeatureRidge):
    """Kernel ridge regression on random features; parameters as in `RandomFeatureRidge`."""


class RandomFeatureClassifier(RidgeClassifierMixin, RandomFeatureRidge):
    """Kernel ridge classification on random features; parameters as in `RandomFeatureRidge`."""
